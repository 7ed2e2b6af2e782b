"""Perturbation estimate, Eq. Dhat: how much f varies around x, from noisy draws instead of derivatives.

    1/(k−1) Σ_{i≤k} (f(x + e_i) − c)²,   e_i ~ N(0, ε I)

k is ``n_draws``. The paper takes c = f(x) (``center="point"``), which exceeds the variance by (½ ε tr H)²
at leading order; the default c is the mean of the draws. Outputs are summed.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from steep._function import Function, evaluate
from steep._validation import (
    FloatArray,
    Seed,
    check_choice,
    check_count,
    check_epsilon,
    check_generator,
    check_points,
)
from steep.exceptions import InputError
from steep.measures.neighborhood import FunctionAround


def perturbation_variance(
    function: Function,
    X: Any,
    *,
    epsilon: Any = 1e-3,
    n_draws: int = 20,
    center: Literal["mean", "point"] = "mean",
    vectorized: bool = True,
    random_state: Seed = None,
) -> FloatArray:
    """Measure how fast ``function`` varies around each point, from noisy draws (Eq. Dhat).

    Parameters
    ----------
    function : callable
        f, called with an ``(n, n_features)`` array. Draws may fall outside the domain of ``X``.
    X : array-like of shape (n_samples, n_features)
        Where to measure.
    epsilon : float or array of shape (n_features,), default 1e-3
        Variance of the noise, for all inputs or for each.
    n_draws : int, default 20
        k, evaluations spent on each point; the estimate's relative error falls as 1/√k.
    center : {"mean", "point"}, default "mean"
        Spread around the mean of the draws (an unbiased variance) or around f(x) as in Eq. Dhat,
        which costs one more evaluation a point.
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
    points = check_points(X)
    n_samples, n_features = points.shape
    scale = np.sqrt(check_epsilon(epsilon, n_features))
    n_draws = check_count(n_draws, name="n_draws", minimum=2)
    check_choice(center, name="center", choices=("mean", "point"))
    noise = check_generator(random_state).standard_normal((n_draws, n_samples, n_features)) * scale
    noisy = evaluate(function, (points + noise).reshape(-1, n_features), vectorized=vectorized)
    draws = noisy.reshape(n_draws, n_samples, -1)
    middle = draws.mean(axis=0) if center == "mean" else evaluate(function, points, vectorized=vectorized)
    variation: FloatArray = ((draws - middle) ** 2).sum(axis=(0, 2)) / (n_draws - 1)
    return variation


def perturbation(around: FunctionAround) -> FloatArray:
    """Eq. Dhat about the mean of the draws, for the registry."""
    function, inside = around.function, around.inside
    if function is None:
        raise InputError("measure='perturbation' evaluates the function, got none; need function")
    return perturbation_variance(
        function if inside is None else lambda X: function(inside(X)),
        around.points,
        epsilon=around.epsilon,
        n_draws=around.n_draws,
        random_state=around.random_state,
    )
