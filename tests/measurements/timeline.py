"""Record pulls and updates of a real run: python tests/measurements/timeline.py

Prints how old the gradients of eight learners are (how many updates of others came between a
thread's pull and its own update), and during how many pulls another thread made an update.

Python can't tell the order of graph calls: when one has ended, its thread waits for Python's lock,
the GIL, and others go on. So the graph itself counts the updates and looks at the clock, each time
in the same call in which it copies the weights or applies a gradient.
"""
import argparse
import collections
import contextlib
import functools
import io
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import a3c_cartpole as a3c

tf = a3c.tf
# Of a pull or an update: when, by which thread (0, 1, ...), which version of the server's weights
# the thread has pulled last, and which version its update makes (0 for a pull). A version is the
# number of updates before it.
Event = collections.namedtuple("Event", "seconds thread pulled made")


class Server(a3c.ParameterServer):
    """Counts the updates in the graph."""
    def __init__(self, session, progress):
        super().__init__(session, progress)
        # Its name doesn't begin with "parameter_server/", so it gets into no checkpoint.
        self.updates = tf.get_variable("updates", (), tf.int64, tf.zeros_initializer())

    def build_update(self, gradients):
        with tf.control_dependencies([super().build_update(gradients)]):
            # It adds 1 and returns the number before. No two calls get the same number.
            before = tf.raw_ops.ResourceCountUpTo(resource=self.updates.handle, limit=2 ** 62,
                                                  T=tf.int64)
        with tf.control_dependencies([before]):
            self.counted = before, tf.timestamp()
            return tf.group(*self.counted)


class Brain(a3c.LocalBrain):
    """Adds its pulls and updates to the list `events`, and the number of updates that were made
    during each pull to the list `during`."""
    def __init__(self, name, parameter_server, events, during):
        self.name, self.events, self.during = name, events, during
        super().__init__(name, parameter_server)

    def _build_graph(self):
        super()._build_graph()
        update = self._update
        update.options.fetch.extend(tensor.name for tensor in self.server.counted)

        def update_and_note(*samples):
            *numbers, before, seconds = update(*samples)
            self.note(seconds, before + 1)
            return numbers
        self._update = update_and_note

        number = self.server.updates.read_value()
        with tf.control_dependencies([number]):
            seconds = tf.timestamp()
        with tf.control_dependencies([seconds]):  # the copy begins after all updates counted here
            pull = [mine.assign(servers.read_value(), read_value=False)
                    for mine, servers in zip(self.weights, self.server.weights)]
        with tf.control_dependencies(pull):
            after = self.server.updates.read_value()
        self._pull = a3c.GraphCall(self.server.session, fetches=[number, seconds, after])

    def pull_parameter_server(self):
        self.pulled, seconds, after = self._pull()
        self.during.append(after - self.pulled)
        self.note(seconds, 0)

    def note(self, seconds, made):
        thread = int(self.name.removeprefix("local_thread")) - 1
        self.events.append(Event(seconds, thread, self.pulled, made))


def record(learners, frames, share_one_core):
    """Let so many learners play so many frames. Returns their pulls and updates in order, and how
    many updates were made during each pull."""
    events, during = [], []
    words = f"--render none --seed 0 --workers {learners} --max-frames {frames}"
    a3c.configure(LEARNED_MEAN=float("inf"), SHARE_ONE_CORE=share_one_core)  # it never ends sooner
    with contextlib.redirect_stdout(io.StringIO()):
        a3c.main(words.split(), Server, functools.partial(Brain, events=events, during=during))
    a3c.configure()
    # A pull of version 7 comes after update 7 and before update 8.
    events.sort(key=lambda e: (max(e.pulled, e.made), e.made == 0, e.seconds))
    return events, np.array(during)


def ages(events):
    """Of each gradient: the updates of others between its thread's pull and its own update."""
    return np.array([event.made - 1 - event.pulled for event in events if event.made])


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    for title, share in ("sharing a core", True), ("on all cores", False):
        events, during = record(8, 40_000, share)
        found = ages(events)
        print(f"Gradients of eight learners {title}: {found.mean():.1f} updates old in the mean, "
              f"{100 * (found == 0).mean():.0f}% fresh; updates of others came during "
              f"{100 * (during > 0).mean():.1f}% of the pulls")


if __name__ == "__main__":
    main()
