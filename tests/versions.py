"""Run the core of the tests in fresh environments: python tests/versions.py [newest] [oldest] [classic] [gym]

newest: all that requirements.txt admits; oldest: the lower ends of its ranges; classic: Gym 0.26.2 with NumPy 1.26 and
no Gymnasium; gym: the same with the newest NumPy. Default: all four. --pythons: with every Python from 3.10 to 3.13
that is on the PATH.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETS = "newest", "oldest", "classic", "gym"
CORE = *sorted(set((ROOT / "tests").glob("test_*.py")) - {ROOT / "tests/test_readme.py"}), "-k", "not drills or film"


def requirements(which):
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    if which == "oldest":
        lines = re.sub(r">=([\d.]+),<[\d.]+", r"==\1", lines)
    elif which != "newest":  # Gym's own extra asks for a pygame that no longer installs
        lines = re.sub(r"gymnasium\S*", "gym==0.26.2\npygame", lines)
        lines = re.sub(r"numpy\S*", "numpy==1.26.4", lines) if which == "classic" else lines
    return lines


def passes(which, python):
    """Whether the core passes with this set of packages; None if this Python is too new for the set."""
    version = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2], sep='.')"], check=True, text=True,
                             capture_output=True).stdout.strip()
    print(f"== {which}, Python {version}", flush=True)
    if which in ("oldest", "classic") and version == "3.13":
        print("TensorFlow 2.16 and NumPy 1.26 have no packages for Python 3.13")
        return None
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        inside = str(Path(folder, "Scripts" if os.name == "nt" else "bin", "python"))
        wanted = Path(folder, "wanted.txt")
        wanted.write_text(requirements(which), encoding="utf-8")
        subprocess.run([inside, "-m", "pip", "install", "-q", "-r", wanted, "-r", ROOT / "tests" / "requirements.txt"],
                       check=True)
        subprocess.run([inside, "-m", "pip", "freeze"], check=True)
        return subprocess.run([inside, "-m", "pytest", "-q", "-n", "2", *CORE], cwd=ROOT).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"{', '.join(SETS)} (default: all)")
    parser.add_argument("--pythons", action="store_true", help="with every Python from 3.10 to 3.13 on the PATH")
    args = parser.parse_args()
    if unknown := set(args.sets) - set(SETS):
        parser.error(f"{', '.join(unknown)}: give {', '.join(SETS)}")
    pythons = [sys.executable]
    if args.pythons:
        pythons = [path for minor in (10, 11, 12, 13) if (path := shutil.which(f"python3.{minor}"))
                   and subprocess.run([path, "--version"], capture_output=True).returncode == 0]
    results = {(which, python): passes(which, python) for python in pythons
               for which in args.sets or SETS}
    for (which, python), passed in results.items():
        print({True: "passed", False: "FAILED", None: "none"}[passed], which, python)
    return int(False in results.values())


if __name__ == "__main__":
    sys.exit(main())
