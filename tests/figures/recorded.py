"""The recorded data, and what follows from them."""
import collections
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA = HERE / "data"
sys.path[:0] = [str(ROOT / name)
                for name in ("", "tests", "tests/suite", "tests/exercises", "tests/measurements")]

import measure

# The script has these, too, but importing it would import TensorFlow.
GAMMA = 0.99
N_STEP_RETURN = 5
TIME_LIMIT = 200
# How many rewards a target has before V. GAE has as many on average if λ = 1 - 1/n.
REWARDS = 1, 2, 5, 10, 20, 50, np.inf
KINDS = "ten independent samples", "ten successive steps"
SMALL = 0.01  # a critic's loss, in the mean of 200 updates
Event = collections.namedtuple("Event", "seconds thread pulled made")  # see timeline.py
# Of updates: the root mean square of their errors, its standard error, the bias, the true gradient
Error = collections.namedtuple("Error", "size standard_error bias truth")
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


def updates(score, delta, weights):
    """The gradients of updates with ten independent samples, the first of ten rollouts, and of
    updates with ten successive steps, the first of one rollout (fewer if it ends sooner). An
    advantage is the sum of delta, now and later, with these weights."""
    advantages = [delta[:, t:] @ weights[:delta.shape[1] - t] for t in range(10)]
    pushes = score[:, :10] * np.transpose(advantages)
    steps = np.count_nonzero(score[:, :10], axis=1)
    return pushes[:, 0].reshape(-1, 10).mean(axis=1), pushes.sum(axis=1) / steps


def error(gradients, unbiased):
    """How far gradients are from the true one, which is the mean of the unbiased."""
    truth, bias = unbiased.mean(), np.mean(gradients - unbiased)
    squares = (gradients - truth) ** 2
    root = np.sqrt(squares.mean())
    moved = squares - 2 * bias * (unbiased - truth)  # an update also moves what we take for true
    return Error(root, moved.std() / len(moved) ** 0.5 / (2 * root), bias, truth)


def errors(r, v, score):
    """Of updates with many rollouts from one state, as an array that `load_errors` reads. r, v and
    score (rollouts, steps) are 0 from the end of an episode on; score is the derivative of
    log π(a|s)."""
    delta = r[:, :-1] + GAMMA * v[:, 1:] - v[:, :-1]
    later = np.arange(delta.shape[1])
    unbiased = updates(score, delta, GAMMA ** later)
    by_rewards = [GAMMA ** later * (later < n) for n in REWARDS]
    by_lambda = [(GAMMA * (1 - 1 / n)) ** later for n in REWARDS]
    found = [[error(*pair) for pair in zip(updates(score, delta, weights), unbiased)]
             for weights in by_rewards + by_lambda]
    return np.reshape(found, (2, len(REWARDS), 2, 4)).transpose(2, 0, 1, 3)


def load_errors():
    """{one of KINDS: the errors with n rewards, and with GAE}, each {one of REWARDS: Error}."""
    return {kind: [{n: Error(*error) for n, error in zip(REWARDS, of_targets)}
                   for of_targets in of_kind]
            for kind, of_kind in zip(KINDS, load("rollouts")["errors"])}


def statistics():
    """The numbers that the pages quote."""
    found = {}
    frames, loss = smooth(load("run")["loss/critic"])
    scores = np.interp(frames[loss < SMALL], *load("run")["mean"].T)
    found["mean scores while the critic's loss is small"] = scores.min(), scores.max()
    for thousand in 7, 38:
        found[f"median score after {thousand},000 frames"] = (
            np.nanmedian(measure.load_curves()[:, thousand]))
    for name, push in pushes().items():
        found[f"{name}: standard deviation"] = push.std()
        found[f"{name}: mean"] = push.mean()
    by_kind = load_errors()
    by_rewards, _ = by_kind["ten successive steps"]
    few, whole = by_rewards[5], by_rewards[np.inf]
    found["updates whose mean is as close with all rewards as with five"] = (
        (whole.size ** 2 - few.size ** 2) / few.bias ** 2 + 1)
    size = load("states")["errors"][:, 1, 0, :, 0]  # of ten successive steps: (states, REWARDS)
    five = REWARDS.index(5)
    found["of 40 states: closer with five rewards than with all"] = sum(size[:, five] < size[:, -1])
    found["of 40 states: closest with one or two"] = sum(size.argmin(axis=1) < 2)
    for kind, (by_rewards, by_lambda) in by_kind.items():
        found[f"{kind}: the true gradient"] = by_rewards[1].truth
        for n in REWARDS:
            found[f"{kind}, n = {n:g}: error, its standard error, bias"] = by_rewards[n][:3]
            found[f"{kind}, λ = {1 - 1 / n:g}: error, its standard error, bias"] = by_lambda[n][:3]
    return found
