"""What every test needs: Ctrl-C works, and nothing is left behind. Settings: pytest.ini."""
import os
import signal
import threading

import numpy as np
import pytest
from helpers import NOT_LEARNED, kill_started, run


def pytest_configure():
    # A shell's background job ignores Ctrl-C, and so would the scripts that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def surroundings():
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    os.environ.pop("SDL_VIDEODRIVER", None)  # stays after a film without a screen
    theirs = "PYGAME_", "PYTEST_", "SDL_VIDEO_X"
    variables = {x: y for x, y in os.environ.items() if not x.startswith(theirs)}
    return handlers, getattr(os, "sched_getaffinity", bool)(0), variables


@pytest.fixture(autouse=True)
def nothing_left():
    """A test leaves no process, no thread, and the program around the script as it was."""
    before, threads = surroundings(), set(threading.enumerate())
    yield
    kill_started()
    for thread in set(threading.enumerate()) - threads:
        thread.join(timeout=5)
    assert surroundings() == before and set(threading.enumerate()) <= threads


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def saved(tmp_path):
    """A folder with a checkpoint after 50 frames."""
    folder = tmp_path / "saved"
    assert run("--max-frames", 50, "--checkpoint", folder)[0] == NOT_LEARNED
    return folder
