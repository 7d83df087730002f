"""Measure speed and learning: python tests/benchmark.py [--learning] [--seeds N] [OPTION]...

Speeds are taken in turn, in several rounds, and shown as median (lowest to highest): on a shared
machine only ratios mean anything. Learning is what N runs of the real script say, one seed after
the other. An OPTION that it does not know goes to the script: --workers 1, --max-frames 400000.
--program FILE: learning of a further system. --variants: only compare their speeds.
--against DIR: only compare speeds with the script of another checkout.
--pong DIR: only play the policy of pong.py that is saved in DIR.
"""
import argparse
import functools
import importlib.util
import itertools
import math
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEARNERS = 1, 2, 4, 8, 16, 32
FRAMES, ROUNDS = 6000, 15
RUNS = 5  # of a further system


def in_turn(what, cases, form, rounds=None):
    """Measure each case once a round, and show the figures, and their ratios to the first case."""
    figures = {case: [] for case in cases}
    for _ in range(rounds or ROUNDS):
        for case, measure in cases.items():
            figures[case].append(measure())
    first = statistics.median(figures[next(iter(cases))])
    print(f"{what}: median (lowest to highest), ratio to the first")
    for case, own in figures.items():
        median, low, high = statistics.median(own), min(own), max(own)
        print(f"{case}: {median:{form}} ({low:{form}} to {high:{form}}), {median / first:.3f}")


def load(name, folder):
    """The script of this folder as a module. Its learners never end, and draw all actions."""
    spec = importlib.util.spec_from_file_location(name, Path(folder, "a3c_cartpole.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.LEARNED_MEAN, module.EPS_START = float("inf"), 0.0
    return module


class Learners:
    """n learners and a test thread in a graph of their own."""
    weights = None  # of the first ones: all measurements start with them

    def __init__(self, a3c, n):
        start = time.perf_counter()
        options = a3c.parse(["--render", "none", "--seed", "0", "--workers", str(n)])
        with a3c.tf.Graph().as_default() as graph, a3c.tf.device("/cpu:0"):
            a3c.tf.set_random_seed(0)
            self.server = a3c.ParameterServer(options)
            self.server.log = types.SimpleNamespace(episode=lambda *told: None,
                                                    update=lambda told: None)
            self.workers = [a3c.Worker_thread(f"local_thread{i + 1}", "learning", self.server)
                            for i in range(n)]
            a3c.Worker_thread("test_thread", "test", self.server)
            self.server.initialize()
            graph.finalize()
        Learners.weights = Learners.weights or self.server.session.run(self.server.weights)
        for worker in self.workers:  # calls of the graph are made when they are first used
            self.play([worker], 20)
        self.ready = time.perf_counter() - start  # seconds

    def play(self, workers, frames):
        counts = self.server.progress
        counts.frames, counts.max_frames, counts.learners = 0, frames, len(workers)
        threads = [threading.Thread(target=worker.run) for worker in workers]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counts.frames == frames and counts.learners == 0
        return frames / (time.perf_counter() - start)

    def frames_per_second(self):
        """From the same weights each time: as a policy gets better, updates get fewer."""
        for variable, value in zip(self.server.weights, self.weights):
            variable.load(value, self.server.session)
        return self.play(self.workers, FRAMES)


def speed(folders):
    """Of the scripts in these folders, in turn; folders: their names and paths."""
    scripts = {name: load(name, folder) for name, folder in folders.items()}
    frames, seconds = {}, {}
    for n, (name, a3c) in itertools.product(LEARNERS, scripts.items()):
        frames[f"{n} learners, {name}"] = Learners(a3c, n).frames_per_second
        seconds[f"{n} learners, {name}"] = lambda a3c=a3c, n=n: Learners(a3c, n).ready
    in_turn("frames/s", frames, ",.0f")
    in_turn("seconds until each learner has played 20 frames", seconds, ".2f")


def lines_of(program, *options):
    """Start a program, and yield the lines that it prints."""
    command = [sys.executable, program, "--render", "none", *options]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    try:
        yield from process.stdout
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


NEVER_LEARNED = """
import sys, time
sys.path[:0] = {paths!r}
import a3c_cartpole, {name}
a3c = a3c_cartpole
a3c.LEARNED_MEAN = float("inf")
{patch}
if __name__ == "__main__":
    sys.exit({main})
"""
SLOW_STEPS = """
class Environment(a3c.Environment):
    def reward(self, r, step, done):
        end = time.perf_counter() + {seconds}
        while time.perf_counter() < end:
            pass
        return super().reward(r, step, done)

class Worker(a3c.Worker_thread):
    environment_class = Environment
"""


def write_program(folder, name, main, patch=""):
    path = Path(folder, "program.py")
    paths = str(ROOT), str(ROOT / "tests" / "variants")
    text = NEVER_LEARNED.format(name=name, main=main, paths=paths, patch=patch)
    path.write_text(text, encoding="utf-8")
    return path


def program_speed(name, frames, patch=""):
    """Frames/s of a program between its first line and its last one."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_program(folder, name, f"{name}.main()", patch)
        times = [time.perf_counter() for _ in lines_of(path, "--max-frames", frames)]
    return frames / (times[-1] - times[0])


def steady_speed(name, milliseconds, options=()):
    """Frames/s in the second ten seconds of a run whose steps compute for longer."""
    seen = []
    with tempfile.TemporaryDirectory() as folder:
        patch = SLOW_STEPS.format(seconds=milliseconds / 1000)
        path = write_program(folder, name, f"{name}.main(None, worker_class=Worker)", patch)
        for line in lines_of(path, "--max-frames", 10 ** 9, *options):
            if match := re.match(r"([\d.]+) s, (\d+) frames", line):
                seen.append((float(match[1]), int(match[2])))
                if seen[-1][0] > 20:
                    break
    begin = next(point for point in seen if point[0] > 10)
    return (seen[-1][1] - begin[1]) / (seen[-1][0] - begin[0])


def variants():
    """Further systems beside the script, as they are."""
    frames = {"a3c_cartpole": 40_000, "clipped": 40_000, "memory": 10_000, "pendulum": 20_000,
              "ga3c": 40_000, "pong": 2000}
    in_turn("frames/s", {name: functools.partial(program_speed, name, n)
                         for name, n in frames.items()}, ",.0f", RUNS)


def gathering():
    """GA3C beside the script, for hidden layers of several sizes."""
    for units in 16, 64, 256, 1024:
        patch = f"a3c.HIDDEN_UNITS = {units}"
        in_turn(f"frames/s, {units} hidden units", {
            name: functools.partial(program_speed, name, 40_000, patch)
            for name in ("a3c_cartpole", "ga3c")}, ",.0f", RUNS)


def processes():
    """Processes beside threads, for environments that compute for longer."""
    for milliseconds in 0, 0.2, 1, 5:
        cases = {"script": functools.partial(steady_speed, "a3c_cartpole", milliseconds)}
        for n in 1, 2:
            cases[f"{n} processes"] = functools.partial(
                steady_speed, "distributed", milliseconds, ["--processes", n])
        in_turn(f"frames/s, a step computes {milliseconds} ms more", cases, ",.0f", 3)


def learn(seed, program, options):
    """What one run of a program says, with the seconds to the learned policy."""
    command = [sys.executable, str(program), "--render", "none",
               "--seed", str(seed), "--test-episodes", "100", *options]
    result, text, start = {"seed": seed}, "", time.perf_counter()
    process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE)
    for line in process.stdout:
        text += line
        if match := re.match(r"Learned after (\d+) frames, (\d+) episodes, ([\d.]+) s", line):
            result |= {"frames": int(match[1]), "episodes": int(match[2]),
                       "learning": float(match[3]), "whole": time.perf_counter() - start}
    result["learned"] = process.wait() == 0
    means = re.findall(r"^\S+ s, (\d+) frames, \d+ episodes: mean (-?[\d.]+)", text, re.M)
    half_way = [int(frames) for frames, mean in means if float(mean) >= 100]
    result["half_way"] = min(half_way, default=result.get("frames"))
    scores = re.findall(r"^Test episode \d+: score (-?[\d.]+)", text, re.M)
    result["policy"] = statistics.mean(map(float, scores)) if scores else 0
    result["failed"] = text.count("Evaluation: ") - result["learned"]
    print(result, file=sys.stderr, flush=True)
    return result


def learning(seeds, program, options):
    results = [learn(seed, program, options) for seed in range(seeds)]
    learned = [result for result in results if result["learned"]]
    failed = [result["failed"] for result in results]
    good = sum(result["policy"] >= 195 for result in learned)
    print(f"seeds that learned: {len(learned)} of {seeds}")
    print(f"evaluations failed: {sum(failed)}, in {sum(map(bool, failed))} runs")
    print(f"policies that average 195 in 100 episodes: {good} of {len(learned)}")
    for name, key, form in (
            ("mean score of the policy in 100 episodes", "policy", ".1f"),
            ("frames until fifty episodes average 100", "half_way", ",.0f"),
            ("frames", "frames", ",.0f"), ("episodes", "episodes", ",.0f"),
            ("seconds from the start to the learned policy", "whole", ".1f"),
            ("of these: learning", "learning", ".1f")):
        values = sorted((result[key] for result in learned), reverse=key == "policy")
        if values:
            ninth = values[math.ceil(0.9 * len(values)) - 1]
            print(f"{name}: median {statistics.median(values):{form}}, "
                  f"90th percentile {ninth:{form}}, worst {values[-1]:{form}}")


def pong_games(folder):
    """The saved policy plays 30 games. It is fixed, and so is the game, so that many games may be
    the same. With sticky actions each action is repeated by chance, one time in four."""
    sys.path.insert(0, str(ROOT / "tests" / "variants"))
    import pong
    pong.configure()
    games = []

    class Agent(pong.Agent):
        def act(self, s, greedy=False):
            self.actions.append(super().act(s, greedy))
            return self.actions[-1]

    class Environment(pong.Environment):
        agent_class = Agent

        def run(self, env=None):
            self.agent.actions = []
            score = super().run(env)
            games.append((score, *self.agent.actions))
            return score

    class Worker(pong.Worker):
        environment_class = Environment

    for actions, name in ("as chosen", "PongNoFrameskip-v4"), ("sticky", "PongNoFrameskip-v0"):
        pong.a3c.ENV = name
        games.clear()
        words = "--play --render none --test-episodes 30 --seed 0 --checkpoint".split()
        pong.a3c.main([*words, folder], pong.Server, Worker)
        scores = [score for score, *_ in games]
        print(f"Actions {actions}: mean {statistics.mean(scores):.1f}, worst {min(scores):.0f}, "
              f"{len(set(games))} different games of {len(games)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--learning", action="store_true", help="only what runs of the script say")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs (%(default)s)")
    parser.add_argument("--against", metavar="DIR", help="compare with the script in DIR")
    parser.add_argument("--program", default=ROOT / "a3c_cartpole.py", metavar="FILE")
    parser.add_argument("--variants", action="store_true", help="speeds of the further systems")
    parser.add_argument("--pong", metavar="DIR", help="games of a saved policy")
    args, options = parser.parse_known_args()
    if args.pong:
        pong_games(args.pong)
        return
    if args.variants:
        variants()
        gathering()
        processes()
        return
    if not args.against:
        learning(args.seeds, args.program, options)
    if not args.learning:
        speed({"there": args.against, "here": ROOT} if args.against else {"here": ROOT})


if __name__ == "__main__":
    main()
