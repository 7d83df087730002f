"""The README: its commands run, its code fits the script, its links lead somewhere."""
import re
import runpy
import shlex
import subprocess
import sys

import benchmark
import imageio.v3 as iio
import numpy as np
import pytest
from helpers import ROOT, SCRIPT, a3c, environment_variables, said

README = (ROOT / "README.md").read_text(encoding="utf-8")
LINES = SCRIPT.read_text(encoding="utf-8").splitlines()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


COMMANDS = "".join(blocks("sh")).splitlines()
OF_SCRIPT = [line for line in COMMANDS if line.startswith("python a3c_cartpole.py")]


def test_every_link_inside_the_project_leads_somewhere():
    headings = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
                for heading in re.findall(r"^#+ (.+)$", README, re.M)]
    links = re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", README)
    assert len(links) > 10
    for path, anchor in links:  # no anchor in a file: lines of a file move
        assert anchor in headings if not path else (ROOT / path).exists() and not anchor


def test_every_line_of_code_shown_stands_in_the_script():
    shown = [line.strip() for line in "".join(blocks("python")).splitlines()]
    assert len(shown) >= 6
    assert set(shown) <= {line.strip() for line in LINES}


def test_every_option_is_explained(capsys):
    with pytest.raises(SystemExit):
        a3c.main(["--help"])
    options = re.findall(r"^  (--\w[\w-]*)", capsys.readouterr().out, re.M)
    assert options == re.findall(r"^\| `(--[\w-]+)", README, re.M)


@pytest.mark.parametrize("diff", blocks("diff"), ids=lambda diff: diff.splitlines()[1][:40])
def test_every_change_to_try_fits_and_runs(tmp_path, capsys, diff):
    lines, signs = LINES.copy(), [line[0] for line in diff.splitlines()]
    assert set(zip(signs[::2], signs[1::2])) == {("-", "+")} and len(signs) % 2 == 0
    for old, new in zip(diff.splitlines()[::2], diff.splitlines()[1::2]):
        assert lines.count(old[1:]) == 1
        lines[lines.index(old[1:])] = new[1:]
    (tmp_path / "a3c_cartpole.py").write_text("\n".join(lines), encoding="utf-8")
    changed = benchmark.load("changed", tmp_path)
    assert changed.main(["--max-frames", "300", "--render", "none", "--workers", "2"]) == 1
    out, err = capsys.readouterr()
    assert (out.splitlines()[-1], err) == ("Not learned after 300 frames", "")


def test_the_commands_of_the_script_run_one_after_the_other(tmp_path):
    assert len(OF_SCRIPT) >= 6
    for line in OF_SCRIPT:
        command = [sys.executable, SCRIPT, *shlex.split(line)[2:]]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True,
                                env=environment_variables())
        stopped = "--max-frames" in line and "Not learned after" in result.stdout
        assert (result.returncode, said(result.stderr)) == (int(stopped), ""), line
    assert {path.name for path in tmp_path.iterdir()} == {"films", "movie", "saved", "runs"}


def test_the_other_commands_are_those_that_ci_and_the_next_test_run():
    rest = [line for line in COMMANDS if line not in OF_SCRIPT]
    assert rest[0].endswith("&& .venv/bin/python a3c_cartpole.py")
    assert rest[1] == "python tests/benchmark.py --learning --seeds 20 --max-frames 400000"
    assert rest[2].endswith("&& .venv/bin/python -m pytest -n 2 tests")
    assert rest[3:] == ["python -m pytest tests -m long", "python tests/sabotage.py",
                        "python tests/versions.py", "python tests/benchmark.py"]


@pytest.mark.parametrize("command, says", [
    ("tests/benchmark.py --learning --seeds 1 --workers 1", r"seeds that learned \| 1 of 1 \|"),
    ("tests/sabotage.py EPS_STEPS", r"1 faults, 0 survivors"),
    ("tests/versions.py --help", r"newest, oldest, classic"),
    ("-m pytest tests -m long --collect-only -q", r"test_drills"),
    ("-m ruff check --no-cache .", r"All checks passed!")])
def test_the_tools_for_working_on_it_run(command, says):
    result = subprocess.run([sys.executable, *command.split()], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert result.returncode == 0 and re.search(says, result.stdout), result.stdout


def test_the_benchmark_measures_speeds(monkeypatch, capsys):
    for name in "LEARNERS", "COMPARED":
        monkeypatch.setattr(benchmark, name, [1])
    for name in "FRAMES", "WARM_UP":
        monkeypatch.setattr(benchmark, name, 200)
    monkeypatch.setattr(benchmark, "ROUNDS", 1)
    benchmark.speed()
    benchmark.against(str(ROOT))
    out = capsys.readouterr().out
    for case in "1 learner", "8 learners, plain `Session.run`", "here":
        assert re.search(rf"^\| {case} \| [\d,.]*[1-9]", out, re.M), out


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A folder with runs/0 and runs/1, written with --logdir."""
    folder = tmp_path_factory.mktemp("logs")
    for run in "01":
        a3c.main(["--render", "none", "--max-frames", "2000", "--workers", "2",
                  "--logdir", f"{folder}/runs/{run}"])
    return folder


def test_tensorboard_finds_the_graph_and_the_curves(logs):
    words = re.search(r"`tensorboard (--logdir runs)`", README)[1].split()
    out = subprocess.check_output([sys.executable, "-m", "tensorboard.main", *words, "--inspect"],
                                  cwd=logs, stderr=subprocess.DEVNULL, text=True)
    for run in "runs/0", "runs/1":
        tags, statistics = (part.split("=====")[0] for part in out.split(run + ":\n")[1:])
        for curve in ("score/local_thread1", "mean/local_thread2", "loss/actor", "loss/critic",
                      "loss/entropy", "gradient"):
            assert re.search(rf"^ +{curve}$", tags, re.M), tags
        assert re.search(r"^graph\n +first_step +0\n", statistics, re.M), statistics


@pytest.mark.parametrize("runs", [["runs/0"], ["runs/0", "runs/1"]], ids=len)
def test_the_curves_are_drawn_a_panel_for_each_run(logs, monkeypatch, runs):
    script, _, all_runs = re.search(r"`python (\.github/curves\.py [^`]*)`", README)[1].split()
    assert all_runs == "runs/*"
    monkeypatch.chdir(logs)
    monkeypatch.setattr(sys, "argv", [script, "curves.png", *runs])
    runpy.run_path(str(ROOT / script), run_name="__main__")
    picture = iio.imread(logs / "curves.png")[..., :3].astype(int)
    assert picture.shape[1] == pytest.approx(440 * len(runs))
    for panel in np.split(picture, len(runs), axis=1):  # a black mean, thin lines of two threads
        assert (panel.max(axis=2) < 50).sum() > 500 and (np.ptp(panel, axis=2) > 60).sum() > 200
