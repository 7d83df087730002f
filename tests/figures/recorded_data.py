"""The recorded data, and what follows from them."""
import collections
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
sys.path[:0] = [str(HERE.parent / "measurements"), str(HERE.parent / "exercises")]
from paths import ROOT
import measure_exercises

# How many rewards a target has before V. GAE has as many on average if λ = 1 - 1/n.
REWARDS = 1, 2, 5, 10, 20, 50, np.inf
KINDS = "ten independent samples", "ten successive steps"
SMALL = 0.01  # a critic's loss, in the mean of 200 updates
Event = collections.namedtuple("Event", "seconds thread pulled made")  # see timeline.py
# Of updates: the root mean square of their errors, the bias, and the true gradient
Error = collections.namedtuple("Error", "size bias truth")
SECONDS = {"all cores": 0.0035, "one core": 0.015}  # how long the stretches of threads.png are


def load(name):
    with np.load(DATA / f"{name}.npz") as data:
        return dict(data)


def networks():
    """{"untrained", "partly trained" or "learned": (frames, weights)}, all of one run."""
    data = load("networks")
    return {name: (int(data[f"{name} frames"]), [data[f"{name} {i}"] for i in range(6)])
            for name in ("untrained", "partly trained", "learned")}


def smooth(points, n=200):
    """The mean of n points at a time. Returns frames and values."""
    n = min(n, len(points))
    return [np.convolve(column, np.ones(n) / n, "valid") for column in points.T]


def pushes():
    """How far each of 40,000 samples from one state pushes the log-odds of "right", by three
    estimates: (a - π(right))·X, where X is the return, the return - V(s), or the script's A.
    Returns {X: pushes (40000,)}."""
    names = "return", "return − V(s)", "5 rewards + γ⁵V(s₅) − V(s), the script's A"
    return dict(zip(names, load("rollouts")["pushes"]))


def error_of(gradients, unbiased):
    """How far gradients are from the true one, which is the mean of the unbiased."""
    truth = unbiased.mean()
    return Error(np.sqrt(np.mean((gradients - truth) ** 2)), np.mean(gradients - unbiased), truth)


def load_errors():
    """{one of KINDS: Error}, whose numbers are arrays (40 states, n rewards or GAE, REWARDS)."""
    found = load("states")["errors"]  # (states, kinds, ..., numbers)
    return {kind: Error(*np.moveaxis(found[:, i], -1, 0)) for i, kind in enumerate(KINDS)}


def statistics():
    """The numbers that the pages quote."""
    found = {}
    frames, loss = smooth(load("run")["loss/critic"])
    scores = np.interp(frames[loss < SMALL], *load("run")["mean"].T)
    found["mean scores while the critic's loss is small"] = scores.min(), scores.max()
    for thousand in 7, 38:
        found[f"median score after {thousand},000 frames"] = (
            np.nanmedian(measure_exercises.load_curves()[:, thousand]))
    for what, kind in ("samples", KINDS[0]), ("updates", KINDS[1]):
        # With five rewards, and with all
        five, every = (Error(*(numbers[:, 0, column] for numbers in load_errors()[kind]))
                       for column in (REWARDS.index(5), -1))
        share = (five.truth + five.bias) / five.truth
        found[f"mean push of {what}, divided by the true one (quartiles)"] = np.quantile(
            share, [0.25, 0.5, 0.75])
        deviation = np.sqrt(five.size ** 2 - five.bias ** 2)
        found[f"states where five rewards have more mean push per noise ({what})"] = sum(
            share / deviation > 1 / every.size)
    # The rest is about the script's updates
    found["states where no update would have a smaller error"] = sum(five.size > abs(five.truth))
    found["updates whose mean is as close with all as with five (quartiles)"] = np.quantile(
        (every.size ** 2 - five.size ** 2) / five.bias ** 2 + 1, [0.25, 0.5, 0.75])
    return found
