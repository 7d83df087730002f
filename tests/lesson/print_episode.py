"""Print what a learner does in an episode of N steps: python tests/lesson/print_episode.py N...

An environment whose episodes end after N steps stands in for CartPole; all else is the script's.
"""
import argparse
import random
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import a3c_cartpole as a3c

COLUMNS = "step", "r", "memory", "new samples (step: target)", "queue", "update", "pull"
FORM = "{:>4} {:>3}  {:11} {:50} {:>5}  {:7} {}"


def row(step, r, memory, new, queue):
    """Of the table. What the step's update and the pull after it do is added later."""
    return dict(zip(COLUMNS, [step, r, memory, new, queue, "", ""]))


class Steps:
    """An environment of n steps, 0 to n - 1. A state holds the number of the step that follows."""
    def __init__(self, n):
        self.n = n

    def reset(self, seed):
        self.now = 0
        return np.zeros(4, np.float32), {}

    def step(self, a):
        self.now += 1
        return np.full(4, self.now, np.float32), 1.0, self.now == self.n, False, {}


class Brain(a3c.LocalBrain):
    def update_parameter_server(self):
        queued = len(self.train_queue)
        super().update_parameter_server()
        self.table[-1]["update"] = f"with {queued}"

    def pull_parameter_server(self):
        super().pull_parameter_server()
        self.table[-1]["pull"] = "yes"  # after this step, before the next one


class Agent(a3c.Agent):
    def advantage_push_local_brain(self, s, a, r, s_, done, terminal):
        queue = self.brain.train_queue
        queued = len(queue)
        super().advantage_push_local_brain(s, a, r, s_, done, terminal)
        memory = " ".join(f"{s[0]:.0f}" for s, _, _ in self.memory)
        new = "".join(f"{s[0]:.0f}: {R:.3g}  " if discount == 0 else
                      f"{s[0]:.0f}: {R:.3g} + {discount:.3g}·V(s{s_[0]:.0f})  "
                      for s, _, R, s_, discount in queue[queued:])
        self.brain.table.append(row(f"{s[0]:.0f}", f"{r:.0f}", memory, new, len(queue)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lengths", type=int, nargs="+", metavar="N")
    lengths = parser.parse_args().lengths
    with a3c.tf.Graph().as_default():
        progress = a3c.Progress(a3c.parse(["--render", "none", "--seed", "0"]))
        server = a3c.ParameterServer(a3c.open_session(), progress)
        brain = Brain("local_thread1", server)
        environment = a3c.Environment(Agent(brain, random.Random(0)), progress)
        server.initialize()
    for n in lengths:
        brain.table = [row("", "", "(empty)", "", 0)]  # before the first step
        environment.env = Steps(n)
        environment.run()
        for cells in COLUMNS, *(step.values() for step in brain.table):
            print(FORM.format(*cells).rstrip())
        print()


if __name__ == "__main__":
    main()
