"""Environment: what happens in an episode, in which order; rewards, ends, the score."""
import operator
import unittest.mock

import numpy as np
import pytest
from helpers import Built, EndsAt, a3c


def play(worker, env):
    """One episode. Returns all calls that were made in it, in order, and the score. Each method is
    replaced by one that notes the call and then makes it."""
    environment, agent = worker.environment, worker.environment.agent
    environment.env, seen = env, unittest.mock.Mock()
    for owner, *names in [
            (env, "step"), (worker.progress, "next_frame"), (environment, "reward"),
            (agent, "act", "advantage_push_local_brain"),
            (agent.brain, "pull_parameter_server", "update_parameter_server", "train_push",
             "push_parameter_server")]:
        for name in names:
            seen.attach_mock(unittest.mock.Mock(wraps=getattr(owner, name)), name)
            setattr(owner, name, getattr(seen, name))
    score = environment.run(learning=worker.thread_type == "learning")
    return seen, score


def test_a_learners_episode_goes_in_this_order():
    built = Built(1)
    seen, _ = play(built.learners[0], EndsAt(12))
    step = ["act", "step", "reward", "advantage_push_local_brain"]
    first, next_step = ["next_frame", "pull_parameter_server", *step], ["next_frame", *step]
    update = ["update_parameter_server"]
    assert [name for name, *_ in seen.method_calls if name != "train_push"] == [
        *first, *next_step * 9, *update, *first, *next_step, *update]
    assert {call.args for call in seen.next_frame.call_args_list} == {(True,)}
    assert [call.args[1] for call in seen.act.call_args_list] == list(range(12))  # its frames
    assert not any(call.kwargs["greedy"] for call in seen.act.call_args_list)
    assert built.progress.frames == 12


def test_an_episode_of_the_test_thread_only_plays():
    built = Built(1)
    seen, _ = play(built.tester, EndsAt(12))
    assert [name for name, *_ in seen.method_calls] == ["next_frame", "act", "step"] * 12
    assert {call.args for call in seen.next_frame.call_args_list} == {(False,)}
    assert all(call.kwargs["greedy"] for call in seen.act.call_args_list)
    assert built.progress.frames == 0


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


@pytest.mark.parametrize("falls, limit_is_end, terminal", [
    (3, False, True), (None, True, True), (None, False, False)])
def test_the_reward_is_told_both_states_the_step_and_how_it_ended(
        monkeypatch, falls, limit_is_end, terminal):
    monkeypatch.setattr(a3c, "TIME_LIMIT_IS_END", limit_is_end)
    seen, _ = play(Built(1).learners[0], EndsAt(falls, reward=2.5))
    told = [(s[0], r, s_[0], *rest) for s, r, s_, *rest in
            (call.args for call in seen.reward.call_args_list)]
    steps = falls or 200
    assert told == [(n - 1, 2.5, n, n, n == steps, terminal and n == steps)
                    for n in range(1, steps + 1)]


@pytest.mark.parametrize("reward", [2.5, -1.0])
@pytest.mark.parametrize("learning", [True, False])
def test_the_score_is_the_sum_of_the_environments_own_rewards(learning, reward):
    environment = Built(1).learners[0].environment
    environment.env = EndsAt(12, reward)
    assert environment.run(learning) == 12 * reward


def test_a_pole_that_never_falls_scores_200_in_cartpole_itself():
    environment = Built(1).tester.environment
    # Push to where the pole falls.
    environment.agent.act = lambda s, frame, greedy: int(s[2] + s[3] > 0)
    assert [environment.run(learning=False) for _ in range(3)] == [200] * 3


@pytest.mark.parametrize("part", [
    "env.unwrapped", "agent.rng", "agent", "agent.memory", "agent.brain",
    "agent.brain.train_queue"])
def test_each_thread_has_its_own(part):
    built = Built(2)
    workers = [*built.learners, built.tester]
    owned = [operator.attrgetter(part)(worker.environment) for worker in workers]
    assert len(set(map(id, owned))) == 3


def test_an_episode_that_another_thread_plays_meanwhile_changes_no_sample():
    def samples(between):
        """What local_thread1 trains on in an episode, if `between` happens in each of its steps."""
        one, other = (learner.environment for learner in Built(2).learners)
        one.env, other.env = EndsAt(12), EndsAt(7)
        queue, trained = one.agent.brain.train_queue, []

        def act(s, frame, greedy):
            between(other)
            return 0

        def update():
            trained.extend([list(map(str, sample)) for sample in queue])  # as text: easy to compare
            queue.clear()
        one.agent.act, one.agent.brain.update_parameter_server = act, update
        one.run(learning=True)
        return trained
    alone = samples(lambda other: None)
    assert len(alone) == 12
    assert samples(lambda other: other.run(learning=True)) == alone


@pytest.mark.parametrize("steps", [10, 2])  # 2: the first two updates find no sample
def test_states_of_float64_learn_and_every_sample_is_used_once(monkeypatch, steps):
    monkeypatch.setattr(a3c, "Tmax", steps)
    built = Built(1)
    [brain], used = built.brains, []
    brain._update = unittest.mock.Mock(wraps=brain._update)
    before = built.values(built.server.weights)
    for length in 4, 1, 60:
        built.learners[0].environment.env = EndsAt(length)
        built.learners[0].environment.run(learning=True)
        assert brain.train_queue == []
    for call in brain._update.call_args_list:
        used += [s[0] for s in call.args[0]]
    assert used == [*range(4), 0, *range(60)]
    after = built.values(built.server.weights)
    assert not any(map(np.array_equal, before, after))
    assert all(np.isfinite(w).all() for w in after)


def test_each_episode_starts_elsewhere_but_the_same_for_the_same_seed():
    class Agent(a3c.Agent):
        def act(self, s, frame, greedy=False):
            return 0

    class Environment(a3c.Environment):
        def __init__(self, agent, server):
            super().__init__(agent, server)
            self.env = EndsAt(1)
            for _ in range(3):
                self.run(learning=False)
                seeds.append(self.env.seed)

    def starts(seed):
        seeds.clear()
        a3c.main(["--render", "none", "--workers", "2", "--max-frames", "1", "--seed", str(seed)],
                 agent_class=Agent, environment_class=Environment)
        return list(seeds)
    seeds = []
    first, again, other = starts(0), starts(0), starts(1)
    assert first == again and len(set(first + other)) == 18  # of two learners and the test thread


def test_a_wrong_number_of_actions_is_noticed_before_anything_is_learned(monkeypatch, capsys):
    monkeypatch.setattr(a3c, "NUM_ACTIONS", 3)
    with pytest.raises(AssertionError, match="CartPole-v0 has 2 actions, but NUM_ACTIONS is 3"):
        a3c.main(["--render", "none"])
    assert capsys.readouterr().out == ""
