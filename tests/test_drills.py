"""Fault drills: signals, SIGKILL, exceptions, full disks, damaged checkpoints, odd surroundings, few and many cores.

Each drill has a short form; `pytest tests -m long` runs the long ones, which repeat it more often and want a machine of
their own. Random moments come from a seed, and every failure names its moment."""
import contextlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest
from conftest import ROOT, SCRIPT, a3c, environment_variables, popen, said, tf

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
posix = pytest.mark.skipif(os.name != "posix", reason="signals, limits and shells of POSIX")
TRIAL = re.compile(r"Test trial \d+: (\d+) steps")

# What a driver program begins with: the script is imported as a3c, sys.argv[1:] are the script's words.
BEGIN = "import sys; sys.path.insert(0, sys.argv.pop(1)); import a3c_cartpole as a3c\n"
LEARN_AT_ONCE = "a3c.LEARNED_MEAN = 0\n"
END = "sys.exit(a3c.main(sys.argv[1:]))"


def few_and_many(few, many):
    """The short and the long form of a drill."""
    return [few, pytest.param(many, marks=pytest.mark.long)]


def finish(command, cwd, **env):
    """Run a command to its end: (exit status, stdout, what the script said on stderr)."""
    process = popen(command, cwd, environment_variables(**env), text=True, encoding="utf-8")
    out, err = process.communicate(timeout=120)
    return process.returncode, out, said(err)


def drive(code, *args, cwd, **env):
    """Run a driver program to its end."""
    return finish([sys.executable, "-c", BEGIN + code, str(ROOT), *map(str, args)], cwd, **env)


def limit(size):
    """Code of a driver: its files cannot grow beyond `size` bytes, as on a full disk."""
    return f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"


def play(folder):
    """Play a checkpoint in this process. Returns its number of frames and its variables by name."""
    loaded = []
    begin = a3c.Run.begin

    def look(run, server):
        begin(run, server)
        variables = tf.global_variables("parameter_server/")
        values = server.session.run(variables)
        loaded.extend([server.frames, {variable.name: value for variable, value in zip(variables, values)}])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(a3c.Run, "begin", look)
        assert a3c.main(["--play", "--render", "none", "--test-trials", "1", "--checkpoint", str(folder)]) == 0
    return loaded


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a small checkpoint."""
    folder = tmp_path_factory.mktemp("made") / "c"
    args = "--render", "none", "--max-frames", "300", "--workers", "1", "--seed", "0"
    assert a3c.main([*args, "--checkpoint", str(folder)]) == 1
    return folder


# Signals and SIGKILL

# A line, and the first and the last moment after it, in seconds: filming, importing, and, in the long form, learning.
STAGES = ("Learned after", 0.0, 2.0), ("", 0.2, 3.0), ("frames, 50 trials", 0.0, 3.0)


def wait_until_group_is_empty(group, seconds):
    end = time.monotonic() + seconds
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < end:
            os.killpg(group, 0)
            time.sleep(0.02)
        os.killpg(group, signal.SIGKILL)
        return False
    return True


@posix
@pytest.mark.parametrize("moments", few_and_many(2, 50))
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_moment_stops_it_at_once_and_leaves_nothing_half_done(tmp_path, signum, moments):
    bound = 2 if moments == 50 else 20  # the long form runs alone
    for number in range(moments):
        line, low, high = STAGES[number % len(STAGES)]
        delay = random.Random(f"{signum.name} {number}").uniform(low, high)
        moment = f"{signum.name} {number}: {delay:.3f} s after {line or 'the start'!r}"
        folder = tmp_path / str(number)
        folder.mkdir()
        process = popen([sys.executable, str(SCRIPT), "--checkpoint", "saved", "--test-trials", "2"], folder, bufsize=0,
                        start_new_session=True)
        out = b""
        while line.encode() not in out and (more := process.stdout.readline()):
            out += more
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=delay)
        os.set_blocking(process.stdout.fileno(), False)
        out += process.stdout.read() or b""
        os.set_blocking(process.stdout.fileno(), True)
        if process.poll() is None:  # a terminal sends Ctrl-C to all processes of the group
            os.killpg(process.pid, signum) if signum == signal.SIGINT else process.send_signal(signum)
        sent = time.monotonic()
        try:
            rest, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            pytest.fail(moment + ": hangs")
        seconds = time.monotonic() - sent
        out, err = (out + rest).decode(), said(err.decode())
        seen = f"{moment}: status {process.returncode}, {seconds:.2f} s, stdout {out[-300:]!r}, stderr {err!r}"
        ended = out.endswith("Video: movie/A3C/a3c-002.mp4\n")
        if process.returncode == 128 + signum:
            assert err == f"Stopped by {signum.name}\n", seen
            assert rest.count(b"\n") <= 2, seen  # what a thread was about to say; it does not go on to its own end
        elif process.returncode == -signum:
            assert err == "" and (not out or ended), seen
        else:
            assert (process.returncode, err, ended) == (0, "", True), seen
        assert seconds < bound, seen
        assert wait_until_group_is_empty(process.pid, bound), seen
        if "frames, 50 trials" in out:
            frames, _ = play(folder / "saved")
            assert frames > 0, seen
        assert not list(folder.rglob(".film-*")), seen
        trials = [int(steps) for steps in TRIAL.findall(out)]
        films = sorted((folder / "movie/A3C").glob("*.mp4"))
        assert len(trials) <= len(films) <= len(trials) + 1, seen  # the last film may be whole before its line is out
        for film, steps in itertools.zip_longest(films, trials):
            frames = len(iio.imread(film))
            assert frames in (steps, steps + 1) if steps else frames, seen


SAVE = """
import itertools, numpy as np
def wait(run, threads):
    for thread in threads: thread.join()
    variables = run.server.session.graph.get_collection("variables", "parameter_server/")
    for run.server.frames in itertools.count(2):  # the number of frames is all that the checkpoint holds
        values = {variable.initial_value: np.full(variable.shape, run.server.frames) for variable in variables}
        run.server.session.run([variable.initializer for variable in variables], values)
        run.save()
        print(run.server.frames, flush=True)
a3c.Run.wait = wait
"""


@posix
@pytest.mark.parametrize("moments", few_and_many(2, 50))
def test_sigkill_while_saving_leaves_the_old_or_the_new_checkpoint_whole(tmp_path, moments):
    for number in range(moments):
        delay = random.Random(f"SIGKILL {number}").uniform(0, 0.5)
        args = "--workers", "1", "--max-frames", "1", "--render", "none", "--checkpoint", str(tmp_path / str(number))
        process = popen([sys.executable, "-c", BEGIN + SAVE + END, str(ROOT), *args], tmp_path, bufsize=0)
        out = process.stdout.readline() + process.stdout.readline()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=delay)
        process.kill()
        rest, err = process.communicate(timeout=60)
        last = int((out + rest).split()[-1])
        seen = f"SIGKILL {number}: {delay:.4f} s after the second checkpoint, {last} printed, {said(err.decode())!r}"
        assert process.returncode == -signal.SIGKILL and last > 2, seen
        frames, values = play(tmp_path / str(number))
        assert last <= frames <= last + 1, seen
        for name, value in values.items():
            assert (value == frames).all(), (seen, name, value)


# Exceptions

FAIL = """
import itertools, json, threading, time
act = a3c.Agent.act
def failing(agent, s, greedy=False):
    if threading.current_thread().name == victim and agent.server.learned == learned and next(frames) == frame:
        failed.append(time.monotonic())
        raise RuntimeError("on purpose")
    return act(agent, s, greedy)
a3c.Agent.act = failing
for victim, learned, frame in json.loads(sys.argv[1]):
    frames, failed = itertools.count(1), []
    a3c.LEARNED_MEAN = 0 if victim == "test_thread" else 1000
    print("====", file=sys.stderr, flush=True)
    status = a3c.main([*sys.argv[2:], "--render", "video" if learned else "none"])
    seconds = time.monotonic() - failed[0]
    print(json.dumps([status, seconds, [thread.name for thread in threading.enumerate()]]), file=sys.stderr, flush=True)
"""


@pytest.mark.parametrize("turn, workers", [
    (0, 3), *(pytest.param(turn, 8, marks=pytest.mark.long) for turn in range(1, 11))])
def test_an_exception_in_any_thread_stops_all_with_one_traceback_that_names_the_thread(tmp_path, turn, workers):
    rng = random.Random(f"exceptions {turn}")
    faults = [*((f"local_thread{i}", False, rng.randint(1, 2000)) for i in range(1, workers + 1)),
              ("test_thread", False, rng.randint(1, 80)), ("test_thread", True, rng.randint(1, 8))]
    status, out, err = drive(FAIL, json.dumps(faults), "--workers", workers, "--checkpoint", "saved", cwd=tmp_path)
    assert status == 0, err
    reports = err.split("====\n")[1:]
    assert len(reports) == len(faults)
    for fault, report in zip(faults, reports):
        report, end = report.rstrip("\n").rsplit("\n", 1)
        status, seconds, threads = json.loads(end)
        assert status == 1 and seconds < (2 if turn else 20), (fault, end)
        assert not [name for name in threads if name.startswith(("local_thread", "test_thread"))], (fault, end)
        assert report.startswith(f"Exception in thread {fault[0]}:\n"), (fault, report)
        assert report.count("Traceback") == 1 and report.endswith("\nRuntimeError: on purpose"), (fault, report)
    assert not list(tmp_path.rglob(".film-*")) and not list(tmp_path.rglob("*.mp4"))
    play(tmp_path / "saved")


# Full disks, lost folders

def assert_one_line(err, *words):
    assert err.count("\n") == 1 and err.endswith("\n") and all(word in err for word in words), err


@posix
@pytest.mark.parametrize("size", [0, *(pytest.param(size, marks=pytest.mark.long) for size in (100, 700, 1000, 1571))])
def test_a_disk_too_full_for_the_checkpoint_is_one_line_with_the_reason(tmp_path, size):
    status, out, err = drive(limit(size) + END, "--workers", 1, "--render", "none", "--max-frames", 300,
                             "--checkpoint", "saved", cwd=tmp_path)
    assert status == 1, err
    assert_one_line(err, "the checkpoint cannot be written in 'saved': ", "File too large")
    assert not list((tmp_path / "saved").glob("*.index"))


REMOVED = """
import shutil
run = a3c.Environment.run
def lose(self, env=None):
    steps = run(self, env)
    if env: shutil.rmtree("films")
    return steps
a3c.Environment.run = lose
"""


@posix
@pytest.mark.parametrize("code, encoder", [
    pytest.param(limit(2000), None, id="full disk"),
    pytest.param(limit(1600), None, id="full disk a little earlier", marks=pytest.mark.long),
    pytest.param(REMOVED, None, id="folder removed while filming", marks=pytest.mark.long),
    pytest.param("", "exit 1", id="encoder fails"),
    pytest.param("", "cat >/dev/null; exit 1", id="encoder fails at its end", marks=pytest.mark.long),
])
def test_a_film_that_cannot_be_made_is_one_line_and_what_was_learned_is_saved(tmp_path, code, encoder):
    env = {}
    if encoder:
        (tmp_path / "ffmpeg").write_text(f"#!/bin/sh\n{encoder}\n")
        (tmp_path / "ffmpeg").chmod(0o755)
        env["IMAGEIO_FFMPEG_EXE"] = str(tmp_path / "ffmpeg")
    status, out, err = drive(LEARN_AT_ONCE + code + END, "--workers", 2, "--test-trials", 1, "--video-dir", "films",
                             "--checkpoint", "saved", cwd=tmp_path, **env)
    assert status == 1 and "Learned after" in out and "Video" not in out, (status, out, err)
    assert_one_line(err, "the film cannot be written in 'films': ")
    assert not list(tmp_path.rglob("*.mp4")) and not list(tmp_path.rglob(".film-*"))
    frames, _ = play(tmp_path / "saved")
    assert f"Learned after {frames} frames" in out


STOP_WHILE_FILMING = """
import os, signal, time
run = a3c.Environment.run
def play(self, env=None):
    if env:
        step = env.step
        def stop(action):
            os.kill(os.getpid(), signal.SIGTERM)
            while not self.server.stopped: time.sleep(0.001)  # until the main thread has heard of it
            return step(action)
        env.step = stop
    return run(self, env)
a3c.Environment.run = play
"""


@posix
def test_the_film_of_a_trial_that_was_stopped_is_not_even_made(tmp_path):
    (tmp_path / "ffmpeg").write_text('#!/bin/sh\necho "$@" >>"$0.log"\nexit 1\n')
    (tmp_path / "ffmpeg").chmod(0o755)
    (tmp_path / "ffmpeg.log").touch()
    status, out, err = drive(LEARN_AT_ONCE + STOP_WHILE_FILMING + END, "--workers", 2, "--video-dir", "films",
                             cwd=tmp_path, IMAGEIO_FFMPEG_EXE=str(tmp_path / "ffmpeg"))
    assert (status, err) == (128 + signal.SIGTERM, "Stopped by SIGTERM\n") and "Learned after" in out, out
    assert ".mp4" not in (tmp_path / "ffmpeg.log").read_text()
    assert not list((tmp_path / "films").iterdir())


@pytest.mark.parametrize("lost, what", [("saved", "the checkpoint"), ("films", "the film")])
def test_a_file_that_takes_the_place_of_a_folder_while_it_learns_is_one_line(tmp_path, monkeypatch, capfd, lost, what):
    for name in "saved", "films":
        (tmp_path / name).mkdir()
    report = a3c.Run.report

    def lose(run, line, *args, **kwargs):
        if "examines" in line and (tmp_path / lost).is_dir():
            (tmp_path / lost).rmdir()
            (tmp_path / lost).touch()
        report(run, line, *args, **kwargs)
    monkeypatch.setattr(a3c.Run, "report", lose)
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 0)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit:
        a3c.main(["--workers", "2", "--render", "video", "--video-dir", "films", "--checkpoint", "saved"])
    out, err = capfd.readouterr()
    assert_one_line(exit.value.code + "\n", f"{what} cannot be written in {lost!r}: ")
    assert err == "" and "Video" not in out
    if lost == "films":
        assert f"Learned after {play(tmp_path / 'saved')[0]} frames" in out


LATER = """
begin = a3c.Run.begin
def begun(run, server):
    begin(run, server)
    exec(later)
a3c.Run.begin = begun
"""


@posix
@pytest.mark.parametrize("code, bar", [
    pytest.param(limit(2000), 0, id="from the start"),
    pytest.param(f"later = {limit(2000)!r}\n" + LATER, 0, id="later, little to write"),
    pytest.param(f"later = {limit(2000)!r}\n" + LATER, 60, id="later, much to write", marks=pytest.mark.long)])
def test_a_disk_too_full_for_the_curves_is_one_line_and_what_was_learned_is_saved(tmp_path, code, bar):
    status, out, err = drive(f"a3c.LEARNED_MEAN = {bar}\n" + code + END, "--workers", 2, "--render", "none",
                             "--checkpoint", "saved", "--logdir", "curves", cwd=tmp_path)
    assert status == 1, (status, out, err)
    assert_one_line(err, "curves cannot be written in 'curves': ", "File too large")
    if "Learned after" in out or "later" in code:
        assert play(tmp_path / "saved")[0] > 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_disk_too_full_for_stdout_is_one_line_and_saves(tmp_path, monkeypatch, capfd):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as exit:
            a3c.main(["--workers", "2", "--render", "none", "--verbose", "--checkpoint", str(tmp_path / "saved")])
        monkeypatch.undo()
    assert exit.value.code == "stdout cannot be written: No space left on device" and capfd.readouterr().err == ""
    play(tmp_path / "saved")


# Damaged checkpoints

def is_refused(folder, original, capfd, caplog):
    """Whether the checkpoint in `folder` is refused in one line. If it is not, it has to be the original one, number
    for number."""
    try:
        _, values = play(folder)
    except SystemExit as exit:
        out, err = capfd.readouterr()
        assert (exit.code, out, err.count("\n")) == (2, "", 1) and "--checkpoint" in err, (exit.code, out, err)
        assert not caplog.messages  # TensorFlow's log goes to the real stderr, past capfd
        return True
    capfd.readouterr()
    assert values.keys() == original.keys()
    for name in values:
        np.testing.assert_array_equal(values[name], original[name])
    return False


def damages(content, number):
    """Damages spread over all of a file's content: (what was done where, new content)."""
    for i, offset in enumerate(sorted({round(i * (len(content) - 1) / (number - 1)) for i in range(number)})):
        before, after = content[:offset], content[offset + 1:]
        yield [(f"byte {offset} inverted", before + bytes([content[offset] ^ 255]) + after),
               (f"cut off at {offset}", before),
               (f"a bit of byte {offset}", before + bytes([content[offset] ^ 1 << offset % 8]) + after),
               (f"16 bytes from {offset} zero", before + bytes(len(content[offset:offset + 16])) + after[15:])][i % 4]
    yield "a length in the index's footer", content[:-44] + bytes([content[-44] ^ 255]) + content[-43:]


@pytest.mark.parametrize("number", few_and_many(8, 400))
def test_a_damaged_checkpoint_is_refused_or_the_damage_is_without_effect(tmp_path, made, capfd, caplog, number):
    _, original = play(made)
    capfd.readouterr()
    outcomes = {}
    for path in made.iterdir():
        for damage, content in damages(path.read_bytes(), number):
            folder = tmp_path / "c"
            shutil.copytree(made, folder)
            (folder / path.name).write_bytes(content)
            try:
                outcomes[path.name, damage] = is_refused(folder, original, capfd, caplog)
            except BaseException as error:
                raise AssertionError(f"{path.name}: {damage}") from error
            shutil.rmtree(folder)
    for part in ".index", ".data-00000-of-00001":
        refused = [refused for (name, _), refused in outcomes.items() if name.endswith(part)]
        assert sum(refused) > 0.8 * len(refused), part
    print(sum(outcomes.values()), "refused of", len(outcomes), [key for key in outcomes if not outcomes[key]])


@pytest.mark.parametrize("part", ["checkpoint", "*.index", "*.data*", "*"])
def test_a_checkpoint_with_a_part_missing_is_refused(tmp_path, made, capfd, caplog, part):
    folder = shutil.copytree(made, tmp_path / "c")
    for path in folder.glob(part):
        path.unlink()
    assert is_refused(folder, {}, capfd, caplog)


FOREIGN = {  # name, shape and type of each variable -> those of another program's, if it has one
    "other names": lambda name, shape, dtype: ("q_network/" + name, shape, dtype),
    "other shapes": lambda name, shape, dtype: (name, [size + 1 for size in shape], dtype),
    "transposed": lambda name, shape, dtype: (name, shape[::-1], dtype),
    "other types": lambda name, shape, dtype: (name, shape, tf.float64),
    "no averages": lambda name, shape, dtype: None if "RMSProp" in name else (name, shape, dtype),
    "no critic": lambda name, shape, dtype: None if "critic" in name else (name, shape, dtype)}


@pytest.mark.parametrize("other", FOREIGN)
def test_a_checkpoint_of_another_program_is_refused(tmp_path, made, capfd, caplog, other):
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(made)))
    with tf.Graph().as_default(), tf.Session() as session:
        for name, shape in reader.get_variable_to_shape_map().items():
            if theirs := FOREIGN[other](name, shape, tf.float32):
                tf.get_variable(*theirs, tf.zeros_initializer())
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(tmp_path / "model"), 300)
    assert is_refused(tmp_path, {}, capfd, caplog)


# Odd surroundings

def play_and_film(command, cwd, films="movie/A3C", **env):
    """Play a checkpoint with `command`: (lines on stdout, what it said on stderr). A whole film has to come of it."""
    status, out, err = finish(command, cwd, **env)
    assert (status, "Traceback" in err) == (0, False), (status, out, err)
    assert_one_film(Path(cwd) / films)
    return out.splitlines(), err


def assert_one_film(folder):
    film, = folder.iterdir()
    assert film.name == "a3c-001.mp4" and len(iio.imread(film)) >= 8


@posix
def test_stdout_may_be_closed_from_the_start(tmp_path):
    args = "--workers", "2", "--test-trials", "1", "--checkpoint", "saved"
    program = sys.executable, "-c", BEGIN + LEARN_AT_ONCE + END, str(ROOT), *args
    status, out, err = finish(["sh", "-c", '"$@" >&-', "sh", *program], tmp_path)
    assert (status, out, err) == (0, "", "")
    assert play(tmp_path / "saved")[0] > 0
    assert_one_film(tmp_path / "movie/A3C")


@posix
def test_stdout_may_go_to_head(tmp_path):
    line = '{ "$@"; echo "status $?" >&2; } | head -1'
    args = "--workers", "2", "--render", "none", "--verbose", "--checkpoint", "c"
    status, out, err = finish(["sh", "-c", line, "sh", sys.executable, str(SCRIPT), *args], tmp_path)
    assert (status, out.count("\n"), err) == (0, 1, "status 1\n") and out.startswith("local_thread")
    play(tmp_path / "c")


@posix
def test_ctrl_c_is_130_even_when_it_ended_the_reader_too(tmp_path):  # as in `2>&1 | tee log`
    process = popen([sys.executable, str(SCRIPT), "--workers", "2", "--render", "none", "--max-frames", str(10 ** 9)],
                    tmp_path, stderr=subprocess.STDOUT)
    while b"frames, 50 trials" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.stdout.close()
    assert process.wait(timeout=60) == 130


def test_a_signal_that_came_while_python_drops_exceptions_still_stops_it(monkeypatch, capfd):
    begin = a3c.Run.begin

    def late(run, server):
        run.signum = signal.SIGTERM
        begin(run, server)
    monkeypatch.setattr(a3c.Run, "begin", late)
    assert a3c.main(["--render", "none", "--workers", "2"]) == 143
    out, err = capfd.readouterr()
    assert (out, said(err)) == ("", "Stopped by SIGTERM\n")


def test_a_signal_while_the_graph_is_built_ends_it_there(tmp_path, monkeypatch, capfd):
    build, builds = a3c.LocalBrain._build_graph, []

    def interrupted(brain):
        signal.raise_signal(signal.SIGINT)  # raises nothing: it may come in the middle of TensorFlow's own code
        build(brain)
        builds.append(brain)
    monkeypatch.setattr(a3c.LocalBrain, "_build_graph", interrupted)
    assert a3c.main(["--render", "none", "--checkpoint", str(tmp_path / "saved")]) == 130
    out, err = capfd.readouterr()
    assert (len(builds), out, said(err)) == (2, "", "Stopped by SIGINT\n")  # one learner's and the test thread's
    assert not list(tmp_path.iterdir())


HANG = """
import threading
act = a3c.Agent.act
def hanging(agent, s, greedy=False):
    if threading.current_thread().name == "local_thread2":
        print("hangs", flush=True)
        threading.Event().wait()
    return act(agent, s, greedy)
a3c.Agent.act = hanging
"""


@posix
def test_a_thread_that_hangs_is_left_behind_and_the_first_of_two_signals_counts(tmp_path):
    process = popen([sys.executable, "-c", BEGIN + HANG + END, str(ROOT), "--workers", "2", "--render", "none",
                     "--checkpoint", "saved"], tmp_path, text=True)
    while process.stdout.readline() != "hangs\n":
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, said(err)) == (130, "Stopped by SIGINT\n")
    play(tmp_path / "saved")


@pytest.mark.skipif(sys.platform != "linux", reason="asks how much is in a pipe")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_even_if_nobody_reads_what_it_prints(tmp_path, signum):  # as in `| less`
    import fcntl
    import termios
    args = "--workers", "2", "--render", "none", "--verbose", "--max-frames", str(10 ** 9), "--checkpoint", "saved"
    process = popen([sys.executable, str(SCRIPT), *args], tmp_path)
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    while int.from_bytes(fcntl.ioctl(process.stdout, termios.FIONREAD, bytes(4)), sys.byteorder) < 4000:
        assert process.poll() is None
        time.sleep(0.02)  # until no further line fits in
    process.send_signal(signum)
    assert process.wait(timeout=60) == 128 + signum
    assert said(process.stderr.read().decode()) == f"Stopped by {signum.name}\n"
    play(tmp_path / "saved")


def test_a_narrow_terminal_gets_narrow_help_and_an_error_is_still_one_line(monkeypatch, capfd):
    monkeypatch.setenv("COLUMNS", "40")
    for args, expected in (["--help"], 0), (["--speed"], 2), (["--seed", "x" * 100], 2):
        with pytest.raises(SystemExit) as exit:
            a3c.main(args)
        out, err = capfd.readouterr()
        assert exit.value.code == expected
        if expected:
            assert_one_line(err, args[0])
        else:
            assert max(map(len, out.split("options:")[1].splitlines())) <= 40


@posix
@pytest.mark.parametrize("folder", ["10:30 動画", pytest.param("movie/A3C", marks=pytest.mark.long)])
def test_neither_an_ascii_locale_nor_a_home_that_cannot_be_written_stops_it(tmp_path, made, folder):
    # To ffmpeg, what stands before a colon is a protocol, unless the path is absolute.
    command = sys.executable, SCRIPT, "--play", "--test-trials", "1", "--checkpoint", made, "--video-dir", folder
    out, err = play_and_film(command, tmp_path, folder, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0",
                             PYTHONIOENCODING="ascii", HOME="/proc/none", XDG_CACHE_HOME="", XDG_CONFIG_HOME="")
    assert err == "" and out[-1].startswith("Video: ") and out[-1].endswith("a3c-001.mp4")


def test_it_runs_from_another_folder_with_spaces_and_japanese_names(tmp_path, monkeypatch):
    here = tmp_path / "a folder 倒立 振子"
    here.mkdir()
    monkeypatch.chdir(here)
    args = "--checkpoint", "重み と ε", "--video-dir", "動画 films"
    assert a3c.main(["--render", "none", "--max-frames", "300", "--workers", "1", *args]) == 1
    command = [sys.executable, os.path.relpath(SCRIPT, here), "--play", "--test-trials", "1", *args]
    out, err = play_and_film(command, here, "動画 films", PYTHONIOENCODING="utf-8")
    assert err == "" and out[-1] == f"Video: {os.path.join('動画 films', 'a3c-001.mp4')}"
    assert {path.name for path in here.iterdir()} == {"重み と ε", "動画 films"}


WINDOW = """
import collections, os, threading, pygame
try_it, flip, shown = a3c.Run.can_open_window, pygame.display.flip, collections.Counter()
def opens(run, pygame):
    try_it(run, pygame)
    return True
def noted():
    shown[(threading.current_thread().name, *pygame.display.get_window_size())] += 1
    flip()
a3c.Run.can_open_window, pygame.display.flip = opens, noted
status = a3c.main(sys.argv[1:])
print(*shown.items(), os.environ["SDL_VIDEODRIVER"])
sys.exit(status)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="SDL draws without a screen in another way elsewhere")
def test_where_a_window_opens_each_frame_is_shown_in_it_and_filmed(tmp_path):
    status, out, err = drive(LEARN_AT_ONCE + WINDOW, "--render", "human", "--test-trials", 1, "--workers", 1,
                             cwd=tmp_path, SDL_VIDEODRIVER="offscreen")
    assert (status, err) == (0, "")
    steps = int(TRIAL.search(out)[1])
    assert out.splitlines()[-1] == f"(('test_thread', 600, 400), {steps + 1}) offscreen"
    assert steps <= len(iio.imread(tmp_path / "movie/A3C/a3c-001.mp4")) <= steps + 1


def test_a_video_driver_that_does_not_work_is_no_window(monkeypatch, capfd):
    monkeypatch.setenv("SDL_VIDEODRIVER", "missing")
    with pytest.raises(SystemExit) as exit:
        a3c.main(["--render", "human"])
    assert exit.value.code == 2 and "argument --render: no window here" in capfd.readouterr().err


# Cores

LONG = pytest.mark.long
ONE_CORE = ("import os; cores = getattr(os, 'sched_setaffinity', None)\n"
            "if cores: cores(0, [min(os.sched_getaffinity(0))])\n")


@pytest.mark.parametrize("workers", [1, *(pytest.param(workers, marks=LONG) for workers in (2, 8, 16)), 32])
@pytest.mark.parametrize("cores", ["one", pytest.param("all", marks=LONG)])
def test_any_number_of_workers_on_one_core_and_on_all_counts_exactly(tmp_path, workers, cores):
    if cores == "one" and not hasattr(os, "sched_setaffinity"):
        pytest.skip("a process cannot choose its cores here")
    status, out, err = drive((ONE_CORE if cores == "one" else "") + END, "--workers", workers, "--render", "none",
                             "--max-frames", 5000, cwd=tmp_path)
    assert (status, err) == (1, "")
    assert re.fullmatch(r"Not learned after 5000 frames: best mean of ten trials \d+\.\d", out.splitlines()[-1])


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2, 8, 16, 32])
@pytest.mark.parametrize("cores", ["one", "all"])
def test_any_number_of_workers_on_one_core_and_on_all_learns(tmp_path, workers, cores):
    if cores == "one" and not hasattr(os, "sched_setaffinity"):
        pytest.skip("a process cannot choose its cores here")
    status, out, err = drive((ONE_CORE if cores == "one" else "") + END, "--workers", workers, "--render", "none",
                             "--seed", 1, "--test-trials", 100, cwd=tmp_path)
    assert (status, err) == (0, ""), out
    assert float(re.fullmatch(r"Test: mean (.*) steps over 100 trials", out.splitlines()[-1])[1]) >= 195
