"""A3C in several processes, on one machine or on many, with Ray.

Python's lock (the GIL) lets only one thread of a process run Python at a time. Several processes
don't share that lock, or even a machine. Here the parameter server has a process of its own, as in
Gorila (arXiv:1507.04296), and so has each worker:
    worker -> parameter server: a gradient g; all frames that the worker has played; new scores
    parameter server:           θ <- θ - RMSProp(g)
    worker <- parameter server: θ; all frames that the other workers have played
Each worker runs the script's main, and its learners pull from its copy of θ. The process that you
start runs it, too, but its one learner asks for new scores and variables instead of playing.
"""
import argparse
import collections
import contextlib
import os
import signal

import synchronous
from script import a3c, np, tf
from processes import Workers, load, ray, wait_for

Look = collections.namedtuple("Look", "scores frames values workers")  # what `look` returns


class ServerProcess:
    """The parameter server. It owns all variables, and answers one call at a time."""
    def __init__(self, constants, server_class, words, frames, values):
        vars(a3c).update(constants)
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            self.server = server_class(a3c.open_session(), a3c.Progress(a3c.parse(words)))
            gradients = [tf.placeholder(w.dtype, w.shape) for w in self.server.weights]
            with tf.control_dependencies([self.server.build_update(gradients)]):
                weights = [w.read_value() for w in self.server.weights]
            self.apply = a3c.GraphCall(self.server.session, gradients, weights)
            self.variables = tf.global_variables("parameter_server/")
            self.server.initialize()
            graph.finalize()
        load(self.server, self.variables, values)
        self.frames = collections.Counter({"before": frames})  # in earlier runs; of each worker
        self.episodes = collections.Counter()  # of each worker that has called
        self.scores = []  # of all episodes
        self.ended = False

    def update(self, worker, frames, episodes, scores, *gradients):
        """Returns the frames of all other workers, and the new weights. If an answer gets lost, Ray
        repeats the call, so each call tells all frames and episodes of the worker, and its latest
        scores. (A repeated update does no harm.)"""
        self.frames[worker] = max(frames, self.frames[worker])
        self.server.progress.frames = self.frames.total()
        new = max(episodes - self.episodes[worker], 0)
        self.episodes[worker] += new
        self.scores += scores[-new:] if new else []
        others = self.server.progress.frames - self.frames[worker]
        if self.ended:
            others = self.server.progress.max_frames  # so that the worker ends
        return others, self.apply(*gradients)

    def look(self, seen=0):
        """Returns the scores after the first `seen` ones, all frames, the variables' values, and
        how many workers have called. A worker that was started again counts as a new one."""
        values = self.server.session.run({v.op.name: v for v in self.variables})
        return Look(self.scores[seen:], self.frames.total(), values, len(self.episodes))

    def end(self):
        """Let the workers end, each after its next update."""
        self.ended = True


class WorkerServer(a3c.ParameterServer):
    """A worker's copy of the parameter server. process: the real one's, see `work`."""
    def initialize(self):
        super().initialize()
        look = wait_for(self.process.look.remote(), self.progress)
        load(self, self.weights, look.values)
        self.latest = self.session.run(self.weights)
        self.worker = ray.get_runtime_context().get_worker_id()  # new if Ray starts it again
        self.progress.frames = self.others = look.frames  # `others`: those of all other workers
        # A call that overtakes all others has, for each learner, a score from before and after it.
        self.progress.scores = collections.deque(maxlen=2 * self.progress.options.workers)

    def build_update(self, gradients):
        weights = tf.py_func(self.update, gradients, [w.dtype for w in self.weights])
        return tf.group(*[w.assign(x, read_value=False) for w, x in zip(self.weights, weights)])

    def update(self, *gradients):
        """Give a learner's gradient to the server process, and wait for its answer. Returns the
        weights that came last."""
        progress = self.progress
        with progress.changed:
            report = progress.frames - self.others, progress.episodes, list(progress.scores)
        answer = self.process.update.remote(self.worker, *report, *gradients)
        with contextlib.suppress(a3c.Stopped):  # then the weights of the last answer must do
            others, self.latest = wait_for(answer, progress)
            with progress.changed:
                new = max(others - self.others, 0)  # an older answer may come later
                self.others += new
                progress.frames += new
        return [np.array(w) for w in self.latest]  # Ray's own arrays are read-only


def work(core, server_process, constants, words, server_class, *classes):
    """A worker: a Ray task. It learns until the run is over or all frames are played. core: the
    number of the CPU core for its learners; None: the script chooses one."""
    vars(a3c).update(constants)
    a3c.THRESHOLD_MEAN = float("inf")  # a worker doesn't evaluate
    a3c.SIGNALS = ()  # they are for the process that the user has started
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Ray starts a worker again that dies of it
    if core is not None and a3c.SHARE_ONE_CORE and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[core % len(cores)]})

    class Copy(WorkerServer, server_class):
        process = server_process
    try:
        a3c.main(words, Copy, *classes)
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
    workers = Workers(options, server_class, brain_class, agent_class, environment_class)

    class Server(server_class):
        def initialize(self):
            super().initialize()  # what is refused is refused here
            if not self.progress.options.play:
                workers.start(self, ServerProcess, work)

    class Environment(environment_class):
        def run(self):
            """To the script's one learning thread here, all workers' episodes are its own."""
            return workers.next_score()

    # The script's main reacts to signals. Before and after it they could leave processes behind.
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in a3c.SIGNALS}
    try:
        return a3c.main([*words, "--workers", "1"], Server, brain_class, agent_class, Environment)
    finally:
        workers.end()
        for number, handler in handlers.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    a3c.run_program(main)
