"""Worker_thread and ParameterServer: learners alive, exact counts, claim and exam."""
import collections
import threading

import numpy as np
import pytest
from conftest import a3c, tf


def start(workers):
    threads = [threading.Thread(target=worker.run, name=worker.name, daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    return threads


def join(threads):
    for thread in threads:
        thread.join(timeout=60)
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
    steps = collections.Counter()
    for worker in built.learners:
        step = worker.environment.env.step

        def counted(action, name=worker.name, step=step):
            steps[name] += 1
            return step(action)
        monkeypatch.setattr(worker.environment.env, "step", counted)
    join(start([*built.learners, built.tester]))
    assert built.server.failure is None and not built.server.learned and built.server.learners == 0
    assert built.server.frames == 4000 == sum(steps.values())
    assert set(steps) == {f"local_thread{i}" for i in range(1, 9)} and min(steps.values()) > 100
    trials = collections.Counter(line.split(",")[0] for line in built.lines)
    assert set(trials) == set(steps)
    for name, number in trials.items():  # each thread numbers its own trials, without a gap
        assert [line.split()[2] for line in built.lines if line.startswith(name + ",")] == \
            [f"{i}:" for i in range(1, number + 1)]
    assert 4000 - 8 * 200 <= sum(built.trials) <= 4000


def test_the_lock_keeps_counts_that_would_otherwise_be_lost(build):
    server = build(0).server
    threads = [threading.Thread(target=lambda: [server.next_frame(True) for _ in range(20_000)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    join(threads)
    assert server.frames == 160_000


def test_an_exam_that_is_passed_ends_learning_and_its_weights_go_to_the_server(build, monkeypatch):
    built = build(2, test_trials=2)
    one, two = built.learners
    plays(one, monkeypatch, *[200] * 9, 191)
    plays(two, monkeypatch, 20)
    examined = []
    brain = built.tester.environment.agent.brain

    def examine():
        examined.append(built.values(brain.weights))
        for variable in built.server.weights if len(examined) <= 10 else ():  # what learners may write meanwhile
            built.server.session.run(variable.initializer, {variable.initial_value: np.full(variable.shape, 7.0)})
    plays(built.tester, monkeypatch, 200, before=examine)
    push = brain.push_parameter_server

    def push_when_alone():
        assert built.server.learners == 0
        push()
    monkeypatch.setattr(brain, "push_parameter_server", push_when_alone)
    join(start([one, two, built.tester]))
    assert built.server.failure is None and built.server.learned
    lines = [line for line in built.lines if ", trial " not in line]
    assert lines == ["local_thread1 claims: mean 199.1 steps over its last 10 trials",
                     "test_thread examines: mean 200.0 steps over 10 trials", "Learned",
                     "Test trial 1: 200 steps", "Test trial 2: 200 steps", "Test: mean 200.0 steps over 2 trials"]
    assert len(examined) == 12
    for weights in [*examined, built.values(built.server.weights)]:
        for x, y in zip(weights, examined[0]):
            np.testing.assert_array_equal(x, y)


def test_an_exam_that_is_failed_lets_everybody_go_on_and_the_claimant_start_a_new_ten(build, monkeypatch):
    built = build(1, max_frames=25)
    plays(built.learners[0], monkeypatch, 200)
    plays(built.tester, monkeypatch, 199)  # not above the bar
    join(start([*built.learners, built.tester]))
    assert built.server.failure is None and not built.server.learned and built.server.frames == 25
    events = [line.split()[1].rstrip(":,") for line in built.lines]
    assert events == ([*["trial"] * 10, "claims", "examines"] * 2) + ["trial"] * 5
    assert built.server.claims == []


@pytest.mark.parametrize("bar, claims", [([199] * 10, 0), ([199] * 9 + [200], 1)])
def test_a_claim_needs_ten_trials_that_average_more_than_199(build, monkeypatch, bar, claims):
    built = build(1, max_frames=10)
    plays(built.learners[0], monkeypatch, *bar)
    plays(built.tester, monkeypatch, 1)
    join(start([*built.learners, built.tester]))
    assert sum("claims" in line for line in built.lines) == claims


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
    # Thread speeds may give a learner more than its share of the frames, hence at most one learner without a claim.
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


def test_a_claim_that_waits_when_another_passes_does_not_hang(build, monkeypatch):
    built = build(2)
    both = threading.Barrier(3)
    for worker in built.learners:
        plays(worker, monkeypatch, 200)
    wait_until = built.server.wait_until

    def wait(condition):
        if threading.current_thread().name.startswith("local"):
            both.wait(timeout=30)
        wait_until(condition)
    monkeypatch.setattr(built.server, "wait_until", wait)
    first = []
    plays(built.tester, monkeypatch, 200, before=lambda: first or (first.append(1), both.wait(timeout=30)))
    join(start([*built.learners, built.tester]))
    assert built.server.learned and built.server.failure is None
    assert sum("examines" in line for line in built.lines) == 1


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
    join(start([built.tester]))
    assert built.server.failure is None and not built.server.learned


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
    with pytest.raises(RuntimeError), graph.as_default():
        tf.constant(0)
