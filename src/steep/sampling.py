"""Variation Based Sampling: Algorithm 1 for any measure of variation.

    1   N, N', ε, n, n_GMM      n_initial, n_samples, epsilon, order, n_components
    2   {x_1 … x_N} ~ U(S)                                     _initial_points
    3-6 Df^n_ε(x_i)             any measure                     _measure
    7   dP ∝ Df by a Gaussian mixture                           VariationSampler.fit
    8   {x̄_1 … x̄_N'} inside S by rejection                     VariationSampler.sample
    9   f(x̄_i)
    10  both sets joined                                        Design

The neighbour measure gives the paper's third methodology: no derivative is needed. Everything happens
in the unit cube, so ε is a variance relative to each axis; a variance ε in the inputs' own units is
``epsilon = ε / box.width**2``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from steep._validation import (
    FloatArray,
    Function,
    Seed,
    check_choice,
    check_count,
    check_generator,
    check_points,
    check_real,
    check_vector,
    evaluate,
)
from steep.derivatives import Derivatives, FiniteDifferences
from steep.domain import Bounds, Box
from steep.exceptions import AcceptanceError, InputError, SteepWarning
from steep.local_variance import neighbor_variance
from steep.mixture import WeightedGaussianMixture
from steep.multi_index import power
from steep.taylor import taylor_variation

Measure = Literal["auto", "taylor", "neighbors"] | Callable[[FloatArray, FloatArray], Any]

# Rejection gives up when fewer than one draw in this many falls inside the domain.
_MOST_DRAWS_PER_SAMPLE = 1000


class VariationSampler:
    """Draw points of a box in proportion to measured variation.

    Parameters
    ----------
    bounds : bounds or Box
        S, in any units.
    density : {"mixture"}, default "mixture"
        How variation at the measured points becomes a density: a weighted Gaussian mixture.
    draw : {"random"}, default "random"
        How points are drawn from it: independently, those outside S rejected.
    n_components : int, default 3
        n_GMM, Gaussians in the mixture; lowered to the number of points that vary when there are fewer.
    temper : float, default 1.0
        The density follows variation^temper: 1 is the paper, ½ is close to what its bound asks for,
        0 ignores the variation.
    floor : float, default 0.0
        Share of the draws spread uniformly over S, from 0 (the paper) to 1.
    random_state : int, Generator or None
        Seed. Successive ``sample`` calls continue one stream that ``fit`` starts.

    Attributes
    ----------
    mixture_ : WeightedGaussianMixture or None
        The density in the unit cube; None when the variation is zero everywhere and draws are uniform.

    Examples
    --------
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> sampler = VariationSampler([(0, 1)], n_components=1, random_state=0)
    >>> drawn = sampler.fit(X, np.exp(-((X[:, 0] - 0.7) ** 2) / 0.005)).sample(200)
    >>> drawn.shape, bool(abs(drawn.mean() - 0.7) < 0.02)
    ((200, 1), True)
    """

    def __init__(
        self,
        bounds: Bounds | Box,
        *,
        density: Literal["mixture"] = "mixture",
        draw: Literal["random"] = "random",
        n_components: int = 3,
        temper: float = 1.0,
        floor: float = 0.0,
        random_state: Seed = None,
    ) -> None:
        self.box = Box(bounds)
        self.density = check_choice(density, name="density", choices=("mixture",))
        self.draw = check_choice(draw, name="draw", choices=("random",))
        self.n_components = check_count(n_components, name="n_components")
        self.temper = check_real(temper, name="temper", minimum=0.0)
        self.floor = check_real(floor, name="floor", minimum=0.0, maximum=1.0)
        self.random_state = random_state

    def fit(self, X: Any, variation: Any) -> Self:
        """Build the density from the variation measured at the points ``X``."""
        points = check_points(X, n_features=self.box.n_features)
        values = check_vector(variation, name="variation", n_samples=len(points), minimum=0.0)
        if not self.box.contains(points).all():
            at = int(np.argmin(self.box.contains(points)))
            raise InputError(
                f"X[{at}] lies outside {self.box!r}; need points of the domain; widen the bounds"
            )
        self._generator = check_generator(self.random_state)
        self.mixture_: WeightedGaussianMixture | None = None
        if values.max() == 0:
            warnings.warn(
                "variation is zero at every point, so there is nothing to follow: drawing uniformly; measure at "
                "more points or raise epsilon",
                SteepWarning,
                stacklevel=2,
            )
        else:
            self._fit_mixture(points, values)
        return self

    def _fit_mixture(self, points: FloatArray, values: FloatArray) -> None:
        weights = (values / values.max()) ** self.temper
        n_components = min(self.n_components, int(np.count_nonzero(weights)))
        mixture = WeightedGaussianMixture(n_components, n_init=5, random_state=self._generator)
        self.mixture_ = mixture.fit(self.box.unit(points), sample_weight=weights)

    def sample(self, n_samples: int) -> FloatArray:
        """Draw ``n_samples`` points of the box from the truncated density."""
        if not hasattr(self, "_generator"):
            raise InputError("the sampler has no density yet; call fit(X, variation) first")
        n_samples = check_count(n_samples, name="n_samples")
        n_uniform = n_samples
        if self.mixture_ is not None:
            n_uniform = int(self._generator.binomial(n_samples, self.floor))
        uniform = self._generator.random((n_uniform, self.box.n_features))
        drawn: list[FloatArray] = [uniform]
        if self.mixture_ is not None:
            drawn.append(self._truncated(self.mixture_, n_samples - n_uniform))
        unit = np.vstack(drawn)
        return self.box.from_unit(self._generator.permutation(unit))

    def _truncated(self, mixture: WeightedGaussianMixture, n_samples: int) -> FloatArray:
        """Mixture draws inside the unit cube, by rejection."""
        kept: list[FloatArray] = [np.empty((0, self.box.n_features))]
        n_kept = n_drawn = 0
        while n_kept < n_samples:
            batch = mixture.sample(max(2 * (n_samples - n_kept), 64), random_state=self._generator)
            inside = batch[((batch >= 0) & (batch <= 1)).all(axis=1)]
            kept.append(inside)
            n_kept, n_drawn = n_kept + len(inside), n_drawn + len(batch)
            if n_kept < n_samples and n_drawn > _MOST_DRAWS_PER_SAMPLE * n_samples:
                rate = n_kept / n_drawn
                raise AcceptanceError(
                    f"only {n_kept} of {n_drawn} draws fell inside the domain (acceptance rate {rate:.2g}), need "
                    f"{n_samples}; raise n_components or floor, or widen the bounds",
                    acceptance_rate=rate,
                )
        return np.vstack(kept)[:n_samples]


@dataclass(frozen=True)
class Design:
    """Points, labels and how they came about.

    Attributes
    ----------
    X : ndarray of shape (n_initial + n_samples, n_features)
        All points in the user's units, the start first.
    y : ndarray of shape (n_initial + n_samples,) or (n_initial + n_samples, n_outputs)
        Labels.
    variation : ndarray of shape (n_initial + n_samples,)
        Variation where it was measured, at the start points; NaN elsewhere.
    is_initial : ndarray of bool
        Which points belong to the start.
    n_evaluations : int
        Function evaluations spent in all, finite differences included.
    """

    X: FloatArray
    y: FloatArray
    variation: FloatArray
    is_initial: npt.NDArray[np.bool_]
    n_evaluations: int


def design(
    function: Function,
    bounds: Bounds | Box,
    *,
    n_initial: int,
    n_samples: int,
    variant: Literal["paper"] | None = None,
    measure: Measure = "auto",
    order: int = 2,
    epsilon: Any = 1e-3,
    derivatives: Derivatives | None = None,
    n_neighbors: int | None = None,
    initial: Literal["uniform", "grid", "sobol"] = "uniform",
    n_components: int = 3,
    temper: float = 1.0,
    floor: float = 0.0,
    vectorized: bool = True,
    random_state: Seed = None,
) -> Design:
    """Choose where to evaluate ``function``: a start, then points where it varies (Algorithm 1).

    Parameters
    ----------
    function : callable
        f, called with an ``(n, n_features)`` array in the units of ``bounds``; see ``vectorized``.
    bounds : list of (low, high), mapping of name to (low, high), or Box
        S.
    n_initial, n_samples : int
        N start points and N' points drawn where the variation is.
    variant : {"paper", None}, default None
        "paper" is Algorithm 1 as printed: Taylor variation, a mixture, ``temper=1``, ``floor=0``.
    measure : {"auto", "taylor", "neighbors"} or callable(X, y), default "auto"
        What counts as variation. "auto" takes "taylor" when ``derivatives`` are given and
        "neighbors", which costs no evaluation, otherwise. "taylor" without ``derivatives`` spends
        finite differences: they are counted in ``n_evaluations``.
    order, epsilon : int and float or array, default 2 and 1e-3
        n and ε of Eq. dn, ε relative to each axis of the box.
    derivatives : callable, optional
        ``derivatives(X, multi_indices)`` in the units of ``bounds``; see :class:`Derivatives`.
    n_neighbors : int, optional
        k of the neighbour measure; default a quarter of the start, between 3 and 20.
    initial : {"uniform", "grid", "sobol"}, default "uniform"
        How the start is laid.
    n_components, temper, floor
        See :class:`VariationSampler`.
    vectorized : bool, default True
        False when ``function`` takes one point at a time.
    random_state : int, Generator or None
        Seed of the whole design.

    Returns
    -------
    Design

    Examples
    --------
    >>> runge = lambda X: 1 / (1 + 25 * (X[:, 0] - 0.5) ** 2)
    >>> plan = design(runge, [(0, 1)], n_initial=8, n_samples=8, initial="grid", random_state=0)
    >>> plan.X.shape, plan.y.shape, plan.n_evaluations
    ((16, 1), (16,), 16)
    """
    box = Box(bounds)
    generator = check_generator(random_state)
    n_initial = check_count(n_initial, name="n_initial", minimum=2)
    n_samples = check_count(n_samples, name="n_samples")
    resolved = _resolve_measure(variant, measure, derivatives, temper, floor)
    sampler = VariationSampler(
        box, n_components=n_components, temper=temper, floor=floor, random_state=generator
    )
    start = _initial_points(box, n_initial, initial, generator)
    labels = evaluate(function, start, vectorized=vectorized)
    differences = FiniteDifferences(
        _in_unit_cube(function, box, vectorized), bounds=[(0, 1)] * box.n_features
    )
    if resolved == "taylor":
        given = differences if derivatives is None else _in_unit_units(derivatives, box)
        variation = taylor_variation(None, box.unit(start), order=order, epsilon=epsilon, derivatives=given)
    elif resolved == "neighbors":
        k = min(20, max(3, n_initial // 4), n_initial) if n_neighbors is None else n_neighbors
        variation = neighbor_variance(box.unit(start), labels, n_neighbors=k, task="regression")
    else:
        variation = check_vector(
            resolved(start, _squeeze(labels)), name="measure(X, y)", n_samples=n_initial, minimum=0.0
        )
    drawn = sampler.fit(start, variation).sample(n_samples)
    joined = np.vstack([labels, evaluate(function, drawn, vectorized=vectorized)])
    return Design(
        X=np.vstack([start, drawn]),
        y=_squeeze(joined),
        variation=np.concatenate([variation, np.full(n_samples, np.nan)]),
        is_initial=np.arange(n_initial + n_samples) < n_initial,
        n_evaluations=n_initial + n_samples + differences.n_evaluations,
    )


def _resolve_measure(
    variant: str | None, measure: Any, derivatives: Derivatives | None, temper: float, floor: float
) -> Any:
    check_choice(variant, name="variant", choices=(None, "paper"))
    if not callable(measure):
        check_choice(measure, name="measure", choices=("auto", "taylor", "neighbors"))
    if variant == "paper":
        if measure not in ("auto", "taylor") or temper != 1 or floor != 0:
            raise InputError(
                f"variant='paper' means measure='taylor', temper=1 and floor=0; got measure={measure!r}, "
                f"temper={temper:g}, floor={floor:g}; leave variant out to combine them freely"
            )
        return "taylor"
    if measure == "auto":
        return "neighbors" if derivatives is None else "taylor"
    return measure


def _initial_points(box: Box, n_initial: int, initial: str, generator: np.random.Generator) -> FloatArray:
    check_choice(initial, name="initial", choices=("uniform", "grid", "sobol"))
    if initial == "grid":
        return box.grid(n_initial)
    draw = box.uniform if initial == "uniform" else box.sobol
    return draw(n_initial, random_state=generator)


def _in_unit_cube(function: Function, box: Box, vectorized: bool) -> Function:
    """u ↦ f(x(u)), always vectorized; errors name the points in the user's units."""
    return lambda U: evaluate(function, box.from_unit(U), vectorized=vectorized)


def _in_unit_units(derivatives: Derivatives, box: Box) -> Derivatives:
    """∂_u^k = width^k ∂_x^k."""

    def scaled(U: FloatArray, multi_indices: npt.NDArray[np.int64], /) -> FloatArray:
        partials = np.asarray(derivatives(box.from_unit(U), multi_indices), dtype=np.float64)
        width = power(box.width, multi_indices)
        return partials * width.reshape(-1, *[1] * (partials.ndim - 1))

    return scaled


def _squeeze(labels: FloatArray) -> FloatArray:
    return labels[:, 0] if labels.shape[1] == 1 else labels
