"""GA3C: other threads predict and train for the learners, in batches.

An A3C learner asks its own copy of the network about one state at a time. Here all learners share
one network, and extra threads run it for them. The formulas are the script's.
    learner:  state   -> queue -> predictor, all waiting states at once -> π, back to each learner
              samples -> queue -> trainer, once there are enough -> an update of the one network
One call for many states costs little more than a call for one. That pays with large networks such
as Pong's, above all on a GPU (this program uses only the CPU). The price: the network goes on
learning while samples wait, so they come from an older policy.

GA3C is from Babaeizadeh et al., arXiv:1611.06256. What to look at (--logdir): batch/states and
batch/samples say how many states or samples shared a call. age says how many updates happened while
the newest samples of a batch were collected and waited.
"""
import contextlib
import queue
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import a3c_cartpole as a3c  # noqa: E402

tf = a3c.tf
PREDICTORS = {"predictor1"}  # the names of these threads
TRAINERS = {"trainer1"}
TRAINING_BATCH = 40  # samples of an update, at least


class Queue(queue.Queue):
    """A queue of limited length in which nobody waits for ever. Both `give` and `take` raise
    Stopped when all threads have to stop. `take` also does when the learners have ended and nothing
    is left."""
    def __init__(self, progress, maxsize):
        super().__init__(maxsize)
        self.progress = progress

    def give(self, item):
        while not self.progress.coordinator.should_stop():
            with contextlib.suppress(queue.Full):
                return self.put(item, timeout=0.1)
        raise a3c.Stopped

    def take(self):
        learners_left = True
        while learners_left and not self.progress.coordinator.should_stop():
            # Check this before the queue. The other way round, the last learner could give
            # something and end between the two checks.
            learners_left = self.progress.learners > TRAINERS  # the trainers count, too, see `main`
            with contextlib.suppress(queue.Empty):
                return self.get(timeout=0.1)
        raise a3c.Stopped


class Predictor(a3c.Worker_thread):
    """Answers the learners' questions. One call answers all that are waiting."""
    def __init__(self, name, server, brain_class):
        super().__init__(name, "helper", None, server)
        # A brain of this name shares the variables of the server's network.
        with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
            self.brain = brain_class("parameter_server", server)

    def work(self):
        while True:  # until `take` raises Stopped
            asked = [self.server.states.take()]
            with contextlib.suppress(queue.Empty):
                while True:
                    asked.append(self.server.states.get_nowait())
            states, answers = zip(*asked)
            p = self.brain.predict_p(np.concatenate(states))
            ends = np.cumsum([len(s) for s in states])  # usually each has asked about one state
            for answer, own in zip(answers, np.split(p, ends)):
                answer.give(own)
            a3c.add_to_curves(self.server, {"batch/states": len(p)})


class Trainer(Predictor):
    """Updates the network with the learners' samples."""
    def work(self):
        while True:
            begun, samples = self.server.samples.take()
            for sample in samples:
                self.brain.train_push(*sample)
            size = len(self.brain.train_queue)
            if size >= TRAINING_BATCH:
                age = self.server.updates - begun
                a3c.add_to_curves(self.server, {"batch/samples": size, "age": age})
                self.brain.update_parameter_server()
                self.server.updates += 1


class AskingBrain:
    """A learner's brain. It has no network, but asks the predictors and gives samples to the
    trainers. It has the same methods as LocalBrain."""
    def __init__(self, server):
        self.server = server
        self.train_queue = []
        self.answer = Queue(server.progress, maxsize=1)

    def pull_parameter_server(self):
        self.begun = self.server.updates  # there is nothing to pull

    def predict_p(self, s):
        self.server.states.give((s, self.answer))
        return self.answer.take()

    def train_push(self, *sample):
        self.train_queue.append(sample)

    def update_parameter_server(self):
        self.server.samples.give((self.begun, self.train_queue))
        self.train_queue = []


def main(argv=None, server_class=a3c.ParameterServer, brain_class=a3c.LocalBrain,
         agent_class=a3c.Agent, environment_class=a3c.Environment):
    """The script's main, with predictors and trainers."""
    def make_server(options, progress):
        server = server_class(options, progress)
        # The trainers count as learners: the test thread may push only after they have ended.
        progress.learners |= TRAINERS
        server.states = Queue(progress, maxsize=options.workers)  # (state, queue for the answer)
        server.samples = Queue(progress, maxsize=4)  # (updates when they were begun, samples)
        server.updates = 0  # only for the curves
        server.helpers += [Predictor(name, server, brain_class) for name in sorted(PREDICTORS)]
        server.helpers += [Trainer(name, server, brain_class) for name in sorted(TRAINERS)]
        return server

    def make_brain(name, server):
        # The test thread has a network of its own, because its policy must not change.
        return brain_class(name, server) if name == "test_thread" else AskingBrain(server)

    return a3c.main(argv, make_server, make_brain, agent_class, environment_class)


if __name__ == "__main__":
    sys.exit(main())
