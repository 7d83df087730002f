"""Progress and Worker_thread: counts, the threshold, evaluations, stops."""
import threading
import unittest.mock

import pytest
from helpers import Built, a3c, options, put, run, same, start_waiting

may_hang = pytest.mark.timeout(30)  # with a fault, such a test would wait for ever


def reach_threshold(progress):
    for _ in range(10):
        progress.episode_ended(200)


def while_it_waits(progress, *events):
    """Instead of waiting, let each wait call the next of these functions, which has to make its
    condition true. So no other thread is needed. Returns the functions that are left."""
    rest = list(events)

    def wait_until(condition, seconds=None):
        if not condition():
            rest.pop(0)()
            assert condition()
    progress.wait_until = wait_until
    return rest


@pytest.fixture
def first_words(monkeypatch):
    """The first word of each line that is printed, in order."""
    words = []
    monkeypatch.setattr(a3c, "say", lambda line: words.append(line.split()[0].rstrip(":")))
    return words


# Frames and stops

@pytest.mark.parametrize("call", [
    a3c.Progress.next_frame, a3c.Progress.raise_if_stopped, a3c.Progress.wait_for_evaluation,
    lambda progress: progress.wait_until(lambda: True)])
def test_a_stop_ends_every_thread(call):
    """A thread's next step or wait raises Stopped."""
    progress = a3c.Progress(options())
    progress.stop()
    with pytest.raises(a3c.Stopped):
        call(progress)
    assert progress.frames == 0 and progress.wait_for_stop(60)


@may_hang
def test_learners_wait_during_an_evaluation():
    """Their next frames don't count until it is over. If the policy doesn't pass, all go on."""
    progress = a3c.Progress(options())
    progress.phase = "evaluating"
    learners = [start_waiting(progress, progress.next_frame) for _ in range(3)]
    frames_before = progress.frames
    progress.evaluated(False)
    for learner in learners:
        learner.join()
    assert (frames_before, progress.frames) == (0, 3)


def test_the_first_of_several_errors_is_kept():
    """It is kept with its thread's name. Neither a plain stop nor the Stopped that it causes is an
    error."""
    built, first, late = Built(2), ValueError("first"), ValueError("late")
    built.progress.stop()
    built.tester.run()  # raises Stopped inside
    built.learners[1].learn = unittest.mock.Mock(side_effect=first)
    built.learners[0].learn = unittest.mock.Mock(side_effect=late)
    for learner in built.learners[1], built.learners[0]:
        learner.run()
    built.progress.stop(late, "saving")
    assert built.progress.failure == (first, "local_thread2")


def test_an_error_after_ctrl_c_is_no_failure():
    """Ctrl-C also ends ffmpeg, and then its film fails. That must not hide that the user stopped
    the run."""
    built = Built(0)
    built.progress.interrupt()
    built.tester.test = unittest.mock.Mock(side_effect=BrokenPipeError)
    built.tester.run()
    assert built.progress.failure is None


@pytest.mark.parametrize("failure", [(), (ValueError("on purpose"), "local_thread1")])
def test_a_signal_after_a_run_changes_nothing(failure):
    """A run that has ended, well or with an error, doesn't become an interrupted one."""
    progress = a3c.Progress(options())
    progress.stop(*failure)
    progress.interrupt()
    assert progress.stopped and not progress.interrupted and progress.failure == (failure or None)


@may_hang
def test_ctrl_c_wakes_whoever_waits():
    """Ctrl-C ends a wait, even if the main thread, which handles it, holds the lock just then. (A
    thread may take this lock twice.)"""
    progress = a3c.Progress(options())
    waiting = start_waiting(progress, progress.wait_for_evaluation)
    with progress.changed:
        progress.interrupt()
    waiting.join()  # for ever, if nothing wakes it


@pytest.mark.parametrize("learned_mean, wanted", [
    (200, ["Not"]), (0, ["Threshold", "Evaluation", "Learned", "Test", "Test", "Test"])],
    ids=["never learned", "learned"])
@may_hang
def test_a_hanging_learner_is_not_awaited_forever(monkeypatch, first_words, learned_mean, wanted):
    """After the last frame, or an evaluation that has passed, the test thread ends the run without
    it."""
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
    assert hung == {"local_thread1"} and first_words[-len(wanted):] == wanted


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
    """Two threads never count at once, so no step is lost, and never write the same checkpoint at
    once."""
    built = Built(1)
    progress, checkpoint = built.progress, built.server.checkpoint
    checkpoint.folder, checkpoint.saver = "saved", unittest.mock.Mock()
    assert waits_for(progress.changed, progress.next_frame)
    assert waits_for(progress.changed, lambda: progress.episode_ended(20))
    assert waits_for(checkpoint.lock, checkpoint.save)
    assert (progress.frames, progress.episodes, checkpoint.saver.save.call_count) == (1, 1, 1)


# The threshold and the evaluation

@pytest.mark.parametrize("scores, evaluation_mean, wanted", [
    ([199] * 9 + [200], 200, ["Threshold", "Evaluation", "Learned"]),
    ([100] + [200] * 10, 200, ["Threshold", "Evaluation", "Learned"]),
    ([200] * 10, 199, ["Threshold", "Evaluation", "Not"]),  # "Not learned after ..."
    ([100] + [200] * 9, 200, ["Not"]), ([199] * 10, 200, ["Not"]), ([200] * 9, 200, ["Not"])],
    ids=["just above 199", "only the latest ten count", "an evaluation of just 199",
         "a low score among ten", "just 199", "only nine"])
@may_hang
def test_both_means_have_to_exceed_199(first_words, scores, evaluation_mean, wanted):
    """The mean of the latest ten training scores leads to an evaluation, and the mean of its ten
    scores to "Learned". The first words of the lines printed tell what happened."""
    built = Built(0)  # no learner, so the test thread never waits
    evaluation = [evaluation_mean - 9] + 9 * [evaluation_mean + 1]  # ten scores with this mean
    built.tester.environment.play = play = unittest.mock.Mock(side_effect=evaluation)
    for score in scores:
        built.progress.episode_ended(score)
    built.tester.test()
    assert first_words == wanted and play.call_count == 10 * ("Evaluation" in wanted)
    assert (built.progress.phase == "learned") == ("Learned" in wanted)


@pytest.mark.parametrize("threshold, score, phase", [
    (205, 200, "training"), (150, 190, "evaluating")])
def test_training_may_have_a_threshold_of_its_own(monkeypatch, threshold, score, phase):
    """If THRESHOLD_MEAN is set, it decides when an evaluation begins, not LEARNED_MEAN (199)."""
    monkeypatch.setattr(a3c, "THRESHOLD_MEAN", threshold)
    progress = a3c.Progress(options())
    for _ in range(10):
        progress.episode_ended(score)
    assert progress.phase == phase


def test_a_score_during_an_evaluation_keeps_the_threshold_mean():
    """A learner may be in the last step of an episode when an evaluation begins. The episode still
    counts, but its score doesn't change the mean that began the evaluation and is printed then."""
    progress = a3c.Progress(options())
    reach_threshold(progress)
    progress.episode_ended(0)
    assert list(progress.recent) == [200] * 10 and progress.episodes == 11


def test_after_a_failed_evaluation_ten_more_episodes_have_to_end(first_words):
    """The scores before it don't count towards the next one."""
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
    assert first_words == ["Threshold", "Evaluation"] * 2 + ["Not"]
    # Noted in each of an evaluation's ten episodes
    assert evaluated_after == [10] * 10 + [20] * 10 and built.progress.episodes == 35


def test_the_last_episodes_may_reach_the_threshold(first_words):
    """After the last frame, the test thread still waits for the end of the learners' episodes."""
    built = Built(1, max_frames=1)
    progress = built.progress
    progress.next_frame()  # the last, but its episode may still count
    left = while_it_waits(
        progress,
        lambda: reach_threshold(progress),  # while the test thread waits for the last episodes
        progress.learning_threads.clear)  # while it waits for the learners, after the evaluation
    built.tester.environment.play = lambda env: 200
    built.tester.test()
    assert first_words == ["Threshold", "Evaluation", "Learned"]
    assert not left  # it has waited both times


def test_weights_that_pass_are_those_that_played():
    """While learners still write other weights, 77 during the episodes and 88 when the learners
    end, the evaluation plays with those of its beginning, and these are kept and saved."""
    built = Built(1)
    server, brain = built.server, built.tester.environment.agent.brain
    first, played, saved = built.values(server.weights), [], []

    def play(env):
        played.append(built.values(brain.weights))
        put(server.session, server.weights, [77] * 6)  # of all six arrays
        return 200

    def end_late():
        put(server.session, server.weights, [88] * 6)
        built.progress.learning_threads.clear()
    built.tester.environment.play = play
    while_it_waits(built.progress, end_late)
    server.checkpoint.save = lambda: saved.append(built.values(server.weights))
    reach_threshold(built.progress)
    built.tester.evaluate()
    assert not built.progress.learning_threads  # so nobody writes any more
    assert len(played) == 10 and len(saved) == 1
    for weights in *played, *saved, built.values(server.weights):
        assert same(weights, first)
