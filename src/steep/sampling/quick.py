"""Quick surrogates of two kinds, by which runs are compared before anyone trains the real one.

    f̂(x) = m + k(x, X) K⁻¹ (y − m)          K with a nugget g on its diagonal; a Gaussian process without its variance
    m = 1ᵀK⁻¹y / 1ᵀK⁻¹1                      so that runs crowded in one place do not move the mean everywhere else

The kernels stand for what people train on a design: "rough" (Matérn 3/2) for interpolation and rough processes,
"smooth" (Gaussian) for processes that assume the same smoothness everywhere, which lose most where runs are uneven.
Random tanh units, meant to stand for networks, refused runs at narrow peaks on which both of these gained, and were
left out. Length scale and nugget are those of least leave-one-out error, in closed form:

    e_i = [Q y]_i / Q_ii                     Q = K⁻¹ − K⁻¹1 1ᵀK⁻¹ / 1ᵀK⁻¹1
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from steep._blas import one_blas_thread
from steep._validation import FloatArray

Kernel = Callable[[FloatArray, FloatArray, float], FloatArray]

# Nuggets, as shares of the variance: none but rounding, and three sizes of noise.
NUGGETS = (1e-7, 1e-4, 1e-2, 0.2)


def _gaps(A: FloatArray, B: FloatArray) -> FloatArray:
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * A @ B.T
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


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


# Length scales of a process that are tried, in units of the median distance between points.
_LENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
# Runs that its length scale is found by, at most.
_MOST = 256


def matern(A: FloatArray, B: FloatArray, length: float) -> FloatArray:
    """Matérn's kernel of order 5/2."""
    gaps = np.sqrt(5) * _gaps(A, B) / length
    return np.asarray((1 + gaps + gaps**2 / 3) * np.exp(-gaps))


@one_blas_thread()
def length_scale(points: FloatArray, labels: FloatArray) -> float:
    """Length scale of the greatest likelihood, of a few, for a process of Matérn 5/2 through the last runs.

    Examples
    --------
    >>> x = np.linspace(0, 1, 40)[:, None]
    >>> length_scale(x, np.sin(3 * x)) > length_scale(x, np.sin(30 * x))
    True
    """
    points, labels = points[-_MOST:], labels[-_MOST:]
    gaps = _gaps(points, points)
    middle = float(np.median(gaps[np.triu_indices(len(points), 1)])) or 1.0
    return max((scale * middle for scale in _LENGTHS), key=lambda length: _likelihood(points, labels, length))


def _likelihood(points: FloatArray, labels: FloatArray, length: float) -> float:
    """Logarithm of the likelihood, each output with its own variance."""
    n = len(points)
    lower = np.linalg.cholesky(matern(points, points, length) + 1e-6 * np.eye(n))
    white = solve_triangular(lower, labels - labels.mean(axis=0), lower=True, check_finite=False)
    sizes = np.log((white**2).mean(axis=0) + 1e-30)
    return float(-0.5 * n * sizes.mean() - np.log(np.diag(lower)).sum())


class Fitted(NamedTuple):
    """A quick surrogate: where it was fitted, its kernel and coefficients, and its errors by leave-one-out.

    ``nugget`` is g; ``errors`` is ``(n_samples, n_outputs)``.
    """

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
    """Fit a quick surrogate of one kind.

    Parameters
    ----------
    kind : {"rough", "smooth"}
        The kernel.
    points : ndarray of shape (n_samples, n_coordinates)
        Points in coordinates whose distances mean something.
    labels : ndarray of shape (n_samples, n_outputs)
        Their labels, of about unit size.

    Examples
    --------
    >>> x = np.linspace(0, 1, 30)[:, None]
    >>> found = fit("rough", x, np.sin(6 * x))
    >>> bool(abs(found.predict(np.array([[0.511]])) - np.sin(6 * 0.511))[0, 0] < 0.01), found.nugget < 1e-3
    (True, True)
    """
    kernel, scales = KERNELS[kind]
    gaps = _gaps(points, points)
    middle = float(np.median(gaps[np.triu_indices(len(points), 1)])) or 1.0
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
