"""Measure what threads are good for: python tests/measurements/threads.py [TASK]...

TASK is cartpole or acrobot (the program on the variants' page). Learners that don't wait for each
other, the script's, are compared with those of synchronous.py, over seeds 0 to 49. The cases take
turns. All results go into threads.json. Without a TASK, it only shows them.
"""
import json
import re
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'exercises'))
import measure as exercises

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "measurements" / "threads.json"
PAGE = ROOT / "tests" / "variants" / "README.md"
SEEDS = 50
LIMIT = 400_000
FRAMES, SECONDS = 0, 1  # what the first two numbers of a row are
# {case: learners, whether they wait for each other, what the learning rate is multiplied by}
CASES = {"1 thread": (1, False, 1), "2 threads": (2, False, 1), "8 threads": (8, False, 1),
         "32 threads": (32, False, 1), "8 that wait": (8, True, 1),
         "8 that wait, rate × 2": (8, True, 2), "8 that wait, rate × 4": (8, True, 4)}
REFERENCE = "8 threads"


def program(task, wait, factor):
    """A module with a main, for `benchmark.learn`."""
    text = "import a3c_cartpole as a3c\n\n\ndef main():\n    return a3c.main()\n"
    if task == "acrobot":
        page = PAGE.read_text(encoding="utf-8")
        [text] = re.findall(r"^```python\n(import sys\nimport a3c.*?)^```", page, re.M | re.S)
        start = 'if __name__ == "__main__":\n    sys.exit('
        assert text.count(start) == 1
        text = text.replace(start, "def main():\n    return (")
        text = text.replace("AdamOptimizer(1e-3)", f"AdamOptimizer(1e-3 * {factor})")
    if wait:
        text = "import synchronous\n" + text.replace("a3c.main(", "synchronous.main(")
    return text + f"\n\na3c.LEARNING_RATE *= {factor}\n"


def count(task):
    results = {case: [] for case in CASES}
    for seed in range(SEEDS):
        for case, (learners, wait, factor) in CASES.items():
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "measured.py")
                path.write_text(program(task, wait, factor), encoding="utf-8")
                options = "--workers", learners, "--max-frames", LIMIT, "--test-episodes", 1
                run = exercises.benchmark.learn(seed, path, "", options)
            seconds = round(run["learning"], 3) if run["learned"] else None
            results[case].append([run.get("frames"), seconds, run["failed"]])
    return results


def show(results):
    pairs = {(task, case, i): (exercises.column(rows, i), exercises.column(cases[REFERENCE], i))
             for task, cases in results.items() for case, rows in cases.items()
             for i in (FRAMES, SECONDS) if case != REFERENCE}
    p = exercises.rank_tests(pairs)
    for task, cases in results.items():
        for case, rows in cases.items():
            learned = sum(row[FRAMES] is not None for row in rows)
            print(f"{task}, {case}: {learned} of {len(rows)} learned, "
                  f"{sum(row[2] for row in rows)} evaluations failed")
            for i, name, form in (FRAMES, "frames", ",.0f"), (SECONDS, "seconds", ".2f"):
                line = f"  {name}: median {np.median(exercises.column(rows, i)):{form}}"
                if case != REFERENCE:
                    middle, low, high = exercises.ratio(*pairs[task, case, i])
                    line += (f", ratio {middle:.2f} ({low:.2f} to {high:.2f}), "
                             f"p = {p[task, case, i]:.2g}")
                print(line)


def load():
    return json.loads(DATA.read_text()) if DATA.exists() else {}


def main():
    for task in sys.argv[1:]:
        counted = {task: count(task)}
        exercises.keep({**load(), **counted}, DATA)
    show(load())


if __name__ == "__main__":
    main()
