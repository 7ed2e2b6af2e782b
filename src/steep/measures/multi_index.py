"""Multi-indices k = (k_1, …, k_{n_i}) of the Taylor expansion.

    |k| = Σ k_i      k! = Π k_i!      ε^k = Π ε_i^{k_i}

``multi_indices`` lists every k with 1 ≤ |k| ≤ n, the sum's range in Eq. dn.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.special import factorial as _factorial

from steep._validation import FloatArray, check_count


def multi_indices(n_features: int, order: int) -> npt.NDArray[np.int64]:
    """List every multi-index with 1 ≤ |k| ≤ ``order``, by |k| first.

    Returns
    -------
    ndarray of shape (C(n_features + order, order) − 1, n_features)

    Examples
    --------
    >>> multi_indices(2, 2).tolist()
    [[1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    """
    n_features = check_count(n_features, name="n_features")
    order = check_count(order, name="order")
    rows = [k for total in range(1, order + 1) for k in _compositions(n_features, total)]
    return np.array(rows, dtype=np.int64)


def factorial(k: npt.NDArray[np.int64]) -> FloatArray:
    """k! of each row of ``k``."""
    product: FloatArray = _factorial(k).prod(axis=-1)
    return product


def power(epsilon: FloatArray, k: npt.NDArray[np.int64]) -> FloatArray:
    """ε^k of each row of ``k``, for a vector ε of shape ``(n_features,)``."""
    product: FloatArray = np.power(epsilon, k).prod(axis=-1)
    return product


def _compositions(length: int, total: int) -> Iterator[tuple[int, ...]]:
    """Yield every tuple of ``length`` non-negative integers that add up to ``total``."""
    if length == 1:
        yield (total,)
        return
    for first in range(total, -1, -1):
        for rest in _compositions(length - 1, total - first):
            yield (first, *rest)
