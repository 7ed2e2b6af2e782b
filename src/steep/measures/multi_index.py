"""Multi-indices k = (k_1, …, k_{n_i}) of the Taylor expansion.

    |k| = Σ k_i      k! = Π k_i!      ε^k = Π ε_i^{k_i}

``multi_indices`` lists every k with 1 ≤ |k| ≤ n, the sum's range in Eq. dn. A k is a choice of |k| axes, an axis
as often as one likes: it is listed as such and then counted.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb

import numpy as np
import numpy.typing as npt
from scipy.special import factorial as _factorial

from steep._validation import FloatArray, check_count
from steep.exceptions import InputError

# Derivatives beyond this many are not worth their time, and ε^k/k! beyond this order is nothing.
_MOST_INDICES = 100_000
_HIGHEST_ORDER = 100


def multi_indices(n_features: int, order: int) -> npt.NDArray[np.int64]:
    """List every multi-index with 1 ≤ |k| ≤ ``order``, by |k| first.

    Returns
    -------
    ndarray of shape (C(n_features + order, order) − 1, n_features)
    """
    n_features = check_count(n_features, name="n_features")
    order = check_count(order, name="order")
    if order > _HIGHEST_ORDER:
        raise InputError(f"order={order} is too large; need at most {_HIGHEST_ORDER}; 2 is usual")
    n_indices = comb(n_features + order, order) - 1
    if n_indices > _MOST_INDICES:
        raise InputError(
            f"order={order} of {n_features} inputs takes {n_indices:.6g} derivatives; need at most {_MOST_INDICES}; "
            "lower order, or use perturbation_variance"
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
