"""Count the exercises: python tests/exercises/measure.py [NUMBER]...

Makes the change that the lesson or README.md here shows, and lets the changed script
learn with seeds 0 to 19. The unchanged script, number 0, learns with seeds 0 to 99, and exercise 5
with seeds 100 to 199. All results go into exercises.json. Without a NUMBER, it only shows what was
counted. With `values NUMBER` it shows what V is like after learning, with seeds 0 to 4.
"""
import importlib.util
import json
import re
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "measurements"))
import benchmark

DATA = HERE / "exercises.json"
CURVES = HERE.parent / "figures" / "data" / "hundred.npz"
PAGES = ROOT / "README.md", HERE / "README.md"
LIMIT = 400_000  # frames; a run that didn't learn counts as infinitely long
SEEDS = {"0": range(100), "5": range(100, 200)}
TOGETHER = {"5+17": ["5", "17"]}
# What a row holds: frames until learned, frames until fifty episodes first averaged 100 (None:
# never), evaluations that failed, and the policy's mean score in 100 episodes
FRAMES, EARLY, FAILED, POLICY = range(4)
GRID = np.arange(0, 80_001, 1000)  # frames at which the picture of a hundred runs has points


def changes():
    """{number of an exercise: what it changes, as lines that begin with - and +}"""
    found = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for number, answer in re.findall(r"^\*\*(\d+)\. (.*?</details>)", text, re.M | re.S):
            found[number] = re.findall(r"^```diff\n(.*?)^```", answer, re.M | re.S)
    return found


def apply(diff, text):
    """Replace each group of lines with - by the lines with + after it."""
    for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", diff, re.M):
        old, new = (re.sub(r"^.", "", lines, flags=re.M) for lines in (old, new))
        assert text.count(old) == 1, f"the script doesn't have these lines once:\n{old}"
        text = text.replace(old, new)
    return text


def changed_script(number):
    text = (ROOT / "a3c_cartpole.py").read_text(encoding="utf-8")
    for exercise in TOGETHER.get(number, [number]):
        for diff in changes().get(exercise, []):
            text = apply(diff, text)
    return text


def load_script(folder):
    """The script of this folder as a module."""
    spec = importlib.util.spec_from_file_location("changed", Path(folder, "a3c_cartpole.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def count(number):
    """Returns the rows. For number 0 it also keeps the curves."""
    rows, curves = [], []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "a3c_cartpole.py")
        program.write_text(changed_script(number), encoding="utf-8")
        for seed in SEEDS.get(number, range(20)):
            run = benchmark.learn(seed, program, "", ["--max-frames", str(LIMIT)])
            rows.append([run.get(key) for key in ("frames", "early", "failed", "policy")])
            curves.append(curve(run["scores"], run.get("frames", LIMIT), run["policy"]))
    if number == "0":
        np.savez_compressed(CURVES, means=np.array(curves, np.float16))
    return rows


def curve(episodes, learned, policy):
    """The mean score of the latest fifty episodes at the frames of GRID. From the frame on at which
    the run has learned, it is the mean score of the learned policy."""
    ends, scores = np.array(episodes).T
    sums = np.cumsum([0.0, *scores])
    n = np.searchsorted(ends, GRID, side="right")  # episodes that have ended by then
    first = np.maximum(n - 50, 0)
    means = (sums[n] - sums[first]) / np.maximum(n - first, 1)
    means[n == 0] = np.nan
    return np.where(GRID >= learned, policy, means)


def values(number, seed):
    """V in every state of ten episodes that a learned policy plays."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "a3c_cartpole.py")
        program.write_text(changed_script(number), encoding="utf-8")
        a3c = load_script(folder)
    found = []

    class Brain(a3c.LocalBrain):
        def _build_graph(self):
            super()._build_graph()
            s = a3c.tf.placeholder(a3c.tf.float32, (None, a3c.NUM_STATES))
            _, v = self.forward(s)
            self.predict_v = a3c.GraphCall(self.server.session, [s], [v])

    class Agent(a3c.Agent):
        def act_greedily(self, s):
            if self.brain.server.progress.phase == "learned":  # not in an evaluation
                found.extend(self.brain.predict_v(s[np.newaxis])[0])
            return super().act_greedily(s)

    words = "--render", "none", "--test-episodes", "10", "--seed", str(seed)
    a3c.main(words, brain_class=Brain, agent_class=Agent)
    return found


def column(rows, i):
    """The frames of each run. One that never got there counts as infinitely long."""
    return np.array([np.inf if row[i] is None else row[i] for row in rows])


def ratio(x, y):
    """The ratio of two groups' medians, and the bounds of its 95% interval: where it lies if runs
    are drawn from both groups again and again, with replacement (the bootstrap)."""
    from scipy import stats

    def of_medians(x, y, axis=-1):
        return np.median(x, axis=axis) / np.median(y, axis=axis)
    with np.errstate(invalid="ignore"):  # of runs that are infinitely long
        found = stats.bootstrap((x, y), of_medians, method="percentile", vectorized=True,
                                rng=np.random.default_rng(0))
    return of_medians(x, y), *found.confidence_interval


def rank_tests(pairs):
    """{case: p} of Mann and Whitney's test for {case: two groups}, corrected by Holm's method: the
    chance that any p is below 0.05 although nothing differs anywhere is at most 5%."""
    from scipy import stats
    p = {case: stats.mannwhitneyu(*groups).pvalue for case, groups in pairs.items()}
    largest, corrected = 0.0, {}
    for i, case in enumerate(sorted(p, key=p.get)):
        largest = max(largest, min(1.0, p[case] * (len(p) - i)))
        corrected[case] = largest
    return corrected


def compare(results):
    """{(number, FRAMES or EARLY): ratio to the unchanged script, its bounds, p}"""
    pairs = {(number, i): (column(rows, i), column(results["0"], i))
             for number, rows in results.items() if number != "0" for i in (FRAMES, EARLY)}
    p = rank_tests(pairs)
    return {case: (*ratio(*groups), p[case]) for case, groups in pairs.items()}


def show(results):
    from scipy import stats
    compared = compare(results)
    good = {number: sum(row[FRAMES] is not None and row[POLICY] >= 195 for row in rows)
            for number, rows in results.items()}
    for number, rows in results.items():
        learned = [row for row in rows if row[FRAMES]]
        worst = max((row[FRAMES] for row in learned), default=0)
        print(f"Exercise {number}: {len(learned)} of {len(rows)} learned, worst {worst:,}")
        for i, what in (EARLY, "until fifty episodes average 100"), (FRAMES, "until learned"):
            line = f"  frames {what}: median {np.median(column(rows, i)):,.0f}"
            if number != "0":
                middle, low, high, p = compared[number, i]
                line += f", ratio {middle:.2f} ({low:.2f} to {high:.2f}), p = {p:.2g}"
            print(line)
        failed = [row[FAILED] for row in rows]
        print(f"  evaluations that failed: {sum(failed)}, in {sum(map(bool, failed))} runs")
        low, high = stats.binomtest(good[number], len(rows)).proportion_ci()
        tables = [[good[x], len(results[x]) - good[x]] for x in (number, "0")]
        print(f"  policies ≥ 195: {good[number]} of {len(rows)} ({low:.1%} to {high:.1%}), "
              f"worst {min((row[POLICY] for row in learned), default=0):.1f}; "
              f"p = {stats.fisher_exact(tables).pvalue:.2g} by Fisher's test")


def load():
    return json.loads(DATA.read_text()) if DATA.exists() else {}


def keep(results, path=DATA):
    text = json.dumps(results, separators=(",", ":"))
    path.write_text(text.replace("]],", "]],\n") + "\n")


def main():
    if sys.argv[1:2] == ["values"]:
        for seed in range(5):
            v = values(sys.argv[2], seed)
            print(f"Seed {seed}: V is {np.mean(v):.1f} on average, "
                  f"from {min(v):.1f} to {max(v):.1f}")
        return
    results = load()
    for number in sys.argv[1:]:
        results = {**results, number: count(number)}
        keep(results)
    show(results)


if __name__ == "__main__":
    main()
