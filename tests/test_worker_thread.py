"""Progress and Worker_thread: counts, claims and exams in every order, failures, the graph."""
import collections
import contextlib
import threading

import pytest
from helpers import a3c, put, same, tf
from test_environment import EndsAt


def begin(workers):
    threads = [threading.Thread(target=w.run, name=w.name, daemon=True) for w in workers]
    for thread in threads:
        thread.start()
    return threads


def finish(built, threads=None):
    """Wait until all have ended, and raise what failed, as main does."""
    for thread in threads or begin([*built.learners, built.tester]):
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


@pytest.mark.parametrize("frames, epsilon", [
    (0, 0.5), (800, 0.25), (1599, 0.5 / 1600), (1600, 0), (10 ** 6, 0)])
def test_epsilon_falls_linearly_over_the_frames_of_all_threads(monkeypatch, frames, epsilon):
    progress = a3c.Progress(1, 10 ** 6)
    progress.resume(frames, learned=False)  # those of earlier runs count
    assert progress.epsilon() == pytest.approx(epsilon)
    monkeypatch.setattr(a3c, "EPS_START", 0.75)
    monkeypatch.setattr(a3c, "EPS_END", 0.25)
    monkeypatch.setattr(a3c, "EPS_STEPS", 3200)
    assert progress.epsilon() == pytest.approx(0.75 - 0.5 * min(frames / 3200, 1))


@pytest.mark.parametrize("frames, learned, stop, learner_ends, tester_ends", [
    (0, False, False, False, False), (2, False, False, False, False),
    (3, False, False, True, False), (4, False, False, True, False),
    (0, True, False, True, False), (0, False, True, True, True)])
def test_next_frame_counts_those_of_learners_and_ends_who_has_to_end(
        frames, learned, stop, learner_ends, tester_ends):
    progress = a3c.Progress(1, 3)
    progress.resume(100, learned)  # frames of earlier runs do not count for max_frames
    progress.frames += frames
    if stop:
        progress.coordinator.request_stop()
    for learning, ends in ((False, tester_ends), (True, learner_ends)):
        if ends:
            with pytest.raises(a3c.Stopped):
                progress.next_frame(learning)
        else:
            progress.next_frame(learning)
        assert progress.frames == 100 + frames + (learning and not ends)


class Meets(int):
    """A number whose sums wait a while for a second thread to come into the same sum: without a
    lock, some Pythons switch threads in the middle of `+= 1`, and others never do."""
    barrier = None

    def __add__(self, other):
        try:
            self.barrier.wait(timeout=1)
        except threading.BrokenBarrierError:
            pass  # nobody came: a lock kept them out
        return type(self)(int(self) + other)

    def __sub__(self, other):
        return self + -other


def test_threads_that_meet_while_counting_lose_nothing(monkeypatch):
    progress, counted = a3c.Progress(4, 3), []
    progress.frames, progress.learners = Meets(0), Meets(4)

    def count():
        with contextlib.suppress(a3c.Stopped):
            progress.next_frame(learning=True)
            counted.append(1)
    for target in (count, progress.learner_ends):
        monkeypatch.setattr(Meets, "barrier", threading.Barrier(2))
        threads = [threading.Thread(target=target, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
    assert progress.frames == len(counted) == 3 and progress.learners == 0


@pytest.mark.timeout(60)  # wrong, it waits for ever
def test_wait_until_returns_when_the_condition_holds_or_raises_stopped():
    progress, answers = a3c.Progress(1, 1), [False, False, True]
    progress.wait_until(lambda: answers.pop(0))
    assert answers == []
    progress.coordinator.request_stop()
    with pytest.raises(a3c.Stopped):
        progress.wait_until(lambda: False)


def test_claims_are_expected_until_the_last_learner_has_ended():
    progress, goes_on = a3c.Progress(1, 10), []
    progress.frames = 10  # the learner may still claim: its last trial ends with the last frame

    def wait_until(condition):
        for progress.learners, progress.claims in ((1, []), (1, ["local_thread1"]), (0, [])):
            goes_on.append(bool(condition()))
    progress.wait_until = wait_until
    assert not progress.wait_for_claim()
    assert goes_on == [False, True, True]


def test_eight_learners_count_frames_and_trials_exactly(build):
    built, steps, ends = build(8, max_frames=4000), collections.Counter(), []
    everybody = threading.Barrier(8)
    for worker in built.learners:
        def counted(action, name=worker.name, step=worker.environment.env.step):
            if not steps[name]:
                everybody.wait(timeout=60)
            steps[name] += 1
            return step(action)
        worker.environment.env.step = counted
    built.log.gave_up = lambda: ends.append(built.progress.learners)
    finish(built)
    assert ends == [0]  # the test thread is the last
    assert built.progress.frames == 4000 == sum(steps.values()) and built.progress.learners == 0
    assert set(steps) == {f"local_thread{i}" for i in range(1, 9)}
    played = collections.Counter()
    for name, scores in built.log.of("trial"):
        played[name] += scores[-1]
    assert all(0 <= steps[name] - played[name] <= 200 for name in steps)  # the last is not finished


@pytest.mark.parametrize("bar, claim_trials, exam_trials, scores, mean, exam", [
    (199, 10, 10, [199] * 9 + [200], 199.1, 200), (199, 10, 10, [199] * 10, None, 200),
    (199, 10, 10, [200] * 10, 200, 199), (199, 3, 2, [197, 199, 201, 201], 601 / 3, 200),
    (-150, 10, 4, [-100] * 10, -100, -100), (-150, 4, 10, [-140] * 3 + [-100], -130, -160)])
def test_a_claim_takes_a_full_count_of_trials_and_is_examined(
        build, monkeypatch, bar, claim_trials, exam_trials, scores, mean, exam):
    if (bar, claim_trials) != (199, 10):  # else it is what the script says itself
        monkeypatch.setattr(a3c, "LEARNED_MEAN", bar)
        monkeypatch.setattr(a3c, "CLAIM_TRIALS", claim_trials)
        monkeypatch.setattr(a3c, "EXAM_TRIALS", exam_trials)
    built, exams = build(1, max_frames=len(scores)), []
    plays(built.learners[0], *scores)
    plays(built.tester, exam, before=lambda: exams.append(exam))
    finish(built)
    trials = [("trial", "local_thread1", scores[max(0, i - claim_trials):i])
              for i in range(1, len(scores) + 1)]
    claim = ("claim", "local_thread1", pytest.approx(mean)), ("exam", "test_thread", exam)
    learned = mean is not None and exam > bar
    assert built.log.events == [*trials, *(claim if mean else ()),
                                ("learned",) if learned else ("gave_up",)]
    assert len(exams) == exam_trials * (mean is not None) and built.progress.learned == learned


def test_who_fails_an_exam_goes_on_and_needs_ten_new_trials(build):
    built = build(1, max_frames=35)
    plays(built.learners[0], *[200] * 20, 190)  # at last too bad for a third claim
    plays(built.tester, 199)  # not above the bar
    finish(built)
    happened = [what for what, *_ in built.log.events]
    assert happened == [*["trial"] * 10, "claim", "exam"] * 2 + ["trial"] * 15 + ["gave_up"]
    assert not built.progress.learned and built.progress.claims == []


def test_the_weights_that_pass_are_what_stays(build):
    built, examined, saved = build(2), [], []
    trials = iter(range(1000))
    brain, weights = built.tester.environment.agent.brain, built.server.weights
    push = brain.push_parameter_server

    def fill(number):
        put(built.server.session, weights, [number] * 6)

    def examine():
        examined.extend(built.values(brain.weights))
        fill(77)  # what learners may write meanwhile

    def push_when_alone():
        assert built.progress.learners == 0
        push()
    plays(built.learners[0], *[200] * 9, 191, before=lambda: fill(next(trials)))
    plays(built.learners[1], 20)
    plays(built.tester, 200, before=examine)
    brain.push_parameter_server = push_when_alone
    built.log.learned = lambda: saved.extend(built.values(weights))  # this saves the checkpoint
    finish(built)
    assert built.progress.learned and len(examined) == 10 * 6 and len(saved) == 6
    # What the server held at the claim, in the tenth trial
    assert {x for w in [*examined, *saved, *built.values(weights)] for x in w.ravel()} == {9}


def test_what_is_learned_from_the_start_is_only_shown(build):
    closed = []

    def show(environment):
        assert environment is built.tester.environment
        for falls in (17, 42, 200):
            yield EndsAt(falls)
            closed.append(falls)
    built = build(1)
    built.log.show_trials = show
    built.progress.resume(1000, learned=True)
    finish(built)
    assert built.log.events == [("test_trial", 1, 17), ("test_trial", 2, 42),
                                ("test_trial", 3, 200)]
    assert closed == [17, 42, 200] and built.progress.frames == 1000
    brain = built.tester.environment.agent.brain
    assert same(*built.values([built.server.weights, brain.weights]))


@pytest.mark.parametrize("learners, exams, number, passed", [
    (2, [200], 1, True), (2, [100] * 10 + [200], 2, True), (3, [100], 3, False)])
def test_claims_at_once_are_examined_one_by_one(build, learners, exams, number, passed):
    # Three have just the frames for ten trials each.
    built = build(learners, max_frames=30 if learners == 3 else 10 ** 6)
    everybody, met, wait_until = threading.Barrier(learners + 1), set(), built.progress.wait_until

    def meet():
        name = threading.current_thread().name
        if name not in met:  # who failed may claim again meanwhile
            met.add(name)
            everybody.wait(timeout=60)

    def wait(condition):
        if threading.current_thread().name != "test_thread":
            meet()
        wait_until(condition)
    built.progress.wait_until = wait
    for worker in built.learners:
        plays(worker, 200)
    plays(built.tester, *exams, before=meet)
    finish(built)
    assert len(met) == learners + 1 and len(built.log.of("exam")) == number
    assert built.progress.learned == passed and (passed or built.progress.claims == [])


@pytest.mark.parametrize("failing", ["a learner", "a learner during an exam", "an exam", "a film"])
def test_what_fails_in_a_thread_ends_all_and_is_reported(build, failing):
    error, exam = ValueError("on purpose"), threading.Event()

    def fail(*args):
        if failing == "a learner during an exam":
            assert exam.wait(timeout=60)
        raise error

    def examine():
        exam.set()
        if failing == "a learner during an exam":
            assert built.progress.coordinator.wait_for_stop(60)
    built = build(3)
    built.log.show_trials = fail
    before = built.values(built.server.weights)
    plays(built.learners[0], 200)
    plays(built.learners[1], 10)
    plays(built.learners[2], 10, before=fail if "learner" in failing else None)
    plays(built.tester, 200, before=fail if failing == "an exam" else examine)
    name = "local_thread3" if "learner" in failing else "test_thread"
    if failing == "a learner":
        plays(built.learners[0], 10)
    with pytest.raises(RuntimeError, match=f"{name} failed: .*on purpose") as caught:
        finish(built)
    assert caught.value.__cause__ is error
    assert built.progress.learners == 0 and built.progress.learned == (failing == "a film")
    assert failing == "a film" or same(before, built.values(built.server.weights))


@pytest.mark.parametrize("waiting", ["claimant", "for a claim", "for the end of learners"])
def test_a_stop_wakes_whoever_waits(build, waiting):
    built, arrived = build(1), threading.Event()
    wait_until = built.progress.wait_until

    def wait(condition):
        arrived.set()
        wait_until(condition)
    built.progress.wait_until = wait
    plays(built.learners[0], 200)
    plays(built.tester, 200)
    if waiting == "for the end of learners":
        built.progress.claims.append("local_thread1")
    threads = begin(built.learners if waiting == "claimant" else [built.tester])
    assert arrived.wait(timeout=60)
    built.progress.coordinator.request_stop()
    finish(built, threads)
    assert built.log.of("learned") == []


def test_the_graph_is_legible(build):
    graph = build(2).server.session.graph
    assert graph.finalized
    operations = graph.get_operations()
    assert {operation.device for operation in operations} <= {"/device:CPU:0", ""}
    names = [operation.name for operation in operations]
    threads = {"local_thread1", "local_thread2"}
    assert {name.split("/")[0] for name in names} == {*threads, "parameter_server", "test_thread",
                                                      "init"}
    for part in ("loss", "gradient", "update", "pull", "push"):
        for thread in threads:
            assert any(name.startswith(f"{thread}/{part}/") for name in names), (thread, part)
    assert graph.get_tensor_by_name("local_thread1/a:0").dtype == tf.int32
    # Averages and momenta of six weights, not of each thread
    variables = [operation.name for operation in operations if operation.type == "VarHandleOp"]
    assert sum("RMSProp" in name for name in variables) == 12
    # ResourceApplyRMSProp locks its arrays; that of TensorFlow 1's variables loses steps.
    types = {operation.type for operation in operations if "RMSProp" in operation.type}
    assert types == {"ResourceApplyRMSProp"}
