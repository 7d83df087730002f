"""Pong with the threads of ga3c.py, a program that benchmark.py --variants measures."""
import pong  # first, because it chooses a setting of TensorFlow's
import ga3c
import advantages


def main(argv=None):
    pong.configure()
    return ga3c.main(argv, pong.Server, agent_class=advantages.SegmentReturns,
                     environment_class=pong.Environment)
