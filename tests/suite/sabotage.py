"""Break the programs and see that a test turns red.

The test of each fault of faults.py runs on a copy with it. If one survives, the exit status is 1.
(test_pages.py and test_page_numbers.py have no faults: what they guard isn't a program.)
"""
import argparse
import ast
import collections
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from faults import FAULTS

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "a3c_cartpole.py"
Fault = collections.namedtuple("Fault", "place old new")  # see faults.py


def program(fault):
    """The file that a fault is in, and its text with the fault. The first name of its place is a
    program's in `tests`, or else something in the script."""
    path, names = Path(SCRIPT), fault.place.split(".")
    for folder in "variants", "exercises", "measurements", "figures":
        other = Path("tests", folder, names[0] + ".py")
        if len(names) > 1 and (ROOT / other).exists():
            path, names = other, names[1:]
            break
    text = (ROOT / path).read_text(encoding="utf-8")
    part, lines = ast.parse(text), text.splitlines(keepends=True)
    first, end = 0, len(lines)
    for name in filter(None, names):
        found = [node for node in part.body if name == getattr(node, "name", None)
                 or ast.unparse(node).startswith(f"{name} = ")]
        if len(found) != 1:
            raise ValueError(f"{name} is defined {len(found)} times")
        [part] = found
        first, end = part.lineno - 1, part.end_lineno
    inside = "".join(lines[first:end])
    if inside.count(fault.old) != 1:
        raise ValueError(f"{fault.old!r} stands there {inside.count(fault.old)} times")
    return path, "".join([*lines[:first], inside.replace(fault.old, fault.new), *lines[end:]])


def tests():
    """All tests, as (file, name)."""
    for path in sorted((ROOT / "tests" / "suite").glob("test_*.py")):
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.M):
            yield path.name, name


def faults():
    """All faults, as (test, fault)."""
    for file, name in tests():
        for fault in FAULTS.get(name, []):
            yield f"tests/suite/{file}::{name}", Fault(*fault)


def stale():
    """A line for each fault without its text or test, and for each name that two tests have."""
    counts = collections.Counter(name for _, name in tests())
    for name in {*FAULTS, *counts}:
        if counts[name] != 1:
            yield f"{name}: {counts[name]} tests have this name"
    for test, fault in faults():
        try:
            program(fault)
        except ValueError as error:
            yield f"{test}: {fault.place}: {error}"


def run(chosen, path, text, seconds):
    """Run tests on a copy of the project with this text in `path`: what came of it, and words."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "tests", Path(folder, "tests"))
        for file in SCRIPT, "README.md":
            shutil.copy(ROOT / file, folder)
        Path(folder, path).write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider",
                   "-m", "", *chosen]  # the long ones, too
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, start_new_session=True) as process:
            try:
                out, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # with the scripts that it started
                return "HANGS", ""
    results = {0: "passes", 1: "caught", -signal.SIGABRT: "caught"}  # TensorFlow may abort
    return results.get(process.returncode, "FAILS"), out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("word", nargs="?", default="", help="only tests and faults that contain it")
    word, survivors = parser.parse_args().word, 0
    if problems := list(stale()):
        sys.exit("\n".join(problems))
    chosen = [(test, fault) for test, fault in faults() if word in str([test, *fault])]
    if not chosen:
        sys.exit(f"{word!r} is in no fault")
    whole = (ROOT / SCRIPT).read_text(encoding="utf-8")
    result, out = run({test for test, _ in chosen}, SCRIPT, whole, 1200)
    if result != "passes":
        sys.exit(f"{out}\nThe script has to pass these tests before it is broken.")
    with concurrent.futures.ThreadPoolExecutor(2) as two:
        results = two.map(lambda pair: run(pair[:1], *program(pair[1]), 240), chosen)
        for (test, fault), (result, out) in zip(chosen, results):
            survivors += result != "caught"
            print(result.replace("passes", "SURVIVES"), test, *fault,
                  out[-500:] * (result == "FAILS"), sep=" | ", flush=True)
    print(f"{len(chosen)} faults, {survivors} survivors")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
