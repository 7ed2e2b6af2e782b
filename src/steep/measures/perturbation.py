"""Perturbation estimate, Eq. Dhat: how much f varies around x, from noisy draws instead of derivatives.

    1/(k−1) Σ_{i≤k} (f(x + e_i) − c)²,   e_i ~ N(0, ε I)

k is ``n_draws``. The paper takes c = f(x) (``center="point"``), which exceeds the variance by (½ ε tr H)²
at leading order; the default c is the mean of the draws. Outputs are summed.

If f may only be evaluated inside S, noise that leaves the box is reflected at its faces, and a draw that the
constraint rejects is brought halfway back to its point until it is allowed.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from steep._function import Function, check_variation, evaluate
from steep._validation import FloatArray, Seed, check_choice, check_count, check_epsilon, check_generator, check_points
from steep.domain import Bounds, Box
from steep.exceptions import InputError
from steep.measures.neighborhood import FunctionAround

# Numbers drawn at most: 2^30 doubles are 8 GiB.
_MOST_NUMBERS = 2**30
# Halvings of a draw that the constraint rejects; it is taken at its point after that.
_HALVINGS = 10


def perturbation_variance(
    function: Function,
    X: Any,
    *,
    epsilon: Any = 1e-3,
    n_draws: int = 20,
    center: Literal["mean", "point"] = "mean",
    bounds: Bounds | Box | None = None,
    vectorized: bool = True,
    random_state: Seed = None,
) -> FloatArray:
    """Measure how fast ``function`` varies around each point, from noisy draws (Eq. Dhat).

    Parameters
    ----------
    function : callable
        f, called with an ``(n, n_features)`` array. Without ``bounds`` draws may fall outside the domain.
    X : array-like of shape (n_samples, n_features)
        Points at which to measure.
    epsilon : float or array of shape (n_features,), default 1e-3
        Variance of the noise, for all inputs or for each.
    n_draws : int, default 20
        k, evaluations spent on each point; the estimate's relative error falls as 1/√k.
    center : {"mean", "point"}, default "mean"
        Spread around the mean of the draws (an unbiased variance) or around f(x) as in Eq. Dhat,
        which costs one more evaluation a point.
    bounds : bounds or Box, optional
        S, the only place where ``function`` is evaluated: draws are reflected at its faces, and brought back
        towards their point where a constraint rejects them, which lowers the variation there.
    vectorized : bool, default True
        False when ``function`` takes one point at a time.
    random_state : int, Generator or None
        Seed of the noise.

    Returns
    -------
    ndarray of shape (n_samples,)

    Examples
    --------
    >>> perturbation_variance(lambda X: 3 * X[:, 0], [[0.0]], n_draws=4000, random_state=0).round(3)
    array([0.009])
    """
    box = None if bounds is None else Box(bounds)
    points = check_points(X, n_features=None if box is None else box.n_features)
    n_samples, n_features = points.shape
    scale = np.sqrt(check_epsilon(epsilon, n_features))
    n_draws = check_count(n_draws, name="n_draws", minimum=2)
    if n_draws * points.size > _MOST_NUMBERS:
        raise InputError(
            f"n_draws={n_draws} takes {n_draws * points.size:.3g} random numbers; expected at most "
            f"{_MOST_NUMBERS}; lower it or measure fewer points at a time"
        )
    check_choice(center, name="center", choices=("mean", "point"))
    noise = check_generator(random_state).standard_normal((n_draws, n_samples, n_features)) * scale
    drawn: FloatArray = points + noise
    if box is not None:
        drawn = np.array([_inside(box, points, draw) for draw in drawn])
    noisy = evaluate(function, drawn.reshape(-1, n_features), vectorized=vectorized)
    draws = noisy.reshape(n_draws, n_samples, -1)
    middle = evaluate(function, points, vectorized=vectorized) if center == "point" else None
    with np.errstate(over="ignore", invalid="ignore"):
        middle = draws.mean(axis=0) if middle is None else middle
        return check_variation(((draws - middle) ** 2).sum(axis=(0, 2)) / (n_draws - 1))


def perturbation(around: FunctionAround) -> FloatArray:
    """Eq. Dhat about the mean of the draws, for the registry."""
    if around.function is None:
        raise InputError("measure='perturbation' evaluates the function, got none; pass function=")
    return perturbation_variance(
        around.function,
        around.points,
        epsilon=around.epsilon,
        n_draws=around.n_draws,
        bounds=around.bounds,
        random_state=around.random_state,
    )


def _inside(box: Box, points: FloatArray, draws: FloatArray) -> FloatArray:
    """One draw for each point, brought into S."""
    inside = _reflected(box, draws)
    if box.constraint is None:
        return inside
    for _ in range(_HALVINGS):
        rejected = ~box.contains(inside)
        if not rejected.any():
            return inside
        draws = np.where(rejected[:, None], (points + draws) / 2, draws)
        inside[rejected] = _reflected(box, draws[rejected])
    rejected = ~box.contains(inside)
    inside[rejected] = points[rejected]
    return inside


def _reflected(box: Box, points: FloatArray) -> FloatArray:
    """Points of the box: what lies outside is reflected at its faces, whole numbers stay whole."""
    folded = np.abs(np.mod(box.unit(points) + 1, 2) - 1)
    return box.from_unit(folded)
