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
        self.now, self.actions = 0, []
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self.now += 1
        self.actions.append(action)
        return np.full(4, self.now, np.float32), 1.0, self.now == self.falls, self.now == 200, {}


class FirstState(a3c.gym.Wrapper):
    """Plays one step, and notes where it started."""

    def __init__(self, env, found):
        super().__init__(env)
        self.found = found

    def reset(self, **kwargs):
        s, info = self.env.reset(**kwargs)
        self.found.append(tuple(s.tolist()))
        return s, info

    def step(self, action):
        s, reward, _, truncated, info = self.env.step(action)
        return s, reward, True, truncated, info


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
    env = EndsAt(falls)
    assert environment.run(env) == steps
    s, a, R, _, mask = (np.concatenate(columns) for columns in zip(*(e for e in events if e != "pull")))
    order = np.argsort(s[:, 0])
    assert s[order, 0].tolist() == list(range(steps))  # every step is learned from once
    assert a[order].argmax(axis=1).tolist() == env.actions and 0 < sum(env.actions) < steps
    expected = [0.0] * (steps - 5) + [reward * 0.99 ** k for k in (4, 3, 2, 1, 0)]
    np.testing.assert_allclose(R[order], expected, rtol=1e-5)
    assert mask[order].tolist() == [1.0] * (steps - 5) + [0.0] * 5


@pytest.mark.parametrize("length, updates", [
    (5, [(0, 5)]), (10, [(0, 10)]), (11, [(0, 6), (6, 11)]), (20, [(0, 6), (6, 20)]),
    # After 10 steps the first 6 returns are complete, after 20 another 10, at the end the other 7.
    (23, [(0, 6), (6, 16), (16, 23)])])
def test_updates_fall_every_ten_steps_and_at_the_end_each_followed_by_a_pull(build, monkeypatch, length, updates):
    environment = build(1).learners[0].environment
    events = follow(environment, monkeypatch)
    environment.run(EndsAt(length))
    batches = [event[0][:, 0].tolist() if event != "pull" else event for event in events]
    assert batches == sum(([list(range(*update)), "pull"] for update in updates), ["pull"])
    bootstrap = sum((event[3][:, 0].tolist() for event in events if event != "pull"), [])
    assert bootstrap == [t + 5 if t + 5 < length else 0 for t in range(length)]


@pytest.mark.parametrize("learning", [True, False])
def test_a_trial_goes_step_by_step_in_this_order(build, monkeypatch, learning):
    built, env, events = build(1), EndsAt(12), []
    environment = (built.learners[0] if learning else built.tester).environment
    agent, brain = environment.agent, environment.agent.brain

    def record(owner, name):
        method = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *args, **kwargs: (events.append(name), method(*args, **kwargs))[1])
    for owner, names in {env: ["step"], built.server: ["next_frame"], agent: ["act", "advantage_push_local_brain"],
                         brain: ["pull_parameter_server", "update_parameter_server", "push_parameter_server"]}.items():
        for name in names:
            record(owner, name)
    environment.run(env)
    step = ["act", "next_frame", "step", *["advantage_push_local_brain"] * learning]
    update, pull = ["update_parameter_server", "pull_parameter_server"], ["pull_parameter_server"]
    assert events == ([*pull, *step * 10, *update, *step * 2, *update] if learning else step * 12)


def test_every_trial_of_every_thread_starts_elsewhere_but_the_same_for_the_same_seed(build):
    def starts(seed):
        built, found = build(2, seed=seed), []
        for worker in [*built.learners, built.tester]:
            env = worker.environment.env
            for _ in range(3):
                worker.environment.run(FirstState(env, found))
        return found
    first, again, other = starts(0), starts(0), starts(1)
    assert first == again and len(set(first + other)) == 18


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
