"""The variants: their formulas against NumPy, their threads, and each as its user starts it."""
import ast
import importlib
import operator
import random
import re
import unittest.mock

import numpy as np
import pytest
from helpers import (
    LEARNED, NOT_LEARNED, ROOT, WRONG_OPTION, Built, EndsAt, a3c, averages, batch,
    film_lengths, finish, options, put, randomize, run, same, start, tf, update)
from reference import differences, forward, gradient, rmsprop
from scipy.special import expit as sigmoid
from scipy.special import softmax

pytest.importorskip("gymnasium")  # classic Gym plays them, too, but names its games otherwise
pytest.importorskip("ray")
import clipped
import distributed
import ga3c
import memory
import memory_pendulum
import memory_pong
import pendulum
import pong
import returns
import synchronous

VARIANTS = ROOT / "tests" / "variants"


PAGE = (VARIANTS / "README.md").read_text(encoding="utf-8")


def table(heading):
    """The rows of the page's table that begins with `heading`, without the line below it."""
    [rows] = [part.splitlines() for part in PAGE.split("\n\n") if part.startswith(heading)]
    return [[cell.strip(" `") for cell in row.split("|")[1:-1]] for row in (rows[0], *rows[2:])]


def module(name):
    return importlib.import_module(name.removesuffix(".py"))


def classes_of(variant, *words):
    """Let a variant assign its constants. Returns the classes that it gives to the script's main,
    by the names of main's arguments."""
    def main(argv, server_class=a3c.ParameterServer, brain_class=a3c.LocalBrain,
             agent_class=a3c.Agent, environment_class=a3c.Environment,
             worker_class=a3c.Worker_thread):
        return locals()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(a3c, "main", main)
        classes = variant.main(words)
    del classes["argv"]
    return classes


@pytest.fixture
def build(monkeypatch, put_back):
    """build(variant, learners): what its main builds, with its settings."""
    def make(variant, learners=1, **settings):
        classes = classes_of(variant)
        for name, value in settings.items():
            monkeypatch.setattr(a3c, name, value)
        return Built(learners, a3c.MAX_FRAMES, **classes)
    return make


# Each as its user starts it (distributed.py: in test_distributed.py, too)

NAMES = sorted({path.stem for path in VARIANTS.glob("*.py")} - {"distributed", "returns"})
TO_LEARN = {"clipped": 300_000, "distributed": 300_000, "ga3c": 500_000, "memory": 1_000_000,
            "memory_pendulum": 1_000_000, "pendulum": 1_000_000}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name, frames, workers, status", [
    *[(name, 300, 2, NOT_LEARNED) for name in NAMES],
    *[pytest.param(name, frames, 8, LEARNED, marks=pytest.mark.long)
      for name, frames in TO_LEARN.items()]])
def test_each_variant_starts_saves_and_plays(
        tmp_path, monkeypatch, put_back, name, frames, workers, status):
    """It films what it has saved. In the long tests it learns."""
    process = start("--render", "none", "--seed", 100, "--max-frames", frames, "--workers", workers,
                    "--checkpoint", "saved", cwd=tmp_path, program=VARIANTS / f"{name}.py")
    assert finish(process, seconds=840)[0] == status
    monkeypatch.chdir(tmp_path)
    words = "--play", "--checkpoint", "saved", "--test-episodes", "1", "--render", "video"
    assert module(name).main(words) == LEARNED
    [pictures] = film_lengths(tmp_path)
    assert pictures > 5  # of one episode, in one film


# Settings

def settings(**classes):
    """{name: value} of the constants, and of what a server and a brain of these classes have."""
    built = Built(1, **classes)
    server, optimizer, brain = built.server, built.server.optimizer, built.brains[0]
    rate = server.session.run(optimizer._learning_rate_tensor)
    return a3c.constants() | {
        "gae_lambda": getattr(brain, "gae_lambda", None),
        "TRAINING_BATCH": ga3c.TRAINING_BATCH if hasattr(server, "states") else None,
        "LEARNING_RATE": round(float(rate), 8), "RMSPROP_DECAY": optimizer._decay,
        "epsilon": optimizer._epsilon, "max_norm": getattr(server, "max_norm", None),
        "anneal_frames": getattr(server, "anneal_frames", None)}


@pytest.mark.parametrize("name, words, not_on_page", [
    *[(name, (), {}) for name in NAMES],
    *[(name, ("--no-memory",), {"NUM_STATES": 2}) for name in ("memory", "memory_pendulum")]])
def test_a_variant_has_the_scripts_settings_but_for_those_in_the_variants_page(
        put_back, name, words, not_on_page):
    [row] = [cell for program, cell in table("| variant | settings |") if program == f"{name}.py"]
    on_page = {setting: ast.literal_eval(value)
               for setting, value in re.findall(r"(\w+) = ([^`]+)", row)}
    wanted = settings() | on_page | not_on_page
    assert settings(**classes_of(module(name), *words)) == wanted


def test_programs_can_be_configured_in_turn(monkeypatch, put_back):
    """As in a notebook. What the user has set stays."""
    monkeypatch.setattr(a3c, "LOSS_V", 0.25)
    programs = memory, pong, memory_pendulum, clipped, pendulum, memory_pong, memory, clipped
    before, found = a3c.constants(), {}
    for program in programs:
        classes_of(program)
        assert found.setdefault(program, a3c.constants()) == a3c.constants()
    assert found[clipped] == before and all(now["LOSS_V"] == 0.25 for now in found.values())


@pytest.mark.parametrize("variant, owner, name, value, error", [
    (memory, a3c, "N_STEP_RETURN", 2, "N_STEP_RETURN must be 1"),
    (memory, memory.Positions, "positions", [0, 1, 2], r"shape \(3,\), but .* `seen` is 2"),
    (pendulum, a3c, "NUM_ACTIONS", 4, r"shape \(1,\), but NUM_ACTIONS, .* is 4"),
    (pendulum, a3c, "NUM_STATES", 2, "state_scale has 3 numbers, but NUM_STATES is 2")])
def test_unfit_settings_are_refused_in_one_line(
        monkeypatch, capsys, put_back, variant, owner, name, value, error):
    def configure_wrongly(*args, rightly=variant.configure):
        rightly(*args)
        monkeypatch.setattr(owner, name, value)
    monkeypatch.setattr(variant, "configure", configure_wrongly)
    with pytest.raises(SystemExit) as exited:
        variant.main(["--render", "none", "--max-frames", "20"])
    out, err = capsys.readouterr()
    assert (exited.value.code, out) == (WRONG_OPTION, "")  # nobody has begun to play
    assert re.fullmatch(rf".*: error: .*{error}.*\n", err)


# What goes with what

HEADER, *ROWS = table("| | `synchronous.py`")
PAIRS = [(program, row[0], cell) for row in ROWS for program, cell in zip(HEADER[1:], row[1:])]


@pytest.mark.parametrize("program, setting, classes, error", [
    (ga3c, "PREDICTORS", {}, "a predictor and a trainer"),
    (ga3c, "TRAINERS", {}, "a predictor and a trainer"),
    (ga3c, None, {"server_class": synchronous.Server}, "with synchronous.py"),
    (ga3c, None, {"brain_class": returns.GAE}, "with GAE"),
    (ga3c, None, {"agent_class": memory.Agent}, "an LSTM"),
    (distributed, None, {"server_class": synchronous.Server}, "with synchronous.py")])
def test_unfit_classes_are_refused_in_one_line(
        monkeypatch, capsys, fake_ray, program, setting, classes, error):
    if setting:
        monkeypatch.setattr(program, setting, set())
    with pytest.raises(SystemExit) as exited:
        program.main(["--render", "none"], **classes)
    out, err = capsys.readouterr()
    assert (exited.value.code, out) == (WRONG_OPTION, "")
    assert re.fullmatch(rf".*: error: .*{error}.*\n", err)


@pytest.mark.parametrize("of_program, of_variant, goes", PAIRS)
def test_what_goes_with_what(put_back, fake_ray, of_program, of_variant, goes):
    """A variant's classes train in another program, or are refused there."""
    program, classes = module(of_program), classes_of(module(of_variant))
    del classes["worker_class"]  # the program has its own
    words = ["--max-frames", 100, "--workers", 2]
    if program is distributed:
        words += ["--processes", 1]
    if goes == "no":
        with pytest.raises(SystemExit, match=str(WRONG_OPTION)):
            run(*words, main=program.main, **classes)
        return
    status, server = run(*words, main=program.main, **classes)
    assert status == NOT_LEARNED  # it trains, too briefly to learn
    assert not any(map(np.array_equal, server.first, server.session.run(server.weights)))


# What all learners share

@pytest.fixture
def normalized():
    """The classes of the page's program normalized.py."""
    [program] = re.findall(r"^```python\n([^`]*tf.unstack[^`]*)^```", PAGE, re.M)
    names = {"__name__": "normalized"}
    exec(program, names)
    return names["Server"], names["Brain"]


@pytest.mark.parametrize("program", [a3c, synchronous, ga3c, distributed])
def test_shared_sums_are_those_of_all_states(
        monkeypatch, rng, normalized, fake_ray, tmp_path, program):
    """They are also pulled, used, saved and played with. A round of waiting learners adds the mean
    of its samples, other updates add sums."""
    class Brain(normalized[1]):
        def update_parameter_server(self):
            trained.append([s for s, *_ in self.train_queue])
            brains.append(self)
            super().update_parameter_server()
    trained, brains = [], []
    words = ["--checkpoint", tmp_path, "--max-frames", 500]
    more = ["--processes", 1] if program is distributed else []
    classes = {"server_class": normalized[0], "brain_class": Brain}
    _, server = run(*words, *more, main=program.main, **classes)
    wanted = np.array([[1], [0], [1]]) * np.ones(4)
    for states in filter(len, trained):
        s = np.array(states)
        added = np.array([np.ones_like(s), s, s ** 2])
        wanted += added.mean(axis=1) if program is synchronous else added.sum(axis=1)
    sums, *weights = server.session.run(server.weights)
    np.testing.assert_allclose(sums, wanted, rtol=1e-3, atol=1e-3)
    mean = wanted[1] / wanted[0]
    spread = (wanted[2] / wanted[0] - mean ** 2) ** 0.5
    s = rng.normal(size=(5, 4))
    if program is a3c:
        brains[0].pull_parameter_server()
        np.testing.assert_allclose(
            brains[0].predict_p(s), forward(weights, ((s - mean) / spread).clip(-5, 5))[0],
            rtol=1e-3)
    status, player = run(*words, "--play", **classes)
    assert status == LEARNED and same(player.first, [sums, *weights])


@pytest.mark.parametrize("program", [synchronous, distributed])
def test_a_variable_outside_the_loss_stays(fake_ray, program):
    class Server(a3c.ParameterServer):
        def _build_model(self):
            a3c.layer("unused", 2, 3)
            return super()._build_model()
    more = ["--processes", 1] if program is distributed else []
    status, server = run("--max-frames", 50, *more, main=program.main, server_class=Server)
    unused, *used = server.session.run(server.weights)
    assert status == NOT_LEARNED and np.array_equal(unused, server.first[0])
    assert not np.array_equal(used[-1], server.first[-1])


def test_constants_may_be_numbers_of_numpy(monkeypatch):
    """Other processes get these, too."""
    monkeypatch.setattr(a3c, "GAMMA", np.float32(0.5))
    assert a3c.constants()["GAMMA"] == 0.5


# Clipping and the falling rate

@pytest.mark.parametrize("server_class, max_norm, frames", [
    (clipped.Clipping, 0.5, 150_000), (clipped.Clipping, 50, 150_000),
    (clipped.FallingRate, 0.5, 150_000), (clipped.Server, 0.5, 150_000),
    (clipped.Server, 0.5, 400_000)])
def test_an_update_equals_numpy(monkeypatch, rng, server_class, max_norm, frames):
    """With clipped gradients, a falling rate or both. A norm of 0.5 clips these gradients, 50
    doesn't. At 300,000 frames the rate has become 0."""
    monkeypatch.setattr(clipped.Clipping, "max_norm", max_norm)
    built = Built(1, server_class=server_class)
    randomize(built.server.session, built.brains[0].weights, rng)
    built.progress.frames = frames
    weights = built.values(built.server.weights)
    squares = [np.ones_like(w) for w in weights]
    samples = batch(rng)
    gradients = gradient(built.values(built.brains[0].weights), *samples)
    norm = sum((g ** 2).sum() for g in gradients) ** 0.5
    assert 1 < norm < 50
    factor = 1 if server_class is clipped.FallingRate else min(1, max_norm / norm)
    moved = [w.copy() for w in weights]
    rmsprop(moved, squares, [g * factor for g in gradients])
    update(built.brains[0], *samples)
    rate = 1 if server_class is clipped.Clipping else max(0, 1 - frames / 300_000)
    for old, new, got in zip(weights, moved, built.values(built.server.weights)):
        np.testing.assert_allclose(got - old, rate * (new - old), rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("max_frames, end, said", [
    (40_000, 290_000, ""),
    (60_000, 300_000, "The learning rate is 0 after 300000 frames, and the run ends\n")])
def test_clipped_ends_where_its_rate_is_0(monkeypatch, capsys, max_frames, end, said):
    """It says so, and counts the frames of earlier runs."""
    def continue_after_250_000_frames(server):
        server.progress.max_frames += 250_000
    monkeypatch.setattr(a3c.ParameterServer, "initialize", continue_after_250_000_frames)
    built = Built(1, max_frames, server_class=clipped.Server)
    assert built.progress.max_frames == end and capsys.readouterr().out == said


# Networks: what a NumPy reference gives for weights in their order of creation, and states

def layer(x, w, b):
    return x @ w + b


def relu(x):
    return np.maximum(x, 0)


def normal(outputs):
    """Means and spreads of torques."""
    mean, spread = np.split(outputs, 2, axis=1)
    return np.hstack([2 * np.tanh(mean), np.log1p(np.exp(spread)) + 1e-3])


def lstm(xs, w, b, c, h):
    """c and h after each step, if they are these before the first."""
    cs, hs = [], []
    for x in xs:
        i, g, f, o = np.split(np.append(x, h) @ w + b, 4)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        cs.append(c)
        hs.append(h)
    return np.array(cs), np.array(hs)


def pendulum_numpy(w, s):
    s = s / [1, 1, 8]
    actor, critic = (layer(relu(layer(s, *of[:2])), *of[2:]) for of in (w[:4], w[4:]))
    return normal(actor), critic[:, 0]


def memory_numpy(w, s):
    c, h = lstm(s[:, :2], *w[:2], *np.split(s[0, 2:], 2))
    return np.hstack([softmax(h @ w[2], axis=1), c, h]), (h @ w[3])[:, 0]


def memory_pendulum_numpy(w, s):
    x, (c1, c2, h1, h2) = s[:, :2], np.split(s[0, 2:], 4)
    c1, h1 = lstm(x, *w[:2], c1, h1)
    c2, h2 = lstm(x, *w[2:4], c2, h2)
    actor = layer(relu(layer(np.hstack([x, h1]), *w[4:6])), *w[6:8])
    critic = layer(relu(layer(np.hstack([x, h2]), *w[8:10])), *w[10:])
    return np.hstack([normal(actor), c1, c2, h1, h2]), critic[:, 0]


def convolution(x, w, b, stride):
    """Of one state's pictures (height, width, channels)."""
    parts = np.lib.stride_tricks.sliding_window_view(x, w.shape[:3])[::stride, ::stride, 0]
    return np.tensordot(parts, w, 3) + b


def pong_units(w, s):
    """The 256 units of pong.py's hidden layer for each state."""
    units = []
    for pictures in s.reshape(-1, 4, 84, 84):
        x = (pictures.transpose(1, 2, 0) - 87.0) / 255
        x = relu(convolution(x, w[0], w[1], 4))
        x = relu(convolution(x, w[2], w[3], 2))
        units.append(relu(layer(x.reshape(-1), w[4], w[5])))
    return np.array(units)


def pong_numpy(w, s):
    h = pong_units(w, s)
    return softmax(layer(h, *w[6:8]), axis=1), layer(h, *w[8:])[:, 0]


def memory_pong_numpy(w, s):
    c, h = lstm(pong_units(w, s[:, :-512]), *w[6:8], *np.split(s[0, -512:], 2))
    return np.hstack([softmax(layer(h, *w[8:10]), axis=1), c, h]), layer(h, *w[10:])[:, 0]


@pytest.mark.parametrize("variant, reference, remembered, spread", [
    (pendulum, pendulum_numpy, 0, 0.7), (memory, memory_numpy, 64, 0.7),
    (memory_pendulum, memory_pendulum_numpy, 256, 0.7), (pong, pong_numpy, 0, 0.05),
    (memory_pong, memory_pong_numpy, 512, 0.05)])
def test_policy_value_and_memory_of_successive_states_equal_numpy(
        put_back, rng, variant, reference, remembered, spread):
    """The weights are random numbers; so are the three states, but for Pong's pictures."""
    classes = classes_of(variant)
    s = rng.normal(size=(3, a3c.NUM_STATES))
    if variant in (pong, memory_pong):
        s = rng.integers(256, size=s.shape).astype(float)
        s[:, s.shape[1] - remembered:] = rng.normal(size=remembered) * 0.3  # perhaps none
    if remembered:
        s[1:, -remembered:] = 9  # only the memory before the first state counts
    with tf.Graph().as_default():
        server = classes["server_class"](a3c.open_session(), a3c.Progress(options()))
        brain = classes["brain_class"]("local_thread1", server)
        outputs = brain.forward(tf.constant(s, tf.float32))
        put(server.session, brain.weights,
            [rng.normal(size=w.shape) * spread for w in brain.weights])
        weights, got = server.session.run([brain.weights, outputs])
    for x, want in zip(got, reference(weights, s), strict=True):
        np.testing.assert_allclose(x, want, rtol=1e-3, atol=1e-5)


# Continuous actions

@pytest.mark.parametrize("dimensions", [1, 2])
def test_pendulums_loss_and_its_gradients_equal_numpy(put_back, rng, dimensions):
    """The numbers of an action are independent, so their densities multiply."""
    pendulum.configure()
    a3c.LOSS_ENTROPY = 0.1  # ten times its own value
    p = np.hstack([rng.normal(size=(9, dimensions)), rng.uniform(0.1, 2, size=(9, dimensions))])
    a = rng.normal(size=(9, dimensions)) * 4  # some beyond the torque that the environment takes
    v, target = rng.normal(size=(2, 9))
    advantage = target - v  # a constant for the actor

    def terms():
        mean, variance = p[:, :dimensions], p[:, dimensions:] ** 2
        density = np.exp(-(a - mean) ** 2 / (2 * variance)) / (2 * np.pi * variance) ** 0.5
        entropy = (0.5 * np.log(2 * np.pi * np.e * variance)).sum(axis=1)
        actor = -np.log(density.prod(axis=1)) * advantage
        return actor, 0.5 * (target - v) ** 2, -0.1 * entropy
    with tf.Graph().as_default(), tf.Session() as session:
        policy, values = tf.constant(p), tf.constant(v)
        brain = object.__new__(pendulum.Brain)  # its loss needs no network
        taken = tf.placeholder_with_default(a, (None, *brain.action_shape))
        got = brain.build_loss(policy, values, taken, tf.constant(target))
        np.testing.assert_allclose(session.run(got), terms(), rtol=1e-9)
        gradients = session.run(tf.gradients(tf.add_n(got), [policy, values]))
    for g, wanted in zip(gradients, differences(lambda: np.sum(terms()), [p, v])):
        np.testing.assert_allclose(g, wanted, rtol=1e-4, atol=1e-6)


def test_greedy_torques_are_the_mean(monkeypatch):
    """Others are drawn with the spread, and not cut at 2."""
    monkeypatch.setattr(a3c, "NUM_ACTIONS", 4)  # two torques
    brain = unittest.mock.Mock()
    brain.predict_p.return_value = np.array([[1, -1.75, 0.1, 0.3]])  # means, then spreads
    agent, s = pendulum.Agent(brain, random.Random(0)), np.ones(3)
    greedy = agent.act_greedily(s)
    assert greedy.dtype == np.float32 and greedy.tolist() == [1, -1.75]
    drawn = np.array([agent.act(s, 0) for _ in range(5000)])
    assert drawn.dtype == np.float32 and drawn.min() < -2  # not cut
    np.testing.assert_allclose(drawn.mean(axis=0), [1, -1.75], atol=0.03)
    np.testing.assert_allclose(drawn.std(axis=0), [0.1, 0.3], rtol=0.06)


def test_pendulums_rewards_are_scaled(build):
    """From -16 ... 0 to -0.5 ... 0.5."""
    environment = build(pendulum).learners[0].environment
    for r, scaled in (-16.0, -0.5), (-8.0, 0), (0.0, 0.5):
        assert environment.reward(None, None, r, None, 3, False) == scaled


# Memory

@pytest.mark.parametrize("variant, environment_class, positions", [
    (memory, memory.Positions, [0, 2]),  # of the cart and the pole
    (memory_pendulum, memory_pendulum.Environment, [0, 1])])  # cos and sin of the angle
def test_variants_with_memory_see_positions_but_no_velocities(
        put_back, variant, environment_class, positions):
    variant.configure()
    agent = unittest.mock.Mock(**{"brain.server.seen": 2})
    environment = environment_class(agent, unittest.mock.Mock())
    partly, _ = environment.env.reset(seed=7)
    whole, _ = a3c.gym.make(a3c.ENV).reset(seed=7)
    np.testing.assert_array_equal(partly, whole[positions])


def test_samples_hold_the_memory_of_their_episode(build):
    """And of their thread: calls by others don't change it. Each episode, also one that is shown,
    begins with zeros."""
    built = build(memory, learners=2, Tmax=1000)  # one update an episode
    environment, other = (learner.environment for learner in built.learners)
    agent, brain, before = environment.agent, environment.agent.brain, []  # the memories

    def policy_among_others(s, really=agent.policy):
        before.append(agent.remembered)
        p = really(s)
        other.agent.act(np.ones(2), 0)
        brain.predict_p(np.ones((1, 66)))  # 2 numbers that are seen, 64 that are remembered
        return p
    agent.policy = policy_among_others
    brain.update_parameter_server = unittest.mock.Mock()
    for episode in 1, 2:
        environment.run()
        s, _, _, s_, _ = map(np.array, zip(*brain.train_queue))
        brain.train_queue.clear()
        assert brain.update_parameter_server.call_count == episode
        assert not s[0, 2:].any() and same(s[1:], s_[:-1])
        policy_and_memory, _ = memory_numpy(built.values(brain.weights), s)
        np.testing.assert_allclose(s_[:, 2:], policy_and_memory[:, 2:], rtol=1e-3, atol=1e-5)
    for env in environment.env, environment.make():  # of an evaluation, of a test episode
        before.clear()
        environment.play(env)
        assert before[1].any() and not before[0].any()


@pytest.mark.parametrize("variant, without_memory, actions, gamma_lambda", [
    (memory, a3c.LocalBrain, [1] * 20, 0.99 * 0.95),
    (memory_pendulum, pendulum.Brain, [[1.0]] * 20, 0.9 * 0.95),
    (memory_pong, a3c.LocalBrain, [1] * 20, 0.99 * 1)])
def test_a_loss_with_memory_has_generalized_advantages(
        put_back, rng, variant, without_memory, actions, gamma_lambda):
    """A brain without memory has the same loss and gradients, if it is given those sums as
    advantages (GAE)."""
    brain = object.__new__(classes_of(variant)["brain_class"])  # its loss needs no network
    delta = rng.normal(size=20)
    advantage = [sum(gamma_lambda ** (u - t) * delta[u] for u in range(t, 20)) for t in range(20)]
    with tf.Graph().as_default(), tf.Session() as session:
        p = tf.constant(rng.uniform(0.1, 1, (20, a3c.NUM_ACTIONS)), tf.float32)
        p_and_memory = tf.concat([p, tf.ones([20, 64])], axis=1)
        v, a = tf.constant(rng.normal(size=20), tf.float32), tf.constant(actions)
        got = brain.build_loss(p_and_memory, v, a, tf.stop_gradient(v + delta))
        wanted = without_memory.build_loss(None, p, v, a, tf.stop_gradient(v + advantage))
        gradients = [tf.gradients(tf.add_n(terms), [p, v]) for terms in (got, wanted)]
        for x, y in zip(*session.run([[*got, *gradients[0]], [*wanted, *gradients[1]]])):
            np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)


# Threads

AGENT, BRAIN = "environment.agent", "environment.agent.brain"


@pytest.mark.timeout(60)  # with a fault they wait for ever
@pytest.mark.parametrize("program, name, owner, method", [
    (ga3c, "local_thread1", AGENT, "act"), (ga3c, "predictor1", BRAIN, "predict_p"),
    (ga3c, "trainer1", BRAIN, "update_parameter_server"),
    (ga3c, "test_thread", AGENT, "act_greedily"),
    (synchronous, "local_thread1", AGENT, "act"), (synchronous, "local_thread3", AGENT, "act"),
    (synchronous, "local_thread1", BRAIN, "pull_parameter_server"),
    (synchronous, "local_thread3", BRAIN, "update_parameter_server"),
    (synchronous, "test_thread", AGENT, "act_greedily")])
def test_all_threads_end_whichever_fails_first(build, program, name, owner, method):
    """One fails at its fourth call of this method; the test thread does so in an evaluation."""
    built = build(program, learners=3, LEARNED_MEAN=5 if name == "test_thread" else 199)
    [worker] = [worker for worker in (built.tester, *built.learners) if worker.name == name]
    owner = operator.attrgetter(owner)(worker)
    four_calls = [unittest.mock.DEFAULT] * 3 + [ValueError("on purpose")]
    setattr(owner, method, unittest.mock.Mock(wraps=getattr(owner, method), side_effect=four_calls))
    with pytest.raises(ValueError, match="on purpose"):
        built.run()
    assert built.progress.failure[1] == name


def test_ga3c_plays_every_frame_and_loses_no_sample(build, points):
    built = build(ga3c, learners=3)
    built.progress.max_frames = 2000
    assert built.progress.learning_threads > ga3c.TRAINERS  # the test thread waits for these, too
    built.run()
    assert built.progress.frames == 2000 and not built.progress.learning_threads
    sizes = [point["batch/samples"] for point in points if "batch/samples" in point]
    *learners, _, trainer = built.brains
    rest = len(trainer.train_queue)  # too few for an update
    assert min(sizes) >= 40 > rest and built.server.samples.empty()
    agents = [worker.environment.agent for worker in built.learners]
    learners_rest = sum(len(agent.memory) + len(brain.train_queue)
                        for agent, brain in zip(agents, learners))
    assert sum(sizes) + rest + learners_rest == 2000


def test_ga3cs_age_counts_updates(build, rng, points):
    """Those since the samples of an update were begun."""
    built = build(ga3c)
    brain, trainer = built.brains[0], built.learners[-1]
    brain.pull_parameter_server()
    built.server.updates += 3  # by others
    update(brain, *batch(rng, 40))
    built.progress.learning_threads = {"trainer1"}  # it ends when all samples are used
    with pytest.raises(a3c.Stopped):
        trainer.learn()
    assert points[0] == {"batch/samples": 40, "age": 3}
    assert built.server.updates == 3 + 1


def test_ga3cs_last_samples_are_still_taken():
    """The learner plays at the trainer's first look, and has given and ended at the second."""
    def learners():
        if next(plays):
            return {"local_thread1", "trainer1"}
        samples.put("the last samples")
        return {"trainer1"}
    progress, plays = unittest.mock.MagicMock(), iter([True, False])
    progress.stopped = False
    type(progress).learning_threads = unittest.mock.PropertyMock(side_effect=learners)
    samples = ga3c.Queue(progress, maxsize=1)
    assert samples.take() == "the last samples"


def test_ga3c_gives_each_learner_its_own_policy(build, rng, points):
    """That of the state it has asked about."""
    built = build(ga3c, learners=8)
    states = rng.normal(size=(8, 1, 4))
    for brain, s in zip(built.brains, states):
        built.server.states.give((s, brain.answer))
    built.progress.learning_threads = {"trainer1"}  # the predictor ends when all are answered
    *_, predictor, trainer = built.brains
    with pytest.raises(a3c.Stopped):
        built.learners[-2].learn()
    for brain, s in zip(built.brains, states):
        np.testing.assert_allclose(brain.answer.take(), predictor.predict_p(s), rtol=1e-6)
    assert points == [{"batch/states": 8}]
    for brain in predictor, trainer:  # they never pull
        assert brain.weights == built.server.weights  # the same variables, not copies


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("program", [ga3c, synchronous])
def test_a_bad_gradient_moves_no_shared_weight(build, monkeypatch, program, number):
    """One that isn't finite ends the run, and changes nothing that the optimizer or a round keeps
    either."""
    monkeypatch.setattr(a3c.Environment, "reward", lambda *step: number)
    built = build(program, learners=3)
    kept = sum(getattr(built.server, "kept", {}).values(), [])  # the gradients of a round
    shared = [*built.server.weights, *averages(built.server), *kept]
    before = built.values(shared)
    with pytest.raises(tf.errors.InvalidArgumentError, match="the gradient isn't finite"):
        built.run()
    assert same(built.values(shared), before)


def test_a_round_makes_one_update(build, rng):
    """With the mean of all learners' samples. In the second round the last learner has none."""
    built = build(synchronous, learners=3)
    server = built.server
    server.wait_until = lambda condition: None  # here they work in turn
    randomize(server.session, server.weights, rng)
    wanted = built.values(server.weights)
    squares = [np.ones_like(w) for w in wanted]
    for frames, sizes in (30, (12, 5, 8)), (60, (12, 5, 0)):
        built.progress.frames = frames
        before, sums = built.values(server.weights), []
        for brain in built.brains:
            brain.pull_parameter_server()
        for brain, n in zip(built.brains, sizes):
            assert same(built.values(server.weights), before)  # not before the last one is ready
            samples = batch(rng, n)
            update(brain, *samples)
            if n:
                sums.append([n * g for g in gradient(before, *samples)])
        rmsprop(wanted, squares, [sum(of_all) / sum(sizes) for of_all in zip(*sums)])
        for got, want in zip(built.values(server.weights), wanted):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        assert server.frame == frames  # ε follows it


def test_synchronous_continues_with_the_saved_epsilon(saved):
    """ε follows `frame`, which each update renews. In a run of one frame none does."""
    _, server = run("--checkpoint", saved, "--max-frames", 1, main=synchronous.main)
    assert server.frame == 50


def test_synchronous_takes_its_own_classes_too():
    """And their subclasses."""
    class Agent(synchronous.Agent):
        on_policy = False
    status, _ = run("--max-frames", 50, main=synchronous.main, server_class=synchronous.Server,
                    agent_class=Agent)
    assert status == NOT_LEARNED


@pytest.mark.parametrize("learned_mean, frames, return_steps, on_policy", [
    (22, 20_000, 5, True), (199, 1500, 13, False)])
def test_a_seed_repeats_a_run_of_synchronous_learners(
        monkeypatch, capsys, learned_mean, frames, return_steps, on_policy):
    """All learners end, whether they learn or use up their frames. In the second case returns have
    more steps than a round, so that some rounds have no samples. A schedule changes the loss."""
    class Brain(a3c.LocalBrain):
        def build_loss(self, *batch):
            actor, critic, entropy = super().build_loss(*batch)
            return actor, critic, entropy * self.server.build_part_left()
    monkeypatch.setattr(clipped.Server, "anneal_frames", 20_000)
    monkeypatch.setattr(synchronous.Agent, "on_policy", on_policy)
    def wait_until(progress, condition, seconds=None, really=a3c.Progress.wait_until):
        really(progress, condition, seconds)
        if seconds is not None and progress.phase != "evaluating":
            left.append(set(progress.learning_threads))
    monkeypatch.setattr(a3c.Progress, "wait_until", wait_until)
    monkeypatch.setattr(a3c, "LEARNED_MEAN", learned_mean)
    monkeypatch.setattr(a3c, "N_STEP_RETURN", return_steps)
    runs, left = [], []
    for _ in range(2):
        status, server = run("--workers", 8, "--seed", 7, "--max-frames", frames,
                             main=synchronous.main, server_class=clipped.Server, brain_class=Brain)
        out = re.sub(r"\d+\.\d s", "", capsys.readouterr().out)
        # Which of two threads prints first, in the same moment, is chance.
        weights = server.session.run(server.weights)
        runs.append((status, sorted(out.splitlines()), *(w.tobytes() for w in weights)))
    assert runs[0] == runs[1] and runs[0][0] == (LEARNED if learned_mean == 22 else NOT_LEARNED)
    assert any("mean" in line for line in runs[0][1])
    assert left == [set(), set()]  # none waits for one that has ended


@pytest.mark.parametrize("on_policy", [True, False])
def test_a_rounds_samples_are_of_its_weights(build, monkeypatch, on_policy):
    """In the script's way, the last four of a segment wait for the next update."""
    def update(brain, really=synchronous.Brain.update_parameter_server):
        sizes.append(len(brain.train_queue))
        really(brain)
    monkeypatch.setattr(synchronous.Brain, "update_parameter_server", update)
    monkeypatch.setattr(synchronous.Agent, "on_policy", on_policy)
    built, sizes = build(synchronous, learners=2), []
    built.progress.max_frames = 40
    for learner in built.learners:
        learner.environment.env = EndsAt()
    built.run()
    assert sizes[:2] == ([10, 10] if on_policy else [6, 6])
    assert sizes[2:4] == [10, 10]


# Pong

def test_pongs_states_actions_and_rewards(put_back):
    """Four pictures, three actions, and points."""
    pong.configure()
    environment = pong.Environment(unittest.mock.Mock(), unittest.mock.Mock())
    env, ale = environment.env, environment.env.unwrapped.ale
    meanings = env.unwrapped.get_action_meanings()
    assert [meanings[a] for a in pong.ACTIONS] == ["NOOP", "RIGHT", "LEFT"]  # stay, up, down
    assert env.action_space.n == 3
    env.reset(seed=0)
    before = ale.getEpisodeFrameNumber()
    s, r, *_ = env.step(0)
    assert ale.getEpisodeFrameNumber() == before + 4  # a step lasts four frames
    assert s.shape == (4 * 84 * 84,) and s.dtype == np.uint8 and s.max() > 100
    while not r:
        s, r, *_ = env.step(1)  # always up, until the opponent has a point
    assert r == environment.reward(s, 1, r, s, 1, False) == -1


@pytest.mark.parametrize("n", [20, 5])
@pytest.mark.parametrize("terminal", [True, False])
def test_returns_reach_to_their_segments_end(monkeypatch, rng, n, terminal):
    """Or n steps, if these are fewer. 47 steps are segments of 20 (Pong's Tmax), 20 and 7. If the
    last step is terminal, V after it doesn't count. The state of step t is the number t."""
    monkeypatch.setattr(a3c, "Tmax", 20)
    monkeypatch.setattr(a3c, "N_STEP_RETURN", n)
    brain = a3c.LocalBrain.__new__(a3c.LocalBrain)  # its queue needs no network
    brain.train_queue, samples = [], []
    agent = returns.SegmentReturns(brain, None)
    r = rng.normal(size=47)
    for t in range(47):
        done = t == 46
        agent.advantage_push_local_brain(t, 0, r[t], t + 1, done, done and terminal)
        if (t + 1) % 20 == 0 or done:  # an update
            samples += brain.train_queue
            brain.train_queue.clear()
    assert [s for s, *_ in samples] == list(range(47)) and not agent.memory
    for t, (_, _, R, s_, discount) in enumerate(samples):
        end = min(t + n, t - t % 20 + 20, 47)
        assert R == pytest.approx(sum(0.99 ** k * r[t + k] for k in range(end - t)))
        assert s_ == end
        assert discount == (0 if terminal and end == 47 else pytest.approx(0.99 ** (end - t)))
