"""Measure speed and learning: python tests/benchmark.py [--seeds N] [--learning] [--json FILE] [OPTION]...

Speeds are taken in turn, several rounds in one run, and shown as median (lowest to highest): on a shared machine only
such ratios mean anything. Learning is what N runs of the real script say, one seed after the other. To see what a
change in the script does to learning, make it, and run: python tests/benchmark.py --learning --seeds 20
An OPTION that it does not know goes to the script: --workers 1, --max-frames 400000.
"""
import argparse
import contextlib
import importlib.metadata
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEARNERS, FRAMES = (1, 2, 4, 8, 16), 4000
HALF_WAY = 100  # steps, in the mean of fifty trials of all threads: to reach that takes neither claim nor exam
ROUNDS, AT_LEAST, SECONDS = 15, 3, 35  # rounds, but on a slow machine fewer, once so many seconds are over


def say(text):
    print(text, file=sys.stderr, flush=True)


def spread(numbers, form="{:,.0f}"):
    return f"{form} ({form} to {form})".format(statistics.median(numbers), min(numbers), max(numbers))


def table(head, rows):
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def build(a3c, n, server_class):
    """n learners that never claim, in a graph of their own, and the seconds that building took."""
    tf, start = a3c.tf, time.perf_counter()
    with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
        server = server_class(n)
        workers = [a3c.Worker_thread(f"local_thread{i + 1}", "learning", server, 0) for i in range(n)]
        server.session.run(tf.global_variables_initializer())
        graph.finalize()
    return server, workers, time.perf_counter() - start


def frames_per_second(server, workers, frames):
    server.frames, server.max_frames, server.learners = 0, frames, len(workers)
    threads = [threading.Thread(target=worker.run, name=worker.name) for worker in workers]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.failure is None and server.frames == frames
    return frames / (time.perf_counter() - start)


def age_of_gradients(server, workers, frames):
    """How many updates others make between a thread's pull and its own update: (mean, share with none)."""
    made, ages = [], []
    for brain in (worker.environment.agent.brain for worker in workers):
        def pull(brain=brain, pull=brain._pull):
            brain.pulled_at = len(made)
            pull()

        def update(*batch, brain=brain, update=brain._update):
            ages.append(len(made) - brain.pulled_at)
            made.append(1)
            return update(*batch)
        brain._pull, brain._update = pull, update
    frames_per_second(server, workers, frames)
    return statistics.mean(ages), ages.count(0) / len(ages)


def environment_steps_per_second(a3c, steps=10_000):
    """The ceiling of one Python process that does nothing but play."""
    env = a3c.gym.make(a3c.ENV, disable_env_checker=True)
    env.reset(seed=0)
    start = time.perf_counter()
    for i in range(steps):
        _, _, terminated, truncated, _ = env.step(i % 2)
        if terminated or truncated:
            env.reset()
    return steps / (time.perf_counter() - start)


def microseconds(function, calls):
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls * 1e6


@contextlib.contextmanager
def one_core():
    """As the script does it, where the system can: threads that are started in this block share a core."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def speed(results):
    sys.path.insert(0, str(ROOT))
    start = time.perf_counter()
    say("Importing TensorFlow")
    import a3c_cartpole as a3c
    import numpy as np
    a3c.LEARNED_MEAN = float("inf")
    a3c.EPS_START = 0.0  # what most frames of a run are like: a random action takes no forward pass

    class PlainServer(a3c.ParameterServer):
        def graph_call(self, feeds=(), fetches=(), targets=()):
            return lambda *arrays: self.session.run([*fetches, *targets], dict(zip(feeds, arrays)))

    cases, built_in = {}, {}
    for n in LEARNERS:
        say(f"Building {n} learners")
        builds = [build(a3c, n, a3c.ParameterServer) for _ in range(2)]
        built_in[n] = [seconds for *_, seconds in builds]
        cases[f"{n} learner{'s' * (n > 1)}"] = (*builds[0][:2], one_core)
        if n == 8:  # graphs of their own: as they learn, trials last longer, with fewer updates in as many frames
            cases["8 learners, plain `Session.run`"] = (*build(a3c, n, PlainServer)[:2], one_core)
            if hasattr(os, "sched_setaffinity"):
                cases["8 learners, free to use all cores"] = (*builds[1][:2], contextlib.nullcontext)

    ceiling, rates, shares = [], {case: [] for case in cases}, {case: [] for case in cases}
    for round_ in range(ROUNDS):
        if round_ >= AT_LEAST and time.perf_counter() - start > SECONDS:
            break
        say(f"Round {round_ + 1} of {ROUNDS}")
        for case, (server, workers, where) in cases.items():
            ceiling.append(environment_steps_per_second(a3c))
            with where():
                rates[case].append(frames_per_second(server, workers, FRAMES))
            shares[case].append(rates[case][-1] / ceiling[-1])
    gain = [fast / plain for fast, plain in zip(rates["8 learners"], rates["8 learners, plain `Session.run`"])]

    brain = cases["1 learner"][1][0].environment.agent.brain
    batch = [np.zeros((10, 4), np.float32), np.eye(2, dtype=np.float32)[[0, 1] * 5], *np.zeros((1, 10), np.float32),
             np.zeros((10, 4), np.float32), np.ones(10, np.float32)]
    state = np.zeros((1, 4), np.float32)
    costs = {"forward pass for one state": [], "update with ten samples": [], "pull": []}
    for _ in range(ROUNDS):
        for cost, function in zip(costs.values(), (lambda: brain.predict_p(state), lambda: brain._update(*batch),
                                                   brain.pull_parameter_server)):
            cost.append(microseconds(function, 1000))

    say("Counting updates between pull and update")
    ages = {}
    for case in ("8 learners", "8 learners, free to use all cores"):
        if case in cases:
            server, workers, where = cases[case]
            with where():
                ages[case] = age_of_gradients(server, workers, 4 * FRAMES)

    results["speed"] = {"environment_steps_per_second": ceiling, "frames_per_second": rates, "share_of_ceiling": shares,
                        "gain_over_plain_session_run": gain, "microseconds": costs, "building_seconds": built_in,
                        "age_of_gradients": ages}
    table(["speed", "frames/s", "share of the environment's own speed"],
          [["environment alone", spread(ceiling), 1]] +
          [[case, spread(rates[case]), spread(shares[case], "{:.3f}")] for case in cases])
    table(["graph calls", "µs"], [[name, spread(cost, "{:.1f}")] for name, cost in costs.items()])
    table(["learners", "seconds to build the graph"], [[n, spread(s, "{:.2f}")] for n, s in built_in.items()])
    table(["age of a gradient: updates of other threads since its thread's pull", "mean", "share with none"],
          [[case, f"{mean:.1f}", f"{none:.2f}"] for case, (mean, none) in ages.items()])
    return [("8 learners reach this share of the environment's own speed", statistics.median(shares["8 learners"]),
             ">=", 0.18),
            ("8 learners against plain `Session.run`", statistics.median(gain), ">=", 5)]


def seconds_of(code):
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    return time.perf_counter() - start


def learn(seed, options):
    """What one run of the real script says, with the seconds from its start to the learned policy, and its memory."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        process = subprocess.Popen([sys.executable, ROOT / "a3c_cartpole.py", "--render", "none", "--seed", str(seed),
                                    "--test-trials", "100", *options], cwd=folder, text=True, stdout=subprocess.PIPE)
        result = {"seed": seed, "claims": 0, "exams": 0}
        for line in process.stdout:
            result["claims"] += " claims: " in line
            result["exams"] += " examines: " in line
            if match := re.match(r"(\d+) frames, .*: mean ([\d.]+) steps", line):
                if float(match[2]) >= HALF_WAY:
                    result.setdefault("half_way", int(match[1]))
            elif match := re.match(r"Learned after (\d+) frames, (\d+) trials, ([\d.]+) s", line):
                result |= {"frames": int(match[1]), "trials": int(match[2]),
                           "training": float(match[3]), "start_to_learned": time.perf_counter() - start}
            elif match := re.match(r"Test: mean ([\d.]+) steps", line):
                result["policy"] = float(match[1])
        if hasattr(os, "wait4"):
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            result["peak_mb"] = usage.ru_maxrss / (2 ** 20 if sys.platform == "darwin" else 2 ** 10)
        result["status"] = process.wait()
    return result


def learning(seeds, options, results):
    bare, script, runs = [], [], []
    for seed in range(seeds):
        if seed % max(2, math.ceil(seeds / 5)) == 0:  # now and then: what is compared meets the same machine
            say("Measuring imports")
            bare.append(seconds_of("import tensorflow"))
            script.append(seconds_of("import a3c_cartpole"))
        runs.append(learn(seed, options))
        say(f"Seed {seed}: {runs[-1]}")
    results["learning"] = {"import_tensorflow": bare, "import_script": script, "runs": runs}
    learned = [run for run in runs if run["status"] == 0]
    failed = [run["exams"] - ("frames" in run) for run in runs]
    rows = [["seeds that learned", f"{len(learned)} of {seeds}", "", ""],
            ["exams failed", f"{sum(failed)}, in {sum(f > 0 for f in failed)} runs", "", ""]]
    targets = [("share of seeds that learned", len(learned) / seeds, ">=", 1)]

    def row(name, values, form="{:,.0f}"):
        values = sorted(values)
        ninety = values[math.ceil(0.9 * len(values)) - 1]
        rows.append([name, *map(form.format, (statistics.median(values), ninety, values[-1]))])
    if learned:
        policies = sorted(run["policy"] for run in learned)
        good = sum(policy >= 195 for policy in policies)
        rows += [["learned policies that average 195 steps in 100 trials", f"{good} of {len(learned)}", "", ""],
                 ["mean steps of the learned policy in 100 trials", statistics.median(policies), "", policies[0]]]
        targets.append(("worst learned policy, mean steps in 100 trials", policies[0], ">=", 195))
        half_way = [run.get("half_way", run["frames"]) for run in learned]  # a few runs learn before that
        row(f"frames until fifty trials average {HALF_WAY} steps", half_way)
        row("frames", [run["frames"] for run in learned])
        row("trials", [run["trials"] for run in learned])
        whole, training = ([run[key] for run in learned] for key in ("start_to_learned", "training"))
        imports = statistics.median(script)
        row("seconds from the start to the learned policy", whole, "{:.1f}")
        row("of these: importing", script, "{:.1f}")
        row("of these: building the graph", [a - b - imports for a, b in zip(whole, training)], "{:.1f}")
        row("of these: training", training, "{:.1f}")
        row("for comparison: `import tensorflow`", bare, "{:.1f}")
        targets.append(("start to learned, against a bare `import tensorflow`",
                        statistics.median(whole) / statistics.median(bare), "<=", 3))
        if "peak_mb" in learned[0]:
            row("peak memory, MB", [run["peak_mb"] for run in learned])
            targets.append(("peak memory, MB", max(run["peak_mb"] for run in learned), "<=", 650))
    table(["learning", "median", "90th percentile", "worst"], rows)
    return targets


def installed(packages):
    """The first of these packages that is installed, with its version."""
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return f"{package} {importlib.metadata.version(package)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)  # --seed is the script's
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of the script (default %(default)s)")
    parser.add_argument("--learning", action="store_true", help="only what the runs of the script say")
    parser.add_argument("--json", metavar="FILE", help="write all that was measured there, too")
    args, options = parser.parse_known_args()
    if args.seeds < 1:
        parser.error("argument --seeds: give a whole number from 1")
    versions = map(installed, (("tensorflow", "tensorflow-cpu"), ("gymnasium", "gym"), ("numpy",)))
    machine = (f"{time.strftime('%Y-%m-%d')}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
               f"Python {platform.python_version()}, {', '.join(versions)}")
    results = {"machine": machine, "command": " ".join(["python", "tests/benchmark.py", *sys.argv[1:]])}
    print(f"{machine}: `{results['command']}`", flush=True)
    targets = learning(args.seeds, options, results)  # first: what a large process starts counts its memory
    targets += [] if args.learning else speed(results)
    table(["target", "wanted", "measured", ""], [
        [name, f"{sign} {bar}", f"{value:.3g}", "met" if (value >= bar if sign == ">=" else value <= bar) else "missed"]
        for name, value, sign, bar in targets])
    if args.json:
        Path(args.json).write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
