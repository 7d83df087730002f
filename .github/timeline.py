"""Record pulls and updates of a real run: python .github/timeline.py

Prints a stretch of it in which two learners meet, and how old the gradients of eight learners are:
how many updates of others came between a thread's pull and its own update.
"""
import contextlib
import io
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import a3c_cartpole as a3c  # noqa: E402

EVENTS = []  # (time in seconds, thread, "pull" or "update", updates of the server so far)
LENGTH = 9  # events of the stretch


class Brain(a3c.LocalBrain):
    def __init__(self, name, parameter_server):
        super().__init__(name, parameter_server)
        self.name = name

    def note(self, what):
        with self.server.lock:
            self.server.updates += what == "update"
            EVENTS.append((time.perf_counter(), self.name, what, self.server.updates))

    def pull_parameter_server(self):
        super().pull_parameter_server()
        self.note("pull")

    def update_parameter_server(self):
        queued = len(self.train_queue)
        super().update_parameter_server()
        if len(self.train_queue) < queued:
            self.note("update")


class Server(a3c.ParameterServer):
    def __init__(self, options):
        super().__init__(options)
        self.lock = threading.Lock()
        self.updates = 0


class Agent(a3c.Agent):
    brain_class = Brain


class Environment(a3c.Environment):
    agent_class = Agent


class Worker(a3c.Worker_thread):
    environment_class = Environment


def record(workers, frames, share_one_core):
    EVENTS.clear()
    a3c.SHARE_ONE_CORE = share_one_core
    words = f"--render none --seed 0 --workers {workers} --max-frames {frames}"
    with contextlib.redirect_stdout(io.StringIO()):
        a3c.main(words.split(), Server, Worker)
    return [event for event in EVENTS if event[1] != "test_thread"]


def told(events):
    """Each event with the number of the weights that were pulled, or that a gradient belongs to."""
    pulled = {}
    for at, name, what, number in events:
        if what == "pull":
            pulled[name] = number
        yield at, name, what, number, pulled[name]


def ages(events):
    """Of each gradient: the updates of others between its thread's pull and its own update."""
    return [number - 1 - of for _, _, what, number, of in told(events) if what == "update"]


def stretch(events):
    """The first with an old gradient, from its thread's pull on."""
    events = list(told(events))
    for i, (_, name, what, number, of) in enumerate(events):
        if what == "update" and number - 1 > of > 20:
            start = max(j for j in range(i) if events[j][1:3] == (name, "pull"))
            return events[start:start + LENGTH]


a3c.LEARNED_MEAN = float("inf")  # the threshold is never reached
events = stretch(record(2, 20_000, share_one_core=False))
print("    µs  server   local_thread1              local_thread2")
for at, name, what, number, of in events:
    words = f"pulls #{of}" if what == "pull" else f"updates: gradient at #{of}"
    if name == "local_thread2":
        words = f"{'':27}{words}"
    print(f"{1e6 * (at - events[0][0]):6.0f}  #{number:<8}{words}")
print()
for title, share in ("sharing a core", True), ("on all cores", False):
    found = ages(record(8, 40_000, share))
    print(f"Gradients of eight learners {title}: {sum(found) / len(found):.1f} updates old in the "
          f"mean, {100 * found.count(0) / len(found):.0f} % fresh")
