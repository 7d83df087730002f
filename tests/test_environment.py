"""Environment: rewards, and the order of steps in one trial."""
import numpy as np
import pytest
from conftest import a3c


class EndsAt(a3c.gym.Env):
    """A task whose trial falls at step `falls`, or else is cut at step 200; its state tells the step."""
    observation_space = a3c.gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = a3c.gym.spaces.Discrete(2)

    def __init__(self, falls):
        self.falls = falls

    def reset(self, *, seed=None, options=None):
        self.now = 0
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self.now += 1
        return np.full(4, self.now, np.float32), 1.0, self.now == self.falls, self.now == 200, {}


def follow(environment, monkeypatch):
    """Record what the environment's brain does, and let it do it."""
    events, brain = [], environment.agent.brain
    update, pull = brain._update, brain._pull
    monkeypatch.setattr(brain, "_update", lambda *batch: (events.append(batch), update(*batch)))
    monkeypatch.setattr(brain, "_pull", lambda: (events.append("pull"), pull()))
    return events


@pytest.mark.parametrize("falls, steps, reward", [(12, 12, -1), (197, 197, -1), (198, 198, -1), (199, 199, 1),
                                                  (200, 200, 1), (None, 200, 1)])
def test_reward_is_zero_until_the_end_and_then_tells_success_from_failure(build, monkeypatch, falls, steps, reward):
    environment = build(1).learners[0].environment
    events = follow(environment, monkeypatch)
    assert environment.run(EndsAt(falls)) == steps
    s, _, R, _, mask = (np.concatenate(columns) for columns in zip(*(e for e in events if e != "pull")))
    order = np.argsort(s[:, 0])
    assert s[order, 0].tolist() == list(range(steps))  # every step is learned from once
    expected = [0.0] * (steps - 5) + [reward * 0.99 ** k for k in (4, 3, 2, 1, 0)]
    np.testing.assert_allclose(R[order], expected, rtol=1e-5)
    assert mask[order].tolist() == [1.0] * (steps - 5) + [0.0] * 5


def test_updates_fall_every_ten_steps_and_at_the_end_each_followed_by_a_pull(build, monkeypatch):
    environment = build(1).learners[0].environment
    events = follow(environment, monkeypatch)
    environment.run(EndsAt(23))
    # After 10 steps the first 6 returns are complete, after 20 another 10, at the end the other 7.
    batches = [[int(x) for x in e[0][:, 0]] if e != "pull" else e for e in events]
    assert batches == ["pull", [0, 1, 2, 3, 4, 5], "pull", list(range(6, 16)), "pull", list(range(16, 23)), "pull"]
    bootstrap = [sorted(int(x) for x in e[3][:, 0]) for e in events if e != "pull"]
    assert bootstrap == [list(range(5, 11)), list(range(11, 21)), [0] * 5 + [21, 22]]


def test_samples_too_few_for_an_update_wait_for_the_next_trial(build, monkeypatch):
    environment = build(1).learners[0].environment
    events = follow(environment, monkeypatch)
    environment.run(EndsAt(3))
    assert events == ["pull", "pull"] and len(environment.agent.brain.train_queue) == 3
    environment.run(EndsAt(4))
    assert [len(e[0]) for e in events if e != "pull"] == [7]


def test_a_learner_counts_frames_and_the_test_thread_neither_counts_nor_changes_anything(build):
    built = build(1)
    steps = built.learners[0].environment.run()
    assert built.server.frames == steps
    before = built.values([built.server.weights, built.tester.environment.agent.brain.weights])
    assert built.tester.environment.run() >= 1
    after = built.values([built.server.weights, built.tester.environment.agent.brain.weights])
    for x, y in zip(sum(before, []), sum(after, [])):
        np.testing.assert_array_equal(x, y)
    assert built.server.frames == steps and built.tester.environment.agent.brain.train_queue == []


def test_the_test_thread_acts_greedily(build, monkeypatch):
    environment = build(1).tester.environment
    asked = []
    act = environment.agent.act
    monkeypatch.setattr(environment.agent, "act", lambda s, greedy=False: (asked.append(greedy), act(s, greedy))[1])
    environment.run()
    assert set(asked) == {True}


def test_trials_are_cartpole_of_two_hundred_steps():
    env = a3c.gym.make(a3c.ENV)
    assert (env.spec.id, env.spec.max_episode_steps) == ("CartPole-v0", 200)
    assert (a3c.NUM_STATES, a3c.NUM_ACTIONS, a3c.NONE_STATE.tolist()) == (4, 2, [0, 0, 0, 0])
