"""memory.py and memory_pendulum.py: networks against NumPy, what is seen and remembered."""
import unittest.mock

import numpy as np
import pytest
from helpers import a3c, check_network, same
from reference import layer, lstm, normal, relu
from scipy.special import softmax

pytest.importorskip("gymnasium")
import memory
import memory_pendulum


def memory_numpy(w, s):
    c, h = lstm(s[:, :2], *w[:2], *np.split(s[0, 2:], 2))
    return np.hstack([softmax(h @ w[2], axis=1), c, h]), (h @ w[3])[:, 0]


def memory_pendulum_numpy(w, s):
    x, (c1, c2, h1, h2) = s[:, :2], np.split(s[0, 2:], 4)
    c1, h1 = lstm(x, *w[:2], c1, h1)
    c2, h2 = lstm(x, *w[2:4], c2, h2)
    actor = layer(relu(layer(np.hstack([x, h1]), *w[4:6])), *w[6:8])
    critic = layer(relu(layer(np.hstack([x, h2]), *w[8:10])), *w[10:])
    return np.hstack([normal(actor), c1, c2, h1, h2]), critic[:, 0]


@pytest.mark.parametrize("variant, in_numpy, remembered", [
    (memory, memory_numpy, 64), (memory_pendulum, memory_pendulum_numpy, 256)])
def test_networks_with_memory_equal_numpy(put_back, rng, variant, in_numpy, remembered):
    variant.configure()
    s = rng.normal(size=(3, a3c.NUM_STATES))
    s[1:, -remembered:] = 9  # only the memory before the first state counts
    check_network(variant.Server, variant.Brain, in_numpy, s, rng)


@pytest.mark.parametrize("variant, environment_class, positions", [
    (memory, memory.Positions, [0, 2]),  # of the cart and the pole
    (memory_pendulum, memory_pendulum.Environment, [0, 1])])  # cos and sin of the angle
def test_variants_with_memory_see_positions_but_no_velocities(
        put_back, variant, environment_class, positions):
    variant.configure()
    agent = unittest.mock.Mock(**{"brain.server.seen": 2})
    environment = environment_class(agent, unittest.mock.Mock())
    partly, _ = environment.env.reset(seed=7)
    whole, _ = a3c.gym.make(a3c.ENV).reset(seed=7)
    np.testing.assert_array_equal(partly, whole[positions])


def test_samples_hold_the_memory_of_their_episode(build):
    """And of their thread, whatever others play. Each episode, also a film's, begins with zeros."""
    built = build(memory, learners=2, Tmax=1000)  # one update an episode
    environment, other = (learner.environment for learner in built.learners)
    agent, brain, before = environment.agent, environment.agent.brain, []  # the memories

    def policy_among_others(s, really=agent.policy):
        before.append(agent.remembered)
        p = really(s)
        other.agent.act(np.ones(2), 0)
        brain.predict_p(np.ones((1, 66)))  # 2 numbers that are seen, 64 that are remembered
        return p
    agent.policy = policy_among_others
    brain.update_parameter_server = unittest.mock.Mock()
    for episode in 1, 2:
        environment.run()
        s, _, _, s_, _ = map(np.array, zip(*brain.train_queue))
        brain.train_queue.clear()
        assert brain.update_parameter_server.call_count == episode
        assert not s[0, 2:].any() and same(s[1:], s_[:-1])
        policy_and_memory, _ = memory_numpy(built.values(brain.weights), s)
        np.testing.assert_allclose(s_[:, 2:], policy_and_memory[:, 2:], rtol=1e-3, atol=1e-5)
    for env in environment.env, environment.make():  # of an evaluation, of a test episode
        before.clear()
        environment.play(env)
        assert before[1].any() and not before[0].any()
