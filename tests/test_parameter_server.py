"""GraphCall and ParameterServer: calls of the graph, first weights, the shared RMSProp."""
import threading

import numpy as np
import pytest
from helpers import a3c, same, tf
from test_local_brain import averages, batch, gradient, queue, randomize


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_a_graph_call_feeds_fetches_and_runs_what_it_names(session):
    x = tf.placeholder(tf.float32, (None,))
    y = tf.placeholder(tf.int32, ())
    runs = tf.get_variable("runs", (), initializer=tf.zeros_initializer())
    count = runs.assign_add(1.0)
    y_float = tf.cast(y, tf.float32)
    everything = a3c.GraphCall(session, [x, y], [x - y_float, x * y_float], [count])
    only_fetches = a3c.GraphCall(session, [y, x], [x - y_float])
    only_runs = a3c.GraphCall(session, targets=[count, count.op])
    session.run(tf.global_variables_initializer())
    for turn in (1, 2):
        # NumPy's own types are cast: as they are, they would end the process.
        results = everything(np.array([3.0, 5.0]), np.float64(2))
        assert [r.tolist() for r in results] == [[1, 3], [6, 10]]
        assert [r.tolist() for r in only_fetches(2, (3, 5))] == [[1, 3]]
        assert session.run(runs) == 2 * turn - 1
        assert only_runs() == []
        assert session.run(runs) == 2 * turn


def test_weights_start_within_glorots_bounds_and_biases_at_zero(build):
    built = build(1)
    weights = built.values(built.server.weights)
    assert [w.shape for w in weights] == [(4, 16), (16,), (16, 2), (2,), (16, 1), (1,)]
    for w, b in zip(weights[::2], weights[1::2]):
        bound = (6 / sum(w.shape)) ** 0.5
        assert 0.6 * bound < np.abs(w).max() <= bound
        assert w.std() == pytest.approx(bound / 3 ** 0.5, rel=0.35)
        assert np.abs(w.mean()) < 2 * bound / w.size ** 0.5
        assert not b.any()


def rmsprop(weights, squares, gradients, rate=5e-3, decay=0.99):
    """One step, in place."""
    for w, square, g in zip(weights, squares, gradients):
        square[...] = decay * square + (1 - decay) * g ** 2
        w[...] = w - rate * g / np.sqrt(square + 1e-10)


@pytest.mark.parametrize("rate, decay", [(5e-3, 0.99), (0.1, 0.7)])
def test_learners_share_the_averages_of_rmsprop(build, rng, monkeypatch, rate, decay):
    if rate != 5e-3:  # the first case is what the script says itself
        monkeypatch.setattr(a3c, "LEARNING_RATE", rate)
        monkeypatch.setattr(a3c, "RMSPROP_DECAY", decay)
    built = build(2)
    for brain in built.brains:
        randomize(built.server.session, brain.weights, rng)
    weights = built.values(built.server.weights)
    squares = [np.ones_like(w) for w in weights]  # as TensorFlow 1 starts them
    local = built.values([brain.weights for brain in built.brains])
    for turn in range(10):
        samples = batch(rng)
        queue(built.brains[turn % 2], *samples)
        built.brains[turn % 2].update_parameter_server()
        rmsprop(weights, squares, gradient(local[turn % 2], *samples), rate, decay)
        for got, want in zip(built.values(built.server.weights), weights):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-6)
        for got, want in zip(built.values(averages(built.server)[0]), squares):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
        # Only the server's weights move.
        assert all(map(same, local, built.values([brain.weights for brain in built.brains])))


def test_of_updates_that_meet_none_is_lost(build, rng):
    built = build(4)
    samples = batch(rng)
    for brain in built.brains:
        brain.pull_parameter_server()
    weights = built.values(built.server.weights)
    gradients = gradient(weights, *samples)  # the same for all, all the time
    barrier = threading.Barrier(4)

    def update(brain):
        barrier.wait(timeout=60)
        for _ in range(50):
            queue(brain, *samples)
            brain.update_parameter_server()
    threads = [threading.Thread(target=update, args=(brain,)) for brain in built.brains]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    squares = [np.ones_like(w) for w in weights]
    for _ in range(4 * 50):
        rmsprop(weights, squares, gradients)
    # One that is lost would make a difference of a hundredth.
    for got, want in zip(built.values(averages(built.server)[0]), squares):
        np.testing.assert_allclose(got, want, rtol=2e-3)
    for got, want in zip(built.values(built.server.weights), weights):
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=1e-4)
