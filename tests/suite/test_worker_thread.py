"""Progress and Worker_thread: counts, the threshold, evaluations, stops."""
import threading
import unittest.mock

import pytest
from helpers import Built, a3c, equal, options, run_main, set_values, start_waiting

may_hang = pytest.mark.timeout(30)  # with a fault, such a test would wait for ever


def reach_threshold(progress):
    for _ in range(10):
        progress.episode_ended(200)


def instead_of_waiting(progress, event):
    """Instead of waiting, let the next wait call this function, which has to make its condition
    true. So no other thread is needed."""
    def wait_until(condition, seconds=None):
        if not condition():
            event()
            assert condition()
    progress.wait_until = wait_until


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
    """After a stop, a thread's next step or wait raises Stopped."""
    progress = a3c.Progress(options())
    progress.stop()
    with pytest.raises(a3c.Stopped):
        call(progress)
    assert progress.frames == 0 and progress.wait_for_stop(60)


@may_hang
def test_learners_wait_during_an_evaluation():
    """During an evaluation learners wait, and no frame counts. If it isn't passed, all go on."""
    progress = a3c.Progress(options())
    progress.phase = "evaluating"
    learners = [start_waiting(progress, progress.next_frame) for _ in range(3)]
    frames_before = progress.frames
    progress.evaluated(passed=False)
    for learner in learners:
        learner.join()
    assert (frames_before, progress.frames) == (0, 3)


def test_learners_end_once_the_task_is_learned():
    progress = a3c.Progress(options())
    reach_threshold(progress)
    progress.evaluated(passed=True)
    with pytest.raises(a3c.Stopped):
        progress.next_frame()
    assert progress.frames == 0


def test_the_first_of_several_errors_is_kept():
    """`progress.failure` is the first of several errors, with its thread's name. Neither a plain
    stop nor the Stopped that it causes is an error."""
    def fail(worker, error):
        worker.learn = worker.test = unittest.mock.Mock(side_effect=error)
        worker.run()
    built, first, late = Built(2), ValueError("first"), ValueError("late")
    built.progress.stop()
    fail(built.tester, a3c.Stopped)
    assert built.progress.failure is None

    fail(built.learners[1], first)
    fail(built.learners[0], late)
    built.progress.stop(late, "saving")
    assert built.progress.failure == (first, "local_thread2")


def test_an_error_after_ctrl_c_is_no_failure():
    """An error that Ctrl-C causes doesn't hide that the user stopped the run. Ctrl-C also ends
    ffmpeg, and then its film fails, perhaps a moment before the script notices Ctrl-C."""
    built = Built(0)
    built.tester.test = unittest.mock.Mock(side_effect=BrokenPipeError)
    built.progress.wait_for_stop = lambda seconds: built.progress.interrupt()  # it comes meanwhile
    built.tester.run()
    assert built.progress.interrupted and built.progress.failure is None


@pytest.mark.parametrize("failure", [(), (ValueError("on purpose"), "local_thread1")])
def test_a_signal_after_a_run_changes_nothing(failure):
    """A run that has ended, well or with an error, doesn't become an interrupted one."""
    progress = a3c.Progress(options())
    progress.stop(*failure)
    progress.interrupt()
    assert progress.stopped and not progress.interrupted
    assert progress.failure == (failure or None)


@may_hang
def test_ctrl_c_wakes_whoever_waits():
    """Ctrl-C ends a wait, even if the main thread, which handles it, holds the lock just then. (A
    thread may take this lock twice.)"""
    progress = a3c.Progress(options())
    waiting = start_waiting(progress, progress.wait_for_evaluation)
    with progress.changed:
        progress.interrupt()
    waiting.join()  # for ever, if nothing wakes it


@pytest.mark.parametrize("learned_mean, last_line", [(float("inf"), "Not"), (0, "Test")],
                         ids=["never learned", "learned"])
@may_hang
def test_a_hanging_learner_is_not_awaited_forever(
        monkeypatch, first_words, learned_mean, last_line):
    """After the last frame, or an evaluation that has passed, the test thread ends the run even if
    a learner hangs. (The last line begins with "Not learned" or "Test episode".)"""
    class Environment(a3c.Environment):
        def run(self):
            if threading.current_thread().name == "local_thread1":
                goes_on.wait()
            return super().run()
    goes_on = threading.Event()
    monkeypatch.setattr(a3c, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(a3c, "LEARNED_MEAN", learned_mean)
    _, server = run_main("--workers", 2, "--max-frames", 3000, environment_class=Environment)
    hung = set(server.progress.learning_threads)
    goes_on.set()
    assert hung == {"local_thread1"} and first_words[-1] == last_line


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

@pytest.mark.parametrize("scores, phase", [
    ([199] * 9 + [200], "evaluating"), ([100] + [200] * 10, "evaluating"),
    ([199] * 10, "training"), ([100] + [200] * 9, "training"), ([200] * 9, "training")],
    ids=["just above 199", "only the latest ten count", "just 199", "a low score among ten",
         "only nine"])
def test_ten_scores_above_199_on_average_start_an_evaluation(scores, phase):
    progress = a3c.Progress(options())
    for score in scores:
        progress.episode_ended(score)
    assert progress.phase == phase


@pytest.mark.parametrize("scores, phase", [
    ([199] * 9 + [200], "learned"), ([199] * 10, "training")], ids=["just above 199", "just 199"])
def test_an_evaluation_passes_above_199(first_words, scores, phase):
    """The mean of its ten scores has to exceed 199."""
    built = Built(0)
    reach_threshold(built.progress)
    built.tester.environment.play = play = unittest.mock.Mock(side_effect=scores)
    built.tester.evaluate()
    assert built.progress.phase == phase and play.call_count == 10


@pytest.mark.parametrize("score, last_line", [(200, "Learned"), (199, "Not")])
@may_hang
def test_only_an_evaluation_above_199_ends_with_learned(first_words, score, last_line):
    """After an evaluation with a mean of 200 the test thread's last line is "Learned after …". A
    mean of 199 isn't enough; as no learner is left to go on, the last line is "Not learned …"."""
    built = Built(0)  # no learners
    reach_threshold(built.progress)
    built.tester.environment.play = lambda env: score
    built.tester.test()
    assert first_words == ["Threshold", "Evaluation", last_line]


@pytest.mark.parametrize("threshold, score, phase", [
    (205, 200, "training"), (150, 190, "evaluating")])
def test_training_may_have_a_threshold_of_its_own(monkeypatch, threshold, score, phase):
    """If THRESHOLD_MEAN is set, it decides when an evaluation begins, not LEARNED_MEAN (199)."""
    monkeypatch.setattr(a3c, "THRESHOLD_MEAN", threshold)
    progress = a3c.Progress(options())
    for _ in range(10):
        progress.episode_ended(score)
    assert progress.phase == phase


def test_a_late_score_isnt_in_the_thresholds_mean():
    """An episode that ends when an evaluation has begun (a learner may be in its last step) still
    counts, and its score is in the mean of the last fifty, but not in the mean that began the
    evaluation and is printed then."""
    progress = a3c.Progress(options())
    reach_threshold(progress)
    progress.episode_ended(0)
    assert list(progress.recent) == [200] * 10
    assert progress.episodes == 11 and progress.scores[-1] == 0


def test_after_a_failed_evaluation_ten_new_scores_count():
    """After a failed evaluation, the next one needs ten new scores: those before it don't count."""
    progress = a3c.Progress(options())
    reach_threshold(progress)
    progress.evaluated(passed=False)
    for _ in range(9):
        progress.episode_ended(200)
    assert progress.phase == "training"
    progress.episode_ended(200)
    assert progress.phase == "evaluating"


def test_episodes_that_end_last_can_start_an_evaluation():
    """When the frames are used up, the learners' last episodes can still start an evaluation."""
    progress = a3c.Progress(options("--max-frames", 1))
    progress.next_frame()  # the last
    instead_of_waiting(progress, lambda: reach_threshold(progress))
    an_evaluation_is_due = progress.wait_for_evaluation()
    assert an_evaluation_is_due and progress.phase == "evaluating"


def test_weights_that_pass_are_those_that_played():
    """An evaluation plays with the weights of its beginning, and if it passes, these are saved and
    stay the server's, although learners still write others meanwhile."""
    built, played, saved = Built(1), [], []
    server, brain = built.server, built.tester.environment.agent.brain
    first = built.values(server.weights)

    def a_learner_writes(number):
        set_values(server.session, server.weights, [number] * 6)  # in all six arrays

    def play(env):
        played.append(built.values(brain.weights))
        a_learner_writes(77)
        return 200

    def the_last_learner_ends():
        a_learner_writes(88)
        built.progress.learning_threads.clear()
    built.tester.environment.play = play
    server.checkpoint.save = lambda: saved.append(built.values(server.weights))
    instead_of_waiting(built.progress, the_last_learner_ends)
    reach_threshold(built.progress)

    built.tester.evaluate()
    assert not built.progress.learning_threads  # so nobody writes any more
    at_the_end = built.values(server.weights)
    assert len(played) == 10 and len(saved) == 1
    assert all(equal(weights, first) for weights in [*played, *saved, at_the_end])
