"""A3C with clipped gradients and a learning rate that falls to 0, on CartPole.

If the joint norm of an update's gradients is too large, all of them are scaled down together:
    g' = g · min(1, max_norm / |g|)
The learning rate falls with the frames of all threads, as in the A3C paper, arXiv:1602.01783. Where
it is 0, the run ends:
    rate = LEARNING_RATE · max(0, 1 - frames / anneal_frames)
A small max_norm does harm here. Most large gradients come from the ends of episodes, where the only
rewards are. If these are cut, V follows its own estimates, and in some runs it grows to thousands,
which loss/critic shows (--logdir). A norm of 5 cuts only the few largest gradients.
"""
from script import a3c, np, tf


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
        return self.progress.frames  # of all threads, also before a checkpoint

    def build_part_left(self):
        """Returns a tensor () that falls from 1 to 0 as the frames rise from 0 to anneal_frames."""
        # TensorFlow calls this Python function whenever it needs the number.
        frames = tf.reshape(tf.py_func(lambda: np.float32(self.frames()), [], tf.float32), ())
        return tf.maximum(1.0 - frames / self.anneal_frames, 0.0)

    def build_optimizer(self):
        rate = a3c.LEARNING_RATE * self.build_part_left()
        return tf.train.RMSPropOptimizer(rate, a3c.RMSPROP_DECAY, epsilon=self.epsilon)


class Server(Clipping, FallingRate):
    """Does both."""


def main(argv=None):
    a3c.configure()  # puts back what another program has changed
    return a3c.main(argv, Server)


if __name__ == "__main__":
    a3c.run_program(main)
