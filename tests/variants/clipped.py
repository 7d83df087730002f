"""A3C with gradients that are clipped and a learning rate that falls to 0, on CartPole.

What it adds: now and then one batch has a gradient many times as large as usual, and RMSProp, whose
average knows only the usual ones, turns it into a step that forgets what was learned. Here all
gradients of an update are shortened together, if their norm is larger than MAX_NORM,
    g' = g · min(1, MAX_NORM / |g|)
and the learning rate falls with the frames of all threads, so that late steps are small:
    rate = LEARNING_RATE · max(0, 1 - frames / ANNEAL_FRAMES)
Frames of earlier runs count (--checkpoint): the rate goes on falling where it was.

In the A3C paper, arXiv:1602.01783, the rate falls; miyosuda's async_deep_reinforce does both. What
to look at when it runs: the mean of fifty episodes, whether it falls less often once it is high,
and how many evaluations fail.
"""
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import a3c_cartpole as a3c  # noqa: E402

tf = a3c.tf
MAX_NORM = 0.5
EPSILON = 1e-10  # added to RMSProp's average
ANNEAL_FRAMES = 300_000


class Server(a3c.ParameterServer):
    def build_optimizer(self):
        # A function of Python as a part of the graph: it is called at each update
        frames = tf.py_func(lambda: np.float32(self.progress.frames), [], tf.float32)
        frames.set_shape(())
        rate = tf.train.polynomial_decay(a3c.LEARNING_RATE, frames, ANNEAL_FRAMES, 0.0)
        return tf.train.RMSPropOptimizer(rate, a3c.RMSPROP_DECAY, epsilon=EPSILON)

    def build_update(self, gradients):
        gradients, _ = tf.clip_by_global_norm(gradients, MAX_NORM)
        return super().build_update(gradients)


def main(argv=None):
    return a3c.main(argv, Server)


if __name__ == "__main__":
    sys.exit(main())
