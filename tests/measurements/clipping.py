"""Does V run away if gradients are clipped? python tests/measurements/clipping.py [SEEDS]

For each way of clipping, runs of clipped.py: how many don't learn, and how large |V| gets in an
update, although no return exceeds 1. Also: how many gradients are clipped, and what share of the
large ones belongs to updates with the end of an episode.
"""
import argparse
import collections
import contextlib
import io
import re
import statistics

import paths  # so that the variants are found
import clipped
from script import a3c, np, tf

CASES = [  # what is clipped: updates with the end of an episode, or others; the norm; the rate
    ("both", np.inf, 1), ("both", 5, 1), ("both", 2, 1), ("both", 1, 1), ("both", 0.5, 1),
    ("both", 0.5, 0.4), ("both", np.inf, 3), ("both", 0.25, 1), ("end", 0.25, 1),
    ("other", 0.25, 1)]


Run = collections.namedtuple("Run", "learned frames largest_v updates")
# The norm of its gradient, and whether one of its samples is at the end of an episode
Update = collections.namedtuple("Update", "norm end")


def run(what, limit, seed):
    """Returns what one run of this case has given."""
    updates, values = [], []

    class Server(clipped.FallingRate):
        def build_update(self, gradients):
            graph = tf.get_default_graph()
            discount = graph.get_tensor_by_name(graph.get_name_scope() + "/discount:0")
            end = tf.reduce_any(tf.equal(discount, 0.0))
            norm = tf.global_norm(gradients)
            clips = {"both": True, "end": end, "other": tf.logical_not(end)}[what]
            too_large = tf.logical_and(norm > limit, clips)
            factor = tf.where(too_large, limit / norm, tf.ones_like(norm))
            note = tf.py_func(lambda *update: updates.append(Update(*update)), [norm, end], [])
            with tf.control_dependencies([note]):
                return super().build_update([g * factor for g in gradients])

    class Brain(a3c.LocalBrain):
        def build_loss(self, p, v, a, target):
            note = tf.py_func(lambda v: values.append(np.abs(v).max()), [v], [])
            with tf.control_dependencies([note]):
                return super().build_loss(p, tf.identity(v), a, target)

    with contextlib.redirect_stdout(io.StringIO()) as out:
        words = f"--render none --test-episodes 1 --seed {seed}"
        status = a3c.main(words.split(), Server, Brain)
    frames = int(re.search(r"earned after (\d+) frames", out.getvalue())[1])
    return Run(status == 0, frames, max(values), updates)


def show(case, runs):
    what, limit, rate = case
    values = [run.largest_v for run in runs]
    updates = [update for run in runs for update in run.updates]
    large = [update for update in updates if update.norm > min(limit, 0.5)]
    clipped = np.mean([update.norm > limit for update in updates])
    ends_of_large, ends = (np.mean([update.end for update in of]) for of in (large, updates))
    print(f"{what} {limit}, rate times {rate}: "
          f"{sum(not run.learned for run in runs)} of {len(runs)} not learned; "
          f"|V| median {statistics.median(values):.2f}, worst {max(values):,.1f}; "
          f"frames {statistics.median(run.frames for run in runs):,.0f}; clipped {clipped:.2%}; "
          f"with an end: {ends_of_large:.0%} of the large ones, {ends:.0%} of all", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seeds", type=int, nargs="?", default=100, metavar="SEEDS")
    seeds = parser.parse_args().seeds
    for case in CASES:
        what, limit, rate = case
        a3c.configure()
        a3c.configure(LEARNING_RATE=a3c.LEARNING_RATE * rate)
        show(case, [run(what, limit, seed) for seed in range(seeds)])


if __name__ == "__main__":
    main()
