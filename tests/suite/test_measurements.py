"""What stands behind the pages' numbers: statistics, a recorder, and the programs measured."""
import ast
import functools
import importlib
import re
import sys
import unittest.mock
from pathlib import Path

import benchmark
import measure
import numpy as np
import pytest
import reference
import results
import threads
import timeline
from helpers import ROOT, Built, a3c, averages

pytest.importorskip("gymnasium")
import learners
import synchronous
import two_worlds
import worlds

SCRIPTS = ["check", "measure", "benchmark", "clipping", "episode", "games", "learners", "runner",
           "slow_steps", "threads", "timeline", "update", "worlds"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_explains_its_command_line(monkeypatch, capsys, name):
    """--help works, and nothing runs before it."""
    if name == "games":
        pytest.importorskip("ale_py")
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit, match="^0$"):
        importlib.import_module(name).main()
    assert capsys.readouterr().out.startswith(f"usage: {name}")


# Statistics

def test_a_ratio_of_medians_lies_in_its_interval(rng):
    """Of two groups of runs, one twice as long as the other."""
    middle, low, high = results.ratio(rng.normal(200, 5, 50), rng.normal(100, 5, 50))
    assert 1.9 < low < middle < high < 2.1


def test_p_values_are_corrected_by_holms_method():
    """The smallest counts 4 times, the next 3 times, and so on; none is below the one before it."""
    assert results.holm({"a": 0.04, "b": 0.005, "c": 0.06, "d": 0.01}) == pytest.approx(
        {"a": 0.08, "b": 0.02, "c": 0.08, "d": 0.03})


def test_runs_with_the_same_seeds_are_compared_in_pairs():
    """Each run of the first group is a little longer than the second's with the same seed. The
    groups as such hardly differ. Two runs that never learned are equal."""
    shorter = np.array([*np.geomspace(1e4, 1e5, 20), np.inf])
    assert results.rank_test(1.05 * shorter, shorter, paired=True) < 0.001
    assert results.rank_test(1.05 * shorter, shorter) > 0.5
    middle, low, high = results.ratio(1.05 * shorter, shorter, paired=True)
    assert middle == pytest.approx(1.05) and low > 1 and high < 1.1


def test_the_pages_tables_are_what_is_printed():
    """Each row: medians, ratios and intervals, bold where p is below 0.05."""
    page = (ROOT / "tests" / "measurements" / "README.md").read_text(encoding="utf-8")
    for rows in [*map(threads.show, threads.TABLES), worlds.table()]:
        assert "\n" + "\n".join(rows) + "\n\n" in page


def test_worlds_py_evaluates_after_every_2000_frames(monkeypatch, put_back):
    """Here a thread that never changes its world. It plays all its episodes in one."""
    monkeypatch.setattr(worlds, "FRAMES", 6000)
    found = worlds.record(0, 1, two_worlds.Environment, 10 ** 6)
    *scores, share = np.array(found).T
    assert len(found) == 2 and all(8 <= x <= 200 for x in np.ravel(scores))
    assert set(share) in ({0.0}, {1.0})


@pytest.mark.parametrize("failed, words", [
    ([0, 0], "0"), ([2, 0], "2, in 1 run"), ([2, 1], "3, in 2 runs")])
def test_failed_evaluations_in_words(failed, words):
    assert results.failed_in_words(failed) == words


def test_worlds_py_sums_up_a_run():
    """It plays in world 1 for 30,000 frames, then in the other. There it is good from 42,000 to
    60,000 frames, and bad before and after that."""
    frames = worlds.EVERY * np.arange(1, 50)
    other = np.where((frames >= 42_000) & (frames <= 60_000), 200, 10)
    run = np.stack([np.full(49, 200), other, frames <= 30_000], axis=1)
    [played], [good], [worse], [forgotten] = worlds.summarize(run[np.newaxis])
    assert (played, good) == (32_000, 42_000)
    assert worse == pytest.approx((10 * 200 + 20 * 10) / 30)  # evaluations from 40,000 frames on
    assert forgotten == pytest.approx(100 * 19 / 30)  # not the first one: it had not been good yet


def test_the_lesson_says_what_threads_py_and_worlds_py_found():
    """Of learners that wait or take turns, of rewards in a return, and of two worlds."""
    lesson = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())

    def ratio(table, case):
        _, words = threads.compared(table)[case]
        return re.sub(r"^\**([\d.]+) (\(.*?\)).*", r"\1 times \2", words)
    rows = [[ratio(table, case) for case in
             ("8 that wait", "8 that wait, rate × 2", "8 threads, rate × 2")]
            for table in ("cartpole", "corrected")]

    def parts(table, case):
        _, words = threads.compared(table)[case]
        return re.search(r"([\d.]+) \((.*?)\)", words).groups()
    best = [min(ratio("corrected", f"{who}, rate × {x}") for x in "½248").split()[0]
            for who in ("8 that wait", "8 threads")]
    one, eight, *_ = worlds.summaries().values()
    failed = [sum(run.failed for run in threads.load("worlds")[f"{n}, 200 episodes"])
              for n in ("1 thread", "8 threads")]
    for words in (
            "| the script's RMSProp | {} | {} | {} |".format(*rows[0]),
            "| averages corrected for their start | {} | {} | {} |".format(*rows[1]),
            "({} and {} times; chosen".format(*best),
            "One reward takes {} times the frames of five (95% interval {})".format(
                *parts("rewards", "1 reward")),
            "({} times the frames, {}, and on Acrobot {} times, {})".format(
                *parts("ages", "CartPole: segments in turn"),
                *parts("ages", "Acrobot: segments in turn")),
            "it needs {} times the frames ({})".format(*parts("ages", "CartPole: updates in turn")),
            "needs {} times as many ({})".format(*parts("ages", "Acrobot: updates in turn")),
            f"after {np.median(eight.good):,.0f} frames instead of "
            f"{np.median(one.good):,.0f} (medians",
            f"forgotten a world in {one.forgotten.mean():.1f}% of the evaluations",
            f"and eight threads in {eight.forgotten.mean():.1f}%",
            "{} evaluations failed with one thread, and {} with eight".format(*failed)):
        assert words in lesson, words


def test_a_curve_is_the_mean_of_the_latest_fifty_scores():
    """Here episode i has score i and ends after 100·i frames. Ten have ended after 1,000 frames,
    and after 6,000 the latest fifty are numbers 11 to 60. Then the run has learned."""
    means = measure.curve([(100 * i, i) for i in range(1, 81)], learned=6001)
    assert means[[1, 6]] == pytest.approx([5.5, 35.5])
    assert np.isnan(means[0]) and np.isnan(means[7:]).all()


def test_recorded_curves_end_when_their_runs_have_learned():
    """Those of the hundred runs in exercises.json. Before that they have a point on all frames."""
    learned = measure.column(measure.load()["0"], "frames")
    for curve, frames in zip(np.load(measure.CURVES)["means"], learned, strict=True):
        has_a_point = (0 < measure.GRID) & (measure.GRID < frames)
        np.testing.assert_array_equal(np.isfinite(curve), has_a_point)


# The programs that are measured, and the recorder

def test_the_benchmark_reads_the_scripts_speed(monkeypatch, capsys):
    """It is above 0, computed from the lines that the script prints."""
    for name, value in {"LEARNERS": [1], "FRAMES": 4000, "ROUNDS": 1}.items():
        monkeypatch.setattr(benchmark, name, value)
    benchmark.speed({"here": ROOT})
    assert re.search(r"^1 learners, here: [\d,.]*[1-9]", capsys.readouterr().out, re.M)


def bodies(program):
    """{name: body} of the classes in a program's text."""
    return {node.name: ast.unparse(node.body) for node in ast.parse(program).body
            if isinstance(node, ast.ClassDef)}


def test_the_measured_acrobot_is_the_pages(put_back):
    """The page about one's own programs shows the same two classes and settings."""
    page = (ROOT / "tests" / "variants" / "your_own.md").read_text(encoding="utf-8")
    [program] = re.findall(r"^```python\n(import sys\nimport a3c_c.*?)^```", page, re.M | re.S)
    shown = bodies(program)
    measured = bodies(Path(learners.__file__).read_text(encoding="utf-8"))
    assert shown["Server"] == measured["AdamServer"]
    assert shown["Environment"] == measured["Acrobot"]
    with unittest.mock.patch.object(a3c, "main"):
        learners.main(["--task", "acrobot"])
    constants = a3c.constants()
    a3c.configure()
    exec(program, {"__name__": "page"})
    assert a3c.constants() == constants


@pytest.mark.parametrize("table, case", [
    ("from_0", "8 that wait, off-policy"), ("acrobot", "8 threads, rate × 2"),
    ("worlds", "8 in the same world, 25 episodes")])
def test_threads_py_starts_a_case_and_reads_it(monkeypatch, table, case):
    """This run is too short to learn, or to be evaluated."""
    monkeypatch.setattr(threads, "LIMIT", 600)
    monkeypatch.setattr(threads, "LIMIT_OF_WORLDS", 600)
    frames, seconds, failed, gradients, episodes = threads.learn(0, table, case)
    assert (frames, seconds, failed, episodes) == (None, None, 0, None) and 10 < gradients <= 600


@pytest.fixture
def given_by_learners(put_back, monkeypatch):
    """The classes that learners.py gives to the script's main, or to that of synchronous.py."""
    monkeypatch.setattr(two_worlds, "EPISODES", two_worlds.EPISODES)  # undone at the end

    def classes(program, *words):
        with unittest.mock.patch.object(program, "main") as main:
            learners.main(words)
        _, server, *_ = main.call_args.args
        return {"server_class": server, **main.call_args.kwargs}
    return classes


@pytest.mark.parametrize("words, first", [([], 1), (["--from-0"], 0)])
def test_rmsprop_starts_at_0_or_1(given_by_learners, words, first):
    """In all other respects it is the script's, here with twice the learning rate."""
    built = Built(1, **given_by_learners(a3c, "--task", "cartpole", "--rate", "2", *words))
    optimizer = built.server.optimizer
    assert all((x == first).all() for x in built.values(averages(built.server)))
    rate = built.values(optimizer._learning_rate_tensor)
    assert (rate, optimizer._decay) == (pytest.approx(2 * 0.005), a3c.RMSPROP_DECAY)


def test_a_corrected_average_is_the_mean_of_the_squares(given_by_learners):
    """Of the gradients so far, with weights that fall by 1% per update. No 0 and no 1 is in it."""
    built = Built(1, **given_by_learners(a3c, "--task", "cartpole", "--corrected"))
    server = built.server
    weights = [built.values(server.weights)]
    squares = []
    for reward in 1.0, -1.0, 0.3:
        sample = np.ones(a3c.NUM_STATES), 1, reward, np.ones(a3c.NUM_STATES), 0.0
        gradients = reference.gradient(weights[-1], *(np.array([x]) for x in sample))
        squares.append([g ** 2 for g in gradients])
        share = 0.99 ** np.arange(len(squares))[::-1]
        means = [np.average(own, axis=0, weights=share) for own in zip(*squares)]
        weights.append([w - 0.005 * g / (np.sqrt(mean) + 1e-5)
                        for w, g, mean in zip(weights[-1], gradients, means)])
        built.brains[0].pull_parameter_server()
        built.brains[0].train_push(*sample)
        built.brains[0].update_parameter_server()
    for own, w in zip(weights[-1], built.values(server.weights)):
        np.testing.assert_allclose(w, own, atol=5e-4)  # a step is about 0.005


def test_learners_that_wait_are_on_policy_unless_told(given_by_learners):
    """Given the script's Agent, synchronous.py makes it on-policy. With --off-policy it gets one
    that isn't."""
    words = "--task", "cartpole", "--wait"
    assert given_by_learners(synchronous, *words)["agent_class"] is a3c.Agent
    agent = given_by_learners(synchronous, *words, "--off-policy")["agent_class"]
    assert issubclass(agent, synchronous.Agent) and not agent.on_policy


def test_learners_may_share_one_world(given_by_learners):
    """They change it together, after every two episodes of all of them."""
    words = "--task", "worlds", "--same-world", "--block", "2"
    built = Built(3, **given_by_learners(a3c, *words))
    worlds = []
    for episodes in range(6):
        built.progress.episodes = episodes
        for learner in built.learners:
            learner.environment.run()
        [world] = {learner.environment.world for learner in built.learners}  # only one
        worlds.append(world)
    first = worlds[0]
    assert worlds == [first, first, -first, -first, first, first]


@pytest.fixture(scope="module", params=[1, 2])
def recording(request):
    """A run of so many learners, as timeline.py records it: learners, events, during."""
    learners = request.param
    return learners, *timeline.record(learners, 2000 * learners, SHARE_ONE_CORE=False)


def test_recorded_events_tell_which_weights_each_thread_had(recording):
    """A pull gives a thread the weights of all updates so far, and its next update says so."""
    _, events, _ = recording
    updates, pulled = 0, {}
    for event in events:
        if event.made:
            updates += 1
            assert (event.made, event.pulled) == (updates, pulled[event.thread])
        else:
            pulled[event.thread] = event.pulled
            assert event.pulled == updates
    assert updates > 150


def test_only_others_make_a_gradient_old(recording):
    """Or come during a pull. Each update makes the gradients of all others one update older."""
    learners, events, during = recording
    ages = timeline.ages(events)
    assert len(during) == sum(not event.made for event in events)
    if learners == 1:
        assert not ages.any() and not during.any()
    else:
        assert 0 == ages.min() < ages.mean() <= learners - 1 and during.min() >= 0


@pytest.mark.parametrize("begun, overlapped", [(1, 0), (2, 1)])
def test_a_pull_during_an_update_overlaps_it(begun, overlapped):
    """One update has ended. If two have begun, one is still under way."""
    events, during = [], []
    built = Built(1, server_class=timeline.Server, brain_class=functools.partial(
        timeline.Brain, events=events, during=during))
    built.server.begun.load(begun, built.server.session)
    built.server.ended.load(1, built.server.session)
    built.brains[0].pull_parameter_server()
    assert during == [overlapped]


def test_an_update_begins_once_its_gradients_are_known():
    """A gradient that isn't finite never is, so this update fails before it has begun."""
    built = Built(1, server_class=timeline.Server)
    brain, state = built.brains[0], np.zeros(4, np.float32)
    brain.train_push(state, 0, float("nan"), state, 0.0)
    with pytest.raises(a3c.tf.errors.InvalidArgumentError):
        brain.update_parameter_server()
    assert built.values([built.server.begun, built.server.ended]) == [0, 0]


@pytest.mark.parametrize("in_turn, age", [("segments", 0), ("updates", 2)])
def test_learners_may_take_turns(in_turn, age):
    """Three of them, until the frames run out. If only the updates take turns, a gradient misses
    those of both others, except where one of them pulls late."""
    class Brain(learners.BRAINS[in_turn], timeline.Brain):
        pass
    events, _ = timeline.record(3, 3000, brain=Brain)
    updates = [event.thread for event in events if event.made][:200]
    assert all((a + 1) % 3 == b for a, b in zip(updates, updates[1:]))
    ages = timeline.ages(events)[:200]
    assert np.median(ages) == max(ages) == age
