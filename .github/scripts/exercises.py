"""Count the exercises: python .github/scripts/exercises.py [NUMBER]...

Makes each change that .github/pages/exercises.md shows, and lets the changed script learn with
seeds 0 to 19. The unchanged script, number 0, learns with seeds 0 to 99. All results go into
.github/data/exercises.json. Without a NUMBER, it only shows what was counted. With `values NUMBER`
it shows what V is like after learning, with seeds 0 to 4.
"""
import importlib.util
import json
import math
import re
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / ".github" / "data" / "exercises.json"
PAGE = ROOT / ".github" / "pages" / "exercises.md"
LIMIT = 400_000  # frames; a run that didn't learn counts as this many
# Exercises without a change to the script, and one with the change of another one besides.
OPTIONS = {"11 (1)": ["--workers", "1"], "11 (2)": ["--workers", "2"],
           "11 (32)": ["--workers", "32"]}
TOGETHER = {"13+14": ["13", "14"]}


def changes():
    """{number of an exercise: what it changes, as lines that begin with - and +}"""
    parts = re.split(r"^\*\*(\d+)\. ", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]
    return {number: re.findall(r"^```diff\n(.*?)^```", text, re.M | re.S)
            for number, text in zip(parts[::2], parts[1::2])}


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


def count(number):
    sys.path.insert(0, str(ROOT / "tests"))
    import benchmark
    options = ["--max-frames", str(LIMIT), *OPTIONS.get(number, [])]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "a3c_cartpole.py")
        program.write_text(changed_script(number), encoding="utf-8")
        for seed in range(100 if number == "0" else 20):
            run = benchmark.learn(seed, program, "", options)
            rows.append([run.get(key) for key in ("frames", "early", "failed", "policy")])
    return rows


def values(number, seed):
    """V in every state of ten episodes that a learned policy plays."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "a3c_cartpole.py")
        program.write_text(changed_script(number), encoding="utf-8")
        spec = importlib.util.spec_from_file_location("changed", program)
        a3c = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(a3c)
    found = []

    class Brain(a3c.LocalBrain):
        def _build_graph(self):
            super()._build_graph()
            s = a3c.tf.placeholder(a3c.tf.float32, (None, a3c.NUM_STATES))
            _, v = self.forward(s)
            self.predict_v = a3c.GraphCall(self.server.session, [s], [v])

    class Agent(a3c.Agent):
        def act(self, s, frame, greedy=False):
            if greedy and self.brain.server.progress.phase == "learned":
                found.extend(self.brain.predict_v(s[np.newaxis])[0])
            return super().act(s, frame, greedy)

    words = "--render", "none", "--test-episodes", "10", "--seed", str(seed)
    a3c.main(words, brain_class=Brain, agent_class=Agent)
    return found


def median(rows, column):
    return float(np.median([row[column] or LIMIT for row in rows]))


def band(rows, column):
    """Where the median of twenty of these runs lies in 99 % of random draws."""
    values = np.array([row[column] or LIMIT for row in rows])
    draws = np.random.default_rng(0).choice(values, (100_000, 20))
    return np.percentile(np.median(draws, axis=1), (0.5, 99.5))


def rank_test(rows, others):
    """The chance of ranks this different if nothing differs (Mann and Whitney's test)."""
    a, b = ([row[0] or LIMIT for row in some] for some in (rows, others))
    u = sum((x > y) + (x == y) / 2 for x in a for y in b)
    n, m = len(a), len(b)
    _, ties = np.unique(a + b, return_counts=True)
    spread = n * m / 12 * (n + m + 1 - (ties ** 3 - ties).sum() / ((n + m) * (n + m - 1)))
    return math.erfc(abs(u - n * m / 2) / math.sqrt(2 * spread))


def show(results):
    unchanged = results["0"]
    for column, name in (0, "until learned"), (1, "until fifty episodes average 100"):
        low, high = band(unchanged, column)
        print(f"Median frames {name}, of twenty unchanged runs: {low:,.0f} to {high:,.0f}")
    for number, rows in results.items():
        learned = [row for row in rows if row[0]]
        policies = sorted(row[3] for row in learned)
        good = sum(policy >= 195 for policy in policies)
        failed = [row[2] for row in rows]
        print(f"{number:8} {len(learned)} of {len(rows)} learned, median {median(rows, 0):,.0f}, "
              f"worst {max(row[0] or LIMIT for row in rows):,}; half way {median(rows, 1):,.0f}; "
              f"{sum(failed)} evaluations failed in {sum(map(bool, failed))} runs; "
              f"{good} policies ≥ 195, worst {min(policies, default=0):.1f}; "
              f"p = {rank_test(rows, unchanged):.2g}")


def load():
    return json.loads(DATA.read_text()) if DATA.exists() else {}


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
        DATA.write_text(json.dumps(results).replace("]], ", "]],\n") + "\n")
    show(results)


if __name__ == "__main__":
    main()
