"""The real script as its user starts it: learns, films, saves, plays; refuses bad input."""
import collections
import itertools
import re
import subprocess
import sys

import imageio.v3 as iio
import numpy as np
import pytest
from helpers import ROOT, KeptServer, a3c, environment_variables, finish, same, start, tf

PRINTED = r"""Seed 1, 8 learning threads
(\d+\.\d s, \d+ frames, \d+ episodes: mean \d+\.\d of the last 50
|Threshold reached: mean \d+\.\d of the last 10 episodes
Evaluation: mean \d+\.\d of 10 episodes
)+Learned after (?P<frames>\d+) frames, (?P<episodes>\d+) episodes, \d+\.\d s
Films: (?P<folder>movie/A3C/\d{8}-\d{6}-seed1)
Test episode 1: score (?P<first>\d+)
Test episode 2: score (?P<second>\d+)
"""
NO_FILMS = "--render", "none", "--workers", "1"


def weights(folder, frames):
    """All numbers of a checkpoint by the names of their variables."""
    reader = tf.train.load_checkpoint(str(folder / f"model-{frames}"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_learns_films_saves_and_plays_back(tmp_path, monkeypatch, capfd):
    args = "--seed", "1", "--checkpoint", "saved", "--test-episodes", "2"
    status, out, err = finish(start(*args, cwd=tmp_path))
    printed = re.fullmatch(PRINTED, out)
    assert (status, err) == (0, "") and printed
    progress = list(map(int, re.findall(r"(\d+) episodes: ", out)))
    assert progress == list(range(50, int(printed["episodes"]) + 1, 50))
    seconds = [float(number) for number in re.findall(r"(?:^|, )(\d+\.\d) s\b", out, re.M)]
    assert seconds == sorted(seconds) and len(seconds) == len(progress) + 1 and seconds[-1] > 0
    assert (tmp_path / f"saved/model-{printed['frames']}.index").exists()
    for episode, score in (1, printed["first"]), (2, printed["second"]):
        film = iio.imread(tmp_path / printed["folder"] / f"test-{episode}-episode-0.mp4")
        assert film.shape[1:] == (400, 600, 3) and len(film) - int(score) in (0, 1)
        dark = (film[:, 285:300] < 60).all(axis=3)  # the cart's body, above its track
        assert dark.any(axis=(1, 2)).all()

    monkeypatch.chdir(tmp_path)
    before = contents(tmp_path)
    assert a3c.main([*args, "--play"]) == 0
    assert len(list((tmp_path / "movie/A3C").iterdir())) == 2  # each run has its folder of films
    assert a3c.main([*args[:-1], "100", "--play", "--render", "none"]) == 0
    scores = re.findall(r"score (\d+)", capfd.readouterr().out)
    assert len(scores) == 102 and np.mean(list(map(int, scores))) >= 195
    assert before.items() <= contents(tmp_path).items()  # nothing was rewritten


def save_checkpoint(folder, frames, hidden=16):
    """Save a checkpoint with random numbers. Returns them by their names."""
    rng = np.random.default_rng(0)
    layers = {"hidden": (4, hidden), "actor": (hidden, 2), "critic": (hidden, 1)}
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


def test_a_checkpoint_loads_whole_and_learning_goes_on_from_it(tmp_path, capfd):
    values = save_checkpoint(tmp_path, 800)
    args = [*NO_FILMS, "--checkpoint", str(tmp_path), "--max-frames", "700"]
    assert a3c.main([*args, "--play"], server_class=KeptServer) == 0
    with KeptServer.latest.session.graph.as_default():
        variables = tf.global_variables("parameter_server/")
    names = [variable.op.name for variable in variables]
    assert set(names) == set(values)
    assert same(KeptServer.latest.session.run(variables), [values[name] for name in names])
    for total in 1500, 2200:
        assert a3c.main(args, server_class=KeptServer) == 1
        out, err = capfd.readouterr()
        assert out.endswith(f"Not learned after {total} frames\n") and err == ""
        assert KeptServer.latest.progress.frames == total
        before, values = values, weights(tmp_path, total)
        assert set(before) == set(values)
        assert not any((before[name] == values[name]).all() for name in names)


def test_while_it_learns_it_says_how_far_it_is_and_saves(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(a3c, "SAVE_SECONDS", 0.2)
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 1000)
    monkeypatch.setattr(a3c.Log, "episode", lambda *args: None)  # as if no episode ever ended
    args = *NO_FILMS, "--max-frames", "20000", "--checkpoint", str(tmp_path)
    assert a3c.main(args) == 1
    lines = capfd.readouterr().out.splitlines()[1:-1]
    assert len(lines) > 1
    assert not [x for x in lines if not re.match(r"\d+\.\d s, \d+ frames, 0 episodes", x)]
    frames = [int(path.stem.split("-")[1]) for path in tmp_path.glob("model-*.index")]
    assert len([n for n in frames if 0 < n < 20_000]) >= min(len(lines), 3)  # the latest five stay


def test_one_worker_and_one_seed_give_the_same_run(tmp_path, capfd):
    args = [*NO_FILMS, "--max-frames", "3000", "--checkpoint"]
    for folder, seed in ("a", "7"), ("b", "8"):
        assert a3c.main([*args, str(tmp_path / folder), "--seed", seed]) == 1
    out = capfd.readouterr().out
    again = finish(start(*args, "c", "--seed", 7, cwd=tmp_path))[1]  # in another process
    out, again = (re.sub(r"^\d+\.\d s, ", "", text, flags=re.M) for text in (out, again))
    assert again.count("\n") > 3 and out.startswith(again)
    for frames in 0, 3000:
        a, b, c = (weights(tmp_path / folder, frames) for folder in "abc")
        assert all((a[name] == c[name]).all() for name in a)
        assert any((a[name] != b[name]).any() for name in a)


def test_logdir_holds_the_graph_and_the_right_curves(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 25)
    assert a3c.main([*NO_FILMS, "--logdir", str(tmp_path / "new/curves")]) == 0
    [path] = (tmp_path / "new/curves").iterdir()
    curves, frames, nodes = collections.defaultdict(list), collections.defaultdict(list), set()
    for record in tf.python_io.tf_record_iterator(str(path)):
        event = tf.Event.FromString(record)
        nodes |= {node.name for node in tf.GraphDef.FromString(event.graph_def).node}
        for value in event.summary.value:
            curves[value.tag].append(value.simple_value)
            frames[value.tag].append(event.step)
    assert {"local_thread1/s", "test_thread/s", "parameter_server/hidden/weights"} <= nodes
    out, scores = capfd.readouterr().out, curves["score/local_thread1"]
    assert frames["score/local_thread1"] == np.cumsum(scores).tolist()
    assert curves["mean"] == pytest.approx(
        [np.mean(scores[max(0, i - 50):i]) for i in range(1, len(scores) + 1)])
    evaluations = re.findall(r"Evaluation: mean (\S+)", out)
    assert curves["evaluation"] == pytest.approx(list(map(float, evaluations)), abs=0.0501)
    critic, entropy, norms = curves["loss/critic"], curves["loss/entropy"], curves["gradient"]
    assert len(curves["loss/actor"]) == len(critic) == len(entropy) == len(norms)
    assert min(norms) > 0 and min(critic) > 0 and -0.00694 < min(entropy) <= max(entropy) <= 0


@pytest.mark.skipif(sys.platform != "linux", reason="names that Linux cannot use")
@pytest.mark.parametrize("args", [
    "--workers 0", "--workers 257", "--workers two", "--seed 1.5", "--max-frames 0",
    "--speed", "--play", "--play --checkpoint empty", "--checkpoint file/below",
    "--logdir file", "--logdir curves --render video --video-dir file",
    "--checkpoint new --logdir file/below", "--render human"])
def test_bad_input_is_refused_in_one_line(tmp_path, monkeypatch, capfd, args):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("text")
    monkeypatch.chdir(tmp_path)
    for name in "DISPLAY", "WAYLAND_DISPLAY":  # no window can open
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit) as end:
        a3c.main([*NO_FILMS, "--max-frames", "50", *args.split()])
    out, err = capfd.readouterr()
    assert (end.value.code, out, err.count("\n")) == (2, "", 1)
    assert re.match(r"\S+: error: ", err) and args.split()[-2:][0] in err
    assert {path.name for path in tmp_path.iterdir()} == {"empty", "file"}  # nothing was written


@pytest.mark.parametrize("hidden, pattern, damage", [
    (16, "*.data*", lambda path: path.write_bytes(path.read_bytes()[:-100])),
    (16, "*.index", lambda path: path.unlink()),
    (16, "checkpoint", lambda path: path.write_bytes(b"\xff\xfe")), (17, "none", None)])
def test_a_checkpoint_damaged_or_of_another_network_is_refused(
        tmp_path, capfd, hidden, pattern, damage):
    save_checkpoint(tmp_path, 300, hidden)
    for path in tmp_path.glob(pattern):
        damage(path)
    before = contents(tmp_path)
    with pytest.raises(SystemExit) as end:
        a3c.main([*NO_FILMS, "--checkpoint", str(tmp_path)])
    out, err = capfd.readouterr()
    assert (end.value.code, out, err.count("\n")) == (2, "", 1) and "--checkpoint" in err
    assert contents(tmp_path) == before


def test_a_wrong_number_of_states_is_refused(monkeypatch, capfd):
    monkeypatch.setattr(a3c, "NUM_STATES", 5)
    with pytest.raises(SystemExit) as end:
        a3c.main(NO_FILMS)
    out, err = capfd.readouterr()
    assert (end.value.code, out, err.count("\n")) == (2, "", 1) and "NUM_STATES" in err


@pytest.mark.parametrize("package", ["moviepy", "pygame"])
def test_films_without_their_packages_are_refused(monkeypatch, capfd, package):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name != package or None)
    with pytest.raises(SystemExit) as end:
        a3c.main([])
    out, err = capfd.readouterr()
    assert (end.value.code, out, err.count("\n")) == (2, "", 1) and package in err


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="it asks git what belongs to the project")
def test_the_top_level_shows_four_entries():
    tracked = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    visible = {path.split("/")[0] for path in tracked if not path.startswith(".")}
    assert visible == {"a3c_cartpole.py", "requirements.txt", "README.md", "tests"}


@pytest.mark.skipif(sys.platform != "linux", reason="SDL draws without a screen in its own ways")
def test_a_window_opens_only_where_there_is_a_screen(monkeypatch):
    for name in "DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER":
        monkeypatch.delenv(name, raising=False)
    assert not a3c.parse([]).window
    monkeypatch.setenv("DISPLAY", ":987")  # nothing is behind it
    assert not a3c.parse([]).window
    monkeypatch.setattr(a3c, "can_open_window", lambda: True)
    assert a3c.parse([]).window and not a3c.parse(["--render", "video"]).window


def test_tensorflow_missing_is_one_line(tmp_path):
    (tmp_path / "tensorflow.py").write_text("import missing")
    env = environment_variables(PYTHONPATH=str(tmp_path))
    assert finish(start(cwd=tmp_path, env=env)) == (
        1, "", "No module named 'missing': run  pip install -r requirements.txt\n")
