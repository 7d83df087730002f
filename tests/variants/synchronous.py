"""Synchronous A3C, called A2C: the learners wait for each other.

All learners work in rounds, so that no gradient is stale:
    pull    all of them have the same weights
    play    up to ten steps each, at the same time
    update  the last one to finish makes one update, with the mean over the samples of all
No return looks beyond the end of its round, so no sample waits for the next one, when the weights
are newer: learning is on-policy, apart from ε. Where this program makes one update, the script
makes eight.

After an update the learners pull one after the other, so that episodes are counted, and the
threshold is reached, in a fixed order. Only then do all play again. So two runs with the same seed
and the same number of learners are identical.

A2C is from OpenAI Baselines (https://openai.com/index/openai-baselines-acktr-a2c/).
"""
import advantages
from script import a3c, tf


class Server(a3c.ParameterServer):
    """Notes who has finished a round, and makes the update. `progress.changed` is the lock."""
    def __init__(self, session, progress):
        super().__init__(session, progress)
        self.learners = sorted(progress.learning_threads)
        self.kept = {}  # for each brain's name: variables for the sum of its samples' gradients
        self.samples = 0  # in this round
        self.frame = 0  # when it began
        self.updated, self.pulled = set(), set()  # the learners that have in this round

    def build_update(self, gradients):
        """A learner's own update adds to its gradients, for the update of all."""
        with tf.control_dependencies(None):  # a subclass's are for the update, not for the zeros
            kept = [tf.Variable(tf.zeros(w.shape), trainable=False) for w in self.weights]
        self.kept[tf.get_default_graph().get_name_scope().split("/")[0]] = kept
        return tf.group(*[k.assign_add(g, read_value=False) for k, g in zip(kept, gradients)])

    def initialize(self):
        if self.learners:  # there are none with --play
            kept = [self.kept[name] for name in self.learners]
            samples = tf.placeholder(tf.float32, ())
            means = [tf.add_n(parts) / samples for parts in zip(*kept)]
            with tf.control_dependencies([super().build_update(means)]):
                forget = [k.assign(tf.zeros_like(k), read_value=False) for k in sum(kept, [])]
            self.update = a3c.GraphCall(self.session, [samples], targets=forget)
        super().initialize()
        self.frame = self.progress.frames

    def frames(self):
        return self.frame  # within a round, a schedule such as clipped.py's doesn't move

    def has_updated(self, name, samples):
        """The last learner makes the update. Then each waits until those before it have pulled."""
        with self.progress.changed:
            self.updated.add(name)
            self.samples += samples
            if len(self.updated) == len(self.learners):
                self.update(max(self.samples, 1))
                self.frame = self.progress.frames
                self.samples = 0
                self.updated, self.pulled = set(), set()
                self.progress.changed.notify_all()
            self.wait_until(lambda: len(self.pulled) == self.learners.index(name))

    def has_pulled(self, name):
        """Nobody plays until all learners have the new weights."""
        with self.progress.changed:
            self.pulled.add(name)
            self.progress.changed.notify_all()
            self.wait_until(lambda: len(self.pulled) == len(self.learners))

    def wait_until(self, condition):
        """Raises Stopped if the condition can't come true any more, because a learner has ended."""
        self.progress.wait_until(
            lambda: condition() or len(self.progress.learning_threads) < len(self.learners))
        if not condition():
            raise a3c.Stopped


class Brain(a3c.LocalBrain):
    def build_update(self, gradients, s):
        samples = tf.cast(tf.shape(s)[0], tf.float32)
        return super().build_update([samples * g for g in gradients], s)  # sums, no means

    def update_parameter_server(self):
        samples = len(self.train_queue)
        super().update_parameter_server()
        self.server.has_updated(self.name, samples - len(self.train_queue))  # a subclass may wait

    def pull_parameter_server(self):
        super().pull_parameter_server()
        if self.name in self.server.learners:  # the test thread pulls alone
            self.server.has_pulled(self.name)


class Agent(advantages.SegmentReturns):
    def explore(self, p, frame):
        # Within a round, it is chance whose frame comes first, so ε changes only between rounds.
        return super().explore(p, self.brain.server.frame)


def main(argv=None, server_class=a3c.ParameterServer, brain_class=a3c.LocalBrain,
         agent_class=a3c.Agent, environment_class=a3c.Environment):
    """The script's main, for learners that wait for each other."""
    def both(own, given):
        return given if issubclass(given, own) else type("Both", (own, given), {})
    return a3c.main(argv, both(Server, server_class), both(Brain, brain_class),
                    both(Agent, agent_class), environment_class)


if __name__ == "__main__":
    a3c.run_program(main)
