"""Speeds of the script and of distributed.py if a step takes longer, because it waits or computes:

    python tests/measurements/slow_steps.py

The cases take turns, in three rounds.
"""
import contextlib
import functools

import benchmark

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


def speed(name, milliseconds, *options, how="compute"):
    """Frames/s over ten seconds of a run whose steps take longer, after its first ten."""
    patch, begin = SLOW_STEPS.format(how=how, seconds=milliseconds / 1000), None
    with contextlib.closing(benchmark.points(
            name, "--max-frames", 10 ** 9, *options, patch=patch,
            call=f"{name}.main(environment_class=Environment)")) as run:
        for point in run:
            if begin and point[1] > begin[1] + 10:
                return benchmark.slope(begin, point)
            if not begin and point[1] > 10:
                begin = point


def main():
    for how in "time.sleep", "compute":
        benchmark.compare(f", 1 ms more of {how}", {f"{n} learners": functools.partial(
            speed, "a3c_cartpole", 1, "--workers", n, how=how) for n in (1, 2, 8, 32)}, rounds=3)
    for milliseconds in 0, 0.2, 1, 5:
        cases = {"script": functools.partial(speed, "a3c_cartpole", milliseconds)}
        for n in 1, 2:
            cases[f"{n} processes"] = functools.partial(
                speed, "distributed", milliseconds, "--processes", n)
        benchmark.compare(f", a step computes {milliseconds} ms more", cases, rounds=3)


if __name__ == "__main__":
    main()
