"""ParameterServer: ε, the count of frames, waiting, calls of the graph, first weights, the shared RMSProp."""
import threading

import numpy as np
import pytest
from conftest import a3c, tf
from test_local_brain import batch, gradient, queue, randomize, same, slots


@pytest.fixture
def server():
    with tf.Graph().as_default():
        server = a3c.ParameterServer(0, max_frames=3)
        with server.session:
            yield server


@pytest.mark.parametrize("frames, epsilon", [(0, 0.5), (800, 0.25), (1599, 0.5 / 1600), (1600, 0), (10 ** 6, 0)])
def test_epsilon_falls_linearly_over_the_frames_of_all_threads(server, frames, epsilon):
    server.frames = frames
    assert a3c.EPS_STEPS == 1600
    assert server.epsilon() == pytest.approx(epsilon)


@pytest.mark.parametrize("change, learner_ends, tester_ends", [
    ({}, False, False), ({"frames": 2}, False, False), ({"frames": 3}, True, False), ({"frames": 4}, True, False),
    ({"learned": True}, True, False), ({"stopped": True}, True, True)])
def test_next_frame_counts_those_of_learners_and_ends_whoever_has_to_end(server, change, learner_ends, tester_ends):
    vars(server).update(change)
    for learning, ends in (False, tester_ends), (True, learner_ends):
        frames = server.frames
        if ends:
            with pytest.raises(a3c.Stopped):
                server.next_frame(learning)
        else:
            server.next_frame(learning)
        assert server.frames == frames + (learning and not ends)


class Meets(int):
    """A number whose sums wait a while for a second thread to come into the same sum.
    Python 3.10 and later switch threads at calls and loops alone, hence never within `+= 1` of a plain number; others
    do (3.9 and before; without the GIL), and lose counts without a lock."""
    barrier = None

    def sum(self, other):
        try:
            self.barrier.wait(timeout=1)
        except threading.BrokenBarrierError:
            pass  # nobody came: a lock kept them out
        return type(self)(int(self) + other)

    __add__ = sum

    def __sub__(self, other):
        return self.sum(-other)


def test_threads_that_meet_while_counting_lose_no_frame_and_stay_in_the_budget(server, monkeypatch):
    monkeypatch.setattr(Meets, "barrier", threading.Barrier(2))
    server.frames, counted = Meets(0), []

    def count():
        try:
            server.next_frame(learning=True)
            counted.append(1)
        except a3c.Stopped:
            pass
    threads = [threading.Thread(target=count, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert server.frames == len(counted) == 3


def test_learners_that_meet_while_they_end_are_all_signed_off(build, monkeypatch):
    monkeypatch.setattr(Meets, "barrier", threading.Barrier(2))
    built = build(2)
    built.server.learners, built.server.stopped = Meets(2), True
    threads = [threading.Thread(target=worker.run, daemon=True) for worker in built.learners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert built.server.learners == 0


def test_wait_until_returns_when_the_condition_holds_and_otherwise_ends_when_stopped(server):
    answers = [False, False, True]
    server.wait_until(lambda: answers.pop(0))
    assert answers == []
    server.stopped = True
    server.wait_until(lambda: True)
    with pytest.raises(a3c.Stopped):
        server.wait_until(lambda: False)


@pytest.mark.parametrize("missing", ["make_callable", "_make_callable_from_options"])
def test_both_ways_of_calling_the_graph_feed_fetch_and_run_the_same(server, monkeypatch, missing):
    monkeypatch.delattr(tf.Session.__base__, missing)
    x, y = tf.placeholder(tf.float32, (None,)), tf.placeholder(tf.float32, ())
    runs = tf.get_variable("runs", (), initializer=tf.zeros_initializer())
    run = runs.assign_add(1.0)
    everything, fetch_only = server.graph_call([x, y], [x - y, x * y], [run]), server.graph_call([y, x], [x - y])
    target_only = server.graph_call(targets=[run, run.op])
    server.session.run(tf.global_variables_initializer())
    one, two = np.array([3, 5], np.float32), np.array(2, np.float32)
    for turn in 1, 2:
        results = everything(one, two)
        assert type(results) is list and [r.tolist() for r in results] == [[1, 3], [6, 10]]
        assert [r.tolist() for r in fetch_only(two, one)] == [[1, 3]]
        assert server.session.run(runs) == 2 * turn - 1
        assert target_only() == []
        assert server.session.run(runs) == 2 * turn


def test_weights_start_uniform_within_glorots_bounds_and_biases_at_zero(build):
    built = build(1)
    for w, b in zip(*[iter(built.values(built.server.weights))] * 2):
        bound = (6 / sum(w.shape)) ** 0.5
        assert 0.6 * bound < np.abs(w).max() <= bound and w.std() == pytest.approx(bound / 3 ** 0.5, rel=0.35)
        assert np.abs(w.mean()) < 3 * bound / (3 * w.size) ** 0.5
        assert not b.any()


def test_of_updates_that_meet_none_is_lost(build, rng):
    built = build(4)
    brains, samples = [worker.environment.agent.brain for worker in built.learners], batch(rng)
    for brain in brains:
        brain.pull_parameter_server()
    w, g = built.values(built.server.weights), gradient(built.values(brains[0].weights), *samples)  # the same for all
    barrier = threading.Barrier(len(brains))

    def update(brain):
        barrier.wait(timeout=60)
        for _ in range(50):
            queue(brain, *samples)
            brain.update_parameter_server()
    threads = [threading.Thread(target=update, args=(brain,)) for brain in brains]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rms = [np.ones_like(x) for x in w]
    for _ in range(4 * 50):
        for x, x_rms, x_g in zip(w, rms, g):
            x_rms[...] = 0.99 * x_rms + 0.01 * x_g ** 2
            x[...] = x - 5e-3 * x_g / np.sqrt(x_rms + 1e-10)
    for got, want in zip(built.values(slots(built.server.weights, "rms")), rms):
        np.testing.assert_allclose(got, want, rtol=2e-3)  # each lost one would make a difference of a hundredth
    for got, want in zip(built.values(built.server.weights), w):
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=1e-4)


def test_two_threads_update_the_server_by_rmsprop_with_shared_averages(build, rng):
    built = build(2)
    brains = [worker.environment.agent.brain for worker in built.learners]
    for brain in brains:
        randomize(built.server.session, brain.weights, rng)
    w = built.values(built.server.weights)
    rms = [np.ones_like(x) for x in w]  # as TensorFlow 1 starts them
    local = built.values([brain.weights for brain in brains])
    for turn in range(10):
        brain, samples = brains[turn % 2], batch(rng)
        queue(brain, *samples)
        brain.update_parameter_server()
        assert brain.train_queue == []
        for x, x_rms, g in zip(w, rms, gradient(local[turn % 2], *samples)):
            x_rms[...] = 0.99 * x_rms + 0.01 * g ** 2
            x[...] = x - 5e-3 * g / np.sqrt(x_rms + 1e-10)
        for got, want in zip(built.values(built.server.weights), w):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-6)
        for got, want in zip(built.values(slots(built.server.weights, "rms")), rms):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
        for before, brain in zip(local, brains):
            assert same(before, built.values(brain.weights))  # only the server's weights move
