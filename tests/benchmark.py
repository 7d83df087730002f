"""Measure speed and learning: python tests/benchmark.py [--learning] [--seeds N] [OPTION]...

Speeds are taken in turn, in several rounds, and shown as median (lowest to highest): on a shared
machine only ratios mean anything. Learning is what N runs of the real script say, one seed after
the other. What does a change in the script do to learning? Make it, and run
    python tests/benchmark.py --learning --seeds 20
An OPTION that it does not know goes to the script: --workers 1, --max-frames 400000.
--against DIR: only compare speeds with the script of another checkout (c4d0fe8's will do).
"""
import argparse
import functools
import importlib.util
import itertools
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import threading
import time
import unittest.mock
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
LEARNERS = 1, 2, 4, 8, 16, 32
COMPARED = 8, 32
FRAMES, ROUNDS = 6000, 15
WARM_UP = 20_000  # frames of learning, for the weights with which speeds are measured
HALF_WAY = 100  # mean of fifty trials of all threads: to reach that takes neither claim nor exam


def spread(numbers, form):
    three = statistics.median(numbers), min(numbers), max(numbers)
    return f"{form} ({form} to {form})".format(*three)


def table(*rows):
    for row in rows[0], ["---"] * len(rows[0]), *rows[1:]:
        print("| " + " | ".join(map(str, row)) + " |")
    print(flush=True)


def in_turn(what, cases, form="{:,.0f}"):
    """Measure each case once a round, and show the figures, and their ratios to the first case."""
    figures = {case: [] for case in cases}
    for _ in range(ROUNDS):
        for case, measure in cases.items():
            figures[case].append(measure())
    first = figures[next(iter(cases))]
    table([what, "", "ratio to the first"],
          *([case, spread(own, form), spread([a / b for a, b in zip(own, first)], "{:.3f}")]
            for case, own in figures.items()))


def load(name, folder):
    """The script of this folder as a module. Its learners never claim, and draw all actions."""
    spec = importlib.util.spec_from_file_location(name, Path(folder, "a3c_cartpole.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.LEARNED_MEAN, module.EPS_START = float("inf"), 0.0
    return module


class Quiet:
    """A log that drops what it is told."""
    def trial(self, *told):
        pass
    update = trial


class Learners:
    """n learners and a test thread in a graph of their own, of this script or of c4d0fe8's."""

    def __init__(self, a3c, n, weights=()):
        start = time.perf_counter()
        self.old = not hasattr(a3c, "Progress")
        with a3c.tf.Graph().as_default() as graph, a3c.tf.device("/cpu:0"):
            a3c.tf.set_random_seed(0)
            self.server = a3c.ParameterServer(*([n] if self.old else [n, 1, Quiet()]))
            tester = a3c.Worker_thread("test_thread", "test", self.server, 0)
            self.workers = [a3c.Worker_thread(f"local_thread{i + 1}", "learning", self.server, 0)
                            for i in range(n)]
            self.server.session.run(a3c.tf.global_variables_initializer())
            graph.finalize()
        self.built = time.perf_counter() - start  # seconds
        actions = np.eye(2)[[0] * 10] if self.old else np.zeros(10)
        columns = np.zeros((10, 4)), actions, np.zeros(10), np.zeros((10, 4)), np.zeros(10)
        self.batch = [column.astype(np.float32) for column in columns]
        for worker in tester, *self.workers:
            self.brain = worker.environment.agent.brain
            self.brain.pull_parameter_server()
            self.brain.predict_p(self.batch[0])
            if worker is not tester:
                self.brain._update(*self.batch)
        self.called = time.perf_counter() - start  # with the first call of each part of the graph
        self.start_weights = weights or self.server.session.run(self.server.weights)

    def frames_per_second(self, frames=None):
        """From the same weights each time: as a policy gets better, updates get fewer."""
        frames = frames or FRAMES
        for variable, value in zip(self.server.weights, self.start_weights):
            variable.load(value, self.server.session)
        counts = self.server if self.old else self.server.progress
        counts.frames, counts.max_frames, counts.learners = 0, frames, len(self.workers)

        def work(worker):
            if self.old and hasattr(os, "sched_setaffinity"):  # today's learners do so themselves
                os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
            worker.run()
        threads = [threading.Thread(target=work, args=[worker]) for worker in self.workers]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counts.frames == frames and counts.learners == 0
        return frames / (time.perf_counter() - start)


def trained_weights(a3c):
    learners = Learners(a3c, 8)
    learners.frames_per_second(WARM_UP)
    return learners.server.session.run(learners.server.weights)


def environment_steps_per_second(env, steps=10_000):
    env.reset(seed=0)
    start = time.perf_counter()
    for i in range(steps):
        if any(env.step(i % 2)[2:4]):
            env.reset()
    return steps / (time.perf_counter() - start)


def speed():
    a3c = load("a3c", ROOT)

    class PlainCall(a3c.GraphCall):
        def __init__(self, session, feeds=(), fetches=(), targets=()):
            super().__init__(session, feeds, fetches, targets)
            self.parts = feeds, [*fetches, *targets], len(fetches)

        def __call__(self, *arrays):
            feeds, parts, fetched = self.parts
            return self.session.run(parts, dict(zip(feeds, arrays)))[:fetched]
    weights = trained_weights(a3c)
    learners = {n: Learners(a3c, n, weights) for n in LEARNERS}
    table(["learners", "seconds to build the graph", "with the first call of each part"],
          *([n, f"{made.built:.2f}", f"{made.called:.2f}"] for n, made in learners.items()))
    with unittest.mock.patch.object(a3c, "GraphCall", PlainCall):
        plain = Learners(a3c, 8, weights)
    env = a3c.gym.make(a3c.ENV, disable_env_checker=True)
    in_turn("frames/s", {
        "environment alone": functools.partial(environment_steps_per_second, env),
        **{f"{n} learner{'s' * (n > 1)}": made.frames_per_second for n, made in learners.items()},
        "8 learners, plain `Session.run`": plain.frames_per_second})


def seconds_to_build(a3c, n, what):
    learners = Learners(a3c, n)
    learners.server.session.close()
    return getattr(learners, what)


def seconds_to_first_frame(folder):
    start = time.perf_counter()
    with start_script(folder, "--max-frames", "1") as process:
        next(line for line in process.stdout if line.startswith("Not learned"))
        return time.perf_counter() - start


def against(folder):
    """This checkout and another one, in turn."""
    folders = {folder: folder, "here": ROOT}
    scripts = {name: load(f"script_{name}", path) for name, path in folders.items()}
    weights = trained_weights(scripts["here"])
    in_turn("frames/s, 8 learners", {name: Learners(a3c, 8, weights).frames_per_second
                                     for name, a3c in scripts.items()})
    for n, what in itertools.product(COMPARED, ("built", "called")):
        in_turn(f"seconds until {n} learners are {what}", {
            name: functools.partial(seconds_to_build, a3c, n, what)
            for name, a3c in scripts.items()}, "{:.2f}")
    in_turn("seconds from the start to the first frame", {
        name: functools.partial(seconds_to_first_frame, path)
        for name, path in folders.items()}, "{:.2f}")


def start_script(folder, *words):
    script = Path(folder, "a3c_cartpole.py").resolve()
    return subprocess.Popen([sys.executable, script, "--render", "none", *words], text=True,
                            stdout=subprocess.PIPE)


def learn(seed, options):
    """What one run of the script says, with the seconds to the learned policy, and its memory."""
    result, text, start = {"seed": seed}, "", time.perf_counter()
    process = start_script(ROOT, "--seed", str(seed), "--test-trials", "100", *options)
    for line in process.stdout:
        text += line
        if match := re.match(r"Learned after (\d+) frames, (\d+) trials, ([\d.]+) s", line):
            result |= {"frames": int(match[1]), "trials": int(match[2]),
                       "learning": float(match[3]), "whole": time.perf_counter() - start}
    if hasattr(os, "wait4"):
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        result["memory"] = usage.ru_maxrss / (2 ** 20 if sys.platform == "darwin" else 2 ** 10)
    means = re.findall(r"^(\d+) frames, \d+ trials: mean ([\d.]+)", text, re.M)
    half_way = [int(frames) for frames, mean in means if float(mean) >= HALF_WAY]
    scores = re.findall(r"^Test trial \d+: score ([\d.]+)", text, re.M)
    result |= {"best": max([float(mean) for _, mean in means], default=0),
               "half_way": min(half_way, default=result.get("frames", math.inf)),
               "policy": statistics.mean(map(float, scores)) if scores else 0,
               "failed": text.count(" examines: ") - ("frames" in result)}
    print(result, file=sys.stderr, flush=True)
    return process.wait() == 0, result


def learning(seeds, options):
    runs = [learn(seed, options) for seed in range(seeds)]
    results = [result for _, result in runs]
    learned = [result for success, result in runs if success]
    failed = [result["failed"] for result in results]
    good = sum(result["policy"] >= 195 for result in learned)
    rows = [["seeds that learned", f"{len(learned)} of {seeds}", "", ""],
            ["exams failed", f"{sum(failed)}, in {sum(map(bool, failed))} runs", "", ""],
            ["policies that average 195 in 100 trials", f"{good} of {len(learned)}", "", ""]]
    for name, key, form, of in (
            ("mean score of the policy in 100 trials", "policy", "{:.1f}", learned),
            (f"frames until fifty trials average {HALF_WAY}", "half_way", "{:,.0f}", learned),
            ("frames", "frames", "{:,.0f}", learned), ("trials", "trials", "{:,.0f}", learned),
            ("seconds from the start to the learned policy", "whole", "{:.1f}", learned),
            ("of these: learning", "learning", "{:.1f}", learned),
            ("peak memory, MB", "memory", "{:,.0f}", results),
            ("best mean of fifty trials", "best", "{:.1f}", results)):
        values = sorted((result[key] for result in of if key in result),
                        reverse=key in ("policy", "best"))
        if values:
            figures = values[math.ceil(0.9 * len(values)) - 1], values[-1]
            rows.append([name, *map(form.format, (statistics.median(values), *figures))])
    table(["learning", "median", "90th percentile", "worst"], *rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--learning", action="store_true", help="only what runs of the script say")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs (%(default)s)")
    parser.add_argument("--against", metavar="DIR", help="compare with the script in DIR")
    args, options = parser.parse_known_args()
    print(f"{time.strftime('%Y-%m-%d')}, {platform.platform()}, {os.cpu_count()} cores, Python "
          f"{platform.python_version()}: {' '.join(sys.argv)}\n", flush=True)
    if args.against:
        against(args.against)
    else:
        learning(args.seeds, options)  # first: what a large process starts counts its memory
        if not args.learning:
            speed()


if __name__ == "__main__":
    main()
