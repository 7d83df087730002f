"""The script as its user sees it: what it prints, films, saves, draws; what it refuses."""
import collections
import gc
import itertools
import re
import subprocess
import time
import types
import unittest.mock
import weakref

import imageio.v3 as iio
import numpy as np
import pytest
from helpers import (
    ROOT,
    Built,
    KeptServer,
    a3c,
    contents,
    environment_variables,
    film_lengths,
    finish,
    linux,
    options,
    same,
    saved_values,
    start,
    tf,
)

NO_FILMS = "--render", "none", "--workers", "1"


def refusal(args, capfd):
    """The line that these words of a command line are refused with. It has to be a single line on
    stderr, with status 2 and nothing on stdout."""
    capfd.readouterr()
    with pytest.raises(SystemExit) as end:
        a3c.main([*NO_FILMS, "--max-frames", "50", *args])
    out, err = capfd.readouterr()
    assert (end.value.code, out, err.count("\n")) == (2, "", 1) and ": error: " in err
    return err


def numbers(pattern, text):
    """All numbers that the group of the pattern finds."""
    return list(map(float, re.findall(pattern, text, re.M)))


# A whole run

@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """The folder of a run that a user has started, what it printed, and the seconds it took."""
    pytest.importorskip("gymnasium")  # classic Gym doesn't know today's moviepy
    folder, begun = tmp_path_factory.mktemp("learned"), time.monotonic()
    args = "--seed", 1, "--checkpoint", "saved", "--test-episodes", 2
    status, out, err = finish(start(*args, cwd=folder))
    assert (status, err) == (0, "")
    return folder, out, time.monotonic() - begun


def test_it_learns_and_says_so(learned):
    folder, out, _ = learned
    first, *lines, end, films, one, two = out.splitlines()
    assert first == "Seed 1, 8 learning threads"
    assert end.startswith("Learned after ") and films.startswith("Films: ")
    assert one.startswith("Test episode 1: score ") and two.startswith("Test episode 2: score ")
    lines = [line for line in lines if " episodes: mean " not in line]  # how far it is
    assert all(line.startswith("Threshold reached: mean ") for line in lines[::2])
    assert all(line.startswith("Evaluation: mean ") for line in lines[1::2])
    evaluations = numbers(r"^Evaluation: mean (\S+) of 10", out)
    assert [mean > 199 for mean in evaluations] == [False] * (len(evaluations) - 1) + [True]


def test_every_fifty_episodes_it_says_how_far_it_is(learned):
    [episodes] = numbers(r"^Learned after \d+ frames, (\d+)", learned[1])
    said = numbers(r"(\d+) episodes: ", learned[1])
    assert set(said) >= set(range(50, int(episodes) + 1, 50))  # a slow run says it in between, too


def test_the_seconds_it_prints_grow_up_to_those_it_took(learned):
    seconds = numbers(r"^(\S+) s, ", learned[1]) + numbers(r"^Learned .* (\S+) s$", learned[1])
    assert len(seconds) > 1 and seconds == sorted(seconds)
    assert 0 < seconds[-1] < learned[2]


def test_it_films_every_step_of_each_test_episode(learned):
    folder, out, _ = learned
    [films] = (folder / "movie" / "A3C").iterdir()
    for episode, score in enumerate(numbers(r"^Test episode \d: score (\d+)$", out), start=1):
        film = iio.imread(films / f"test-{episode}-episode-0.mp4")
        assert film.shape[1:] == (400, 600, 3) and len(film) - score in (0, 1)
        dark = (film[:, 285:300] < 60).all(axis=3)  # the cart's body, above its track
        assert dark.any(axis=(1, 2)).all()


def test_what_it_learned_is_saved_and_plays_back_as_well(learned, capfd):
    folder, out, _ = learned
    before = contents(folder)
    assert a3c.main(["--play", "--checkpoint", str(folder / "saved"), "--render", "none",
                     "--test-episodes", "100"], server_class=KeptServer) == 0
    scores = numbers(r"score (\d+)", capfd.readouterr().out)
    assert len(scores) == 100 and np.mean(scores) >= 195
    assert [KeptServer.latest.progress.frames] == numbers(r"^Learned after (\d+)", out)
    assert contents(folder) == before  # --play doesn't write


# What is printed, with a clock that the test moves

@pytest.fixture
def clock(monkeypatch):
    clock = types.SimpleNamespace(now=1000.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(a3c, "time", clock)
    return clock


def new_log(*words):
    log = a3c.Log(options("--seed", 7, "--workers", 3, *words), a3c.Progress(3, 10 ** 6))
    log.begin(tf.Graph())
    return log


def test_the_first_line_names_the_seed_and_the_number_of_learners(capfd):
    new_log()
    assert capfd.readouterr().out == "Seed 7, 3 learning threads\n"


def test_means_are_of_the_latest_fifty_episodes_and_seconds_since_the_start(clock, capfd):
    log = new_log()
    log.progress_line()
    for score in range(1, 101):
        clock.now += 0.5
        log.progress.frames += score
        log.episode("local_thread1", score)
    assert capfd.readouterr().out.splitlines()[1:] == [
        "0.0 s, 0 frames, 0 episodes: mean 0.0 of the last 0",
        "25.0 s, 1275 frames, 50 episodes: mean 25.5 of the last 50",
        "50.0 s, 5050 frames, 100 episodes: mean 75.5 of the last 50"]


def test_the_last_line_counts_all_episodes(clock, capfd):
    log = new_log()
    for _ in range(60):  # more than the fifty that a mean is of
        log.episode("local_thread1", 20)
    clock.now += 7.5
    log.progress.frames = 1200
    capfd.readouterr()
    log.learned()
    assert capfd.readouterr().out == "Learned after 1200 frames, 60 episodes, 7.5 s\n"


def test_the_last_line_of_a_run_that_did_not_learn_says_the_frames(capfd):
    log = new_log()
    log.progress.frames = 1200
    log.not_learned()
    assert capfd.readouterr().out.splitlines()[-1] == "Not learned after 1200 frames"


def test_threshold_and_evaluation_say_their_means_and_of_how_many(monkeypatch, capfd):
    monkeypatch.setattr(a3c, "THRESHOLD_EPISODES", 2)
    monkeypatch.setattr(a3c, "EVALUATION_EPISODES", 4)
    log = new_log()
    log.episode("local_thread1", 10)  # before the latest two
    log.progress.scores.extend([190, 210])
    log.threshold()
    log.evaluation(199.5)
    assert capfd.readouterr().out.splitlines()[1:] == [
        "Threshold reached: mean 200.0 of the last 2 episodes",
        "Evaluation: mean 199.5 of 4 episodes"]


# Curves for TensorBoard

def events(folder):
    [path] = folder.iterdir()
    return [tf.Event.FromString(event) for event in tf.python_io.tf_record_iterator(str(path))]


def curves(folder):
    """{name: [(frames, value), ...]}"""
    found = collections.defaultdict(list)
    for event in events(folder):
        for point in event.summary.value:
            found[point.tag].append((event.step, point.simple_value))
    return found


def test_each_curve_shows_its_own_numbers_over_the_frames(tmp_path):
    log = new_log("--logdir", tmp_path)
    log.progress.frames = 10
    log.update([np.array([1, 2]), np.array([3, 5]), np.array([-1, -3]), np.float32(7)])
    log.progress.frames = 20
    log.episode("local_thread2", 30)
    log.progress.frames = 40
    log.episode("local_thread1", 20)
    log.evaluation(199.5)
    log.end()
    assert curves(tmp_path) == {
        "loss/actor": [(10, 1.5)], "loss/critic": [(10, 4)], "loss/entropy": [(10, -2)],
        "gradient": [(10, 7)], "score/local_thread2": [(20, 30)], "score/local_thread1": [(40, 20)],
        "mean": [(20, 30), (40, 25)], "evaluation": [(40, 199.5)]}


def test_logdir_holds_the_graph_and_all_curves(tmp_path, monkeypatch):
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 25)
    folder = tmp_path / "new" / "curves"
    assert a3c.main([*NO_FILMS, "--logdir", str(folder)]) == 0
    found = curves(folder)
    assert set(found) == {"loss/actor", "loss/critic", "loss/entropy", "gradient", "mean",
                          "evaluation", "score/local_thread1"}
    frames, scores = zip(*found["score/local_thread1"])
    assert frames == tuple(np.cumsum(scores))
    graphs = (tf.GraphDef.FromString(event.graph_def) for event in events(folder))
    names = {node.name for graph in graphs for node in graph.node}
    assert {"local_thread1/s", "test_thread/s", "parameter_server/hidden/weights"} <= names


# Films and windows

def show(*words):
    """Show an episode of a policy that has learned nothing. Returns its score."""
    pytest.importorskip("gymnasium")  # see `learned`
    words = a3c.parse([*map(str, words), "--test-episodes", "1"])
    log = unittest.mock.Mock()
    a3c.show_episodes(Built(1).tester.environment, words, log)
    [score] = numbers(r"^Test episode 1: score (\d+)$", log.print.call_args.args[0])
    return score


def test_a_film_is_never_overwritten_not_even_in_the_same_second(tmp_path, monkeypatch):
    monkeypatch.setattr(a3c.time, "strftime", lambda pattern: "now")  # the same folder twice
    show("--render", "video", "--video-dir", tmp_path)
    before = contents(tmp_path)
    assert before
    with pytest.raises(FileExistsError):
        show("--render", "video", "--video-dir", tmp_path)
    assert contents(tmp_path) == before


def test_each_run_films_into_a_folder_of_its_own(tmp_path, monkeypatch):
    for runs in 1, 2:
        monkeypatch.setattr(a3c.time, "strftime", lambda pattern, now=f"12000{runs}": now)
        show("--render", "video", "--video-dir", tmp_path)
        assert len(list(tmp_path.glob("*/test-1-episode-0.mp4"))) == runs


@pytest.mark.parametrize("render, shown, filmed", [
    ("auto", True, True), ("human", True, True), ("video", False, True), ("none", False, False)])
def test_where_a_window_can_open_it_shows_every_step(tmp_path, monkeypatch, render, shown, filmed):
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # draws into a window that nobody sees
    monkeypatch.setattr(a3c, "can_open_window", lambda: True)
    pictures = unittest.mock.Mock(wraps=pygame.display.flip)
    monkeypatch.setattr(pygame.display, "flip", pictures)
    score = show("--render", render, "--video-dir", tmp_path)
    assert pictures.call_count == shown * (score + 1)
    assert len(film_lengths(tmp_path)) == filmed


@linux
def test_no_window_can_open_without_a_screen(monkeypatch):
    for name in "DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER":
        monkeypatch.delenv(name, raising=False)
    assert not a3c.can_open_window()
    monkeypatch.setenv("DISPLAY", ":987")  # nothing is behind it
    assert not a3c.can_open_window()


def test_where_no_window_can_open_auto_does_without(monkeypatch):
    monkeypatch.setattr(a3c, "can_open_window", lambda: False)
    assert not a3c.parse(["--render", "auto"]).window


def test_human_is_refused_where_no_window_can_open(monkeypatch, capfd):
    monkeypatch.setattr(a3c, "can_open_window", lambda: False)
    assert "no window can open" in refusal(["--render", "human"], capfd)


# Checkpoints

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


def test_a_checkpoint_loads_whole(tmp_path):
    values = save_checkpoint(tmp_path, 800)
    args = [*NO_FILMS, "--checkpoint", str(tmp_path), "--play"]
    assert a3c.main(args, server_class=KeptServer) == 0
    with KeptServer.latest.session.graph.as_default():
        variables = tf.global_variables("parameter_server/")
    names = [variable.op.name for variable in variables]
    assert set(names) == set(values)
    assert same(KeptServer.latest.session.run(variables), [values[name] for name in names])


def test_learning_goes_on_from_a_checkpoint_as_many_frames_as_wanted(tmp_path, capfd):
    values = save_checkpoint(tmp_path, 800)
    for total in 1500, 2200:
        assert a3c.main([*NO_FILMS, "--checkpoint", str(tmp_path), "--max-frames", "700"]) == 1
        assert capfd.readouterr().out.endswith(f"Not learned after {total} frames\n")
        before, values = values, saved_values(tmp_path / f"model-{total}")
        assert set(before) == set(values)
        assert not any((before[name] == values[name]).all() for name in values)


def test_a_checkpoint_can_be_moved(tmp_path):
    assert a3c.main([*NO_FILMS, "--max-frames", "50", "--checkpoint", str(tmp_path / "old")]) == 1
    (tmp_path / "old").rename(tmp_path / "new")
    assert a3c.main([*NO_FILMS, "--play", "--checkpoint", str(tmp_path / "new")]) == 0


def test_it_saves_at_the_start_and_at_the_end(tmp_path):
    assert a3c.main([*NO_FILMS, "--max-frames", "50", "--checkpoint", str(tmp_path)]) == 1
    assert {path.stem for path in tmp_path.glob("*.index")} == {"model-0", "model-50"}


@pytest.mark.timeout(60)  # wrong, it waits for ever
def test_while_it_learns_it_says_how_far_it_is_and_saves(tmp_path, monkeypatch, capfd):
    class Worker(a3c.Worker_thread):
        def learn(self):
            for frames in 7, 9:
                self.progress.frames = frames
                index = tmp_path / f"model-{frames}.index"
                # main prints its line, then saves. The line before the first save may be older
                # than these frames, but not the line before the second.
                for _ in range(2):
                    self.progress.wait_until(index.exists)
                    index.unlink()
    monkeypatch.setattr(a3c, "SAVE_SECONDS", 0)
    assert a3c.main([*NO_FILMS, "--checkpoint", str(tmp_path)], worker_class=Worker) == 1
    out = capfd.readouterr().out
    assert " s, 7 frames, 0 episodes: " in out and " s, 9 frames, 0 episodes: " in out


def test_one_worker_and_one_seed_give_the_same_run(tmp_path, capfd):
    args = [*NO_FILMS, "--max-frames", "3000", "--checkpoint"]
    for folder, seed in ("a", "7"), ("b", "8"):
        assert a3c.main([*args, str(tmp_path / folder), "--seed", seed]) == 1
    out = capfd.readouterr().out
    again = finish(start(*args, "c", "--seed", 7, cwd=tmp_path))[1]  # in another process
    out, again = (re.sub(r"^\d+\.\d s, ", "", text, flags=re.M) for text in (out, again))
    assert again.count("\n") > 3 and out.startswith(again)
    for frames in 0, 3000:
        a, b, c = (saved_values(tmp_path / folder / f"model-{frames}") for folder in "abc")
        assert all((a[name] == c[name]).all() for name in a)
        assert any((a[name] != b[name]).any() for name in a)


# Many runs in one process

def test_nothing_of_a_run_stays_in_memory():
    servers = []

    class Server(a3c.ParameterServer):
        def initialize(self):
            super().initialize()
            servers.append(weakref.ref(self))
    for _ in range(3):
        assert a3c.main([*NO_FILMS, "--max-frames", "300"], server_class=Server) == 1
    gc.collect()
    assert [server() for server in servers] == [None] * 3


# Refusals

@pytest.mark.parametrize("args", [  # the last option of each is the wrong one
    "--workers 0", "--workers 257", "--workers two", "--seed 1.5", "--max-frames 0",
    "--speed", "--play", "--play --checkpoint empty", "--checkpoint file/below",
    "--logdir file", "--logdir curves --render video --video-dir file",
    "--checkpoint new --logdir file/below"])
def test_bad_input_is_refused_in_one_line_that_names_it(tmp_path, monkeypatch, capfd, args):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("text")
    monkeypatch.chdir(tmp_path)
    wrong = [word for word in args.split() if word.startswith("--")][-1]
    assert wrong in refusal(args.split(), capfd)
    assert {path.name for path in tmp_path.iterdir()} == {"empty", "file"}  # nothing was written


@pytest.mark.parametrize("pattern, damage", [
    ("*.data*", lambda path: path.write_bytes(path.read_bytes()[:-100])),
    ("*.index", lambda path: path.unlink()),
    ("checkpoint", lambda path: path.write_bytes(b"\xff\xfe"))])
def test_a_damaged_checkpoint_is_refused_and_left_alone(tmp_path, capfd, pattern, damage):
    save_checkpoint(tmp_path, 300)
    [path] = tmp_path.glob(pattern)
    damage(path)
    before = contents(tmp_path)
    assert "--checkpoint" in refusal(["--checkpoint", str(tmp_path)], capfd)
    assert contents(tmp_path) == before


def test_a_checkpoint_of_another_network_is_refused_and_left_alone(tmp_path, capfd):
    save_checkpoint(tmp_path, 300, hidden=17)
    before = contents(tmp_path)
    assert "another network" in refusal(["--checkpoint", str(tmp_path)], capfd)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("setting, number", [("NUM_STATES", 5), ("NUM_ACTIONS", 3)])
def test_settings_that_do_not_fit_the_environment_are_refused(monkeypatch, capfd, setting, number):
    monkeypatch.setattr(a3c, setting, number)
    assert setting in refusal([], capfd)


@pytest.mark.parametrize("package", ["moviepy", "pygame"])
def test_films_without_their_packages_are_refused(monkeypatch, capfd, package):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name != package or None)
    assert package in refusal(["--render", "auto"], capfd)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="it asks git what belongs to the project")
def test_the_top_level_shows_four_entries():
    tracked = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    visible = {path.split("/")[0] for path in tracked if not path.startswith(".")}
    assert visible == {"a3c_cartpole.py", "requirements.txt", "README.md", "tests"}


def test_tensorflow_missing_is_one_line(tmp_path):
    stand_in = "raise ModuleNotFoundError(\"No module named 'tensorflow'\")"
    (tmp_path / "tensorflow.py").write_text(stand_in)
    env = environment_variables(PYTHONPATH=str(tmp_path))  # it is found before the real one
    assert finish(start(cwd=tmp_path, env=env)) == (
        1, "", "No module named 'tensorflow': run  pip install -r requirements.txt\n")
