"""Progress and Worker_thread: counts, claims and exams in every order, stops."""
import collections
import concurrent.futures
import contextlib
import threading

import pytest
from helpers import Built, a3c, put


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
    """Let the worker's next trials have these scores, the last for ever; each takes a frame."""
    rest = collections.deque(scores)

    def trial(env=None):
        if before:
            before()
        worker.progress.next_frame(worker.learning)
        return rest.popleft() if len(rest) > 1 else rest[0]
    worker.environment.run = trial


@pytest.mark.parametrize("frames, learned, stop, learner_ends", [
    (2, False, False, False), (3, False, False, True), (0, True, False, True),
    (0, False, True, True)])
def test_next_frame_counts_those_of_learners_and_ends_who_has_to_end(
        frames, learned, stop, learner_ends):
    progress = a3c.Progress(1, 3)
    progress.resume(100, learned)  # frames of earlier runs do not count for max_frames
    progress.frames += frames
    if stop:
        progress.coordinator.request_stop()
    for learning, ends in ((False, stop), (True, learner_ends)):
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
    for target, args in (progress.next_frame, [True]), (progress.learner_ends, []):
        monkeypatch.setattr(Meets, "barrier", threading.Barrier(2))
        with concurrent.futures.ThreadPoolExecutor(4) as four:
            for _ in range(4):
                four.submit(target, *args)
    assert (progress.frames, progress.learners) == (4, 0)


def test_claims_are_expected_as_long_as_a_learner_has_not_ended():
    progress = a3c.Progress(1, 0)  # the learner may still claim: its frames were the last ones
    claim = threading.Timer(0.1, progress.claims.append, ["local_thread1"])
    claim.start()
    assert progress.wait_for_claim()
    claim.join()


@pytest.mark.parametrize("scores, mean, exam", [
    ([199] * 9 + [200], 199.1, 200), ([199] * 10, None, 200), ([200] * 10, 200, 199)])
def test_a_claim_takes_ten_trials_above_199_and_so_does_the_exam(scores, mean, exam):
    built, exams = Built(1, max_frames=10), []
    plays(built.learners[0], *scores)
    plays(built.tester, exam, before=lambda: exams.append(exam))
    finish(built)
    learned = mean is not None and exam > 199
    claim = ["claim", "exam"] * (mean is not None)
    assert built.happened() == [*["trial"] * 10, *claim, "learned" if learned else "gave_up"]
    if mean:
        built.log.claim.assert_called_with("local_thread1", pytest.approx(mean))
    assert len(exams) == 10 * (mean is not None) and built.progress.learned == learned


def test_who_fails_an_exam_goes_on_and_needs_ten_new_trials():
    built = Built(1, max_frames=35)
    plays(built.learners[0], *[200] * 20, 190)  # at last too bad for a third claim
    plays(built.tester, 199)  # not above the bar
    finish(built)
    exams = [*["trial"] * 10, "claim", "exam"] * 2
    assert built.happened() == [*exams, *["trial"] * 15, "gave_up"]


def test_the_weights_that_pass_are_what_stays():
    built, saved = Built(2), []
    trials = iter(range(1000))
    brain, weights = built.tester.environment.agent.brain, built.server.weights
    push = brain.push_parameter_server

    def fill(number):
        put(built.server.session, weights, [number] * 6)

    def push_when_alone():
        assert built.progress.learners == 0
        push()
    plays(built.learners[0], *[200] * 9, 191, before=lambda: fill(next(trials)))
    plays(built.learners[1], 20)
    plays(built.tester, 200, before=lambda: fill(77))  # what learners may write meanwhile
    brain.push_parameter_server = push_when_alone
    built.log.learned = lambda: saved.extend(built.values(weights))  # this saves the checkpoint
    finish(built)
    assert built.progress.learned and len(saved) == 6
    # What the server held at the claim, in the tenth trial
    assert {x for w in [*saved, *built.values(weights)] for x in w.ravel()} == {9}


@pytest.mark.parametrize("learners, exam, number", [(2, 200, 1), (3, 100, 3)])
def test_claims_at_once_are_examined_one_by_one(learners, exam, number):
    built = Built(learners, max_frames=10 * learners)  # just enough for one claim of each

    def all_claimed():
        if not built.log.exam.called:
            built.progress.wait_until(lambda: len(built.progress.claims) == learners)
    for worker in built.learners:
        plays(worker, 200)
    plays(built.tester, exam, before=all_claimed)
    finish(built)
    assert built.log.exam.call_count == number and built.progress.learned == (exam == 200)


@pytest.mark.parametrize("wait", [
    lambda progress: progress.claim("local_thread1"), lambda progress: progress.wait_for_claim(),
    lambda progress: progress.wait_until(lambda: not progress.learners)])
@pytest.mark.timeout(60)  # wrong, it waits for ever
def test_a_stop_wakes_whoever_waits(wait):
    progress = a3c.Progress(1, 10)
    stop = threading.Timer(0.1, progress.coordinator.request_stop)
    stop.start()
    with pytest.raises(a3c.Stopped):
        wait(progress)
    stop.join()
