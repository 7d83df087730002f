"""The script as its user sees it: what it prints, films, saves, draws; what it refuses."""
import collections
import gc
import os
import re
import runpy
import sys
import threading
import types
import unittest.mock
import weakref

import imageio.v3 as iio
import numpy as np
import pytest
from helpers import (
    LEARNED, NOT_LEARNED, Built, a3c, environment_variables, equal, files_below, film_lengths,
    linux, options, posix, refusal, run_main, saved_values, start, tf, wait_for_end)


def numbers(pattern, text):
    """All numbers that the group of the pattern finds."""
    return list(map(float, re.findall(pattern, text, re.M)))


# A whole run

@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """The folder of a run that a user has started, and what it printed. DISPLAY names a screen that
    doesn't exist, so it films without a window, and without complaints."""
    pytest.importorskip("gymnasium")  # classic Gym doesn't know today's moviepy
    folder = tmp_path_factory.mktemp("learned")
    words = "--seed", 1, "--checkpoint", "saved", "--test-episodes", 2
    env = environment_variables(DISPLAY=":99")
    status, out, err = wait_for_end(start(*words, cwd=folder, env=env))
    assert (status, err) == (LEARNED, "")
    return folder, out


def shows_cart(film):
    """For each picture: whether some pixels are dark above the track, where the cart's body is."""
    above_track = film[:, 285:300]
    return (above_track < 60).all(axis=3).any(axis=(1, 2))


def test_films_show_every_step(learned):
    """Each film has a picture for each step, and perhaps one of the start before them. All show the
    cart. The line "Films:" names their folder."""
    folder, out = learned
    [films] = (folder / "movie" / "A3C").iterdir()
    assert f"Films: {films.relative_to(folder)}\n" in out and films.name.endswith("-seed1")
    scores = numbers(r"^Test episode \d: score (\d+)$", out)
    assert len(scores) == 2  # --test-episodes 2
    for episode, score in enumerate(scores, start=1):
        film = iio.imread(films / f"test-{episode}-episode-0.mp4")
        assert film.shape[1:] == (400, 600, 3) and len(film) in (score, score + 1)  # + 1: the start
        assert shows_cart(film).all()


def test_play_shows_the_learned_policy(learned, capfd):
    """What --play shows scores at least 195 on average, which is what CartPole-v0 asks for."""
    folder, _ = learned
    status, _ = run_main("--play", "--checkpoint", folder / "saved", "--test-episodes", 100)
    scores = numbers(r"^Test episode \d+: score (\d+)$", capfd.readouterr().out)
    assert status == LEARNED and len(scores) == 100 and np.mean(scores) >= 195


def test_play_changes_nothing(learned):
    """--play adds no frame to those of the saved run, and changes no file."""
    folder, out = learned
    before = files_below(folder)
    _, server = run_main("--play", "--checkpoint", folder / "saved", "--test-episodes", 1)
    assert [server.progress.frames] == numbers(r"^Learned after (\d+)", out)
    assert files_below(folder) == before


def test_a_run_without_success_has_status_1(tmp_path):
    """A run that hasn't learned the task ends with status 1, which a shell script can see. Without
    films and --checkpoint, no file is written."""
    status, out, err = wait_for_end(start("--max-frames", 300, "--render", "none", cwd=tmp_path))
    assert (status, err) == (NOT_LEARNED, "") and not list(tmp_path.iterdir())
    assert out.endswith("\nNot learned after 300 frames\n")


def test_one_worker_and_one_seed_repeat_a_run(tmp_path, capfd):
    """With one worker, two runs with the same seed print the same but for the seconds, and end with
    the same weights bit for bit, even in different processes."""
    words = "--render", "none", "--workers", 1, "--seed", 7, "--max-frames", 3000, "--checkpoint"
    run_main(*words, tmp_path / "here")
    here = capfd.readouterr().out
    _, there, _ = wait_for_end(start(*words, "there", cwd=tmp_path))
    here, there = (re.sub(r"^\d+\.\d s, ", "", out, flags=re.M) for out in (here, there))
    assert here == there and here.count("\n") > 3
    here, there = (saved_values(tmp_path / folder).values() for folder in ("here", "there"))
    assert equal(here, there)


def test_another_seed_begins_with_other_weights():
    """The first weights differ from seed to seed. (So do episodes, which another test checks.)"""
    one, other = (run_main("--seed", seed, "--max-frames", 300)[1] for seed in (7, 8))
    assert not equal(one.first, other.first)


# Time

@pytest.fixture
def clock(monkeypatch):
    """The script's clock. It stands still unless the test moves it."""
    clock = types.SimpleNamespace(now=1000.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(a3c, "time", clock)
    return clock


def test_seconds_begin_with_the_threads(clock):
    """The seconds that are printed don't include the start of the program; preparing the graph
    takes 100 seconds here."""
    class Server(a3c.ParameterServer):
        def initialize(self):
            super().initialize()
            clock.now += 100
    _, server = run_main("--max-frames", 1, server_class=Server)
    assert server.progress.seconds() == 0


def test_threads_are_awaited_before_the_last_save(clock, monkeypatch):
    """The last save comes after the threads' ends, so it has their last updates. If all of them
    hang, waiting takes 1.5 s, and not 1.5 s for each."""
    class Server(a3c.ParameterServer):
        def initialize(self):
            super().initialize()
            self.checkpoint.save = lambda: awaited.append("save")

    def hang(thread, seconds):
        awaited.append(seconds)
        clock.now += seconds
    awaited = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", hang)
        run_main("--workers", 3, "--max-frames", 1, server_class=Server)
    assert awaited == [a3c.GRACE_SECONDS, 0, 0, 0, "save"]  # three learners and the test thread


# What is printed

def test_progress_is_printed(clock, monkeypatch, capfd):
    """A line after every fifty episodes, and three for an evaluation that is passed. These name the
    numbers of episodes that the settings have, here two in training and four in an evaluation."""
    monkeypatch.setattr(a3c, "THRESHOLD_EPISODES", 2)
    monkeypatch.setattr(a3c, "EVALUATION_EPISODES", 4)
    monkeypatch.setattr(a3c, "SHARE_ONE_CORE", False)  # or this process would stay on one core
    built = Built(1)
    built.progress.frames, clock.now = 1200, clock.now + 7.5
    scores = [*range(1, 101), 190, 212, a3c.Stopped]
    built.learners[0].environment.run = unittest.mock.Mock(side_effect=scores)
    built.learners[0].run()
    built.tester.environment.play = play = unittest.mock.Mock(return_value=199.5)
    built.tester.evaluate()
    assert play.call_count == 4
    assert capfd.readouterr().out.splitlines() == [
        "7.5 s, 1200 frames, 50 episodes: mean 25.5 of the last 50",
        "7.5 s, 1200 frames, 100 episodes: mean 75.5 of the last 50",
        "Threshold reached: mean 201.0 of the last 2 episodes",
        "Evaluation: mean 199.5 of 4 episodes",
        "Learned after 1200 frames, 102 episodes, 7.5 s"]


def test_a_line_is_printed_in_one_piece(monkeypatch):
    """A line is written with its end, and at once. Otherwise threads would mix their lines."""
    monkeypatch.setattr(sys, "stdout", unittest.mock.Mock())
    a3c.say("A line")
    pieces = [call.args[0] for call in sys.stdout.write.call_args_list]
    assert [piece for piece in pieces if piece] == ["A line\n"] and sys.stdout.flush.called


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


def test_a_curves_point_is_a_batchs_mean(tmp_path):
    """A point has the mean of a batch's numbers, or a plain number, at the frames so far."""
    progress = a3c.Progress(options())
    progress.curves, progress.frames = tf.summary.FileWriter(str(tmp_path)), 10
    progress.add_to_curves({"loss/actor": np.array([1, 2]), "gradient": 7.0})
    progress.curves.close()
    assert curves(tmp_path) == {"loss/actor": [(10, 1.5)], "gradient": [(10, 7)]}


def test_scores_and_evaluations_go_to_their_curves(monkeypatch, points):
    """A learner's score, the mean of the latest scores, and an evaluation with its threshold become
    points of their curves. (Losses: test_network.py.)"""
    monkeypatch.setattr(a3c, "SHARE_ONE_CORE", False)
    built = Built(2)
    for learner, score in zip(built.learners, (30, 20)):
        learner.environment.run = unittest.mock.Mock(side_effect=[score, a3c.Stopped])
        with pytest.raises(a3c.Stopped):
            learner.learn()
    built.tester.environment.play = lambda env: 190
    built.tester.evaluate()
    assert points == [{"score/local_thread1": 30, "mean": 30},
                      {"score/local_thread2": 20, "mean": 25},
                      {"evaluation": 190, "threshold": 199}]


def test_graph_and_curves_are_on_disk_after_a_run(tmp_path, monkeypatch):
    """A new --logdir has the graph and all curves, even though nobody closes the file."""
    folder = tmp_path / "new" / "curves"
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 0)  # so there is an evaluation
    assert run_main("--logdir", folder)[0] == LEARNED
    assert set(curves(folder)) == {"loss/actor", "loss/critic", "loss/entropy", "gradient", "mean",
                                   "evaluation", "threshold", "score/local_thread1"}
    graphs = (tf.GraphDef.FromString(event.graph_def) for event in events(folder))
    names = {node.name for graph in graphs for node in graph.node}
    assert {"local_thread1/s", "test_thread/s", "parameter_server/hidden/weights"} <= names


# Films and windows

@pytest.fixture
def films(tmp_path, monkeypatch):
    """The folder of all films. After the test the environment variables are as they were."""
    monkeypatch.setattr(a3c, "FILMS", str(tmp_path / "films"))
    with unittest.mock.patch.dict(os.environ):
        yield tmp_path / "films"


def film_an_episode(options, capfd):
    """Film an episode of a policy that has learned nothing. Returns its score."""
    options.test_episodes = 1
    a3c.prepare_films(a3c.Progress(options))
    a3c.show_episodes(Built(1).tester.environment, options)
    [score] = numbers(r"^Test episode 1: score (\d+)$", capfd.readouterr().out)
    return score


def test_for_films_sdl_gets_drivers_that_need_no_devices(films):
    """Without a screen SDL would fail, and without a sound card ALSA would complain. So SDL gets
    drivers that need neither."""
    pytest.importorskip("moviepy.config")
    for name in "SDL_VIDEODRIVER", "SDL_AUDIODRIVER":
        os.environ.pop(name, None)
    a3c.prepare_films(a3c.Progress(a3c.parse(["--render", "video"])))
    assert os.environ["SDL_VIDEODRIVER"] == os.environ["SDL_AUDIODRIVER"] == "dummy"


def test_human_shows_and_films_every_step(films, monkeypatch, capfd):
    """--render human draws each step into a window, and films it."""
    pytest.importorskip("moviepy.config")
    pygame = pytest.importorskip("pygame")
    monkeypatch.setattr(sys, "platform", "linux")  # where a window may open
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # draws into a window that nobody sees
    shown = unittest.mock.Mock(wraps=pygame.display.flip)
    monkeypatch.setattr(pygame.display, "flip", shown)
    score = film_an_episode(a3c.parse(["--render", "human"]), capfd)
    [filmed] = film_lengths(films)
    assert shown.call_count == score + 1 and filmed in (score, score + 1)  # + 1: the start


def pretend_screen(monkeypatch, platform, driver):
    """Make this a machine on which SDL opens a window with this driver only, or with none."""
    def init():
        if os.environ.get("SDL_VIDEODRIVER") != driver:
            raise pygame.error("No available video device")
    pygame = pytest.importorskip("pygame")
    pytest.importorskip("moviepy.config")  # which looks at the real platform
    monkeypatch.setattr(pygame.display, "init", init)
    monkeypatch.setattr(sys, "platform", platform)
    os.environ.pop("SDL_VIDEODRIVER", None)


@pytest.mark.parametrize("render, platform, driver, opens", [
    ("auto", "linux", "x11", True), ("human", "linux", "x11", True),
    ("video", "linux", "x11", False), ("none", "linux", "x11", False),
    ("auto", "linux", None, False),  # there is no screen
    ("auto", "win32", "windows", True),
    ("auto", "darwin", "cocoa", False)])  # it opens windows only in the main thread
def test_a_window_opens_if_it_can_and_may(films, monkeypatch, render, platform, driver, opens):
    """With --render auto or human, one opens if SDL finds a screen, but never on a Mac."""
    pretend_screen(monkeypatch, platform, driver)
    options = a3c.parse(["--render", render])
    a3c.prepare_films(a3c.Progress(options))
    assert options.window == opens


def test_a_window_opens_with_the_users_own_driver(films, monkeypatch):
    """A driver of SDL's that the user has chosen is kept. Here a window opens only with wayland,
    which the script itself wouldn't choose."""
    pretend_screen(monkeypatch, "linux", driver="wayland")
    os.environ["SDL_VIDEODRIVER"] = "wayland"
    options = a3c.parse([])
    a3c.prepare_films(a3c.Progress(options))
    assert options.window and os.environ["SDL_VIDEODRIVER"] == "wayland"


def test_human_is_refused_if_no_window_opens(films, nothing_written, monkeypatch, capfd):
    """If no window can open, --render human is refused in one line, before anything is learned."""
    pretend_screen(monkeypatch, "linux", driver=None)
    assert "--render: no window can open here" in refusal(capfd, "--render", "human")


# Checkpoints

def test_a_moved_checkpoint_still_restores_everything(saved):
    """A checkpoint in a renamed folder restores all weights and all of RMSProp's variables."""
    values = saved_values(saved.rename(saved.with_name("moved")))
    assert len(values) == 6 * 3  # arrays, each with RMSProp's average and momentum
    status, server = run_main("--play", "--checkpoint", saved.with_name("moved"))
    with server.session.graph.as_default():
        variables = tf.global_variables("parameter_server/")
    assert status == LEARNED and len(variables) == len(values)
    assert equal(server.session.run(variables), [values[v.op.name] for v in variables])


def test_max_frames_counts_from_the_checkpoint_on(saved, capfd):
    """--max-frames counts from a checkpoint on: a repeated command plays as many frames again."""
    class Environment(a3c.Environment):
        def reward(self, *args):
            steps.append(args)
            return super().reward(*args)
    capfd.readouterr()
    for frames in 50, 750:  # of the checkpoint `saved`, then of the next
        steps = []  # that are really played
        words = "--checkpoint", saved, "--max-frames", 700
        assert run_main(*words, environment_class=Environment)[0] == NOT_LEARNED
        assert len(steps) == 700
        first, *_, last = capfd.readouterr().out.splitlines()
        assert first == f"Continuing after {frames} frames"
        assert last == f"Not learned after {frames + 700} frames"
        assert (saved / f"model-{frames + 700}.index").exists()


def test_a_run_saves_every_minute(clock):
    """There is a save after each minute, and one at the end, here after 200 seconds. `main` looks
    once a second whether 60 are over."""
    class Server(a3c.ParameterServer):
        def initialize(self):
            super().initialize()
            self.progress.wait_for_stop = self.wait
            self.checkpoint.save = lambda: saves.append(clock.now - started)

        def wait(self, seconds):
            clock.now += seconds
            if clock.now >= started + 200:
                self.progress.stop()
            return self.progress.stopped
    started, saves = clock.now, []
    assert run_main(server_class=Server)[0] == NOT_LEARNED
    assert saves == [61, 122, 183, 200]  # just after each minute, and at the end


class Adam(a3c.ParameterServer):
    """Adam's variable beta1_power begins at 0.9, and each update multiplies it by 0.9."""
    def build_optimizer(self):
        return tf.train.AdamOptimizer(1e-3)


def test_adams_variables_are_saved_and_restored(tmp_path):
    """A second run goes on with the saved weights, and with the variables that Adam adds to them,
    such as a power of 0.9 that falls with each update."""
    words = "--checkpoint", tmp_path, "--max-frames", 300  # at least 30 updates
    _, earlier = run_main(*words, server_class=Adam)
    assert len(saved_values(tmp_path)) == 6 * 3 + 2  # arrays, each with two averages; two powers
    before = saved_values(tmp_path)["parameter_server/beta1_power"]
    _, later = run_main(*words, server_class=Adam)
    assert equal(later.first, earlier.session.run(earlier.weights))
    assert saved_values(tmp_path)["parameter_server/beta1_power"] <= before * 0.9 ** 30


# Refusals

FILES = {"empty", "file", "a[1]b"}  # the first and the last are folders


@pytest.fixture
def nothing_written(tmp_path, monkeypatch):
    """Changes to a folder with FILES. Checks after the test that no file has been added."""
    for name in FILES - {"file"}:
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_text("text")
    monkeypatch.chdir(tmp_path)
    yield
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} == FILES


@pytest.mark.parametrize("words", [  # the last option of each is the wrong one
    "--workers 0", "--workers two", "--seed -1", "--max-frames 0", "--test-episodes 0",
    "--render film", "--speed", "--max-frame 5",  # options are never shortened
    "--play", "--play --checkpoint empty", "--play --checkpoint missing",  # nothing to play
    "--checkpoint=", "--checkpoint file", "--checkpoint file/below",  # no folders
    "--logdir=", "--logdir file", "--logdir file/below",
    pytest.param("--checkpoint a[1]b", marks=posix),  # TensorFlow would take it for a pattern
    pytest.param("--logdir a[1]b", marks=posix),
    pytest.param("--logdir /proc/none", marks=linux)])  # not writable
def test_a_wrong_option_is_refused(nothing_written, capfd, words):
    """One line on stderr names the option, and the status is 2. Nothing is written. (One message
    names all four options whose number may be too small.)"""
    wrong = [word.rstrip("=") for word in words.split() if word.startswith("--")][-1]
    assert wrong in refusal(capfd, *words.split())


UNREADABLE = "there is no checkpoint that can be read"
ANY = ""  # in TensorFlow's or Python's words


@pytest.mark.parametrize("pattern, damage, says", [
    ("*.data*", lambda file: file.write_bytes(file.read_bytes()[:-100]), ANY),
    ("*.index", lambda file: file.unlink(), UNREADABLE),
    ("checkpoint", lambda file: file.write_bytes(b"\xff\xfe"), ANY),
    ("checkpoint", lambda file: file.unlink(), UNREADABLE)],
    ids=["cut short", "no index", "unreadable list", "no list"])
def test_a_damaged_checkpoint_is_refused(saved, capfd, pattern, damage, says):
    """A damaged checkpoint is refused in a line that says why, and its files stay as they are."""
    [file] = saved.glob(pattern)
    damage(file)
    before = files_below(saved)
    line = refusal(capfd, "--checkpoint", saved)
    why = line.partition(f"argument --checkpoint: {str(saved)!r}: ")[2].strip()
    assert why and says in why
    assert files_below(saved) == before


def test_a_checkpoint_of_another_network_is_refused(saved, monkeypatch, capfd):
    monkeypatch.setattr(a3c, "HIDDEN_UNITS", 17)
    before = files_below(saved)
    assert "from another network or optimizer" in refusal(capfd, "--checkpoint", saved)
    assert files_below(saved) == before


@pytest.mark.parametrize("missing", ["moviepy", "pygame", "a folder"])
def test_films_that_cannot_be_made_are_refused(tmp_path, monkeypatch, capfd, missing):
    """One line says what is missing, a package or the folder for films, before anything is
    learned."""
    if missing == "a folder":
        (tmp_path / "a file").write_text("text")
        monkeypatch.setattr(a3c, "FILMS", str(tmp_path / "a file" / "a folder"))
    else:
        monkeypatch.setitem(sys.modules, missing, None)  # as if this package weren't installed
    monkeypatch.setattr(a3c, "open_session", None)  # not yet called when this is refused
    line = refusal(capfd, "--render", "video")
    assert "argument --render: " in line and missing in line


@pytest.mark.parametrize("ffmpeg", ["missing", sys.executable],  # Python knows no -version
                         ids=["missing", "one that fails"])
def test_films_need_an_ffmpeg_that_works(monkeypatch, capfd, ffmpeg):
    """Films are refused if ffmpeg is missing, and also if it is there but fails."""
    monkeypatch.setattr(pytest.importorskip("moviepy.config"), "FFMPEG_BINARY", ffmpeg)
    line = refusal(capfd, "--render", "video")
    assert "argument --render: " in line and line.endswith(" (see requirements.txt, or try none)\n")


def test_without_films_no_ffmpeg_is_needed(monkeypatch):
    """With --render none, a missing ffmpeg isn't refused."""
    monkeypatch.setattr(pytest.importorskip("moviepy.config"), "FFMPEG_BINARY", "missing")
    a3c.prepare_films(a3c.Progress(options("--render", "none")))


def test_an_error_without_a_message_is_named():
    """Of an error without a message, a user sees at least the exception's name."""
    assert a3c.reason(AssertionError()) == "AssertionError()"


# Settings

def test_all_settings_have_their_values():
    """The results on the pages were measured with these settings. Whoever changes one changes it
    here, too."""
    assert a3c.constants() == {
        "ENV": "CartPole-v0", "NUM_STATES": 4, "NUM_ACTIONS": 2, "TIME_LIMIT_IS_END": True,
        "GOOD_STEPS": 199, "Tmax": 10, "N_STEP_RETURN": 5, "GAMMA": 0.99, "HIDDEN_UNITS": 16,
        "LEARNING_RATE": 5e-3, "RMSPROP_DECAY": 0.99, "LOSS_V": 0.5, "LOSS_ENTROPY": 0.01,
        "EPS_START": 0.5, "EPS_END": 0.0, "EPS_STEPS": 1600, "N_WORKERS": 8, "SHARE_ONE_CORE": True,
        "MAX_FRAMES": 1_000_000, "LEARNED_MEAN": 199, "THRESHOLD_MEAN": None,
        "THRESHOLD_EPISODES": 10, "EVALUATION_EPISODES": 10, "PRINT_EPISODES": 50,
        "GRACE_SECONDS": 1.5, "FILMS": "movie/A3C", "SAVE_SECONDS": 60}


def test_options_not_given_have_their_defaults(monkeypatch):
    """Threads and frames follow the constants, three test episodes are shown, and each run gets
    another seed."""
    monkeypatch.setattr(a3c, "N_WORKERS", 5)
    monkeypatch.setattr(a3c, "MAX_FRAMES", 60)
    default = a3c.parse([])
    assert (default.workers, default.max_frames, default.test_episodes) == (5, 60, 3)
    assert (default.render, default.play) == ("auto", False)
    assert default.checkpoint is default.logdir is None
    assert default.seed != a3c.parse([]).seed  # equal once in four billion times


# Memory and imports

def test_the_memory_of_a_finished_run_is_freed():
    """A notebook may run the script again and again. Nothing refers to a run that has ended."""
    servers = [weakref.ref(run_main("--max-frames", 300)[1]) for _ in range(3)]
    gc.collect()
    assert [server() for server in servers] == [None] * 3


def test_the_garbage_collector_is_on_again():
    """Garbage is collected after the script's import, which switches that off for a while."""
    assert gc.isenabled()


def test_importing_keeps_the_users_onednn_setting(monkeypatch):
    """The script switches oneDNN off, but not if the user, or pong.py, has switched it on: Pong is
    twice as fast with it."""
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    runpy.run_path(a3c.__file__)
    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == "1"
