"""Greedy fill: take, one by one, the candidate that the target density misses most.

    score(c) = w(c) · δ(c)^q        w the wanted density, δ the distance to the nearest point there

With q = d, w δ^d is the mass of the ball around c that holds no point yet: taking the largest first
fills the density evenly instead of drawing from it.
"""

from __future__ import annotations

import numpy as np

from steep._validation import FloatArray, IntArray

# In many dimensions distances are nearly equal and δ^d would drown the density: q stops here.
_MOST_POWER = 3


def greedy_fill(pool: FloatArray, weights: FloatArray, distances: FloatArray, n_samples: int) -> IntArray:
    """Choose ``n_samples`` candidates of the pool.

    Parameters
    ----------
    pool : ndarray of shape (n_candidates, n_coordinates)
        Candidates, in the coordinates distances are taken in.
    weights : ndarray of shape (n_candidates,)
        Wanted density, up to a factor.
    distances : ndarray of shape (n_candidates,)
        Distance to the nearest point already there; infinite when there is none.
    n_samples : int
        How many to take.

    Returns
    -------
    ndarray of int of shape (n_samples,)
        Indices into the pool, in the order they were taken.

    Examples
    --------
    >>> pool = np.linspace(0, 1, 11)[:, None]
    >>> pool[greedy_fill(pool, np.ones(11), pool[:, 0], 2), 0].tolist()
    [1.0, 0.5]
    """
    power = min(pool.shape[1], _MOST_POWER)
    roots = np.maximum(weights, 0.0) ** (2 / power)
    # Squares spare a root a step: w δ^q and w^(2/q) δ² have the same order.
    squares = np.minimum(distances, 1e6) ** 2
    taken = np.empty(n_samples, dtype=np.int64)
    for i in range(n_samples):
        scores = roots * squares
        scores[taken[:i]] = -1.0  # never twice, even where every weight is zero
        taken[i] = np.argmax(scores)
        gaps = pool - pool[taken[i]]
        np.minimum(squares, np.einsum("ij,ij->i", gaps, gaps), out=squares)
    return taken
