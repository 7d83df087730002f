"""A3C in several processes, on one machine or on many, with Ray.

Python's lock (the GIL) lets only one thread of a process run Python at a time. Several processes
don't share that lock, and they need not even share a machine. Here the parameter server has a
process of its own, which Ray calls an actor. Each worker has its own process, too:

    worker -> parameter server: the gradient g of an update; frames played since the last call
    parameter server:           θ <- θ - RMSProp(g);  frames <- frames + new frames
    worker <- parameter server: θ; the frames of all workers; whether the task is learned

Inside a worker little changes. It runs the script's main with its learning threads. Where the
script keeps θ, a worker keeps a copy of θ, and its threads pull from that copy. The process that
you start is worker 0: its episodes count for the threshold, and it evaluates, films and saves. The
others are Ray tasks, and they go on learning while it evaluates. If one of them is killed, Ray
starts it again, up to three times. If one raises an exception, the whole run ends.

    python tests/variants/distributed.py --processes 2

On several machines, with the files in the same place on each:

    ray start --head                     on the first
    ray start --address=HOST:6379        on each of the others; HOST is the first
    python tests/variants/distributed.py --processes 8 --address auto

Your own program runs this way, too: distributed.main(None, Server, environment_class=Environment),
for example. The script's constants have the values that you gave them in all processes, but
constants of your modules don't.

The idea of a parameter server for many processes is from Gorila, arXiv:1507.04296. What to look at:
frames are those of all workers; episodes and means are those of worker 0. Ray trusts everybody who
can reach its ports, so a cluster needs a network of its own:
https://docs.ray.io/en/latest/ray-security/
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
    """The parameter server's process. It answers one call at a time.

    server_class: the class of the server that it holds. settings: the script's constants, {name:
    value}. words: a command line."""
    def __init__(self, server_class, settings, words=("--render", "none")):
        vars(a3c).update(settings)
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            options = a3c.parse(words)
            self.server = server_class(options, a3c.Progress(options))
            gradients = [tf.placeholder(w.dtype, w.shape) for w in self.server.weights]
            update = self.server.build_update(gradients)
            weights = [w.read_value() for w in self.server.weights]
            self.update = a3c.GraphCall(self.server.session, gradients, targets=[update])
            self.read = a3c.GraphCall(self.server.session, fetches=weights)
            self.variables = self.server.weights + self.server.optimizer.variables()
            self.server.initialize()
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

    def values(self):
        """Of all variables, for a checkpoint."""
        return self.server.session.run(self.variables)

    def end(self):
        self.learned = True


class Server(a3c.ParameterServer):
    """A worker's copy of the parameter server.

    parameters: the actor. number: the worker's number. start: a function that starts the other
    workers (worker 0 only). `server_for` sets these three."""
    parameters = number = start = None

    def __init__(self, options, progress):
        super().__init__(options, progress)
        self.told = 0  # the number of frames, as far as both this worker and the actor know it
        if self.number == 0:
            self.helpers.append(Watch(self))

    def initialize(self):
        """Worker 0 sends the first values to the actor, and every worker gets θ."""
        super().initialize()
        self.averages = self.optimizer.variables()
        self.latest, averages = self.session.run([self.weights, self.averages])
        if self.number == 0:
            ray.get(self.parameters.begin.remote(self.progress.frames, *self.latest, *averages))
            self.told = self.progress.frames
        for w, value in zip(self.weights, self.call()):
            w.load(value, self.session)

    def save(self):
        """The actor has the optimizer's averages. If it doesn't answer, save those of last time."""
        if self.options.checkpoint is not None:
            with contextlib.suppress(ray.exceptions.RayError):
                values = ray.get(self.parameters.values.remote(), timeout=1)
                for variable, value in zip(self.averages, values[len(self.weights):]):
                    variable.load(value, self.session)
        super().save()

    def build_update(self, gradients):
        super().build_update(gradients)  # it never runs, but checkpoints need its variables
        weights = tf.py_func(self.call, gradients, [w.dtype for w in self.weights])
        return tf.group(*[w.assign(x, read_value=False) for w, x in zip(self.weights, weights)])

    def call(self, *gradients):
        """Call the actor. Returns its weights."""
        with self.progress.changed:
            untold = self.progress.frames - self.told
            self.told += untold
        waiting = self.parameters.call.remote(untold, *gradients)
        answer = None
        while answer is None:
            try:
                answer = ray.get(waiting, timeout=0.5)
            except ray.exceptions.GetTimeoutError:  # the actor stalls
                if self.progress.coordinator.should_stop():
                    return self.latest  # Ray may crash if it shuts down while a thread waits for it
            except ray.exceptions.RayActorError:  # the actor has died
                self.progress.stop()
                return self.latest
        frames, learned, *weights = answer
        with self.progress.changed:
            others = max(frames - self.told, 0)  # another thread's call may still be on its way
            self.told += others
            self.progress.frames += others
        if learned:
            self.progress.evaluated(passed=True)
        self.latest = [np.array(w) for w in weights]
        return self.latest


class Watch(a3c.Worker_thread):
    """A further thread of worker 0. It starts the other workers. When the task is learned or a stop
    is asked for, it tells the actor, which tells the others."""
    def __init__(self, server):
        super().__init__("watch", "helper", None, server)

    def over(self):
        return self.progress.phase == "learned" or self.progress.coordinator.should_stop()

    def work(self):
        running = self.server.start(self.progress.max_frames)
        while running and not self.over():
            ended, running = ray.wait(running, timeout=0.1)
            ray.get(ended)  # raises the exception that a worker has raised
        if running:  # if Ray shut down before they have ended, it might print an error
            self.server.parameters.end.remote()
            ray.wait(running, num_returns=len(running), timeout=1)


def server_for(server_class, **attributes):
    """The user's server class with `Server` mixed in front, for one worker."""
    return type("Server", (Server, server_class), attributes)


def work(number, parameters, server_class, classes, settings, core, words):
    """Worker 1, 2, ...: a Ray task. It learns until the task is learned or all frames are played.

    core: tells which core its learners share; successive workers get successive cores. words: its
    command line."""
    vars(a3c).update(settings, LEARNED_MEAN=float("inf"))  # only worker 0 evaluates
    if a3c.SHARE_ONE_CORE and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[core % len(cores)]})
    server = server_for(server_class, parameters=parameters, number=number)
    a3c.main(words, server, **classes)


def main(argv=None, server_class=a3c.ParameterServer, **classes):
    """The script's main in several processes. Its constants have the same values in all of them.

    classes: brain_class and so on, for the script's main."""
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, allow_abbrev=False,
                                     description="Learn CartPole with A3C in several processes.",
                                     epilog="All other options: a3c_cartpole.py --help")
    parser.add_argument("--processes", type=int, default=2, metavar="N",
                        help="worker processes; --workers: the learning threads of each")
    parser.add_argument("--address", default="local", metavar="HOST:PORT",
                        help="of a running Ray cluster; auto: the one on this machine")
    own, words = parser.parse_known_args(argv)
    options = a3c.parse(words)  # a wrong option ends the program before anything starts
    if options.play:
        return a3c.main(words, server_class, **classes)
    if own.processes < 1:
        parser.error("argument --processes: begins at 1")

    constants = filter(str.isupper, vars(a3c))
    settings = {name: getattr(a3c, name) for name in (*constants, "Tmax")}
    line = f"--render none --workers {options.workers} --max-frames"
    # num_cpus=0: Ray doesn't limit the processes to the number of cores.
    # max_task_retries=-1: Ray repeats a call that got lost on its way.
    actor = ray.remote(num_cpus=0, max_task_retries=-1)(Parameters)
    task = ray.remote(num_cpus=0, scheduling_strategy="SPREAD")(work)

    def start(max_frames):
        tasks = []
        for number in range(1, own.processes):
            seed = (options.seed + number) % 2 ** 32  # each worker plays other episodes
            words = f"{line} {max_frames} --seed {seed}".split()
            tasks.append(task.remote(number, parameters, server_class, classes, settings,
                                     os.getpid() + number, words))
        return tasks

    try:
        start_ray(own.address)
        parameters = actor.remote(server_class, settings, f"{line} {options.max_frames}".split())
        ray.get(parameters.values.remote())  # raises what its start has raised
        server = server_for(server_class, parameters=parameters, number=0,
                            start=staticmethod(start))
        status = a3c.main([*words, "--seed", str(options.seed)], server, **classes)
        if status == 1 and not answers(parameters):
            print("The parameter server's process has died", file=sys.stderr)
        return status
    except KeyboardInterrupt:
        return 130
    finally:
        ray.shutdown()  # ends the other processes of this run


def start_ray(address):
    options = {"logging_level": "ERROR", "log_to_driver": False}
    if address == "local":
        options["include_dashboard"] = False
    # The other processes find the user's modules where this one does.
    options["runtime_env"] = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    try:
        ray.init(address, **options)
    except ConnectionError as error:
        a3c.refuse(f"argument --address: {error}")


def answers(parameters):
    try:
        ray.get(parameters.values.remote())
        return True
    except ray.exceptions.RayActorError:
        return False


if __name__ == "__main__":
    sys.exit(main())
