"""synchronous.py: rounds, the update at their end, and runs that can be repeated."""
import re

import numpy as np
import pytest
from helpers import (
    LEARNED, NOT_LEARNED, EndsAt, a3c, equal, random_samples, randomize, run_main, tf,
    update_with)
from reference import gradient, rmsprop

pytest.importorskip("gymnasium")
import clipped
import synchronous


def test_a_round_makes_one_update(build, rng):
    """The weights move only when the last learner is ready, by one update with the samples of all.
    In the second round, the last one has none."""
    built = build(synchronous, learners=3)
    server = built.server
    server.wait_until = lambda condition: None  # here they work in turn
    randomize(server.session, server.weights, rng)
    wanted = built.values(server.weights)
    squares = [np.ones_like(w) for w in wanted]
    for sizes in (12, 5, 8), (12, 5, 0):
        for brain in built.brains:
            brain.pull_parameter_server()
        before, batches = built.values(server.weights), [random_samples(rng, n) for n in sizes]
        for brain, samples in zip(built.brains, batches):
            assert equal(built.values(server.weights), before)
            update_with(brain, *samples)
        samples_of_all = map(np.concatenate, zip(*batches))
        rmsprop(wanted, squares, gradient(before, *samples_of_all))
        for got, want in zip(built.values(server.weights), wanted):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_epsilon_gets_the_frames_after_each_round(build, rng):
    """After a round, `server.frame`, which ε follows, is the number of frames so far."""
    built = build(synchronous)
    built.progress.frames = 30
    update_with(built.brains[0], *random_samples(rng))
    assert built.server.frame == 30


def test_synchronous_continues_with_the_saved_epsilon(saved):
    """A run that goes on doesn't explore anew: ε follows `server.frame`, which is restored. A run
    of one frame makes no update, so `frame` is still the restored one."""
    _, server = run_main("--checkpoint", saved, "--max-frames", 1, main=synchronous.main)
    assert server.frame == 50  # the frames of the checkpoint `saved`


def test_a_subclass_may_extend_a_brains_update():
    """All weights still move if a subclass's update has a name and depends on other operations."""
    class Brain(a3c.LocalBrain):
        def build_update(self, gradients, s):
            with tf.control_dependencies([tf.reduce_sum(s)]), tf.name_scope("mine"):
                return super().build_update(gradients, s)
    status, server = run_main("--max-frames", 200, "--workers", 2, main=synchronous.main,
                              brain_class=Brain)
    assert status == NOT_LEARNED
    assert not any(map(np.array_equal, server.first, server.session.run(server.weights)))


def test_a_server_may_use_its_schedule_in_initialize():
    """A subclass's `initialize`, which runs before synchronous.py sets `frame`, may use its
    schedule. In a new run, all frames are left then, a part of 1."""
    class Server(clipped.FallingRate):
        def initialize(self):
            part_left = self.build_part_left()
            super().initialize()
            parts.append(self.session.run(part_left))
    parts = []
    run_main("--max-frames", 1, main=synchronous.main, server_class=Server)
    assert parts == [1]


class FallingEntropy(a3c.LocalBrain):
    """Its entropy bonus falls with the frames, as the learning rate of clipped.py does."""
    def build_loss(self, *batch):
        actor, critic, entropy = super().build_loss(*batch)
        return actor, critic, entropy * self.server.build_part_left()


def test_a_seed_repeats_a_run_of_synchronous_learners(monkeypatch, capsys):
    """Runs with one seed are equal bit for bit, even if learning rate and entropy bonus fall."""
    monkeypatch.setattr(clipped.Server, "anneal_frames", 20_000)
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 22)  # soon reached, so evaluations are compared, too

    def one_run(seed):
        status, server = run_main("--workers", 3, "--seed", seed, "--max-frames", 20_000,
                                  main=synchronous.main, server_class=clipped.Server,
                                  brain_class=FallingEntropy)
        lines = re.sub(r"\d+\.\d s|Seed \d+", "", capsys.readouterr().out).splitlines()
        lines.sort()  # which of two threads prints first, in the same moment, is chance
        return status, lines, [w.tobytes() for w in server.session.run(server.weights)]
    first, again, other = one_run(7), one_run(7), one_run(8)
    assert first[0] == LEARNED and first == again
    assert first[2] != other[2]  # the weights


@pytest.mark.parametrize("rounds_frame, own_frame, actions", [
    (0, 1600, {0, 1}), (1600, 0, {0})], ids=["ε is one half", "ε is 0"])
def test_epsilon_is_that_of_the_rounds_beginning(build, rounds_frame, own_frame, actions):
    """ε follows the frame at which the round began, not the learner's own, because it is chance
    whose comes first. The policy here always goes left."""
    built = build(synchronous)
    built.server.frame = rounds_frame
    agent = built.learners[0].environment.agent
    assert {agent.explore([1.0, 0.0], own_frame) for _ in range(100)} == actions


@pytest.mark.timeout(60)  # with a fault, learners would wait for one that has ended
@pytest.mark.parametrize("learned_mean, wanted", [(0, LEARNED), (200, NOT_LEARNED)])
def test_synchronous_learners_all_end(monkeypatch, learned_mean, wanted):
    """Once they have learned, or after the last frame, no learner waits for one that has ended."""
    monkeypatch.setattr(a3c, "LEARNED_MEAN", learned_mean)
    monkeypatch.setattr(a3c, "GRACE_SECONDS", 1000)  # so that none that hangs is given up
    status, _ = run_main("--workers", 3, "--max-frames", 1500, main=synchronous.main)
    assert status == wanted


def test_no_synchronous_sample_waits_for_the_next_round(build):
    """Of ten steps, all are used in the round in which they were played. (The script would use six,
    and four in the next.)"""
    built, sizes = build(synchronous), []
    [brain], environment = built.brains, built.learners[0].environment
    brain.update_parameter_server = lambda: sizes.append(len(brain.train_queue))
    environment.env, built.progress.max_frames = EndsAt(), 10
    with pytest.raises(a3c.Stopped):  # after these ten frames
        environment.run()
    assert sizes == [10]


def test_synchronous_learners_are_in_the_order_of_their_numbers(build):
    """The server lists its learners by their numbers. A set of their names has another order each
    time Python starts, so with it a seed would not repeat a run."""
    learners = build(synchronous, learners=8).server.learners
    assert learners == [f"local_thread{n}" for n in range(1, 9)]
