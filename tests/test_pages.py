"""The pages: their commands run, their code fits the script, their links lead somewhere."""
import re
import runpy
import shlex
import subprocess
import sys

import benchmark
import imageio.v3 as iio
import numpy as np
import pytest
from helpers import ROOT, SCRIPT, a3c, environment_variables, finish, start

NAMES = "README.md", ".github/exercises.md", "tests/README.md", "tests/variants/README.md"
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in NAMES}
README, ALL = PAGES["README.md"], "\n".join(PAGES.values())
LINES = SCRIPT.read_text(encoding="utf-8").splitlines()


def blocks(language, text=ALL):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


COMMANDS = "".join(blocks("sh")).splitlines()
OF_SCRIPT = [line for line in COMMANDS if line.startswith("python a3c_cartpole.py")]


def anchors(path):
    """What a link may name in a page: its headings, as GitHub turns them into anchors."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("name", NAMES)
def test_every_link_inside_the_project_leads_somewhere(name):
    page = ROOT / name
    links = re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", PAGES[name])
    assert links
    for path, anchor in links:
        target = page.parent / path if path else page
        assert target.exists()
        assert not anchor or anchor in anchors(target)


def test_the_japanese_page_says_the_same():
    page = (ROOT / ".github" / "ja.md").read_text(encoding="utf-8")

    def facts(text):  # names and numbers
        return sorted(re.findall(r"[A-Za-z_.]+_[A-Za-z_.]*|\d+\.\d+|\d\d+", text))
    shown = re.findall(r"^```\w*\n(.*?)^```", ALL, re.M | re.S)
    own = re.findall(r"^```\w*\n(.*?)^```", page, re.M | re.S)
    assert len(own) > 8
    assert all(block in shown or facts(block) in map(facts, shown) for block in own)

    def code(text):  # without its comments
        return re.findall(r"^```python\n(.*?)^```", re.sub("  # .*", "", text), re.M | re.S)
    assert code(page) and set(code(page)) <= set(code(README))
    prose = re.sub(r"^```.*?^```|^\|.*?$|\(http[^)]*\)", "", page, flags=re.M | re.S)
    numbers = re.findall(r"\d[\d,.]*\d", prose)
    assert len(numbers) > 20
    assert not [x for x in numbers if not re.search(rf"(?<!\d){re.escape(x)}(?!\d)", ALL)]
    ours, theirs = (re.search(r"^\| § .*?\n\n", text, re.M | re.S)[0] for text in (page, README))
    assert re.findall(r"^\| ([\d.]+) ", ours, re.M) == re.findall(r"^\| ([\d.]+) ", theirs, re.M)
    for row in re.findall(r"^\|.*$", page, re.M):
        assert set(re.findall(r"`([^`]+)`", row)) <= set(re.findall(r"`([^`\n]+)`", ALL)), row
    for path in re.findall(r"\]\((?!http)([^)]*)\)", page):
        assert (ROOT / ".github" / path).exists()


def test_every_line_of_code_shown_stands_in_the_script_or_is_a_program_that_runs(tmp_path):
    programs = [block for block in blocks("python") if block.startswith("import ")]
    shown = "".join(block for block in blocks("python") if block not in programs)
    assert shown and {line.strip() for line in shown.splitlines()} <= {x.strip() for x in LINES}
    printed = r"7\.0\n", r"Seed .*\n(.*\n)+Not learned after 3000 frames\n"
    for program, says in zip(programs, printed):
        program = program.replace("20000", "3000")
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                             cwd=tmp_path, env=environment_variables(PYTHONPATH=str(ROOT)))
        assert re.fullmatch(says, run.stdout) and not run.stderr, run.stderr
    assert len(programs) == 2


def test_every_name_in_the_pseudocode_and_the_tables_is_the_scripts():
    [pseudocode] = re.findall(r"^```\n(repeat.*?)^```", README, re.M | re.S)
    names = set(re.findall(r"\b\w+(?=\()|\b\w*[a-z]_\w*|\b[A-Z][A-Za-z_]+", pseudocode))
    assert len(names) > 15 and names <= set(re.findall(r"\w+", "".join(LINES)))
    for row in re.findall(r"^\|.*$", README, re.M):
        for name in re.findall(r"`((?:[A-Z]\w+\.)?_?[a-z]+(?:_[a-z]+)+)`", row):
            owner, _, attribute = name.rpartition(".")
            assert re.search(rf"\b{attribute}\b", "\n".join(LINES)), row
            assert not owner or hasattr(getattr(a3c, owner), attribute) or attribute == "helpers"


def test_the_update_by_hand_is_what_the_command_prints():
    command = re.search(r"`python (\.github/update.py)`", README)[1]
    printed = subprocess.run([sys.executable, command], cwd=ROOT, capture_output=True, text=True)
    [shown] = re.findall(r"^```\n(target  .*?)^```", README, re.M | re.S)
    assert shown == printed.stdout, printed.stderr


def test_the_update_by_hand_equals_numpy():
    [shown] = re.findall(r"^```\n(target  .*?)^```", README, re.M | re.S)
    values = {name: float(value) for name, value in re.findall(r"^(\S+) +(\S+)$", shown, re.M)}
    p, target = np.array([0.4, 0.6]), 0.99 ** 5 * -0.10
    advantage = target + 0.30
    terms = -np.log(0.6) * advantage, 0.5 * advantage ** 2, 0.01 * (p * np.log(p)).sum()
    of_policy = -advantage * ([0, 1] - p)  # gradient of -log π(right)·A by the logits
    of_entropy = 0.01 * p * (np.log(p) - (p * np.log(p)).sum())
    wanted = target, advantage, *terms, sum(terms), -advantage, *(of_policy + of_entropy)
    np.testing.assert_allclose(list(values.values()), wanted, atol=5.1e-5)


def test_the_episodes_step_by_step_are_what_the_command_prints():
    words = re.search(r"`python (\.github/episode.py [\d ]+)`", README)[1].split()
    printed = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    shown = re.findall(r"^```\n(step .*?)^```", README, re.M | re.S)
    assert "\n".join(shown).strip() == printed.stdout.strip(), printed.stderr


def test_the_recorded_updates_are_of_a_run_and_fit_together():
    def check(text):
        learners, pulled, latest = set(), {}, None
        for line in text.splitlines():
            server, indent, what, of = re.match(r" *\d+  #(\d+)( +)(\w+).* #(\d+)$", line).groups()
            learner = len(indent) > 9
            learners.add(learner)
            if what == "pulls":
                assert server == of == (latest or of)
                pulled[learner] = of
            else:
                assert of == pulled.get(learner, of)
                assert latest is None or int(server) == int(latest) + 1
            latest = server
        assert len(learners) == 2
    command = re.search(r"`python (\.github/timeline.py)`", README)[1]
    printed = subprocess.run([sys.executable, command], cwd=ROOT, capture_output=True, text=True)
    head, *lines = printed.stdout.split("\n\n")[0].splitlines()
    [shown] = re.findall(rf"^```\n{re.escape(head)}\n(.*?)^```", README, re.M | re.S)
    check("\n".join(lines))
    check(shown)
    assert re.search(r"mean, \d+ % fresh\n", printed.stdout), printed.stderr


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


@pytest.mark.parametrize("with_checkpoint, makes", [
    (False, {"films", "runs"}), (True, {"saved", "movie"})])
def test_the_commands_of_the_script_run_one_after_the_other(tmp_path, with_checkpoint, makes):
    for line in OF_SCRIPT:
        if ("--checkpoint" in line) == with_checkpoint:
            status, out, err = finish(start(*shlex.split(line)[2:], cwd=tmp_path))
            stopped = "--max-frames" in line and "Not learned after" in out
            assert (status, err) == (int(stopped), ""), line
    assert {path.name for path in tmp_path.iterdir()} == makes


def test_the_other_commands_are_those_that_ci_and_the_next_test_run():
    rest = [line for line in COMMANDS if line not in OF_SCRIPT]
    assert rest[0].endswith("&& .venv/bin/python a3c_cartpole.py")
    benchmark = "python tests/benchmark.py --learning --seeds 20 --max-frames 400000"
    assert rest[1] == benchmark and rest[3] == benchmark
    assert rest[2].endswith("&& .venv/bin/python -m pytest -n 2 tests")
    assert rest[4:8] == ["python -m pytest tests -m long", "python tests/sabotage.py",
                         "python tests/versions.py", "python tests/benchmark.py"]
    programs = "clipped", "pendulum", "memory", "ga3c", "distributed", "pong"
    assert [line.split()[1] for line in rest[8:]] == [f"tests/variants/{name}.py"
                                                      for name in programs]


@pytest.mark.parametrize("command, says", [
    ("tests/benchmark.py --learning --seeds 1 --workers 1", r"seeds that learned: 1 of 1"),
    ("tests/sabotage.py EPS_STEPS", r"1 faults, 0 survivors"),
    ("tests/versions.py --help", r"newest, oldest, classic"),
    ("-m pytest tests -m long --collect-only -q", r"test_drills"),
    ("-m ruff check --no-cache .", r"All checks passed!")])
def test_the_tools_for_working_on_it_run(command, says):
    result = subprocess.run([sys.executable, *command.split()], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert result.returncode == 0 and re.search(says, result.stdout), result.stdout


def test_the_benchmark_measures_speeds(monkeypatch, capsys):
    for name, value in {"LEARNERS": [1], "FRAMES": 200, "ROUNDS": 1}.items():
        monkeypatch.setattr(benchmark, name, value)
    benchmark.speed({"there": ROOT, "here": ROOT})
    out = capsys.readouterr().out
    for case in "1 learners, there", "1 learners, here":
        assert re.search(rf"^{case}: [\d,.]*[1-9]", out, re.M), out
    assert benchmark.program_speed("distributed", 300, "a3c.HIDDEN_UNITS = 8") > 0


def test_a_reader_can_draw_a_run_of_ones_own(tmp_path):
    logged = "--render", "none", "--max-frames", "5000", "--logdir", tmp_path / "runs/mine"
    finish(start(*logged, cwd=tmp_path))
    command = re.search(r"`python (\.github/figures.py\s+run\s\S+ \S+)`", README)[1].split()
    subprocess.run([sys.executable, ROOT / command[0], *command[1:]], cwd=tmp_path, check=True)
    assert iio.imread(tmp_path / command[-1]).shape[1] == 1600


def test_the_curves_are_drawn_a_panel_for_each_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = ["runs/0", "runs/1"]
    for run in runs:
        a3c.main(["--render", "none", "--max-frames", "2000", "--workers", "2", "--logdir", run])
    script = re.search(r"`python (\S+curves.py) ", PAGES["tests/variants/README.md"])[1]
    monkeypatch.setattr(sys, "argv", [script, "curves.png", *runs])
    runpy.run_path(str(ROOT / script), run_name="__main__")
    picture = iio.imread("curves.png")[..., :3].astype(int)
    assert picture.shape[1] == pytest.approx(440 * len(runs))
    for panel in np.split(picture, len(runs), axis=1):  # a black mean, thin lines of two threads
        assert (panel.max(axis=2) < 50).sum() > 500 and (np.ptp(panel, axis=2) > 60).sum() > 200
