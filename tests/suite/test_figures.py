"""draw.py draws every picture, and what is drawn follows from the recorded data."""
import json
import subprocess
import sys

import draw
import measure_exercises
import numpy as np
import pytest
import recorded_data
from helpers import a3c, environment_variables
from PIL import Image
from translate import translate

pytestmark = pytest.mark.pages


def pictures(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*.*")}


def test_every_picture_is_drawn_without_tensorflow(tmp_path):
    """draw.py draws each picture of the folder of pictures, and none is blank."""
    program = ("import sys; sys.modules['tensorflow'] = None\n"
               "import draw, film; draw.DPI, film.STEPS = 40, 20  # for speed\n"
               "draw.draw_all(sys.argv[1])")
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, cwd=draw.HERE,
                   env=environment_variables())
    assert pictures(tmp_path) == pictures(draw.PICTURES)
    for name in pictures(tmp_path):
        assert len(Image.open(tmp_path / name).convert("RGB").getcolors(2 ** 24)) > 10, name


def test_translations_keep_lines_numbers_and_symbols():
    """Only words are translated."""
    assert translate("halfway\n12,078 frames\nV(s_)", "ja") == "学習途中\n12,078 フレーム\nV(s_)"


def test_each_measured_exercise_has_a_name():
    """Otherwise its row would be missing in the picture of the exercises."""
    names = json.loads((draw.HERE / "exercise_names.json").read_text(encoding="utf-8"))
    assert set(names) == set(measure_exercises.load_runs()) - set(measure_exercises.COMBINATIONS)
    assert list(map(int, names)) == sorted(map(int, names))


def test_the_constants_of_the_pictures_are_the_scripts():
    """They are copied, because importing the script would import TensorFlow."""
    for name in "GAMMA", "N_STEP_RETURN":
        assert getattr(recorded_data, name) == getattr(a3c, name)
    assert recorded_data.TIME_LIMIT == a3c.gym.spec(a3c.ENV).max_episode_steps


def test_recorded_errors_are_those_of_the_formulas(rng):
    """The errors in errors.png, for five rewards, and for GAE with λ = 0.8, which takes five on
    average. GAE is a mean of the advantages of all n. Twenty episodes have 3 to 22 steps."""
    lengths = np.arange(3, 23)
    r, v, score = rng.normal(size=(3, 20, 30)) * (np.arange(30) < lengths[:, np.newaxis])

    def advantage(i, t, n):
        rewards = sum(0.99 ** k * r[i, t + k] for k in range(n) if t + k < lengths[i])
        return rewards + (0.99 ** n * v[i, t + n] if t + n < lengths[i] else 0) - v[i, t]

    def gradients(advantage):
        first = [score[i, 0] * advantage(i, 0) for i in range(20)]
        successive = [np.mean([score[i, t] * advantage(i, t) for t in range(min(10, lengths[i]))])
                      for i in range(20)]
        return np.array([np.mean(first[:10]), np.mean(first[10:])]), np.array(successive)
    unbiased = gradients(lambda i, t: advantage(i, t, 30))
    five = gradients(lambda i, t: advantage(i, t, 5))
    gae = gradients(lambda i, t: sum(
        0.2 * 0.8 ** (n - 1) * advantage(i, t, n) for n in range(1, 100)))
    found = recorded_data.errors_of_state(r, v, score)[:, :, recorded_data.REWARDS.index(5)]
    for kind in range(2):
        assert found[kind, 0] == pytest.approx(recorded_data.error_of(five[kind], unbiased[kind]))
        assert found[kind, 1] == pytest.approx(recorded_data.error_of(gae[kind], unbiased[kind]))


def test_an_error_has_a_bias_and_a_noise(rng):
    """Gradients that are 3 too large on average, with a spread of 4, are off by 5."""
    unbiased = rng.normal(7, 1, 10 ** 6)
    found = recorded_data.error_of(unbiased + rng.normal(3, np.sqrt(15), 10 ** 6), unbiased)
    assert found == pytest.approx((5, 3, 7), abs=0.02)
