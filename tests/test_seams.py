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
            return forward
    _, _, before, after = play(server=Server)
    assert [w.shape for w in after] == [(4, 2), (4, 1)]
    assert not any(map(np.array_equal, before, after))


def test_another_loss_and_another_optimizer():
    class Brain(a3c.LocalBrain):
        def build_loss(self, p, v, a, target):
            actor, critic, entropy = super().build_loss(p, v, a, target)
            return actor, 0 * critic, entropy

    class Server(a3c.ParameterServer):
        def build_optimizer(self):
            return tf.train.AdamOptimizer(1e-3)
    _, server, before, after = play(server=Server, brain=Brain)
    assert list(map(np.array_equal, before, after)) == [False] * 4 + [True] * 2  # no critic
    assert server.session.run(server.optimizer.get_slot(server.weights[0], "m")).any()


def test_clipped_gradients_and_a_rate_that_falls():
    class Server(a3c.ParameterServer):
        def build_optimizer(self):
            self.updates = tf.train.create_global_step()
            rate = tf.train.polynomial_decay(1.0, self.updates, 10, end_learning_rate=0.0)
            return tf.train.GradientDescentOptimizer(rate)

        def build_update(self, gradients):
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
    args = "--render", "video", "--video-dir", str(tmp_path), "--test-episodes", "1"
    assert play(*args, environment=MountainCar)[0] == 0
    out = capsys.readouterr().out
    assert "\nThreshold reached: mean -20.0 of the last 10 episodes\n" in out
    assert "\nLearned after 200 frames, 10 episodes" in out
    assert "\nTest episode 1: score -20\n" in out
    assert len(list(tmp_path.glob("*/*.mp4"))) == 1


def test_something_to_do_when_an_episode_begins_and_a_reward_of_my_own(monkeypatch):
    class Environment(MountainCar):
        def reward(self, r, step, done):
            return 10 * r + step

        def run(self, env=None):
            told.append([])
            return super().run(env)

    class Agent(a3c.Agent):
        def advantage_push_local_brain(self, s, a, r, *rest):
            super().advantage_push_local_brain(s, a, r, *rest)
            told[-1].append(r)
    told = []
    settings(monkeypatch, **MOUNTAIN_CAR | {"LEARNED_MEAN": 0})
    play(environment=Environment, agent=Agent)
    assert told == [list(range(-9, 11))] * 15 + [[]]


class Acrobot(a3c.Environment):
    def reward(self, r, step, done):
        return 1.0 if done and step < 500 else -0.01


class TwoTrunks(a3c.ParameterServer):
    """Actor and critic with a hidden layer each, Adam, and clipped gradients."""

    def _build_model(self):
        actor = [a3c.layer("actor/hidden", 6, 16), a3c.layer("actor", 16, 3)]
        critic = [a3c.layer("critic/hidden", 6, 16), a3c.layer("critic", 16, 1)]

        def outputs(s, hidden, output):
            return tf.nn.xw_plus_b(tf.nn.tanh(tf.nn.xw_plus_b(s, *hidden)), *output)

        def forward(s):
            return tf.nn.softmax(outputs(s, *actor)), outputs(s, *critic)[:, 0]
        return forward

    def build_optimizer(self):
        return tf.train.AdamOptimizer(1e-3)

    def build_update(self, gradients):
        return super().build_update(tf.clip_by_global_norm(gradients, 0.5)[0])


class Segments(a3c.Agent):
    """Explores by temperature. Its returns reach to the end of their segment, as in the paper."""

    def act(self, s, greedy=False):
        if greedy:
            return super().act(s, greedy)
        p = self.brain.predict_p(s[np.newaxis])[0] ** 0.5
        return self.rng.choices(range(3), weights=p.tolist())[0]

    def advantage_push_local_brain(self, s, a, r, s_, done, terminal):
        ends = done or len(self.memory) == a3c.Tmax - 1
        super().advantage_push_local_brain(s, a, r, s_, ends, terminal)


def test_a_whole_program_of_ones_own_learns_saves_and_goes_on(monkeypatch, tmp_path, capsys):
    settings(monkeypatch, ENV="Acrobot-v1", NUM_STATES=6, NUM_ACTIONS=3, TIME_LIMIT_IS_END=False,
             Tmax=20, N_STEP_RETURN=20, MIN_BATCH=1, LEARNED_MEAN=-100)
    seen = []

    class Brain(a3c.LocalBrain):
        def update_parameter_server(self):
            seen.append([sample[2:] for sample in self.train_queue])
            super().update_parameter_server()
    classes = {"server": TwoTrunks, "brain": Brain, "agent": Segments, "environment": Acrobot}
    args = "--checkpoint", str(tmp_path), "--max-frames", "1000"
    powers = []
    for frames in 1000, 2000:
        status, _, before, after = play(*args, **classes)
        assert status == 1 and [w.shape for w in after][:2] == [(6, 16), (16,)]
        assert not any(map(np.array_equal, before, after))
        for saved in frames - 1000, frames:
            checkpoint = tf.train.load_checkpoint(str(tmp_path / f"model-{saved}"))
            powers.append(checkpoint.get_tensor("parameter_server/beta1_power"))
    assert powers[1] == powers[2] and powers[0] > powers[1] > powers[3]  # Adam's go on, too
    assert all(len(samples) == 20 for samples in seen[:25])  # 500 steps in segments of 20
    for k, (R, s_, gamma_n) in enumerate(reversed(seen[0])):  # k steps before the segment's last
        assert np.isclose(R, -0.01 * sum(0.99 ** i for i in range(k + 1)))
        assert np.isclose(gamma_n, 0.99 ** (k + 1)) and s_ is seen[0][-1][1]
    status = play("--checkpoint", str(tmp_path), "--play", "--test-episodes", "1", **classes)[0]
    assert status == 0 and "Test episode 1: score -" in capsys.readouterr().out


def test_continuous_actions(monkeypatch):
    class Server(a3c.ParameterServer):
        def _build_model(self):
            w = tf.get_variable("w", (3, 2))

            def forward(s):
                return tf.split(s @ w, [1, 1], axis=1)[0], (s @ w)[:, 1]  # mean of a, V
            return forward

    class Brain(a3c.LocalBrain):
        action_type, action_shape = tf.float32, (1,)

        def build_loss(self, mean, v, a, target):
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
        def make_progress(self, options):
            return Progress(options.workers, options.max_frames)

    counted, verdicts = [], []
    settings(monkeypatch, LEARNED_MEAN=0, THRESHOLD_EPISODES=1)
    status, server, *_ = play(server=Server)
    assert status == 0 and verdicts == [True] * 3 and sum(counted) == server.progress.frames


def test_the_seed_decides_the_first_weights():
    first, again, other = (play("--max-frames", "1", "--seed", seed)[2] for seed in "778")
    assert same(first, again) and not any(map(np.array_equal, first[::2], other[::2]))


def test_defaults_of_the_command_line_are_settings(monkeypatch):
    one, other = a3c.parse([]), a3c.parse([])
    assert (one.workers, one.max_frames, one.test_episodes, one.render) == (8, 1_000_000, 3, "auto")
    assert one.seed != other.seed  # equal once in four billion times
    settings(monkeypatch, N_WORKERS=3, TEST_EPISODES=4, MAX_FRAMES=60)
    one = a3c.parse([])
    assert (one.workers, one.max_frames, one.test_episodes) == (3, 60, 4)
