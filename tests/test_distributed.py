"""variants/distributed.py: its processes, as a user starts them; this one looks on as one more."""
import contextlib
import re
import signal
import socket
import sys
import time

import helpers
import numpy as np
import pytest
from helpers import a3c, tf

VARIANTS = helpers.ROOT / "tests" / "variants"
sys.path.insert(0, str(VARIANTS))

import distributed  # noqa: E402
from distributed import BEGUN, FRAMES  # noqa: E402

PROGRAM = f"""
import sys
sys.path.insert(0, {str(VARIANTS)!r})
import distributed
a3c, distributed.__file__ = distributed.a3c, __file__
task = int(sys.argv[-1]) if "--task" in sys.argv else None
%s
sys.exit(distributed.main())
"""
NEVER = "a3c.LEARNED_MEAN = 1000"
SOON = "a3c.LEARNED_MEAN = 5"
FAILS = NEVER + "\nif task == 1:\n    a3c.Environment.reward = lambda *args: 1 / 0"


@pytest.fixture
def start(tmp_path):
    """start(option, ..., patch=...) starts the program; all its processes run the patch first."""
    def start(*args, patch=None):
        program = VARIANTS / "distributed.py"
        if patch:
            program = tmp_path / "program.py"
            program.write_text(PROGRAM % patch)
        return helpers.start("--render", "none", "--workers", 2, *args, cwd=tmp_path,
                             program=program)
    return start


@pytest.fixture
def cluster(start):
    """A parameter server alone: its process, its address, and this process's Remote of it."""
    process = start("--ps", "localhost:0")
    address = process.stdout.readline().split()[-1]
    remote = distributed.Remote(address)
    yield process, address, remote
    with contextlib.suppress(tf.errors.OpError):  # it may be lost
        remote.session.close()


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_update_is_the_scripts(cluster, rng):
    _, _, remote = cluster
    with tf.Graph().as_default():
        server = a3c.ParameterServer(helpers.options())
        gradients = [tf.placeholder(tf.float32, w.shape) for w in server.weights]
        update = a3c.GraphCall(server.session, gradients, targets=[server.build_update(gradients)])
        variables = tf.global_variables("parameter_server/")
        server.initialize()
    remote.put(*server.session.run(variables))
    for step in 1, 2, 3:
        g = [rng.normal(size=w.shape) for w in server.weights]
        update(*g)
        counters, *weights = remote.tell({FRAMES: 10}, *g)
        assert counters[FRAMES] == 10 * step
        assert helpers.same(weights, server.session.run(server.weights))
    assert helpers.same(remote.get(), server.session.run(variables))

    def delivered_twice(*sent):
        answers.append(there(*sent))
        if len(answers) == 1:
            raise tf.errors.AbortedError(None, None, "The same request was received twice.")
        return answers[-1]
    answers, there, remote._update = [], remote._update, delivered_twice
    update(*g)
    counters, *weights = remote.tell({FRAMES: 10}, *g)
    assert counters[FRAMES] == 40 and helpers.same(weights, server.session.run(server.weights))


def test_a_killed_worker_leaves_the_other_learning_and_may_come_back(start, cluster):
    server, address, remote = cluster
    workers = [start("--ps", address, "--task", task, patch=NEVER) for task in (0, 1)]
    for task in 1, 0:
        assert workers[task].stdout.readline().startswith(f"{task}: Seed ")
        until(lambda: remote.tell({})[0][BEGUN])
        workers[task].kill()
        workers[task].wait()
        frames, weights = remote.tell({})[0][FRAMES], remote.get()
        until(lambda frames=frames: remote.tell({})[0][FRAMES] > frames + 500)  # of the other
        assert not any(map(np.array_equal, weights, remote.get()))
        workers[task] = start("--ps", address, "--task", task, patch=NEVER)
    lines = [workers[0].stdout.readline() for _ in range(2)]
    assert int(re.match(r"0: \S+ s, (\d+) frames, 50 episodes", lines[1])[1]) > 1500  # those of all
    workers[0].send_signal(signal.SIGINT)  # ends all
    assert [process.wait() for process in (*workers, server)] == [130, 1, 1]
    assert re.fullmatch(r"Stopped after \d+ frames\n", workers[0].stderr.read())
    assert workers[1].stderr.read() == server.stderr.read() == ""


def test_frames_of_all_are_counted_together(start):
    process = start("--max-frames", 4000, patch=NEVER)
    out, err = process.communicate()
    assert (process.returncode, err) == (1, "")
    ends = re.findall(r"^(\d): Not learned after (\d+) frames$", out, re.M)
    assert "0" in dict(ends)  # process 1 may have come too late to play
    assert all(4000 <= int(frames) < 4200 for _, frames in ends)


def test_a_passed_evaluation_ends_all_and_is_saved(start, tmp_path):
    for _ in range(2):  # the second run goes on from what the first one saved
        process = start("--checkpoint", tmp_path / "saved", patch=SOON)
        out, err = process.communicate()
        assert (process.returncode, err) == (0, "")
        assert "\n0: Evaluation: " in out and "1: Threshold" not in out
        frames = re.search(r"^0: Learned after (\d+) frames", out, re.M)[1]
        latest = tf.train.latest_checkpoint(tmp_path / "saved")
        assert int(latest.rpartition("-")[2]) >= int(frames)  # others play on until they hear of it
        averages = tf.train.load_variable(latest, "parameter_server/actor/weights/RMSProp")
        assert (averages < 1).all()  # where they start
    play = "--play", "--render", "none", "--checkpoint", tmp_path / "saved"
    status, out, _ = helpers.finish(helpers.start(*play, cwd=tmp_path))  # the script takes it, too
    assert status == 0 and "\nTest episode 3" in out


def test_a_lost_parameter_server_is_one_line(start, cluster):
    server, address, remote = cluster
    workers = [start("--ps", address, "--task", task) for task in (0, 1)]
    for task in 0, 1:
        assert workers[task].stdout.readline().startswith(f"{task}: Seed ")
    server.kill()
    for task in 0, 1:
        _, err = workers[task].communicate()
        assert err == f"Process {task} lost the parameter server {address}\n"
        assert workers[task].returncode == 1


def test_a_ctrl_c_ends_all_and_frees_the_port(start):
    process = start(patch=NEVER)
    port = int(process.stdout.readline().split(":")[1])
    seen = set()
    while seen < {"0", "1"}:
        seen.add(process.stdout.readline()[0])
    process.send_signal(signal.SIGINT)
    pressed = time.monotonic()
    _, err = process.communicate()  # comes back when no process is left that could write
    assert process.returncode == 130 and re.fullmatch(r"Stopped after \d+ frames\n", err)
    assert time.monotonic() - pressed < 10
    with pytest.raises(OSError):
        socket.create_connection(("localhost", port), timeout=5)


def test_an_exception_ends_all(start):
    process = start(patch=FAILS)
    out, err = process.communicate(timeout=80)
    assert process.returncode == 1 and "\n0: Seed " in out and err.count("direct cause") == 1
    assert re.search(r"\nRuntimeError: local_thread\d failed: ZeroDivisionError\(.*\)\n\Z", err)
