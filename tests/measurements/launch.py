"""Start a program as a user would, and read what it prints: how fast it plays, and how it learns.

Each run is a new process of run_program.py.
"""
import collections
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

from paths import HERE

Point = collections.namedtuple("Point", "frames seconds")  # how far a run is at a line it prints
# What a run took to learn (None: it didn't): frames, episodes, seconds from its launch and, of
# these, of learning. Then its policy's mean score in the test episodes, the evaluations that
# failed, the frames when fifty episodes first averaged 100, and each episode's frames and score.
Result = collections.namedtuple("Result", "frames episodes seconds learning policy failed early "
                                          "scores")


def lines(program, *options):
    """Run a program. Yields each line that it prints, and the seconds since its launch."""
    command = sys.executable, HERE / "run_program.py", program, "--render", "none", *options
    launch = time.perf_counter()
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout:
                yield line, time.perf_counter() - launch
            process.wait()
        finally:
            process.terminate()  # if the caller wants no more lines


def points(program, *options):
    """Run a program that never learns. Yields a point for each line."""
    for line, seconds in lines(program, "--set", "LEARNED_MEAN", 1e9, *options):
        frames = re.search(r"(\d+) frames", line)
        yield Point(int(frames[1]) if frames else 0, seconds)


def slope(begin, end):
    """Frames/s between two points."""
    return (end.frames - begin.frames) / (end.seconds - begin.seconds)


def early(scores):
    """The frames when the latest fifty scores first average 100; None: they never did."""
    for i in range(50, len(scores) + 1):
        if statistics.mean(score for _, score in scores[i - 50:i]) >= 100:
            return scores[i - 1][0]


def learn(seed, program, *options):
    """Let a program learn. Returns its result, and tells the user on stderr what came out."""
    text, seconds = "", None
    for line, now in lines(program, "--notes", "--seed", seed, "--test-episodes", 100, *options):
        text += line
        if line.startswith("Learned after "):
            seconds = now
    if "earned after" not in text:
        sys.exit(f"seed {seed}: {Path(program).name} neither learned nor gave up")
    notes = json.loads(re.search(r"^\{.*", text, re.M)[0])
    frames = episodes = learning = None
    if learned := re.search(r"^Learned after (\d+) frames, (\d+) episodes", text, re.M):
        frames, episodes = map(int, learned.groups())
        learning = notes["seconds"]
    scores = re.findall(r"^Test episode \d+: score (-?[\d.]+)", text, re.M)
    policy = statistics.mean(map(float, scores)) if scores else 0
    failed = text.count("Evaluation: ") - bool(learned)
    result = Result(frames, episodes, seconds, learning, policy, failed, early(notes["scores"]),
                    notes["scores"])
    said = f"learned after {frames:,} frames, {seconds:.1f} s" if frames else "didn't learn"
    print(f"seed {seed}: {said}; policy {policy:.1f}", file=sys.stderr, flush=True)
    return result
