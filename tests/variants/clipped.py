"""A3C with clipped gradients and a learning rate that falls to 0, on CartPole.

Now and then a batch has a gradient many times as large as usual. RMSProp divides by the root of a
running average, which has hardly noticed it yet. So the step can be ten times as large as usual,
and the network forgets what it has learned. This program adds two things. All gradients of an
update are scaled down together if their joint norm is too large:
    g' = g · min(1, max_norm / |g|)
The learning rate falls with the frames of all threads, so that late steps are small:
    rate = LEARNING_RATE · max(0, 1 - frames / anneal_frames)
At 0 nothing more is learned, so the run ends there. With --checkpoint, the frames of earlier runs
count towards anneal_frames.

The falling rate is from the A3C paper, arXiv:1602.01783. miyosuda's async_deep_reinforce also
clips, but each array separately. What to look at when it runs: whether the mean score, once it is
high, drops less often than in the script. Clipping alone has the opposite effect here.
"""
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import a3c_cartpole as a3c

tf = a3c.tf


class Clipping(a3c.ParameterServer):
    """Scales all gradients of an update down together if their joint norm exceeds max_norm."""
    max_norm = 0.5

    def build_update(self, gradients):
        gradients, _ = tf.clip_by_global_norm(gradients, self.max_norm)
        return super().build_update(gradients)


class FallingRate(a3c.ParameterServer):
    """Lets the learning rate fall to 0."""
    anneal_frames = 300_000
    epsilon = 1e-10  # RMSProp adds this to its average

    def initialize(self):
        super().initialize()
        # Frames of earlier runs count, too.
        self.progress.max_frames = min(self.progress.max_frames, self.anneal_frames)

    def build_optimizer(self):
        # TensorFlow calls this Python function in each update.
        frames = tf.py_func(lambda: np.float32(self.progress.frames), [], tf.float32)
        frames.set_shape(())
        rate = tf.train.polynomial_decay(a3c.LEARNING_RATE, frames, self.anneal_frames, 0.0)
        return tf.train.RMSPropOptimizer(rate, a3c.RMSPROP_DECAY, epsilon=self.epsilon)


class Server(Clipping, FallingRate):
    """Does both."""


def main(argv=None):
    return a3c.main(argv, Server)


if __name__ == "__main__":
    sys.exit(main())
