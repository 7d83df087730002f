"""GA3C: all learners share one network, and two more threads run it for them, in batches.

    learner:  state   -> queue -> predictor, all waiting states at once -> π, back to each learner
              samples -> queue -> trainer, once there are enough -> an update of the one network
That pays where a call for many states costs little more than a call for one, above all on a GPU
(not used here). The price: the network learns while an episode is played and while its samples
wait, so the loss takes π and V from newer weights than those that chose the actions.

GA3C is from Babaeizadeh et al., arXiv:1611.06256, where several predictors and trainers run. What
to look at (--logdir): batch/states and batch/samples say how many shared a call.
"""
import contextlib
import queue

import advantages
import synchronous
from script import a3c, np

TRAINING_BATCH = 40  # samples of an update, at least


class AskingBrain:
    """A learner's brain, with the methods of LocalBrain that a learner calls."""
    def __init__(self, name, server):
        self.name, self.server = name, server
        self.train_queue = []
        self.answer = Queue(server.progress)

    def pull_parameter_server(self):
        """There is nothing to pull."""

    def predict_p(self, s):
        self.server.states.give((s, self.answer))
        return self.answer.take()

    def train_push(self, *sample):
        self.train_queue.append(sample)

    def update_parameter_server(self):
        self.server.samples.give(self.train_queue)
        self.train_queue = []


class Predictor(a3c.Worker_thread):
    """Answers the learners' questions. One call answers all that are waiting."""
    def learn(self):
        a3c.share_one_core()
        brain = self.environment.agent.brain
        while True:  # until `take` raises Stopped
            asked = [brain.server.states.take()]
            with contextlib.suppress(queue.Empty):
                while True:
                    asked.append(brain.server.states.get_nowait())
            states, answers = zip(*asked)  # each is a batch, usually of one state
            p = brain.predict_p(np.concatenate(states))
            ends = np.cumsum([len(s) for s in states])
            for answer, own in zip(answers, np.split(p, ends[:-1])):
                answer.put(own)
            self.progress.add_to_curves({"batch/states": len(p)})


class Trainer(a3c.Worker_thread):
    """Updates the network with the learners' samples."""
    def learn(self):
        a3c.share_one_core()
        brain = self.environment.agent.brain
        while True:
            for sample in brain.server.samples.take():
                brain.train_push(*sample)
            if len(brain.train_queue) >= TRAINING_BATCH:
                self.progress.add_to_curves({"batch/samples": len(brain.train_queue)})
                brain.update_parameter_server()


HELPERS = {"predictor": Predictor, "trainer": Trainer}


class Queue(queue.Queue):
    """`give` and `take` raise Stopped when all threads have to stop. `take` also does when the
    learners have ended and nothing is left."""
    def __init__(self, progress, maxsize=0):
        super().__init__(maxsize)
        self.progress = progress

    def give(self, item):
        while not self.progress.stopped:
            with contextlib.suppress(queue.Full):
                return self.put(item, timeout=0.1)
        raise a3c.Stopped

    def take(self):
        learners = True
        while learners and not self.progress.stopped:
            # Look here before the queue, because the last learner may give something and end.
            with self.progress.changed:
                learners = self.progress.learning_threads - HELPERS.keys()
            with contextlib.suppress(queue.Empty):
                return self.get(timeout=0.1)
        raise a3c.Stopped


def main(argv=None, server_class=a3c.ParameterServer, brain_class=a3c.LocalBrain,
         agent_class=a3c.Agent, environment_class=a3c.Environment):
    """The script's main, with a predictor and a trainer."""
    if issubclass(server_class, synchronous.Server) or issubclass(brain_class, advantages.GAE):
        a3c.refuse("ga3c.py goes neither with synchronous.py nor with GAE, which memory.py uses")

    class Server(server_class):
        def __init__(self, session, progress):
            super().__init__(session, progress)
            self.states = Queue(progress)  # (state, queue for the answer), at most one per learner
            self.samples = Queue(progress, maxsize=4)  # if it were long, they would grow old in it
            # They count as learning threads: the test thread must wait for their end before it
            # pushes. (So each also gets an environment, which it doesn't use.)
            progress.learning_threads |= HELPERS.keys()

    def make_brain(name, server):
        if name == "test_thread":  # has a network of its own, because its policy must not change
            return brain_class(name, server)
        if name not in HELPERS:
            return AskingBrain(name, server)
        # A brain of this name shares the variables of the server's network.
        with a3c.tf.variable_scope("", reuse=a3c.tf.AUTO_REUSE):
            before = a3c.tf.trainable_variables()
            brain = brain_class("parameter_server", server)
        if a3c.tf.trainable_variables() != before:  # such as tf.Variable's
            a3c.refuse("ga3c.py can only share variables made by a3c.layer or tf.get_variable")
        return brain

    def make_worker(name, *others):
        # Learners and the test thread are those of the script.
        return HELPERS.get(name, a3c.Worker_thread)(name, *others)

    return a3c.main(argv, Server, make_brain, agent_class, environment_class, make_worker)


if __name__ == "__main__":
    a3c.run_program(main)
