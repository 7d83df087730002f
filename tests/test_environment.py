"""Environment: what happens in an episode, in which order; rewards, ends, the score."""
import operator
import unittest.mock

import numpy as np
import pytest
from helpers import Built, EndsAt, a3c


def play(worker, env):
    """One episode. Returns all calls that were made in it, in order, and the score. Each method is
    replaced by one that notes the call and then makes it."""
    seen, agent = unittest.mock.Mock(), worker.environment.agent
    for owner, *names in [
            (env, "step"), (worker.progress, "next_frame"),
            (agent, "act", "advantage_push_local_brain"),
            (agent.brain, "pull_parameter_server", "update_parameter_server", "train_push",
             "push_parameter_server")]:
        for name in names:
            seen.attach_mock(unittest.mock.Mock(wraps=getattr(owner, name)), name)
            setattr(owner, name, getattr(seen, name))
    score = worker.environment.run(env)
    return seen, score


@pytest.mark.parametrize("learning", [True, False])
def test_an_episode_goes_in_this_order(learning):
    built = Built(1)
    seen, _ = play(built.learners[0] if learning else built.tester, EndsAt(12))
    step = ["act", "next_frame", "step", *["advantage_push_local_brain"] * learning]
    pull = ["pull_parameter_server"] * learning
    update = ["update_parameter_server"] * learning
    assert [name for name, *_ in seen.method_calls if name != "train_push"] == [
        *pull, *step * 10, *update, *pull, *step * 2, *update]
    assert {call.args for call in seen.next_frame.call_args_list} == {(learning,)}
    assert {call.kwargs["greedy"] for call in seen.act.call_args_list} == {not learning}
    assert built.progress.frames == 12 * learning


@pytest.mark.parametrize("falls, limit_is_end, reward", [
    pytest.param(12, True, -1, id="falls at step 12"),
    pytest.param(198, True, -1, id="falls at step 198"),
    pytest.param(199, True, 1, id="falls at step 199"),
    pytest.param(None, True, 1, id="time limit, an end"),
    pytest.param(None, False, 1, id="time limit, no end"),
    pytest.param(200, False, 1, id="falls at the time limit")])
def test_the_last_reward_tells_success_and_V_counts_only_if_it_could_go_on(
        monkeypatch, falls, limit_is_end, reward):
    monkeypatch.setattr(a3c, "TIME_LIMIT_IS_END", limit_is_end)
    env, steps = EndsAt(falls), falls or 200
    seen, score = play(Built(1).learners[0], env)
    samples = zip(*(call.args for call in seen.train_push.call_args_list))
    s, a, R, s_, factors = map(np.array, samples)
    assert score == steps and s[:, 0].tolist() == list(range(steps))  # every step once
    assert a.tolist() == env.actions and 0 < sum(env.actions) < steps
    np.testing.assert_allclose(R[:-5], 0)  # the last reward reaches five steps back
    np.testing.assert_allclose(R[-5:], [reward * 0.99 ** k for k in (4, 3, 2, 1, 0)])
    np.testing.assert_allclose(factors[:-5], 0.99 ** 5)
    # What multiplies V(s_) in the last five samples
    last = [0] * 5 if falls or limit_is_end else [0.99 ** n for n in (5, 4, 3, 2, 1)]
    np.testing.assert_allclose(factors[-5:], last)


@pytest.mark.parametrize("reward", [2.5, -1.0])
@pytest.mark.parametrize("learning", [True, False])
def test_the_score_is_the_sum_of_the_environments_own_rewards(learning, reward):
    built = Built(1)
    worker = built.learners[0] if learning else built.tester
    assert worker.environment.run(EndsAt(12, reward)) == 12 * reward


def test_a_pole_that_never_falls_scores_200_in_cartpole_itself():
    environment = Built(1).tester.environment
    environment.agent.act = lambda s, greedy: int(s[2] + s[3] > 0)  # push to where the pole falls
    assert [environment.run() for _ in range(3)] == [200] * 3


@pytest.mark.parametrize("part", [
    "env.unwrapped", "rng", "agent", "agent.memory", "agent.brain", "agent.brain.train_queue"])
def test_each_thread_has_its_own(part):
    built = Built(2)
    workers = [*built.learners, built.tester]
    owned = [operator.attrgetter(part)(worker.environment) for worker in workers]
    assert len(set(map(id, owned))) == 3


def test_an_episode_that_another_thread_plays_meanwhile_changes_no_sample():
    def samples(between):
        """What local_thread1 trains on in an episode, if `between` happens in each of its steps."""
        one, other = (learner.environment for learner in Built(2).learners)
        queue, trained = one.agent.brain.train_queue, []

        def act(s, greedy):
            between(other)
            return 0

        def update():
            trained.extend([list(map(str, sample)) for sample in queue])  # as text: easy to compare
            queue.clear()
        one.agent.act, one.agent.brain.update_parameter_server = act, update
        one.run(EndsAt(12))
        return trained
    alone = samples(lambda other: None)
    assert len(alone) == 12
    assert samples(lambda other: other.run(EndsAt(7))) == alone


def test_states_of_float64_learn_and_few_samples_wait_for_the_next_episode():
    built = Built(1)
    before = built.values(built.server.weights)
    for length, queued in ((4, 4), (1, 0), (60, 0)):
        built.learners[0].environment.run(EndsAt(length))
        assert len(built.brains[0].train_queue) == queued
    after = built.values(built.server.weights)
    assert not any(map(np.array_equal, before, after))
    assert all(np.isfinite(w).all() for w in after)


def test_each_episode_starts_elsewhere_but_the_same_for_the_same_seed():
    def starts(seed):
        built, env, seeds = Built(2, seed=seed), EndsAt(1), []
        for worker in [*built.learners, built.tester] * 3:
            worker.environment.run(env)
            seeds.append(env.seed)
        return seeds
    first, again, other = starts(0), starts(0), starts(1)
    assert first == again and len(set(first + other)) == 18
