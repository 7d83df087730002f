"""Progress and Worker_thread: counts, the threshold, evaluations, stops."""
import collections
import threading
import unittest.mock

import pytest
from helpers import LEARNED, NOT_LEARNED, Built, EndsAt, a3c, fault, options, put, run, same


def new_progress(learners=1, max_frames=1_000_000):
    """A progress whose learners haven't ended."""
    progress = a3c.Progress(options("--workers", learners, "--max-frames", max_frames))
    progress.learners |= {f"local_thread{i + 1}" for i in range(learners)}
    return progress


def reach_threshold(progress):
    for _ in range(10):
        progress.episode_ended(200)


def while_it_waits(progress, *events):
    """Make each wait call the next of these functions instead, which has to fulfil its condition.
    So what happens during a wait needs no other thread."""
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
def test_after_the_last_frame_or_once_it_is_learned_only_the_test_thread_goes_on(
        phase, max_frames):
    progress = new_progress(max_frames=max_frames)
    progress.phase, progress.frames = phase, 3
    with pytest.raises(a3c.Stopped):
        progress.next_frame(learning=True)
    assert progress.next_frame(learning=False) == progress.frames == 3


@fault("Progress.next_frame", "self.coordinator.should_stop()", "False")
@pytest.mark.parametrize("learning", [True, False])
def test_a_stop_ends_learners_and_the_test_thread_at_their_next_step(learning):
    progress = new_progress()
    progress.stop()
    with pytest.raises(a3c.Stopped):
        progress.next_frame(learning)
    assert progress.frames == 0


@fault("Progress.next_frame", 'self.wait_until(lambda: self.phase != "evaluating")', "pass")
@fault("Progress.stop", "self.changed.notify_all()", "pass")
@pytest.mark.parametrize("wait", [
    lambda progress: progress.next_frame(learning=True),
    lambda progress: progress.wait_until(lambda: progress.phase == "training")])
@pytest.mark.timeout(60)  # wrong, it waits for ever
def test_during_an_evaluation_learners_wait_and_a_stop_wakes_them(wait):
    progress = new_progress()
    progress.phase = "evaluating"
    stop = threading.Timer(0.1, progress.stop)
    stop.start()
    with pytest.raises(a3c.Stopped):
        wait(progress)
    assert progress.coordinator.should_stop()  # it waited until then


@fault("Worker_thread.run", "self.progress.changed.notify_all()", "pass")
@pytest.mark.timeout(60)  # wrong, it waits for ever
def test_a_thread_that_fails_wakes_whoever_waits():
    built, waits = Built(2), threading.Event()

    def fail(learning):
        waits.wait()
        with built.progress.changed:  # free, so the other thread doesn't look: it waits
            raise ValueError("on purpose")
    built.learners[0].environment.run = fail
    built.learners[1].environment.run = lambda learning: built.progress.wait_until(waits.set)
    with pytest.raises(RuntimeError, match="^local_thread1 failed: .*on purpose"):
        built.run()


@fault("Progress.wait_until", "raise Stopped", "pass")
def test_a_stop_that_ends_all_learners_is_no_end_of_learning(said):
    built = Built(1)
    built.progress.coordinator.request_stop()  # a Ctrl-C, say
    built.run()
    assert said == [] and not built.progress.learners


@fault("Worker_thread.work", "self.progress.stop()", "pass")
@fault("Worker_thread.run", "self.progress.learners.discard(self.name)", "pass")
@pytest.mark.parametrize("method, says", [("learn", ["Seed", "Not"]), ("test", ["Seed"])])
@pytest.mark.timeout(60)  # wrong, it waits for ever
def test_a_thread_whose_work_is_done_early_does_not_keep_the_run_from_ending(
        monkeypatch, said, method, says):
    monkeypatch.setattr(a3c.Worker_thread, method, lambda self: None)
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
@pytest.mark.parametrize("scores, evaluation, says", [
    ([199] * 9 + [200], 200, ["Threshold", "Evaluation", "Learned"]),
    ([100] + [200] * 10, 200, ["Threshold", "Evaluation", "Learned"]),
    ([200] * 10, 199, ["Threshold", "Evaluation", "Not"]),
    ([100] + [200] * 9, 200, ["Not"]),
    ([199] * 10, 200, ["Not"]),
    ([200] * 9, 200, ["Not"])])
def test_the_latest_ten_scores_above_199_lead_to_an_evaluation_that_must_be_above_it_too(
        said, scores, evaluation, says):
    built = Built(0)
    built.tester.environment.run = play = unittest.mock.Mock(return_value=evaluation)
    for score in scores:
        built.progress.episode_ended(score)
    built.tester.test()
    assert said == says and play.call_count == 10 * ("Evaluation" in says)
    assert (built.progress.phase == "learned") == ("Learned" in says)


@fault("Progress.episode_ended", 'self.phase == "training"', "True")
def test_a_score_that_comes_during_the_evaluation_does_not_count():
    progress = new_progress(2)
    reach_threshold(progress)
    progress.episode_ended(0)
    assert list(progress.recent) == [200] * 10 and progress.episodes == 11


@fault("Progress.evaluated", "self.recent.clear()", "pass")
def test_after_a_failed_evaluation_ten_new_episodes_have_to_reach_the_threshold(said):
    built, episodes = Built(1, max_frames=35), []
    scores = iter([200] * 20 + [190] * 15)  # at last not good enough for a third evaluation

    def learn(learning):
        built.progress.next_frame(learning)
        return next(scores)

    def evaluate(learning):
        episodes.append(built.progress.episodes)
        return 199
    built.learners[0].environment.run, built.tester.environment.run = learn, evaluate
    built.run()
    assert said == ["Threshold", "Evaluation"] * 2 + ["Not"]
    assert episodes == [10] * 10 + [20] * 10 and built.progress.episodes == 35


@fault("Worker_thread.test", "not progress.learners", "progress.frames >= progress.max_frames")
def test_the_threshold_is_awaited_as_long_as_a_learner_has_not_ended(said):
    built = Built(1, max_frames=1)
    progress = built.progress
    progress.next_frame(learning=True)  # the last, but its episode may still count
    while_it_waits(progress, lambda: reach_threshold(progress), progress.learners.clear)
    built.tester.environment.run = lambda learning: 200
    built.tester.test()
    assert said == ["Threshold", "Evaluation", "Learned"]


def test_when_the_last_learner_ends_during_an_evaluation_that_fails_it_is_not_learned(said):
    built = Built(1)
    reach_threshold(built.progress)
    built.tester.environment.run = lambda learning: built.progress.learners.clear() or 199
    built.tester.test()
    assert said == ["Threshold", "Evaluation", "Not"]


@fault("Worker_thread.evaluate", "brain.push_parameter_server()", "pass")
@fault("Worker_thread.evaluate", "brain.pull_parameter_server()", "pass")
@fault("Worker_thread.evaluate", "self.server.save()", "pass")
@fault("Worker_thread.evaluate", "progress.wait_until(lambda: not progress.learners)", "pass")
def test_the_weights_that_pass_are_what_stays_and_is_saved(said):
    built, evaluated, saved = Built(1), [], []
    server, brain = built.server, built.tester.environment.agent.brain
    first = built.values(server.weights)

    def play(learning):
        evaluated.append(built.values(brain.weights))
        put(server.session, server.weights, [77] * 6)  # what a learner may write meanwhile
        return 200

    def end_late():
        put(server.session, server.weights, [88] * 6)
        built.progress.learners.clear()
    reach_threshold(built.progress)
    built.tester.environment.run = play
    while_it_waits(built.progress, end_late)
    server.save = lambda: saved.extend(built.values(server.weights))
    built.tester.evaluate()
    assert len(evaluated) == 10 and all(same(weights, first) for weights in evaluated)
    assert not built.progress.learners and same(saved, first)
    assert same(built.values(server.weights), first)


@fault("Environment.__init__", "self.server = parameter_server", "pass")
def test_threshold_and_evaluation_follow_the_settings_and_make_reaches_the_server(monkeypatch):
    """Each episode has 5 steps, and each costs 1."""
    monkeypatch.setattr(a3c, "LEARNED_MEAN", -6)
    monkeypatch.setattr(a3c, "THRESHOLD_EPISODES", 3)
    monkeypatch.setattr(a3c, "EVALUATION_EPISODES", 4)
    played = collections.Counter()

    class Environment(a3c.Environment):
        def make(self, render_mode=None):
            self.server.made = EndsAt(falls=5, reward=-1.0)
            return self.server.made

        def run(self, learning):
            score = super().run(learning)
            played[learning] += 1
            return score
    status, server = run("--test-episodes", 1, "--max-frames", 99, environment_class=Environment)
    assert status == LEARNED and server.made.now == 5
    assert played == {True: 3, False: 4 + 1} and server.progress.frames == 3 * 5
