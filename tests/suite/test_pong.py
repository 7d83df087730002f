"""pong.py: its network against NumPy, and the game."""
import unittest.mock

import numpy as np
import pytest
from helpers import a3c, assert_network_equals, equal
from reference import layer, relu
from scipy.special import softmax

pytest.importorskip("gymnasium")
import pong


def convolution(x, w, b, stride):
    """Of one state's pictures (height, width, channels)."""
    parts = np.lib.stride_tricks.sliding_window_view(x, w.shape[:3])[::stride, ::stride, 0]
    return np.tensordot(parts, w, 3) + b


def pong_numpy(w, s):
    units = []
    for pictures in s.reshape(-1, 4, 84, 84):
        x = (pictures.transpose(1, 2, 0) - 87.0) / 255
        x = relu(convolution(x, w[0], w[1], 4))
        x = relu(convolution(x, w[2], w[3], 2))
        units.append(relu(layer(x.reshape(-1), w[4], w[5])))
    h = np.array(units)
    return softmax(layer(h, *w[6:8]), axis=1), layer(h, *w[8:])[:, 0]


def test_pongs_network_equals_numpy(restored_constants, rng):
    """π and V are NumPy's for two states, each of four pictures."""
    pong.configure()
    s = rng.integers(256, size=(2, pong.NUM_STATES))
    assert_network_equals(pong.Server, a3c.LocalBrain, pong_numpy, s, rng, spread=0.05)


@pytest.fixture
def environment(restored_constants):
    pong.configure()
    return pong.Environment(unittest.mock.Mock(), unittest.mock.Mock())


def test_pongs_films_run_at_the_games_speed(environment):
    """A film shows 15 pictures per second: it has one of each step, which lasts four of the game's
    60 frames per second. RecordVideo takes the speed from `render_fps`."""
    env = environment.make("rgb_array_list")
    assert env.metadata["render_fps"] == 60 / 4


def test_a_step_of_pong_lasts_four_frames(environment):
    """A step lasts four of the frames that the game draws: the agent acts only once in four."""
    env, ale = environment.env, environment.env.unwrapped.ale
    env.reset(seed=0)
    before = ale.getEpisodeFrameNumber()
    env.step(0)
    assert ale.getEpisodeFrameNumber() == before + 4


def test_pongs_state_is_the_last_four_pictures(environment):
    """A state has a grey picture of each of the last four steps, to show where the ball goes."""
    env = environment.env
    env.reset(seed=0)
    states = [env.step(action)[0].reshape(4, 84, 84) for action in (1, 2) * 10]
    for s, s_ in zip(states, states[1:]):
        assert equal(s[1:], s_[:3])
    last = states[-1]
    assert not np.array_equal(last[2], last[3])  # something moves
    assert last.dtype == np.uint8 and last.max() > 100  # brighter than the background


def test_a_point_of_the_opponent_costs_1_in_pong(environment):
    """The reward is the game's. Here the paddle always goes up, until the opponent has a point."""
    environment.env.reset(seed=0)
    r = 0
    while not r:
        s, r, *_ = environment.env.step(1)
    assert r == environment.reward(s, 1, r, s, 1, False) == -1


def test_pongs_paddle_goes_up_and_down(environment):
    """Action 1 moves it up, and 2 down. Byte 51 of the Atari's memory counts from the top."""
    env = environment.env
    env.reset(seed=0)
    from_top = []
    for action in 1, 2, 1:
        for _ in range(15):
            env.step(action)
        from_top.append(int(env.unwrapped.ale.getRAM()[51]))
    up, down, up_again = from_top
    assert up < down > up_again


def test_games_of_pong_begin_differently(environment):
    """With other seeds a game begins after another number of frames, as is usual with Atari.
    Otherwise all games would be alike."""
    begun = set()
    for seed in range(5):
        environment.env.reset(seed=seed)
        begun.add(environment.env.unwrapped.ale.getEpisodeFrameNumber())
    assert len(begun) > 1
