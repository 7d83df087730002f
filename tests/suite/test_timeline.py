"""What timeline.py records: how old gradients are, and which pulls overlap an update."""
import functools

import numpy as np
import pytest
import timeline
from helpers import Built, a3c

pytestmark = pytest.mark.pages


@pytest.fixture(scope="module", params=[1, 2])
def recording(request):
    """A run of so many learners, as timeline.py records it: learners, events, during."""
    learners = request.param
    return learners, *timeline.record(learners, 2000 * learners, SHARE_ONE_CORE=False)


def test_each_update_names_the_version_its_thread_pulled(recording):
    """Updates make versions 1, 2, 3 and so on of the weights. An update names the version that its
    thread has pulled last; from this timeline.py computes how old its gradient is."""
    _, events, _ = recording
    newest, of_thread = 0, {}
    for event in events:
        is_pull = event.made == 0
        if is_pull:
            assert event.pulled == newest
            of_thread[event.thread] = newest
        else:
            newest += 1
            assert event.made == newest
            assert event.pulled == of_thread[event.thread]
    assert newest > 150


def test_only_others_make_a_gradient_old(recording):
    """Each update makes the gradients of all others one update older. Only others' updates overlap
    a pull."""
    learners, events, during = recording
    ages = timeline.ages(events)
    assert len(during) == sum(not event.made for event in events)
    if learners == 1:
        assert not ages.any() and not during.any()
    else:
        assert 0 == ages.min() < ages.mean() <= learners - 1 and during.min() >= 0


def one_brain():
    """A server, a brain, and the list of how many updates its pulls overlap."""
    during = []
    built = Built(1, server_class=timeline.Server, brain_class=functools.partial(
        timeline.Brain, events=[], during=during))
    return built, built.brains[0], during


@pytest.mark.parametrize("begun, overlapped", [(1, 0), (2, 1)])
def test_a_pull_during_an_update_overlaps_it(begun, overlapped):
    """Two updates have begun and one has ended, so one is still under way."""
    built, brain, during = one_brain()
    built.server.begun.load(begun, built.server.session)
    built.server.ended.load(1, built.server.session)
    brain.pull_parameter_server()
    assert during == [overlapped]


def test_an_update_begins_once_its_gradients_are_known():
    """A gradient that isn't finite never is, so this update fails before it has begun."""
    built, brain, _ = one_brain()
    state = np.zeros(4, np.float32)
    brain.pull_parameter_server()
    brain.train_push(state, 0, float("nan"), state, 0.0)
    with pytest.raises(a3c.tf.errors.InvalidArgumentError):
        brain.update_parameter_server()
    assert built.values([built.server.begun, built.server.ended]) == [0, 0]


def test_a_recording_is_summed_up_in_shares(monkeypatch):
    """Of five gradients, three are fresh, one is 25 and one 3 updates old. Two of four pulls
    overlap an update."""
    events = [timeline.Event(0.0, 0, 10 - age, 11) for age in (0, 0, 0, 25, 3)]
    pull = timeline.Event(0.0, 0, 10, 0)
    monkeypatch.setattr(timeline, "record", lambda *args: ([pull, *events], np.array([0, 0, 1, 2])))
    assert timeline.summarize() == (5.6, 60, 20, 50)
