"""LocalBrain: what it predicts, its loss, gradient, update, pull and push, against NumPy."""
import numpy as np
import pytest
from helpers import a3c, put, same, tf

CRITIC = [0, 1, 4, 5]  # places of the weights that V(s) depends on
ACTOR = [0, 1, 2, 3]


def forward(weights, s):
    hidden_w, hidden_b, actor_w, actor_b, critic_w, critic_b = weights
    h = np.maximum(s @ hidden_w + hidden_b, 0)
    e = np.exp(h @ actor_w + actor_b)
    return e / e.sum(axis=1, keepdims=True), (h @ critic_w + critic_b)[:, 0]


def loss_terms(p, v, a, target, advantage, loss_v=0.5, loss_entropy=0.01):
    actor = -np.log(p[np.arange(len(a)), a] + 1e-10) * advantage
    return actor, loss_v * (target - v) ** 2, loss_entropy * (p * np.log(p + 1e-10)).sum(axis=1)


def terms(weights, s, a, R, s_, gamma_n, fixed=None, through=""):
    """The terms of the loss: actor, critic, entropy. What is taken as given, the actor's advantage
    and V(s'), is that of the weights `fixed`, unless `through` names it."""
    fixed = fixed or weights
    p, v = forward(weights, s)
    fixed_target = R + gamma_n * forward(fixed, s_)[1]
    target = R + gamma_n * forward(weights, s_)[1] if through == "bootstrap" else fixed_target
    advantage = target - v if through == "advantage" else fixed_target - forward(fixed, s)[1]
    return loss_terms(p, v, a, target, advantage)


def gradient(weights, *samples, term=slice(None), through=""):
    """By central differences in float64: of the mean loss, or one of its terms, by each weight."""
    fixed = [w.astype(np.float64) for w in weights]
    weights = [w.copy() for w in fixed]
    gradients = []
    for w in weights:
        g = np.zeros_like(w)
        for i in np.ndindex(w.shape):
            w[i] += 1e-6
            up = np.sum(terms(weights, *samples, fixed, through)[term])
            w[i] -= 2e-6
            down = np.sum(terms(weights, *samples, fixed, through)[term])
            w[i] += 1e-6
            g[i] = (up - down) / 2e-6 / len(samples[0])
        gradients.append(g)
    return gradients


def batch(rng, n=12):
    """n samples in columns: s, a, R, s', weight of V(s')."""
    s, s_ = rng.normal(size=(2, n, 4))
    return s, rng.integers(2, size=n), rng.normal(size=n), s_, rng.choice([0, 0.95, 0.99], size=n)


def randomize(session, variables, rng):
    put(session, variables, [rng.normal(size=v.shape) * 0.7 for v in variables])


def queue(brain, *columns):
    for sample in zip(*columns):
        brain.train_push(*sample)


def averages(server):
    """What RMSProp keeps for each of the server's weights: averages of squares, and momenta."""
    return [[server.optimizer.get_slot(w, slot) for w in server.weights]
            for slot in ("rms", "momentum")]


@pytest.fixture
def built(build, rng):
    """Two learners, whose weights and the server's are random."""
    built = build(2)
    for owner in (built.server, *built.brains):
        randomize(built.server.session, owner.weights, rng)
    return built


@pytest.fixture
def opened(rng):
    """A brain with random weights in a graph that can still grow."""
    with tf.Graph().as_default():
        server = a3c.ParameterServer(1, 100, None)
        brain = a3c.LocalBrain("local_thread1", server)
        with server.session as session:
            server.initialize()
            randomize(session, brain.weights, rng)
            yield brain


def test_policy_and_value_equal_numpy(opened, rng):
    s = batch(rng)[0].astype(np.float32)
    run = opened.server.session.run
    for got, want in zip(run(opened.forward(s)), forward(run(opened.weights), s)):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(opened.predict_p(s), forward(run(opened.weights), s)[0], rtol=1e-5)
    opened.pull_parameter_server()
    wanted = forward(run(opened.server.weights), s)[0]
    np.testing.assert_allclose(opened.predict_p(s), wanted, rtol=1e-5)


@pytest.mark.parametrize("loss_v, loss_entropy", [(0.5, 0.01), (3.0, 0.7)])
def test_terms_of_the_loss_equal_numpy_even_where_the_policy_is_certain(
        opened, rng, monkeypatch, loss_v, loss_entropy):
    if loss_v != 0.5:  # the first case is what the script says itself
        monkeypatch.setattr(a3c, "LOSS_V", loss_v)
        monkeypatch.setattr(a3c, "LOSS_ENTROPY", loss_entropy)
    p = np.array([[1, 0], [1, 0], [0, 1], [0.5, 0.5], [0.3, 0.7], [0.9, 0.1]], np.float32)
    a = np.array([0, 1, 0, 0, 0, 1])
    v, target = rng.normal(size=(2, 6)).astype(np.float32)
    got = opened.server.session.run(opened._build_loss(*map(tf.constant, (p, v, a, target))))
    wanted = loss_terms(p, v, a, target, target - v, loss_v, loss_entropy)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(got[0][1], -np.log(1e-10) * (target - v)[1], rtol=1e-4)


@pytest.mark.parametrize("term, moved", [(0, ACTOR), (1, CRITIC), (2, ACTOR)])
def test_the_gradient_of_each_term_equals_finite_differences(opened, rng, term, moved):
    s, a, R, _, gamma_n = batch(rng)
    p, v = opened.forward(s.astype(np.float32))
    value = opened._build_loss(p, v, a, R.astype(np.float32))[term]
    gradients = tf.gradients(tf.reduce_mean(value), opened.weights)
    assert [i for i, g in enumerate(gradients) if g is not None] == moved
    weights = opened.server.session.run(opened.weights)
    wanted = gradient(weights, s, a, R, s, 0 * gamma_n, term=term)
    for i in moved:
        got = opened.server.session.run(gradients[i])
        np.testing.assert_allclose(got, wanted[i], rtol=1e-3, atol=2e-6)
        assert np.abs(got).max() > 1e-4


@pytest.mark.parametrize("through", ["advantage", "bootstrap"])
def test_no_gradient_flows_through_the_advantage_or_the_bootstrap(built, rng, through):
    samples = batch(rng)
    weights, before = built.values([built.brains[0].weights, built.server.weights])
    queue(built.brains[0], *samples)
    built.brains[0].update_parameter_server()
    after = built.values(built.server.weights)
    given = gradient(weights, *samples)
    flowing = gradient(weights, *samples, through=through)
    for x, y, g in zip(before, after, given):
        moved = 5e-3 * g / np.sqrt(0.99 + 0.01 * g ** 2)
        np.testing.assert_allclose(x - y, moved, rtol=1e-3, atol=1e-6)
    # So the comparison could have failed:
    assert max(np.abs(g - h).max() for g, h in zip(given, flowing)) > 0.05


def test_the_log_gets_the_terms_and_the_norm_of_each_gradient(built, rng):
    for turn, brain in enumerate(built.brains, 1):
        samples = batch(rng)
        queue(brain, *samples)
        brain.update_parameter_server()
        [figures] = built.log.of("update")[-1]
        weights = built.values(brain.weights)
        norm = sum((g ** 2).sum() for g in gradient(weights, *samples)) ** 0.5
        for got, want in zip(figures, [*terms(weights, *samples), norm], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
        assert len(built.log.events) == turn


@pytest.mark.parametrize("needed", [5, 8])
def test_an_update_waits_for_min_batch_samples_of_any_float_type(built, rng, monkeypatch, needed):
    assert a3c.MIN_BATCH == 5
    monkeypatch.setattr(a3c, "MIN_BATCH", needed)
    for float_type in (np.float32, np.float64):
        columns = [x if x.dtype == int else x.astype(float_type) for x in batch(rng, needed)]
        before = built.values(built.server.weights)
        queue(built.brains[0], *(column[1:] for column in columns))
        built.brains[0].update_parameter_server()
        assert len(built.brains[0].train_queue) == needed - 1
        assert same(before, built.values(built.server.weights))
        queue(built.brains[0], *(column[:1] for column in columns))
        built.brains[0].update_parameter_server()
        assert built.brains[0].train_queue == []
        assert not any(map(np.array_equal, before, built.values(built.server.weights)))


def test_pull_and_push_copy_every_weight_and_nothing_else(built, rng):
    one, two = built.brains
    variables = [one.weights, two.weights, built.server.weights, *averages(built.server)]
    for part in variables[3:]:
        randomize(built.server.session, part, rng)
    before = built.values(variables)
    one.pull_parameter_server()
    after = built.values(variables)
    assert same(after[0], before[2]) and all(map(same, after[1:], before[1:]))
    two.push_parameter_server()
    after = built.values(variables)
    assert same(after[2], before[1]) and same(after[0], before[2])
    assert same(after[1], before[1]) and all(map(same, after[3:], before[3:]))


def test_sizes_are_settings(monkeypatch, request, rng):
    for name, size in {"HIDDEN_UNITS": 7, "NUM_STATES": 3, "NUM_ACTIONS": 5}.items():
        monkeypatch.setattr(a3c, name, size)
    brain = request.getfixturevalue("opened")
    shapes = [tuple(w.shape) for w in brain.weights]
    assert shapes == [(3, 7), (7,), (7, 5), (5,), (7, 1), (1,)]
    assert brain.predict_p(rng.normal(size=(2, 3))).shape == (2, 5)
