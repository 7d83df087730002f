"""Fault drills: Ctrl-C at any moment, kills, exceptions, a lost reader, a host process, cores.

Random moments come from a seed, and every failure names its moment. `-m long` repeats them more."""
import collections
import contextlib
import itertools
import json
import os
import random
import re
import runpy
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import imageio.v3 as iio
import pytest
from helpers import SCRIPT, a3c, environment_variables, popen, said, start, tf

posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets threads choose cores")
NO_FILMS = "--render", "none"
MOMENTS = 2, pytest.param(50, marks=pytest.mark.long)  # of a short drill, and of a long one
STOPPED = r"Stopped after \d+ frames\n"


class KeptServer(a3c.ParameterServer):
    """Can be looked at after the run."""

    def initialize(self):
        super().initialize()
        KeptServer.latest = self


def play(folder):
    """Play a checkpoint, which has to be whole: (its number of frames, its numbers by names)."""
    args = "--play", *NO_FILMS, "--test-trials", "1", "--checkpoint", str(folder)
    assert a3c.main(args, server_class=KeptServer) == 0
    server = KeptServer.latest
    frames, reader = server.progress.frames, tf.train.load_checkpoint(str(folder))
    return frames, {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.fixture(autouse=True)
def threads_end():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def begin(process, text):
    """Read what it prints up to the line that contains `text`."""
    out = ""
    while text not in out:
        line = process.stdout.readline()
        assert line, (out, process.stderr.read())
        out += line
    return out


def finish(process):
    """(status, the rest of stdout, stderr) of a process that is about to end."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out, said(err)


# Ctrl-C, SIGTERM and SIGKILL

@posix
def test_ctrl_c_during_the_imports_is_quiet(tmp_path):
    (tmp_path / "tensorflow.py").write_text("print('now', flush=True)\nwhile True: pass")
    process = start(cwd=tmp_path, env=environment_variables(PYTHONPATH=str(tmp_path)))
    assert process.stdout.readline() == "now\n"
    process.send_signal(signal.SIGINT)
    assert finish(process) == (130, "", "")


class Interrupting(a3c.Worker_thread):
    """Its third brain sees a Ctrl-C."""

    def __init__(self, name, *args):
        super().__init__(name, *args)
        Interrupting.built = name
        if name == "local_thread3":
            signal.raise_signal(signal.SIGINT)


@posix
def test_ctrl_c_while_32_learners_are_built_ends_it_there(tmp_path, capfd):
    args = *NO_FILMS, "--workers", "32", "--checkpoint", str(tmp_path)
    assert a3c.main(args, worker_class=Interrupting) == 130
    out, err = capfd.readouterr()
    assert "Traceback" not in err and re.search(STOPPED, out + err)
    assert Interrupting.built == "local_thread3"


@posix
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_learns_ends_it_and_saves(tmp_path, signum):
    args = "--checkpoint", "saved", "--workers", 2, "--max-frames", 10 ** 9
    process = start(*args, cwd=tmp_path)
    begin(process, " 50 trials: ")
    process.send_signal(signum)
    sent = time.monotonic()
    status, out, err = finish(process)
    assert time.monotonic() - sent < 20  # it takes 1 s on an idle machine
    assert status == 130 and re.fullmatch(STOPPED, err or out[out.find("Stopped"):])
    assert "Learned" not in out and "Test" not in out
    assert str(play(tmp_path / "saved")[0]) == re.search(r"after (\d+)", out + err)[1] != "0"


class HangingWorker(a3c.Worker_thread):
    def _learn(self):
        print("hangs", flush=True)
        threading.Event().wait()


@posix
def test_a_second_ctrl_c_ends_it_at_once_whatever_hangs(tmp_path):
    hanging = drive("HangingWorker", *NO_FILMS, "--workers", "1", cwd=tmp_path)
    begin(hanging, "hangs")
    learning = start(*NO_FILMS, "--workers", "2", "--max-frames", 10 ** 9, cwd=tmp_path)
    begin(learning, " 50 trials: ")
    for process in hanging, learning:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.4)  # the second one comes while the first is waited out
        process.send_signal(signal.SIGINT)
        status, out, err = finish(process)
        assert status in (130, -signal.SIGINT) and "Traceback" not in err  # 130 in any shell
        assert process is learning or "at once" in out


def film_lengths(folder):
    return [len(iio.imread(path)) for path in sorted(folder.rglob("*.mp4"))]


# A line, and the first and the last moment after it in seconds: filming, importing, learning
STAGES = ("Learned after", 0.0, 2.0), ("", 0.2, 3.0), (" 50 trials: ", 0.0, 3.0)


@posix
@pytest.mark.parametrize("moments", MOMENTS)
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_moment_leaves_nothing_half_done(tmp_path, signum, moments):
    for number in range(moments):
        text, low, high = STAGES[number % len(STAGES)]
        delay = random.Random(f"{signum} {number}").uniform(low, high)
        folder = tmp_path / str(number)
        folder.mkdir()
        process = start("--checkpoint", "saved", "--seed", "1", cwd=folder)
        out = begin(process, text) if text else ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=delay)
        process.send_signal(signum)
        sent = time.monotonic()
        status, rest, err = finish(process)
        seconds, out = time.monotonic() - sent, out + rest
        seen = f"{signum!r} {delay:.3f} s after {text!r}: {status}, {seconds:.1f} s, {out}, {err}"
        early = (-signum, "") if signum == signal.SIGTERM else (130, "")  # by the system's default
        if out == "":
            assert (status, err) == early or re.fullmatch(STOPPED, err), seen
        else:
            assert status == 130 and re.fullmatch(STOPPED, err or out[out.find("Stopped"):]) or (
                status == 0 and "Test trial 3" in out), seen
            assert play(folder / "saved")[0] >= 0, seen
        assert seconds < (2 if moments > 2 else 20), seen
        scores = [int(score) for score in re.findall(r"score (\d+)", out)]
        lengths = film_lengths(folder)
        assert len(scores) - 1 <= len(lengths) <= len(scores), seen
        assert all(length - score in (0, 1) for length, score in zip(lengths, scores)), seen


@posix
def test_ctrl_c_of_a_terminal_while_a_film_is_made_is_quiet(tmp_path):
    encoder = tmp_path / "ffmpeg"  # a terminal sends Ctrl-C to all processes of the group
    encoder.write_text('#!/bin/sh\ncase "$*" in *.mp4*) kill -INT 0; esac\n')
    encoder.chmod(0o755)
    env = environment_variables(IMAGEIO_FFMPEG_EXE=str(encoder))
    args = "--workers", "1", "--checkpoint", "saved"
    process = drive("any", *args, cwd=tmp_path, env=env, start_new_session=True)
    status, out, err = finish(process)
    assert status == 130 and "Traceback" not in err
    assert f"Learned after {play(tmp_path / 'saved')[0]} frames" in out


class Saver(a3c.Worker_thread):
    """Saves one checkpoint after the other: the number of frames is all that each one holds."""

    def __init__(self, name, thread_type, server, *args):
        super().__init__(name, thread_type, server, *args)
        variables = tf.global_variables("parameter_server/")
        self.number = tf.placeholder(tf.float32, ())
        self.fill = [v.assign(tf.fill(v.shape, self.number)) for v in variables]
        self.session = server.session

    def run(self):
        while not self.learning:
            time.sleep(1)
        for frames in itertools.count(2):
            self.session.run(self.fill, {self.number: frames})
            self.progress.frames = frames
            self.log.save()
            print(frames, flush=True)


@posix
@pytest.mark.parametrize("moments", MOMENTS)
def test_a_kill_while_saving_leaves_a_whole_checkpoint(tmp_path, moments):
    for number in range(moments):
        delay = random.Random(f"SIGKILL {number}").uniform(0, 0.5)
        args = *NO_FILMS, "--workers", "1", "--checkpoint", str(number)
        process = drive("Saver", *args, cwd=tmp_path)
        begin(process, "3\n")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=delay)
        process.kill()
        status, out, err = finish(process)
        last = int(("3\n" + out).split()[-1])
        frames, values = play(tmp_path / str(number))
        seen = f"killed {delay:.4f} s after the third checkpoint: {last} printed, {frames} found"
        assert (status, err) == (-signal.SIGKILL, "") and last <= frames <= last + 1, seen
        assert len(values) == 18 and all((value == frames).all() for value in values.values()), seen


@posix
def test_a_reader_that_leaves_ends_it_quietly(tmp_path):  # as in `| head -1`
    process = start(*NO_FILMS, "--workers", 2, "--checkpoint", "saved", cwd=tmp_path)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    assert said(process.stderr.read()) == ""
    assert play(tmp_path / "saved")[0] > 0


# Exceptions, and a signal while filming

class Stumbling(a3c.gym.Wrapper):
    def step(self, action):
        Troubled.action()
        return self.env.step(action)


class Troubled(a3c.Environment):
    """In each step of the thread `victim`, be it a film's or not, `action` is done."""
    victim, filming, action = None, False, None

    def run(self, env=None):
        if threading.current_thread().name == self.victim and self.filming == bool(env):
            env = Stumbling(env or self.env)
        return super().run(env)


class TroubledWorker(a3c.Worker_thread):
    environment_class = Troubled


def fail():
    raise ValueError("on purpose")


@pytest.fixture
def trouble(monkeypatch, tmp_path):
    """trouble(victim, filming, action, *words): a run in which that happens. Returns its status."""
    def go(victim, filming, action, *words):
        Troubled.victim, Troubled.filming, Troubled.action = victim, filming, action
        monkeypatch.setattr(a3c, "LEARNED_MEAN", 0)
        return a3c.main([*words, "--checkpoint", "saved", "--logdir", "log", "--workers", "2"],
                        server_class=KeptServer, worker_class=TroubledWorker)
    monkeypatch.chdir(tmp_path)
    return go


@pytest.mark.parametrize("victim, filming", [
    ("local_thread2", False), ("test_thread", False), ("test_thread", True)])
def test_an_exception_in_any_thread_ends_all_and_names_it(trouble, victim, filming):
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(RuntimeError, match=f"^{victim} failed: .*on purpose") as failed:
        trouble(victim, filming, fail)
    assert isinstance(failed.value.__cause__, ValueError)
    assert signal.getsignal(signal.SIGINT) == handler
    assert play("saved")[0] == KeptServer.latest.progress.frames > 0
    assert film_lengths(Path(".")) == []


def test_an_exception_is_shown_once_with_status_1(tmp_path):
    status, out, err = finish(drive("FailingWorker", *NO_FILMS, cwd=tmp_path))
    assert (status, len(out.splitlines())) == (1, 1)
    assert err.count("Traceback") == 2 and err.count("the direct cause of the following") == 1
    assert re.search(r"\nRuntimeError: test_thread failed: .*on purpose", err)


@posix
def test_a_signal_while_filming_leaves_no_half_film(trouble, capfd):
    def interrupt():
        os.kill(os.getpid(), signal.SIGTERM)
        assert KeptServer.latest.progress.coordinator.wait_for_stop(30)

    assert trouble("test_thread", True, interrupt) == 130
    out, err = capfd.readouterr()
    assert "Learned after" in out and re.fullmatch(STOPPED, err or out[out.find("Stopped"):])
    assert film_lengths(Path(".")) == [] and "SDL_VIDEODRIVER" not in os.environ
    assert play("saved")[0] == KeptServer.latest.progress.frames > 0


# Inside another program, a window, cores

class FailingWorker(a3c.Worker_thread):
    def _test(self):
        fail()


def host():
    """Import and run the script, as another program would."""
    outcomes = []
    for *words, worker_class in [
            ("--workers", "1", a3c.Worker_thread), ("--speed", a3c.Worker_thread),
            ("--play", "--checkpoint", "missing", *NO_FILMS, a3c.Worker_thread),
            (*NO_FILMS, Interrupting), (*NO_FILMS, FailingWorker)]:
        try:
            outcomes.append(a3c.main(words, worker_class=worker_class))
        except (SystemExit, RuntimeError) as error:
            outcomes.append(str(error))
    sys.argv[1:] = [*NO_FILMS, "--max-frames", "20", "--workers", "1"]
    try:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    except SystemExit as end:
        outcomes.append(end.code)
    handlers = [signal.getsignal(signal.SIGINT) == signal.default_int_handler,
                signal.getsignal(signal.SIGTERM) == signal.SIG_DFL]
    cores = sorted(getattr(os, "sched_getaffinity", list)(0))
    print(json.dumps([outcomes, handlers, cores, dict(os.environ)]))


@linux
def test_the_program_around_it_is_left_as_it_was(tmp_path):
    before = environment_variables()
    status, out, err = finish(drive("host", cwd=tmp_path, env=before))
    outcomes, handlers, cores, after = json.loads(out.splitlines()[-1])
    assert outcomes[:4] == [0, "2", "2", 130] and outcomes[4].startswith("test_thread failed")
    assert outcomes[5:] == [1] and handlers == [True, True]
    assert cores == sorted(os.sched_getaffinity(0))
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    allowed = "TF_", "SDL_FRAMEBUFFER_ACCELERATION", "PYGAME_HIDE_SUPPORT_PROMPT"
    assert [name for name in changed if not name.startswith(allowed)] == []


@linux
def test_each_frame_is_shown_in_a_window_that_opens_and_is_filmed(tmp_path, monkeypatch, capfd):
    import pygame
    shown, flip = collections.Counter(), pygame.display.flip

    def noted():
        shown[threading.current_thread().name, *pygame.display.get_window_size()] += 1
        flip()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pygame.display, "flip", noted)
    monkeypatch.setattr(a3c, "can_open_window", [True].pop)
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 0)
    monkeypatch.setenv("SDL_VIDEODRIVER", "offscreen")
    assert a3c.main(["--render", "human", "--test-trials", "1", "--workers", "1"]) == 0
    score = int(re.search(r"score (\d+)", capfd.readouterr().out)[1])
    assert shown == {("test_thread", 600, 400): score + 1}
    assert film_lengths(tmp_path)[0] - score in (0, 1)


class CoreNoting(a3c.Environment):
    cores = collections.defaultdict(set)

    def run(self, env=None):
        key = threading.current_thread().name, env is not None
        self.cores[key] |= {frozenset(os.sched_getaffinity(0))}
        return super().run(env)


class CoreNotingWorker(a3c.Worker_thread):
    environment_class = CoreNoting


@linux
def test_learners_share_one_core_and_the_other_threads_are_free(monkeypatch):
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 0)
    before = frozenset(os.sched_getaffinity(0))
    assert a3c.main([*NO_FILMS, "--workers", "3"], worker_class=CoreNotingWorker) == 0
    seen = dict(CoreNoting.cores)
    assert seen.pop(("test_thread", False)) == seen.pop(("test_thread", True)) == {before}
    [core] = set.union(*seen.values())
    assert len(core) == 1 and core < before | {-1} and os.sched_getaffinity(0) == before
    assert {name for name, _ in seen} <= {"local_thread1", "local_thread2", "local_thread3"}


@pytest.mark.parametrize("workers", [1, 12])
def test_any_number_of_learners_on_one_core_counts_exactly(capfd, workers):
    pin = getattr(os, "sched_setaffinity", None)
    cores = os.sched_getaffinity(0) if pin else ()
    try:
        if pin:
            pin(0, {min(cores)})
        args = *NO_FILMS, "--workers", str(workers), "--max-frames", "3000"
        assert a3c.main(args, server_class=KeptServer) == 1
    finally:
        if pin:
            pin(0, cores)
    progress = KeptServer.latest.progress
    assert capfd.readouterr().out.endswith("\nNot learned after 3000 frames\n")
    assert (progress.frames, progress.learners) == (3000, 0)
    assert KeptServer.latest.session.graph.finalized


def drive(name, *args, cwd, **kwargs):
    """Start a program: `host`, or the script with one of the Worker_threads of this file."""
    return popen([sys.executable, __file__, name, *map(str, args)], cwd, **kwargs)


if __name__ == "__main__":
    a3c.LEARNED_MEAN = 0
    if sys.argv[1] == "host":
        sys.exit(host())
    try:
        worker_class = globals().get(sys.argv[1], a3c.Worker_thread)
        sys.exit(a3c.main(sys.argv[2:], worker_class=worker_class))
    except KeyboardInterrupt:
        print("at once")
        sys.exit(130)
