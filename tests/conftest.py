"""What several test files use: the script as a module, a graph built as `main` builds it, the script as a process."""
import contextlib
import os
import re
import subprocess
import sys
import unittest.mock
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "a3c_cartpole.py"
sys.path.insert(0, str(ROOT))

import a3c_cartpole as a3c  # noqa: E402

tf = a3c.tf


def pytest_configure(config):
    """`pytest tests` runs the short form of each drill, `pytest tests -m long` the long one."""
    config.addinivalue_line("markers", "long: the long form of a drill, left out unless asked for with -m long")
    config.option.markexpr = config.option.markexpr or "not long"
    if getattr(config.option, "numprocesses", None):  # with -n: else one process idles while the other has a long queue
        config.option.dist = "worksteal"


class Built:
    """A server with learners and a test thread in a finalized graph, and the lines that they report."""

    def __init__(self, learners, max_frames=1_000_000, seed=0, **worker_options):
        self.lines, self.trials = [], []
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            tf.set_random_seed(seed)
            self.server = a3c.ParameterServer(learners, max_frames, self.report)
            self.learners = [a3c.Worker_thread(f"local_thread{i + 1}", "learning", self.server, seed)
                             for i in range(learners)]
            self.tester = a3c.Worker_thread("test_thread", "test", self.server, seed, **worker_options)
            self.server.session.run(tf.global_variables_initializer())
            graph.finalize()

    def report(self, line, steps=None, mean=0.0):
        self.lines.append(line)
        if steps is not None:
            self.trials.append(steps)

    def values(self, variables):
        return self.server.session.run(variables)


@pytest.fixture
def build():
    """build(learners, ...) makes a Built; the sessions are closed after the test."""
    with contextlib.ExitStack() as stack:
        def make(*args, **kwargs):
            built = Built(*args, **kwargs)
            stack.callback(built.server.session.close)
            return built
        yield make


@pytest.fixture
def agent(build):
    return build(1).learners[0].environment.agent


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def environment_variables(**changes):
    """The variables of a machine without a screen, whose output is buffered as usual."""
    env = {name: value for name, value in os.environ.items() if name not in
           ("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "SDL_VIDEODRIVER", "PYTHONUNBUFFERED")}
    return env | changes


STARTED = []


def popen(command, cwd, env=None, **kwargs):
    """Start a process that does not outlive the test."""
    kwargs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | kwargs
    STARTED.append(subprocess.Popen(command, cwd=cwd, env=env or environment_variables(), **kwargs))
    return STARTED[-1]


@pytest.fixture(autouse=True)
def nothing_left():
    """A test leaves no process behind, and no variable of the environment: main() sets some of SDL's."""
    with unittest.mock.patch.dict(os.environ):
        yield
    while STARTED:
        with STARTED.pop() as process:
            process.kill()


def start(*args, cwd, env=None):
    """Start the real script as a process."""
    return popen([sys.executable, str(SCRIPT), *map(str, args)], cwd, env, text=True)


def run(*args, cwd, env=None):
    """Run the real script to its end: (exit status, lines of stdout, what it said on stderr)."""
    process = start(*args, cwd=cwd, env=env)
    out, err = process.communicate(timeout=300)
    return process.returncode, out.splitlines(), said(err)


GYM_NOTICE = re.compile(r"\A(?:(?:Gym has been|Please upgrade|Users of this|See the migration) .*\n)+")


def said(err):
    """What the script said on stderr, without what classic Gym says at its import."""
    return GYM_NOTICE.sub("", err)
