"""Measure what threads are good for: python tests/measurements/threads.py [TABLE]...

TABLE is cartpole, from_0 (the same, but RMSProp's averages start at 0), acrobot or worlds. Each
case learns with seeds 0 to 49, and the cases take turns. All results go into data/TABLE.json. What
is in there already isn't measured again. Without a TABLE, it only shows all of them.
"""
import argparse
import json
import re

import benchmark
import numpy as np
import results
from benchmark import HERE

SEEDS = 50
LIMIT, LIMIT_OF_WORLDS = 400_000, 300_000  # frames; a run that needs more hasn't learned
FRAMES, SECONDS, FAILED, GRADIENTS, EPISODES = range(5)  # what a row holds
REFERENCE = "8 threads"
RATES = {"½": 0.5, "2": 2, "4": 4}

# {case: options of learners.py}
CASES = {"1 thread": ("--workers", 1), "2 threads": ("--workers", 2),
         REFERENCE: ("--workers", 8), "32 threads": ("--workers", 32),
         "8 threads, all cores": ("--workers", 8, "--set", "SHARE_ONE_CORE", False),
         "8 that wait": ("--workers", 8, "--wait"),
         "8 that wait, off-policy": ("--workers", 8, "--wait", "--off-policy")}
CASES |= {f"{case}, rate × {x}": (*CASES[case], "--rate", rate)
          for case in ("1 thread", REFERENCE, "8 that wait") for x, rate in RATES.items()}


def cases_of_worlds():
    given = {case: CASES[case] for case in ("1 thread", REFERENCE, "2 threads", "32 threads")}
    given["8 in the same world"] = "--workers", 8, "--same-world"
    cases = {f"{case}, {block} episodes": (*given[case], "--block", block)
             for block in (200, 25, 1) for case in given
             if block == 200 or case not in ("2 threads", "32 threads")}
    for case in "1 thread", REFERENCE, "8 that wait":
        cases[f"{case}, 200 episodes, from 0"] = (*CASES[case], "--from-0")
    return cases


# {table: options of all its cases, its cases}
TABLES = {"cartpole": (("--task", "cartpole"), CASES),
          "from_0": (("--task", "cartpole", "--from-0"),
                     CASES | {"8 of ga3c.py": ("--workers", 8, "--ga3c")}),
          "acrobot": (("--task", "acrobot"),
                      {case: CASES[case] for case in CASES if "1 thread, rate" not in case}),
          "worlds": (("--task", "worlds"), cases_of_worlds())}


LESSON = ("1 thread", "2 threads", REFERENCE, "32 threads", "8 threads, all cores",
          "8 threads, rate × 2", "8 that wait", "8 that wait, rate × 2", "8 that wait, rate × 4")


def path(name):
    return HERE / "data" / f"{name}.json"


def load(name):
    return json.loads(path(name).read_text()) if path(name).exists() else {}


def learn(seed, name, case):
    """One run, as a row."""
    options, cases = TABLES[name]
    limit = LIMIT_OF_WORLDS if name == "worlds" else LIMIT
    run = benchmark.learn(seed, HERE / "learners.py", *options, *cases[case],
                          "--max-frames", limit, "--test-episodes", 1)
    seconds = round(run["learning"], 3) if run["learned"] else None
    return [run.get("frames"), seconds, run["failed"], run["gradients"], run.get("episodes")]


def measure(name):
    rows = {case: [] for case in TABLES[name][1]} | load(name)
    for seed in range(SEEDS):
        for case in TABLES[name][1]:
            if len(rows[case]) == seed:
                rows[case].append(learn(seed, name, case))
        results.keep(rows, path(name))


def reference(case):
    """The case with which this one is compared: eight threads in the same kind of world."""
    _, *others = case.split(", ")
    kept = [words for words in others if "episodes" in words or words == "from 0"]
    return ", ".join([REFERENCE, *kept])


def compared(name):
    """{case: its median of frames, and its ratio to the reference in words}"""
    rows = load(name)
    frames = {case: results.column(rows[case], FRAMES) for case in TABLES[name][1]}
    found = results.compare({case: (own, frames[reference(case)])
                             for case, own in frames.items() if case != reference(case)},
                            paired=True)
    return {case: (np.median(own), results.ratio_in_words(*found[case]) if case in found else "1")
            for case, own in frames.items()}


def table(name):
    """The rows of a table of the page of measurements."""
    rows = load(name)
    seconds = {case: np.median(results.column(rows[case], SECONDS)) for case in TABLES[name][1]}
    for case, (median, ratio) in compared(name).items():
        learned = sum(row[FRAMES] is not None for row in rows[case])
        failed = sum(row[FAILED] for row in rows[case])
        frames = f"{median:,.0f}" if np.isfinite(median) else "–"
        time = seconds[case] / seconds[reference(case)]
        time = f"{time:.2f}" if np.isfinite(median) else "–"
        yield f"| {case} | {learned} of {len(rows[case])} | {frames} | {ratio} | {time} | {failed} |"


def lesson():
    """The rows of the lesson's table."""
    tables = [compared(name) for name in ("cartpole", "from_0", "acrobot")]
    for case in LESSON:
        cells = [f"{median:,.0f}" if ratio == "1" else
                 f"{median:,.0f} · " + re.sub(r", p[^*]*", "", ratio)
                 for median, ratio in (table[case] for table in tables)]
        yield f"| {case} | {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(TABLES))
    args = parser.parse_args()
    if unknown := set(args.tables) - set(TABLES):
        parser.error(f"there is no table {', '.join(sorted(unknown))}")
    for name in args.tables:
        measure(name)
    print("the lesson's", *lesson(), sep="\n")
    for name in TABLES:
        print(name, *table(name), sep="\n")


if __name__ == "__main__":
    main()
