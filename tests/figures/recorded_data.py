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

# The script has these, too, but importing it would import TensorFlow.
GAMMA = 0.99
N_STEP_RETURN = 5
TIME_LIMIT = 200
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
    """{"untrained", "halfway" or "learned": (frames, weights)}, all of one run."""
    data = load("networks")
    return {name: (int(data[f"{name} frames"]), [data[f"{name} {i}"] for i in range(6)])
            for name in ("untrained", "halfway", "learned")}


def read_log(logdir):
    """What a run wrote with --logdir: {tag: points (n, 2)}, each its frames and its value. The
    scores of all threads are together under "score"."""
    from a3c_cartpole import tf
    curves = collections.defaultdict(list)
    for path in sorted(Path(logdir).glob("events.out.tfevents.*")):
        for event in tf.train.summary_iterator(str(path)):
            for point in event.summary.value:
                tag = "score" if point.tag.startswith("score/") else point.tag
                curves[tag].append((event.step, point.simple_value))
    return {tag: np.array(sorted(points)) for tag, points in curves.items()}


def smooth(points, n=200):
    """The mean of n points at a time. Returns frames and values."""
    n = min(n, len(points))
    return [np.convolve(column, np.ones(n) / n, "valid") for column in points.T]


def pushes():
    """How far each of 40,000 samples from one state pushes the log-odds of "right", by three
    estimates: (a - π(right))·X, where X is the return, the return - V(s), or the script's A.
    Returns {X: pushes (40000,)}."""
    names = "return", "return − V(s)", "5 rewards + γ⁵V(s_) − V(s), the script's A"
    return dict(zip(names, load("rollouts")["pushes"]))


def gradients_of_updates(dlogp, delta, discounts):
    """The gradients of updates with ten independent samples, the first of ten rollouts, and of
    updates with ten successive steps, the first of one rollout (fewer if it ends sooner). An
    advantage is the sum of delta, now and later, with these discounts."""
    advantages = [delta[:, t:] @ discounts[:delta.shape[1] - t] for t in range(10)]
    pushes = dlogp[:, :10] * np.transpose(advantages)
    steps = np.count_nonzero(dlogp[:, :10], axis=1)
    return pushes[:, 0].reshape(-1, 10).mean(axis=1), pushes.sum(axis=1) / steps


def error_of(gradients, unbiased):
    """How far gradients are from the true one, which is the mean of the unbiased."""
    truth = unbiased.mean()
    return Error(np.sqrt(np.mean((gradients - truth) ** 2)), np.mean(gradients - unbiased), truth)


def errors_of_state(r, v, dlogp):
    """How far updates from many rollouts of one state are off, as `load_errors` reads it. r, v and
    dlogp, the derivative of log π(a|s), are (rollouts, steps), and 0 from an episode's end on."""
    delta = r[:, :-1] + GAMMA * v[:, 1:] - v[:, :-1]
    later = np.arange(delta.shape[1])
    unbiased = gradients_of_updates(dlogp, delta, GAMMA ** later)
    by_rewards = [GAMMA ** later * (later < n) for n in REWARDS]
    by_lambda = [(GAMMA * (1 - 1 / n)) ** later for n in REWARDS]
    found = [list(map(error_of, gradients_of_updates(dlogp, delta, discounts), unbiased))
             for discounts in by_rewards + by_lambda]
    return np.reshape(found, (2, len(REWARDS), 2, 3)).transpose(2, 0, 1, 3)


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
    for name, push in pushes().items():
        found[f"{name}: standard deviation"] = push.std()
        found[f"{name}: mean"] = push.mean()
    for kind, error in load_errors().items():
        size, truth = error.size[:, 0], abs(error.truth[:, 0, 0])  # (states, REWARDS), (states,)
        five, whole = size[:, REWARDS.index(5)], size[:, -1]
        for words, own in ("all", whole), ("five", five):
            found[f"{kind}, of 40 states: no update is closer than with {words}"] = sum(truth < own)
        needed = (whole ** 2 - five ** 2) / error.bias[:, 0, REWARDS.index(5)] ** 2 + 1
        found[f"{kind}: updates whose mean is as close with all as with five (quartiles)"] = (
            np.quantile(needed, [0.25, 0.5, 0.75]))
    return found
