"""A3C in several processes, on one machine or on many, with Ray.

Python's lock (the GIL) lets only one thread of a process run Python at a time. Several processes
don't share that lock, and may even be on several machines. Here the parameter server has a process
of its own, as in Gorila (arXiv:1507.04296), and so has each worker, whose learners are threads. So
there are three kinds of server: the real one in `ServerProcess`, which alone is moved by gradients,
a `ServerCopy` in each worker, and in the process that you start a `Mirror`, which evaluates and
saves. Who calls whom:
    main            in the process that you start: runs the script's main with the `Mirror`, which
                    starts the `ServerProcess` and then the workers, each a call of `work`.
    work            runs the script's main with a `ServerCopy`, from which its learners pull.
    ServerCopy      sends each gradient g, with a `Report`, to `ServerProcess.update`.
    ServerProcess   does W <- W - RMSProp(g), and returns W for the copy in an `Answer`.
    Supervisor      gets a `Snapshot` several times a second, so that `main` can print, evaluate and
                    save. Then it calls `ServerProcess.end`, and the workers end.
In Ray, `handle.method.remote(...)` calls a method in another process, and doesn't wait for it.
"""
import argparse
import collections
import contextlib
import os
import signal
import uuid

import synchronous
from processes import Answer, Report, Snapshot, Supervisor, all_variables, load, read, wait_for
from script import a3c, np, tf


class Counts:
    """What all workers have played. If an answer gets lost, Ray repeats the call, maybe after newer
    ones. So a report tells all that its worker has played, and only what is new counts."""
    def __init__(self, frames):
        self.frames = collections.Counter({"earlier runs": frames})  # of each worker
        self.episodes = collections.Counter()  # of each worker
        self.scores = []  # of all episodes

    def add(self, report):
        worker = report.worker
        new_episodes = report.episodes - self.episodes[worker]
        self.frames[worker] = max(report.frames, self.frames[worker])
        self.episodes[worker] = max(report.episodes, self.episodes[worker])
        if new_episodes > 0:
            self.scores += report.scores[-new_episodes:]


class ServerProcess:
    """The parameter server. It owns all variables, and answers one call at a time."""
    def __init__(self, constants, server_class, words, frames, values):
        vars(a3c).update(constants)
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            self.server = server_class(a3c.open_session(), a3c.Progress(a3c.parse(words)))
            gradients = [tf.placeholder(w.dtype, w.shape) for w in self.server.weights]
            with tf.control_dependencies([self.server.build_update(gradients)]):
                weights = [w.read_value() for w in self.server.weights]  # the new ones
            self.apply = a3c.GraphCall(self.server.session, gradients, weights)
            self.server.initialize()
            graph.finalize()
        load(self.server, all_variables(self.server), values)
        self.counts = Counts(frames)
        self.updates = 0
        self.ended = False

    def update(self, report, *gradients):
        """Make an update with a learner's gradients. If Ray repeats the call, they are applied
        twice, but what it reports isn't counted twice."""
        self.counts.add(report)
        progress, frames = self.server.progress, self.counts.frames
        progress.frames = frames.total()
        others_frames = progress.frames - frames[report.worker]
        if self.ended:
            others_frames = progress.max_frames  # so that the worker has none left to play
        self.updates += 1
        return Answer(self.updates, others_frames, self.apply(*gradients))

    def snapshot(self, scores_seen=0):
        """What is known now, without the first `scores_seen` scores."""
        counts = self.counts
        return Snapshot(counts.scores[scores_seen:], counts.frames.total(), read(self.server),
                        workers=len(counts.episodes))

    def end(self):
        """Let the workers end, each after its next update."""
        self.ended = True


class ServerCopy(a3c.ParameterServer):
    """A worker's copy of the parameter server. server_process: the handle of the real one."""
    def initialize(self):
        super().initialize()
        snapshot = wait_for(self.server_process.snapshot.remote(), self.progress)
        load(self, self.weights, snapshot.values)
        self.latest = self.session.run(self.weights)  # the newest weights that have come
        self.updates = 0  # how many had made them
        self.others_frames = self.progress.frames = snapshot.frames
        self.worker = uuid.uuid4().hex  # new if Ray starts the worker again
        # A report may be the first to tell of two scores of each learner: one from before a call
        # that is still under way, and one from after it, if the worker has stopped waiting.
        self.progress.scores = collections.deque(
            maxlen=max(a3c.PRINT_EPISODES, 2 * self.progress.options.workers))

    def build_update(self, gradients):
        """Returns the operation that calls `update`, and copies the weights that it returns."""
        weights = tf.py_func(self.update, gradients, [w.dtype for w in self.weights])
        return tf.group(*[w.assign(x, read_value=False) for w, x in zip(self.weights, weights)])

    def update(self, *gradients):
        """Let the server process make an update. Returns the newest weights that have come."""
        progress = self.progress
        with progress.changed:
            own_frames = progress.frames - self.others_frames
            report = Report(self.worker, own_frames, progress.episodes, list(progress.scores))
        answer = self.server_process.update.remote(report, *gradients)
        with contextlib.suppress(a3c.Stopped):  # can't pass py_func; next_frame raises it again
            self.accept(wait_for(answer, progress))
        return [np.array(w) for w in self.latest]  # Ray's own arrays are read-only

    def accept(self, answer):
        """Take over the weights, and the frames of other workers. The learners of this worker don't
        wait for one another, so an older answer may come after a newer one. (They also assign the
        weights without a lock, so their copy may go back for a moment.)"""
        with self.progress.changed:
            if answer.updates < self.updates:
                return
            self.updates, self.latest = answer.updates, answer.weights
            self.progress.frames += answer.others_frames - self.others_frames
            self.others_frames = answer.others_frames


def work(core, handle, constants, words, server_class, *classes):
    """A worker: a Ray task. It learns until the run is over or all frames are played. core: the
    number of the CPU core for its learners. handle: the server process's."""
    vars(a3c).update(constants)
    a3c.THRESHOLD_MEAN = float("inf")  # a worker doesn't evaluate
    a3c.SIGNALS = ()  # they are for the process that the user has started
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Ray starts a worker again that dies of it
    if a3c.SHARE_ONE_CORE and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[core % len(cores)]})

    class Server(ServerCopy, server_class):
        server_process = handle
    try:
        a3c.main(words, Server, *classes)
    except SystemExit as error:  # Ray would start the worker again, again and again
        raise RuntimeError(f"sys.exit({error.code!r})") from error


def main(argv=None, server_class=a3c.ParameterServer, brain_class=a3c.LocalBrain,
         agent_class=a3c.Agent, environment_class=a3c.Environment):
    """The script's main in several processes, all of which have your values of its constants."""
    if issubclass(server_class, synchronous.Server):
        a3c.refuse("distributed.py doesn't go with synchronous.py")
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, allow_abbrev=False,
                                     epilog="All other options: a3c_cartpole.py --help")
    add = parser.add_argument
    add("--processes", type=int, default=2, metavar="N", help="worker processes (default: 2)")
    add("--workers", type=int, default=a3c.N_WORKERS, metavar="N",
        help="learning threads of each (default: %(default)s)")
    add("--address", choices=("local", "auto"), default="local",
        help="auto: use the Ray cluster that this machine belongs to")
    options, words = parser.parse_known_args(argv)
    if min(options.processes, options.workers) < 1:
        parser.error("--processes and --workers must be at least 1")
    supervisor = Supervisor(options, server_class, brain_class, agent_class, environment_class)

    class Mirror(server_class):
        def initialize(self):
            super().initialize()  # what is refused is refused here
            if not self.progress.options.play:
                supervisor.start(self, ServerProcess, work)

    class Scores(environment_class):
        def run(self):
            """Plays nothing. The script's one "learning" thread here, local_thread1, waits for the
            workers' scores, as if it had played their episodes."""
            return supervisor.next_score()

    # The script's main reacts to signals. Before and after it they could leave processes behind.
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in a3c.SIGNALS}
    try:
        return a3c.main([*words, "--workers", "1"], Mirror, brain_class, agent_class, Scores)
    finally:
        supervisor.end()
        for number, handler in handlers.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    a3c.run_program(main)
