"""distributed.py with real processes: what all of them count and save, and what ends them.

This file is also the program that the tests start: python test_distributed.py PROGRAM [OPTION]...
Its processes leave notes in the folder NOTES, so that a test knows them.
"""
import os
import re
import signal
import subprocess
import sys
import time
import unittest.mock
from pathlib import Path

import helpers
import pytest
from helpers import ROOT, a3c, posix, tf

pytest.importorskip("ray")
import distributed  # noqa: E402
import pendulum  # noqa: E402


def note(name, text=""):
    """Leave a note: a file called name-PID."""
    Path(os.environ["NOTES"], f"{name}-{os.getpid()}").write_text(text)


def pids(folder, name):
    return {int(path.name.rpartition("-")[2]) for path in folder.glob(f"{name}-*")}


class NotedServer(a3c.ParameterServer):
    def __init__(self, *args):
        super().__init__(*args)
        note("server")  # all processes have one: the workers' are copies


def steps(folder):
    """How many steps each process has played: {process number: steps}."""
    return {int(path.name.rpartition("-")[2]): path.stat().st_size
            for path in folder.glob("steps-*")}


class NotedEnvironment(a3c.Environment):
    """Notes each step. Those of worker 0 begin when worker 1 has played some hundred steps."""

    def run(self, learning):
        note("worker", f"{a3c.ENV} {a3c.GAMMA}")
        notes = Path(os.environ["NOTES"])
        while self.server.number == 0 and sum(steps(notes).values()) <= 300:
            self.progress.next_frame(learning=False)  # ends this thread if all have to stop
            time.sleep(0.05)
        return super().run(learning)

    def reward(self, *step):  # called once a step
        with open(Path(os.environ["NOTES"], f"steps-{os.getpid()}"), "a") as notes:
            notes.write(".")
        return super().reward(*step)


class FailingEnvironment(NotedEnvironment):
    def run(self, learning):
        if self.server.number == 1:
            raise ZeroDivisionError("on purpose")
        return super().run(learning)


class PendulumEnvironment(NotedEnvironment, pendulum.Environment):
    pass


class SlowlySaved(distributed.Server):
    def save(self):
        note("saving")
        time.sleep(3)
        super().save()


def never_learned(argv):
    a3c.LEARNED_MEAN = float("inf")
    return distributed.main(argv, NotedServer, environment_class=NotedEnvironment)


def soon_learned(argv):
    a3c.LEARNED_MEAN = 30
    return distributed.main(argv, NotedServer, environment_class=NotedEnvironment)


def failing(argv):
    return distributed.main(argv, NotedServer, environment_class=FailingEnvironment)


def slow_save(argv):
    a3c.SAVE_SECONDS = 0.1
    distributed.Server = SlowlySaved
    return never_learned(argv)


def pendulum_in_processes(argv):
    pendulum.configure()
    return distributed.main(argv, pendulum.Server, brain_class=pendulum.Brain,
                            agent_class=pendulum.Agent, environment_class=PendulumEnvironment)


@pytest.fixture
def start(tmp_path):
    """start(program, option...): the program as a process that leads a session of its own."""
    def begin(program, *args):
        notes = tmp_path / "notes"
        notes.mkdir(exist_ok=True)
        for path in notes.iterdir():
            path.unlink()
        args = program.__name__, "--render", "none", "--workers", 2, *args
        return helpers.start(
            *args, cwd=tmp_path, program=__file__, start_new_session=True,
            # Ray's processes would otherwise give way to all others on a busy machine.
            env=helpers.environment_variables(NOTES=str(notes), RAY_worker_niceness="0",
                                              PYTHONPATH=os.pathsep.join(sys.path)))
    yield begin


def until(condition, process=None):
    """Wait for this condition, as long as the process runs, if one is given."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.05)


def both_learn(process, notes):
    """Wait until both workers learn. Returns the process numbers of the actor and of worker 1."""
    until(lambda: len(pids(notes, "worker")) == 2 and len(pids(notes, "server")) >= 3, process)
    [worker] = pids(notes, "worker") - {process.pid}
    [actor] = pids(notes, "server") - {process.pid, worker}
    until(lambda: "mean" in process.stdout.readline(), process)
    return actor, worker


def session(leader):
    """The processes of a session, but for those that only wait to be collected."""
    text = subprocess.run(["ps", "-e", "-o", "sid=,stat=,args="], capture_output=True, text=True)
    return [line for line in text.stdout.splitlines()
            if line.split()[0] == str(leader) and not line.split()[1].startswith("Z")]


def nothing_is_left(process):
    until(lambda: not session(process.pid))


def test_the_actor_makes_the_same_updates_as_the_scripts_server(rng):
    """Its weights and RMSProp's averages are bit for bit the same. (Here it runs without Ray.)"""
    with tf.Graph().as_default():
        words = helpers.options()
        server = a3c.ParameterServer(words, a3c.Progress(words))
        gradients = [tf.placeholder(tf.float32, w.shape) for w in server.weights]
        update = a3c.GraphCall(server.session, gradients, targets=[server.build_update(gradients)])
        variables = server.weights + server.optimizer.variables()
        server.initialize()
    parameters = distributed.Parameters(a3c.ParameterServer, {})
    parameters.begin(0, *server.session.run(variables))  # the same first values
    for _ in range(3):
        g = [rng.normal(size=w.shape).astype("float32") for w in server.weights]
        update(*g)
        _, _, *weights = parameters.call(10, *g)
        assert helpers.same(weights, server.session.run(server.weights))
    assert helpers.same(parameters.values(), server.session.run(variables))


def test_a_call_without_gradients_counts_its_frames_but_changes_no_weights():
    parameters = distributed.Parameters(a3c.ParameterServer, {})
    values = [0.5 + 0 * value for value in parameters.server.session.run(
        [v.initial_value for v in parameters.variables])]
    parameters.begin(100, *values)
    frames, learned, *_ = parameters.call(7)
    assert (frames, learned) == (107, False)
    assert helpers.same(parameters.values(), values)


@pytest.mark.timeout(60)  # wrong, it waits for ever
def test_a_stop_ends_a_call_that_the_actor_does_not_answer(monkeypatch):
    def get(call, timeout):
        raise distributed.ray.exceptions.GetTimeoutError
    monkeypatch.setattr(distributed.ray, "get", get)
    server = object.__new__(distributed.Server)  # a call needs no network
    server.progress, server.told = a3c.Progress(helpers.options()), 0
    server.parameters, server.latest = unittest.mock.Mock(), ["the latest weights"]
    server.progress.coordinator.request_stop()
    assert server.call() == ["the latest weights"]


def test_frames_are_those_of_all_workers(start, tmp_path):
    process = start(never_learned, "--max-frames", 6000)
    status, out, err = helpers.finish(process)
    assert (status, err) == (1, "")
    frames = int(re.search(r"^Not learned after (\d+) frames", out, re.M)[1])
    played = steps(tmp_path / "notes")
    assert len(played) == 2 and min(played.values()) > 100
    # Each of the four threads may have counted one more step before it was ended, and may have
    # played up to 10 that it didn't tell.
    assert 6000 <= frames and -4 <= sum(played.values()) - frames <= 40


def test_what_all_learned_is_saved_and_the_script_can_play_it(start, tmp_path):
    frames = 0
    for _ in range(2):  # the second run continues the first one
        status, out, err = helpers.finish(start(soon_learned, "--checkpoint", "saved"))
        assert (status, err) == (0, "") and "Test episode 3" in out
        before, frames = frames, int(re.search(r"^Learned after (\d+) frames", out, re.M)[1])
        assert frames > before
        latest = tf.train.latest_checkpoint(tmp_path / "saved")
        assert int(latest.rpartition("-")[2]) >= frames  # others play on until they hear of it
        averages = tf.train.load_variable(latest, "parameter_server/actor/weights/RMSProp")
        assert (averages < 1).all()  # 1 is where they start
    play = "--play", "--render", "none", "--checkpoint", tmp_path / "saved"
    status, out, _ = helpers.finish(helpers.start(*play, cwd=tmp_path))
    assert status == 0 and "Test episode 3" in out


@posix
def test_a_killed_worker_comes_back(start, tmp_path):
    process = start(never_learned)
    _, worker = both_learn(process, tmp_path / "notes")
    os.kill(worker, signal.SIGKILL)
    until(lambda: len(pids(tmp_path / "notes", "worker") - {process.pid}) == 2, process)
    until(lambda: "mean" in process.stdout.readline(), process)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    nothing_is_left(process)


@posix
def test_a_killed_parameter_server_ends_all(start, tmp_path):
    process = start(never_learned, "--checkpoint", "saved")
    actor, _ = both_learn(process, tmp_path / "notes")
    os.kill(actor, signal.SIGKILL)
    status, _, err = helpers.finish(process, seconds=60)
    assert status == 1 and "Traceback" not in err
    assert err.splitlines()[-1] == "The parameter server's process has died"  # Ray says more
    latest = tf.train.latest_checkpoint(tmp_path / "saved")
    assert int(latest.rpartition("-")[2]) > 0
    nothing_is_left(process)


@posix
@pytest.mark.parametrize("seconds", [2, pytest.param(30, marks=pytest.mark.long)])
def test_a_parameter_server_that_stalls_is_waited_for(start, tmp_path, seconds):
    process = start(never_learned, "--max-frames", 20_000)
    actor, _ = both_learn(process, tmp_path / "notes")
    os.kill(actor, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(actor, signal.SIGCONT)
    status, out, _ = helpers.finish(process)
    assert status == 1 and re.search(r"^Not learned after 20\d\d\d frames", out, re.M)


@posix
@pytest.mark.parametrize("moment", ["learning", "stalled"])
def test_ctrl_c_saves_and_leaves_no_process(start, tmp_path, moment):
    process = start(never_learned, "--checkpoint", "saved")
    actor, _ = both_learn(process, tmp_path / "notes")
    if moment == "stalled":
        os.kill(actor, signal.SIGSTOP)
        time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    # Ray may say that it gives up the calls that a stalled actor hasn't answered.
    rest = [line for line in err.splitlines() if "Failed to push error to driver" not in line]
    assert moment == "stalled" or err.splitlines() == rest
    assert len(rest) == 1, err
    stopped = re.fullmatch(r"Stopped after (\d+) frames", rest[0])
    latest = tf.train.latest_checkpoint(tmp_path / "saved")
    assert int(latest.rpartition("-")[2]) == int(stopped[1])
    nothing_is_left(process)


@posix
def test_ctrl_c_during_a_slow_save_still_saves(start, tmp_path):
    process = start(slow_save, "--checkpoint", "saved")
    both_learn(process, tmp_path / "notes")
    (tmp_path / "notes" / f"saving-{process.pid}").unlink(missing_ok=True)
    until(lambda: pids(tmp_path / "notes", "saving"))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    stopped = re.fullmatch(r"Stopped after (\d+) frames\n", err)
    assert stopped, err
    latest = tf.train.latest_checkpoint(tmp_path / "saved")
    assert int(latest.rpartition("-")[2]) == int(stopped[1])
    nothing_is_left(process)


@posix
@pytest.mark.long  # Ray's own helpers take a minute to end
def test_a_killed_worker_0_ends_all(start, tmp_path):
    process = start(never_learned)
    both_learn(process, tmp_path / "notes")
    process.kill()
    process.communicate()
    nothing_is_left(process)


def test_an_exception_in_a_worker_ends_all_and_is_shown(start):
    process = start(failing)
    status, _, err = helpers.finish(process, seconds=90)
    assert status == 1 and "ZeroDivisionError: on purpose" in err
    assert "in learn" in err  # the worker's own traceback
    nothing_is_left(process)


def test_a_users_classes_and_settings_hold_in_every_process(start, tmp_path):
    status, out, err = helpers.finish(start(pendulum_in_processes, "--max-frames", 4000))
    assert (status, err) == (1, "") and "Not learned after 4" in out
    seen = {path.read_text() for path in (tmp_path / "notes").glob("worker-*")}
    assert len(pids(tmp_path / "notes", "worker")) == 2 and seen == {"Pendulum-v1 0.95"}


@pytest.mark.parametrize("words", [["--processes", "0"], ["--rendr", "none"], ["--seed", "-1"]])
def test_a_wrong_option_is_one_line_before_anything_starts(monkeypatch, capsys, words):
    monkeypatch.setattr(distributed.ray, "init", None)  # a call would fail
    with pytest.raises(SystemExit) as ended:
        distributed.main(words)
    err = capsys.readouterr().err
    assert ended.value.code == 2 and err.count("\n") == 1 and words[0] in err


def test_without_ray_one_line_says_what_to_install(tmp_path):
    (tmp_path / "ray.py").write_text("raise ModuleNotFoundError(\"No module named 'ray'\")\n")
    status, out, err = helpers.finish(helpers.start(
        cwd=tmp_path, program=ROOT / "tests" / "variants" / "distributed.py",
        env=helpers.environment_variables(PYTHONPATH=str(tmp_path))))
    assert (status, out) == (1, "")
    assert err == "No module named 'ray': run  pip install -r tests/requirements.txt\n"


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](sys.argv[2:]))
