"""Worker_thread: learners alive, exact counts, claim and exam in every order, failures, the graph of all threads."""
import collections
import contextlib
import threading
import time

import numpy as np
import pytest
from conftest import a3c, tf
from test_environment import EndsAt
from test_local_brain import put, same


def start(workers):
    threads = [threading.Thread(target=worker.run, name=worker.name, daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    return threads


def join(threads):
    deadline = time.monotonic() + 30
    for thread in threads:
        thread.join(timeout=max(0, deadline - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads)


def plays(worker, monkeypatch, *steps, before=lambda: None):
    """Let the worker's next trials have these numbers of steps, the last one for ever; learners still count frames."""
    rest = collections.deque(steps)

    def trial(env=None):
        before()
        worker.server.next_frame(worker.learning)
        return rest.popleft() if len(rest) > 1 else rest[0]
    monkeypatch.setattr(worker.environment, "run", trial)


def test_eight_learners_live_and_frames_and_trials_are_counted_exactly(build, monkeypatch):
    built = build(8, max_frames=4000)
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 1000)
    steps, everybody = collections.Counter(), threading.Barrier(8)
    for worker in built.learners:
        step = worker.environment.env.step

        def counted(action, name=worker.name, step=step):
            if not steps[name]:
                everybody.wait(timeout=30)
            steps[name] += 1
            return step(action)
        monkeypatch.setattr(worker.environment.env, "step", counted)
    join(start([*built.learners, built.tester]))
    assert built.server.failure is None and not built.server.learned and built.server.learners == 0
    assert built.server.frames == 4000 == sum(steps.values())
    assert set(steps) == {f"local_thread{i}" for i in range(1, 9)}
    trials = collections.Counter(line.split(",")[0] for line in built.lines)
    assert set(trials) <= set(steps)  # the system may let one run too little for a whole trial
    for name, number in trials.items():  # each thread numbers its own trials, without a gap
        assert [line.split()[2] for line in built.lines if line.startswith(name + ",")] == \
            [f"{i}:" for i in range(1, number + 1)]
    assert 4000 - 8 * 200 <= sum(built.trials) <= 4000


def test_each_trial_is_reported_with_its_steps_and_the_mean_of_the_last_ten(build, monkeypatch):
    built, reports = build(1, max_frames=14), []
    report = built.server.report
    built.server.report = lambda *args: (reports.append(args), report(*args))
    steps = [20, 30, 10, 200, 9, 47, 100, 55, 60, 70, 80, 190, 21, 33]
    plays(built.learners[0], monkeypatch, *steps)
    join(start(built.learners))
    windows = [[0] * (10 - i) + steps[:i] if i < 10 else steps[i - 10:i] for i in range(1, 15)]
    assert reports == [(f"local_thread1, trial {i}: {window[-1]} steps, mean of last ten {np.mean(window):.1f}",
                        window[-1], pytest.approx(np.mean(window))) for i, window in enumerate(windows, 1)]


def test_an_exam_that_is_passed_ends_learning_and_its_weights_go_to_the_server(build, monkeypatch):
    built = build(2, test_trials=2)
    one, two = built.learners
    trials, examined, saved = iter(range(100)), [], []
    brain = built.tester.environment.agent.brain

    def examine():
        examined.append(built.values(brain.weights))
        if len(examined) <= 10:  # what learners may write meanwhile
            put(built.server.session, built.server.weights, [77] * 6)
    plays(one, monkeypatch, *[200] * 9, 191, before=lambda: put(built.server.session, built.server.weights,
                                                                [next(trials)] * 6))
    plays(two, monkeypatch, 20)
    plays(built.tester, monkeypatch, 200, before=examine)
    push = brain.push_parameter_server

    def push_when_alone():
        assert built.server.learners == 0
        push()
    monkeypatch.setattr(brain, "push_parameter_server", push_when_alone)
    report = built.server.report

    def noted(line, *args, **kwargs):
        if line == "Learned":  # this saves the checkpoint
            saved.append(built.values(built.server.weights))
        report(line, *args, **kwargs)
    monkeypatch.setattr(built.server, "report", noted)
    join(start([one, two, built.tester]))
    assert built.server.failure is None and built.server.learned
    lines = [line for line in built.lines if ", trial " not in line]
    assert lines == ["local_thread1 claims: mean 199.1 steps over its last 10 trials",
                     "test_thread examines: mean 200.0 steps over 10 trials", "Learned",
                     "Test trial 1: 200 steps", "Test trial 2: 200 steps", "Test: mean 200.0 steps over 2 trials"]
    assert (len(examined), len(saved)) == (12, 1)
    for weights in [*examined, *saved, built.values(built.server.weights)]:
        assert {x for w in weights for x in w.ravel()} == {9}  # what the server held at the claim, in the tenth trial


def test_what_is_learned_from_the_start_is_only_shown(build):
    falls, closed = iter([17, 42, 200]), []

    @contextlib.contextmanager
    def show():
        yield EndsAt(next(falls))
        closed.append(1)
    built = build(1, show=show)
    built.server.learned = True
    join(start([*built.learners, built.tester]))
    assert built.lines == ["Test trial 1: 17 steps", "Test trial 2: 42 steps", "Test trial 3: 200 steps",
                           "Test: mean 86.3 steps over 3 trials"]
    assert len(closed) == 3 and built.server.frames == 0
    assert same(built.values(built.server.weights), built.values(built.tester.environment.agent.brain.weights))


def test_an_exam_that_is_failed_lets_everybody_go_on_and_the_claimant_start_a_new_ten(build, monkeypatch):
    built = build(1, max_frames=35)
    plays(built.learners[0], monkeypatch, *[200] * 20, 190)  # at last too bad for a third claim
    plays(built.tester, monkeypatch, 199)  # not above the bar
    join(start([*built.learners, built.tester]))
    assert built.server.failure is None and not built.server.learned and built.server.frames == 35
    events = [line.split()[1].rstrip(":,") for line in built.lines]
    assert events == ([*["trial"] * 10, "claims", "examines"] * 2) + ["trial"] * 15
    assert built.server.claims == []


@pytest.mark.parametrize("bar, claims", [([199] * 10, 0), ([199] * 9 + [200], 1)])
def test_a_claim_needs_ten_trials_that_average_more_than_199_be_they_the_last(build, monkeypatch, bar, claims):
    built = build(1, max_frames=10)
    plays(built.learners[0], monkeypatch, *bar)
    plays(built.tester, monkeypatch, 200)
    join(start([*built.learners, built.tester]))
    assert sum("claims" in line for line in built.lines) == sum("examines" in line for line in built.lines) == claims
    assert built.server.learned == bool(claims)


def test_claims_at_once_and_during_an_exam_and_at_the_end_of_the_budget_are_all_examined(build, monkeypatch):
    built = build(3, max_frames=30)  # each learner has just the frames for ten trials
    everybody_claims = threading.Barrier(4)
    for worker in built.learners:
        plays(worker, monkeypatch, 200)
    claim = built.server.wait_until

    def wait_until(condition):
        name = threading.current_thread().name
        if name != "test_thread":
            everybody_claims.wait(timeout=30)
        claim(condition)
    monkeypatch.setattr(built.server, "wait_until", wait_until)
    first = []
    plays(built.tester, monkeypatch, 100, before=lambda: first or (first.append(1), everybody_claims.wait(timeout=30)))
    # Each learner gets ten frames and no more, so that all three claim.
    for worker in built.learners:
        frames = iter(range(10))
        run = worker.environment.run
        monkeypatch.setattr(worker.environment, "run", lambda env=None, frames=frames, run=run:
                            run() if next(frames, None) is not None else stop())

    def stop():
        raise a3c.Stopped
    join(start([*built.learners, built.tester]))
    assert built.server.failure is None and not built.server.learned
    assert sum("claims" in line for line in built.lines) == 3 == sum("examines" in line for line in built.lines)
    assert built.server.claims == []


def test_the_test_thread_expects_claims_until_the_last_learner_has_ended(build, monkeypatch):
    built, goes_on = build(1, max_frames=10), []
    server = built.server
    server.frames = 10  # the learner may still claim: its last trial ends with the last frame

    def wait_until(condition):
        for server.learners, server.claims in (1, []), (1, ["local_thread1"]), (0, []):
            goes_on.append(bool(condition()))
        raise a3c.Stopped
    monkeypatch.setattr(server, "wait_until", wait_until)
    built.tester.run()
    assert goes_on == [False, True, True]


@pytest.mark.parametrize("exams", [[200], [100] * 10 + [200]], ids=["first", "second"])
def test_of_two_claims_at_once_one_that_passes_is_enough_and_neither_hangs(build, monkeypatch, exams):
    built = build(2)
    both, claimed = threading.Barrier(3), []
    for worker in built.learners:
        plays(worker, monkeypatch, 200)
    wait_until = built.server.wait_until

    def wait(condition):
        name = threading.current_thread().name
        if name.startswith("local") and name not in claimed:  # who failed may claim again meanwhile
            claimed.append(name)
            both.wait(timeout=30)
        wait_until(condition)
    monkeypatch.setattr(built.server, "wait_until", wait)
    first = []
    plays(built.tester, monkeypatch, *exams, before=lambda: first or (first.append(1), both.wait(timeout=30)))
    join(start([*built.learners, built.tester]))
    assert built.server.learned and built.server.failure is None
    assert sum("examines" in line for line in built.lines) == (1 if exams[0] == 200 else 2)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("victim", ["local_thread1", "local_thread3", "test_thread"])
def test_an_exception_in_a_thread_stops_all(build, monkeypatch, victim):
    built = build(3)
    workers = [*built.learners, built.tester]
    for worker in workers:
        plays(worker, monkeypatch, 200, 10 if worker.learning else 100)

    def fail():
        raise RuntimeError("on purpose")
    plays(next(worker for worker in workers if worker.name == victim), monkeypatch, 10, before=fail)
    if victim == "test_thread":
        plays(built.learners[0], monkeypatch, 200)
    join(start(workers))
    assert str(built.server.failure) == "on purpose" and built.server.stopped and not built.server.learned


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_of_two_exceptions_the_first_is_kept(build, monkeypatch):
    built = build(2)
    errors = [RuntimeError("first"), RuntimeError("second")]
    for learner, error in zip(built.learners, errors):
        def fail(error=error):
            raise error
        plays(learner, monkeypatch, 10, before=fail)
        join(start([learner]))
    assert built.server.failure is errors[0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_failure_during_an_exam_ends_the_exam_and_the_claimant_and_nothing_is_learned(build, monkeypatch):
    built = build(2)
    claimant, failing = built.learners
    before, exam = built.values(built.server.weights), threading.Event()

    def fail():
        assert exam.wait(timeout=30)
        raise RuntimeError("on purpose")
    plays(claimant, monkeypatch, 200)
    plays(failing, monkeypatch, 20, before=fail)
    failing_thread, = start([failing])
    plays(built.tester, monkeypatch, 200, before=lambda: (exam.set(), failing_thread.join(timeout=30)))
    join([failing_thread, *start([claimant, built.tester])])
    assert str(built.server.failure) == "on purpose" and built.server.stopped and built.server.learners == 0
    assert not built.server.learned and built.lines[-1].startswith("local_thread1 claims")
    assert same(before, built.values(built.server.weights))


def test_stop_wakes_a_claimant_and_the_test_thread(build, monkeypatch):
    built = build(1)
    plays(built.learners[0], monkeypatch, 200)
    waiting = threading.Event()
    wait_until = built.server.wait_until
    monkeypatch.setattr(built.server, "wait_until", lambda condition: (waiting.set(), wait_until(condition)))
    learner, = start(built.learners)  # its claim finds no test thread
    assert waiting.wait(timeout=30)
    built.server.stopped = True
    join([learner])
    built.server.claims.clear()
    built.server.learners = 1  # else the test thread would not wait
    waiting.clear()
    join(start([built.tester]))
    assert waiting.is_set()
    assert built.server.failure is None and not built.server.learned


@pytest.mark.parametrize("thread_type, learning", [("learning", True), ("test", False)])
def test_the_type_of_a_thread_is_compared_by_its_letters(thread_type, learning):
    with tf.Graph().as_default():
        worker = a3c.Worker_thread("name", "".join(thread_type), a3c.ParameterServer(0), 0)  # another object
        worker.server.session.close()
    assert worker.learning == worker.environment.learning == learning


def test_the_graph_is_legible(build):
    built = build(2)
    graph = built.server.session.graph
    assert graph.finalized
    assert {operation.device for operation in graph.get_operations()} <= {"/device:CPU:0", ""}
    names = [operation.name for operation in graph.get_operations()]
    assert {name.split("/")[0] for name in names} == {"parameter_server", "local_thread1", "local_thread2",
                                                      "test_thread", "init"}
    for part in "loss", "gradient", "update", "pull", "push":
        for thread in "local_thread1", "local_thread2", "test_thread":
            assert any(name.startswith(f"{thread}/{part}/") for name in names), (thread, part)
    variables = [v.name for v in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)]
    assert sum("RMSProp" in name for name in variables) == 12  # averages and momenta of six weights, not of each thread
    types = {operation.type for operation in graph.get_operations() if "RMSProp" in operation.type}
    assert types == {"ResourceApplyRMSProp"}  # locks its arrays; ApplyRMSProp, of TensorFlow 1's variables, loses steps
    with pytest.raises(RuntimeError), graph.as_default():
        tf.constant(0)
