"""Speeds of the script and of distributed.py if each step waits or computes for longer."""
import argparse

import launch
from paths import SCRIPT, VARIANTS


def speed(program, *options):
    """Frames/s over ten seconds of a run, after its first ten."""
    points = launch.points(program, "--max-frames", 10 ** 9, *options)
    begin = next(point for point in points if point.seconds > 10)
    end = next(point for point in points if point.seconds > begin.seconds + 10)
    points.close()  # this ends the run
    return launch.slope(begin, end)


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    for what, *how in (("a step sleeps", "--sleep"), ("a step computes", "--compute"),
                       ("a step computes, on all cores", "--set", "SHARE_ONE_CORE", False,
                        "--compute")):
        launch.take_turns(f", {what} for 1 ms more", speed, {
            f"{n} learners": (SCRIPT, *how, 0.001, "--workers", n) for n in (1, 2, 8, 32)}, 3)
    for seconds in 0, 0.0002, 0.001, 0.005:
        cases = {"script": (SCRIPT, "--compute", seconds)}
        for n in 1, 2:
            options = "--compute", seconds, "--processes", n
            cases[f"{n} processes"] = (VARIANTS / "distributed.py", *options)
        launch.take_turns(f", a step computes {1000 * seconds:g} ms more", speed, cases, 3)


if __name__ == "__main__":
    main()
