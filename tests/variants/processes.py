"""Starts Ray and the processes of distributed.py, watches over them, and ends them. Nothing here is
A3C. What goes wrong: answers that get lost, workers that die, Ctrl-C at any moment.
"""
import collections
import contextlib
import os
import signal
import sys

from script import a3c, tf

os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray prints a warning
try:
    import ray
except ModuleNotFoundError as error:
    sys.exit(f"{error}: run  pip install -r tests/requirements.txt")


def load(server, variables, values):
    for v in variables:
        v.load(values[v.op.name], server.session)


def wait_for(answer, progress):
    """The server process's answer. Raises ConnectionError if it has died or takes a minute."""
    for _ in range(120):
        progress.raise_if_stopped()
        with contextlib.suppress(ray.exceptions.GetTimeoutError, ray.exceptions.RayActorError):
            return ray.get(answer, timeout=0.5)
    raise ConnectionError("the parameter server's process has died or doesn't answer")


def start_ray(address):
    # The other processes find the user's modules, and set TensorFlow up, as this one does.
    env_vars = {name: value for name, value in os.environ.items() if name.startswith("TF_")}
    env_vars["PYTHONPATH"] = os.pathsep.join(sys.path)
    try:
        ray.init(address, logging_level="ERROR", log_to_driver=False,
                 runtime_env={"env_vars": env_vars})
    except Exception as error:
        a3c.refuse(f"Ray doesn't start (argument --address): {a3c.reason(error)}")
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # instead of Ray's handler


class Workers:
    """All workers, as the process that the user has started sees them."""
    def __init__(self, options, *classes):
        self.options, self.classes = options, classes  # the first one is the server's
        self.tasks = {}  # and the numbers of their workers
        self.scores = collections.deque()  # that the script hasn't counted yet
        self.seen = 0  # scores that have come

    def start(self, server, process_class, work):
        """Start Ray, then the server process, then the workers. server: the script's."""
        self.server, progress, options = server, server.progress, self.options
        self.known = options.processes  # a worker that was started again counts as a new one
        progress.options.workers = options.processes * options.workers  # for the first line
        start_ray(options.address)
        if progress.stopped:  # by Ctrl-C, while Ray started
            return
        self.variables = tf.global_variables("parameter_server/")
        values = server.session.run({v.op.name: v for v in self.variables})
        words = ["--render", "none", "--workers", str(options.workers),
                 "--max-frames", str(progress.max_frames), "--seed"]
        seed = progress.options.seed
        # num_cpus=0: not limited by cores. max_task_retries=-1: a call that got lost is repeated.
        self.process = ray.remote(num_cpus=0, max_task_retries=-1)(process_class).remote(
            a3c.constants(), self.classes[0], [*words, str(seed)], progress.frames, values)
        ray.get(self.process.look.remote(), timeout=300)  # raises what went wrong at its start
        worker = ray.remote(num_cpus=0, max_retries=3, scheduling_strategy="SPREAD")(work)
        for number in range(1, options.processes + 1):
            if progress.stopped:  # while the server process started
                return
            own_seed = seed * options.processes + number  # another for each worker and --seed
            core = number if options.address == "local" else None  # others may be elsewhere
            task = worker.remote(core, self.process, a3c.constants(),
                                 [*words, str(own_seed)], *self.classes)
            self.tasks[task] = number

    def next_score(self):
        """Waits for the next episode of any worker, and returns its score."""
        while not self.scores:
            if not self.tasks:
                raise a3c.Stopped
            if self.server.progress.phase == "learned":
                self.process.end.remote()
                raise a3c.Stopped
            ended, _ = ray.wait(list(self.tasks), timeout=0.2)
            self.look()
            for task in ended:
                self.task_ended(task)
        return self.scores.popleft()

    def look(self):
        """Take over what the server's process has: new scores, frames, the variables' values."""
        progress = self.server.progress
        look = wait_for(self.process.look.remote(self.seen), progress)
        if look.workers > self.known:
            self.known = look.workers
            print("A worker has died, and was started again", file=sys.stderr)
        with self.server.checkpoint.lock:  # so that a checkpoint holds all of one moment
            if progress.phase == "learned":  # the weights that have passed must stay
                return
            load(self.server, self.variables, look.values)
            progress.frames = look.frames
        self.scores += look.scores
        self.seen += len(look.scores)

    def task_ended(self, task):
        number = self.tasks.pop(task)
        try:
            ray.get(task)
        except ray.exceptions.RayTaskError as error:
            raise RuntimeError(f"worker {number} failed: {a3c.reason(error.cause)}") from error
        except ray.exceptions.RayError as error:  # Ray has started it three more times
            print(f"Worker {number} is given up: {a3c.reason(error)}", file=sys.stderr)

    def end(self):
        """End all. If Ray shut down before its calls have ended, it would print errors."""
        if self.tasks:
            calls = [self.process.end.remote(), *self.tasks]
            _, left = ray.wait(calls, num_returns=len(calls), timeout=5)
            if left:  # one of these processes stalls
                ray.kill(self.process)
                ray.wait(left, num_returns=len(left), timeout=5)
        ray.shutdown()
