"""Quick surrogates of three kinds, by which runs are compared before anyone trains the real one.

    f̂(x) = k(x, X) (K + g I)⁻¹ y            kernel ridge: a Gaussian process without its variance

The kernels stand for what people train on a design: "rough" (Matérn 3/2) for interpolation and rough processes,
"smooth" (Gaussian) for processes that assume the same smoothness everywhere, "network" for one layer of random tanh
units. Length scale and nugget g are those of least leave-one-out error, in closed form:

    e_i = [(K + g I)⁻¹ y]_i / [(K + g I)⁻¹]_ii
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from steep._validation import FloatArray

Kernel = Callable[[FloatArray, FloatArray, float], FloatArray]

# Nuggets, as shares of the variance: none but rounding, and three sizes of noise.
NUGGETS = (1e-7, 1e-4, 1e-2, 0.2)
_N_UNITS = 192


def _gaps(A: FloatArray, B: FloatArray) -> FloatArray:
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * A @ B.T
    return np.sqrt(np.maximum(squares, 0.0))


def _smooth(A: FloatArray, B: FloatArray, scale: float) -> FloatArray:
    return np.exp(-0.5 * (_gaps(A, B) / scale) ** 2)


def _rough(A: FloatArray, B: FloatArray, scale: float) -> FloatArray:
    gaps = np.sqrt(3) * _gaps(A, B) / scale
    return (1 + gaps) * np.exp(-gaps)


def _network(A: FloatArray, B: FloatArray, scale: float) -> FloatArray:
    # The same units for every training, spread over the points it was trained on.
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((A.shape[1], _N_UNITS)) / scale
    centres = rng.random((_N_UNITS, A.shape[1])) * np.maximum(np.abs(B).max(axis=0), 1e-12)
    shift = -(centres * weights.T).sum(axis=1)
    return np.tanh(A @ weights + shift) @ np.tanh(B @ weights + shift).T / _N_UNITS + 0.1


# Each with its scales, in units of the median distance between points.
KERNELS: dict[str, tuple[Kernel, tuple[float, ...]]] = {
    "rough": (_rough, (0.3, 1.0, 4.0)),
    "smooth": (_smooth, (0.15, 0.4, 1.0, 2.5)),
    "network": (_network, (0.1, 0.3, 1.0)),
}


class Fitted(NamedTuple):
    """A quick surrogate: where it was fitted, its kernel and coefficients, and its errors by leave-one-out.

    ``nugget`` is g; ``errors`` is ``(n_samples, n_outputs)``; ``clean`` those of the best fit without noise.
    """

    points: FloatArray
    kernel: Kernel
    scale: float
    mean: FloatArray
    coefficients: FloatArray
    nugget: float
    errors: FloatArray
    clean: FloatArray

    def predict(self, at: FloatArray) -> FloatArray:
        """f̂ at some points, ``(n, n_outputs)``."""
        return np.asarray(self.kernel(at, self.points, self.scale) @ self.coefficients + self.mean)


def fit(kind: str, points: FloatArray, labels: FloatArray) -> Fitted:
    """Fit a quick surrogate of one kind.

    Parameters
    ----------
    kind : {"rough", "smooth", "network"}
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
    mean = labels.mean(axis=0)
    best: dict[bool, Fitted] = {}
    for scale in scales:
        values, vectors = np.linalg.eigh(kernel(points, points, scale * middle))
        turned = vectors.T @ (labels - mean)
        for nugget in NUGGETS:
            inverse = 1 / (np.maximum(values, 0.0) + nugget)
            coefficients = vectors @ (turned * inverse[:, None])
            errors = coefficients / ((vectors**2) @ inverse)[:, None]
            tried = Fitted(points, kernel, scale * middle, mean, coefficients, nugget, errors, errors)
            noisy = nugget > NUGGETS[1]
            if noisy not in best or (errors**2).mean() < (best[noisy].errors ** 2).mean():
                best[noisy] = tried
    chosen = min(best.values(), key=lambda found: float((found.errors**2).mean()))
    return chosen._replace(clean=best[False].errors)
