"""A3C with memory (LSTM) and generalized advantage estimation, on CartPole without velocities.

A network that sees only where the cart and the pole *are* can't know how fast they move. This
program adds an LSTM, which remembers. In each step it combines what it sees, x, with its last
output, h, and adds to its cell c. Three gates, sigmoids between 0 and 1, control this: input (from
i), forget (from f; at 1 the cell keeps everything) and output (from o).
    i, g, f, o = the four parts of [x, h]·w + b
    c' = sigmoid(f + 1)·c + sigmoid(i)·tanh(g)
    h' = sigmoid(o)·tanh(c')
Actor and critic see h'. A state here is what is seen and what is remembered: [x, c, h].

Each sample is a single step, and the advantage is that of advantages.py. At an update the LSTM goes
through all samples again, in order, starting from the memory that is stored with the first. No
gradient goes back beyond that (truncated backpropagation through time).

The LSTM is from Hochreiter and Schmidhuber (1997) and Gers et al. (2000). What to look at: with
--no-memory the script's own network takes its place, and no run learned the task.
"""
import argparse

import advantages
import clipped
from script import a3c, np, tf


def lstm(name, inputs, cells):
    """Make the variables of an LSTM. Returns a function of T successive steps: from x (T, inputs)
    and the memory before them, c and h (1, cells), to c' and h' after each one (T, cells)."""
    w, b = a3c.layer(name, inputs + cells, 4 * cells)

    def remember(x, c, h):
        # The three formulas from the top of the file, for all steps in turn
        steps = tf.raw_ops.BlockLSTM(
            seq_len_max=tf.shape(x, out_type=tf.int64)[0], x=x[:, tf.newaxis],
            cs_prev=c, h_prev=h, w=w, b=b, forget_bias=1.0, cell_clip=-1.0,
            wci=tf.zeros(cells), wcf=tf.zeros(cells), wco=tf.zeros(cells))  # not used
        return steps.cs[:, 0], steps.h[:, 0]
    return remember


class PlainServer(clipped.Clipping):
    """With the script's network, which doesn't remember."""
    seen = 2  # numbers that the environment shows
    remembered = 0  # numbers that the agent adds to them


class Server(PlainServer):
    cells = 32
    remembered = 2 * cells  # a subclass with other cells has to repeat this

    def _build_model(self):
        remember = lstm("lstm", self.seen, self.cells)
        actor = tf.get_variable("actor/weights", (self.cells, a3c.NUM_ACTIONS))
        critic = tf.get_variable("critic/weights", (self.cells, 1))

        def forward(s):
            """From successive states (T, 66) to p = [π, c', h'] (T, 66), and V (T,)."""
            x, c, h = tf.split(s, [self.seen, self.cells, self.cells], axis=1)
            c, h = remember(x, c[:1], h[:1])  # the first memory; the LSTM computes the rest
            policy = tf.nn.softmax(h @ actor)
            return tf.concat([policy, c, h], axis=1), tf.squeeze(h @ critic, axis=1)
        return forward


class Brain(advantages.GAE):
    def build_loss(self, p, v, a, target):
        return super().build_loss(p[:, :a3c.NUM_ACTIONS], v, a, target)  # the policy alone


class Agent(a3c.Agent):
    """Keeps what is remembered, c and h, while the thread plays an episode."""
    def __init__(self, brain, rng):
        super().__init__(brain, rng)
        self.forget()

    def forget(self):
        self.remembered = np.zeros(self.brain.server.remembered, np.float32)

    def policy(self, s):
        """Also remembers, so call it once a step."""
        self.s = self.with_memory(s)
        p = super().policy(self.s)
        self.remembered = np.float32(p[a3c.NUM_ACTIONS:])  # c' and h'
        return p[:a3c.NUM_ACTIONS]

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
        shown, seen = self.env.observation_space.shape, agent.brain.server.seen
        if shown != (seen,):
            a3c.refuse(f"an observation has shape {shown}, but the server's `seen` is {seen}")

    def reset(self, env):
        self.agent.forget()
        return super().reset(env)


class Positions(Remembering):
    """Shows only these numbers of an observation; on CartPole, where the cart and the pole are."""
    positions = [0, 2]

    def make(self, render_mode=None):
        space = a3c.gym.spaces.Box(-np.inf, np.inf, (len(self.positions),))
        env = super().make(render_mode)
        return a3c.gym.wrappers.TransformObservation(env, lambda s: s[self.positions], space)


# A sample is one step, and drawing from π explores enough.
SETTINGS = {"N_WORKERS": 4, "Tmax": 20, "N_STEP_RETURN": 1, "EPS_START": 0.0}


def configure(server_class=Server):
    a3c.configure(**SETTINGS, NUM_STATES=server_class.seen + server_class.remembered,
                  HIDDEN_UNITS=32, LEARNING_RATE=2e-3)


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
    server_class = Server if memory else PlainServer
    configure(server_class)
    return a3c.main(words, server_class, Brain, Agent, Positions)


if __name__ == "__main__":
    a3c.run_program(main)
