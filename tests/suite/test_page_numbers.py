"""The lesson and the page of measurements say what was measured."""
import compare
import numpy as np
import pytest
from helpers import ROOT, page

pytest.importorskip("gymnasium")
import forgetting

pytestmark = pytest.mark.pages
LESSON = page("README.md")


def test_the_pages_tables_are_what_is_printed():
    """Each row: medians, ratios and intervals, bold where p is below 0.05."""
    text = (ROOT / "tests" / "measurements" / "README.md").read_text(encoding="utf-8")
    for rows in [*map(compare.show, compare.TABLES), forgetting.table()]:
        assert "\n" + "\n".join(rows) + "\n\n" in text


def ratio(table, case):
    """Such as "1.09 times (0.92 to 1.32)"."""
    middle, low, high, _ = compare.compared(table)[case]
    return f"{middle:.2f} times ({low:.2f} to {high:.2f})"


def test_the_lesson_says_what_waiting_costs():
    cases = "8 that wait", "8 that wait, rate × 2", "8 threads, rate × 2"
    for words, table in (("the script's RMSProp", "cartpole"),
                         ("averages corrected for their start", "corrected")):
        cells = [ratio(table, case) for case in cases]
        assert f"| {words} | {' | '.join(cells)} |" in LESSON
    best = [min(ratio("corrected", f"{name}, rate × {x}") for x in "½248").split()[0]
            for name in ("8 that wait", "8 threads")]
    assert "({} and {} times; chosen".format(*best) in LESSON


def test_the_lesson_says_what_old_gradients_cost():
    for task in "CartPole", "Acrobot":
        times, interval = ratio("ages", f"{task}: updates in turn").split(" times ")
        assert times in LESSON and interval in LESSON


def test_the_lesson_says_how_slow_one_reward_is():
    middle, low, high, _ = compare.compared("rewards")["1 reward"]
    assert f"{middle:.2f} times the frames (95% interval {low:.2f} to {high:.2f})" in LESSON


def test_the_lesson_says_what_the_network_forgets():
    """One thread against eight, in two worlds."""
    one, eight, *_ = forgetting.summaries().values()
    failed = [sum(run.failed for run in compare.load("two_worlds")[f"{name}, 200 episodes"])
              for name in ("1 thread", "8 threads")]
    for words in (
            f"forgotten a world in {one.forgotten.mean():.1f}% of the evaluations",
            f"and eight threads in {eight.forgotten.mean():.1f}%",
            f"after {np.median(eight.good):,.0f} frames instead of {np.median(one.good):,.0f}",
            "{} of its evaluations failed first, instead of {}".format(*failed)):
        assert words in LESSON
