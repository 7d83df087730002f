"""Measure speed and learning: python tests/measurements/benchmark.py (--help)

Speeds are taken in turn, in several rounds, and shown as median (lowest to highest): on a shared
machine only ratios mean anything. Learning is what N runs of the real script say, one seed after
the other.
"""
import argparse
import functools
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEARNERS = 1, 2, 4, 8, 16, 32
FRAMES, ROUNDS = 40_000, 15


# Running a program

PROGRAM = """
import sys, time
sys.path[:0] = {paths!r}
import {name}
import a3c_cartpole as a3c
{patch}
sys.exit({call})
"""
NEVER_LEARNED = "a3c.LEARNED_MEAN = float('inf')\n"
EPISODES = """
import atexit, json
episodes = []  # of all learners: the frames at its end, and its score


class Progress(a3c.Progress):
    def episode_ended(self, score):
        episodes.append((self.frames, float(score)))
        return super().episode_ended(score)

    def evaluated(self, passed):
        if passed:
            a3c.say(f"Seconds: {self.seconds()}")
        super().evaluated(passed)


a3c.Progress = Progress
atexit.register(lambda: print("Episodes:", json.dumps(episodes)))
"""


def lines(name, *options, patch="", call="", root=ROOT, folder=""):
    """Run the script or a variant of a checkout, or a program in this folder, after a change.
    Yields each line that it prints, and the seconds since its launch."""
    paths = str(folder), str(root), str(Path(root, "tests", "variants"))
    with tempfile.TemporaryDirectory() as new:
        program = Path(new, "program.py")
        text = PROGRAM.format(name=name, paths=paths, patch=patch, call=call or f"{name}.main()")
        program.write_text(text, encoding="utf-8")
        command = [sys.executable, program, "--render", "none", *options]
        launch = time.perf_counter()
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        try:
            for line in process.stdout:
                yield line, time.perf_counter() - launch
            process.wait()
        finally:
            process.send_signal(signal.SIGINT)  # if the caller wants no more lines
            process.wait()


def points(name, *options, patch="", **kwargs):
    """Run a program that never learns its task. Yields for each line that it prints: the frames up
    to then, the seconds since its launch, the mean score of fifty episodes (or None)."""
    for line, seconds in lines(name, *options, patch=NEVER_LEARNED + patch, **kwargs):
        frames, mean = re.search(r"(\d+) frames", line), re.search(r"mean (\S+)", line)
        yield int(frames[1]) if frames else 0, seconds, float(mean[1]) if mean else None


def slope(begin, end):
    """Frames/s between two points."""
    return (end[0] - begin[0]) / (end[1] - begin[1])


def program_speed(name, frames, *options, **changes):
    """Frames/s of a program between its first fifty episodes and its last line. If it is over
    sooner, from the moment when its threads begin."""
    first, *others = points(name, "--max-frames", frames, *options, **changes)
    return slope(others[0] if len(others) > 1 else first, others[-1])


# Speed

def compare(what, cases, rounds=5):
    """Measure the speeds of all cases, {case: function}, in turn. Print them, and their ratios to
    that of the first."""
    results = {case: [] for case in cases}
    for _ in range(rounds):
        for case, measure in cases.items():
            results[case].append(measure())
    first = statistics.median(next(iter(results.values())))
    print(f"frames/s{what}: median (lowest to highest), ratio to the first")
    for case, own in results.items():
        median = statistics.median(own)
        print(f"{case}: {median:,.0f} ({min(own):,.0f} to {max(own):,.0f}), {median / first:.3f}")


def speed(folders):
    """Of the scripts in these folders, in turn; folders: their names and paths. All runs begin with
    the same weights, and draw all actions from the policy."""
    compare("", {f"{n} learners, {name}": functools.partial(
        program_speed, "a3c_cartpole", FRAMES, "--workers", n, "--seed", 0,
        patch="a3c.EPS_START = 0.0", root=folder)
        for n in LEARNERS for name, folder in folders.items()}, ROUNDS)


def variants():
    """Variants beside the script; GA3C for hidden layers of several sizes, and for Pong."""
    frames = {"a3c_cartpole": 40_000, "clipped": 40_000, "memory": 10_000, "pendulum": 20_000,
              "ga3c": 40_000, "pong": 2000, "memory_pong": 2000}
    compare("", {name: functools.partial(program_speed, name, n) for name, n in frames.items()})
    for units in 16, 64, 256, 1024:
        compare(f", {units} hidden units", {name: functools.partial(
            program_speed, name, 40_000, patch=f"a3c.HIDDEN_UNITS = {units}")
            for name in ("a3c_cartpole", "ga3c")})
    ga3c = {"patch": "import ga3c\npong.configure()",
            "call": "ga3c.main(None, pong.Server, agent_class=pong.returns.SegmentReturns, "
                    "environment_class=pong.Environment)"}
    for n in LEARNERS:
        run = functools.partial(program_speed, "pong", 3000, "--workers", n)
        compare(f", {n} learners", {"pong": run, "ga3c with pong": functools.partial(run, **ga3c)},
                rounds=3)


# Learning

def early(episodes):
    """The frames when the latest fifty episodes first average 100; None: they never did."""
    for i in range(50, len(episodes) + 1):
        if statistics.mean(score for _, score in episodes[i - 50:i]) >= 100:
            return episodes[i - 1][0]


def learn(seed, program, patch, options):
    """What one run of a program says, with the seconds to the learned policy and all episodes."""
    result, text = {"seed": seed, "learned": False}, ""
    for line, seconds in lines(program.stem, "--seed", seed, "--test-episodes", 100, *options,
                               patch=patch + EPISODES, folder=program.resolve().parent):
        text += line
        if match := re.match(r"Learned after (\d+) frames, (\d+) episodes", line):
            result |= {"learned": True, "frames": int(match[1]), "episodes": int(match[2]),
                       "whole": seconds}
    if result["learned"]:
        result["learning"] = float(re.search(r"^Seconds: (\S+)", text, re.M)[1])
    scores = re.findall(r"^Test episode \d+: score (-?[\d.]+)", text, re.M)
    result["policy"] = statistics.mean(map(float, scores)) if scores else 0
    result["failed"] = text.count("Evaluation: ") - result["learned"]
    episodes = json.loads(re.search(r"^Episodes: (.*)", text, re.M)[1])
    result["early"] = early(episodes)
    print(result, file=sys.stderr, flush=True)
    return {**result, "scores": episodes}


def learning(seeds, program, patch, options):
    results = [learn(seed, program, patch, options) for seed in range(seeds)]
    learned = [result for result in results if result["learned"]]
    failed = [result["failed"] for result in results]
    print(f"seeds that learned: {len(learned)} of {seeds}")
    print(f"evaluations failed: {sum(failed)}, in {sum(map(bool, failed))} runs")
    for name, key, form in (
            ("mean score of the policy in 100 episodes", "policy", ".1f"),
            ("frames until fifty episodes average 100", "early", ",.0f"),
            ("frames", "frames", ",.0f"), ("episodes", "episodes", ",.0f"),
            ("seconds from the start to the learned policy", "whole", ".1f"),
            ("of these: learning", "learning", ".1f")):
        values = [result[key] for result in learned]
        if values and None not in values:
            worst = min(values) if key == "policy" else max(values)
            print(f"{name}: median {statistics.median(values):{form}}, worst {worst:{form}}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], allow_abbrev=False,
        epilog="An OPTION that is not listed goes to the script: --workers 1, --max-frames 400000.")
    add = parser.add_argument
    add("--learning", action="store_true", help="only learning, not the script's speed")
    add("--seeds", type=int, default=3, metavar="N", help="runs (%(default)s)")
    add("--program", default=ROOT / "a3c_cartpole.py", metavar="FILE", type=Path,
        help="learning of a variant")
    add("--patch", default="", metavar="CODE",
        help='learning after this change, for example "a3c.LEARNING_RATE *= 2"')
    add("--against", metavar="DIR",
        help="only compare speeds with the script of another checkout, however old")
    add("--variants", action="store_true", help="only compare the variants' speeds")
    args, options = parser.parse_known_args()
    # In the background of a shell, Ctrl-C is ignored, and what starts there would ignore it, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if args.variants:
        variants()
    elif args.against:
        speed({"there": args.against, "here": ROOT})
    else:
        learning(args.seeds, args.program, args.patch, options)
        if not args.learning:
            speed({"here": ROOT})


if __name__ == "__main__":
    main()
