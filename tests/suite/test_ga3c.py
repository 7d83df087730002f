"""ga3c.py: whose states and samples wait in its queues, and what becomes of them."""

import os
import threading

import numpy as np
import pytest
from helpers import a3c, linux, refusal

pytest.importorskip("gymnasium")
import ga3c


def test_ga3c_plays_every_frame_and_loses_no_sample(build, points):
    """GA3C plays all 2000 frames, and each one's sample is used or, at the end, still waits."""
    built = build(ga3c, learners=3)
    built.progress.max_frames = 2000
    built.run()
    assert built.progress.frames == 2000 and not built.progress.learning_threads
    used = [point["batch/samples"] for point in points if "batch/samples" in point]
    agents = [worker.environment.agent for worker in built.learners]  # the trainer's, too
    waiting = [len(agent.memory) + len(agent.brain.train_queue) for agent in agents]
    assert sum(used) + sum(waiting) == 2000 and built.server.samples.empty()


def test_ga3cs_trainer_waits_for_a_batch(build, points):
    """GA3C's trainer makes no update before it has at least TRAINING_BATCH samples for it."""
    built = build(ga3c, learners=3)
    built.progress.max_frames = 500
    built.run()
    used = [point["batch/samples"] for point in points if "batch/samples" in point]
    assert min(used) >= ga3c.TRAINING_BATCH


def test_ga3cs_learners_know_their_names(build):
    """In GA3C, as in the script, a learner's brain has its name, which an agent may read."""
    one, two, *_ = build(ga3c, learners=2).brains  # then predictor and trainer
    assert (one.name, two.name) == ("local_thread1", "local_thread2")


def test_ga3cs_predictor_answers_each_learner(build, rng, points):
    """The predictor answers eight learners at once, each with the policy for its own states; half
    of them ask about two states."""
    built = build(ga3c, learners=8, SHARE_ONE_CORE=False)  # this thread keeps all cores
    states = [rng.normal(size=(1 + i % 2, 4)) for i in range(8)]
    for brain, s in zip(built.brains, states):
        built.server.states.put((s, brain.answer))
    [predictor] = [worker for worker in built.learners if worker.name == "predictor"]
    built.progress.learning_threads = {"trainer"}  # no learner, so it ends when all are answered
    with pytest.raises(a3c.Stopped):
        predictor.learn()
    policy = predictor.environment.agent.brain.predict_p
    for brain, s in zip(built.brains, states):
        np.testing.assert_allclose(brain.answer.take(), policy(s), rtol=1e-6)
    assert points == [{"batch/states": sum(map(len, states))}]


@linux
def test_ga3cs_threads_share_the_learners_core(build, monkeypatch):
    """GA3C's predictor and trainer run on the learners' core, or they would hold each other up."""
    def take(waiting, really=ga3c.Queue.take):  # each thread takes from some queue
        cores[threading.current_thread().name] = os.sched_getaffinity(0)
        return really(waiting)
    cores = {}
    monkeypatch.setattr(ga3c.Queue, "take", take)
    built = build(ga3c, learners=2, SHARE_ONE_CORE=True)
    built.progress.max_frames = 200
    built.run()
    assert cores.keys() == {"local_thread1", "local_thread2", "predictor", "trainer"}
    assert len(set.union(*cores.values())) == 1


def test_ga3c_refuses_variables_that_it_cannot_share(capsys):
    """ga3c.py refuses a network made with tf.Variable: predictor and trainer would each get one of
    their own, and nothing would be learned."""
    class Server(a3c.ParameterServer):
        def _build_model(self):
            w = a3c.tf.Variable(a3c.tf.zeros((4, 2)))
            return lambda s: (a3c.tf.nn.softmax(s @ w), a3c.tf.reduce_sum(s @ w, axis=1))
    assert "can only share" in refusal(capsys, main=ga3c.main, server_class=Server)


def test_only_ga3cs_test_thread_has_its_own_network(build):
    """GA3C's test thread has a network of its own, so that a policy doesn't change while it is
    evaluated. Learners have none, and predictor and trainer use the server's."""
    built = build(ga3c, learners=2)
    tester = built.tester.environment.agent.brain
    assert {w.name for w in tester.weights}.isdisjoint(w.name for w in built.server.weights)
    *learners, predictor, trainer = built.brains
    assert not any(hasattr(brain, "weights") for brain in learners)
    assert predictor.weights == trainer.weights == built.server.weights
