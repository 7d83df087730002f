"""Measure how the script learns: python tests/measurements/benchmark.py (--help)

Each run is one that a user could start, and one seed comes after the other.
"""
import argparse
import signal
import statistics
import sys
from pathlib import Path

import run_statistics
from launch import learn
from paths import SCRIPT


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
        epilog="Other OPTIONs go to the program (--workers 1, --max-frames 400000) or to "
               "run_program.py (--set LEARNING_RATE 0.01).")
    add = parser.add_argument
    add("--seeds", type=int, default=3, metavar="N", help="runs (%(default)s)")
    add("--program", default=SCRIPT, metavar="FILE", help="a variant")
    args, options = parser.parse_known_args()
    if not Path(args.program).is_file():
        parser.error(f"there is no file {args.program}")
    # In the background of a shell, Ctrl-C is ignored, and what starts there would ignore it, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        learning(args.seeds, args.program, options)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
