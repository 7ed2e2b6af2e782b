"""The Gaussian process of designs: its kernels, its length scales, its errors and its doubt; and what axes matter.

    f̂(x) = m + k(x, X) K⁻¹ (y − m)          K with a nugget g on its diagonal; the prediction of a process
    m = 1ᵀK⁻¹y / 1ᵀK⁻¹1                      so that runs crowded in one place do not move the mean everywhere else
    e_i = [Q y]_i / Q_ii                     leave-one-out error, Q = K⁻¹ − K⁻¹1 1ᵀK⁻¹ / 1ᵀK⁻¹1
    log L = −½ Σ_o n log ŝ²_o / n_outputs − ½ log det K,  ŝ²_o = yᵀK⁻¹y / n, one variance for each output
    σ²(x) = k(x, x) − k(x, X) K⁻¹ k(X, x)    its doubt

Quick surrogates, by which :mod:`steep.sampling.hedge` compares runs, stand for what people train on a design: "rough"
(Matérn 3/2) and "smooth" (Gaussian). A process of Matérn 5/2 places runs and gives the length scales of the axes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize

from steep._blas import few_threads, one_blas_thread
from steep._validation import FloatArray, IntArray
from steep.measures.surprise import standardised
from steep.neighbors.query import nearest
from steep.sampling.strategies import MANY_INPUTS

Kernel = Callable[[FloatArray, FloatArray, float], FloatArray]

# Nuggets, as shares of the variance: none but rounding, and three sizes of noise.
NUGGETS = (1e-7, 1e-4, 1e-2, 0.2)
# Length scales of a process that are tried, in units of the median distance between points.
_LENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
# Runs that one length scale is found by, at most; runs that one for each axis are; steps of that search.
_MOST, _MOST_SCALED, _STEPS = 256, 200, 25
# Lengths allowed in the unit cube; the middle of the prior over √d, and its deviation, in logarithms. The prior is for
# axes about which some dozens of runs say nothing.
_SHORTEST, _LONGEST, _USUAL, _WIDTH = 0.02, 20.0, 0.6, 1.5
# No axis counts for less than this share of the one that counts most: an axis that looks irrelevant may matter later.
_LEAST = 0.1
_JITTER = 1e-6  # added to the variance of a run, so that runs close to each other do no harm
_LEAST_NUGGET = 1e-8  # the smallest that is found by likelihood


def _gaps(A: FloatArray, B: FloatArray) -> FloatArray:
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * A @ B.T
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def _middle(points: FloatArray) -> float:
    return float(np.median(_gaps(points, points)[np.triu_indices(len(points), 1)])) or 1.0


def matern(A: FloatArray, B: FloatArray, length: float) -> FloatArray:
    """Matérn's kernel of order 5/2."""
    gaps = np.sqrt(5) * _gaps(A, B) / length
    return np.asarray((1 + gaps + gaps**2 / 3) * np.exp(-gaps))


def _smooth(A: FloatArray, B: FloatArray, scale: float) -> FloatArray:
    return np.asarray(np.exp(-0.5 * (_gaps(A, B) / scale) ** 2))


def _rough(A: FloatArray, B: FloatArray, scale: float) -> FloatArray:
    gaps = np.sqrt(3) * _gaps(A, B) / scale
    return np.asarray((1 + gaps) * np.exp(-gaps))


# Each with its scales, in units of the median distance between points.
KERNELS: dict[str, tuple[Kernel, tuple[float, ...]]] = {
    "rough": (_rough, (0.3, 1.0, 4.0)),
    "smooth": (_smooth, (0.15, 0.4, 1.0, 2.5)),
}


@one_blas_thread()
def length_scale(points: FloatArray, labels: FloatArray) -> float:
    """Length scale of the greatest likelihood, of a few, for a process of Matérn 5/2 through the last runs."""
    points, labels = points[-_MOST:], labels[-_MOST:]
    middle = _middle(points)
    return max((scale * middle for scale in _LENGTHS), key=lambda length: _likelihood(points, labels, length))


def _likelihood(points: FloatArray, labels: FloatArray, length: float) -> float:
    """Logarithm of the likelihood, each output with its own variance."""
    n = len(points)
    lower = np.linalg.cholesky(matern(points, points, length) + _JITTER * np.eye(n))
    white = solve_triangular(lower, labels - labels.mean(axis=0), lower=True, check_finite=False)
    sizes = np.log((white**2).mean(axis=0) + 1e-30)
    return float(-0.5 * n * sizes.mean() - np.log(np.diag(lower)).sum())


def length_scales(points: FloatArray, labels: FloatArray) -> FloatArray:
    """The likeliest length scale of each coordinate, for points of the unit cube and standardised labels."""
    lengths = likeliest(points, labels, most=_MOST_SCALED, steps=_STEPS)[0]
    return np.asarray(np.minimum(lengths, lengths.min() / _LEAST))


@one_blas_thread()
def likeliest(
    points: FloatArray, labels: FloatArray, *, most: int, steps: int, smooth: bool = False, finds_nugget: bool = False
) -> tuple[FloatArray, float]:
    """Lengths, and a nugget, of the greatest likelihood, from ``most`` runs; a Gaussian kernel if ``smooth``."""
    if len(points) > most:
        rows = np.linspace(0, len(points) - 1, most).astype(int)
        points, labels = points[rows], labels[rows]
    values = labels - labels.mean(axis=0)
    values = values[:, values.any(axis=0)]
    d = points.shape[1]
    middle = np.full(d, np.log(_USUAL * np.sqrt(d)))
    if not values.shape[1]:
        return np.asarray(np.exp(middle)), _JITTER
    start, bounds = middle, [(np.log(_SHORTEST), np.log(_LONGEST))] * d
    if finds_nugget:
        start, bounds = np.append(start, np.log(1e-5)), [*bounds, (np.log(_LEAST_NUGGET), 0.0)]
    found = minimize(
        _cost, start, (points, values, middle, smooth), "L-BFGS-B", True, bounds=bounds, options={"maxiter": steps}
    )
    return np.asarray(np.exp(found.x[:d])), float(np.exp(found.x[d])) if finds_nugget else _JITTER


def _cost(
    logs: FloatArray, points: FloatArray, values: FloatArray, middle: FloatArray, smooth: bool = False
) -> tuple[float, FloatArray]:
    """−log L of the logarithms of the scales, with their prior, and of a nugget if there is one; and its derivative."""
    n, d = points.shape
    scaled, nugget = points / np.exp(logs[:d]), np.exp(logs[d]) if len(logs) > d else _JITTER
    squares = (scaled**2).sum(axis=1)
    gaps = np.maximum(squares[:, None] + squares - 2 * scaled @ scaled.T, 0.0)
    if smooth:
        K = np.exp(-0.5 * gaps)
        slopes = K.copy()
    else:
        r = np.sqrt(5 * gaps)
        decay = np.exp(-r)
        K, slopes = (1 + r + r**2 / 3) * decay, 5 / 3 * (1 + r) * decay
    K[np.diag_indices(n)] += nugget
    try:
        factor = cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:  # nearly equal runs and hardly any nugget
        return 1e10, np.zeros(len(logs))
    inverse = cho_solve(factor, np.eye(n), check_finite=False)
    weights = inverse @ values
    sizes = (values * weights).sum(axis=0) / n + 1e-30
    away = (logs[:d] - middle) / _WIDTH
    cost = 0.5 * n * np.log(sizes).mean() + np.log(np.diag(factor[0])).sum() + 0.5 * away @ away
    # dK/dlog ℓ_j = B ∘ (x_aj − x_bj)²/ℓ_j²; the sum over pairs is one of products.
    rest = inverse - (weights / sizes) @ weights.T / values.shape[1]
    pull = rest * slopes
    slope = pull.sum(axis=1) @ scaled**2 - np.einsum("aj,aj->j", scaled, pull @ scaled) + away / _WIDTH
    return float(cost), slope if len(logs) == d else np.append(slope, 0.5 * nugget * np.trace(rest))


class Fitted(NamedTuple):
    """A quick surrogate: points, kernel, coefficients, nugget g and leave-one-out errors ``(n_samples, n_outputs)``."""

    points: FloatArray
    kernel: Kernel
    scale: float
    mean: FloatArray
    coefficients: FloatArray
    nugget: float
    errors: FloatArray

    @one_blas_thread()
    def predict(self, at: FloatArray) -> FloatArray:
        """f̂ at some points, ``(n, n_outputs)``."""
        return np.asarray(self.kernel(at, self.points, self.scale) @ self.coefficients + self.mean)


@one_blas_thread()
def fit(kind: str, points: FloatArray, labels: FloatArray) -> Fitted:
    """Fit a quick surrogate of one of ``KERNELS`` to labels of about unit size, by least leave-one-out error."""
    kernel, scales = KERNELS[kind]
    middle = _middle(points)
    best: Fitted | None = None
    for scale in scales:
        values, vectors = np.linalg.eigh(kernel(points, points, scale * middle))
        turned, ones = vectors.T @ labels, vectors.sum(axis=0)
        for nugget in NUGGETS:
            inverse = 1 / (np.maximum(values, 0.0) + nugget)
            total = (ones**2) @ inverse
            mean = (ones * inverse) @ turned / total
            coefficients = vectors @ ((turned - ones[:, None] * mean) * inverse[:, None])
            own = (vectors**2) @ inverse - (vectors @ (ones * inverse)) ** 2 / total
            errors = coefficients / np.maximum(own, 1e-300)[:, None]
            if best is None or (errors**2).mean() < (best.errors**2).mean():
                best = Fitted(points, kernel, scale * middle, mean, coefficients, nugget, errors)
    assert best is not None
    return best


def fill_doubt(known: FloatArray, pool: FloatArray, weights: FloatArray, length: float, n_samples: int) -> IntArray:
    """Candidates one by one where weight times doubt is largest, given ``known`` points and the length scale."""
    squares, n_known = np.maximum(weights, 0.0) ** 2, len(known)
    rows = np.zeros((n_known + n_samples, len(pool)))  # the factor of all points, known ones first
    taken, near = np.empty(n_samples, dtype=np.int64), np.zeros(len(pool))
    with few_threads(rows.size):
        if n_known:
            lower = np.linalg.cholesky(matern(known, known, length) + _JITTER * np.eye(n_known))
            rows[:n_known] = matern(known, pool, length)
            near = rows.max(axis=0)  # correlation with the nearest point: decides where all doubt is rounding
            rows[:n_known] = solve_triangular(lower, rows[:n_known], lower=True, check_finite=False)
        variance = 1.0 - np.einsum("ij,ij->j", rows[:n_known], rows[:n_known])
        for i in range(n_samples):
            scores = squares * (np.maximum(variance - _JITTER, 0.0) + _JITTER * (1.0 - near))
            scores[taken[:i]] = -1.0
            best = taken[i] = np.argmax(scores)
            done = rows[: n_known + i]
            own = matern(pool[[best]], pool, length)[0]
            near = np.maximum(near, own)
            rows[n_known + i] = (own - done[:, best] @ done) / np.sqrt(max(variance[best], 0.0) + _JITTER)
            variance -= rows[n_known + i] ** 2
    return taken


def axis_scales(points: FloatArray, labels: FloatArray) -> tuple[FloatArray, float | None]:
    """Scale of each coordinate, of geometric mean one, and from five on the length of a process so scaled."""
    if points.shape[1] < MANY_INPUTS:
        return axis_relevance(points, labels), None
    lengths = length_scales(points, standardised(labels))
    middle = float(np.exp(np.log(lengths).mean()))
    return middle / lengths, middle


@one_blas_thread()
def axis_relevance(points: FloatArray, labels: FloatArray) -> FloatArray:
    """Scale of each unit coordinate, of geometric mean one: root mean square slope of local linear fits."""
    n_samples, n_coordinates = points.shape
    k = min(2 * n_coordinates + 3, n_samples)
    if k < 3 or n_coordinates == 1:
        return np.ones(n_coordinates)
    distances, around = nearest(points, points, k)
    size = distances.mean(axis=1)[:, None, None] + 1e-12
    offsets = (points[around] - points[around].mean(axis=1, keepdims=True)) / size
    values = standardised(labels)[around]
    values = values - values.mean(axis=1, keepdims=True)
    # A little ridge settles slopes that few neighbours leave open.
    normal = offsets.transpose(0, 2, 1) @ offsets + 1e-3 * np.eye(n_coordinates)
    slopes = np.linalg.solve(normal, offsets.transpose(0, 2, 1) @ values) / size
    rms = np.sqrt((slopes**2).mean(axis=(0, 2)))
    if not rms.max() > 0:
        return np.ones(n_coordinates)
    scale = np.maximum(rms, _LEAST * rms.max())
    return np.asarray(scale / np.exp(np.log(scale).mean()))
