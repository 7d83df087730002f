"""The messages between the processes of distributed.py, and what starts, watches and ends these
processes with Ray. It takes care of lost answers, of workers that die, and of Ctrl-C at any moment.
"""
import collections
import contextlib
import os
import signal
import sys

from script import a3c, tf

try:
    import ray
except ModuleNotFoundError as error:
    sys.exit(f"{error}: run  pip install -r tests/requirements.txt")

# What a worker says with each gradient (all its frames and episodes, its latest scores), what it
# gets back, and what `Supervisor` gets (new scores, all frames, and how many workers have called).
# (Not in the file that you run, because Ray would send these classes along with each message.)
Report = collections.namedtuple("Report", "worker frames episodes scores")
Answer = collections.namedtuple("Answer", "updates others_frames weights")
Snapshot = collections.namedtuple("Snapshot", "scores frames values workers")


def all_variables(server):
    return server.session.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, "parameter_server/")


def read(server):
    """{name: value} of all variables, those that a checkpoint holds."""
    return server.session.run({v.op.name: v for v in all_variables(server)})


def load(server, variables, values):
    for v in variables:
        v.load(values[v.op.name], server.session)


def wait_for(answer, progress):
    """The server process's answer. Raises ConnectionError if it has died or takes a minute, and
    Stopped if all threads have to stop."""
    for _ in range(120):
        progress.raise_if_stopped()
        try:
            return ray.get(answer, timeout=0.5)
        except ray.exceptions.GetTimeoutError:
            continue  # it hasn't answered yet
        except ray.exceptions.RayActorError:
            break  # it has died
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
    # Ray has put in a handler of its own, which would end Python at once, even while it saves.
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))


class Supervisor:
    """All workers and their server process, as the process that the user has started sees them."""
    def __init__(self, options, *classes):
        self.options = options
        self.classes = classes  # the user's; the first one is the server's
        self.server = None  # the script's, in this process
        self.server_process = None  # its handle
        self.tasks = {}  # the workers that run, and their numbers
        self.given_up = 0  # the number of those that died too often
        self.workers_known = options.processes  # one that was started again counts as a new one
        self.scores = collections.deque()  # that the script hasn't counted yet
        self.scores_seen = 0  # how many have come from the server process

    def start(self, server, process_class, work):
        """Start Ray, then the server process, then the workers. server: the script's."""
        self.server, progress, options = server, server.progress, self.options
        progress.options.workers = options.processes * options.workers  # for the first line
        start_ray(options.address)
        print(f"Ray starts {options.processes} worker processes", flush=True)
        if not progress.stopped:  # by Ctrl-C, while Ray started
            self.start_server(process_class)
        if not progress.stopped:  # while the server process started
            self.start_workers(work)

    def start_server(self, process_class):
        progress = self.server.progress
        # num_cpus=0: not limited by cores. max_task_retries=-1: a call that got lost is repeated.
        start = ray.remote(num_cpus=0, max_task_retries=-1)(process_class).remote
        self.server_process = start(a3c.constants(), self.classes[0],
                                    self.words(progress.options.seed), progress.frames,
                                    read(self.server))
        ready = self.server_process.snapshot.remote()
        for _ in range(600):  # TensorFlow is loaded there
            if progress.stopped:  # by Ctrl-C
                return
            with contextlib.suppress(ray.exceptions.GetTimeoutError):
                return ray.get(ready, timeout=0.5)  # raises what went wrong
        a3c.refuse("the parameter server's process hasn't started within five minutes")

    def start_workers(self, work):
        seed, processes = self.server.progress.options.seed, self.options.processes
        machines = sum(node["Alive"] for node in ray.nodes())
        # SPREAD: over all machines. max_retries=3: if a worker dies, Ray starts it again.
        start = ray.remote(num_cpus=0, max_retries=3, scheduling_strategy="SPREAD")(work).remote
        for number in range(1, processes + 1):
            words = self.words(seed * processes + number)  # another for each worker and --seed
            core = number // machines  # another for each on a machine, if Ray spreads them evenly
            task = start(core, self.server_process, a3c.constants(), words, *self.classes)
            self.tasks[task] = number

    def words(self, seed):
        """The command line of another process. It makes no files."""
        return ["--render", "none", "--workers", str(self.options.workers), "--seed", str(seed),
                "--max-frames", str(self.server.progress.max_frames)]

    def next_score(self):
        """Waits for the next episode of any worker, and returns its score."""
        while not self.scores:
            if not self.tasks:
                raise a3c.Stopped
            if self.server.progress.phase == "learned":
                self.server_process.end.remote()  # before the films, which may take long
                raise a3c.Stopped
            ended, _ = ray.wait(list(self.tasks), timeout=0.2)
            self.fetch_snapshot()  # after `wait`, so with the last scores of those that have ended
            for task in ended:
                self.task_ended(task)
        return self.scores.popleft()

    def fetch_snapshot(self):
        """Take over the server process's new scores, its frames, and its variables' values."""
        progress = self.server.progress
        snapshot = wait_for(self.server_process.snapshot.remote(self.scores_seen), progress)
        if snapshot.workers > self.workers_known:
            self.workers_known = snapshot.workers
            print("A worker has died, and was started again", file=sys.stderr)
        with self.server.checkpoint.lock:  # so that a checkpoint holds all of one moment
            if progress.phase == "learned":  # the weights that have passed must stay
                return
            load(self.server, all_variables(self.server), snapshot.values)
            progress.frames = snapshot.frames
        self.scores += snapshot.scores
        self.scores_seen += len(snapshot.scores)

    def task_ended(self, task):
        number = self.tasks.pop(task)
        try:
            ray.get(task)
        except ray.exceptions.RayTaskError as error:
            raise RuntimeError(f"worker {number} failed: {a3c.reason(error.cause)}") from error
        except ray.exceptions.RayError as error:  # Ray has started it three more times
            print(f"Worker {number} is given up: {a3c.reason(error)}", file=sys.stderr)
            self.given_up += 1
            if self.given_up == self.options.processes:
                raise ConnectionError("no worker is left") from error

    def end(self):
        """End all. If Ray shut down before its calls have ended, it would print errors."""
        if self.tasks:
            calls = [self.server_process.end.remote(), *self.tasks]
            _, left = ray.wait(calls, num_returns=len(calls), timeout=5)
            if left:  # one of these processes stalls
                ray.kill(self.server_process)
                ray.wait(left, num_returns=len(left), timeout=5)
        ray.shutdown()
