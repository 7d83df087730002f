"""GA3C: learners without networks of their own; others predict and train for them, in batches.

What it changes: an A3C learner asks its own copy of the network about one state at a time. Here all
learners put their states into a queue. The predictor, a thread, takes all that wait there, asks the
one network about them together, and gives each learner its π. The trainer, another thread, gathers
the learners' samples until they make a larger update. The formulas are the script's.
    learner:  state   -> queue -> predictor, for all that wait -> π
              samples -> queue -> trainer, when there are enough -> the one network
One call for many states costs little more than one for a single state: with large networks, on a
GPU above all, that pays. The price: the network goes on learning while samples wait, which come
from an older policy than it has by then.

Babaeizadeh et al. 2017, arXiv:1611.06256. What to look at (--logdir): batch/states and
batch/samples, how many went together, and age, how many updates there were between the pull before
the latest of these samples and their own.
"""
import contextlib
import queue
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import a3c_cartpole as a3c  # noqa: E402

TRAINING_BATCH = 40  # samples, at least


class Queue(queue.Queue):
    """A bounded queue where nobody waits for ever: `give` and `take` raise Stopped at a stop."""
    def __init__(self, coordinator, maxsize):
        super().__init__(maxsize)
        self.coordinator = coordinator

    def give(self, item):
        while not self.coordinator.should_stop():
            with contextlib.suppress(queue.Full):
                return self.put(item, timeout=0.1)
        raise a3c.Stopped

    def take(self, needed=lambda: True):
        """The next item; None if there is none and none is needed any more."""
        while not self.coordinator.should_stop():
            with contextlib.suppress(queue.Empty):
                return self.get(timeout=0.1)
            if not needed():
                return None
        raise a3c.Stopped


class Server(a3c.ParameterServer):
    def __init__(self, learners, max_frames, log):
        super().__init__(learners, max_frames, log)
        coordinator = self.progress.coordinator
        self.states = Queue(coordinator, maxsize=max(learners, 1))  # (state, queue for the answer)
        self.samples = Queue(coordinator, maxsize=4)  # (number of updates at their pull, samples)
        self.updates = 0  # only the trainer changes it
        self.brain = SharedBrain("shared", self)
        self.helpers = [Helper("predictor", self, self.predict, learning=False),
                        Helper("trainer", self, self.train, learning=True)]
        self.progress.learners += 1  # the trainer: only after it ends may the test thread push

    def learners_left(self):
        """Whether a learner may still ask or give: the trainer, which counts as one, does not."""
        return self.progress.learners > 1

    def predict(self):
        while first := self.states.take(self.learners_left):
            asked = [first]
            while not self.states.empty():
                asked.append(self.states.get())
            states, answers = zip(*asked)
            for answer, p in zip(answers, self.brain.predict_p(np.concatenate(states))):
                answer.give(p[np.newaxis])
            self.log.write({"batch/states": len(asked)})

    def train(self):
        batch = self.brain.train_queue  # an update empties it
        while taken := self.samples.take(self.learners_left):
            begun, more = taken
            batch += more
            if len(batch) >= TRAINING_BATCH:
                age = self.updates - begun
                self.log.write({"batch/samples": len(batch), "age": age})
                self.brain.update_parameter_server()
                self.updates += 1


class SharedBrain(a3c.LocalBrain):
    """Predicts with the server's own weights, and trains them."""
    def _build_model(self):
        self.weights, self.forward = self.server.weights, self.server.forward


class Helper(a3c.Worker_thread):
    """Does `work`, in the script's `run`, until no learner is left; an exception stops all."""
    def __init__(self, name, server, work, learning):
        self.name, self.progress, self.learning = name, server.progress, learning
        self._learn = self._test = work


class AskingBrain:
    """What a learner has in place of a network: the way to the queues."""
    def __init__(self, name, server):
        self.server = server
        self.answer = Queue(server.progress.coordinator, maxsize=1)
        self.train_queue = []
        self.begun = 0

    def pull_parameter_server(self):
        self.begun = self.server.updates  # nothing to pull; only notes when samples begin

    def predict_p(self, s):
        self.server.states.give((s, self.answer))
        return self.answer.take()

    def train_push(self, *sample):
        self.train_queue.append(sample)

    def update_parameter_server(self):
        self.server.samples.give((self.begun, self.train_queue))
        self.train_queue = []


class Agent(a3c.Agent):
    brain_class = AskingBrain


class Environment(a3c.Environment):
    def __init__(self, name, thread_type, server, rng):
        if thread_type == "learning":  # the test thread keeps a copy, to examine one policy
            self.agent_class = Agent
        super().__init__(name, thread_type, server, rng)


class Worker(a3c.Worker_thread):
    environment_class = Environment


def main(argv=None):
    return a3c.main(argv, Server, Worker)


if __name__ == "__main__":
    sys.exit(main())
