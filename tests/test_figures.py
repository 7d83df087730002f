"""figures.py draws every picture from the recorded data, and the data show what the pages say.
timeline.py records pulls and updates as they happen."""
import subprocess
import sys

import measure
import draw as figures
import numpy as np
import pytest
import reference
import timeline
from helpers import ROOT, a3c, environment_variables
from PIL import Image

README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
NETWORKS = figures.networks()  # {name: (frames, weights)}
OF_TEN = ": error of an average of ten"


def pictures(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*.*")}


def test_every_picture_is_drawn_without_tensorflow_and_none_is_blank(tmp_path):
    program = ("import sys; sys.modules['tensorflow'] = None\n"
               "import draw as figures; figures.DPI, figures.FILM_STEPS = 40, 20  # for speed\n"
               "figures.draw(sys.argv[1])")
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, cwd=figures.HERE,
                   env=environment_variables())
    assert pictures(tmp_path) == pictures(figures.PICTURES)
    for name in pictures(tmp_path):
        assert len(Image.open(tmp_path / name).convert("RGB").getcolors(2 ** 24)) > 10, name


def test_cartpole_in_numpy_moves_as_gymnasiums_does(rng):
    envs = [a3c.gym.make("CartPole-v0").unwrapped for _ in range(30)]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
    envs[0].state, envs[1].state = (2.3, 1, 0, 0), (-2.3, -1, 0, 0)  # they will leave the track
    while envs:  # all step at once, and those that fall leave
        before, actions = np.array([env.state for env in envs]), rng.integers(2, size=len(envs))
        after, fell = figures.cartpole(before, actions)
        states, _, terminated, *_ = zip(*(env.step(int(a)) for env, a in zip(envs, actions)))
        np.testing.assert_allclose(after, states, atol=1e-6)
        assert fell.tolist() == list(terminated)
        envs = [env for env, gone in zip(envs, fell) if not gone]


def test_the_pictures_forward_pass_equals_the_numpy_reference_of_the_other_tests(rng):
    s = rng.normal(size=(50, 4))
    for _, weights in NETWORKS.values():
        for x, wanted in zip(figures.forward(weights, s), reference.forward(weights, s)):
            np.testing.assert_allclose(x, wanted, rtol=1e-5)


# What the pages say about the pictures

def test_the_numbers_in_the_readme_are_those_of_the_recorded_data():
    computed, evaluations = figures.statistics(), figures.load("run")["evaluation"][:, 1]
    alone, minus_v, script = figures.recorded_pushes()  # three ways to push π, by name
    worst = max(row[measure.FRAMES] for row in measure.load()["0"])
    negative = computed["steps before the end from which the mean advantage is negative"]
    for words in (
            "means of {:.1f} and {:.1f}".format(*evaluations),
            "{:,}, {:,} and {:,} frames".format(*(frames for frames, _ in NETWORKS.values())),
            f"{computed[script + ': mean']:.4f} instead of {computed[minus_v + ': mean']:.4f}",
            f"{computed[script + OF_TEN]:.4f} with A",
            f"{computed[minus_v + OF_TEN]:.3f} with return − V(s)",
            f"{computed[alone + OF_TEN]:.3f} with the return",
            f"about {computed['samples up to which A is closer']:.0f} samples",
            f"{worst:,} |",  # in the table of a hundred runs
            f"the last {negative:.0f} steps V sinks",
            f"−{-computed['lowest V in the last step']:.1f} in some falls",
            "lowest five steps before the end"):
        assert words in README, words
    assert computed["steps before the end of the lowest mean"] == 5


# timeline.py, the recorder

@pytest.mark.parametrize("learners", [1, 2])
def test_the_recorder_notes_which_version_each_pull_saw_and_each_update_made(
        monkeypatch, learners):
    pulled = {0: [], 1: []}  # by each thread, in order. A version is the number of updates before

    class Brain(timeline.Brain):
        def pull_parameter_server(self):
            super().pull_parameter_server()
            pulled[int(self.name[-1]) - 1].append(self.pulled)

    monkeypatch.setattr(timeline, "Brain", Brain)
    events, during = timeline.record(learners, 2000 * learners, share_one_core=False)
    _, thread, seen, made = events.T
    updates, pulls = made > 0, made == 0
    assert sorted(made[updates]) == list(range(1, updates.sum() + 1))
    assert updates.sum() > 150 * learners
    for number in range(learners):
        mine = thread == number
        assert seen[mine & pulls].tolist() == pulled[number]
        assert seen[mine & updates].tolist() == pulled[number][:(mine & updates).sum()]
    ages = timeline.ages(events)
    assert ages.min() >= 0 and ages.any() == (learners > 1)  # only others make a gradient old
    assert ages.mean() <= learners - 1  # each update makes the others' gradients one older
    assert len(during) == pulls.sum() and during.min() >= 0 and (learners > 1 or not during.any())
