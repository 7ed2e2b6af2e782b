"""From variation at measured points to new points: a density, and a way to draw from it."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np

from steep._validation import (
    FloatArray,
    Seed,
    check_choice,
    check_count,
    check_generator,
    check_points,
    check_real,
    check_vector,
)
from steep.domain import Bounds, Box
from steep.exceptions import AcceptanceError, InputError, SteepWarning
from steep.mixture import WeightedGaussianMixture
from steep.neighbors.query import nearest
from steep.sampling.draws import greedy_fill, systematic_draw
from steep.sampling.pool import candidate_pool, density, interpolate

Density = Literal["mixture", "pool"]
Draw = Literal["random", "systematic", "fill"]

# Rejection gives up when fewer than one draw in this many falls inside the domain.
_MOST_DRAWS_PER_SAMPLE = 1000


class VariationSampler:
    """Draw points of a domain in proportion to measured variation.

    Parameters
    ----------
    bounds : bounds or Box
        S, in any units.
    density : {"mixture", "pool"}, default "mixture"
        How variation at the measured points becomes a density: a weighted Gaussian mixture (the
        paper), or a large pool of candidates, each with the variation of the points around it.
    draw : {"random", "systematic", "fill"}, default "random"
        How points are drawn from it: independently (the paper); in equal steps of probability along
        a space-filling curve; or one by one where the density is met worst by the points of ``fit``
        and those drawn before.
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
        self.density = check_choice(density, name="density", choices=("mixture", "pool"))
        self.draw = check_choice(draw, name="draw", choices=("random", "systematic", "fill"))
        self.n_components = check_count(n_components, name="n_components")
        self.temper = check_real(temper, name="temper", minimum=0.0)
        self.floor = check_real(floor, name="floor", minimum=0.0, maximum=1.0)
        self.random_state = random_state

    def fit(self, X: Any, variation: Any, *, scale: Any = None, occupied: Any = None) -> Self:
        """Build the density from the variation measured at the points ``X``.

        ``scale``, one number for each coordinate, stretches the distances of the pool and the fill;
        ``occupied`` points have no variation yet (runs in flight, failures) but a fill keeps clear of them.
        """
        points = check_points(X, n_features=self.box.n_features)
        values = check_vector(variation, name="variation", n_samples=len(points), minimum=0.0)
        inside = self.box.contains(points)
        if not inside.all():
            raise InputError(
                f"X[{int(np.argmin(inside))}] lies outside {self.box!r}; need points of the domain; widen the bounds"
            )
        self._generator = check_generator(self.random_state)
        self.mixture_: WeightedGaussianMixture | None = None
        self._scale = 1.0 if scale is None else np.asarray(scale, dtype=np.float64)
        self._points, self._values = self._coordinates(self.box.unit(points)), values
        self._there = self._points
        if occupied is not None and len(occupied):
            self._there = np.vstack([self._points, self._coordinates(self.box.unit(occupied))])
        if values.max() == 0:
            warnings.warn(
                "variation is zero at every point, so there is nothing to follow: drawing uniformly; measure at "
                "more points or raise epsilon",
                SteepWarning,
                stacklevel=2,
            )
        elif self.density == "mixture":
            self._fit_mixture(points, values)
        return self

    def _coordinates(self, unit: FloatArray) -> FloatArray:
        """Unit points in the coordinates distances are taken in."""
        scaled: FloatArray = self.box.embed(unit) * self._scale
        return scaled

    def _fit_mixture(self, points: FloatArray, values: FloatArray) -> None:
        weights = (values / values.max()) ** self.temper
        n_components = min(self.n_components, int(np.count_nonzero(weights)))
        mixture = WeightedGaussianMixture(n_components, n_init=5, random_state=self._generator)
        self.mixture_ = mixture.fit(self.box.unit(points), sample_weight=weights)

    def sample(self, n_samples: int) -> FloatArray:
        """Draw ``n_samples`` points of the domain."""
        if not hasattr(self, "_generator"):
            raise InputError("the sampler has no density yet; call fit(X, variation) first")
        n_samples = check_count(n_samples, name="n_samples")
        if self.density == "mixture" and self.draw == "random":
            return self._sample_mixture(n_samples)
        return self.box.from_unit(self._sample_pool(n_samples))

    def _sample_pool(self, n_samples: int) -> FloatArray:
        pool = candidate_pool(self.box, n_samples, self._generator)
        coordinates = self._coordinates(pool)
        weights = self._pool_weights(pool, coordinates)
        if len(pool) < n_samples:
            raise InputError(
                f"the domain holds only {len(pool)} different points, need {n_samples}; ask for fewer"
            )
        if self.draw == "fill":
            distances = nearest(self._there, coordinates)[0][:, 0]
            taken = greedy_fill(coordinates, weights, distances, n_samples)
            self._there = np.vstack([self._there, coordinates[taken]])
        elif self.draw == "systematic":
            taken = systematic_draw(pool, weights, n_samples, self._generator)
        else:
            shares = weights / weights.sum()
            taken = self._generator.choice(len(pool), n_samples, p=shares, replace=False)
        return pool[taken]

    def _pool_weights(self, pool: FloatArray, coordinates: FloatArray) -> FloatArray:
        if self.mixture_ is None:
            variation, _ = interpolate(self._points, self._values, coordinates)
            return density(variation, temper=self.temper, floor=self.floor)
        # The mixture was fitted to tempered variation already.
        logs = self.mixture_.score_samples(pool)
        return density(np.exp(logs - logs.max()), temper=1.0, floor=self.floor)

    def _sample_mixture(self, n_samples: int) -> FloatArray:
        """Algorithm 1, line 8: independent draws from the truncated mixture."""
        n_uniform = n_samples
        if self.mixture_ is not None:
            n_uniform = int(self._generator.binomial(n_samples, self.floor))
        uniform = self.box.draw_unit(lambda n: self._generator.random((n, self.box.n_features)), n_uniform)
        drawn: list[FloatArray] = [uniform]
        if self.mixture_ is not None:
            drawn.append(self._truncated(self.mixture_, n_samples - n_uniform))
        unit = np.vstack(drawn)
        return self.box.from_unit(self._generator.permutation(unit))

    def _truncated(self, mixture: WeightedGaussianMixture, n_samples: int) -> FloatArray:
        """Mixture draws inside S, by rejection."""
        kept: list[FloatArray] = [np.empty((0, self.box.n_features))]
        n_kept = n_drawn = 0
        while n_kept < n_samples:
            batch = mixture.sample(max(2 * (n_samples - n_kept), 64), random_state=self._generator)
            inside = batch[((batch >= 0) & (batch <= 1)).all(axis=1)]
            if self.box.constraint is not None and len(inside):
                inside = inside[self.box.contains(self.box.from_unit(inside))]
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
