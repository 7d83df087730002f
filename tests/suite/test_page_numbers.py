"""The lesson and the page of measurements say what was measured. If such a test is red, a page and
the recorded data have drifted apart."""
import functools
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
from scipy import stats

pytest.importorskip("gymnasium")
import clipping
import forgetting
import timeline

pytestmark = pytest.mark.pages
LESSON, MEASUREMENTS = page("README.md"), page("tests/measurements/README.md")


def test_the_pages_tables_are_what_compare_py_prints():
    """Each row that compare.py and forgetting.py print stands on the page of measurements: medians,
    ratios and intervals, bold where p is below 0.05."""
    text = (ROOT / "tests" / "measurements" / "README.md").read_text(encoding="utf-8")
    for rows in [*map(compare.rows, compare.TABLES), forgetting.rows()]:
        rows = list(rows)
        assert not [row for row in rows if row not in text]  # these rows differ
        assert "\n" + "\n".join(rows) + "\n\n" in text


def test_the_pages_have_the_speeds_that_were_measured():
    """Each row that speeds.py prints stands in a table of speeds."""
    pages = [(ROOT / "tests" / name).read_text(encoding="utf-8")
             for name in ("measurements/README.md", "variants/distributed.md")]
    for table in speeds.tables():
        rows = speeds.rows(table)
        assert rows and any("\n" + "\n".join(rows) + "\n" in text for text in pages), rows


def speed(table, case, other):
    found = run_statistics.load(speeds.path(table))
    return np.median(found[case]) / np.median(found[other])


SPEEDS = {  # the short table of the page of measurements
    "8 threads, compared with one thread": ("threads", "8 learners", "1 learner"),
    "32 threads, compared with one thread": ("threads", "32 learners", "1 learner"),
    "8 threads on two cores, compared with one core":
        ("variants", "a3c_cartpole.py, all cores", "a3c_cartpole.py"),
    "8 threads that wait for each other, compared with 8 that don't":
        ("variants", "synchronous.py", "a3c_cartpole.py"),
    "8 threads, compared with one thread, if each step sleeps for a millisecond":
        ("sleeping", "sleeping, 8 learners", "sleeping, 1 learner"),
    "8 threads on two cores, compared with one thread, if each step computes for a millisecond":
        ("computing", "computing, all cores, 8 learners", "computing, all cores, 1 learner")}


def test_the_lesson_says_what_costs_speed_and_what_saves_time():
    """The lesson's words about the speed of threads fit the data, and the short table on the page
    of measurements has the measured ratios."""
    for words, cases in SPEEDS.items():
        assert f"| {words} | {speed(*cases):.2f} |" in MEASUREMENTS
    assert "compute in Python, eight threads play no more frames per second than one." in LESSON
    assert speed("threads", "8 learners", "1 learner") < 1
    assert speed("computing", "computing, all cores, 8 learners",
                 "computing, all cores, 1 learner") < 1
    assert "eight threads play only [two thirds as many]" in LESSON
    assert 0.6 < speed("variants", "a3c_cartpole.py, all cores", "a3c_cartpole.py") < 0.73
    sleeping = speed("sleeping", "sleeping, 8 learners", "sleeping, 1 learner")
    assert f"eight threads play {sleeping:.0f} times" in MEASUREMENTS
    learning = speed("learning", "sleeping, 1 learner", "sleeping, 8 learners")
    assert f"takes about a [{['sixth', 'seventh', 'eighth'][round(learning) - 6]}]" in LESSON


def test_the_variants_page_says_how_often_each_variant_learns():
    """The page has learn_variants.py's rows. Those with --no-memory, of which no run learned, are a
    sentence instead."""
    text = (ROOT / "tests" / "variants" / "README.md").read_text(encoding="utf-8")
    found = learn_variants.load_runs()
    without_memory = {case: runs for case, runs in found.items() if "--no-memory" in case}
    for case in found.keys() - without_memory.keys():
        assert f"\n{learn_variants.row(case)}\n" in text, case
    assert not any(run.frames for runs in without_memory.values() for run in runs)  # None: never
    words = ("none of {} runs of `memory.py` learned in 600,000 frames, and none of {} of "
             "`memory_pendulum.py` in 1,000,000.")
    assert words.format(*map(len, without_memory.values())) in " ".join(text.split())


@functools.cache
def compared(table):
    return compare.compared(table)


def ratio(table, case):
    """Such as "1.09", "0.92 to 1.32"."""
    middle, low, high, _ = compared(table)[case]
    return f"{middle:.2f}", f"{low:.2f} to {high:.2f}"


def cell(table, case):
    """Such as "1.04 (0.85 to 1.17)", or in bold letters if p is below 0.05."""
    *_, p = compared(table)[case]
    words = "{} ({})".format(*ratio(table, case))
    return f"**{words}**" if p < 0.05 else words


def row(words, *cases):
    """A row of a short table of the page of measurements; each case is a table and its row."""
    return "| {} | {} |".format(words, " | ".join(cell(*case) for case in cases))


TASKS = "CartPole", "CartPole, from 0", "Acrobot"
SHORT_TABLES = {  # {words: the cases in their row}
    **{words: [("rewards", case), ("rewards", f"{case}, from 0")] for words, case in (
        ("1", "1 reward"), ("2", "2 rewards"), ("10", "10 rewards"), ("20", "20 rewards"),
        ("5, one update per episode", "5 rewards, one update per episode"))},
    **{words: [("ages", f"{task}: {case}") for task in TASKS] for words, case in (
        ("nearly all seven updates old", "updates in turn"),
        ("on two cores: most a little old", "all cores"),
        ("the script's threads: most fresh", "8 threads"))},
    **{case: [("cartpole", case), ("from_0", case), ("acrobot", case)] for case in (
        "1 thread", "2 threads", "32 threads", "8 threads, all cores")}}


@pytest.mark.parametrize("words", SHORT_TABLES)
def test_the_pages_short_tables_are_those_of_the_data(words):
    """On the page of measurements, each row of the tables of rewards, of old gradients and of
    threads has the ratios that compare.py computes."""
    assert row(words, *SHORT_TABLES[words]) in MEASUREMENTS


@pytest.mark.parametrize("words, table, best", [
    ("CartPole, the script's RMSProp", "cartpole", "CartPole: 8 that wait, rate × 4"),
    ("CartPole, from 0", "from_0", "CartPole, from 0: 8 that wait, rate × 2"),
    ("Acrobot, Adam", "acrobot", "Acrobot: 8 that wait, rate × 8")])
def test_the_page_says_what_waiting_costs(words, table, best):
    """Its table has, for each task and optimizer, the frames of learners that wait, divided by
    others' frames: at the same rate, and at the best rates, measured with other seeds."""
    assert row(words, (table, "8 that wait"), ("tuned", best)) in MEASUREMENTS


@pytest.mark.parametrize("block", [200, 50, 25, 1])
def test_the_page_says_how_soon_evaluations_pass_in_two_worlds(block):
    """A row of its short table: the frames of one thread and of eight in the same world, divided by
    those of eight threads, and everybody's failed evaluations."""
    episodes = f"{block} episode{'s' * (block > 1)}"
    one, eight, same = (f"{learners}, {episodes}" for learners in (
        "1 thread", "8 threads", "8 in the same world"))
    runs = compare.load_runs("two_worlds")
    failed = [sum(run.failed for run in runs[case]) for case in (one, eight, same)]
    cells = [block, cell("two_worlds", one), cell("two_worlds", same), *failed]
    assert "| " + " | ".join(map(str, cells)) + " |" in MEASUREMENTS


def test_every_ratio_with_an_interval_was_measured(capsys):
    """A ratio that is followed by its interval, such as "1.82 times the frames (1.59 to 2.08)", is
    one that compare.py or measure_exercises.py prints. (test_the_lesson_says_how_many_frames… has
    those in other words.)"""
    measure_exercises.show(measure_exercises.load_runs())
    measured = capsys.readouterr().out + "".join(
        row for table in compare.TABLES for row in compare.rows(table))
    for name in ("README.md", "tests/measurements/README.md", "tests/exercises/README.md",
                 "tests/variants/README.md"):
        text = re.sub(r"\]\([^)]*\)", "", page(name))  # without links
        found = re.findall(r"(\d\.\d\d)(?: times)?[^()|\d]*[(,] ?([\d.]+ to [\d.]+)[),;]", text)
        assert found and not [(ratio, interval) for ratio, interval in found
                              if f"{ratio} ({interval})" not in measured]


@pytest.mark.parametrize("table, case, words", [
    ("cartpole", "1 thread", "thread takes {} times as many frames as eight (95% interval {})."),
    ("ages", "Acrobot: all cores", "Acrobot, with other settings, learning takes [{} times]"),
    ("cartpole", "8 that wait", "| with the script's settings | {} |"),
    ("from_0", "8 that wait", "| if RMSProp's averages start at 0 | {} |"),
    ("tuned", "CartPole, from 0: 8 that wait, rate × 2", "that we tried for each | {} ({}) |")])
def test_the_lesson_says_how_many_frames_learners_need(table, case, words):
    """The ratios of one thread, of old gradients, and of learners that wait, are the measured
    ones."""
    assert words.format(*ratio(table, case)) in LESSON


def test_the_pages_say_where_no_difference_is_significant():
    """The pages say that they see no difference between one or two threads and eight, and on
    CartPole none between old gradients and fresh ones. On Acrobot they see one."""
    assert "all six ratios are below 1, though none significantly so" in MEASUREMENTS
    for table in "cartpole", "from_0", "acrobot":
        for case in "1 thread", "2 threads":
            middle, *_, p = compared(table)[case]
            assert middle < 1 and p >= 0.05
    for task in "CartPole", "Acrobot":
        assert compared("ages")[f"{task}: 8 threads"][-1] >= 0.05
    old = "updates in turn", "all cores"
    assert all(compared("ages")[f"CartPole: {case}"][-1] >= 0.05 for case in old)
    assert all(compared("ages")[f"Acrobot: {case}"][-1] < 0.05 for case in old)


@pytest.mark.parametrize("words, learners", [
    ("eight threads (with 200, few ever switch)", "8 threads"),
    ("eight that switch together", "8 in the same world"),
    ("one thread", "1 thread")])
def test_the_lesson_says_when_policies_are_good_in_two_worlds(words, learners):
    """A row of its table: the frames of the median run, with a switch after 200 and 25 episodes."""
    rarely, often = (np.median(forgetting.summaries()[f"{learners}, {episodes} episodes"].good)
                     for episodes in (200, 25))
    assert f"| {words} | {rarely:,.0f} | {often:,.0f} |" in LESSON


def test_the_pages_say_that_mixing_two_worlds_helps():
    """The recorded data support these sentences. Each p is of a comparison with eight threads that
    switch after as many episodes."""
    found, p = forgetting.summaries(), forgetting.p_values(forgetting.summaries())
    assert "good in both [sooner]" in LESSON and "than the others (p < 0.001)." in LESSON
    assert p["1 thread, 200 episodes", "good"] < 0.001
    assert p["8 in the same world, 200 episodes", "good"] < 0.001
    assert "when switches are frequent, we see no difference." in LESSON
    assert p["1 thread, 25 episodes", "good"] == p["8 in the same world, 25 episodes", "good"] == 1
    same, one, eight = (np.median(found[f"{case}, 200 episodes"].worse)
                        for case in ("8 in the same world", "1 thread", "8 threads"))
    assert (f"eight in the same world score {same:.1f} in the worse world, one thread {one:.1f}, "
            f"and eight divided between the worlds {eight:.1f}.") in MEASUREMENTS


def test_the_lesson_says_who_passes_evaluations_sooner_in_two_worlds():
    """Not eight threads; with a switch after every 50 episodes, one thread."""
    assert "by the script's own evaluations we see [no advantage]" in LESSON
    for episodes in "200 episodes", "50 episodes", "25 episodes", "1 episode":
        middle, *_, p = compared("two_worlds")[f"1 thread, {episodes}"]
        assert middle < 1 or p >= 0.05
        assert (p < 0.05) == (episodes == "50 episodes")
    assert "after every 50 episodes, one thread even passes sooner." in LESSON


def test_the_pages_say_what_is_left_of_the_lead_in_two_worlds():
    """From 60,000 frames on: the mean score of the median run in whichever world goes worse, and in
    how many of fifty runs it is below 150."""
    found = forgetting.summaries(late=60_000)
    one, eight = (found[f"{case}, 200 episodes"].worse for case in ("1 thread", "8 threads"))
    bad, bad_of_eight = sum(one < 150), sum(eight < 150)
    medians = f"(medians of {np.median(one):.0f} and {np.median(eight):.0f})"
    words = f"{bad} of 50 runs with one thread average less than 150 in the worse world"
    assert bad_of_eight == 1 and f"{words}, and one with eight." in LESSON
    assert medians in MEASUREMENTS and f"{words}, and one of 50 with eight" in MEASUREMENTS
    assert stats.fisher_exact([[bad, 50 - bad], [1, 49]]).pvalue < 0.001



def test_the_variants_page_says_how_far_v_runs_away():
    """The table of clipped.py is that of the data, and so is how often |V| exceeded 2."""
    text, found = page("tests/variants/README.md"), clipping.load_runs()
    for limit in "not clipped", "5", "2", "1", "0.5":
        learned, _, values, *_ = zip(*found[limit])
        worst = f"{max(values):.1f}" if max(values) < 100 else f"{max(values):,.0f}"
        cells = f"{learned.count(False)} of {len(values)} | {np.median(values):.1f}, {worst}"
        assert f"| {cells} |" in text
    ends, others, none = (sum(run.largest_v > 2 for run in found[case]) for case in (
        "only those with the end of an episode to 0.25", "only the others to 0.25", "not clipped"))
    assert (f"|V| exceeded 2 in {ends} of 40 runs; when we clipped only the others, in {others} of "
            "40.") in text
    assert f"(Without clipping, in {none} of 100.)" in text


def spans(form, *arrays):
    """From the lowest to the highest of all recordings, such as "20 to 29"."""
    low, high = (f"{f(np.concatenate(arrays)):{form}}" for f in (min, max))
    return low if low == high else f"{low} to {high}"


@pytest.mark.parametrize("task", ["CartPole", "Acrobot"])
@pytest.mark.parametrize("words, cores", [("one core", "one core"), ("two cores", "all cores")])
def test_the_page_says_how_old_gradients_are(task, words, cores):
    """A row of the page's table: the shares of fresh gradients and of those older than twenty
    updates, and the mean age. The lesson tells some of it."""
    found = timeline.load()[f"{task}, {cores}"]
    cells = (f"{spans('.0f', found.fresh)}%", f"{spans('.0f', found.old)}%",
             spans(".1f", found.mean))
    assert f"| {task}, {words} | {' | '.join(cells)} |" in MEASUREMENTS
    if task == "CartPole":
        assert "the mean age is similar, about 5." in LESSON
        assert found.mean == pytest.approx(5, abs=0.7)
    if (task, words) == ("CartPole", "one core"):
        assert "About 95% of all gradients are then [fresh]" in LESSON
        of_the_others = found.mean / (1 - found.fresh / 100)
        assert "the few others are about a hundred updates old" in LESSON
        assert of_the_others == pytest.approx(100, abs=30)


# What the pages say about the pictures

def test_the_lesson_says_what_its_pictures_show():
    """run.png: the scores while the critic's loss is small. baseline.png: how far a sample moves
    the log-odds of right, on average, with the script's A and with return - V(s), which has no
    bias."""
    low, high = recorded_data.statistics()["mean scores while the critic's loss is small"]
    assert f"the mean score is anywhere from {low:.0f} to {high:.0f}" in LESSON
    _, unbiased, script = (push.mean() for push in recorded_data.pushes().values())  # in its order
    assert f"the mean push is {script:.4f} instead of {unbiased:.4f}" in LESSON


def test_the_pages_say_how_the_scripts_hundred_runs_went():
    """A row of the page of measurements: how many learned, the median and the most frames, failed
    evaluations, the median and the worst score after learning. The lesson quotes some of it, and
    how many policies were bad where every evaluation passed."""
    runs = measure_exercises.load_runs()["0"]  # without a change
    frames = sorted(run.frames for run in runs if run.frames is not None)  # of those that learned
    scores = sorted(run.policy for run in runs)
    failed = run_statistics.failed_in_words([run.failed for run in runs])
    assert (f"| {len(frames)} of 100 | {np.median(frames):,.0f}; {frames[-1]:,} | {failed} | "
            f"{np.median(scores):.1f}; {scores[0]:.1f} |") in MEASUREMENTS
    assert f"after a median of {np.median(frames):,.0f} frames" in LESSON
    assert f"every policy averaged at least {scores[0]:.1f}." in LESSON
    assert "All policies but the worst averaged more than 199" in MEASUREMENTS and scores[1] > 199
    without_evaluation = measure_exercises.load_runs()["5"]
    unchecked = sum(run.policy < 195 for run in without_evaluation)
    assert f"When training simply stopped at the threshold, [{unchecked} of 100]" in LESSON
    score = recorded_data.statistics()["median score after 7,000 frames"]
    assert f"By 7,000 frames the median has reached only {score:.0f}." in MEASUREMENTS


def test_the_page_says_when_all_rewards_are_as_good_as_five():
    """All rewards have no bias, but more noise than five. The page says over how many updates the
    noise averages out: median and quartiles of forty states, for ten successive steps."""
    quartiles = recorded_data.statistics()[
        "ten successive steps: updates whose mean is as close with all as with five (quartiles)"]
    low, middle, high = (f"{number:.0f}" for number in quartiles)
    assert f"From about {middle} updates on" in MEASUREMENTS
    assert f"quartiles {low} and {high}" in MEASUREMENTS
