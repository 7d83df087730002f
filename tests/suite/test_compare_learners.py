"""The learners that compare.py compares."""
import ast
import contextlib
import itertools
import re
import unittest.mock
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, Built, a3c, equal, random_samples, rms_averages, set_values, update_with

pytest.importorskip("gymnasium")
import compare
import compare_learners
import ga3c
import synchronous
import timeline
import two_worlds
from reference import gradient

pytestmark = pytest.mark.pages


def bodies(program):
    """{name: body} of the classes in a program's text."""
    return {node.name: ast.unparse(node.body) for node in ast.parse(program).body
            if isinstance(node, ast.ClassDef)}


def test_the_measured_acrobot_is_the_one_on_the_page(restored_constants):
    """compare_learners.py measures the Acrobot program that your_own.md shows: with the same
    classes and the same constants."""
    page = (ROOT / "tests" / "variants" / "your_own.md").read_text(encoding="utf-8")
    [program] = re.findall(r"^```python\n(import sys\nimport a3c_c.*?)^```", page, re.M | re.S)
    shown = bodies(program)
    measured = bodies(Path(compare_learners.__file__).read_text(encoding="utf-8"))
    assert shown["Server"] == measured["AdamServer"]
    assert shown["Environment"] == measured["Acrobot"]
    with unittest.mock.patch.object(a3c, "main") as main:
        compare_learners.main(["--task", "acrobot"])
    assert main.call_args.args[1] is compare_learners.AdamServer
    assert main.call_args.kwargs["environment_class"] is compare_learners.Acrobot
    constants = a3c.constants()
    a3c.configure()  # undo what compare_learners has set
    exec(program, {"__name__": "page"})
    assert a3c.constants() == constants


def test_rmsprop_from_0_differs_only_in_its_start(classes_for_main):
    """With --optimizer from-0, the averages of squared gradients start at 0, in the script at 1.
    From equal averages, both make equal updates, so the columns "from 0" compare only the start."""
    after = []
    for start, options in (1, []), (0, ["--optimizer", "from-0"]):
        built = Built(1, **classes_for_main(compare_learners, "--task", "cartpole", *options))
        server = built.server
        assert all((x == start).all() for x in built.values(rms_averages(server)))
        for variables in server.weights, rms_averages(server):
            set_values(server.session, variables, [np.full(x.shape, 0.1) for x in variables])
        update_with(built.brains[0], *random_samples(np.random.default_rng(0)))
        after.append(built.values([*server.weights, *rms_averages(server)]))
    assert equal(*after)


def test_a_corrected_start_makes_up_for_averages_from_0(classes_for_main, rng):
    """With --optimizer corrected, averages of squared gradients start at 0. The nth update divides
    them by 1 - 0.99ⁿ, the sum of the n squares' weights, or they would be too small at first."""
    built = Built(1, **classes_for_main(compare_learners, "--task", "cartpole", "--optimizer",
                                     "corrected"))

    def flat(arrays):
        return np.concatenate([x.ravel() for x in arrays])
    [brain], server, average = built.brains, built.server, 0
    brain.pull_parameter_server()
    for n in 1, 2, 3:
        samples, before = random_samples(rng), flat(built.values(server.weights))
        g = flat(gradient(built.values(brain.weights), *samples))
        update_with(brain, *samples)
        moved = before - flat(built.values(server.weights))
        average = 0.99 * average + 0.01 * g ** 2  # RMSPROP_DECAY
        corrected = average / (1 - 0.99 ** n)
        wanted = 0.005 * g / np.sqrt(corrected)  # LEARNING_RATE
        large = abs(g) > 0.01  # beside smaller ones, Adam's 1e-5 counts
        np.testing.assert_allclose(moved[large], wanted[large], rtol=0.02)


def test_off_policy_keeps_steps_for_the_next_round(classes_for_main):
    """With --off-policy, the last four of a round's ten steps wait for the next round, as in the
    script: a return needs five rewards, and these steps don't have theirs yet."""
    words = "--task", "cartpole", "--learners", "waiting", "--off-policy"
    agent_class = classes_for_main(compare_learners, *words)["agent_class"]
    agent = agent_class(Built(1).brains[0], None)
    for _ in range(a3c.Tmax):
        agent.advantage_push_local_brain(np.zeros(4), 0, 0.0, np.zeros(4), False, False)
    assert (len(agent.brain.train_queue), len(agent.memory)) == (6, 4)  # usable now, waiting


def test_learners_in_the_same_world_change_it_together(classes_for_main, monkeypatch):
    """With --same-world --block 2, the world in which an episode begins, 1 or -1, changes after
    every two episodes of all learners together, not after two of each."""
    words = "--task", "worlds", "--same-world", "--block", "2"
    monkeypatch.setattr(two_worlds, "EPISODES", two_worlds.EPISODES)  # undone at the end
    built = Built(3, **classes_for_main(compare_learners, *words))
    found = []
    for episodes in 0, 3, 6, 9:  # of all three together; `run` doesn't count them
        built.progress.episodes = episodes
        for learner in built.learners:
            learner.environment.run()
        [world] = {learner.environment.world for learner in built.learners}  # only one
        found.append(world)
    first = found[0]
    assert found == [first, -first, -first, first]  # after 0, 1, 3 and 4 changes


def test_no_two_rows_of_compare_py_measure_the_same(restored_constants, monkeypatch):
    """Any two rows of a table of compare.py start different learners, not the same ones under two
    names: they differ in a setting, or in which main they call with which arguments."""
    monkeypatch.setattr(two_worlds, "EPISODES", two_worlds.EPISODES)  # undone at the end
    rate = a3c.LEARNING_RATE
    for table in compare.TABLES:
        started = {}  # {row: what it starts}
        for row, options in compare.cases(table).items():
            a3c.configure()
            a3c.LEARNING_RATE = rate  # --rate has multiplied it, which `configure` doesn't undo
            with contextlib.ExitStack() as stack:
                mains = [stack.enter_context(unittest.mock.patch.object(program, "main"))
                         for program in (a3c, synchronous, ga3c)]
                compare_learners.main(options.split())
            calls = [main.call_args for main in mains]
            started[row] = calls, a3c.constants(), two_worlds.EPISODES
        equal_rows = [(a, b) for a, b in itertools.combinations(started, 2)
                      if started[a] == started[b]]
        assert not equal_rows


@pytest.mark.parametrize("in_turn, age", [("segments", 0), ("updates", 2)])
def test_taking_turns_sets_the_age_of_gradients(in_turn, age):
    """If three learners take turns, and a turn is pull, play and update, gradients are 0 updates
    old. If a turn is only the update, they are 2 old, because both others update between a pull and
    its update (or fewer, if a thread has pulled late)."""
    class Brain(compare_learners.BRAINS[in_turn], timeline.Brain):
        pass
    events = timeline.record(3, 3000, brain=Brain)
    turns = [event.thread for event in events if event.made][:200]  # at the run's end nobody waits
    assert all((a + 1) % 3 == b for a, b in zip(turns, turns[1:]))
    ages = timeline.ages(events)[:200]
    assert max(ages) == age
    assert np.bincount(ages).argmax() == age  # the most common, too
