"""Measure how well a network knows two worlds while it learns.

After every 2000 frames the learners of two_worlds.py wait, and the policy plays five episodes in
each world. Nothing ends the run but its 100,000 frames. The results of 50 seeds go into
data/forgetting.npz. Without --measure it only shows them.
"""
import collections
import contextlib
import io
import unittest.mock

import numpy as np
import run_statistics
from paths import HERE

import compare_learners
import two_worlds
from script import a3c

DATA = HERE / "data" / "forgetting.npz"
SEEDS = 50
FRAMES, EVERY, EPISODES = 100_000, 2000, 5
LATE = 40_000  # frames
GOOD = 195  # a mean score
WORLDS = 1, -1
REFERENCE = "8 threads"
# {case: learners, the class of their environments, episodes in a world}
CASES = {f"{name}, {block} episodes": (number, environment, block) for block in (200, 25)
         for name, number, environment in (
             ("1 thread", 1, two_worlds.Environment), ("8 threads", 8, two_worlds.Environment),
             ("8 in the same world", 8, compare_learners.SameWorld))}


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


def record(seed, workers, environment_class, block):
    """One run. Returns (evaluations, 3): the mean score in each world, and the share of the
    episodes since the evaluation before that were played in world 1."""
    rows, played = [], []

    class Environment(environment_class):
        def run(self):
            score = super().run()
            played.append(self.env.unwrapped.world)  # self.world may be the next episode's already
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
    words = f"--render none --seed {seed} --workers {workers} --max-frames {FRAMES}"
    with (unittest.mock.patch.object(two_worlds, "EPISODES", block),
          unittest.mock.patch.multiple(a3c, Progress=Progress, LEARNED_MEAN=np.inf),
          contextlib.redirect_stdout(io.StringIO())):
        a3c.main(words.split(), environment_class=Environment, worker_class=Worker)
    return rows[:FRAMES // EVERY - 1]  # the last one may be missing


def load():
    """{case: (runs, evaluations, 3)}, see `record`; {} if nothing has been measured."""
    if not DATA.exists():
        return {}
    with np.load(DATA) as data:
        return {case: data[case] for case in CASES}


def measure():
    """Measure what is missing. The cases take turns. If this is interrupted, the old file stays."""
    recorded = {case: list(load().get(case, [])) for case in CASES}
    for seed in range(min(map(len, recorded.values())), SEEDS):
        for case, how in CASES.items():
            recorded[case].append(np.array(record(seed, *how), np.float16))
        new = DATA.with_suffix(".new.npz")
        np.savez_compressed(new, frames=EVERY * np.arange(1, FRAMES // EVERY), **recorded)
        new.replace(DATA)


def first(reached):
    """The frames when each run first reached something (runs, evaluations), or infinity."""
    frames = EVERY * (1 + np.argmax(reached, axis=1))
    return np.where(reached.any(axis=1), frames, np.inf)


# Of each run: the frames until both worlds had been played, the frames until an evaluation first
# averaged 195 in both and, since LATE, the mean score in the worse world
Summary = collections.namedtuple("Summary", "played good worse")


def summarize(runs, late=LATE):
    scores, in_world_1 = runs[:, :, :2].astype(float), runs[:, :, 2].astype(float)
    played = np.maximum(first(in_world_1 > 0), first(in_world_1 < 1))
    worse = scores.min(axis=2)
    counted = np.arange(1, 1 + worse.shape[1]) * EVERY >= late
    return Summary(played, first(worse >= GOOD), worse[:, counted].mean(axis=1))


def summaries(late=LATE):
    return {case: summarize(runs, late) for case, runs in load().items()}


def absences(runs, scored):
    """The times when the learners of a run were all away from a world, and what became of the score
    there. runs: those that say when that was. scored: the runs whose scores are counted, where this
    world had been good by then. Returns rows of [number of the run, whether the other world had
    been good, too, score at the last evaluation before the absence, score at its last one, when
    they come back or the run ends]."""
    found = []
    for number, (run, scores) in enumerate(
            zip(runs.astype(float), scored.astype(float), strict=True)):
        for world, played in (0, run[:, 2] > 0), (1, run[:, 2] < 1):
            score, other = scores[:, world], scores[:, 1 - world]
            ends = np.flatnonzero(np.diff(played))  # the last evaluation of each stay, here or away
            for left, back in zip(ends, [*ends[1:], len(score) - 1], strict=True):
                if played[left] and score[:left + 1].max() >= GOOD:
                    both_good = other[:left + 1].max() >= GOOD
                    found.append([number, both_good, score[left], score[back]])
    return np.array(found)


def show_absences():
    """The median scores before and after, while the other world had never been good and later. p
    compares the means of each run, because absences in the same run aren't independent."""
    runs = load()
    one, eight, same = (f"{name}, 200 episodes" for name in
                        ("1 thread", "8 threads", "8 in the same world"))
    for case, when in (one, one), (eight, one), (same, same):
        found = absences(runs[when], runs[case])
        for name, wanted in ("never", 0), ("once", 1):
            number, _, before, after = found[found[:, 1] == wanted].T
            means = np.transpose([[before[number == n].mean(), after[number == n].mean()]
                                  for n in np.unique(number)])
            p = run_statistics.p_in_words(run_statistics.signed_rank_test(*means))
            yield (f"{case}, other world {name} good: {len(before)} absences, "
                   f"{np.median(before):.0f} before, {np.median(after):.0f} after, "
                   f"means {before.mean():.0f} and {after.mean():.0f}, {p}")


def p_values(found):
    """{(case, name of a number): p} of the signed-rank test against eight threads. Holm's
    correction covers the whole table."""
    references = {case: REFERENCE + case[case.index(","):] for case in found}
    return run_statistics.holm({
        (case, name): run_statistics.signed_rank_test(
            getattr(found[case], name), getattr(found[other], name))
        for case, other in references.items() if case != other
        for name in ("good", "worse")})


def rows():
    """The rows of the table on the page of measurements."""
    found = summaries()
    p = p_values(found)
    for case, runs in found.items():
        cells = {"played": f"{np.median(runs.played):,.0f}",
                 "good": f"{np.median(runs.good):,.0f}", "worse": f"{np.median(runs.worse):.1f}"}
        for name in cells:
            if (case, name) in p:
                cells[name] += ", " + run_statistics.p_in_words(p[case, name])
        yield f"| {case} | {' | '.join(cells.values())} |"


def main():
    _, to_measure = run_statistics.arguments(__doc__)
    if to_measure:
        measure()
    print("| learners | both played | good in both | worse world |", *rows(), sep="\n")
    print("from 60,000 frames on, in the worse world: median of the mean scores, those below 150")
    for case, runs in summaries(late=60_000).items():
        print(f"{case}: {np.median(runs.worse):.0f}, {sum(runs.worse < 150)}")
    print("absences from a world", *show_absences(), sep="\n")


if __name__ == "__main__":
    main()
