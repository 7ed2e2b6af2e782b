"""Gaussian mixture fitted by expectation-maximisation to *weighted* points.

Line 7 of Algorithm 1 approximates dP ∝ Df by a Gaussian mixture. With a weight a_i for each point,
n_GMM components (π_c, μ_c, Σ_c) and responsibilities r_ic,

    E   r_ic ∝ π_c N(x_i; μ_c, Σ_c)
    M   A_c = Σ_i a_i r_ic,  π_c = A_c/Σ_c A_c,  μ_c = Σ_i a_i r_ic x_i / A_c,
        Σ_c = Σ_i a_i r_ic (x_i−μ_c)(x_i−μ_c)ᵀ / A_c + reg_covar I

Whole weights give what scikit-learn's mixture gives on repeated rows; a weight of zero removes a point.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from steep._blas import few_threads
from steep._validation import (
    FloatArray,
    Seed,
    check_count,
    check_generator,
    check_points,
    check_real,
    check_sample_weight,
)
from steep.exceptions import InputError

# Numbers drawn at once: 2^34 doubles are 128 GiB.
_MOST_NUMBERS = 2**34
# As in scikit-learn: keeps an empty component from dividing by zero.
_TINY = 10 * np.finfo(np.float64).eps


class _Parameters(NamedTuple):
    """π, μ, Σ and the Cholesky factors of Σ."""

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray
    choleskys: FloatArray


class WeightedGaussianMixture(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian mixture with full covariances, fitted by EM to points that carry weights.

    Parameters
    ----------
    n_components : int, default 3
        n_GMM, the number of Gaussians.
    n_init : int, default 1
        Starts from different k-means++ draws; the best likelihood wins.
    max_iter : int, default 100
        EM steps at most.
    tol : float, default 1e-3
        Stop when the mean log-likelihood gains less.
    reg_covar : float, default 1e-6
        Added to the diagonal of every covariance; keeps components on a single point finite.
    random_state : int, Generator, RandomState or None
        Seed of the starts and of ``sample``.

    Attributes
    ----------
    weights_, means_, covariances_ : ndarray
        π, μ, Σ.
    converged_ : bool
        Whether ``tol`` was reached within ``max_iter``.
    n_iter_ : int
        EM steps of the best start.
    lower_bound_ : float
        Weighted mean log-likelihood reached.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> mixture = WeightedGaussianMixture(2, random_state=0).fit(X, sample_weight=[1, 1, 3, 3])
    >>> sorted(mixture.weights_.round(2).tolist())
    [0.25, 0.75]
    """

    def __init__(
        self,
        n_components: int = 3,
        *,
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        random_state: Seed = None,
    ) -> None:
        self.n_components = n_components
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.reg_covar = reg_covar
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the mixture to the points ``X``, each counting ``sample_weight`` times."""
        points, shares = self._check_data(X, sample_weight)
        generator = check_generator(self.random_state)
        best = None
        n_init = check_count(self.n_init, name="n_init")
        # Covariances that are not finite are rejected.
        with few_threads(points.size), np.errstate(over="ignore", invalid="ignore"):
            for _ in range(n_init):
                run = self._run(points, shares, self._start(points, shares, generator))
                if best is None or run[1] > best[1]:
                    best = run
        assert best is not None
        self._fitted, self.lower_bound_, self.n_iter_, self.converged_ = best
        self.weights_, self.means_, self.covariances_, _ = self._fitted
        return self

    def score_samples(self, X: Any) -> FloatArray:
        """Log-density of each point."""
        check_is_fitted(self)
        points = check_points(X)
        if points.shape[1] != self.n_features_in_:
            raise InputError(  # in the words scikit-learn's checks look for
                f"X has {points.shape[1]} features, but WeightedGaussianMixture is expecting {self.n_features_in_} "
                "features as input; pass the inputs of fit"
            )
        validate_data(self, X, reset=False, skip_check_array=True)  # only compares the names
        with few_threads(points.size):
            density: FloatArray = logsumexp(_log_joint(points, self._fitted), axis=1)
        return density

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, *, random_state: Seed = None) -> FloatArray:
        """Draw points from the mixture; ``random_state`` overrides the estimator's own seed."""
        check_is_fitted(self)
        n_samples = check_count(n_samples, name="n_samples")
        if n_samples * self.means_.size > _MOST_NUMBERS:
            raise InputError(f"n_samples={n_samples} are too many to hold in memory; draw in parts")
        generator = check_generator(self.random_state if random_state is None else random_state)
        component = generator.choice(len(self.weights_), size=n_samples, p=self.weights_)
        noise = generator.standard_normal((n_samples, self.means_.shape[1]))
        spread = np.einsum("nij,nj->ni", self._fitted.choleskys[component], noise)
        return np.asarray(self.means_[component] + spread)

    def _check_data(self, X: Any, sample_weight: Any) -> tuple[FloatArray, FloatArray]:
        points = check_points(X).astype(np.float64, copy=False)
        validate_data(self, X, skip_check_array=True)  # only records n_features_in_ and the names
        weights = check_sample_weight(sample_weight, len(points))
        n_components = check_count(self.n_components, name="n_components")
        n_used = int(np.count_nonzero(weights))
        if n_used < n_components:
            raise InputError(
                f"n_components={n_components} needs at least {n_components} samples with a positive weight, got "
                f"n_samples = {n_used}; lower n_components or pass more data"
            )
        return points[weights > 0], weights[weights > 0] / weights.sum()

    def _start(self, points: FloatArray, shares: FloatArray, generator: np.random.Generator) -> _Parameters:
        """Centres by k-means++, then one M step from the nearest-centre partition."""
        reg = check_real(self.reg_covar, name="reg_covar", minimum=0.0)
        centres = _kmeans_plus_plus(points, shares, self.n_components, generator)
        nearest = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        return _m_step(points, shares, np.eye(self.n_components)[nearest], reg)

    def _run(self, points: FloatArray, shares: FloatArray, start: _Parameters) -> tuple[_Parameters, float, int, bool]:
        """EM from one start: parameters, likelihood, steps taken, whether it converged."""
        tol = check_real(self.tol, name="tol", minimum=0.0)
        parameters, likelihood = start, -np.inf
        for step in range(1, check_count(self.max_iter, name="max_iter") + 1):
            before = likelihood
            joint = _log_joint(points, parameters)
            density = logsumexp(joint, axis=1)
            likelihood = float(shares @ density)
            parameters = _m_step(points, shares, np.exp(joint - density[:, None]), self.reg_covar)
            if abs(likelihood - before) < tol:
                return parameters, likelihood, step, True
        return parameters, likelihood, step, False


def _m_step(points: FloatArray, shares: FloatArray, responsibilities: FloatArray, reg_covar: float) -> _Parameters:
    mass = shares[:, None] * responsibilities
    totals = mass.sum(axis=0) + _TINY
    means = mass.T @ points / totals[:, None]
    covariances = np.empty((len(means), points.shape[1], points.shape[1]))
    for c, mean in enumerate(means):
        centred = points - mean
        covariances[c] = (mass[:, c, None] * centred).T @ centred / totals[c]
    covariances += reg_covar * np.eye(points.shape[1])
    if not np.isfinite(covariances).all():
        raise InputError("X is spread too far for its squares to be floats; scale the inputs")
    try:
        return _Parameters(totals / totals.sum(), means, covariances, np.linalg.cholesky(covariances))
    except np.linalg.LinAlgError as error:
        raise InputError(
            "a covariance is not positive definite: the points of a component lie on one spot or line; raise "
            "reg_covar, lower n_components or scale the inputs"
        ) from error


def _log_joint(points: FloatArray, parameters: _Parameters) -> FloatArray:
    """log π_c + log N(x_i; μ_c, Σ_c), shape ``(n_samples, n_components)``."""
    columns = []
    for weight, mean, cholesky in zip(parameters.weights, parameters.means, parameters.choleskys, strict=True):
        whitened = solve_triangular(cholesky, (points - mean).T, lower=True)
        log_determinant = np.log(np.diagonal(cholesky)).sum()
        constant = np.log(weight) - log_determinant - 0.5 * len(mean) * np.log(2 * np.pi)
        columns.append(constant - 0.5 * (whitened**2).sum(axis=0))
    return np.column_stack(columns)


def _kmeans_plus_plus(
    points: FloatArray, shares: FloatArray, n_components: int, generator: np.random.Generator
) -> FloatArray:
    """Centres drawn in proportion to weight × squared distance to the centres so far."""
    centres = [points[generator.choice(len(points), p=shares / shares.sum())]]
    for _ in range(n_components - 1):
        gaps = np.min([((points - centre) ** 2).sum(axis=1) for centre in centres], axis=0) * shares
        # Fewer distinct points than components: the rest start on drawn points and share their mass.
        odds = gaps if gaps.sum() > 0 else shares
        centres.append(points[generator.choice(len(points), p=odds / odds.sum())])
    return np.array(centres)
