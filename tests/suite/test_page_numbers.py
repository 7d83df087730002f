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
    """Such as "1.09", "0.92 to 1.32"."""
    middle, low, high, _ = compare.compared(table)[case]
    return f"{middle:.2f}", f"{low:.2f} to {high:.2f}"


def test_the_lesson_says_what_waiting_costs():
    """At the script's learning rate, at twice that rate and, with fresh seeds, at the best one."""
    for words, table, task in (
            ("CartPole, the script's RMSProp", "cartpole", None),
            ("CartPole, averages corrected for their start", "corrected", "CartPole, corrected"),
            ("Acrobot, Adam", "acrobot", "Acrobot")):
        found = [ratio(table, "8 that wait"), ratio(table, "8 that wait, rate × 2")]
        if task:
            found += [ratio("tuned", name) for name in compare.compared("tuned") if task in name]
        cells = [f"{middle} ({interval})" for middle, interval in found]
        assert f"| {words} | {' | '.join(cells)} | " in LESSON + " "


def test_the_lesson_says_what_old_gradients_cost():
    for task in "CartPole", "Acrobot":
        times, interval = ratio("ages", f"{task}: updates in turn")
        assert times + " times" in LESSON and interval in LESSON


def test_the_lesson_says_how_slow_one_reward_is():
    words = "{} times the frames with one reward instead of five (95% interval {})"
    assert words.format(*ratio("rewards", "1 reward")) in LESSON


def test_the_lesson_says_what_the_network_forgets():
    """One thread against eight, in two worlds."""
    one, eight, *_ = forgetting.summaries().values()
    good = [f"{np.median(runs.good):,.0f}" for runs in (one, eight)]
    assert "after {} frames instead of {} (medians".format(*good) in LESSON
    words = "forgotten a world in {:.1f}% of these checks with one thread, and in {:.1f}%"
    assert words.format(one.forgotten.mean(), eight.forgotten.mean()) in LESSON
