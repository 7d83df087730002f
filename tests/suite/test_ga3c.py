"""ga3c.py: whose states and samples wait in its queues, and what becomes of them."""

import numpy as np
import pytest
from helpers import a3c, batch, options, update

pytest.importorskip("gymnasium")
import ga3c


def test_ga3c_plays_every_frame_and_loses_no_sample(build, points):
    """Each frame's sample is used in an update, or is left where it waited for others."""
    built = build(ga3c, learners=3)
    built.progress.max_frames = 2000
    # The test thread waits for these, too.
    assert built.progress.learning_threads > {"predictor1", "trainer1"}
    built.run()
    assert built.progress.frames == 2000 and not built.progress.learning_threads
    used = [point["batch/samples"] for point in points if "batch/samples" in point]
    agents = [worker.environment.agent for worker in built.learners]
    waiting = [len(agent.memory) + len(agent.brain.train_queue) for agent in agents]
    assert sum(used) + sum(waiting) == 2000 and built.server.samples.empty()
    trainer = built.brains[-1]
    assert min(used) >= 40 > len(trainer.train_queue)  # too few for an update


def test_ga3cs_age_counts_updates(build, rng, points):
    """Its curve shows how many updates there were since the segment began that brought an update's
    oldest samples. Here segments began after 0, 3 and 5 updates, and the first two share the next
    update."""
    built = build(ga3c, learners=3)
    *brains, _, _ = built.brains
    trainer = built.learners[-1]
    for brain, updates in zip(brains, (0, 3, 5)):
        built.server.updates = updates
        brain.pull_parameter_server()
    for brain, size in zip(brains, (20, 20, 40)):
        update(brain, *batch(rng, size))
    built.progress.learning_threads = {"trainer1"}  # it ends when all samples are used
    with pytest.raises(a3c.Stopped):
        trainer.learn()
    assert points[0] == {"batch/samples": 40, "age": 5}
    assert {"batch/samples": 40, "age": 1} in points and built.server.updates == 5 + 2


def test_ga3cs_last_samples_are_still_taken():
    """A learner queues them and ends, just when the trainer, whose queue is still empty, looks
    whether anybody is left."""
    class Progress(a3c.Progress):
        @property
        def learning_threads(self):
            samples.put("the last samples")
            return {"trainer1"}

        @learning_threads.setter
        def learning_threads(self, names):
            pass
    samples = ga3c.Queue(Progress(options()), maxsize=1)
    assert samples.take() == "the last samples"


def test_ga3c_gives_each_learner_its_own_policy(build, rng, points):
    """A predictor answers eight learners at once, and each gets the policy for its own state."""
    built = build(ga3c, learners=8)
    states = rng.normal(size=(8, 1, 4))
    for brain, s in zip(built.brains, states):
        built.server.states.put((s, brain.answer))
    built.progress.learning_threads = {"trainer1"}  # the predictor ends when all are answered
    *_, predictor, _ = built.brains
    with pytest.raises(a3c.Stopped):
        built.learners[-2].learn()
    for brain, s in zip(built.brains, states):
        np.testing.assert_allclose(brain.answer.take(), predictor.predict_p(s), rtol=1e-6)
    assert points == [{"batch/states": 8}]


def test_ga3cs_queue_of_samples_is_short(build):
    """It has four places, because samples grow old as they wait."""
    samples = build(ga3c).server.samples
    for item in range(4):
        samples.put_nowait(item)  # raises queue.Full if there are fewer
    assert samples.full()


@pytest.mark.timeout(60)
def test_ga3c_may_have_several_predictors_and_trainers(build, monkeypatch):
    """All of them work, and all frames are played."""
    def learn(worker, really=ga3c.Predictor.learn):
        predicted.add(worker.name)
        really(worker)
    predicted = set()
    monkeypatch.setattr(ga3c.Predictor, "learn", learn)
    monkeypatch.setattr(ga3c, "PREDICTORS", 2)
    monkeypatch.setattr(ga3c, "TRAINERS", 2)
    built = build(ga3c, learners=3)
    built.progress.max_frames = 500
    built.run()
    assert built.progress.frames == 500 and not built.progress.learning_threads
    assert predicted == {"predictor1", "predictor2"}


def test_only_ga3cs_test_thread_has_its_own_network(build):
    """So a policy doesn't change while it is evaluated. Predictors and trainers never pull, because
    their weights are the server's."""
    built = build(ga3c, learners=2)
    tester = built.tester.environment.agent.brain
    assert not {w.name for w in tester.weights} & {w.name for w in built.server.weights}
    *_, predictor, trainer = built.brains
    assert predictor.weights == trainer.weights == built.server.weights
