"""Measure how many frames learners need: python tests/measurements/compare.py [TABLE]...

Shows these tables, or all: TABLE is one of those below, such as cartpole or ages (how much old
gradients cost). With --measure it first measures what is missing in data/TABLE.json: each case
learns with seeds 0 to 49 (tuned: 50 to 99), and the cases take turns.
"""
import collections
import re

import launch
import numpy as np
import run_statistics
from paths import HERE

LEARNERS = HERE / "compare_learners.py"
SEEDS = 50
FIRST_SEED = {"tuned": 50}
LIMIT = 400_000  # frames; a run that needs more hasn't learned (in two worlds, 300,000)
# The frames that a run took to learn (None: it didn't), and its evaluations that failed
Run = collections.namedtuple("Run", "frames failed")
# {a word in the name of a row: what run_program.py and compare_learners.py are told}
OPTIONS = {
    "CartPole": "--task cartpole", "Acrobot": "--task acrobot",
    "two worlds": "--task worlds --max-frames 300000",
    "from 0": "--optimizer from-0", "corrected": "--optimizer corrected",
    "no momentum": "--optimizer no-momentum",
    "1 thread": "--workers 1", "2 threads": "--workers 2", "8 threads": "--workers 8",
    "32 threads": "--workers 32", "8 that wait": "--workers 8 --learners waiting",
    "off-policy": "--off-policy", "8 of ga3c.py": "--workers 8 --learners ga3c",
    "all cores": "--set SHARE_ONE_CORE False",
    "rate × ½": "--rate 0.5", "rate × 1": "--rate 1", "rate × 2": "--rate 2",
    "rate × 4": "--rate 4", "rate × 8": "--rate 8", "rate × 16": "--rate 16",
    "8 in the same world": "--workers 8 --same-world",
    "1 episode": "--block 1", "25 episodes": "--block 25", "50 episodes": "--block 50",
    "200 episodes": "--block 200",
    "evaluated every ten episodes": "--set THRESHOLD_MEAN 0",  # any ten reach this mean
    "segments in turn": "--in-turn segments", "updates in turn": "--in-turn updates",
    "1 reward": "--set N_STEP_RETURN 1", "2 rewards": "--set N_STEP_RETURN 2",
    "5 rewards": "--set N_STEP_RETURN 5", "10 rewards": "--set N_STEP_RETURN 10",
    "20 rewards": "--set N_STEP_RETURN 20",
    "all rewards": "--set N_STEP_RETURN 200",  # no episode has more
    "one update per episode": "--set Tmax 200"}
WITH_RMSPROP = [
    "1 thread", "2 threads", "8 threads", "32 threads",
    "8 that wait", "8 that wait, off-policy",
    "1 thread, rate × ½", "1 thread, rate × 2", "1 thread, rate × 4",
    "8 threads, rate × ½", "8 threads, rate × 2", "8 threads, rate × 4",
    "8 that wait, rate × ½", "8 that wait, rate × 2", "8 that wait, rate × 4"]
# {name: (words that all rows share, {a row: the rows compared with it, perhaps with itself})}
TABLES = {
    "cartpole": ("CartPole", {"8 threads": [
        *WITH_RMSPROP, "8 that wait, rate × 8", "8 threads, all cores"]}),
    "from_0": ("CartPole, from 0", {"8 threads": [
        *WITH_RMSPROP, "8 of ga3c.py", "8 threads, all cores"]}),
    "acrobot": ("Acrobot", {"8 threads": [
        "1 thread", "2 threads", "8 threads", "32 threads",
        "8 that wait", "8 that wait, off-policy",
        "8 threads, rate × ½", "8 threads, rate × 2", "8 threads, rate × 4",
        "8 threads, rate × 8",
        "8 that wait, rate × ½", "8 that wait, rate × 2", "8 that wait, rate × 4",
        "8 that wait, rate × 8", "8 that wait, rate × 16", "8 threads, all cores"]}),
    "corrected": ("CartPole, corrected", {"8 threads": [
        "8 threads", "8 that wait", "8 threads, rate × 2",
        "8 that wait, rate × 2", "8 that wait, rate × 4"]}),
    "tuned": ("", {
        "CartPole: 8 threads, rate × 1": [
            "CartPole: 8 threads, rate × 1", "CartPole: 8 that wait, rate × 4"],
        "CartPole, from 0: 8 threads, rate × 1": [
            "CartPole, from 0: 8 threads, rate × 1",
            "CartPole, from 0: 8 that wait, rate × 2"],
        "Acrobot: 8 threads, rate × 4": [
            "Acrobot: 8 threads, rate × 4", "Acrobot: 8 that wait, rate × 8"]}),
    "two_worlds": ("two worlds", {
        "8 threads, 200 episodes": [
            "1 thread, 200 episodes", "8 threads, 200 episodes",
            "8 in the same world, 200 episodes",
            "2 threads, 200 episodes", "32 threads, 200 episodes"],
        "8 threads, 50 episodes": [
            "1 thread, 50 episodes", "8 threads, 50 episodes", "8 in the same world, 50 episodes"],
        "8 threads, 25 episodes": [
            "1 thread, 25 episodes", "8 threads, 25 episodes", "8 in the same world, 25 episodes"],
        "8 threads, 1 episode": [
            "1 thread, 1 episode", "8 threads, 1 episode", "8 in the same world, 1 episode"],
        "8 threads, 200 episodes, from 0": [
            "1 thread, 200 episodes, from 0", "8 threads, 200 episodes, from 0",
            "8 that wait, 200 episodes, from 0"]}),
    # An evaluation after every ten episodes, however good or bad they were
    "every_ten": ("evaluated every ten episodes", {
        "CartPole: 8 threads": [
            "CartPole: 1 thread", "CartPole: 8 threads", "CartPole: 32 threads",
            "CartPole: 8 that wait"],
        "CartPole, from 0: 8 threads": [
            "CartPole, from 0: 8 threads", "CartPole, from 0: 8 that wait",
            "CartPole, from 0: 8 that wait, rate × 2"],
        **{f"two worlds: 8 threads, {block} episodes": [
            f"two worlds: {learners}, {block} episodes"
            for learners in ("1 thread", "8 threads", "8 in the same world")]
            for block in (200, 50, 25)}}),
    "ages": ("", {f"{task}: segments in turn": [
        f"{task}: segments in turn", f"{task}: updates in turn",
        f"{task}: all cores", f"{task}: 8 threads"]
        for task in ("CartPole", "CartPole, from 0", "Acrobot", "Acrobot, no momentum")}),
    # With all rewards the script makes one update per episode.
    "rewards": ("CartPole", {
        "5 rewards": [
            "1 reward", "2 rewards", "5 rewards", "10 rewards", "20 rewards",
            "5 rewards, one update per episode"],
        "5 rewards, one update per episode": ["all rewards"],
        "5 rewards, from 0": [
            "1 reward, from 0", "2 rewards, from 0", "5 rewards, from 0",
            "10 rewards, from 0", "20 rewards, from 0",
            "5 rewards, one update per episode, from 0"],
        "5 rewards, one update per episode, from 0": ["all rewards, from 0"]})}


def cases(table):
    """{row: its options, as one string}"""
    words, groups = TABLES[table]
    return {row: " ".join(OPTIONS[word] for word in re.split(", |: ", f"{words}, {row}") if word)
            for rows in groups.values() for row in rows}


def references(table):
    """{row: the row that it is compared with}"""
    _, groups = TABLES[table]
    return {row: reference for reference, rows in groups.items() for row in rows
            if row != reference}


def path(table):
    return HERE / "data" / f"{table}.json"


def load_runs(table):
    """{row: its runs}. The file has the options in place of the row, so that a row with other
    options is measured again."""
    kept = run_statistics.load(path(table))
    return {row: [Run(*run) for run in kept.get(options, [])]
            for row, options in cases(table).items()}


def learn(seed, options):
    """One run with these options."""
    result = launch.learn(seed, LEARNERS, "--test-episodes", 1, "--max-frames", LIMIT,
                          *options.split())
    return Run(result.frames, result.failed)


def measure(table):
    first_seed = FIRST_SEED.get(table, 0)
    run_statistics.measure_missing(path(table), dict.fromkeys(cases(table).values(), SEEDS),
                                   lambda options, i: learn(first_seed + i, options))


def compared(table):
    """{row: its ratio to its reference, the bounds, p}"""
    frames = {row: run_statistics.column(own, "frames") for row, own in load_runs(table).items()}
    return run_statistics.compare_all({row: (frames[row], frames[reference])
                                       for row, reference in references(table).items()})


def rows(table):
    """The rows of a table of the page of measurements."""
    ratios = compared(table)
    for row, found in load_runs(table).items():
        frames = run_statistics.column(found, "frames")
        median = np.median(frames)
        yield "| {} | {} of {} | {} | {} | {} |".format(
            row, np.isfinite(frames).sum(), len(found),
            f"{median:,.0f}" if np.isfinite(median) else "–",  # fewer than half have learned
            run_statistics.ratio_in_words(*ratios[row]) if row in ratios else "1",
            run_statistics.failed_in_words([run.failed for run in found]))


def main():
    tables, to_measure = run_statistics.arguments(__doc__, TABLES, "TABLE")
    for table in tables:
        if to_measure:
            measure(table)
        print(table, "| case | learned | frames | ratio | failed evaluations |", *rows(table),
              sep="\n")


if __name__ == "__main__":
    main()
