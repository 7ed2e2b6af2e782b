"""Ways to take candidates from a pool whose members have a wanted density.

Greedy fill takes, one by one, the candidate where the density is least covered:

    score(c) = w(c) · δ(c)^q        w the wanted density, δ the distance to the nearest point there

With q = d, w δ^d is the mass of the ball around c that holds no point yet: taking the largest first
fills the density evenly instead of drawing from it.

Filling doubt does the same with the deviation of a Gaussian process (Matérn 5/2) in the place of the distance:

    score(c) = w(c) · σ(c)          σ² = k(c, c) − k(c, X) K⁻¹ k(X, c), X with what was taken before

Half-way between two runs σ is small where the function is smooth along the line between them, and it is largest at
faces and corners, beyond the last run: that is where surrogates err most.

Systematic draw takes equal steps of probability along a curve that visits near points one after another.
The curve is Hilbert's, by the bit transform of Skilling (AIP Conf. Proc. 707, 2004). One uniform number
shifts the whole comb, so every candidate is drawn with exactly its probability, as long as that is at most one
step: a candidate that is worth more is drawn once, and those after it on the curve take the rest.

No draw takes a candidate twice.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from steep._blas import few_threads
from steep._validation import FloatArray, IntArray
from steep.sampling.quick import matern

# In many dimensions distances are nearly equal and δ^d would drown the density: q stops here.
_MOST_POWER = 3
# What is added to the variance of a run, so that runs close to each other do no harm.
_JITTER = 1e-6


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
    roots, squares = _factors(pool, weights, distances)
    taken = np.empty(n_samples, dtype=np.int64)
    for i in range(n_samples):
        scores = roots * squares
        scores[taken[:i]] = -1.0  # never twice, even where every weight is zero
        taken[i] = np.argmax(scores)
        if scores[taken[i]] <= 0:  # no wanted candidate is left: the one furthest from what is there
            taken[i] = np.argmax(np.where(scores < 0, -1.0, squares))
        gaps = pool - pool[taken[i]]
        np.minimum(squares, np.einsum("ij,ij->i", gaps, gaps), out=squares)
    return taken


def fill_doubt(known: FloatArray, pool: FloatArray, weights: FloatArray, length: float, n_samples: int) -> IntArray:
    """Choose ``n_samples`` candidates, one by one where a process knows least.

    Parameters
    ----------
    known : ndarray of shape (n_known, n_coordinates)
        Points that are there.
    pool, weights, n_samples
        As in :func:`greedy_fill`.
    length : float
        Length scale of the process, in the same coordinates.

    Examples
    --------
    >>> pool = np.linspace(0, 1, 11)[:, None]
    >>> pool[fill_doubt(pool[[0]], pool, np.ones(11), 0.3, 2), 0].tolist()
    [1.0, 0.5]
    """
    n_known = len(known)
    rows = np.zeros((n_known + n_samples, len(pool)))
    with few_threads(rows.size):
        return _filled(known, pool, np.maximum(weights, 0.0) ** 2, length, rows)


def _filled(known: FloatArray, pool: FloatArray, squares: FloatArray, length: float, rows: FloatArray) -> IntArray:
    """What :func:`fill_doubt` takes; ``rows`` are zeros for the factor of all points, known ones first."""
    n_known, n_samples = len(known), len(rows) - len(known)
    if n_known:
        lower = np.linalg.cholesky(matern(known, known, length) + _JITTER * np.eye(n_known))
        rows[:n_known] = solve_triangular(lower, matern(known, pool, length), lower=True, check_finite=False)
    variance = 1.0 - np.einsum("ij,ij->j", rows[:n_known], rows[:n_known])
    taken = np.empty(n_samples, dtype=np.int64)
    for i in range(n_samples):
        scores = squares * np.maximum(variance, _JITTER)
        scores[taken[:i]] = -1.0
        best = taken[i] = np.argmax(scores)
        done = rows[: n_known + i]
        gaps = matern(pool[[best]], pool, length)[0] - done[:, best] @ done
        rows[n_known + i] = gaps / np.sqrt(max(variance[best], 0.0) + _JITTER)
        variance -= rows[n_known + i] ** 2
    return taken


def fill_scores(pool: FloatArray, weights: FloatArray, distances: FloatArray) -> FloatArray:
    """What :func:`greedy_fill` compares when nothing is taken yet, w δ^q up to a power."""
    roots, squares = _factors(pool, weights, distances)
    return roots * squares


def last_score(pool: FloatArray, weights: FloatArray, distances: FloatArray, taken: IntArray) -> float:
    """The score of the last candidate at the moment :func:`greedy_fill` took it; those before had no less."""
    *before, last = taken.tolist()
    gaps = pool[before] - pool[last]
    nearest_taken = float(np.sqrt(np.einsum("ij,ij->i", gaps, gaps).min())) if before else np.inf
    near = np.minimum(distances[[last]], nearest_taken)
    return float(fill_scores(pool[[last]], weights[[last]], near)[0])


def _factors(pool: FloatArray, weights: FloatArray, distances: FloatArray) -> tuple[FloatArray, FloatArray]:
    # Squares spare a root a step: w δ^q and w^(2/q) δ² have the same order.
    power = min(pool.shape[1], _MOST_POWER)
    return np.maximum(weights, 0.0) ** (2 / power), np.minimum(distances, 1e6) ** 2


def systematic_draw(pool: FloatArray, weights: FloatArray, n_samples: int, generator: np.random.Generator) -> IntArray:
    """Indices of ``n_samples`` candidates, evenly spread over the density ``weights``.

    Examples
    --------
    >>> pool = np.linspace(0, 1, 100)[:, None]
    >>> drawn = systematic_draw(pool, np.ones(100), 4, np.random.default_rng(0))
    >>> np.diff(drawn).tolist()
    [25, 25, 25]
    """
    order = np.argsort(hilbert_index(pool), kind="stable")
    cumulative = np.cumsum(weights[order]) / weights.sum()
    steps = np.arange(n_samples)
    comb = (generator.random() + steps) / n_samples
    places = np.maximum.accumulate(np.searchsorted(cumulative, comb) - steps) + steps
    drawn: IntArray = order[np.minimum(places, len(order) - n_samples + steps)]
    return drawn


def random_draw(weights: FloatArray, n_samples: int, generator: np.random.Generator) -> IntArray:
    """Indices of ``n_samples`` candidates in proportion to ``weights``; those without weight come last.

    Examples
    --------
    >>> sorted(random_draw(np.array([0.0, 1.0, 1.0, 0.0]), 2, np.random.default_rng(0)).tolist())
    [1, 2]
    """
    shares = weights / weights.sum()
    n_wanted = min(n_samples, int(np.count_nonzero(shares)))
    drawn = generator.choice(len(weights), n_wanted, p=shares, replace=False)
    others = np.flatnonzero(shares == 0)
    rest = generator.choice(others, n_samples - n_wanted, replace=False) if n_wanted < n_samples else others[:0]
    return np.concatenate([drawn, rest])


def hilbert_index(points: FloatArray) -> npt.NDArray[np.uint64]:
    """Position of unit-cube points along Hilbert's curve."""
    n_features = points.shape[1]
    n_bits = max(1, min(16, 63 // n_features))
    x = np.minimum(np.clip(points, 0.0, 1.0) * 2**n_bits, 2**n_bits - 1).astype(np.uint64).T.copy()
    _undo_excess(x, n_bits)
    for i in range(1, n_features):  # Gray encode
        x[i] ^= x[i - 1]
    flip = np.zeros_like(x[0])
    for bit in range(n_bits - 1, 0, -1):
        q = np.uint64(1 << bit)
        flip = np.where(x[-1] & q, flip ^ (q - np.uint64(1)), flip)
    x ^= flip
    index: npt.NDArray[np.uint64] = np.zeros_like(x[0])
    for bit in range(n_bits - 1, -1, -1):
        for row in x:
            index = (index << np.uint64(1)) | ((row >> np.uint64(bit)) & np.uint64(1))
    return index


def _undo_excess(x: npt.NDArray[np.uint64], n_bits: int) -> None:
    """Skilling's inverse undo: rotate and reflect each sub-cube into its place, in place."""
    for bit in range(n_bits - 1, 0, -1):
        q = np.uint64(1 << bit)
        p = q - np.uint64(1)
        for i in range(len(x)):
            inverted = (x[i] & q) != 0
            swap = np.where(inverted, np.uint64(0), (x[0] ^ x[i]) & p)
            x[0] = np.where(inverted, x[0] ^ p, x[0] ^ swap)
            x[i] ^= swap
