"""From variation at measured points to new points: a density, and a way to draw from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from steep._validation import (
    LARGEST_NUMBER,
    SMALLEST_NUMBER,
    FloatArray,
    Seed,
    check_choice,
    check_count,
    check_generator,
    check_points,
    check_real,
    check_vector,
    shown,
)
from steep._warnings import warn_user
from steep.domain import Bounds, Box
from steep.exceptions import InputError
from steep.mixture import WeightedGaussianMixture
from steep.neighbors.query import nearest
from steep.sampling.draws import fill_doubt, fill_scores, greedy_fill, last_score, random_draw, systematic_draw
from steep.sampling.pool import candidate_pool, distinct, interpolate, wanted_density, whole_pool

Density = Literal["mixture", "pool"]
Draw = Literal["random", "systematic", "fill", "doubt"]
DENSITIES = ("mixture", "pool")
DRAWS = ("random", "systematic", "fill", "doubt")

# A candidate nearer than this to a point that is there is that point, whatever the rounding.
_SAME = 1e-12
# A domain of whole numbers and categories up to this size is listed when a pool does not hold enough free points.
_LISTED = 2**20
# More points than this make it worth while to ask only the best candidates how far they are from all of them.
_MANY = 4096
# Up to so many points a process tells where it knows little; with more, distances do.
_DOUBTED = 1024
# How many candidates are asked first, at least.
_FEW = 256


class _Candidates(NamedTuple):
    """Unit points to choose from, where they lie for distances, the density wanted there, how far the rest is."""

    unit: FloatArray
    coordinates: FloatArray
    weights: FloatArray
    distances: FloatArray

    def free(self) -> _Candidates:
        """Those that are not there already, each once."""
        return self.rows(distinct(self.unit) & (self.distances > _SAME))

    def rows(self, chosen: Any) -> _Candidates:
        """Some of them."""
        return _Candidates(*(part[chosen] for part in self))


def _check_variation(variation: Any, n_samples: int) -> FloatArray:
    """One value ≥ 0 a point; none at all where there are no points."""
    if n_samples == 0 and isinstance(variation, list | np.ndarray) and np.size(variation) == 0:
        return np.empty(0)
    return check_vector(variation, name="variation", n_samples=n_samples, minimum=0.0)


class VariationSampler:
    """Draw points of a domain in proportion to measured variation.

    Parameters
    ----------
    bounds : bounds or Box
        S, in any units.
    density : {"mixture", "pool"}, default "mixture"
        How variation at the measured points becomes a density: a weighted Gaussian mixture (the
        paper), or a large pool of candidates, each with the variation of the points around it.
    draw : {"random", "systematic", "fill", "doubt"}, default "random"
        How points are drawn from it: independently (the paper); in equal steps of probability along
        a space-filling curve; or one by one where the density is least covered by the points of ``fit``
        and those drawn before: by distance, or by the deviation of a Gaussian process ("doubt").
        Candidates of a pool that are there already are never drawn.
    n_components : int, default 3
        n_GMM, Gaussians in the mixture; lowered to the number of points that vary when there are fewer.
    temper : float, default 1.0
        The density follows variation^temper: 1 is the paper, ½ is close to what its bound asks for,
        0 ignores the variation.
    floor : float, default 0.0
        Share of the density spread uniformly over S, from 0 (the paper) to 1.
    random_state : int, Generator or None
        Seed. Successive ``sample`` calls continue one stream that ``fit`` starts.

    Attributes
    ----------
    mixture_ : WeightedGaussianMixture or None
        The density in the unit cube; None when the variation is zero everywhere and draws are
        uniform, or with ``density="pool"``.

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
        density: Density = "mixture",
        draw: Draw = "random",
        n_components: int = 3,
        temper: float = 1.0,
        floor: float = 0.0,
        random_state: Seed = None,
    ) -> None:
        self.box = Box(bounds)
        self.density = check_choice(density, name="density", choices=DENSITIES)
        self.draw = check_choice(draw, name="draw", choices=DRAWS)
        self.n_components = check_count(n_components, name="n_components")
        self.temper = check_real(temper, name="temper", minimum=0.0)
        self.floor = check_real(floor, name="floor", minimum=0.0, maximum=1.0)
        self.random_state = random_state

    def fit(self, X: Any, variation: Any, *, scale: Any = None, occupied: Any = None) -> Self:
        """Build the density from the variation measured at the points ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Points of the domain; none at all give a uniform density.
        variation : array-like of shape (n_samples,)
            Their variation ≥ 0.
        scale : array-like of shape (n_coordinates,), optional
            Stretches the distances of the pool and the fill, one number > 0 for each coordinate of
            ``box.embed``; see :func:`steep.sampling.relevance.axis_relevance`.
        occupied : array-like of shape (n_points, n_features), optional
            Points without a variation (runs in flight, failures) that no draw may come back to.
        """
        points = self._rows(X, "X")
        if len(points):
            inside = self.box.contains(points)
            if not inside.all():
                raise InputError(
                    f"X[{int(np.argmin(inside))}] lies outside {shown(self.box)}; need points of the domain; widen "
                    "the bounds"
                )
        unit = self.box.unit(points) if len(points) else points
        taken = self._rows([] if occupied is None else occupied, "occupied")
        return self.fit_unit(
            unit,
            self.box.embed(unit),
            variation,
            scale=scale,
            # What lies far outside only has to stay outside.
            occupied=self.box.embed(np.clip(self.box.unit(taken), -1e6, 1e6)) if len(taken) else None,
        )

    def fit_unit(
        self,
        unit: FloatArray,
        coordinates: FloatArray,
        variation: Any,
        *,
        scale: Any = None,
        occupied: FloatArray | None = None,
        trust: Callable[[FloatArray], FloatArray] | None = None,
        length: float | None = None,
    ) -> Self:
        """:meth:`fit` for a caller that has the points in unit and embedded coordinates already.

        ``occupied`` are embedded coordinates too. ``trust(U)`` multiplies the density at the unit points of a
        pool, as where some runs fail. ``length`` is the length scale of "doubt", in scaled coordinates.
        """
        values = _check_variation(variation, len(unit))
        self._generator = check_generator(self.random_state)
        self._scale, self._trust = self._check_scale(scale), trust
        self._points, self._length = coordinates * self._scale, length
        # The unit of variation means nothing; a power of two changes no digit and keeps squares in range.
        self._values = np.ldexp(values, -int(np.frexp(values.max())[1])) if len(values) else values
        self._others = coordinates[:0] if occupied is None else occupied * self._scale
        self.mixture_: WeightedGaussianMixture | None = None
        if len(values) and values.max() == 0:
            warn_user(
                "variation is zero at every point, so there is nothing to follow: drawing uniformly; measure at "
                "more points or raise epsilon"
            )
        elif len(values) and self.density == "mixture":
            self.mixture_ = self._fit_mixture(unit)
        return self

    def _rows(self, X: Any, name: str) -> FloatArray:
        if (isinstance(X, list | tuple) and not X) or (isinstance(X, np.ndarray) and X.shape[:1] == (0,)):
            return np.empty((0, self.box.n_features))
        return check_points(X, name=name, n_features=self.box.n_features)

    def _check_scale(self, scale: Any) -> FloatArray:
        n_coordinates = self.box.embed(np.zeros((1, self.box.n_features))).shape[1]
        if scale is None:
            return np.ones(n_coordinates)
        stretch = check_vector(scale, name="scale", n_samples=n_coordinates)
        if not ((stretch >= SMALLEST_NUMBER) & (stretch <= LARGEST_NUMBER)).all():
            limits = f"{SMALLEST_NUMBER:g} to {LARGEST_NUMBER:g}"
            raise InputError(f"scale is {shown(stretch)}; expected numbers from {limits}")
        return stretch

    def _fit_mixture(self, unit: FloatArray) -> WeightedGaussianMixture:
        weights = (self._values / self._values.max()) ** self.temper
        n_components = min(self.n_components, int(np.count_nonzero(weights)))
        mixture = WeightedGaussianMixture(n_components, n_init=5, random_state=self._generator)
        return mixture.fit(unit, sample_weight=weights)

    def sample(self, n_samples: int) -> FloatArray:
        """Draw ``n_samples`` points of the domain."""
        return self.box.from_unit(self.sample_unit(n_samples))

    def sample_unit(self, n_samples: int, *, fewer: bool = False) -> FloatArray:
        """:meth:`sample`, in the unit cube; where a pool has not so many free points, ``fewer`` will do."""
        if not hasattr(self, "_generator"):
            raise InputError("the sampler has no density yet; call fit(X, variation) first")
        n_samples = check_count(n_samples, name="n_samples")
        # Independent draws come back to the same point where there are only so many.
        if self.density == "mixture" and self.draw == "random" and not np.isfinite(self.box.n_points):
            return self._sample_mixture(n_samples)
        return self._sample_pool(n_samples, fewer)

    def _sample_pool(self, n_samples: int, fewer: bool) -> FloatArray:
        candidates = self._candidates(candidate_pool(self.box, n_samples, self._generator))
        drawn = self._fill_few(candidates, n_samples) if self.draw in ("fill", "doubt") else None
        if drawn is None:
            drawn = self._draw_from(self._settled(candidates).free(), n_samples, fewer)
        self._others = np.vstack([self._others, drawn.coordinates])
        return drawn.unit

    def _draw_from(self, free: _Candidates, n_samples: int, fewer: bool) -> _Candidates:
        if len(free.unit) < n_samples:
            free = self._last_candidates(free, n_samples, fewer)
            n_samples = min(n_samples, len(free.unit))
        if not n_samples:
            return free
        weights = free.weights if free.weights.any() else np.ones(len(free.unit))
        if self.draw == "doubt" and len(self._points) + len(self._others) <= _DOUBTED:
            length = self._length or float(np.sqrt(free.coordinates.var(axis=0).sum())) or 1.0
            known = np.vstack([self._points, self._others])
            taken = fill_doubt(known, free.coordinates, weights, length, n_samples)
        elif self.draw in ("fill", "doubt"):
            taken = greedy_fill(free.coordinates, weights, free.distances, n_samples)
        elif self.draw == "systematic":
            taken = systematic_draw(free.unit, weights, n_samples, self._generator)
        else:
            taken = random_draw(weights, n_samples, self._generator)
        return free.rows(taken)

    def _fill_few(self, candidates: _Candidates, n_samples: int) -> _Candidates | None:
        """The same as filling from all candidates, for the price of few; None where that saves nothing.

        Points that are there can only lower a score, so with many of them the distance to all is asked for the best
        candidates alone, until none of the rest could be better than the worst one taken.
        """
        if len(self._others) <= _MANY or not candidates.weights.any():
            return None
        near = np.minimum(
            candidates.distances, self._distances(self._others[:: len(self._others) // _MANY + 1], candidates)
        )
        bounded = candidates._replace(distances=near)
        best = np.argsort(-fill_scores(*bounded[1:]), kind="stable")
        size = max(_FEW, 8 * n_samples)
        while size < len(best):
            free = self._settled(candidates.rows(np.sort(best[:size]))).free()
            if len(free.unit) >= n_samples:
                taken = greedy_fill(free.coordinates, free.weights, free.distances, n_samples)
                rest = fill_scores(*bounded.rows(best[size : size + 1])[1:])[0]
                if last_score(free.coordinates, free.weights, free.distances, taken) > rest:
                    return free.rows(taken)
            size *= 4
        return None

    def _candidates(self, pool: FloatArray) -> _Candidates:
        """Candidates with their distances to the measured points; see :meth:`_settled` for the others."""
        coordinates: FloatArray = self.box.embed(pool) * self._scale
        weights: FloatArray = np.ones(len(pool))
        distances: FloatArray = np.full(len(pool), np.inf)
        if self.mixture_ is not None:
            # The mixture was fitted to tempered variation already.
            logs = self.mixture_.score_samples(pool)
            weights = wanted_density(np.exp(logs - logs.max()), temper=1.0, floor=self.floor)
            distances = nearest(self._points, coordinates)[0][:, 0]
        elif len(self._points):
            variation, distances = interpolate(self._points, self._values, coordinates)
            weights = wanted_density(variation, temper=self.temper, floor=self.floor)
        if self._trust is not None:
            weights = weights * self._trust(pool)
        return _Candidates(pool, coordinates, weights, distances)

    def _settled(self, candidates: _Candidates) -> _Candidates:
        """With their distances to all that is there."""
        if not len(self._others):
            return candidates
        distances = np.minimum(candidates.distances, self._distances(self._others, candidates))
        return candidates._replace(distances=distances)

    @staticmethod
    def _distances(points: FloatArray, candidates: _Candidates) -> FloatArray:
        found: FloatArray = nearest(points, candidates.coordinates)[0][:, 0]
        return found

    def _last_candidates(self, free: _Candidates, n_samples: int, fewer: bool) -> _Candidates:
        """Every free point of a domain that is nearly used up, or an error that says how many it holds."""
        if self.box.n_points > _LISTED:
            if fewer:
                return free
            raise InputError(f"{shown(self.box)} has too few free points, need {n_samples}; widen the bounds")
        whole = self._settled(self._candidates(whole_pool(self.box)))
        free = whole.free()
        n_held, n_free = len(whole.unit), len(free.unit)
        if n_free < n_samples and not fewer:
            raise InputError(
                f"the domain holds {n_held} different points and {n_held - n_free} of them are taken, need "
                f"{n_samples} more; ask for fewer or widen the bounds"
            )
        return free

    def _sample_mixture(self, n_samples: int) -> FloatArray:
        """Algorithm 1, line 8: independent draws from the truncated mixture."""
        mixture, generator, n_uniform = self.mixture_, self._generator, n_samples
        if mixture is not None:
            n_uniform = int(generator.binomial(n_samples, self.floor))
        drawn = [self.box.draw_unit(lambda n: generator.random((n, self.box.n_features)), n_uniform)]
        if mixture is not None and n_uniform < n_samples:
            drawn.append(
                self.box.draw_unit(
                    lambda n: mixture.sample(n, random_state=generator),
                    n_samples - n_uniform,
                    may_leave=True,
                    advice="raise n_components or floor, or widen the bounds",
                )
            )
        return generator.permutation(np.vstack(drawn))
