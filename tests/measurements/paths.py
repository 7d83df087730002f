"""Where the programs lie, and the folders in which imports are looked for."""
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCRIPT = ROOT / "a3c_cartpole.py"
VARIANTS = ROOT / "tests" / "variants"
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(VARIANTS)]
