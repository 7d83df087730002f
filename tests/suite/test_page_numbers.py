"""The lesson and the page of measurements say what was measured."""
import compare
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
    cases = "8 that wait", "8 that wait, rate × 2", "8 threads, rate × 2"
    for words, table in (("the script's RMSProp", "cartpole"),
                         ("averages corrected for their start", "corrected")):
        cells = ["{} times ({})".format(*ratio(table, case)) for case in cases]
        assert f"| {words} | {' | '.join(cells)} |" in LESSON
    for task, words in (("CartPole, corrected", "{} times the frames of those that don't ({})"),
                        ("Acrobot", "on Acrobot {} times ({})")):
        found = ratio("tuned", f"{task}: 8 that wait, rate × 4")
        assert words.format(*found) in LESSON


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
    words = "forgotten a world in {:.1f}% of these checks with one thread, and in {:.1f}%"
    assert words.format(one.forgotten.mean(), eight.forgotten.mean()) in LESSON
