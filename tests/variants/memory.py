"""A3C with memory (LSTM) and generalized advantage estimation, on CartPole without velocities.

A network that sees only where the cart and the pole *are* can't know how fast they move. This
program adds an LSTM, which remembers. In each step it combines what it sees, x, with its last
output, h, and adds to its cell c, which is the memory. Three gates, sigmoids between 0 and 1,
control this: input (from i), forget (from f; at 1 the cell keeps everything) and output (from o).
    i, g, f, o = the four parts of [x, h]·w + b
    c' = sigmoid(f + 1)·c + sigmoid(i)·tanh(g)
    h' = sigmoid(o)·tanh(c')
Actor and critic see h'. A state here is what is seen and what is remembered: [x, c, h].

Each sample is a single step. An update takes all samples since the previous update, in order. The
LSTM goes through them again, starting from the memory that is stored with the first. δ says how
much better a step was than expected. The advantage is a weighted sum of this δ and all later ones
in the update:
    δₜ = rₜ + γ·V(sₜ₊₁) - V(sₜ)      Aₜ = δₜ + γλ·δₜ₊₁ + (γλ)²·δₜ₊₂ + ...
λ = 0 gives the one-step advantage. λ = 1 takes all rewards up to the last sample, and then V. In
between there is less bias than with 0, and less noise than with 1.

The LSTM is from Hochreiter and Schmidhuber (1997) and Gers et al. (2000), and the advantage from
Schulman et al., arXiv:1506.02438. The A3C paper, arXiv:1602.01783, also uses an LSTM. What to look
at when it runs: with memory, the pole stays up. With --no-memory the script's own network, with 32
units, takes the place of the LSTM's, and the task is never learned.
"""
import argparse
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]
import a3c_cartpole as a3c
import clipped

tf = a3c.tf
SEEN = 2  # numbers of an observation that the network sees
CELLS = 32  # of the LSTM
LAMBDA = 0.95


class PartlySeen(a3c.gym.ObservationWrapper):
    """Shows only a part of each observation. seen: the indices to keep."""
    def __init__(self, env, seen):
        super().__init__(env)
        self.seen = list(seen)
        self.observation_space = a3c.gym.spaces.Box(-np.inf, np.inf, (len(seen),), np.float32)

    def observation(self, s):
        return s[self.seen]


def lstm(name, inputs, cells):
    """Make the variables of an LSTM. Returns a function of T successive steps: from x (T, inputs)
    and the memory before them, c and h (1, cells), to the memory after each one, c' and h'
    (T, cells)."""
    w = tf.get_variable(name + "/weights", (inputs + cells, 4 * cells))
    b = tf.get_variable(name + "/biases", (4 * cells,), initializer=tf.zeros_initializer())

    def remember(x, c, h):
        # The three formulas from the top of the file, for all steps in turn
        steps = tf.raw_ops.BlockLSTM(
            seq_len_max=tf.shape(x, out_type=tf.int64)[0], x=x[:, tf.newaxis],
            cs_prev=c, h_prev=h, w=w, b=b, forget_bias=1.0, cell_clip=-1.0,
            wci=tf.zeros(cells), wcf=tf.zeros(cells), wco=tf.zeros(cells))  # not used
        return steps.cs[:, 0], steps.h[:, 0]
    return remember


class Server(clipped.Clipping):
    def _build_model(self):
        remember = lstm("lstm", SEEN, CELLS)
        actor = tf.get_variable("actor/weights", (CELLS, a3c.NUM_ACTIONS))
        critic = tf.get_variable("critic/weights", (CELLS, 1))

        def forward(s):
            """From successive states (T, 66) to p = [π, c', h'] (T, 66), and V (T,)."""
            x, c, h = tf.split(s, [SEEN, CELLS, CELLS], axis=1)
            c, h = remember(x, c[:1], h[:1])  # the first memory; the LSTM computes the rest
            policy = tf.nn.softmax(h @ actor)
            return tf.concat([policy, c, h], axis=1), tf.squeeze(h @ critic, axis=1)
        return forward


class Brain(a3c.LocalBrain):
    def predict_p(self, s):
        p = super().predict_p(s)
        self.remembered = p[0, a3c.NUM_ACTIONS:]  # c' and h', which the agent keeps
        return p[:, :a3c.NUM_ACTIONS]

    def build_loss(self, p, v, a, target):
        delta = target - v  # of single steps: (T,)
        t = tf.range(tf.size(delta))
        later = tf.cast(t - t[:, tf.newaxis], tf.float32)  # u - t in row t and column u: (T, T)
        weights = tf.where(later >= 0, (a3c.GAMMA * LAMBDA) ** later, tf.zeros_like(later))
        advantage = tf.linalg.matvec(weights, delta)  # Aₜ = Σ (γλ)^(u - t)·δᵤ, for all u ≥ t
        policy = p[:, :a3c.NUM_ACTIONS]
        # The script subtracts v from this target, which leaves A.
        return super().build_loss(policy, v, a, tf.stop_gradient(v + advantage))


class Agent(a3c.Agent):
    """Keeps what is remembered, c and h, while the thread plays an episode."""
    def __init__(self, brain, rng):
        super().__init__(brain, rng)
        self.forget()

    def forget(self):
        self.remembered = np.zeros(2 * CELLS, np.float32)

    def policy(self, s):
        self.s = self.with_memory(s)
        p = super().policy(self.s)
        self.remembered = self.brain.remembered
        return p

    def advantage_push_local_brain(self, s, a, r, s_, done, terminal):
        s_ = self.with_memory(s_)
        # self.s is s with the memory of that moment, before `policy` changed it.
        super().advantage_push_local_brain(self.s, a, r, s_, done, terminal)

    def with_memory(self, s):
        return np.append(s, self.remembered)


class Remembering(a3c.Environment):
    """An environment whose agent remembers during an episode."""
    def __init__(self, agent, progress):
        super().__init__(agent, progress)
        if a3c.N_STEP_RETURN != 1:
            a3c.refuse("with memory, N_STEP_RETURN must be 1: the advantage sums over single steps")
        seen = self.env.observation_space.shape
        if seen != (SEEN,):
            a3c.refuse(f"an observation has shape {seen}, but SEEN is {SEEN}")

    def reset(self, env):
        self.agent.forget()
        return super().reset(env)


class Environment(Remembering):
    """CartPole without its velocities."""
    seen = 0, 2  # the cart's position and the pole's angle

    def make(self, render_mode=None):
        return PartlySeen(super().make(render_mode), self.seen)


def configure(memory=True):
    global CELLS
    CELLS = 32 if memory else 0
    a3c.HIDDEN_UNITS = 32  # of the script's network, without memory
    a3c.NUM_STATES = SEEN + 2 * CELLS
    a3c.N_WORKERS = 4
    a3c.LEARNING_RATE = 2e-3
    a3c.N_STEP_RETURN = 1  # a sample is one step; the advantage sums over steps
    a3c.Tmax = 20
    a3c.EPS_START = 0.0  # drawing from π explores enough


def parse(argv, description):
    """Returns whether to use memory, and the options that are left for the script."""
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, allow_abbrev=False,
                                     description=description,
                                     epilog="All other options: a3c_cartpole.py --help")
    parser.add_argument("--no-memory", action="store_true", help="to compare: without the LSTM")
    own, words = parser.parse_known_args(argv)
    return not own.no_memory, words


def main(argv=None):
    memory, words = parse(argv, "Learn CartPole without its velocities, by remembering.")
    configure(memory)
    return a3c.main(words, Server if memory else clipped.Clipping, Brain, Agent, Environment)


if __name__ == "__main__":
    sys.exit(main())
