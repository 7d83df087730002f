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
    """One episode, with a brain that only notes its calls. Returns the score, the progress, and all
    calls in their order, with their arguments by the name of the method."""
    progress, calls = a3c.Progress(options()), unittest.mock.Mock()
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
def test_a_learner_pulls_plays_ten_steps_and_updates():
    score, progress, names, arguments = play(EndsAt(12, reward=2.5), LEARNER)
    step = ["next_frame", "act", "step", "reward", "advantage_push_local_brain"]
    first = ["next_frame", "pull_parameter_server", *step[1:]]
    update = ["update_parameter_server"]
    assert [name for name in names if name not in ("predict_p", "train_push")] == [
        *first, *step * 9, *update, *first, *step, *update]
    assert set(arguments["next_frame"]) == {(LEARNER,)}
    assert [told[1:] for told in arguments["act"]] == [(frame, False) for frame in range(12)]
    assert (score, progress.frames) == (12 * 2.5, 12)


@fault("Environment.run", "learning and step % Tmax == 0", "step % Tmax == 0")
def test_the_test_thread_only_plays_and_takes_the_likeliest_actions():
    score, progress, names, arguments = play(EndsAt(12, reward=-1.0), TESTER)
    assert names == ["next_frame", "act", "predict_p", "step"] * 12
    assert set(arguments["next_frame"]) == {(TESTER,)}
    assert all(greedy for _, _, greedy in arguments["act"])
    assert (score, progress.frames) == (-12, 0)


@fault("Environment.reward", "step < 199", "step < 200")
@fault("Environment.run", "step, done, terminal)", "step, done, terminated)")
@pytest.mark.parametrize("falls, limit_is_end, last_reward, terminal", [
    pytest.param(12, True, -1, True, id="falls at step 12"),
    pytest.param(198, True, -1, True, id="falls at step 198"),
    pytest.param(199, True, 1, True, id="falls at step 199"),
    pytest.param(None, True, 1, True, id="time limit, an end"),
    pytest.param(None, False, 1, False, id="time limit, no end"),
    pytest.param(200, False, 1, True, id="falls at the time limit")])
def test_the_last_reward_tells_success_and_V_counts_only_if_it_could_go_on(
        monkeypatch, falls, limit_is_end, last_reward, terminal):
    monkeypatch.setattr(a3c, "TIME_LIMIT_IS_END", limit_is_end)
    env, steps = EndsAt(falls, reward=2.5), falls or 200
    _, _, _, arguments = play(env, LEARNER)
    told = [(s[0], r, s_[0], *rest) for s, r, s_, *rest in arguments["reward"]]
    assert told == [(n - 1, 2.5, n, n, n == steps, terminal and n == steps)
                    for n in range(1, steps + 1)]
    s, a, R, _, discounts = map(np.array, zip(*arguments["train_push"]))
    assert s[:, 0].tolist() == list(range(steps)) and a.tolist() == env.actions
    np.testing.assert_allclose(R[:-5], 0)  # the last reward reaches five steps back
    np.testing.assert_allclose(R[-5:], last_reward * 0.99 ** np.array([4, 3, 2, 1, 0]))
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


@fault("GraphCall.__init__", "tensor.dtype.as_numpy_dtype", "float")
@fault("LocalBrain.update_parameter_server", "self.train_queue.clear()", "pass")
@pytest.mark.parametrize("steps", [10, 2])  # 2: some updates find no sample
def test_states_of_float64_can_be_learned_from_and_every_sample_is_used_once(monkeypatch, steps):
    monkeypatch.setattr(a3c, "Tmax", steps)
    built = Built(1)
    [brain] = built.brains
    brain._update = unittest.mock.Mock(wraps=brain._update)
    before = built.values(built.server.weights)
    for length in 4, 1, 60:
        built.learners[0].environment.env = EndsAt(length)
        built.learners[0].environment.run(LEARNER)
        assert brain.train_queue == []
    used = [s[0] for call in brain._update.call_args_list for s in call.args[0]]
    assert used == [*range(4), 0, *range(60)]
    for old, new in zip(before, built.values(built.server.weights)):
        assert np.isfinite(new).all() and not np.array_equal(old, new)


@fault("main", 'f"{options.seed} {name}"', 'f"{options.seed} {thread_type}"')
@fault("main", 'f"{options.seed} {name}"', "name")
def test_each_episode_starts_elsewhere_but_the_same_for_the_same_seed():
    class Environment(a3c.Environment):
        def __init__(self, *args):
            super().__init__(*args)
            self.env, self.agent.act = EndsAt(1), lambda *args, **kwargs: 0
            for _ in range(2):
                self.run(TESTER)
                starts.append(self.env.seed)

    starts = []
    for seed in 0, 0, 1:
        run("--workers", 2, "--max-frames", 1, "--seed", seed, environment_class=Environment)
    first, again, other = starts[:6], starts[6:12], starts[12:]  # two learners, the test thread
    assert first == again and len({*first, *other}) == 12


@fault("Environment.__init__", "n == NUM_ACTIONS", "True")
def test_a_wrong_number_of_actions_is_noticed_before_anything_is_learned(monkeypatch, capsys):
    monkeypatch.setattr(a3c, "NUM_ACTIONS", 3)
    with pytest.raises(AssertionError, match="CartPole-v0 has 2 actions, but NUM_ACTIONS is 3"):
        a3c.main(["--render", "none"])
    assert capsys.readouterr().out == ""
