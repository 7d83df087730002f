"""LocalBrain: loss, gradient, update, pull and push against NumPy."""
import functools

import numpy as np
import pytest
from conftest import a3c, tf

GAMMA_5 = 0.99 ** 5


def forward(weights, s):
    hidden_w, hidden_b, actor_w, actor_b, critic_w, critic_b = weights
    h = np.maximum(s @ hidden_w + hidden_b, 0)
    e = np.exp(h @ actor_w + actor_b)
    return e / e.sum(axis=1, keepdims=True), (h @ critic_w + critic_b)[:, 0]


def loss_terms(p, v, a, target, advantage):
    actor = -np.log((p * a).sum(axis=1) + 1e-10) * advantage
    return actor, 0.5 * (target - v) ** 2, 0.01 * (p * np.log(p + 1e-10)).sum(axis=1)


def terms(weights, s, a, R, s_, mask, fixed=None, through=()):
    """The terms of the loss (actor, critic, entropy), each (batch,). The bootstrapped value and the actor's advantage
    stay those of the weights `fixed`, unless `through` names them."""
    fixed = fixed or weights
    p, v = forward(weights, s)
    target, fixed_target = (R + GAMMA_5 * forward(w, s_)[1] * mask
                            for w in (weights if "bootstrap" in through else fixed, fixed))
    advantage = target - v if "advantage" in through else fixed_target - forward(fixed, s)[1]
    return loss_terms(p, v, a, target, advantage)


def gradient(weights, *samples, term=None, through=()):
    """By central differences in float64: of the mean loss, or of one of its terms, by every weight."""
    fixed, weights = ([w.astype(np.float64) for w in weights] for _ in range(2))
    gradients = []
    for w in weights:
        g = np.zeros_like(w)
        for i in np.ndindex(w.shape):
            old, up_down = w[i], []
            for step in (1e-6, -1e-6):
                w[i] = old + step
                parts = terms(weights, *samples, fixed, through)
                up_down.append(np.mean(sum(parts) if term is None else parts[term]))
            w[i], g[i] = old, (up_down[0] - up_down[1]) / 2e-6
        gradients.append(g)
    return gradients


def batch(rng, n=12):
    s, s_ = rng.normal(size=(2, n, 4)).astype(np.float32)
    a, mask = np.eye(2, dtype=np.float32)[rng.integers(2, size=n)], rng.integers(2, size=n).astype(np.float32)
    s_[mask == 0] = 0  # what stands for the state after the end
    return s, a, rng.normal(size=n).astype(np.float32), s_, mask


def put(session, variables, values):
    for v, value in zip(variables, values):
        session.run(v.initializer, {v.initial_value: np.broadcast_to(value, v.shape)})


def randomize(session, variables, rng):
    put(session, variables, [rng.normal(size=v.shape) * 0.7 for v in variables])


def queue(brain, s, a, R, s_, mask):
    for sample in zip(s, a, R, s_, mask):
        brain.train_push(*sample[:3], sample[3] if sample[4] else None)


def slots(variables, which):
    """RMSProp's running averages (`rms`) or momenta of the server's weights."""
    suffix = {"rms": "/RMSProp:0", "momentum": "/RMSProp_1:0"}[which]
    everything = {v.name: v for v in variables[0].graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}
    return [everything[v.name[:-2] + suffix] for v in variables]


def same(x, y):
    return all((a == b).all() for a, b in zip(x, y, strict=True))


def observed(monkeypatch):
    """Let servers that are built from now on have an observer. Returns the list that it fills."""
    seen = []
    monkeypatch.setattr(a3c, "ParameterServer", functools.partial(a3c.ParameterServer, observe=seen.append))
    return seen


@pytest.fixture
def opened(rng):
    """A brain with random weights in a graph that can still grow, its session, and placeholders for s, a, target."""
    with tf.Graph().as_default():
        server = a3c.ParameterServer(1)
        brain = a3c.LocalBrain("local_thread1", server)
        s, a, target = (tf.placeholder(tf.float32, shape) for shape in ((None, 4), (None, 2), (None,)))
        with server.session as session:
            session.run(tf.global_variables_initializer())
            randomize(session, [*brain.weights, *server.weights], rng)
            yield brain, session, s, a, target


def test_forward_pass_equals_numpy(opened, rng):
    brain, session, s_in, *_ = opened
    s = batch(rng)[0]
    for got, want in zip(session.run(brain.forward(s_in), {s_in: s}), forward(session.run(brain.weights), s)):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(brain.predict_p(s), forward(session.run(brain.weights), s)[0], rtol=1e-5)
    brain.pull_parameter_server()
    np.testing.assert_allclose(brain.predict_p(s), forward(session.run(brain.server.weights), s)[0], rtol=1e-5)


def test_each_term_of_the_loss_equals_numpy_even_where_the_policy_is_certain(opened, rng):
    brain, session, *_ = opened
    p = np.array([[1, 0], [1, 0], [0, 1], [0.5, 0.5], [0.3, 0.7], [0.3, 0.7], [0.9, 0.1]], np.float32)
    a = np.eye(2, dtype=np.float32)[[0, 1, 0, 0, 0, 1, 1]]
    v, target = rng.normal(size=(2, 7)).astype(np.float32)
    got = session.run(brain._build_loss(*map(tf.constant, (p, v, a, target))))
    np.testing.assert_allclose(got, loss_terms(p, v, a, target, target - v), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(got[0][1], -np.log(1e-10) * (target - v)[1], rtol=1e-4)


@pytest.mark.parametrize("term, moved", [(0, [0, 1, 2, 3]), (1, [0, 1, 4, 5]), (2, [0, 1, 2, 3])],
                         ids=["actor", "critic", "entropy"])
def test_the_gradient_of_each_term_by_every_weight_equals_finite_differences(opened, rng, term, moved):
    brain, session, s_in, a_in, target_in = opened
    value = brain._build_loss(*brain.forward(s_in), a_in, target_in)[term]
    gradients = tf.gradients(tf.reduce_mean(value), brain.weights)
    assert [i for i, g in enumerate(gradients) if g is not None] == moved  # the actor's term leaves the critic alone
    s, a, R, s_, mask = batch(rng)
    got = session.run([gradients[i] for i in moved], {s_in: s, a_in: a, target_in: R})
    want = gradient(session.run(brain.weights), s, a, R, s_, 0 * mask, term=term)
    for i, g in zip(moved, got):
        np.testing.assert_allclose(g, want[i], rtol=1e-3, atol=2e-6)
        assert np.abs(g).max() > 1e-4


@pytest.mark.parametrize("through", ["advantage", "bootstrap"])
def test_no_gradient_flows_through_the_advantage_of_the_actor_or_the_bootstrapped_value(build, rng, through):
    built = build(1)
    brain, session = built.learners[0].environment.agent.brain, built.server.session
    randomize(session, brain.weights, rng)
    samples, before = batch(rng), built.values(built.server.weights)
    queue(brain, *samples)
    brain.update_parameter_server()
    stopped, flowing = (np.concatenate([(5e-3 * g / np.sqrt(0.99 + 0.01 * g ** 2)).ravel() for g in gradients])
                        for gradients in (gradient(built.values(brain.weights), *samples),
                                          gradient(built.values(brain.weights), *samples, through=[through])))
    moved = np.concatenate([(x - y).ravel() for x, y in zip(before, built.values(built.server.weights))])
    np.testing.assert_allclose(moved, stopped, rtol=1e-3, atol=1e-6)
    assert np.abs(flowing - stopped).max() > 1e-4  # so the comparison could have failed


@pytest.mark.parametrize("ended", [True, False])
def test_the_target_bootstraps_unless_the_trial_has_ended(build, monkeypatch, ended):
    seen = observed(monkeypatch)
    built = build(1)
    brain = built.learners[0].environment.agent.brain
    hidden = np.concatenate([np.eye(4), np.zeros((4, 12))], axis=1)
    put(built.server.session, brain.weights, [hidden, 0, 0, 0, 1, 3])  # V(s) = 3 + the sum of a positive s, π = 1/2
    for _ in range(5):
        brain.train_push(np.ones(4), np.array([1, 0]), 2.0, None if ended else np.full(4, 2.0))
    brain.update_parameter_server()
    advantage = 2 - 7 if ended else 2 + 0.99 ** 5 * 11 - 7
    np.testing.assert_allclose(seen[0][:3], [np.log(2) * advantage, advantage ** 2 / 2, -0.01 * np.log(2)], rtol=1e-5)


@pytest.mark.parametrize("missing", ["make_callable", "_make_callable_from_options"])
def test_the_observer_gets_the_mean_terms_and_the_norm_of_each_updates_gradient(build, rng, monkeypatch, missing):
    monkeypatch.delattr(tf.Session.__base__, missing)  # one way of calling the graph is left
    seen = observed(monkeypatch)
    built = build(2)
    for turn, worker in enumerate(built.learners):
        brain, samples = worker.environment.agent.brain, batch(rng)
        randomize(built.server.session, brain.weights, rng)
        queue(brain, *(column[:4] for column in samples))
        brain.update_parameter_server()
        assert len(seen) == turn  # no update, no figures
        queue(brain, *(column[4:] for column in samples))
        brain.update_parameter_server()
        assert len(seen) == turn + 1 and type(seen[-1]) is list and len(seen[-1]) == 4
        weights = built.values(brain.weights)
        norm = sum((g ** 2).sum() for g in gradient(weights, *samples)) ** 0.5
        np.testing.assert_allclose(seen[-1], [*map(np.mean, terms(weights, *samples)), norm], rtol=1e-4)


def test_fewer_than_five_samples_stay_queued(build, rng):
    built = build(1)
    brain = built.learners[0].environment.agent.brain
    brain.pull_parameter_server()
    samples = batch(rng, 5)
    before = built.values(built.server.weights)
    queue(brain, *(column[:4] for column in samples))
    brain.update_parameter_server()
    assert len(brain.train_queue) == 4
    assert same(before, built.values(built.server.weights))
    queue(brain, *(column[4:] for column in samples))
    brain.update_parameter_server()
    assert brain.train_queue == []
    assert not same(before, built.values(built.server.weights))


def test_pull_and_push_copy_every_weight_and_nothing_else(build, rng):
    built = build(2)
    one, two = (worker.environment.agent.brain for worker in built.learners)
    averages = [variable for which in ("rms", "momentum") for variable in slots(built.server.weights, which)]
    for variables in (one.weights, two.weights, built.server.weights, averages):
        randomize(built.server.session, variables, rng)
    assert [w.shape for w in built.values(one.weights)] == [(4, 16), (16,), (16, 2), (2,), (16, 1), (1,)]

    def everything():
        return built.values([one.weights, two.weights, built.server.weights, averages])

    before = everything()
    one.pull_parameter_server()
    after = everything()
    assert same(after[0], before[2]) and same(after[1], before[1]) and same(after[2], before[2])
    two.push_parameter_server()
    after = everything()
    assert same(after[2], before[1]) and same(after[1], before[1]) and same(after[0], before[2])
    assert same(after[3], before[3])
    one.pull_parameter_server()
    assert same(everything()[0], before[1])
