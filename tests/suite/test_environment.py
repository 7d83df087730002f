"""Environment: what happens in an episode, in which order; rewards, ends, the score."""
import operator
import random
import unittest.mock

import numpy as np
import pytest
from helpers import EndsAt, a3c, options, run_main


class Noting(a3c.Environment):
    """An environment and its agent, which note in `calls` what happens after 100 frames."""
    def __init__(self, env):
        self.calls, progress = [], a3c.Progress(options())
        progress.frames = 100
        brain = unittest.mock.Mock()
        brain.predict_p.return_value = np.array([[0.5, 0.5]])  # both actions are equally likely
        brain.pull_parameter_server = lambda: self.calls.append("pull")
        brain.update_parameter_server = lambda: self.calls.append("update")
        super().__init__(a3c.Agent(brain, random.Random(0)), progress)
        self.env = env
        self.resets = self.note(self, "reset")
        self.rewards = self.note(self, "reward")
        self.acts = self.note(self.agent, "act")
        self.greedy_acts = self.note(self.agent, "act_greedily")
        self.pushes = self.note(self.agent, "advantage_push_local_brain")
        self.note(progress, "next_frame")
        self.note(env, "step")

    def note(self, owner, name):
        """Add this method's name to `calls` at each call. Returns the list of its arguments."""
        def noting(*args):
            self.calls.append(name)
            arguments.append(args)
            return method(*args)
        method, arguments = getattr(owner, name), []
        setattr(owner, name, noting)
        return arguments


def test_a_learner_pulls_plays_and_updates():
    """A learner pulls before every ten steps, and updates after them and at the episode's end. Here
    it takes ten steps, then two."""
    environment = Noting(EndsAt(12))
    environment.run()
    step = ["next_frame", "act", "step", "reward", "advantage_push_local_brain"]
    pull_and_step = ["next_frame", "pull", *step[1:]]
    ten_steps, two_steps = pull_and_step + 9 * step, pull_and_step + step
    assert environment.calls == ["reset", *ten_steps, "update", *two_steps, "update"]


def test_a_learner_acts_on_states_and_sums_rewards():
    """A learner acts on the newest state and frame number. Its score sums the rewards, 2.5 each."""
    environment = Noting(EndsAt(12, reward=2.5))
    score = environment.run()
    states, frames = zip(*environment.acts)
    assert [s[0] for s in states] == list(range(12))
    assert list(frames) == list(range(100, 112))  # of all learners, who had 100 before
    assert (score, environment.progress.frames) == (12 * 2.5, 100 + 12)


@pytest.mark.parametrize("falls", [12, None])
def test_the_test_thread_only_plays(falls):
    """The test thread takes the likeliest actions, learns nothing, and counts no frames."""
    env, steps = EndsAt(falls, reward=-1.0), falls or 200
    environment = Noting(env)
    environment.env = None  # it plays in the env that it is given, which may make a film
    score = environment.play(env)
    assert environment.calls == ["reset", *["act_greedily", "step"] * steps]
    assert environment.resets == [(env,)]
    assert [s[0] for [s] in environment.greedy_acts] == list(range(steps))
    assert (score, environment.progress.frames) == (-steps, 100)


def test_a_stop_ends_a_test_episode_at_once():
    """Once all threads have to stop, the test thread takes no further step in its episode."""
    class StopsAtStep3(EndsAt):
        def step(self, a):
            result = super().step(a)
            if environment.calls.count("step") == 3:
                environment.progress.stop()
            return result
    environment = Noting(StopsAtStep3())
    with pytest.raises(a3c.Stopped):
        environment.play(environment.env)
    assert environment.calls.count("step") == 3


@pytest.mark.parametrize("falls, last", [(12, -1), (198, -1), (199, 1), (200, 1), (None, 1)])
def test_only_the_end_is_rewarded(falls, last):
    """A learner is rewarded only at an episode's end: with 1 from step 199 on, else with -1. All
    other rewards are 0, and the environment's own, here 2.5 a step, don't count."""
    environment = Noting(EndsAt(falls, reward=2.5))
    environment.run()
    rewards = [r for _, _, r, *_ in environment.pushes]
    assert rewards == [0] * (len(rewards) - 1) + [last]


def test_reward_and_agent_get_states_action_and_done(monkeypatch):
    """A subclass's `reward`, and the agent, get each step's two states, its action, and `done`,
    which is true at a time limit, too, even if V still counts."""
    monkeypatch.setattr(a3c, "TIME_LIMIT_IS_END", False)
    env = EndsAt()
    environment = Noting(env)
    environment.run()
    for step, action, rewarded, pushed in zip(
            range(1, 201), env.actions, environment.rewards, environment.pushes, strict=True):
        wanted = step - 1, action, step, step == 200
        s, a, r, s_, number, done = rewarded
        assert (s[0], a, s_[0], done) == wanted
        assert (r, number) == (1, step)  # 1: the environment's reward
        s, a, _, s_, done, _ = pushed
        assert (s[0], a, s_[0], done) == wanted


@pytest.mark.parametrize("falls, limit_is_end, terminal", [
    pytest.param(12, True, True, id="the pole falls"),
    pytest.param(None, True, True, id="a time limit that is an end"),
    pytest.param(None, False, False, id="a time limit that is no end"),
    pytest.param(200, False, True, id="the pole falls at the time limit")])
def test_only_a_true_end_is_terminal(monkeypatch, falls, limit_is_end, terminal):
    """After a fall, or a time limit that counts as an end, V of the last state counts as 0. After
    another time limit it counts."""
    monkeypatch.setattr(a3c, "TIME_LIMIT_IS_END", limit_is_end)
    environment = Noting(EndsAt(falls))
    environment.run()
    terminals = [is_terminal for *_, is_terminal in environment.pushes]
    assert terminals == [False] * (len(terminals) - 1) + [terminal]


def test_threads_share_no_environment_agent_or_brain():
    """Two learners and the test thread each have their own environment, agent and brain; if they
    shared one, they would disturb each other's episodes."""
    class Environment(a3c.Environment):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)
    made = []
    run_main("--workers", 2, "--max-frames", 1, environment_class=Environment)
    for part in ("env.unwrapped", "agent", "agent.rng", "agent.memory", "agent.brain",
                 "agent.brain.train_queue"):
        owned = [operator.attrgetter(part)(environment) for environment in made]
        assert len(set(map(id, owned))) == 3, part


def test_only_the_same_seed_repeats_an_episodes_start():
    """With the same --seed, a run's episodes start as before. Otherwise no two start alike: not in
    one run, whatever their threads, and not in runs with different --seed."""
    class Environment(a3c.Environment):
        def __init__(self, *args):
            super().__init__(*args)
            env = EndsAt()
            for _ in range(2):  # two episodes begin
                self.reset(env)
                reset_seeds.append(env.seed)

    runs = []
    for seed in 0, 0, 1:
        reset_seeds = []  # of two learners and of the test thread
        run_main("--workers", 2, "--max-frames", 1, "--seed", seed, environment_class=Environment)
        runs.append(reset_seeds)
    first, again, other = runs
    assert first == again
    assert len({*first, *other}) == 6 + 6  # all differ: two episodes of each of three threads


def test_a_wrong_number_of_actions_is_noticed(monkeypatch, capsys):
    """A forgotten NUM_ACTIONS is an error before anything is learned."""
    monkeypatch.setattr(a3c, "NUM_ACTIONS", 3)
    with pytest.raises(ValueError, match="CartPole-v0 has 2 actions, but NUM_ACTIONS is 3"):
        a3c.main(["--render", "none"])
    assert capsys.readouterr().out == ""


def test_continuous_actions_arent_compared_with_num_actions():
    """Continuous actions can't be counted, so they are accepted whatever NUM_ACTIONS is."""
    class Uncountable(a3c.Environment):
        def make(self, render_mode=None):
            env = EndsAt()
            env.action_space = a3c.gym.spaces.Box(-1, 1, (1,))
            return env
    Uncountable(None, None)  # raises nothing
