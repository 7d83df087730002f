"""Record pulls and updates of real runs: python tests/measurements/timeline.py [--measure]

How old are the gradients of eight learners, that is, how many updates of others came between a
thread's pull and its own update? Prints the lowest and the highest number of all recordings in
data/timeline.json. The learners are those of compare.py.

Python can't tell the order of graph calls: when one has ended, its thread waits for Python's lock,
the GIL, and others go on. So the graph itself counts the updates and looks at the clock, each time
in the same call in which it copies the weights or applies a gradient.
"""
import collections
import contextlib
import functools
import io

import numpy as np
import run_statistics
from paths import HERE

import compare_learners
from script import a3c, tf

# Of a pull or an update: when, by which thread (0, 1, ...), which version of the server's weights
# the thread has pulled last, and which version its update makes (0 for a pull). A version is the
# number of updates before it.
Event = collections.namedtuple("Event", "seconds thread pulled made")
DATA = HERE / "data" / "timeline.json"
# Of a run: the mean age of its gradients, and the shares of them (%) that are fresh and that are
# older than 20 updates
Ages = collections.namedtuple("Ages", "mean fresh old")


class Server(a3c.ParameterServer):
    """Counts in the graph how many updates have ended."""
    def __init__(self, session, progress):
        super().__init__(session, progress)
        # Its name doesn't begin with "parameter_server/", so it gets into no checkpoint.
        self.ended = tf.get_variable("ended", (), tf.int64, tf.zeros_initializer())

    def build_update(self, gradients):
        update = super().build_update(gradients)
        with tf.control_dependencies([update]):
            # Returns the number before. No two calls get the same number.
            before = tf.raw_ops.ResourceCountUpTo(resource=self.ended.handle, limit=2 ** 62,
                                                  T=tf.int64)
        with tf.control_dependencies([before]):
            self.counted = before, tf.timestamp()
            return tf.group(*self.counted)


class Brain(a3c.LocalBrain):
    """Adds its pulls and updates to the list `events`."""
    def __init__(self, name, parameter_server, events):
        self.events = events
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

        number = self.server.ended.read_value()
        with tf.control_dependencies([number]):
            seconds = tf.timestamp()
        with tf.control_dependencies([seconds]):  # the copy begins after all updates counted here
            pull = [mine.assign(servers.read_value(), read_value=False)
                    for mine, servers in zip(self.weights, self.server.weights)]
        self._pull = a3c.GraphCall(self.server.session, fetches=[number, seconds], targets=pull)

    def pull_parameter_server(self):
        self.pulled, seconds = self._pull()
        self.note(seconds, 0)

    def note(self, seconds, made):
        thread = int(self.name.removeprefix("local_thread")) - 1
        self.events.append(Event(seconds, thread, self.pulled, made))


def record(learners, frames, server=Server, brain=Brain, environment=a3c.Environment, seed=0,
           **constants):
    """Let so many learners play so many frames. Returns their pulls and updates in order.
    constants: values for those of the script."""
    events = []
    words = f"--render none --seed {seed} --workers {learners} --max-frames {frames}"
    a3c.configure(**constants | {"LEARNED_MEAN": float("inf")})  # it never ends sooner
    brain = functools.partial(brain, events=events)
    with contextlib.redirect_stdout(io.StringIO()):
        a3c.main(words.split(), server, brain, environment_class=environment)
    a3c.configure()
    # A pull of version 7 comes after update 7 and before update 8.
    events.sort(key=lambda e: (max(e.pulled, e.made), e.made == 0, e.seconds))
    return events


def ages(events):
    """Of each gradient: the updates of others between its thread's pull and its own update."""
    return np.array([event.made - 1 - event.pulled for event in events if event.made])


def summarize(**settings):
    """One run: how old its gradients are."""
    found = ages(record(8, 40_000, **settings))
    return Ages(found.mean(), 100 * np.mean(found == 0), 100 * np.mean(found > 20))


def settings():
    """{row: how it differs from the script}"""
    class AcrobotServer(Server, compare_learners.AdamServer):
        pass

    class SegmentsInTurn(compare_learners.SegmentsInTurn, Brain):
        pass

    class UpdatesInTurn(compare_learners.UpdatesInTurn, Brain):
        pass

    acrobot = {"server": AcrobotServer, "environment": compare_learners.Acrobot,
               **compare_learners.ACROBOT}
    return {f"{task}, {case}": how | of_task
            for task, of_task in (("CartPole", {}), ("Acrobot", acrobot))
            for case, how in (("one core", {}), ("all cores", {"SHARE_ONE_CORE": False}),
                              ("segments in turn", {"brain": SegmentsInTurn}),
                              ("updates in turn", {"brain": UpdatesInTurn}))}


def load():
    """{row: its Ages, whose numbers are arrays (recordings,)}"""
    return {row: Ages(*np.transpose(runs)) for row, runs in run_statistics.load(DATA).items()}


def main():
    _, to_measure = run_statistics.arguments(__doc__)
    if to_measure:
        cases = settings()
        run_statistics.measure_missing(DATA, dict.fromkeys(cases, 4), lambda case, i: [
            round(float(number), 3) for number in summarize(**cases[case])])
    for row, found in load().items():
        print(f"{row}:", ", ".join(f"{name} {min(numbers):g} to {max(numbers):g}"
                                   for name, numbers in found._asdict().items()))


if __name__ == "__main__":
    main()
