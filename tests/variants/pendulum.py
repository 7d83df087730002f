"""A3C with continuous actions, on Pendulum-v1: swing a pendulum up and hold it upright.

An action is now a number, the torque (-2 to 2), so there are no probabilities to choose from. The
actor gives the mean μ(s) and the spread σ(s) of a normal distribution, and each action is drawn
from it:
    a = μ + σ·z, z from N(0, 1)
    log π(a|s) = -((a - μ) / σ)² / 2 - log σ - log(2π) / 2
    entropy = log σ + log(2πe) / 2
The loss is the script's, with these formulas. An episode ends only because its 200 steps are up.
The pendulum would go on, so V(s_) counts after the last step, too. The environment cuts off a
torque that is too large, while log π is that of the torque as it was drawn.

The program follows MorvanZhou's A3C_continuous_action.py, whose critic has a network of its own,
too. What to look at (--logdir): in training the mean score rises from about -1,200 to -300.
"""
import clipped
from script import a3c, np, tf


class Server(clipped.Clipping):
    max_norm = 1.0
    max_action = 2.0  # the largest torque
    state_scale = 1, 1, 8  # cos θ, sin θ and angular velocity, -8 to 8

    def _build_model(self):
        if len(self.state_scale) != a3c.NUM_STATES:
            a3c.refuse(f"state_scale has {len(self.state_scale)} numbers, but NUM_STATES is "
                       f"{a3c.NUM_STATES}")
        actor = network("actor", a3c.NUM_STATES, a3c.NUM_ACTIONS)
        critic = network("critic", a3c.NUM_STATES, 1)

        def forward(s):
            s = s / np.float32(self.state_scale)
            return self.mean_and_spread(actor(s)), tf.squeeze(critic(s), axis=1)
        return forward

    def mean_and_spread(self, outputs):
        """From the actor's outputs to p = [μ, σ], both (batch, 2)."""
        mean, spread = tf.split(outputs, 2, axis=1)
        return tf.concat([self.max_action * tf.tanh(mean), tf.nn.softplus(spread) + 1e-3], axis=1)


def network(name, inputs, outputs):
    """Make the variables of two layers. Returns a function from their inputs to their outputs."""
    hidden = a3c.layer(name + "/hidden", inputs, a3c.HIDDEN_UNITS)
    output = a3c.layer(name + "/output", a3c.HIDDEN_UNITS, outputs)
    return lambda x: tf.nn.xw_plus_b(tf.nn.relu(tf.nn.xw_plus_b(x, *hidden)), *output)


class Brain(a3c.LocalBrain):
    action_type, action_shape = tf.float32, (None,)  # as many numbers as `explore` returns

    def build_loss(self, p, v, a, target):
        mean, spread = tf.split(p, 2, axis=1)  # each (batch, NUM_ACTIONS / 2)
        advantage = target - v
        log_p = -((a - mean) / spread) ** 2 / 2 - tf.log(spread) - np.log(2 * np.pi) / 2
        log_p = tf.reduce_sum(log_p, axis=1)  # of independent numbers: the product's log
        entropy = tf.reduce_sum(tf.log(spread) + np.log(2 * np.pi * np.e) / 2, axis=1)
        actor = -log_p * tf.stop_gradient(advantage)
        return actor, a3c.LOSS_V * tf.square(advantage), -a3c.LOSS_ENTROPY * entropy


class Agent(a3c.Agent):
    def explore(self, p, frame):
        mean, spread = np.split(np.float32(p), 2)
        return np.array([self.rng.gauss(m, s) for m, s in zip(mean, spread)], np.float32)

    def act_greedily(self, s):
        return np.float32(self.policy(s)[:a3c.NUM_ACTIONS // 2])  # the mean


class Environment(a3c.Environment):
    def __init__(self, agent, progress):
        super().__init__(agent, progress)
        shape = self.env.action_space.shape
        if shape != (a3c.NUM_ACTIONS // 2,):
            a3c.refuse(f"{a3c.ENV} has actions of shape {shape}, but NUM_ACTIONS, a mean and a "
                       f"spread for each number, is {a3c.NUM_ACTIONS}")

    def reward(self, s, a, r, s_, step, done):
        return (r + 8) / 16  # from -16 ... 0 to about -½ ... ½


# The policy of one torque is two numbers, its mean and its spread. Scores differ by a hundred, so a
# mean of ten would say little.
TASK = {"ENV": "Pendulum-v1", "NUM_ACTIONS": 2, "TIME_LIMIT_IS_END": False, "LEARNED_MEAN": -200,
        "THRESHOLD_EPISODES": 20, "EVALUATION_EPISODES": 100}


def configure():
    a3c.configure(**TASK, NUM_STATES=3, N_WORKERS=4, HIDDEN_UNITS=64, LEARNING_RATE=1e-3,
                  GAMMA=0.95, N_STEP_RETURN=10, Tmax=20)


def main(argv=None):
    configure()
    return a3c.main(argv, Server, Brain, Agent, Environment)


if __name__ == "__main__":
    a3c.run_program(main)
