"""distributed.py: what its processes count, tell each other and save, and what ends them.

In the first tests a fake Ray does all in one process. The last one starts this file as a program.
"""
import os
import re
import runpy
import signal
import subprocess
import sys
import time
import types
import unittest.mock
from pathlib import Path

import helpers
import numpy as np
import pytest
from fake_ray import PLAYS_ON, Handle
from helpers import FAILED, INTERRUPTED, LEARNED, NOT_LEARNED, a3c, linux, tf

pytest.importorskip("ray")
import distributed
from ray import exceptions

UPDATES = "parameter_server/updates"
SERVER_DIED = "the parameter server's process has died"


class CountingServer(a3c.ParameterServer):
    """Has one more variable: the number of updates."""
    def build_update(self, gradients):
        with tf.variable_scope("parameter_server", tf.zeros_initializer(), reuse=tf.AUTO_REUSE):
            updates = tf.get_variable("updates", (), tf.int64, trainable=False)
        return tf.group(super().build_update(gradients), updates.assign_add(1, read_value=False))


# Without Ray

@pytest.fixture
def threads_only():
    """What the script builds, with two learners, after an update. Updates are counted."""
    threads_only = helpers.Built(2, server_class=CountingServer)
    play_and_update(threads_only)
    return threads_only


@pytest.fixture
def server_process(fake_ray, threads_only):
    """The server process of a run that continues after 100 frames."""
    return Handle(distributed.ServerProcess(
        {}, CountingServer, ["--render", "none"], 100, checkpoint_values(threads_only.server)))


@pytest.fixture
def supervisor(server_process):
    """As the process that the user starts has it: one worker plays on."""
    supervisor = distributed.Supervisor(types.SimpleNamespace(processes=1))
    supervisor.server = helpers.Built(0, server_class=CountingServer).server
    supervisor.server_process, supervisor.tasks = server_process, {PLAYS_ON: 1}
    return supervisor


def worker(handle, number=1):
    """A worker with two learners, as `distributed.work` makes it, but without threads."""
    class Server(distributed.ServerCopy, CountingServer):
        server_process, worker = handle, number
    return helpers.Built(2, server_class=Server)


def play_and_update(built, learner=0, frames=10):
    """Let a learner play some frames and make an update. Equal `frames` give equal samples."""
    for _ in range(frames):
        built.progress.next_frame()
    built.brains[learner].pull_parameter_server()
    samples = helpers.random_samples(np.random.default_rng(frames))
    helpers.update_with(built.brains[learner], *samples)


def checkpoint_values(server):
    """{name: value} of all variables that a checkpoint holds."""
    with server.session.graph.as_default():
        variables = tf.global_variables("parameter_server/")
    return server.session.run({v.op.name: v for v in variables})


def latest_checkpoint():
    """Frames and updates of the latest checkpoint."""
    latest = tf.train.latest_checkpoint("saved")
    return int(latest.rpartition("-")[2]), helpers.saved_values(latest)[UPDATES]


def test_updates_through_a_worker_equal_those_of_threads(threads_only, server_process):
    """Updates sent through a worker change the server process's weights, RMSProp's averages and a
    user's own variable exactly, bit for bit, as they would in a run with threads only."""
    built = worker(server_process)
    for learner, frames in (0, 10), (1, 7), (0, 3):
        play_and_update(threads_only, learner, frames)
        play_and_update(built, learner, frames)
    _, _, now = server_process.snapshot.remote()
    np.testing.assert_equal(now, checkpoint_values(threads_only.server))
    assert now[UPDATES] == 1 + 3  # one by the fixture `threads_only`


def test_a_worker_gets_what_others_have_learned(server_process):
    """With its own next update, or at its start, a worker gets what other workers have learned."""
    first, second = worker(server_process, 1), worker(server_process, 2)
    play_and_update(first)
    play_and_update(second)
    _, _, now = server_process.snapshot.remote()
    for built in second, worker(server_process, 3):
        weights = built.server.weights
        assert helpers.equal(built.values(weights), [now[w.op.name] for w in weights])


def scores_and_frames_known(server_process):
    """What the server process knows from its workers."""
    scores, frames, _ = server_process.snapshot.remote()
    return scores, frames


def test_frames_and_scores_during_a_call_are_told_later(server_process):
    """Frames and scores that come up while a worker waits for the server's answer reach the server
    once, with the worker's next update. (Its other learners play on while one waits.)"""
    real, built = server_process.wrapped, worker(server_process)
    earlier = 100  # frames of the run that is continued
    answer = real.update

    def slow_update(*report):
        built.progress.next_frame()  # another learner plays
        built.progress.episode_ended(20.0)
        return answer(*report)
    real.update = slow_update
    play_and_update(built, frames=10)
    assert scores_and_frames_known(server_process) == ([], earlier + 10)
    real.update = answer
    play_and_update(built, learner=1, frames=5)
    assert scores_and_frames_known(server_process) == ([20.0], earlier + 10 + 1 + 5)
    play_and_update(built, learner=1, frames=5)  # the score isn't sent again
    assert scores_and_frames_known(server_process) == ([20.0], earlier + 10 + 1 + 5 + 5)


def test_a_score_told_just_before_a_worker_ends_arrives(fake_ray, server_process, supervisor):
    """A score that a worker sends with its last update, just before it ends, isn't lost: the main
    process first finds out who has ended, and only then fetches scores. (Scores after the last
    update are lost.)"""
    built = worker(server_process)

    def wait(tasks, **options):
        built.progress.episode_ended(20.0)
        play_and_update(built)
        return tasks, []  # the worker has ended
    fake_ray.wait = wait
    assert supervisor.next_score() == 20.0


@pytest.mark.timeout(60)  # a lost score would be waited for
def test_each_score_arrives_once_and_in_order(rng, server_process, supervisor):
    """Each score of two workers reaches the user's process once, and in order: a worker's update
    brings it to the server process, and a snapshot from there. (Scores here: 0, 1, 2, ...)"""
    workers, sent, arrived = (worker(server_process, 1), worker(server_process, 2)), [], []
    for _ in range(100):
        built = workers[rng.integers(2)]
        for _ in range(rng.integers(4)):  # episodes that have ended since the last update
            sent.append(float(len(sent)))
            built.progress.episode_ended(sent[-1])
        play_and_update(built, learner=rng.integers(2), frames=1)
        while len(arrived) < len(sent):
            arrived.append(supervisor.next_score())
            supervisor.server.progress.episodes += 1  # or next_score would return it again
    assert arrived == sent


def test_frames_and_values_change_under_the_saving_lock(server_process, supervisor):
    """The user's process takes over both frames and variables while it holds the lock for saving,
    so no checkpoint has the frames of one moment and the variables of another."""
    built, server, at_enter_and_exit = worker(server_process), supervisor.server, []
    built.progress.episode_ended(20.0)
    play_and_update(built, frames=10)

    def note(*_):
        frames, updates = server.progress.frames, checkpoint_values(server)[UPDATES]
        at_enter_and_exit.append((frames, updates))
    lock = server.checkpoint.lock = unittest.mock.MagicMock()
    lock.__enter__.side_effect = lock.__exit__.side_effect = note
    supervisor.next_score()
    assert at_enter_and_exit == [(0, 0), (100 + 10, 1 + 1)]  # 100 and 1 are the fixtures'


def test_a_stop_ends_the_wait_for_an_answer(server_process, fake_ray, monkeypatch):
    """If all threads have to stop while a learner waits for the server's answer, it gives up after
    the try that is under way, and its update returns the weights that have come last."""
    def get(answer, timeout):
        tries.append(answer)
        built.progress.stop()  # another thread fails, say
        raise exceptions.GetTimeoutError
    built, tries = worker(server_process), []
    built.server.server_process = unittest.mock.Mock()  # its answer never comes
    monkeypatch.setattr(fake_ray, "get", get)
    assert helpers.equal(built.server.update(np.zeros(3)), built.server.latest)  # any gradients
    assert len(tries) == 1


@pytest.mark.parametrize("answer, seconds, error", [
    (exceptions.GetTimeoutError(), 60, "doesn't answer for 60 seconds"),
    (exceptions.RayActorError(), 0.5, SERVER_DIED)], ids=["silent for a minute", "dead"])
def test_no_answer_is_an_error(fake_ray, answer, seconds, error):
    """If the server process is silent for a minute, or dead, an error says so. A dead one isn't
    waited for: the first try, of 0.5 s, is the only one. (In place of an answer Ray raises these.)
    """
    with pytest.raises(ConnectionError, match=error):
        distributed.wait_for(answer, a3c.Progress(helpers.options()))
    assert sum(fake_ray.timeouts) == seconds  # of all tries together


def test_a_worker_ends_once_the_run_is_over(server_process):
    """Once the run is over (the server's `end`), a worker's next update lets its learners end."""
    built = worker(server_process)
    server_process.end.remote()
    play_and_update(built)
    with pytest.raises(a3c.Stopped):
        built.progress.next_frame()


def test_once_learned_a_running_worker_ends(server_process, supervisor):
    """Once the task is learned, the main process tells the server process to end, and a running
    worker's learners stop after their next update; else they would play during the films."""
    built = worker(server_process)
    supervisor.server.progress.phase = "learned"
    with pytest.raises(a3c.Stopped):
        supervisor.next_score()
    play_and_update(built)  # its answer says so
    with pytest.raises(a3c.Stopped):
        built.progress.next_frame()


def test_without_workers_the_server_process_isnt_called(supervisor):
    """Once all workers have ended, `next_score` calls the server process no more, not even its
    `end`: Ray would shut down before it answers, and print an error."""
    supervisor.tasks, supervisor.server_process = {}, unittest.mock.Mock()
    supervisor.server.progress.phase = "learned"
    with pytest.raises(a3c.Stopped):  # as the task is learned, there is no next score
        supervisor.next_score()
    assert not supervisor.server_process.method_calls


@pytest.mark.timeout(30)
def test_a_hanging_worker_doesnt_keep_a_run_from_ending(supervisor, monkeypatch):
    """A worker ends by itself only when all frames are played. So once one has, all frames count
    as played, and the test thread stops waiting, though another worker hangs and never reports."""
    monkeypatch.setattr(a3c, "GRACE_SECONDS", 0.1)
    progress = supervisor.server.progress
    progress.learning_threads = {"local_thread1"}  # never ends
    supervisor.tasks = {PLAYS_ON: 1, "has ended": 2}
    tester = helpers.start_waiting(progress, progress.wait_for_evaluation)
    supervisor.task_ended("has ended")
    supervisor.fetch_snapshot()  # brings the number of frames
    tester.join()  # for ever, if nothing wakes it
    assert progress.frames == progress.max_frames


def test_a_late_snapshot_doesnt_replace_weights_that_passed(supervisor):
    """A snapshot that arrives after a passed evaluation doesn't replace the weights that passed.
    Its own were never evaluated, and must get neither into the films nor into the checkpoint."""
    really = supervisor.server_process.wrapped.snapshot

    def snapshot(seen):
        supervisor.server.progress.phase = "learned"  # the evaluation ends while this waits
        return really(seen)
    before = checkpoint_values(supervisor.server)
    _, _, others = really()
    assert others[UPDATES] != before[UPDATES]  # so the snapshot's values differ
    supervisor.server_process.wrapped.snapshot = snapshot
    with pytest.raises(a3c.Stopped):
        supervisor.next_score()
    np.testing.assert_equal(checkpoint_values(supervisor.server), before)


@pytest.mark.parametrize("error, says", [
    (exceptions.RayTaskError("work", "its traceback", ValueError("on\npurpose")), "on purpose"),
    (exceptions.WorkerCrashedError(), "The worker died unexpectedly")], ids=["failed", "died"])
def test_a_worker_that_failed_or_died_ends_the_run(supervisor, error, says):
    """If a worker's code raises an exception, or its process dies, the run ends with an error that
    says which worker it was, and why. (The fake Ray raises a task that is an exception.)"""
    supervisor.tasks = {PLAYS_ON: 1, error: 2}  # each task, and the number of its worker
    with pytest.raises(RuntimeError, match=f"^worker 2 failed: {says}") as raised:
        supervisor.next_score()
    assert raised.value.__cause__ is error


def run_worker(fake_ray, core=0, **constants):
    """Do all that a worker does, but on all cores unless these constants of the script say so."""
    words = ["--render", "none", "--seed", "5"]
    constants = {"SHARE_ONE_CORE": False, **constants}
    fake_ray.start(distributed.work, 1, core, None, constants, words, CountingServer)


@pytest.mark.parametrize("machines, wanted", [(1, [1, 2, 3, 4]), (2, [0, 1, 1, 2])])
def test_workers_of_a_machine_get_different_cores(
        fake_ray, monkeypatch, supervisor, machines, wanted):
    """Workers on one machine get different core numbers. (If Ray spreads four evenly over two
    machines, 1 and 3 share one, and 2 and 4 the other. A dead machine doesn't count.)"""
    fake_ray.nodes = lambda: [{"Alive": True}] * machines + [{"Alive": False}]
    monkeypatch.setattr(distributed, "ServerProcess", unittest.mock.Mock())
    monkeypatch.setattr(distributed, "work", lambda number, core, *args: cores.append(core))
    cores, supervisor.classes = [], [CountingServer]
    supervisor.options = types.SimpleNamespace(processes=4, workers=8, address="local")
    supervisor.start(supervisor.server)
    assert cores == wanted


def test_a_worker_uses_only_allowed_cores(fake_ray, monkeypatch):
    """A worker runs only on cores that are allowed: taskset, say, has left it 3 and 5. `core`
    counts through these from 0, and begins again after the last."""
    cores = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, x: cores.append(x), raising=False)
    monkeypatch.setattr(a3c, "main", lambda *args: None)
    for core in 0, 1, 2:
        run_worker(fake_ray, core, SHARE_ONE_CORE=True)
    assert cores == [{3}, {5}, {3}]


def test_the_reason_of_a_worker_that_exits_is_kept(fake_ray, monkeypatch):
    """If a worker calls sys.exit with a reason, the error says this reason; Ray alone would only
    say that it has died. (The script's main exits so if a thread fails with an OSError.)"""
    monkeypatch.setattr(a3c, "main", lambda *args: sys.exit("on purpose"))
    with pytest.raises(RuntimeError, match="^on purpose$"):
        run_worker(fake_ray)


def test_a_worker_has_room_for_all_scores_between_two_calls(fake_ray, monkeypatch):
    """Until a worker's next call to the server takes its scores, `progress.recent` keeps them all,
    even if THRESHOLD_EPISODES, its size in the script, is 2. Each of the worker's 8 learners ends
    one episode at most between two calls."""
    room = []
    monkeypatch.setattr(a3c, "main", lambda *args: room.append(
        a3c.Progress(helpers.options()).recent.maxlen))
    run_worker(fake_ray, THRESHOLD_EPISODES=2)
    assert room[0] >= 8


def test_each_run_counts_on_from_the_saved_frames(fake_ray, tmp_path, monkeypatch, capsys):
    """Each of three runs counts on from the frames in the checkpoint before it, plays about 300
    more, and prints the number that it saves. ("About": a worker reports its frames with every
    update, so the last ten of each of the two processes may stay unreported.)"""
    class Environment(a3c.Environment):
        def reward(self, *step):
            steps.append(step)
            return super().reward(*step)
    monkeypatch.chdir(tmp_path)
    words = "--render none --processes 2 --workers 1 --max-frames 300 --checkpoint saved".split()
    before, unreported = 0, 2 * 10
    for _ in range(3):
        steps = []  # that are really played
        status = distributed.main(words, CountingServer, environment_class=Environment)
        frames, _ = latest_checkpoint()
        assert status == NOT_LEARNED and abs(frames - before - 300) <= unreported
        assert frames - before <= len(steps) <= frames - before + unreported
        assert f"Not learned after {frames} frames" in capsys.readouterr().out
        before = frames


def test_workers_play_on_at_the_threshold(fake_ray, monkeypatch, capsys):
    """Workers play on when their scores reach the threshold: only the process that the user has
    started evaluates. (With the fake Ray, all frames are played before its one evaluation.)"""
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 30)  # soon reached
    words = "--render none --workers 1 --seed 5 --max-frames 10000".split()
    assert distributed.main(words) == LEARNED
    out = capsys.readouterr().out
    [frames] = re.findall(r"^Learned after (\d+) frames", out, re.M)
    assert int(frames) > 10_000 - 20  # the last ten of each worker may stay unreported
    assert out.count("Evaluation") == 1


def test_the_script_plays_a_checkpoint_of_distributed(fake_ray, tmp_path):
    """The script's own --play can load what distributed.py has saved."""
    words = ["--render", "none", "--checkpoint", str(tmp_path)]
    distributed.main([*words, "--max-frames", "50"])
    assert a3c.main([*words, "--play"]) == LEARNED  # as always with --play


def test_play_uses_the_users_own_classes(fake_ray, saved):
    """--play starts no workers, but builds all four classes that the user has given."""
    def noting(original):
        class Own(original):
            def __init__(self, *args):
                used.add(original)
                super().__init__(*args)
        return Own
    classes, used = (a3c.ParameterServer, a3c.LocalBrain, a3c.Agent, a3c.Environment), set()
    words = ["--render", "none", "--play", "--test-episodes", "1", "--checkpoint", str(saved)]
    assert distributed.main(words, *map(noting, classes)) == LEARNED
    assert used == set(classes) and not fake_ray.asked  # Ray starts nothing


@pytest.mark.parametrize("words, reason", [
    ("--processes 0", "--processes"), ("--workers 0", "--workers"), ("--seed -1", "--seed"),
    ("--address foo:1", "--address"),
    ("--checkpoint damaged", "--checkpoint")])
def test_refusals_come_before_ray_starts(fake_ray, tmp_path, monkeypatch, capsys, words, reason):
    """Wrong options and a damaged checkpoint are refused before Ray starts, which takes seconds."""
    monkeypatch.chdir(tmp_path)
    Path("damaged").mkdir()
    Path("damaged", "checkpoint").write_text('model_checkpoint_path: "model-7"\n')
    fake_ray.init = unittest.mock.Mock()
    assert reason in helpers.refusal(capsys, *words.split(), main=distributed.main)
    assert not fake_ray.init.called


def test_a_missing_cluster_is_refused_in_one_line(fake_ray, capsys):
    """If there is no cluster to join, a single line says so, though Ray's message has several."""
    error = ConnectionError("no cluster\nfor further help, read a page")
    fake_ray.init = unittest.mock.Mock(side_effect=error)
    line = helpers.refusal(capsys, "--address", "auto", main=distributed.main)
    assert "no cluster for further help" in line


@pytest.mark.parametrize("during", ["init", "get"])  # Ray starts, the server process answers
def test_ctrl_c_while_ray_starts_prevents_the_workers(fake_ray, monkeypatch, capsys, during):
    """If Ctrl-C comes while Ray or the server process starts, no worker starts, and Ray ends."""
    def ctrl_c_comes(*args, **kwargs):
        signal.raise_signal(signal.SIGINT)
    setattr(fake_ray, during, ctrl_c_comes)
    fake_ray.shutdown = unittest.mock.Mock()
    server, work = unittest.mock.Mock(), unittest.mock.Mock()
    monkeypatch.setattr(distributed, "ServerProcess", server)
    monkeypatch.setattr(distributed, "work", work)
    assert distributed.main(["--render", "none"]) == INTERRUPTED
    assert capsys.readouterr().err == "Stopped after 0 frames\n"
    assert server.called and not work.called
    fake_ray.shutdown.assert_called_once_with()


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    """distributed.py needs a package that the script doesn't need. Without it, it says so in one
    line and ends."""
    monkeypatch.setitem(sys.modules, "ray", None)  # as if this package were missing
    with pytest.raises(SystemExit, match=r"\A.+: run  pip install -r tests/requirements.txt\Z"):
        runpy.run_path(distributed.__file__)


@pytest.mark.parametrize("address", ["local", "auto"])
def test_ray_init_gets_the_address(fake_ray, address):
    """Ray is given the user's --address: local starts a new cluster, auto joins the machine's."""
    distributed.main(["--render", "none", "--max-frames", "50", "--address", address])
    assert fake_ray.address == address


def test_ray_reserves_nothing_and_restarts_nobody(fake_ray):
    """Processes reserve no cores, or they would wait for ever where there are fewer. Ray doesn't
    restart a worker that dies (by default it would three times), and uses all machines (SPREAD)."""
    distributed.main(["--render", "none", "--max-frames", "50"])
    assert fake_ray.asked == {
        "ServerProcess": {"num_cpus": 0},
        "work": {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": "SPREAD"}}


def test_the_line_seed_counts_the_learners_of_all_processes(fake_ray, capsys):
    """The line "Seed" gives the number of all learners: two processes of three have six."""
    words = "--render none --workers 3 --processes 2 --seed 5 --max-frames 50"
    distributed.main(words.split())
    assert "\nSeed 5, 6 learning threads\n" in capsys.readouterr().out


@pytest.fixture
def noting_server():
    """A class for servers, which note their process's GAMMA and options in its list `noted`: the
    process that the user has started, then the server process, then the workers."""
    class Server(a3c.ParameterServer):
        noted = []

        def __init__(self, session, progress):
            super().__init__(session, progress)
            self.noted.append((a3c.GAMMA, progress.options))
    return Server


def test_all_processes_get_the_users_constants(fake_ray, monkeypatch, noting_server):
    """All four processes (the user's, the server process, two workers) have the user's GAMMA."""
    monkeypatch.setattr(a3c, "GAMMA", np.float32(0.5))
    distributed.main("--render none --max-frames 50".split(), noting_server)
    assert [gamma for gamma, _ in noting_server.noted] == [0.5] * 4


def test_workers_have_no_files_and_their_own_seeds(fake_ray, tmp_path, noting_server):
    """Only the user's process gets --checkpoint and --logdir, and each worker gets another seed."""
    folder = str(tmp_path)
    words = "--render none --max-frames 50 --seed 5".split()
    distributed.main([*words, "--checkpoint", folder, "--logdir", folder], noting_server)
    of_user, *others = (options for _, options in noting_server.noted)
    assert (of_user.checkpoint, of_user.logdir) == (folder, folder)
    assert all(options.checkpoint is options.logdir is None for options in others)
    server_process, *workers = (options.seed for options in others)
    assert (server_process, workers) == (5, [2 * 5 + 1, 2 * 5 + 2])


# With Ray

@pytest.fixture
def start_distributed(tmp_path, monkeypatch):
    """start_distributed(option...): the program, with all its processes in one session."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    # Ray's processes would otherwise give way to all others on a busy machine.
    monkeypatch.setenv("RAY_worker_niceness", "0")

    def start(*args):
        args = "--render", "none", "--workers", 2, "--seed", 5, *args
        return helpers.start(*args, cwd=tmp_path, program=__file__, start_new_session=True)
    return start


def alive(process):
    """The processes of its session, but for those that have ended and wait to be collected."""
    running = rf"^ *{process.pid} +\d+ +[^Z].*"
    return re.findall(running, subprocess.getoutput("ps -e -o sid=,pid=,stat=,args="), re.M)


def wait_until_gone(process):
    """Wait for all processes of its session, for at most a minute."""
    latest = time.monotonic() + 60
    while alive(process) and time.monotonic() < latest:
        time.sleep(0.1)


def ctrl_c(process):
    """Press it in a terminal, which sends it to all processes, and then more signals follow."""
    os.killpg(process.pid, signal.SIGINT)
    for number in signal.SIGTERM, signal.SIGINT:
        time.sleep(0.05)
        process.send_signal(number)


def send_to_server(process, number):
    [server] = [line for line in alive(process) if "ray::ServerProcess" in line]
    os.kill(int(server.split()[1]), number)


def sigterm_while_the_server_hangs(process):
    send_to_server(process, signal.SIGSTOP)
    process.terminate()


def the_server_is_killed(process):
    send_to_server(process, signal.SIGKILL)


@linux
@pytest.mark.parametrize("end, status, says", [
    (ctrl_c, INTERRUPTED, "Stopped after {} frames\n"),
    pytest.param(sigterm_while_the_server_hangs, INTERRUPTED, "Stopped after {} frames\n",
                 marks=pytest.mark.long),
    pytest.param(the_server_is_killed, FAILED, f"local_thread1 failed: {SERVER_DIED}\n",
                 marks=pytest.mark.long)],
    ids=["Ctrl-C", "SIGTERM while the server hangs", "the server is killed"])
def test_a_run_that_is_ended_saves_and_leaves_no_process(
        start_distributed, end, status, says):
    """However a run is ended, it saves its latest snapshot, status and message say why it ended,
    and no process stays. (A last SIGTERM, which `main` below sends, changes nothing.)"""
    process = start_distributed("--checkpoint", "saved")
    helpers.read_until(process, "mean")  # printed after fifty episodes of the workers
    end(process)
    ended, _, err = helpers.wait_for_end(process, seconds=120)
    frames, updates = latest_checkpoint()
    assert (ended, err) == (status, says.format(frames))
    assert updates >= frames / 10 > 0  # an update is of ten frames, or of fewer
    wait_until_gone(process)
    assert not alive(process)


def main():
    try:
        return distributed.main(None, CountingServer)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)  # is ignored, even after Ray's shutdown


if __name__ == "__main__":
    a3c.LEARNED_MEAN = float("inf")
    a3c.run_program(main)
