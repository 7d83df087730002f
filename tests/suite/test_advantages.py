"""advantages.py: returns of segments, and generalized advantages."""
import numpy as np
import pytest
from helpers import a3c, tf

pytest.importorskip("gymnasium")
import memory
import memory_pendulum
import pendulum
import advantages


@pytest.mark.parametrize("variant, without_gae, actions, gamma_lambda", [
    (memory, a3c.LocalBrain, [1] * 20, 0.99 * 0.95),
    (memory_pendulum, pendulum.Brain, [[1.0]] * 20, 0.9 * 0.95)],
    ids=["memory", "memory_pendulum"])
def test_the_loss_with_gae_is_that_with_summed_advantages(
        restored_constants, rng, variant, without_gae, actions, gamma_lambda):
    """With GAE, the loss and its gradients are those without it for advantages that follow GAE's
    definition, Σ (γλ)^(u - t)·δᵤ over all u ≥ t. (With GAE p is [π, memory]; only π counts.)"""
    variant.configure()
    brain = object.__new__(variant.Brain)  # its loss needs no network
    delta = rng.normal(size=20)
    advantage = [sum(gamma_lambda ** (u - t) * delta[u] for u in range(t, 20)) for t in range(20)]
    with tf.Graph().as_default(), tf.Session() as session:
        p = tf.constant(rng.uniform(0.1, 1, (20, a3c.NUM_ACTIONS)), tf.float32)
        p_and_memory = tf.concat([p, tf.ones([20, 64])], axis=1)  # any memory
        v, a = tf.constant(rng.normal(size=20), tf.float32), tf.constant(actions)
        got = brain.build_loss(p_and_memory, v, a, tf.stop_gradient(v + delta))
        no_self = None  # its loss needs no brain
        wanted = without_gae.build_loss(no_self, p, v, a, tf.stop_gradient(v + advantage))

        def loss_and_gradients(terms):
            return [*terms, *tf.gradients(tf.add_n(terms), [p, v])]
        got, wanted = session.run([loss_and_gradients(got), loss_and_gradients(wanted)])
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n", [20, 5])
@pytest.mark.parametrize("terminal", [True, False])
def test_returns_end_with_their_segment_or_sooner(monkeypatch, rng, n, terminal):
    """A return sums n rewards, or fewer if its segment (the steps between two updates) ends sooner,
    and then adds V, except after a terminal step. (Here 47 steps are segments of 20, 20 and 7, and
    the state of step t is the number t.)"""
    monkeypatch.setattr(a3c, "Tmax", 20)  # as in Pong
    monkeypatch.setattr(a3c, "N_STEP_RETURN", n)
    brain = a3c.LocalBrain.__new__(a3c.LocalBrain)  # its queue needs no network
    brain.train_queue, samples = [], []
    agent = advantages.SegmentReturns(brain, None)
    r = rng.normal(size=47)
    for t in range(47):
        done = t == 46
        agent.advantage_push_local_brain(t, 0, r[t], t + 1, done, done and terminal)
        if (t + 1) % 20 == 0 or done:  # an update
            samples += brain.train_queue
            brain.train_queue.clear()
    assert [s for s, *_ in samples] == list(range(47)) and not agent.memory
    for t, (_, _, R, s_, discount) in enumerate(samples):
        segments_end = (t // 20 + 1) * 20
        end = min(t + n, segments_end, 47)
        assert R == pytest.approx(sum(0.99 ** k * r[t + k] for k in range(end - t)))
        assert s_ == end
        assert discount == (0 if terminal and end == 47 else pytest.approx(0.99 ** (end - t)))
