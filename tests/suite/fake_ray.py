"""A Ray that does all in this process: what is started or called is done at once."""
import functools
import types

import a3c_cartpole as a3c
import pytest

SETTINGS = a3c.constants()
PLAYS_ON = "a task that never ends"


class Handle:
    """What Ray gives instead of an object: handle.method.remote(...) calls the object's method."""
    def __init__(self, wrapped):
        self.wrapped = wrapped

    def __getattr__(self, name):
        return types.SimpleNamespace(remote=getattr(self.wrapped, name))


class FakeRay:
    """An answer or a task that is an exception raises it, and the task PLAYS_ON never ends."""

    def __init__(self, exceptions):
        self.exceptions = exceptions
        self.timeouts = []  # of all calls of `get`
        self.asked = {}  # for each process: the options of `remote`

    def init(self, address, **options):
        self.address = address

    def remote(self, **options):
        """ray.remote(...)(what).remote(...) makes an object, or begins a task."""
        def of(what):
            self.asked[getattr(what, "__name__", what)] = options
            return types.SimpleNamespace(remote=functools.partial(self.start, what))
        return of

    def start(self, what, *args):
        with pytest.MonkeyPatch.context() as process:
            for name, value in SETTINGS.items():  # a new process imports the script anew
                process.setattr(a3c, name, value)
            process.setattr(a3c, "SIGNALS", a3c.SIGNALS)  # to itself, so that undo restores it
            return Handle(what(*args))

    def get(self, answer, timeout=None):
        self.timeouts.append(timeout)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def wait(self, tasks, num_returns=1, timeout=None):
        return [task for task in tasks if task != PLAYS_ON], []

    def nodes(self):
        return [{"Alive": True}]

    def shutdown(self):
        pass
