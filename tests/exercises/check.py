"""Check your answer to an exercise: python tests/exercises/check.py gae FILE

FILE is the script with your changes. gae: an update of ten steps has to move the shared weights as
generalized advantage estimation says (γ = 0.99, λ = 0.95). synchronous: no learner may act with
other weights than the shared ones, and eight learners make one update where each of them would make
one; here FILE may also be a program whose main takes the script's classes.
"""
import argparse
import contextlib
import importlib.util
import io
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "variants")]
import reference

STEPS, GAMMA, LAMBDA = 10, 0.99, 0.95
LEARNERS, FRAMES = 8, 2000


def load(path):
    """The program as a module."""
    spec = importlib.util.spec_from_file_location("answer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gae(r, v, terminal):
    """The advantages. r: (STEPS,). v: of all states, with the one after the last step."""
    v_ = np.append(v[1:-1], 0.0 if terminal else v[-1])
    delta = r + GAMMA * v_ - v[:-1]
    return [sum((GAMMA * LAMBDA) ** n * d for n, d in enumerate(delta[t:])) for t in range(STEPS)]


def check_gae(a3c):
    """Returns what is wrong, or nothing. Two segments: one in an episode, and one at its end."""
    class Server(a3c.ParameterServer):
        def build_optimizer(self):
            return a3c.tf.train.GradientDescentOptimizer(1.0)  # it moves by minus the gradient

    rng = np.random.default_rng(0)
    with a3c.tf.Graph().as_default():
        a3c.tf.set_random_seed(0)
        progress = a3c.Progress(a3c.parse(["--render", "none", "--seed", "0"]))
        server = Server(a3c.open_session(), progress)
        brain = a3c.LocalBrain("local_thread1", server)
        agent = a3c.Agent(brain, None)
        server.initialize()
    for terminal, where in (False, "in the middle"), (True, "at the end"):
        brain.pull_parameter_server()
        weights = [w.astype(float) for w in server.session.run(server.weights)]
        s, r = rng.normal(size=(STEPS + 1, 4)), rng.normal(size=STEPS)
        a = rng.integers(2, size=STEPS)
        for t in range(STEPS):
            end = terminal and t == STEPS - 1
            agent.advantage_push_local_brain(s[t], a[t], r[t], s[t + 1], end, end)
        brain.update_parameter_server()
        moved = [w - x for w, x in zip(server.session.run(server.weights), weights)]
        _, v = reference.forward(weights, s)
        # With a discount of 0, the target is R, and the advantage R - V(s).
        R, discount = v[:-1] + gae(r, v, terminal), np.zeros(STEPS)
        wanted = reference.gradient(weights, s[:-1], a, R, s[1:], discount)
        if not all(np.allclose(m, -g, atol=1e-3) for m, g in zip(moved, wanted)):
            return f"the update {where} of an episode isn't what GAE says"


def check_synchronous(program):
    """Returns what is wrong, or nothing."""
    a3c = sys.modules["a3c_cartpole"] if hasattr(program, "a3c") else program
    versions, stale = set(), []

    class Brain(a3c.LocalBrain):
        def predict_p(self, s):
            mine, servers = self.server.session.run([self.weights, self.server.weights])
            versions.add(b"".join(w.tobytes() for w in servers))
            stale.append(not all(map(np.array_equal, mine, servers)))
            return super().predict_p(s)

    words = f"--render none --seed 0 --workers {LEARNERS} --max-frames {FRAMES}"
    with contextlib.redirect_stdout(io.StringIO()):
        program.main(words.split(), brain_class=Brain)
    if any(stale):
        return f"{sum(stale)} of {len(stale)} actions were chosen with outdated weights"
    if len(versions) > FRAMES / LEARNERS / 4:  # in most rounds every learner plays about ten steps
        return f"{len(versions)} updates in {FRAMES} frames are too many"


def main():
    checks = {"gae": check_gae, "synchronous": check_synchronous}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=checks)
    parser.add_argument("file", metavar="FILE")
    args = parser.parse_args()
    wrong = checks[args.what](load(args.file))
    print(wrong or "Right")
    return int(wrong is not None)


if __name__ == "__main__":
    sys.exit(main())
