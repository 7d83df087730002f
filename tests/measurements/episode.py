"""Print what a learner does in an episode of N steps: python tests/measurements/episode.py N...

An environment whose episodes end after N steps stands in for CartPole; all else is the script's.
"""
import random
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import a3c_cartpole as a3c

HEADER = "step", "r", "memory", "new samples (step: R)", "queue", "update", "pull"
FORM = "{:>4} {:>3}  {:12} {:43} {:>5}  {:8} {}"


class Steps:
    """An environment of N steps. A state holds the number of the step that follows it."""
    def __init__(self, n):
        self.n = n

    def reset(self, seed):
        return np.ones(4, np.float32), {}

    def step(self, a):
        Brain.rows.append([""] * 7)
        step = len(Brain.rows) - 1
        return np.full(4, step + 1, np.float32), 1.0, step == self.n, False, {}


class Brain(a3c.LocalBrain):
    rows = []  # one for each step, and one for what comes before them

    def train_push(self, s, a, R, s_, discount):
        super().train_push(s, a, R, s_, discount)
        self.rows[-1][3] += f"{s[0]:.0f}: {R:.3g}  "

    def update_parameter_server(self):
        queued = len(self.train_queue)
        super().update_parameter_server()
        self.rows[-1][5] = f"with {queued}" if not self.train_queue else "waits"

    def pull_parameter_server(self):
        super().pull_parameter_server()
        self.rows[-1][6] = "yes"  # after this step, before the next one


class Agent(a3c.Agent):
    def advantage_push_local_brain(self, s, a, r, s_, done, terminal):
        super().advantage_push_local_brain(s, a, r, s_, done, terminal)
        memory = " ".join(f"{s[0]:.0f}" for s, _, _ in self.memory)
        row = Brain.rows[-1]
        row[:3] = [f"{s[0]:.0f}", f"{r:.0f}", memory]
        row[4] = len(self.brain.train_queue)


with a3c.tf.Graph().as_default():
    options = a3c.parse(["--render", "none", "--seed", "0"])
    progress = a3c.Progress(options)
    server = a3c.ParameterServer(a3c.open_session(), progress)
    brain = Brain("local_thread1", server)
    environment = a3c.Environment(Agent(brain, random.Random(0)), progress)
    server.initialize()
    for n in map(int, sys.argv[1:]):
        Brain.rows[:] = [["", "", "(empty)", "", 0, "", ""]]
        brain.train_queue.clear()
        environment.env = Steps(n)
        environment.run()
        print(FORM.format(*HEADER))
        print(*(FORM.format(*row).rstrip() for row in Brain.rows), "", sep="\n")
