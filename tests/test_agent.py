"""Agent: actions, and the n-step return against a sum written out."""
import numpy as np
import pytest
from conftest import a3c


def play(agent, rewards):
    """Feed a trial of these rewards; state t is filled with t. Returns the samples queued by it."""
    agent.brain.train_queue.clear()
    for t, r in enumerate(rewards):
        s_ = None if t == len(rewards) - 1 else np.full(4, t + 1, np.float32)
        agent.advantage_push_local_brain(np.full(4, t, np.float32), t % 2, r, s_)
    return list(agent.brain.train_queue)


@pytest.mark.parametrize("n", [1, 2, 5, 20])
@pytest.mark.parametrize("length", [1, 2, 4, 5, 6, 9, 10, 37, 200])
def test_n_step_return_equals_the_sum_of_its_discounted_rewards(agent, rng, monkeypatch, n, length):
    monkeypatch.setattr(a3c, "N_STEP_RETURN", n)
    for _ in range(2):  # the second trial must not inherit anything from the first
        rewards = rng.normal(size=length)
        samples = play(agent, rewards)
        assert len(samples) == length
        for t, (s, a, R, s_, mask) in enumerate(samples):
            window = rewards[t:t + n]
            assert s.tolist() == [t] * 4
            assert a.tolist() == ([1, 0] if t % 2 == 0 else [0, 1])
            assert R == pytest.approx(sum(0.99 ** k * r for k, r in enumerate(window)), abs=1e-9)
            if t + n < length:
                assert (s_.tolist(), mask) == ([t + n] * 4, 1)
            else:
                assert (s_.tolist(), mask) == (a3c.NONE_STATE.tolist(), 0)
        assert agent.memory == [] and agent.R == 0


def test_a_sample_is_queued_as_soon_as_its_five_rewards_are_there(agent):
    for t in range(12):
        agent.advantage_push_local_brain(np.zeros(4, np.float32), 0, 1.0, np.zeros(4, np.float32))
        assert len(agent.brain.train_queue) == max(0, t - 3)
        assert len(agent.memory) == min(t + 1, 4)


@pytest.mark.parametrize("frames, epsilon", [(0, 0.5), (800, 0.25), (1599, 0.5 / 1600), (1600, 0), (10 ** 6, 0)])
def test_epsilon_falls_linearly_over_the_frames_of_all_threads(agent, frames, epsilon):
    agent.server.frames = frames
    assert a3c.EPS_STEPS == 1600
    assert agent.server.epsilon() == pytest.approx(epsilon)


def set_policy(agent, p_right):
    """Give the brain weights with which π(right|s) is p_right in every state."""
    session, (hidden_w, hidden_b, actor_w, actor_b, *_) = agent.server.session, agent.server.weights
    for variable in (hidden_w, hidden_b, actor_w):
        session.run(variable.initializer, {variable.initial_value: np.zeros(variable.shape)})
    logits = [0, np.log(p_right) - np.log1p(-p_right)]
    session.run(actor_b.initializer, {actor_b.initial_value: logits})
    agent.brain.pull_parameter_server()


@pytest.mark.parametrize("frames, p, expected", [
    (1600, 0.5, 0.5), (1600, 0.9, 0.9), (1600, 0.999, 0.999),
    (0, 0.999, 0.5 * 0.5 + 0.5 * 0.999), (800, 0.9, 0.25 * 0.5 + 0.75 * 0.9)])
def test_actions_follow_epsilon_and_the_policy(agent, frames, p, expected):
    agent.server.frames = frames
    set_policy(agent, p)
    n = 20_000
    right = sum(agent.act(np.zeros(4, np.float32)) for _ in range(n))
    assert abs(right - n * expected) < 5 * (n * expected * (1 - expected)) ** 0.5 + 1


def test_greedy_takes_the_likelier_action_and_the_first_on_a_tie(agent):
    agent.server.frames = 0  # a random action would have a chance of 0.5
    for p, action in ((0.51, 1), (0.49, 0), (0.5, 0)):
        set_policy(agent, p)
        assert {agent.act(np.ones(4, np.float32), greedy=True) for _ in range(100)} == {action}
