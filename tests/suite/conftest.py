"""What every test needs: Ctrl-C works, and nothing is left behind. Settings: pytest.ini."""
import inspect
import signal
import threading
import unittest.mock

import numpy as np
import pytest
from fake_ray import FakeRay
from helpers import NOT_LEARNED, PROCESSES, Built, a3c, run_main


def pytest_configure():
    # A shell's background job ignores Ctrl-C, and so would the scripts that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def after_each_test():
    """Kills the processes that the test has started, and checks that its threads end."""
    threads = set(threading.enumerate())
    yield
    while PROCESSES:
        PROCESSES.pop().kill()
    new = {thread for thread in threading.enumerate() if "EventLogger" not in repr(thread)}
    for thread in new - threads:  # an EventLogger belongs to a file of curves, and stays
        thread.join(timeout=5)
        assert not thread.is_alive()


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def restored_constants(monkeypatch):
    """After the test, each constant has its own value again, whatever a variant has assigned."""
    for name, value in a3c.constants().items():
        monkeypatch.setattr(a3c, name, value)  # its own, so that undo restores it
    monkeypatch.setattr(a3c, "CONFIGURED", {})


@pytest.fixture
def saved(tmp_path):
    """A folder with a checkpoint after 50 frames, and with no other."""
    folder = tmp_path / "saved"
    assert run_main("--max-frames", 50, "--checkpoint", folder)[0] == NOT_LEARNED
    return folder


@pytest.fixture
def points(monkeypatch):
    """What is added to the curves, in order: {name: number}."""
    points = []
    monkeypatch.setattr(a3c.Progress, "add_to_curves", lambda self, new: points.append(new))
    return points


@pytest.fixture
def classes_for_main(restored_constants):
    """classes_for_main(program, option...): starts a program, which assigns its constants, but not
    the script. Returns the classes that the script's main would get, by its arguments' names."""
    arguments = inspect.signature(a3c.main)

    def classes(program, *words):
        with unittest.mock.patch.object(a3c, "main") as main:
            program.main(words)
        given = arguments.bind(*main.call_args.args, **main.call_args.kwargs).arguments
        return {name: value for name, value in given.items() if name != "argv"}
    return classes


@pytest.fixture
def build(monkeypatch, classes_for_main):
    """build(variant, learners): what its main builds, with its settings."""
    def make(variant, learners=1, **settings):
        classes = classes_for_main(variant)
        for name, value in settings.items():
            monkeypatch.setattr(a3c, name, value)
        return Built(learners, a3c.MAX_FRAMES, **classes)
    return make


@pytest.fixture
def fake_ray(monkeypatch):
    """For distributed.py, a Ray that does all in this process."""
    real = pytest.importorskip("ray")
    import distributed
    ray = FakeRay(real.exceptions)
    monkeypatch.setattr(distributed, "ray", ray)
    monkeypatch.setattr(a3c, "SHARE_ONE_CORE", False)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield ray
    for number, handler in handlers.items():
        signal.signal(number, handler)
