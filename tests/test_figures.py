"""figures.py draws every picture from the recorded data, and the data show what we say. timeline.py
records pulls and updates as they happen."""
import functools
import subprocess
import sys

import figures
import numpy as np
import pytest
import timeline
from helpers import (Built, a3c, batch, environment_variables, options, put, saved_values, tf,
                     update)
from PIL import Image


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A folder with all pictures, drawn where TensorFlow can't be imported."""
    folder = tmp_path_factory.mktemp("pictures")
    words = ("import sys; sys.modules['tensorflow'] = None\n"
             "import figures; figures.draw(sys.argv[1])")
    subprocess.run([sys.executable, "-c", words, folder], check=True, cwd=figures.HERE,
                   env=environment_variables())
    return folder


def pictures(folder):
    """{name: path}, with those of the folder in it"""
    return {str(path.relative_to(folder)): path for path in folder.rglob("*.*")}


def test_those_are_all_pictures_of_the_pages_and_none_is_blank(drawn):
    assert pictures(drawn).keys() == pictures(figures.PICTURES).keys()
    for path in pictures(drawn).values():
        assert len(Image.open(path).convert("RGB").getcolors(2 ** 24)) > 10


def test_the_films_are_small_enough_for_a_page(drawn):
    for folder in drawn, figures.PICTURES:
        for path in folder.rglob("*.gif"):
            assert path.stat().st_size <= 500_000


def test_the_japanese_pictures_have_no_english_words(monkeypatch):
    monkeypatch.setattr(figures, "language", "ja")
    assert figures.translated("evaluation\nfailed: 122.3") == "評価\n不合格：122.3"
    with pytest.raises(KeyError):
        figures.translated("words that nobody has translated")


def test_the_recorded_data_are_small():
    sizes = [path.stat().st_size for path in figures.DATA.iterdir()]
    assert sum(sizes) <= 300_000  # every clone downloads them


def test_cartpole_in_numpy_moves_as_gymnasiums_does(rng):
    envs = [a3c.gym.make("CartPole-v0").unwrapped for _ in range(30)]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
    while envs:  # all step at once, and those that fall leave
        before, actions = np.array([env.state for env in envs]), rng.integers(2, size=len(envs))
        after, fell = figures.cartpole(before, actions)
        outcomes = [env.step(int(a)) for env, a in zip(envs, actions)]
        np.testing.assert_allclose(after, [outcome[0] for outcome in outcomes], atol=1e-6)
        assert fell.tolist() == [bool(outcome[2]) for outcome in outcomes]
        envs = [env for env, gone in zip(envs, fell) if not gone]


def test_the_forward_pass_in_numpy_equals_the_lessons_network(rng):
    s = rng.normal(size=(50, 4)).astype(np.float32)
    with tf.Graph().as_default():
        words = options()
        server = a3c.ParameterServer(words, a3c.Progress(words))
        outputs = server.forward(tf.constant(s))
        with server.session as session:
            for _, weights in figures.networks().values():
                put(session, server.weights, weights)
                for got, want in zip(figures.forward(weights, s), session.run(outputs)):
                    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_V_sinks_before_the_falls_of_the_half_way_network():
    weights, falls = figures.networks()["halfway"][1], figures.load("episodes")["falls"]
    v_before, v_end = (figures.forward(weights, falls[:, i])[1] for i in (-32, -2))
    assert len(falls) == 100 and (v_end < v_before).sum() >= 95
    assert figures.statistics()["falls in which V sinks"] == (v_end < v_before).sum()


def test_a_baseline_takes_noise_away_and_bootstrapping_adds_a_bias():
    found = list(figures.recorded_pushes().values())
    returns, baseline, bootstrapped = [(x.mean(), x.std(), x.std() / len(x) ** 0.5) for x in found]
    assert len(found[0]) == 40_000
    assert returns[1] > 4 * baseline[1] > 4 * bootstrapped[1]
    assert abs(returns[0] - baseline[0]) < 3 * returns[2]  # the same mean
    assert abs(bootstrapped[0] - baseline[0]) > 5 * (baseline[2] + bootstrapped[2])  # another one


def test_the_numbers_that_the_pages_quote_are_those_of_the_samples():
    numbers = figures.statistics()
    for name, push in figures.recorded_pushes().items():
        found = [numbers[f"{name}: {x}"] for x in ("mean", "standard deviation", "standard error")]
        assert found == pytest.approx([push.mean(), push.std(), push.std() / 200])


def test_each_recorded_stretch_begins_with_the_pulls_before_it_and_fits_together():
    data = figures.load("threads")
    for name in "all cores", "one core":
        before, events = data[name][:3], data[name][3:]
        assert before[:, 1].tolist() == [0, 1, 2]
        assert (before[:, 0] <= 0).all() and (before[:, 3] == 0).all()
        pulled = dict(zip(before[:, 1], before[:, 2]))
        latest = events[events[:, 3] > 0][0, 3] - 1
        assert latest >= max(pulled.values())
        for _, thread, version, made in events:
            if made:
                assert (version, made) == (pulled[thread], latest + 1)
                latest = made
            else:
                assert version == latest
                pulled[thread] = version


def test_on_one_core_nearly_all_recorded_gradients_are_fresh_and_the_others_are_older():
    data = figures.load("threads")
    one, all_cores = data["ages one core"], data["ages all cores"]
    assert (one == 0).mean() > 0.8 > 0.5 > (all_cores == 0).mean()
    assert one[one > 0].mean() > 4 * all_cores[all_cores > 0].mean()
    assert max(one.mean(), all_cores.mean()) <= 2  # each update makes two others one older


# The recorder

def recorded(monkeypatch, learners, frames):
    """What timeline.py records, and of each pull, in each thread's order: its thread, the updates
    that had ended before it began, the version it told, the updates that began before it ended.
    Python counts these updates."""
    begun, ended, pulls = [], [], []

    class Brain(timeline.Brain):
        def update_parameter_server(self):
            begun.append(self.name)
            super().update_parameter_server()
            ended.append(self.name)

        def pull_parameter_server(self):
            lowest = len(ended)
            super().pull_parameter_server()
            pulls.append((self.name, lowest, int(self.pulled), len(begun)))

    monkeypatch.setattr(timeline, "Brain", Brain)
    events = timeline.record(learners, frames, share_one_core=False)
    assert len(events) == len(begun) + len(pulls) and len(begun) == len(ended)
    return events, pulls


def test_the_recorder_numbers_the_updates_and_tells_what_a_pull_has_seen(monkeypatch):
    events, pulls = recorded(monkeypatch, 2, 4000)
    made = events[events[:, 3] > 0, 3]
    assert sorted(made) == list(range(1, len(made) + 1)) and len(made) > 300
    for _, lowest, version, highest in pulls:
        assert lowest <= version <= highest
    for thread, name in enumerate(("local_thread1", "local_thread2")):
        versions = [version for who, _, version, _ in pulls if who == name]
        own = events[events[:, 1] == thread]
        assert versions == sorted(versions) == own[own[:, 3] == 0, 2].tolist()
        assert (np.diff(own[:, 0]) >= 0).all()
        # After each pull comes an update, whose gradient is at the version pulled.
        own = own[:len(own) // 2 * 2]
        assert (own[0::2, 3] == 0).all() and (own[1::2, 3] > 0).all()
        assert (own[0::2, 2] == own[1::2, 2]).all()
    ages = timeline.ages(events)
    assert ages.min() >= 0 and ages.max() > 0  # the learners have met
    assert ages.mean() <= 1  # each update makes at most one other gradient one older


def test_with_one_learner_every_recorded_age_is_0(monkeypatch):
    events, _ = recorded(monkeypatch, 1, 2000)
    ages = timeline.ages(events)
    assert len(ages) > 150 and not ages.any()
    assert sorted(events[:, 0]) == events[:, 0].tolist()


def test_an_update_between_the_end_of_a_pull_and_its_note_counts_as_later(rng):
    events = []
    built = Built(2, server_class=timeline.Server,
                  brain_class=functools.partial(timeline.Brain, events=events))
    one, other = built.brains
    pull = one._pull

    def pull_and_wait():
        numbers = pull()
        update(other, *batch(rng))  # as if this thread got the GIL first
        return numbers
    one._pull = pull_and_wait
    other.pull_parameter_server()
    one.pull_parameter_server()
    update(one, *batch(rng))
    assert [event[1:] for event in events] == [(1, 0, 0), (1, 0, 1), (0, 0, 0), (0, 0, 2)]


def all_before(op):
    """All operations that have to run before this one."""
    found, waiting = set(), [op]
    while waiting:
        op = waiting.pop()
        new = {*(x.op for x in op.inputs), *op.control_inputs} - found
        found |= new
        waiting += new
    return found


def test_the_graph_counts_before_a_pull_copies_and_after_an_update_has_changed_all_weights():
    built = Built(2, server_class=timeline.Server,
                  brain_class=functools.partial(timeline.Brain, events=[]))
    graph = built.server.session.graph
    for brain in built.brains:
        part = brain._pull.options
        number = graph.get_tensor_by_name(part.fetch[0]).op
        counted = all_before(number)
        assert built.server.updates.op in counted
        copies = [graph.get_operation_by_name(name) for name in part.target]
        assert len(copies) == 6
        for copy in copies:
            [read] = [op for op in all_before(copy) - counted if op.type == "ReadVariableOp"]
            assert number in all_before(read)
    counts = [op for op in graph.get_operations() if op.type == "ResourceCountUpTo"]
    assert len(counts) == 3  # with the test thread's
    for count in counts:
        changed = [op for op in all_before(count) if op.type == "ResourceApplyRMSProp"]
        assert len(changed) == 6


def test_the_recorders_count_gets_into_no_checkpoint(tmp_path, capsys):
    brain_class = functools.partial(timeline.Brain, events=[])
    words = f"--render none --workers 2 --max-frames 200 --checkpoint {tmp_path}".split()
    assert a3c.main(words) == a3c.main(words, timeline.Server, brain_class) == 1
    assert "Continues after 200 frames" in capsys.readouterr().out
    assert all(name.startswith("parameter_server/") for name in saved_values(tmp_path))
