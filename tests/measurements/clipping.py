"""Does V run away if gradients are clipped? python tests/measurements/clipping.py [--measure]

For each way of clipping, runs of clipped.py: how many don't learn, and how large |V| gets in an
update, although no return exceeds 1. Also: how many gradients are above the norm, and what share of
the large ones belongs to updates with the end of an episode. The results go into
data/clipping.json. Without --measure it only shows them.
"""
import collections
import contextlib
import io
import re

import numpy as np
import run_statistics
from paths import HERE

import clipped
from script import a3c, tf

DATA = HERE / "data" / "clipping.json"
LARGE = 0.5  # a gradient's norm, unless it is clipped to less
# {name: which updates are clipped ("all", or those with the end of an episode, or without), to
# which norm, and the number of seeds}
CASES = {
    "not clipped": ("all", np.inf, 100), "5": ("all", 5, 100), "2": ("all", 2, 100),
    "1": ("all", 1, 100), "0.5": ("all", 0.5, 100),
    "only those with the end of an episode to 0.25": ("end", 0.25, 40),
    "only the others to 0.25": ("no end", 0.25, 40)}
# The numbers after largest_v count updates: all, those whose gradient is above the norm, the large
# ones, those with the end of an episode, and the large ones among these
Run = collections.namedtuple("Run", "learned frames largest_v updates above large ends large_ends")


def run(seed, which, limit):
    """One run of a case."""
    updates, values = [], []

    class Server(clipped.FallingRate):
        def build_update(self, gradients):
            graph = tf.get_default_graph()  # the placeholder of the brain whose update this is:
            discount = graph.get_tensor_by_name(graph.get_name_scope() + "/discount:0")
            end = tf.reduce_any(tf.equal(discount, 0.0))
            norm = tf.global_norm(gradients)
            clips = {"all": True, "end": end, "no end": tf.logical_not(end)}[which]
            too_large = tf.logical_and(norm > limit, clips)
            factor = tf.where(too_large, limit / norm, tf.ones_like(norm))
            note = tf.py_func(lambda *update: updates.append(update), [norm, end], [])
            with tf.control_dependencies([note]):
                return super().build_update([g * factor for g in gradients])

    class Brain(a3c.LocalBrain):
        def build_loss(self, p, v, a, target):
            note = tf.py_func(lambda v: values.append(float(np.abs(v).max())), [v], [])
            with tf.control_dependencies([note]):
                return super().build_loss(p, tf.identity(v), a, target)

    with contextlib.redirect_stdout(io.StringIO()) as out:
        words = f"--render none --test-episodes 1 --seed {seed}"
        status = a3c.main(words.split(), Server, Brain)
    frames = int(re.search(r"earned after (\d+) frames", out.getvalue())[1])
    norms, ends = np.transpose(updates)
    large, ends = norms > min(limit, LARGE), ends > 0
    counts = len(norms), sum(norms > limit), sum(large), sum(ends), sum(large & ends)
    return Run(status == 0, frames, max(values), *map(int, counts))


def load_runs():
    """{case: its runs}"""
    kept = run_statistics.load(DATA)
    return {case: [Run(*numbers) for numbers in kept.get(case, [])] for case in CASES}


def show(case, runs):
    """What the page on variants says of a case."""
    total = Run(*np.sum(runs, axis=0))
    values = [run.largest_v for run in runs]
    return (f"{case}: {len(runs) - total.learned:.0f} of {len(runs)} not learned; "
            f"|V| median {np.median(values):.1f}, worst {max(values):,.1f}, "
            f"above 2 in {np.sum(np.array(values) > 2)} runs; "
            f"norm too large in {total.above / total.updates:.2%} of the updates; with an end: "
            f"{total.large_ends / total.large:.0%} of the large ones, "
            f"{total.ends / total.updates:.0%} of all")


def main():
    _, to_measure = run_statistics.arguments(__doc__)
    if to_measure:
        wanted = {case: seeds for case, (_, _, seeds) in CASES.items()}
        run_statistics.measure_missing(DATA, wanted, lambda case, i: run(i, *CASES[case][:-1]))
    for case, runs in load_runs().items():
        print(show(case, runs))


if __name__ == "__main__":
    main()
