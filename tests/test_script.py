"""The real script, started as its user starts it: learns, films, saves, plays; refuses bad input; ends when told."""
import collections
import io
import os
import re
import runpy
import signal
import stat
import subprocess
import sys
import time
import unittest.mock

import imageio.v3 as iio
import numpy as np
import pytest
from conftest import ROOT, SCRIPT, a3c, environment_variables, run, said, start

LEARNED = re.compile(r"Learned after (\d+) frames, (\d+) trials, (\d+\.\d) s \((\d+) frames/s\)")
CLAIM = re.compile(r"local_thread\d claims: mean (199|200)\.\d steps over its last 10 trials")
EXAM = re.compile(r"test_thread examines: mean \d+\.\d steps over 10 trials")
PROGRESS = re.compile(r"(\d+) frames, (\d+) trials: mean (\d+\.\d) steps(, epsilon 0\.\d\d)?")


def test_it_learns_films_saves_and_plays_back(tmp_path, capfd):
    began = time.perf_counter()
    status, out, err = run("--seed", 1, "--checkpoint", "saved", "--test-trials", 2, cwd=tmp_path)
    elapsed = time.perf_counter() - began
    assert (status, err) == (0, "")
    progress = [PROGRESS.fullmatch(line) for line in out if PROGRESS.fullmatch(line)]
    assert [int(match[2]) for match in progress] == list(range(50, 50 * len(progress) + 1, 50))
    assert bool(progress[0][4]) and not progress[-1][4]
    rest = [line for line in out if not PROGRESS.fullmatch(line)]
    claims = [line for line in rest if CLAIM.fullmatch(line)]
    exams = [line for line in rest if EXAM.fullmatch(line)]
    learned = LEARNED.fullmatch(rest[len(claims) + len(exams)])
    assert claims and exams and learned
    number, trials, seconds, rate = map(float, learned.groups())
    assert trials // 50 == len(progress) and 0 < seconds < elapsed
    assert number / (seconds + 0.05) - 1 < rate < number / (seconds - 0.05) + 1
    assert float(exams[-1].split()[3]) > 199 and all(float(line.split()[3]) <= 199 for line in exams[:-1])
    trials = [int(steps) for steps in re.findall(r"^Test trial \d: (\d+) steps$", "\n".join(rest), re.M)]
    assert rest[len(claims) + len(exams) + 1:] == [
        f"Test trial 1: {trials[0]} steps", f"Test trial 2: {trials[1]} steps",
        f"Test: mean {sum(trials) / 2:.1f} steps over 2 trials",
        "Video: movie/A3C/a3c-001.mp4", "Video: movie/A3C/a3c-002.mp4"]
    assert max(trials) == 200  # a policy that passed may still fall now and then
    for film, steps in zip(("a3c-001.mp4", "a3c-002.mp4"), trials):
        frames = iio.imread(tmp_path / "movie/A3C" / film)
        assert frames.shape[1:] == (400, 600, 3) and steps <= len(frames) <= steps + 1
        changes = np.abs(np.diff(frames.astype(np.int16), axis=0)).max(axis=(1, 2, 3))
        assert (changes > 10).sum() >= 10  # a good policy may hardly move the cart, but it does move
        dark = (frames[:, 285:300] < 60).all(axis=3)  # the cart's body, above its track
        assert dark.any(axis=(1, 2)).all()

    checkpoint = f"model-{learned[1]}"
    assert {path.name for path in (tmp_path / "saved").iterdir()} == \
        {"checkpoint", checkpoint + ".index", checkpoint + ".data-00000-of-00001"}
    films = {path: path.read_bytes() for path in (tmp_path / "movie/A3C").iterdir()}
    saved = {path: path.read_bytes() for path in (tmp_path / "saved").iterdir()}
    assert max(path.stat().st_mtime for path in saved) <= min(path.stat().st_mtime for path in films)  # when learned
    status, out, err = run("--play", "--checkpoint", "saved", "--test-trials", 1, cwd=tmp_path)
    steps = out[0].split()[3]
    assert (status, out, err) == (0, [f"Test trial 1: {steps} steps", f"Test: mean {steps}.0 steps over 1 trials",
                                      "Video: movie/A3C/a3c-003.mp4"], "")
    args = "--play", "--checkpoint", str(tmp_path / "saved"), "--test-trials", "100", "--render", "none"
    assert a3c.main(args) == 0
    assert float(re.search(r"^Test: mean (.*) steps over 100 trials$", capfd.readouterr().out, re.M)[1]) >= 195
    for path, content in (films | saved).items():
        assert path.read_bytes() == content  # nothing was lost or rewritten
    assert {path.name for path in tmp_path.iterdir()} == {"saved", "movie"}
    assert {path.name for path in (tmp_path / "movie/A3C").iterdir()} == {f"a3c-00{i}.mp4" for i in (1, 2, 3)}


def test_training_goes_on_from_a_checkpoint(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    for total in 3000, 6000:
        assert a3c.main(["--render", "none", "--checkpoint", "new/saved", "--max-frames", "3000"]) == 1
        out, err = capfd.readouterr()
        assert re.search(rf"\nNot learned after {total} frames: best mean of ten trials \d+\.\d\n\Z", out) and err == ""
        assert (tmp_path / f"new/saved/model-{total}.index").exists()
    assert ", epsilon" not in out  # ε goes on from where it was, too
    first, second = (a3c.tf.train.load_checkpoint(str(tmp_path / "new/saved" / f"model-{n}")) for n in (3000, 6000))
    shapes, weights = second.get_variable_to_shape_map(), "parameter_server/hidden/weights"
    assert len(shapes) == 18 and shapes[weights] == [4, 16]
    assert (second.get_tensor(weights + "/RMSProp") != 1).any()
    assert (first.get_tensor(weights) != second.get_tensor(weights)).any()


def test_one_worker_with_one_seed_gives_the_same_run_trial_by_trial(tmp_path, capfd):
    args = "--workers", "1", "--render", "none", "--verbose", "--max-frames", "6000", "--seed", "7"
    assert a3c.main(args) == 1
    first, again = capfd.readouterr().out.splitlines(), run(*args, cwd=tmp_path)[1]  # in another process
    assert first == again
    assert len(first) > 100 and list(tmp_path.iterdir()) == []
    *lines, last = first
    steps, means = [], []
    for line in lines:
        if match := re.fullmatch(r"local_thread1, trial \d+: (\d+) steps, mean of last ten (\d+\.\d)", line):
            steps.append(int(match[1]))
            means.append(float(match[2]))
        else:
            frames, mean = sum(steps), np.mean(steps[-50:])
            epsilon = f", epsilon {0.5 * (1 - frames / 1600):.2f}" if frames < 1600 else ""
            assert line == f"{frames} frames, {len(steps)} trials: mean {mean:.1f} steps{epsilon}"
    assert last == f"Not learned after 6000 frames: best mean of ten trials {max(means)}"


def test_two_runs_in_one_process_are_independent(capsys):
    args = "--workers", "1", "--render", "none", "--max-frames", "2000", "--verbose", "--seed"
    handlers = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)]
    outputs = []
    for seed in "3", "4", "3":
        assert a3c.main([*args, seed]) == 1
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[2] != outputs[1]
    assert handlers == [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)]


def test_lines_of_different_threads_never_mix_and_every_fiftieth_trial_makes_one(monkeypatch):
    class Halting(io.StringIO):
        def write(self, text):
            for part in text[:5], text[5:]:
                super().write(part)
                time.sleep(1e-5)  # lets other threads run in the middle of a line
    monkeypatch.setattr(sys, "stdout", Halting())
    assert a3c.main(["--render", "none", "--max-frames", "3000", "--verbose"]) == 1
    *lines, last = sys.stdout.getvalue().splitlines()
    progress = [int(match[2]) for match in map(PROGRESS.fullmatch, lines) if match]
    trials = [line for line in lines if re.fullmatch(r"local_thread\d, trial \d+: \d+ steps, mean of .* \d+\.\d", line)]
    assert len(trials) + len(progress) == len(lines) and progress == list(range(50, len(trials) + 1, 50)), lines


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux lets threads choose their cores")
def test_all_threads_share_a_core_and_give_it_back(monkeypatch):
    before, cores, work = os.sched_getaffinity(0), {}, a3c.Worker_thread.run

    def noted(worker):
        cores[worker.name] = os.sched_getaffinity(0)
        work(worker)
    monkeypatch.setattr(a3c.Worker_thread, "run", noted)
    assert a3c.main(["--render", "none", "--max-frames", "200", "--workers", "2"]) == 1
    assert set(cores) == {"local_thread1", "local_thread2", "test_thread"}
    assert len(set.union(*cores.values())) == 1 and set.union(*cores.values()) <= before
    assert os.sched_getaffinity(0) == before


def test_logdir_gets_the_graph_and_the_curves_of_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 25)
    folder = tmp_path / "new" / "curves"
    a3c.main(["--workers", "2", "--render", "none", "--seed", "1", "--verbose", "--logdir", str(folder)])
    out = capsys.readouterr().out
    path, = folder.iterdir()
    curves, nodes = collections.defaultdict(list), set()
    for record in a3c.tf.python_io.tf_record_iterator(str(path)):
        event = a3c.tf.Event.FromString(record)
        nodes |= {node.name for node in a3c.tf.GraphDef.FromString(event.graph_def).node}
        for value in event.summary.value:
            curves[value.tag].append((event.step, value.simple_value))
    assert {"local_thread1/s", "local_thread2/s", "test_thread/s", "parameter_server/hidden/weights"} <= nodes
    for thread in "local_thread1", "local_thread2":
        trials = re.findall(rf"{thread}, trial \d+: (\d+) steps, mean of last ten (\d+\.\d)", out)
        assert [int(steps) for steps, _ in trials] == [steps for _, steps in curves[f"steps/{thread}"]]
        assert [mean for _, mean in trials] == [f"{mean:.1f}" for _, mean in curves[f"mean_of_last_ten/{thread}"]]
    assert [f"{mean:.1f}" for _, mean in curves["exam"]] == re.findall(r"examines: mean (\d+\.\d)", out)
    before = 0
    for frames, epsilon in curves["epsilon"]:  # read between the event before and this one
        high, low = (max(0, 0.5 * (1 - number / 1600)) for number in (before, frames))
        assert low - 1e-6 <= epsilon <= high + 1e-6
        before = frames
    for tag in "loss/actor", "loss/critic", "loss/entropy", "gradient", "updates_per_second":
        frames, values = zip(*curves[tag])
        assert len(values) == len(curves["epsilon"]) and list(frames) == sorted(frames) and np.isfinite(values).all()
    assert all(-0.01 <= value / np.log(2) < 0 for _, value in curves["loss/entropy"])
    assert all(value > 0 for tag in ("loss/critic", "gradient", "updates_per_second") for _, value in curves[tag])


def test_the_curves_are_means_of_the_last_ten_updates_and_updates_per_second(tmp_path, monkeypatch):
    log, logged = a3c.Run.log, []

    def noted(run, **event):
        logged.append((time.perf_counter() - run.start_time, list(run.updates), event.get("summary")))
        log(run, **event)
    monkeypatch.setattr(a3c.Run, "log", noted)
    args = "--workers", "1", "--render", "none", "--max-frames", "1000", "--logdir", str(tmp_path)
    assert a3c.main(args) == 1
    assert len(logged[-1][1]) > 20
    for (before, *_), (now, updates, summary) in zip(logged, logged[1:]):
        points = {value.tag: value.simple_value for value in summary.value}
        np.testing.assert_allclose([points[tag] for tag in ("loss/actor", "loss/critic", "loss/entropy", "gradient")],
                                   np.mean(updates[-10:], axis=0), rtol=1e-5)
        assert 0.999 * len(updates) / now <= points["updates_per_second"] <= 1.001 * len(updates) / before


def test_main_builds_one_finalized_graph_before_the_first_thread_starts(monkeypatch):
    seen = []
    start_thread = a3c.threading.Thread.start

    def started(thread):
        worker = thread._target.__self__
        seen.append((thread.name, worker.name, worker.server, worker.server.session.graph))
        assert worker.server.session.graph.finalized
        start_thread(thread)
    monkeypatch.setattr(a3c.threading.Thread, "start", started)
    assert a3c.main(["--render", "none", "--max-frames", "200", "--workers", "3"]) == 1
    assert [name for name, *_ in seen] == [name for _, name, *_ in seen] == [
        "local_thread1", "local_thread2", "local_thread3", "test_thread"]
    assert len({id(server) for *_, server, _ in seen}) == len({id(graph) for *_, graph in seen}) == 1
    operations = seen[0][3].get_operations()
    assert all(operation.device in ("/device:CPU:0", "") for operation in operations)  # "": those of first values
    assert {(operation.type, operation.device) for operation in operations} >= {
        (kind, "/device:CPU:0") for kind in ("VarHandleOp", "MatMul", "ResourceApplyRMSProp", "AssignVariableOp")}
    assert [device.device_type for device in seen[0][2].session.list_devices()] == ["CPU"]


def test_the_defaults_are_those_of_the_readme_and_each_run_has_a_seed_of_its_own():
    with a3c.Run(["--render", "none"]) as one, a3c.Run(["--render", "none"]) as other:
        assert (one.workers, one.max_frames, one.test_trials, one.video_dir) == (8, 1_000_000, 3, "movie/A3C")
        assert (one.checkpoint, one.logdir, one.play, one.verbose) == (None, None, False, False)
        assert one.seed != other.seed  # equal once in four billion times


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    args = "--workers", "1", "--render", "none", "--max-frames", "300", "--checkpoint", str(folder / "c")
    assert a3c.main(args) == 1
    return {path.name: path.read_bytes() for path in (folder / "c").iterdir()}


def test_frames_of_a_checkpoint_count_as_frames_but_not_for_the_speed(tmp_path, checkpoint, monkeypatch, capfd):
    for name, content in checkpoint.items():  # as if it were the checkpoint of so many frames
        if name == "checkpoint":
            content = content.replace(b"model-300", b"model-90000000")
        (tmp_path / name.replace("model-300", "model-90000000")).write_bytes(content)
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 0)
    assert a3c.main(["--render", "none", "--workers", "1", "--checkpoint", str(tmp_path)]) == 0
    frames, _, _, rate = LEARNED.search(capfd.readouterr().out).groups()
    assert 90_000_000 < int(frames) < 90_100_000 and int(rate) < 1_000_000  # CartPole alone makes 200,000 a second


def test_what_is_not_used_need_not_be_there(tmp_path, checkpoint, monkeypatch):
    for name, content in checkpoint.items():
        (tmp_path / name).write_bytes(content)

    def read_only(dir):
        raise PermissionError(13, "Permission denied")
    monkeypatch.setattr(a3c.tempfile, "mkdtemp", read_only)
    for package in "pygame", "moviepy":
        monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    assert a3c.main(["--play", "--render", "none", "--test-trials", "1", "--checkpoint", str(tmp_path)]) == 0


@pytest.mark.parametrize("render, window", [("human", True), ("auto", True), ("video", False)])
def test_a_window_opens_where_one_can_unless_only_films_are_wanted(monkeypatch, render, window):
    monkeypatch.setattr(a3c.Run, "can_open_window", lambda run, pygame: True)
    with a3c.Run(["--render", render]) as run:
        assert run.window == window


@pytest.mark.parametrize("driver, can", [("x11", True), ("wayland", True), ("windows", True), ("cocoa", False),
                                         ("dummy", False)])
def test_a_thread_can_open_a_window_with_some_drivers(monkeypatch, driver, can):
    import pygame
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(pygame.display, "get_driver", lambda: driver)
    assert a3c.Run.can_open_window(None, pygame) == can


BAD = [(("--workers", "0"), "--workers"), (("--workers", "-1"), "--workers"), (("--workers", "two"), "--workers"),
       (("--seed", "-1"), "--seed"), (("--seed", str(2 ** 32)), "--seed"), (("--seed", "1.5"), "--seed"),
       (("--max-frames", "0"), "--max-frames"), (("--test-trials", "0"), "--test-trials"),
       (("--render", "film"), "--render"), (("--render", "human"), "--render"), (("--play",), "--checkpoint"),
       (("--play", "--checkpoint", "missing"), "--checkpoint"), (("--play", "--checkpoint", "empty"), "--checkpoint"),
       (("--play", "--checkpoint", ""), "--checkpoint"), (("--play", "--checkpoint", "file"), "--checkpoint"),
       (("--checkpoint", ""), "--checkpoint"), (("--checkpoint", "file"), "--checkpoint"),
       (("--checkpoint", "file/below"), "--checkpoint"), (("--checkpoint", "x" * 300), "--checkpoint"),
       (("--checkpoint", "run[1]"), "--checkpoint"),  # TensorFlow would save there, and find nothing
       (("--logdir", ""), "--logdir"), (("--logdir", "file/below"), "--logdir"), (("--video-dir", ""), "--video-dir"),
       (("--video-dir", "file"), "--video-dir"),
       (("--video-dir", "empty/" + "x" * 300), "--video-dir"), (("--speed",), "--speed"), (("more",), "more")]
if os.name == "posix":
    BAD += [((flag, "dangling"), flag) for flag in ("--checkpoint", "--video-dir", "--logdir")]
if sys.platform == "linux":
    BAD += [(("--checkpoint", "/proc/new"), "--checkpoint"), (("--video-dir", "/proc/new"), "--video-dir")]


@pytest.mark.parametrize("args, flag", BAD)
def test_bad_input_gets_one_line_and_writes_nothing(tmp_path, monkeypatch, capfd, args, flag):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("text")
    if "dangling" in args:
        (tmp_path / "dangling").symlink_to(tmp_path / "no disk" / "there")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # no screen
    with pytest.raises(SystemExit) as exit:
        a3c.main(list(args))
    out, err = capfd.readouterr()
    assert (exit.value.code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("a3c_cartpole.py: error: ") and flag in err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_on_a_drive_that_is_not_there_is_refused(monkeypatch, capfd):
    monkeypatch.setattr(a3c.pathlib.Path, "exists", lambda path: False)  # as of any part of Z:/saved
    with pytest.raises(SystemExit) as exit:
        a3c.main(["--render", "none", "--checkpoint", "/no/drive"])
    assert exit.value.code == 2 and "argument --checkpoint: cannot write in '/no/drive'" in capfd.readouterr().err


def test_it_prints_where_stdout_is_not_a_file(monkeypatch):  # as in IDLE
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--help"])
    handler = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit) as exit:
            runpy.run_path(str(SCRIPT), run_name="__main__")
    finally:
        signal.signal(signal.SIGINT, handler)
    assert exit.value.code == 0 and sys.stdout.getvalue().startswith("usage: a3c_cartpole.py")


def damage_truncate(files):
    name = next(name for name in files if ".data" in name)
    files[name] = files[name][:-100]


def damage_flip(files):
    name = next(name for name in files if ".data" in name)
    files[name] = files[name][:200] + bytes([files[name][200] ^ 255]) + files[name][201:]


def damage_index(files):
    name = next(name for name in files if ".index" in name)
    files[name] = files[name][:50]


def damage_missing(files):
    del files[next(name for name in files if ".index" in name)]


def damage_state(files):
    files["checkpoint"] = b"\xff\xfe nonsense"


@pytest.mark.parametrize("play", [["--play"], []])
@pytest.mark.parametrize("damage", [damage_truncate, damage_flip, damage_index, damage_missing, damage_state])
def test_a_damaged_checkpoint_is_refused(tmp_path, checkpoint, capfd, damage, play):
    files = dict(checkpoint)
    damage(files)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SystemExit) as exit:
        a3c.main(["--workers", "1", "--render", "none", "--checkpoint", str(tmp_path), *play])
    out, err = capfd.readouterr()
    assert (exit.value.code, out, err.count("\n")) == (2, "", 1) and "--checkpoint" in err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_a_checkpoint_of_another_network_is_refused(tmp_path, checkpoint, monkeypatch, capfd):
    for name, content in checkpoint.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(a3c, "HIDDEN_UNITS", 17)
    with pytest.raises(SystemExit) as exit:
        a3c.main(["--workers", "1", "--render", "none", "--checkpoint", str(tmp_path)])
    err = capfd.readouterr().err
    assert (exit.value.code, err.count("\n")) == (2, 1) and "--checkpoint" in err


@pytest.mark.parametrize("package", ["pygame", "moviepy"])
def test_a_package_missing_for_the_film_is_named_before_training(monkeypatch, capfd, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit) as exit:
        a3c.main(["--render", "video"])
    out, err = capfd.readouterr()
    assert (exit.value.code, out, err.count("\n")) == (2, "", 1)
    assert package in err and "install it (" in err and "), or take none" in err


@pytest.mark.parametrize("wanted, message", [("ffmpeg-imageio", "No ffmpeg exe"), ("/missing/it", "'/missing/it'")])
def test_an_ffmpeg_that_does_not_run_is_one_line_before_training(monkeypatch, capfd, wanted, message):
    def fail(command, **kwargs):  # as when a Ctrl-C ends it while moviepy tries it out
        raise subprocess.CalledProcessError(-signal.SIGINT, command)
    monkeypatch.setattr(subprocess, "check_call", fail)
    monkeypatch.setenv("FFMPEG_BINARY", wanted)  # moviepy's; the first is its default, which comes with it
    with unittest.mock.patch.dict(sys.modules):
        for name in [name for name in sys.modules if re.match(r"moviepy|imageio", name)]:
            del sys.modules[name]
        with pytest.raises(SystemExit) as exit:
            a3c.main(["--render", "video"])
    out, err = capfd.readouterr()
    assert (exit.value.code, out, err.count("\n")) == (2, "", 1)
    assert message in err and "install it (" in err and "), or take none" in err


def test_no_keras_is_imported():  # by itself TensorFlow would, and take about a seventh longer to start
    assert not {"keras", "tf_keras"} & set(sys.modules)


@pytest.mark.parametrize("source", [
    "raise ModuleNotFoundError(\"No module named 'tensorflow'\")",
    "try: import libtensorflow\nexcept ImportError as e: raise ImportError('\\n\\nTraceback\\nof lines') from e"])
def test_tensorflow_missing_or_broken_is_one_line(tmp_path, source):
    (tmp_path / "tensorflow.py").write_text(source)
    status, out, err = run(cwd=tmp_path, env=environment_variables(PYTHONPATH=str(tmp_path)))
    assert (status, out, err.count("\n")) == (1, [], 1)
    assert re.match(r"No module named '(lib)?tensorflow': .*pip install -r requirements.txt", err)


def test_a_film_is_made_without_gyms_checker(tmp_path):  # with NumPy 2 that of Gym 0.26 fails, in its first step
    with a3c.Run(["--render", "video", "--video-dir", str(tmp_path)]) as run_, pytest.raises(a3c.Stopped):
        with run_.show() as env:
            assert "OrderEnforcing" in str(env) and "Checker" not in str(env)
            raise a3c.Stopped


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_while_tensorflow_is_imported_just_ends_it(tmp_path):
    (tmp_path / "tensorflow.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(60)")
    process = start(cwd=tmp_path, env=environment_variables(PYTHONPATH=str(tmp_path)))
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, said(err)) == (-signal.SIGINT, "", "")


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("signum, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_orderly_and_saves(tmp_path, capfd, signum, status):
    process = start("--checkpoint", "saved", "--verbose", "--max-frames", 10 ** 9, cwd=tmp_path)
    for _ in range(30):
        process.stdout.readline()
    process.send_signal(signum)
    process.send_signal(signum)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, said(err)) == (status, f"Stopped by {signum.name}\n")
    assert "Learned" not in out and "Test" not in out  # it did not go on to its own end first
    frames, = (int(path.stem.split("-")[1]) for path in (tmp_path / "saved").glob("*.index"))
    assert a3c.main(["--play", "--render", "none", "--checkpoint", str(tmp_path / "saved")]) == 0 and frames > 0
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_a_reader_that_leaves_ends_it_quietly(tmp_path):
    process = start("--workers", 2, "--render", "none", "--verbose", "--checkpoint", "saved", cwd=tmp_path)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    assert said(process.stderr.read()) == ""
    assert list((tmp_path / "saved").glob("*.index"))


def test_an_exception_in_a_thread_is_shown_once_with_the_threads_name(tmp_path):
    program = ("import sys; sys.path.insert(0, sys.argv[1]); import a3c_cartpole as a3c\n"
               "def fail(self, step, done): raise RuntimeError('on purpose')\n"
               "a3c.Environment.reward = fail\n"
               "sys.exit(a3c.main(['--render', 'none', '--workers', '1']))")
    result = subprocess.run([sys.executable, "-c", program, str(ROOT)], cwd=tmp_path, capture_output=True, text=True,
                            timeout=120, env=environment_variables())
    assert (result.returncode, result.stdout) == (1, "")
    assert "Exception in thread local_thread1" in result.stderr
    assert result.stderr.count("Traceback") == 1 and result.stderr.rstrip().endswith("RuntimeError: on purpose")


def test_a_film_that_cannot_be_made_is_one_line_and_the_weights_are_saved(tmp_path):
    program = ("import sys; sys.path.insert(0, sys.argv[1]); import a3c_cartpole as a3c\n"
               "a3c.LEARNED_MEAN = 0\n"
               "import os; exists = os.makedirs\n"
               "def full(path, exist_ok=False):\n"
               "    if 'films' in path: raise OSError(28, 'No space left on device')\n"
               "    exists(path, exist_ok=exist_ok)\n"
               "os.makedirs = full\n"
               "sys.exit(a3c.main(['--render', 'video', '--video-dir', 'films', '--checkpoint', 'saved']))")
    result = subprocess.run([sys.executable, "-c", program, str(ROOT)], cwd=tmp_path, capture_output=True, text=True,
                            timeout=120, env=environment_variables())
    err = said(result.stderr)
    assert result.returncode == 1 and err.count("\n") == 1 and "films" in err and "No space left" in err
    assert "Learned after" in result.stdout and list((tmp_path / "saved").glob("*.index"))


def test_the_script_is_one_short_file_at_a_tidy_top_level():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    if tracked:
        visible = {name.split("/")[0] for name in tracked if not name.startswith(".")}
        assert visible == {"a3c_cartpole.py", "requirements.txt", "README.md", "tests"}
    assert len(SCRIPT.read_text(encoding="utf-8").splitlines()) <= 500
    assert not SCRIPT.stat().st_mode & stat.S_IXUSR
