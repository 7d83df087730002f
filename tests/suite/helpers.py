"""What several test files use: the script as a module and as a process."""
import contextlib
import os
import random
import re
import subprocess
import sys
import threading
from pathlib import Path

import a3c_cartpole as a3c
import imageio.v3 as iio
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "a3c_cartpole.py"
tf = a3c.tf
posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
linux = pytest.mark.skipif(sys.platform != "linux", reason="it works only on Linux")
LEARNED = 0  # exit statuses
NOT_LEARNED = FAILED = 1  # FAILED: a thread has failed, or a file could not be written
WRONG_OPTION = 2
INTERRUPTED = 130


# The script as a module

def options(*words):
    """The options of a command line that opens no window and makes no film."""
    return a3c.parse(["--render", "none", *map(str, words)])


def run_main(*words, main=a3c.main, server_class=a3c.ParameterServer, **classes):
    """Run the script's main here, or another's, with one learner and no film unless the words say
    otherwise. Returns the exit status and the server, which has kept its first weights as `first`;
    of a run that ends before there is a server, None."""
    class Server(server_class):
        def initialize(self):
            super().initialize()
            self.first = self.session.run(self.weights)
            servers.append(self)
    servers = []
    words = "--render", "none", "--workers", "1", *map(str, words)
    return main(words, Server, **classes), servers[0] if servers else None


def refusal(capture, *words, main=a3c.main, **classes):
    """Check that `run_main` refuses these, with status 2 and only one line, on stderr. Returns it.
    """
    capture.readouterr()
    with pytest.raises(SystemExit) as end:
        run_main("--max-frames", 50, *words, main=main, **classes)
    out, err = capture.readouterr()
    assert (end.value.code, out, err.count("\n")) == (WRONG_OPTION, "", 1) and ": error: " in err
    return err


class Built:
    """A server, learners and the test thread, built as in M0 and M1 of `main`. But signals keep
    their handlers, nothing is saved, filmed or shown, and there may be no learners."""
    def __init__(self, learners, max_frames=1_000_000, seed=0, server_class=a3c.ParameterServer,
                 brain_class=a3c.LocalBrain, agent_class=a3c.Agent,
                 environment_class=a3c.Environment, worker_class=a3c.Worker_thread):
        def worker(name, thread_type):
            brain = brain_class(name, self.server)
            agent = agent_class(brain, random.Random(f"{seed} {name}"))
            environment = environment_class(agent, self.progress)
            return worker_class(name, thread_type, environment, self.progress)
        given = options("--max-frames", max_frames, "--seed", seed)
        given.workers, given.test_episodes = learners, 0
        self.progress = a3c.Progress(given)
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            tf.set_random_seed(seed)
            self.server = server_class(a3c.open_session(), self.progress)
            names = sorted(self.progress.learning_threads)
            self.learners = [worker(name, "learning") for name in names]
            self.tester = worker("test_thread", "test")
            self.server.initialize()
            graph.finalize()
        self.brains = [learner.environment.agent.brain for learner in self.learners]

    def run(self):
        """Start all threads, and wait for their ends. Raises the first error as it is."""
        workers = [*self.learners, self.tester]
        threads = [threading.Thread(target=worker.run, name=worker.name, daemon=True)
                   for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        hanging = [thread.name for thread in threads if thread.is_alive()]
        self.progress.stop()
        assert not hanging
        if self.progress.failure is not None:
            raise self.progress.failure[0]

    def values(self, variables):
        return self.server.session.run(variables)


def start_waiting(progress, call):
    """Start a thread with a call that waits. Returns the thread once it sleeps."""
    def run():
        with contextlib.suppress(a3c.Stopped), progress.changed:
            begun.set()
            call()
    begun, thread = threading.Event(), threading.Thread(target=run, daemon=True)
    thread.start()
    begun.wait()
    with progress.changed:  # the thread holds this lock until it sleeps
        return thread


class EndsAt(a3c.gym.Env):
    """An environment whose pole falls at step `falls`, or whose time is up at step 200. Each number
    of a state is the step's, and each step brings `reward`."""
    observation_space = a3c.gym.spaces.Box(-np.inf, np.inf, (4,), np.float64)
    action_space = a3c.gym.spaces.Discrete(2)

    def __init__(self, falls=None, reward=1.0):
        self.falls, self.reward = falls, reward

    def reset(self, *, seed=None, options=None):
        self.now, self.actions, self.seed = 0, [], seed
        return np.zeros(4), {}

    def step(self, action):
        self.now += 1
        self.actions.append(action)
        return np.full(4, self.now, float), self.reward, self.now == self.falls, self.now == 200, {}


def set_values(session, variables, values):
    """Give variables these values, arrays or numbers, even in a finalized graph."""
    for v, value in zip(variables, values):
        v.load(np.broadcast_to(value, v.shape), session)


def randomize(session, variables, rng, spread=0.7):
    set_values(session, variables, [rng.normal(size=v.shape) * spread for v in variables])


def assert_network_equals(server_class, brain_class, in_numpy, s, rng, spread=0.7):
    """Compare policy, memory and values in the successive states s with those of in_numpy(weights,
    s), for random weights in the order of their creation."""
    with tf.Graph().as_default():
        server = server_class(a3c.open_session(), a3c.Progress(options()))
        brain = brain_class("local_thread1", server)
        outputs = brain.forward(tf.constant(s, tf.float32))
        randomize(server.session, brain.weights, rng, spread)
        weights, got = server.session.run([brain.weights, outputs])
    for x, wanted in zip(got, in_numpy(weights, s), strict=True):
        np.testing.assert_allclose(x, wanted, rtol=1e-3, atol=1e-5)


def equal(x, y):
    """Whether two lists of arrays are equal."""
    return len(x) == len(y) and all(np.array_equal(a, b) for a, b in zip(x, y))


def update_with(brain, *columns):
    """Let the brain make one update from these samples, which are given in columns."""
    for sample in zip(*columns):
        brain.train_push(*sample)
    brain.update_parameter_server()


def random_samples(rng, n=12):
    """n random samples in columns: s, a, R, s_, discount."""
    s, s_ = rng.normal(size=(2, n, 4))
    return s, rng.integers(2, size=n), rng.normal(size=n), s_, rng.choice([0, 0.95, 0.99], size=n)


def rms_averages(server):
    """What RMSProp keeps for each of the server's weights: averages of squares."""
    return [server.optimizer.get_slot(w, "rms") for w in server.weights]


# The script as a process, and files

def environment_variables(**changes):
    """The variables of a machine without a screen, whose output is buffered as usual."""
    screen = "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "SDL_VIDEODRIVER", "PYTHONUNBUFFERED"
    return {name: value for name, value in os.environ.items() if name not in screen} | changes


PROCESSES = []  # that this test has started


def start(*args, cwd, program=SCRIPT, **kwargs):
    """Start the real script, or another program, as a process that does not outlive the test."""
    command = [sys.executable, str(program), *map(str, args)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
               "env": environment_variables()}
    PROCESSES.append(subprocess.Popen(command, cwd=cwd, **options | kwargs))
    return PROCESSES[-1]


def read_until(process, text):
    """Read what it prints up to the line that contains `text`."""
    out = ""
    while text not in out:
        line = process.stdout.readline()
        assert line, (out, process.stderr.read())
        out += line
    return out


def wait_for_end(process, seconds=240):
    """(exit status, stdout, stderr without what classic Gym says at its import)."""
    out, err = process.communicate(timeout=seconds)
    notice = r"\A(?:(?:Gym has been|Please upgrade|Users of this|See the migration) .*\n)+"
    return process.returncode, out, re.sub(notice, "", err)


def page(name):
    """The text of one of the pages, without the ends of its lines."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def files_below(folder):
    """All files below a folder: {path: (bytes, time of the last change)}."""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns)
            for path in folder.rglob("*") if path.is_file()}


def saved_values(checkpoint):
    """All numbers of a checkpoint, or of the latest in a folder, by the names of the variables."""
    reader = tf.train.load_checkpoint(str(checkpoint))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def film_lengths(folder, first=None):
    """The number of pictures of each film below a folder, or of the first few, by their names."""
    return [len(iio.imread(path)) for path in sorted(folder.rglob("*.mp4"))[:first]]
