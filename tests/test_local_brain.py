"""LocalBrain: loss, gradient, update, pull and push against NumPy."""
import numpy as np
import pytest
from conftest import a3c, tf

GAMMA_5 = 0.99 ** 5


def forward(weights, s):
    hidden_w, hidden_b, actor_w, actor_b, critic_w, critic_b = weights
    h = np.maximum(s @ hidden_w + hidden_b, 0)
    e = np.exp(h @ actor_w + actor_b)
    return e / e.sum(axis=1, keepdims=True), (h @ critic_w + critic_b)[:, 0]


def terms(weights, s, a, target, advantage):
    """The terms of the loss, with `advantage` held constant in the actor's: (actor, critic, entropy), each (batch,)."""
    p, v = forward(weights, s)
    actor = -np.log((p * a).sum(axis=1) + 1e-10) * advantage
    return actor, 0.5 * (target - v) ** 2, 0.01 * (p * np.log(p + 1e-10)).sum(axis=1)


def loss(weights, s, a, target, advantage):
    return np.mean(sum(terms(weights, s, a, target, advantage)))


def gradient(weights, s, a, R, s_, mask):
    """By central differences, in float64; neither V(s') nor the actor's advantage moves with the weights."""
    weights = [w.astype(np.float64) for w in weights]
    target = R + GAMMA_5 * forward(weights, s_)[1] * mask
    advantage = target - forward(weights, s)[1]
    gradients = []
    for w in weights:
        g = np.zeros_like(w)
        for i in np.ndindex(w.shape):
            old, up_down = w[i], []
            for step in (1e-6, -1e-6):
                w[i] = old + step
                up_down.append(loss(weights, s, a, target, advantage))
            w[i], g[i] = old, (up_down[0] - up_down[1]) / 2e-6
        gradients.append(g)
    return gradients


def batch(rng, n=12):
    s, s_ = rng.normal(size=(2, n, 4)).astype(np.float32)
    a = np.eye(2, dtype=np.float32)[rng.integers(2, size=n)]
    return s, a, rng.normal(size=n).astype(np.float32), s_, rng.integers(2, size=n).astype(np.float32)


def randomize(built, variables, rng):
    for v in variables:
        built.server.session.run(v.initializer, {v.initial_value: rng.normal(size=v.shape) * 0.7})


def queue(brain, s, a, R, s_, mask):
    for sample in zip(s, a, R, s_, mask):
        brain.train_push(*sample[:3], sample[3] if sample[4] else None)


def slots(variables, which):
    """RMSProp's running averages (`rms`) or momenta of the server's weights."""
    suffix = {"rms": "/RMSProp:0", "momentum": "/RMSProp_1:0"}[which]
    everything = {v.name: v for v in variables[0].graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}
    return [everything[v.name[:-2] + suffix] for v in variables]


def test_forward_pass_and_loss_equal_numpy(build, rng):
    with tf.Graph().as_default():
        server = a3c.ParameterServer(1)
        brain = a3c.LocalBrain("local_thread1", server)
        p, v = tf.placeholder(tf.float32, (None, 2)), tf.placeholder(tf.float32, (None,))
        a, R = tf.placeholder(tf.float32, (None, 2)), tf.placeholder(tf.float32, (None,))
        value = brain._build_loss(p, v, a, R)
        s_in = tf.placeholder(tf.float32, (None, 4))
        outputs = brain.forward(s_in)
        with server.session as session:
            session.run(tf.global_variables_initializer())
            s, one_hot, target, _, _ = batch(rng)
            weights = session.run(brain.weights)
            got_p, got_v = session.run(outputs, {s_in: s})
            want_p, want_v = forward(weights, s)
            np.testing.assert_allclose(got_p, want_p, rtol=1e-5)
            np.testing.assert_allclose(got_v, want_v, rtol=1e-4, atol=1e-6)
            got = session.run(value, {p: got_p, v: got_v, a: one_hot, R: target})
            np.testing.assert_allclose(got, terms(weights, s, one_hot, target, target - got_v), rtol=1e-4, atol=1e-6)
            brain.pull_parameter_server()
            np.testing.assert_allclose(brain.predict_p(s), forward(session.run(server.weights), s)[0], rtol=1e-5)


def test_two_threads_update_the_server_by_rmsprop_with_shared_averages(build, rng):
    built = build(2)
    brains = [worker.environment.agent.brain for worker in built.learners]
    for brain in brains:
        randomize(built, brain.weights, rng)
    w = built.values(built.server.weights)
    rms = [np.ones_like(x) for x in w]  # as TensorFlow 1 starts them
    for turn in range(10):
        brain = brains[turn % 2]
        local, samples = built.values(brain.weights), batch(rng)
        samples[3][samples[4] == 0] = a3c.NONE_STATE
        queue(brain, *samples)
        brain.update_parameter_server()
        assert brain.train_queue == []
        for x, x_rms, g in zip(w, rms, gradient(local, *samples)):
            x_rms[...] = 0.99 * x_rms + 0.01 * g ** 2
            x[...] = x - 5e-3 * g / np.sqrt(x_rms + 1e-10)
        for got, want in zip(built.values(built.server.weights), w):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-6)
        for got, want in zip(built.values(slots(built.server.weights, "rms")), rms):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
        for before, after in zip(local, built.values(brain.weights)):
            np.testing.assert_array_equal(before, after)  # only the server's weights move


def test_fewer_than_five_samples_stay_queued(build, rng):
    built = build(1)
    brain = built.learners[0].environment.agent.brain
    brain.pull_parameter_server()
    samples = batch(rng, 5)
    before = built.values(built.server.weights)
    queue(brain, *(column[:4] for column in samples))
    brain.update_parameter_server()
    assert len(brain.train_queue) == 4
    for x, y in zip(before, built.values(built.server.weights)):
        np.testing.assert_array_equal(x, y)
    queue(brain, *(column[4:] for column in samples))
    brain.update_parameter_server()
    assert brain.train_queue == []
    assert any((x != y).any() for x, y in zip(before, built.values(built.server.weights)))


def test_pull_and_push_copy_every_weight_and_nothing_else(build, rng):
    built = build(2)
    one, two = (worker.environment.agent.brain for worker in built.learners)
    for variables in (one.weights, two.weights, built.server.weights):
        randomize(built, variables, rng)
    assert [w.shape for w in built.values(one.weights)] == [(4, 16), (16,), (16, 2), (2,), (16, 1), (1,)]

    def everything():
        return built.values([one.weights, two.weights, built.server.weights, slots(built.server.weights, "rms")])

    def same(x, y):
        return all((a == b).all() for a, b in zip(x, y, strict=True))

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


@pytest.mark.parametrize("fast", [True, False])
def test_both_ways_of_calling_the_graph_agree(build, rng, monkeypatch, fast):
    if not fast:
        monkeypatch.delattr(tf.Session.__base__, "_make_callable_from_options")
    built = build(1)
    brain = built.learners[0].environment.agent.brain
    brain.pull_parameter_server()
    samples = batch(rng)
    p, _ = forward(built.values(brain.weights), samples[0])
    np.testing.assert_allclose(brain.predict_p(samples[0]), p, rtol=1e-5)
    before = built.values(built.server.weights)
    queue(brain, *samples)
    brain.update_parameter_server()
    assert all((x != y).any() for x, y in zip(before, built.values(built.server.weights)))
    brain.push_parameter_server()
    for x, y in zip(before, built.values(built.server.weights)):
        np.testing.assert_array_equal(x, y)
