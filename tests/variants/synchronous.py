"""Synchronous A3C, called A2C: the learners wait for each other.

The script's learners update the shared weights whenever they are ready, so a gradient may be stale.
Here no gradient is. All learners work in rounds:
    pull    all of them have the same weights
    play    up to ten steps each, at the same time
    update  the last one to finish applies the mean of all their gradients, as one update
The formulas are the script's, so the difference shows what asynchronous learners gain and lose.
They make eight small updates where this program makes one, which has less noise.

After an update the learners go on one after the other, and only then do they play at the same time
again. So the same seed gives the same run, with any number of learners.

A2C is from OpenAI Baselines (https://openai.com/index/openai-baselines-acktr-a2c/). What to look at
when it runs: how many more frames it needs than the script. A higher LEARNING_RATE makes up for
some of them.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import a3c_cartpole as a3c

tf = a3c.tf


class Server(a3c.ParameterServer):
    """Counts who has finished a round, and makes the update. `progress.changed` is the lock."""
    def __init__(self, session, progress):
        super().__init__(session, progress)
        self.learners = len(progress.learners)
        self.kept = []  # for each brain, in order: variables for its gradients
        self.updated, self.pulled = set(), set()  # numbers of learners that have in this round

    def build_update(self, gradients):
        """A learner's own update adds to its gradients, for the update of all."""
        kept = [tf.Variable(tf.zeros(w.shape), trainable=False) for w in self.weights]
        self.kept.append(kept)
        return tf.group(*[k.assign_add(g, read_value=False) for k, g in zip(kept, gradients)])

    def initialize(self):
        if self.learners:  # there are none with --play
            kept = self.kept[:self.learners]  # the test thread's brain is the last
            means = [tf.add_n(parts) / self.learners for parts in zip(*kept)]
            with tf.control_dependencies([super().build_update(means)]):
                # A learner may have no sample in the next round, and then its gradient is 0.
                forget = [k.assign(tf.zeros_like(k), read_value=False) for k in sum(kept, [])]
            self.update = a3c.GraphCall(self.session, targets=forget)
        super().initialize()
        self.frame = self.progress.frames

    def has_updated(self, number):
        """Learner `number` has kept its gradient. The last one makes the update of all. Then each
        waits until those with smaller numbers have pulled."""
        with self.progress.changed:
            if number not in self.pulled:
                raise RuntimeError("a learner has to pull before each update")
            self.updated.add(number)
            if len(self.updated) == self.learners:
                self.update()
                self.frame = self.progress.frames
                self.updated, self.pulled = set(), set()
                self.progress.changed.notify_all()
            self.wait_until(lambda: len(self.pulled) == number)

    def has_pulled(self, number):
        """Learner `number` has the new weights. Nobody plays until all have them."""
        with self.progress.changed:
            self.pulled.add(number)
            self.progress.changed.notify_all()
            self.wait_until(lambda: len(self.pulled) == self.learners)

    def wait_until(self, condition):
        """Raises Stopped if the condition can't come true any more, because a learner has ended."""
        self.progress.wait_until(
            lambda: condition() or len(self.progress.learners) < self.learners)
        if not condition():
            raise a3c.Stopped


class Brain(a3c.LocalBrain):
    def __init__(self, name, parameter_server):
        self.number = len(parameter_server.kept)  # 0, 1, ...
        super().__init__(name, parameter_server)

    def update_parameter_server(self):
        super().update_parameter_server()
        self.server.has_updated(self.number)

    def pull_parameter_server(self):
        super().pull_parameter_server()
        if self.number < self.server.learners:  # the test thread pulls alone
            self.server.has_pulled(self.number)


class Agent(a3c.Agent):
    def explore(self, p, frame):
        # Within a round, it is chance whose frame comes first, so ε changes only between rounds.
        return super().explore(p, self.brain.server.frame)


def main(argv=None, server_class=a3c.ParameterServer, brain_class=a3c.LocalBrain,
         agent_class=a3c.Agent, environment_class=a3c.Environment):
    """The script's main, for learners that wait for each other."""
    class SynchronousServer(Server, server_class):
        pass

    class SynchronousBrain(Brain, brain_class):
        pass

    class SynchronousAgent(Agent, agent_class):
        pass
    return a3c.main(argv, SynchronousServer, SynchronousBrain, SynchronousAgent, environment_class)


if __name__ == "__main__":
    sys.exit(main())
