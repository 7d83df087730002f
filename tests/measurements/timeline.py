"""Record pulls and updates of a real run: python tests/measurements/timeline.py

Prints how old the gradients of eight learners are (how many updates of others came between a
thread's pull and its own update), and how many pulls overlap an update of another thread, so that
they may get some arrays from before it and some from after it. And how much gradients change with
their age. The learners are those of compare.py.

Python can't tell the order of graph calls: when one has ended, its thread waits for Python's lock,
the GIL, and others go on. So the graph itself counts the updates and looks at the clock, each time
in the same call in which it copies the weights or applies a gradient.
"""
import argparse
import collections
import contextlib
import functools
import io

import numpy as np

import paths  # so that the script is found
from script import a3c, tf

# Of a pull or an update: when, by which thread (0, 1, ...), which version of the server's weights
# the thread has pulled last, and which version its update makes (0 for a pull). A version is the
# number of updates before it.
Event = collections.namedtuple("Event", "seconds thread pulled made")


class Server(a3c.ParameterServer):
    """Counts in the graph how many updates have begun, and how many have ended."""
    def __init__(self, session, progress):
        super().__init__(session, progress)
        # Their names don't begin with "parameter_server/", so they get into no checkpoint.
        self.begun, self.ended = (tf.get_variable(name, (), tf.int64, tf.zeros_initializer())
                                  for name in ("begun", "ended"))

    def build_update(self, gradients):
        with tf.control_dependencies(gradients):  # it begins once they are known
            begun = add_1(self.begun)
        with tf.control_dependencies([begun]):
            update = super().build_update(gradients)
        with tf.control_dependencies([update]):
            before = add_1(self.ended)
        with tf.control_dependencies([before]):
            self.counted = before, tf.timestamp()
            return tf.group(*self.counted)


def add_1(counter):
    """Returns the number before. No two calls get the same number."""
    return tf.raw_ops.ResourceCountUpTo(resource=counter.handle, limit=2 ** 62, T=tf.int64)


class Brain(a3c.LocalBrain):
    """Adds its pulls and updates to the list `events`, and to the list `during` how many updates
    each pull overlaps: those that have begun before its end, but not ended before its start."""
    def __init__(self, name, parameter_server, events, during):
        self.name, self.events, self.during = name, events, during
        super().__init__(name, parameter_server)

    def _build_graph(self):
        super()._build_graph()
        update = self._update
        self.inputs = list(update.options.feed)
        update.options.fetch.extend(tensor.name for tensor in self.server.counted)

        def update_and_note(*samples):
            *numbers, before, seconds = update(*samples)
            self.note(seconds, before + 1)
            return numbers
        self._update = update_and_note

        number = self.server.ended.read_value()
        with tf.control_dependencies([number]):
            seconds = tf.timestamp()
        with tf.control_dependencies([seconds]):  # the copy begins after all updates counted here
            pull = [mine.assign(servers.read_value(), read_value=False)
                    for mine, servers in zip(self.weights, self.server.weights)]
        with tf.control_dependencies(pull):
            begun = self.server.begun.read_value()
        self._pull = a3c.GraphCall(self.server.session, fetches=[number, seconds, begun])

    def pull_parameter_server(self):
        self.pulled, seconds, begun = self._pull()
        self.during.append(begun - self.pulled)
        self.note(seconds, 0)

    def note(self, seconds, made):
        thread = int(self.name.removeprefix("local_thread")) - 1
        self.events.append(Event(seconds, thread, self.pulled, made))


class Comparing(Brain):
    """Adds to `cosines` how alike a batch's gradient at the thread's own weights is to that at the
    server's: the cosine of the angle between them, 1 if they point the same way."""
    cosines = []

    def build_update(self, gradients, s):
        self.gradient = tf.concat([tf.reshape(g, [-1]) for g in gradients], axis=0)
        return super().build_update(gradients, s)

    def update_parameter_server(self):
        if self.train_queue:
            session = self.server.session
            batch = dict(zip(self.inputs, map(np.array, zip(*self.train_queue))))
            mine, weights = session.run([self.gradient, self.weights], batch)
            self._pull()
            new = session.run(self.gradient, batch)
            for variable, value in zip(self.weights, weights):
                variable.load(value, session)
            self.cosines.append(mine @ new / (np.linalg.norm(mine) * np.linalg.norm(new)))
        super().update_parameter_server()


def record(learners, frames, server=Server, brain=Brain, environment=a3c.Environment, seed=0,
           **constants):
    """Let so many learners play so many frames. Returns their pulls and updates in order, and how
    many updates each pull overlaps. constants: values for those of the script."""
    events, during = [], []
    words = f"--render none --seed {seed} --workers {learners} --max-frames {frames}"
    a3c.configure(**constants | {"LEARNED_MEAN": float("inf")})  # it never ends sooner
    brain = functools.partial(brain, events=events, during=during)
    with contextlib.redirect_stdout(io.StringIO()):
        a3c.main(words.split(), server, brain, environment_class=environment)
    a3c.configure()
    # A pull of version 7 comes after update 7 and before update 8.
    events.sort(key=lambda e: (max(e.pulled, e.made), e.made == 0, e.seconds))
    return events, np.array(during)


def ages(events):
    """Of each gradient: the updates of others between its thread's pull and its own update."""
    return np.array([event.made - 1 - event.pulled for event in events if event.made])


def show(title, **settings):
    events, during = record(8, 40_000, **settings)
    found = ages(events)
    print(f"{title}: {found.mean():.1f} updates old in the mean, {100 * (found == 0).mean():.0f}% "
          f"fresh, {100 * (found > 20).mean():.0f}% older than 20; "
          f"{100 * (during > 0).mean():.1f}% of the pulls overlap an update")


def show_cosines(title, **settings):
    Comparing.cosines.clear()
    for seed in range(5):
        record(8, 40_000, seed=seed, **settings)
    found = np.array(Comparing.cosines)
    print(f"{title}: cosine {np.median(found):.2f} in the median, and below "
          f"{np.quantile(found, 0.1):.2f} in one of ten")


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    import compare_learners  # the tests use the rest with versions of Gym that have no Acrobot-v1

    class AcrobotServer(Server, compare_learners.AdamServer):
        pass

    class SegmentsInTurn(compare_learners.SegmentsInTurn, Brain):
        pass

    class UpdatesInTurn(compare_learners.UpdatesInTurn, Brain):
        pass

    class ComparedInTurn(compare_learners.UpdatesInTurn, Comparing):
        pass
    acrobot = {"server": AcrobotServer, "environment": compare_learners.Acrobot,
               **compare_learners.ACROBOT}
    for task, settings in ("CartPole", {}), ("Acrobot", acrobot):
        show(f"{task}, sharing a core", **settings)
        show(f"{task}, on all cores", **settings, SHARE_ONE_CORE=False)
        show(f"{task}, segments in turn", **settings, brain=SegmentsInTurn)
        show(f"{task}, updates in turn", **settings, brain=UpdatesInTurn)
        show_cosines(f"{task}, updates in turn", **settings, brain=ComparedInTurn)


if __name__ == "__main__":
    main()
