"""Measure speed and learning: python tests/measurements/benchmark.py (--help)

Speeds are taken in turn, in several rounds, and shown as median (lowest to highest): on a shared
machine only ratios mean anything. Learning is what N runs of the real script say, one seed after
the other.
"""
import argparse
import signal
import statistics
from pathlib import Path

import run_statistics
from launch import learn, program_speed, take_turns
from paths import HERE, ROOT, SCRIPT, VARIANTS

THREADS = 1, 2, 4, 8, 16, 32
FRAMES, ROUNDS = 40_000, 15


def speed(folders):
    """Measure the scripts in these folders, {name: path}, in turn. All runs begin with the same
    weights, and draw all actions from the policy."""
    take_turns("", program_speed, {
        f"{n} learners, {name}": (Path(folder, SCRIPT.name), FRAMES, "--workers", n, "--seed", 0,
                                  "--set", "EPS_START", 0.0)
        for n in THREADS for name, folder in folders.items()}, ROUNDS)


def variants():
    """Variants beside the script; GA3C for hidden layers of several sizes, and for Pong."""
    frames = {"clipped": 40_000, "memory": 10_000, "pendulum": 20_000, "ga3c": 40_000,
              "synchronous": 40_000, "pong": 2000, "memory_pong": 2000}
    cases = {name: (VARIANTS / f"{name}.py", n) for name, n in frames.items()}
    all_cores = 40_000, "--set", "SHARE_ONE_CORE", False
    take_turns("", program_speed, {
        "a3c_cartpole": (SCRIPT, 40_000), **cases, "a3c_cartpole, all cores": (SCRIPT, *all_cores),
        "ga3c, all cores": (VARIANTS / "ga3c.py", *all_cores)}, 5)
    for units in 16, 64, 256, 1024:
        options = 40_000, "--set", "HIDDEN_UNITS", units
        take_turns(f", {units} hidden units", program_speed, {
            "a3c_cartpole": (SCRIPT, *options), "ga3c": (VARIANTS / "ga3c.py", *options)}, 5)
    for n in THREADS:
        options = 3000, "--workers", n
        take_turns(f", {n} learners", program_speed, {
            "pong": (VARIANTS / "pong.py", *options),
            "ga3c with pong": (HERE / "ga3c_pong.py", *options)}, 3)


def learning(seeds, program, options):
    runs = [learn(seed, program, *options) for seed in range(seeds)]
    learned = [run for run in runs if run.frames]
    failed = [run.failed for run in runs]
    print(f"seeds that learned: {len(learned)} of {seeds}")
    print(f"evaluations failed: {run_statistics.failed_in_words(failed)}")
    for name, key, form in (
            ("mean score of the policy in 100 episodes", "policy", ".1f"),
            ("frames until fifty episodes average 100", "early", ",.0f"),
            ("frames", "frames", ",.0f"), ("episodes", "episodes", ",.0f"),
            ("seconds from the start to the learned policy", "seconds", ".1f"),
            ("of these: learning", "learning", ".1f")):
        values = [getattr(run, key) for run in learned]
        if values and None not in values:
            worst = min(values) if key == "policy" else max(values)
            print(f"{name}: median {statistics.median(values):{form}}, worst {worst:{form}}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], allow_abbrev=False,
        epilog="Other OPTIONs are for learning. They go to the program (--workers 1, --max-frames "
               "400000) or to run_program.py (--set LEARNING_RATE 0.01).")
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
