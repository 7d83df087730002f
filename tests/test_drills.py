"""Fault drills: Ctrl-C at any moment, kills, exceptions, cores.

The number of a moment is its seed, and `-m long` tries more moments. This file is also the
program that tests start: python test_drills.py CLASS [OPTION]... runs the script with that class
for its environments."""
import collections
import os
import random
import re
import signal
import sys
import threading
import time

import pytest
from helpers import (
    FAILED, INTERRUPTED, LEARNED, NOT_LEARNED, ROOT, a3c, begin, contents, environment_variables,
    fault, film_lengths, finish, linux, posix, run, start)

ALL_CORES = frozenset(getattr(os, "sched_getaffinity", bool)(0) or ())  # before any test
MOMENTS = [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 50))]


def start_with(environment_class, *words, cwd):
    return start(environment_class.__name__, "--checkpoint", "saved", *words, cwd=cwd,
                 program=__file__, env=environment_variables(PYTHONPATH=str(ROOT)))


def frames_saved(folder):
    """The number of frames of the latest checkpoint, which has to be whole."""
    status, server = run("--play", "--test-episodes", 1, "--checkpoint", folder)
    assert status == LEARNED
    return server.progress.frames


# Ctrl-C

class Announced(a3c.Environment):
    """Says when it is built. Then the script's own imports are over."""

    def __init__(self, agent, server):
        print("An environment", flush=True)
        super().__init__(agent, server)


# A line, and the latest moment after it in seconds: learning, evaluating, filming, getting ready
STAGES = [(" 50 episodes: ", 0.5), ("Threshold", 0.05), ("Learned", 1.0), ("An environment", 1.0)]


@posix
@pytest.mark.parametrize("number", MOMENTS)
def test_ctrl_c_at_a_random_moment_ends_and_saves_and_finished_films_are_whole(tmp_path, number):
    text, latest = STAGES[number % len(STAGES)]
    delay = random.Random(f"Ctrl-C {number}").uniform(0, latest)
    process = start_with(Announced, "--seed", 1, cwd=tmp_path)
    out = begin(process, text)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    status, rest, err = finish(process, seconds=60)  # 2 s on an idle machine
    out += rest
    seen = f"{delay:.3f} s after {text!r}: {status}, {out}, {err}"
    began = "episodes" in out or contents(tmp_path / "saved")  # to learn
    frames = frames_saved(tmp_path / "saved") if began else 0
    if status == LEARNED:  # the signal came too late
        assert f"Learned after {frames} frames" in out and "Test episode 3" in out, seen
    else:
        assert (status, err) == (INTERRUPTED, f"Stopped after {frames} frames\n"), seen
    scores = [int(score) for score in re.findall(r"score (\d+)", out)]
    lengths = film_lengths(tmp_path, first=len(scores))  # one more may have been cut short
    assert len(lengths) == len(scores), seen
    assert all(length in (score, score + 1) for length, score in zip(lengths, scores)), seen


class Filming(a3c.Environment):
    """Presses Ctrl-C when the first picture of a film is drawn. Any policy passes."""

    def make(self, render_mode=None):
        def press():
            env.render = draw
            os.kill(os.getpid(), signal.SIGINT)
            self.progress.coordinator.wait_for_stop()
            return draw()
        a3c.LEARNED_MEAN = 0
        env = super().make(render_mode)
        draw = env.render
        if render_mode is not None:
            env.render = press
        return env


@fault("main", "interrupted = True", "raise")
@posix
def test_ctrl_c_while_a_film_is_made_ends_the_script_with_one_line_and_no_traceback(tmp_path):
    status, out, err = finish(start_with(Filming, "--workers", 1, cwd=tmp_path))
    frames = frames_saved(tmp_path / "saved")
    assert (status, err) == (INTERRUPTED, f"Stopped after {frames} frames\n")
    assert f"Learned after {frames} frames" in out and "Test episode 2" not in out


@fault("main", "interrupted = True", "pass")
@fault("main", "if threads:", "if True:")
@fault("main", "default_int_handler", "SIG_IGN")
@posix
@pytest.mark.parametrize("place, says, frames", [
    ("open_session", "", 0), ("LocalBrain._build_graph", "", 0),
    ("ParameterServer.initialize", "", 0), ("prepare_films", "Continues after 50 frames\n", 50)])
def test_ctrl_c_before_the_threads_start_saves_nothing(
        monkeypatch, capfd, saved, place, says, frames):
    before = contents(saved)
    monkeypatch.setattr(f"a3c_cartpole.{place}", lambda *_: signal.raise_signal(signal.SIGINT))
    capfd.readouterr()
    assert run("--checkpoint", saved, "--render", "video")[0] == INTERRUPTED
    assert capfd.readouterr() == (says, f"Stopped after {frames} frames\n")
    assert contents(saved) == before


class Hanging(a3c.Environment):
    """Never ends an episode, whatever the others do."""

    def run(self, learning):
        print("hangs", flush=True)
        threading.Event().wait()


@fault("main", ", daemon=True", "")
@fault("main", "SIG_IGN", "default_int_handler")
@posix
def test_ctrl_c_twice_ends_the_script_and_saves_even_if_a_thread_hangs(tmp_path, saved):
    process = start_with(Hanging, "--render", "none", "--workers", 1, cwd=tmp_path)
    begin(process, "hangs")
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)  # the script waits for the thread for 1.5 s
    process.send_signal(signal.SIGINT)
    status, _, err = finish(process, seconds=60)
    assert (status, err) == (INTERRUPTED, "Stopped after 50 frames\n")
    assert frames_saved(saved) == 50


# Kills and exceptions

@fault("Worker_thread.run", 'RuntimeError(f"{self.name} failed: {error!r}")', "error")
@pytest.mark.parametrize("victim, films", [
    ("local_thread2", False), ("test_thread", False), ("test_thread", True)])
def test_an_exception_in_any_thread_ends_all_threads_and_the_error_names_the_one_that_failed(
        tmp_path, monkeypatch, saved, victim, films):
    class Failing(a3c.Environment):
        def run(self, learning):
            filming = isinstance(self.env, a3c.gym.wrappers.RecordVideo)
            if threading.current_thread().name == victim and filming == films:
                raise ValueError("on purpose")
            noted.append(self.progress)
            return super().run(learning)
    before, noted = contents(saved), []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 0)  # so learning, evaluating and filming all come soon
    with pytest.raises(RuntimeError, match=f"^{victim} failed: .*on purpose"):
        run("--workers", 2, "--render", "video", "--checkpoint", saved, environment_class=Failing)
    assert not noted[0].learners  # all have ended
    # A failure saves nothing: what is there is the old checkpoint, or the policy that passed.
    if films:
        assert frames_saved(saved) == noted[0].frames > 50
    else:
        assert contents(saved) == before


class RewardsNaN(a3c.Environment):
    def reward(self, s, r, s_, step, done, terminal):
        return float("nan") if done else 0.0


@fault("main", "progress.stop()", "(progress.stop(), server.save())")
def test_a_reward_of_nan_gives_one_clear_error_and_leaves_the_checkpoint_alone(tmp_path, saved):
    before = contents(saved)
    process = start_with(RewardsNaN, "--render", "none", "--workers", 1, cwd=tmp_path)
    status, out, err = finish(process)
    assert status == FAILED and "earned" not in out  # neither Learned nor Not learned
    assert err.count("Traceback") == 2  # of the exception, and of the RuntimeError that names it
    assert re.search(r"\nRuntimeError: local_thread1 failed: .*gradient isn't finite", err)
    assert contents(saved) == before


# Threads, cores and the graph

@fault("share_one_core", "cores[os.getpid() % len(cores)]", "os.getpid() % os.cpu_count()")
@linux
def test_the_shared_core_is_one_that_the_process_may_use(monkeypatch):
    """Another program, such as taskset, may have chosen the cores."""
    chosen = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {901, 907})
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cores: chosen.extend(cores))
    a3c.share_one_core()
    assert len(chosen) == 1 and chosen[0] in (901, 907)


@fault("Worker_thread.learn", "SHARE_ONE_CORE", "True")
@fault("share_one_core", "sched_setaffinity(0,", "sched_setaffinity(os.getpid(),")
@linux
@pytest.mark.parametrize("share", [True, False])
def test_learners_share_one_core_unless_told_not_to_and_other_threads_are_free(monkeypatch, share):
    class Environment(a3c.Environment):
        def run(self, learning):
            cores[threading.current_thread().name] |= {frozenset(os.sched_getaffinity(0))}
            return super().run(learning)
    cores = collections.defaultdict(set)
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 0)
    monkeypatch.setattr(a3c, "SHARE_ONE_CORE", share)
    assert run("--workers", 4, environment_class=Environment)[0] == LEARNED
    assert cores.pop("test_thread") == {ALL_CORES} == {frozenset(os.sched_getaffinity(0))}
    [core] = set.union(*cores.values())
    assert len(cores) == 4 and core <= ALL_CORES
    assert len(core) == (1 if share else len(ALL_CORES))


@fault("Environment.__init__", "self.server = parameter_server", "pass")
@fault("main", "graph.finalize()", "pass")
def test_the_graph_is_finalized_before_any_thread_plays():
    class Environment(a3c.Environment):
        def run(self, learning):
            assert self.server.session.graph.finalized
            return super().run(learning)
    assert run("--max-frames", 1, environment_class=Environment)[0] == NOT_LEARNED


if __name__ == "__main__":
    sys.exit(a3c.main(sys.argv[2:], environment_class=globals()[sys.argv[1]]))
