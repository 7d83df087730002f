"""What every test needs: Ctrl-C works, and nothing is left behind. Settings: pytest.ini."""
import functools
import itertools
import signal
import threading
import types
import unittest.mock

import numpy as np
import pytest
from helpers import NOT_LEARNED, STARTED, a3c, run


def pytest_configure():
    # A shell's background job ignores Ctrl-C, and so would the scripts that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def nothing_left():
    """A test leaves no process and no thread."""
    threads = set(threading.enumerate())
    yield
    while STARTED:
        STARTED.pop().kill()
    new = {thread for thread in threading.enumerate() if "EventLogger" not in repr(thread)}
    for thread in new - threads:  # an EventLogger belongs to a file of curves, and stays
        thread.join(timeout=5)
        assert not thread.is_alive()


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def put_back(monkeypatch):
    """After the test, each constant has its own value again, whatever a variant has assigned."""
    for name, value in a3c.constants().items():
        monkeypatch.setattr(a3c, name, value)
    monkeypatch.setattr(a3c, "CONFIGURED", {})


@pytest.fixture
def saved(tmp_path):
    """A folder with a checkpoint after 50 frames, and with no other."""
    folder = tmp_path / "saved"
    assert run("--max-frames", 50, "--checkpoint", folder)[0] == NOT_LEARNED
    return folder


@pytest.fixture
def points(monkeypatch):
    """What is added to the curves, in order: {name: number}."""
    points = []
    monkeypatch.setattr(a3c.Progress, "add_to_curves", lambda self, new: points.append(new))
    return points


@pytest.fixture
def fake_ray(monkeypatch):
    """Ray, but all in this process: what is started or called is done at once. An answer or a task
    that is an exception raises it, and the task "plays on" never ends."""
    real = pytest.importorskip("ray")
    import distributed

    class Handle:
        """handle.method.remote(...) calls the owner's method."""

        def __init__(self, owner):
            self.owner = owner

        def __getattr__(self, name):
            return types.SimpleNamespace(remote=getattr(self.owner, name))

    def remote(**options):
        def start(what, *args):
            with pytest.MonkeyPatch.context() as process:  # a worker changes these in its process
                process.setattr(a3c, "THRESHOLD_MEAN", a3c.THRESHOLD_MEAN)
                process.setattr(a3c, "SIGNALS", a3c.SIGNALS)
                return Handle(what(*args))
        return lambda what: types.SimpleNamespace(remote=functools.partial(start, what))

    def get(answer, timeout=None):
        if isinstance(answer, Exception):
            raise answer
        return answer
    ray = unittest.mock.Mock(remote=remote, exceptions=real.exceptions, Handle=Handle)
    ray.get.side_effect = get
    ray.wait = lambda tasks, **_: ([task for task in tasks if task != "plays on"], [])
    ray.get_runtime_context().get_worker_id.side_effect = itertools.count()  # new processes
    monkeypatch.setattr(distributed, "ray", ray)
    monkeypatch.setattr(a3c, "SHARE_ONE_CORE", False)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield ray
    for number, handler in handlers.items():
        signal.signal(number, handler)
