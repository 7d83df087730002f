"""two_worlds.py: what differs between its worlds, and who is in which world when."""
import random
import unittest.mock

import numpy as np
import pytest
from helpers import a3c, equal, options

pytest.importorskip("gymnasium")
import two_worlds


@pytest.fixture
def environment(restored_constants):
    """That of a thread whose agent always pushes to the left."""
    two_worlds.configure()
    agent = unittest.mock.Mock(rng=random.Random(0))
    agent.act.return_value = agent.act_greedily.return_value = 0
    return two_worlds.Environment(agent, a3c.Progress(options()))


def test_world_minus_1_exchanges_the_actions(environment):
    """Pushing right in world -1 does what pushing left does in world 1, and pushing left what right
    does. The fifth number of a state is the world."""
    def states(world, action):
        environment.env.unwrapped.world = world
        s, _ = environment.env.reset(seed=0)
        return np.array([s, *[environment.env.step(action)[0] for _ in range(5)]])
    left, right = states(1, 0), states(1, 1)
    assert not equal(left, right) and left.shape == (6, 5)
    for normal, exchanged in (left, states(-1, 1)), (right, states(-1, 0)):
        assert equal(normal[:, :4], exchanged[:, :4])
        assert set(normal[:, 4]) == {1} and set(exchanged[:, 4]) == {-1}


def test_a_learner_changes_its_world_every_few_episodes(monkeypatch, environment):
    """A learner changes its world after every EPISODES episodes of its own, here three."""
    monkeypatch.setattr(two_worlds, "EPISODES", 3)
    worlds = []
    for _ in range(7):
        environment.run()
        worlds.append(environment.env.unwrapped.world)
    first, other = worlds[0], -worlds[0]
    assert worlds == 3 * [first] + 3 * [other] + [first]


def test_a_threads_first_world_is_drawn_by_chance(environment):
    others = [two_worlds.Environment(environment.agent, environment.progress) for _ in range(20)]
    assert {other.world for other in others} == {1, -1}


def test_worlds_take_turns_in_evaluations_and_films(environment):
    """Evaluations and films change the world with each episode, even in a wrapped environment."""
    for env in environment.env, a3c.gym.Wrapper(environment.env):
        worlds = []
        for _ in range(4):
            environment.play(env)
            worlds.append(env.unwrapped.world)
        assert worlds in ([1, -1, 1, -1], [-1, 1, -1, 1])
