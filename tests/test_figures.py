"""draw.py draws every picture from the recorded data, and the data show what the pages say."""
import json
import subprocess
import sys

import draw
import measure
import pytest
import recorded
from helpers import FAILED, ROOT, environment_variables
from PIL import Image
from translate import translate

README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
OF_TEN = ": error of an average of ten"


def pictures(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*.*")}


def test_every_picture_is_drawn_without_tensorflow(tmp_path):
    """Each that is in the folder of pictures, and none is blank."""
    program = ("import sys; sys.modules['tensorflow'] = None\n"
               "import draw, film; draw.DPI, film.STEPS = 40, 20  # for speed\n"
               "draw.draw_all(sys.argv[1])")
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, cwd=draw.HERE,
                   env=environment_variables())
    assert pictures(tmp_path) == pictures(draw.PICTURES)
    for name in pictures(tmp_path):
        assert len(Image.open(tmp_path / name).convert("RGB").getcolors(2 ** 24)) > 10, name


def test_a_folder_without_curves_is_refused(tmp_path):
    program = [sys.executable, draw.HERE / "draw.py", tmp_path, tmp_path / "run.png"]
    result = subprocess.run(program, capture_output=True, text=True)
    assert result.returncode == FAILED and not (tmp_path / "run.png").exists()
    assert result.stderr == f"{tmp_path}: no run has written its curves there\n"


def test_translations_keep_lines_numbers_and_symbols():
    """Words that have no translation are an error."""
    assert translate("halfway\n12,078 frames\nV(s_)", "ja") == "学習途中\n12,078 フレーム\nV(s_)"
    with pytest.raises(KeyError):
        translate("nobody has translated this", "ja")


def test_each_measured_exercise_has_a_name():
    names = json.loads((draw.HERE / "exercise_names.json").read_text(encoding="utf-8"))
    assert set(names) == set(measure.load()) - {"0"}


# What the pages say about the pictures

def test_the_readmes_numbers_are_the_recorded_ones():
    computed, evaluations = recorded.statistics(), recorded.load("run")["evaluation"][:, 1]
    alone, minus_v, script = recorded.pushes()  # three ways to push π, by name
    networks = recorded.networks()
    worst = max(row[measure.FRAMES] for row in measure.load()["0"])
    negative = computed["last steps in which the mean advantage is negative"]
    for words in (
            "means of {:.1f} and {:.1f}".format(*evaluations),
            "{:,}, {:,} and {:,} frames".format(*(frames for frames, _ in networks.values())),
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
    assert computed["steps before the end of the lowest mean advantage"] == 5
