"""Test functions for designs, the half they are developed on: their domain, their budget, whether they are steep.

The other half is in ``design_functions_unseen.py``; no choice of a design may be made by looking at it.

Each ``function`` takes an ``(n, d)`` array of the unit cube and returns ``(n,)`` or ``(n, outputs)``:
the box of the original definition is scaled inside, so that every design sees the same cube.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reproduction.problems import bateman


@dataclass(frozen=True)
class Problem:
    """One test function: inputs, budget of evaluations, and the group its results are averaged in."""

    name: str
    function: Callable[[np.ndarray], np.ndarray]
    n_features: int
    n_runs: int
    group: str  # "steep" (d ≤ 4), "high" (d ≥ 5) or "smooth"


def scaled(U, bounds):
    low, high = np.array(bounds, dtype=float).T
    return (low + U * (high - low)).T


def runge(U):
    """Runge's own function, of [−1, 1]: steeper than the paper's (25 (x − ½)² on [0, 1]), on purpose."""
    return 1 / (1 + 25 * (2 * U[:, 0] - 1) ** 2)


def tanh(U):
    """Steeper than the paper's tanh(10 (x − ½)) + 1 and off the middle, where grids have a point, on purpose."""
    return np.tanh(25 * (U[:, 0] - 0.6)) + 1


def bateman_1(U):
    """Two substances that use each other up, u' = η' = −0.45 u η: the printed signs, not the system of the paper."""
    u0, eta0, t = scaled(U, [(0, 1), (0.01, 1), (0, 10)])
    u, eta = bateman(np.column_stack([u0, -eta0, t])).T
    return np.column_stack([u, -eta])


def bateman_3(U):
    """u and three η that consume it at very different rates, by Runge and Kutta's fourth order.

    Not the chain of ``reproduction.problems``: there every species has about the paper's one rate.
    """
    u, *eta, t = scaled(U, [(0, 1), (0.01, 1), (0.01, 1), (0.01, 1), (0, 10)])
    state = np.array([u, *eta])
    rates = np.array([-0.45, -2.0, -6.0])[:, None]

    def slope(s):
        consumed = rates * s[1:] * s[0]
        return np.vstack([consumed.sum(axis=0), consumed])

    h = t / 200
    for _ in range(200):
        a = slope(state)
        b = slope(state + h / 2 * a)
        c = slope(state + h / 2 * b)
        d = slope(state + h * c)
        state = state + h / 6 * (a + 2 * b + 2 * c + d)
    return state.T


def franke(U):
    x, y = 9 * U.T
    return (
        0.75 * np.exp(-((x - 2) ** 2 + (y - 2) ** 2) / 4)
        + 0.75 * np.exp(-((x + 1) ** 2) / 49 - (y + 1) / 10)
        + 0.5 * np.exp(-((x - 7) ** 2 + (y - 3) ** 2) / 4)
        - 0.2 * np.exp(-((x - 4) ** 2) - (y - 7) ** 2)
    )


def branin(U):
    x, y = scaled(U, [(-5, 10), (0, 15)])
    bowl = (y - 5.1 * x**2 / (4 * np.pi**2) + 5 * x / np.pi - 6) ** 2
    return bowl + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10


def moving_shock(U):
    """Burgers' travelling wave: a front that moves with time and widens with viscosity."""
    x, t, log_viscosity = scaled(U, [(0, 1), (0, 1), (np.log(0.01), np.log(0.1))])
    return 1 / (1 + np.exp((x - 0.2 - 0.6 * t) / (2 * np.exp(log_viscosity))))


def ishigami(U):
    a, b, c = np.pi * (2 * U.T - 1)
    return np.sin(a) + 7 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a)


def corner_peak(U):
    """Genz's corner peak in four dimensions: flat but for one corner."""
    return (1 + U @ np.array([1.5, 2.0, 2.5, 3.0])) ** -5.0


def ridge_4(U):
    """A bent wall across four dimensions."""
    return np.tanh(12 * (U[:, 0] + 0.3 * np.sin(2 * np.pi * U[:, 1]) + 0.4 * U[:, 2] * U[:, 3] - 0.6))


def michalewicz(U):
    x = np.pi * U
    order = np.arange(1, U.shape[1] + 1)
    return -(np.sin(x) * np.sin(order * x**2 / np.pi) ** 20).sum(axis=1)


def borehole(U):
    rw, r, tu, hu, tl, hl, length, kw = scaled(
        U,
        [(0.05, 0.15), (100, 50000), (63070, 115600), (990, 1110), (63.1, 116), (700, 820), (1120, 1680),
         (1500, 15000)],
    )  # fmt: skip
    log = np.log(r / rw)
    return 2 * np.pi * tu * (hu - hl) / (log * (1 + 2 * length * tu / (log * rw**2 * kw) + tu / tl))


def robot_arm(U):
    angles, lengths = 2 * np.pi * U[:, :4], U[:, 4:]
    turned = np.cumsum(angles, axis=1)
    return np.hypot((lengths * np.cos(turned)).sum(axis=1), (lengths * np.sin(turned)).sum(axis=1))


def wall_6(U):
    return np.tanh(8 * (U[:, 0] + 0.5 * U[:, 1] ** 2 + 0.4 * U[:, 2] - 0.9)) + 0.2 * U[:, 3] * U[:, 4]


def shock_10(U):
    """A front along the first two inputs, linear drift in the others."""
    front = 1 / (1 + np.exp(-12 * (U[:, 0] + 0.6 * U[:, 1] - 0.8)))
    return front + 0.1 * U[:, 2:] @ np.linspace(1, 0.1, 8)


def tanh_paper(U):
    """The paper's own, with the paper's own budget of 8 + 8 points."""
    return np.tanh(10 * (U[:, 0] - 0.5)) + 1


def runge_paper(U):
    return 1 / (1 + 25 * (U[:, 0] - 0.5) ** 2)


def otl_circuit(U):
    """Voltage of a push-pull circuit without a transformer (Ben-Ari and Steinberg 2007): not steep anywhere."""
    rb1, rb2, rf, rc1, rc2, beta = scaled(U, [(50, 150), (25, 70), (0.5, 3), (1.2, 2.5), (0.25, 1.2), (50, 300)])
    base, load = 12 * rb2 / (rb1 + rb2), beta * (rc2 + 9)
    return (base + 0.74) * load / (load + rf) + 11.35 * rf / (load + rf) + 0.74 * rf * load / ((load + rf) * rc1)


def friedman(U):
    """Friedman's first function, five inputs, all of which matter."""
    return 10 * np.sin(np.pi * U[:, 0] * U[:, 1]) + 20 * (U[:, 2] - 0.5) ** 2 + 10 * U[:, 3] + 5 * U[:, 4]


def rosenbrock(U):
    """Rosenbrock's valley, of [−2, 2]: a polynomial that grows towards the faces."""
    x = 4 * U - 2
    return np.log1p((100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(axis=1))


def oscillatory_8(U):
    """Genz's oscillatory function: a plane wave."""
    return np.cos(0.6 * np.pi + 5 * U @ (np.arange(1, 9) / 36))


def gaussian_6(U):
    """Genz's Gaussian: one wide hill, off the middle."""
    return np.exp(-(((U - np.linspace(0.3, 0.7, 6)) * np.linspace(2.0, 0.7, 6)) ** 2).sum(axis=1))


def sulfur(U):
    """Radiative forcing by sulfate particles (Charlson and others 1992): a product of nine factors."""
    q, y, life, psi, beta, f, t, cloud, rs = scaled(
        U, [(40, 110), (0.3, 0.7), (3, 8), (2, 8), (0.2, 0.4), (1.2, 2.2), (0.6, 0.9), (0.3, 0.6), (0.1, 0.25)]
    )
    return q * y * life * psi * beta * f * t**2 * (1 - cloud) * (1 - rs) ** 2


def styblinski(U):
    """Styblinski and Tang: a sum of double wells."""
    x = 10 * U - 5
    return (x**4 - 16 * x**2 + 5 * x).sum(axis=1) / 2


def smooth(U):
    return np.sin(2 * U[:, 0]) + 0.5 * np.cos(2 * U[:, 1] + U[:, 0])


PROBLEMS = {
    problem.name: problem
    for problem in [
        Problem("runge", runge, 1, 24, "steep"),
        Problem("tanh", tanh, 1, 24, "steep"),
        Problem("franke", franke, 2, 120, "steep"),
        Problem("branin", branin, 2, 120, "steep"),
        Problem("michalewicz_2", michalewicz, 2, 120, "steep"),
        Problem("bateman_1", bateman_1, 3, 120, "steep"),
        Problem("moving_shock", moving_shock, 3, 120, "steep"),
        Problem("ishigami", ishigami, 3, 120, "steep"),
        Problem("corner_peak", corner_peak, 4, 150, "steep"),
        Problem("ridge_4", ridge_4, 4, 200, "steep"),
        Problem("bateman_3", bateman_3, 5, 200, "high"),
        Problem("wall_6", wall_6, 6, 200, "high"),
        Problem("borehole", borehole, 8, 200, "high"),
        Problem("robot_arm", robot_arm, 8, 200, "high"),
        Problem("shock_10", shock_10, 10, 250, "high"),
        Problem("smooth", smooth, 2, 100, "smooth"),
        Problem("tanh_paper", tanh_paper, 1, 16, "steep"),
        Problem("runge_paper", runge_paper, 1, 16, "steep"),
        Problem("friedman", friedman, 5, 200, "smooth"),
        Problem("otl_circuit", otl_circuit, 6, 200, "smooth"),
        Problem("rosenbrock_6", rosenbrock, 6, 300, "smooth"),
        Problem("gaussian_6", gaussian_6, 6, 250, "smooth"),
        Problem("styblinski_7", styblinski, 7, 300, "smooth"),
        Problem("oscillatory_8", oscillatory_8, 8, 300, "smooth"),
        Problem("sulfur_9", sulfur, 9, 300, "smooth"),
    ]
}
