"""The variants: their formulas against NumPy, and each as its user starts it."""
import random
import re
import signal
import threading
import time

import numpy as np
import pytest
from helpers import (
    ROOT,
    Built,
    KeptServer,
    a3c,
    averages,
    batch,
    begin,
    differences,
    film_lengths,
    finish,
    gradient,
    options,
    posix,
    put,
    randomize,
    rmsprop,
    same,
    saved_values,
    start,
    tf,
    update,
)

pytest.importorskip("gymnasium")  # classic Gym plays them, too, but names its games otherwise
import clipped  # noqa: E402
import ga3c  # noqa: E402
import memory  # noqa: E402
import memory_pendulum  # noqa: E402
import memory_pong  # noqa: E402
import pendulum  # noqa: E402
import pong  # noqa: E402
import synchronous  # noqa: E402

VARIANTS = ROOT / "tests" / "variants"


def new_server(server_class, *words):
    words = options(*words)
    return server_class(words, a3c.Progress(words))


@pytest.fixture
def put_back(monkeypatch):
    """After the test, each constant has its own value again, whatever a variant has assigned."""
    for module in a3c, memory:
        for name in filter(str.isupper, dir(module)):
            monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(a3c, "Tmax", a3c.Tmax)


def classes_of(variant, *words):
    """Let a variant assign its constants. Returns the classes that it gives to the script's main,
    by the names of main's arguments."""
    def main(argv, server_class=a3c.ParameterServer, brain_class=a3c.LocalBrain,
             agent_class=a3c.Agent, environment_class=a3c.Environment):
        return locals()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(a3c, "main", main)
        classes = variant.main(words)
    del classes["argv"]
    return classes


@pytest.fixture
def build(monkeypatch, put_back, rng):
    """build(variant, learners): with its settings and random weights."""
    def make(variant, learners=1, **settings):
        classes = classes_of(variant)
        for name, value in settings.items():
            monkeypatch.setattr(a3c, name, value)
        built = Built(learners, a3c.MAX_FRAMES, **classes)
        for brain in built.brains:
            if hasattr(brain, "weights"):
                randomize(built.server.session, brain.weights, rng)
        return built
    return make


@pytest.mark.parametrize("name", [
    "clipped", "ga3c", "memory", "memory_pendulum", "memory_pong", "pendulum", "pong",
    "synchronous"])
def test_each_trains_saves_and_films(tmp_path, name):
    program = VARIANTS / f"{name}.py"
    args = "--workers", 2, "--max-frames", 300, "--render", "none", "--checkpoint", "saved"
    status, out, err = finish(start(*args, cwd=tmp_path, program=program))
    assert (status, out.splitlines()[-1]) == (1, "Not learned after 300 frames"), err
    args = "--play", "--checkpoint", "saved", "--test-episodes", 1, "--render", "video"
    status, out, err = finish(start(*args, cwd=tmp_path, program=program))
    assert status == 0 and "Test episode 1: score " in out, err
    [length] = film_lengths(tmp_path)
    assert length > 5


SETTINGS = ("ENV LEARNED_MEAN N_WORKERS LEARNING_RATE LOSS_ENTROPY GAMMA N_STEP_RETURN Tmax "
            "EPS_START HIDDEN_UNITS MAX_FRAMES").split()


@pytest.mark.parametrize("variant, settings, of_the_server", [
    (clipped, ("CartPole-v0", 199, 8, 5e-3, 0.01, 0.99, 5, 10, 0.5, 16, 10 ** 6),
     (0.5, 1e-10, 300_000)),
    (ga3c, ("CartPole-v0", 199, 8, 5e-3, 0.01, 0.99, 5, 10, 0.5, 16, 10 ** 6),
     (None, None, None)),
    (memory, ("CartPole-v0", 199, 4, 2e-3, 0.01, 0.99, 1, 20, 0, 32, 10 ** 6),
     (0.5, None, None)),
    (memory_pendulum, ("Pendulum-v1", -200, 4, 7e-4, 0.003, 0.9, 1, 20, 0, 64, 10 ** 6),
     (0.5, 1e-5, 10 ** 6)),
    (memory_pong, ("PongNoFrameskip-v4", 18, 8, 7e-4, 0.01, 0.99, 1, 20, 0, 16, 10 ** 7),
     (2, 1e-5, 10 ** 8)),
    (pendulum, ("Pendulum-v1", -200, 4, 1e-3, 0.01, 0.95, 10, 20, 0.5, 64, 10 ** 6),
     (1, None, None)),
    (pong, ("PongNoFrameskip-v4", 18, 8, 7e-4, 0.01, 0.99, 20, 20, 0, 16, 10 ** 7),
     (2, 1e-5, 10 ** 8)),
    (synchronous, ("CartPole-v0", 199, 8, 5e-3, 0.01, 0.99, 5, 10, 0.5, 16, 10 ** 6),
     (None, None, None))], ids=lambda x: getattr(x, "__name__", ""))
def test_the_settings_of_each(put_back, variant, settings, of_the_server):
    """The server's: the norm above which it clips, RMSProp's epsilon, the frames to rate 0."""
    server = classes_of(variant)["server_class"]
    assert tuple(getattr(a3c, name) for name in SETTINGS) == settings
    names = "max_norm", "epsilon", "anneal_frames"
    assert tuple(getattr(server, name, None) for name in names) == of_the_server


@pytest.mark.parametrize("variant, place, name, value, error", [
    (memory, a3c, "N_STEP_RETURN", 2, "N_STEP_RETURN must be 1"),
    (memory, memory.Environment, "seen", (0, 1, 2), r"shape \(3,\), but SEEN is 2"),
    (memory_pendulum, memory_pendulum.Environment, "seen", (0,), r"shape \(1,\), but SEEN is 2"),
    (memory_pong, a3c, "N_STEP_RETURN", 20, "N_STEP_RETURN must be 1"),
    (pong, a3c, "N_STEP_RETURN", 19, "N_STEP_RETURN must not be less than Tmax"),
    (pong, a3c, "Tmax", 21, "N_STEP_RETURN must not be less than Tmax"),
    (pendulum, pendulum, "DIMENSIONS", 2, r"shape \(1,\), but DIMENSIONS is 2")])
def test_what_a_variant_cannot_train_on_is_refused_in_a_line(
        monkeypatch, capsys, put_back, variant, place, name, value, error):
    def change_too(*args, configure=variant.configure):
        configure(*args)
        monkeypatch.setattr(place, name, value)
    monkeypatch.setattr(variant, "configure", change_too)
    with pytest.raises(SystemExit) as exited:
        variant.main(["--render", "none", "--max-frames", "20"])
    out, err = capsys.readouterr()
    assert (exited.value.code, out) == (2, "")  # nobody has begun to play
    assert re.fullmatch(rf".*: error: .*{error}.*\n", err)


@pytest.mark.parametrize("variant, layers", [
    (memory, ["hidden"]), (memory_pendulum, ["actor/hidden", "critic/hidden"])])
def test_without_memory_a_layer_learns_from_the_two_numbers(put_back, tmp_path, variant, layers):
    words = "--no-memory", "--render", "none", "--max-frames", "300", "--checkpoint", str(tmp_path)
    assert variant.main(words) == 1
    values = saved_values(tmp_path)
    for layer in layers:
        seen = values[f"parameter_server/{layer}/weights/RMSProp"]  # starts at 1
        assert len(seen) == 2 and (seen != 1).any(axis=1).all()
    assert not any("lstm" in name for name in values)


def moves(server, gradients):
    """How far the server's optimizer moves numbers with these gradients, if its average is 0."""
    numbers = tf.Variable(np.zeros(len(gradients), np.float32))
    update = server.optimizer.apply_gradients([(tf.constant(gradients), numbers)])
    server.initialize()
    server.progress.frames = 400_000  # now a rate that falls has fallen
    put(server.session, [server.optimizer.get_slot(numbers, "rms")], [0])
    server.session.run(update)
    return server.session.run(numbers).tolist()


@pytest.mark.parametrize("variant", [memory, memory_pendulum])
def test_no_memory_changes_the_network_alone(put_back, variant):
    found = []
    for words in [], ["--no-memory"]:
        classes = classes_of(variant, *words)
        server_class = classes.pop("server_class")
        constants = [(name, getattr(module, name)) for module in (a3c, memory)
                     for name in dir(module) if name.isupper() or name == "Tmax"]
        constants = [x for x in constants if x[0] not in ("CELLS", "NUM_STATES")]
        with tf.Graph().as_default():
            server = new_server(server_class)
            moved = moves(server, [1.0, 1e-3])  # with a small one, RMSProp's epsilon counts, too
        found.append((classes, constants, server.max_norm, server.progress.max_frames, moved))
    assert found[0] == found[1] and all(moved)


@pytest.mark.parametrize("server_class, frames", [
    (clipped.Clipping, 150_000), (clipped.FallingRate, 150_000), (clipped.Server, 0),
    (clipped.Server, 150_000), (clipped.Server, 300_000), (clipped.Server, 400_000)])
def test_clipped_gradients_and_a_rate_that_falls_equal_numpy(server_class, rng, frames):
    """Each by itself, given to the script, and both."""
    built = Built(1, server_class=server_class)
    randomize(built.server.session, built.brains[0].weights, rng)
    built.progress.frames = frames
    weights = built.values(built.server.weights)
    squares = [np.ones_like(w) for w in weights]
    samples = batch(rng)
    gradients = gradient(built.values(built.brains[0].weights), *samples)
    norm = sum((g ** 2).sum() for g in gradients) ** 0.5
    assert norm > 1  # so it is clipped
    factor = 1 if server_class is clipped.FallingRate else 0.5 / norm
    moved = [w.copy() for w in weights]
    rmsprop(moved, squares, [g * factor for g in gradients])
    update(built.brains[0], *samples)
    rest = 1 if server_class is clipped.Clipping else max(0, 1 - frames / 300_000)
    for old, new, got in zip(weights, moved, built.values(built.server.weights)):
        np.testing.assert_allclose(got - old, rest * (new - old), rtol=1e-3, atol=1e-7)
    for got, want in zip(built.values(averages(built.server)), squares):
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("dimensions", [1, 2])
def test_pendulums_loss_and_its_slopes_equal_numpy(monkeypatch, rng, dimensions):
    """The numbers of an action are independent, so their densities multiply."""
    monkeypatch.setattr(a3c, "LOSS_ENTROPY", 0.1)
    p = np.hstack([rng.normal(size=(9, dimensions)), rng.uniform(0.1, 2, size=(9, dimensions))])
    a = rng.normal(size=(9, dimensions)) * 4  # some beyond the torque that the environment takes
    v, target = rng.normal(size=(2, 9))

    def terms():
        mean, variance = p[:, :dimensions], p[:, dimensions:] ** 2
        density = np.exp(-(a - mean) ** 2 / (2 * variance)) / (2 * np.pi * variance) ** 0.5
        entropy = (0.5 * np.log(2 * np.pi * np.e * variance)).sum(axis=1)
        actor = -np.log(density.prod(axis=1)) * (target - v)
        return actor, 0.5 * (target - v) ** 2, -0.1 * entropy
    with tf.Graph().as_default(), tf.Session() as session:
        policy = tf.constant(p)
        brain = object.__new__(pendulum.Brain)  # its loss needs no network
        got = brain.build_loss(policy, *map(tf.constant, (v, a, target)))
        np.testing.assert_allclose(session.run(got), terms(), rtol=1e-9)
        slopes = session.run(tf.gradients(tf.add_n(got), policy)[0])
    [wanted] = differences(lambda: np.sum(terms()), [p])
    np.testing.assert_allclose(slopes, wanted, rtol=1e-4, atol=1e-6)


class TwoTorques(a3c.gym.Env):
    """An environment for actions of two numbers, which it keeps."""
    observation_space = a3c.gym.spaces.Box(-9, 9, (3,))
    action_space = a3c.gym.spaces.Box(-2, 2, (2,))
    actions = []

    def reset(self, **seed):
        return np.ones(3, np.float32), {}

    def step(self, action):
        self.actions.append(action)
        return np.ones(3, np.float32), -1.0, False, len(self.actions) % 30 == 0, {}


def test_pendulums_actions_may_be_two_numbers(monkeypatch, put_back):
    monkeypatch.setattr(pendulum, "DIMENSIONS", 2)
    monkeypatch.setattr(a3c.gym, "make", lambda *args, **kwargs: TwoTorques())
    monkeypatch.setattr(TwoTorques, "actions", [])
    assert pendulum.main(["--render", "none", "--max-frames", "100"]) == 1
    assert np.shape(TwoTorques.actions) == (100, 2)

    class Certain:  # means of 1 and -1, spreads of 0.1 and 0.3
        def predict_p(self, s):
            return np.array([[1, -1, 0.1, 0.3]])
    agent, s = pendulum.Agent(Certain(), random.Random(0)), np.ones(3)
    assert agent.act(s, 0, greedy=True).tolist() == [1, -1]
    drawn = np.array([agent.act(s, 0) for _ in range(5000)])
    np.testing.assert_allclose(drawn.mean(axis=0), [1, -1], atol=0.03)
    np.testing.assert_allclose(drawn.std(axis=0), [0.1, 0.3], rtol=0.06)


def test_pendulums_value_equals_numpy(build):
    build(pendulum)  # for its settings; its own graph can't grow any more
    with tf.Graph().as_default():
        server = new_server(pendulum.Server)
        s = np.array([[0.6, -0.8, 5.0]], np.float32)
        _, v = server.forward(tf.constant(s))
        server.initialize()
        values, [got] = server.session.run([server.weights, v])
    w1, b1, w2, b2 = values[4:]  # those of the critic
    assert server.weights[4].op.name == "parameter_server/critic/hidden/weights"
    [wanted] = (np.maximum(s / [1, 1, 8] @ w1 + b1, 0) @ w2 + b2)[0]
    assert got == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("variant, most", [
    (memory_pendulum, 0.5), (pendulum, 1.0), (pong, 2.0)])
@pytest.mark.parametrize("factor", [3.0, 0.5])
def test_a_gradient_is_scaled_down_only_if_its_norm_is_too_large(build, rng, variant, most, factor):
    """RMSProp's averages tell which gradient it was given: they move by 1 % of its square."""
    built = build(variant)
    with tf.Graph().as_default():
        server = new_server(type(built.server))
        gradients = [rng.normal(size=w.shape) for w in server.weights]
        norm = sum((g ** 2).sum() for g in gradients) ** 0.5
        gradients = [g * factor * most / norm for g in gradients]
        update = server.build_update([tf.constant(g, tf.float32) for g in gradients])
        server.initialize()
        before = server.session.run(averages(server))
        server.session.run(update)
        after = server.session.run(averages(server))
    for g, old, new in zip(gradients, before, after):
        given = g / max(factor, 1)
        np.testing.assert_allclose(new - 0.99 * old, 0.01 * given ** 2, rtol=1e-3, atol=1e-6)


def test_clipped_ends_where_its_learning_rate_is_0(build, tmp_path):
    built = build(clipped)
    assert built.server.options.max_frames > built.progress.max_frames == 300_000
    for begins, more, ends in [
            (0, 1000, 1000), (250_000, 40_000, 290_000), (250_000, 60_000, 300_000)]:
        with tf.Graph().as_default():
            server = new_server(clipped.Server, "--checkpoint", tmp_path, "--max-frames", more)
            server.initialize()  # this continues from what the round before has saved
            assert (server.progress.frames, server.progress.max_frames) == (begins, ends)
            server.progress.frames = 250_000
            server.save()


def test_pendulums_policy_and_actions(build, rng):
    built = build(pendulum)
    brain, agent = built.brains[0], built.learners[0].environment.agent
    s = np.array([0.6, -0.8, 5.0], np.float32)
    w1, b1, w2, b2 = built.values(brain.weights[:4])
    mean, spread = np.maximum(s / [1, 1, 8] @ w1 + b1, 0) @ w2 + b2
    mean, spread = 2 * np.tanh(mean), np.log1p(np.exp(spread)) + 1e-3
    np.testing.assert_allclose(brain.predict_p(s[None]), [[mean, spread]], rtol=1e-4)
    np.testing.assert_allclose(agent.act(s, 0, greedy=True), [mean], rtol=1e-4)
    drawn = np.array([agent.act(s, 0) for _ in range(5000)])
    assert drawn.shape == (5000, 1) and drawn.dtype == np.float32
    assert abs(drawn.mean() - mean) < 5 * spread / 5000 ** 0.5
    assert drawn.std() == pytest.approx(spread, rel=0.06)
    environment = built.learners[0].environment
    assert environment.reward(s, -8.0, s, 3, False, False) == 0
    assert environment.reward(s, 0.0, s, 200, True, False) == 0.5
    brain.update_parameter_server = lambda: None
    environment.run(learning=True)
    discounts = [sample[4] for sample in brain.train_queue]  # the time limit is no end
    np.testing.assert_allclose(discounts, [0.95 ** min(10, 200 - t) for t in range(200)])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(weights, seen, c, h, actor_b=0, critic_b=0):
    """π, V, and what is remembered after each step."""
    w, b, actor, critic = weights
    policies, values, remembered = [], [], []
    for x in seen:
        i, g, f, o = np.split(np.concatenate([x, h]) @ w + b, 4)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        e = np.exp(h @ actor + actor_b)
        policies.append(e / e.sum())
        values.append((h @ critic + critic_b)[0])
        remembered.append(np.append(c, h))
    return np.array(policies), np.array(values), np.array(remembered)


def test_the_lstm_equals_numpy_and_each_episode_and_thread_remembers_its_own(
        build, rng, monkeypatch):
    built = build(memory, learners=2)
    one, two = (learner.environment.agent for learner in built.learners)
    seen, zero = rng.normal(size=(7, 2)), np.zeros(32)
    wanted, _, remembered = lstm(built.values(one.brain.weights), seen, zero, zero)
    monkeypatch.setattr(a3c.Environment, "run", lambda *args: None)
    for _ in range(2):  # two episodes
        built.learners[0].environment.run(learning=True)  # nothing but its beginning
        for t in range(7):
            s = one.with_memory(seen[t])
            np.testing.assert_allclose(s[2:], remembered[t - 1] if t else 0, rtol=1e-3, atol=1e-6)
            np.testing.assert_allclose(one.brain.predict_p(s[None])[0], wanted[t], rtol=1e-4)
            one.act(seen[t], 0)
            two.act(np.ones(2), 0)


def test_asking_for_a_policy_does_not_change_what_the_agent_remembers(build):
    agent = build(memory).learners[0].environment.agent
    agent.act(np.ones(2), 0)
    before = agent.remembered.copy()
    policies = [agent.brain.predict_p(agent.with_memory([2, 3])[None]) for _ in range(2)]
    assert before.any() and same(*policies) and same(agent.remembered, before)


def test_memory_sees_no_velocity_and_changes_no_observation():
    class Fixed(a3c.gym.Env):
        observation_space = a3c.gym.spaces.Box(-9, 9, (4,))
        s = np.array([1, 2, 3, 4], np.float32)

        def reset(self, **seed):
            return self.s, {}
    seen, _ = memory.PartlySeen(Fixed(), memory.Environment.seen).reset()
    assert seen.tolist() == [1, 3]
    assert Fixed.s.tolist() == [1, 2, 3, 4]


def test_samples_hold_what_was_remembered_before_and_after_each_step(build):
    built = build(memory, Tmax=1000)
    brain, taken = built.brains[0], []
    brain.update_parameter_server = lambda: taken.extend(brain.train_queue)
    built.learners[0].environment.run(learning=True)
    s, a, R, s_, discounts = map(np.array, zip(*taken))
    assert len(s) == built.progress.frames and same(s[1:], s_[:-1])
    assert not s[0, 2:].any() and s[1:, 2:].any(axis=1).all() and s_[-1, 2:].any()
    assert discounts.tolist() == [0.99] * (len(s) - 1) + [0]


@pytest.mark.parametrize("ended", [True, False])
def test_gae_and_the_gradient_through_the_lstm_equal_numpy(build, rng, ended):
    built = build(memory, GAMMA=0.9)
    brain, n = built.brains[0], 6
    weights = [w.astype(float) for w in built.values(brain.weights)]
    seen, a, r = rng.normal(size=(n + 1, 2)), rng.integers(2, size=n), rng.normal(size=n)
    c, h = rng.normal(size=(2, 32)) * 0.3
    remembered = np.concatenate([[np.append(c, h)], lstm(weights, seen, c, h)[2]])
    states = np.hstack([seen, remembered[:-1]]).astype(np.float32)
    follows = np.array([1.0] * (n - 1) + [0.0 if ended else 1.0])
    values = lstm(weights, seen, c, h)[1]
    delta = r + 0.9 * follows * values[1:] - values[:-1]
    advantage = [sum((0.9 * 0.95) ** (u - t) * delta[u] for u in range(t, n)) for t in range(n)]

    def loss():
        p, v, _ = lstm(weights, seen[:n], c, h)
        actor = -np.log(p[np.arange(n), a]) * advantage
        critic = 0.5 * (values[:-1] + advantage - v) ** 2
        return (actor + critic + 0.01 * (p * np.log(p)).sum(axis=1)).mean()
    gradients = differences(loss, weights)
    brain.train_queue = [(states[t], a[t], r[t], states[t + 1], 0.9 * follows[t])
                         for t in range(n)]
    before = built.values(built.server.weights)
    brain.update_parameter_server()
    norm = sum((g ** 2).sum() for g in gradients) ** 0.5
    assert norm > 0.5  # so it is clipped
    after = zip(before, built.values(built.server.weights), built.values(averages(built.server)))
    for g, (old, new, average) in zip(gradients, after):
        g *= 0.5 / norm
        # RMSProp's averages start at 1, and the learning rate is 2e-3.
        np.testing.assert_allclose(average - 0.99, 0.01 * g ** 2, rtol=0.02, atol=2e-7)
        np.testing.assert_allclose(new - old, -2e-3 * g / average ** 0.5, rtol=0.02, atol=1e-7)


def all_end(built):
    """Start the threads as `main` does, and wait for their end."""
    workers = [built.tester, *built.learners, *built.server.helpers]
    threads = [threading.Thread(target=w.run, daemon=True) for w in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()


@pytest.fixture
def points(monkeypatch):
    """What is added to the curves, in order: {name: number}."""
    points = []
    monkeypatch.setattr(a3c, "add_to_curves", lambda server, numbers: points.append(numbers))
    return points


def test_ga3cs_threads_play_every_frame_and_train_every_sample(build, points):
    built = build(ga3c, learners=3)
    built.progress.max_frames, before = 2000, built.values(built.server.weights)
    all_end(built)
    assert built.progress.frames == 2000 and not built.progress.learners
    assert not any(map(np.array_equal, before, built.values(built.server.weights)))
    sizes = [point["batch/samples"] for point in points if "batch/samples" in point]
    _, trainer = built.server.helpers
    rest = len(trainer.brain.train_queue)
    assert min(sizes) >= 40 > rest and built.server.samples.empty()
    waiting = sum(len(agent.memory) + len(agent.brain.train_queue)
                  for agent in (worker.environment.agent for worker in built.learners))
    assert sum(sizes) + rest + waiting == 2000


def test_ga3c_gives_each_learner_the_policy_of_its_own_states(build, rng, points):
    """Usually a learner asks about one, but an agent may ask about several at once."""
    built = build(ga3c, learners=8)
    states = [rng.normal(size=(n, 4)) for n in (1, 1, 3, 1, 2, 1, 1, 1)]
    for brain, s in zip(built.brains, states):
        built.server.states.give((s, brain.answer))
    built.progress.learners = {"trainer1"}  # the predictor ends when all are answered
    predictor, _ = built.server.helpers
    with pytest.raises(a3c.Stopped):
        predictor.work()
    for brain, s in zip(built.brains, states):
        np.testing.assert_allclose(brain.answer.take(), predictor.brain.predict_p(s), rtol=1e-6)
    assert points == [{"batch/states": 11}]


def test_nobody_waits_at_ga3cs_queues_after_a_stop():
    progress = a3c.Progress(options())
    progress.learners = {"local_thread1", "trainer1"}
    full, empty = ga3c.Queue(progress, 1), ga3c.Queue(progress, 1)
    full.give(1)
    stopped = []

    def wait(method, *args):
        with pytest.raises(a3c.Stopped):
            method(*args)
        stopped.append(method)
    threads = [threading.Thread(target=wait, args=args, daemon=True)
               for args in ((full.give, 2), (empty.take,))]
    for thread in threads:
        thread.start()
    time.sleep(0.3)  # now both wait
    assert not stopped
    progress.coordinator.request_stop()
    for thread in threads:
        thread.join(timeout=20)
    assert len(stopped) == 2


@pytest.mark.parametrize("failing", ["predict_p", "update_parameter_server"])
def test_what_fails_in_a_helper_of_ga3c_ends_all(failing):
    def fail(*args):
        raise ValueError("on purpose")
    helper = "predictor1" if failing == "predict_p" else "trainer1"
    with pytest.raises(RuntimeError, match=f"^{helper} failed: .*on purpose"):
        ga3c.main(["--render", "none", "--workers", "3"],
                  brain_class=type("Brain", (a3c.LocalBrain,), {failing: fail}))


def test_ga3c_asks_the_users_agent_and_brain_for_each_action():
    asked = []

    class Brain(a3c.LocalBrain):
        def predict_p(self, s):
            assert super().predict_p(s).shape == (len(s), 2)
            return np.tile([0.25, 0.75], (len(s), 1))

    class Agent(a3c.Agent):
        def explore(self, p, frame):
            asked.append((*p, frame))
            return super().explore(p, frame)
    words = "--render", "none", "--max-frames", "300"
    assert ga3c.main(words, brain_class=Brain, agent_class=Agent) == 1
    assert sorted(asked) == [(0.25, 0.75, frame) for frame in range(300)]


def test_ga3cs_updates_follow_the_users_loss():
    class Brain(a3c.LocalBrain):
        """Leaves out what the critic learns from."""
        def build_loss(self, p, v, a, target):
            actor, critic, entropy = super().build_loss(p, v, a, target)
            return actor, 0 * critic, entropy

    class Server(KeptServer):
        def initialize(self):
            super().initialize()
            Server.first = self.session.run(self.weights)
    ga3c.main(["--render", "none", "--max-frames", "300"], Server, Brain)
    last = Server.latest.session.run(Server.latest.weights)
    moved = [not np.array_equal(*both) for both in zip(Server.first, last)]
    assert moved == [True] * 4 + [False] * 2


def test_ga3cs_checkpoint_has_the_scripts_variables(tmp_path):
    shapes = []
    for program in a3c, ga3c:
        folder = tmp_path / program.__name__
        words = "--render", "none", "--max-frames", "100", "--checkpoint", str(folder)
        assert program.main(words) == 1
        shapes.append({name: value.shape for name, value in saved_values(folder).items()})
    assert shapes[0] == shapes[1] and len(shapes[0]) == 18  # six weights, RMSProp's two for each


def test_ga3c_trains_with_pongs_returns(put_back):
    """In a segment of 20 steps, returns of 20, 19, ... 1 rewards; without pong's agent all have 20
    until the game ends."""
    rewards = []

    class Brain(a3c.LocalBrain):
        def train_push(self, s, a, R, s_, discount):
            rewards.append(round(np.log(discount) / np.log(0.99)))
            super().train_push(s, a, R, s_, discount)
    classes = classes_of(pong) | {"brain_class": Brain}
    assert ga3c.main(["--render", "none", "--max-frames", "200", "--workers", "2"], **classes) == 1
    assert len(rewards) >= 160 and rewards == [*range(20, 0, -1)] * (len(rewards) // 20)


@pytest.mark.parametrize("program, variant", [
    (ga3c, clipped), (ga3c, pendulum), (ga3c, pong), (synchronous, clipped), (synchronous, memory),
    (synchronous, memory_pendulum), (synchronous, memory_pong), (synchronous, pendulum),
    (synchronous, pong)])
def test_a_variants_classes_learn_in_another_program(put_back, program, variant):
    classes = classes_of(variant)

    class Server(KeptServer, classes["server_class"]):
        def initialize(self):
            super().initialize()
            Server.first = self.session.run(self.weights)
    words = "--render", "none", "--max-frames", "400", "--workers", "3"
    assert program.main(words, **classes | {"server_class": Server}) == 1
    last = KeptServer.latest.session.run(KeptServer.latest.weights)
    assert not any(map(np.array_equal, Server.first, last))


@pytest.mark.parametrize("name, after_frames", [
    ("local_thread1", 0), ("local_thread1", 30), ("predictor1", 0), ("trainer1", 0),
    ("trainer1", 30), ("test_thread", 0), ("test_thread", 30)])
def test_all_of_ga3cs_threads_end_whichever_fails_first(build, name, after_frames):
    built = build(ga3c, learners=2)

    def fail():
        while built.progress.frames < after_frames:
            time.sleep(0.01)
        raise ValueError("on purpose")
    workers = [built.tester, *built.learners, *built.server.helpers]
    [failing] = [worker for worker in workers if worker.name == name]
    failing.work = fail
    all_end(built)
    with pytest.raises(RuntimeError, match=f"^{name} failed: .*on purpose"):
        built.progress.coordinator.raise_requested_exception()  # as main does


def test_ga3cs_threads_end_after_a_passed_evaluation_and_its_weights_stay(build):
    built = build(ga3c, learners=2, LEARNED_MEAN=1)
    all_end(built)
    assert built.progress.phase == "learned" and not built.progress.learners
    weights = built.tester.environment.agent.brain.weights
    assert same(*map(built.values, (weights, built.server.weights)))


def test_ga3c_ends_with_two_predictors_and_two_trainers(build, monkeypatch):
    monkeypatch.setattr(ga3c, "PREDICTORS", {"predictor1", "predictor2"})
    monkeypatch.setattr(ga3c, "TRAINERS", {"trainer1", "trainer2"})
    built, ended = build(ga3c, learners=4), []
    built.progress.max_frames = 3000
    *_, trainer2 = built.server.helpers

    def end_late(work=trainer2.work):
        try:
            work()
        finally:
            time.sleep(0.5)
            ended.append("trainer2")

    def test(test=built.tester.test):
        test()
        ended.append("test_thread")
    trainer2.work, built.tester.test = end_late, test
    all_end(built)
    assert ended == ["trainer2", "test_thread"]  # nobody trains what the test thread plays with
    assert built.progress.frames == 3000 and not built.progress.learners
    assert len({helper.name for helper in built.server.helpers}) == 4


@posix
def test_ctrl_c_ends_ga3c_and_saves(tmp_path):
    args = "--render", "none", "--checkpoint", "saved", "--max-frames", 10 ** 9
    process = start(*args, cwd=tmp_path, program=VARIANTS / "ga3c.py")
    begin(process, " 50 episodes: ")
    process.send_signal(signal.SIGINT)
    status, _, err = finish(process)
    stopped = re.fullmatch(r"Stopped after (\d+) frames\n", err)
    assert status == 130 and stopped, err
    assert (tmp_path / "saved" / f"model-{stopped[1]}.index").exists()


def in_threads(*functions):
    """Start a thread for each function. Returns the threads."""
    threads = [threading.Thread(target=function, daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    return threads


def test_synchronous_learners_make_one_update_with_the_mean_of_their_gradients(build, rng):
    """In the second round the last learner has no sample, so its gradient is 0."""
    built = build(synchronous, learners=3)
    server = built.server
    randomize(server.session, server.weights, rng)
    for thread in in_threads(*(brain.pull_parameter_server for brain in built.brains)):
        thread.join(timeout=20)  # as a run begins
    wanted = built.values(server.weights)
    squares = [np.ones_like(w) for w in wanted]

    def play_round(brain, samples):
        def run():
            update(brain, *samples)
            brain.pull_parameter_server()
        return run
    for sizes in (12, 5, 8), (12, 5, 0):
        samples = [batch(rng, n) for n in sizes]
        before = built.values(server.weights)
        gradients = [gradient(before, *columns) for columns in samples if len(columns[0])]
        *early, late = map(play_round, built.brains, samples)
        threads, latest = in_threads(*early), time.monotonic() + 20
        while len(server.updated) < 2 and time.monotonic() < latest:
            time.sleep(0.01)
        assert same(built.values(server.weights), before)  # not before the last one is ready
        for thread in [*threads, *in_threads(late)]:
            thread.join(timeout=20)
        rmsprop(wanted, squares, [sum(of_all) / 3 for of_all in zip(*gradients)])
        for got, want in zip(built.values(server.weights), wanted):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        for got, want in zip(built.values(averages(server)), squares):
            np.testing.assert_allclose(got, want, rtol=1e-4)
        for brain in built.brains:
            assert same(*map(built.values, (brain.weights, server.weights)))


@pytest.mark.parametrize("learned_mean, frames, n", [(22, 20_000, 5), (199, 1500, 5),
                                                     (199, 1500, 13)])
def test_the_same_seed_gives_the_same_run_of_synchronous_learners(
        monkeypatch, capsys, learned_mean, frames, n):
    """Until an evaluation is passed, or the frames are over; and with returns of more steps than a
    round has, so that there are rounds without samples."""
    monkeypatch.setattr(a3c, "LEARNED_MEAN", learned_mean)
    monkeypatch.setattr(a3c, "N_STEP_RETURN", n)
    words = "--render", "none", "--seed", "7", "--max-frames", str(frames)
    runs = []
    for _ in range(2):
        status = synchronous.main(words, KeptServer)
        out = re.sub(r"\d+\.\d s", "", capsys.readouterr().out)
        # Which of two threads prints first, in the same moment, is chance.
        runs.append((status, sorted(out.splitlines())))
        server = KeptServer.latest
        runs[-1] += tuple(x.tobytes() for x in server.session.run(server.weights))
    assert runs[0] == runs[1] and runs[0][0] == (learned_mean == 199)
    assert any("mean" in line for line in runs[0][1])


@pytest.mark.parametrize("name, place", [
    ("local_thread1", "act"), ("local_thread3", "act"), ("test_thread", "act"),
    ("local_thread1", "update_parameter_server"), ("local_thread3", "update_parameter_server"),
    ("local_thread1", "pull_parameter_server"), ("local_thread3", "pull_parameter_server")])
def test_no_synchronous_learner_waits_for_a_thread_that_has_failed(build, name, place):
    """It fails at its fourth call, and the test thread in an evaluation."""
    built = build(synchronous, learners=3, LEARNED_MEAN=5)
    [worker] = [x for x in [*built.learners, built.tester] if x.name == name]
    agent = worker.environment.agent
    owner = agent if place == "act" else agent.brain
    method, calls = getattr(owner, place), []

    def fail(*args, **named):
        calls.append(args)
        if len(calls) == 4:
            raise ValueError("on purpose")
        return method(*args, **named)
    setattr(owner, place, fail)
    all_end(built)
    with pytest.raises(RuntimeError, match=f"^{name} failed: .*on purpose"):
        built.progress.coordinator.raise_requested_exception()


def test_a_synchronous_learner_may_update_twice_if_it_pulls_in_between(build, rng):
    """If a user's brain computes several gradients in a round, they add up."""
    built = build(synchronous, learners=1)
    brain, first, second = built.brains[0], batch(rng, 7), batch(rng, 7)
    for _ in range(2):
        brain.pull_parameter_server()
    before = built.values(built.server.weights)
    for sample in zip(*first):
        brain.train_push(*sample)
    a3c.LocalBrain.update_parameter_server(brain)
    update(brain, *second)
    wanted, squares = before, [np.ones_like(w) for w in before]
    rmsprop(wanted, squares, map(np.add, gradient(before, *first), gradient(before, *second)))
    for got, want in zip(built.values(built.server.weights), wanted):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="has to pull before each update"):
        update(brain, *second)


@pytest.mark.parametrize("frames", [1, 7, 30, 31, 95])
def test_synchronous_learners_end_together_when_the_frames_are_over(build, frames):
    built = build(synchronous, learners=3)
    built.progress.max_frames = frames
    all_end(built)
    assert built.progress.frames == frames and not built.progress.learners


def convolution(x, w, b, stride):
    """Of pictures (height, width, channels), one output after the other."""
    size, places = w.shape[0], range(0, x.shape[0] - w.shape[0] + 1, stride)
    return np.array([[np.tensordot(x[i:i + size, j:j + size], w, 3) + b for j in places]
                     for i in places])


def features(w, s):
    """The 256 units of pong.py's network for the pictures s (4, 84, 84)."""
    x = np.maximum(convolution((s.transpose(1, 2, 0) - 87.0) / 255, w[0], w[1], 4), 0)
    assert x.shape == (20, 20, 16)
    x = np.maximum(convolution(x, w[2], w[3], 2), 0)
    assert x.shape == (9, 9, 32)
    return np.maximum(x.reshape(-1) @ w[4] + w[5], 0)


def test_pongs_network_equals_numpy(build, rng):
    built = build(pong)
    brain = built.brains[0]
    put(built.server.session, brain.weights, [rng.normal(size=w.shape) / 20 for w in brain.weights])
    w = built.values(brain.weights)
    s = rng.integers(256, size=(4, 84, 84), dtype=np.uint8)
    e = np.exp(features(w, s) @ w[6] + w[7])
    np.testing.assert_allclose(brain.predict_p(s.reshape(1, -1))[0], e / e.sum(), rtol=1e-4)


def test_the_network_of_pong_with_memory_equals_numpy(build, rng):
    """π and V of three successive states, and what is remembered, from the memory before them."""
    build(memory_pong)  # for its settings; its own graph can't grow any more
    pictures = rng.integers(256, size=(3, 4, 84, 84), dtype=np.uint8)
    c, h = rng.normal(size=(2, 256)) * 0.3
    states = np.hstack([pictures.reshape(3, -1), np.tile([*c, *h], (3, 1))]).astype(np.float32)
    states[1:, -512:] = 9  # only the memory before the first state counts
    with tf.Graph().as_default():
        server = new_server(memory_pong.Server)
        got = server.forward(tf.constant(states))
        server.initialize()
        put(server.session, server.weights,
            [rng.normal(size=w.shape) / 20 for w in server.weights])
        w, (p, v) = server.session.run([server.weights, got])
    units = [features(w, s) for s in pictures]
    wanted = lstm([w[6], w[7], w[8], w[10]], units, c, h, w[9], w[11])
    for got, want in zip((p[:, :3], v, p[:, 3:]), wanted):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)


def test_pong_with_memory_has_the_papers_advantage(put_back, rng):
    """A segment's rewards from each step on, then V at its end; less V of the step."""
    classes = classes_of(memory_pong)
    n, r, v = 20, rng.normal(size=20), rng.normal(size=21)
    p, a = rng.dirichlet([1, 1, 1], size=n), rng.integers(3, size=n)
    advantage = np.array([
        sum(0.99 ** (u - t) * r[u] for u in range(t, n)) + 0.99 ** (n - t) * v[n] - v[t]
        for t in range(n)])
    with tf.Graph().as_default(), tf.Session() as session:
        brain = object.__new__(classes["brain_class"])  # its loss needs no network
        tensors = [tf.constant(x, tf.float32) for x in (p, v[:n], r + 0.99 * v[1:])]
        terms = brain.build_loss(tensors[0], tensors[1], tf.constant(a), tensors[2])
        actor, critic, _ = session.run(terms)
    np.testing.assert_allclose(critic, 0.5 * advantage ** 2, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(actor, -np.log(p[range(n), a]) * advantage, rtol=1e-3, atol=1e-5)


def test_pong_gives_four_pictures_three_actions_and_points(build):
    environment = build(pong).learners[0].environment
    env = environment.env
    env.reset(seed=0)
    points, done = [], False
    while not done:
        s, r, terminated, truncated, _ = env.step(1)  # always up
        points.append(environment.reward(s, r, s, 0, False, False))
        done = terminated or truncated
    assert s.shape == (4 * 84 * 84,) and s.dtype == np.uint8 and s.max() > 100
    assert points.count(-1) == 21 and set(points) <= {-1, 0, 1} and env.action_space.n == 3


def test_pongs_actions_and_frames(build):
    env = build(pong).learners[0].environment.env
    meanings = env.unwrapped.get_action_meanings()
    assert [meanings[a] for a in pong.ACTIONS] == ["NOOP", "RIGHT", "LEFT"]  # stay, up, down
    env.reset(seed=0)
    before = env.unwrapped.ale.getEpisodeFrameNumber()
    for _ in range(5):
        env.step(0)
    assert env.unwrapped.ale.getEpisodeFrameNumber() == before + 5 * 4


@pytest.mark.parametrize("terminal", [True, False])
def test_pongs_returns_reach_to_the_end_of_their_segment(build, rng, terminal):
    """47 steps are segments of 20 (Pong's Tmax), 20 and 7. Each return sums the rewards up to the
    end of its segment. The state of step t is the number t."""
    agent = build(pong).learners[0].environment.agent
    r = rng.normal(size=47)
    for t in range(47):
        done = t == 46
        agent.advantage_push_local_brain(t, 0, r[t], t + 1, done, done and terminal)
    samples = agent.brain.train_queue
    assert [s for s, *_ in samples] == list(range(47)) and not agent.memory
    for t, (_, _, R, s_, discount) in enumerate(samples):
        end = min(t - t % 20 + 20, 47)
        assert R == pytest.approx(sum(0.99 ** k * r[t + k] for k in range(end - t)))
        assert s_ == end
        assert discount == (0 if terminal and end == 47 else pytest.approx(0.99 ** (end - t)))


def best_mean(name, folder, frames):
    """The best mean of fifty episodes that a program prints in so many frames."""
    words = "--render", "none", "--seed", 100, "--test-episodes", 1, "--max-frames", frames
    process = start(*words, cwd=folder, program=VARIANTS / f"{name}.py")
    status, out, err = finish(process, seconds=840)
    assert status in (0, 1), err
    return status, max(map(float, re.findall(r"mean (\S+) of the last 50", out)))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name, frames, at_least", [
    ("clipped", 40_000, 50), ("ga3c", 80_000, 50), ("pendulum", 150_000, -700)])
def test_the_score_rises(tmp_path, name, frames, at_least):
    """At first it is about 20, and -1,200 on Pendulum."""
    assert best_mean(name, tmp_path, frames)[1] > at_least


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name, frames", [
    ("clipped", 300_000), ("ga3c", 500_000), ("memory", 1_000_000), ("memory_pendulum", 1_000_000),
    ("pendulum", 1_000_000)])
def test_the_task_is_learned(tmp_path, name, frames):
    assert best_mean(name, tmp_path, frames)[0] == 0
