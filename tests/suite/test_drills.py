"""Fault drills: Ctrl-C at any moment, exceptions, a full disk, cores.

The number of a moment is its seed, and `-m long` tries more moments. This file is also the
program that tests start: python test_drills.py CLASS [OPTION]... runs the script with that class
for its environments."""
import collections
import contextlib
import operator
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import unittest.mock

import numpy as np
import pytest
from helpers import (
    FAILED, INTERRUPTED, LEARNED, ROOT, a3c, environment_variables, equal,
    film_lengths, linux, posix, read_until, run_main, saved_values, start, wait_for_end)

ALL_CORES = frozenset(os.sched_getaffinity(0)) if sys.platform == "linux" else None  # at first


def start_with(environment_class, *words, cwd):
    return start(environment_class.__name__, "--checkpoint", "saved", *words, cwd=cwd,
                 program=__file__, env=environment_variables(PYTHONPATH=str(ROOT)))


def frames_saved(folder):
    """The number of frames of the latest checkpoint, which has to be whole and finite."""
    status, server = run_main("--play", "--test-episodes", 1, "--checkpoint", folder)
    assert status == LEARNED
    assert all(np.isfinite(value).all() for value in saved_values(folder).values())
    return server.progress.frames


# Ctrl-C

class Announced(a3c.Environment):
    """Says when it is built. Then the script's own imports are over."""
    def __init__(self, agent, progress):
        print("An environment", flush=True)
        super().__init__(agent, progress)


# A line, and the latest moment after it in seconds: filming, learning, evaluating, getting ready
STAGES = [("Learned", 1.0), (" 50 episodes: ", 0.5), ("Threshold", 0.05), ("An environment", 1.0)]
MOMENTS = [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 50))]


@posix
@pytest.mark.parametrize("number", MOMENTS, ids=lambda n: f"{STAGES[n % 4][0].strip(' :')} {n}")
def test_ctrl_c_at_a_random_moment_saves_and_ends(tmp_path, number):
    """Whenever Ctrl-C comes, the script saves and ends with one line, and the films it has finished
    are whole. (Without -m long, it comes only while the script films.)"""
    text, latest_delay = STAGES[number % 4]
    delay = random.Random(f"Ctrl-C {number}").uniform(0, latest_delay)
    process = start_with(Announced, "--seed", 1, cwd=tmp_path)
    out = read_until(process, text)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    status, rest, err = wait_for_end(process, seconds=60)  # 2 s on an idle machine
    out += rest
    seen = f"{delay:.3f} s after {text!r}: {status}, {out}, {err}"
    frames = frames_saved(tmp_path / "saved")
    if status == LEARNED:  # the signal came too late
        assert f"Learned after {frames} frames" in out and "Test episode 3" in out, seen
    else:
        assert (status, err) == (INTERRUPTED, f"Stopped after {frames} frames\n"), seen
    scores = [int(score) for score in re.findall(r"score (\d+)", out)]
    lengths = film_lengths(tmp_path, first=len(scores))  # one more may have been cut short
    assert len(lengths) == len(scores), seen
    assert all(length in (score, score + 1) for length, score in zip(lengths, scores)), seen


@posix
@pytest.mark.parametrize("signals, pause", [
    ("INT", 0), ("INT TERM TERM", 0.03), ("TERM INT", 0.15), (300 * "TERM INT ", 0.05)])
def test_ctrl_c_and_sigterm_save_however_often(tmp_path, signals, pause):
    """However often Ctrl-C and SIGTERM come, the script saves, and ends with one line. The first
    signal comes soon after the line "Seed", and the others while it stops, saves and ends."""
    process = start("--render", "none", "--checkpoint", "saved", cwd=tmp_path)
    read_until(process, "Seed ")
    for name in signals.split():
        if process.poll() is None:
            process.send_signal(signal.Signals["SIG" + name])
            time.sleep(pause)
    status, _, err = wait_for_end(process, seconds=60)
    frames = frames_saved(tmp_path / "saved")
    assert (status, err) == (INTERRUPTED, f"Stopped after {frames} frames\n")


@posix
@pytest.mark.parametrize("place", ["prepare_films", "open_session", "LocalBrain._build_graph",
                                   "ParameterServer.initialize", "open_curves"])
def test_ctrl_c_before_the_threads_start_changes_nothing_saved(monkeypatch, capfd, saved, place):
    """If Ctrl-C comes before learning, at `place`, no frame is played, and old checkpoints stay."""
    def press(*args):
        signal.raise_signal(signal.SIGINT)
        return original(*args)
    original, before = operator.attrgetter(place)(a3c), saved_values(saved)
    with monkeypatch.context() as patch:
        patch.setattr(f"a3c_cartpole.{place}", press)
        assert run_main("--checkpoint", saved, "--max-frames", 100)[0] == INTERRUPTED
    assert capfd.readouterr().err == "Stopped after 50 frames\n"  # those of the checkpoint
    assert equal(saved_values(saved).values(), before.values()) and frames_saved(saved) == 50


@posix
def test_ctrl_c_during_the_imports_ends_quietly(tmp_path):
    """Ctrl-C during a slow import prints no traceback. (A module that sleeps stands for NumPy.)"""
    (tmp_path / "numpy.py").write_text("import time; print('loading', flush=True); time.sleep(99)")
    process = start(cwd=tmp_path, env=environment_variables(PYTHONPATH=str(tmp_path)))
    read_until(process, "loading")
    process.send_signal(signal.SIGINT)
    assert wait_for_end(process) == (-signal.SIGINT, "", "")


def test_ffmpeg_ended_by_ctrl_c_isnt_called_missing(monkeypatch, capfd):
    """If Ctrl-C comes while the script tries whether ffmpeg works, the script just stops, and
    doesn't say that ffmpeg is missing. (In a terminal, Ctrl-C ends ffmpeg, too.)"""
    def ffmpeg(*args, **kwargs):
        signal.raise_signal(signal.SIGINT)
        raise subprocess.CalledProcessError(-signal.SIGINT, "ffmpeg")
    pytest.importorskip("moviepy.config")
    monkeypatch.setattr(subprocess, "run", ffmpeg)
    assert run_main("--render", "video", "--max-frames", 100)[0] == INTERRUPTED
    assert capfd.readouterr().err == "Stopped after 0 frames\n"


class Hanging(a3c.Environment):
    """The first thread hangs in its environment at once."""
    def run(self):
        def hang(action):
            print("hangs", flush=True)
            threading.Event().wait()
        self.env.step = hang
        return super().run()


@posix
def test_a_second_ctrl_c_saves_though_a_thread_hangs(tmp_path, saved):
    """A second Ctrl-C, while the script waits for a thread that hangs, doesn't prevent the save."""
    process = start_with(Hanging, "--render", "none", "--workers", 1, cwd=tmp_path)
    read_until(process, "hangs")
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)  # the script waits for the thread for 1.5 s
    process.send_signal(signal.SIGINT)
    status, _, err = wait_for_end(process, seconds=60)
    # 50 are of the checkpoint, and one is the step that hangs.
    assert (status, err) == (INTERRUPTED, "Stopped after 51 frames\n")
    assert frames_saved(saved) == 51


# Failures

@pytest.mark.parametrize("victim, while_filming, error", [
    ("local_thread2", False, ValueError), ("local_thread2", False, SystemExit),
    ("test_thread", False, ValueError), ("test_thread", True, ValueError)],
    ids=["learning", "sys.exit", "evaluating", "filming"])
def test_an_error_in_any_thread_ends_the_run(
        tmp_path, monkeypatch, saved, victim, while_filming, error):
    """If a thread fails while it learns, evaluates or films, the run ends: the message names the
    thread, the learners end, too, and the checkpoint has all frames."""
    class Failing(a3c.Environment):
        def run(self):
            self.fail(filming=False)
            return super().run()

        def play(self, env):
            self.fail(filming=isinstance(env, a3c.gym.wrappers.RecordVideo))
            return super().play(env)

        def fail(self, filming):
            noted.append(self.progress)
            if threading.current_thread().name == victim and filming == while_filming:
                raise error("on purpose")
    noted = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 0)  # so learning, evaluating and filming all come soon
    with pytest.raises(RuntimeError, match=f"^{victim} failed: .*on purpose") as ended:
        run_main("--workers", 2, "--render", "video", "--checkpoint", saved,
                 environment_class=Failing)
    assert isinstance(ended.value.__cause__, error)  # so Python shows where it was raised
    assert not noted[0].learning_threads  # all learners have ended
    # With LEARNED_MEAN 0, a run that went on would be "learned". When it films, it already is.
    assert (noted[0].phase == "learned") == while_filming
    assert frames_saved(saved) == noted[0].frames


class DiskFull(a3c.Environment):
    """When learning begins, no file may grow beyond 1000 bytes any more. Any policy passes."""
    def run(self):
        import resource
        a3c.LEARNED_MEAN = 0
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        return super().run()


@posix
def test_a_policy_not_saved_is_not_called_learned(tmp_path, saved):
    """If a policy passes but can't be saved, because the disk is full, one line says so. It isn't
    called learned, nor filmed, and the old checkpoint stays."""
    status, out, err = wait_for_end(start_with(DiskFull, "--workers", 1, cwd=tmp_path))
    assert (status, err.count("\n")) == (FAILED, 1) and err.startswith("saving failed: "), err
    assert "File too large" in err and "Evaluation: " in out and "Learned" not in out
    assert frames_saved(saved) == 50 and not list(tmp_path.glob("movie/A3C/*"))


class NoSpace(a3c.ParameterServer):
    """No checkpoint can be saved."""
    def initialize(self):
        super().initialize()
        self.checkpoint.saver.save = unittest.mock.Mock(side_effect=OSError("No space"))


@pytest.mark.timeout(60)
def test_a_failed_save_during_a_run_ends_it(tmp_path, monkeypatch):
    """If a save fails while learning goes on, the run ends and says so; without its saves it could
    be lost. (It can neither learn nor use up its frames here.)"""
    monkeypatch.setattr(a3c, "SAVE_SECONDS", 0)  # `main` looks once a second
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 200)  # which no mean exceeds
    with pytest.raises(SystemExit, match="^saving failed: No space$"):
        run_main("--checkpoint", tmp_path, "--max-frames", 10 ** 9, server_class=NoSpace)


def test_a_failed_save_is_reported_even_after_ctrl_c(tmp_path):
    """An interrupted run has a last save, too, and if that fails, its error is the message."""
    class Interrupted(a3c.Environment):
        def run(self):
            self.progress.interrupt()
            return super().run()
    with pytest.raises(SystemExit, match="^saving failed: No space$"):
        run_main("--checkpoint", tmp_path, server_class=NoSpace, environment_class=Interrupted)


@posix
def test_a_curve_not_written_ends_the_run(tmp_path):
    """If the disk is full, the run ends, and one line names the thread that can't write a curve."""
    words = "--render", "none", "--workers", 1, "--logdir", "curves"
    status, out, err = wait_for_end(start_with(DiskFull, *words, cwd=tmp_path))
    assert (status, err.count("\n")) == (FAILED, 1), err
    assert err.startswith("local_thread1 failed: ") and "File too large" in err


@pytest.mark.parametrize("fails", [False, True])
@unittest.mock.patch.dict(os.environ, MINE="1")
def test_main_puts_signals_and_environment_variables_back(fails):
    """After `main`, failed or not, signal handlers and environment variables are as before, so a
    notebook can go on. (This run changes one variable, and adds another.)"""
    class Environment(a3c.Environment):
        def __init__(self, *args):
            super().__init__(*args)
            os.environ.update(MINE="2", NEW="2")
            if fails:
                raise ValueError("on purpose")

    def handlers():
        return [signal.getsignal(number) for number in a3c.SIGNALS]
    variables, before = dict(os.environ), handlers()
    with contextlib.suppress(ValueError):
        run_main("--max-frames", 50, environment_class=Environment)
    assert dict(os.environ) == variables and handlers() == before


def test_if_a_thread_cannot_start_the_others_end(monkeypatch):
    """If the test thread can't start, the learner that has started before it soon ends, too."""
    started = []

    def start(thread, really=threading.Thread.start):
        if thread.name == "test_thread":
            raise RuntimeError("can't start new thread")
        started.append(thread)
        really(thread)
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        run_main("--max-frames", 10 ** 9)
    [learner] = started
    learner.join(10)
    assert not learner.is_alive()


# Threads, cores and the graph

@linux
def test_two_runs_choose_different_allowed_cores(monkeypatch):
    """Two runs started at once, with process numbers that differ by one, choose different cores; on
    one core they would be half as fast. They choose among the allowed ones, here 901 and 907."""
    chosen = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {901, 907})
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cores: chosen.append(cores))
    for number in 5000, 5001:
        monkeypatch.setattr(os, "getpid", lambda now=number: now)
        a3c.share_one_core()
    assert chosen in ([{901}, {907}], [{907}, {901}])


@linux
@pytest.mark.parametrize("share", [True, False])
def test_only_learners_share_one_core(monkeypatch, share):
    """All learners run on one core, while the test thread and the caller of `main` keep all cores.
    With SHARE_ONE_CORE = False, learners keep them, too."""
    class Environment(a3c.Environment):
        def reset(self, env):
            cores[threading.current_thread().name] |= {frozenset(os.sched_getaffinity(0))}
            return super().reset(env)
    cores = collections.defaultdict(set)
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 0)
    monkeypatch.setattr(a3c, "SHARE_ONE_CORE", share)
    assert run_main("--workers", 4, environment_class=Environment)[0] == LEARNED
    assert cores.pop("test_thread") == {ALL_CORES}
    assert os.sched_getaffinity(0) == ALL_CORES  # of the caller
    [of_all_learners] = set.union(*cores.values())  # the same for each
    assert len(cores) == 4 and of_all_learners <= ALL_CORES
    assert len(of_all_learners) == (1 if share else len(ALL_CORES))


def test_the_graph_is_finalized_before_any_thread_plays():
    """The graph can't be changed once threads play, because that isn't safe while they use it."""
    class Environment(a3c.Environment):
        def run(self):
            finalized.append(self.agent.brain.server.session.graph.finalized)
            return super().run()
    finalized = []
    run_main("--max-frames", 1, environment_class=Environment)
    assert finalized == [True]


if __name__ == "__main__":
    a3c.run_program(lambda: a3c.main(sys.argv[2:], environment_class=globals()[sys.argv[1]]))
