"""Two other ways to estimate the advantage, which several variants use.

In the A3C paper a return sums all rewards up to the end of its segment, which is what a learner
plays between two updates, and then adds V. `SegmentReturns` never looks beyond that end.

Generalized advantage estimation (Schulman et al., arXiv:1506.02438) begins with single steps. δ
says how much better a step was than expected. The advantage is a weighted sum of this δ and all
later ones in the update:
    δₜ = rₜ + γ·V(sₜ₊₁) - V(sₜ)      Aₜ = δₜ + γλ·δₜ₊₁ + (γλ)²·δₜ₊₂ + ...
λ = 0 gives the one-step advantage. λ = 1 takes all rewards up to the last sample, and then V. In
between there is usually less bias than with 0, and less noise than with 1.
"""
from script import a3c, tf


class SegmentReturns(a3c.Agent):
    """No sample waits for the next update, when the weights are newer. With an N_STEP_RETURN of
    Tmax or more, the returns are the paper's."""
    def advantage_push_local_brain(self, s, a, r, s_, done, terminal):
        step = len(self.brain.train_queue) + len(self.memory) + 1  # of this segment
        super().advantage_push_local_brain(s, a, r, s_, done or step == a3c.Tmax, terminal)


class GAE(a3c.LocalBrain):
    """Generalized advantage estimation, for samples that are single steps, in order."""
    gae_lambda = 0.95  # λ

    def __init__(self, name, parameter_server):
        super().__init__(name, parameter_server)
        if a3c.N_STEP_RETURN != 1:
            a3c.refuse("with GAE, N_STEP_RETURN must be 1: the advantage sums over single steps")

    def build_loss(self, p, v, a, target):
        delta = target - v  # (batch,)
        t = tf.range(tf.size(delta))
        later = tf.cast(t - t[:, tf.newaxis], tf.float32)  # u - t in row t and column u
        weights = (a3c.GAMMA * self.gae_lambda) ** later  # (batch, batch)
        weights = tf.where(later >= 0, weights, tf.zeros_like(later))
        advantage = tf.linalg.matvec(weights, delta)  # Aₜ = Σ (γλ)^(u - t)·δᵤ, for all u ≥ t
        # The script subtracts v from this target, which leaves A.
        return super().build_loss(p, v, a, tf.stop_gradient(v + advantage))
