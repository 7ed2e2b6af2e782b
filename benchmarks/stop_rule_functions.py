"""Functions and solvers on which early stops were wrong, as formulas or short integrations over the unit cube."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import logsumexp

from problems import scaled


def front(U):
    """A front in the plane of two inputs, whose height follows the third."""
    return np.tanh(10 * (U[:, 0] - 0.3 - 0.4 * U[:, 1])) * (1 + U[:, 2])


def burgers_viscous(U):
    """Viscous Burgers, u(x, 0) = −A sin πx, by the transform of Cole and Hopf: ν from 0.02 to 0.2, A, x and t."""
    log_nu, height, x, t = scaled(U, [(-1.7, -0.7), (0.5, 1.5), (-1, 1), (0.02, 1)])
    nu = 10**log_nu
    nodes, weights = np.polynomial.hermite.hermgauss(120)
    at = x[:, None] - nodes * np.sqrt(4 * nu * t)[:, None]
    logs = -(height / (2 * np.pi * nu))[:, None] * np.cos(np.pi * at) + np.log(np.maximum(weights, 1e-300))
    shares = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    return -height * (shares * np.sin(np.pi * at)).sum(axis=1)


def fitzhugh(U):
    """FitzHugh and Nagumo's neuron: its voltage and recovery at a time, for a current and a rate."""
    current, rate, time = scaled(U, [(0.2, 0.8), (0.04, 0.12), (2, 20)])
    state, n_steps = np.array([np.full(len(U), -1.0), np.full(len(U), -0.5)]), 400
    step = time / n_steps

    def slope(s):
        v, w = s
        return np.array([v - v**3 / 3 - w + current, rate * (v + 0.7 - 0.8 * w)])

    for _ in range(n_steps):
        a = slope(state)
        b = slope(state + step / 2 * a)
        c = slope(state + step / 2 * b)
        state = state + step / 6 * (a + 2 * b + 2 * c + slope(state + step * c))
    return state.T


def pendulum(U):
    """The angle of a damped pendulum after a time, from rest at an angle up to nearly upright."""
    found = []
    for angle, damping, time in scaled(U, [(0.2, 3.1), (0.05, 0.6), (1, 8)]).T:
        swing = lambda t, s, k=damping: (s[1], -np.sin(s[0]) - k * s[1])  # noqa: E731
        found.append(solve_ivp(swing, (0, time), (angle, 0.0), rtol=1e-8, atol=1e-10).y[0, -1])
    return np.array(found)
