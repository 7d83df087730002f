"""draw.py draws every picture, and what is drawn follows from the recorded data."""
import subprocess
import sys

import draw
import numpy as np
import pytest
import record
import recorded_data
from helpers import a3c, environment_variables
from PIL import Image
from translate import translate

pytestmark = pytest.mark.pages


def pictures(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*.*")}


def test_every_picture_is_drawn_without_tensorflow(tmp_path):
    """draw.py draws every picture, none of them blank, even where TensorFlow isn't installed."""
    program = ("import sys; sys.modules['tensorflow'] = None\n"
               "import draw, film; draw.DPI, film.STEPS = 40, 20  # for speed\n"
               "draw.draw_all(sys.argv[1])")
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, cwd=recorded_data.HERE,
                   env=environment_variables())
    assert pictures(tmp_path) == pictures(draw.PICTURES)
    for name in pictures(tmp_path):
        assert len(Image.open(tmp_path / name).convert("RGB").getcolors(2 ** 24)) > 10, name


def test_translations_keep_lines_numbers_and_symbols():
    """In a picture's text only the words are translated; line breaks, numbers and V(s_) stay."""
    lines = "partly trained\n12,078 frames\nV(s_)"
    assert translate(lines, "ja") == "学習途中\n12,078 フレーム\nV(s_)"
    assert translate("standard deviation 0.12", "ja") == "標準偏差 0.12"


def test_a_logs_scores_are_put_in_order(tmp_path):
    """record.py joins the scores of all threads in a log in the order of their frames, because
    threads may write a little out of order. Other curves stay apart."""
    log = a3c.tf.summary.FileWriter(str(tmp_path))
    for frames, tag, number in ((30, "score/local_thread2", 7), (20, "score/local_thread1", 9),
                                (25, "loss/critic", 0.5)):
        point = a3c.tf.Summary.Value(tag=tag, simple_value=number)
        log.add_summary(a3c.tf.Summary(value=[point]), frames)
    log.close()
    curves = record.read_log(tmp_path)
    assert curves.keys() == {"score", "loss/critic"}
    assert curves["score"].tolist() == [[20, 9], [30, 7]]
    assert curves["loss/critic"].tolist() == [[25, 0.5]]


# errors.png: how far the gradients of updates are from those with all rewards. There are two kinds
# of updates: with the first steps of ten episodes, or with the first ten steps of one.

EPISODES, STEPS = 20, 30
LENGTHS = np.arange(3, 3 + EPISODES)


def n_step_advantage(r, v, i, t, n):
    """Of step t of episode i, with n rewards before V."""
    rewards = sum(0.99 ** k * r[i, t + k] for k in range(n) if t + k < LENGTHS[i])
    later = 0.99 ** n * v[i, t + n] if t + n < LENGTHS[i] else 0
    return rewards + later - v[i, t]


def gae(r, v, i, t, n):
    """A weighted mean over all numbers of rewards before V, which is n on average."""
    lam = 1 - 1 / n
    return sum((1 - lam) * lam ** (m - 1) * n_step_advantage(r, v, i, t, m) for m in range(1, 300))


def with_first_steps_of_ten_episodes(gradient):
    firsts = [gradient(i, 0) for i in range(EPISODES)]
    return np.array([np.mean(firsts[:10]), np.mean(firsts[10:])])  # two updates


def with_first_ten_steps(gradient):
    return np.array([np.mean([gradient(i, t) for t in range(min(10, LENGTHS[i]))])
                     for i in range(EPISODES)])


@pytest.mark.parametrize("n", [1, 5, 20])
@pytest.mark.parametrize("kind, update", [
    (0, with_first_steps_of_ten_episodes), (1, with_first_ten_steps)],
    ids=["ten episodes", "one episode"])
@pytest.mark.parametrize("estimator, advantage", [(0, n_step_advantage), (1, gae)],
                         ids=["n", "GAE"])
def test_errors_of_updates_equal_those_of_plain_loops(rng, estimator, advantage, kind, update, n):
    """Errors of updates that record.py computes with matrices equal those from plain loops, for
    both kinds of update and estimator. (Axes: kind, n rewards or GAE, n, numbers of an Error.)"""
    steps_left = np.arange(STEPS) < LENGTHS[:, np.newaxis]
    r, v, dlogp = rng.normal(size=(3, EPISODES, STEPS)) * steps_left  # 0 after an episode's end
    found = record.errors_of_state(r, v, dlogp)[kind, estimator, recorded_data.REWARDS.index(n)]

    def estimate(i, t):
        return dlogp[i, t] * advantage(r, v, i, t, n)

    def with_all_rewards(i, t):
        return dlogp[i, t] * n_step_advantage(r, v, i, t, STEPS)
    wanted = recorded_data.error_of(update(estimate), update(with_all_rewards))
    assert found == pytest.approx(wanted)


def test_error_of_returns_error_bias_and_truth(rng):
    """error_of returns the gradients' error, their bias and the truth, here 7. They are 3 too large
    on average (the bias), with a spread of 4 (variance 1 + 15), so the error is 5: 3² + 4² = 5²."""
    unbiased = rng.normal(7, 1, 10 ** 6)
    found = recorded_data.error_of(unbiased + rng.normal(3, np.sqrt(15), 10 ** 6), unbiased)
    assert found == pytest.approx((5, 3, 7), abs=0.02)
