"""Pong with memory: pong.py's network, with an LSTM behind its 256 units.

This program adds nothing new. It combines pong.py and memory.py. The state is the last four
pictures, and what the LSTM remembers. Actor and critic see the LSTM's output. The returns are the
paper's, as in pong.py: with λ = 1, memory.py's advantage is the sum of all rewards up to the end of
a segment, then V there, less V(s).

The A3C paper, arXiv:1602.01783, has such a network, and so has miyosuda's async_deep_reinforce,
whose sizes these are. What to look at when it runs: it needs about as many steps as pong.py, but
each of them takes longer.
"""
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]
import pong  # first, because it chooses a setting of TensorFlow's
import a3c_cartpole as a3c
import memory

tf = a3c.tf
CELLS = 256  # of the LSTM


class Server(pong.Server):
    def _build_model(self):
        features = self._build_features()
        remember = memory.lstm("lstm", pong.UNITS, CELLS)
        actor = a3c.layer("actor", CELLS, a3c.NUM_ACTIONS)
        critic = a3c.layer("critic", CELLS, 1)

        def forward(s):
            """From successive states (T, 28736) to p = [π, c', h'] (T, 515), and V (T,)."""
            pictures, c, h = tf.split(s, [memory.SEEN, CELLS, CELLS], axis=1)
            c, h = remember(features(pictures), c[:1], h[:1])
            policy = tf.nn.softmax(tf.nn.xw_plus_b(h, *actor))
            v = tf.squeeze(tf.nn.xw_plus_b(h, *critic), axis=1)
            return tf.concat([policy, c, h], axis=1), v
        return forward


class Environment(memory.Remembering, pong.Environment):
    """Forgets when a game begins."""


def configure():
    pong.configure()
    memory.SEEN = a3c.NUM_STATES
    memory.CELLS = CELLS
    memory.LAMBDA = 1.0
    a3c.NUM_STATES = memory.SEEN + 2 * CELLS
    a3c.N_STEP_RETURN = 1


def main(argv=None):
    configure()
    return a3c.main(argv, Server, memory.Brain, memory.Agent, Environment)


if __name__ == "__main__":
    sys.exit(main())
