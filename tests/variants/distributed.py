"""A3C in several processes, on one machine or on many, with Ray.

What it adds: Python's lock (the GIL) lets only one thread of a process run Python at a time.
Several processes don't share that lock, and they need not even share a machine. Here the parameter
server has a process of its own, which Ray calls an actor. Each worker has one, too:

    worker -> parameter server: the gradient g of an update; frames played since the last call
    parameter server:           θ <- θ - RMSProp(g);  frames <- frames + news
    worker <- parameter server: θ; the frames of all workers; whether the task is learned

Inside a worker little changes. It runs the script's main with its learning threads, and where the
script has θ, it has a copy of θ, which its threads pull from. The command that you type is worker
0: its episodes count for the threshold, and it evaluates, films and saves. The others are Ray
tasks. If one of them is killed, Ray starts it again. If one raises an exception, all end.

    python tests/variants/distributed.py --processes 2

On several machines, with the files in the same place on each:

    ray start --head                     on the first
    ray start --address=HOST:6379        on each of the others; HOST is the first
    python tests/variants/distributed.py --processes 8 --address auto

Your own program runs this way, too, with distributed.main(None, Server, Worker).

A parameter server for many processes is from Gorila, arXiv:1507.04296. What to look at: frames are
those of all workers; episodes and means are those of worker 0. Ray trusts everybody who can reach
its ports, so a cluster needs a network of its own: https://docs.ray.io/en/latest/ray-security/
"""
import argparse
import contextlib
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import a3c_cartpole as a3c  # noqa: E402
from a3c_cartpole import np, tf  # noqa: E402

os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray prints a warning
try:
    import ray
except ModuleNotFoundError as error:
    sys.exit(f"{error}: run  pip install -r tests/requirements.txt")


class Parameters:
    """The parameter server's process. It answers one call after the other.

    server_class: of the server that it holds. settings: the script's constants, {name: value}."""
    def __init__(self, server_class, settings):
        vars(a3c).update(settings)
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            self.server = server_class(a3c.parse(["--render", "none"]))
            gradients = [tf.placeholder(w.dtype, w.shape) for w in self.server.weights]
            with tf.name_scope("parameter_server/"):
                update = self.server.build_update(gradients)
            weights = [w.read_value() for w in self.server.weights]
            self.update = a3c.GraphCall(self.server.session, gradients, targets=[update])
            self.read = a3c.GraphCall(self.server.session, fetches=weights)
            self.variables = self.server.weights + self.server.optimizer.variables()
            graph.finalize()
        self.learned = False

    def begin(self, frames, *values):
        """Worker 0 sends the first values of all variables: new ones, or those of a checkpoint."""
        self.server.progress.frames = frames
        for variable, value in zip(self.variables, values):
            variable.load(value, self.server.session)

    def call(self, frames, *gradients):
        """A worker has played some more frames, and computed gradients."""
        self.server.progress.frames += frames
        if gradients:
            self.update(*gradients)
        return self.server.progress.frames, self.learned, *self.read()

    def state(self):
        """The values of all variables, for a checkpoint."""
        return self.server.session.run(self.variables)

    def end(self):
        self.learned = True


class Server(a3c.ParameterServer):
    """A worker's copy of the parameter server.

    parameters: the actor. number: the worker's. start: starts the other workers, if this is worker
    0. `server_for` sets these three."""
    parameters = number = start = None

    def __init__(self, options):
        super().__init__(options)
        self.checkpoint = Checkpoint(options, self)
        self.told = 0  # frames that the actor and this worker both know of
        if self.number == 0:
            self.helpers.append(Watch(self))

    def build_update(self, gradients):
        super().build_update(gradients)  # never runs, but makes the averages for checkpoints
        weights = tf.py_func(self.call, gradients, [w.dtype for w in self.weights])
        return tf.group(*[w.assign(x, read_value=False) for w, x in zip(self.weights, weights)])

    def call(self, *gradients):
        """Call the actor. Returns its weights."""
        with self.progress.lock:
            untold = self.progress.frames - self.told
            self.told += untold
        try:
            answer = ray.get(self.parameters.call.remote(untold, *gradients))
        except (ray.exceptions.RayActorError, SystemExit):  # the actor has died, or Ray shuts down
            self.progress.coordinator.request_stop()
            return self.latest
        frames, learned, *weights = answer
        with self.progress.lock:
            others = max(frames - self.told, 0)  # answers may overtake each other
            self.told += others
            self.progress.frames += others
        if learned:
            self.progress.learned = True
        self.latest = [np.array(w) for w in weights]
        return self.latest


class Checkpoint(a3c.Checkpoint):
    """Also moves values between this worker and the actor."""
    def load(self):
        super().load()
        server = self.server
        self.averages = server.optimizer.variables()
        server.latest, averages = server.session.run([server.weights, self.averages])
        if server.number == 0:
            first = server.parameters.begin.remote(
                server.progress.frames, *server.latest, *averages)
            ray.get(first)
            server.told = server.progress.frames
        for w, value in zip(server.weights, server.call()):
            w.load(value, server.session)

    def save(self):
        if self.folder is not None:
            with contextlib.suppress(ray.exceptions.RayError):  # the old averages are good enough
                state = ray.get(self.server.parameters.state.remote(), timeout=1)
                for variable, value in zip(self.averages, state[len(self.server.weights):]):
                    variable.load(value, self.server.session)
        super().save()


class Watch(a3c.Worker_thread):
    """A further thread of worker 0. It starts the other workers, and tells them the end."""
    name, learning = "watch", False

    def __init__(self, server):
        self.server, self.progress = server, server.progress

    def work(self):
        running = self.server.start(self.progress.max_frames)
        while running and not (self.progress.learned or self.progress.coordinator.should_stop()):
            ended, running = ray.wait(running, timeout=0.1)
            ray.get(ended)  # raises the exception that a worker has raised
        if self.progress.learned:
            ray.get(self.server.parameters.end.remote())


def server_for(server_class, **attributes):
    """The class of a worker's server: a copy, and the user's class in all other things."""
    return type("Server", (Server, server_class), attributes)


def work(number, parameters, server_class, worker_class, settings, core, words):
    """Worker 1, 2, ...: a Ray task. It learns until the task is learned or all frames are played.

    core: the number of the core that it may use, counted on from worker 0's. words: its command
    line."""
    vars(a3c).update(settings, LEARNED_MEAN=float("inf"))  # only worker 0 evaluates
    if a3c.SHARE_ONE_CORE and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[core % len(cores)]})
    server = server_for(server_class, parameters=parameters, number=number)
    a3c.main(words, server, worker_class)


def main(argv=None, server_class=a3c.ParameterServer, worker_class=a3c.Worker_thread):
    """The script's main in several processes. What was assigned to its constants holds in all."""
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, allow_abbrev=False,
                                     description="Learn CartPole with A3C in several processes.",
                                     epilog="All other options: a3c_cartpole.py --help")
    parser.add_argument("--processes", type=a3c.whole_number(1, 256), default=2, metavar="N",
                        help="workers, each with --workers threads")
    parser.add_argument("--address", default="local", metavar="HOST:PORT",
                        help="of a Ray cluster that runs already; auto: the one on this machine")
    own, words = parser.parse_known_args(argv)
    options = a3c.parse(words)  # a wrong option ends the program before anything starts
    if options.play:
        return a3c.main(words, server_class, worker_class)

    constants = filter(str.isupper, vars(a3c))
    settings = {name: getattr(a3c, name) for name in (*constants, "Tmax")}
    # num_cpus=0: Ray starts as many processes as are wanted, on however many cores.
    actor = ray.remote(num_cpus=0, max_task_retries=-1)(Parameters)  # retry a call that failed
    task = ray.remote(num_cpus=0, scheduling_strategy="SPREAD")(work)

    def start(max_frames):
        tasks = []
        for number in range(1, own.processes):
            seed = (options.seed + number) % 2 ** 32  # each worker plays other episodes
            line = (f"--render none --workers {options.workers} --seed {seed} "
                    f"--max-frames {max_frames}")
            tasks.append(task.remote(number, parameters, server_class, worker_class, settings,
                                     os.getpid() + number, line.split()))
        return tasks

    try:
        start_ray(own.address)
        parameters = actor.remote(server_class, settings)
        server = server_for(server_class, parameters=parameters, number=0,
                            start=staticmethod(start))
        status = a3c.main([*words, "--seed", str(options.seed)], server, worker_class)
        if status == 1:
            ray.get(parameters.state.remote())  # was it the actor's end that ended the run?
        return status
    except ray.exceptions.RayActorError:
        print("The parameter server's process has died", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        ray.shutdown()  # ends all other processes


def start_ray(address):
    paths = os.pathsep.join(sys.path)  # so that the other processes find the user's modules
    ray.init(address, runtime_env={"env_vars": {"PYTHONPATH": paths}}, logging_level="ERROR",
             log_to_driver=False, **({"include_dashboard": False} if address == "local" else {}))


if __name__ == "__main__":
    sys.exit(main())
