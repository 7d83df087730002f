"""Start a program as a user would, and read what it prints: how fast it plays, and how it learns.

The other measurements use this. Each run is a new process of runner.py.
"""
import collections
import json
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from paths import HERE

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
