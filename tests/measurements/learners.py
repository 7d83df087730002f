"""The learners that threads.py compares. runner.py starts them:

python tests/measurements/runner.py tests/measurements/learners.py --task cartpole

Acrobot is as on the variants' page. Other options go to the program.
"""
import argparse
import random

import ga3c
import synchronous
import two_worlds
from script import a3c


class FromZero(a3c.tf.train.RMSPropOptimizer):
    """RMSProp, but its averages start at 0, as in exercise 15."""
    def _create_slots(self, weights):
        for w in weights:
            self._zeros_slot(w, "rms", self._name)
            self._zeros_slot(w, "momentum", self._name)


class FromZeroServer(a3c.ParameterServer):
    def build_optimizer(self):
        return FromZero(a3c.LEARNING_RATE, a3c.RMSPROP_DECAY)


class CorrectedServer(a3c.ParameterServer):
    """RMSProp with averages that start at 0 and are corrected for it, which is Adam without an
    average of the gradients themselves."""
    def build_optimizer(self):
        return a3c.tf.train.AdamOptimizer(a3c.LEARNING_RATE, beta1=0.0, beta2=a3c.RMSPROP_DECAY,
                                          epsilon=1e-5)  # RMSProp's is 1e-10, under the root


class AdamServer(a3c.ParameterServer):
    def build_optimizer(self):
        return a3c.tf.train.AdamOptimizer(a3c.LEARNING_RATE)


class Acrobot(a3c.Environment):
    def reward(self, s, a, r, s_, step, done):
        return r / 100


class SameWorld(two_worlds.Environment):
    """All learners are in the same world at a time. The episodes of all of them count."""
    def run(self):
        first = random.Random(self.progress.options.seed).choice((1, -1))
        changes = self.progress.episodes // two_worlds.EPISODES
        self.world = first * (-1) ** changes
        return a3c.Environment.run(self)


class OffPolicy(synchronous.Agent):
    """As in the script, the last steps before an update wait for the next one."""
    on_policy = False


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    add = parser.add_argument
    add("--task", choices=("cartpole", "worlds", "acrobot"), required=True)
    add("--rate", type=float, default=1, metavar="X", help="multiply the learning rate by X")
    add("--from-0", action="store_true", help="RMSProp's averages start at 0 instead of 1")
    add("--corrected", action="store_true", help="from 0, and corrected for it, as Adam does it")
    add("--wait", action="store_true", help="learners wait for each other, as in synchronous.py")
    add("--ga3c", action="store_true", help="learners as in ga3c.py")
    add("--off-policy", action="store_true", help="the last samples of a round wait for the next")
    add("--block", type=int, default=two_worlds.EPISODES, metavar="N",
        help="episodes of a learner in a world")
    add("--same-world", action="store_true", help="all learners are in the same world at a time")
    own, words = parser.parse_known_args(argv)

    server, environment = a3c.ParameterServer, a3c.Environment
    if own.task == "worlds":
        two_worlds.configure()
        two_worlds.EPISODES = own.block
        environment = SameWorld if own.same_world else two_worlds.Environment
    elif own.task == "acrobot":
        a3c.configure(ENV="Acrobot-v1", NUM_STATES=6, NUM_ACTIONS=3, TIME_LIMIT_IS_END=False,
                      LEARNED_MEAN=-100, HIDDEN_UNITS=64, LEARNING_RATE=1e-3, N_STEP_RETURN=20,
                      Tmax=20, LOSS_ENTROPY=0.001)
        server, environment = AdamServer, Acrobot
    a3c.LEARNING_RATE *= own.rate
    if own.from_0:
        server = FromZeroServer
    elif own.corrected:
        server = CorrectedServer
    program = ga3c if own.ga3c else synchronous if own.wait else a3c
    agent = OffPolicy if own.off_policy else a3c.Agent  # OffPolicy only with --wait
    return program.main(words, server, agent_class=agent, environment_class=environment)
