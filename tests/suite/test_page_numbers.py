"""The numbers on the pages are those of the recorded data.

Tables are what the programs print. Other numbers are looked up with some words beside them; each
function below that begins with "of" yields pairs of a page and such words. A few numbers aren't
here, and whether a conclusion follows from new data is for whoever measures anew.
"""
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

pytest.importorskip("gymnasium")
import clipping
import draw
import forgetting
import timeline

pytestmark = pytest.mark.pages
README, MEASUREMENTS = page("README.md"), page("tests/measurements/README.md")
VARIANTS, EXERCISES = page("tests/variants/README.md"), page("tests/exercises/README.md")
WORDS = re.sub(r"\]\([^)]*\)", "]", README)  # without the addresses of links
PAGES = "".join((ROOT / "tests" / name).read_text(encoding="utf-8") for name in (
    "measurements/README.md", "variants/README.md", "variants/distributed.md"))


def tables():
    """The rows of all tables that the programs print, together as on their page."""
    for table in compare.TABLES:
        yield compare.rows(table)
    for table in speeds.tables():
        yield speeds.rows(table)
    yield forgetting.rows()
    for case in learn_variants.SEEDS:
        if "--no-memory" not in case:  # on the page these are a sentence
            yield [learn_variants.row(case)]


def test_tables_are_what_the_programs_print():
    """Each table that a program prints is on a page, row by row, with the same bold type."""
    for rows in map(list, tables()):
        assert rows and "\n" + "\n".join(rows) + "\n" in PAGES, rows


@pytest.mark.parametrize("name", ["README.md", "tests/measurements/README.md",
                                  "tests/variants/README.md", "tests/exercises/README.md"])
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


def speed(table, case, other):
    """How many times as fast a case is as another (medians)."""
    found = run_statistics.load(speeds.path(table))
    return np.median(found[case]) / np.median(found[other])


def failed(table, case):
    return sum(run.failed for run in compare.load_runs(table)[case])


def median_frames(table, case):
    return np.median(run_statistics.column(compare.load_runs(table)[case], "frames"))


compared = functools.cache(compare.compared)


def cell(table, case):
    """Such as "1.04 (0.85 to 1.17)", or in bold letters if p is below 0.05."""
    *ratio_and_bounds, p = compared(table)[case]
    words = "{:.2f} ({:.2f} to {:.2f})".format(*ratio_and_bounds)
    return f"**{words}**" if p < 0.05 else words


def row(*cells):
    return f"| {' | '.join(map(str, cells))} |"


def saved(start):
    """The frames that another start of RMSProp saves A3C, and A2C: medians of runs with the same
    seed, in hundreds."""
    for learners in "8 threads", "8 that wait":
        script, other = (run_statistics.column(compare.load_runs(table)[learners], "frames")
                         for table in ("cartpole", start))
        yield np.round(np.median(script - other), -2)


def of_speeds():
    cores = "8 threads on two cores, compared with"
    for words, cases in (
            ("8 threads, compared with one thread", ("threads", "8 learners", "1 learner")),
            ("32 threads, compared with one thread", ("threads", "32 learners", "1 learner")),
            (f"{cores} one core", ("variants", "a3c_cartpole.py, all cores", "a3c_cartpole.py")),
            ("8 threads that wait for each other, compared with 8 that don't",
             ("variants", "synchronous.py", "a3c_cartpole.py")),
            ("8 threads, compared with one thread, if each step sleeps for a millisecond",
             ("sleeping", "sleeping, 8 learners", "sleeping, 1 learner")),
            (f"{cores} one thread, if each step computes for a millisecond",
             ("computing", "computing, all cores, 8 learners", "computing, all cores, 1 learner"))):
        yield MEASUREMENTS, f"| {words} | {speed(*cases):.2f} |"
    of_two_cores = speed("variants", "a3c_cartpole.py, all cores", "a3c_cartpole.py")
    yield WORDS, f"threads play only {of_two_cores:.2f} times as many frames per second as on one"
    times = run_statistics.load(speeds.path("learning"))
    one, eight = (np.median(times[f"sleeping, {n}"]) for n in ("1 learner", "8 learners"))
    yield MEASUREMENTS, f"in {eight:.1f} seconds instead of {one:.1f}"


def of_ratios():
    """The short tables of ratios."""
    for rewards in ("1 reward", "2 rewards", "10 rewards", "20 rewards",
                    "5 rewards, one update per episode"):
        cells = [cell("rewards", case) for case in (rewards, f"{rewards}, from 0")]
        yield MEASUREMENTS, row(re.sub(" rewards?", "", rewards), *cells)
    ratios = [cell("rewards", case).strip("*") for case in (
        "all rewards, from 0", "5 rewards, one update per episode, from 0")]
    yield WORDS, "these ratios are {} and {}.".format(*ratios)
    for words, learners in (("updates in turn (nearly all about seven old)", "updates in turn"),
                            ("all cores (most a little old)", "all cores"),
                            ("8 threads (most fresh)", "8 threads")):
        yield MEASUREMENTS, row(words, *(cell("ages", f"{task}: {learners}") for task in (
            "CartPole", "CartPole, from 0", "Acrobot")))
    for threads in "1 thread", "2 threads", "32 threads", "8 threads, all cores":
        cells = [cell(table, threads) for table in ("cartpole", "from_0", "acrobot")]
        yield MEASUREMENTS, row(threads, *cells)
    for words, table, best in (
            ("CartPole, the script's RMSProp", "cartpole", "CartPole: 8 that wait, rate × 4"),
            ("CartPole, from 0", "from_0", "CartPole, from 0: 8 that wait, rate × 2"),
            ("Acrobot, Adam", "acrobot", "Acrobot: 8 that wait, rate × 8")):
        yield MEASUREMENTS, row(words, cell(table, "8 that wait"), cell("tuned", best))
    for words, table, case in (
            ("the script's RMSProp", "cartpole", "8 that wait"),
            ("averages from 0", "from_0", "8 that wait"),
            ("averages from 0, best rates", "tuned", "CartPole, from 0: 8 that wait, rate × 2"),
            ("the same, but evaluated after every ten episodes", "every_ten",
             "CartPole, from 0: 8 that wait, rate × 2"),
            ("Acrobot, Adam, best rates", "tuned", "Acrobot: 8 that wait, rate × 8")):
        yield README, f"| {words} | {cell(table, case).strip('*')}"
    for block in "200 episodes", "50 episodes", "25 episodes":
        cells = [cell(table, f"{task}{learners}, {block}")
                 for table, task in (("every_ten", "two worlds: "), ("two_worlds", ""))
                 for learners in ("1 thread", "8 in the same world")]
        yield MEASUREMENTS, row(block.split()[0], *cells)


def of_frames():
    for start, words in (
            ("from_0", "averages from 0 save A3C {:,.0f} frames and A2C {:,.0f}"),
            ("corrected", "the corrected start (see below) saves {:,.0f} and {:,.0f}")):
        yield MEASUREMENTS, words.format(*saved(start))
    ratio, low, high, p = compared("ages")["CartPole: updates in turn"]
    yield MEASUREMENTS, f"({low:.2f} to {high:.2f}), p = {p:.2f}"
    yield WORDS, f"CartPole {ratio:.2f} times ({low:.2f} to {high:.2f}; p = {p:.2f}, so"
    few = [compared(table)[case][0] for table in ("cartpole", "from_0", "acrobot")
           for case in ("1 thread", "2 threads")]
    yield MEASUREMENTS, f"between {min(few):.2f} and {max(few):.2f} times as many frames"
    for task in "CartPole", "Acrobot":
        for cores, name in ("one core", "one core"), ("all cores", "two cores"):
            found = timeline.load()[f"{task}, {cores}"]
            cells = (lowest_to_highest(form, numbers) for form, numbers in (
                (".0f", found.fresh), (".0f", found.old), (".1f", found.mean)))
            yield MEASUREMENTS, "| {}, {} | {}% | {}% | {} |".format(task, name, *cells)


def lowest_to_highest(form, numbers):
    """From the lowest to the highest of all recordings, such as "20 to 29"."""
    low, high = f"{min(numbers):{form}}", f"{max(numbers):{form}}"
    return low if low == high else f"{low} to {high}"


def of_the_threshold():
    """Evaluated at the threshold, and after every ten episodes."""
    for words, table, case in (
            ("1 thread", "cartpole", "1 thread"), ("32 threads", "cartpole", "32 threads"),
            ("8 that wait", "cartpole", "8 that wait"),
            ("from 0: 8 that wait", "from_0", "8 that wait"),
            ("from 0: 8 that wait, rate × 2", "from_0", "8 that wait, rate × 2")):
        task = "CartPole, from 0" if table == "from_0" else "CartPole"
        yield MEASUREMENTS, row(words, cell(table, case), cell("every_ten", f"{task}: {case}"))
    policies = [run.policy for run in measure_exercises.load_runs()["5b"]]
    good = sum(score >= 195 for score in policies)
    yield MEASUREMENTS, (f"{good} of {len(policies)} policies that passed in this way averaged at "
                         f"least 195 over 100 fresh episodes, the worst {min(policies):.1f}")
    often = median_frames("every_ten", "CartPole: 8 threads")
    failures = failed("every_ten", "CartPole: 8 threads") / compare.SEEDS
    yield WORDS, (f"passes after {often:,.0f} frames, not counting the steps of some "
                  f"{failures:.0f} tries that fail before")
    assert good == len(policies) == 50  # as the README says
    at_threshold = median_frames("cartpole", "8 threads")
    yield MEASUREMENTS, (f"{often:,.0f} frames instead of {at_threshold:,.0f} (medians with eight "
                         "threads, not counting the evaluations' own steps; "
                         f"{failures:.0f} evaluations fail")


def of_two_worlds():
    names = "8 threads", "1 thread", "8 in the same world"
    found, late = forgetting.summaries(), forgetting.summaries(late=60_000)
    eight, one, same = (found[f"{name}, 200 episodes"] for name in names)
    for learners, case in (
            ("eight threads", "8 threads"), ("one thread", "1 thread"),
            ("eight threads in the same world, switching together after that many episodes in all",
             "8 in the same world")):
        frames = [median_frames("every_ten", f"two worlds: {case}, {block} episodes")
                  for block in (200, 25)]
        yield README, row(learners, *map("{:,.0f}".format, frames))
    tries = [failed("every_ten", f"two worlds: {name}, 200 episodes") / compare.SEEDS
             for name in names[:2]]
    yield MEASUREMENTS, "{:.0f} failed evaluations against {:.0f}, in far fewer".format(*tries)
    numbers = r"(\d+) absences, (\d+) before, (\d+) after, means (\d+) and (\d+), (p.*)"
    yield WORDS, "it fails {} evaluations, and eight threads fail {}".format(
        *(failed("two_worlds", f"{name}, 200 episodes") for name in ("1 thread", "8 threads")))
    absences = [re.search(numbers, line).groups() for line in forgetting.show_absences()]
    cases = [(learners, already_good_in_the_other)
             for learners in ("1 thread", "8 threads, at the same times", "8 in the same world")
             for already_good_in_the_other in ("no", "yes")]
    for case, (count, *medians, before, after, _) in zip(cases, absences, strict=True):
        yield MEASUREMENTS, row(*case, count, *map("{} ({})".format, medians, (before, after)))
    yield WORDS, "falls from {1} to {2} (medians of {0} such times".format(*absences[0])
    yield MEASUREMENTS, "we see no fall ({} and {},".format(
        absences[2][-1], absences[3][-1].removeprefix("p = "))
    took = [np.median(runs.good - runs.played) for runs in (one, eight)]
    yield MEASUREMENTS, "{:,.0f} frames with one thread and {:,.0f} with eight".format(*took)
    eight, one, same = (np.median(runs.worse) for runs in (eight, one, same))
    yield MEASUREMENTS, (f"same world score {same:.1f} in the worse world, one thread {one:.1f}, "
                         f"and *8 threads* {eight:.1f}")
    eight, one = (late[f"{name}, 200 episodes"].worse for name in names[:2])
    yield MEASUREMENTS, f"(medians of {np.median(one):.0f} and {np.median(eight):.0f})"
    yield MEASUREMENTS, f"{sum(one < 150)} of 50 runs with one thread average less than 150"


def of_exercise_22():
    """In how many runs of two threads both begin in the same world, and how many evaluations fail
    in these runs and in the others."""
    def first_world(seed, name):  # as two_worlds.py draws it
        return random.Random(f"{seed} {name}").choice((1, -1))

    together, apart = [], []  # the failed evaluations of each run
    for seed, run in enumerate(compare.load_runs("two_worlds")["2 threads, 200 episodes"]):
        same = first_world(seed, "local_thread1") == first_world(seed, "local_thread2")
        (together if same else apart).append(run.failed)
    yield EXERCISES, f"in {len(together)} runs, which had {sum(together)} failed evaluations;"
    yield EXERCISES, f"the other {len(apart)} had only {sum(apart)}."


def of_a_hundred_runs():
    """Of the script, and with two exercises' changes."""
    runs = measure_exercises.load_runs()
    frames, scores = (sorted(run_statistics.column(runs["0"], name))
                      for name in ("frames", "policy"))
    in_words = run_statistics.failed_in_words([run.failed for run in runs["0"]])
    yield MEASUREMENTS, (
        f"| {np.isfinite(frames).sum()} of 100 | {np.median(frames):,.0f} | {frames[-1]:,.0f} | "
        f"{in_words} | {np.median(scores):.1f} | {scores[0]:.1f} |")
    yield README, f"median of {np.median(frames):,.0f} frames"
    medians = (np.median(run_statistics.column(runs[number][:20], "frames")) for number in "10")
    yield README, "medians over twenty seeds: {:,.0f} instead of {:,.0f}".format(*medians)
    assert scores[1] > 199
    yield README, f"averaged more than 199; that one averaged {scores[0]:.1f}"
    good = {number: sum(run.policy >= 195 for run in runs[number]) for number in ("5", "17")}
    yield EXERCISES, f"{good['5']} of 100 averaged at least 195 over 100 fresh episodes"
    yield EXERCISES, f"only {good['17']} of the 100 policies average at least 195"


def of_clipping():
    """To which norm gradients are clipped, runs that didn't learn, the median and the largest of
    the largest |V| of each run; and how many runs had |V| above 2."""
    runs = clipping.load_runs()
    for limit in "not clipped", "5", "2", "1", "0.5":
        values = [run.largest_v for run in runs[limit]]
        worst = f"{max(values):.1f}" if max(values) < 100 else f"{max(values):,.0f}"
        yield VARIANTS, row("(not clipped)" if limit == "not clipped" else limit,
                            f"{sum(not run.learned for run in runs[limit])} of {len(values)}",
                            f"{np.median(values):.1f}, {worst}")
    ends, others, none = (sum(run.largest_v > 2 for run in runs[case]) for case in (
        "only those with the end of an episode to 0.25", "only the others to 0.25", "not clipped"))
    yield VARIANTS, (f"{ends} of 40 when we clipped only these updates' gradients (to 0.25), "
                     f"{others} of 40 when we clipped only the others', and {none} of 100 without")


def of_pictures():
    found = recorded_data.statistics()
    of_return, of_return_minus_v, of_script = recorded_data.pushes().values()
    yield README, f"{of_script.mean():.4f} instead of {of_return_minus_v.mean():.4f}"
    low, high = found["mean scores while the critic's loss is small"]
    yield page("tests/variants/your_own.md"), f"anywhere from {low:.0f} to {high:.0f}"
    for what, words in (
            ("updates", "of the true one (median over the states, quartiles {:.2f} and {:.2f})"),
            ("samples", "of the true one ({:.2f} and {:.2f}; in the lesson's own state")):
        low, middle, high = found[f"mean push of {what}, divided by the true one (quartiles)"]
        yield MEASUREMENTS, f"typically {middle:.2f} " + words.format(low, high)
    here = of_script.mean() / of_return_minus_v.mean()
    yield WORDS, f"is {middle:.2f} of the true one, against {here:.2f} here"
    for what in "samples", "updates":
        states = found[f"states where five rewards have more mean push per noise ({what})"]
        yield MEASUREMENTS, f"with five rewards than with all in {states} of the forty states"
    yield MEASUREMENTS, f"own state, {here:.2f})"
    worse = found["states where no update would have a smaller error"]
    yield MEASUREMENTS, f"In {worse} of the forty states, an update of 0"
    low, middle, high = found["updates whose mean is as close with all as with five (quartiles)"]
    yield MEASUREMENTS, f"From about {middle:.0f} updates on"
    yield MEASUREMENTS, f"quartiles {low:.0f} and {high:.0f}"
    score = found["median score after 7,000 frames"]
    yield MEASUREMENTS, f"By 7,000 frames the median has reached only {score:.0f}."
    yield WORDS, f"the median run averages only {score:.0f}."


@pytest.mark.parametrize("quotes", [
    of_speeds, of_ratios, of_frames, of_the_threshold, of_two_worlds, of_exercise_22,
    of_a_hundred_runs, of_clipping, of_pictures])
def test_the_pages_quote_the_data(quotes):
    """Each sentence or row that is made from the data is on its page. (Its first number must not be
    the end of a longer one.)"""
    found = list(quotes())
    missing = [words for text, words in found
               if not re.search(r"(?<![\d.,])" + re.escape(words), text)]
    assert found and not missing


def test_the_readmes_rounded_numbers_are_near_the_data():
    """What the README rounds, as to "two thirds", is near what was measured."""
    times = run_statistics.load(speeds.path("learning"))
    of_return, of_return_minus_v, _ = recorded_data.pushes().values()
    for words, said, tolerance, measured in (
            ("eight threads learn in about a [seventh] of the time", 1 / 7, 0.015,
             np.median(times["sleeping, 8 learners"]) / np.median(times["sleeping, 1 learner"])),
            ("the standard deviation falls to a sixth", 1 / 6, 0.01,
             of_return_minus_v.std() / of_return.std())):
        assert words in WORDS and measured == pytest.approx(said, abs=tolerance), words


@pytest.mark.parametrize("learners", ["1 thread", "8 threads", "8 in the same world"])
def test_worlds_png_counts_the_runs_that_have_passed(learners):
    """At each number of frames, its curve has as many runs as have passed an evaluation by then."""
    [curve] = [line for panel in draw.draw_worlds().axes for line in panel.lines
               if line.get_label() == learners]
    runs = compare.load_runs("every_ten")[f"two worlds: {learners}, 200 episodes"]
    passed = run_statistics.column(runs, "frames")
    assert curve.get_ydata().tolist() == [sum(passed <= frames) for frames in curve.get_xdata()]


@pytest.mark.parametrize("learners", ["1 thread", "8 threads"])
def test_the_runs_in_worlds_png_are_typical(learners):
    """The runs in worlds.png aren't extreme: of fifty, at least ten are good in both worlds sooner,
    and ten later. At least ten score lower in the worse world later on, and ten higher."""
    runs = forgetting.summaries()[f"{learners}, 200 episodes"]
    for numbers in runs.good, runs.worse:
        drawn = numbers[draw.TYPICAL_SEED]
        assert sum(numbers < drawn) >= 10 and sum(numbers > drawn) >= 10
