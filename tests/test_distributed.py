"""distributed.py: what its processes count, tell each other and save, and what ends them.

The first tests need no Ray: the actor is a plain object. For the others this file is also the
program that they start: python test_distributed.py PROGRAM [OPTION]... Its processes leave notes in
the folder NOTES, so that a test knows them.
"""
import collections
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import types
import unittest.mock
from pathlib import Path

import helpers
import numpy as np
import pytest
from helpers import ROOT, a3c, posix, tf

pytest.importorskip("ray")
import distributed  # noqa: E402
import memory  # noqa: E402
import memory_pendulum  # noqa: E402


def note(name, text=""):
    """Leave a note: a file called name-PID. If there is one, the text is added to it."""
    with open(Path(os.environ["NOTES"], f"{name}-{os.getpid()}"), "a") as file:
        file.write(text)


def notes(folder, name):
    """What the processes have noted: {process number: text}."""
    return {int(path.name.rpartition("-")[2]): path.read_text()
            for path in Path(folder, "notes").glob(f"{name}-*")}


def total(folder, name):
    return sum(map(len, notes(folder, name).values()))


class CountingServer(a3c.ParameterServer):
    """Has two more variables: the number of updates, and a copy of one array after the latest."""

    def build_update(self, gradients):
        update = super().build_update(gradients)
        with tf.variable_scope("parameter_server", tf.zeros_initializer(), reuse=tf.AUTO_REUSE):
            updates = tf.get_variable("updates", (), tf.int64, trainable=False)
            copy = tf.get_variable("copy", self.weights[0].shape, trainable=False)
        with tf.control_dependencies([update]):
            return tf.group(updates.assign_add(1, read_value=False),
                            copy.assign(self.weights[0], read_value=False))


WEIGHTS, COPY, UPDATES = (f"parameter_server/{x}" for x in ("hidden/weights", "copy", "updates"))


# Without Ray

class Actor:
    """Ray's handle of an actor, but actor.method.remote(...) runs the method at once."""

    def __init__(self, parameters):
        self.parameters = parameters

    def __getattr__(self, name):
        return types.SimpleNamespace(remote=getattr(self.parameters, name))


@pytest.fixture
def no_ray(monkeypatch):
    """Answers are there at once, and each process that asks has a new id."""
    ids = itertools.count()
    context = types.SimpleNamespace(get_worker_id=lambda: f"worker id {next(ids)}")
    monkeypatch.setattr(distributed.ray, "get", lambda answer, timeout=None: answer)
    monkeypatch.setattr(distributed.ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(distributed.ray, "shutdown", lambda: None)


def script_server(server_class=CountingServer):
    """A server of the script, its update as a function of gradients, and all its variables."""
    with tf.Graph().as_default():
        options = helpers.options()
        server = server_class(options, a3c.Progress(options))
        gradients = [tf.placeholder(tf.float32, w.shape) for w in server.weights]
        update = a3c.GraphCall(server.session, gradients, targets=[server.build_update(gradients)])
        variables = tf.global_variables("parameter_server/")
        server.initialize()
    return server, update, variables


def values_of(server, variables):
    return server.session.run({v.op.name: v for v in variables})


def equal(x, y):
    """Whether two dictionaries hold equal arrays."""
    return x.keys() == y.keys() and all(np.array_equal(x[name], y[name]) for name in x)


def parameters(frames=0):
    server, _, variables = script_server()
    return distributed.Parameters(lambda: None, CountingServer, helpers.options(), frames,
                                  values_of(server, variables))


def random_gradients(rng, server):
    return [rng.normal(size=w.shape).astype("float32") for w in server.weights]


def worker(actor, learners=2):
    """A worker as `distributed.work` makes it, but without threads."""
    class Server(distributed.WorkerServer, CountingServer):
        parameters = actor
    return helpers.Built(learners, server_class=Server)


def play(built, rng, learner=0, frames=10):
    """Let a learner play some frames, and make an update from any samples."""
    for _ in range(frames):
        built.progress.next_frame(learning=True)
    helpers.update(built.brains[learner], *helpers.batch(rng))


def starting_process(actor):
    """The server of the process that the user starts, and its Workers, which have one task."""
    server, _, variables = script_server()
    workers = distributed.Workers()
    workers.server, workers.variables, workers.actor = server, variables, actor
    workers.tasks = {"task": 1}
    return server, workers


def test_the_actor_makes_the_same_updates_as_the_scripts_server(rng):
    """All weights, RMSProp's averages and a user's own variables are bit for bit the same."""
    server, update, variables = script_server()
    first = values_of(server, variables)
    actor = distributed.Parameters(lambda: None, CountingServer, helpers.options(), 0, first)
    assert first.keys() >= {WEIGHTS, COPY, UPDATES} and equal(actor.look()[2], first)
    for n in range(1, 4):
        g = random_gradients(rng, server)
        update(*g)
        _, weights = actor.call("worker", "learner", n, 10 * n, 0, [], *g)
        assert helpers.same(weights, server.session.run(server.weights))
    values = actor.look()[2]
    assert equal(values, values_of(server, variables))
    assert values[UPDATES] == 3 and np.array_equal(values[COPY], values[WEIGHTS])


def test_a_worker_begins_with_the_servers_weights_and_gets_the_new_ones(rng, no_ray):
    actor = parameters()
    first, second = worker(Actor(actor)), worker(Actor(actor))
    play(first, rng)
    play(second, rng)
    values = actor.look()[2]
    assert values[UPDATES] == 2
    third = worker(Actor(actor))
    for built in second, third:
        built.brains[1].pull_parameter_server()
        expected = [values[w.op.name] for w in built.server.weights]
        assert helpers.same(built.values(built.server.weights), expected)
        assert helpers.same(built.values(built.brains[1].weights), expected)


def test_a_repeated_call_changes_nothing(rng):
    actor = parameters(frames=100)
    g = random_gradients(rng, actor.server)
    actor.call("worker", "learner 1", 1, 10, 1, [20.0], *g)
    call = "worker", "learner 2", 2, 15, 2, [20.0, 30.0], *random_gradients(rng, actor.server)
    first, before = actor.call(*call), actor.look()
    again, after = actor.call(*call), actor.look()
    assert (after[0], after[1]) == ([20.0, 30.0], 115) and equal(before[2], after[2])
    assert first[0] == again[0] == 100 and helpers.same(first[1], again[1])


def test_calls_of_two_learners_may_come_in_the_other_order(rng):
    actor = parameters()
    g = random_gradients(rng, actor.server)
    actor.call("worker", "learner 2", 2, 15, 2, [20.0, 30.0], *g)
    actor.call("worker", "learner 1", 1, 10, 1, [20.0], *g)
    scores, frames, values = actor.look()
    assert (scores, frames, values[UPDATES]) == ([20.0, 30.0], 15, 2)
    actor.call("worker", "learner 1", 3, 20, 2, [20.0, 30.0], *g)
    assert actor.look()[:2] == ([20.0, 30.0], 20)


def test_frames_of_all_workers_and_of_earlier_runs_add_up(rng, no_ray):
    actor = parameters(frames=100)
    first, second = worker(Actor(actor)), worker(Actor(actor))
    assert first.progress.frames == second.progress.frames == 100
    play(first, rng, 0, 10)
    play(second, rng, 0, 7)
    assert (first.progress.frames, second.progress.frames) == (110, 117)
    play(first, rng, 1, 5)
    assert first.progress.frames == actor.look()[1] == 122
    # The first one dies. Ray starts it again, and it has another id.
    third = worker(Actor(actor))
    assert third.progress.frames == 122
    play(third, rng, 0, 4)
    play(second, rng, 1, 1)
    assert second.progress.frames == actor.look()[1] == 127


def test_an_older_answer_does_not_take_frames_away(rng, no_ray):
    built = worker(Actor(parameters()))
    others = iter((30, 20, 40))

    def call(*args):
        return next(others), built.server.latest
    built.server.parameters = Actor(types.SimpleNamespace(call=call))
    seen = []
    for _ in range(3):
        play(built, rng, 0, 10)
        seen.append(built.progress.frames)
    assert seen == [40, 50, 70]


@pytest.mark.timeout(60)  # wrong, it may wait for ever
def test_each_score_comes_once(rng, no_ray, monkeypatch):
    actor = Actor(parameters())
    server, workers = starting_process(actor)
    monkeypatch.setattr(distributed.ray, "wait", lambda tasks, timeout: ([], tasks))
    first, second = worker(actor), worker(actor)
    sent, seen = [], []
    for n in range(60):  # a worker tells its latest fifty
        built = (first, second)[n % 3 == 0]
        for _ in range(n % 4):
            sent.append(float(len(sent)))
            built.progress.episode_ended(sent[-1])
        play(built, rng, n % 2, 1)
        if n % 7 == 0:
            play(first, rng)  # nothing new
            play(second, rng)
            while len(seen) < len(sent):
                seen.append(workers.run(learning=True))
            assert not workers.scores
    play(first, rng)
    play(second, rng)
    while len(seen) < len(sent):
        seen.append(workers.run(learning=True))
    assert sorted(seen) == sent


def test_the_starting_process_has_the_values_and_frames_of_one_moment(rng, no_ray, monkeypatch):
    actor = parameters()
    server, workers = starting_process(Actor(actor))
    monkeypatch.setattr(distributed.ray, "wait", lambda tasks, timeout: ([], tasks))
    actor.call("worker", "learner", 1, 10, 1, [20.0], *random_gradients(rng, server))
    before = values_of(server, workers.variables)
    with server.saving:  # a save waits, and so do the new values
        thread = threading.Thread(target=workers.run, args=[True], daemon=True)
        thread.start()
        thread.join(timeout=0.3)
        assert thread.is_alive() and server.progress.frames == 0
        assert equal(values_of(server, workers.variables), before)
    thread.join(timeout=10)
    assert server.progress.frames == 10
    assert equal(values_of(server, workers.variables), actor.look()[2])


def test_a_gradient_that_is_not_finite_is_never_sent(rng, no_ray):
    actor = parameters()
    built = worker(Actor(actor))
    play(built, rng)
    before, samples = actor.look()[2], helpers.batch(rng)
    for number in np.nan, np.inf:
        samples[2][3] = number  # a return
        built.progress.next_frame(learning=True)
        with pytest.raises(FloatingPointError):
            helpers.update(built.brains[0], *samples)
    assert equal(actor.look()[2], before) and before[UPDATES] == 1
    values = built.values(built.server.weights)
    assert helpers.same(values, [before[w.op.name] for w in built.server.weights])


@pytest.fixture
def no_answer(monkeypatch):
    """The actor doesn't answer. Waiting takes no time."""
    waited = []

    def get(answer, timeout):
        waited.append(timeout)
        raise distributed.ray.exceptions.GetTimeoutError
    monkeypatch.setattr(distributed.ray, "get", get)
    return waited


@pytest.mark.timeout(60)  # wrong, it waits for ever
def test_a_stop_ends_a_call_that_the_actor_does_not_answer(no_answer):
    server = object.__new__(distributed.WorkerServer)  # a call needs no network
    server.progress, server.worker = a3c.Progress(helpers.options()), "id"
    server.others = server.calls = 0
    server.parameters, server.latest = unittest.mock.Mock(), ["the latest weights"]
    server.progress.coordinator.request_stop()
    assert server.call("learner", np.zeros(3)) == ["the latest weights"] and not no_answer


@pytest.mark.timeout(60)
def test_if_the_actor_does_not_answer_for_a_minute_all_threads_stop(no_answer, capsys):
    progress = a3c.Progress(helpers.options())
    with pytest.raises(a3c.Stopped):
        distributed.wait_for("answer", progress)
    assert sum(no_answer) == 60 and progress.coordinator.should_stop()
    assert capsys.readouterr().err == "The parameter server's process has died or doesn't answer\n"


def test_at_the_end_all_frames_seem_to_be_played(rng, no_ray):
    actor = parameters()
    built = worker(Actor(actor))
    play(built, rng)
    actor.end()
    play(built, rng, 0, 1)
    assert built.progress.frames >= built.progress.max_frames
    with pytest.raises(a3c.Stopped):
        built.progress.next_frame(learning=True)


def test_a_worker_that_failed_ends_the_run_and_one_that_died_does_not(no_ray, monkeypatch, capsys):
    server, workers = starting_process(Actor(parameters()))
    ray_errors = distributed.ray.exceptions
    errors = {"task": ray_errors.WorkerCrashedError(),
              "other": ray_errors.RayTaskError("work", "its traceback", ValueError())}
    workers.tasks = {"task": 1, "other": 2}

    def get(answer, timeout=None):
        if answer in ("task", "other"):
            raise errors[answer]
        return answer
    monkeypatch.setattr(distributed.ray, "get", get)
    monkeypatch.setattr(distributed.ray, "wait", lambda tasks, timeout: (tasks[:1], tasks[1:]))
    with pytest.raises(RuntimeError, match="worker 2 failed") as failed:
        workers.run(learning=True)
    assert failed.value.__cause__ is errors["other"]
    assert capsys.readouterr().err == "Worker 1 has died too often, and is given up\n"


class Begun:
    """Makes distributed.main start actor and tasks without Ray. Each task's worker plays `frames`
    frames at once, and ends. tasks: what `work` was given."""

    def __init__(self, monkeypatch, rng, frames=50):
        self.tasks = []

        def remote(**kwargs):
            return lambda what: types.SimpleNamespace(
                remote=begin if what is distributed.work else begin_actor)

        def begin_actor(*args):
            self.actor = distributed.Parameters(*args)
            return Actor(self.actor)

        def begin(set_up, actor, server_class, classes, options):
            self.tasks.append(types.SimpleNamespace(set_up=set_up, **vars(options)))
            built = worker(actor)
            self.begins_at = built.progress.frames
            play(built, rng, 0, frames)
            return len(self.tasks)
        monkeypatch.setattr(distributed.ray, "init", lambda *args, **kwargs: None)
        monkeypatch.setattr(distributed.ray, "remote", remote)
        monkeypatch.setattr(distributed.ray, "wait", lambda tasks, timeout: (tasks[:1], tasks[1:]))
        monkeypatch.setattr(distributed.signal, "signal", lambda *args: None)


def test_each_worker_has_another_seed_and_saves_nothing(rng, no_ray, monkeypatch, tmp_path):
    begun = Begun(monkeypatch, rng)
    words = ["--render", "none", "--workers", "3", "--processes", "4", "--seed", str(2 ** 32 - 2)]
    assert distributed.main([*words, "--checkpoint", str(tmp_path)], CountingServer) == 1
    assert {task.seed for task in begun.tasks} == {2 ** 32 - 1, 0, 1, 2}
    assert {task.workers for task in begun.tasks} == {3}
    assert {task.checkpoint for task in begun.tasks} == {None}


def test_a_run_continues_an_earlier_one(rng, no_ray, monkeypatch, tmp_path, capsys):
    begun = Begun(monkeypatch, rng)
    words = ["--render", "none", "--max-frames", "1000", "--checkpoint", str(tmp_path)]
    for run in 1, 2, 3:
        assert distributed.main(words, CountingServer) == 1
        assert begun.begins_at == 100 * run - 50  # where the second worker begins
        assert {task.max_frames for task in begun.tasks[-2:]} == {1000 + 100 * (run - 1)}
        assert f"Not learned after {100 * run} frames" in capsys.readouterr().out
        saved = helpers.saved_values(tmp_path)
        assert saved[UPDATES] == 2 * run
        assert equal(saved, begun.actor.look()[2])


def test_constants_and_configure_hold_in_every_process(rng, no_ray, monkeypatch):
    begun, changes = Begun(monkeypatch, rng), []
    monkeypatch.setattr(a3c, "GAMMA", 0.5)
    monkeypatch.setattr(a3c, "Tmax", 7)
    distributed.main(["--render", "none"], CountingServer, configure=lambda: changes.append(1))
    assert len(changes) == 2  # here, and in the actor
    a3c.GAMMA, a3c.Tmax = 0.9, 8
    begun.tasks[0].set_up()
    assert len(changes) == 3 and (a3c.GAMMA, a3c.Tmax) == (0.5, 7)


@pytest.fixture
def never_started(monkeypatch):
    """A call of ray.init fails the test."""
    monkeypatch.setattr(distributed.ray, "init", lambda *args, **kwargs: pytest.fail("Ray starts"))


WRONG = ["--processes 0", "--rendr none", "--seed -1", "--address foo:1"]


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_option_is_one_line_before_anything_starts(never_started, capsys, words):
    with pytest.raises(SystemExit) as ended:
        distributed.main(words.split())
    err = capsys.readouterr().err
    assert ended.value.code == 2 and err.count("\n") == 1 and re.split("[ =]", words)[0] in err


@pytest.fixture
def starts_with(monkeypatch):
    """Replaces ray.init. What Ctrl-C and SIGTERM do is as before in the end."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield lambda init: monkeypatch.setattr(distributed.ray, "init", init)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_what_ray_does_not_connect_to_is_one_line(starts_with, capsys):
    def init(address, **kwargs):  # a real one looks for all Ray clusters on this machine
        raise ConnectionError(f"no cluster: {address}\nfor further help, read a page")
    starts_with(init)
    with pytest.raises(SystemExit) as ended:
        distributed.main(["--render", "none", "--address", "auto"])
    err = capsys.readouterr().err
    assert ended.value.code == 2 and err.count("\n") == 1
    assert err.endswith("error: argument --address: no cluster: auto\n")


def test_ctrl_c_while_ray_starts_waits_until_it_has_started(starts_with, capsys):
    started = []

    def init(address, **kwargs):
        signal.raise_signal(signal.SIGINT)
        started.append(address)
    starts_with(init)
    assert distributed.main(["--render", "none"]) == 130
    assert started == ["local"] and capsys.readouterr().err == "Stopped after 0 frames\n"


class RefusingServer(a3c.ParameterServer):
    def initialize(self):
        super().initialize()
        a3c.refuse("not like this")


@pytest.mark.parametrize("server_class, words", [(RefusingServer, "not like this"),
                                                 (a3c.ParameterServer, "argument --checkpoint")])
def test_what_the_server_refuses_is_one_line_before_anything_starts(never_started, capsys, tmp_path,
                                                                    server_class, words):
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model-7"\n')
    (tmp_path / "model-7.index").write_text("damaged")
    with pytest.raises(SystemExit) as ended:
        distributed.main(["--render", "none"] + ["--checkpoint", str(tmp_path)] * (
            server_class is a3c.ParameterServer), server_class)
    err = capsys.readouterr().err
    assert ended.value.code == 2 and err.count("\n") == 1 and words in err


def test_without_ray_one_line_says_what_to_install(tmp_path):
    (tmp_path / "ray.py").write_text("raise ModuleNotFoundError(\"No module named 'ray'\")\n")
    status, out, err = helpers.finish(helpers.start(
        cwd=tmp_path, program=ROOT / "tests" / "variants" / "distributed.py",
        env=helpers.environment_variables(PYTHONPATH=str(tmp_path))))
    assert (status, out) == (1, "")
    assert err == "No module named 'ray': run  pip install -r tests/requirements.txt\n"


# With Ray: the programs

class NotedServer(CountingServer):
    def __init__(self, *args):
        super().__init__(*args)
        note("server")  # all processes have one: the workers' are copies

    def save(self):
        note("save", ".")
        super().save()


class NotedBrain(a3c.LocalBrain):
    def update_parameter_server(self):
        super().update_parameter_server()
        note("updates", ".")


class NotedEnvironment(a3c.Environment):
    """Notes each step and score. Learners wait until both workers are there."""

    def run(self, learning):
        if learning:
            note("worker", f"{self.server.options.seed} ")
            self.wait_for_notes("worker", 2)
        score = super().run(learning)
        note("scores" if learning else "shown", f"{score:g} ")
        return score

    def wait_for_notes(self, name, number):
        while len(notes(Path(os.environ["NOTES"]).parent, name)) < number:
            self.progress.next_frame(learning=False)  # ends this thread if all have to stop
            time.sleep(0.05)

    def reward(self, *step):  # called once a step of a learner
        note("steps", ".")
        return super().reward(*step)


class SlowlyShown(NotedEnvironment):
    """Each episode of the test thread takes half a second longer."""

    def run(self, learning):
        if not learning:
            note("evaluating")
            for _ in range(10):
                self.progress.next_frame(learning)
                time.sleep(0.05)
        return super().run(learning)


class Failing(NotedEnvironment):
    def run(self, learning):
        if self.server.options.seed == 6:  # worker 1
            self.fail()
        return super().run(learning)

    def fail(self):
        raise ZeroDivisionError("on purpose")


class Exiting(Failing):
    def fail(self):
        sys.exit("on purpose")


class NotANumber(NotedEnvironment):
    """Worker 1 gets a wrong reward after some hundred steps of both workers."""

    def reward(self, *step):
        right = super().reward(*step)
        enough = total(Path(os.environ["NOTES"]).parent, "steps") > 300
        return float("nan") if self.server.options.seed == 6 and enough else right


class Patient(NotedEnvironment):
    """Worker 2 learns when worker 1 has been started four times."""

    def run(self, learning):
        if learning and self.server.options.seed == 7:
            note("worker", "7 ")
            self.wait_for_notes("worker", 5)
        return super().run(learning)


class MemoryServer(NotedServer, memory_pendulum.Server):
    def initialize(self):
        super().initialize()
        note("constants", f"{a3c.ENV} {a3c.GAMMA} {memory.CELLS}")


class MemoryEnvironment(NotedEnvironment, memory_pendulum.Environment):
    pass


class SlowlySaved(NotedServer):
    def save(self):
        note("saving")
        time.sleep(3)
        super().save()


def never_learned(argv, server_class=NotedServer, environment_class=NotedEnvironment):
    a3c.LEARNED_MEAN = float("inf")
    return distributed.main(argv, server_class, brain_class=NotedBrain,
                            environment_class=environment_class)


def soon_learned(argv, environment_class=NotedEnvironment):
    a3c.LEARNED_MEAN = 30
    return distributed.main(argv, NotedServer, environment_class=environment_class)


def slowly_shown(argv):
    return soon_learned(argv, SlowlyShown)


def failing(argv):
    return never_learned(argv, environment_class=Failing)


def exiting(argv):
    return never_learned(argv, environment_class=Exiting)


def not_a_number(argv):
    return never_learned(argv, environment_class=NotANumber)


def patient(argv):
    return never_learned(argv, environment_class=Patient)


def slow_save(argv):
    a3c.SAVE_SECONDS = 0.1
    return never_learned(argv, SlowlySaved)


def with_memory(argv):
    return distributed.main(
        argv, MemoryServer, memory_pendulum.configure, brain_class=memory_pendulum.Brain,
        agent_class=memory_pendulum.Agent, environment_class=MemoryEnvironment)


class NotedParameters(distributed.Parameters):
    def call(self, *args):
        note("calls", ".")
        return super().call(*args)


def lossy(argv):
    """Of the calls from the workers to the actor, some get lost, and so do some of the answers."""
    failures = {"num_failures": -1, "req_failure_prob": 5, "resp_failure_prob": 10,
                "in_flight_failure_prob": 5}
    variable = {"RAY_testing_rpc_failure":
                json.dumps({"CoreWorkerService.grpc_client.PushTask": failures})}
    init, ended = distributed.ray.init, a3c.Progress.episode_ended
    distributed.Parameters = NotedParameters

    def lossy_init(*args, runtime_env, **kwargs):
        runtime_env["env_vars"] |= variable
        return init(*args, runtime_env=runtime_env, **kwargs)

    def noted(progress, score):
        note("told", f"{score:g} ")
        return ended(progress, score)
    distributed.ray.init, a3c.Progress.episode_ended = lossy_init, noted
    return never_learned(argv)


# With Ray: the tests

@pytest.fixture
def start(tmp_path):
    """start(program, option...): the program as a process that leads a session of its own."""
    def begin(program, *args):
        folder = tmp_path / "notes"
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        args = program.__name__, "--render", "none", "--workers", 2, "--seed", 5, *args
        return helpers.start(
            *args, cwd=tmp_path, program=__file__, start_new_session=True,
            # Ray's processes would otherwise give way to all others on a busy machine.
            env=helpers.environment_variables(NOTES=str(folder), RAY_worker_niceness="0",
                                              PYTHONPATH=os.pathsep.join(sys.path)))
    yield begin


def until(condition, process=None):
    """Wait for this condition, as long as the process runs, if one is given."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.05)


def both_learn(process, folder, line="mean"):
    """Wait until both workers learn. Returns the process numbers of the actor and of worker 1."""
    until(lambda: len([text for text in notes(folder, "worker").values() if text]) == 2, process)
    workers = {int(text.split()[0]): pid for pid, text in notes(folder, "worker").items()}
    [actor] = notes(folder, "server").keys() - {process.pid, *workers.values()}
    helpers.begin(process, line)
    return actor, workers[6]


def session(leader):
    """The processes of a session, but for those that only wait to be collected."""
    text = subprocess.run(["ps", "-e", "-o", "sid=,stat=,args="], capture_output=True, text=True)
    return [line for line in text.stdout.splitlines()
            if line.split()[0] == str(leader) and not line.split()[1].startswith("Z")]


def nothing_is_left(process):
    until(lambda: not session(process.pid))


def saved(folder):
    """(frames, values) of the latest checkpoint, which has to be of one moment."""
    latest = tf.train.latest_checkpoint(folder / "saved")
    values = helpers.saved_values(latest)
    assert all(np.isfinite(x).all() for x in values.values())
    assert values[UPDATES] > 0 and np.array_equal(values[COPY], values[WEIGHTS])
    return int(latest.rpartition("-")[2]), values


def stopped(process, folder):
    """The process has been interrupted: nothing else is printed, all is saved, nothing is left."""
    _, err = process.communicate(timeout=120)
    match = re.fullmatch(r"Stopped after (\d+) frames\n", err)
    assert process.returncode == 130 and match, err
    assert saved(folder)[0] == int(match[1]) > 0
    nothing_is_left(process)


def test_frames_and_updates_are_those_of_all_workers(start, tmp_path):
    folders = "--checkpoint", "saved", "--logdir", "curves"
    status, out, err = helpers.finish(start(never_learned, "--max-frames", 6000, *folders))
    assert (status, err) == (1, "")
    [_] = (tmp_path / "curves").iterdir()  # only the starting process draws curves
    counted = int(re.search(r"^Not learned after (\d+) frames", out, re.M)[1])
    played = {pid: len(text) for pid, text in notes(tmp_path, "steps").items()}
    assert len(played) == 2 and min(played.values()) > 100
    # Each of the four threads may have played up to ten frames that it didn't tell.
    assert 5980 <= counted <= sum(played.values()) <= counted + 40
    frames, values = saved(tmp_path)
    assert frames == counted and values[UPDATES] == total(tmp_path, "updates")


def test_what_all_learned_is_saved_and_the_script_can_play_it(start, tmp_path):
    frames = 0
    for _ in range(2):  # the second run continues the first one
        process = start(soon_learned, "--checkpoint", "saved")
        status, out, err = helpers.finish(process)
        assert (status, err) == (0, "") and "Test episode 3" in out
        assert notes(tmp_path, "save").keys() == notes(tmp_path, "shown").keys() == {process.pid}
        before, frames = frames, int(re.search(r"^Learned after (\d+) frames", out, re.M)[1])
        latest = tf.train.latest_checkpoint(tmp_path / "saved")
        assert before < frames == int(latest.rpartition("-")[2])
        values = helpers.saved_values(latest)
        assert values[UPDATES] > 0
        assert (values["parameter_server/actor/weights/RMSProp"] < 1).all()  # they start at 1
    play = "--play", "--render", "none", "--checkpoint", tmp_path / "saved"
    status, out, _ = helpers.finish(helpers.start(*play, cwd=tmp_path))
    assert status == 0 and "Test episode 3" in out


@posix
@pytest.mark.long
def test_a_killed_worker_comes_back(start, tmp_path):
    process = start(never_learned, "--checkpoint", "saved")
    _, worker = both_learn(process, tmp_path)
    os.kill(worker, signal.SIGKILL)
    until(lambda: sum(x[:1] == "6" for x in notes(tmp_path, "worker").values()) == 2, process)
    helpers.begin(process, "mean")
    process.send_signal(signal.SIGINT)
    stopped(process, tmp_path)


@posix
@pytest.mark.long
def test_a_worker_that_dies_again_and_again_is_given_up(start, tmp_path):
    process, killed = start(patient, "--max-frames", 3000), set()

    def kill():
        for pid, text in notes(tmp_path, "worker").items():
            if text.startswith("6 ") and pid not in killed:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        return len(killed) == 4
    until(kill, process)
    status, out, err = helpers.finish(process)
    assert (status, err) == (1, "Worker 1 has died too often, and is given up\n")
    assert re.search(r"^Not learned after [23]\d\d\d frames", out, re.M)
    nothing_is_left(process)


@posix
def test_a_killed_parameter_server_ends_all(start, tmp_path):
    process = start(never_learned, "--checkpoint", "saved")
    actor, _ = both_learn(process, tmp_path)
    os.kill(actor, signal.SIGKILL)
    status, _, err = helpers.finish(process, seconds=120)
    assert (status, err) == (1, "The parameter server's process has died or doesn't answer\n")
    assert saved(tmp_path)[0] > 0
    nothing_is_left(process)


@posix
@pytest.mark.long
@pytest.mark.parametrize("seconds", [2, 30])
def test_a_parameter_server_that_stalls_is_waited_for(start, tmp_path, seconds):
    process = start(never_learned, "--max-frames", 10_000, "--checkpoint", "saved")
    actor, _ = both_learn(process, tmp_path)
    os.kill(actor, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(actor, signal.SIGCONT)
    status, out, err = helpers.finish(process)
    assert (status, err) == (1, "") and re.search(r"^Not learned after (99|100)\d\d f", out, re.M)
    assert saved(tmp_path)[1][UPDATES] == total(tmp_path, "updates")


@posix
@pytest.mark.long
@pytest.mark.parametrize("line, seconds", [("Threshold reached", 30), ("Learned after", 1000)])
def test_a_parameter_server_that_stalls_later_harms_nothing(start, tmp_path, line, seconds):
    """While the policy is evaluated, or when it is shown and all learners end."""
    process = start(slowly_shown, "--checkpoint", "saved")
    actor, _ = both_learn(process, tmp_path, line)
    os.kill(actor, signal.SIGSTOP)
    if seconds < 1000:
        time.sleep(seconds)
        os.kill(actor, signal.SIGCONT)
    status, out, err = helpers.finish(process)
    assert (status, err) == (0, "") and "Test episode 3" in out
    nothing_is_left(process)


long = pytest.mark.long
MOMENTS = [("learning", "SIGINT"),
           pytest.param("stalled", "SIGTERM", marks=long),
           pytest.param("learning", "SIGTERM", marks=long),
           pytest.param("stalled", "SIGINT", marks=long),
           pytest.param("evaluating", "SIGINT", marks=long),
           pytest.param("evaluating", "SIGTERM", marks=long)]


@posix
@pytest.mark.parametrize("moment, name", MOMENTS)
def test_ctrl_c_and_sigterm_save_and_leave_no_process(start, tmp_path, moment, name):
    evaluating = moment == "evaluating"
    process = start(slowly_shown if evaluating else never_learned, "--checkpoint", "saved")
    actor, _ = both_learn(process, tmp_path, "Threshold" if evaluating else "mean")
    if moment == "stalled":
        os.kill(actor, signal.SIGSTOP)
        time.sleep(1)
    process.send_signal(signal.Signals[name])
    stopped(process, tmp_path)


@posix
@pytest.mark.long
def test_ctrl_c_during_a_slow_save_still_saves(start, tmp_path):
    process = start(slow_save, "--checkpoint", "saved")
    both_learn(process, tmp_path)
    (tmp_path / "notes" / f"saving-{process.pid}").unlink(missing_ok=True)
    until(lambda: notes(tmp_path, "saving"))
    process.send_signal(signal.SIGINT)
    stopped(process, tmp_path)


@posix
@pytest.mark.long  # Ray's own helpers take a minute to end
def test_if_the_starting_process_is_killed_all_end(start, tmp_path):
    process = start(never_learned)
    both_learn(process, tmp_path)
    process.kill()
    process.communicate()
    nothing_is_left(process)


@pytest.mark.parametrize("program, reason", [
    (failing, "ZeroDivisionError: on purpose"),
    pytest.param(exiting, "sys.exit('on purpose')", marks=long),
    pytest.param(not_a_number, "FloatingPointError", marks=long)])
def test_what_goes_wrong_in_a_worker_ends_all_and_is_shown(start, tmp_path, program, reason):
    process = start(program, "--checkpoint", "saved")
    status, _, err = helpers.finish(process)
    assert status == 1 and "worker 1 failed" in err and reason in err
    assert "worker 2 failed" not in err
    if program is not_a_number and tf.train.latest_checkpoint(tmp_path / "saved"):
        saved(tmp_path)  # it is finite
    nothing_is_left(process)


@pytest.mark.long
def test_a_users_classes_and_settings_hold_in_every_process(start, tmp_path):
    process = start(with_memory, "--max-frames", 400)
    status, out, err = helpers.finish(process)
    assert (status, err) == (1, "") and "Not learned after" in out
    seen = notes(tmp_path, "constants")  # of the starting process, the actor and two workers
    assert len(seen) == 4 and set(seen.values()) == {"Pendulum-v1 0.9 128"}
    workers = notes(tmp_path, "worker").keys()
    assert workers < seen.keys() and process.pid in seen.keys() - workers


@pytest.mark.long
def test_no_call_is_lost_or_counted_twice_if_calls_and_answers_get_lost(start, tmp_path):
    process = start(lossy, "--max-frames", 6000, "--checkpoint", "saved")
    status, out, err = helpers.finish(process)
    assert (status, err) == (1, "")
    frames, values = saved(tmp_path)
    updates = total(tmp_path, "updates")
    assert total(tmp_path, "calls") > updates + 20  # some answers did get lost
    assert values[UPDATES] == updates
    assert 5980 <= frames <= total(tmp_path, "steps") <= frames + 40
    played, told = (collections.Counter(" ".join(notes(tmp_path, name).values()).split())
                    for name in ("scores", "told"))
    assert told <= played and (played - told).total() <= 4  # those that the learners didn't tell


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](sys.argv[2:]))
