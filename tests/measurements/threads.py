"""Measure what threads are good for: python tests/measurements/threads.py [TABLE]...

TABLE is one of those below, such as cartpole or ages (how much old gradients cost). Each case
learns with seeds 0 to 49, and the cases take turns. All results go into data/TABLE.json. What
is in there already isn't measured again. Without a TABLE, it only shows all of them.
"""
import argparse
import collections
import json
import re

import benchmark
import numpy as np
import results
from benchmark import HERE

SEEDS = 50
LIMIT, LIMIT_OF_WORLDS = 400_000, 300_000  # frames; a run that needs more hasn't learned
# Frames, seconds and episodes until learned (None: never), evaluations that failed, and updates
Run = collections.namedtuple("Run", "frames seconds failed gradients episodes")
REFERENCE = "8 threads"
RATES = {"½": 0.5, "2": 2, "4": 4, "8": 8}
# Options of learners.py, and the name of the case that this one is compared with
Case = collections.namedtuple("Case", "options reference", defaults=[REFERENCE])


def learners(rates="½24"):
    """{name: case} of learners that differ in number, rate, or whether they wait."""
    options = {"1 thread": ("--workers", 1), "2 threads": ("--workers", 2),
               REFERENCE: ("--workers", 8), "32 threads": ("--workers", 32),
               "8 that wait": ("--workers", 8, "--wait"),
               "8 that wait, off-policy": ("--workers", 8, "--wait", "--off-policy")}
    for name in "1 thread", REFERENCE, "8 that wait":
        for x in rates:
            options[f"{name}, rate × {x}"] = *options[name], "--rate", RATES[x]
    return {name: Case(own) for name, own in options.items()}


def worlds():
    """{name: case} of learners in two worlds, which they change after so many episodes."""
    alone, eight, cases = ("--workers", 1), ("--workers", 8), {}
    for block in 200, 50, 25, 1:
        length = f"{block} episode{'s' * (block > 1)}"
        given = {"1 thread": alone, REFERENCE: eight,
                 "8 in the same world": (*eight, "--same-world")}
        if block == 200:
            given |= {"2 threads": ("--workers", 2), "32 threads": ("--workers", 32)}
        for name, own in given.items():
            cases[f"{name}, {length}"] = Case((*own, "--block", block), f"{REFERENCE}, {length}")
    for name, own in ("1 thread", alone), (REFERENCE, eight), ("8 that wait", (*eight, "--wait")):
        cases[f"{name}, 200 episodes, from 0"] = Case(
            (*own, "--from-0"), f"{REFERENCE}, 200 episodes, from 0")
    return cases


def returns():
    """{name: case} of returns with so many rewards. With all of them (no episode has more than 200)
    the script makes one update per episode, so they are compared with five and as many updates."""
    few = "5 rewards, one update per episode"
    rewards = {"1 reward": (1,), "2 rewards": (2,), "5 rewards": (5,), "10 rewards": (10,),
               "20 rewards": (20,), few: (5, "--set", "Tmax", 200), "all rewards": (200,)}
    return {name + start: Case((*own, "--set", "N_STEP_RETURN", *n),
                               (few if name == "all rewards" else "5 rewards") + start)
            for start, own in (("", ()), (", from 0", ("--from-0",)))
            for name, n in rewards.items()}


def ages():
    """{name: case} of eight learners whose gradients differ in age."""
    cases = {}
    for start, own in (("CartPole: ", ("--task", "cartpole")),
                       ("CartPole, corrected: ", ("--task", "cartpole", "--corrected")),
                       ("Acrobot: ", ("--task", "acrobot")),
                       ("Acrobot, no momentum: ", ("--task", "acrobot", "--no-momentum"))):
        for name, given in {REFERENCE: (), "all cores": ("--set", "SHARE_ONE_CORE", False),
                            "segments in turn": ("--in-turn", "segments"),
                            "updates in turn": ("--in-turn", "updates")}.items():
            cases[start + name] = Case((*own, "--workers", 8, *given), start + REFERENCE)
    return cases


ALL_CORES = {"8 threads, all cores": Case(("--workers", 8, "--set", "SHARE_ONE_CORE", False))}
# {table: options of all its cases, its cases}
TABLES = {"cartpole": (("--task", "cartpole"), learners() | ALL_CORES),
          "from_0": (("--task", "cartpole", "--from-0"),
                     learners() | {"8 of ga3c.py": Case(("--workers", 8, "--ga3c"))} | ALL_CORES),
          "corrected": (("--task", "cartpole", "--corrected"),
                        {name: case for name, case in learners("½248").items()
                         if re.fullmatch("1 thread|8 th.*|8 that wait(, rate.*)?", name)
                         and "off-policy" not in name}),
          "ages": ((), ages()),
          "rewards": (("--task", "cartpole"), returns()),
          "acrobot": (("--task", "acrobot"),
                      {name: case for name, case in (learners() | ALL_CORES).items()
                       if not name.startswith("1 thread, rate")}),
          "worlds": (("--task", "worlds"), worlds())}


def path(table):
    return HERE / "data" / f"{table}.json"


def load(table):
    """{name: the runs of that case}"""
    cases = json.loads(path(table).read_text()) if path(table).exists() else {}
    return {name: [Run(*run) for run in runs] for name, runs in cases.items()}


def learn(seed, table, name):
    """One run of a case."""
    options, cases = TABLES[table]
    limit = LIMIT_OF_WORLDS if table == "worlds" else LIMIT
    run = benchmark.learn(seed, HERE / "learners.py", *options, *cases[name].options,
                          "--max-frames", limit, "--test-episodes", 1)
    seconds = round(run["learning"], 3) if run["learned"] else None
    return Run(run.get("frames"), seconds, run["failed"], run["gradients"], run.get("episodes"))


def measure(table):
    cases = TABLES[table][1]
    runs = {name: [] for name in cases} | load(table)
    for seed in range(SEEDS):
        for name in cases:
            if len(runs[name]) == seed:
                runs[name].append(learn(seed, table, name))
        results.keep(runs, path(table))


def compared(table):
    """{case: its median of frames, and its ratio to its reference in words}"""
    runs, cases = load(table), TABLES[table][1]
    frames = {name: results.column(runs[name], "frames") for name in cases}
    found = results.compare({name: (frames[name], frames[case.reference])
                             for name, case in cases.items() if name != case.reference},
                            paired=True)
    words = {name: results.ratio_in_words(*ratio) for name, ratio in found.items()}
    return {name: (np.median(frames[name]), words.get(name, "1")) for name in cases}


def show(table):
    """The rows of a table of the page of measurements."""
    cases = load(table)
    for name, (median, ratio) in compared(table).items():
        runs = cases[name]
        learned = sum(run.frames is not None for run in runs)
        words = results.failed_in_words([run.failed for run in runs])
        frames = f"{median:,.0f}" if np.isfinite(median) else "–"  # fewer than half have learned
        yield f"| {name} | {learned} of {len(runs)} | {frames} | {ratio} | {words} |"


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
