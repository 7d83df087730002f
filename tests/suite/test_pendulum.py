"""pendulum.py: its network and loss against NumPy, its torques and rewards."""
import random
import unittest.mock

import numpy as np
import pytest
from helpers import LEARNED, a3c, assert_network_equals, tf
from reference import differences, layer, normal, relu

pytest.importorskip("gymnasium")
import pendulum


def pendulum_numpy(w, s):
    s = s / [1, 1, 8]
    actor, critic = (layer(relu(layer(s, *of[:2])), *of[2:]) for of in (w[:4], w[4:]))
    return normal(actor), critic[:, 0]


def test_pendulums_network_equals_numpy(restored_constants, rng):
    """The mean and the spread of the torques, and V, are NumPy's."""
    pendulum.configure()
    s = rng.normal(size=(3, 3))
    assert_network_equals(pendulum.Server, pendulum.Brain, pendulum_numpy, s, rng)


@pytest.mark.parametrize("dimensions", [1, 2])
def test_pendulums_loss_and_its_gradients_equal_numpy(restored_constants, rng, dimensions):
    """Loss and gradients are NumPy's, also for two independent torques (densities multiply)."""
    pendulum.configure()
    a3c.LOSS_ENTROPY = 0.1  # ten times its own value
    p = np.hstack([rng.normal(size=(9, dimensions)), rng.uniform(0.1, 2, size=(9, dimensions))])
    a = rng.normal(size=(9, dimensions)) * 4  # some beyond the torque that the environment takes
    v, target = rng.normal(size=(2, 9))
    advantage = target - v  # a constant for the actor

    def terms():
        mean, variance = p[:, :dimensions], p[:, dimensions:] ** 2
        density = np.exp(-(a - mean) ** 2 / (2 * variance)) / (2 * np.pi * variance) ** 0.5
        entropy = (0.5 * np.log(2 * np.pi * np.e * variance)).sum(axis=1)
        actor = -np.log(density.prod(axis=1)) * advantage
        return actor, 0.5 * (target - v) ** 2, -0.1 * entropy
    with tf.Graph().as_default(), tf.Session() as session:
        policy, values = tf.constant(p), tf.constant(v)
        brain = object.__new__(pendulum.Brain)  # its loss needs no network
        taken = tf.placeholder_with_default(a, (None, *brain.action_shape))
        got = brain.build_loss(policy, values, taken, tf.constant(target))
        np.testing.assert_allclose(session.run(got), terms(), rtol=1e-9)
        gradients = session.run(tf.gradients(tf.add_n(got), [policy, values]))
    for g, wanted in zip(gradients, differences(lambda: np.sum(terms()), [p, v])):
        np.testing.assert_allclose(g, wanted, rtol=1e-4, atol=1e-6)


MEANS, SPREADS = [1, -1.75], [0.1, 0.3]


def two_torques(seed):
    """An agent whose two torques have MEANS and SPREADS in every state."""
    brain = unittest.mock.Mock()
    brain.predict_p.return_value = np.array([[*MEANS, *SPREADS]])
    return pendulum.Agent(brain, random.Random(seed))


def test_greedy_torques_are_the_mean(monkeypatch):
    monkeypatch.setattr(a3c, "NUM_ACTIONS", 4)  # means and spreads of two torques
    greedy = two_torques(seed=0).act_greedily(np.ones(3))
    assert greedy.dtype == np.float32 and greedy.tolist() == MEANS


def test_torques_are_drawn_with_the_policys_spread(monkeypatch):
    """Torques are drawn with the policy's mean and spread, and aren't cut at -2, Pendulum's limit:
    the loss needs the probability of what was drawn."""
    monkeypatch.setattr(a3c, "NUM_ACTIONS", 4)  # means and spreads of two torques
    agent = two_torques(seed=0)
    drawn = np.array([agent.act(np.ones(3), frame=0) for _ in range(5000)])
    assert drawn.dtype == np.float32 and drawn.min() < -2
    np.testing.assert_allclose(drawn.mean(axis=0), MEANS, atol=0.03)
    np.testing.assert_allclose(drawn.std(axis=0), SPREADS, rtol=0.06)


def test_the_seed_decides_pendulums_torques():
    """The seed decides which torques are drawn. Otherwise --seed would never repeat a run."""
    first, again, other = (two_torques(seed).act(np.ones(3), 0).tolist() for seed in (5, 5, 6))
    assert first == again != other


def test_pendulums_rewards_are_scaled(build):
    """Rewards from -16 to 0 are scaled to -0.5 to 0.5, so that V is of the order of 1."""
    environment = build(pendulum).learners[0].environment
    for r, scaled in (-16.0, -0.5), (-8.0, 0), (0.0, 0.5):
        assert environment.reward(s=None, a=None, r=r, s_=None, step=3, done=False) == scaled


def test_pendulum_is_evaluated_over_a_hundred_episodes(restored_constants, monkeypatch, capsys):
    """An evaluation has a hundred episodes, because they vary too much for ten. Here any policy
    reaches the threshold, and a fixed score stands for each episode that the test thread plays."""
    monkeypatch.setitem(pendulum.TASK, "LEARNED_MEAN", -5000)  # so training reaches the threshold
    monkeypatch.setattr(pendulum.Environment, "play", lambda self, env: -150.0)
    assert pendulum.main("--render none --workers 1 --test-episodes 1".split()) == LEARNED
    assert "\nEvaluation: mean -150.0 of 100 episodes\n" in capsys.readouterr().out


def test_v_counts_after_pendulums_time_limit(build, monkeypatch):
    """Pendulum's episodes end only because their time is up, so V of the last state counts. The
    last sample has one reward, so its discount is γ."""
    built, discounts = build(pendulum), []
    [brain] = built.brains
    monkeypatch.setattr(brain, "train_push", lambda *sample: discounts.append(sample[-1]))
    built.learners[0].environment.run()
    assert len(discounts) == 200 and discounts[-1] == pytest.approx(a3c.GAMMA)
