"""figures.py: it draws every picture from the recorded data, and the data show what we say."""
import subprocess
import sys

import numpy as np
import pytest
from helpers import ROOT, a3c, environment_variables, options, put, tf
from PIL import Image

sys.path.insert(0, str(ROOT / ".github"))
import figures  # noqa: E402

SIZES = {"film.gif": (800, 300), "run.png": (1600, 1160), "knows.png": (1600, 1120),
         "fall.png": (1600, 1160), "threads.png": (1600, 1080), "baseline.png": (1600, 880),
         "programs.png": (1600, 1000), "exercises.png": (1600, 1320)}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A folder with all pictures, drawn where TensorFlow can't be imported."""
    folder = tmp_path_factory.mktemp("pictures")
    words = ("import sys; sys.modules['tensorflow'] = None\n"
             "import figures; figures.draw(sys.argv[1])")
    subprocess.run([sys.executable, "-c", words, folder], check=True, cwd=figures.HERE,
                   env=environment_variables())
    return folder


def test_those_are_all_pictures(drawn):
    assert {path.name for path in drawn.iterdir()} == set(SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_each_picture_is_drawn_in_its_size(drawn, name):
    assert Image.open(drawn / name).size == SIZES[name]


@pytest.mark.parametrize("name", SIZES)
def test_each_picture_of_the_pages_has_its_size(name):
    assert Image.open(figures.HERE / name).size == SIZES[name]


def test_the_film_is_small_enough_for_a_page(drawn):
    assert (drawn / "film.gif").stat().st_size <= 500_000
    assert (figures.HERE / "film.gif").stat().st_size <= 500_000


def test_the_recorded_data_are_small():
    sizes = [path.stat().st_size for path in figures.DATA.iterdir()]
    assert sum(sizes) <= 300_000  # every clone downloads them


def test_cartpole_in_numpy_moves_as_gymnasiums_does(rng):
    envs = [a3c.gym.make("CartPole-v0").unwrapped for _ in range(30)]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
    while envs:  # all step at once, and those that fall leave
        before, actions = np.array([env.state for env in envs]), rng.integers(2, size=len(envs))
        after, fell = figures.cartpole(before, actions)
        outcomes = [env.step(int(a)) for env, a in zip(envs, actions)]
        np.testing.assert_allclose(after, [outcome[0] for outcome in outcomes], atol=1e-6)
        assert fell.tolist() == [bool(outcome[2]) for outcome in outcomes]
        envs = [env for env, gone in zip(envs, fell) if not gone]


def test_the_forward_pass_in_numpy_equals_the_lessons_network(rng):
    s = rng.normal(size=(50, 4)).astype(np.float32)
    with tf.Graph().as_default():
        server = a3c.ParameterServer(options())
        outputs = server.forward(tf.constant(s))
        with server.session as session:
            for _, weights in figures.networks().values():
                put(session, server.weights, weights)
                for got, want in zip(figures.forward(weights, s), session.run(outputs)):
                    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_V_sinks_before_the_falls_of_the_half_way_network():
    weights, falls = figures.networks()["half way"][1], figures.load("episodes")["falls"]
    v_before, v_end = (figures.forward(weights, falls[:, i])[1] for i in (-32, -2))
    assert len(falls) == 100 and (v_end < v_before).sum() >= 95
    assert figures.statistics()["falls in which V sinks"] == (v_end < v_before).sum()


def test_a_baseline_takes_noise_away_and_bootstrapping_adds_a_bias():
    found = list(figures.recorded_pushes().values())
    returns, baseline, bootstrapped = [(x.mean(), x.std(), x.std() / len(x) ** 0.5) for x in found]
    assert len(found[0]) == 40_000
    assert returns[1] > 4 * baseline[1] > 4 * bootstrapped[1]
    assert abs(returns[0] - baseline[0]) < 3 * returns[2]  # the same mean
    assert abs(bootstrapped[0] - baseline[0]) > 5 * (baseline[2] + bootstrapped[2])  # another one


def test_the_numbers_that_the_pages_quote_are_those_of_the_samples():
    numbers = figures.statistics()
    for name, push in figures.recorded_pushes().items():
        found = [numbers[f"{name}: {x}"] for x in ("mean", "standard deviation", "standard error")]
        assert found == pytest.approx([push.mean(), push.std(), push.std() / 200])
