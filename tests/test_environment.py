"""Environment: what happens in an episode, in which order; rewards, ends, the score."""
import operator
import random
import types
import unittest.mock

import numpy as np
import pytest
from helpers import Built, EndsAt, a3c, fault, options, run

LEARNER, TESTER = True, False


def play(env, learning):
    """One episode after 100 frames, with a brain that only notes its calls. Returns the score, the
    progress, and all calls in their order, with their arguments by the name of the method."""
    progress, calls = a3c.Progress(options()), unittest.mock.Mock()
    progress.frames = 100
    brain = calls.brain
    brain.predict_p.return_value = np.array([[0.5, 0.5]], np.float32)
    agent = a3c.Agent(brain, random.Random(0))
    environment = a3c.Environment(agent, types.SimpleNamespace(progress=progress))
    environment.env = env
    for owner, name in ((env, "step"), (progress, "next_frame"), (environment, "reward"),
                        (agent, "act"), (agent, "advantage_push_local_brain")):
        calls.attach_mock(unittest.mock.Mock(wraps=getattr(owner, name)), name)
        setattr(owner, name, getattr(calls, name))
    score = environment.run(learning)
    names, arguments = [], {}
    for name, args, kwargs in calls.method_calls:
        name = name.removeprefix("brain.")
        names.append(name)
        arguments.setdefault(name, []).append(args + tuple(kwargs.values()))
    return score, progress, names, arguments


@fault("Environment.run", "learning and step % Tmax == 0", "learning and step == 0")
@fault("Environment.run", "done or step % Tmax == 0", "step % Tmax == 0")
@fault("Environment.run", "act(s, frame,", "act(s, step,")
def test_a_learner_pulls_plays_ten_steps_or_to_the_end_and_updates():
    score, progress, names, arguments = play(EndsAt(12, reward=2.5), LEARNER)
    step = ["next_frame", "act", "step", "reward", "advantage_push_local_brain"]
    first = ["next_frame", "pull_parameter_server", *step[1:]]
    update = ["update_parameter_server"]
    assert [name for name in names if name not in ("predict_p", "train_push")] == [
        *first, *step * 9, *update, *first, *step, *update]
    assert set(arguments["next_frame"]) == {(LEARNER,)}
    frames_and_greedy = [(frame, greedy) for _, frame, greedy in arguments["act"]]
    assert frames_and_greedy == [(frame, False) for frame in range(100, 112)]
    assert (score, progress.frames) == (12 * 2.5, 112)


@fault("Environment.run", "learning and step % Tmax == 0", "step % Tmax == 0")
def test_the_test_thread_only_plays_and_takes_the_likeliest_actions():
    score, progress, names, arguments = play(EndsAt(12, reward=-1.0), TESTER)
    assert names == ["next_frame", "act", "predict_p", "step"] * 12
    assert set(arguments["next_frame"]) == {(TESTER,)}
    assert all(greedy for _, _, greedy in arguments["act"])
    assert (score, progress.frames) == (-12, 100)


@fault("Environment.reward", "step < 199", "step < 200")
@pytest.mark.parametrize("falls, last", [(12, -1), (198, -1), (199, 1), (200, 1), (None, 1)])
def test_a_learners_rewards_are_0_but_at_the_end_minus_1_and_from_step_199_on_plus_1(falls, last):
    """The environment's own rewards, 2.5 a step, don't count."""
    _, _, _, arguments = play(EndsAt(falls, reward=2.5), LEARNER)
    R = np.array([sample[2] for sample in arguments["train_push"]])
    np.testing.assert_allclose(R[:-5], 0)  # the last reward reaches five steps back
    np.testing.assert_allclose(R[-5:], last * 0.99 ** np.array([4, 3, 2, 1, 0]))


@fault("Environment.run", "step, done, terminal)", "step, done, terminated)")
@fault("Environment.run", "truncated and TIME_LIMIT_IS_END", "truncated")
@pytest.mark.parametrize("falls, limit_is_end, terminal", [
    pytest.param(12, True, True, id="the pole falls"),
    pytest.param(None, True, True, id="a time limit that is an end"),
    pytest.param(None, False, False, id="a time limit that is no end"),
    pytest.param(200, False, True, id="the pole falls at the time limit")])
def test_v_of_an_episodes_last_state_counts_only_after_a_time_limit_that_is_no_end(
        monkeypatch, falls, limit_is_end, terminal):
    """`reward`, which another environment replaces, is told at each step what has happened."""
    monkeypatch.setattr(a3c, "TIME_LIMIT_IS_END", limit_is_end)
    _, _, _, arguments = play(EndsAt(falls), LEARNER)
    last, steps = falls or 200, range(1, (falls or 200) + 1)
    assert [(s[0], r, s_[0], *rest) for s, r, s_, *rest in arguments["reward"]] == [
        (step - 1, 1, step, step, step == last, step == last and terminal) for step in steps]
    discounts = [discount for *_, discount in arguments["train_push"]]
    np.testing.assert_allclose(discounts[:-5], 0.99 ** 5)
    np.testing.assert_allclose(discounts[-5:], 0.99 ** np.array([5, 4, 3, 2, 1]) * (not terminal))


@fault("Environment.__init__", "self.make()", 'vars(self.progress).setdefault("env", self.make())')
def test_each_thread_has_its_own_environment_agent_and_brain():
    built = Built(2)
    for part in ("env.unwrapped", "agent", "agent.rng", "agent.memory", "agent.brain",
                 "agent.brain.train_queue"):
        owned = [operator.attrgetter(part)(worker.environment)
                 for worker in [*built.learners, built.tester]]
        assert len(set(map(id, owned))) == 3, part


@fault("LocalBrain.update_parameter_server", "self.train_queue.clear()", "pass")
@fault("Environment.run", "advantage_push_local_brain(s, a,", "advantage_push_local_brain(s, 0,")
@pytest.mark.parametrize("tmax", [10, 2])  # 2: some updates find no sample
def test_each_state_with_the_action_played_in_it_is_used_in_one_update(monkeypatch, tmax):
    monkeypatch.setattr(a3c, "Tmax", tmax)
    built, played = Built(1), []
    [brain], [learner] = built.brains, built.learners
    brain._update = unittest.mock.Mock(wraps=brain._update)
    for length in 4, 1, 60:
        learner.environment.env = env = EndsAt(length)
        learner.environment.run(LEARNER)
        assert brain.train_queue == []
        played += enumerate(env.actions)  # all numbers of state t are t
    assert played == [
        (s[0], a) for call in brain._update.call_args_list for s, a in zip(*call.args[:2])]


@fault("main", 'f"{options.seed} {name}"', 'f"{options.seed} {thread_type}"')
@fault("main", 'f"{options.seed} {name}"', "name")
def test_each_episode_of_each_thread_starts_differently_and_the_same_seed_repeats_all_starts():
    class Environment(a3c.Environment):
        def __init__(self, *args):
            super().__init__(*args)
            self.env, self.agent.act = EndsAt(1), lambda *args, **kwargs: 0
            for _ in range(2):  # here, where no other thread plays yet
                self.run(TESTER)
                reset_seeds.append(self.env.seed)

    reset_seeds = []
    for seed in 0, 0, 1:
        run("--workers", 2, "--max-frames", 1, "--seed", seed, environment_class=Environment)
    # Two episodes of two learners and of the test thread
    first, again, other = reset_seeds[:6], reset_seeds[6:12], reset_seeds[12:]
    assert first == again and len({*first, *other}) == 12


@fault("Environment.__init__", "n == NUM_ACTIONS", "True")
def test_a_wrong_number_of_actions_is_noticed_before_anything_is_learned(monkeypatch, capsys):
    monkeypatch.setattr(a3c, "NUM_ACTIONS", 3)
    with pytest.raises(AssertionError, match="CartPole-v0 has 2 actions, but NUM_ACTIONS is 3"):
        a3c.main(["--render", "none"])
    assert capsys.readouterr().out == ""
