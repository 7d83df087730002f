"""clipped.py: its updates against NumPy, and where a run ends."""
import re

import numpy as np
import pytest
from helpers import Built, a3c, random_samples, randomize, run_main, update_with
from reference import gradient, rmsprop

pytest.importorskip("gymnasium")
import clipped


@pytest.mark.parametrize("server_class, max_norm, frames", [
    (clipped.Clipping, 0.5, 150_000), (clipped.Clipping, 50, 150_000),
    (clipped.FallingRate, 0.5, 150_000), (clipped.Server, 0.5, 150_000),
    (clipped.Server, 0.5, 400_000)],
    ids=["clipped", "too small to clip", "lower rate", "clipped at a lower rate", "rate of 0"])
def test_clipped_updates_with_a_falling_rate_equal_numpy(
        monkeypatch, rng, server_class, max_norm, frames):
    """Gradients are clipped at a norm of 0.5 (50 clips none), the rate falls to 0, or both."""
    monkeypatch.setattr(clipped.Clipping, "max_norm", max_norm)
    built = Built(1, server_class=server_class)
    randomize(built.server.session, built.brains[0].weights, rng)
    built.progress.frames = frames
    weights = built.values(built.server.weights)
    squares = [np.ones_like(w) for w in weights]
    samples = random_samples(rng)
    gradients = gradient(built.values(built.brains[0].weights), *samples)
    norm = sum((g ** 2).sum() for g in gradients) ** 0.5
    assert 1 < norm < 50
    factor = 1 if server_class is clipped.FallingRate else min(1, max_norm / norm)
    moved = [w.copy() for w in weights]
    rmsprop(moved, squares, [g * factor for g in gradients])
    update_with(built.brains[0], *samples)
    rate = 1 if server_class is clipped.Clipping else max(0, 1 - frames / 300_000)
    for old, new, got in zip(weights, moved, built.values(built.server.weights)):
        np.testing.assert_allclose(got - old, rate * (new - old), rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("max_frames, end, said", [
    (40_000, 290_000, ""),
    (60_000, 300_000, "The learning rate is 0 after 300000 frames, and the run ends\n")])
def test_clipped_ends_where_its_rate_is_0(monkeypatch, capsys, max_frames, end, said):
    """After 300,000 frames nothing more can be learned, so the run ends, and says so at its start.
    The 250,000 frames of an earlier run count."""
    def continue_after_250_000_frames(server):
        server.progress.max_frames += 250_000
    monkeypatch.setattr(a3c.ParameterServer, "initialize", continue_after_250_000_frames)
    built = Built(1, max_frames, server_class=clipped.Server)
    assert built.progress.max_frames == end and capsys.readouterr().out == said


def test_play_says_nothing_of_a_rate(saved, capsys):
    """With --play nothing is learned, so a line about a falling rate would mislead."""
    capsys.readouterr()
    run_main("--play", "--checkpoint", saved, "--test-episodes", 1, server_class=clipped.Server)
    assert re.fullmatch(r"Test episode 1: .*\n", capsys.readouterr().out)
