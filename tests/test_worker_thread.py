"""Progress and Worker_thread: counts, the threshold, evaluations, stops."""
import collections
import concurrent.futures
import contextlib
import threading
import time

import pytest
from helpers import Built, a3c, put, same


def finish(built):
    """Let all threads work until they have ended, and raise what failed, as main does."""
    threads = [threading.Thread(target=worker.run, name=worker.name, daemon=True)
               for worker in [*built.learners, built.tester]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    built.progress.coordinator.raise_requested_exception()


def plays(worker, *scores, before=None):
    """Let the worker's next episodes have these scores, the last for ever; each takes a frame."""
    rest = collections.deque(scores)

    def episode(env=None):
        if before:
            before()
        worker.progress.next_frame(worker.learning)
        return rest.popleft() if len(rest) > 1 else rest[0]
    worker.environment.run = episode


@pytest.mark.parametrize("frames, learned, stop, learner_ended", [
    (2, False, False, False), (3, False, False, True), (0, True, False, True),
    (0, False, True, True)])
def test_next_frame_counts_those_of_learners_and_ends_who_has_to_end(
        frames, learned, stop, learner_ended):
    progress = a3c.Progress(1, 3)
    progress.resume(100, learned)  # frames of earlier runs do not count for max_frames
    progress.frames += frames
    if stop:
        progress.coordinator.request_stop()
    for learning, ends in ((False, stop), (True, learner_ended)):
        with pytest.raises(a3c.Stopped) if ends else contextlib.nullcontext():
            progress.next_frame(learning)
        assert progress.frames == 100 + frames + (learning and not ends)


class Meets(int):
    """A number whose sums wait a while for a second thread to come into the same sum: without a
    lock, some Pythons switch threads in the middle of `+= 1`, and others never do."""
    barrier = None

    def __add__(self, other):
        with contextlib.suppress(threading.BrokenBarrierError):  # a lock keeps the second one out
            self.barrier.wait(timeout=1)
        return Meets(int(self) + other)

    def __sub__(self, other):
        return self + -other


def test_threads_that_meet_while_counting_lose_nothing(monkeypatch):
    progress = a3c.Progress(4, 4)
    progress.frames, progress.learners = Meets(0), Meets(4)
    for target, args in (progress.next_frame, [True]), (progress.learner_ended, []):
        monkeypatch.setattr(Meets, "barrier", threading.Barrier(2))
        with concurrent.futures.ThreadPoolExecutor(4) as four:
            for _ in range(4):
                four.submit(target, *args)
    assert (progress.frames, progress.learners) == (4, 0)


@pytest.mark.parametrize("scores, evaluation, happens", [
    ([199] * 9 + [200], 200, ["threshold", "evaluation", "learned"]),
    ([200] * 10, 199, ["threshold", "evaluation", "not_learned"]),
    ([199] * 10, 200, ["not_learned"]),
    ([200] * 9, 200, ["not_learned"])])
def test_ten_episodes_above_199_lead_to_an_evaluation_that_must_be_above_it_too(
        scores, evaluation, happens):
    built, played = Built(1, max_frames=len(scores)), []
    plays(built.learners[0], *scores)
    plays(built.tester, evaluation, before=lambda: played.append(evaluation))
    finish(built)
    assert built.happened() == ["episode"] * len(scores) + happens
    assert len(played) == 10 * ("evaluation" in happens)
    assert built.progress.learned == ("learned" in happens)


def test_the_evaluation_counts_the_mean_of_ten_episodes():
    built = Built(1)
    plays(built.learners[0], 200)
    plays(built.tester, *[200] * 5, *[190] * 5, 200)  # fails with 195, then passes
    finish(built)
    assert [call.args for call in built.log.evaluation.call_args_list] == [(195,), (200,)]


def test_the_latest_ten_episodes_of_all_learners_count():
    progress = a3c.Progress(8, 10 ** 6)
    for score in [100] + [200] * 9:  # of any learner: who has played it is not told
        progress.episode_ended(score)
    assert progress.mean_score() == 190 and not progress.evaluating
    progress.episode_ended(200)
    assert progress.mean_score() == 200 and progress.evaluating


def test_after_a_failed_evaluation_ten_new_episodes_have_to_reach_the_threshold():
    built = Built(1, max_frames=35)
    plays(built.learners[0], *[200] * 20, 190)  # at last not good enough for a third evaluation
    plays(built.tester, 199)
    finish(built)
    evaluations = [*["episode"] * 10, "threshold", "evaluation"] * 2
    assert built.happened() == [*evaluations, *["episode"] * 15, "not_learned"]


def test_learners_wait_while_the_policy_is_evaluated():
    built = Built(2)
    frames = []
    plays(built.learners[0], 200)
    plays(built.learners[1], 200)
    plays(built.tester, 200, before=lambda: (time.sleep(0.02), frames.append(
        built.progress.frames)))
    finish(built)
    assert len(frames) == 10
    assert max(frames) - frames[0] <= 1  # the other learner may have been past its waiting place


def test_a_score_that_comes_during_the_evaluation_does_not_count():
    progress = a3c.Progress(2, 10 ** 6)
    for _ in range(10):
        progress.episode_ended(200)
    progress.episode_ended(0)
    assert progress.mean_score() == 200
    progress.verdict(passed=False)
    assert not progress.scores and not progress.evaluating


def test_the_last_frame_may_still_reach_the_threshold():
    built = Built(2, max_frames=10)
    plays(built.learners[0], 200)
    plays(built.learners[1], 200)
    plays(built.tester, 200)
    finish(built)
    assert built.progress.learned and built.progress.frames == 10


def test_the_threshold_is_awaited_as_long_as_a_learner_has_not_ended():
    progress = a3c.Progress(1, 0)  # the frames are used up, but the last episode may still count

    def reach():
        for _ in range(10):
            progress.episode_ended(200)
    timer = threading.Timer(0.1, reach)
    timer.start()
    assert progress.wait_for_threshold()
    timer.join()


def test_the_weights_that_pass_are_what_stays():
    built, saved = Built(2), []
    brain, weights = built.tester.environment.agent.brain, built.server.weights
    evaluated = []

    def note_and_spoil():  # what a learner in the middle of an update may write meanwhile
        evaluated.append(built.values(brain.weights))
        put(built.server.session, weights, [77] * 6)

    def push_when_alone(push=brain.push_parameter_server):
        assert built.progress.learners == 0
        push()
    for learner in built.learners:
        plays(learner, 200)
    plays(built.tester, 200, before=note_and_spoil)
    brain.push_parameter_server = push_when_alone
    built.server.checkpoint.save = lambda: saved.extend(built.values(weights))
    first = built.values(weights)
    finish(built)
    assert built.progress.learned
    assert all(same(w, first) for w in evaluated)  # one fixed policy plays all ten episodes
    assert same(saved, first) and same(built.values(weights), first)


@pytest.mark.parametrize("wait", [
    lambda progress: progress.next_frame(learning=True),
    lambda progress: progress.verdict(passed=True),
    lambda progress: progress.wait_until(lambda: not progress.learners)])
@pytest.mark.timeout(60)  # wrong, it waits for ever
def test_a_stop_wakes_whoever_waits(wait):
    progress = a3c.Progress(1, 10)
    progress.evaluating = True
    stop = threading.Timer(0.1, progress.coordinator.request_stop)
    stop.start()
    with pytest.raises(a3c.Stopped):
        wait(progress)
    stop.join()


@pytest.mark.timeout(60)
def test_a_stop_wakes_the_test_thread_that_waits_for_the_threshold():
    progress = a3c.Progress(1, 10)
    stop = threading.Timer(0.1, progress.coordinator.request_stop)
    stop.start()
    with pytest.raises(a3c.Stopped):
        progress.wait_for_threshold()
    stop.join()


def test_a_stop_that_ends_all_learners_is_no_end_of_learning():
    progress = a3c.Progress(1, 10)
    progress.coordinator.request_stop()  # a Ctrl-C, say
    progress.learner_ended()
    with pytest.raises(a3c.Stopped):
        progress.wait_for_threshold()
