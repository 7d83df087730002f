"""Progress and Worker_thread: counts, the threshold, evaluations, stops."""
import collections
import threading
import unittest.mock

import pytest
from helpers import LEARNED, NOT_LEARNED, Built, EndsAt, a3c, fault, options, put, run, same


def reach_threshold(progress):
    for _ in range(10):
        progress.episode_ended(200)


def while_it_waits(progress, *events):
    """Let each wait call the next of these functions instead, which has to make its condition true.
    So no other thread is needed."""
    rest = list(events)

    def wait_until(condition):
        assert not condition()
        rest.pop(0)()
        assert condition()
    progress.wait_until = wait_until


@pytest.fixture
def said(monkeypatch):
    """The first words of the lines that are said, in order."""
    words = []
    monkeypatch.setattr(a3c, "say", lambda line: words.append(line.split()[0].rstrip(":")))
    return words


# Frames and stops

@fault("Progress.next_frame", "self.frames >= self.max_frames", "self.frames > self.max_frames")
@fault("Progress.next_frame", 'self.phase == "learned" or ', "")
@pytest.mark.parametrize("phase, max_frames", [("training", 3), ("learned", 1000)])
def test_after_the_last_frame_or_once_the_task_is_learned_only_the_test_thread_goes_on(
        phase, max_frames):
    progress = a3c.Progress(options("--max-frames", max_frames))
    progress.phase, progress.frames = phase, 3
    with pytest.raises(a3c.Stopped):
        progress.next_frame(learning=True)
    assert progress.next_frame(learning=False) == progress.frames == 3


@fault("Progress.next_frame", "self.coordinator.should_stop()", "False")
@pytest.mark.parametrize("learning", [True, False])
def test_a_stop_ends_learners_and_the_test_thread_at_their_next_step(learning):
    progress = a3c.Progress(options())
    progress.stop()
    with pytest.raises(a3c.Stopped):
        progress.next_frame(learning)
    assert progress.frames == 0


@fault("Progress.next_frame", 'self.wait_until(lambda: self.phase != "evaluating")', "pass")
@fault("Progress.stop", "self.changed.notify_all()", "pass")
@pytest.mark.timeout(60)  # with a fault it waits for ever
def test_during_an_evaluation_learners_wait_and_a_stop_wakes_them():
    progress = a3c.Progress(options())
    progress.phase = "evaluating"
    stop = threading.Timer(0.1, progress.stop)
    stop.start()
    with pytest.raises(a3c.Stopped):
        progress.next_frame(learning=True)
    assert progress.coordinator.should_stop()  # it waited until then


@fault("Worker_thread.run", "self.progress.changed.notify_all()", "pass")
@pytest.mark.timeout(60)  # with a fault it waits for ever
def test_a_thread_that_fails_wakes_whoever_waits():
    built, waits = Built(2), threading.Event()  # its set() returns None: no wait ends by itself

    def fail(learning):
        waits.wait()
        with built.progress.changed:  # the waiting thread holds it until it sleeps
            raise ValueError("on purpose")
    built.learners[0].environment.run = fail
    built.learners[1].environment.run = lambda learning: built.progress.wait_until(waits.set)
    with pytest.raises(RuntimeError, match="^local_thread1 failed: .*on purpose"):
        built.run()


@fault("Progress.wait_until", "raise Stopped", "pass")
def test_after_a_stop_the_test_thread_does_not_say_not_learned_although_no_learner_is_left(said):
    built = Built(1)
    built.progress.coordinator.request_stop()  # a Ctrl-C, say
    built.run()
    assert said == [] and not built.progress.learners


@fault("Worker_thread.work", "self.progress.stop()", "pass")
@fault("Worker_thread.run", "self.progress.learners.discard(self.name)", "pass")
@pytest.mark.parametrize("returns_at_once, says", [("learn", ["Seed", "Not"]), ("test", ["Seed"])])
@pytest.mark.timeout(60)  # with a fault it waits for ever
def test_a_run_ends_once_all_its_learners_or_its_test_thread_have_returned(
        monkeypatch, said, returns_at_once, says):
    monkeypatch.setattr(a3c.Worker_thread, returns_at_once, lambda self: None)
    assert run("--workers", 2)[0] == NOT_LEARNED
    assert said == says


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


@fault("Progress.next_frame", "self.changed", "threading.Semaphore(9)")
@fault("ParameterServer.save", "self.saving", "threading.Semaphore(9)")
def test_counting_and_saving_wait_for_their_locks():
    server = Built(1).server
    server.options.checkpoint, server.saver = "saved", unittest.mock.Mock()
    progress = server.progress
    assert waits_for(progress.changed, lambda: progress.next_frame(learning=True))
    assert waits_for(progress.changed, lambda: progress.episode_ended(20))
    assert waits_for(server.saving, server.save)
    assert (progress.frames, progress.episodes, server.saver.save.call_count) == (1, 1, 1)


# The threshold and the evaluation

@fault("Progress.episode_ended", "> LEARNED_MEAN", ">= LEARNED_MEAN")
@fault("Worker_thread.evaluate", "mean > LEARNED_MEAN", "True")
@pytest.mark.parametrize("scores, evaluation_mean, says", [
    ([199] * 9 + [200], 200, ["Threshold", "Evaluation", "Learned"]),
    ([100] + [200] * 10, 200, ["Threshold", "Evaluation", "Learned"]),
    ([200] * 10, 199, ["Threshold", "Evaluation", "Not"]),
    ([100] + [200] * 9, 200, ["Not"]),
    ([199] * 10, 200, ["Not"]),
    ([200] * 9, 200, ["Not"])])
def test_a_mean_above_199_of_the_latest_ten_scores_leads_to_an_evaluation_that_needs_one_too(
        said, scores, evaluation_mean, says):
    built = Built(0)  # no learner, so the test thread never waits
    evaluation = [evaluation_mean - 9] + 9 * [evaluation_mean + 1]
    built.tester.environment.run = play = unittest.mock.Mock(side_effect=evaluation)
    for score in scores:
        built.progress.episode_ended(score)
    built.tester.test()
    assert said == says and play.call_count == 10 * ("Evaluation" in says)
    assert (built.progress.phase == "learned") == ("Learned" in says)


@fault("Progress.episode_ended", 'self.phase == "training"', "True")
def test_a_score_that_comes_during_an_evaluation_does_not_change_the_mean_that_led_to_it():
    progress = a3c.Progress(options())
    reach_threshold(progress)
    progress.episode_ended(0)
    assert list(progress.recent) == [200] * 10 and progress.episodes == 11


@fault("Progress.evaluated", "self.recent.clear()", "pass")
def test_after_a_failed_evaluation_ten_new_episodes_have_to_reach_the_threshold(said):
    built, evaluated_after = Built(1, max_frames=35), []
    scores = iter([200] * 20 + [190] * 15)  # at last not good enough for a third evaluation

    def learn(learning):
        built.progress.next_frame(learning)
        return next(scores)

    def evaluate(learning):
        evaluated_after.append(built.progress.episodes)
        return 199
    built.learners[0].environment.run, built.tester.environment.run = learn, evaluate
    built.run()
    assert said == ["Threshold", "Evaluation"] * 2 + ["Not"]
    assert evaluated_after == [10] * 10 + [20] * 10 and built.progress.episodes == 35


@fault("Worker_thread.test", "not progress.learners", "progress.frames >= progress.max_frames")
def test_after_the_last_frame_the_test_thread_awaits_the_threshold_until_no_learner_is_left(said):
    built = Built(1, max_frames=1)
    progress = built.progress
    progress.next_frame(learning=True)  # the last, but its episode may still count
    while_it_waits(progress, lambda: reach_threshold(progress), progress.learners.clear)
    built.tester.environment.run = lambda learning: 200
    built.tester.test()
    assert said == ["Threshold", "Evaluation", "Learned"]


@fault("Worker_thread.evaluate", "brain.push_parameter_server()", "pass")
@fault("Worker_thread.evaluate", "brain.pull_parameter_server()", "pass")
@fault("Worker_thread.evaluate", "self.server.save()", "pass")
@fault("Worker_thread.evaluate", "progress.wait_until(lambda: not progress.learners)", "pass")
def test_the_server_keeps_and_saves_the_weights_that_pass_the_evaluation():
    built, evaluated, saved = Built(1), [], []
    server, brain = built.server, built.tester.environment.agent.brain
    first = built.values(server.weights)

    def play(learning):
        evaluated.append(built.values(brain.weights))
        put(server.session, server.weights, [77] * 6)  # what a learner may write meanwhile
        return 200

    def end_late():
        put(server.session, server.weights, [88] * 6)  # a learner's last update
        built.progress.learners.clear()
    reach_threshold(built.progress)
    built.tester.environment.run = play
    while_it_waits(built.progress, end_late)
    server.save = lambda: saved.extend(built.values(server.weights))
    built.tester.evaluate()
    assert len(evaluated) == 10 and all(same(weights, first) for weights in evaluated)
    assert not built.progress.learners and same(saved, first)
    assert same(built.values(server.weights), first)


@fault("Worker_thread.evaluate", "range(EVALUATION_EPISODES)", "range(10)")
def test_threshold_and_evaluation_follow_the_settings_even_where_scores_are_negative(monkeypatch):
    """The score of each episode is -5."""
    monkeypatch.setattr(a3c, "LEARNED_MEAN", -6)
    monkeypatch.setattr(a3c, "THRESHOLD_EPISODES", 3)
    monkeypatch.setattr(a3c, "EVALUATION_EPISODES", 4)
    played = collections.Counter()

    class Environment(a3c.Environment):
        def make(self, render_mode=None):
            return EndsAt(falls=5, reward=-1.0)

        def run(self, learning):
            score = super().run(learning)
            played[learning] += 1
            return score
    status, server = run("--test-episodes", 1, "--max-frames", 99, environment_class=Environment)
    assert status == LEARNED and server.progress.frames == 3 * 5
    assert played == {True: 3, False: 4 + 1}  # learning; evaluation and test episode
