"""The variants: their formulas against NumPy, and each as its user starts it."""
import re
import signal
import threading
import time

import numpy as np
import pytest
from helpers import (
    ROOT,
    Built,
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
import pendulum  # noqa: E402
import pong  # noqa: E402

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


@pytest.fixture
def build(monkeypatch, put_back, rng):
    """build(variant, learners): with its settings and random weights."""
    def make(variant, learners=1, **settings):
        # The variant's main assigns its constants, and returns its classes.
        monkeypatch.setattr(a3c, "main", lambda argv, *classes, **named: (classes, named))
        classes, named = variant.main([])
        for name, value in settings.items():
            monkeypatch.setattr(a3c, name, value)
        built = Built(learners, a3c.MAX_FRAMES, 0, *classes, **named)
        for brain in built.brains:
            if hasattr(brain, "weights"):
                randomize(built.server.session, brain.weights, rng)
        return built
    return make


@pytest.mark.parametrize("name", [
    "clipped", "ga3c", "memory", "memory_pendulum", "pendulum", "pong"])
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


@pytest.mark.parametrize("frames", [0, 150_000, 300_000, 400_000])
def test_clipped_gradients_at_a_rate_that_falls_equal_numpy(build, rng, frames):
    built = build(clipped)
    built.progress.frames = frames
    weights = built.values(built.server.weights)
    squares = [np.ones_like(w) for w in weights]
    samples = batch(rng)
    gradients = gradient(built.values(built.brains[0].weights), *samples)
    norm = sum((g ** 2).sum() for g in gradients) ** 0.5
    assert norm > 1  # so it is clipped
    shortened = [g * 0.5 / norm for g in gradients]
    moved = [w.copy() for w in weights]
    rmsprop(moved, squares, shortened)
    update(built.brains[0], *samples)
    rest = max(0, 1 - frames / 300_000)
    for old, new, got in zip(weights, moved, built.values(built.server.weights)):
        np.testing.assert_allclose(got - old, rest * (new - old), rtol=1e-3, atol=1e-7)
    for got, want in zip(built.values(averages(built.server)), squares):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_pendulums_loss_and_its_slopes_equal_numpy(monkeypatch, rng):
    monkeypatch.setattr(a3c, "LOSS_ENTROPY", 0.1)
    mean, spread = rng.normal(size=9), rng.uniform(0.1, 2, size=9)
    a = rng.normal(size=9) * 4  # some beyond the torque that the environment takes
    v, target = rng.normal(size=(2, 9))

    def terms(mean, spread):
        density = np.exp(-(a - mean) ** 2 / (2 * spread ** 2)) / (2 * np.pi * spread ** 2) ** 0.5
        entropy = 0.5 * np.log(2 * np.pi * np.e * spread ** 2)
        return -np.log(density) * (target - v), 0.5 * (target - v) ** 2, -0.1 * entropy
    with tf.Graph().as_default(), tf.Session() as session:
        p = tf.constant(np.stack([mean, spread], axis=1))
        brain = object.__new__(pendulum.Brain)  # its loss needs no network
        got = brain.build_loss(p, tf.constant(v), tf.constant(a[:, None]), tf.constant(target))
        np.testing.assert_allclose(session.run(got), terms(mean, spread), rtol=1e-9)
        slopes = session.run(tf.gradients(tf.add_n(got), p)[0])
    for column, (dm, ds) in enumerate([(1e-6, 0), (0, 1e-6)]):
        up, down = (sum(terms(mean + x * dm, spread + x * ds)) for x in (1, -1))
        np.testing.assert_allclose(slopes[:, column], (up - down) / 2e-6, rtol=1e-4, atol=1e-6)


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


def lstm(weights, seen, c, h):
    """π, V, and what is remembered after each step."""
    w, b, actor, critic = weights
    policies, values, remembered = [], [], []
    for x in seen:
        i, g, f, o = np.split(np.concatenate([x, h]) @ w + b, 4)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        e = np.exp(h @ actor)
        policies.append(e / e.sum())
        values.append((h @ critic)[0])
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
            two.act(np.ones(2), 0)


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
    brain.remembered = states[n, 2:]  # after the last step; the others are in their states
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


def test_ga3c_gives_each_learner_the_policy_of_its_own_state(build, rng, points):
    built = build(ga3c, learners=8)
    states = rng.normal(size=(8, 1, 4))
    for brain, s in zip(built.brains, states):
        built.server.states.give((s, brain.answer))
    built.progress.learners = {"trainer1"}  # the predictor ends when all are answered
    predictor, _ = built.server.helpers
    with pytest.raises(a3c.Stopped):
        predictor.work()
    wanted = predictor.brain.predict_p(states[:, 0])
    np.testing.assert_allclose([brain.answer.take()[0] for brain in built.brains], wanted)
    assert points == [{"batch/states": 8}]


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
def test_what_fails_in_a_helper_of_ga3c_ends_all(monkeypatch, failing):
    def fail(*args):
        raise ValueError("on purpose")
    monkeypatch.setattr(ga3c.SharedBrain, failing, fail)
    helper = "predictor1" if failing == "predict_p" else "trainer1"
    with pytest.raises(RuntimeError, match=f"^{helper} failed: .*on purpose"):
        ga3c.main(["--render", "none", "--workers", "3"])


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


def convolution(x, w, b, stride):
    """Of pictures (height, width, channels), one output after the other."""
    size, places = w.shape[0], range(0, x.shape[0] - w.shape[0] + 1, stride)
    return np.array([[np.tensordot(x[i:i + size, j:j + size], w, 3) + b for j in places]
                     for i in places])


def test_pongs_network_equals_numpy(build, rng):
    built = build(pong)
    brain = built.brains[0]
    put(built.server.session, brain.weights, [rng.normal(size=w.shape) / 20 for w in brain.weights])
    w = built.values(brain.weights)
    s = rng.integers(256, size=(4, 84, 84), dtype=np.uint8)
    x = np.maximum(convolution((s.transpose(1, 2, 0) - 87.0) / 255, w[0], w[1], 4), 0)
    assert x.shape == (20, 20, 16)
    x = np.maximum(convolution(x, w[2], w[3], 2), 0)
    assert x.shape == (9, 9, 32)
    e = np.exp(np.maximum(x.reshape(-1) @ w[4] + w[5], 0) @ w[6] + w[7])
    np.testing.assert_allclose(brain.predict_p(s.reshape(1, -1))[0], e / e.sum(), rtol=1e-4)


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
