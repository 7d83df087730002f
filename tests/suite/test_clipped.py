"""clipped.py: its updates against NumPy, and where a run ends."""
import re

import numpy as np
import pytest
from helpers import Built, a3c, random_samples, randomize, run_main, update_with
from reference import gradient, rmsprop

pytest.importorskip("gymnasium")
import clipped


@pytest.mark.parametrize("server_class, frames, max_norm, clipped_to, part_of_rate", [
    (clipped.Clipping, 150_000, 0.5, 0.5, 1), (clipped.Clipping, 150_000, 50, 50, 1),
    (clipped.FallingRate, 150_000, 0.5, np.inf, 0.5), (clipped.Server, 150_000, 0.5, 0.5, 0.5),
    (clipped.Server, 400_000, 0.5, 0.5, 0)],
    ids=["clipped", "too small to clip", "lower rate", "clipped at a lower rate", "rate of 0"])
def test_clipped_updates_with_a_falling_rate_equal_numpy(
        monkeypatch, rng, server_class, frames, max_norm, clipped_to, part_of_rate):
    """An update moves the weights as RMSProp in NumPy does with gradients clipped to the norm
    `clipped_to`, times what is left of the learning rate: all at first, 0 after 300,000 frames."""
    monkeypatch.setattr(clipped.Clipping, "max_norm", max_norm)
    built = Built(1, server_class=server_class)
    randomize(built.server.session, built.brains[0].weights, rng)
    built.progress.frames = frames
    weights = built.values(built.server.weights)
    squares = [np.ones_like(w) for w in weights]
    samples = random_samples(rng)
    gradients = gradient(built.values(built.brains[0].weights), *samples)
    norm = sum((g ** 2).sum() for g in gradients) ** 0.5
    assert 1 < norm < 50  # so a limit of 0.5 clips it, and one of 50 doesn't
    moved = [w.copy() for w in weights]
    rmsprop(moved, squares, [g * min(1, clipped_to / norm) for g in gradients])

    update_with(built.brains[0], *samples)
    for old, new, got in zip(weights, moved, built.values(built.server.weights)):
        np.testing.assert_allclose(got - old, part_of_rate * (new - old), rtol=1e-3, atol=1e-7)


EARLIER = 250_000  # frames of an earlier run


@pytest.mark.parametrize("max_frames, end, said", [
    (40_000, EARLIER + 40_000, ""),
    (60_000, 300_000, "The learning rate is 0 after 300000 frames, and the run ends\n")])
def test_clipped_ends_where_its_rate_is_0(monkeypatch, capsys, max_frames, end, said):
    """A run that would go beyond 300,000 frames ends there, because the learning rate is 0, and
    says so at its start. The 300,000 include the frames of an earlier run, here EARLIER."""
    def go_on(server):  # as from a checkpoint after EARLIER frames
        server.progress.max_frames += EARLIER
    monkeypatch.setattr(a3c.ParameterServer, "initialize", go_on)
    built = Built(1, max_frames, server_class=clipped.Server)
    assert built.progress.max_frames == end and capsys.readouterr().out == said


def test_play_says_nothing_of_a_falling_rate(saved, capsys):
    """With --play, which learns nothing, no line says when the learning rate will be 0."""
    capsys.readouterr()
    run_main("--play", "--checkpoint", saved, "--test-episodes", 1, server_class=clipped.Server)
    assert re.fullmatch(r"Test episode 1: .*\n", capsys.readouterr().out)
