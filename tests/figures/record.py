"""Let the script learn, play with what it has learned, and keep the data of the pictures."""
import argparse
import collections
import os
import tempfile
from pathlib import Path

import film
import numpy as np
from recorded_data import DATA, REWARDS, SECONDS, error_of, networks
import a3c_cartpole as a3c
from a3c_cartpole import GAMMA, N_STEP_RETURN
from reference import forward

TIME_LIMIT = a3c.gym.spec(a3c.ENV).max_episode_steps
PARTLY = "--max-frames", "12000"
PAUSE = 9  # steps for which the film shows the end of an episode
ROLLOUTS, STEP = 40_000, 20  # episodes that go on from a state, and that state's step
STATE = np.float32([-0.05748988, 0.01110482, 0.08645569, 0.2217515])  # of `record_rollouts`


def keep(name, arrays):
    np.savez_compressed(DATA / f"{name}.npz", **arrays)


def learn(seed, *options):
    """One run of the script. Returns its server, which has kept its first weights as `first`."""
    class Server(a3c.ParameterServer):
        def initialize(self):
            super().initialize()
            self.first = self.session.run(self.weights)
            servers.append(self)
    servers = []
    a3c.main(["--render", "none", "--seed", str(seed), *options], Server)
    return servers[0]


def play(weights, rng, state=None, steps=TIME_LIMIT):
    """One episode, or so many steps from this state on, with actions drawn from π. Returns the
    states (steps + 1, 4), the actions (steps,), and whether it ended with a fall."""
    env = a3c.gym.make(a3c.ENV, disable_env_checker=True).unwrapped  # it has no time limit
    s, _ = env.reset(seed=int(rng.integers(2 ** 31)))
    if state is not None:
        env.state = s = state
    states, actions, fell = [s], [], False
    while not fell and len(actions) < steps:
        p, _ = forward(weights, s[np.newaxis])
        actions.append(int(rng.random() < p[0, 1]))
        s, _, fell, _, _ = env.step(actions[-1])
        states.append(s)
    return np.array(states), actions, fell


def film_rows(episodes):
    """Episodes one after another. Each row holds a state, its step number, and whether the pole or
    the cart has just fallen. The end of an episode stays in the picture for a while."""
    rows = []
    for states, _, fell in episodes:
        rows += [(*s, step, 0) for step, s in enumerate(states[:-1])]
        rows += [(*states[-1], len(states) - 1, fell)] * PAUSE
    return np.array(rows[:film.STEPS], np.float32)


def record_networks(seed):
    """One network at three times, and how it plays. For the pages we chose a run in which V of the
    partly trained network sinks before nearly all of its falls."""
    with tempfile.TemporaryDirectory() as folder:
        server = learn(seed, "--checkpoint", folder, *PARTLY)
        found = {"untrained": (0, server.first)}
        found["partly trained"] = server.progress.frames, server.session.run(server.weights)
        server = learn(seed, "--checkpoint", folder)
        found["learned"] = server.progress.frames, server.session.run(server.weights)
    arrays, data, rng = {}, {}, np.random.default_rng(seed)
    for name, (frames, weights) in found.items():
        arrays[f"{name} frames"] = frames
        arrays.update({f"{name} {i}": w for i, w in enumerate(weights)})
        episodes = [play(weights, rng) for _ in range(20)]
        data[f"film {name}"] = film_rows(episodes)
    keep("networks", arrays)
    keep("episodes", data)


def read_log(logdir):
    """What a run wrote with --logdir: {tag: points (n, 2)}, each its frames and its value. The
    scores of all threads are together under "score"."""
    curves = collections.defaultdict(list)
    for path in sorted(Path(logdir).glob("events.out.tfevents.*")):
        for event in a3c.tf.train.summary_iterator(str(path)):
            for point in event.summary.value:
                tag = "score" if point.tag.startswith("score/") else point.tag
                curves[tag].append((event.step, point.simple_value))
    return {tag: np.array(sorted(points)) for tag, points in curves.items()}


def record_run(seed):
    """The curves of a run. For the pages we chose one in which an evaluation fails."""
    with tempfile.TemporaryDirectory() as logdir:
        learn(seed, "--logdir", logdir)
        curves = read_log(logdir)
    names = "score", "mean", "evaluation", "threshold", "loss/actor", "loss/critic"
    keep("run", {name: curves[name].astype(np.float32) for name in names})


def stretch(events, seconds):
    """Of the events of three threads (n, 4), see timeline.py, the stretch with the median number of
    events, and before it each thread's last pull. It begins at time 0."""
    events = np.array(events)
    time, thread, _, made = events.T
    starts = time[500:-500]  # by then each thread has pulled
    counts = np.searchsorted(time, starts + seconds) - np.searchsorted(time, starts)
    events[:, 0] -= starts[np.argsort(counts)[len(counts) // 2]]
    time = events[:, 0]
    before = [events[(time <= 0) & (thread == i) & (made == 0)][-1] for i in range(3)]
    return np.concatenate([before, events[(time > 0) & (time < seconds)]])


def record_threads(seed):
    """A stretch of each of two runs. Threads that had no time in it make a picture that shows
    little: record again."""
    import timeline
    arrays = {"cores": os.cpu_count()}
    for name, seconds in SECONDS.items():
        events = timeline.record(3, 20_000, seed=seed, SHARE_ONE_CORE=name == "one core")
        arrays[name] = stretch(events, seconds)
    keep("threads", arrays)


def rollouts(weights, rng, state, number):
    """Play so many episodes on from this state of step 20. Returns their rewards, V, and the
    derivatives of log π(a|s) by the log-odds of right, each (number, steps), and 0 from an
    episode's end on."""
    left = TIME_LIMIT - STEP
    r, v, dlogp = np.zeros((3, number, left + 1))
    for i in range(number):
        states, actions, _ = play(weights, rng, state, left)
        n = len(actions)
        p, v[i, :n] = forward(weights, states[:-1])
        dlogp[i, :n] = actions - p[:, 1]
        r[i, n - 1] = -1 if STEP + n < a3c.GOOD_STEPS else 1
    return r, v, dlogp


def record_rollouts(seed):
    """Many episodes that go on from one state, with the partly trained network. For the pages we
    chose a state in which both actions are tried often, but not equally."""
    s, (_, weights) = STATE, networks()["partly trained"]
    r, v, dlogp = rollouts(weights, np.random.default_rng(seed), s, ROLLOUTS)
    returns = r @ GAMMA ** np.arange(r.shape[1])
    # The five rewards before V are 0, because no episode ends so soon.
    bootstrapped = GAMMA ** N_STEP_RETURN * v[:, N_STEP_RETURN]
    pushes = dlogp[:, 0] * [returns, returns - v[:, 0], bootstrapped - v[:, 0]]
    keep("rollouts", {"state": s, "pushes": np.float32(pushes)})


def gradients_of_updates(dlogp, delta, discounts):
    """The gradients of updates with ten independent samples, the first of ten rollouts, and of
    updates with ten successive steps, the first of one rollout (fewer if it ends sooner). An
    advantage is the sum of delta, now and later, with these discounts."""
    advantages = [delta[:, t:] @ discounts[:delta.shape[1] - t] for t in range(10)]
    pushes = dlogp[:, :10] * np.transpose(advantages)
    steps = np.count_nonzero(dlogp[:, :10], axis=1)
    return pushes[:, 0].reshape(-1, 10).mean(axis=1), pushes.sum(axis=1) / steps


def errors_of_state(r, v, dlogp):
    """How far updates from many rollouts of one state are off, in the order in which
    `recorded_data.load_errors` reads them. r, v and dlogp, the derivative of log π(a|s), are
    (rollouts, steps), and 0 from an episode's end on."""
    delta = r[:, :-1] + GAMMA * v[:, 1:] - v[:, :-1]
    later = np.arange(delta.shape[1])
    unbiased = gradients_of_updates(dlogp, delta, GAMMA ** later)
    by_rewards = [GAMMA ** later * (later < n) for n in REWARDS]
    by_lambda = [(GAMMA * (1 - 1 / n)) ** later for n in REWARDS]
    found = [list(map(error_of, gradients_of_updates(dlogp, delta, discounts), unbiased))
             for discounts in by_rewards + by_lambda]
    return np.reshape(found, (2, len(REWARDS), 2, 3)).transpose(2, 0, 1, 3)


def record_states(seed):
    """How far updates are from the true gradient: in four states of each of ten networks, which
    nobody has chosen. Each state is one of step 20 of an episode of its own."""
    rng, found = np.random.default_rng(seed), []
    for network in range(10):
        server = learn(network, *PARTLY)
        weights = server.session.run(server.weights)
        while len(found) < 4 * (network + 1):
            states, *_ = play(weights, rng)
            if len(states) > STEP + N_STEP_RETURN + 1:
                found.append(errors_of_state(*rollouts(weights, rng, states[STEP], ROLLOUTS // 4)))
    keep("states", {"errors": np.array(found)})


def main():
    recorders = {"networks": record_networks, "run": record_run, "rollouts": record_rollouts,
                 "states": record_states, "threads": record_threads}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=recorders)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    args = parser.parse_args()
    recorders[args.what](args.seed)


if __name__ == "__main__":
    main()
