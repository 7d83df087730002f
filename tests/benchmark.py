"""Measure speed and learning: python tests/benchmark.py [--learning] [--seeds N] [OPTION]...

Speeds are taken in turn, in several rounds, and shown as median (lowest to highest): on a shared
machine only ratios mean anything. Learning is what N runs of the real script say, one seed after
the other. An OPTION that it does not know goes to the script: --workers 1, --max-frames 400000.
--program FILE: learning of a variant. --variants: only compare the variants' speeds.
--against DIR: only compare speeds with the script of another checkout, however old.
--pong DIR: only play the policy of pong.py that is saved in DIR.
"""
import argparse
import contextlib
import functools
import importlib.util
import math
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEARNERS = 1, 2, 4, 8, 16, 32
FRAMES, ROUNDS = 40_000, 15
RUNS = 5  # of a variant


def in_turn(cases, rounds):
    """Measure each case once a round. Returns {case: [what was measured]}."""
    results = {case: [] for case in cases}
    for _ in range(rounds):
        for case, measure in cases.items():
            results[case].append(measure())
    return results


def show(what, results, form):
    """Print these figures, {case: [figure]}, and their ratios to those of the first case."""
    first = statistics.median(next(iter(results.values())))
    print(f"{what}: median (lowest to highest), ratio to the first")
    for case, own in results.items():
        median, low, high = statistics.median(own), min(own), max(own)
        print(f"{case}: {median:{form}} ({low:{form}} to {high:{form}}), {median / first:.3f}")


def load(name, folder):
    """The script of this folder as a module. Its learners never end, and draw all actions."""
    spec = importlib.util.spec_from_file_location(name, Path(folder, "a3c_cartpole.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.LEARNED_MEAN, module.EPS_START = float("inf"), 0.0
    return module


NEVER_LEARNED = """
import sys, time
sys.path[:0] = {paths!r}
import a3c_cartpole, {name}
a3c = a3c_cartpole
a3c.LEARNED_MEAN = float("inf")
{patch}
if __name__ == "__main__":
    sys.exit({name}.main({arguments}))
"""
SLOW_STEPS = """
class Environment(a3c.Environment):
    def reward(self, *step):
        end = time.perf_counter() + {seconds}
        while time.perf_counter() < end:
            pass
        return super().reward(*step)
"""


def points(name, *options, patch="", arguments="", root=ROOT):
    """Run a program of a checkout that never learns its task. Yields (seconds since its launch,
    frames up to then) for each line that it prints."""
    with tempfile.TemporaryDirectory() as folder:
        paths = str(root), str(Path(root, "tests", "variants"))
        text = NEVER_LEARNED.format(name=name, paths=paths, patch=patch, arguments=arguments)
        program = Path(folder, "program.py")
        program.write_text(text, encoding="utf-8")
        command = [sys.executable, program, "--render", "none", *options]
        launch = time.perf_counter()
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        try:
            for line in process.stdout:
                frames = re.search(r"(\d+) frames", line)
                yield time.perf_counter() - launch, int(frames[1]) if frames else 0
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def slope(begin, end):
    """Frames/s between two points."""
    return (end[1] - begin[1]) / (end[0] - begin[0])


def begin_and_end(*args, **kwargs):
    """The points of a run at its first fifty episodes and at its last line. If it is over sooner,
    the first is the one where its threads begin."""
    first, *others = points(*args, **kwargs)
    return others[0] if len(others) > 1 else first, others[-1]


def program_speed(name, frames, patch=""):
    """Frames/s of a program."""
    return slope(*begin_and_end(name, "--max-frames", frames, patch=patch))


def speed(folders):
    """Of the scripts in these folders, in turn; folders: their names and paths. All runs begin with
    the same weights, and draw all actions from the policy."""
    def run(learners, folder):
        options = "--workers", learners, "--seed", 0, "--max-frames", FRAMES
        return begin_and_end("a3c_cartpole", *options, patch="a3c.EPS_START = 0.0", root=folder)
    results = in_turn({f"{n} learners, {name}": functools.partial(run, n, folder)
                       for n in LEARNERS for name, folder in folders.items()}, ROUNDS)
    show("frames/s", {
        case: [slope(*ends) for ends in own] for case, own in results.items()}, ",.0f")
    show("seconds from the launch to the first fifty episodes", {
        case: [begin[0] for begin, _ in own] for case, own in results.items()}, ".2f")


def steady_speed(name, milliseconds, options=()):
    """Frames/s over ten seconds of a run whose steps compute for longer, after its first ten."""
    patch, begin = SLOW_STEPS.format(seconds=milliseconds / 1000), None
    with contextlib.closing(points(name, "--max-frames", 10 ** 9, *options, patch=patch,
                                   arguments="environment_class=Environment")) as run:
        for point in run:
            if begin and point[0] > begin[0] + 10:
                return slope(begin, point)
            if not begin and point[0] > 10:
                begin = point


def variants():
    """Variants beside the script, as they are."""
    frames = {"a3c_cartpole": 40_000, "clipped": 40_000, "memory": 10_000, "pendulum": 20_000,
              "ga3c": 40_000, "pong": 2000}
    show("frames/s", in_turn({name: functools.partial(program_speed, name, n)
                              for name, n in frames.items()}, RUNS), ",.0f")


def gathering():
    """GA3C beside the script, for hidden layers of several sizes."""
    for units in 16, 64, 256, 1024:
        patch = f"a3c.HIDDEN_UNITS = {units}"
        show(f"frames/s, {units} hidden units", in_turn({
            name: functools.partial(program_speed, name, 40_000, patch)
            for name in ("a3c_cartpole", "ga3c")}, RUNS), ",.0f")


def processes():
    """Processes beside threads, for environments that compute for longer."""
    for milliseconds in 0, 0.2, 1, 5:
        cases = {"script": functools.partial(steady_speed, "a3c_cartpole", milliseconds)}
        for n in 1, 2:
            cases[f"{n} processes"] = functools.partial(
                steady_speed, "distributed", milliseconds, ["--processes", n])
        show(f"frames/s, a step computes {milliseconds} ms more", in_turn(cases, 3), ",.0f")


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
        def act(self, *args, **kwargs):
            self.actions.append(super().act(*args, **kwargs))
            return self.actions[-1]

    class Environment(pong.Environment):
        def run(self, learning):
            self.agent.actions = []
            score = super().run(learning)
            games.append((score, *self.agent.actions))
            return score

    for actions, name in ("as chosen", "PongNoFrameskip-v4"), ("sticky", "PongNoFrameskip-v0"):
        pong.a3c.ENV = name
        games.clear()
        words = "--play --render none --test-episodes 30 --seed 0 --checkpoint".split()
        pong.a3c.main([*words, folder], pong.Server, agent_class=Agent,
                      environment_class=Environment)
        scores = [score for score, *_ in games]
        print(f"Actions {actions}: mean {statistics.mean(scores):.1f}, worst {min(scores):.0f}, "
              f"{len(set(games))} different games of {len(games)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--learning", action="store_true", help="only what runs of the script say")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs (%(default)s)")
    parser.add_argument("--against", metavar="DIR", help="compare with the script in DIR")
    parser.add_argument("--program", default=ROOT / "a3c_cartpole.py", metavar="FILE")
    parser.add_argument("--variants", action="store_true", help="speeds of the variants")
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
