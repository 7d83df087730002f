"""GA3C: other threads predict and train for the learners, in batches.

An A3C learner asks its own copy of the network about one state at a time. Here all learners share
one network, and extra threads run it for them. The formulas are the script's.
    learner:  state   -> queue -> predictor, all waiting states at once -> π, back to each learner
              samples -> queue -> trainer, once there are enough -> an update of the one network
One call for many states costs little more than a call for one. That pays with large networks, above
all on a GPU (this program uses only the CPU). The price: the network goes on learning while samples
wait, so they come from an older policy.

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
            learners_left = self.progress.learners > TRAINERS  # the trainers count, too, see Server
            with contextlib.suppress(queue.Empty):
                return self.get(timeout=0.1)
        raise a3c.Stopped


class Server(a3c.ParameterServer):
    def __init__(self, options, progress):
        super().__init__(options, progress)
        # The trainers count as learners: the test thread may push only after they have ended.
        progress.learners |= TRAINERS
        self.states = Queue(progress, maxsize=options.workers)  # (state, queue for the answer)
        self.samples = Queue(progress, maxsize=4)  # (updates when they were begun, samples)
        self.updates = 0  # only for the curves
        self.helpers = [Predictor(name, self) for name in sorted(PREDICTORS)]
        self.helpers += [Trainer(name, self) for name in sorted(TRAINERS)]


class SharedBrain(a3c.LocalBrain):
    """Predicts with the server's own weights, and trains them."""
    def _build_model(self):
        return self.server.forward

    def _build_graph(self):
        self.weights = self.server.weights
        super()._build_graph()


class Predictor(a3c.Worker_thread):
    """Answers the learners' questions. One call answers all that are waiting."""
    def __init__(self, name, server):
        super().__init__(name, "helper", None, server)
        self.brain = SharedBrain(name, server)

    def work(self):
        while True:  # until `take` raises Stopped
            asked = [self.server.states.take()]
            with contextlib.suppress(queue.Empty):
                while True:
                    asked.append(self.server.states.get_nowait())
            states, answers = zip(*asked)
            for answer, p in zip(answers, self.brain.predict_p(np.concatenate(states))):
                answer.give(p[np.newaxis])
            a3c.add_to_curves(self.server, {"batch/states": len(asked)})


class Trainer(Predictor):
    """Updates the network with the learners' samples."""
    def work(self):
        batch = self.brain.train_queue  # the same list each time: an update clears it
        while True:
            begun, samples = self.server.samples.take()
            batch += samples
            if len(batch) >= TRAINING_BATCH:
                age = self.server.updates - begun
                a3c.add_to_curves(self.server, {"batch/samples": len(batch), "age": age})
                self.brain.update_parameter_server()
                self.server.updates += 1


class AskingBrain:
    """A learner's brain. It has no network, but asks the predictors and gives samples to the
    trainers. It has the same methods as LocalBrain."""
    def __init__(self, name, server):
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


def brain(name, server):
    # The test thread has a network of its own, because its policy must not change.
    return (a3c.LocalBrain if name == "test_thread" else AskingBrain)(name, server)


def main(argv=None):
    return a3c.main(argv, Server, brain)


if __name__ == "__main__":
    sys.exit(main())
