"""A3C with memory (LSTM) and generalized advantage estimation, on CartPole without velocities.

What it adds: a network that sees only where cart and pole *are* cannot know how fast they move. An
LSTM remembers: in each step it takes in what it sees, x, and its last output, h, and adds tanh(g)
to its cell c, the memory, through gates between 0 and 1: input (i), forget (f, at 1 it keeps all)
and output (o).
    i, g, f, o = parts of [x, h]·w + b
    c' = sigmoid(f + 1)·c + sigmoid(i)·tanh(g)
    h' = sigmoid(o)·tanh(c')
Actor and critic see h'. A state here is what is seen and what is remembered, [x, c, h].

Samples are single steps. An update takes, in order, those since the last update, lets the LSTM go
through them again from what it remembered at the first, and sums their surprises δ to the last:
    δₜ = rₜ + γ·V(sₜ₊₁) - V(sₜ)      Aₜ = δₜ + γλ·δₜ₊₁ + (γλ)²·δₜ₊₂ + ...
λ = 0 is the one-step advantage, λ = 1 the sum of all; between: less bias than 0, less noise than 1.

Hochreiter and Schmidhuber 1997, Gers et al. 2000 (LSTM); Schulman et al. 2016, arXiv:1506.02438
(GAE); the A3C paper, arXiv:1602.01783, has an LSTM, too. What to look at: with --no-memory the
script as it stands sees the same two numbers, and never gets far; with memory, the pole stays up.
"""
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import a3c_cartpole as a3c  # noqa: E402

tf = a3c.tf
SEEN = 2  # cart position and pole angle, in place of four numbers
CELLS = 32
LAMBDA = 0.95
MAX_NORM = 0.5


class PositionsOnly(a3c.gym.ObservationWrapper):
    """Takes the velocities away, and leaves room for the memory: [position, angle, 0, 0, ...]."""
    def __init__(self, env):
        super().__init__(env)
        self.observation_space = a3c.gym.spaces.Box(-np.inf, np.inf, (a3c.NUM_STATES,), np.float32)

    def observation(self, s):
        return np.append(s[[0, 2]], np.zeros(a3c.NUM_STATES - SEEN)).astype(np.float32)


class Server(a3c.ParameterServer):
    def _build_model(self):
        w = tf.get_variable("lstm/weights", (SEEN + CELLS, 4 * CELLS))
        b = tf.get_variable("lstm/biases", (4 * CELLS,), initializer=tf.zeros_initializer())
        actor = tf.get_variable("actor/weights", (CELLS, a3c.NUM_ACTIONS))
        critic = tf.get_variable("critic/weights", (CELLS, 1))

        def forward(s):
            """From states one after the other (T, 66) to p = [π, c', h'] (T, 66), and V (T,)."""
            seen, c, h = tf.split(s, [SEEN, CELLS, CELLS], axis=1)
            # The formulas above for all steps in turn, from c and h of the first of them alone
            steps = tf.raw_ops.BlockLSTM(
                seq_len_max=tf.shape(s, out_type=tf.int64)[0], x=seen[:, tf.newaxis],
                cs_prev=c[:1], h_prev=h[:1], w=w, b=b, forget_bias=1.0, cell_clip=-1.0,
                wci=tf.zeros(CELLS), wcf=tf.zeros(CELLS), wco=tf.zeros(CELLS))  # not used
            c, h = steps.cs[:, 0], steps.h[:, 0]  # (T, 32)
            policy = tf.nn.softmax(h @ actor)
            return tf.concat([policy, c, h], axis=1), tf.squeeze(h @ critic, axis=1)
        return forward

    def build_optimizer(self):
        return tf.train.RMSPropOptimizer(2e-3, a3c.RMSPROP_DECAY)

    def build_update(self, gradients):
        gradients, _ = tf.clip_by_global_norm(gradients, MAX_NORM)
        return super().build_update(gradients)


class Brain(a3c.LocalBrain):
    def __init__(self, name, parameter_server):
        super().__init__(name, parameter_server)
        self.forget()

    def forget(self):
        self.remembered = np.zeros(2 * CELLS, np.float32)  # c and h, of this thread's episode

    def predict_p(self, s):
        s[0, SEEN:] = self.remembered  # in the array that becomes a sample, too
        p = super().predict_p(s)
        self.remembered = p[0, a3c.NUM_ACTIONS:]
        return p[:, :a3c.NUM_ACTIONS]

    def train_push(self, s, a, R, s_, gamma_n):
        s_[SEEN:] = self.remembered
        super().train_push(s, a, R, s_, gamma_n)

    def build_loss(self, p, v, a, target):
        delta = target - v  # of single steps: (T,)
        t = tf.range(tf.size(delta))
        later = tf.cast(t - t[:, tf.newaxis], tf.float32)  # u - t, in row t, column u: (T, T)
        weights = tf.where(later >= 0, (a3c.GAMMA * LAMBDA) ** later, tf.zeros_like(later))
        advantage = tf.linalg.matvec(weights, delta)  # Aₜ = Σ (γλ)^(u - t)·δᵤ, for all u ≥ t
        policy = p[:, :a3c.NUM_ACTIONS]
        # The script subtracts v from this target: A is left
        return super().build_loss(policy, v, a, tf.stop_gradient(v + advantage))


class Agent(a3c.Agent):
    brain_class = Brain


class Environment(a3c.Environment):
    def make(self, render_mode=None):
        return PositionsOnly(super().make(render_mode))


class Worker(a3c.Worker_thread):
    """One of the script's, but for what it sees."""
    environment_class = Environment


class RememberingEnvironment(Environment):
    agent_class = Agent

    def run(self, env=None):
        self.agent.brain.forget()  # an episode begins
        return super().run(env)


class RememberingWorker(a3c.Worker_thread):
    environment_class = RememberingEnvironment


def main(argv=None):
    words = sys.argv[1:] if argv is None else list(argv)
    if "--no-memory" in words:
        words.remove("--no-memory")
        a3c.NUM_STATES = SEEN
        return a3c.main(words, a3c.ParameterServer, Worker)
    a3c.NUM_STATES = SEEN + 2 * CELLS
    a3c.N_WORKERS = 4
    a3c.N_STEP_RETURN = 1  # GAE sums over the steps
    a3c.Tmax = 20
    a3c.MIN_BATCH = 1  # no sample waits: an update takes one stretch of one episode
    a3c.EPS_START = 0.0  # an action at random would skip predict_p, and a step of memory
    return a3c.main(words, Server, RememberingWorker)


if __name__ == "__main__":
    sys.exit(main())
