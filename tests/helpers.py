"""What several test files use: the script as a module and as a process, a graph without main."""
import os
import re
import subprocess
import sys
import unittest.mock
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "a3c_cartpole.py"
sys.path.insert(0, str(ROOT))

import a3c_cartpole as a3c  # noqa: E402

tf = a3c.tf


def options(*words):
    """The options of a command line that opens no window and makes no film."""
    return a3c.parse(["--render", "none", *map(str, words)])


class Built:
    """A server, learners and the test thread in a finalized graph, as `main` builds them. Its log
    is a mock, which notes what it is told, and no test episodes are shown."""

    def __init__(self, learners, max_frames=1_000_000, seed=0,
                 server_class=a3c.ParameterServer, worker_class=a3c.Worker_thread):
        words = options("--workers", learners, "--max-frames", max_frames, "--seed", seed)
        words.test_episodes = 0
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            tf.set_random_seed(seed)
            self.server = server_class(words)
            self.log = self.server.log = unittest.mock.Mock()
            names = [f"local_thread{i + 1}" for i in range(learners)]
            self.learners = [worker_class(name, "learning", self.server) for name in names]
            self.tester = worker_class("test_thread", "test", self.server)
            self.server.initialize()
            graph.finalize()
        self.progress = self.server.progress
        self.brains = [learner.environment.agent.brain for learner in self.learners]

    def happened(self):
        return [name for name, *_ in self.log.method_calls]

    def values(self, variables):
        return self.server.session.run(variables)


class KeptServer(a3c.ParameterServer):
    """Can be looked at after the run."""

    def initialize(self):
        super().initialize()
        KeptServer.latest = self


def put(session, variables, values):
    """Give variables these values, arrays or numbers, even in a finalized graph."""
    for v, value in zip(variables, values):
        v.load(np.broadcast_to(value, v.shape), session)


def same(x, y):
    return len(x) == len(y) and all(np.array_equal(a, b) for a, b in zip(x, y))


def environment_variables(**changes):
    """The variables of a machine without a screen, whose output is buffered as usual."""
    screen = "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "SDL_VIDEODRIVER", "PYTHONUNBUFFERED"
    return {name: value for name, value in os.environ.items() if name not in screen} | changes


STARTED = []


def start(*args, cwd, program=SCRIPT, **kwargs):
    """Start the real script, or another program, as a process that does not outlive the test."""
    command = [sys.executable, str(program), *map(str, args)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
               "env": environment_variables()}
    STARTED.append(subprocess.Popen(command, cwd=cwd, **options | kwargs))
    return STARTED[-1]


def kill_started():
    while STARTED:
        STARTED.pop().kill()


def finish(process):
    """(exit status, stdout, stderr without what classic Gym says at its import)."""
    out, err = process.communicate(timeout=240)
    notice = r"\A(?:(?:Gym has been|Please upgrade|Users of this|See the migration) .*\n)+"
    return process.returncode, out, re.sub(notice, "", err)
