"""Progress and Worker_thread: counts, the threshold, evaluations, stops."""
import contextlib
import threading
import unittest.mock

import pytest
from helpers import NOT_LEARNED, Built, a3c, options, put, run, same

ends = pytest.mark.timeout(30)  # with a fault, such a test waits for ever


def reach_threshold(progress):
    for _ in range(10):
        progress.episode_ended(200)


def while_it_waits(progress, *events):
    """Let each wait that isn't over at once call the next of these functions instead, which has to
    make its condition true. So no other thread is needed. Returns the events that are to come."""
    rest = list(events)

    def wait_until(condition, seconds=None):
        if not condition():
            rest.pop(0)()
            assert condition()
    progress.wait_until = wait_until
    return rest


@pytest.fixture
def said(monkeypatch):
    """The first words of the lines that are said, in order."""
    words = []
    monkeypatch.setattr(a3c, "say", lambda line: words.append(line.split()[0].rstrip(":")))
    return words


# Frames and stops

@pytest.mark.parametrize("phase, max_frames", [("training", 3), ("learned", 1000)])
def test_after_the_end_only_the_test_thread_plays(phase, max_frames):
    """The end of learning: the last frame, or a task that is learned."""
    progress = a3c.Progress(options("--max-frames", max_frames))
    progress.phase, progress.frames = phase, 3
    with pytest.raises(a3c.Stopped):
        progress.next_frame()
    progress.raise_if_stopped()  # as `play` does at each step
    assert progress.frames == 3


@pytest.mark.parametrize("call", [
    a3c.Progress.next_frame, a3c.Progress.raise_if_stopped, a3c.Progress.wait_for_evaluation,
    lambda progress: progress.wait_until(lambda: True)])
def test_a_stop_ends_every_thread(call):
    """At its next step or wait."""
    progress = a3c.Progress(options())
    progress.stop()
    with pytest.raises(a3c.Stopped):
        call(progress)
    assert progress.frames == 0 and progress.wait_for_stop(60)


@ends
def test_learners_wait_during_an_evaluation():
    """A stop wakes them."""
    progress = a3c.Progress(options())
    progress.phase = "evaluating"
    stop = threading.Timer(0.1, progress.stop)
    stop.start()
    with pytest.raises(a3c.Stopped):
        progress.next_frame()
    assert progress.stopped and progress.frames == 0  # it waited until then


@pytest.mark.parametrize("error", [
    ValueError("on purpose"), SystemExit("on purpose"), a3c.Stopped()])
@ends
def test_a_thread_that_ends_wakes_whoever_waits(error):
    """Whether it has failed, or nothing was left to do."""
    built, waits = Built(2), threading.Event()
    progress, failed = built.progress, not isinstance(error, a3c.Stopped)

    def end():
        waits.wait()
        with progress.changed:  # the waiting thread holds it until it sleeps
            raise error

    def wait():
        progress.wait_until(lambda: waits.set() or len(progress.learning_threads) == 1)
        raise a3c.Stopped
    built.learners[0].environment.run, built.learners[1].environment.run = end, wait
    with pytest.raises(type(error), match="on purpose") if failed else contextlib.nullcontext():
        built.run()
    assert progress.failure == ((error, "local_thread1") if failed else None)


def test_the_first_of_several_errors_is_kept(monkeypatch):
    """With the name of its thread."""
    monkeypatch.setattr(a3c, "SHARE_ONE_CORE", False)  # learners run in this thread
    built, first, late = Built(2), ValueError("first"), ValueError("late")
    progress = built.progress
    progress.stop()  # this is no error
    built.learners[1].environment.run = unittest.mock.Mock(side_effect=first)
    built.learners[0].environment.run = unittest.mock.Mock(side_effect=late)
    for worker in built.learners[1], built.learners[0], built.tester:
        worker.run()
    progress.stop(late, "saving")
    assert progress.failure == (first, "local_thread2")


@pytest.mark.parametrize("error", [None, ValueError("on purpose")])
def test_a_signal_stops_only_a_run_going_on(error):
    """One that is over stays what it was."""
    running, over = a3c.Progress(options()), a3c.Progress(options())
    running.interrupt()
    running.interrupt()
    assert running.interrupted and running.stopped and running.failure is None
    over.stop(error, error and "local_thread1")
    over.interrupt()
    assert over.stopped and not over.interrupted
    assert over.failure == (error and (error, "local_thread1"))


@ends
def test_ctrl_c_wakes_whoever_waits():
    """Even if the main thread holds the lock when it comes."""
    built, waits = Built(1), threading.Event()
    progress = built.progress
    built.learners[0].environment.run = lambda: progress.wait_until(waits.set)
    thread = threading.Thread(target=built.learners[0].run)
    thread.start()
    waits.wait()
    with progress.changed:
        progress.interrupt()
    thread.join()


@pytest.mark.parametrize("returns_at_once, says", [("learn", ["Seed", "Not"]), ("test", ["Seed"])])
@ends
def test_a_run_ends_with_its_threads(monkeypatch, said, returns_at_once, says):
    """Once all its learners, or its test thread, have returned."""
    monkeypatch.setattr(a3c.Worker_thread, returns_at_once, lambda self: None)
    assert run("--workers", 2)[0] == NOT_LEARNED
    assert said == says


@pytest.mark.parametrize("learned_mean, says", [
    (200, ["Not"]), (0, ["Threshold", "Evaluation", "Learned", "Test", "Test", "Test"])])
@ends
def test_a_hanging_learner_is_awaited_a_while(monkeypatch, said, learned_mean, says):
    """After the last frame, or after an evaluation that has passed."""
    class Environment(a3c.Environment):
        def run(self):
            if threading.current_thread().name == "local_thread1":
                goes_on.wait()
            return super().run()
    goes_on = threading.Event()
    monkeypatch.setattr(a3c, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(a3c, "LEARNED_MEAN", learned_mean)
    _, server = run("--workers", 2, "--max-frames", 3000, environment_class=Environment)
    hung = set(server.progress.learning_threads)
    goes_on.set()
    assert hung == {"local_thread1"} and said[-len(says):] == says


# Locks

def waits_for(lock, function):
    """Whether a call of this function waits as long as another thread holds the lock."""
    call = threading.Thread(target=function)
    with lock:
        call.start()
        call.join(timeout=0.3)
        waits = call.is_alive()
    call.join()
    return waits


def test_counting_and_saving_wait_for_their_locks():
    built = Built(1)
    progress, checkpoint = built.progress, built.server.checkpoint
    checkpoint.folder, checkpoint.saver = "saved", unittest.mock.Mock()
    assert waits_for(progress.changed, progress.next_frame)
    assert waits_for(progress.changed, lambda: progress.episode_ended(20))
    assert waits_for(checkpoint.lock, checkpoint.save)
    assert (progress.frames, progress.episodes, checkpoint.saver.save.call_count) == (1, 1, 1)


# The threshold and the evaluation

@pytest.mark.parametrize("scores, evaluation_mean, says", [
    ([199] * 9 + [200], 200, ["Threshold", "Evaluation", "Learned"]),
    ([100] + [200] * 10, 200, ["Threshold", "Evaluation", "Learned"]),
    ([200] * 10, 199, ["Threshold", "Evaluation", "Not"]),
    ([100] + [200] * 9, 200, ["Not"]),
    ([199] * 10, 200, ["Not"]),
    ([200] * 9, 200, ["Not"])])
def test_a_high_mean_leads_to_an_evaluation(said, scores, evaluation_mean, says):
    """Above 199, of the latest ten scores. To pass, the evaluation needs such a mean, too."""
    built = Built(0)  # no learner, so the test thread never waits
    evaluation = [evaluation_mean - 9] + 9 * [evaluation_mean + 1]
    built.tester.environment.play = play = unittest.mock.Mock(side_effect=evaluation)
    for score in scores:
        built.progress.episode_ended(score)
    built.tester.test()
    assert said == says and play.call_count == 10 * ("Evaluation" in says)
    assert (built.progress.phase == "learned") == ("Learned" in says)


@pytest.mark.parametrize("threshold", [None, 205])
def test_training_may_have_a_threshold_of_its_own(monkeypatch, threshold):
    monkeypatch.setattr(a3c, "THRESHOLD_MEAN", threshold)
    progress = a3c.Progress(options())
    reach_threshold(progress)
    assert progress.phase == ("training" if threshold else "evaluating")


def test_an_evaluation_keeps_the_mean_before_it():
    """A score that comes meanwhile doesn't change the mean that is printed."""
    progress = a3c.Progress(options())
    reach_threshold(progress)
    progress.episode_ended(0)
    assert list(progress.recent) == [200] * 10 and progress.episodes == 11


def test_a_failed_evaluation_takes_ten_new_episodes(said):
    """Only these can reach the threshold again."""
    built, evaluated_after = Built(1, max_frames=35), []
    scores = iter([200] * 20 + [190] * 15)  # at last not good enough for a third evaluation

    def learn():
        built.progress.next_frame()
        return next(scores)

    def evaluate(env):
        evaluated_after.append(built.progress.episodes)
        return 199
    built.learners[0].environment.run, built.tester.environment.play = learn, evaluate
    built.run()
    assert said == ["Threshold", "Evaluation"] * 2 + ["Not"]
    assert evaluated_after == [10] * 10 + [20] * 10 and built.progress.episodes == 35


def test_the_last_episodes_may_reach_the_threshold(said):
    """After the last frame, the test thread awaits it until no learner is left."""
    built = Built(1, max_frames=1)
    progress = built.progress
    progress.next_frame()  # the last, but its episode may still count
    no_learner_is_left = progress.learning_threads.clear
    rest = while_it_waits(progress, lambda: reach_threshold(progress), no_learner_is_left)
    built.tester.environment.play = lambda env: 200
    built.tester.test()
    assert said == ["Threshold", "Evaluation", "Learned"] and not rest


def test_weights_that_pass_are_kept_and_saved():
    """Whatever learners write during the evaluation, and after it."""
    built, evaluated, saved = Built(1), [], []
    server, brain = built.server, built.tester.environment.agent.brain
    first = built.values(server.weights)

    def play(env):
        evaluated.append(built.values(brain.weights))
        put(server.session, server.weights, [77] * 6)  # what a learner may write meanwhile
        return 200

    def end_late():
        put(server.session, server.weights, [88] * 6)  # a learner's last update
        built.progress.learning_threads.clear()
    reach_threshold(built.progress)
    built.tester.environment.play = play
    while_it_waits(built.progress, end_late)
    server.checkpoint.save = lambda: saved.extend(built.values(server.weights))
    built.tester.evaluate()
    assert len(evaluated) == 10 and all(same(weights, first) for weights in evaluated)
    assert not built.progress.learning_threads and same(saved, first)
    assert same(built.values(server.weights), first)
