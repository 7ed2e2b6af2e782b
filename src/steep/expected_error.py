"""A quick estimate of the error over the domain, from runs that were made anyway: for status lines and pictures.

Even runs (a Sobol sequence) stand for the domain. Each was predicted by the interpolant through the runs before it, and
so is a fair sample of the error at that time. The error falls with the runs; older samples are brought to the present:

    s_i = squared error of even run i, predicted from n_i runs
    E s = c n^(−β)                      β from the means over blocks of runs, in logarithms
    error² now = mean_i s_i (n_i / n)^β         over the even runs of the last half

The interval is that of a Bayesian bootstrap over the even runs, β included, and a little wider: the last runs fell into
the widest gaps, and the trend is a straight line only nearly. Nothing is decided by it: a stop needs a certificate
(:mod:`steep.surrogate.certificate`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.interpolate import RBFInterpolator

from steep._blas import one_blas_thread
from steep._validation import FloatArray
from steep.labels import deviations

# Points an interpolant is built from around each point it is judged at.
_NEIGHBORS = 50
# Results that are used at once where there are categories, at most.
_AT_ONCE = 500
# Above this many results not every one is judged.
_MOST_JUDGED = 3000

Predict = Callable[[FloatArray], FloatArray]
# Results predicted before there is an estimate, at least; and before the first block.
_FEWEST, _FIRST = 6, 10
# Each block begins with this many times the runs of the one before; the edges never move as runs are added.
_GROWTH = 1.15
# Even runs predicted in one block, at most.
_MOST_PER_BLOCK = 64
_N_DRAWS = 400
# The trend is believed between no gain and that of a very smooth function.
_STEEPEST = 6.0
# What the bootstrap cannot see, as a standard deviation of the logarithm of the error.
_UNSEEN = 0.12
# The trend is carried on to this many times the runs, and no further.
_FARTHEST = 10
# Estimates in a history, at most.
_HISTORY = 12


def interpolant(points: FloatArray, labels: FloatArray) -> Predict:
    """The interpolant through at least 2(n_coordinates + 1) results: ``predict(points)`` is ``(n, n_outputs)``."""
    unique = np.unique(points, axis=0, return_index=True)[1]
    known, values, k = points[unique], labels[unique], min(_NEIGHBORS, len(unique))
    low, high = values.min(axis=0), values.max(axis=0)
    varies = np.isfinite(deviations(values))
    basis = _independent(known)
    at_once = basis.shape[1] < known.shape[1]

    def linear(at: FloatArray) -> FloatArray:
        return np.asarray(RBFInterpolator(known, values, neighbors=k, kernel="linear", degree=0)(at))

    @one_blas_thread()
    def predict(at: FloatArray) -> FloatArray:
        if at_once and len(known) > _AT_ONCE:
            return linear(at)
        near = None if at_once else k
        try:
            cubic = RBFInterpolator(known @ basis, values, neighbors=near, kernel="cubic", degree=1, smoothing=1e-10)
            found = np.asarray(cubic(at @ basis))
        except np.linalg.LinAlgError:  # neighbours all in one plane, as within one category
            return linear(at)
        # Neighbours nearly in one plane raise nothing and predict anything: far outside what was seen.
        wild = ~((found >= 2 * low - high) & (found <= 2 * high - low))[:, varies].all(axis=1)
        if wild.any():
            found[wild] = linear(at[wild])
        return found

    return predict


@one_blas_thread()
def _independent(points: FloatArray) -> FloatArray:
    """Directions along which points spread, as columns: all axes, or fewer that keep every distance."""
    _, sizes, directions = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    kept = sizes > 1e-9 * max(float(sizes[0]), 1e-300)
    return np.eye(points.shape[1]) if kept.all() else np.asarray(directions[kept].T)


def cross_errors(points: FloatArray, labels: FloatArray, *, n_folds: int = 10) -> tuple[FloatArray, FloatArray]:
    """Results predicted from other folds, NaN where they are not, and their largest deviations, in deviations of y."""
    fold = np.arange(len(points)) % n_folds
    if len(points) > _MOST_JUDGED:  # some of them, evenly spread over the runs, from all others
        fold, n_folds = np.full(len(points), -1), 1
        fold[np.linspace(0, len(points) - 1, _MOST_JUDGED // 3).astype(int)] = 0
    predicted = np.full(labels.shape, np.nan)
    for i in range(n_folds):
        if (fold == i).any() and (fold != i).sum() >= fewest_points(points.shape[1]):
            predicted[fold == i] = interpolant(points[fold != i], labels[fold != i])(points[fold == i])
    return predicted, np.abs((predicted - labels) / deviations(labels)).max(axis=1)


def fewest_points(n_coordinates: int) -> int:
    """Results that an interpolant needs."""
    return 2 * (n_coordinates + 1)


class ErrorEstimate(float):
    """A root mean square error over the domain, in standard deviations of the output; a float with an interval.

    ``low`` and ``high`` are an interval at 90 %, ``n_runs`` the runs so far, ``n_judged`` the even runs the estimate
    rests on, ``rate`` r of error ∝ runs^(−r), and ``n_constant`` outputs that are constant up to rounding, left out.

    Examples
    --------
    >>> error = ErrorEstimate(0.2, low=0.1, high=0.3, n_runs=100, n_judged=40, rate=1.0)
    >>> error < 0.5, error.more_runs_for(0.1), error.more_runs_for_half
    (True, 100, 100)
    >>> print(error.sentence)
    error 0.2 (90 % interval 0.1 to 0.3) after 100 runs; halving it takes about 100 more runs
    """

    low: float
    high: float
    n_runs: int
    n_judged: int
    rate: float
    n_constant: int

    def __new__(
        cls, value: float, *, low: float, high: float, n_runs: int, n_judged: int, rate: float, n_constant: int = 0
    ) -> ErrorEstimate:
        """A float that remembers where it comes from."""
        made = super().__new__(cls, value)
        made.low, made.high, made.n_runs, made.n_judged, made.rate = low, high, n_runs, n_judged, rate
        made.n_constant = n_constant
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[float], dict[str, float]]:
        """For copies."""
        names = ("low", "high", "n_runs", "n_judged", "rate", "n_constant")
        return (float(self),), {name: getattr(self, name) for name in names}

    def more_runs_for(self, error: float) -> int | None:
        """Runs still to make for some error, by the trend.

        None where the error does not fall, and where the trend would have to hold for more than ten times the runs
        it was taken from.
        """
        if self <= error:
            return 0
        if not (self.rate > 0 and error > 0):
            return None
        # In logarithms: a small rate asks for more runs than a float holds.
        factor = np.log(float(self) / error) / self.rate
        return int(np.ceil(self.n_runs * np.expm1(factor))) if factor <= np.log(_FARTHEST) else None

    @property
    def more_runs_for_half(self) -> int | None:
        """Runs still to make for half the error, by the trend; see :meth:`more_runs_for`."""
        return self.more_runs_for(float(self) / 2) if float(self) > 0 else None

    @property
    def sentence(self) -> str:
        """The estimate in plain words."""
        if np.isnan(self):
            return f"{self.n_runs} runs are too few to tell the error"
        left_out = f"; {self.n_constant} constant output(s) left out" if self.n_constant else ""
        return f"error {self.interval} after {self.n_runs} runs; {self._trend}{left_out}"

    @property
    def interval(self) -> str:
        """The number and its interval, in plain words."""
        return f"{float(self):.3g} (90 % interval {self.low:.3g} to {self.high:.3g})"

    @property
    def _trend(self) -> str:
        more = self.more_runs_for_half
        if more is not None:
            return f"halving it takes about {more} more runs"
        if not self.rate > 0:
            return "it does not fall yet"
        return f"halving it takes more than {_FARTHEST} times as many runs"


def unknown_error(n_runs: int) -> ErrorEstimate:
    """The estimate of too few runs."""
    nan = float("nan")
    return ErrorEstimate(nan, low=nan, high=nan, n_runs=n_runs, n_judged=0, rate=nan)


@one_blas_thread()
def estimate_error(points: FloatArray, labels: FloatArray, is_even: npt.NDArray[np.bool_]) -> ErrorEstimate:
    """The error after the last of these runs, whose points are in coordinates in which distances are meant.

    ``is_even`` marks runs that stand for the domain; if they are too few, all are taken. The worst output counts, and
    outputs that are constant up to rounding do not; too few runs give NaN.
    """
    n, first = len(points), max(_FIRST, fewest_points(points.shape[1]))
    if int(is_even[first:].sum()) < _FEWEST:
        is_even = np.ones(n, dtype=bool)
    if n < first + _FEWEST:
        return unknown_error(n)
    starts, wrong = [], []
    for start, end in _edges(first, n):
        rows = start + np.flatnonzero(is_even[start:end])
        if len(rows) > _MOST_PER_BLOCK:
            rows = rows[np.linspace(0, len(rows) - 1, _MOST_PER_BLOCK).astype(int)]
        if len(rows):
            wrong.append(labels[rows] - interpolant(points[:start], labels[:start])(points[rows]))
            starts += [float(start)] * len(rows)
    scale, overall = deviations(labels[is_even]), deviations(labels)
    scale, at = np.where(np.isinf(scale), overall, scale), np.array(starts)
    squares = (np.vstack(wrong) / scale) ** 2
    worst = int(np.argmax(squares[at >= min(n / 2, at.max())].mean(axis=0)))
    return _estimate(at, squares[:, worst], n, int(np.isinf(scale).sum()))


def error_history(points: FloatArray, labels: FloatArray, is_even: npt.NDArray[np.bool_] | None) -> list[ErrorEstimate]:
    """The estimate at up to a dozen numbers of runs, the last of which is all; empty where there are too few.

    ``is_even`` is None where it is not known which runs stand for the domain; all are taken then.
    """
    n, least = len(points), max(_FIRST, fewest_points(points.shape[1])) + _FEWEST
    if n < least:
        return []
    even = np.ones(n, dtype=bool) if is_even is None else is_even
    sizes = np.unique(np.geomspace(least, n, _HISTORY).round().astype(int))
    return [estimate_error(points[:size], labels[:size], even[:size]) for size in sizes]


def _edges(first: int, n_samples: int) -> list[tuple[int, int]]:
    """Blocks from ``first`` on, the last one as far as there are runs."""
    edges = [first]
    while edges[-1] < n_samples:
        edges.append(max(edges[-1] + 1, round(edges[-1] * _GROWTH)))
    edges[-1] = n_samples
    return [(start, end) for start, end in pairwise(edges) if end > start]


def _estimate(starts: FloatArray, squares: FloatArray, n_samples: int, n_constant: int) -> ErrorEstimate:
    weights = np.vstack(
        [np.ones(len(squares)), np.random.default_rng(0).standard_exponential((_N_DRAWS, len(squares)))]
    )
    logs = np.log(starts / n_samples)
    beta = _trends(logs, squares, weights)
    recent = logs >= np.log(0.5)
    if recent.sum() < _FEWEST:
        recent = np.arange(len(logs)) >= len(logs) - _FEWEST
    brought = squares[recent] * np.exp(beta[:, None] * logs[recent])
    means = (weights[:, recent] * brought).sum(axis=1) / weights[:, recent].sum(axis=1)
    roots = 0.5 * np.log(means + 1e-30)
    # Few samples vary less than what they are drawn from.
    spread = roots[1:].std() * np.sqrt(1 + 4 / recent.sum())
    half = 1.645 * float(np.hypot(spread, _UNSEEN))
    value = float(np.exp(roots[0]))
    return ErrorEstimate(
        value, low=value * np.exp(-half), high=value * np.exp(half), n_runs=n_samples, n_judged=int(recent.sum()),
        rate=float(beta[0] / 2), n_constant=n_constant,
    )  # fmt: skip


def _trends(logs: FloatArray, squares: FloatArray, weights: FloatArray) -> FloatArray:
    """β for each set of weights: slope of the logarithm of the mean over log n, held to what is sensible."""
    # Blocks of a factor 1.4 of runs: each mean is of several errors, whose logarithms alone would scatter too much.
    block = np.floor(logs / np.log(1.4)).astype(int)
    names = np.unique(block)
    if len(names) < 2:
        return np.zeros(len(weights))
    masks = np.array([block == name for name in names], dtype=float)
    totals = weights @ masks.T
    values = np.log((weights * squares) @ masks.T / totals + 1e-30)
    at = masks @ logs / masks.sum(axis=1)
    counts = masks.sum(axis=1)
    centred = at - (counts * at).sum() / counts.sum()
    slopes = (values * (counts * centred)).sum(axis=1) / (counts * centred**2).sum()
    return np.asarray(np.clip(-slopes, 0.0, _STEEPEST))
