"""The seams: each variant by a subclass of a few lines, started by main alone."""
import threading

import numpy as np
from helpers import a3c, same, tf

gym = a3c.gym


def worker_class(brain=a3c.LocalBrain, agent=a3c.Agent, environment=a3c.Environment):
    """A Worker_thread whose environment, agent and brain are of these classes."""
    agent = type("Agent", (agent,), {"brain_class": brain})
    environment = type("Environment", (environment,), {"agent_class": agent})
    return type("Worker", (a3c.Worker_thread,), {"environment_class": environment})


def play(*args, server=a3c.ParameterServer, **classes):
    """Run main with one worker. Returns its status, the server, its first and its last weights."""
    made = []

    class Server(server):
        def initialize(self):
            super().initialize()
            made.extend([self, self.session.run(self.weights)])
    argv = ["--render", "none", "--workers", "1", "--seed", "1", "--max-frames", "300", *args]
    status = a3c.main(argv, server_class=Server, worker_class=worker_class(**classes))
    return status, *made, made[0].session.run(made[0].weights)


def settings(monkeypatch, **values):
    for name, value in values.items():
        monkeypatch.setattr(a3c, name, value)


def test_another_network():
    class Server(a3c.ParameterServer):
        def _build_model(self):
            actor, critic = tf.get_variable("actor", (4, 2)), tf.get_variable("critic", (4, 1))

            def forward(s):
                return tf.nn.softmax(s @ actor), tf.squeeze(s @ critic, axis=1)
            return [actor, critic], forward
    _, _, before, after = play(server=Server)
    assert [w.shape for w in after] == [(4, 2), (4, 1)]
    assert not any(map(np.array_equal, before, after))


def test_another_loss_and_another_optimizer():
    class Brain(a3c.LocalBrain):
        def _build_loss(self, p, v, a, target):
            actor, critic, entropy = super()._build_loss(p, v, a, target)
            return actor, 0 * critic, entropy

    class Server(a3c.ParameterServer):
        def _build_optimizer(self):
            return tf.train.AdamOptimizer(1e-3)
    _, server, before, after = play(server=Server, brain=Brain)
    assert list(map(np.array_equal, before, after)) == [False] * 4 + [True] * 2  # no critic
    assert server.session.run(server.optimizer.get_slot(server.weights[0], "m")).any()


def test_clipped_gradients_and_a_rate_that_falls():
    class Server(a3c.ParameterServer):
        def _build_optimizer(self):
            self.updates = tf.train.create_global_step()
            rate = tf.train.polynomial_decay(1.0, self.updates, 10, end_learning_rate=0.0)
            return tf.train.GradientDescentOptimizer(rate)

        def _build_update(self, gradients):
            gradients, _ = tf.clip_by_global_norm(gradients, 1e-3)
            pairs = zip(gradients, self.weights)
            return self.optimizer.apply_gradients(pairs, global_step=self.updates)
    _, server, before, after = play(server=Server)
    assert server.session.run(server.updates) > 20
    distance = sum(((x - y) ** 2).sum() for x, y in zip(before, after)) ** 0.5
    assert 1e-4 < distance < 1e-3 * sum(1 - k / 10 for k in range(10)) + 1e-6


class MountainCar(a3c.Environment):
    def make(self, render_mode=None):
        env = gym.make("MountainCar-v0", render_mode=render_mode).unwrapped
        return gym.wrappers.TimeLimit(env, max_episode_steps=20)


MOUNTAIN_CAR = {"NUM_STATES": 2, "NUM_ACTIONS": 3, "LEARNED_MEAN": -21}  # each step costs 1


def test_another_environment_is_filmed_and_its_scores_are_negative(
        monkeypatch, tmp_path, capsys):
    settings(monkeypatch, **MOUNTAIN_CAR)
    args = "--render", "video", "--video-dir", str(tmp_path), "--test-trials", "1"
    assert play(*args, environment=MountainCar)[0] == 0
    out = capsys.readouterr().out
    assert "local_thread1 claims: mean -20.0 of its last 10 trials\n" in out
    assert "\nLearned after 200 frames, 10 trials" in out and "Test trial 1: score -20\n" in out
    assert len(list(tmp_path.glob("*/*.mp4"))) == 1


def test_an_agent_is_told_when_a_trial_begins_and_a_reward_of_my_own(monkeypatch):
    class Environment(MountainCar):
        def reward(self, r, step, done):
            return 10 * r + step

    class Agent(a3c.Agent):
        def begin_trial(self):
            super().begin_trial()
            told.append([])

        def advantage_push_local_brain(self, s, a, r, *rest):
            super().advantage_push_local_brain(s, a, r, *rest)
            told[-1].append(r)
    told = []
    settings(monkeypatch, **MOUNTAIN_CAR | {"LEARNED_MEAN": 0})
    play(environment=Environment, agent=Agent)
    assert told == [list(range(-9, 11))] * 15 + [[]]


def test_continuous_actions(monkeypatch):
    class Server(a3c.ParameterServer):
        def _build_model(self):
            w = tf.get_variable("w", (3, 2))

            def forward(s):
                return tf.split(s @ w, [1, 1], axis=1)[0], (s @ w)[:, 1]  # mean of a, V
            return [w], forward

    class Brain(a3c.LocalBrain):
        action_type, action_shape = tf.float32, (1,)

        def _build_loss(self, mean, v, a, target):
            advantage = target - v
            actor = tf.reduce_sum(tf.square(a - mean), axis=1) * tf.stop_gradient(advantage)
            return actor, tf.square(advantage), 0 * v

        def train_push(self, s, a, *rest):
            super().train_push(s, a, *rest)
            actions.append(a)

    class Agent(a3c.Agent):
        def act(self, s, greedy=False):
            return self.brain.predict_p(s[np.newaxis])[0] + np.float32(self.rng.gauss(0, 1))
    actions = []
    settings(monkeypatch, ENV="Pendulum-v1", NUM_STATES=3, TIME_LIMIT_IS_END=False)
    _, _, before, after = play(server=Server, brain=Brain, agent=Agent)
    assert np.unique(actions).size > 250
    assert not same(before, after) and np.isfinite(after).all()


def test_a_brain_that_threads_share():
    class Server(a3c.ParameterServer):
        def __init__(self, *args):
            super().__init__(*args)
            self.brain = a3c.LocalBrain("shared", self)

    class Brain:
        def __new__(cls, name, server):
            return server.brain
    _, server, before, after = play(server=Server, brain=Brain)
    owners = {operation.name.split("/")[0] for operation in server.session.graph.get_operations()}
    assert "shared" in owners and not any("thread" in owner for owner in owners)
    assert not any(map(np.array_equal, before, after))


def test_further_threads_start_with_the_workers_and_are_waited_for():
    class Server(a3c.ParameterServer):
        name = "helper"

        def __init__(self, *args):
            super().__init__(*args)
            self.helpers.append(self)

        def run(self):
            self.progress.coordinator.wait_for_stop()
            self.seen = threading.current_thread().name, self.progress.frames
    assert play(server=Server)[1].seen == ("helper", 300)


def test_counting_and_verdicts_elsewhere(monkeypatch):
    class Progress(a3c.Progress):
        def next_frame(self, learning):
            super().next_frame(learning)
            counted.append(learning)

        def verdict(self, passed):
            verdicts.append(passed)
            super().verdict(passed and len(verdicts) == 3)

    class Server(a3c.ParameterServer):
        def __init__(self, learners, max_frames, log):
            super().__init__(learners, max_frames, log)
            self.progress = Progress(learners, max_frames)

    counted, verdicts = [], []
    settings(monkeypatch, LEARNED_MEAN=0, CLAIM_TRIALS=1)
    status, server, *_ = play(server=Server)
    assert status == 0 and verdicts == [True] * 3 and sum(counted) == server.progress.frames


def test_the_seed_decides_the_first_weights():
    first, again, other = (play("--max-frames", "1", "--seed", seed)[2] for seed in "778")
    assert same(first, again) and not any(map(np.array_equal, first[::2], other[::2]))


def test_defaults_of_the_command_line_are_settings(monkeypatch):
    one, other = a3c.parse([]), a3c.parse([])
    assert (one.workers, one.max_frames, one.test_trials, one.render) == (8, 1_000_000, 3, "auto")
    assert one.seed != other.seed  # equal once in four billion times
    settings(monkeypatch, N_WORKERS=3, TEST_TRIALS=4, MAX_FRAMES=60)
    one = a3c.parse([])
    assert (one.workers, one.max_frames, one.test_trials) == (3, 60, 4)
