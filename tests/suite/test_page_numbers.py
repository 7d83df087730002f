"""The lesson and the page of measurements say what was measured."""
import re

import compare
import learn_variants
import measure_exercises
import numpy as np
import pytest
import recorded_data
import run_statistics
import speeds
from helpers import ROOT, page

pytest.importorskip("gymnasium")
import clipping
import forgetting
import timeline

pytestmark = pytest.mark.pages
README = (ROOT / "README.md").read_text(encoding="utf-8")
LESSON, MEASUREMENTS = page("README.md"), page("tests/measurements/README.md")


def test_the_pages_tables_are_what_is_printed():
    """Each row that compare.py and forgetting.py print stands on the page of measurements: medians,
    ratios and intervals, bold where p is below 0.05."""
    text = (ROOT / "tests" / "measurements" / "README.md").read_text(encoding="utf-8")
    for rows in [*map(compare.show, compare.TABLES), forgetting.table()]:
        rows = list(rows)
        assert not [row for row in rows if row not in text]  # these rows differ
        assert "\n" + "\n".join(rows) + "\n\n" in text


def test_the_pages_have_the_speeds_that_were_measured():
    """Each row that speeds.py prints."""
    pages = [(ROOT / "tests" / folder / "README.md").read_text(encoding="utf-8")
             for folder in ("measurements", "variants")]
    for table in speeds.tables():
        rows = speeds.rows(table)
        assert rows and any("\n" + "\n".join(rows) + "\n" in text for text in pages), rows


def test_the_lesson_says_what_costs_speed_and_what_saves_time():
    """What it says in words: eight threads where steps wait, and on one core or on two; learners
    that wait for each other."""
    def ratio(table, case, other):
        found = run_statistics.load(speeds.path(table))
        return np.median(found[case]) / np.median(found[other])
    waiting = ratio("sleeping", "sleeping, 8 learners", "sleeping, 1 learner")
    assert f"eight threads play [{waiting:.0f} times]" in LESSON
    assert "on two cores eight play only [two thirds as many]" in LESSON
    assert 0.6 < ratio("variants", "a3c_cartpole.py, all cores", "a3c_cartpole.py") < 0.73
    assert "`synchronous.py` plays [half as many]" in LESSON
    assert 0.45 < ratio("variants", "synchronous.py", "a3c_cartpole.py") < 0.55
    assert "plays them [about as fast]" in LESSON  # one thread, compared with eight
    assert 0.9 < ratio("threads", "8 learners", "1 learner") < 1.1


def test_the_variants_page_says_how_they_learn():
    """Its table is what learn_variants.py prints, and no run without memory has learned."""
    text = (ROOT / "tests" / "variants" / "README.md").read_text(encoding="utf-8")
    for case, runs in learn_variants.load_runs().items():
        if "--no-memory" in case:
            assert not any(run.frames for run in runs)
            assert f"none of {len(runs)} runs" in text or f"none of {len(runs)} of" in text
        else:
            assert f"\n{learn_variants.row(case)}\n" in text, case


def ratio(table, case):
    """Such as "1.09", "0.92 to 1.32"."""
    middle, low, high, _ = compare.compared(table)[case]
    return f"{middle:.2f}", f"{low:.2f} to {high:.2f}"


def cell(table, case):
    """Such as "1.04 (0.85 to 1.17)"."""
    return "{} ({})".format(*ratio(table, case))


def test_the_short_answers_are_those_of_the_data():
    """At the top of the page of measurements."""
    top = MEASUREMENTS.split("## What")[0]
    for table, case in (
            ("cartpole", "1 thread"), ("acrobot", "1 thread"),
            ("two_worlds", "1 thread, 200 episodes"), ("ages", "Acrobot: updates in turn"),
            ("ages", "CartPole: updates in turn"), ("rewards", "1 reward"),
            ("rewards", "20 rewards"), *(("tuned", case) for case in compare.compared("tuned"))):
        middle, interval = ratio(table, case)
        assert re.search(rf"\b{middle}\b[^()]*\({interval}\)", top), case


def test_the_lesson_says_what_waiting_costs():
    """Its table is that of the data: at the script's learning rate and, with fresh seeds, at the
    best."""
    rows = "the script's RMSProp", "averages corrected for their start", "Adam"
    tables, tuned = ("cartpole", "corrected", "acrobot"), compare.compared("tuned")
    for words, table, best in zip(rows, tables, tuned, strict=True):
        cells = cell(table, "8 that wait"), cell("tuned", best)
        assert "{} | {} | {} |".format(words, *cells) in LESSON


def test_the_lesson_says_what_old_gradients_cost():
    """On Acrobot learning takes longer if nearly all are seven updates old, but not if all are
    fresh; on CartPole it takes no longer either way."""
    words = "{} times, with a 95% interval of {})"
    assert words.format(*ratio("ages", "Acrobot: updates in turn")) in LESSON
    compared = compare.compared("ages")
    *_, p = compared["Acrobot: updates in turn"]
    assert p < 0.05
    for case in "Acrobot: segments in turn", "CartPole: updates in turn", "CartPole: all cores":
        *_, p = compared[case]
        assert p >= 0.05, case


def test_the_lesson_says_how_many_rewards_are_too_few_or_too_many():
    """What it says holds with the script's RMSProp and with a corrected one."""
    for words in ("one reward or with twenty, training takes more frames than with five (p < 0.01)",
                  "; two and ten don't differ significantly from five."):
        assert words in LESSON
    compared = compare.compared("rewards")
    for end in "", ", corrected":
        for row in "1 reward", "20 rewards":
            middle, *_, p = compared[row + end]
            assert middle > 1 and p < 0.01
        assert all(compared[row + end][-1] >= 0.05 for row in ("2 rewards", "10 rewards"))


def test_the_lesson_says_when_threads_are_good_in_two_worlds():
    """After how many frames eight threads and one are, and who does no better or worse."""
    found, p = forgetting.summaries(), forgetting.p_values(forgetting.summaries())
    good = {case: np.median(run.good) for case, run in found.items()}
    words = "after {:,.0f} frames with eight threads, and after {:,.0f} with one (p < 0.001)"
    assert words.format(good["8 threads, 200 episodes"], good["1 thread, 200 episodes"]) in LESSON
    assert p["1 thread, 200 episodes", "good"] < 0.001
    assert good["8 in the same world, 200 episodes"] >= good["1 thread, 200 episodes"]
    assert p["1 thread, 25 episodes", "good"] >= 0.05 <= p["1 thread, 25 episodes", "worse"]


def test_the_page_says_what_of_two_worlds_depends_on_the_limits():
    """From 60,000 frames on, the difference between one thread and eight isn't significant."""
    one, eight, *_ = forgetting.summaries(late=60_000).values()
    words = f"score of {one.worse.mean():.0f} and the {eight.worse.mean():.0f} of eight no longer"
    p = forgetting.p_values(forgetting.summaries(late=60_000))
    assert words in MEASUREMENTS and p["1 thread, 200 episodes", "worse"] >= 0.05


def test_the_variants_page_says_how_far_v_runs_away():
    """Its two tables of clipped.py are those of the data."""
    text = page("tests/variants/README.md")
    *tabled, _ = clipping.load_runs().values()
    for runs in tabled:
        learned, _, values, *_ = zip(*runs)
        worst = f"{max(values):.1f}" if max(values) < 100 else f"{max(values):,.0f}"
        cells = f"{learned.count(False)} of {len(runs)} | {np.median(values):.1f}, {worst}"
        assert f"| {cells} |" in text


def test_the_page_says_how_old_gradients_are():
    """Its ranges for fresh gradients and overlapping pulls go from the lowest to the highest of all
    recordings. Mean ages are between 5 and 7."""
    found = timeline.load()

    def span(form, *arrays):
        numbers = np.concatenate(arrays)
        return f"{min(numbers):{form}} to {max(numbers):{form}}"
    tasks = "CartPole", "Acrobot"
    for cores, words in (("all cores", "On two cores, {}% are fresh on CartPole and {}% on"),
                         ("one core", "On one core, {}% are fresh on CartPole, and {}% on")):
        fresh = [span(".0f", found[f"{task}, {cores}"].fresh) for task in tasks]
        assert words.format(*fresh) in MEASUREMENTS
    pulls = [span(".0f", *(found[f"{task}, {cores}"].overlapping for task in tasks))
             for cores in ("one core", "all cores")]
    words = "{}% of the pulls overlapped an update on one core, and {}% on two"
    assert words.format(*pulls) in MEASUREMENTS
    for task in tasks:
        for cores in "one core", "all cores":
            means = found[f"{task}, {cores}"].mean
            assert 5 <= min(means) and max(means) <= 7


# What the pages say about the pictures

def test_the_lesson_quotes_the_run_it_draws():
    """Of run.png, the scores while the critic's loss is small."""
    words = "the mean score is anywhere from {:.0f} to {:.0f}"
    scores = recorded_data.statistics()["mean scores while the critic's loss is small"]
    assert words.format(*scores) in LESSON


def test_the_pages_quote_a_hundred_runs():
    """The page says how they learn on average, and how long the worst takes."""
    computed = recorded_data.statistics()
    runs = measure_exercises.load_runs()["0"]
    failed = run_statistics.failed_in_words([run.failed for run in runs])
    assert f"{max(run.frames for run in runs):,} | {failed}" in MEASUREMENTS
    score = computed["median score after 7,000 frames"]
    assert f"reaches {score:.0f} in 7,000 frames" in MEASUREMENTS


def test_the_readme_quotes_the_bias_of_samples():
    """The lesson says how far samples push on average, with the script's advantage and without a
    bias."""
    _, minus_v, script = (push.mean() for push in recorded_data.pushes().values())
    assert f"{script:.4f} instead of {minus_v:.4f}" in LESSON


def test_the_pages_quote_the_errors_of_updates():
    """The page says what the errors are for ten successive steps, in forty states."""
    kind = "ten successive steps"
    found = recorded_data.statistics()
    low, middle, high = found[f"{kind}: updates whose mean is as close with all as with five "
                              "(quartiles)"]
    closest = recorded_data.load_errors()[kind].size[:, 0].argmin(axis=1)
    # "with one, two or five rewards in all forty states", "no update in all forty states"
    assert max(closest) == recorded_data.REWARDS.index(5)
    assert found[f"{kind}, of 40 states: no update is closer than with all"] == 40
    worse = found[f"{kind}, of 40 states: no update is closer than with five"]
    for words in (f"; with five rewards, in {worse}.", f"about {middle:.0f} independent updates",
                  f"quartiles {low:.0f} and {high:.0f}"):
        assert words in MEASUREMENTS
