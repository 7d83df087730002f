"""Measure what threads are good for: python tests/measurements/threads.py [TASK]...

TASK is cartpole or acrobot. Learners that don't wait for each other, the script's, are compared
with those of synchronous.py, over seeds 0 to 49. The cases take turns. All results go into
threads.json. Without a TASK, it only shows them.
"""
import argparse
import json

import benchmark
import results
from benchmark import HERE, SCRIPT, VARIANTS

DATA = HERE / "threads.json"
SEEDS = 50
FRAMES, SECONDS, FAILED = range(3)  # what a row holds
RATES = {"cartpole": 5e-3, "acrobot": 1e-3}
# {case: learners, whether they wait for each other, what the learning rate is multiplied by}
CASES = {"1 thread": (1, False, 1), "2 threads": (2, False, 1), "8 threads": (8, False, 1),
         "32 threads": (32, False, 1), "8 that wait": (8, True, 1),
         "8 that wait, rate × 2": (8, True, 2), "8 that wait, rate × 4": (8, True, 4)}
REFERENCE = "8 threads"


def program(task, wait, factor):
    """The program of a case, and its options."""
    rate = RATES[task] * factor
    if task == "acrobot":
        return HERE / "acrobot.py", "--rate", rate, *(["--wait"] if wait else [])
    file = VARIANTS / "synchronous.py" if wait else SCRIPT
    return file, "--set", "LEARNING_RATE", rate


def count(task):
    counted = {case: [] for case in CASES}
    for seed in range(SEEDS):
        for case, (learners, wait, factor) in CASES.items():
            run = benchmark.learn(seed, *program(task, wait, factor), "--workers", learners,
                                  "--max-frames", 400_000, "--test-episodes", 1)
            seconds = round(run["learning"], 3) if run["learned"] else None
            counted[case].append([run.get("frames"), seconds, run["failed"]])
    return counted


def show(tasks):
    compared = results.compare({
        (task, case, i): (results.column(rows, i), results.column(cases[REFERENCE], i))
        for task, cases in tasks.items() for case, rows in cases.items()
        for i in (FRAMES, SECONDS) if case != REFERENCE})
    for task, cases in tasks.items():
        for case, rows in cases.items():
            learned = sum(row[FRAMES] is not None for row in rows)
            print(f"{task}, {case}: {learned} of {len(rows)} learned, "
                  f"{sum(row[FAILED] for row in rows)} evaluations failed")
            for i, name, form in (FRAMES, "frames", ",.0f"), (SECONDS, "seconds", ".2f"):
                numbers = results.column(rows, i)
                print(f"  {name}: {results.in_words(numbers, compared.get((task, case, i)), form)}")


def load():
    return json.loads(DATA.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=" or ".join(RATES))
    for task in parser.parse_args().tasks:
        counted = count(task)
        results.keep({**load(), task: counted}, DATA)
    show(load())


if __name__ == "__main__":
    main()
