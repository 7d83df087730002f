"""What timeline.py records: how old gradients are."""
import pytest
import timeline

pytestmark = pytest.mark.pages


@pytest.fixture(scope="module", params=[1, 2])
def recording(request):
    """A run of so many learners, as timeline.py records it: learners, events."""
    learners = request.param
    return learners, timeline.record(learners, 2000 * learners, SHARE_ONE_CORE=False)


def test_each_update_names_the_version_its_thread_pulled(recording):
    """Updates make versions 1, 2, 3 and so on of the weights, and each names the version that its
    thread has pulled last. So timeline.py can compute how old its gradient is."""
    _, events = recording
    newest, last_pulled = 0, {}  # version, {thread: version}
    for event in events:
        is_pull = event.made == 0
        if is_pull:
            assert event.pulled == newest  # they are sorted by version, so none is missing
            last_pulled[event.thread] = newest
        else:
            newest += 1
            assert event.made == newest
            assert event.pulled == last_pulled[event.thread]
    assert newest > 150  # a recording has at least 2000 frames, and an update takes at most ten


def test_age_counts_the_updates_since_the_pull(recording):
    """A gradient is as old as the number of updates since its thread's pull. One learner's are all
    fresh. (It pulls again after its own update.)"""
    learners, events = recording
    since_pull, wanted = {}, []  # {thread: all updates since its pull}
    for event in events:
        if event.made == 0:  # a pull
            since_pull[event.thread] = 0
        else:
            wanted.append(since_pull[event.thread])
            since_pull = {thread: n + 1 for thread, n in since_pull.items()}
    assert timeline.ages(events).tolist() == wanted
    assert (max(wanted) > 0) == (learners > 1)


def test_the_table_of_ages_is_computed_from_updates(monkeypatch):
    """The table has the mean age of gradients, and the shares in % of those that are fresh and of
    those older than 20 updates, here of ages 0, 0, 0, 25 and 3. A pull doesn't count."""
    newest = 100  # version of the weights, when each update is made
    events = [timeline.Event(seconds=0, thread=0, pulled=newest - age, made=newest + 1)
              for age in (0, 0, 0, 25, 3)]
    pull = timeline.Event(seconds=0, thread=0, pulled=newest, made=0)
    monkeypatch.setattr(timeline, "record", lambda *args: [pull, *events])
    assert timeline.summarize() == timeline.Ages(mean=5.6, fresh=60, old=20)
