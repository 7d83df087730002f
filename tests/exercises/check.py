"""Check your answer to an exercise: python tests/exercises/check.py gae FILE

FILE is the script with your changes. For synchronous it may also be a program whose main takes the
script's classes. Both checks give your server another optimizer, plain gradient descent, and
compare the moves of the shared weights with gradients that NumPy computes.

gae: an update of ten steps, and one of seven that end an episode, have to move the weights as
generalized advantage estimation says (γ = 0.99, λ = 0.95).

synchronous: no learner may act with other weights than the shared ones, eight learners make one
update where each of them would make one, and this update takes the mean of their gradients. It may
be the mean over the learners, where each counts the same, or over all their samples, where a
learner that has played more steps counts more.
"""
import argparse
import contextlib
import importlib.util
import io
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "variants")]
import reference

GAMMA, LAMBDA = 0.99, 0.95
LEARNERS, FRAMES = 8, 2000
RATE = 0.01  # of the check for synchronous: so small that even a sum of gradients does no harm


def load(path):
    """The program as a module."""
    spec = importlib.util.spec_from_file_location("answer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gradient_descent(a3c, rate):
    """A server whose weights an update moves by minus the gradient, times the rate. Its class
    remembers the last server, and this counts the updates."""
    tf = a3c.tf

    class Counting(tf.train.GradientDescentOptimizer):
        def apply_gradients(self, *args, **kwargs):
            update = super().apply_gradients(*args, **kwargs)
            return tf.group(update, Server.last.updates.assign_add(1, read_value=False))

    class Server(a3c.ParameterServer):
        def build_optimizer(self):
            Server.last = self
            self.updates = tf.get_variable("updates", (), tf.int32, tf.zeros_initializer(),
                                           trainable=False)
            return Counting(rate)
    return Server


def gae(r, v, terminal):
    """The advantages. r: (steps,). v: of all states, with the one after the last step."""
    v_ = np.append(v[1:-1], 0.0 if terminal else v[-1])
    delta = r + GAMMA * v_ - v[:-1]
    return [sum((GAMMA * LAMBDA) ** n * d for n, d in enumerate(delta[t:])) for t in range(len(r))]


def check_gae(a3c):
    """Returns what is wrong, or nothing. Two segments: one in an episode, and one at its end."""
    rng = np.random.default_rng(0)
    with a3c.tf.Graph().as_default():
        a3c.tf.set_random_seed(0)
        progress = a3c.Progress(a3c.parse(["--render", "none", "--seed", "0"]))
        server = gradient_descent(a3c, 1.0)(a3c.open_session(), progress)
        brain = a3c.LocalBrain("local_thread1", server)
        agent = a3c.Agent(brain, None)
        server.initialize()
    for steps, terminal, where in (10, False, "in the middle"), (7, True, "at the end"):
        brain.pull_parameter_server()
        weights = [w.astype(float) for w in server.session.run(server.weights)]
        s, r = rng.normal(size=(steps + 1, 4)), rng.normal(size=steps)
        a = rng.integers(2, size=steps)
        for t in range(steps):
            end = terminal and t == steps - 1
            agent.advantage_push_local_brain(s[t], a[t], r[t], s[t + 1], end, end)
        brain.update_parameter_server()
        moved = [w - x for w, x in zip(server.session.run(server.weights), weights)]
        _, v = reference.forward(weights, s)
        # With a discount of 0, the target is R, and the advantage R - V(s).
        R, discount = v[:-1] + gae(r, v, terminal), np.zeros(steps)
        wanted = reference.gradient(weights, s[:-1], a, R, s[1:], discount)
        if not all(np.allclose(m, -g, atol=1e-3) for m, g in zip(moved, wanted)):
            return f"the update {where} of an episode isn't what GAE says"


def play_rounds(program):
    """Let eight learners play. A round is what they do between two moves of the shared weights.
    Returns all rounds in their order, the number of updates, and for each action whether the
    learner's weights were outdated. A round: (the shared weights, {learner's brain: its samples}).
    """
    # A changed script has its own classes; a program with new ones imports the script.
    a3c = program if hasattr(program, "LocalBrain") else sys.modules["a3c_cartpole"]
    rounds, outdated = {}, []

    def this_round(weights):
        return rounds.setdefault(b"".join(w.tobytes() for w in weights), (weights, {}))

    class Brain(a3c.LocalBrain):
        def predict_p(self, s):
            mine, shared = self.server.session.run([self.weights, self.server.weights])
            this_round(shared)
            outdated.append(not all(map(np.array_equal, mine, shared)))
            return super().predict_p(s)

        def train_push(self, *sample):
            # If all wait for each other, the weights don't move before this sample's own update.
            _, samples = this_round(self.server.session.run(self.server.weights))
            samples.setdefault(self, []).append(sample)
            super().train_push(*sample)

    words = f"--render none --seed 0 --workers {LEARNERS} --max-frames {FRAMES}"
    server_class = gradient_descent(a3c, RATE)
    with contextlib.redirect_stdout(io.StringIO()):
        program.main(words.split(), server_class, Brain)
    server = server_class.last
    return list(rounds.values()), server.session.run(server.updates), outdated


def flat(arrays):
    return np.concatenate([x.ravel() for x in arrays])


def check_update(weights, samples, new_weights):
    """Returns what is wrong with the update at the end of a round, or nothing."""
    batches = [[np.array(x) for x in zip(*own)] for own in samples.values()]
    if any(abs(s @ weights[0] + weights[1]).min() < 1e-6 for s, *_ in batches):
        return None  # rounding errors decide whether this hidden unit is active
    step = (flat(weights) - flat(new_weights)) / RATE
    gradients = np.array([flat(reference.gradient(weights, *batch)) for batch in batches])
    # (learners, 131), each a mean of samples
    ones, sizes = np.ones(len(samples)), np.array([len(own) for own in samples.values()])

    def is_sum(factors):
        """Whether the step is the sum of the learners' gradients, each times its factor."""
        return np.allclose(step, factors @ gradients, atol=1e-4)

    if is_sum(ones / len(ones)) or is_sum(sizes / sizes.sum()):
        return None
    if is_sum(ones) or is_sum(sizes):
        return "it takes the sum of the gradients, not their mean"
    if any(map(is_sum, np.eye(len(ones)))):
        return "it takes the gradient of one learner, not the mean of all"
    return ("it takes neither the mean of the learners' gradients nor the mean over all their "
            "samples")


def check_synchronous(program):
    """Returns what is wrong, or nothing."""
    rounds, updates, outdated = play_rounds(program)
    if any(outdated):
        return f"{sum(outdated)} of {len(outdated)} actions were chosen with outdated weights"
    if len(rounds) == 1:
        return f"no update has moved the shared weights in {FRAMES} frames"
    updates = max(updates, len(rounds) - 1)
    if updates > FRAMES / LEARNERS / 4:  # in most rounds every learner plays about ten steps
        return f"{updates} updates in {FRAMES} frames are too many"
    for number, ((weights, samples), (new_weights, _)) in enumerate(pairwise(rounds), 1):
        if wrong := check_update(weights, samples, new_weights):
            return f"update {number} isn't right: {wrong}"


def main():
    checks = {"gae": check_gae, "synchronous": check_synchronous}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=checks)
    parser.add_argument("file", metavar="FILE")
    args = parser.parse_args()
    if not Path(args.file).is_file():
        parser.error(f"there is no file {args.file}")
    program = load(args.file)
    if args.what == "gae" and not hasattr(program, "LocalBrain"):
        parser.error(f"{args.file} has no LocalBrain; change that of the script")
    wrong = checks[args.what](program)
    print(wrong or "Right")
    return int(wrong is not None)


if __name__ == "__main__":
    sys.exit(main())
