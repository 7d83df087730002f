"""ParameterServer, LocalBrain: forward pass, loss, gradient, RMSProp, against NumPy."""
import concurrent.futures
import threading
import unittest.mock

import numpy as np
import pytest
from helpers import Built, a3c, equal, random_samples, randomize, rms_averages, tf, update_with
from reference import forward, gradient, loss_terms, rmsprop, terms


@pytest.fixture
def built(rng):
    """Two learners, whose weights and the server's are random."""
    built = Built(2)
    for owner in (built.server, *built.brains):
        randomize(built.server.session, owner.weights, rng)
    return built


def test_the_policy_equals_numpy(built, rng):
    """A brain's policy is NumPy's, also for float64 states, which a graph call makes float32."""
    [brain, _], s = built.brains, random_samples(rng)[0]
    wanted, _ = forward(built.values(brain.weights), s)
    np.testing.assert_allclose(brain.predict_p(s), wanted, rtol=1e-4, atol=1e-6)


def test_loss_terms_equal_numpy(rng, monkeypatch):
    """The losses of actor, critic and entropy are NumPy's, also with another LOSS_V and
    LOSS_ENTROPY, and where a policy is certain: log 0 would give infinity or NaN."""
    monkeypatch.setattr(a3c, "LOSS_V", 1.5)  # three times its own value
    monkeypatch.setattr(a3c, "LOSS_ENTROPY", 0.04)  # four times
    p = np.array([[1, 0], [1, 0], [0, 1], [0.5, 0.5], [0.3, 0.7], [0.9, 0.1]], np.float32)
    a = np.array([0, 1, 0, 0, 0, 1])
    v, target = rng.normal(size=(2, 6)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        brain = None  # `build_loss` needs none
        got = session.run(a3c.LocalBrain.build_loss(brain, *map(tf.constant, (p, v, a, target))))
    actor, critic, entropy = loss_terms(p, v, a, target, target - v)
    np.testing.assert_allclose(got, (actor, 3 * critic, 4 * entropy), rtol=1e-4, atol=1e-7)


def test_learners_update_the_shared_weights_as_in_numpy(built, rng):
    """Each update is NumPy's: the gradient is that of the learner's own weights, but only the
    server's weights move, by RMSProp, whose averages the learners share."""
    copies = [brain.weights for brain in built.brains]
    weights, *own = built.values([built.server.weights, *copies])
    squares = [np.ones_like(w) for w in weights]  # as TensorFlow 1 starts them
    for brain, own_weights in [*zip(built.brains, own)] * 5:  # the two take turns
        samples = random_samples(rng)
        update_with(brain, *samples)
        rmsprop(weights, squares, gradient(own_weights, *samples))
        got = built.values([*built.server.weights, *rms_averages(built.server)])
        for x, wanted in zip(got, weights + squares, strict=True):
            np.testing.assert_allclose(x, wanted, rtol=1e-4, atol=2e-6)
    assert all(map(equal, own, built.values(copies)))


def test_an_update_adds_its_losses_and_its_norm_to_the_curves(built, rng, points):
    """An update adds a point with the losses of actor, critic and entropy, one number for each
    sample, and the gradient's norm, each under its own name. All equal NumPy's."""
    brain, samples = built.brains[0], random_samples(rng)
    weights = built.values(brain.weights)
    update_with(brain, *samples)
    actor, critic, entropy = terms(weights, weights, *samples)  # the second are held constant
    norm = sum((g ** 2).sum() for g in gradient(weights, *samples)) ** 0.5
    [point] = points
    wanted = {"loss/actor": actor, "loss/critic": critic, "loss/entropy": entropy,
              "gradient": norm}
    assert point.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_allclose(point[name], wanted[name], rtol=1e-4, atol=2e-6)


def everything(server):
    """The values of all variables, also of the brains' and the optimizer's."""
    with server.session.graph.as_default():
        return server.session.run(tf.global_variables())


def update_that_fails(brain, s, a, R, s_, discount, number=np.nan):
    """Let the brain try an update in which a reward is this number."""
    with pytest.raises(tf.errors.InvalidArgumentError, match="the gradient's norm isn't finite"):
        update_with(brain, s, a, np.append(R[:-1], number), s_, discount)


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e30])  # 1e30: only the norm is infinite
def test_a_gradient_that_isnt_finite_changes_nothing(built, rng, points, number):
    """A gradient that isn't finite is an error, and changes no weight, RMSProp average or curve."""
    before = everything(built.server)
    update_that_fails(built.brains[0], *random_samples(rng), number=number)
    assert equal(everything(built.server), before) and points == []


def test_after_a_bad_gradient_the_next_one_counts(built, rng):
    """A failed update's samples are gone, so the next one moves the weights, to finite values."""
    brain, samples = built.brains[0], random_samples(rng)
    update_that_fails(brain, *samples)
    before = everything(built.server)
    update_with(brain, *samples)
    after = everything(built.server)
    assert not equal(after, before) and all(np.isfinite(value).all() for value in after)


def test_no_update_is_lost_when_threads_update_at_once(rng):
    """Four threads make 50 updates each, at once. The weights and RMSProp's averages end as after
    200 updates one by one in NumPy. Ten more of each thread, with NaN, change nothing."""
    built, samples, barrier = Built(4), random_samples(rng), threading.Barrier(4)
    weights = built.values(built.server.weights)
    squares = [np.ones_like(w) for w in weights]

    def work(brain):
        brain.pull_parameter_server()
        barrier.wait(timeout=60)
        for turn in range(50):
            update_with(brain, *samples)
            if turn % 5 == 0:  # it must neither move anything nor lose another's update
                update_that_fails(brain, *samples)
    with concurrent.futures.ThreadPoolExecutor(4) as four:
        list(four.map(work, built.brains))
    gradients = gradient(weights, *samples)  # always the same, because nobody pulls again
    for _ in range(4 * 50):
        rmsprop(weights, squares, gradients)
    got = built.values([*rms_averages(built.server), *built.server.weights])
    for x, want in zip(got, squares + weights):  # a lost update can change an average by 1%
        np.testing.assert_allclose(x, want, rtol=2e-3, atol=1e-4)


def test_pull_and_push_copy_just_the_weights(built):
    """A pull copies the server's weights to the brain, a push the brain's to the server. RMSProp's
    averages stay."""
    one, two = built.brains
    variables = [one.weights, two.weights, built.server.weights, rms_averages(built.server)]
    first, second, server, squares = built.values(variables)
    one.pull_parameter_server()
    assert all(map(equal, built.values(variables), [server, second, server, squares]))
    two.push_parameter_server()
    assert all(map(equal, built.values(variables), [server, second, second, squares]))


def test_a_graph_call_is_prepared_once():
    """A GraphCall is prepared once: preparing it at each call would take ever more memory."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32)
        watched = unittest.mock.Mock(wraps=session)
        double = a3c.GraphCall(watched, feeds=[x], fetches=[2 * x])
        assert [double(n) for n in (1, 2, 3)] == [[2], [4], [6]]
        watched._make_callable_from_options.assert_called_once()


def test_first_weights_have_glorots_limit_and_biases_are_0():
    """At first, biases are 0, no weight exceeds √(6 / (inputs + outputs)), and in each layer one
    comes near it, as in a uniform distribution."""
    built = Built(0)
    arrays = built.values(built.server.weights)
    for weights, biases in zip(arrays[::2], arrays[1::2], strict=True):
        limit = (6 / sum(weights.shape)) ** 0.5
        # The largest of 16 or more uniform numbers is rarely below 0.7 of the limit.
        assert 0.7 * limit < abs(weights).max() <= limit and not biases.any()
