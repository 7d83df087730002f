"""The script, as `a3c`, and its NumPy and TensorFlow, for programs in other folders."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import a3c_cartpole as a3c
from a3c_cartpole import np, tf

__all__ = ["a3c", "np", "tf"]
