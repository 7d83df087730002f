"""Run a program for a measurement: python tests/measurements/run_program.py FILE [OPTION]...

launch.py starts it, each time as a new process. It calls the program's main, which gets all options
that it doesn't know itself.
"""
import argparse
import ast
import importlib
import json
import sys
import time
from pathlib import Path

import paths  # so that the script and the variants are found


def compute(seconds):
    """Take this long, and hold the GIL."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def slower_environment(a3c, wait, seconds):
    class Environment(a3c.Environment):
        def reward(self, *step):
            wait(seconds)
            return super().reward(*step)
    return Environment


def progress_with_notes(a3c, notes):
    """Notes each episode's frames at its end and its score, and when the last evaluation ended."""
    class Progress(a3c.Progress):
        def episode_ended(self, score):
            notes["scores"].append((self.frames, float(score)))
            return super().episode_ended(score)

        def evaluated(self, passed):
            notes["seconds"] = self.seconds()
            super().evaluated(passed)
    return Progress


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    add = parser.add_argument
    add("program", metavar="FILE", type=Path)
    add("--set", nargs=2, metavar=("NAME", "VALUE"), action="append", default=[],
        help="give this value to a constant of the script (a program may set its own later)")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--sleep", metavar="S", type=float, help="each step waits S seconds longer")
    either.add_argument("--compute", metavar="S", type=float,
                        help="each step computes S seconds longer")
    add("--notes", action="store_true", help="print scores and seconds at the end")
    own, words = parser.parse_known_args()

    sys.path.insert(0, str(own.program.resolve().parent))
    program = importlib.import_module(own.program.stem)
    a3c = sys.modules.get("a3c_cartpole", program)  # the program may be a changed copy of it
    for name, value in own.set:
        if name not in a3c.constants():
            parser.error(f"the script has no constant {name}")
        setattr(a3c, name, ast.literal_eval(value))
    classes, notes = {}, {"scores": [], "seconds": None}
    if own.sleep is not None:
        classes["environment_class"] = slower_environment(a3c, time.sleep, own.sleep)
    elif own.compute is not None:
        classes["environment_class"] = slower_environment(a3c, compute, own.compute)
    if own.notes:
        a3c.Progress = progress_with_notes(a3c, notes)
    status = program.main(words, **classes)
    if own.notes and status in (0, 1):  # not after Ctrl-C
        print(json.dumps(notes))
    return status


if __name__ == "__main__":
    sys.exit(main())
