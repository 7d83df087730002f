"""Fault drills: Ctrl-C at any moment, kills, exceptions, cores.

Each test's number is the seed of its moment. `-m long` tries more moments. This file is also the
program that tests start: python test_drills.py CLASS [OPTION]..."""
import collections
import contextlib
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from helpers import (
    ROOT,
    KeptServer,
    a3c,
    begin,
    contents,
    environment_variables,
    film_lengths,
    finish,
    linux,
    posix,
    saved_values,
    start,
    tf,
)

NO_FILMS = "--render", "none"
MOMENTS = [0, 1, 2, *(pytest.param(n, marks=pytest.mark.long) for n in range(3, 50))]


def start_with(name, *args, cwd):
    """Start this file: the script with the class of that name, see the end of this file."""
    return start(name, *args, cwd=cwd, program=__file__,
                 env=environment_variables(PYTHONPATH=str(ROOT)))


def save_early(folder):
    """Save a checkpoint of 50 frames in the folder `saved`. Returns what that holds."""
    args = *NO_FILMS, "--workers", "1", "--max-frames", "50", "--checkpoint", str(folder / "saved")
    assert a3c.main(args) == 1
    return contents(folder / "saved")


def play(folder):
    """Play a checkpoint, which has to be whole: (its number of frames, its numbers by names)."""
    args = "--play", *NO_FILMS, "--test-episodes", "1", "--checkpoint", str(folder)
    assert a3c.main(args, server_class=KeptServer) == 0
    return KeptServer.latest.progress.frames, saved_values(folder)


def signal_after(process, seconds, signum):
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=seconds)
    process.send_signal(signum)


# A line, and the first and the last moment after it in seconds: learning, evaluating, filming
STAGES = (" 50 episodes: ", 0.0, 0.5), ("Threshold reached", 0.0, 0.05), ("Learned after", 0.0, 1.0)


@posix
@pytest.mark.parametrize("number", MOMENTS)
def test_ctrl_c_at_any_moment_ends_it_soon_and_saves(tmp_path, number):
    text, low, high = STAGES[number % len(STAGES)]
    delay = random.Random(f"Ctrl-C {number}").uniform(low, high)
    process = start("--checkpoint", "saved", "--seed", "1", cwd=tmp_path)
    out = begin(process, text)
    signal_after(process, delay, signal.SIGINT)
    pressed = time.monotonic()
    status, rest, err = finish(process)
    out += rest
    seen = f"{delay:.3f} s after {text!r}: {status}, {out}, {err}"
    assert time.monotonic() - pressed < 60, seen  # 2 s on a machine that has nothing else to do
    frames = play(tmp_path / "saved")[0]
    if text == "Learned after" and "Test episode 3" in out and status == 0:
        assert f"Learned after {frames} frames" in out, seen  # the signal came too late
    else:
        assert (status, err) == (130, f"Stopped after {frames} frames\n"), seen
    scores = [int(score) for score in re.findall(r"score (\d+)", out)]
    lengths = film_lengths(tmp_path, first=len(scores))  # one more may have been cut short
    assert len(lengths) == len(scores), seen
    assert all(length - score in (0, 1) for length, score in zip(lengths, scores)), seen


@posix
def test_ctrl_c_as_soon_as_it_films_is_one_line(tmp_path):
    process = start("--checkpoint", "saved", "--render", "video", cwd=tmp_path)
    begin(process, "Learned after")
    process.send_signal(signal.SIGINT)
    status, out, err = finish(process)
    frames = play(tmp_path / "saved")[0]
    assert (status, err) == (130, f"Stopped after {frames} frames\n"), out
    assert "Test episode" not in out


class Announced(a3c.Environment):
    """Says when the first one is built. Then the script's own imports are over."""
    announced = False

    def __init__(self, agent, server):
        if not Announced.announced:
            Announced.announced = True
            print("builds", flush=True)
        super().__init__(agent, server)


@posix
@pytest.mark.parametrize("number", MOMENTS)
def test_ctrl_c_while_it_gets_ready_is_one_line(tmp_path, number):
    delay = random.Random(f"building {number}").uniform(0, 1.0)
    process = start_with("Announced", "--render", "video", "--checkpoint", "saved", cwd=tmp_path)
    begin(process, "builds")
    signal_after(process, delay, signal.SIGINT)
    status, out, err = finish(process)
    seen = f"{delay:.3f} s: {status}, {out}, {err}"
    assert status == 130 and re.fullmatch(r"Stopped after \d+ frames\n", err), seen
    if "Seed" not in out:
        assert err == "Stopped after 0 frames\n" and contents(tmp_path / "saved") == {}, seen


@posix
@pytest.mark.parametrize("place", [
    "open_session", "ParameterServer.__init__", "LocalBrain._build_graph", "Agent.__init__",
    "Environment.make", "Worker_thread.__init__", "ParameterServer.initialize",
    "restore_checkpoint", "prepare_films"])
def test_ctrl_c_at_each_stage_before_the_threads_start(tmp_path, monkeypatch, capfd, place):
    before = save_early(tmp_path)
    *owner, name = place.split(".")
    monkeypatch.setattr(getattr(a3c, *owner) if owner else a3c, name,
                        lambda *args: signal.raise_signal(signal.SIGINT))
    capfd.readouterr()
    assert a3c.main(["--render", "video", "--checkpoint", str(tmp_path / "saved")]) == 130
    out, err = capfd.readouterr()
    assert re.fullmatch(r"Stopped after (0|50) frames\n", err) and "Seed" not in out
    assert contents(tmp_path / "saved") == before


class Hanging(a3c.Worker_thread):
    """A learner that never ends, whatever the others do."""

    def learn(self):
        print("hangs", flush=True)
        threading.Event().wait()


@posix
@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_ends_it_even_if_a_thread_hangs(tmp_path, presses):
    before = save_early(tmp_path)
    process = start_with("Hanging", *NO_FILMS, "--workers", "1", "--checkpoint", "saved",
                         cwd=tmp_path)
    begin(process, "hangs")
    for _ in range(presses):  # the second comes while it waits for the thread
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
    process.wait(timeout=60)
    status, _, err = finish(process)
    if presses == 1:
        assert (status, err) == (130, "Stopped after 50 frames\n")
    else:
        assert contents(tmp_path / "saved") == before
    assert status in (130, -signal.SIGINT), err
    assert play(tmp_path / "saved")[0] == 50


class Saver(a3c.Worker_thread):
    """Saves one checkpoint after the other: the number of frames is all that each one holds."""

    def __init__(self, name, thread_type, environment, server):
        super().__init__(name, thread_type, environment, server)
        variables = tf.global_variables("parameter_server/")
        self.number = tf.placeholder(tf.float32, ())
        self.fill = [v.assign(tf.fill(v.shape, self.number)) for v in variables]
        self.session = server.session

    def learn(self):
        for frames in itertools.count(2):
            self.session.run(self.fill, {self.number: frames})
            self.progress.frames = frames
            self.server.save()
            print(frames, flush=True)


@posix
@pytest.mark.parametrize("number", MOMENTS)
def test_a_kill_while_saving_leaves_a_whole_checkpoint(tmp_path, number):
    delay = random.Random(f"SIGKILL {number}").uniform(0, 0.5)
    process = start_with("Saver", *NO_FILMS, "--workers", "1", "--checkpoint", "saved",
                         cwd=tmp_path)
    begin(process, "3\n")
    signal_after(process, delay, signal.SIGKILL)
    status, out, err = finish(process)
    assert (status, err) == (-signal.SIGKILL, "")
    last = int(("3\n" + out).split()[-1])
    frames, values = play(tmp_path / "saved")
    seen = f"killed {delay:.4f} s after the third checkpoint: {last} printed, {frames} found"
    assert last <= frames <= last + 1, seen
    assert len(values) == 18 and all((value == frames).all() for value in values.values()), seen


class Watched(a3c.Environment):
    """Notes the cores of its thread. The thread `victim` fails in an episode, filmed or not."""
    victim, filming = None, False
    cores = collections.defaultdict(set)

    def run(self, learning):
        name = threading.current_thread().name
        if hasattr(os, "sched_getaffinity"):
            self.cores[name] |= {frozenset(os.sched_getaffinity(0))}
        filming = isinstance(self.env, a3c.gym.wrappers.RecordVideo)
        if name == self.victim and self.filming == filming:
            raise ValueError("on purpose")
        return super().run(learning)


@pytest.mark.parametrize("victim, filming", [
    pytest.param("local_thread2", False, id="learning"),
    pytest.param("test_thread", False, id="evaluating"),
    pytest.param("test_thread", True, id="filming")])
def test_an_exception_in_any_thread_ends_all_and_names_it(tmp_path, monkeypatch, victim, filming):
    before = save_early(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 0)  # so that all three moments come soon
    monkeypatch.setattr(Watched, "victim", victim)
    monkeypatch.setattr(Watched, "filming", filming)
    with pytest.raises(RuntimeError, match=f"^{victim} failed: .*on purpose"):
        a3c.main(["--checkpoint", "saved"], KeptServer, environment_class=Watched)
    progress = KeptServer.latest.progress
    assert not progress.learners  # all have ended
    assert film_lengths(tmp_path) == []
    # A failure saves nothing. The last save is the one of before or, before a film, what passed.
    if filming:
        assert play("saved")[0] == progress.frames > 50
    else:
        assert contents(tmp_path / "saved") == before


class FailingTester(Watched):
    victim = "test_thread"


def test_an_exception_is_shown_once_with_status_1(tmp_path):
    status, out, err = finish(start_with("FailingTester", *NO_FILMS, cwd=tmp_path))
    assert status == 1 and "Learned after" not in out
    assert err.count("Traceback") == 2  # of the exception, and of the RuntimeError that names it
    assert err.count("the direct cause of the following") == 1
    assert re.search(r"\nRuntimeError: test_thread failed: .*on purpose", err)


class NoNumbers(a3c.Environment):
    def reward(self, s, r, s_, step, done, terminal):
        return float("nan") if done else 0.0


def test_a_reward_that_is_no_number_ends_the_run_and_spoils_no_checkpoint(tmp_path):
    before = save_early(tmp_path)
    args = *NO_FILMS, "--workers", "1", "--checkpoint", "saved"
    status, out, err = finish(start_with("NoNumbers", *args, cwd=tmp_path))
    assert status == 1 and "earned after" not in out
    assert re.fullmatch(r"RuntimeError: local_thread1 failed: .*gradient isn't finite.*",
                        err.splitlines()[-1])
    assert contents(tmp_path / "saved") == before
    frames, values = play(tmp_path / "saved")
    assert frames == 50 and all(np.isfinite(value).all() for value in values.values())


@linux
def test_learners_share_one_core_and_the_other_threads_are_free(monkeypatch):
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 0)
    before = frozenset(os.sched_getaffinity(0))
    Watched.cores.clear()
    args = *NO_FILMS, "--workers", "12"
    assert a3c.main(args, KeptServer, environment_class=Watched) == 0
    assert Watched.cores.pop("test_thread") == {before}
    assert Watched.cores.keys() == {f"local_thread{number}" for number in range(1, 13)}
    [core] = set.union(*Watched.cores.values())
    assert len(core) == 1 and core <= before and os.sched_getaffinity(0) == before


def test_the_graph_is_complete_before_threads_use_it(monkeypatch):
    complete = []

    def work(worker, real=a3c.Worker_thread.work):
        complete.append(worker.server.session.graph.finalized)
        real(worker)
    monkeypatch.setattr(a3c.Worker_thread, "work", work)
    a3c.main([*NO_FILMS, "--max-frames", "1", "--workers", "2"])
    assert complete == [True] * 3  # two learners and the test thread


if __name__ == "__main__":
    chosen, classes = globals()[sys.argv[1]], {}
    if issubclass(chosen, a3c.Worker_thread):
        a3c.Worker_thread = chosen  # main looks it up when it runs
    else:
        classes["environment_class"] = chosen
    sys.exit(a3c.main(sys.argv[2:], **classes))
