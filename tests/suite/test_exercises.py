"""The exercises: our answers, and check.py, which judges a reader's."""
import re
import sys
import unittest.mock
from pathlib import Path

import check
import measure_exercises
import numpy as np
import pytest
from helpers import ROOT, SCRIPT, a3c, page

pytest.importorskip("gymnasium")
import advantages

pytestmark = pytest.mark.pages
UNCHANGED = SCRIPT.read_text(encoding="utf-8")
PAGE = Path(check.__file__).with_name("README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("terminal", [True, False])
def test_our_answer_to_exercise_18_has_the_papers_returns(tmp_path, monkeypatch, rng, terminal):
    """Exercise 18: as in the paper, each return ends with its segment. Here 23 steps, whose states
    are 0 to 23, have segments of 10, 10 and 3. The samples equal those of advantages.py, too, which
    test_advantages.py checks."""
    changed = measure_exercises.changed_script("18")
    (tmp_path / "a3c_cartpole.py").write_text(changed, encoding="utf-8")
    module = check.load(tmp_path / "a3c_cartpole.py")
    monkeypatch.setattr(a3c, "N_STEP_RETURN", a3c.Tmax)  # otherwise advantages.py uses five rewards
    r, samples = rng.normal(size=23), []
    for agent_class in module.Agent, advantages.SegmentReturns:
        agent = agent_class(unittest.mock.Mock(train_queue=[]), None)
        for t in range(23):
            agent.advantage_push_local_brain(t, 0, r[t], t + 1, t == 22, t == 22 and terminal)
        samples.append([call.args for call in agent.brain.train_push.call_args_list])
    assert samples[0] == samples[1]
    assert [s_ for s, a, R, s_, discount in samples[0]] == [10] * 10 + [20] * 10 + [23] * 3


def test_ratios_in_an_answer_are_printed_for_its_exercise(capsys):
    """A ratio such as "1.90 times the frames (1.71 to 2.10)" in an exercise's answer is what
    measure_exercises.py prints for this exercise, or for it and others together. Which of its two
    ratios is meant, reaching 100 or learning, isn't checked."""
    measure_exercises.show(measure_exercises.load_runs())
    # Number, what is printed for this exercise, number, ...
    _, *printed = re.split(r"^Exercise (\d+).*: ", capsys.readouterr().out, flags=re.M)
    found = 0
    for path in measure_exercises.PAGES:
        text = " ".join(path.read_text(encoding="utf-8").split())
        for number, answer in re.findall(r" \*\*(\d+)\. (.*?</details>)", text):
            own = "".join(part for n, part in zip(printed[::2], printed[1::2]) if n == number)
            # The ratio, words without brackets, and the interval, in brackets or after a comma
            for ratio, interval in re.findall(
                    r"(\d\.\d\d) times[^()]*?[(,] ?([\d.]+ to [\d.]+)[);]", answer):
                assert f"{ratio} ({interval})" in own, number
                found += 1
    assert found >= 20  # otherwise the pattern no longer fits the pages


@pytest.mark.parametrize("p, b, if_right, if_left, words", [
    (0.6, 0, 0.4, 0, "with no baseline, 0.4 or 0."),
    (0.6, 0.4, 0.24, 0.24, "With b = 0.4, both draws give 0.24,"),
    (0.6, 0.6, 0.16, 0.36, "With V = 0.6, a draw gives 0.16 or 0.36;"),
    (0.9, 0.9, 0.01, 0.81, "V does harm: a draw gives 0.01 or 0.81 with V,"),
    (0.9, 0, 0.1, 0, "but 0.1 or 0 without.")])
def test_the_lessons_exercise_by_hand_has_correct_numbers(p, b, if_right, if_left, words):
    """The lesson's exercise on baselines has the right numbers: π(right) is p, right returns 1 and
    left 0, and a draw gives (return - b) times the slope of log π(what was drawn), with respect to
    the logit of right. The average is always p·(1 - p)."""
    def log_p(logit):  # of right and of left
        return -np.log(1 + np.exp([-logit, logit]))
    logit, step = np.log(p / (1 - p)), 1e-6
    slopes = (log_p(logit + step) - log_p(logit - step)) / (2 * step)
    assert (np.array([1, 0]) - b) * slopes == pytest.approx([if_right, if_left])
    assert p * if_right + (1 - p) * if_left == pytest.approx(p * (1 - p))
    assert words in page("README.md")


# check.py

@pytest.fixture
def says(tmp_path, monkeypatch, capsys):
    """says(exercise, text): what check.py prints when this is the text of a reader's program."""
    def checked(exercise, text):
        assert f"\npython tests/exercises/check.py {exercise} a3c_cartpole.py\n" in PAGE
        (tmp_path / "answer.py").write_text(text, encoding="utf-8")
        monkeypatch.setattr(sys, "path", sys.path[:])
        monkeypatch.setattr(sys, "argv", ["check.py", exercise, str(tmp_path / "answer.py")])
        status = check.main()
        printed = capsys.readouterr().out.strip()
        assert status == (printed != "Right")
        return printed
    return checked


GAE = measure_exercises.changed_script("19")  # our answer
IN_THE_MIDDLE = "the update in the middle of an episode isn't what GAE says"
AT_THE_END = "the update at the end of an episode isn't what GAE says"


@pytest.mark.parametrize("answer, verdict", [
    pytest.param(GAE, "Right", id="ours"),
    pytest.param(UNCHANGED, IN_THE_MIDDLE, id="the script"),
    pytest.param(GAE.replace("GAMMA * 0.95", "GAMMA * 0.9"), IN_THE_MIDDLE, id="another λ"),
    pytest.param(GAE.replace("0.0 if terminal else GAMMA ** n", "GAMMA ** n"), AT_THE_END,
                 id="V after the end"),
    pytest.param(GAE.replace("if not self.train_queue:", "if len(self.train_queue) < Tmax:"),
                 AT_THE_END, id="a short segment waits")])
def test_check_py_accepts_only_gae(says, answer, verdict):
    """The check of exercise 19 (GAE) accepts our answer, and refuses wrong ones for their fault."""
    assert says("gae", answer) == verdict


# Two right answers to exercise 20. In ours, the update takes the mean over all samples. In the
# other, the last learner to finish a round averages the gradients of all learners. A reader may
# import the script under any name.
OURS = (ROOT / "tests" / "variants" / "synchronous.py").read_text(encoding="utf-8")
DIFF = Path(__file__).with_name("answer_20.diff")
AVERAGE = measure_exercises.apply(DIFF.read_text(encoding="utf-8"), UNCHANGED)
RIGHT_ROUNDS = {
    "the mean over samples": OURS.replace("a3c,", "a3c as other,").replace("a3c.", "other."),
    "the mean over learners": AVERAGE}
WRONG_ROUNDS = {
    "the script": (UNCHANGED, "N of N actions were chosen with outdated weights"),
    "no update": (
        AVERAGE.replace("self.session.run(self.update,", "print("),
        "no update has moved the shared weights in N frames"),
    "rounds of one step": (
        AVERAGE.replace("Tmax = 10 ", "Tmax = 1 ").replace("RETURN = 5 ", "RETURN = 1 "),
        "N updates in N frames are too many"),
    "eight updates in a round": (
        AVERAGE.replace("self.session.run(self.update, dict(zip(self.inputs, average)))",
                        "[self.session.run(self.update, dict(zip(self.inputs, [g / learners for g "
                        "in one]))) for one in given]"),
        "N updates in N frames are too many"),
    "the sum over learners": (
        AVERAGE.replace("np.mean(of_all", "np.sum(of_all"),
        "update N isn't right: it takes the sum of the gradients, not their mean"),
    "the sum over samples": (
        OURS.replace("self.update(max(self.samples, 1))", "self.update(1)"),
        "update N isn't right: it takes the sum of the gradients, not their mean"),
    "one learner's gradient": (
        AVERAGE.replace("np.mean(of_all, axis=0)", "of_all[-1]"),
        "update N isn't right: it takes the gradient of one learner, not the mean of all"),
    "one learner is missing": (
        AVERAGE.replace("np.mean(of_all,", "np.mean(of_all[1:],"),
        "update N isn't right: it takes neither the mean of the learners' gradients nor the mean "
        "over all their samples"),
    "earlier rounds count, too": (
        OURS.replace("tf.zeros_like(k)", "tf.identity(k)"),
        "update N isn't right: it takes neither the mean of the learners' gradients nor the mean "
        "over all their samples")}


@pytest.mark.parametrize("answer", RIGHT_ROUNDS.values(), ids=RIGHT_ROUNDS)
def test_check_py_accepts_both_right_answers_to_exercise_20(says, answer):
    """Learners that wait for each other may average the gradients over all samples
    (synchronous.py, which has new classes) or over learners (answer_20.diff, which changes the
    script)."""
    assert says("synchronous", answer) == "Right"


@pytest.mark.parametrize("answer, verdict", WRONG_ROUNDS.values(), ids=WRONG_ROUNDS)
def test_check_py_refuses_wrong_answers_to_exercise_20(says, answer, verdict):
    """Exercise 20: all learners pull, play, and make one update together. A wrong answer is refused
    with the words beside it in WRONG_ROUNDS. (Threads take turns by chance, so numbers may
    differ.)"""
    assert re.sub(r"\d+", "N", says("synchronous", answer)) == verdict
