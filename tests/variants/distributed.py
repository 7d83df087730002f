"""A3C with the parameter server in a process of its own, and learners in others: as in Gorila.

Paper: Gorila, arXiv:1507.04296 (of DQN). Processes share no lock (GIL), and need not share a
machine. `python distributed.py` is the parameter server, and starts workers (`--processes 2`), each
of which runs the script's main, with its options. On several machines, start by hand, in order:

    python distributed.py --ps HOST:PORT             on HOST: the parameter server alone
    python distributed.py --ps HOST:PORT --task K    the workers: K = 0, 1, 2, ...

Protocol: weights θ, RMSProp's averages and counters are variables at the parameter server, which
runs a small graph per call (`Remote`). A worker process keeps a copy of θ where the script has θ
itself (`Server`): its threads pull from there. No frame is a call, and an update is only one:

    learner -> parameter server:  the gradient g of its loss; frames played since the last call
    parameter server:             θ <- θ - RMSProp(g);  counters <- counters + news
    learner <- parameter server:  θ and the counters; max_frames and ε go by the frames of all

Each process calls every 50 ms, too (`Progress.run`), to hear of the end. Process 0 makes its first
θ, new or from a checkpoint, that of all. Only its own learners count for the threshold; it alone
evaluates, films and saves. Its end is the end of all, and so is an exception anywhere. A process
that is killed is not missed, and may be started again by hand.

What to look at: lines begin with their process's number; frames are those of all, episodes and
means those of one. On two cores, two processes played half as many frames a second as the script,
for calls cost more than CartPole's steps; but 1.6 times as many if steps compute 1 ms more.
No password, no encryption, and tf.train.Server listens on ALL interfaces: trusted networks only.
"""
import argparse
import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import a3c_cartpole as a3c  # noqa: E402
from a3c_cartpole import np, tf  # noqa: E402

SILENCE = 5  # seconds without an answer, after which the parameter server counts as lost
PATIENCE = 60  # seconds to wait for the first weights, which process 0 makes
FRAMES, MAX_FRAMES, BEGUN, LEARNED, ENDED = COUNTERS = range(5)  # they only grow


class Remote(a3c.ParameterServer):
    """The script's parameter server, as a graph that the other process runs. The variables are
    that process's: all who build this graph for it share them, by their names."""
    def __init__(self, address):
        self.address = address
        with tf.Graph().as_default(), tf.device("/job:ps/task:0/cpu:0"):
            super().__init__(a3c.parse(["--render", "none"]))
            gradients = [tf.placeholder(w.dtype, w.shape) for w in self.weights]
            with tf.name_scope("parameter_server/"):
                update = self.build_update(gradients)
            with tf.control_dependencies([update]):
                weights = [w.read_value() for w in self.weights]
            counters = tf.get_variable("counters", len(COUNTERS), tf.int64, tf.zeros_initializer())
            news = tf.placeholder(tf.int64, len(COUNTERS))
            with tf.control_dependencies([counters.assign_add(news, read_value=False)]):
                counted = counters.read_value()
            variables = tf.global_variables("parameter_server/")  # θ and RMSProp's averages
            values = [tf.placeholder(v.dtype, v.shape) for v in variables]
            assign = [v.assign(x, read_value=False) for v, x in zip(variables, values)]
            call = functools.partial(a3c.GraphCall, self.session)
            self.open = call(targets=[counters.initializer])
            self.put = call(values, targets=assign)
            self.get = call(fetches=[v.read_value() for v in variables])
            self._count = call([news], [counted])
            self._update = call([news, *gradients], [counted, *weights])
        for call in self._count, self._update:  # now, as several threads use them
            call.function = self.session._make_callable_from_options(call.options)

    def open_session(self):
        config = tf.ConfigProto(operation_timeout_in_ms=1000 * SILENCE)  # else it retries for ever
        return tf.Session(f"grpc://{self.address}", config=config)

    def tell(self, news, *gradients):
        """Add `news`, {counter: number}; apply gradients, if any. Returns [counters, *weights]."""
        sent = [[news.get(counter, 0) for counter in COUNTERS], *gradients]
        call = self._update if gradients else self._count
        try:
            return call(*sent)
        except tf.errors.AbortedError:  # the network delivered it twice: once was accepted
            return call(*map(np.zeros_like, sent))


class Server(a3c.ParameterServer):
    """A process's copy of the remote server, which all else takes for the script's server."""
    def __init__(self, task, remote, options):
        self.task, self.remote = task, remote
        options.seed += task  # so that threads don't play what their namesakes elsewhere play
        if task > 0:
            vars(options).update(render="none", checkpoint=None, logdir=None)
        super().__init__(options)
        self.helpers.append(self.progress)
        self.log.print = lambda line, show=self.log.print: show(f"{task}: {line}")

    def make_progress(self, options):
        return Progress(self, options.workers, options.max_frames)

    def build_update(self, gradients):
        super().build_update(gradients)  # never run: it makes the averages, for checkpoints
        self.variables = tf.global_variables("parameter_server/")  # the same as in Remote
        call = functools.partial(self.progress.tell, {})  # lets other threads run while it waits
        weights = tf.py_func(call, gradients, [w.dtype for w in self.weights])
        return tf.group(*[w.assign(x, read_value=False) for w, x in zip(self.weights, weights)])

    def refresh(self):
        """Copy all variables: after a wait, and before they are saved."""
        for variable, value in zip(self.variables, self.remote.get()):
            variable.load(value, self.session)


class Progress(a3c.Progress):
    """The script's Progress, of all processes; and the work of a further thread, `run`."""
    name = "messenger"

    def __init__(self, server, learners, max_frames):
        super().__init__(learners, max_frames)
        self.server = server
        self.chief = server.task == 0
        self.counters = np.zeros(len(COUNTERS), int)  # as last heard, with the frames told since

    def tell(self, news, *gradients):
        """Tell the remote server the news and the frames that it lacks. Returns the weights."""
        with self.lock:
            untold = self.frames - self.counters[FRAMES]
            self.counters[FRAMES] += untold
        counters, *weights = self.server.remote.tell({FRAMES: untold} | news, *gradients)
        with self.lock:
            known = self.counters[FRAMES]
            self.counters = np.maximum(self.counters, counters)  # an older answer may come later
            self.frames += int(self.counters[FRAMES] - known)  # those of others
            self.max_frames = self.counters[MAX_FRAMES]
        self.learned = bool(self.counters[LEARNED])
        if self.counters[ENDED] or self.learned and not self.chief:  # process 0 has tests to show
            self.coordinator.request_stop()
        return weights

    def run(self):
        with self.coordinator.stop_on_exception():
            if self.server.remote.tell({})[0][BEGUN]:
                self.frames = 0  # until heard: this process comes, or comes back, later
            elif self.chief:
                self.server.remote.put(*self.server.session.run(self.server.variables))
                self.tell({BEGUN: 1, MAX_FRAMES: self.max_frames})
            while not (self.learned or self.coordinator.wait_for_stop(0.05)):
                self.tell({})
            if not self.learned:
                self.server.refresh()  # main saves it

    def wait_for_chief(self):
        deadline = time.monotonic() + PATIENCE
        self.wait_until(lambda: self.counters[BEGUN] or time.monotonic() > deadline)
        if not self.counters[BEGUN]:
            raise TimeoutError("process 0 has not begun")
        self.server.refresh()

    def episode_ended(self, score):
        if self.chief:
            super().episode_ended(score)

    def wait_for_threshold(self):
        reached = super().wait_for_threshold()
        self.server.refresh()
        return reached

    def verdict(self, passed):
        if passed:
            self.tell({LEARNED: 1})
        super().verdict(passed)


class Worker(a3c.Worker_thread):
    def learn(self):
        self.progress.wait_for_chief()
        super().learn()


@contextlib.contextmanager
def interrupts_noted():
    """Gives an event that a Ctrl-C or SIGTERM sets; the same again raises KeyboardInterrupt."""
    noted = threading.Event()
    def note(number, frame):
        noted.set()
        signal.signal(number, signal.default_int_handler)
    handlers = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield noted
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def work(task, address, argv):
    """A worker process: the script's main."""
    threading.excepthook = lambda failure: None  # main tells of the first, others echo it
    remote = Remote(address)
    status, ends_all = 1, True
    try:
        try:
            status = a3c.main(argv, functools.partial(Server, task, remote), Worker)
            ends_all = task == 0
        finally:
            if ends_all:
                remote.tell({ENDED: 1 + status})
    except tf.errors.OpError:
        print(f"Process {task} lost the parameter server {address}", file=sys.stderr, flush=True)
    os._exit(status)  # an orderly exit calls the parameter server, which may be gone


def serve(address, argv, processes):
    """The parameter server. This thread starts the workers and waits for them, or for the end."""
    config = tf.ConfigProto(device_count={"GPU": 0})
    server = tf.train.Server(tf.train.ClusterSpec({"ps": [address]}), "ps", 0, config=config)
    address = server.target.removeprefix("grpc://")  # with the port that the system chose for 0
    remote = Remote(address)
    remote.open()
    print(f"Parameter server {address}", flush=True)
    workers = []
    def over():
        if workers:
            return all(worker.poll() is not None for worker in workers)
        return remote.tell({})[0][ENDED]
    with interrupts_noted() as interrupted:
        for task in range(processes):  # in new sessions, which a Ctrl-C here does not reach
            command = [sys.executable, __file__, *argv, "--ps", address, "--task", str(task)]
            workers.append(subprocess.Popen(command, start_new_session=True))
        while not (over() or interrupted.wait(0.1)):
            pass
        [counters] = remote.tell({ENDED: int(interrupted.is_set())})
        deadline = time.monotonic() + 2  # for all to hear of it, and to save
        while time.monotonic() < deadline and not (workers and over()):
            time.sleep(0.1)
        for worker in workers:
            worker.kill()
    if interrupted.is_set():
        print(f"Stopped after {counters[FRAMES]} frames", file=sys.stderr)
        return 130
    return int(counters[ENDED] != 1)  # 1: it was said once, by process 0, with status 0


def main(argv=None):
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, allow_abbrev=False,
                                     description="Learn CartPole with A3C in several processes.",
                                     epilog="All other options: a3c_cartpole.py --help")
    add = parser.add_argument
    add("--processes", type=a3c.whole_number(1, 256), default=2, metavar="N",
        help="workers to start here")
    add("--ps", metavar="HOST:PORT", help="start none: be the parameter server there, or, with ...")
    add("--task", type=a3c.whole_number(0), metavar="K", help="... be its worker number K")
    own, argv = parser.parse_known_args(argv)
    if own.task is not None:
        return work(own.task, own.ps or parser.error("argument --task: name a --ps"), argv)
    options = a3c.parse(argv)  # mistakes show now
    if options.play:
        return a3c.main(argv)
    argv += ["--seed", str(options.seed)]
    return serve(own.ps or "localhost:0", argv, 0 if own.ps else own.processes)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
