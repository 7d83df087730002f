"""Pong with memory: pong.py's network, with an LSTM behind its 256 units.

This program combines pong.py and memory.py. The returns are the paper's, as in pong.py: with λ = 1,
memory.py's advantage is the sum of all rewards up to the end of a segment, then V there, less V(s).

The sizes are those of miyosuda's async_deep_reinforce. What to look at when it runs: it needs about
as many steps as pong.py, but each of them takes longer.
"""
import pong  # first, because it chooses a setting of TensorFlow's
import memory
from script import a3c, tf


class Server(pong.Server):
    seen, cells = pong.NUM_STATES, 256
    remembered = 2 * cells

    def _build_model(self):
        features = self._build_features()
        remember = memory.lstm("lstm", pong.UNITS, self.cells)
        actor = a3c.layer("actor", self.cells, a3c.NUM_ACTIONS)
        critic = a3c.layer("critic", self.cells, 1)

        def forward(s):
            """From successive states (T, 28736) to p = [π, c', h'] (T, 515), and V (T,)."""
            pictures, c, h = tf.split(s, [self.seen, self.cells, self.cells], axis=1)
            c, h = remember(features(pictures), c[:1], h[:1])
            policy = tf.nn.softmax(tf.nn.xw_plus_b(h, *actor))
            v = tf.squeeze(tf.nn.xw_plus_b(h, *critic), axis=1)
            return tf.concat([policy, c, h], axis=1), v
        return forward


class Brain(memory.Brain):
    gae_lambda = 1.0


class Environment(memory.Remembering, pong.Environment):
    """Forgets when a game begins."""


def configure():
    a3c.configure(**pong.SETTINGS, NUM_STATES=Server.seen + Server.remembered, N_STEP_RETURN=1)


def main(argv=None):
    configure()
    return a3c.main(argv, Server, Brain, memory.Agent, Environment)


if __name__ == "__main__":
    a3c.run_program(main)
