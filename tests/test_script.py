"""The real script as its user starts it: learns, films, saves, plays; refuses bad input."""
import ast
import collections
import copy
import io
import itertools
import os
import re
import sys
import threading
import time
import tokenize

import imageio.v3 as iio
import numpy as np
import pytest
from helpers import ROOT, SCRIPT, a3c, environment_variables, run, tf

LINES = [  # all that it prints
    r"Seed \d+, \d+ learning threads",
    r"\d+ frames, \d+ trials: mean \d+\.\d, epsilon 0\.\d\d",
    r"local_thread\d claims: mean \d+\.\d of its last \d+ trials",
    r"test_thread examines: mean \d+\.\d of \d+ trials",
    r"Learned after \d+ frames, \d+ trials, \d+\.\d s",
    r"Films: movie/A3C/\d{8}-\d{6}-seed\d+",
    r"Test trial \d+: score \d+",
    r"Not learned after \d+ frames",
]
NO_FILMS = "--render", "none", "--workers", "1"


def kinds(out):
    """The number in LINES of each line that was printed, in turn."""
    numbers = []
    for line in out:
        [number] = [i for i, pattern in enumerate(LINES) if re.fullmatch(pattern, line)]
        numbers.append(number)
    return numbers


def weights(folder, frames):
    """All numbers of a checkpoint by the names of their variables."""
    reader = tf.train.load_checkpoint(str(folder / f"model-{frames}"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_learns_films_saves_and_plays_back(tmp_path, monkeypatch, capfd):
    status, out, err = run("--seed", 1, "--checkpoint", "saved", "--test-trials", 2, cwd=tmp_path)
    assert (status, err, out[0]) == (0, "", "Seed 1, 8 learning threads")
    numbers = kinds(out)
    first = numbers.index(4)
    assert numbers[first:] == [4, 5, 6, 6] and set(numbers[1:first]) == {1, 2, 3}
    progress = [line for line in out if " trials: " in line]
    counts = [int(line.split()[2]) for line in progress]
    assert counts == list(range(50, 50 * len(counts) + 1, 50))
    assert progress[-1].endswith("epsilon 0.00")
    *failed, passed = [float(line.split()[3]) for line in out if " examines: " in line]
    assert passed > 199 and all(mean <= 199 for mean in failed)
    assert all(float(line.split()[3]) > 199 for line in out if " claims: " in line)
    frames, trials = map(int, re.findall(r"(\d+) frames, (\d+) trials", out[first])[0])
    assert trials // 50 == len(progress) and f"model-{frames}.index" in contents(tmp_path / "saved")

    folder = tmp_path / out[first + 1].split()[1]
    assert folder.name.endswith("-seed1")
    scores = [int(line.split()[-1]) for line in out[-2:]]
    assert max(scores) == 200  # a policy that passed may still fall now and then
    for trial, score in enumerate(scores, 1):
        film = iio.imread(folder / f"trial-{trial}-episode-0.mp4")
        assert film.shape[1:] == (400, 600, 3) and score <= len(film) <= score + 1
        changes = np.abs(np.diff(film.astype(np.int16), axis=0)).max(axis=(1, 2, 3))
        assert (changes > 10).sum() >= 10  # a good policy may hardly move the cart, but it does
        dark = (film[:, 285:300] < 60).all(axis=3)  # the cart's body, above its track
        assert dark.any(axis=(1, 2)).all()

    monkeypatch.chdir(tmp_path)
    before = {path: path.stat() for path in tmp_path.rglob("*") if path.is_file()}
    args = ["--play", "--checkpoint", "saved", "--test-trials", "1", "--seed", "1"]
    assert a3c.main(args) == 0
    played = capfd.readouterr().out.splitlines()
    assert kinds(played) == [0, 5, 6] and played[0] == "Seed 1, 0 learning threads"
    assert len(list((tmp_path / played[1].split()[1]).iterdir())) == 1
    assert len(list((tmp_path / "movie/A3C").iterdir())) == 2  # each run has its folder of films
    assert a3c.main([*args, "--render", "none", "--test-trials", "100"]) == 0
    scores = re.findall(r"score (\d+)", capfd.readouterr().out)
    assert len(scores) == 100 and np.mean(list(map(int, scores))) >= 195
    for path, stat in before.items():
        assert path.stat() == stat, path  # nothing was rewritten


def test_training_goes_on_from_a_checkpoint(tmp_path, capfd):
    args = [*NO_FILMS, "--checkpoint", str(tmp_path / "new/saved"), "--max-frames", "1000"]
    for total in 1000, 2000:
        assert a3c.main(args) == 1
        out = capfd.readouterr().out.splitlines()
        assert out[-1] == f"Not learned after {total} frames"
        for line in out[1:-1]:
            frames, epsilon = int(line.split()[0]), float(line.split()[-1])
            assert total - 1000 < frames <= total
            assert epsilon == pytest.approx(max(0, 0.5 * (1 - frames / 1600)), abs=0.00501)
    first, second = weights(tmp_path / "new/saved", 1000), weights(tmp_path / "new/saved", 2000)
    assert set(first) == set(second) and all((first[n] != second[n]).any() for n in first
                                             if not n.endswith("RMSProp_1"))


class KeptServer(a3c.ParameterServer):
    """Can be looked at after the run."""

    def initialize(self):
        super().initialize()
        KeptServer.latest = self


def save_like_c4d0fe8(folder, frames, sizes=(4, 16, 2)):
    """Save a checkpoint with the names and shapes of that version. Returns its numbers by names."""
    rng = np.random.default_rng(0)
    inputs, hidden, actions = sizes
    layers = {"hidden": (inputs, hidden), "actor": (hidden, actions), "critic": (hidden, 1)}
    values = {}
    for (layer, shape), slot in itertools.product(layers.items(), ("", "/RMSProp", "/RMSProp_1")):
        values[f"parameter_server/{layer}/weights{slot}"] = rng.random(shape, np.float32)
        values[f"parameter_server/{layer}/biases{slot}"] = rng.random(shape[1], np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        variables = [tf.get_variable(name, initializer=value) for name, value in values.items()]
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver(variables, save_relative_paths=True)
        saver.save(session, str(folder / "model"), frames, write_meta_graph=False)
    return values


def test_a_checkpoint_of_c4d0fe8_loads(tmp_path, capfd):
    values = save_like_c4d0fe8(tmp_path, 4000)
    args = [*NO_FILMS, "--checkpoint", str(tmp_path), "--max-frames", "100"]
    assert a3c.main([*args, "--play"], server_class=KeptServer) == 0
    assert capfd.readouterr().err == ""
    server = KeptServer.latest
    with server.session.graph.as_default():
        variables = tf.global_variables("parameter_server/")
    assert {variable.op.name for variable in variables} <= values.keys()
    for variable, value in zip(variables, server.session.run(variables)):
        np.testing.assert_array_equal(value, values[variable.op.name])
    assert a3c.main(args, server_class=KeptServer) == 1
    assert "Not learned after 4100 frames" in capfd.readouterr().out
    assert set(weights(tmp_path, 4100)) == set(values)  # all 18 of them
    assert KeptServer.latest.progress.frames == 4100


def test_one_worker_and_one_seed_give_the_same_run(tmp_path, capfd):
    args = [*NO_FILMS, "--max-frames", "3000", "--checkpoint"]
    outputs = []
    for folder, seed in ("a", "7"), ("b", "8"):
        assert a3c.main([*args, str(tmp_path / folder), "--seed", seed]) == 1
        outputs.append(capfd.readouterr().out.splitlines())
    outputs.append(run(*args, "c", "--seed", 7, cwd=tmp_path)[1])  # in another process
    assert len(outputs[0]) > 3 and outputs[0][1:] == outputs[2][1:] != outputs[1][1:]
    for frames in 0, 3000:
        a, b, c = (weights(tmp_path / folder, frames) for folder in "abc")
        assert all((a[name] == c[name]).all() for name in a)
        assert any((a[name] != b[name]).any() for name in a)


class StrictProgress(a3c.Progress):
    """Lets nobody pass."""

    def verdict(self, passed):
        super().verdict(False)


class StrictServer(a3c.ParameterServer):
    def __init__(self, learners, max_frames, log):
        super().__init__(learners, max_frames, log)
        self.progress = StrictProgress(learners, max_frames)


class Halting(io.StringIO):
    """A console that lets other threads run after each write."""

    def write(self, text):
        super().write(text)
        time.sleep(1e-5)


def test_lines_of_different_threads_never_mix(monkeypatch):
    for name, value in {"LEARNED_MEAN": 15, "CLAIM_TRIALS": 2, "EXAM_TRIALS": 1}.items():
        monkeypatch.setattr(a3c, name, value)
    monkeypatch.setattr(sys, "stdout", Halting())
    assert a3c.main(["--render", "none", "--max-frames", "4000"], server_class=StrictServer) == 1
    out = sys.stdout.getvalue().splitlines()
    counts = collections.Counter(kinds(out))
    assert counts[1] >= 2 and counts[2] >= counts[3] > 10
    progress = [int(line.split()[2]) for line in out if " trials: " in line]
    assert progress == list(range(50, 50 * len(progress) + 1, 50))
    assert out[-1] == "Not learned after 4000 frames"


class Ear:
    """A log that keeps what it is told, and passes it on."""

    def __init__(self, log):
        self.log = log
        self.told = []

    def __getattr__(self, name):
        def tell(*values):
            self.told.append((name, *map(copy.copy, values)))
            return getattr(self.log, name)(*values)
        return tell


class HeardServer(a3c.ParameterServer):
    def __init__(self, learners, max_frames, log):
        super().__init__(learners, max_frames, Ear(log))
        HeardServer.latest = self


def test_logdir_holds_the_graph_and_the_right_curves(tmp_path, monkeypatch):
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 25)
    args = ["--workers", "2", "--render", "none", "--logdir", str(tmp_path / "new/curves")]
    threads = set(threading.enumerate())
    assert a3c.main(args, server_class=HeardServer) == 0
    assert set(threading.enumerate()) <= threads  # the writer, too, has ended
    [path] = (tmp_path / "new/curves").iterdir()
    curves, frames, nodes = collections.defaultdict(list), collections.defaultdict(list), set()
    for record in tf.python_io.tf_record_iterator(str(path)):
        event = tf.Event.FromString(record)
        nodes |= {node.name for node in tf.GraphDef.FromString(event.graph_def).node}
        for value in event.summary.value:
            curves[value.tag].append(value.simple_value)
            frames[value.tag].append(event.step)
    assert {"local_thread2/s", "test_thread/s", "parameter_server/hidden/weights"} <= nodes
    expected = collections.defaultdict(list)
    for what, *values in HeardServer.latest.log.told:
        if what == "trial":
            expected[f"score/{values[0]}"].append(values[1][-1])
            expected[f"mean/{values[0]}"].append(np.mean(values[1]))
        elif what == "update":
            tags = "loss/actor", "loss/critic", "loss/entropy", "gradient"
            for tag, value in zip(tags, values[0]):
                expected[tag].append(np.mean(value))
        elif what == "exam":
            expected["exam"].append(values[1])
    assert curves.keys() == expected.keys()
    for tag, values in curves.items():
        assert frames[tag][-1] <= HeardServer.latest.progress.frames and frames[tag][0] > 0
        # Updates of two threads may be told and written in different orders.
        np.testing.assert_allclose(sorted(values), sorted(expected[tag]), rtol=1e-6)


def test_the_defaults_are_those_of_the_readme_with_a_new_seed():
    one, other = a3c.parse([]), a3c.parse([])
    assert (one.workers, one.max_frames, one.test_trials, one.render) == (8, 1_000_000, 3, "auto")
    assert (one.video_dir, one.checkpoint, one.logdir, one.play) == ("movie/A3C", None, None, False)
    assert one.seed != other.seed  # equal once in four billion times


@pytest.mark.parametrize("render, can, window", [
    ("human", True, True), ("auto", True, True), ("auto", False, False), ("video", True, False)])
def test_a_window_opens_where_one_can_if_it_is_wanted(monkeypatch, render, can, window):
    monkeypatch.setattr(a3c, "can_open_window", [can].pop)
    assert a3c.parse(["--render", render]).window == window


@pytest.mark.skipif(sys.platform != "linux", reason="SDL draws without a screen in its own ways")
def test_no_window_without_a_screen(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    assert not a3c.can_open_window()
    monkeypatch.setenv("DISPLAY", ":987")  # nothing is behind it
    assert not a3c.can_open_window()
    for driver in "dummy", "offscreen":
        monkeypatch.setenv("SDL_VIDEODRIVER", driver)
        assert not a3c.can_open_window()


FOLDERS = ["", "file", "file/below", "x" * 300, "/proc/new", os.fsdecode(b"\xff")]
BAD = [*(line.split() for line in """--workers 0; --workers 257; --workers two; --workers;
       --seed -1; --seed 4294967296; --seed 1.5; --max-frames 0; --test-trials 0; --render film;
       --render human; --speed; more; --play; --play --checkpoint missing;
       --play --checkpoint empty""".split(";")),
       *(["--checkpoint", name] for name in [*FOLDERS, "run[1]", "a\\b"]),
       *(["--logdir", name] for name in FOLDERS),
       *(["--render", "video", "--video-dir", name] for name in FOLDERS[:5]),
       ["--render", "video", "--logdir", "curves", "--video-dir", "file"]]


@pytest.mark.skipif(sys.platform != "linux", reason="names that Linux cannot use")
@pytest.mark.parametrize("args", BAD, ids=ascii)
def test_bad_input_is_refused_in_one_line(tmp_path, monkeypatch, capfd, args):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("text")
    monkeypatch.chdir(tmp_path)
    for name in "DISPLAY", "WAYLAND_DISPLAY":
        monkeypatch.delenv(name, raising=False)
    threads = set(threading.enumerate())
    with pytest.raises(SystemExit) as end:
        a3c.main([*NO_FILMS, "--max-frames", "50", *args])
    out, err = capfd.readouterr()
    assert (end.value.code, out, err.count("\n")) == (2, "", 1)
    assert re.match(r"\S+: error: ", err) and args[-2:][0] in err
    assert set(threading.enumerate()) <= threads  # no file of --logdir is left open


@pytest.mark.parametrize("frames, pattern, damage", [
    (300, "*.data*", lambda old: old[:-100]), (300, "*.index", lambda old: old[:50]),
    (300, "*.data*", lambda old: old[:200] + bytes([old[200] ^ 255]) + old[201:]),
    (300, "*.index", None), (300, "*.data*", None), (300, "checkpoint", lambda old: b"\xff\xfe"),
    (300, "checkpoint", lambda old: b'model_checkpoint_path: "model"'), (None, "none", None)])
@pytest.mark.parametrize("play", [["--play"], []])
def test_a_damaged_checkpoint_is_refused(tmp_path, capfd, frames, pattern, damage, play):
    folder = tmp_path / "saved"
    folder.mkdir()
    save_like_c4d0fe8(folder, frames)
    for path in folder.glob(pattern):
        if damage:
            path.write_bytes(damage(path.read_bytes()))
        else:
            path.unlink()
    assert_refused(folder, capfd, play)


def assert_refused(folder, capfd, play=()):
    before = contents(folder)
    with pytest.raises(SystemExit) as end:
        a3c.main([*NO_FILMS, "--checkpoint", str(folder), *play])
    out, err = capfd.readouterr()
    assert (end.value.code, out, err.count("\n")) == (2, "", 1) and "--checkpoint" in err
    assert contents(folder) == before


@pytest.mark.parametrize("sizes", [(4, 17, 2), (4, 16, 3), (3, 16, 2)])
def test_a_checkpoint_of_another_network_is_refused(tmp_path, capfd, sizes):
    save_like_c4d0fe8(tmp_path, 300, sizes)
    assert_refused(tmp_path, capfd)


def test_tensorflow_missing_is_one_line(tmp_path):
    (tmp_path / "tensorflow.py").write_text("import missing")
    status, out, err = run(cwd=tmp_path, env=environment_variables(PYTHONPATH=str(tmp_path)))
    assert (status, out) == (1, [])
    assert err == "No module named 'missing': run  pip install -r requirements.txt\n"


def test_the_script_reads_well_and_the_top_level_is_tidy():
    source = SCRIPT.read_text(encoding="utf-8")
    lines, tree = source.splitlines(), ast.parse(source)
    nodes = list(ast.walk(tree))
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    docs = [node.body[0] for node in [tree, *classes, *functions] if ast.get_docstring(node)]
    nothing = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
               tokenize.ENDMARKER}
    code = {line for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type not in nothing for line in range(token.start[0], token.end[0] + 1)}
    code -= {line for doc in docs for line in range(doc.lineno, doc.end_lineno + 1)}
    statements = [node.lineno for node in nodes if isinstance(node, ast.stmt)]
    lengths = {node: node.end_lineno - node.lineno + 1 for node in classes + functions}
    [lesson] = [node.end_lineno for node in functions if node.name == "main"]
    assert max(len(lines[n - 1]) for n in code) <= 100 and len(statements) == len(set(statements))
    assert sum(isinstance(node, ast.IfExp) for node in nodes) <= 8
    assert (len(nodes) - 2 * len(docs)) / len(code) <= 11.5
    assert max(lengths[node] for node in classes) <= 150
    assert max(lengths[node] for node in functions) <= 35
    assert lesson >= 0.68 * len(lines) and len(lines) <= 680
    visible = {path.name for path in ROOT.iterdir() if path.name[0] not in "._"}
    assert visible - {"movie"} == {"a3c_cartpole.py", "requirements.txt", "README.md", "tests"}
