"""From variation at measured points to new points: a density, and a way to draw from it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self

import numpy as np

from steep._validation import (
    FloatArray,
    IntArray,
    Seed,
    check_choice,
    check_count,
    check_generator,
    check_points,
    check_real,
    check_vector,
    shown,
)
from steep.domain import Bounds, Box
from steep.exceptions import InputError
from steep.mixture import WeightedGaussianMixture
from steep.neighbors.query import nearest
from steep.sampling.evaluated import embedded, warn_flat
from steep.sampling.pool import (
    Trust,
    candidate_pool,
    distinct,
    greedy_fill,
    interpolate,
    random_draw,
    wanted_density,
    whole_pool,
)
from steep.sampling.process import fill_doubt

Draw = Literal["random", "fill", "doubt"]
DRAWS = ("random", "fill", "doubt")

# A candidate nearer than this to a taken point is that point, whatever the rounding.
_SAME = 1e-12
# A domain of whole numbers and categories up to this size is listed when a pool does not hold enough free points.
_LISTED = 2**20
# With more points than this distances replace the process of "doubt".
_DOUBTED = 1024


class _Candidates(NamedTuple):
    """Unit points to choose from, where they lie for distances, the wanted density, the nearest taken point."""

    unit: FloatArray
    coordinates: FloatArray
    weights: FloatArray
    distances: FloatArray

    def rows(self, chosen: Any) -> _Candidates:
        """Some of them."""
        return _Candidates(*(part[chosen] for part in self))


class VariationSampler:
    """Draw points of a domain in proportion to measured variation.

    Parameters
    ----------
    bounds : bounds or Box
        S, in any units.
    draw : {"random", "fill", "doubt"}, default "random"
        Independently from a weighted Gaussian mixture (the paper); or one by one from a large pool of candidates, each
        with the variation of the points around it, where it is least covered by the points of ``fit`` and those drawn
        before: by distance ("fill"), or by the deviation of a Gaussian process ("doubt").
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
        The density in the unit cube; None when the variation is zero everywhere and draws are uniform, or of a pool.

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
        draw: Draw = "random",
        n_components: int = 3,
        temper: float = 1.0,
        floor: float = 0.0,
        random_state: Seed = None,
    ) -> None:
        self.box = Box(bounds)
        self.draw = check_choice(draw, name="draw", choices=DRAWS)
        self.n_components = check_count(n_components, name="n_components")
        self.temper = check_real(temper, name="temper", minimum=0.0)
        self.floor = check_real(floor, name="floor", minimum=0.0, maximum=1.0)
        self.random_state = random_state

    def fit(self, X: Any, variation: Any) -> Self:
        """Build the density from the variation measured at the points ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Points of the domain.
        variation : array-like of shape (n_samples,)
            Their variation ≥ 0.
        """
        points = check_points(X, n_features=self.box.n_features)
        values = check_vector(variation, name="variation", n_samples=len(points), minimum=0.0)
        if not (inside := self.box.contains(points)).all():
            first = int(np.argmin(inside))
            raise InputError(
                f"X[{first}] lies outside {shown(self.box)}; expected points of the domain; widen the bounds"
            )
        warn_flat(values)
        unit = self.box.unit(points)
        return self.fit_unit(unit, self.box.embed(unit), values, occupied=embedded(self.box, points[:0]))

    def fit_unit(
        self, unit: FloatArray, coordinates: FloatArray, values: FloatArray, *, occupied: FloatArray,
        scale: FloatArray | float = 1.0, trust: Trust | None = None, length: float | None = None,
    ) -> Self:  # fmt: skip
        """:meth:`fit` of points in unit and embedded coordinates; ``occupied`` are embedded, too.

        ``scale`` stretches embedded coordinates, ``trust(U)`` multiplies a density, ``length`` is of "doubt".
        """
        self._generator = check_generator(self.random_state)
        self._scale, self._trust, self._length = scale, trust, length
        self._points, self._others = coordinates * scale, occupied * scale
        # The unit of variation means nothing; a power of two changes no digit and keeps squares in range.
        self._values = np.ldexp(values, -int(np.frexp(values.max())[1])) if len(values) else values
        self.mixture_: WeightedGaussianMixture | None = None
        if self.draw == "random" and self._values.any():
            weights = (self._values / self._values.max()) ** self.temper
            n_components = min(self.n_components, int(np.count_nonzero(weights)))
            mixture = WeightedGaussianMixture(n_components, n_init=5, random_state=self._generator)
            self.mixture_ = mixture.fit(unit, sample_weight=weights)
        return self

    def sample(self, n_samples: int) -> FloatArray:
        """Draw ``n_samples`` points of the domain."""
        unit = self.sample_unit(n_samples)
        check_enough(self.box, len(unit), n_samples)
        return self.box.from_unit(unit)

    def sample_unit(self, n_samples: int) -> FloatArray:
        """:meth:`sample`, in the unit cube; fewer points where the domain has not this many free ones."""
        if not hasattr(self, "_generator"):
            raise InputError("the sampler has no density yet; call fit(X, variation) first")
        n_samples = check_count(n_samples, name="n_samples")
        # Independent draws come back to the same point in a domain of few points.
        if self.draw == "random" and not np.isfinite(self.box.n_points):
            return self._sample_mixture(n_samples)
        free = self._free(candidate_pool(self.box, n_samples, self._generator))
        if len(free.unit) < n_samples and self.box.n_points <= _LISTED:
            free = self._free(whole_pool(self.box))
        drawn = free.rows(self._draw_from(free, min(n_samples, len(free.unit))))
        self._others = np.vstack([self._others, drawn.coordinates])
        return drawn.unit

    def _draw_from(self, free: _Candidates, n_samples: int) -> IntArray:
        if not n_samples:
            return np.empty(0, np.int64)
        weights = free.weights if free.weights.any() else np.ones(len(free.unit))
        if self.draw == "doubt" and len(self._points) + len(self._others) <= _DOUBTED:
            length = self._length or float(np.sqrt(free.coordinates.var(axis=0).sum())) or 1.0
            known = np.vstack([self._points, self._others])
            return fill_doubt(known, free.coordinates, weights, length, n_samples)
        if self.draw == "random":
            return random_draw(weights, n_samples, self._generator)
        return greedy_fill(free.coordinates, weights, free.distances, n_samples)

    def _free(self, pool: FloatArray) -> _Candidates:
        """Unit points that are not taken, each once: the density wanted there, and distances to all taken points."""
        coordinates = self.box.embed(pool) * self._scale
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
        if len(self._others):
            distances = np.minimum(distances, nearest(self._others, coordinates)[0][:, 0])
        return _Candidates(pool, coordinates, weights, distances).rows(distinct(pool) & (distances > _SAME))

    def _sample_mixture(self, n_samples: int) -> FloatArray:
        """Algorithm 1, line 8: independent draws from the truncated mixture."""
        mixture, generator, n_uniform = self.mixture_, self._generator, n_samples
        if mixture is not None:
            n_uniform = int(generator.binomial(n_samples, self.floor))
        drawn = [self.box.draw_unit(lambda n: generator.random((n, self.box.n_features)), n_uniform)]
        if mixture is not None and n_uniform < n_samples:
            advice = "raise n_components or floor, or widen the bounds"
            draw = lambda n: mixture.sample(n, random_state=generator)  # noqa: E731
            drawn.append(self.box.draw_unit(draw, n_samples - n_uniform, may_leave=True, advice=advice))
        return generator.permutation(np.vstack(drawn))


def check_enough(box: Box, n_free: int, n_samples: int) -> None:
    """Raise where a domain has fewer free points than are needed."""
    if n_free < n_samples:
        raise InputError(
            f"{shown(box)} has {n_free} free points left, expected {n_samples}; ask for fewer or widen the bounds"
        )
