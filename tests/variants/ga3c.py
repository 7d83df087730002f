"""GA3C: learners without networks of their own; others predict and train for them, in batches.

What it changes: an A3C learner asks its own copy of the network about one state at a time. Here all
learners share one network, and two more threads use it for them. The formulas are the script's.
    learner:  state   -> queue -> predictor, for all that wait -> π, back to each learner
              samples -> queue -> trainer, when there are enough -> an update of the one network
One call for many states costs little more than one for a single state: with large networks, on a
GPU above all, that pays. The price: the network goes on learning while samples wait, which come
from an older policy than it has by then.

Babaeizadeh et al. 2017, arXiv:1611.06256. What to look at (--logdir): batch/states and
batch/samples, how many went together, and age: updates since the pull before the latest samples.
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
    """A bounded queue where nobody waits for ever: `give` and `take` raise Stopped at a stop,
    `take` also if there is nothing and no learner is left who might give or ask."""
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
            learners_left = self.progress.learners > 1  # the trainer counts as one
            with contextlib.suppress(queue.Empty):
                return self.get(timeout=0.1)
        raise a3c.Stopped


class Server(a3c.ParameterServer):
    def __init__(self, options):
        super().__init__(options)
        self.progress.learners += 1  # the trainer: only after it ends may the test thread push
        self.states = Queue(self.progress, maxsize=options.workers)  # (state, queue for the answer)
        self.samples = Queue(self.progress, maxsize=4)  # (number of updates at their pull, samples)
        self.updates = 0  # only the trainer changes it
        self.brain = SharedBrain("shared", self)
        self.helpers = [Helper("predictor", self, self.predict, learning=False),
                        Helper("trainer", self, self.train, learning=True)]

    def predict(self):
        while True:  # until `take` raises Stopped
            asked = [self.states.take()]
            while not self.states.empty():
                asked.append(self.states.get())
            states, answers = zip(*asked)
            for answer, p in zip(answers, self.brain.predict_p(np.concatenate(states))):
                answer.give(p[np.newaxis])
            self.log.write({"batch/states": len(asked)})

    def train(self):
        batch = self.brain.train_queue  # an update empties it
        while True:
            begun, more = self.samples.take()
            batch += more
            if len(batch) >= TRAINING_BATCH:
                self.log.write({"batch/samples": len(batch), "age": self.updates - begun})
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
        self.work = work


class AskingBrain(a3c.LocalBrain):
    """A learner's: has no network, but hands states and samples to those that have one."""
    def __init__(self, name, server):
        self.server = server
        self.train_queue = []
        self.answer = Queue(server.progress, maxsize=1)

    def pull_parameter_server(self):
        self.begun = self.server.updates  # nothing to pull; only notes when samples begin

    def predict_p(self, s):
        self.server.states.give((s, self.answer))
        return self.answer.take()

    def update_parameter_server(self):
        self.server.samples.give((self.begun, self.train_queue))
        self.train_queue = []


class Agent(a3c.Agent):
    brain_class = AskingBrain


class Environment(a3c.Environment):
    def __init__(self, name, thread_type, server):
        if thread_type == "learning":  # the test thread keeps a copy, to evaluate one policy
            self.agent_class = Agent
        super().__init__(name, thread_type, server)


class Worker(a3c.Worker_thread):
    environment_class = Environment


def main(argv=None):
    return a3c.main(argv, Server, Worker)


if __name__ == "__main__":
    sys.exit(main())
