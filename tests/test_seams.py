"""What a reader may change: each setting, and each part by a subclass of a few lines."""
import threading
import time
import unittest.mock

import numpy as np
import pytest
from helpers import Built, EndsAt, a3c, film_lengths, options, same, tf

gym = a3c.gym


def play(*args, server=a3c.ParameterServer, **classes):
    """Run main with one worker and these classes (brain_class and so on). Returns its status, the
    server, its first and its last weights."""
    made = []

    class Server(server):
        def initialize(self):
            super().initialize()
            made.extend([self, self.session.run(self.weights)])
    argv = ["--render", "none", "--workers", "1", "--seed", "1", "--max-frames", "300", *args]
    status = a3c.main(argv, Server, **classes)
    return status, *made, made[0].session.run(made[0].weights)


def settings(monkeypatch, **values):
    for name, value in values.items():
        monkeypatch.setattr(a3c, name, value)


# Settings: each of the functions below measures what a setting decides

def weight_shape(layer, axis):
    words = options()
    with tf.Graph().as_default():
        return a3c.ParameterServer(words, a3c.Progress(words)).weights[layer].shape[axis]


def discount_after_the_time_limit():
    """What the last sample of an episode multiplies V(s_) by."""
    environment = Built(1).learners[0].environment
    environment.env = EndsAt(falls=None)
    environment.agent.brain.train_push = samples = unittest.mock.Mock()
    environment.run(learning=True)
    return samples.call_args.args[4]


def whether_scores_of_60_pass():
    """Both as the mean of the latest episodes and in an evaluation."""
    built = Built(0)
    for _ in range(10):
        built.progress.episode_ended(60)
    built.tester.environment.run = lambda learning: 60
    if built.progress.phase == "evaluating":
        built.tester.evaluate()
    return built.progress.phase == "learned"


def episodes_up_to_the_threshold():
    progress, episodes = a3c.Progress(options()), 0
    while progress.phase == "training":
        progress.episode_ended(200)
        episodes += 1
    return episodes


def episodes_of_an_evaluation():
    tester = Built(0).tester
    tester.progress.recent.append(200)
    tester.environment.run = episodes = unittest.mock.Mock(return_value=200)
    tester.evaluate()
    return episodes.call_count


def whether_a_learner_chooses_its_core():
    with unittest.mock.patch.object(a3c, "share_one_core") as share:
        learner = Built(1).learners[0]
        learner.progress.stop()
        with pytest.raises(a3c.Stopped):
            learner.learn()
    return share.called


def pulls_and_updates_in_12_steps():
    environment = Built(1).learners[0].environment
    brain = environment.agent.brain = unittest.mock.Mock(wraps=environment.agent.brain)
    environment.env = EndsAt(12)
    environment.run(learning=True)
    return [brain.pull_parameter_server.call_count, brain.update_parameter_server.call_count]


def first_update_of_a_weight():
    """What the optimizer makes of a weight 0 whose gradient is 2."""
    with tf.Graph().as_default(), tf.Session() as session:
        weight = tf.Variable(0.0)
        optimizer = a3c.ParameterServer.build_optimizer(None)
        update = optimizer.apply_gradients([(tf.constant(2.0), weight)])
        session.run(tf.global_variables_initializer())
        session.run(update)
        return session.run(weight)


def terms_of_the_loss():
    """Of a policy that tosses a coin and a critic that is 3 too low: critic's and entropy's."""
    with tf.Graph().as_default(), tf.Session() as session:
        p, v, a, target = map(tf.constant, ([[0.5, 0.5]], [1.0], [0], [4.0]))
        return np.ravel(session.run(a3c.LocalBrain.build_loss(None, p, v, a, target))[1:])


def return_and_discount():
    """Of the first of three steps that bring 0, 0 and 1; the episode goes on."""
    agent = a3c.Agent(unittest.mock.Mock(), rng=None)
    for r in 0.0, 0.0, 1.0:
        agent.advantage_push_local_brain(np.zeros(4), 0, r, np.zeros(4), False, False)
    _, _, R, _, discount = agent.brain.train_push.call_args_list[0].args
    return R, discount


def epsilon(frame):
    """The share of random actions, if the numbers drawn for this choice are spread from 0 to 1."""
    agent = a3c.Agent(None, unittest.mock.Mock())
    agent.rng.random.side_effect = [(i + 0.5) / 100 for i in range(100)]
    agent.rng.choices.return_value = [0]
    for _ in range(100):
        agent.explore([0.5, 0.5], frame)
    return agent.rng.randrange.call_count / 100


# the setting: (settings to change, the value to measure then, how to measure it)
SETTINGS = {
    "ENV": ({"ENV": "CartPole-v1"}, "CartPole-v1", lambda: Built(1).tester.environment.env.spec.id),
    "NUM_STATES": ({"NUM_STATES": 6}, 6, lambda: weight_shape(0, 0)),
    "NUM_ACTIONS": ({"NUM_ACTIONS": 3}, 3, lambda: weight_shape(2, 1)),
    "TIME_LIMIT_IS_END": ({"TIME_LIMIT_IS_END": False}, 0.99, discount_after_the_time_limit),
    "LEARNED_MEAN": ({"LEARNED_MEAN": 50}, True, whether_scores_of_60_pass),
    "THRESHOLD_EPISODES": ({"THRESHOLD_EPISODES": 3}, 3, episodes_up_to_the_threshold),
    "EVALUATION_EPISODES": ({"EVALUATION_EPISODES": 4}, 4, episodes_of_an_evaluation),
    "MAX_FRAMES": ({"MAX_FRAMES": 60}, 60, lambda: a3c.parse([]).max_frames),
    "N_WORKERS": ({"N_WORKERS": 3}, 3, lambda: a3c.parse([]).workers),
    "SHARE_ONE_CORE": ({"SHARE_ONE_CORE": False}, False, whether_a_learner_chooses_its_core),
    "Tmax": ({"Tmax": 4}, [3, 3], pulls_and_updates_in_12_steps),
    "HIDDEN_UNITS": ({"HIDDEN_UNITS": 7}, 7, lambda: weight_shape(0, 1)),
    # A step is -rate·g / √(average of g²). The gradient g is 2, and the average starts at 1.
    "LEARNING_RATE": ({"LEARNING_RATE": 3}, -3 * 2 / (0.99 * 1 + 0.01 * 2 ** 2) ** 0.5,
                      first_update_of_a_weight),
    "RMSPROP_DECAY": ({"RMSPROP_DECAY": 0.5}, -5e-3 * 2 / (0.5 * 1 + 0.5 * 2 ** 2) ** 0.5,
                      first_update_of_a_weight),
    "LOSS_V": ({"LOSS_V": 2}, [2 * 3 ** 2, -0.01 * np.log(2)], terms_of_the_loss),
    "LOSS_ENTROPY": ({"LOSS_ENTROPY": 4}, [0.5 * 3 ** 2, -4 * np.log(2)], terms_of_the_loss),
    "GAMMA": ({"GAMMA": 0.5, "N_STEP_RETURN": 3}, (0.5 ** 2, 0.5 ** 3), return_and_discount),
    "N_STEP_RETURN": ({"N_STEP_RETURN": 2}, (0, 0.99 ** 2), return_and_discount),
    "EPS_START": ({"EPS_START": 0.8}, 0.8, lambda: epsilon(0)),
    "EPS_END": ({"EPS_END": 0.3}, 0.3, lambda: epsilon(1600)),
    "EPS_STEPS": ({"EPS_STEPS": 100}, 0.25, lambda: epsilon(50)),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_is_honoured(monkeypatch, name):
    values, wanted, measure = SETTINGS[name]
    settings(monkeypatch, **values)
    assert measure() == pytest.approx(wanted)


def test_no_setting_is_forgotten_here():
    of_other_tests = {"FILMS", "SAVE_SECONDS"}  # see test_script.py
    assert SETTINGS.keys() | of_other_tests == {"Tmax", *filter(str.isupper, vars(a3c))}


def test_the_command_line_starts_from_the_tutorials_settings():
    options = a3c.parse([])
    assert (options.workers, options.max_frames) == (8, 1_000_000)
    assert (options.test_episodes, options.render) == (3, "auto")


def test_without_a_seed_each_run_has_another():
    assert a3c.parse([]).seed != a3c.parse([]).seed  # equal once in four billion times


# Parts: another one by a subclass

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
    _, server, before, after = play(server=Server, brain_class=Brain)
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
        self.server.made = render_mode
        env = gym.make("MountainCar-v0", render_mode=render_mode).unwrapped
        return gym.wrappers.TimeLimit(env, max_episode_steps=20)


MOUNTAIN_CAR = {"NUM_STATES": 2, "NUM_ACTIONS": 3, "LEARNED_MEAN": -21}  # each step costs 1


def test_another_environment_is_filmed_and_its_scores_are_negative(
        monkeypatch, tmp_path, capsys):
    settings(monkeypatch, **MOUNTAIN_CAR, FILMS=str(tmp_path))
    args = "--render", "video", "--test-episodes", "1"
    status, server, *_ = play(*args, environment_class=MountainCar)
    assert status == 0 and server.made == "rgb_array_list"  # `make` can reach the server
    out = capsys.readouterr().out
    assert "\nThreshold reached: mean -20.0 of the last 10 episodes\n" in out
    assert "\nLearned after 200 frames, 10 episodes" in out
    assert "\nTest episode 1: score -20\n" in out
    [length] = film_lengths(tmp_path)
    assert length in (20, 21)


def test_something_to_do_when_an_episode_begins_and_a_reward_of_my_own(monkeypatch):
    class Environment(MountainCar):
        def reward(self, s, r, s_, step, done, terminal):
            return 10 * r + step + 1000 * terminal + float((s != s_).any()) / 2

        def run(self, learning):
            told.append([])
            return super().run(learning)

    class Agent(a3c.Agent):
        def advantage_push_local_brain(self, s, a, r, *rest):
            super().advantage_push_local_brain(s, a, r, *rest)
            told[-1].append(r)
    told = []
    settings(monkeypatch, **MOUNTAIN_CAR | {"LEARNED_MEAN": 0})
    play(environment_class=Environment, agent_class=Agent)
    # An episode has 20 steps. Each costs 1 and moves the car. The time limit ends it.
    rewards = [10 * -1 + step + 0.5 for step in range(1, 20)] + [10 * -1 + 20 + 1000 + 0.5]
    assert told == [rewards] * 15 + [[]]  # 300 frames; in the last episode nothing is played


class Acrobot(a3c.Environment):
    def reward(self, s, r, s_, step, done, terminal):
        return 1.0 if terminal else -0.01


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


def test_a_brain_with_other_layers_than_the_server_is_an_error_not_a_network_of_zeros():
    class Brain(a3c.LocalBrain):
        def _build_model(self):
            a3c.layer("another", 4, 4)
            return super()._build_model()
    with pytest.raises(ValueError, match="zip"):
        a3c.main(["--render", "none"], brain_class=Brain)


class Segments(a3c.Agent):
    """Explores by temperature. Its returns reach to the end of their segment, as in the paper."""

    def explore(self, p, frame):
        return self.rng.choices(range(3), weights=np.sqrt(p).tolist())[0]

    def advantage_push_local_brain(self, s, a, r, s_, done, terminal):
        ends = done or len(self.memory) == a3c.Tmax - 1
        super().advantage_push_local_brain(s, a, r, s_, ends, terminal)


def test_a_whole_program_of_ones_own_trains_saves_and_goes_on(monkeypatch, tmp_path, capsys):
    settings(monkeypatch, ENV="Acrobot-v1", NUM_STATES=6, NUM_ACTIONS=3, TIME_LIMIT_IS_END=False,
             Tmax=20, N_STEP_RETURN=20, LEARNED_MEAN=-100)
    seen = []

    class Brain(a3c.LocalBrain):
        def update_parameter_server(self):
            seen.append([sample[2:] for sample in self.train_queue])
            super().update_parameter_server()
    classes = {"server": TwoTrunks, "brain_class": Brain, "agent_class": Segments,
               "environment_class": Acrobot}
    args = "--checkpoint", str(tmp_path), "--max-frames", "1000"
    powers, last = [], None
    for frames in 1000, 2000:
        status, _, before, after = play(*args, **classes)
        assert status == 1 and [w.shape for w in after][:2] == [(6, 16), (16,)]
        assert not any(map(np.array_equal, before, after))
        assert last is None or same(before, last)
        last = after
        checkpoint = tf.train.load_checkpoint(str(tmp_path / f"model-{frames}"))
        powers.append(checkpoint.get_tensor("parameter_server/beta1_power"))
    # Adam's, which each update multiplies by 0.9. A run has at least 50 updates.
    assert 0 < powers[1] <= powers[0] * 0.9 ** 49 and powers[0] <= 0.9 ** 49
    assert all(len(samples) == 20 for samples in seen[:25])  # 500 steps in segments of 20
    for k, (R, s_, discount) in enumerate(reversed(seen[0])):  # k steps before the segment's last
        assert np.isclose(R, -0.01 * sum(0.99 ** i for i in range(k + 1)))
        assert np.isclose(discount, 0.99 ** (k + 1)) and s_ is seen[0][-1][1]
    status = play("--checkpoint", str(tmp_path), "--play", "--test-episodes", "1", **classes)[0]
    assert status == 0 and "Test episode 1: score -" in capsys.readouterr().out


def test_actions_may_be_real_numbers(monkeypatch):
    """It fails if the input `a`, the check of the environment or predict_p wants whole numbers."""
    actions = []

    class Server(a3c.ParameterServer):
        def _build_model(self):
            w = tf.get_variable("w", (3, 2))

            def forward(s):
                outputs = s @ w
                return outputs[:, :1], outputs[:, 1]  # mean of a, V
            return forward

    class Brain(a3c.LocalBrain):
        actions = tf.float32, (None, 1)

        def build_loss(self, mean, v, a, target):
            advantage = target - v
            actor = tf.reduce_sum(tf.square(a - mean), axis=1) * tf.stop_gradient(advantage)
            return actor, tf.square(advantage), 0 * v

        def train_push(self, s, a, *rest):
            super().train_push(s, a, *rest)
            actions.append(a)

    class Agent(a3c.Agent):
        def act(self, s, frame, greedy=False):
            return self.brain.predict_p(s[np.newaxis])[0] + np.float32(self.rng.gauss(0, 1))
    settings(monkeypatch, ENV="Pendulum-v1", NUM_STATES=3, TIME_LIMIT_IS_END=False)
    _, _, before, after = play(server=Server, brain_class=Brain, agent_class=Agent)
    assert len(actions) > 250  # of 300 steps
    assert not same(before, after) and np.isfinite(after).all()


def test_a_brain_that_threads_share():
    class Server(a3c.ParameterServer):
        def __init__(self, *args):
            super().__init__(*args)
            self.brain = a3c.LocalBrain("shared", self)

    _, server, before, after = play(
        server=Server, brain_class=lambda name, server: server.brain)
    owners = {operation.name.split("/")[0] for operation in server.session.graph.get_operations()}
    assert "shared" in owners and not any("thread" in owner for owner in owners)
    assert not any(map(np.array_equal, before, after))


def test_further_threads_start_with_the_workers_and_are_waited_for():
    begun = threading.Event()

    class Server(a3c.ParameterServer):
        name = "helper"

        def __init__(self, *args):
            super().__init__(*args)
            self.helpers.append(self)

        def run(self):
            begun.set()
            self.progress.coordinator.wait_for_stop()
            time.sleep(0.3)  # main waits for it
            self.seen = threading.current_thread().name, self.progress.frames

    class Environment(a3c.Environment):
        def run(self, learning):
            assert begun.wait(timeout=20)
            return super().run(learning)
    _, server, *_ = play(server=Server, environment_class=Environment)
    assert server.seen == ("helper", 300)


def test_the_seed_decides_the_first_weights():
    first, again, other = (play("--max-frames", "1", "--seed", seed)[2] for seed in "778")
    assert same(first, again) and not any(map(np.array_equal, first[::2], other[::2]))
