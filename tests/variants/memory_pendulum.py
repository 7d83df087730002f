"""Memory and continuous actions together: Pendulum without its velocity.

This program adds nothing new. It combines memory.py, which remembers with an LSTM, and pendulum.py,
whose actions are torques. The network sees where the pendulum points, cos θ and sin θ, but not how
fast it turns. Actor and critic each have an LSTM of their own. The layers after each LSTM also see
x, so that the LSTM itself only has to remember. Gradients are clipped and the learning rate falls,
as in clipped.py.

MorvanZhou's A3C_RNN.py also has a recurrent network on Pendulum, but it sees the velocity. What to
look at when it runs: the score starts at about -1,200 and rises, with setbacks, for half a million
frames. With --no-memory the network is pendulum.py's, and the task isn't learned.
"""
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]
import a3c_cartpole as a3c
import clipped
import memory
import pendulum
from memory import SEEN

tf = a3c.tf
CELLS = 64  # of each LSTM


class Server(clipped.Server):
    anneal_frames = 1_000_000
    epsilon = 1e-5

    def _build_model(self):
        remember_for_actor = memory.lstm("actor/lstm", SEEN, CELLS)
        remember_for_critic = memory.lstm("critic/lstm", SEEN, CELLS)
        actor, critic = head("actor", a3c.NUM_ACTIONS), head("critic", 1)

        def forward(s):
            """From successive states (T, 258) to p = [μ, σ, c', h'] (T, 258), and V (T,)."""
            x, c1, c2, h1, h2 = tf.split(s, [SEEN] + 4 * [CELLS], axis=1)
            c1, h1 = remember_for_actor(x, c1[:1], h1[:1])
            c2, h2 = remember_for_critic(x, c2[:1], h2[:1])
            mean, spread = tf.split(actor(x, h1), 2, axis=1)
            mean, spread = pendulum.MAX_TORQUE * tf.tanh(mean), tf.nn.softplus(spread) + 1e-3
            p = tf.concat([mean, spread, c1, c2, h1, h2], axis=1)
            return p, tf.squeeze(critic(x, h2), axis=1)
        return forward


def head(name, outputs):
    """Two layers from what is seen, x, and the LSTM's output h, to the outputs."""
    hidden = a3c.layer(name + "/hidden", SEEN + CELLS, a3c.HIDDEN_UNITS)
    output = a3c.layer(name + "/output", a3c.HIDDEN_UNITS, outputs)

    def forward(x, h):
        both = tf.concat([x, h], axis=1)
        return tf.nn.xw_plus_b(tf.nn.relu(tf.nn.xw_plus_b(both, *hidden)), *output)
    return forward


class Brain(memory.Brain, pendulum.Brain):
    """memory.py's advantage in pendulum.py's loss."""


class Agent(memory.Agent, pendulum.Agent):
    """memory.py's state for pendulum.py's actions."""


class Environment(memory.Environment, pendulum.Environment):
    seen = 0, 1  # cos θ and sin θ


class NoMemoryServer(Server):
    """Has pendulum.py's layers, without an LSTM."""
    state_scale = 1.0  # cos θ and sin θ need none
    _build_model = pendulum.Server._build_model


def configure(with_memory=True):
    pendulum.configure()
    memory.configure()
    memory.CELLS = 2 * CELLS if with_memory else 0  # of both LSTMs
    a3c.NUM_STATES = SEEN + 2 * memory.CELLS
    a3c.HIDDEN_UNITS = 64
    a3c.MAX_FRAMES = Server.anneal_frames
    a3c.LEARNING_RATE = 7e-4
    a3c.LOSS_ENTROPY = 0.003
    a3c.GAMMA = 0.9


def main(argv=None):
    with_memory, words = memory.parse(argv, "Learn Pendulum without its velocity, by remembering.")
    configure(with_memory)
    server_class = Server if with_memory else NoMemoryServer
    return a3c.main(words, server_class, Brain, Agent, Environment)


if __name__ == "__main__":
    sys.exit(main())
