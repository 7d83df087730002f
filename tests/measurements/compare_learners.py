"""The learners that compare.py compares. run_program.py starts them:

python tests/measurements/run_program.py tests/measurements/compare_learners.py --task cartpole

Acrobot is that of tests/variants/your_own.md. Other options go to the program.
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


class AdamServer(a3c.ParameterServer):
    def build_optimizer(self):
        return a3c.tf.train.AdamOptimizer(a3c.LEARNING_RATE)


class NoMomentumServer(a3c.ParameterServer):
    """Adam without an average of the gradients themselves."""
    def build_optimizer(self):
        return a3c.tf.train.AdamOptimizer(a3c.LEARNING_RATE, beta1=0.0)


class CorrectedServer(a3c.ParameterServer):
    """RMSProp whose averages start at 0, with Adam's correction for that. So the first steps are
    neither smaller nor larger than later ones. (1e-5 is the root of the script's ε.)"""
    def build_optimizer(self):
        return a3c.tf.train.AdamOptimizer(a3c.LEARNING_RATE, beta1=0.0, beta2=a3c.RMSPROP_DECAY,
                                          epsilon=1e-5)


class InTurn(a3c.LocalBrain):
    """Learners take turns, always in the same order."""
    def __init__(self, name, parameter_server, *args, **kwargs):
        super().__init__(name, parameter_server, *args, **kwargs)
        parameter_server.turns = 0  # those that are over

    def wait_for_turn(self):
        progress = self.server.progress
        number = int(self.name.removeprefix("local_thread")) - 1
        progress.wait_until(
            lambda: self.server.turns % progress.options.workers == number
            or progress.phase == "learned" or progress.frames >= progress.max_frames)

    def end_turn(self):
        with self.server.progress.changed:
            self.server.turns += 1
            self.server.progress.changed.notify_all()


class SegmentsInTurn(InTurn):
    """A turn is a segment: a pull, some steps and an update. So no gradient is stale."""
    def pull_parameter_server(self):
        if self.name != "test_thread":
            self.wait_for_turn()
        super().pull_parameter_server()

    def update_parameter_server(self):
        super().update_parameter_server()
        self.end_turn()


class UpdatesInTurn(InTurn):
    """A turn is an update. Between two updates of a learner all others make one."""
    def update_parameter_server(self):
        self.wait_for_turn()
        super().update_parameter_server()
        self.end_turn()


ACROBOT = {"ENV": "Acrobot-v1", "NUM_STATES": 6, "NUM_ACTIONS": 3, "TIME_LIMIT_IS_END": False,
           "LEARNED_MEAN": -100, "HIDDEN_UNITS": 64, "LEARNING_RATE": 1e-3, "N_STEP_RETURN": 20,
           "Tmax": 20, "LOSS_ENTROPY": 0.001}


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
    def advantage_push_local_brain(self, *step):
        a3c.Agent.advantage_push_local_brain(self, *step)


BRAINS = {"nothing": a3c.LocalBrain, "segments": SegmentsInTurn, "updates": UpdatesInTurn}
SERVERS = {"script": a3c.ParameterServer, "from-0": FromZeroServer,
           "corrected": CorrectedServer, "adam": AdamServer, "no-momentum": NoMomentumServer}
KINDS = {"threads": a3c, "waiting": synchronous, "ga3c": ga3c}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    add = parser.add_argument
    add("--task", choices=("cartpole", "worlds", "acrobot"), required=True)
    add("--learners", choices=KINDS, default="threads",
        help="those of the script (threads), of synchronous.py or of ga3c.py")
    add("--off-policy", action="store_true",
        help="let the last samples of learners that wait be used in the next round")
    add("--optimizer", choices=SERVERS, help="by default the script's, or Adam for acrobot")
    add("--rate", type=float, default=1, metavar="X", help="multiply the learning rate by X")
    add("--block", type=int, default=two_worlds.EPISODES, metavar="N",
        help="episodes of a learner in a world")
    add("--same-world", action="store_true", help="all learners are in the same world at a time")
    add("--in-turn", choices=BRAINS, default="nothing", help="what learners do one after the other")
    own, words = parser.parse_known_args(argv)
    if own.off_policy and own.learners != "waiting":
        parser.error("--off-policy is for --learners waiting")

    environment = a3c.Environment
    if own.task == "worlds":
        two_worlds.configure()
        two_worlds.EPISODES = own.block
        environment = SameWorld if own.same_world else two_worlds.Environment
    elif own.task == "acrobot":
        a3c.configure(**ACROBOT)
        environment = Acrobot
    a3c.LEARNING_RATE *= own.rate
    optimizer = own.optimizer or ("adam" if own.task == "acrobot" else "script")
    return KINDS[own.learners].main(
        words, SERVERS[optimizer], brain_class=BRAINS[own.in_turn],
        agent_class=OffPolicy if own.off_policy else a3c.Agent, environment_class=environment)
