"""What runs have given: kept in files, compared with the runs of another case, put into words."""
import json

import numpy as np
from scipy import stats


def load(path):
    """{case: its runs}, as a file has them."""
    return json.loads(path.read_text()) if path.exists() else {}


def keep(results, path):
    text = json.dumps(results, separators=(",", ":"))
    path.write_text(text.replace("],\"", "],\n\"") + "\n")


def measure_missing(path, wanted, measure):
    """Measure what a file doesn't have yet, and keep it. wanted: {case: how many runs}; the cases
    take turns. measure(case, i) returns run number i, as numbers."""
    found = load(path)
    for i in range(max(wanted.values())):
        missing = [case for case, number in wanted.items()
                   if len(found.setdefault(case, [])) == i < number]
        for case in missing:
            found[case].append(measure(case, i))
        if missing:
            keep(found, path)


def column(runs, name):
    """This number of each run. One that never got there counts as infinitely long."""
    numbers = [getattr(run, name) for run in runs]
    return np.array([np.inf if number is None else number for number in numbers])


def ratio(x, y, paired=False):
    """The ratio of two groups' medians, and the bounds of its 95% interval: where it lies if runs
    are drawn from both groups again and again, with replacement (the bootstrap). paired: the runs
    have the same seeds, and are drawn together."""
    def of_medians(x, y, axis=-1):
        return np.median(x, axis=axis) / np.median(y, axis=axis)
    with np.errstate(invalid="ignore"):  # of runs that are infinitely long
        found = stats.bootstrap((x, y), of_medians, method="percentile", vectorized=True,
                                paired=paired, rng=np.random.default_rng(0))
        return of_medians(x, y), *found.confidence_interval


def rank_test(x, y, paired=False):
    """p of Mann and Whitney's test or, for runs with the same seeds, of Wilcoxon's signed-rank
    test of their ratios."""
    if not paired:
        return stats.mannwhitneyu(x, y).pvalue
    return signed_rank_test(np.log(x), np.log(y))


def signed_rank_test(x, y):
    """p of Wilcoxon's signed-rank test of x - y. Two infinite numbers are equal."""
    with np.errstate(invalid="ignore"):
        return stats.wilcoxon(np.where(x == y, 0, x - y)).pvalue


def holm(p):
    """{case: p} corrected by Holm's method: the chance that any p is below 0.05 although nothing
    differs anywhere is at most 5%."""
    largest, corrected = 0.0, {}
    for i, case in enumerate(sorted(p, key=p.get)):
        largest = max(largest, min(1.0, p[case] * (len(p) - i)))
        corrected[case] = largest
    return corrected


def compare_all(pairs, paired=False):
    """{case: the ratio of its two groups, the bounds, the corrected p}"""
    p = holm({case: rank_test(*groups, paired) for case, groups in pairs.items()})
    return {case: (*ratio(*groups, paired), p[case]) for case, groups in pairs.items()}


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


def in_words(numbers, compared=None):
    """The median of these runs, and what `compare_all` has found, if they were compared."""
    words = f"median {np.median(numbers):,.0f}"
    if compared is not None:
        words += ", ratio {:.2f} ({:.2f} to {:.2f}), p = {:.2g}".format(*compared)
    return words
