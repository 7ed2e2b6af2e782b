"""The paper's own functions: Runge, tanh (Table 1) and the Bateman equations (Table 2).

    Runge     f(x) = 1 / (1 + 25 (x − ½)²)            x in [0, 1]
    tanh      f(x) = tanh(10 (x − ½)) + 1             x in [0, 1]
    Bateman   ∂_t u = s η u,   ∂_t η = −s η u          f: (u_0, η_0, t) → (u(t), η(t)),  s = 0.45

The sum c = u + η is constant: u grows until η is used up. With p = s t this gives

    u(t) = u_0 / D,   η(t) = c − u(t),   D = (u_0 + η_0 e^{−pc}) / c = 1 − η_0 g,   g = (1 − e^{−pc}) / c = p φ(pc)

φ(a) = (1 − e^{−a})/a is smooth at 0, so the second form of D holds for u_0 = η_0 = 0 too. The printed signs make both
fall and keep u − η; signs and domain here are those of the authors' code. For M > 1 the paper solves by explicit Euler.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steep._validation import FloatArray, check_count, check_points
from steep.exceptions import InputError
from steep.measures.taylor import Derivatives, FiniteDifferences

# σ_a = σ_r of the paper, without its sign.
RATE = 0.45
# Rates of the reactions of the authors' system of several species, used in turn.
RATES = (1.0, 5.0, 3.0, 0.1)


@dataclass(frozen=True)
class Problem:
    """A function to learn."""

    name: str
    function: Callable[[FloatArray], FloatArray]
    bounds: tuple[tuple[float, float], ...]
    derivatives: Derivatives  # exact where the paper has a formula


def runge(X: Any) -> FloatArray:
    """Runge's function on [0, 1]."""
    x = check_points(X, n_features=1)[:, 0]
    return np.asarray(1 / (1 + 25 * (x - 0.5) ** 2))


def runge_derivatives(X: Any, multi_indices: Any) -> FloatArray:
    """∂^k of :func:`runge` for k = 0 to 3."""
    x = check_points(X, n_features=1)[:, 0] - 0.5
    q = 1 / (1 + 25 * x**2)
    formulas = [q, -50 * x * q**2, (5000 * x**2) * q**3 - 50 * q**2, 15000 * x * q**3 - 750000 * x**3 * q**4]
    return _pick(formulas, multi_indices)


def tanh(X: Any) -> FloatArray:
    """The hyperbolic tangent of Table 1 on [0, 1]."""
    x = check_points(X, n_features=1)[:, 0]
    return np.asarray(np.tanh(10 * (x - 0.5)) + 1)


def tanh_derivatives(X: Any, multi_indices: Any) -> FloatArray:
    """∂^k of :func:`tanh` for k = 0 to 3."""
    t = np.tanh(10 * (check_points(X, n_features=1)[:, 0] - 0.5))
    slope = 1 - t**2
    return _pick([t + 1, 10 * slope, -200 * t * slope, 1000 * slope * (6 * t**2 - 2)], multi_indices)


def _pick(formulas: Sequence[FloatArray], multi_indices: Any) -> FloatArray:
    orders = [int(k[0]) for k in np.atleast_2d(multi_indices)]
    if max(orders) >= len(formulas):
        raise InputError(
            f"derivative of order {max(orders)} asked for; expected at most {len(formulas) - 1}; lower order"
        )
    return np.stack([formulas[k] for k in orders])


def bateman(X: Any) -> FloatArray:
    """The Bateman equations with M = 1, in closed form: (u_0, η_0, t) → (u(t), η(t))."""
    u0, eta0, t = check_points(X, n_features=3).T
    denominator, decay = _denominator(u0, eta0, t)
    return np.column_stack([u0 / denominator, eta0 * decay / denominator])


def _denominator(u0: FloatArray, eta0: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """D without cancellation where it is small, and e^{−pc}."""
    total, a = u0 + eta0, RATE * t * (u0 + eta0)
    decay = np.exp(-a)
    quotient = (u0 + eta0 * decay) / np.where(a < 1, 1.0, total)
    return np.where(a < 1, 1 - eta0 * RATE * t * _phi(a, 0), quotient), decay


def bateman_derivatives(X: Any, multi_indices: Any) -> FloatArray:
    """∂^k of :func:`bateman` for |k| ≤ 2, by hand: u = u_0/D, and η = c − u."""
    points = check_points(X, n_features=3)
    first, second = _denominator_derivatives(points)
    u0, eta0, t = points.T
    d = _denominator(u0, eta0, t)[0]
    is_u0, total = (1.0, 0.0, 0.0), (1.0, 1.0, 0.0)
    blocks = []
    for k in np.atleast_2d(multi_indices):
        axes = [axis for axis, times in enumerate(k) for _ in range(int(times))]
        if not 1 <= len(axes) <= 2:
            raise InputError(f"derivative of order {len(axes)} is not available; expected 1 or 2; set order to 1 or 2")
        i, j = axes[0], axes[-1]
        if len(axes) == 1:
            u = is_u0[i] / d - u0 * first[i] / d**2
            blocks.append(np.column_stack([u, total[i] - u]))
            continue
        u = -(is_u0[i] * first[j] + is_u0[j] * first[i] + u0 * second[i, j]) / d**2
        u = u + 2 * u0 * first[i] * first[j] / d**3
        blocks.append(np.column_stack([u, -u]))
    return np.stack(blocks)


def _denominator_derivatives(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """First ``(3, n)`` and second ``(3, 3, n)`` derivatives of D = 1 − η_0 g(p, c) by u_0, η_0 and t."""
    u0, eta0, t = points.T
    p, c, s = RATE * t, u0 + eta0, RATE
    decay = np.exp(-p * c)
    g, g_c, g_cc = p * _phi(p * c, 0), p**2 * _phi(p * c, 1), p**3 * _phi(p * c, 2)
    first = np.stack([-eta0 * g_c, -g - eta0 * g_c, -s * eta0 * decay])
    by_u_eta, by_u_t = -g_c - eta0 * g_cc, s * eta0 * p * decay
    by_eta_t = s * decay * (eta0 * p - 1)
    rows = [[-eta0 * g_cc, by_u_eta, by_u_t], [by_u_eta, -eta0 * g_cc - 2 * g_c, by_eta_t],
            [by_u_t, by_eta_t, s**2 * eta0 * c * decay]]  # fmt: skip
    return first, np.stack(rows)


# Below this the closed forms of φ and its derivatives cancel; a series of this many terms is exact there.
_SMALL, _N_TERMS = 1.0, 24


def _phi(a: FloatArray, derivative: int) -> FloatArray:
    """φ(a) = (1 − e^{−a})/a, or its first or second derivative."""
    series = sum(
        (-1) ** k * math.perm(k, derivative) / math.factorial(k + 1) * a ** (k - derivative)
        for k in range(derivative, _N_TERMS)
    )
    large = np.where(np.abs(a) < _SMALL, _SMALL, a)
    decay = np.exp(-large)
    closed = ((1 - decay) / large, (decay * (1 + large) - 1) / large**2,
              (2 - decay * (large**2 + 2 * large + 2)) / large**3)  # fmt: skip
    return np.where(np.abs(a) < _SMALL, series, closed[derivative])


def bateman_rates(n_species: int) -> FloatArray:
    """Rates of M reactions that each turn one of η_j into u: the authors' 1, 5, 3 and 0.1 in turn; 0.45 for M = 1.

    Their parameter file holds these four rates and thirteen inputs, not which rate belongs to which species.
    """
    n_species = check_count(n_species, name="n_species")
    return np.resize(RATES if n_species > 1 else [RATE], n_species).astype(float)


def bateman_euler(X: Any, *, n_steps: int = 1000) -> FloatArray:
    """The Bateman equations for any M by explicit Euler, as in the paper; the error falls as 1/n_steps."""
    points = check_points(X)
    if points.shape[1] < 3:
        raise InputError(f"X has {points.shape[1]} columns; expected u_0, at least one η_0, and t")
    rates = bateman_rates(points.shape[1] - 2)
    u, eta = points[:, 0].copy(), points[:, 1:-1].copy()
    step = points[:, -1] / check_count(n_steps, name="n_steps")
    for _ in range(n_steps):
        reacting = step * u
        u, eta = u + reacting * (eta @ rates), eta - reacting[:, None] * (eta * rates)
    return np.column_stack([u, eta])


RUNGE = Problem("runge", runge, ((0.0, 1.0),), runge_derivatives)
TANH = Problem("tanh", tanh, ((0.0, 1.0),), tanh_derivatives)
BATEMAN = Problem("bateman", bateman, ((0.0, 4.0), (0.0, 2.0), (0.0, 10.0)), bateman_derivatives)
_SEVERAL = ((0.0, 5.0), *[(0.0, 1.0)] * 12)
BATEMAN_11 = Problem("bateman-11", bateman_euler, _SEVERAL, FiniteDifferences(bateman_euler, bounds=_SEVERAL))
PROBLEMS = {problem.name: problem for problem in (RUNGE, TANH, BATEMAN, BATEMAN_11)}
