"""Agent: actions against their probabilities, n-step returns against sums written out."""
import collections
import random
import unittest.mock

import numpy as np
import pytest
from helpers import a3c
from hypothesis import example, given, settings
from hypothesis import strategies as st

STATE = np.zeros(4)


def new_agent(p=(0.5, 0.5)):
    """An agent whose policy is p in every state, and whose brain keeps the samples."""
    brain = unittest.mock.Mock(samples=[])
    brain.predict_p.return_value = np.array([p], np.float32)
    brain.train_push = lambda *sample: brain.samples.append(sample)
    return a3c.Agent(brain, random.Random(0))


@settings(deadline=None, derandomize=True, max_examples=200)
@given(n=st.integers(1, 25), gamma=st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]),
       rewards=st.lists(st.floats(-100, 100), min_size=1, max_size=40), fell=st.booleans())
@example(n=5, gamma=0.9, fell=True,  # so long that a running sum would lose its digits
         rewards=np.random.default_rng(0).normal(size=1000).tolist())
def test_each_step_becomes_a_sample_with_its_n_step_return(n, gamma, rewards, fell):
    """Each step becomes one sample: its state and action, the discounted sum of the next n rewards
    (fewer at the end), the state after them, and what V of that state is multiplied by: γ to the
    number of rewards, or 0 if the episode ended with a fall."""
    agent, steps = new_agent(), len(rewards)
    with unittest.mock.patch.multiple(a3c, N_STEP_RETURN=n, GAMMA=gamma):
        for t, r in enumerate(rewards):
            done = t == steps - 1
            agent.advantage_push_local_brain(np.full(4, t), t % 2, r, np.full(4, t + 1), done,
                                             done and fell)
    assert len(agent.brain.samples) == steps
    for t, (s, a, R, s_, discount) in enumerate(agent.brain.samples):
        end = min(t + n, steps)  # fewer rewards at the end of the episode
        assert s.tolist() == [t] * 4 and a == t % 2 and s_.tolist() == [end] * 4
        wanted = np.sum(gamma ** np.arange(end - t) * rewards[t:end])
        assert R == pytest.approx(wanted, rel=1e-12, abs=1e-9)
        terminal = fell and end == steps  # then V(s_) doesn't count
        assert discount == (0 if terminal else pytest.approx(gamma ** (end - t)))


@pytest.mark.parametrize("frame, epsilon", [(0, 0.5), (800, 0.3), (1600, 0.1), (5000, 0.1)])
def test_an_action_is_random_with_probability_epsilon(monkeypatch, frame, epsilon):
    """With probability ε an action is random, otherwise it is drawn from p. ε falls from 0.5 to
    EPS_END, here 0.1, over 1600 frames, and then stays there."""
    p = [0.1, 0.8, 0.1]
    monkeypatch.setattr(a3c, "NUM_ACTIONS", 3)
    monkeypatch.setattr(a3c, "EPS_END", 0.1)
    agent, draws = new_agent(p), 6000
    drawn = collections.Counter(agent.act(STATE, frame) for _ in range(draws))
    for action, of_policy in enumerate(p):
        chance = epsilon / 3 + (1 - epsilon) * of_policy
        deviation = (draws * chance * (1 - chance)) ** 0.5  # of a binomial distribution
        assert abs(drawn[action] - draws * chance) < 5 * deviation  # which luck hardly exceeds


@pytest.mark.parametrize("p, likeliest", [([0.4, 0.6], 1), ([0.5, 0.5], 0)])
def test_greedy_play_takes_the_likeliest_action(p, likeliest):
    """Greedy play takes the likeliest action, the first of equals, and draws no random number."""
    agent = new_agent(p)
    before = agent.rng.getstate()
    assert agent.act_greedily(STATE) == likeliest and agent.rng.getstate() == before
