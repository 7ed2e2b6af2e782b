"""What is known about the error of a surrogate, from check runs: drawn at random, and used for nothing else.

Given the model, the check runs are m independent draws from the domain, evenly (p = 1) or with the density

    p(x) = 1/2 + 1/2 min(s²(x) / mean s², 10) / its mean,     s the expected error     (mean over the outputs)

so that, with Z_i = e_i² / p(x_i), whose mean is that of e² over the domain, these statements hold for every m:

    intervals       |e| ≤ q s(x) in 90 % of the domain, q the ⌈0.9 (m + 1)⌉-th smallest of |e_i| / s(x_i), each counted
                    1 / p(x_i) times                                                               (weighted conformal)
    percentile      |e| ≤ the j-th smallest |e_i| in 95 % of the domain, j by the binomial distribution; p ≥ 1/2
    RMSE            √ of the 1 − α quantile of  Σ_i w_i Z_(i) + w_(m+1) B,  w uniform on the simplex        (Gaffke)

The last is an interval for the mean of numbers that are at most B: a Bayesian bootstrap with one more run, which has
the largest possible Z. B is the largest seen at any run, check runs and those of cross-validation together: a larger
one is not covered; ``share_unseen`` says in how large a part of the domain errors can exceed those of the check runs.

Each further look at the same check runs costs: look k has α_k = α / (k (k + 1)), which sum to α.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

from steep._html import card
from steep._validation import FloatArray
from steep.exceptions import InputError

# α of all looks together, and of each end of the intervals that are shown.
ALPHA, _SHOWN = 0.05, 0.05
_PERCENTILE = 0.95
_DRAWS = 10_000
# Check runs may be drawn more often where errors are expected to be large: this share is drawn evenly, the others in
# proportion to the expected squared error, up to this many times its mean.
_EVEN, _CAP = 0.5, 10.0


class Density(NamedTuple):
    """How many times as often as evenly check runs are drawn, by the expected errors ``(n, n_outputs)`` there."""

    squares: FloatArray
    mean: float

    @classmethod
    def of(cls, sizes: FloatArray) -> Density:
        """From the expected errors at points that stand for the domain."""
        squares = (sizes**2).mean(axis=0)
        squares = np.where(squares > 0, squares, 1.0)
        return cls(squares, float(_shares(sizes, squares).mean()) or 1.0)

    def at(self, sizes: FloatArray) -> FloatArray:
        """p, whose mean over the domain is 1."""
        return _EVEN + (1 - _EVEN) * _shares(sizes, self.squares) / self.mean

    @property
    def highest(self) -> float:
        """The largest p there can be."""
        return _EVEN + (1 - _EVEN) * _CAP / self.mean


def _shares(sizes: FloatArray, squares: FloatArray) -> FloatArray:
    return np.asarray(np.minimum((sizes**2 / squares).mean(axis=1), _CAP))


@dataclass(frozen=True)
class OutputError:
    """The error of one output, in units of the output.

    ``rmse`` lies in ``low`` to ``high`` (90 %), ``bound`` is the upper end that claims rest on (95 %, all looks paid
    for); in 95 % of the domain the error is at most ``percentile``, with 95 % confidence (None with fewer than 59 check
    runs); ``largest`` is the largest of any run, ``spread`` the deviation of the output over the domain.

    Examples
    --------
    >>> OutputError("u", 0.1, 0.05, 0.2, 0.3, None, 0.4, spread=2.0).share
    0.15
    """

    name: str
    rmse: float
    low: float
    high: float
    bound: float
    percentile: float | None
    largest: float
    spread: float

    @property
    def share(self) -> float:
        """``bound`` as a share of ``spread``; 0 for an output that is constant up to rounding."""
        if not self.spread > 0:
            return 0.0 if self.bound == 0 else float("inf")
        return self.bound / self.spread

    def __str__(self) -> str:
        if not self.spread > 0:
            off = f" at the runs it was fitted to, off by up to {self.largest:.3g}" if self.bound else ""
            return f"{self.name}: constant{off}"
        within = "" if self.percentile is None else f"; 95 % of the domain within {self.percentile:.3g}"
        return (
            f"{self.name}: RMSE {self.rmse:.3g} (90 % interval {self.low:.3g} to {self.high:.3g}), "
            f"{self.rmse / self.spread:.2g} of the spread (at most {self.share:.2g}){within}; "
            f"largest seen {self.largest:.3g}"
        )


@dataclass(frozen=True)
class Certificate:
    """The error of each output, from ``n_checks`` check runs after ``n_runs`` runs; ``look`` counts from one.

    ``independent`` says whether the check runs were drawn for this purpose. If not, they were held out of a design, or
    of a table whose rows are taken as typical of the domain.

    Examples
    --------
    >>> errors = np.array([[0.1], [-0.2], [0.1], [0.05]])
    >>> others = np.array([[0.3], [0.09]])
    >>> found = certify(errors, np.ones(4), others, np.ones(1), ["y"], n_runs=20, look=1, independent=True)
    >>> found.reached(0.01), found.n_checks
    (False, 4)
    """

    outputs: tuple[OutputError, ...]
    n_checks: int
    n_runs: int
    look: int
    independent: bool
    least_density: float = 1.0

    def reached(self, tolerance: float, *, absolute: bool = False) -> bool:
        """Whether every output's RMSE is at most ``tolerance``, a share of its spread or in its own units."""
        return self.worst(absolute=absolute) <= tolerance

    def worst(self, *, absolute: bool = False) -> float:
        """The largest bound of all outputs."""
        return max(one.bound if absolute else one.share for one in self.outputs)

    @property
    def share_unseen(self) -> float:
        """The part of the domain that can, at 95 %, have errors larger than all check runs."""
        return min(1.0, float(1 - ALPHA ** (1 / self.n_checks)) / self.least_density) if self.n_checks else 1.0

    def _repr_html_(self) -> str:
        first, *lines = str(self).split("\n")
        figures = {"runs": self.n_runs, "check runs": self.n_checks}
        return card("Certificate", f"{first}: {'; '.join(line.strip() for line in lines)}.", figures)

    def __str__(self) -> str:
        kind = "independent check runs" if self.independent else "runs held out, taken as typical of the domain"
        lines = [f"error over the domain from {self.n_checks} {kind}, of {self.n_runs} runs"]
        lines += [f"  {one}" for one in self.outputs]
        lines.append(f"  at most {100 * self.share_unseen:.2g} % of the domain has larger errors than these check runs")
        return "\n".join(lines)


def certify(
    errors: FloatArray,
    weights: FloatArray,
    others: FloatArray,
    spread: FloatArray,
    names: Sequence[str],
    *,
    n_runs: int,
    look: int,
    independent: bool,
) -> Certificate:
    """The certificate of errors at check runs; ``others``: largest error of other runs, and largest weighted square."""
    level, found, m = ALPHA / (look * (look + 1)), [], len(errors)
    least = 1.0 if (weights == 1).all() else _EVEN
    # Fewest order statistics below which 95 % of the domain lies, with 95 % confidence.
    place = int(binom.ppf(1 - ALPHA, m, 1 - (1 - _PERCENTILE) * least)) + 1
    for column, other, limit, deviation, name in zip(errors.T, *others, spread.tolist(), names, strict=True):
        sizes = np.sort(np.abs(column))
        squares = np.sort(weights * column**2)
        limit = max(float(squares[-1]), limit)
        found.append(
            OutputError(
                name=name,
                rmse=float(np.sqrt(squares.mean())),
                low=mean_bound(squares, 0.0, _SHOWN, upper=False) ** 0.5,
                high=mean_bound(squares, limit, _SHOWN) ** 0.5,
                bound=mean_bound(squares, limit, level) ** 0.5,
                percentile=float(sizes[place - 1]) if place <= m else None,
                largest=max(float(sizes[-1]), other),
                spread=deviation,
            )
        )
    return Certificate(tuple(found), len(errors), n_runs, look, independent, least)


def mean_bound(values: FloatArray, limit: float, alpha: float, *, upper: bool = True) -> float:
    """A bound on the mean of independent draws of numbers from 0 on, at most ``limit``; wrong with probability α."""
    draws = np.random.default_rng(0).standard_exponential((_DRAWS, len(values) + 1))
    draws /= draws.sum(axis=1, keepdims=True)
    means = draws @ np.append(values, limit)
    return float(np.quantile(means, 1 - alpha if upper else alpha))


def interval_factor(ratios: FloatArray, weights: FloatArray, confidence: float) -> float:
    """q: the conformal quantile of |e| / s at check runs, by weight."""
    order = np.argsort(ratios)
    # A new point counts as much as a check run on average.
    reached = np.cumsum(weights[order]) >= confidence * (weights.sum() + 1) - 1e-9
    if not reached.any():
        needed = int(np.ceil(confidence / (1 - confidence)))
        raise InputError(
            f"confidence={confidence:g} needs at least {needed} check runs, the surrogate has {weights.sum():.3g} by "
            "their weights; make more runs or lower confidence"
        )
    return float(ratios[order][np.argmax(reached)])
