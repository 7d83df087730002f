"""A3C with continuous actions, on Pendulum-v1: swing a pendulum up and hold it upright.

What it adds: an action is now a number, the torque (-2 to 2), so there is no list of probabilities
to choose from. The actor gives the mean μ(s) and the spread σ(s) of a normal distribution instead,
and each action is drawn from it:
    a = μ + σ·z, z from N(0, 1)
    log π(a|s) = -((a - μ) / σ)² / 2 - log σ - log(2π) / 2
    entropy = log σ + log(2πe) / 2
The loss is the script's, with these formulas for log π and the entropy. The critic has a network of
its own, because its large errors would spoil a layer that it shares with the actor. An episode ends
because its 200 steps are up, and for no other reason. The pendulum would go on, so V(s_) counts
after the last step, too. The environment cuts off a torque that is too large. A sample holds the
torque as it was drawn, before the cut, because log π is computed for that one.

Continuous actions are from the A3C paper, arXiv:1602.01783 (its MuJoCo tasks); the program follows
MorvanZhou's A3C_continuous_action.py. What to look at when it runs (--logdir): the mean score in
training rises from below -1,200 to about -270. Scores in evaluations are higher, because the policy
takes the mean torque there. loss/entropy rises while the spread shrinks.
"""
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]
import a3c_cartpole as a3c
import clipped

tf = a3c.tf
DIMENSIONS = 1  # numbers in an action: here the torque alone
MAX_TORQUE = 2.0  # of each of them


class Server(clipped.Clipping):
    max_norm = 1.0
    state_scale = np.array([1, 1, 8], np.float32)  # cos θ, sin θ and angular velocity, -8 to 8

    def _build_model(self):
        def network(name, outputs):
            hidden = a3c.layer(name + "/hidden", a3c.NUM_STATES, a3c.HIDDEN_UNITS)
            output = a3c.layer(name + "/output", a3c.HIDDEN_UNITS, outputs)
            return lambda s: tf.nn.xw_plus_b(tf.nn.relu(tf.nn.xw_plus_b(s, *hidden)), *output)
        actor, critic = network("actor", a3c.NUM_ACTIONS), network("critic", 1)

        def forward(s):
            s = s / self.state_scale
            mean, spread = tf.split(actor(s), 2, axis=1)
            p = tf.concat([MAX_TORQUE * tf.tanh(mean), tf.nn.softplus(spread) + 1e-3], axis=1)
            return p, tf.squeeze(critic(s), axis=1)  # p = [μ, σ] (batch, 2), V (batch,)
        return forward


class Brain(a3c.LocalBrain):
    action_type, action_shape = tf.float32, (None,)  # (DIMENSIONS,)

    def build_loss(self, p, v, a, target):
        mean, spread = tf.split(p, 2, axis=1)  # (batch, DIMENSIONS)
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
        return np.float32(self.policy(s)[:DIMENSIONS])  # the mean


class Environment(a3c.Environment):
    def __init__(self, agent, progress):
        super().__init__(agent, progress)
        shape = self.env.action_space.shape
        if shape != (DIMENSIONS,):
            a3c.refuse(f"{a3c.ENV} has actions of shape {shape}, but DIMENSIONS is {DIMENSIONS}")

    def reward(self, s, a, r, s_, step, done):
        return (r + 8) / 16  # from -16 ... 0 to about -½ ... ½


def configure():
    a3c.ENV = "Pendulum-v1"
    a3c.NUM_STATES = 3
    a3c.NUM_ACTIONS = 2 * DIMENSIONS  # the policy is a mean and a spread for each
    a3c.TIME_LIMIT_IS_END = False
    a3c.LEARNED_MEAN = -200
    a3c.THRESHOLD_EPISODES = 20
    a3c.EVALUATION_EPISODES = 50  # scores differ by a hundred, so a mean of ten says little
    a3c.N_WORKERS = 4
    a3c.HIDDEN_UNITS = 64
    a3c.LEARNING_RATE = 1e-3
    a3c.GAMMA = 0.95
    a3c.N_STEP_RETURN = 10
    a3c.Tmax = 20


def main(argv=None):
    configure()
    return a3c.main(argv, Server, Brain, Agent, Environment)


if __name__ == "__main__":
    sys.exit(main())
