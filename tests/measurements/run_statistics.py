"""What runs have given: kept in files, compared with the runs of another case, put into words."""
import argparse
import json

import numpy as np


def arguments(description, names=(), what=None):
    """What the user of a measuring program has chosen: names, or all, and whether to measure.
    what: what a name stands for."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    if names:
        parser.add_argument("names", nargs="*", metavar=what, help=", ".join(names))
    parser.add_argument("--measure", action="store_true", help="measure what is missing, and show")
    args = parser.parse_args()
    chosen = getattr(args, "names", [])
    if unknown := set(chosen) - set(names):
        parser.error(f"there is no {what.lower()} {', '.join(sorted(unknown))}")
    return chosen or list(names), args.measure


def load(path):
    """{case: its runs}, as a file has them."""
    return json.loads(path.read_text()) if path.exists() else {}


def keep(results, path):
    """Write a file with a line for each case. If this is interrupted, the old one stays."""
    text = json.dumps(results, separators=(",", ":"))
    new = path.with_suffix(".new")
    new.write_text(text.replace("],\"", "],\n\"") + "\n")
    new.replace(path)


def measure_missing(path, wanted, measure):
    """Measure what a file doesn't have yet, and keep it. wanted: {case: how many runs}; the cases
    take turns. measure(case, i) returns run number i, as numbers."""
    found = load(path)
    for i in range(max(wanted.values())):
        missing = [case for case, number in wanted.items()
                   if len(found.setdefault(case, [])) == i < number]
        for case in missing:
            found[case].append(measure(case, i))
            keep(found, path)


def column(runs, name):
    """This number of each run. One that never got there counts as infinitely long."""
    numbers = [getattr(run, name) for run in runs]
    return np.array([np.inf if number is None else number for number in numbers])


def difference(x, y):
    """x - y, where two infinite numbers are equal."""
    with np.errstate(invalid="ignore"):
        return np.where(x == y, 0, x - y)


def signed_rank_test(x, y):
    """p of Wilcoxon's signed-rank test of x - y."""
    from scipy import stats  # benchmark.py, which readers run, does without SciPy
    return stats.wilcoxon(difference(x, y)).pvalue


def ratio(x, y):
    """The typical ratio of runs with the same seeds, and the bounds of its 95% interval: all
    ratios that Wilcoxon's test doesn't reject. Hodges and Lehmann found both (1963): take the
    mean log ratio of every two pairs, and of each pair with itself. The typical one is the median
    of these, and the bounds are as far from either end of the sorted means as the test's rank sum
    may be from 0."""
    logs = difference(np.log(x), np.log(y))
    n = len(logs)
    first, second = np.triu_indices(n)
    with np.errstate(invalid="ignore"):
        means = (logs[first] + logs[second]) / 2
    means[np.isnan(means)] = 0  # in one pair only the first run has learned, in one the second
    means.sort()
    expected, deviation = n * (n + 1) / 4, np.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    skipped = max(int(expected - 1.96 * deviation), 0)
    return np.exp([np.median(means), means[skipped], means[-1 - skipped]])


def holm(p):
    """{case: p} corrected by Holm's method: the chance that any p is below 0.05 although nothing
    differs anywhere is at most 5%."""
    largest, corrected = 0.0, {}
    for i, case in enumerate(sorted(p, key=p.get)):
        largest = max(largest, min(1.0, p[case] * (len(p) - i)))
        corrected[case] = largest
    return corrected


def compare_all(pairs):
    """pairs: {case: two groups of runs with the same seeds}. Returns {case: their ratio, its
    bounds, the corrected p}."""
    p = holm({case: signed_rank_test(*np.log(groups)) for case, groups in pairs.items()})
    return {case: (*ratio(*groups), p[case]) for case, groups in pairs.items()}


def p_in_words(p):
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def ratio_in_words(middle, low, high, p):
    """As in the pages' tables: bold if p is below 0.05."""
    words = f"{middle:.2f} ({low:.2f} to {high:.2f}), {p_in_words(p)}"
    return f"**{words}**" if p < 0.05 else words


def failed_in_words(failed):
    """failed: for each run, how many of its evaluations have failed."""
    runs = sum(map(bool, failed))
    return f"{sum(failed)}, in {runs} run{'s' * (runs > 1)}" if runs else "0"
