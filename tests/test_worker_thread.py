"""Progress and Worker_thread: counts, the threshold, evaluations, stops."""
import collections
import concurrent.futures
import contextlib
import threading
import time
import types

import pytest
from helpers import Built, a3c, options, put, same


def new_progress(learners=1, max_frames=1_000_000):
    """A progress whose learners haven't ended."""
    progress = a3c.Progress(options("--workers", learners, "--max-frames", max_frames))
    progress.learners |= {f"local_thread{i + 1}" for i in range(learners)}
    return progress


def finish(built):
    """Let all threads work until they have ended, and raise what failed, as main does."""
    threads = [threading.Thread(target=worker.run, name=worker.name, daemon=True)
               for worker in [*built.learners, built.tester]]
    for thread in threads:
        thread.start()
    late = threading.Event()
    timer = threading.Timer(30, lambda: (late.set(), built.progress.stop()))
    timer.start()
    for thread in threads:
        thread.join(timeout=60)
    timer.cancel()
    timer.join()
    assert not late.is_set(), "after 30 s not all threads have ended"
    assert not any(thread.is_alive() for thread in threads)
    built.progress.coordinator.raise_requested_exception()


def plays(worker, *scores, before=None):
    """Let the worker's next episodes have these scores, the last for ever; each takes a frame."""
    rest = collections.deque(scores)

    def episode(learning):
        if before:
            before()
        worker.progress.next_frame(learning)
        return rest.popleft() if len(rest) > 1 else rest[0]
    worker.environment.run = episode


@pytest.fixture
def said(monkeypatch):
    """The lines that are said, in order."""
    lines = []
    monkeypatch.setattr(a3c, "say", lines.append)
    return lines


@pytest.fixture
def points(monkeypatch):
    """What is added to the curves, in order: {name: number}."""
    points = []
    monkeypatch.setattr(a3c, "add_to_curves", lambda server, numbers: points.append(numbers))
    return points


def first_words(lines):
    return [line.split()[0].rstrip(":") for line in lines]


def test_only_the_steps_of_learners_are_counted():
    progress = new_progress()
    assert [progress.next_frame(learning) for learning in (True, False, True)] == [0, 1, 1]
    assert progress.frames == 2


def test_learners_end_after_max_frames():
    progress = new_progress(max_frames=3)
    for _ in range(3):
        progress.next_frame(learning=True)
    with pytest.raises(a3c.Stopped):
        progress.next_frame(learning=True)
    progress.next_frame(learning=False)  # the test thread may go on
    assert progress.frames == 3


def test_learners_end_when_the_task_is_learned():
    progress = new_progress()
    progress.phase = "learned"
    with pytest.raises(a3c.Stopped):
        progress.next_frame(learning=True)
    progress.next_frame(learning=False)  # the test thread may go on


@pytest.mark.parametrize("learning", [True, False])
def test_all_threads_end_at_a_stop(learning):
    progress = new_progress()
    progress.stop()
    with pytest.raises(a3c.Stopped):
        progress.next_frame(learning)
    assert progress.frames == 0


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

    def __ge__(self, other):
        self.meet()
        return int(self) >= other


def call_in_four_threads(function, *args):
    """Returns what the calls return or, where one raises an exception, that."""
    with concurrent.futures.ThreadPoolExecutor(4) as four:
        calls = [four.submit(function, *args) for _ in range(4)]
        return [call.exception() or call.result() for call in calls]


def test_frames_are_counted_when_threads_meet():
    progress = new_progress(4)
    progress.frames = Meets(0)
    assert sorted(call_in_four_threads(progress.next_frame, True)) == [0, 1, 2, 3]
    assert progress.frames == 4


def test_threads_that_meet_at_the_last_frame_do_not_all_play_it():
    progress = new_progress(4, max_frames=100)
    progress.frames = Meets(99)
    played = call_in_four_threads(progress.next_frame, True)
    assert progress.frames == 100 and played.count(99) == 1
    assert [type(stop) for stop in played if stop != 99] == [a3c.Stopped] * 3


def test_episodes_that_end_together_are_counted():
    progress = new_progress(4)
    progress.episodes = Meets(0)
    assert sorted(call_in_four_threads(progress.episode_ended, 20)) == [
        (1, 20), (2, 20), (3, 20), (4, 20)]
    assert progress.episodes == 4


def test_saves_that_meet_wait_for_each_other(tmp_path):
    saving, together = [], []

    def save(*args, **kwargs):
        saving.append(threading.current_thread())
        time.sleep(0.1)
        together.append(len(saving))
        saving.remove(threading.current_thread())
    server = Built(1).server
    server.options.checkpoint, server.saver = str(tmp_path), types.SimpleNamespace(save=save)
    assert call_in_four_threads(server.save) == [None] * 4
    assert together == [1] * 4


def test_a_score_that_comes_while_the_threshold_is_reached_does_not_count():
    class Recent(collections.deque):
        late = None

        def __iter__(self):
            """Before the mean is computed, another thread's episode ends, if no lock waits."""
            if not self.late:
                self.late = threading.Thread(target=progress.episode_ended, args=[0])
                self.late.start()
                self.late.join(timeout=1)
            return super().__iter__()
    progress = new_progress(2)
    progress.recent = Recent(maxlen=10)
    for _ in range(10):
        progress.episode_ended(200)
    progress.recent.late.join()
    assert progress.phase == "evaluating" and list(progress.recent) == [200] * 10


def test_an_episode_returns_the_mean_of_the_latest_fifty():
    progress = new_progress()
    returned = [progress.episode_ended(score) for score in range(1, 101)]
    assert returned[1] == (2, 1.5) and returned[49:51] == [(50, 25.5), (51, 26.5)]
    assert returned[-1] == (100, 75.5)


@pytest.mark.parametrize("scores, evaluation, happens", [
    ([199] * 9 + [200], 200, ["Threshold", "Evaluation", "Learned"]),
    ([200] * 10, 199, ["Threshold", "Evaluation", "Not"]),
    ([199] * 10, 200, ["Not"]),
    ([200] * 9, 200, ["Not"])])
def test_ten_episodes_above_199_lead_to_an_evaluation_that_must_be_above_it_too(
        said, scores, evaluation, happens):
    built, played = Built(1, max_frames=len(scores)), []
    plays(built.learners[0], *scores)
    plays(built.tester, evaluation, before=lambda: played.append(evaluation))
    finish(built)
    assert first_words(said) == happens and built.progress.episodes == len(scores)
    assert len(played) == 10 * ("Evaluation" in happens)
    assert (built.progress.phase == "learned") == ("Learned" in happens)


def test_the_curves_say_who_has_played_the_score_and_the_mean(points):
    built, both = Built(2, max_frames=2), threading.Barrier(2, timeout=60)
    for learner, score in zip(built.learners, (20, 30)):
        plays(learner, score, before=both.wait)  # so each of them plays one of the two frames
    finish(built)
    means = [point.pop("mean") for point in points]
    assert {name: score for point in points for name, score in point.items()} == {
        "score/local_thread1": 20, "score/local_thread2": 30}
    assert len(means) == 2 and 25 in means and set(means) <= {20, 25, 30}


def test_the_evaluation_counts_the_mean_of_ten_episodes(said, points):
    built = Built(1)
    plays(built.learners[0], 200)
    plays(built.tester, *[200] * 5, *[190] * 5, 200)  # fails with 195, then passes
    finish(built)
    assert [line for line in said if line.startswith("Evaluation")] == [
        "Evaluation: mean 195.0 of 10 episodes", "Evaluation: mean 200.0 of 10 episodes"]
    assert [point for point in points if "evaluation" in point] == [
        {"evaluation": 195, "threshold": 199}, {"evaluation": 200, "threshold": 199}]


def test_the_threshold_is_of_the_latest_ten_episodes():
    progress = new_progress(8)
    for score in [100] + [200] * 9:
        progress.episode_ended(score)
    assert progress.phase == "training"
    progress.episode_ended(200)
    assert progress.phase == "evaluating"


def test_the_ten_episodes_may_be_of_different_learners(said):
    built, both = Built(2, max_frames=10), threading.Barrier(2, timeout=60)
    for learner in built.learners:
        plays(learner, 200, before=both.wait)  # five episodes each: too few for one alone
    plays(built.tester, 200)
    finish(built)
    assert first_words(said) == ["Threshold", "Evaluation", "Learned"]


def test_after_a_failed_evaluation_ten_new_episodes_have_to_reach_the_threshold(said):
    built = Built(1, max_frames=35)
    plays(built.learners[0], *[200] * 20, 190)  # at last not good enough for a third evaluation
    episodes = []
    plays(built.tester, 199, before=lambda: episodes.append(built.progress.episodes))
    finish(built)
    assert first_words(said) == ["Threshold", "Evaluation"] * 2 + ["Not"]
    assert episodes == [10] * 10 + [20] * 10 and built.progress.episodes == 35


def test_learners_wait_while_the_policy_is_evaluated():
    built, frames = Built(2), []
    for learner in built.learners:
        plays(learner, 200)
    plays(built.tester, 200, before=lambda: (time.sleep(0.02), frames.append(
        built.progress.frames)))
    finish(built)
    assert len(frames) == 10 and len(set(frames)) == 1


def test_a_score_that_comes_during_the_evaluation_does_not_count():
    progress = new_progress(2)
    for _ in range(10):
        progress.episode_ended(200)
    progress.episode_ended(0)
    assert list(progress.recent) == [200] * 10 and progress.episodes == 11
    progress.evaluated(passed=False)
    assert not progress.recent and progress.phase == "training"


def test_the_last_frame_may_still_reach_the_threshold(said):
    built = Built(2, max_frames=10)
    for learner in built.learners:
        plays(learner, 200)
    plays(built.tester, 200)
    finish(built)
    assert first_words(said) == ["Threshold", "Evaluation", "Learned"]
    assert built.progress.frames == 10


def test_the_threshold_is_awaited_as_long_as_a_learner_has_not_ended(said):
    built = Built(1, max_frames=1)

    def learn():
        built.progress.next_frame(learning=True)  # the last, but its episode may still count
        time.sleep(0.3)
        for _ in range(10):
            built.progress.episode_ended(200)
    built.learners[0].learn = learn
    plays(built.tester, 200)
    finish(built)
    assert first_words(said) == ["Threshold", "Evaluation", "Learned"]


def test_when_the_last_learner_ends_during_an_evaluation_that_fails_it_is_not_learned(said):
    built = Built(1)

    def learn():
        for _ in range(10):
            built.progress.episode_ended(200)

    def wait_for_learner():
        while built.progress.learners:
            time.sleep(0.01)
    built.learners[0].learn = learn
    plays(built.tester, 199, before=wait_for_learner)
    finish(built)
    assert first_words(said) == ["Threshold", "Evaluation", "Not"]


@pytest.mark.parametrize("method, lines", [
    ("learn", ["Seed 7, 3 learning threads", "Not learned after 0 frames"]),
    ("test", ["Seed 7, 3 learning threads"])])
@pytest.mark.timeout(60)  # wrong, it waits for ever
def test_a_thread_whose_work_is_done_early_does_not_keep_the_run_from_ending(
        monkeypatch, capsys, method, lines):
    monkeypatch.setattr(a3c.Worker_thread, method, lambda self: None)
    assert a3c.main(["--render", "none", "--workers", "3", "--seed", "7"]) == 1
    assert capsys.readouterr().out.splitlines() == lines


def test_the_weights_that_pass_are_what_stays(said):
    built, saved = Built(2), []
    brain, weights = built.tester.environment.agent.brain, built.server.weights
    evaluated = []

    def note_and_spoil():  # what a learner in the middle of an update may write meanwhile
        evaluated.append(built.values(brain.weights))
        put(built.server.session, weights, [77] * 6)

    def push_when_alone(push=brain.push_parameter_server):
        assert not built.progress.learners
        push()


    def end_late(learning):
        try:
            return play(learning)
        except a3c.Stopped:
            time.sleep(0.2)
            raise
    for learner in built.learners:
        plays(learner, 200)
    plays(built.tester, 200, before=note_and_spoil)
    play, built.learners[0].environment.run = built.learners[0].environment.run, end_late
    brain.push_parameter_server = push_when_alone
    built.server.save = lambda: saved.extend(built.values(weights))
    first = built.values(weights)
    finish(built)
    assert first_words(said) == ["Threshold", "Evaluation", "Learned"] and len(evaluated) == 10
    assert all(same(w, first) for w in evaluated)  # one fixed policy plays all ten episodes
    assert same(saved, first) and same(built.values(weights), first)


@pytest.mark.parametrize("wait", [
    lambda progress: progress.next_frame(learning=True),
    lambda progress: progress.wait_until(lambda: progress.phase == "training")])
@pytest.mark.timeout(60)  # wrong, it waits for ever
def test_a_stop_wakes_whoever_waits(wait):
    progress = new_progress()
    progress.phase = "evaluating"
    stop = threading.Timer(0.1, progress.stop)
    stop.start()
    with pytest.raises(a3c.Stopped):
        wait(progress)
    stop.join()


@pytest.mark.timeout(60)
def test_a_thread_that_fails_wakes_whoever_waits():
    built = Built(2)

    def fail(learning):
        time.sleep(0.1)  # meanwhile the others begin to wait
        raise ValueError("on purpose")
    built.learners[0].environment.run = fail
    built.learners[1].environment.run = lambda learning: built.progress.wait_until(lambda: False)
    with pytest.raises(RuntimeError, match="^local_thread1 failed: .*on purpose"):
        finish(built)


def test_a_stop_that_ends_all_learners_is_no_end_of_learning(said):
    built = Built(1)
    built.progress.coordinator.request_stop()  # a Ctrl-C, say
    finish(built)
    assert said == [] and not built.progress.learners
