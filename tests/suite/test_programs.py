"""What concerns all programs: how each starts, its settings, what goes with what."""
import functools
import itertools
import operator
import re
import sys
import types
import unittest.mock

import numpy as np
import pytest
from helpers import (
    LEARNED, NOT_LEARNED, ROOT, Built, a3c, film_lengths, refusal, run_main, set_values, start,
    wait_for_end)
from reference import forward, layer
from scipy.special import softmax

pytest.importorskip("gymnasium")  # classic Gym plays them, too, but names its games otherwise
pytest.importorskip("ray")
import clipped
import distributed
import ga3c
import memory
import memory_pendulum
import pendulum
import pong
import synchronous
import two_worlds

PAGE = (ROOT / "tests" / "variants" / "your_own.md").read_text(encoding="utf-8")


# Each as its user starts it (distributed.py: in test_distributed.py)

VARIANTS = [clipped, ga3c, memory, memory_pendulum, pendulum, pong, synchronous, two_worlds]
TO_LEARN = {clipped: 300_000, distributed: 300_000, ga3c: 500_000, memory: 1_000_000,
            memory_pendulum: 1_000_000, pendulum: 1_000_000, synchronous: 400_000,
            two_worlds: 300_000}


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("program, frames", TO_LEARN.items())
def test_each_variant_learns(tmp_path, program, frames):
    """With eight learners, each variant learns its task within so many frames, in a whole run from
    its launch to a passed evaluation. (Pong would take hours.)"""
    words = "--render", "none", "--seed", 100, "--max-frames", frames, "--workers", 8
    process = start(*words, cwd=tmp_path, program=program.__file__)
    status, _, err = wait_for_end(process, seconds=840)
    assert status == LEARNED, err


@pytest.mark.parametrize("program", VARIANTS)
def test_each_variant_films_its_checkpoint(tmp_path, monkeypatch, restored_constants, program):
    """A short run saves a checkpoint, and --play films it, although nothing has been learned."""
    process = start("--render", "none", "--max-frames", 300, "--workers", 2,
                    "--checkpoint", "saved", cwd=tmp_path, program=program.__file__)
    status, out, err = wait_for_end(process)
    assert status == NOT_LEARNED and out.endswith("\nNot learned after 300 frames\n"), err
    monkeypatch.chdir(tmp_path)
    short = functools.partial(a3c.gym.make, max_episode_steps=80)  # a whole film takes long
    monkeypatch.setattr(a3c.gym, "make", short)
    words = "--play", "--checkpoint", "saved", "--test-episodes", "1", "--render", "video"
    assert program.main(words) == LEARNED  # the exit status of --play, whatever was learned
    [pictures] = film_lengths(tmp_path)
    assert pictures > 5  # of one episode, in one film


# Settings

def settings(**classes):
    """{name: value} of the constants, and of what a server and a brain of these classes have."""
    built = Built(1, **classes)
    server, optimizer, brain = built.server, built.server.optimizer, built.brains[0]
    rate = server.session.run(optimizer._learning_rate_tensor)
    return a3c.constants() | {
        "LEARNING_RATE": round(float(rate), 8), "RMSPROP_DECAY": optimizer._decay,
        "epsilon": optimizer._epsilon, "gae_lambda": brain.gae_lambda,
        "max_norm": server.max_norm, "anneal_frames": getattr(server, "anneal_frames", None)}


@pytest.mark.parametrize("program", [memory, memory_pendulum])
def test_without_memory_all_other_settings_stay(classes_for_main, program):
    """--no-memory changes only a state's size, so a comparison with it is about memory alone."""
    with_memory = settings(**classes_for_main(program))
    without = settings(**classes_for_main(program, "--no-memory"))
    assert without == with_memory | {"NUM_STATES": 2}


def test_programs_can_be_configured_in_turn(monkeypatch, classes_for_main):
    """In a notebook, each program gets its own settings, whichever came before, and what the user
    has set stays."""
    def constants(program):
        classes_for_main(program)
        return a3c.constants()
    monkeypatch.setattr(a3c, "LOSS_V", 0.25)
    before = a3c.constants()
    programs = memory, pong, memory_pendulum, pendulum, two_worlds
    alone = {program: constants(program) for program in programs}
    assert all(own["LOSS_V"] == 0.25 for own in alone.values())
    for earlier, program in itertools.product((clipped, *programs), programs):
        constants(earlier)
        assert constants(program) == alone[program]
    assert constants(clipped) == before  # it changes none


@pytest.mark.parametrize("variant, owner, name, value, error", [
    (memory, a3c, "N_STEP_RETURN", 2, "N_STEP_RETURN must be 1"),
    (memory, memory.Positions, "positions", [0, 1, 2], r"shape \(3,\), but .* `seen` is 2"),
    (pendulum, a3c, "NUM_ACTIONS", 4, r"shape \(1,\), but NUM_ACTIONS, .* is 4"),
    (pendulum, a3c, "NUM_STATES", 2, "state_scale has 3 numbers, but NUM_STATES is 2")],
    ids=["two rewards with GAE", "three positions for two", "numbers of two torques for one",
         "two numbers of a state for three"])
def test_unfit_settings_are_refused_in_one_line(
        monkeypatch, capsys, classes_for_main, variant, owner, name, value, error):
    """A variant's setting that doesn't fit its others is refused, in a line that says why."""
    classes = classes_for_main(variant)  # which makes the variant's own settings first
    monkeypatch.setattr(owner, name, value)
    assert re.search(error, refusal(capsys, **classes))


# What goes with what

CHANGE_LEARNERS = [synchronous, ga3c, distributed]  # programs that change who learns, and when
CHANGE_CLASSES = [clipped, pendulum, memory, memory_pendulum, pong, two_worlds]
REFUSED = [(memory, ga3c), (memory_pendulum, ga3c)]


@pytest.mark.parametrize("variant, program", [
    pair for pair in itertools.product(CHANGE_CLASSES, CHANGE_LEARNERS) if pair not in REFUSED])
def test_variants_train_with_synchronous_ga3c_and_distributed(
        classes_for_main, fake_ray, variant, program):
    """A variant's classes learn with the main of synchronous.py, ga3c.py and distributed.py: each
    weight array moves within 100 frames. (All pairs but those in REFUSED.)"""
    status, server = run_main("--max-frames", 100, "--workers", 2, main=program.main,
                              **classes_for_main(variant))
    assert status == NOT_LEARNED
    assert not any(map(np.array_equal, server.first, server.session.run(server.weights)))


def test_the_page_names_the_variants_that_ga3c_refuses():
    """The page on one's own programs names the pairs in REFUSED, and no others."""
    [refused] = re.findall(r"- `ga3c.py` refuses (.*?)\. ", PAGE.replace("\n", " "))
    named = re.findall(r"`(\w+)\.py`", refused)
    assert named == [variant.__name__ for variant, _ in REFUSED]
    assert all(program is ga3c for _, program in REFUSED)  # its sentence speaks of no other


@pytest.mark.parametrize("variant, program", REFUSED)
def test_variants_that_use_gae_are_refused_by_ga3c(capsys, classes_for_main, variant, program):
    """ga3c.py can't use GAE, so it refuses such variants in one line: they would learn nonsense."""
    assert "nor with GAE" in refusal(capsys, main=program.main, **classes_for_main(variant))


@pytest.mark.parametrize("program", [ga3c, distributed])
def test_ga3c_and_distributed_refuse_synchronous(capsys, fake_ray, program):
    """ga3c.py and distributed.py refuse synchronous.py's server: each of the three changes who
    learns, and when, so two would learn nonsense together."""
    error = refusal(capsys, main=program.main, server_class=synchronous.Server)
    assert "with synchronous.py" in error


# Normalized states

def run_shown_program(words, **names):
    """All names after the page's program with these words in it has run, given these names."""
    [program] = re.findall(rf"^```python\n([^`]*{words}[^`]*)^```", PAGE, re.M)
    exec(program, names)
    return names


@pytest.fixture
def normalized():
    """The classes of the page's program normalized.py."""
    names = run_shown_program("tf.unstack", __name__="normalized")
    return names["Server"], names["Brain"]


@pytest.mark.parametrize("program", [a3c, synchronous, ga3c, distributed])
def test_normalized_py_sums_up_the_states_trained_with(normalized, fake_ray, program):
    """The page's normalized.py keeps three sums over the states that are trained with: of ones, of
    the states and of their squares. (With synchronous.py it adds the means of a round instead. Here
    it has one learner, so a round is a batch.)"""
    server_class, brain_class = normalized
    batches = []  # the states of each update

    class Brain(brain_class):
        def update_parameter_server(self):
            if self.train_queue:
                batches.append(np.array([s for s, *_ in self.train_queue]))
            super().update_parameter_server()
    add = np.mean if program is synchronous else np.sum
    _, server = run_main("--max-frames", 500, main=program.main, server_class=server_class,
                         brain_class=Brain)
    sums = server.weights[0]  # normalized.py's own array, which begins with 1, 0 and 1
    number, total, squares = server.session.run(sums)
    np.testing.assert_allclose(number, 1 + sum(add(np.ones_like(s), axis=0) for s in batches))
    np.testing.assert_allclose(total, sum(add(s, axis=0) for s in batches), 1e-3, 1e-3)
    np.testing.assert_allclose(squares, 1 + sum(add(s ** 2, axis=0) for s in batches), 1e-3, 1e-3)


def sums_of_100_states(mean, spread):
    """Their number, their sum and the sum of their squares."""
    return 100 * np.array([np.ones(4), mean, mean ** 2 + spread ** 2])


def test_the_policy_of_normalized_states_equals_numpy(normalized, rng):
    """With your_own.md's normalized.py, the network sees each number of a state in standard
    deviations from its mean, five at most."""
    server_class, brain_class = normalized
    built = Built(0, server_class=server_class, brain_class=brain_class)
    sums, *weights = built.server.weights
    mean, spread = np.array([0.1, 0.2, 0.3, 0.4]), np.array([2, 1, 0.5, 0.1])
    set_values(built.server.session, [sums], [sums_of_100_states(mean, spread)])
    brain, s = built.tester.environment.agent.brain, rng.normal(size=(5, 4))
    brain.pull_parameter_server()
    p, _ = forward(built.values(weights), ((s - mean) / spread).clip(-5, 5))
    np.testing.assert_allclose(brain.predict_p(s), p, rtol=1e-3)


def test_normalized_states_go_into_the_landers_network(normalized, monkeypatch, rng):
    """The page's program for LunarLander has two layers of tanh units, whose π equals NumPy's. Here
    its states are CartPole's, which the network sees in standard deviations of one half."""
    server_class, brain_class = normalized
    module = types.SimpleNamespace(Server=server_class, Brain=brain_class)
    monkeypatch.setitem(sys.modules, "normalized", module)
    lander = run_shown_program("class Network", __name__="lander")
    built = Built(0, server_class=lander["Server"], brain_class=brain_class)
    sums, *weights = built.server.weights
    set_values(built.server.session, [sums], [sums_of_100_states(np.zeros(4), np.full(4, 0.5))])
    w, s = built.values(weights), rng.normal(size=(5, 4))
    h = np.tanh(layer(s / 0.5, *w[:2]))
    h = np.tanh(layer(h, *w[2:4]))
    wanted = softmax(layer(h, *w[4:6]), axis=1)
    brain = built.tester.environment.agent.brain
    brain.pull_parameter_server()
    np.testing.assert_allclose(brain.predict_p(s), wanted, rtol=1e-4)


@pytest.mark.parametrize("program", [synchronous, distributed])
def test_a_layer_without_gradients_does_no_harm(fake_ray, program):
    """A layer that the loss doesn't use keeps its weights while the others move, also in programs
    that hand gradients on: TensorFlow has none for such a layer."""
    class Server(a3c.ParameterServer):
        def _build_model(self):
            a3c.layer("unused", 2, 3)
            return super()._build_model()
    status, server = run_main("--max-frames", 50, main=program.main, server_class=Server)
    before, after = server.first, server.session.run(server.weights)
    moved = [not np.array_equal(*arrays) for arrays in zip(before, after)]
    unused, others = moved[:2], moved[2:]
    assert status == NOT_LEARNED and not any(unused) and all(others)


# Threads

AGENT, BRAIN = "environment.agent", "environment.agent.brain"


@pytest.mark.timeout(60)  # with a fault they wait for ever
@pytest.mark.parametrize("program, name, path, method", [
    (ga3c, "local_thread1", AGENT, "act"), (ga3c, "predictor", BRAIN, "predict_p"),
    (ga3c, "trainer", BRAIN, "update_parameter_server"),
    (ga3c, "test_thread", AGENT, "act_greedily"),
    (synchronous, "local_thread1", AGENT, "act"), (synchronous, "local_thread3", AGENT, "act"),
    (synchronous, "local_thread1", BRAIN, "pull_parameter_server"),
    (synchronous, "local_thread3", BRAIN, "update_parameter_server"),
    (synchronous, "test_thread", AGENT, "act_greedily")])
def test_if_any_thread_fails_all_end(build, program, name, path, method):
    """If a thread fails, all others end, which `built.run` checks. Here one fails at its fourth
    call of this method (the test thread in an evaluation)."""
    soon_reached = {"LEARNED_MEAN": 5} if name == "test_thread" else {}
    built = build(program, learners=3, **soon_reached)
    [worker] = [worker for worker in (built.tester, *built.learners) if worker.name == name]
    owner = operator.attrgetter(path)(worker)
    four_calls = [unittest.mock.DEFAULT] * 3 + [ValueError("on purpose")]
    setattr(owner, method, unittest.mock.Mock(wraps=getattr(owner, method), side_effect=four_calls))
    with pytest.raises(ValueError, match="on purpose"):
        built.run()
    assert built.progress.failure[1] == name
