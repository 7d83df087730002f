"""The recorded data, and what follows from them: values in falls, and pushes by samples."""
import collections
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA = HERE / "data"
sys.path[:0] = [str(ROOT / name)
                for name in ("", "tests", "tests/exercises", "tests/measurements")]
from reference import forward

# The script has these, too, but importing it would import TensorFlow.
GAMMA = 0.99
N_STEP_RETURN = 5
TIME_LIMIT = 200
# The mean scores that the variants have to exceed
THRESHOLDS = {"pendulum": -200, "memory": 199, "memory_pendulum": -200, "pong": 18}
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


def falls():
    """A hundred falls of the halfway network. Returns the states (100, 51, 4), the fallen one last,
    V in them (100, 51), the return after each step (50,), and its advantage (100, 50)."""
    states = load("episodes")["falls"]
    _, weights = networks()["halfway"]
    v = np.array([forward(weights, s)[1] for s in states])
    returns = -GAMMA ** np.arange(49, -1, -1)
    target = np.tile(returns, (100, 1))  # which is known when the last five steps are pushed
    target[:, :-N_STEP_RETURN] = GAMMA ** N_STEP_RETURN * v[:, N_STEP_RETURN:-1]
    return states, v, returns, target - v[:, :-1]


def pushes():
    """How far each of 40,000 samples from one state pushes the log-odds of "right", by three
    estimates: (a - π(right))·X, where X is the return, the return - V(s), or the script's A.
    Returns {X: pushes (40000,)}."""
    data = load("rollouts")
    p, [v] = forward(networks()["halfway"][1], data["state"][np.newaxis])
    lengths = data["lengths"]
    # Only the last step has a reward, and no episode ends within five steps.
    returns = np.where(lengths < TIME_LIMIT - 1, -1, 1) * GAMMA ** (lengths - data["step"] - 1)
    bootstrapped = GAMMA ** N_STEP_RETURN * data["v_"]
    score = data["right"] - p[0, 1]  # the derivative of log π(a|s) by the log-odds
    return {"return": score * returns, "return − V(s)": score * (returns - v),
            "5 rewards + γ⁵V(s_) − V(s), the script's A": score * (bootstrapped - v)}


def errors(pushes, n):
    """How far an average of n pushes is from the true gradient (root mean square). Only A is
    biased, so the mean of return − V(s) is the best estimate of the true gradient."""
    _, minus_v, script = pushes.values()
    biases = 0, 0, script.mean() - minus_v.mean()
    return [np.sqrt(push.var() / n + bias ** 2) for push, bias in zip(pushes.values(), biases)]


def crossing(pushes):
    """How many samples an average needs until A's bias costs more than its lower noise saves."""
    n = np.arange(1, 1000)
    _, minus_v, script = errors(pushes, n)
    return n[script < minus_v].max()


def statistics():
    """The numbers that the pages quote."""
    _, v, _, advantages = falls()
    mean, samples = advantages.mean(axis=0), pushes()
    found = {"falls with a lower V in the last step than 30 before": sum(v[:, -2] < v[:, -32]),
             "lowest V in the last step": v[:, -2].min(),
             "last steps in which the mean advantage is negative": np.argmax(mean[::-1] >= 0),
             "steps before the end of the lowest mean advantage": 50 - mean.argmin(),
             "samples up to which A is closer": crossing(samples)}
    for (name, push), error in zip(samples.items(), errors(samples, 10)):
        found[f"{name}: standard deviation"] = push.std()
        found[f"{name}: mean"] = push.mean()
        found[f"{name}: error of an average of ten"] = error
    return found
