"""A3C with clipped gradients and a learning rate that falls to 0, on CartPole.

All gradients of an update are scaled down together if their joint norm is too large:
    g' = g · min(1, max_norm / |g|)
The learning rate falls with the frames of all threads, and where it is 0, the run ends:
    rate = LEARNING_RATE · max(0, 1 - frames / anneal_frames)

TODO

The falling rate is from the A3C paper, arXiv:1602.01783.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import a3c_cartpole as a3c
from a3c_cartpole import np, tf


class Clipping(a3c.ParameterServer):
    """Scales all gradients of an update down together if their joint norm exceeds max_norm."""
    max_norm = 5.0

    def build_update(self, gradients):
        gradients, _ = tf.clip_by_global_norm(gradients, self.max_norm)
        return super().build_update(gradients)


class FallingRate(a3c.ParameterServer):
    """Lets the learning rate fall to 0."""
    anneal_frames = 300_000
    epsilon = 1e-10  # RMSProp adds this to its average

    def initialize(self):
        super().initialize()
        if self.progress.max_frames > self.anneal_frames and not self.progress.options.play:
            self.progress.max_frames = self.anneal_frames
            a3c.say(f"The learning rate is 0 after {self.anneal_frames} frames, and the run ends")

    def frames(self):
        return self.progress.frames  # of all threads, with those before a checkpoint

    def build_part_left(self):
        """Returns a tensor () that falls from 1 to 0 as the frames rise from 0 to anneal_frames."""
        # TensorFlow calls this Python function whenever it needs the number.
        frames = tf.py_func(lambda: np.float32(self.frames()), [], tf.float32)
        frames.set_shape(())
        return tf.maximum(1.0 - frames / self.anneal_frames, 0.0)

    def build_optimizer(self):
        rate = a3c.LEARNING_RATE * self.build_part_left()
        return tf.train.RMSPropOptimizer(rate, a3c.RMSPROP_DECAY, epsilon=self.epsilon)


class Server(Clipping, FallingRate):
    """Does both."""


def main(argv=None):
    a3c.configure()
    return a3c.main(argv, Server)


if __name__ == "__main__":
    a3c.run_program(main)
