"""Agent: actions against their probabilities, n-step returns against sums written out."""
import collections
import random
import types

import numpy as np
import pytest
from helpers import a3c
from hypothesis import given, settings
from hypothesis import strategies as st

STATE = np.zeros(4)


class Brain:
    """Its policy is `p` in every state; keeps the samples."""

    def __init__(self, name, parameter_server):
        self.p = [0.5, 0.5]
        self.asked = 0
        self.samples = []

    def predict_p(self, s):
        assert s.shape == (1, 4)
        self.asked += 1
        return np.array([self.p], np.float32)

    def train_push(self, *sample):
        self.samples.append(sample)


class Agent(a3c.Agent):
    brain_class = Brain


def new_agent():
    server = types.SimpleNamespace(progress=a3c.Progress(1, 10 ** 6))
    return Agent("local_thread1", server, random.Random(0))


def play(agent, rewards, ended):
    """A trial with these rewards, in whose state t all numbers are t, and action t is t % 2."""
    agent.begin_trial()
    for t, r in enumerate(rewards):
        done = t == len(rewards) - 1
        before = len(agent.brain.samples)
        agent.advantage_push_local_brain(np.full(4, t), t % 2, r, np.full(4, t + 1), done,
                                         done and ended)
        if not done:  # a sample is queued as soon as its rewards are there
            assert len(agent.brain.samples) - before == (t + 1 >= a3c.N_STEP_RETURN)


def check(samples, rewards, ended, gamma, n):
    assert len(samples) == len(rewards)
    for t, (s, a, R, s_, gamma_n) in enumerate(samples):
        end = min(t + n, len(rewards))  # a sum of fewer at the end of the trial
        assert s.tolist() == [t] * 4 and a == t % 2 and s_.tolist() == [end] * 4
        wanted = np.sum(gamma ** np.arange(end - t) * rewards[t:end])
        assert R == pytest.approx(wanted, rel=1e-12, abs=1e-9)
        last = ended and end == len(rewards)
        assert gamma_n == (0 if last else pytest.approx(gamma ** (end - t)))


@settings(deadline=None, derandomize=True, max_examples=200)
@given(n=st.integers(1, 25), gamma=st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]),
       trials=st.lists(st.tuples(st.lists(st.floats(-100, 100), min_size=1, max_size=40),
                                 st.booleans()), min_size=1, max_size=3))
def test_n_step_returns_equal_sums_of_discounted_rewards(n, gamma, trials):
    agent = new_agent()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(a3c, "N_STEP_RETURN", n)
        patch.setattr(a3c, "GAMMA", gamma)
        for rewards, ended in trials:
            play(agent, rewards, ended)
            check(agent.brain.samples, rewards, ended, gamma, n)
            agent.brain.samples.clear()


@pytest.mark.parametrize("gamma", [None, 0.9])
def test_returns_stay_exact_over_a_thousand_steps(monkeypatch, rng, gamma):
    if gamma:  # else it is what the script says itself
        monkeypatch.setattr(a3c, "GAMMA", gamma)
    agent, rewards = new_agent(), rng.normal(size=1000)
    agent.advantage_push_local_brain(STATE, 0, 1.0, STATE, False, False)  # of an unfinished trial
    play(agent, rewards, ended=True)
    check(agent.brain.samples, rewards, True, gamma or 0.99, 5)


def assert_drawn(number, p, n=20_000):
    """Fail unless `number` of n draws is within five standard deviations of what chance p gives."""
    assert abs(number - n * p) < 5 * (n * p * (1 - p)) ** 0.5 + 1


@pytest.mark.parametrize("frames, epsilon, p", [
    (0, 0.5, [0.001, 0.999]), (800, 0.25, [0.1, 0.9]), (1600, 0, [0.5, 0.5]),
    (1600, 0, [0.999, 0.001]), (10 ** 6, 0, [0.2, 0.5, 0.3]), (800, 0.25, [0.2, 0.5, 0.3])])
def test_actions_follow_epsilon_and_the_policy(monkeypatch, frames, epsilon, p):
    monkeypatch.setattr(a3c, "NUM_ACTIONS", len(p))
    agent = new_agent()
    agent.progress.frames, agent.brain.p = frames, p
    drawn = collections.Counter(agent.act(STATE) for _ in range(20_000))
    for action, chance in enumerate(p):
        assert_drawn(drawn[action], epsilon / len(p) + (1 - epsilon) * chance)
    assert drawn.total() == 20_000 and set(drawn) <= set(range(len(p)))
    assert_drawn(agent.brain.asked, 1 - epsilon)  # no prediction is made for a random action


@pytest.mark.parametrize("p, action", [([0.49, 0.51], 1), ([0.51, 0.49], 0), ([0.5, 0.5], 0)])
def test_greedy_takes_the_likelier_action_and_the_first_on_a_tie(p, action):
    agent = new_agent()  # at frame 0 a random action would have a chance of 0.5
    agent.brain.p = p
    assert {agent.act(STATE, greedy=True) for _ in range(100)} == {action}
