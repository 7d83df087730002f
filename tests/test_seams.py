"""What a reader may change: settings, and parts by a subclass. The variants show most of it."""
import collections

import pytest
from helpers import (
    LEARNED, EndsAt, a3c, fault, run, same, saved_values, tf, weights_of)


def settings(monkeypatch, **values):
    for name, value in values.items():
        monkeypatch.setattr(a3c, name, value)


@fault("parse", "random.randrange(2 ** 32)", "1")
def test_options_that_are_not_given_come_from_the_settings_and_the_seed_from_chance(monkeypatch):
    settings(monkeypatch, N_WORKERS=3, MAX_FRAMES=60)
    given = a3c.parse([])
    assert (given.workers, given.max_frames, given.test_episodes) == (3, 60, 3)
    assert given.seed != a3c.parse([]).seed  # equal once in four billion times


@fault("Environment.__init__", "self.server = parameter_server", "pass")
def test_threshold_and_evaluation_follow_the_settings_and_make_reaches_the_server(monkeypatch):
    """Each episode has 5 steps, and each costs 1."""
    settings(monkeypatch, LEARNED_MEAN=-6, THRESHOLD_EPISODES=3, EVALUATION_EPISODES=4)
    played = collections.Counter()

    class Environment(a3c.Environment):
        def make(self, render_mode=None):
            self.server.made = EndsAt(falls=5, reward=-1.0)
            return self.server.made

        def run(self, learning):
            score = super().run(learning)
            played[learning] += 1
            return score
    status, server = run("--test-episodes", 1, "--max-frames", 99, environment_class=Environment)
    assert status == LEARNED and server.made.now == 5
    assert played == {True: 3, False: 4 + 1} and server.progress.frames == 3 * 5


def test_a_brain_with_other_layers_than_the_server_is_an_error_not_a_network_of_zeros():
    class Brain(a3c.LocalBrain):
        def _build_model(self):
            a3c.layer("another", 4, 4)
            return super()._build_model()
    with pytest.raises(ValueError, match="zip"):
        run(brain_class=Brain)


class Adam(a3c.ParameterServer):
    """Adam's variable beta1_power begins at 0.9, and each update multiplies it by 0.9."""

    def build_optimizer(self):
        return tf.train.AdamOptimizer(1e-3)


@fault("ParameterServer.build_update", 'tf.name_scope("parameter_server/")',
       'tf.name_scope("elsewhere/")')
def test_a_run_goes_on_with_the_weights_and_with_the_variables_of_another_optimizer(tmp_path):
    words = "--checkpoint", tmp_path, "--max-frames", 300  # at least 30 updates
    _, first = run(*words, server_class=Adam)
    before = saved_values(tmp_path)["parameter_server/beta1_power"]
    _, second = run(*words, server_class=Adam)
    assert same(second.first, weights_of(first))
    assert saved_values(tmp_path)["parameter_server/beta1_power"] <= before * 0.9 ** 30
