"""The programs that measure: their command lines, their statistics, and what they note of a run."""
import importlib
import re
import sys
import unittest.mock

import benchmark
import launch
import measure_exercises
import numpy as np
import pytest
import run_statistics
import speeds
from helpers import SCRIPT, a3c, options, tf
from scipy import stats

pytest.importorskip("gymnasium")
import clipped
import clipping
import forgetting
import two_worlds

pytestmark = pytest.mark.pages
SCRIPTS = ["benchmark", "check", "clipping", "compare", "compare_learners", "draw", "forgetting",
           "learn_variants", "measure_exercises", "print_episode", "print_update",
           "record", "run_program", "sabotage", "speeds", "timeline"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_explains_its_command_line(monkeypatch, capsys, name):
    """With --help each of these programs prints its usage, and nothing before it."""
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit, match="^0$"):
        importlib.import_module(name).main()
    assert capsys.readouterr().out.startswith(f"usage: {name}")


def test_speeds_are_measured_between_two_lines_of_a_run(monkeypatch):
    """A speed leaves out the program's start: it is measured from the line after fifty episodes to
    the last one, or from the first line after ten seconds to the first over ten seconds later."""
    lines = [launch.Point(frames, seconds) for frames, seconds in (
        (0, 4),
        (500, 9),  # after fifty episodes
        (1500, 12),  # the first after ten seconds
        (5000, 21),
        (9500, 23),  # the first over ten seconds later
        (99_999, 24))]
    monkeypatch.setattr(launch, "points", lambda *options: (line for line in lines))
    assert speeds.after_fifty_episodes("program", 99_999) == (99_999 - 500) / (24 - 9)
    assert speeds.while_it_runs("program") == (9500 - 1500) / (23 - 12)


def test_the_scripts_speed_is_read_from_its_lines():
    """speeds.py reads frames/s from the script's lines. The bounds are wide: machines differ."""
    assert 100 < speeds.after_fifty_episodes(SCRIPT, 4000, "--workers", 2) < 10 ** 7


def test_launch_learn_returns_what_the_run_printed():
    """`launch.learn` returns the frames, episodes, failed evaluations and scores that a run prints.
    The script runs twice here: with one worker and one seed a run repeats itself."""
    options = ("--seed", 0, "--workers", 1, "--set", "LEARNED_MEAN", 30, "--test-episodes", 3,
               "--set", "THRESHOLD_MEAN", 15)  # so low that some evaluations fail
    result = launch.learn(0, SCRIPT, *options)
    text = "".join(line for line, _ in launch.lines(SCRIPT, *options))
    assert f"Learned after {result.frames} frames, {result.episodes} episodes" in text
    means = re.findall(r"^Evaluation: mean ([\d.]+)", text, re.M)
    assert result.failed == sum(float(mean) <= 30 for mean in means) > 0
    scores = re.findall(r"^Test episode \d: score (\d+)", text, re.M)
    assert result.policy == np.mean(list(map(int, scores))) and len(scores) == 3
    assert len(result.scores) == result.episodes and 0 < result.learning < result.seconds


@pytest.mark.parametrize("scores, frames", [
    ([0] * 60 + [200] * 40, 850),  # episodes 36 to 85: 25 of 0, 25 of 200
    ([150] * 100, 500), ([99] * 100, None)])
def test_early_is_when_fifty_scores_first_average_100(scores, frames):
    """`launch.early` gives the frames at which the latest fifty scores first average 100, or None.
    Here an episode has ten frames."""
    frames_and_scores = [(10 * i, score) for i, score in enumerate(scores, start=1)]
    assert launch.early(frames_and_scores) == frames


@pytest.fixture
def norms_and_ends(restored_constants, monkeypatch):
    """The norm of the gradients of each update that `clipping.run` applies, and whether it has the
    end of an episode. Its runs are short here, with one learner."""
    def build_update(server, gradients, really=clipped.FallingRate.build_update):
        graph = tf.get_default_graph()
        discount = graph.get_tensor_by_name(graph.get_name_scope() + "/discount:0")
        note = tf.py_func(lambda norm, discount: found.append((norm, 0 in discount)),
                          [tf.global_norm(gradients), discount], [])
        with tf.control_dependencies([note]):
            return really(server, gradients)
    found = []
    monkeypatch.setattr(clipped.FallingRate, "build_update", build_update)
    monkeypatch.setattr(a3c, "N_WORKERS", 1)
    monkeypatch.setattr(a3c, "MAX_FRAMES", 3000)
    return found


def test_clipping_py_counts_large_gradients_and_episode_ends(norms_and_ends):
    """clipping.py counts updates: with a gradient above 0.5, with an episode's end, with both."""
    run = clipping.run(0, which="all", limit=np.inf)
    norms, ends = map(np.array, zip(*norms_and_ends))
    large = norms > 0.5
    assert 0 < run.large_ends < run.ends < run.updates < run.frames
    assert run.updates == len(norms)
    assert (run.large, run.ends, run.large_ends) == (sum(large), sum(ends), sum(large & ends))
    assert run.above == 0  # the limit, which is infinite


@pytest.mark.parametrize("which, end_clipped, others_clipped", [
    ("all", True, True), ("end", True, False), ("no end", False, True)])
def test_clipping_py_clips_only_the_chosen_updates(
        norms_and_ends, which, end_clipped, others_clipped):
    """clipping.py clips the gradients of all updates, of those with an episode's end, or of the
    others. Only norms that it clips never exceed the limit, 0.25 (0.251, because of rounding)."""
    clipping.run(0, which, limit=0.25)
    norms, ends = map(np.array, zip(*norms_and_ends))
    assert (norms[ends].max() < 0.251) == end_clipped
    assert (norms[~ends].max() < 0.251) == others_clipped


def test_forgetting_py_evaluates_from_2000_frames_on():
    """forgetting.py's first evaluation begins when an episode ends after 2000 frames or more."""
    progress, phases = forgetting.Progress(options()), []
    for frames in 1999, 2000:
        progress.frames = frames
        progress.episode_ended(20.0)
        phases.append(progress.phase)
    assert phases == ["training", "evaluating"]


def test_forgetting_py_keeps_an_evaluations_scores_and_share(monkeypatch, restored_constants):
    """forgetting.py records each evaluation's score in each world, and the share of episodes in
    world 1, here all or none, because the thread never switches worlds. Of 6000 frames it records
    two, after 2000 and 4000: at the end one may be missing."""
    monkeypatch.setattr(forgetting, "FRAMES", 6000)
    found = forgetting.record(seed=0, workers=1, environment_class=two_worlds.Environment,
                              block=10 ** 6)  # episodes to a world, so it never switches
    *scores, share = np.array(found).T
    assert len(found) == 2
    assert all(8 <= x <= 200 for x in np.ravel(scores))  # no episode is shorter than 8 steps
    assert set(share) in ({0.0}, {1.0})


def test_forgetting_py_counts_an_episode_where_it_was_played(monkeypatch, restored_constants):
    """forgetting.py counts an episode in the world where it was played, even if the thread has
    moved on to the other when it ends. Here it moves after every third, and an evaluation follows
    each, so the share in world 1 is 0 or 1. The first world is drawn at random."""
    monkeypatch.setattr(forgetting, "EVERY", 1)
    monkeypatch.setattr(forgetting.Progress, "due", 1)
    monkeypatch.setattr(forgetting, "FRAMES", 200)
    found = forgetting.record(seed=0, workers=1, environment_class=two_worlds.Environment, block=3)
    _, _, in_world_1 = np.transpose(found)
    first, other = in_world_1[0], 1 - in_world_1[0]
    assert in_world_1[:6].tolist() == 3 * [first] + 3 * [other]


def test_forgetting_py_goes_on_where_it_stopped(monkeypatch, tmp_path):
    """After Ctrl-C, forgetting.py measures only the seeds that aren't complete. Here Ctrl-C ends
    the first attempt in the second case of seed 2, so seeds 0 and 1 are never measured again."""
    def record(seed, *how):
        seeds.append(seed)
        if seed == 2 and seeds.count(2) == 2:
            raise KeyboardInterrupt
        return [[seed]]
    seeds, cases = [], len(forgetting.CASES)
    monkeypatch.setattr(forgetting, "DATA", tmp_path / "forgetting.npz")
    monkeypatch.setattr(forgetting, "record", record)
    monkeypatch.setattr(forgetting, "SEEDS", 4)
    with pytest.raises(KeyboardInterrupt):
        forgetting.measure()
    forgetting.measure()
    assert seeds == [*[0] * cases, *[1] * cases, 2, 2, *[2] * cases, *[3] * cases]
    assert all(runs.ravel().tolist() == [0, 1, 2, 3] for runs in forgetting.load().values())


def test_forgetting_py_sums_up_a_run():
    """A run's summary says when both worlds had been played, when the policy was first good in
    both, and the mean score in the worse one from 40,000 frames on. Here a run plays in world 1 for
    30,000 frames, then in the other, where it is good from 42,000 to 60,000 frames."""
    frames = forgetting.EVERY * np.arange(1, 50)
    other = np.where((frames >= 42_000) & (frames <= 60_000), 200, 10)
    run = np.stack([np.full(49, 200), other, frames <= 30_000], axis=1)
    [played], [good], [worse] = forgetting.summarize(run[np.newaxis])
    assert (played, good) == (32_000, 42_000)  # evaluations come every 2000 frames
    # From 40,000 to 98,000 frames there are 30 evaluations: 10 good ones, 20 bad ones.
    assert worse == pytest.approx((10 * 200 + 20 * 10) / 30)


def test_forgetting_py_compares_scores_before_and_after_an_absence():
    """forgetting.py compares the score in a world just before the learners leave it with that just
    before they come back or the run ends, but only if the policy had scored at least 195 there.
    Here they leave world 1 twice, the first time before the policy had."""
    share_in_world_1 = [1, 1, 0, 0, 1, 1, 0]
    scores_in_world_1 = [20, 180, 170, 90, 200, 150, 100]
    scores_in_other_world = [10, 10, 50, 198, 60, 20, 200]
    runs = np.transpose([scores_in_world_1, scores_in_other_world, share_in_world_1])[np.newaxis]
    assert forgetting.absences(runs, scored=runs).tolist() == [
        [0, True, 150, 100], [0, False, 198, 20]]  # run, was the other world good, scores
    other_runs = np.full((1, 7, 3), 200)  # their scores may be compared at the same times
    assert forgetting.absences(runs, scored=other_runs).tolist() == 3 * [[0, True, 200, 200]]


def test_ctrl_c_ends_benchmark_py_without_a_traceback(monkeypatch):
    """Ctrl-C ends benchmark.py with status 130: readers who do the exercises may lose patience."""
    monkeypatch.setattr(sys, "argv", ["benchmark.py"])
    monkeypatch.setattr(benchmark, "learning", unittest.mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(BaseException) as raised:  # a KeyboardInterrupt would end pytest
        benchmark.main()
    assert raised.type is SystemExit and raised.value.code == 130


def test_exercises_are_measured_only_by_number(monkeypatch, capsys):
    """--measure without an exercise's number is refused: it would silently measure nothing."""
    monkeypatch.setattr(sys, "argv", ["measure_exercises.py", "--measure"])
    with pytest.raises(SystemExit, match="^2$"):
        measure_exercises.main()
    assert "--measure needs the NUMBER" in capsys.readouterr().err


def test_a_measurement_goes_on_where_it_was_interrupted(tmp_path):
    """After an interruption only the missing runs are measured: run 0 of each case, then run 1, and
    so on. Here Ctrl-C ends the first attempt at its third run, and the two before it are saved."""
    def measure(case, i):
        calls.append((case, i))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return [i]
    path, wanted, calls = tmp_path / "data.json", {"a": 4, "b": 3, "c": 1}, []
    run_statistics.keep({"a": [[0], [1]], "b": [[0]]}, path)
    with pytest.raises(KeyboardInterrupt):
        run_statistics.measure_missing(path, wanted, measure)
    for _ in range(2):  # the second time, nothing is missing
        run_statistics.measure_missing(path, wanted, measure)
    assert calls == [("c", 0), ("b", 1), ("a", 2), ("a", 2), ("b", 2), ("a", 3)]
    found = {"a": [[0], [1], [2], [3]], "b": [[0], [1], [2]], "c": [[0]]}
    assert run_statistics.load(path) == found


def test_the_interval_has_the_ratios_that_wilcoxon_doesnt_reject(rng):
    """`ratio` gives the interval of all ratios that Wilcoxon's test (SciPy's) doesn't reject at 5%,
    and as its middle the one that it would reject last, with p near 1."""
    x, y = rng.uniform(1e4, 1e5, (2, 20))
    middle, low, high = run_statistics.ratio(x, y)

    def p(ratio):
        return stats.wilcoxon(np.log(x / (ratio * y))).pvalue
    assert p(0.999 * low) < 0.05 <= p(1.001 * low)
    assert p(1.001 * high) < 0.05 <= p(0.999 * high)
    assert p(middle) > 0.95


def test_p_values_are_corrected_by_holms_method():
    """From the smallest on, p is multiplied by 4, 3, 2 and 1; no result is below the one before."""
    assert run_statistics.holm({"a": 0.04, "b": 0.005, "c": 0.06, "d": 0.01}) == pytest.approx(
        {"a": 0.08, "b": 0.02, "c": 0.08, "d": 0.03})


def test_runs_with_the_same_seeds_are_compared_in_pairs():
    """Runs are compared in pairs with the same seed, which shows that each is 5% longer in the
    first group, though the groups hardly differ. An infinite number is a run that never learned."""
    longer = [(1.05 * frames, frames) for frames in np.geomspace(1e4, 1e5, 20)]
    equal_pair, cancel_out = [(np.inf, np.inf)], [(np.inf, 1e4), (1e4, np.inf)]
    pairs = longer + equal_pair + cancel_out
    found = run_statistics.compare_all({"a case": np.transpose(pairs)})
    middle, low, high, p = found["a case"]
    assert middle == pytest.approx(1.05)
    assert 1 < low <= high < 1.1
    assert p < 0.001


def test_a_curve_averages_the_latest_fifty_scores():
    """A curve has the mean of the latest fifty scores every 1,000 frames; none before an episode
    has ended, none once the run has learned (at 6,001). Episode i scores i and ends at 100·i."""
    means = measure_exercises.curve([(100 * i, i) for i in range(1, 81)], learned=6001)
    assert means[1] == pytest.approx(np.mean(range(1, 11)))  # 1000 frames: ten episodes
    assert means[6] == pytest.approx(np.mean(range(11, 61)))  # 6000 frames: the last 50 of 60
    assert np.isnan(means[0]) and np.isnan(means[7:]).all()
