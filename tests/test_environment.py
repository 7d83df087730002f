"""Environment: what happens in a trial, in which order; rewards, ends, the score."""
import numpy as np
import pytest
from helpers import a3c


class EndsAt(a3c.gym.Env):
    """Its trial falls after so many steps, or is cut after 200; the state tells the step."""
    observation_space = a3c.gym.spaces.Box(-np.inf, np.inf, (4,), np.float64)
    action_space = a3c.gym.spaces.Discrete(2)

    def __init__(self, falls=None):
        self.falls = falls

    def reset(self, *, seed=None, options=None):
        self.now, self.actions, self.seed = 0, [], seed
        return np.zeros(4), {}

    def step(self, action):
        self.now += 1
        self.actions.append(action)
        return np.full(4, self.now, float), 1.0, self.now == self.falls, self.now == 200, {}


def note(events, owner, *names):
    """Let methods of this object tell `events` when they are called, and with what."""
    for name in names:
        method = getattr(owner, name)

        def noted(*args, name=name, method=method, **kwargs):
            events.append((name, *args, *kwargs.items()))
            return method(*args, **kwargs)
        setattr(owner, name, noted)


def play(worker, env):
    """One trial. Returns all that happened in it, in order, and the score."""
    events, agent = [], worker.environment.agent
    note(events, env, "step")
    note(events, worker.progress, "next_frame")
    note(events, agent, "begin_trial", "act", "advantage_push_local_brain")
    note(events, agent.brain, "pull_parameter_server", "update_parameter_server", "train_push",
         "push_parameter_server")
    score = worker.environment.run(env)
    return events, score


def samples(events):
    """The columns of all samples that were queued."""
    return map(np.array, zip(*(event[1:] for event in events if event[0] == "train_push")))


@pytest.mark.parametrize("learning", [True, False])
def test_a_trial_goes_in_this_order(build, learning):
    built = build(1)
    events, _ = play(built.learners[0] if learning else built.tester, EndsAt(12))
    step = ["act", "next_frame", "step", *["advantage_push_local_brain"] * learning]
    pull = ["pull_parameter_server"] * learning
    update = ["update_parameter_server"] * learning + pull
    assert [event[0] for event in events if event[0] != "train_push"] == [
        *pull, "begin_trial", *step * 10, *update, *step * 2, *update]
    assert {event[1] for event in events if event[0] == "next_frame"} == {learning}
    assert {event[2] for event in events if event[0] == "act"} == {("greedy", not learning)}
    assert built.progress.frames == 12 * learning


@pytest.mark.parametrize("falls, steps, reward", [(12, 12, -1), (198, 198, -1), (199, 199, 1),
                                                  (None, 200, 1)])
def test_reward_is_zero_and_at_the_end_tells_success_from_failure(build, falls, steps, reward):
    env = EndsAt(falls)
    events, score = play(build(1).learners[0], env)
    s, a, R, _, weights = samples(events)
    assert score == steps and s[:, 0].tolist() == list(range(steps))  # every step once
    assert a.tolist() == env.actions and 0 < sum(env.actions) < steps
    wanted = [0.0] * (steps - 5) + [reward * 0.99 ** k for k in (4, 3, 2, 1, 0)]
    np.testing.assert_allclose(R, wanted)
    np.testing.assert_allclose(weights, [0.99 ** 5] * (steps - 5) + [0] * 5)


@pytest.mark.parametrize("falls, ended", [(None, False), (200, True)])
def test_after_a_time_limit_the_next_value_counts_if_it_is_no_end(
        build, monkeypatch, falls, ended):
    monkeypatch.setattr(a3c, "TIME_LIMIT_IS_END", False)
    *_, s_, weights = samples(play(build(1).learners[0], EndsAt(falls))[0])
    assert s_[-5:, 0].tolist() == [200] * 5
    wanted = [0] * 5 if ended else [0.99 ** n for n in (5, 4, 3, 2, 1)]
    np.testing.assert_allclose(weights[-5:], wanted)


# After 10 steps the first 6 returns are complete, after 20 another 10, at the end the other 7.
@pytest.mark.parametrize("length, updates", [(11, [6, 5]), (23, [6, 10, 7])])
def test_updates_fall_every_tmax_steps_and_at_the_end(build, length, updates):
    batches = [[]]
    for name, *_ in play(build(1).learners[0], EndsAt(length))[0]:
        if name == "train_push":
            batches[-1].append(name)
        elif name == "update_parameter_server":
            batches.append([])
    assert list(map(len, batches)) == [*updates, 0]


def test_states_of_float64_learn_and_few_samples_wait_for_the_next_trial(build):
    built = build(1)
    before = built.values(built.server.weights)
    for length, queued in ((4, 4), (1, 0), (60, 0)):
        built.learners[0].environment.run(EndsAt(length))
        assert len(built.brains[0].train_queue) == queued
    after = built.values(built.server.weights)
    assert not any(map(np.array_equal, before, after))
    assert all(np.isfinite(w).all() for w in after)


def test_each_trial_starts_elsewhere_but_the_same_for_the_same_seed(build):
    def starts(seed):
        built, env, seeds = build(2, seed=seed), EndsAt(1), []
        for worker in [*built.learners, built.tester] * 3:
            worker.environment.run(env)
            seeds.append(env.seed)
        return seeds
    first, again, other = starts(0), starts(0), starts(1)
    assert first == again and len(set(first + other)) == 18
