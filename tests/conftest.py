"""What pytest needs: the marker `long`, a limit of time for each test, fixtures."""
import threading
import unittest.mock

import numpy as np
import pytest
from helpers import Built, kill_started, os

LIMIT = 300  # seconds for a test, unless its mark `timeout` says otherwise


def pytest_configure(config):
    config.addinivalue_line("markers", "long: left out unless asked for with -m long")
    config.option.markexpr = config.option.markexpr or "not long"
    config.option.timeout = LIMIT if config.option.timeout is None else config.option.timeout
    config.option.timeout_method = "thread"  # ends the process, whatever hangs
    if getattr(config.option, "numprocesses", None):  # with -n: no process idles while one has work
        config.option.dist = "worksteal"


@pytest.fixture(autouse=True)
def nothing_left(request):
    """A test leaves no process, and no variable of the environment, even if it hangs."""
    mark = request.node.get_closest_marker("timeout")
    timer = threading.Timer((mark.args[0] if mark else LIMIT) - 5, kill_started)
    timer.daemon = True
    timer.start()
    with unittest.mock.patch.dict(os.environ):
        yield
    timer.cancel()
    kill_started()


@pytest.fixture
def build():
    """build(learners, ...) makes a Built; the sessions are closed after the test."""
    made = []

    def make(*args, **kwargs):
        made.append(Built(*args, **kwargs))
        return made[-1]
    yield make
    for built in made:
        built.server.session.close()


@pytest.fixture
def rng():
    return np.random.default_rng(0)
