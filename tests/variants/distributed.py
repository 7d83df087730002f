"""A3C in several processes, on one machine or on many, with Ray (picture: distributed.md).

Python's lock (the GIL) lets only one thread of a process run Python at a time. Several processes
don't share that lock, and may even be on several machines. Here the parameter server has a process
of its own, as in Gorila (arXiv:1507.04296), and so has each worker, whose learners are threads. So
there are three kinds of server: the real one in `ServerProcess`, which alone is moved by gradients,
a `ServerCopy` in each worker, from which its learners pull, and a `Mirror` in the process that you
start, which gets a snapshot several times a second, so that it can print, evaluate and save.
In Ray, `handle.method.remote(...)` calls a method in another process, and doesn't wait for it.
"""
import argparse
import collections
import contextlib
import os
import signal
import sys

import synchronous
from script import a3c, np, tf

try:
    import ray
except ModuleNotFoundError as error:
    sys.exit(f"{error}: run  pip install -r tests/requirements.txt")


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
        load(self.server, values)
        self.frames = collections.Counter({"earlier runs": frames})  # of each worker
        self.scores = []  # of all episodes

    def update(self, worker, frames, scores, *gradients):
        """Make an update with a learner's gradients. Returns the other workers' frames, and the
        new weights. frames: all that this worker has played. scores: those that are new."""
        self.frames[worker] = frames  # for a moment too few, if another call has overtaken this one
        self.scores += scores
        self.server.progress.frames = self.frames.total()
        return self.frames.total() - self.frames[worker], self.apply(*gradients)

    def snapshot(self, scores_seen=0):
        """Returns all scores but the first `scores_seen`, all frames, and the variables' values."""
        values = self.server.session.run(variables(self.server))
        return self.scores[scores_seen:], self.frames.total(), values

    def end(self):
        """Let the workers end, each after its next update: no frames are left to them."""
        self.frames["end"] = self.server.progress.max_frames


class ServerCopy(a3c.ParameterServer):
    """A worker's copy of the parameter server. server_process: the handle of the real one. As far
    as is known here, `progress.frames` is what this worker and all others have played together."""
    def initialize(self):
        super().initialize()
        _, frames, values = wait_for(self.server_process.snapshot.remote(), self.progress)
        load(self, values)
        self.latest = self.session.run(self.weights)  # the weights that have come last
        self.progress.frames = self.others_frames = frames

    def build_update(self, gradients):
        """Returns the operation that calls `update`, and copies the weights that it returns."""
        weights = tf.py_func(self.update, gradients, [w.dtype for w in self.weights])
        return tf.group(*[w.assign(x, read_value=False) for w, x in zip(self.weights, weights)])

    def update(self, *gradients):
        """Let the server process make an update. Returns the weights that have come last."""
        progress = self.progress
        with progress.changed:
            frames = progress.frames - self.others_frames
            scores = list(progress.recent)  # since the last call
            progress.recent.clear()
        answer = self.server_process.update.remote(self.worker, frames, scores, *gradients)
        with contextlib.suppress(a3c.Stopped):  # can't pass py_func; next_frame raises it again
            others_frames, self.latest = wait_for(answer, progress)
            with progress.changed:
                progress.frames += others_frames - self.others_frames
                self.others_frames = others_frames
        return [np.array(w) for w in self.latest]  # Ray's own arrays are read-only


def work(number, core, handle, constants, words, server_class, *classes):
    """A worker: a Ray task. It learns until the run is over or all frames are played. core: the
    number of the CPU core for its learners. handle: the server process's."""
    vars(a3c).update(constants)
    # A worker doesn't evaluate. Its `progress.recent` only keeps scores until the next call.
    a3c.THRESHOLD_EPISODES = 1000
    a3c.SIGNALS = ()  # they are for the process that the user has started
    if a3c.SHARE_ONE_CORE and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[core % len(cores)]})

    class Server(ServerCopy, server_class):
        server_process, worker = handle, number
    try:
        a3c.main(words, Server, *classes)
    except SystemExit as error:  # Ray would only say that the worker has died
        raise RuntimeError(error.code) from error


# What follows starts, watches and ends these processes with Ray.

def variables(server):
    """{name: variable} of all variables that a checkpoint holds."""
    return {v.op.name: v for v in server.checkpoint.variables}


def load(server, values):
    """Give a server's variables these values, {name: value}."""
    for name, v in variables(server).items():
        v.load(values[name], server.session)


def wait_for(answer, progress, seconds=60):
    """The server process's answer. Raises Stopped if all threads have to stop, and ConnectionError
    if the answer doesn't come."""
    for _ in range(2 * seconds):
        progress.raise_if_stopped()
        try:
            with contextlib.suppress(ray.exceptions.GetTimeoutError):
                return ray.get(answer, timeout=0.5)
        except ray.exceptions.RayActorError as error:
            raise ConnectionError("the parameter server's process has died") from error
    raise ConnectionError(f"the parameter server's process doesn't answer for {seconds} seconds")


class Supervisor:
    """All workers and their server process, as the process that the user has started sees them."""
    def __init__(self, options, *classes):
        self.options = options
        self.classes = classes  # the user's; the first one is the server's
        self.tasks = {}  # the workers that run, and their numbers
        self.scores = []  # of all episodes that this process knows of

    def start(self, server):
        """Start Ray, the server process and the workers. server: the script's, in this process."""
        self.server, progress, options = server, server.progress, self.options
        seed, processes = progress.options.seed, options.processes
        progress.options.workers = processes * options.workers  # for the line "Seed"

        # The other processes find the user's modules, and set TensorFlow up, as this one does.
        env_vars = {name: value for name, value in os.environ.items() if name.startswith("TF_")}
        env_vars["PYTHONPATH"] = os.pathsep.join(sys.path)
        try:
            ray.init(options.address, logging_level="ERROR", log_to_driver=False,
                     runtime_env={"env_vars": env_vars})
        except Exception as error:
            a3c.refuse(f"Ray doesn't start (argument --address): {a3c.reason(error)}")
        # Ray's own handler would end Python at once, even while it saves.
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
        a3c.say(f"Ray starts {processes} worker processes")

        # num_cpus=0: not limited by cores. Ray starts nothing again that has died.
        start = ray.remote(num_cpus=0)(ServerProcess).remote
        self.server_process = start(a3c.constants(), self.classes[0], self.words(seed),
                                    progress.frames, server.session.run(variables(server)))
        wait_for(self.server_process.snapshot.remote(), progress, 300)  # TensorFlow is loaded there
        progress.raise_if_stopped()

        # SPREAD: over all machines
        start = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy="SPREAD")(work).remote
        machines = sum(node["Alive"] for node in ray.nodes())
        for number in range(1, processes + 1):
            words = self.words(seed * processes + number)  # another for each worker and --seed
            core = number // machines  # another for each on a machine, if Ray spreads them evenly
            task = start(number, core, self.server_process, a3c.constants(), words, *self.classes)
            self.tasks[task] = number

    def words(self, seed):
        """The command line of another process. It makes no files."""
        return ["--render", "none", "--workers", str(self.options.workers), "--seed", str(seed),
                "--max-frames", str(self.server.progress.max_frames)]

    def next_score(self):
        """Waits for the next episode of any worker, and returns its score."""
        progress = self.server.progress
        while len(self.scores) == progress.episodes:  # the script has counted all of them
            if not self.tasks:
                raise a3c.Stopped
            if progress.phase == "learned":
                self.server_process.end.remote()  # before the films, which may take long
                raise a3c.Stopped
            ended, _ = ray.wait(list(self.tasks), timeout=0.2)
            self.fetch_snapshot()  # after `wait`, so with the last scores of those that have ended
            for task in ended:
                self.task_ended(task)
        return self.scores[progress.episodes]

    def fetch_snapshot(self):
        """Take over the server process's new scores, its frames, and its variables' values."""
        progress = self.server.progress
        snapshot = self.server_process.snapshot.remote(len(self.scores))
        scores, frames, values = wait_for(snapshot, progress)
        with self.server.checkpoint.lock, progress.changed:  # so no checkpoint mixes two snapshots
            if progress.phase == "learned":  # the weights that have passed must stay
                return
            load(self.server, values)
            progress.frames = min(frames, progress.max_frames)  # `end` makes it larger
            progress.changed.notify_all()
        self.scores += scores

    def task_ended(self, task):
        number = self.tasks.pop(task)
        try:
            ray.get(task)
        except ray.exceptions.RayError as error:
            why = getattr(error, "cause", error)  # what the worker has raised, or that it has died
            raise RuntimeError(f"worker {number} failed: {a3c.reason(why)}") from error
        self.server_process.end.remote()  # all frames are played, so a worker that hangs may hang

    def end(self):
        """End all. If Ray shut down before the workers have ended, it would print errors."""
        if self.tasks:
            self.server_process.end.remote()
            ray.wait(list(self.tasks), num_returns=len(self.tasks), timeout=5)
        ray.shutdown()
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))  # Ray has reset it in C


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
                with contextlib.suppress(a3c.Stopped):  # by Ctrl-C
                    supervisor.start(self)

    class Scores(environment_class):
        def run(self):
            """Plays nothing. The script's one "learning" thread here, local_thread1, waits for the
            workers' scores, as if it had played their episodes."""
            return supervisor.next_score()

    try:
        return a3c.main([*words, "--workers", "1"], Mirror, brain_class, agent_class, Scores)
    finally:
        supervisor.end()


if __name__ == "__main__":
    a3c.run_program(main)
