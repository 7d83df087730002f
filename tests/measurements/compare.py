"""Measure what threads are good for: python tests/measurements/compare.py [TABLE]...

TABLE is one of those below, such as cartpole or ages (how much old gradients cost). Each case
learns with seeds 0 to 49 (tuned: 50 to 99), and the cases take turns. The results go into
data/TABLE.json. What is in there already isn't measured again. Without a TABLE, it only shows all
of them.
"""
import argparse
import collections
import json

import benchmark
import numpy as np
import results
from benchmark import HERE

SEEDS = 50
FIRST_SEED = collections.defaultdict(int, tuned=50)
LIMIT = 400_000  # frames; a run that needs more hasn't learned
# What a run took to learn (None: it didn't), the evaluations that failed, and the updates. The
# pages only need frames and failed.
Run = collections.namedtuple("Run", "frames seconds failed gradients episodes")
REFERENCE = "8 threads"
# Options of learners.py and runner.py, and the name of the case that this one is compared with
Case = collections.namedtuple("Case", "options reference", defaults=[REFERENCE])

CARTPOLE, ACROBOT = ("--task", "cartpole"), ("--task", "acrobot")
FROM_0, CORRECTED = (*CARTPOLE, "--optimizer", "from-0"), (*CARTPOLE, "--optimizer", "corrected")
OPTIONS = {
    "1 thread": ("--workers", 1), "2 threads": ("--workers", 2),
    "8 threads": ("--workers", 8), "32 threads": ("--workers", 32),
    "8 that wait": ("--workers", 8, "--learners", "waiting"),
    "8 that wait, off-policy": ("--workers", 8, "--learners", "waiting-off-policy"),
    "8 of ga3c.py": ("--workers", 8, "--learners", "ga3c"),
    "8 threads, all cores": ("--workers", 8, "--set", "SHARE_ONE_CORE", False)}
MOST = ("1 thread", "2 threads", "8 threads", "32 threads", "8 that wait",
        "8 that wait, off-policy")
RATES = {"½": 0.5, "1": 1, "2": 2, "4": 4, "8": 8, "16": 16}


def learners(task, *names):
    """{name: case} of these learners."""
    return {name: Case((*task, *OPTIONS[name])) for name in names}


def rates(task, *names, factors=("½", "2", "4")):
    """{name: case} of these learners with other learning rates."""
    return {f"{name}, rate × {x}": Case((*task, *OPTIONS[name], "--rate", RATES[x]))
            for name in names for x in factors}


def tuned():
    """{name: case} of the learning rates that were best with the other seeds."""
    cases = {}
    for start, task, best, best_waiting in (("CartPole", CARTPOLE, "1", "4"),
                                            ("CartPole, corrected", CORRECTED, "2", "4"),
                                            ("Acrobot", ACROBOT, "4", "8")):
        for name, x in (REFERENCE, best), ("8 that wait", best_waiting):
            [case] = rates(task, name, factors=(x,)).values()
            cases[f"{start}: {name}, rate × {x}"] = Case(
                case.options, f"{start}: {REFERENCE}, rate × {best}")
    return cases


def two_worlds():
    """{name: case} of learners in two worlds, which they change after so many episodes."""
    cases, task = {}, ("--task", "worlds", "--max-frames", 300_000)
    given = {name: OPTIONS[name] for name in ("1 thread", "8 threads")}
    given["8 in the same world"] = *OPTIONS["8 threads"], "--same-world"
    more = {name: OPTIONS[name] for name in ("2 threads", "32 threads")}
    for block in 200, 50, 25, 1:
        length = f"{block} episode{'s' * (block > 1)}"
        for name, own in (given | more if block == 200 else given).items():
            cases[f"{name}, {length}"] = Case((*task, "--block", block, *own),
                                              f"{REFERENCE}, {length}")
    for name in "1 thread", "8 threads", "8 that wait":
        cases[f"{name}, 200 episodes, from 0"] = Case(
            (*task, "--block", 200, "--optimizer", "from-0", *OPTIONS[name]),
            f"{REFERENCE}, 200 episodes, from 0")
    return cases


def rewards():
    """{name: case} of returns with so many rewards. With all of them (no episode has more than 200)
    the script makes one update per episode, so they are compared with five and as many updates."""
    few = "5 rewards, one update per episode"
    given = {"1 reward": (1,), "2 rewards": (2,), "5 rewards": (5,), "10 rewards": (10,),
             "20 rewards": (20,), few: (5, "--set", "Tmax", 200), "all rewards": (200,)}
    return {name + end: Case((*task, "--set", "N_STEP_RETURN", *own),
                             (few if name == "all rewards" else "5 rewards") + end)
            for end, task in (("", CARTPOLE), (", corrected", CORRECTED))
            for name, own in given.items()}


def ages():
    """{name: case} of eight learners whose gradients differ in age."""
    cases = {}
    for start, task in (("CartPole: ", CARTPOLE), ("CartPole, corrected: ", CORRECTED),
                        ("Acrobot: ", ACROBOT),
                        ("Acrobot, no momentum: ", (*ACROBOT, "--optimizer", "no-momentum"))):
        for name, own in {REFERENCE: (), "all cores": ("--set", "SHARE_ONE_CORE", False),
                          "segments in turn": ("--in-turn", "segments"),
                          "updates in turn": ("--in-turn", "updates")}.items():
            cases[start + name] = Case((*task, "--workers", 8, *own), start + REFERENCE)
    return cases


RATED = "1 thread", "8 threads", "8 that wait"
TABLES = {
    "cartpole": (learners(CARTPOLE, *MOST) | rates(CARTPOLE, *RATED)
                 | rates(CARTPOLE, "8 that wait", factors=("8",))
                 | learners(CARTPOLE, "8 threads, all cores")),
    "from_0": (learners(FROM_0, *MOST) | rates(FROM_0, *RATED)
               | learners(FROM_0, "8 of ga3c.py", "8 threads, all cores")),
    "corrected": (learners(CORRECTED, *RATED)
                  | rates(CORRECTED, "8 threads", "8 that wait", factors=("½", "2", "4", "8"))),
    "acrobot": (learners(ACROBOT, *MOST)
                | rates(ACROBOT, "8 threads", factors=("½", "2", "4", "8"))
                | rates(ACROBOT, "8 that wait", factors=("½", "2", "4", "8", "16"))
                | learners(ACROBOT, "8 threads, all cores")),
    "tuned": tuned(), "two_worlds": two_worlds(), "ages": ages(), "rewards": rewards()}


def path(table):
    return HERE / "data" / f"{table}.json"


def load(table):
    """{name: the runs of that case}. The file has the options in place of the names, so a case with
    other options is another case."""
    runs = json.loads(path(table).read_text()) if path(table).exists() else {}
    return {name: [Run(*run) for run in runs.get(" ".join(map(str, case.options)), [])]
            for name, case in TABLES[table].items()}


def keep(runs, table):
    results.keep({" ".join(map(str, TABLES[table][name].options)): own
                  for name, own in runs.items()}, path(table))


def learn(seed, *options):
    """One run of a case."""
    run = benchmark.learn(seed, HERE / "learners.py", "--test-episodes", 1, "--max-frames", LIMIT,
                          *options)
    seconds = round(run["learning"], 3) if run["learned"] else None
    return Run(run.get("frames"), seconds, run["failed"], run["gradients"], run.get("episodes"))


def measure(table):
    runs = load(table)
    for i in range(SEEDS):
        for name, case in TABLES[table].items():
            if len(runs[name]) == i:
                runs[name].append(learn(FIRST_SEED[table] + i, *case.options))
        keep(runs, table)


def compared(table):
    """{case: its ratio to its reference, the bounds, p}; those that are a reference have none."""
    runs = load(table)
    frames = {name: results.column(runs[name], "frames") for name in runs}
    return results.compare_all({
        name: (frames[name], frames[case.reference]) for name, case in TABLES[table].items()
        if name != case.reference and len(runs[name]) == len(runs[case.reference]) > 0},
        paired=True)


def show(table):
    """The rows of a table of the page of measurements."""
    ratios = compared(table)
    for name, runs in load(table).items():
        if not runs:
            yield f"| {name} | not measured |"
            continue
        frames = results.column(runs, "frames")
        median = np.median(frames)
        yield "| {} | {} of {} | {} | {} | {} |".format(
            name, np.isfinite(frames).sum(), len(runs),
            f"{median:,.0f}" if np.isfinite(median) else "–",  # fewer than half have learned
            results.ratio_in_words(*ratios[name]) if name in ratios else "1",
            results.failed_in_words([run.failed for run in runs]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(TABLES))
    args = parser.parse_args()
    if unknown := set(args.tables) - set(TABLES):
        parser.error(f"there is no table {', '.join(sorted(unknown))}")
    for table in args.tables:
        measure(table)
    for table in TABLES:
        print(table, *show(table), sep="\n")


if __name__ == "__main__":
    main()
