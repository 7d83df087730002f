"""The numbers on the pages are those of the recorded data, and the data support what the pages
conclude from them. README and MEASUREMENTS are pages; wording is only looked up to find a number.
"""
import collections
import functools
import random
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
import draw
import forgetting
import timeline

pytestmark = pytest.mark.pages
README, MEASUREMENTS = page("README.md"), page("tests/measurements/README.md")
VARIANTS, EXERCISES = page("tests/variants/README.md"), page("tests/exercises/README.md")
WORDS = re.sub(r"\]\([^)]*\)", "]", README)  # without the addresses of links


def test_tables_are_what_compare_and_forgetting_print():
    """MEASUREMENTS has each row that compare.py and forgetting.py print: medians, ratios and
    intervals, bold where p is below 0.05."""
    text = (ROOT / "tests" / "measurements" / "README.md").read_text(encoding="utf-8")
    for rows in [*map(compare.rows, compare.TABLES), forgetting.rows()]:
        rows = list(rows)
        assert not [row for row in rows if row not in text]  # these rows differ
        assert "\n" + "\n".join(rows) + "\n\n" in text


# Speeds

def test_tables_of_speeds_are_what_speeds_py_prints():
    """Each of its tables is on the page of measurements or on that of distributed.py."""
    pages = [(ROOT / "tests" / name).read_text(encoding="utf-8")
             for name in ("measurements/README.md", "variants/distributed.md")]
    for table in speeds.tables():
        rows = speeds.rows(table)
        assert rows and any("\n" + "\n".join(rows) + "\n" in text for text in pages), rows


def median_of(table, case):
    return np.median(run_statistics.load(speeds.path(table))[case])


def speed(table, case, other):
    """How many times as fast a case is as another."""
    return median_of(table, case) / median_of(table, other)


SPEEDS = {
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


@pytest.mark.parametrize("words", SPEEDS)
def test_the_short_table_of_speeds_has_the_measured_ratios(words):
    assert f"| {words} | {speed(*SPEEDS[words]):.2f} |" in MEASUREMENTS


def test_the_readme_says_how_much_slower_eight_threads_are_on_two_cores():
    assert "On two cores they play only two thirds as many frames per second" in WORDS
    two_cores = speed(*SPEEDS["8 threads on two cores, compared with one core"])
    assert two_cores == pytest.approx(2 / 3, abs=0.06)


def test_eight_threads_are_faster_than_one_only_where_steps_sleep():
    """In frames per second: where steps compute, threads take turns."""
    compared = {words: speed(*cases) for words, cases in SPEEDS.items()}
    assert "eight threads play no more frames per second than one" in WORDS
    assert compared["8 threads, compared with one thread"] < 1
    assert compared["8 threads on two cores, compared with one thread, "
                    "if each step computes for a millisecond"] < 1
    assert compared["8 threads, compared with one thread, "
                    "if each step sleeps for a millisecond"] > 1


def test_the_page_says_how_much_sooner_eight_learn_if_steps_sleep():
    one, eight = (median_of("learning", f"sleeping, {n}") for n in ("1 learner", "8 learners"))
    assert f"in {eight:.1f} seconds instead of {one:.1f}" in MEASUREMENTS
    assert "about a [seventh] of the time" in WORDS
    assert eight / one == pytest.approx(1 / 7, abs=0.015)
    times = speed("sleeping", "sleeping, 8 learners", "sleeping, 1 learner")
    assert f"{times:.0f} times as many frames per second" in MEASUREMENTS


# Ratios of frames

Compared = collections.namedtuple("Compared", "ratio low high p")  # low to high: 95% interval


@functools.cache
def compared(table):
    """{case: its Compared}, computed from the recorded runs."""
    return {case: Compared(*found) for case, found in compare.compared(table).items()}


def ratio_and_interval(table, case):
    """Such as "1.09", "0.92 to 1.32"."""
    found = compared(table)[case]
    return f"{found.ratio:.2f}", f"{found.low:.2f} to {found.high:.2f}"


def cell(table, case):
    """Such as "1.04 (0.85 to 1.17)", or in bold letters if p is below 0.05."""
    words = "{} ({})".format(*ratio_and_interval(table, case))
    return f"**{words}**" if compared(table)[case].p < 0.05 else words


def row(*cells):
    return f"| {' | '.join(map(str, cells))} |"


@pytest.mark.parametrize("rewards", ["1 reward", "2 rewards", "10 rewards", "20 rewards",
                                     "5 rewards, one update per episode"])
def test_the_short_table_of_rewards_has_the_measured_ratios(rewards):
    """MEASUREMENTS, "How many rewards?": a row has the two ratios that compare.py computes from the
    recorded runs, with the script's RMSProp and with averages from 0."""
    cells = [cell("rewards", case) for case in (rewards, f"{rewards}, from 0")]
    assert row(re.sub(" rewards?", "", rewards), *cells) in MEASUREMENTS


@pytest.mark.parametrize("words, learners", [
    ("nearly all about seven updates old", "updates in turn"),
    ("on two cores: most a little old", "all cores"),
    ("the script's threads: most fresh", "8 threads")])
def test_the_short_table_of_old_gradients_has_the_measured_ratios(words, learners):
    """MEASUREMENTS, "Do old gradients cost frames?": a row has three ratios, one for each task."""
    cells = [cell("ages", f"{task}: {learners}")
             for task in ("CartPole", "CartPole, from 0", "Acrobot")]
    assert row(words, *cells) in MEASUREMENTS


@pytest.mark.parametrize("threads", ["1 thread", "2 threads", "32 threads",
                                     "8 threads, all cores"])
def test_the_short_table_of_threads_has_the_measured_ratios(threads):
    """MEASUREMENTS, "Do threads save frames?": a row has three ratios, one for each task."""
    cells = [cell(task, threads) for task in ("cartpole", "from_0", "acrobot")]
    assert row(threads, *cells) in MEASUREMENTS


@pytest.mark.parametrize("words, table, best", [
    ("CartPole, the script's RMSProp", "cartpole", "CartPole: 8 that wait, rate × 4"),
    ("CartPole, from 0", "from_0", "CartPole, from 0: 8 that wait, rate × 2"),
    ("Acrobot, Adam", "acrobot", "Acrobot: 8 that wait, rate × 8")])
def test_the_short_table_of_waiting_has_the_measured_ratios(words, table, best):
    """MEASUREMENTS, "Does waiting cost frames?": the ratio at the same rate, and at the best."""
    assert row(words, cell(table, "8 that wait"), cell("tuned", best)) in MEASUREMENTS


@pytest.mark.parametrize("learners", ["8 threads", "8 that wait"])
@pytest.mark.parametrize("table, task", [("cartpole", "CartPole"), ("from_0", "CartPole, from 0"),
                                         ("acrobot", "Acrobot")])
def test_the_best_rate_of_all_that_were_tried_is_compared(learners, table, task):
    """The best is the one with the lowest median of frames."""
    medians = {case: np.median(run_statistics.column(runs, "frames"))
               for case, runs in compare.load_runs(table).items()
               if re.fullmatch(rf"{learners}(, rate × .+)?", case)}
    best = min(medians, key=medians.get)
    assert f"{task}: {best if 'rate' in best else best + ', rate × 1'}" in compare.cases("tuned")


@pytest.mark.parametrize("block", ["200 episodes", "50 episodes", "25 episodes", "1 episode"])
def test_the_short_table_of_evaluations_has_the_measured_numbers(block):
    """MEASUREMENTS, "How soon an evaluation passes": two ratios and three counts of failures."""
    one, eight, same_world = (f"{learners}, {block}" for learners in (
        "1 thread", "8 threads", "8 in the same world"))
    runs = compare.load_runs("two_worlds")
    failed = [sum(run.failed for run in runs[case]) for case in (one, eight, same_world)]
    assert row(block.split()[0], cell("two_worlds", one), cell("two_worlds", same_world),
               *failed) in MEASUREMENTS


@pytest.mark.parametrize("name", ["README.md", "tests/measurements/README.md",
                                  "tests/variants/README.md"])
def test_every_ratio_with_an_interval_was_measured(capsys, name):
    """An interval and the last ratio before it, such as "1.82 times the frames (1.59 to 2.08)",
    are printed together by compare.py or measure_exercises.py, in whichever row."""
    measure_exercises.show(measure_exercises.load_runs())
    printed = capsys.readouterr().out + "".join(
        row for table in compare.TABLES for row in compare.rows(table))

    text = page(name)
    intervals = list(re.finditer(r"\d\.\d\d to \d\.\d\d", text))
    assert intervals
    for interval in intervals:
        last_ratio = re.findall(r"\d\.\d\d(?!\d)", text[:interval.start()])[-1]
        assert f"{last_ratio} ({interval[0]})" in printed


@pytest.mark.parametrize("table, case, words", [
    ("cartpole", "1 thread", "one takes {} times as many (95% interval {}"),
    ("two_worlds", "1 thread, 200 episodes", "one thread takes {} times as many frames ({})"),
    ("two_worlds", "1 thread, 50 episodes", "after every 50 episodes, {} times as many ({})")])
def test_the_readmes_ratios_of_frames_are_the_measured_ones(table, case, words):
    """In a sentence of the README, {} stands for the ratio or its interval."""
    assert words.format(*ratio_and_interval(table, case)) in WORDS


@pytest.mark.parametrize("words, cases", [
    ("nearly all about seven updates old",
     [("ages", "CartPole: updates in turn"), ("ages", "Acrobot: updates in turn")]),
    ("on two cores: most a little old",
     [("ages", "CartPole: all cores"), ("ages", "Acrobot: all cores")]),
    ("on one core: most fresh", [("ages", "CartPole: 8 threads"), ("ages", "Acrobot: 8 threads")]),
    ("CartPole, the script's RMSProp",
     [("cartpole", "8 that wait"), ("tuned", "CartPole: 8 that wait, rate × 4")]),
    ("CartPole, RMSProp's averages from 0",
     [("from_0", "8 that wait"), ("tuned", "CartPole, from 0: 8 that wait, rate × 2")]),
    ("Acrobot, Adam", [("acrobot", "8 that wait"), ("tuned", "Acrobot: 8 that wait, rate × 8")])])
def test_the_readmes_tables_of_ratios_are_the_measured_ones(words, cases):
    """In those of old gradients and of A2C, a row has two ratios with their intervals."""
    assert row(words, *("{} ({})".format(*ratio_and_interval(*case)) for case in cases)) in README


def test_few_threads_need_fewer_frames_but_not_significantly():
    """One and two threads, compared with eight, on each task."""
    found = [compared(table)[case] for table in ("cartpole", "from_0", "acrobot")
             for case in ("1 thread", "2 threads")]
    low, high = min(found).ratio, max(found).ratio
    assert f"threads take between {low:.2f} and {high:.2f} times as many frames" in MEASUREMENTS
    assert high < 1 and all(x.p >= 0.05 for x in found)


def test_few_threads_hardly_differ_from_another_eight():
    """One and two threads, compared with the eight of the table of old gradients: the lowest and
    the highest ratio."""
    ratios = []
    for table, task in (("cartpole", "CartPole"), ("from_0", "CartPole, from 0"),
                        ("acrobot", "Acrobot")):
        eight = run_statistics.column(compare.load_runs("ages")[f"{task}: 8 threads"], "frames")
        for case in "1 thread", "2 threads":
            few = run_statistics.column(compare.load_runs(table)[case], "frames")
            ratios.append(Compared(*run_statistics.ratio(few, eight), p=None).ratio)
    assert f"the ratios are between {min(ratios):.2f} and {max(ratios):.2f}." in MEASUREMENTS


@pytest.mark.parametrize("table", ["cartpole", "from_0"])
def test_without_unfinished_episodes_32_threads_need_not_be_worse(table):
    """Each learner but the one that ends the run has played "roughly 90 steps" of its last episode.
    Without them the ratio of 32 threads isn't significant."""
    frames = {}
    for case, runs in compare.load_runs(table).items():
        threads = int(case.split()[0])
        frames[case] = run_statistics.column(runs, "frames") - 90 * (threads - 1)
    without = run_statistics.compare_all({case: (frames[case], frames[reference])
                                          for case, reference in compare.references(table).items()})
    assert "At roughly 90 steps each" in MEASUREMENTS
    assert Compared(*without["32 threads"]).p >= 0.05 > compared(table)["32 threads"].p


def test_old_gradients_cost_frames_significantly_only_on_acrobot():
    """Those that are old on purpose, or because there are two cores."""
    found = compared("ages")
    for old in "updates in turn", "all cores":
        assert found[f"CartPole: {old}"].p >= 0.05 > found[f"Acrobot: {old}"].p
    p = found["CartPole: updates in turn"].p
    assert f"(p = {p:.2f})" in MEASUREMENTS
    assert len(compare.references("ages")) == 12


@pytest.mark.parametrize("task", ["CartPole", "CartPole, from 0", "Acrobot"])
def test_the_scripts_gradients_dont_differ_significantly_from_fresh_ones(task):
    """In the frames that learning takes. Fresh: of threads that take turns by segments."""
    assert compared("ages")[f"{task}: 8 threads"].p >= 0.05


# How old gradients are

def lowest_to_highest(form, numbers):
    """From the lowest to the highest of all recordings, such as "20 to 29"."""
    low, high = f"{min(numbers):{form}}", f"{max(numbers):{form}}"
    return low if low == high else f"{low} to {high}"


@pytest.mark.parametrize("task", ["CartPole", "Acrobot"])
@pytest.mark.parametrize("cores", ["one core", "two cores"])
def test_the_table_of_ages_has_the_recorded_shares(task, cores):
    """The shares of fresh gradients and of those older than twenty updates, and the mean age."""
    # The machine had two cores.
    found = timeline.load()[f"{task}, {cores}".replace("two cores", "all cores")]
    assert row(f"{task}, {cores}", f"{lowest_to_highest('.0f', found.fresh)}%",
               f"{lowest_to_highest('.0f', found.old)}%",
               lowest_to_highest(".1f", found.mean)) in MEASUREMENTS


def test_the_readmes_ages_of_gradients_fit_the_recordings():
    one, two = (timeline.load()[f"CartPole, {cores}"] for cores in ("one core", "all cores"))
    assert "about 95% of the gradients are [fresh], and most of the rest are very old" in WORDS
    assert one.fresh == pytest.approx(95, abs=1.5)
    assert min(one.old) > max(100 - np.add(one.fresh, one.old))  # in percent of all gradients
    assert "most gradients are a few updates old" in WORDS
    assert max(two.fresh + two.old) < 50  # in percent, so most are 1 to 20 updates old
    assert "The mean age is about five in both cases." in WORDS
    assert np.mean([*one.mean, *two.mean]) == pytest.approx(5, abs=0.5)
    one, two = (timeline.load()[f"Acrobot, {cores}"] for cores in ("one core", "all cores"))
    assert "on one core we see no harm, although the mean age is about the same as on two." in WORDS
    assert np.mean(one.mean) == pytest.approx(np.mean(two.mean), abs=0.5)


# Two worlds

def test_the_readme_says_when_both_worlds_go_well():
    """The frames of the median run, with a switch after 200 episodes."""
    eight, one, same_world = (
        f"{np.median(forgetting.summaries()[f'{learners}, 200 episodes'].good):,.0f}"
        for learners in ("8 threads", "1 thread", "8 in the same world"))
    assert f"With eight threads this takes {eight} frames (median)." in WORDS
    assert f"One thread needs {one}, and eight in the same world {same_world};" in WORDS


def test_a_mix_of_worlds_helps_if_switches_are_rare():
    """Compared with eight threads, one thread and eight in the same world are good in both worlds
    significantly later with 200 episodes to a world, but not with 25."""
    p = forgetting.p_values(forgetting.summaries())
    for learners in "1 thread", "8 in the same world":
        assert p[f"{learners}, 200 episodes", "good"] < 0.001  # good: frames until good in both
        assert p[f"{learners}, 25 episodes", "good"] >= 0.05


def test_one_thread_is_later_even_from_when_it_knows_both_worlds():
    """With 200 episodes to a world: the median of the frames from when both worlds had been played
    until the policy was good in both."""
    one, eight = (forgetting.summaries()[f"{learners}, 200 episodes"]
                  for learners in ("1 thread", "8 threads"))
    one_took, eight_took = (runs.good - runs.played for runs in (one, eight))
    assert (f"{np.median(one_took):,.0f} frames with one thread and {np.median(eight_took):,.0f} "
            "with eight") in MEASUREMENTS
    assert run_statistics.signed_rank_test(one_took, eight_took) < 0.001


def test_the_page_has_the_scores_in_the_worse_world():
    """With 200 episodes to a world: the mean score of the median run from 40,000 frames on."""
    same_world, one, eight = (
        np.median(forgetting.summaries()[f"{learners}, 200 episodes"].worse)
        for learners in ("8 in the same world", "1 thread", "8 threads"))
    assert (f"eight in the same world score {same_world:.1f} in the worse world, one thread "
            f"{one:.1f}, and eight divided between the worlds {eight:.1f}") in MEASUREMENTS


def test_late_in_a_run_one_thread_is_more_often_bad():
    """From 60,000 frames on, with 200 episodes to a world: the medians hardly differ, but many more
    runs of one thread than of eight average less than 150 in the worse world."""
    late = forgetting.summaries(late=60_000)
    one, eight = (late[f"{learners}, 200 episodes"].worse for learners in ("1 thread", "8 threads"))
    assert f"(medians of {np.median(one):.0f} and {np.median(eight):.0f})" in MEASUREMENTS
    assert abs(np.median(one) - np.median(eight)) < 5  # on a scale to 200: "hardly differ"
    bad_of_one, bad_of_eight = sum(one < 150), sum(eight < 150)
    assert f"in {bad_of_one} of 50 runs it averages less than 150 in the worse world; with" in WORDS
    assert (f"{bad_of_one} of 50 runs with one thread average less than 150 in the worse world, "
            "against one of 50 with eight") in MEASUREMENTS
    assert bad_of_eight == 1
    bad_and_good = [[bad_of_one, 50 - bad_of_one], [bad_of_eight, 50 - bad_of_eight]]
    assert stats.fisher_exact(bad_and_good).pvalue < 0.001


@pytest.mark.parametrize("learners", ["1 thread", "8 threads"])
def test_the_runs_in_worlds_png_are_typical(learners):
    """Of fifty runs, at least fifteen score less than the one that is drawn, and fifteen more: the
    mean in the worse world from 40,000 frames on."""
    scores = forgetting.summaries()[f"{learners}, 200 episodes"].worse
    drawn = scores[draw.TYPICAL_SEED]
    assert sum(scores < drawn) >= 15 and sum(scores > drawn) >= 15


def test_the_readme_counts_failed_evaluations_in_two_worlds():
    runs = compare.load_runs("two_worlds")
    one, eight = (sum(run.failed for run in runs[f"{learners}, 200 episodes"])
                  for learners in ("1 thread", "8 threads"))
    assert f"{one} of its evaluations fail, against {eight} with eight threads." in WORDS


def test_one_thread_passes_sooner_only_with_50_episodes_to_a_world():
    """Compared with eight threads that switch as often. Otherwise no difference is significant."""
    found = compared("two_worlds")
    assert found["1 thread, 50 episodes"].ratio < 1 and found["1 thread, 50 episodes"].p < 0.05
    for episodes in "200 episodes", "25 episodes", "1 episode":
        assert found[f"1 thread, {episodes}"].p >= 0.05


def test_two_threads_fail_evaluations_if_they_begin_together():
    """Exercise 22: in how many runs of two threads both begin in the same world, which a thread's
    own generator draws, and how many evaluations fail in these runs and in the others."""
    def first_world(seed, name):  # as two_worlds.py draws it
        return random.Random(f"{seed} {name}").choice((1, -1))

    together, apart = [], []  # the failed evaluations of each run
    for seed, run in enumerate(compare.load_runs("two_worlds")["2 threads, 200 episodes"]):
        same = first_world(seed, "local_thread1") == first_world(seed, "local_thread2")
        (together if same else apart).append(run.failed)
    assert (f"That happened in {len(together)} runs, which had {sum(together)} failed evaluations; "
            f"the other {len(apart)} had only two.") in EXERCISES
    assert sum(apart) == 2


# A hundred runs, and the variants

def test_the_row_of_a_hundred_runs_is_that_of_the_data():
    """How many learned, the median and the most frames, failed evaluations, the median and the
    worst score after learning."""
    runs = measure_exercises.load_runs()["0"]  # without a change
    frames = sorted(run.frames for run in runs if run.frames is not None)  # of those that learned
    scores = sorted(run.policy for run in runs)
    failed = run_statistics.failed_in_words([run.failed for run in runs])
    assert row(f"{len(frames)} of 100", f"{np.median(frames):,.0f}; {frames[-1]:,}", failed,
               f"{np.median(scores):.1f}; {scores[0]:.1f}") in MEASUREMENTS
    assert "All policies but the worst averaged more than 199" in MEASUREMENTS and scores[1] > 199


def test_the_readme_quotes_the_hundred_runs():
    """The median of the frames, and the worst score after learning."""
    runs = measure_exercises.load_runs()["0"]
    assert f"median of {np.median([run.frames for run in runs]):,.0f} frames" in README
    assert f"at least {min(run.policy for run in runs):.1f}" in README


def test_exercise_5_counts_good_policies_without_an_evaluation():
    good = sum(run.policy >= 195 for run in measure_exercises.load_runs()["5"])
    assert f"{good} of 100 averaged at least 195 over 100 fresh episodes" in EXERCISES


def test_exercise_17_counts_policies_that_are_good_with_drawn_actions():
    """There evaluations, and the test episodes after them, draw their actions from π."""
    good = sum(run.policy >= 195 for run in measure_exercises.load_runs()["17"])
    assert f"only {good} of the 100 policies average at least 195" in EXERCISES


def test_the_variants_page_has_the_rows_of_learn_variants():
    """All but those with --no-memory: on the page these are a sentence (see the next test)."""
    text = (ROOT / "tests" / "variants" / "README.md").read_text(encoding="utf-8")
    for case in learn_variants.load_runs():
        if "--no-memory" not in case:
            assert f"\n{learn_variants.row(case)}\n" in text, case


def test_without_memory_no_run_has_learned():
    for case, runs in learn_variants.load_runs().items():
        if "--no-memory" in case:
            assert f"none of {len(runs)}" in VARIANTS
            assert all(run.frames is None for run in runs), case  # None: it never learned


@pytest.mark.parametrize("limit", ["not clipped", "5", "2", "1", "0.5"])
def test_the_table_of_clipping_is_that_of_the_data(limit):
    """To which norm gradients are clipped, runs that didn't learn, and the largest |V| of a run."""
    runs = clipping.load_runs()[limit]
    values = [run.largest_v for run in runs]
    worst = f"{max(values):.1f}" if max(values) < 100 else f"{max(values):,.0f}"
    label = "(not clipped)" if limit == "not clipped" else limit
    assert row(label, f"{sum(not run.learned for run in runs)} of {len(runs)}",
               f"{np.median(values):.1f}, {worst}") in VARIANTS


def test_the_page_counts_runs_with_v_above_2():
    """If only updates with the end of an episode are clipped, if only the others are, and
    without clipping."""
    found = clipping.load_runs()
    ends, others, none = (sum(run.largest_v > 2 for run in found[case]) for case in (
        "only those with the end of an episode to 0.25", "only the others to 0.25", "not clipped"))
    assert f"|V| exceeded 2 in {ends} of 40 runs; when we clipped only the others, in {others} " \
           "of 40." in VARIANTS
    assert f"(Without clipping, in {none} of 100.)" in VARIANTS


# What the pages say about the pictures

def test_numbers_beside_run_png():
    """The lowest and the highest mean score while the critic's loss is small."""
    low, high = recorded_data.statistics()["mean scores while the critic's loss is small"]
    assert f"anywhere from {low:.0f} to {high:.0f}" in README


def test_numbers_beside_baseline_png():
    """How far a sample pushes the log-odds of right, by the return, by return − V(s), and by the
    script's A."""
    of_return, of_return_minus_v, of_script = recorded_data.pushes().values()
    assert "the standard deviation falls to a sixth" in README
    assert of_return_minus_v.std() / of_return.std() == pytest.approx(1 / 6, abs=0.01)
    assert f"{of_script.mean():.4f} instead of {of_return_minus_v.mean():.4f}" in README


def test_numbers_beside_errors_png():
    """In forty states: how far the mean push of the script's updates is from the true one; and over
    how many updates the noise of all rewards averages out (median, quartiles)."""
    found = recorded_data.statistics()
    share = found["mean push of updates, divided by the true one (median)"]
    assert f"typically {share:.2f} of the true one" in MEASUREMENTS
    assert "in six of the forty its sign is wrong, though in four of these it is" in MEASUREMENTS
    assert found["states where it is nearly 0, with the wrong sign"] == 4
    assert found["states where its sign is wrong"] == 6
    worse = found["states where no update would have a smaller error"]
    assert f"In {worse} of the forty states, an update of 0" in MEASUREMENTS
    low, middle, high = (f"{number:.0f}" for number in found[
        "updates whose mean is as close with all as with five (quartiles)"])
    assert f"From about {middle} updates on" in MEASUREMENTS
    assert f"quartiles {low} and {high}" in MEASUREMENTS


@pytest.mark.parametrize("start, words", [
    ("from_0", "averages from 0 save A3C {:,.0f} frames and A2C {:,.0f}"),
    ("corrected", "the corrected start (see below) saves {:,.0f} and {:,.0f}")])
def test_the_page_says_what_another_start_of_rmsprop_saves(start, words):
    """Frames saved if RMSProp's averages start at 0, or with Adam's correction, instead of at 1:
    for A3C (8 threads) and for A2C (8 that wait), the median difference of runs with the same seed,
    in hundreds."""
    saved = []
    for learners in "8 threads", "8 that wait":
        script, other = (run_statistics.column(compare.load_runs(table)[learners], "frames")
                         for table in ("cartpole", start))
        saved.append(np.round(np.median(script - other), -2))
    assert words.format(*saved) in MEASUREMENTS


def test_numbers_beside_hundred_png():
    score = recorded_data.statistics()["median score after 7,000 frames"]
    assert f"By 7,000 frames the median has reached only {score:.0f}." in MEASUREMENTS
