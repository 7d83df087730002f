"""Agent: actions against their probabilities, n-step returns against sums written out."""
import collections
import random
import unittest.mock

import numpy as np
import pytest
from helpers import a3c
from hypothesis import given, settings
from hypothesis import strategies as st

STATE = np.zeros(4)


def new_agent(p=(0.5, 0.5)):
    """An agent whose policy is p in every state, and whose brain notes the samples."""
    brain = unittest.mock.Mock()
    brain.predict_p.return_value = np.array([p], np.float32)
    return a3c.Agent(brain, random.Random(0))


def play_and_check(agent, rewards, ended, gamma, n):
    """Tell the agent an episode with these rewards, and check the samples that it queues. All
    numbers of state t are t, and action t is t % 2. ended: the pole fell, so V doesn't count."""
    steps = len(rewards)
    for t, r in enumerate(rewards):
        done = t == steps - 1
        agent.advantage_push_local_brain(np.full(4, t), t % 2, r, np.full(4, t + 1), done,
                                         done and ended)
    samples = [call.args for call in agent.brain.train_push.call_args_list]
    assert len(samples) == steps
    for t, (s, a, R, s_, discount) in enumerate(samples):
        end = min(t + n, steps)  # fewer rewards at the end of the episode
        assert s.tolist() == [t] * 4 and a == t % 2 and s_.tolist() == [end] * 4
        wanted = np.sum(gamma ** np.arange(end - t) * rewards[t:end])
        assert R == pytest.approx(wanted, rel=1e-12, abs=1e-9)
        last = ended and end == steps
        assert discount == (0 if last else pytest.approx(gamma ** (end - t)))


@settings(deadline=None, derandomize=True, max_examples=200)
@given(n=st.integers(1, 25), gamma=st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]),
       rewards=st.lists(st.floats(-100, 100), min_size=1, max_size=40), ended=st.booleans())
def test_n_step_returns_equal_sums_of_discounted_rewards(n, gamma, rewards, ended):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(a3c, "N_STEP_RETURN", n)
        patch.setattr(a3c, "GAMMA", gamma)
        play_and_check(new_agent(), rewards, ended, gamma, n)


def test_returns_stay_exact_over_a_thousand_steps(monkeypatch, rng):
    monkeypatch.setattr(a3c, "GAMMA", 0.9)
    play_and_check(new_agent(), rng.normal(size=1000), True, 0.9, 5)


@pytest.mark.parametrize("frame, epsilon, p", [
    (0, 0.5, [0.001, 0.999]), (800, 0.25, [0.2, 0.5, 0.3]), (1600, 0, [0.9, 0.1]),
    (5000, 0, [0.6, 0.4])])
def test_actions_follow_epsilon_and_the_policy(monkeypatch, frame, epsilon, p):
    monkeypatch.setattr(a3c, "NUM_ACTIONS", len(p))
    agent, draws = new_agent(p), 20_000
    drawn = collections.Counter(agent.act(STATE, frame) for _ in range(draws))
    for action, chance in enumerate(p):
        chance = epsilon / len(p) + (1 - epsilon) * chance
        deviation = (draws * chance * (1 - chance)) ** 0.5
        assert abs(drawn[action] - draws * chance) < 5 * deviation
    assert set(drawn) == set(range(len(p)))


@pytest.mark.parametrize("p, action", [([0.49, 0.51], 1), ([0.5, 0.5], 0)])
def test_greedy_takes_the_likelier_action_and_the_first_on_a_tie(p, action):
    agent = new_agent(p)  # at frame 0 a random action would have a chance of 0.5
    assert {agent.act(STATE, 0, greedy=True) for _ in range(100)} == {action}


def test_explore_chooses_a_learners_actions_and_greedy_play_does_not_call_it():
    class Agent(a3c.Agent):
        def explore(self, p, frame):
            called.append((p, frame))
            return 7
    agent, called = Agent(new_agent([0.25, 0.75]).brain, random.Random(0)), []
    assert agent.act(STATE, 5) == 7 and called == [([0.25, 0.75], 5)]
    assert agent.act(STATE, 6, greedy=True) == 1 and len(called) == 1
