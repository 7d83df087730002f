"""What stands behind the pages' numbers: statistics, a recorder, and the programs measured."""
import ast
import importlib
import itertools
import re
import sys
import types

import benchmark
import measure
import numpy as np
import pytest
import results
import scipy
import threads
import timeline
from helpers import ROOT, a3c

SCRIPTS = ["check", "measure", "benchmark", "clipping", "episode", "games", "runner", "slow_steps",
           "threads", "timeline", "update"]


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


def test_p_values_are_corrected_by_holms_method(monkeypatch):
    """The smallest counts 4 times, the next 3 times, and so on; none is below the one before it."""
    monkeypatch.setattr(scipy.stats, "mannwhitneyu", lambda p: types.SimpleNamespace(pvalue=p))
    given = {"a": 0.04, "b": 0.005, "c": 0.06, "d": 0.01}
    assert results.rank_tests({case: [p] for case, p in given.items()}) == pytest.approx(
        {"a": 0.08, "b": 0.02, "c": 0.08, "d": 0.03})


def test_the_lessons_table_is_what_threads_py_prints(capsys):
    """Each median, ratio and interval in the README, bold where p is below 0.05."""
    threads.show(threads.load())
    printed = capsys.readouterr().out
    lesson = (ROOT / "README.md").read_text(encoding="utf-8")
    table = re.search(r"^\| learners \|.*\n\|-.*\n((?:\|.*\n)+)", lesson, re.M)[1]
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()]
    assert [case for case, *_ in rows] == list(threads.CASES)
    for case, *cells in rows:
        lines = re.findall(rf"^\w+, {re.escape(case)}: .*\n  frames: median (.*)\n"
                           r"  seconds: median (.*)\n", printed, re.M)
        for cell, line in zip(cells, itertools.chain(*lines), strict=True):
            median, ratio, p = re.fullmatch(r"([\d,.]+?)(?:, ratio (.*), p = (.*))?", line).groups()
            bold = "**" * (p is not None and float(p) < 0.05)
            assert cell == (f"{median} · {bold}{ratio}{bold}" if ratio else median), case


def test_ratios_in_answers_are_those_measure_py_prints(capsys):
    """Each "1.9 times as many frames (1.7 to 2.1)" in the answer to an exercise."""
    measure.show(measure.load())
    printed = capsys.readouterr().out
    found = 0
    for page in measure.PAGES:
        text = " ".join(page.read_text(encoding="utf-8").split())
        for number, answer in re.findall(r" \*\*(\d+)\. (.*?</details>)", text):
            for words in re.findall(r"(\d\.\d\d) times[^()]*?[(,] ?([\d.]+ to [\d.]+)[);]", answer):
                of_exercise = printed.split(f"Exercise {number}: ")[1].split("Exercise")[0]
                assert "ratio {} ({})".format(*words) in of_exercise, number
                found += 1
    assert found >= 20  # the patterns still find them


def test_a_curve_is_of_training_episodes_and_ends_when_the_run_has_learned():
    """An episode of score i ends after each 100·i frames. After 6,000 frames the latest fifty are
    numbers 11 to 60, and no point follows, neither here nor in the recorded hundred runs."""
    means = measure.curve([(100 * i, i) for i in range(1, 81)], 6001)
    assert means[[1, 6]] == pytest.approx([5.5, 35.5])
    for curves, learned in ((means, 6001), (np.load(measure.CURVES)["means"], measure.column(
            measure.load()["0"], measure.FRAMES)[:, np.newaxis])):
        has_a_point = (0 < measure.GRID) & (measure.GRID < learned)
        np.testing.assert_array_equal(np.isfinite(curves), has_a_point)


# The programs that are measured, and the recorder

def test_the_benchmark_reads_the_scripts_speed(monkeypatch, capsys):
    """It is above 0, computed from the lines that the script prints."""
    for name, value in {"LEARNERS": [1], "FRAMES": 4000, "ROUNDS": 1}.items():
        monkeypatch.setattr(benchmark, name, value)
    benchmark.speed({"here": ROOT})
    assert re.search(r"^1 learners, here: [\d,.]*[1-9]", capsys.readouterr().out, re.M)


def classes(program):
    """{name: body} of the classes in a program's text."""
    return {node.name: ast.unparse(node) for node in ast.parse(program).body
            if isinstance(node, ast.ClassDef)}


def test_the_measured_acrobot_is_the_pages(put_back):
    """The variants' page shows the same classes and settings."""
    import acrobot
    page = (ROOT / "tests" / "variants" / "README.md").read_text(encoding="utf-8")
    [program] = re.findall(r"^```python\n(import sys\nimport a3c_c.*?)^```", page, re.M | re.S)
    assert classes(program) == classes((threads.HERE / "acrobot.py").read_text(encoding="utf-8"))
    acrobot.configure()
    measured = a3c.constants()
    a3c.configure()
    exec(program, {"__name__": "page"})
    assert a3c.constants() == measured


def test_threads_py_measures_waiting_learners():
    """CartPole and Acrobot: threads.py starts two learners that wait, and reads the result."""
    for task in threads.RATES:
        run = benchmark.learn(0, *threads.program(task, wait=True, factor=2), "--workers", 2,
                              "--max-frames", 2000)
        frames, _ = run["scores"][-1]  # at the end of the last episode
        assert not run["learned"] and run["failed"] == 0 and 0 < frames <= 2000


@pytest.mark.parametrize("learners", [1, 2])
def test_the_recorder_notes_versions_pulled_and_made(monkeypatch, learners):
    """What timeline.py records agrees with what the brains note themselves, and adds up."""
    pulled = {0: [], 1: []}  # by each thread, in order. A version is the number of updates before

    class Brain(timeline.Brain):
        def pull_parameter_server(self):
            super().pull_parameter_server()
            pulled[int(self.name[-1]) - 1].append(self.pulled)

    monkeypatch.setattr(timeline, "Brain", Brain)
    events, during = timeline.record(learners, 2000 * learners, share_one_core=False)
    _, thread, seen, made = events.T
    updates, pulls = made > 0, made == 0
    assert sorted(made[updates]) == list(range(1, updates.sum() + 1))
    assert updates.sum() > 150 * learners
    for number in range(learners):
        mine = thread == number
        assert seen[mine & pulls].tolist() == pulled[number]
        assert seen[mine & updates].tolist() == pulled[number][:(mine & updates).sum()]
    ages = timeline.ages(events)
    assert ages.min() >= 0 and ages.any() == (learners > 1)  # only others make a gradient old
    assert ages.mean() <= learners - 1  # each update makes the others' gradients one older
    assert len(during) == pulls.sum() and during.min() >= 0 and (learners > 1 or not during.any())
