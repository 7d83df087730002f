"""figures.py draws every picture from the recorded data, and the data show what the pages say.
timeline.py records pulls and updates as they happen."""
import subprocess
import sys

import exercises
import figures
import numpy as np
import pytest
import timeline
from helpers import ROOT, a3c, environment_variables, forward
from PIL import Image

README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
NETWORKS = figures.networks()  # {name: (frames, weights)}
OF_TEN = ": error of an average of ten"


def pictures(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*.*")}


def test_every_picture_is_drawn_without_tensorflow_and_none_is_blank(tmp_path):
    program = ("import sys; sys.modules['tensorflow'] = None\n"
               "import figures; figures.DPI, figures.FILM_STEPS = 40, 20  # for speed\n"
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
    while envs:  # all step at once, and those that fall leave
        before, actions = np.array([env.state for env in envs]), rng.integers(2, size=len(envs))
        after, fell = figures.cartpole(before, actions)
        outcomes = [env.step(int(a)) for env, a in zip(envs, actions)]
        np.testing.assert_allclose(after, [outcome[0] for outcome in outcomes], atol=1e-6)
        assert fell.tolist() == [bool(outcome[2]) for outcome in outcomes]
        envs = [env for env, gone in zip(envs, fell) if not gone]


def test_the_forward_pass_of_the_pictures_is_the_one_that_the_script_is_compared_with(rng):
    s = rng.normal(size=(50, 4))
    for _, weights in NETWORKS.values():
        for x, y in zip(figures.forward(weights, s), forward(weights, s)):
            np.testing.assert_allclose(x, y, rtol=1e-5)


# What the pages say about the pictures

def test_the_lesson_quotes_the_numbers_that_its_pictures_are_drawn_from():
    computed, evaluations = figures.statistics(), figures.load("run")["evaluation"][:, 1]
    alone, minus_v, script = figures.recorded_pushes()  # three ways to push π, by name
    longest = max(row[exercises.FRAMES] for row in exercises.load()["0"])
    negative = computed["steps before the end from which the mean advantage is negative"]
    for words in (
            "means of {:.1f} and {:.1f}".format(*evaluations),
            "{:,}, {:,} and {:,} frames".format(*(frames for frames, _ in NETWORKS.values())),
            f"{computed[script + ': mean']:.4f} instead of {computed[minus_v + ': mean']:.4f}",
            f"{computed[script + OF_TEN]:.4f} with A",
            f"{computed[minus_v + OF_TEN]:.3f} with return − V(s)",
            f"{computed[alone + OF_TEN]:.3f} with the return",
            f"about {computed['samples up to which A is closer']:.0f} samples",
            f"{longest:,} |",  # a cell of the table
            f"the last {negative:.0f} steps V sinks",
            f"−{-computed['the lowest']:.1f} in some falls",
            "lowest five steps before the end"):
        assert words in README, words
    assert computed["its steps before the end"] == 5


# The recorder

@pytest.mark.parametrize("learners", [1, 2])
def test_the_recorder_numbers_all_updates_and_notes_the_last_one_before_each_pull(
        monkeypatch, learners):
    pulled = {0: [], 1: []}  # by each thread, in order: the numbers of the updates

    class Brain(timeline.Brain):
        def pull_parameter_server(self):
            super().pull_parameter_server()
            pulled[int(self.name[-1]) - 1].append(self.pulled)

    monkeypatch.setattr(timeline, "Brain", Brain)
    events, during = timeline.record(learners, 2000 * learners, share_one_core=False)
    _, thread, last_pulled, made = events.T
    updates, pulls = made > 0, made == 0
    assert sorted(made[updates]) == list(range(1, updates.sum() + 1))
    assert updates.sum() > 150 * learners
    for number in range(learners):
        mine = thread == number
        assert last_pulled[mine & pulls].tolist() == pulled[number]
        assert last_pulled[mine & updates].tolist() == pulled[number][:(mine & updates).sum()]
    ages = timeline.ages(events)
    assert ages.min() >= 0 and ages.any() == (learners > 1)  # two have met
    assert ages.mean() <= learners - 1  # each update makes the others' gradients one older
    assert len(during) == pulls.sum() and during.min() >= 0 and during.any() <= (learners > 1)
