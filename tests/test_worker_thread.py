"""Progress and Worker_thread: counts, the threshold, evaluations, stops."""
import collections
import concurrent.futures
import contextlib
import threading
import time
import types

import pytest
from helpers import Built, a3c, options, put, same


def finish(built):
    """Let all threads work until they have ended, and raise what failed, as main does."""
    threads = [threading.Thread(target=worker.run, name=worker.name, daemon=True)
               for worker in [*built.learners, built.tester]]
    for thread in threads:
        thread.start()
    late = threading.Timer(30, built.progress.coordinator.request_stop)
    late.start()
    for thread in threads:
        thread.join(timeout=60)
    late.cancel()
    late.join()
    built.progress.coordinator.raise_requested_exception()
    assert not built.progress.coordinator.should_stop(), "after 30 s not all threads have ended"
    assert not any(thread.is_alive() for thread in threads)


def plays(worker, *scores, before=None):
    """Let the worker's next episodes have these scores, the last for ever; each takes a frame."""
    rest = collections.deque(scores)

    def episode(env=None):
        if before:
            before()
        worker.progress.next_frame(worker.learning)
        return rest.popleft() if len(rest) > 1 else rest[0]
    worker.environment.run = episode


def test_only_the_steps_of_learners_are_counted():
    progress = a3c.Progress(1, 100)
    for learning in True, False, True:
        progress.next_frame(learning)
    assert progress.frames == 2


def test_learners_end_after_max_frames_which_earlier_runs_do_not_use_up():
    progress = a3c.Progress(1, 3)
    progress.resume(100, learned=False)
    for _ in range(3):
        progress.next_frame(learning=True)
    with pytest.raises(a3c.Stopped):
        progress.next_frame(learning=True)
    progress.next_frame(learning=False)  # the test thread may go on
    assert progress.frames == 103


def test_learners_end_when_the_task_is_learned():
    progress = a3c.Progress(1, 100)
    progress.learned = True
    with pytest.raises(a3c.Stopped):
        progress.next_frame(learning=True)
    progress.next_frame(learning=False)  # the test thread may go on


@pytest.mark.parametrize("learning", [True, False])
def test_all_threads_end_at_a_stop(learning):
    progress = a3c.Progress(1, 100)
    progress.coordinator.request_stop()
    with pytest.raises(a3c.Stopped):
        progress.next_frame(learning)


class Meets(int):
    """A counter that brings a missing lock to light. Before each + and >= a thread waits until a
    second thread is there, too. Without a lock both then work with the same number, and a count is
    lost. With a lock nobody comes: after a second the barrier breaks, and from then on nobody
    waits. (Plain numbers don't show a missing lock, because many Pythons hardly ever switch threads
    between reading and writing.)"""

    def __new__(cls, value, barrier=None):
        self = super().__new__(cls, value)
        self.barrier = barrier or threading.Barrier(2)
        return self

    def meet(self):
        with contextlib.suppress(threading.BrokenBarrierError):  # with a lock nobody comes
            self.barrier.wait(timeout=1)

    def __add__(self, other):
        self.meet()
        return Meets(int(self) + other, self.barrier)

    def __sub__(self, other):
        return self + -other

    def __ge__(self, other):
        self.meet()
        return int(self) >= other


def call_in_four_threads(function, *args):
    """Returns the exceptions, or None for a call without one."""
    with concurrent.futures.ThreadPoolExecutor(4) as four:
        return [call.exception() for call in [four.submit(function, *args) for _ in range(4)]]


def test_frames_are_counted_when_threads_meet():
    progress = a3c.Progress(4, 100)
    progress.frames = Meets(0)
    assert call_in_four_threads(progress.next_frame, True) == [None] * 4
    assert progress.frames == 4


def test_threads_that_meet_at_the_last_frame_do_not_all_play_it():
    progress = a3c.Progress(4, 100)
    progress.frames = Meets(99)
    stops = call_in_four_threads(progress.next_frame, True)
    assert progress.frames == 100 and stops.count(None) == 1


def test_learners_that_end_together_are_counted():
    progress = a3c.Progress(4, 100)
    progress.learners = Meets(4)
    assert call_in_four_threads(progress.learner_ended) == [None] * 4
    assert progress.learners == 0


def test_episodes_that_end_together_are_counted_in_the_log():
    log = a3c.Log(options(), a3c.Progress(4, 100))
    log.episodes = Meets(0)
    assert call_in_four_threads(log.episode, "local_thread1", 20) == [None] * 4
    assert log.episodes == 4


def test_saves_that_meet_wait_for_each_other(tmp_path):
    saving, together = [], []

    def save(*args, **kwargs):
        saving.append(threading.current_thread())
        time.sleep(0.1)
        together.append(len(saving))
        saving.remove(threading.current_thread())
    server = types.SimpleNamespace(session=None, progress=a3c.Progress(1, 100))
    checkpoint = a3c.Checkpoint(options("--checkpoint", tmp_path), server)
    checkpoint.saver = types.SimpleNamespace(save=save)
    assert call_in_four_threads(checkpoint.save) == [None] * 4
    assert together == [1] * 4


def test_a_score_that_comes_while_the_threshold_is_reached_does_not_count():
    class Progress(a3c.Progress):
        late = None

        def mean_score(self):
            """The mean, after which another thread's episode ends at once, if no lock waits."""
            mean = super().mean_score()
            if not self.late:
                self.late = threading.Thread(target=self.episode_ended, args=[0])
                self.late.start()
                self.late.join(timeout=1)
            return mean
    progress = Progress(2, 100)
    for _ in range(10):
        progress.episode_ended(200)
    progress.late.join()
    assert progress.evaluating and list(progress.scores) == [200] * 10


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


def test_the_log_is_told_who_has_played_and_the_score():
    built, both = Built(2, max_frames=2), threading.Barrier(2, timeout=60)
    for learner, score in zip(built.learners, (20, 30)):
        plays(learner, score, before=both.wait)  # so each of them plays one of the two frames
    finish(built)
    told = {call.args for call in built.log.episode.call_args_list}
    assert told == {("local_thread1", 20), ("local_thread2", 30)}


def test_the_evaluation_counts_the_mean_of_ten_episodes():
    built = Built(1)
    plays(built.learners[0], 200)
    plays(built.tester, *[200] * 5, *[190] * 5, 200)  # fails with 195, then passes
    finish(built)
    assert [call.args for call in built.log.evaluation.call_args_list] == [(195,), (200,)]


def test_the_mean_is_of_the_latest_ten_episodes():
    progress = a3c.Progress(8, 10 ** 6)
    for score in [100] + [200] * 9:
        progress.episode_ended(score)
    assert progress.mean_score() == 190 and not progress.evaluating
    progress.episode_ended(200)
    assert progress.mean_score() == 200 and progress.evaluating


def test_the_ten_episodes_may_be_of_different_learners():
    built, both = Built(2, max_frames=10), threading.Barrier(2, timeout=60)
    for learner in built.learners:
        plays(learner, 200, before=both.wait)  # five episodes each: too few for one alone
    plays(built.tester, 200)
    finish(built)
    assert built.progress.learned


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
