"""A3C on Atari's Pong: the same threads learn from the pixels on the screen.

What changes: the network begins with two layers of filters, because a filter finds the same thing
anywhere in a picture. The sizes are those of the A3C paper and of miyosuda's async_deep_reinforce:
    4 pictures of 84x84 -> 16 filters 8x8, every 4 pixels -> 32 filters 4x4, every 2 -> 256 -> π, V
A state is the last four pictures, which show where the ball is going. The reward is the game's: 1
for each point, and -1 for each of the opponent's. The score is their sum, from -21 to 21. The grey
of the background is subtracted. Otherwise it switches off many units for good at the start.

Gradients are clipped and the rate falls, so slowly that it hardly matters. The numbers are
miyosuda's, except RMSProp's epsilon, which is from OpenAI Baselines' A2C, and the weight of the
critic's loss, which is half as large in his program. His loss is the sum over the 20 samples of an
update and the script's is the mean, so his norm of 40 becomes 40/20. (He clips each array by
itself, and this program all together.)

The task is from the A3C paper, arXiv:1602.01783. It takes about two million steps, so use
--checkpoint. What to look at (--logdir): for a long time the score stays near -20. Then it climbs
within a few hundred games.
"""
import os
import sys

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # oneDNN halves the time of large updates
import clipped
import advantages
from script import a3c, tf

try:
    import ale_py
    import cv2  # noqa: F401 (AtariPreprocessing needs it)
except ModuleNotFoundError as error:
    sys.exit(f"{error}: run  pip install -r tests/requirements.txt")

if os.environ["TF_ENABLE_ONEDNN_OPTS"] != "1":  # the user's wish, or the script came first
    print("oneDNN is off, so Pong is slow: import pong before all others", file=sys.stderr)
gym = a3c.gym
gym.register_envs(ale_py)
PICTURES = 4, 84, 84
NUM_STATES = 4 * 84 * 84
BACKGROUND = 87  # the grey of most pixels
UNITS = 256  # of the hidden layer
ACTIONS = 0, 2, 3  # of Pong's six: stay, up, down


class Server(clipped.Server):
    max_norm = 40 / 20
    anneal_frames = 100_000_000
    epsilon = 1e-5

    def _build_model(self):
        conv1 = a3c.layer("conv1", 8, 8, PICTURES[0], 16)
        conv2 = a3c.layer("conv2", 4, 4, 16, 32)
        hidden = a3c.layer("hidden", 9 * 9 * 32, UNITS)
        actor = a3c.layer("actor", UNITS, a3c.NUM_ACTIONS)
        critic = a3c.layer("critic", UNITS, 1)

        def forward(s):
            x = tf.transpose(tf.reshape(s, (-1, *PICTURES)), (0, 2, 3, 1))  # pictures last
            x = (x - BACKGROUND) / 255
            for (w, b), stride in ((conv1, 4), (conv2, 2)):  # 84 -> 20 -> 9 pixels
                x = tf.nn.relu(tf.nn.conv2d(x, w, stride, "VALID") + b)
            h = tf.nn.relu(tf.nn.xw_plus_b(tf.reshape(x, (-1, 9 * 9 * 32)), *hidden))
            p = tf.nn.softmax(tf.nn.xw_plus_b(h, *actor))
            return p, tf.squeeze(tf.nn.xw_plus_b(h, *critic), axis=1)
        return forward


class Environment(a3c.Environment):
    def make(self, render_mode=None):
        # AtariPreprocessing gets its own pictures; a film shows the game's, in colour.
        env = gym.make(a3c.ENV, render_mode=render_mode and "rgb_array")
        env.metadata["render_fps"] = 15  # a step is four of the game's 60 frames per second
        env = gym.wrappers.FrameStackObservation(gym.wrappers.AtariPreprocessing(env), PICTURES[0])
        env = gym.wrappers.FlattenObservation(env)
        three = gym.spaces.Discrete(len(ACTIONS))
        return gym.wrappers.TransformAction(env, lambda a: ACTIONS[a], three)

    def reward(self, s, a, r, s_, step, done):
        return r


# Most of the time goes into long graph calls, without the GIL, so learners don't share a core.
def configure():
    a3c.configure(ENV="PongNoFrameskip-v4", NUM_STATES=NUM_STATES, NUM_ACTIONS=len(ACTIONS),
                  LEARNED_MEAN=18, MAX_FRAMES=10_000_000, SHARE_ONE_CORE=False, Tmax=20,
                  N_STEP_RETURN=20, EPS_START=0.0, LEARNING_RATE=7e-4)


def main(argv=None):
    configure()
    return a3c.main(argv, Server, agent_class=advantages.SegmentReturns,
                    environment_class=Environment)


if __name__ == "__main__":
    a3c.run_program(main)
