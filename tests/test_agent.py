"""Agent: actions against their probabilities, and the n-step return against a sum written out."""
import collections

import numpy as np
import pytest
from conftest import Built, a3c
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_local_brain import put


@pytest.fixture(scope="module")
def lasting_agent():
    built = Built(1)
    yield built.learners[0].environment.agent
    built.server.session.close()


def discounted(rewards):
    return pytest.approx(sum(0.99 ** k * r for k, r in enumerate(rewards)), abs=1e-8)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(n=st.integers(1, 25), every=st.integers(1, 12),
       trials=st.lists(st.lists(st.floats(-100, 100), min_size=1, max_size=60), min_size=1, max_size=3))
@example(n=5, every=10, trials=[[0.0] * 199 + [1.0], [1.0] * 200, [-1.0]])
@example(n=20, every=7, trials=[[1.0, 2.0, 3.0, 4.0], [float(t) for t in range(40)]])
def test_n_step_return_equals_the_sum_of_its_discounted_rewards(lasting_agent, n, every, trials):
    """In trial after trial, while the queue is emptied every so many steps, as updates do. State t is filled with t."""
    agent, brain = lasting_agent, lasting_agent.brain
    agent.memory, agent.R = [], 0.0  # a failed example may have left something
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(a3c, "N_STEP_RETURN", n)
        for rewards in trials:
            samples, brain.train_queue, last = [], [], len(rewards) - 1
            for t, r in enumerate(rewards):
                s, s_ = np.full((2, 4), [[t], [t + 1]], np.float32)
                agent.advantage_push_local_brain(s, t % 2, r, None if t == last else s_)
                complete = t + 1 if t == last else max(0, t + 2 - n)
                assert len(samples) + len(brain.train_queue) == complete
                assert [(s[0], a.tolist(), r) for s, a, r in agent.memory] == [
                    (i, [1 - i % 2, i % 2], rewards[i]) for i in range(complete, t + 1)]
                assert agent.R == discounted(rewards[complete:t + 1])
                if t % every == 0:
                    samples, brain.train_queue = samples + brain.train_queue, []
            assert agent.R == 0  # exactly: no rounding error reaches the next trial
            for t, (s, a, R, s_, mask) in enumerate(samples + brain.train_queue):
                assert (s.tolist(), a.tolist()) == ([t] * 4, [1 - t % 2, t % 2])
                assert R == discounted(rewards[t:t + n])
                assert (s_.tolist(), mask) == (([t + n] * 4, 1) if t + n <= last else ([0] * 4, 0))


def test_a_sample_is_queued_as_soon_as_its_five_rewards_are_there(agent):
    for t in range(12):
        agent.advantage_push_local_brain(np.zeros(4, np.float32), 0, 1.0, np.zeros(4, np.float32))
        assert len(agent.brain.train_queue) == max(0, t - 3)
        assert len(agent.memory) == min(t + 1, 4)


def set_policy(agent, p_right):
    """Give the brain weights with which π(right|s) is p_right in every state."""
    session, (hidden_w, hidden_b, actor_w, actor_b, *_) = agent.server.session, agent.server.weights
    put(session, (hidden_w, hidden_b, actor_w), (0, 0, 0))
    put(session, [actor_b], [[0, np.log(p_right) - np.log1p(-p_right)]])
    agent.brain.pull_parameter_server()


def assert_drawn(number, n, p):
    """Fail unless `number` of n draws is within five standard deviations of what chance p gives."""
    assert abs(number - n * p) < 5 * (n * p * (1 - p)) ** 0.5 + 1


@pytest.mark.parametrize("frames, p, expected", [
    (1600, 0.5, 0.5), (1600, 0.9, 0.9), (1600, 0.999, 0.999), (1600, 0.1, 0.1),
    (0, 0.999, 0.5 * 0.5 + 0.5 * 0.999), (800, 0.9, 0.25 * 0.5 + 0.75 * 0.9)])
def test_actions_follow_epsilon_and_the_policy(agent, frames, p, expected):
    agent.server.frames = frames
    set_policy(agent, p)
    assert_drawn(sum(agent.act(np.zeros(4, np.float32)) for _ in range(20_000)), 20_000, expected)


def test_of_three_actions_each_is_drawn_with_its_probability(agent, monkeypatch):
    agent.server.frames = 1600
    monkeypatch.setattr(agent.brain, "predict_p", lambda s: np.array([[0.2, 0.5, 0.3]], np.float32))
    drawn = collections.Counter(agent.act(np.zeros(4, np.float32)) for _ in range(20_000))
    assert set(drawn) == {0, 1, 2}
    for action, p in enumerate((0.2, 0.5, 0.3)):
        assert_drawn(drawn[action], 20_000, p)


def test_while_epsilon_is_half_every_other_action_is_random_whatever_the_policy(agent, monkeypatch):
    set_policy(agent, 0.999)
    predict, asked, drawn = agent.brain.predict_p, [], collections.Counter()
    monkeypatch.setattr(agent.brain, "predict_p", lambda s: (asked.append(s), predict(s))[1])
    for _ in range(20_000):
        asked.clear()
        action = agent.act(np.zeros(4, np.float32))
        drawn[len(asked), action] += 1
    for outcome, p in {(0, 0): 0.25, (0, 1): 0.25, (1, 0): 0.0005, (1, 1): 0.4995}.items():
        assert_drawn(drawn[outcome], 20_000, p)


def test_greedy_takes_the_likelier_action_and_the_first_on_a_tie(agent):
    agent.server.frames = 0  # a random action would have a chance of 0.5
    for p, action in ((0.51, 1), (0.49, 0), (0.5, 0)):
        set_policy(agent, p)
        assert {agent.act(np.ones(4, np.float32), greedy=True) for _ in range(100)} == {action}
