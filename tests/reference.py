"""Networks (the script's, an LSTM, a normal distribution), loss, gradients, RMSProp in NumPy."""
import numpy as np


def forward(weights, s, active=None):
    """The policy (batch, 2) and the values (batch,) in the states s. active: which hidden units
    count (batch, 16); None: those above 0, as ReLU has it."""
    hidden_w, hidden_b, actor_w, actor_b, critic_w, critic_b = weights
    h = layer(s, hidden_w, hidden_b)
    h = h * (h > 0 if active is None else active)
    e = np.exp(layer(h, actor_w, actor_b))
    return e / e.sum(axis=1, keepdims=True), layer(h, critic_w, critic_b)[:, 0]


def layer(x, w, b):
    return x @ w + b


def relu(x):
    return np.maximum(x, 0)


def lstm(xs, w, b, c, h):
    """c and h after each step, if they are these before the first."""
    def sigmoid(x):
        return 1 / (1 + np.exp(-x))
    cs, hs = [], []
    for x in xs:
        i, g, f, o = np.split(np.append(x, h) @ w + b, 4)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        cs.append(c)
        hs.append(h)
    return np.array(cs), np.array(hs)


def normal(outputs):
    """Means and spreads of Pendulum's torques."""
    mean, spread = np.split(outputs, 2, axis=1)
    return np.hstack([2 * np.tanh(mean), np.log1p(np.exp(spread)) + 1e-3])


def loss_terms(p, v, a, target, advantage):
    """Actor, critic, entropy, each (batch,). The actor's advantage is given: it is a constant."""
    actor = -np.log(p[np.arange(len(a)), a] + 1e-10) * advantage
    return actor, 0.5 * (target - v) ** 2, 0.01 * (p * np.log(p + 1e-10)).sum(axis=1)


def terms(weights, fixed, s, a, R, s_, discount):
    """Actor, critic, entropy. The actor's advantage, V(s_), and which hidden units are active are
    those of the weights `fixed`."""
    target = R + discount * forward(fixed, s_)[1]
    active = s @ fixed[0] + fixed[1] > 0
    return loss_terms(*forward(weights, s, active), a, target, target - forward(fixed, s)[1])


def differences(loss, weights):
    """The gradient of loss() by each number in these float64 arrays, by central differences."""
    gradients = [np.zeros_like(w) for w in weights]
    for w, g in zip(weights, gradients):
        for i in np.ndindex(w.shape):
            w[i] += 1e-6
            up = loss()
            w[i] -= 2e-6
            g[i] = (up - loss()) / 2e-6
            w[i] += 1e-6
    return gradients


def gradient(weights, *samples):
    """Of the mean loss, by each weight. It is the same as with ReLU, because the active units are
    those above 0. But no difference reaches across the point where one becomes active."""
    fixed = [w.astype(np.float64) for w in weights]
    weights = [w.copy() for w in fixed]
    size = len(samples[0])
    return differences(lambda: np.sum(terms(weights, fixed, *samples)) / size, weights)


def rmsprop(weights, squares, gradients):
    """One step, in place."""
    for w, square, g in zip(weights, squares, gradients):
        square[...] = 0.99 * square + 0.01 * g ** 2
        w[...] = w - 5e-3 * g / np.sqrt(square + 1e-10)
