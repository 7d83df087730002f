"""Measure speed and learning: python tests/measurements/benchmark.py (--help)

Speeds are taken in turn, in several rounds, and shown as median (lowest to highest): on a shared
machine only ratios mean anything. Learning is what N runs of the real script say, one seed after
the other.
"""
import argparse
import collections
import json
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import results

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCRIPT = ROOT / "a3c_cartpole.py"
VARIANTS = ROOT / "tests" / "variants"
THREADS = 1, 2, 4, 8, 16, 32
FRAMES, ROUNDS = 40_000, 15
Point = collections.namedtuple("Point", "frames seconds")  # how far a run is at a line it prints


def lines(program, *options):
    """Run a program. Yields each line that it prints, and the seconds since its launch."""
    command = sys.executable, HERE / "runner.py", program, "--render", "none", *options
    launch = time.perf_counter()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    try:
        for line in process.stdout:
            yield line, time.perf_counter() - launch
        process.wait()
    finally:
        process.send_signal(signal.SIGINT)  # if the caller wants no more lines
        process.wait()


def points(program, *options):
    """Run a program that never learns. Yields a point for each line."""
    for line, seconds in lines(program, "--set", "LEARNED_MEAN", 1e9, *options):
        frames = re.search(r"(\d+) frames", line)
        yield Point(int(frames[1]) if frames else 0, seconds)


def slope(begin, end):
    """Frames/s between two points."""
    return (end.frames - begin.frames) / (end.seconds - begin.seconds)


def program_speed(program, frames, *options):
    """Frames/s after the first fifty episodes, or if it plays fewer, from its threads' start."""
    first, *others = points(program, "--max-frames", frames, *options)
    return slope(others[0] if len(others) > 1 else first, others[-1])


def take_turns(what, measure, cases, rounds):
    """Measure the speeds of all cases, {case: arguments of `measure`}, in turn. Print them, and
    their ratios to that of the first."""
    speeds = {case: [] for case in cases}
    for _ in range(rounds):
        for case, arguments in cases.items():
            speeds[case].append(measure(*arguments))
    first = statistics.median(next(iter(speeds.values())))
    print(f"frames/s{what}: median (lowest to highest), ratio to the first")
    for case, own in speeds.items():
        median = statistics.median(own)
        print(f"{case}: {median:,.0f} ({min(own):,.0f} to {max(own):,.0f}), {median / first:.3f}")


def speed(folders):
    """Of the scripts in these folders, in turn; folders: their names and paths. All runs begin with
    the same weights, and draw all actions from the policy."""
    take_turns("", program_speed, {
        f"{n} learners, {name}": (Path(folder, SCRIPT.name), FRAMES, "--workers", n, "--seed", 0,
                                  "--set", "EPS_START", 0.0)
        for n in THREADS for name, folder in folders.items()}, ROUNDS)


def variants():
    """Variants beside the script; GA3C for hidden layers of several sizes, and for Pong."""
    frames = {"clipped": 40_000, "memory": 10_000, "pendulum": 20_000, "ga3c": 40_000,
              "synchronous": 40_000, "pong": 2000, "memory_pong": 2000}
    take_turns("", program_speed, {"a3c_cartpole": (SCRIPT, 40_000), **{
        name: (VARIANTS / f"{name}.py", n) for name, n in frames.items()},
        "ga3c, all cores": (VARIANTS / "ga3c.py", 40_000, "--set", "SHARE_ONE_CORE", False)}, 5)
    for units in 16, 64, 256, 1024:
        options = 40_000, "--set", "HIDDEN_UNITS", units
        take_turns(f", {units} hidden units", program_speed, {
            "a3c_cartpole": (SCRIPT, *options), "ga3c": (VARIANTS / "ga3c.py", *options)}, 5)
    for n in THREADS:
        options = 3000, "--workers", n
        take_turns(f", {n} learners", program_speed, {
            "pong": (VARIANTS / "pong.py", *options),
            "ga3c with pong": (HERE / "ga3c_pong.py", *options)}, 3)


def early(scores):
    """The frames when the latest fifty scores first average 100; None: they never did."""
    for i in range(50, len(scores) + 1):
        if statistics.mean(score for _, score in scores[i - 50:i]) >= 100:
            return scores[i - 1][0]


def learn(seed, program, *options):
    """What one run of a program says, with the seconds to the learned policy and all scores."""
    result, text = {"seed": seed, "learned": False}, ""
    for line, seconds in lines(program, "--notes", "--seed", seed, "--test-episodes", 100,
                               *options):
        text += line
        if match := re.match(r"Learned after (\d+) frames, (\d+) episodes", line):
            result |= {"learned": True, "frames": int(match[1]), "episodes": int(match[2]),
                       "from launch": seconds}
    if "earned after" not in text:
        sys.exit(f"seed {seed}: {Path(program).name} neither learned nor gave up")
    notes = json.loads(re.search(r"^\{.*", text, re.M)[0])
    result["learning"], result["gradients"] = notes["seconds"], notes["gradients"]
    scores = re.findall(r"^Test episode \d+: score (-?[\d.]+)", text, re.M)
    result["policy"] = statistics.mean(map(float, scores)) if scores else 0
    result["failed"] = text.count("Evaluation: ") - result["learned"]
    result["early"] = early(notes["scores"])
    print(result, file=sys.stderr, flush=True)
    return {**result, "scores": notes["scores"]}


def learning(seeds, program, options):
    runs = [learn(seed, program, *options) for seed in range(seeds)]
    learned = [run for run in runs if run["learned"]]
    failed = [run["failed"] for run in runs]
    print(f"seeds that learned: {len(learned)} of {seeds}")
    print(f"evaluations failed: {results.failed_in_words(failed)}")
    for name, key, form in (
            ("mean score of the policy in 100 episodes", "policy", ".1f"),
            ("frames until fifty episodes average 100", "early", ",.0f"),
            ("frames", "frames", ",.0f"), ("episodes", "episodes", ",.0f"),
            ("seconds from the start to the learned policy", "from launch", ".1f"),
            ("of these: learning", "learning", ".1f")):
        values = [run[key] for run in learned]
        if values and None not in values:
            worst = min(values) if key == "policy" else max(values)
            print(f"{name}: median {statistics.median(values):{form}}, worst {worst:{form}}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], allow_abbrev=False,
        epilog="Other OPTIONs are for learning. They go to the program (--workers 1, --max-frames "
               "400000) or to runner.py (--set LEARNING_RATE 0.01).")
    add = parser.add_argument
    add("--learning", action="store_true", help="only learning, not the script's speed")
    add("--seeds", type=int, default=3, metavar="N", help="runs (%(default)s)")
    add("--program", default=SCRIPT, metavar="FILE", help="learning of a variant")
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
        learning(args.seeds, args.program, options)
        if not args.learning:
            speed({"here": ROOT})


if __name__ == "__main__":
    main()
