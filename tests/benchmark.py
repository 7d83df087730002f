"""Measure speed and learning: python tests/benchmark.py [--learning] [--seeds N] [OPTION]...

Speeds are taken in turn, in several rounds, and shown as median (lowest to highest): on a shared
machine only ratios mean anything. Learning is what N runs of the real script say, one seed after
the other. An OPTION that it does not know goes to the script: --workers 1, --max-frames 400000.
--program FILE: learning of a variant. --patch CODE: learning after this change, for example
"a3c.LEARNING_RATE *= 2". --variants: only compare the variants' speeds.
--falls: only how often the mean score is low again, with and without clipped.py's changes.
--against DIR: only compare speeds with the script of another checkout, however old.
--pong DIR: only play the policy that is saved in DIR, of pong.py or of --program memory_pong.py.
"""
import argparse
import contextlib
import functools
import importlib.util
import itertools
import json
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


PROGRAM = """
import sys, time
sys.path[:0] = {paths!r}
import {name}
import a3c_cartpole as a3c
{patch}
if __name__ == "__main__":
    status = {main}({arguments})
    print("Limit:", a3c.LEARNED_MEAN)
    sys.exit(status)
"""
EPISODES = """
import atexit, json
episodes = []  # of all learners: the frames at its end, and its score


class Progress(a3c.Progress):
    def episode_ended(self, score):
        episodes.append((self.frames, float(score)))
        return super().episode_ended(score)

    def evaluated(self, passed):
        if passed:
            atexit.register(print, "Seconds:", self.seconds())
        super().evaluated(passed)


if __name__ == "__main__":
    a3c.Progress = Progress
    atexit.register(lambda: print("Episodes:", json.dumps(episodes)))
"""
SLOW_STEPS = """
def compute(seconds):  # holds the GIL
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Environment(a3c.Environment):
    def reward(self, *step):
        {how}({seconds})
        return super().reward(*step)
"""


@contextlib.contextmanager
def running(name, *options, patch="", main="", arguments="", root=ROOT, folder=""):
    """A process that runs the script or a variant of a checkout, or a program in this folder, after
    a change."""
    with tempfile.TemporaryDirectory() as new:
        paths = str(folder), str(root), str(Path(root, "tests", "variants"))
        text = PROGRAM.format(name=name, paths=paths, patch=patch, main=main or f"{name}.main",
                              arguments=arguments)
        program = Path(new, "program.py")
        program.write_text(text, encoding="utf-8")
        command = [sys.executable, program, "--render", "none", *options]
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def points(name, *options, patch="", **kwargs):
    """Run a program that never learns its task. Yields for each line that it prints: seconds since
    its launch, frames up to then, the mean score of fifty episodes (or None)."""
    patch = f"{patch}\na3c.LEARNED_MEAN = float('inf')"
    launch = time.perf_counter()
    with running(name, *options, patch=patch, **kwargs) as process:
        for line in process.stdout:
            if line.startswith("Limit:"):
                return
            frames, mean = re.search(r"(\d+) frames", line), re.search(r"mean (\S+)", line)
            yield (time.perf_counter() - launch, int(frames[1]) if frames else 0,
                   float(mean[1]) if mean else None)


def slope(begin, end):
    """Frames/s between two points."""
    return (end[1] - begin[1]) / (end[0] - begin[0])


def begin_and_end(*args, **kwargs):
    """The points of a run at its first fifty episodes and at its last line. If it is over sooner,
    the first is the one where its threads begin."""
    first, *others = points(*args, **kwargs)
    return others[0] if len(others) > 1 else first, others[-1]


def program_speed(name, frames, *options, **changes):
    """Frames/s of a program."""
    return slope(*begin_and_end(name, "--max-frames", frames, *options, **changes))


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


def steady_speed(name, milliseconds, *options, how="compute"):
    """Frames/s over ten seconds of a run whose steps take longer, after its first ten."""
    patch, begin = SLOW_STEPS.format(how=how, seconds=milliseconds / 1000), None
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
              "ga3c": 40_000, "pong": 2000, "memory_pong": 2000}
    show("frames/s", in_turn({name: functools.partial(program_speed, name, n)
                              for name, n in frames.items()}, RUNS), ",.0f")


def gathering():
    """GA3C beside the script, for hidden layers of several sizes."""
    for units in 16, 64, 256, 1024:
        patch = f"a3c.HIDDEN_UNITS = {units}"
        show(f"frames/s, {units} hidden units", in_turn({
            name: functools.partial(program_speed, name, 40_000, patch=patch)
            for name in ("a3c_cartpole", "ga3c")}, RUNS), ",.0f")


def gathering_pong():
    """The same with Pong's network, for several numbers of learners."""
    classes = "None, pong.Server, agent_class=pong.Agent, environment_class=pong.Environment"
    ga3c = {"patch": "import ga3c\npong.configure()", "main": "ga3c.main", "arguments": classes}
    for n in LEARNERS:
        run = functools.partial(program_speed, "pong", 3000, "--workers", n)
        cases = {"pong": run, "ga3c with pong": functools.partial(run, **ga3c)}
        show(f"frames/s, {n} learners", in_turn(cases, 3), ",.0f")


def falls(seeds, names=("a3c.ParameterServer", "clipped.Server", "clipped.Clipping",
                        "clipped.FallingRate")):
    """Once a mean of fifty episodes has exceeded 150, how many later ones are lower again?"""
    for name in names:
        later = []
        for seed in range(seeds):
            run = points("clipped", "--max-frames", 200_000, "--seed", seed, main="a3c.main",
                         arguments=f"None, {name}")
            means = [mean for _, _, mean in run if mean is not None]
            later += itertools.dropwhile(lambda mean: mean <= 150, means)
        low = [f"{sum(mean < limit for mean in later) / len(later):.1%} below {limit}"
               for limit in (150, 100)]
        print(f"{name}: of {len(later)} means {' and '.join(low)}", flush=True)


def processes():
    """Processes beside threads, for environments that compute for longer."""
    for milliseconds in 0, 0.2, 1, 5:
        cases = {"script": functools.partial(steady_speed, "a3c_cartpole", milliseconds)}
        for n in 1, 2:
            cases[f"{n} processes"] = functools.partial(
                steady_speed, "distributed", milliseconds, "--processes", n)
        show(f"frames/s, a step computes {milliseconds} ms more", in_turn(cases, 3), ",.0f")


def slow_steps():
    """Learners whose steps wait for one millisecond, or compute for as long."""
    for how in "time.sleep", "compute":
        show(f"frames/s, 1 ms more of {how}", in_turn({f"{n} learners": functools.partial(
            steady_speed, "a3c_cartpole", 1, "--workers", n, how=how) for n in (1, 2, 8, 32)}, 3),
            ",.0f")


def early(episodes):
    """The frames when the latest fifty episodes first average 100; None: they never did."""
    for i in range(50, len(episodes) + 1):
        if statistics.mean(score for _, score in episodes[i - 50:i]) >= 100:
            return episodes[i - 1][0]


def learn(seed, program, patch, options):
    """What one run of a program says, with the seconds to the learned policy and all episodes."""
    result, text, start = {"seed": seed}, "", time.perf_counter()
    words = "--seed", seed, "--test-episodes", 100, *options
    with running(program.stem, *words, patch=patch + EPISODES,
                 folder=program.resolve().parent) as process:
        for line in process.stdout:
            text += line
            if match := re.match(r"Learned after (\d+) frames, (\d+) episodes", line):
                result |= {"frames": int(match[1]), "episodes": int(match[2]),
                           "whole": time.perf_counter() - start}
        result["learned"] = process.wait() == 0
    if result["learned"]:
        result["learning"] = float(re.search(r"^Seconds: (\S+)", text, re.M)[1])
    result["limit"] = float(re.search(r"^Limit: (\S+)", text, re.M)[1])
    episodes = json.loads(re.search(r"^Episodes: (.*)", text, re.M)[1])
    result["early"] = early(episodes)
    scores = re.findall(r"^Test episode \d+: score (-?[\d.]+)", text, re.M)
    result["policy"] = statistics.mean(map(float, scores)) if scores else 0
    result["failed"] = text.count("Evaluation: ") - result["learned"]
    print(result, file=sys.stderr, flush=True)
    return {**result, "scores": episodes}


def learning(seeds, program, patch, options):
    results = [learn(seed, program, patch, options) for seed in range(seeds)]
    learned = [result for result in results if result["learned"]]
    failed = [result["failed"] for result in results]
    limit = results[0]["limit"]
    good = sum(result["policy"] > limit for result in learned)
    print(f"seeds that learned: {len(learned)} of {seeds}")
    print(f"evaluations failed: {sum(failed)}, in {sum(map(bool, failed))} runs")
    print(f"policies that average more than {limit:g} in 100 episodes: {good} of {len(learned)}")
    for name, key, form in (
            ("mean score of the policy in 100 episodes", "policy", ".1f"),
            ("frames until fifty episodes average 100", "early", ",.0f"),
            ("frames", "frames", ",.0f"), ("episodes", "episodes", ",.0f"),
            ("seconds from the start to the learned policy", "whole", ".1f"),
            ("of these: learning", "learning", ".1f")):
        values = [result[key] for result in learned]
        if values and None not in values:
            values.sort(reverse=key == "policy")
            ninth = values[math.ceil(0.9 * len(values)) - 1]
            print(f"{name}: median {statistics.median(values):{form}}, "
                  f"90th percentile {ninth:{form}}, worst {values[-1]:{form}}")


def pong_games(program, folder):
    """The saved policy of pong.py or memory_pong.py plays 30 games. It is fixed, and so is the
    game, so that many games may be the same. With sticky actions each action is repeated by chance,
    one time in four."""
    sys.path[:0] = str(ROOT), str(ROOT / "tests" / "variants")
    import a3c_cartpole as a3c
    pong = importlib.import_module(program.stem)
    games = []

    def main(words, server_class, brain_class=a3c.LocalBrain, agent_class=a3c.Agent,
             environment_class=a3c.Environment):
        """Instead of the script's: it keeps each game's score and actions."""
        class Agent(agent_class):
            def act(self, *args, **kwargs):
                self.actions.append(super().act(*args, **kwargs))
                return self.actions[-1]

        class Environment(environment_class):
            def make(self, render_mode=None):
                a3c.ENV = env
                return super().make(render_mode)

            def run(self, learning):
                self.agent.actions = []
                score = super().run(learning)
                games.append((score, *self.agent.actions))
                return score
        return script_main(words, server_class, brain_class, Agent, Environment)
    script_main, a3c.main = a3c.main, main

    for actions, env in ("as chosen", "PongNoFrameskip-v4"), ("sticky", "PongNoFrameskip-v0"):
        games.clear()
        words = "--play --render none --test-episodes 30 --seed 0 --checkpoint".split()
        pong.main([*words, folder])
        scores = [score for score, *_ in games]
        print(f"{env}, actions {actions}: "
              f"mean {statistics.mean(scores):.1f}, worst {min(scores):.0f}, "
              f"{len(set(games))} different games of {len(games)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--learning", action="store_true", help="only what runs of the script say")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs (%(default)s)")
    parser.add_argument("--against", metavar="DIR", help="compare with the script in DIR")
    parser.add_argument("--program", default=ROOT / "a3c_cartpole.py", metavar="FILE", type=Path)
    parser.add_argument("--patch", default="", metavar="CODE", help="run this before learning")
    parser.add_argument("--falls", action="store_true", help="falls of the mean score")
    parser.add_argument("--slow-steps", action="store_true", help="speeds with slow environments")
    parser.add_argument("--variants", action="store_true", help="speeds of the variants")
    parser.add_argument("--pong", metavar="DIR", help="games of a saved policy")
    args, options = parser.parse_known_args()
    # In the background of a shell, Ctrl-C is ignored, and what starts there would ignore it, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if args.pong:
        pong_games(args.program, args.pong)
        return
    if args.falls:
        falls(args.seeds)
        return
    if args.variants:
        variants()
        gathering()
        gathering_pong()
        processes()
        return
    if args.slow_steps:
        slow_steps()
        return
    if not args.against:
        learning(args.seeds, args.program, args.patch, options)
    if not args.learning:
        speed({"there": args.against, "here": ROOT} if args.against else {"here": ROOT})


if __name__ == "__main__":
    main()
