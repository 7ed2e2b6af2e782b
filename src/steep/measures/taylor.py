"""Taylor variation, Eq. dn: how much f varies around x, from its derivatives.

    Df^n_ε(x) = Σ_{1 ≤ |k| ≤ n}  ε^k (∂^k f(x))² / k!

n is ``order``, ε is ``epsilon`` (a variance: the neighbourhood has radius √ε), k a multi-index. For
several outputs the sum runs over them too. It is the variance of f(x + e), e ~ N(0, ε I), up to O(ε²)
(see docs/errata.md for the order of that remainder). For a multi-index

    |k| = Σ k_i      k! = Π k_i!      ε^k = Π ε_i^{k_i}
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import factorial as _factorial

from steep._function import Function, check_function, check_variation, function_values
from steep._validation import FloatArray, check_count, check_epsilon, check_points
from steep.domain import Bounds, Box
from steep.exceptions import FunctionError, InputError
from steep.measures.derivatives import Derivatives, FiniteDifferences
from steep.measures.neighborhood import FunctionAround

# Derivatives beyond this many are not worth their time, and ε^k/k! beyond this order is nothing.
_MOST_INDICES = 100_000
_HIGHEST_ORDER = 100


def taylor_variation(
    function: Function | None,
    X: Any,
    *,
    order: int = 2,
    epsilon: Any = 1e-3,
    derivatives: Derivatives | None = None,
    bounds: Bounds | Box | None = None,
    vectorized: bool = True,
) -> FloatArray:
    """Measure how fast ``function`` varies around each point, from its derivatives (Eq. dn).

    Parameters
    ----------
    function : callable
        f, called with an ``(n, n_features)`` array; may be None when ``derivatives`` is given.
    X : array-like of shape (n_samples, n_features)
        Points at which to measure.
    order : int, default 2
        n, the highest order of derivative used. By finite differences order 2 costs
        1 + 2d + 2d(d−1) evaluations a point in d dimensions.
    epsilon : float or array of shape (n_features,), default 1e-3
        ε, a variance in the squared units of each input. Larger values give high orders more say.
    derivatives : callable, optional
        ``derivatives(X, multi_indices)`` → ``(n_indices, n_samples, n_outputs)``. Default: central
        finite differences of ``function``.
    bounds : bounds or Box, optional
        For finite differences: scale of each axis and limits of the evaluations, a constraint included.
    vectorized : bool, default True
        False when ``function`` takes one point at a time.

    Returns
    -------
    ndarray of shape (n_samples,)
        Df^n_ε ≥ 0.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[0.0], [1.0]])
    >>> taylor_variation(lambda X: X[:, 0] ** 2, x, epsilon=0.01).round(6)
    array([0.0002, 0.0402])
    """
    points = check_points(X, n_features=None if bounds is None else Box(bounds).n_features)
    epsilon = check_epsilon(epsilon, points.shape[1])
    k = multi_indices(points.shape[1], order)
    if derivatives is None:
        if function is None:
            raise InputError("function is None and derivatives is None; expected one; pass function")
        derivatives = FiniteDifferences(function, bounds=bounds, vectorized=vectorized)
    check_function(derivatives, name="derivatives", of="(X, multi_indices)")
    partials = _check_partials(derivatives(points.copy(), k.copy()), len(k), len(points))
    with np.errstate(over="ignore", invalid="ignore"):
        coefficients = power(epsilon, k) / factorial(k)
        return check_variation(np.einsum("k,kno->n", coefficients, partials**2))


def taylor(around: FunctionAround) -> FloatArray:
    """Eq. dn, for the registry."""
    return taylor_variation(
        around.function,
        around.points,
        order=around.order,
        epsilon=around.epsilon,
        derivatives=around.derivatives,
        bounds=around.bounds,
    )


def _check_partials(raw: Any, n_indices: int, n_samples: int) -> FloatArray:
    partials = function_values(raw, "derivatives")
    if partials.shape == (n_indices, n_samples):
        partials = partials[:, :, None]
    if partials.ndim != 3 or partials.shape[:2] != (n_indices, n_samples) or not partials.size:
        raise FunctionError(
            f"derivatives returned shape {partials.shape}; expected ({n_indices}, {n_samples}, n_outputs): one "
            "block per multi-index, one row per point"
        )
    if not np.isfinite(partials).all():
        bad = np.flatnonzero(~np.isfinite(partials).all(axis=(0, 2)))
        raise FunctionError(
            f"derivatives returned NaN or infinity at {bad.size} of {n_samples} points, first at row {bad[0]} "
            "of X; expected finite values; leave those points out"
        )
    return partials


def multi_indices(n_features: int, order: int) -> npt.NDArray[np.int64]:
    """Every multi-index with 1 ≤ |k| ≤ ``order``, by |k| first, ``(C(n_features + order, order) − 1, n_features)``."""
    n_features, order = check_count(n_features, name="n_features"), check_count(order, name="order")
    if order > _HIGHEST_ORDER:
        raise InputError(f"order={order} is too large; expected at most {_HIGHEST_ORDER}; 2 is usual")
    n_indices = comb(n_features + order, order) - 1
    if n_indices > _MOST_INDICES:
        raise InputError(
            f"order={order} of {n_features} inputs takes {n_indices:.6g} derivatives; expected at most "
            f"{_MOST_INDICES}; lower order, or use perturbation_variance"
        )
    return np.vstack([_of_total(n_features, total) for total in range(1, order + 1)])


def factorial(k: npt.NDArray[np.int64]) -> FloatArray:
    """k! of each row of ``k``."""
    return np.asarray(_factorial(k).prod(axis=-1))


def power(epsilon: FloatArray, k: npt.NDArray[np.int64]) -> FloatArray:
    """ε^k of each row of ``k``, for a vector ε of shape ``(n_features,)``."""
    return np.asarray(np.power(epsilon, k).prod(axis=-1))


def _of_total(n_features: int, total: int) -> npt.NDArray[np.int64]:
    """Every k with |k| = ``total``."""
    axes = np.array(list(combinations_with_replacement(range(n_features), total)))
    k = np.zeros((len(axes), n_features), dtype=np.int64)
    np.add.at(k, (np.arange(len(axes))[:, None], axes), 1)
    return k
