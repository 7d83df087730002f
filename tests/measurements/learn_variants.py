"""Measure how the variants learn: python tests/measurements/learn_variants.py [CASE]...

Shows these rows of the variants' page, or all. With --measure it first measures what is missing in
data/variants.json, each case with seeds 0, 1, 2 and so on.
"""
import collections
import statistics

import run_statistics
from launch import learn
from paths import HERE, VARIANTS

DATA = HERE / "data" / "variants.json"
SEEDS = {"clipped.py": 100, "pendulum.py": 20, "memory.py": 20, "memory_pendulum.py": 10,
         "two_worlds.py": 20, "synchronous.py": 20, "ga3c.py": 20, "distributed.py": 20,
         "memory.py --no-memory --max-frames 600000": 10,
         "memory_pendulum.py --no-memory": 10}
# The frames that a run took to learn (None: it didn't), its evaluations that failed, and the mean
# score of its policy over 100 episodes
Run = collections.namedtuple("Run", "frames failed policy")


def load_runs():
    """{case: its runs}"""
    kept = run_statistics.load(DATA)
    return {case: [Run(*run) for run in kept.get(case, [])] for case in SEEDS}


def measure(case, seed):
    program, *options = case.split()
    result = learn(seed, VARIANTS / program, *options)
    return Run(result.frames, result.failed, round(result.policy, 2))


def row(case):
    """A row of the table of the variants' page."""
    runs = load_runs()[case]
    learned = [run for run in runs if run.frames]
    if not learned:
        return f"| `{case}` | 0 of {len(runs)} |"
    frames, _, policies = zip(*learned)
    return (f"| `{case}` | {len(learned)} of {len(runs)} | {statistics.median(frames):,.0f} | "
            f"{max(frames):,} | {run_statistics.failed_in_words([run.failed for run in runs])} | "
            f"{statistics.median(policies):.1f} | {min(policies):.1f} |").replace("| -", "| −")


def main():
    cases, to_measure = run_statistics.arguments(__doc__, SEEDS, "CASE")
    if to_measure:
        run_statistics.measure_missing(DATA, {case: SEEDS[case] for case in cases}, measure)
    print("| program | learned | frames: median | worst | failed evaluations | mean score over 100 "
          "fresh episodes: median policy | worst policy |", *map(row, cases), sep="\n")


if __name__ == "__main__":
    main()
