"""Run the core of the tests in fresh environments: python tests/versions.py [SET]...

Sets: newest, all that requirements.txt admits; oldest, the lower ends of its ranges; classic, Gym
0.26.2 with NumPy 1.26 and no Gymnasium. Default: all three. The core is every test but the pages';
with Gym no films, drills and variants, which have nothing to do with it.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETS = "newest", "oldest", "classic"


def requirements(which):
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    if which == "oldest":
        lines = re.sub(r">=([\d.]+),<[\d.]+", r"==\1", lines)
    if which == "classic":  # Gym's own extra asks for a pygame that no longer installs
        lines = re.sub(r"gymnasium\S*", "gym==0.26.2\npygame-ce", lines)
        lines = re.sub(r"numpy\S*", "numpy==1.26.4", lines)
    return lines


def run(which):
    """Run the core with this set of packages. Returns what came of it."""
    print("==", which, sys.version, flush=True)
    if which != "newest" and sys.version_info >= (3, 13):
        return "none: TensorFlow 2.16 and NumPy 1.26 have no packages for Python 3.13 and later"
    core = "not pages"
    if which == "classic":
        core += "".join(f" and not {word}" for word in
                        ("film", "figures", "drills", "variants", "distributed"))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.check_call([sys.executable, "-m", "venv", folder])
        python = Path(folder, "Scripts" if os.name == "nt" else "bin", "python")
        wanted = Path(folder, "wanted.txt")
        wanted.write_text(requirements(which), encoding="utf-8")
        subprocess.check_call([python, "-m", "pip", "install", "-q", "-r", wanted,
                               "-r", ROOT / "tests" / "requirements.txt"])
        tests = [python, "-m", "pytest", "-q", "-n", "2", "-k", core, "tests"]
        return "FAILED" if subprocess.call(tests, cwd=ROOT) else "passed"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"{', '.join(SETS)} (default: all)")
    sets = parser.parse_args().sets or SETS
    if not set(sets) <= set(SETS):
        parser.error(f"give {', '.join(SETS)}")
    results = {which: run(which) for which in sets}
    for which, result in results.items():
        print(which, result, sep=": ")
    return int("FAILED" in results.values())


if __name__ == "__main__":
    sys.exit(main())
