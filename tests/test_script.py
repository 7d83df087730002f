"""The script as its user sees it: what it prints, films, saves, draws; what it refuses."""
import collections
import gc
import itertools
import re
import sys
import time
import types
import unittest.mock
import weakref

import imageio.v3 as iio
import numpy as np
import pytest
from helpers import (
    Built,
    KeptServer,
    a3c,
    contents,
    environment_variables,
    film_lengths,
    finish,
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
    lines = [line for line in lines if " episodes: mean " not in line]  # every fifty episodes
    assert all(line.startswith("Threshold reached: mean ") for line in lines[::2])
    assert all(line.startswith("Evaluation: mean ") for line in lines[1::2])
    evaluations = numbers(r"^Evaluation: mean (\S+) of 10", out)
    assert [mean > 199 for mean in evaluations] == [False] * (len(evaluations) - 1) + [True]


def test_every_fifty_episodes_it_says_how_far_it_is(learned):
    [episodes] = numbers(r"^Learned after \d+ frames, (\d+)", learned[1])
    said = numbers(r"(\d+) episodes: ", learned[1])
    assert sorted(said) == list(range(50, int(episodes) + 1, 50))


def test_the_seconds_it_prints_grow_up_to_those_it_took(learned):
    seconds = numbers(r"^(\S+) s, ", learned[1]) + numbers(r"^Learned .* (\S+) s$", learned[1])
    assert len(seconds) > 1 and seconds == sorted(seconds)
    assert 0 < seconds[-1] < learned[2]


def test_it_films_every_step_of_each_test_episode(learned):
    folder, out, _ = learned
    [films] = (folder / "movie" / "A3C").iterdir()
    assert f"Films: {films.relative_to(folder)}\n" in out and films.name.endswith("-seed1")
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
    played = capfd.readouterr().out
    assert [re.sub(r"\d+$", "", line) for line in played.splitlines()] == [
        f"Test episode {n}: score " for n in range(1, 101)]  # and nothing else
    assert np.mean(numbers(r"score (\d+)$", played)) >= 195
    assert [KeptServer.latest.progress.frames] == numbers(r"^Learned after (\d+)", out)
    assert contents(folder) == before  # --play doesn't write


# What is printed, with a clock that the test moves

@pytest.fixture
def clock(monkeypatch):
    clock = types.SimpleNamespace(now=1000.0, perf_counter=lambda: clock.now,
                                  monotonic=lambda: clock.now)
    monkeypatch.setattr(a3c, "time", clock)
    return clock


def test_a_run_that_did_not_learn_says_seed_learners_and_frames(capfd):
    args = "--render", "none", "--seed", "7", "--workers", "3", "--max-frames", "50"
    assert a3c.main(args) == 1
    assert capfd.readouterr().out == (
        "Seed 7, 3 learning threads\nNot learned after 50 frames\n")


def test_means_are_of_the_latest_fifty_episodes_and_seconds_since_the_start(
        clock, monkeypatch, capfd):
    monkeypatch.setattr(a3c, "SHARE_ONE_CORE", False)
    [learner] = Built(1).learners
    scores = iter(range(1, 101))

    def episode(learning):
        score = next(scores, None)
        if score is None:
            raise a3c.Stopped
        clock.now += 0.5
        learner.progress.frames += score
        return score
    learner.environment.run = episode
    with pytest.raises(a3c.Stopped):
        learner.learn()
    assert capfd.readouterr().out.splitlines() == [
        "25.0 s, 1275 frames, 50 episodes: mean 25.5 of the last 50",
        "50.0 s, 5050 frames, 100 episodes: mean 75.5 of the last 50"]


def test_threshold_and_evaluation_say_their_means_and_the_last_line_counts_all(
        clock, monkeypatch, capfd):
    monkeypatch.setattr(a3c, "THRESHOLD_EPISODES", 2)
    monkeypatch.setattr(a3c, "EVALUATION_EPISODES", 4)
    built = Built(0)
    for score in [10] * 60 + [190, 212]:  # 60: more than the fifty that a printed mean is of
        built.progress.episode_ended(score)
    built.progress.frames, clock.now = 1200, clock.now + 7.5
    built.tester.environment.run = lambda learning: 199.5
    built.tester.evaluate()
    assert capfd.readouterr().out.splitlines() == [
        "Threshold reached: mean 201.0 of the last 2 episodes",
        "Evaluation: mean 199.5 of 4 episodes",
        "Learned after 1200 frames, 62 episodes, 7.5 s"]


def test_the_clock_starts_with_the_threads(clock, monkeypatch, capfd):
    class Server(a3c.ParameterServer):
        def initialize(self):
            super().initialize()
            clock.now += 100
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 0)
    assert a3c.main(NO_FILMS, Server) == 0
    assert re.search(r"^Learned .* 0\.0 s$", capfd.readouterr().out, re.M)


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


@pytest.fixture
def closed_later():
    """A server whose file of curves, which has a thread of its own, is closed after the test."""
    yield KeptServer
    KeptServer.latest.curves.close()


def test_each_curve_shows_its_own_numbers_over_the_frames(tmp_path, monkeypatch):
    monkeypatch.setattr(a3c, "SHARE_ONE_CORE", False)
    built = Built(2)
    progress, server = built.progress, built.server
    server.curves = tf.summary.FileWriter(str(tmp_path))
    [brain, _] = built.brains
    brain._update = lambda *columns: [np.array([1, 2]), np.array([3, 5]), np.array([-1, -3]), 7.0]
    progress.frames = 10
    brain.train_push(np.zeros(4), 0, 0.0, np.zeros(4), 0.0)
    brain.update_parameter_server()
    for frames, learner, score in (20, built.learners[1], 30), (40, built.learners[0], 20):
        progress.frames = frames
        learner.environment.run = unittest.mock.Mock(side_effect=[score, a3c.Stopped])
        with pytest.raises(a3c.Stopped):
            learner.learn()
    built.tester.environment.run = unittest.mock.Mock(side_effect=[199] * 5 + [190] * 5)
    built.tester.evaluate()
    server.curves.close()
    assert curves(tmp_path) == {
        "loss/actor": [(10, 1.5)], "loss/critic": [(10, 4)], "loss/entropy": [(10, -2)],
        "gradient": [(10, 7)], "score/local_thread2": [(20, 30)], "score/local_thread1": [(40, 20)],
        "mean": [(20, 30), (40, 25)], "evaluation": [(40, 194.5)],
        "threshold": [(40, 199)]}


def test_logdir_holds_the_graph_and_all_curves(tmp_path, monkeypatch, closed_later):
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 25)
    folder = tmp_path / "new" / "curves"
    assert a3c.main([*NO_FILMS, "--logdir", str(folder)], closed_later) == 0
    found = curves(folder)
    assert set(found) == {"loss/actor", "loss/critic", "loss/entropy", "gradient", "mean",
                          "evaluation", "threshold", "score/local_thread1"}
    frames, scores = zip(*found["score/local_thread1"])
    assert frames == tuple(np.cumsum(scores))
    graphs = (tf.GraphDef.FromString(event.graph_def) for event in events(folder))
    names = {node.name for graph in graphs for node in graph.node}
    assert {"local_thread1/s", "test_thread/s", "parameter_server/hidden/weights"} <= names


def test_the_curves_of_a_run_that_fails_are_kept(tmp_path, closed_later):
    class Environment(a3c.Environment):
        def run(self, learning):
            if self.progress.episodes == 3:
                raise ValueError("on purpose")
            return super().run(learning)
    with pytest.raises(RuntimeError, match="^local_thread1 failed: .*on purpose"):
        a3c.main([*NO_FILMS, "--logdir", str(tmp_path)], closed_later,
                 environment_class=Environment)
    assert len(curves(tmp_path)["score/local_thread1"]) == 3


# Films and windows

def show(words, capfd):
    """Show an episode of a policy that has learned nothing. Returns its score."""
    pytest.importorskip("gymnasium")  # see `learned`
    words.test_episodes = 1
    if words.render != "none":
        a3c.prepare_films(words)
    a3c.show_episodes(Built(1).tester.environment, words)
    [score] = numbers(r"^Test episode 1: score (\d+)$", capfd.readouterr().out)
    return score


def test_a_film_is_never_overwritten_not_even_in_the_same_second(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(a3c, "FILMS", str(tmp_path))
    monkeypatch.setattr(a3c.time, "strftime", lambda pattern: "now")  # the same folder twice
    words = a3c.parse(["--render", "video"])
    show(words, capfd)
    before = contents(tmp_path)
    assert before
    with pytest.raises(FileExistsError):
        show(words, capfd)
    assert contents(tmp_path) == before


def test_each_run_films_into_a_folder_of_its_own(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(a3c, "FILMS", str(tmp_path))
    for runs in 1, 2:
        monkeypatch.setattr(a3c.time, "strftime", lambda pattern, now=f"12000{runs}": now)
        show(a3c.parse(["--render", "video"]), capfd)
        assert len(list(tmp_path.glob("*/test-1-episode-0.mp4"))) == runs


def parse_on(platform, variables, *words):
    """The options that this command line gives on this platform, with these variables."""
    with pytest.MonkeyPatch.context() as patch:
        for name in "DISPLAY", "WAYLAND_DISPLAY":
            patch.delenv(name, raising=False)
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.setattr(sys, "platform", platform)
        return a3c.parse(words)


@pytest.mark.parametrize("render, shown, filmed", [
    ("auto", True, True), ("human", True, True), ("video", False, True), ("none", False, False)])
def test_where_a_window_can_open_it_shows_every_step(
        tmp_path, monkeypatch, capfd, render, shown, filmed):
    pygame = pytest.importorskip("pygame")
    monkeypatch.setattr(a3c, "FILMS", str(tmp_path))
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # draws into a window that nobody sees
    pictures = unittest.mock.Mock(wraps=pygame.display.flip)
    monkeypatch.setattr(pygame.display, "flip", pictures)
    score = show(parse_on("linux", {"DISPLAY": ":0"}, "--render", render), capfd)
    assert pictures.call_count == shown * (score + 1)
    assert len(film_lengths(tmp_path)) == filmed


SCREENS = [("linux", {"DISPLAY": ":0"}), ("linux", {"WAYLAND_DISPLAY": "wayland-0"}), ("win32", {})]
NO_SCREENS = [("linux", {}), ("darwin", {"DISPLAY": ":0"})]


@pytest.mark.parametrize("platform, variables", SCREENS + NO_SCREENS)
def test_auto_opens_a_window_only_where_there_is_a_screen(platform, variables):
    window = parse_on(platform, variables, "--render", "auto").window
    assert window == ((platform, variables) in SCREENS)
    assert not parse_on(platform, variables, "--render", "video").window
    assert not parse_on(platform, variables, "--render", "none").window


@pytest.mark.parametrize("platform, variables", NO_SCREENS)
def test_human_is_refused_where_no_window_can_open(capfd, platform, variables):
    with pytest.raises(SystemExit) as end:
        parse_on(platform, variables, "--render", "human")
    out, err = capfd.readouterr()
    assert (end.value.code, out, err.count("\n")) == (2, "", 1)
    assert "--render: no window can open" in err


def test_without_a_window_films_are_drawn_without_a_screen(tmp_path, monkeypatch):
    monkeypatch.setattr(a3c, "FILMS", str(tmp_path / "new" / "films"))
    a3c.prepare_films(a3c.parse(["--render", "video"]))
    assert a3c.os.environ["SDL_VIDEODRIVER"] == "dummy" and (tmp_path / "new" / "films").is_dir()


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
    class Environment(a3c.Environment):
        def reward(self, *args):  # called once a step
            rewards.append(super().reward(*args))
            return rewards[-1]
    values, last = save_checkpoint(tmp_path, 800), 800
    args = *NO_FILMS, "--checkpoint", str(tmp_path), "--max-frames", "700"
    for total in 1500, 2200:
        rewards = []
        assert a3c.main(args, environment_class=Environment) == 1 and len(rewards) == 700
        first, second, *_, end = capfd.readouterr().out.splitlines()
        assert first == f"Continues after {last} frames" and second.startswith("Seed ")
        assert end == f"Not learned after {total} frames"
        before, values, last = values, saved_values(tmp_path / f"model-{total}"), total
        assert set(before) == set(values)
        assert not any((before[name] == values[name]).all() for name in values)


def test_a_checkpoint_can_be_moved(tmp_path):
    assert a3c.main([*NO_FILMS, "--max-frames", "50", "--checkpoint", str(tmp_path / "old")]) == 1
    (tmp_path / "old").rename(tmp_path / "new")
    assert a3c.main([*NO_FILMS, "--play", "--checkpoint", str(tmp_path / "new")]) == 0


def test_it_plays_a_checkpoint_that_it_may_only_read(tmp_path):
    save_checkpoint(tmp_path, 800)
    before, paths = contents(tmp_path), [*tmp_path.iterdir(), tmp_path]
    modes = [path.stat().st_mode for path in paths]
    for path, mode in zip(paths, modes):
        path.chmod(mode & 0o555)
    try:
        assert a3c.main([*NO_FILMS, "--play", "--checkpoint", str(tmp_path)]) == 0
    finally:
        for path, mode in zip(paths, modes):
            path.chmod(mode)
    assert contents(tmp_path) == before  # chmod doesn't stop root


def test_it_saves_at_the_end_and_nothing_before_it_has_learned(tmp_path):
    assert a3c.main([*NO_FILMS, "--max-frames", "50", "--checkpoint", str(tmp_path)]) == 1
    assert {path.stem for path in tmp_path.glob("*.index")} == {"model-50"}


@pytest.mark.parametrize("seconds", [60, 10])
def test_while_it_learns_it_saves_now_and_then(clock, monkeypatch, seconds):
    begin, saves = clock.now, []

    class Server(a3c.ParameterServer):
        def initialize(self):
            super().initialize()
            self.progress.coordinator.wait_for_stop = self.wait

        def wait(self, seconds):
            clock.now += seconds
            return clock.now >= begin + 200

        def save(self):
            saves.append(clock.now)
    if seconds != 60:  # the script's own setting
        monkeypatch.setattr(a3c, "SAVE_SECONDS", seconds)
    assert a3c.main(NO_FILMS, Server) == 1
    *between, end = saves
    assert end >= begin + 200 and len(between) >= 200 // (seconds + 2)
    assert all(seconds <= later - earlier <= seconds + 2
               for earlier, later in itertools.pairwise([begin, *between]))


def test_one_worker_and_one_seed_give_the_same_run(tmp_path, capfd):
    args = [*NO_FILMS, "--max-frames", "3000", "--checkpoint"]
    for folder, seed in ("a", "7"), ("b", "8"):
        assert a3c.main([*args, str(tmp_path / folder), "--seed", seed]) == 1
    out = capfd.readouterr().out
    again = finish(start(*args, "c", "--seed", 7, cwd=tmp_path))[1]  # in another process
    out, again = (re.sub(r"^\d+\.\d s, ", "", text, flags=re.M) for text in (out, again))
    assert again.count("\n") > 3 and out.startswith(again)
    a, b, c = (saved_values(tmp_path / folder / "model-3000") for folder in "abc")
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
    "--workers 0", "--workers two", "--seed -1", "--seed 1.5", "--max-frames 0",
    "--test-episodes 0", "--render film", "--speed", "--play", "--play --checkpoint empty",
    "--checkpoint=", "--checkpoint file", "--checkpoint file/below", "--logdir=", "--logdir file"])
def test_bad_input_is_refused_in_one_line_that_names_it(tmp_path, monkeypatch, capfd, args):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("text")
    monkeypatch.chdir(tmp_path)
    wrong = [word.rstrip("=") for word in args.split() if word.startswith("--")][-1]
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
    assert "fits this network" in refusal(["--checkpoint", str(tmp_path)], capfd)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("package", ["moviepy", "pygame"])
@pytest.mark.parametrize("render", ["video", "auto"])
def test_films_without_their_packages_are_refused_before_anything_is_learned(
        tmp_path, monkeypatch, capfd, package, render):
    learned = []
    monkeypatch.setattr(a3c.Worker_thread, "work", lambda self: (
        learned.append(self), self.progress.stop()))
    monkeypatch.setattr(a3c, "FILMS", str(tmp_path / "films"))
    monkeypatch.setitem(sys.modules, package, None)  # as if it were missing
    assert package in refusal(["--render", render, "--checkpoint", str(tmp_path)], capfd)
    assert learned == [] and contents(tmp_path) == {}


def test_a_folder_for_films_that_cannot_be_made_is_refused(tmp_path, monkeypatch, capfd):
    (tmp_path / "file").write_text("text")
    monkeypatch.setattr(a3c, "FILMS", str(tmp_path / "file" / "films"))
    assert "--render" in refusal(["--render", "video"], capfd)


@pytest.mark.parametrize("name", ["CartPole-v0", "Acrobot-v1"])
def test_help_names_the_environment_and_the_options(monkeypatch, capfd, name):
    monkeypatch.setattr(a3c, "ENV", name)
    with pytest.raises(SystemExit) as end:
        a3c.main(["--help"])
    out, err = capfd.readouterr()
    assert (end.value.code, err) == (0, "") and f"Learn {name} " in out
    assert all(option in out for option in (
        "--workers", "--seed", "--max-frames", "--render", "--test-episodes", "--checkpoint",
        "--play", "--logdir"))


def test_tensorflow_missing_is_one_line(tmp_path):
    stand_in = "raise ModuleNotFoundError(\"No module named 'tensorflow'\")"
    (tmp_path / "tensorflow.py").write_text(stand_in)
    env = environment_variables(PYTHONPATH=str(tmp_path))  # it is found before the real one
    assert finish(start(cwd=tmp_path, env=env)) == (
        1, "", "No module named 'tensorflow': run  pip install -r requirements.txt\n")


def test_ctrl_c_during_its_imports_is_no_traceback(tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise KeyboardInterrupt")
    env = environment_variables(PYTHONPATH=str(tmp_path))
    assert finish(start(cwd=tmp_path, env=env)) == (130, "", "")
