"""memory.py and memory_pendulum.py: networks against NumPy, what is seen and remembered."""
import unittest.mock

import numpy as np
import pytest
from helpers import a3c, assert_network_equals, equal
from reference import layer, lstm, normal, relu
from scipy.special import softmax

pytest.importorskip("gymnasium")
import memory
import memory_pendulum


def memory_numpy(weights, s):
    w, b, actor, critic = weights
    c, h = lstm(s[:, :2], w, b, *np.split(s[0, 2:], 2))
    return np.hstack([softmax(h @ actor, axis=1), c, h]), (h @ critic)[:, 0]


def memory_pendulum_numpy(w, s):
    x, (c1, c2, h1, h2) = s[:, :2], np.split(s[0, 2:], 4)
    c1, h1 = lstm(x, *w[:2], c1, h1)
    c2, h2 = lstm(x, *w[2:4], c2, h2)
    actor = layer(relu(layer(np.hstack([x, h1]), *w[4:6])), *w[6:8])
    critic = layer(relu(layer(np.hstack([x, h2]), *w[8:10])), *w[10:])
    return np.hstack([normal(actor), c1, c2, h1, h2]), critic[:, 0]


@pytest.mark.parametrize("variant, in_numpy, remembered", [
    (memory, memory_numpy, 64), (memory_pendulum, memory_pendulum_numpy, 256)])
def test_networks_with_memory_equal_numpy(restored_constants, rng, variant, in_numpy, remembered):
    """From three successive states, each variant's network computes NumPy's memory, policy and V.
    It starts with the memory that the first state has."""
    variant.configure()
    s = rng.normal(size=(3, a3c.NUM_STATES))
    s[1:, -remembered:] = 9  # the memory that the others have must be ignored
    assert_network_equals(variant.Server, variant.Brain, in_numpy, s, rng)


@pytest.mark.parametrize("variant, environment_class, positions", [
    (memory, memory.Positions, [0, 2]),  # of the cart and the pole
    (memory_pendulum, memory_pendulum.Environment, [0, 1])])  # cos and sin of the angle
def test_variants_with_memory_see_positions_but_no_velocities(
        restored_constants, variant, environment_class, positions):
    """The environment shows only positions; with velocities, no memory would be needed."""
    variant.configure()
    agent = unittest.mock.Mock(**{"brain.server.seen": 2})  # numbers that the network sees
    environment = environment_class(agent, unittest.mock.Mock())
    partly, _ = environment.env.reset(seed=7)
    whole, _ = a3c.gym.make(a3c.ENV).reset(seed=7)
    np.testing.assert_array_equal(partly, whole[positions])


def test_memory_lasts_through_an_episode_and_is_then_forgotten(build):
    """Each state in a sample comes with what the LSTM remembers of the states before it: zeros at
    the start of every episode, and then what NumPy's LSTM computes."""
    built = build(memory)
    environment, [brain] = built.learners[0].environment, built.brains
    brain.update_parameter_server = unittest.mock.Mock()  # so all samples stay in the queue
    for _ in range(2):  # the second episode has to begin with zeros, too
        environment.run()
        s, _, _, s_, _ = map(np.array, zip(*brain.train_queue))
        brain.train_queue.clear()
        before, after = s[:, 2:], s_[:, 2:]  # what is remembered, after two numbers that are seen
        assert not before[0].any() and equal(s[1:], s_[:-1])  # s_ is one step later (GAE)
        policy_and_memory, _ = memory_numpy(built.values(brain.weights), s)
        wanted = policy_and_memory[:, a3c.NUM_ACTIONS:]
        np.testing.assert_allclose(after, wanted, rtol=1e-3, atol=1e-5)


def test_a_thread_remembers_only_what_it_plays(build):
    """A thread's memory comes from its own episode alone: neither what another thread plays nor a
    direct call of its own network (`predict_p`) changes it."""
    one, other = (learner.environment.agent for learner in build(memory, learners=2).learners)
    for agent in one, other:
        agent.brain.pull_parameter_server()
    one.policy(np.ones(2))
    remembered = one.remembered.copy()
    other.policy(np.zeros(2))
    one.brain.predict_p(np.zeros((1, a3c.NUM_STATES)))
    assert remembered.any() and np.array_equal(one.remembered, remembered)


def test_evaluations_and_films_begin_without_memory(build):
    """An episode begins with an empty memory, whatever the last one left, both in a new
    environment, as for a film, and in the thread's own."""
    environment = build(memory).tester.environment
    agent, remembered = environment.agent, []  # before each step

    def policy(s, really=agent.policy):
        remembered.append(agent.remembered)
        return really(s)
    agent.policy = policy
    agent.brain.pull_parameter_server()
    for env in environment.make(), environment.env, environment.make():
        remembered.clear()
        environment.play(env)
        first, second, *_ = remembered
        assert not first.any() and second.any()
