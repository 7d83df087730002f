"""Measure the exercises: python tests/exercises/measure_exercises.py [NUMBER]...

Shows what these exercises have given, or all; number 0 is the unchanged script. With --measure it
first measures these numbers anew: it makes the change that the lesson or README.md here shows, and
lets the changed script learn with seeds 0 to 19, or with those of SEEDS. The results go into data.
"""
import argparse
import collections
import re
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "measurements"))
from paths import ROOT, SCRIPT
import check
import launch
import reference
import run_statistics
from run_statistics import column

DATA = HERE / "data" / "exercises.json"
CURVES = HERE / "data" / "hundred.npz"  # of number 0
PAGES = ROOT / "README.md", HERE / "README.md"
LIMIT = 400_000  # frames; a run that didn't learn counts as infinitely long
SEEDS = dict.fromkeys(("0", "5", "6+15", "9", "10", "11", "15", "17", "19"), range(100))
SEEDS["5b"] = range(50)
# Names for none or several exercises. With RMSProp from 0 (15), they are compared with 15.
COMBINATIONS = {"0": []} | {name: name.split("+") for name in (
    "5+17", "4+15", "6+15", "7+15", "8+15", "21+15")}
# Some answers name another change, mostly on top of their own.
COMBINATIONS["5b"] = [
    "-THRESHOLD_MEAN = None  # the mean to exceed in training, if not LEARNED_MEAN\n"
    "+THRESHOLD_MEAN = 0\n"]
COMBINATIONS["7b+15"] = ["7", "15", "-RMSPROP_DECAY = 0.99\n+RMSPROP_DECAY = 0.995\n"]
COMBINATIONS["12b"] = ["12", "-LEARNING_RATE = 5e-3\n+LEARNING_RATE = 0.1\n"]
COMBINATIONS["21b"] = ["21", "-            reward = r\n+            reward = 0.01 * r\n"]
COMBINATIONS["21c"] = ["21", "-        critic_loss = LOSS_V * tf.square(advantage)\n"
                       "+        critic_loss = 0.005 * tf.square(advantage)\n"]
# Frames until learned, frames until fifty episodes first averaged 100 (None: never), evaluations
# that failed, and the policy's mean score in 100 episodes
Run = collections.namedtuple("Run", "frames early failed policy")
GRID = np.arange(0, 80_001, 1000)  # frames at which the picture of a hundred runs has points


def changes():
    """{number of an exercise: what it changes, as lines that begin with - and +}"""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    answers = re.findall(r"^\*\*(\d+)\. (.*?</details>)", text, re.M | re.S)
    return {number: re.findall(r"^```diff\n(.*?)^```", answer, re.M | re.S)
            for number, answer in answers}


def apply(diff, text):
    """Replace each group of lines with - by the lines with + after it."""
    for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", diff, re.M):
        old, new = (re.sub(r"^.", "", lines, flags=re.M) for lines in (old, new))
        assert text.count(old) == 1, f"the script doesn't have these lines once:\n{old}"
        text = text.replace(old, new)
    return text


def changed_script(number):
    text, of_exercises = SCRIPT.read_text(encoding="utf-8"), changes()
    for part in COMBINATIONS.get(number, [number]):
        for diff in of_exercises.get(part, [part]):  # a part is a number, or itself a diff
            text = apply(diff, text)
    return text


def run_seeds(number, program):
    """Returns the runs of the changed script. For number 0 it also keeps the curves."""
    runs, curves = [], []
    for seed in SEEDS.get(number, range(20)):
        result = launch.learn(seed, program, "--max-frames", LIMIT)
        runs.append(Run(result.frames, result.early, result.failed, result.policy))
        curves.append(curve(result.scores, result.frames or LIMIT))
    if number == "0":
        np.savez_compressed(CURVES, means=np.array(curves, np.float16))
    return runs


def curve(episodes, learned):
    """The mean score of the latest fifty episodes at the frames of GRID, and NaN before the first
    has ended and once the run has learned."""
    ends, scores = np.array(episodes).T
    sums = np.cumsum([0.0, *scores])
    n = np.searchsorted(ends, GRID, side="right")  # episodes that have ended by then
    first = np.maximum(n - 50, 0)
    means = (sums[n] - sums[first]) / np.maximum(n - first, 1)
    return np.where((n == 0) | (GRID >= learned), np.nan, means)


def show_values(program):
    """Show V in the states of ten episodes that a learned policy of the changed script plays."""
    a3c = check.load(program)
    values = []

    class Agent(a3c.Agent):
        def act_greedily(self, s):
            if self.brain.server.progress.phase == "learned":  # not in an evaluation
                weights = self.brain.server.session.run(self.brain.weights)
                values.extend(reference.forward(weights, s[np.newaxis])[1])
            return super().act_greedily(s)

    for seed in range(5):
        values.clear()
        words = f"--render none --test-episodes 10 --seed {seed}"
        a3c.main(words.split(), agent_class=Agent)
        print(f"Seed {seed}: V is {np.mean(values):.1f} on average, "
              f"from {min(values):.1f} to {max(values):.1f}")


def compare_runs(exercises):
    """{(number, "frames" or "early"): ratio to the unchanged script, or to 15; its bounds; p}"""
    with_15 = {number for number in exercises if number.endswith("+15")}
    return (compare_with("0", exercises.keys() - with_15, exercises)
            | compare_with("15", with_15, exercises))


def compare_with(control, numbers, exercises):
    """With the control's runs that have the same seeds."""
    pairs = {}
    for number in numbers - {control}:
        runs = exercises[number]
        for name in "frames", "early":
            of_control = column(exercises[control][:len(runs)], name)
            pairs[number, name] = column(runs, name), of_control
    return run_statistics.compare_all(pairs)


def show(numbers):
    from scipy import stats  # --values does without SciPy
    exercises = load_runs()
    compared = compare_runs(exercises)
    good = {number: sum(column(runs, "policy") >= 195) for number, runs in exercises.items()}
    for number in numbers or exercises:
        runs = exercises[number]
        learned = [run for run in runs if run.frames]
        worst = max((run.frames for run in learned), default=0)
        print(f"Exercise {number}: {len(learned)} of {len(runs)} learned, worst {worst:,}")
        for name, what in (("early", "until fifty episodes average 100"),
                           ("frames", "until learned")):
            words = f"median {np.median(column(runs, name)):,.0f}"
            if (number, name) in compared:
                words += ", ratio " + run_statistics.ratio_in_words(*compared[number, name])
            print(f"  frames {what}: {words}")
        failed = [run.failed for run in runs]
        print(f"  evaluations that failed: {run_statistics.failed_in_words(failed)}")
        low, high = stats.binomtest(good[number], len(runs)).proportion_ci()
        tables = [[good[x], len(exercises[x]) - good[x]] for x in (number, "0")]
        print(f"  policies ≥ 195: {good[number]} of {len(runs)} ({low:.1%} to {high:.1%}), "
              f"worst {min((run.policy for run in learned), default=0):.1f}; "
              f"p = {stats.fisher_exact(tables).pvalue:.2g} by Fisher's test")


def load_runs():
    """{number: the runs of that exercise}"""
    return {number: [Run(*run) for run in runs]
            for number, runs in run_statistics.load(DATA).items()}


def load_curves():
    """Of the hundred runs of number 0: (100, points of GRID)"""
    return np.load(CURVES)["means"].astype(float)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", metavar="NUMBER")
    parser.add_argument("--measure", action="store_true", help="measure these anew, and show")
    parser.add_argument("--values", metavar="NUMBER", help="only show V after learning, in 5 runs")
    args = parser.parse_args()
    measurable = {number for number, diffs in changes().items() if diffs} | set(COMBINATIONS)
    if unknown := {*args.numbers, args.values or "0"} - measurable:
        parser.error(f"no page shows a change for exercise {', '.join(sorted(unknown))}")
    if args.measure and not args.numbers:
        parser.error("--measure needs the NUMBER of an exercise")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, SCRIPT.name)
        if args.values:
            program.write_text(changed_script(args.values), encoding="utf-8")
            return show_values(program)
        for number in args.numbers if args.measure else []:
            program.write_text(changed_script(number), encoding="utf-8")
            runs = run_seeds(number, program)
            run_statistics.keep({**load_runs(), number: runs}, DATA)
    show(args.numbers)


if __name__ == "__main__":
    main()
