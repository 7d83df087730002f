"""Does V run away if gradients are clipped? python tests/measurements/clipping.py [SEEDS]

For each way of clipping, runs of clipped.py: how many don't learn, and how large |V| gets in an
update, although no return exceeds 1. Also: how many gradients are clipped, and what share of the
large ones belongs to updates with the end of an episode.
"""
import argparse
import contextlib
import io
import re
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "variants"))
import clipped
from script import a3c, np, tf

CASES = [  # what is clipped: updates with the end of an episode, or others; the norm; the rate
    ("both", np.inf, 1), ("both", 5, 1), ("both", 2, 1), ("both", 1, 1), ("both", 0.5, 1),
    ("both", 0.5, 0.4), ("both", np.inf, 3), ("both", 0.25, 1), ("end", 0.25, 1),
    ("other", 0.25, 1)]


def run(what, limit, seed):
    """One run: its exit status, its frames, the largest |V|, and of each update: the norm of its
    gradient, and whether it contains the end of an episode."""
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
            note = tf.py_func(lambda *update: updates.append(update), [norm, end], [])
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
    return status, frames, max(values), updates


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seeds", type=int, nargs="?", default=100, metavar="SEEDS")
    seeds = parser.parse_args().seeds
    for what, limit, rate in CASES:
        a3c.configure(LEARNING_RATE=0.005 * rate)
        runs = (run(what, limit, seed) for seed in range(seeds))
        statuses, frames, values, updates = zip(*runs)
        every = [update for of_run in updates for update in of_run]
        beyond = [norm > limit for norm, _ in every]
        ends = [end for norm, end in every if norm > min(limit, 0.5)]
        print(f"{what} {limit}, rate times {rate}: {sum(map(bool, statuses))} of {seeds} not "
              f"learned; |V| median {statistics.median(values):.2f}, worst {max(values):,.1f}; "
              f"frames {statistics.median(frames):,.0f}; clipped {np.mean(beyond):.2%}; with "
              f"an end: {np.mean(ends):.0%} of the large ones, "
              f"{np.mean([end for _, end in every]):.0%} of all", flush=True)


if __name__ == "__main__":
    main()
