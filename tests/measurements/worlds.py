"""Measure how well a network knows two worlds while it learns: python tests/measurements/worlds.py

After every 2000 frames the learners of two_worlds.py wait, and the policy plays five episodes in
each world. Nothing ends the run but its 100,000 frames. The results of 50 seeds go into
data/worlds.npz. With --show it only shows them.
"""
import argparse
import contextlib
import io
import sys
import unittest.mock

import benchmark
import numpy as np

sys.path.insert(0, str(benchmark.VARIANTS))
import learners
import two_worlds
from learners import a3c

DATA = benchmark.HERE / "data" / "worlds.npz"
SEEDS = 50
FRAMES, EVERY, EPISODES = 100_000, 2000, 5
WORLDS = 1, -1
# {case: learners, the class of their environments, episodes until a world is drawn anew}
CASES = {f"{name}, {block} episodes": (number, environment, block) for block in (200, 25)
         for name, number, environment in (
             ("1 thread", 1, two_worlds.Environment), ("8 threads", 8, two_worlds.Environment),
             ("8 in the same world", 8, learners.SameWorld))}


class Progress(a3c.Progress):
    """An evaluation is due every 2000 frames."""
    due = EVERY

    def episode_ended(self, score):
        with self.changed:
            if self.phase == "training" and self.frames >= self.due:
                self.due += EVERY
                self.phase = "evaluating"
                self.changed.notify_all()
            return super().episode_ended(score)


def record(seed, learners, environment_class, block):
    """One run. Returns (evaluations, 3): the mean score in each world, and the share of the
    episodes since the evaluation before that were played in world 1."""
    rows, played = [], []

    class Environment(environment_class):
        def run(self):
            score = super().run()
            played.append(self.world)
            return score

    class Worker(a3c.Worker_thread):
        def evaluate(self):
            environment = self.environment
            environment.agent.brain.pull_parameter_server()
            scores = {world: [] for world in WORLDS}
            for _ in range(2 * EPISODES):  # the worlds take turns
                score = environment.play(environment.env)
                scores[environment.world].append(score)
            rows.append([*map(np.mean, scores.values()), np.mean(np.equal(played, 1))])
            played.clear()
            self.progress.evaluated(passed=False)

    two_worlds.configure()
    words = f"--render none --seed {seed} --workers {learners} --max-frames {FRAMES}"
    with (unittest.mock.patch.object(two_worlds, "EPISODES", block),
          unittest.mock.patch.multiple(a3c, Progress=Progress, LEARNED_MEAN=np.inf),
          contextlib.redirect_stdout(io.StringIO())):
        a3c.main(words.split(), environment_class=Environment, worker_class=Worker)
    return rows[:FRAMES // EVERY - 1]  # the last one may be missing


def measure():
    recorded = {case: [] for case in CASES}
    for seed in range(SEEDS):
        for case, how in CASES.items():
            recorded[case].append(record(seed, *how))
        print(f"seed {seed}", flush=True)
    np.savez_compressed(DATA, **{case: np.array(runs, np.float16)
                                 for case, runs in recorded.items()})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--show", action="store_true")
    if not parser.parse_args().show:
        measure()


if __name__ == "__main__":
    main()
