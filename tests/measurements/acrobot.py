"""Acrobot, as on the variants' page, with learners that may wait. threads.py measures it."""
import argparse

import synchronous
from clipped import a3c


class Server(a3c.ParameterServer):
    def build_optimizer(self):
        return a3c.tf.train.AdamOptimizer(a3c.LEARNING_RATE)


class Environment(a3c.Environment):
    def reward(self, s, a, r, s_, step, done):
        return r / 100


def configure(rate=1e-3):
    a3c.configure(ENV="Acrobot-v1", NUM_STATES=6, NUM_ACTIONS=3, TIME_LIMIT_IS_END=False,
                  LEARNED_MEAN=-100, HIDDEN_UNITS=64, LEARNING_RATE=rate, N_STEP_RETURN=20,
                  Tmax=20, LOSS_ENTROPY=0.001)


def main(argv=None):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--wait", action="store_true")
    own, words = parser.parse_known_args(argv)
    configure(own.rate)
    program = synchronous if own.wait else a3c
    return program.main(words, Server, environment_class=Environment)
