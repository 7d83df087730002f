"""The pages: their commands run, their code fits the script, their links lead somewhere."""
import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import check
import measure_exercises
import pytest
import sabotage
from helpers import (
    LEARNED, NOT_LEARNED, ROOT, SCRIPT, a3c, environment_variables, start, wait_for_end)

pytestmark = pytest.mark.pages
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in (
    "README.md", "tests/exercises/README.md", "tests/README.md", "tests/variants/README.md",
    "tests/variants/your_own.md", "tests/variants/distributed.md",
    "tests/measurements/README.md", "tests/figures/README.md", ".github/pages/ja.md",
    ".github/pages/usage.md", ".github/pages/article.md")}
README, *_, JAPANESE, USAGE, ARTICLE = PAGES.values()  # the last three are in Japanese
ENGLISH = "\n".join(list(PAGES.values())[:-3])
SENTENCES = " ".join(README.split())  # without the ends of lines, which may fall inside a command
SOURCE = SCRIPT.read_text(encoding="utf-8")


def blocks(language, text=ENGLISH):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


SCRIPT_COMMANDS = [line.split("  #")[0] for line in "".join(blocks("sh", README)).splitlines()
                   if line.startswith("python a3c_cartpole.py")]


def anchors(path):
    """What a link may name in a page: its headings, as GitHub turns them into anchors."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("name", PAGES)
def test_every_link_inside_the_project_leads_somewhere(name):
    """Each link names a file that exists, and a heading that this file has."""
    page, text = ROOT / name, PAGES[name]
    links = re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", text)  # [words](path#heading)
    links += re.findall(r"^\[\w+\]: (?!http)([^#\n]*)#?(.*)$", text, re.M)  # [name]: path#heading
    assert links
    for path, anchor in links:
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), anchor


def code(text):
    """The programs, changes, commands and notebook cells of a page, without comments and
    indentation."""
    found = [blocks(language, text) for language in ("python", "diff", "sh", "ipython")]
    return [re.sub(r"\s*\n\s*", "\n", re.sub(r" *#.*", "", block)) for block in sum(found, [])]


def pictures(text):
    """Those that ![words](path) shows, in order, without the way to their folder."""
    return re.findall(r"!\[.*?\]\((?:\.github|\.\.)/(pictures/\S+?)\)", text, re.S)


def numbers(text):
    """Those of its sentences and tables that have more than one digit."""
    for no_sentence in r"^```.*?^```", r"`[^`]*`", r"\]\([^)]*\)":  # blocks, code, addresses
        text = re.sub(no_sentence, "", text, flags=re.M | re.S)
    return set(re.findall(r"\d[\d,.]*\d", text))


@pytest.mark.parametrize("name", PAGES)
def test_every_table_has_a_header_and_equal_rows(name):
    """A table has a line |---| under its first row, as many cells in each row, and an empty line
    after it. Or GitHub shows plain text, drops cells, or makes a row of what follows."""
    assert not re.search(r"^\|.*\n(?=[^|\n])", PAGES[name], re.M)
    for table in re.findall(r"(?:^\|.*\n)+", PAGES[name], re.M):
        rows = re.sub(r"`[^`\n]*`|\\\|", "", table).splitlines()  # | in code or after \ is a letter
        assert len(rows) > 1 and re.fullmatch(r"\|(-+\|)+", rows[1]), table
        assert len({row.count("|") for row in rows}) == 1, table


def test_the_japanese_pages_have_the_readmes_code():
    """A Japanese reader finds each program, change, command and notebook cell that an English
    reader finds. (Pseudo-code and printed tables aren't compared.)"""
    assert code(README) and set(code(README)) <= set(code(JAPANESE) + code(USAGE))


def test_the_japanese_page_has_the_readmes_pictures():
    """The pictures are the same, with Japanese words, in the same order."""
    assert pictures(JAPANESE) == [path.replace("/", "/ja/") for path in pictures(README)]


# Its sections, its 1000 episodes, the date of its change, and the packages of its day
NUMBERS_OF_TUTORIAL = {"2.1", "2.2", "2.3", "3.0", "3.2", "3.7", "1000", "171115",
                       "1.4", "2.0.9", "0.9.4"}


def test_no_number_is_only_in_one_language():
    """Each number of two digits or more in the README's text is somewhere on ja.md or usage.md, and
    the Japanese pages have none that neither an English page nor the tutorial has. (A wrong number
    that stands elsewhere, too, isn't noticed.)"""
    assert numbers(README) <= numbers(JAPANESE + USAGE)
    assert numbers(JAPANESE + USAGE + ARTICLE) <= numbers(ENGLISH) | NUMBERS_OF_TUTORIAL


def test_the_japanese_page_shows_the_scripts_methods():
    """The methods on the page are today's script's, except for comments and docstrings."""
    script = {node.name: node for node in ast.walk(ast.parse(SOURCE))
              if isinstance(node, ast.FunctionDef)}
    shown = [node for block in blocks("python", JAPANESE) if block.startswith("def ")
             for node in ast.parse(block).body]
    assert [node.name for node in shown] == [
        "advantage_push_local_brain", "queue_oldest", "build_loss"]
    for node in shown:
        if ast.get_docstring(script[node.name]):
            del script[node.name].body[0]
        assert ast.unparse(node) == ast.unparse(script[node.name])


def test_the_lessons_code_stands_in_the_script():
    """Each block of Python that the README quotes is in the script, line after line, except for
    docstrings and indentation."""
    def lines(text):
        return "\n".join(line.strip() for line in text.splitlines())
    shown = [block for block in blocks("python", README) if not block.startswith("import ")]
    source = lines(re.sub(r'^ *"""(.*?)"""\n', "", SOURCE, flags=re.M | re.S))
    assert shown and not [block for block in shown if lines(block) not in source]


PROGRAMS = [(f"{name} {number}", program) for name, text in PAGES.items() if text in ENGLISH
            for number, program in enumerate(blocks("python", text))
            if program.startswith("import ")]


[NORMALIZED] = [program for _, program in PROGRAMS if "tf.unstack" in program]


def shortened(program):
    """With only 800 frames, and with Acrobot in place of LunarLander, which needs one more package.
    """
    for old, new in (
            ("400000", "800"), ("20000", "800"), ("LunarLander-v3", "Acrobot-v1"),
            ("NUM_STATES=8, NUM_ACTIONS=4", "NUM_STATES=6, NUM_ACTIONS=3")):
        program = program.replace(old, new)
    return program


@pytest.mark.parametrize("program", [program for _, program in PROGRAMS],
                         ids=[name for name, _ in PROGRAMS])
def test_every_program_that_a_page_shows_runs(tmp_path, program):
    """Each program on a page, started as by its reader but shortened, ends without errors."""
    (tmp_path / "program.py").write_text(shortened(program), encoding="utf-8")
    (tmp_path / "normalized.py").write_text(NORMALIZED, encoding="utf-8")  # another imports it
    folders = f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'variants'}"
    environment = environment_variables(PYTHONPATH=folders, NO_COLOR="1")
    process = start("--max-frames", 800, "--workers", 2, cwd=tmp_path,
                    program=tmp_path / "program.py", env=environment)
    _, out, err = wait_for_end(process)
    assert not err
    explains_graphs = "placeholder" in program  # the only one that learns nothing
    if explains_graphs:
        assert out == "7.0\n"  # it prints 2x + 1 for x = 3
    else:
        assert re.search("^Seed ", out, re.M) and "Not learned after " in out.splitlines()[-1]


def test_methods_that_you_may_override_exist():
    """The table on the page about one's own programs names no method that is gone."""
    page = PAGES["tests/variants/your_own.md"]
    second_cells = [line.split(" | ")[1] for line in page.splitlines() if line.count(" | ") > 0]
    methods = re.findall(r"`([A-Z]\w+)\.(\w+)", "".join(second_cells))
    assert len(methods) > 15  # otherwise the pattern no longer fits the page
    for owner, name in methods:
        assert hasattr(getattr(a3c, owner), name), name


@pytest.mark.parametrize("name, first_words", [
    ("print_update", "(?:target  |first move)"), ("print_episode", "step  ")])
def test_the_lesson_shows_what_its_programs_print(name, first_words):
    """print_update.py and print_episode.py print the README's tables, which begin with these words.
    """
    words = re.search(rf"`python (tests/lesson/{name}\.py[^`]*)`", SENTENCES)[1].split()
    printed = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    shown = re.findall(rf"^```\n({first_words} .*?)^```", README, re.M | re.S)
    assert shown and "\n".join(shown).strip() == printed.stdout.strip(), printed.stderr


def test_the_readmes_commands_use_every_option_of_the_script(capsys):
    """Each option that --help lists (six or more) is in one of the README's commands."""
    with pytest.raises(SystemExit):
        a3c.main(["--help"])
    options = re.findall(r"^  (--[\w-]+)", capsys.readouterr().out, re.M)
    assert len(options) > 5 and set(options) <= set(" ".join(SCRIPT_COMMANDS).split())


@pytest.mark.parametrize("diff", blocks("diff"), ids=lambda diff: diff.splitlines()[1][:40])
def test_the_script_runs_with_every_diff(tmp_path, capsys, diff):
    """Each change that a page shows fits the script, which then runs."""
    changed = measure_exercises.apply(diff, SOURCE)
    assert changed != SOURCE
    (tmp_path / "a3c_cartpole.py").write_text(changed, encoding="utf-8")
    module = check.load(tmp_path / "a3c_cartpole.py")
    status = module.main("--max-frames 300 --render none --workers 2".split())
    assert status == NOT_LEARNED
    out, err = capsys.readouterr()
    assert (out.splitlines()[-1], err) == ("Not learned after 300 frames", "")


def test_the_scripts_commands_run_in_their_order(tmp_path, monkeypatch, capfd):
    """The README's commands for the script run without errors, one after the other in one folder,
    and leave films, curves and a checkpoint. (One may give up, after --max-frames 20000.)"""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(a3c, "LEARNED_MEAN", 12)  # so any policy soon passes
    monkeypatch.delenv("DISPLAY", raising=False)  # so no window opens
    for line in SCRIPT_COMMANDS:
        if "--help" not in line:
            status = a3c.main(shlex.split(line)[2:])
            out, err = capfd.readouterr()
            assert status == LEARNED or "Not learned after 20000" in out, line
            assert err == "", line
    assert {path.name for path in tmp_path.iterdir()} == {"movie", "runs", "saved"}


@pytest.mark.parametrize("text", [*PAGES.values()][:-1], ids=[*PAGES][:-1])  # ARTICLE has none
def test_every_command_has_options_that_exist(text):
    """In each `python FILE.py …`, an option is one of FILE's, of run_statistics.py's (shared by
    the programs that measure) or of the script's (which a program passes on)."""
    shared = (ROOT / "tests" / "measurements" / "run_statistics.py").read_text(encoding="utf-8")
    inside_sentences = re.findall(r"`(python [^`]+)`", " ".join(text.split()))
    commands = [*"".join(blocks("sh", text)).splitlines(), *inside_sentences]
    assert commands
    for command in commands:
        if match := re.match(r"python (\S+\.py)([^#]*)", command):
            programs = (ROOT / match[1]).read_text(encoding="utf-8") + shared + SOURCE
            for option in re.findall(r" (--\w[\w-]*)", match[2]):
                defined = re.search(rf'add(_argument)?\("{option}"', programs)
                assert defined or option == "--help", command


def line_kinds(text):
    """Its lines without the numbers, each once, in the order of their first appearance."""
    lines = (re.sub(r"\d+", "0", line) for line in text.splitlines() if line != "…")
    return list(dict.fromkeys(lines))


def test_the_output_shown_has_the_lines_of_a_real_run(tmp_path):
    """Under "What you will see", each kind of line that a run prints is shown, in its order, and no
    other. The first line is the same; no two runs have the other numbers in common."""
    command = re.search(r"`python (a3c_cartpole\.py --seed \d+ [^`]+)`", SENTENCES)[1].split()
    status, out, err = wait_for_end(start(*command[1:], cwd=tmp_path))
    [shown] = re.findall(r"^```\n(Seed .*?)^```", README, re.M | re.S)
    assert (status, err) == (LEARNED, "") and line_kinds(shown) == line_kinds(out)
    assert shown.splitlines()[0] == out.splitlines()[0]


def test_the_japanese_page_shows_the_readmes_output():
    [shown] = re.findall(r"^```\nSeed .*?^```", README, re.M | re.S)
    assert shown in JAPANESE


def test_a_notebook_runs_the_script_and_shows_films(tmp_path, monkeypatch):
    """The README's notebook cells work: the script learns, and its film is in the notebook."""
    import nbclient
    import nbformat
    shutil.copy(SCRIPT, tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    cells = [nbformat.v4.new_code_cell(cell) for cell in blocks("ipython", README)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=120, resources=where).execute()
    [printed, film] = [cell.outputs for cell in notebook.cells]
    assert "Test episode 3: score" in "".join(output.get("text", "") for output in printed)
    assert "video/mp4;base64" in film[0]["data"]["text/html"]


def test_benchmark_py_measures_a_changed_copy_without_more_packages(tmp_path):
    """benchmark.py measures a changed copy of the script with no more packages than the script
    needs: readers of the exercises may lack what is only in tests/requirements.txt. This copy gives
    up after 300 frames, so it can't learn."""
    changed = tmp_path / "changed.py"
    short = SOURCE.replace("MAX_FRAMES = 1_000_000", "MAX_FRAMES = 300")
    changed.write_text(short, encoding="utf-8")
    missing = dict.fromkeys(["scipy", "matplotlib", "PIL", "ray"])  # importing None fails
    program = f"import sys; sys.modules |= {missing}; import benchmark; benchmark.main()"
    result = subprocess.run([sys.executable, "-c", program, "--seeds", "1", "--program", changed],
                            cwd=ROOT / "tests" / "measurements", text=True, capture_output=True)
    assert "seeds that learned: 0 of 1" in result.stdout, result.stderr


def test_every_fault_has_its_text_and_its_test():
    """What faults.py wants to break still stands in the programs, and each test that it names is
    there, once."""
    assert not list(sabotage.stale())


@pytest.mark.parametrize("command", [
    pytest.param("tests/suite/sabotage.py EPS_STEPS", id="sabotage.py"),  # one fault, and caught
    pytest.param("-m ruff check --no-cache .", id="ruff")])
def test_sabotage_py_and_ruff_find_nothing(command):
    """No fault of sabotage.py survives, and ruff has no complaint."""
    result = subprocess.run([sys.executable, *command.split()], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert result.returncode == 0, result.stdout
