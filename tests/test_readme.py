"""The README: its commands run, its lines of code fit the script, its links to methods point at them.

python tests/test_readme.py puts the right line numbers into the links.
"""
import ast
import importlib.util
import re
import runpy
import shlex
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, SCRIPT, a3c, environment_variables, said

README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXT = SCRIPT.read_text(encoding="utf-8")
LINK = re.compile(r"\[`([\w.]+)`\]\(a3c_cartpole\.py#L?([\w.]+)\)")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


def definitions():
    """Where each class, method and function of the script begins."""
    places = {}
    for node in ast.parse(TEXT).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            places[node.name] = node.lineno
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    places[f"{node.name}.{part.name}"] = part.lineno
    return places


def test_every_link_to_a_method_points_at_its_line():
    links = LINK.findall(README)
    assert len(links) > 20
    assert links == [(name, str(definitions()[name])) for name, _ in links]


def test_every_link_inside_the_project_leads_somewhere():
    headings = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.+)$", README, re.M)}
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if target.startswith("#"):
            assert target[1:] in headings, target
        elif not target.startswith("http"):
            assert (ROOT / target.partition("#")[0]).exists(), target


def test_every_line_of_code_shown_stands_in_the_script():
    lines = [line.strip() for block in blocks("python") for line in block.splitlines()]
    assert len(lines) >= 6
    script = [line.strip() for line in TEXT.splitlines()]
    assert [line for line in lines if line not in script] == []


def test_every_option_is_explained(capfd):
    with pytest.raises(SystemExit) as exit:
        a3c.main(["--help"])
    words = capfd.readouterr().out
    assert exit.value.code == 0
    assert set(re.findall(r"^  (--\w[\w-]*)", words, re.M)) == set(re.findall(r"^\| `(--[\w-]+)", README, re.M))


def changed(diff):
    """The script with the lines of a diff exchanged."""
    text, old = TEXT, None
    for line in diff.splitlines():
        if line.startswith("-"):
            old = line[1:]
            assert TEXT.splitlines().count(old) == 1, old
        else:
            assert line.startswith("+") and old is not None, line
            text, old = text.replace(old + "\n", line[1:] + "\n"), None
    assert old is None and text != TEXT
    return text


@pytest.mark.parametrize("diff", blocks("diff"), ids=lambda diff: diff.splitlines()[1].strip("+ ")[:40])
def test_every_change_to_try_fits_and_runs(tmp_path, capfd, diff):
    (tmp_path / "changed.py").write_text(changed(diff), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("changed", tmp_path / "changed.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main(["--max-frames", "300", "--render", "none", "--workers", "2"]) == 1
    out, err = capfd.readouterr()
    assert out.splitlines()[-1].startswith("Not learned after 300 frames") and err == ""


COMMANDS = [line for block in blocks("sh") for line in block.splitlines()]
OF_SCRIPT = [line for line in COMMANDS if line.startswith("python a3c_cartpole.py")]


def test_the_commands_of_the_script_run_one_after_the_other(tmp_path):
    assert len(OF_SCRIPT) >= 6
    for line in OF_SCRIPT:
        result = subprocess.run([sys.executable, SCRIPT, *shlex.split(line)[2:]], cwd=tmp_path, capture_output=True,
                                text=True, env=environment_variables(), timeout=300)
        stopped_early = "--max-frames" in line and "Not learned after" in result.stdout
        assert (result.returncode, said(result.stderr)) == (int(stopped_early), ""), line
    assert {path.name for path in tmp_path.iterdir()} == {"films", "saved", "runs", "movie"}


def test_the_other_commands_are_those_that_ci_and_the_next_test_run():
    rest = [line for line in COMMANDS if line not in OF_SCRIPT]
    assert rest[0].endswith("&& .venv/bin/python a3c_cartpole.py")
    assert rest[1] == "python tests/benchmark.py --learning --seeds 20 --max-frames 400000"
    assert rest[2].endswith("&& .venv/bin/python -m pytest -n 2 tests")
    assert rest[3:] == ["python -m pytest tests -m long", "python tests/sabotage.py",
                        "python tests/versions.py", "python tests/benchmark.py"]


@pytest.mark.parametrize("command, says", [
    (["tests/benchmark.py", "--learning", "--seeds", "1", "--max-frames", "400000", "--workers", "1"],
     r"\| seeds that learned \| 1 of 1 \|"),
    (["-c", "import sys; sys.path.insert(0, 'tests'); import benchmark as b\n"
            "b.LEARNERS, b.FRAMES, b.ROUNDS = (1, 8), 200, 1; print([target for target, *_ in b.speed({})])"],
     r"\| 8 learners, plain `Session.run` \| [1-9](.*\n)*.*'8 learners against plain `Session.run`'"),
    (["tests/sabotage.py", "EPS_STEPS = 200 *"], r"1 faults, 0 survivors"),
    (["tests/versions.py", "--help"], r"newest, oldest, classic"),
    (["-m", "pytest", "tests", "-m", "long", "--collect-only", "-q"], r"tests? collected|/\d+ tests")])
def test_the_tools_for_working_on_it_run(command, says):
    result = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0 and re.search(says, result.stdout), result.stdout + result.stderr


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A folder with runs/0 and runs/1, written with --logdir."""
    folder = tmp_path_factory.mktemp("logs")
    for run in "0", "1":
        a3c.main(["--render", "none", "--max-frames", "2000", "--workers", "2", "--logdir", f"{folder}/runs/{run}"])
    return folder


def test_tensorboard_finds_the_graph_and_the_curves(logs):
    command = re.search(r"`tensorboard (--logdir runs)`", README)[1].split()
    result = subprocess.run([sys.executable, "-m", "tensorboard.main", *command, "--inspect"], cwd=logs,
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for run in "runs/0", "runs/1":
        tags, statistics = (part.split("=====")[0] for part in result.stdout.split(run + ":\n")[1:])
        for curve in "steps/local_thread1", "mean_of_last_ten/local_thread2", "loss/entropy", "gradient", "epsilon":
            assert re.search(rf"^ +{curve}$", tags, re.M), tags
        assert re.search(r"^graph\n +first_step +0\n", statistics, re.M), statistics


def test_the_curves_are_drawn_a_panel_for_each_run(logs, monkeypatch):
    import imageio.v3 as iio
    script, *_, all_runs = re.search(r"`python (\.github/curves\.py [^`]*)`", README)[1].split()
    assert all_runs == "runs/*"
    for number, runs in enumerate((["0"], ["0", "1"]), 1):
        monkeypatch.chdir(logs)
        monkeypatch.setattr(sys, "argv", [script, "curves.png", *(f"runs/{run}" for run in runs)])
        runpy.run_path(str(ROOT / script), run_name="__main__")
        picture = iio.imread(logs / "curves.png")[..., :3].astype(int)
        assert picture.shape[1] == pytest.approx(440 * number)
        for left in range(0, 440 * number, 440):  # in each panel the black mean, and thin lines of two threads
            panel = picture[:, left:left + 440]
            black = np.lib.stride_tricks.sliding_window_view(panel.max(axis=2) < 50, (3, 3)).all(axis=(2, 3))
            assert black.sum() > 50 and (np.ptp(panel, axis=2) > 60).sum() > 200


def test_the_picture_is_small_and_moves():
    import imageio.v3 as iio
    picture = ROOT / ".github" / "cartpole.gif"
    assert picture.stat().st_size < 2 ** 20
    frames = iio.imread(picture)
    assert len(frames) > 50 and (frames[0] != frames[-1]).any()


def test_the_constants_of_the_text_are_those_of_the_script():
    assert (a3c.N_WORKERS, a3c.N_STEP_RETURN, a3c.HIDDEN_UNITS, a3c.LEARNED_MEAN, a3c.Tmax) == (8, 5, 16, 199, 10)
    text = " ".join(README.split())
    assert "16 units" in text and "the bar of 199 steps" in text and "`Tmax` = 10 steps" in text


if __name__ == "__main__":
    fixed = LINK.sub(lambda link: f"[`{link[1]}`](a3c_cartpole.py#L{definitions()[link[1]]})", README)
    (ROOT / "README.md").write_text(fixed, encoding="utf-8")
