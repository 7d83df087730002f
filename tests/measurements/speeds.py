"""Measure speeds: python tests/measurements/speeds.py [TABLE]...

Shows these tables, or all: threads, variants, sleeping and computing (in each step, for a
millisecond longer), learning (with sleeping steps, until learned), processes (those of
distributed.py). With --measure it first measures what is missing in data; the cases of a table take
turns, in several rounds.
"""
import random
import statistics

import launch
import run_statistics
from paths import HERE, SCRIPT, VARIANTS

THREADS = 1, 2, 4, 8, 16, 32
MILLISECONDS = 0, 0.2, 1, 5  # for which a step computes longer, in "processes"
ALL_CORES = "--set", "SHARE_ONE_CORE", False
FRAMES = {"clipped": 40_000, "pendulum": 20_000, "memory": 10_000, "synchronous": 40_000,
          "ga3c": 40_000, "pong": 2000}


def while_it_runs(program, *options):
    """Frames/s over ten seconds of a run, after its first ten."""
    points = launch.points(program, "--max-frames", 10 ** 9, *options)
    begin = next(point for point in points if point.seconds > 10)
    end = next(point for point in points if point.seconds > begin.seconds + 10)
    points.close()  # this ends the run
    return launch.slope(begin, end)


def after_fifty_episodes(program, frames, *options):
    """Frames/s of a run of so many frames, after its first fifty episodes or, if it plays fewer,
    after the start of its threads."""
    first, *others = launch.points(program, "--max-frames", frames, *options)
    return launch.slope(others[0] if len(others) > 1 else first, others[-1])


def seconds_until_learned(program, *options):
    """Of a run with any seed."""
    return launch.learn(random.randrange(2 ** 32), program, *options).learning


def learners():
    """{case: arguments}. All runs begin with the same weights and draw all actions from π."""
    return {f"{n} learner{'s' * (n > 1)}": (SCRIPT, 40_000, "--workers", n, "--seed", 0,
                                            "--set", "EPS_START", 0.0)
            for n in THREADS}


def slow_steps(what, numbers, *options):
    return {f"{what}, {n} learner{'s' * (n > 1)}": (SCRIPT, "--workers", n, *options)
            for n in numbers}


def path(table):
    return HERE / "data" / f"speeds_{table}.json"


def tables():
    """{table: (rounds, how a case is measured, {case: arguments})}"""
    of_variants = {f"{name}.py": (VARIANTS / f"{name}.py", n) for name, n in FRAMES.items()}
    return {
        "threads": (15, after_fifty_episodes, learners()),
        "variants": (5, after_fifty_episodes, {
            "a3c_cartpole.py": (SCRIPT, 40_000), **of_variants,
            "a3c_cartpole.py, all cores": (SCRIPT, 40_000, *ALL_CORES),
            "ga3c.py, all cores": (VARIANTS / "ga3c.py", 40_000, *ALL_CORES)}),
        "sleeping": (3, while_it_runs, slow_steps(
            "sleeping", (1, 2, 8, 32), "--sleep", 0.001)),
        "computing": (3, while_it_runs, slow_steps(
            "computing, all cores", (1, 2, 8, 32), "--compute", 0.001, *ALL_CORES)),
        "learning": (20, seconds_until_learned, slow_steps("sleeping", (1, 8), "--sleep", 0.001)),
        "processes": (3, while_it_runs, {
            f"{ms} ms, {case}": (program, "--compute", ms / 1000, *options)
            for ms in MILLISECONDS for case, program, *options in (
                ("the script", SCRIPT),
                ("1 process", VARIANTS / "distributed.py", "--processes", 1),
                ("2 processes", VARIANTS / "distributed.py", "--processes", 2))})}


def measure(table):
    rounds, speed, cases = tables()[table]
    run_statistics.measure_missing(path(table), dict.fromkeys(cases, rounds),
                                   lambda case, i: round(speed(*cases[case]), 1))


def show(speeds, digits=0):
    """A row for each case: the median, the lowest and the highest, the ratio to the first case."""
    first = next(iter(speeds))
    for case, own in speeds.items():
        share = statistics.median(own) / statistics.median(speeds[first])
        middle, low, high = (f"{f(own):,.{digits}f}" for f in (statistics.median, min, max))
        yield (f"| {case} | {middle} ({low} to {high}) | "
               f"{'1' if case == first else f'{share:.2f}'} |")


def show_side_by_side(speeds):
    """A row for every three cases: the medians, and the ratios to the first."""
    cases = list(speeds)
    for i in range(0, len(cases), 3):
        first, *others = (statistics.median(speeds[case]) for case in cases[i:i + 3])
        cells = [f"{first:,.0f}", *(f"{other:,.0f} ({other / first:.2f})" for other in others)]
        yield "| {} | {} |".format(cases[i].split(",")[0], " | ".join(cells))


def rows(table):
    """The rows of a table, as the pages have them."""
    *_, cases = tables()[table]
    kept = run_statistics.load(path(table))
    speeds = {case: kept[case] for case in cases}
    if table == "processes":
        return list(show_side_by_side(speeds))
    return list(show(speeds, digits=1 if table == "learning" else 0))


def main():
    chosen, to_measure = run_statistics.arguments(__doc__, tables(), "TABLE")
    for table in chosen:
        if to_measure:
            measure(table)
        print(table, *rows(table), sep="\n")


if __name__ == "__main__":
    main()
