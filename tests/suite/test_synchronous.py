"""synchronous.py: rounds, the update at their end, and runs that can be repeated."""
import re

import numpy as np
import pytest
from helpers import LEARNED, NOT_LEARNED, EndsAt, a3c, batch, randomize, run, same, tf, update
from reference import gradient, rmsprop

pytest.importorskip("gymnasium")
import clipped
import synchronous


def test_a_round_makes_one_update(build, rng):
    """A round's gradient is the mean over all learners' samples. In the second round the last
    learner has none."""
    built = build(synchronous, learners=3)
    server = built.server
    server.wait_until = lambda condition: None  # here they work in turn
    randomize(server.session, server.weights, rng)
    wanted = built.values(server.weights)
    squares = [np.ones_like(w) for w in wanted]
    for frames, sizes in (30, (12, 5, 8)), (60, (12, 5, 0)):
        built.progress.frames = frames
        before, sums = built.values(server.weights), []
        for brain in built.brains:
            brain.pull_parameter_server()
        for brain, n in zip(built.brains, sizes):
            assert same(built.values(server.weights), before)  # not before the last one is ready
            samples = batch(rng, n)
            update(brain, *samples)
            if n:
                sums.append([n * g for g in gradient(before, *samples)])
        rmsprop(wanted, squares, [sum(of_all) / sum(sizes) for of_all in zip(*sums)])
        for got, want in zip(built.values(server.weights), wanted):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        assert server.frame == frames  # ε follows it


def test_synchronous_continues_with_the_saved_epsilon(saved):
    """A run that goes on doesn't explore anew: ε follows `server.frame`. A run of one frame makes
    no update, so there it is still what was restored."""
    _, server = run("--checkpoint", saved, "--max-frames", 1, main=synchronous.main)
    assert server.frame == 50  # the frames of the checkpoint `saved`


def test_synchronous_goes_with_what_subclasses_may_do():
    """A brain may tie its update to other operations and give it a name, and a server may evaluate
    the part of the frames that is left as soon as it is initialized."""
    class Brain(a3c.LocalBrain):
        def build_update(self, gradients, s):
            with tf.control_dependencies([tf.reduce_sum(s)]), tf.name_scope("mine"):
                return super().build_update(gradients, s)

    class Server(clipped.FallingRate):
        def initialize(self):
            part_left = self.build_part_left()
            super().initialize()
            assert self.session.run(part_left) == 1
    status, server = run("--max-frames", 200, "--workers", 2, main=synchronous.main,
                         server_class=Server, brain_class=Brain)
    assert status == NOT_LEARNED
    assert not any(map(np.array_equal, server.first, server.session.run(server.weights)))


def test_a_seed_repeats_a_run_of_synchronous_learners(monkeypatch, capsys):
    """The runs are the same bit for bit, even if the learning rate and the entropy bonus fall with
    the frames."""
    class FallingEntropy(a3c.LocalBrain):
        def build_loss(self, *batch):
            actor, critic, entropy = super().build_loss(*batch)
            return actor, critic, entropy * self.server.build_part_left()
    monkeypatch.setattr(clipped.Server, "anneal_frames", 20_000)
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 22)  # soon reached, so evaluations are compared, too

    def one_run(seed):
        status, server = run("--workers", 3, "--seed", seed, "--max-frames", 20_000,
                             main=synchronous.main, server_class=clipped.Server,
                             brain_class=FallingEntropy)
        lines = re.sub(r"\d+\.\d s", "", capsys.readouterr().out).splitlines()
        lines.sort()  # which of two threads prints first, in the same moment, is chance
        return status, lines, [w.tobytes() for w in server.session.run(server.weights)]
    first = one_run(7)
    assert first[0] == LEARNED and one_run(7) == first != one_run(8)


@pytest.mark.parametrize("begun_after, actions", [(0, {0, 1}), (1600, {0})])
def test_epsilon_is_that_of_the_rounds_beginning(build, begun_after, actions):
    """Which learner's frame comes first in a round is chance, so ε doesn't follow it. After 1600
    frames ε is 0, and this policy always goes left."""
    built = build(synchronous)
    built.server.frame = begun_after
    agent = built.learners[0].environment.agent
    # By its own frame, the first ε would be 0 and the second one half.
    assert {agent.explore([1.0, 0.0], frame=1600 - begun_after) for _ in range(100)} == actions


@pytest.mark.timeout(60)  # with a fault, learners would wait for one that has ended
@pytest.mark.parametrize("learned_mean, wanted", [(0, LEARNED), (200, NOT_LEARNED)])
def test_synchronous_learners_all_end(monkeypatch, learned_mean, wanted):
    """Once they have learned, or after the last frame, no learner waits for one that has ended."""
    monkeypatch.setattr(a3c, "LEARNED_MEAN", learned_mean)
    monkeypatch.setattr(a3c, "GRACE_SECONDS", 1000)  # so that none that hangs is given up
    status, _ = run("--workers", 3, "--max-frames", 1500, main=synchronous.main)
    assert status == wanted


def test_no_synchronous_sample_waits_for_the_next_round(build, monkeypatch):
    """Of ten steps, all are used in the round in which they were played. (The script would use six,
    and four in the next.)"""
    def update(brain, really=synchronous.Brain.update_parameter_server):
        sizes.append(len(brain.train_queue))
        really(brain)
    monkeypatch.setattr(synchronous.Brain, "update_parameter_server", update)
    built, sizes = build(synchronous, learners=2), []
    built.progress.max_frames = 40
    for learner in built.learners:
        learner.environment.env = EndsAt()
    built.run()
    assert sizes[:4] == [10] * 4  # of two learners, in two rounds


def test_synchronous_learners_have_one_order_in_all_processes(build):
    """Sets of names have another order in each process, so with them a seed would repeat no run."""
    learners = build(synchronous, learners=8).server.learners
    assert learners == [f"local_thread{n}" for n in range(1, 9)]
