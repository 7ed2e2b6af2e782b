"""How far a design concentrates, decided by the runs it has: as far as held-out errors say that it pays.

A design is made of even runs (a Sobol sequence) and of placed ones (where the function varies). What were the placed
runs worth? Hold out a quarter of all runs; train on the other even runs, and on as many of which some are placed;
compare the errors on what was held out. Each held-out run counts as much as the part of the domain nearest to it: so
the error is one over the domain, and includes a peak that few even runs hit.

    gain = (e(even) − e(mixed)) / mean e(even)      in each split; e the RMSE or the largest error; two quick surrogates

Three answers, by the rule of :mod:`steep.evidence`:

    placed runs pay       RMSE and largest error together: the next runs follow the variation as far as is allowed
    placed runs cost      RMSE, with either surrogate, from five inputs on with both: the next runs are even
    not clear             in part

With three and more inputs some runs are placed and the others continue the Sobol sequence: without placed runs the
design *is* Sobol's. With one and two a Sobol sequence that ignores the placed runs leaves gaps; there all runs fill one
density, part of it even, and a part of the runs drawn as they lie is compared with one drawn evenly over the domain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steep._blas import one_blas_thread
from steep._validation import FloatArray, IntArray
from steep.evidence import weigh_evidence
from steep.measures.surprise import standardised
from steep.neighbors.query import nearest
from steep.sampling.process import KERNELS, fit
from steep.sampling.strategies import MANY_INPUTS

# How far the next runs follow the variation. Some are always even: without them the error is not known over the domain.
MOST, HALF, NONE = 0.75, 0.5, 0.0
# Up to this many inputs even points are filled in around the placed ones; and floors of the density filled.
_FILLED = 2
_FLOORS = {MOST: 0.5, HALF: 0.75, NONE: 1.0}
# Of these a quarter is of the Sobol sequence, once there are this many runs that the error can be estimated.
_SEQUEL, _ENOUGH = 0.25, 24
# Fewest even and placed runs that can be compared; most that are, to stay quick.
_FEWEST_EVEN, _FEWEST_PLACED, _MOST = 12, 5, 128
_FOLDS, _REPEATS = 4, 2
# Points that the domain is measured by.
DOMAIN = 1024
# A kind of surrogate that loses this share of its error vetoes concentration.
_VETO = 0.03
_CONFIDENCE = 0.8


@dataclass(frozen=True)
class Hedge:
    """How the last round divided its runs, and why.

    ``share`` is how far the next runs follow the variation: 0.75, 0.5 or 0; ``gains`` is for each quick surrogate the
    RMSE over the domain with placed runs over that without, empty where too few runs can be compared.

    Examples
    --------
    >>> from steep import design
    >>> plan = design(lambda X: np.tanh(9 * X[:, 0]), [(-1, 1)], 16, random_state=0)
    >>> plan.hedge.share
    0.5
    """

    share: float
    sentence: str
    gains: dict[str, float]

    def __str__(self) -> str:
        return self.sentence


@one_blas_thread()
def choose_share(
    points: FloatArray, labels: FloatArray, is_even: npt.NDArray[np.bool_], domain: FloatArray,
    generator: np.random.Generator,
) -> Hedge:  # fmt: skip
    """Decide how many of the next runs are placed, from those so far and points spread evenly over the ``domain``."""
    even = _some(np.flatnonzero(is_even), generator)
    placed = _some(np.flatnonzero(~is_even), generator)
    values = standardised(labels)
    if len(even) > 1:  # in deviations over the domain: an extreme label that was sought out does not shrink the rest
        deviation = values[even].std(axis=0)
        values = (values - values[even].mean(axis=0)) / np.where(deviation > 1e-12, deviation, 1.0)
    if len(even) < _FEWEST_EVEN or len(placed) < _FEWEST_PLACED:
        return Hedge(
            HALF,
            f"The next runs follow the variation in part: {len(even)} even and {len(placed)} placed runs are too few "
            f"to compare (need {_FEWEST_EVEN} and {_FEWEST_PLACED}).",
            {},
        )
    rows = np.concatenate([even, placed])
    gains = _gains(points[rows], values[rows], len(even), domain, generator)
    return _decided(gains, len(rows), generator, many_inputs=points.shape[1] >= MANY_INPUTS)


def split(n: int, share: float, *, number: int, n_coordinates: int, n_runs: int) -> tuple[int, float | None]:
    """How many of ``n`` runs of plan ``number``, after ``n_runs``, are even; and the floor if it changes."""
    if n_coordinates > _FILLED:
        doubts = n_coordinates >= MANY_INPUTS and number % 2 == 0
        return n - _rounded(n * share, number), _FLOORS[MOST] if doubts else None
    return n - _rounded(n * (1 - _SEQUEL), number) if n_runs >= _ENOUGH else 0, _FLOORS[share]


def _rounded(count: float, number: int) -> int:
    """A whole number that is right on the mean over many plans: multiples of the golden ratio are spread evenly."""
    return int(count + (0.6180339887498949 * number) % 1.0)


def _some(rows: IntArray, generator: np.random.Generator) -> IntArray:
    return rows if len(rows) <= _MOST else np.sort(generator.choice(rows, _MOST, replace=False))


def _gains(
    points: FloatArray, values: FloatArray, n_even: int, domain: FloatArray, generator: np.random.Generator
) -> FloatArray:
    """Share of RMSE and largest error of the first, even runs that mixed ones spare, ``(2, n_kinds, n_splits)``."""
    cells = np.bincount(nearest(points, domain)[1][:, 0], minlength=len(points)).astype(float)
    rows, alone, mixed = np.arange(len(points)), [], []
    for _ in range(_REPEATS):
        # Each fold holds its part of the even runs, and of the placed ones.
        fold = np.concatenate([generator.permutation(np.arange(n) % _FOLDS) for n in (n_even, len(points) - n_even)])
        for i in range(_FOLDS):
            held, train = rows[(fold == i) & (cells > 0)], rows[fold != i]
            if points.shape[1] <= _FILLED:
                even, other = _thinned(train, cells[train], generator)
            else:
                even, other = _exchanged(train, n_even, generator)
            weights = cells[held] / cells[held].sum()
            alone.append([_error(kind, points, values, even, held, weights) for kind in KERNELS])
            mixed.append([_error(kind, points, values, other, held, weights) for kind in KERNELS])
    before = np.array(alone).T
    return np.asarray((before - np.array(mixed).T) / before.mean(axis=2, keepdims=True))


def _exchanged(rows: IntArray, n_even: int, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Even runs, and as many of which up to half are placed instead."""
    even = generator.permutation(rows[rows < n_even])
    placed = generator.permutation(rows[rows >= n_even])
    n_placed = min(len(placed), len(even) // 2)
    return even, np.concatenate([even[n_placed:], placed[:n_placed]])


def _thinned(rows: IntArray, cells: FloatArray, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Half of the runs drawn evenly over the domain, and half drawn as they lie, with the same luck."""
    size, luck = len(rows) // 2, generator.exponential(size=len(rows))
    # The smallest of exponential times at the rates wanted: a draw without replacement (Efraimidis and Spirakis).
    evenly = np.argsort(luck / np.maximum(cells, 1e-3), kind="stable")[:size]
    return rows[evenly], rows[np.argsort(luck, kind="stable")[:size]]


def _error(
    kind: str, points: FloatArray, values: FloatArray, rows: IntArray, held: IntArray, weights: FloatArray
) -> tuple[float, float]:
    """RMSE and largest error on the held-out runs, a little above zero even where there is none."""
    squares = ((fit(kind, points[rows], values[rows]).predict(points[held]) - values[held]) ** 2).mean(axis=1)
    return float(np.sqrt(weights @ squares + 1e-10)), float(np.sqrt(squares.max() + 1e-10))


def _decided(gains: FloatArray, n_runs: int, generator: np.random.Generator, *, many_inputs: bool) -> Hedge:
    """The answer; with many inputs both kinds of surrogate must lose for even runs, and half are placed at most."""
    factors = {kind: float(1 - gain) for kind, gain in zip(KERNELS, gains[0].mean(axis=1), strict=True)}
    ratio = 1 / (_FOLDS - 1)
    both = gains.mean(axis=(0, 1))
    # Signs are drawn: flipped in every way the few folds make designs concentrate less.
    pays = weigh_evidence(both[None], ratio, _CONFIDENCE, generator, every_sign=False).chosen is not None
    counts = weigh_evidence(-gains[0], ratio, _CONFIDENCE, generator, every_sign=False).counts
    costs = counts.all() if many_inputs else counts.any()
    worst = max(factors, key=lambda kind: factors[kind])
    rmse, largest = 1 - gains.mean(axis=(1, 2))
    told = (
        f"in cross-validation on {n_runs} runs, surrogates that also use placed runs have {rmse:.2f} times the RMSE of "
        f"surrogates of as many even runs (worst: {worst}, {factors[worst]:.2f}) and {largest:.2f} times their largest "
        "error"
    )
    if costs and (min if many_inputs else max)(factors.values()) > 1 + _VETO:
        return Hedge(NONE, f"The next runs are spread evenly: {told}.", factors)
    if pays and factors[worst] <= 1 + _VETO:
        share = HALF if many_inputs else MOST
        return Hedge(share, f"The next runs follow the variation: {told}.", factors)
    return Hedge(HALF, f"The next runs follow the variation in part: {told}, which is not decisive.", factors)
