"""How far a design concentrates, decided by the runs it has: as far as held-out errors say that it pays.

A design is made of even runs (a Sobol sequence) and of placed ones (where the function varies). At any moment it can be
asked what the placed runs were worth: hold out some even runs, which stand for the domain; train on m of the other even
runs; train on as many again, of which some are placed; compare the errors on what was held out.

    gain = log RMSE(even) − log RMSE(mixed)         mean over splits; quick surrogates of three kinds

Three answers, by the house's rule of evidence (:mod:`steep.evidence`):

    placed runs pay       most of the next runs are placed
    placed runs cost      with any kind of surrogate: all of the next runs are even, as Sobol's are
    it cannot be told     half and half
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, IntArray
from steep.evidence import weigh_evidence
from steep.measures.surprise import standardised
from steep.sampling.quick import KERNELS, fit

# Shares of the next runs that are placed. Some are always even: without them nobody knows the error over the domain.
MOST, HALF, NONE = 0.75, 0.5, 0.0
# Fewest even and placed runs that can be compared; most that are, to stay quick.
_FEWEST_EVEN, _FEWEST_PLACED, _MOST = 12, 5, 128
_FOLDS, _REPEATS = 4, 2
# A kind of surrogate that loses this share of its error vetoes concentration.
_VETO = 0.03
_CONFIDENCE = 0.8


@dataclass(frozen=True)
class Hedge:
    """What was decided, and why.

    Attributes
    ----------
    share : float
        Share of the next runs that are placed by variation; the rest is even.
    sentence : str
        Why, in plain words.
    gains : dict of str to float
        By kind of quick surrogate: by which factor placed runs change the root mean square error over the domain, below
        one is better; empty where it could not be told yet.
    noise : float
        Share of the labels' variance that is noise; 0 where none was found.
    """

    share: float
    sentence: str
    gains: dict[str, float]
    noise: float = 0.0

    def __str__(self) -> str:
        return self.sentence


def choose_share(
    points: FloatArray, labels: FloatArray, is_even: npt.NDArray[np.bool_], generator: np.random.Generator
) -> Hedge:
    """Decide how many of the next runs are placed.

    Parameters
    ----------
    points : ndarray of shape (n_samples, n_coordinates)
        Runs so far, in coordinates whose distances mean something.
    labels : ndarray of shape (n_samples, n_outputs)
        Their labels.
    is_even : ndarray of bool of shape (n_samples,)
        Which of them stand for the domain.
    generator : Generator
        Splits follow it.

    Examples
    --------
    >>> U = np.random.default_rng(0).random((60, 1))
    >>> choose_share(U, U, np.arange(60) < 10, np.random.default_rng(0)).share
    0.5
    """
    even = _some(np.flatnonzero(is_even), generator)
    placed = _some(np.flatnonzero(~is_even), generator)
    values = _scaled(labels, even) if len(even) > 1 else standardised(labels)
    if len(even) < _FEWEST_EVEN or len(placed) < _FEWEST_PLACED:
        return Hedge(
            HALF,
            f"Half of the next runs are placed: {len(even)} even and {len(placed)} placed runs are too few to compare "
            f"(need {_FEWEST_EVEN} and {_FEWEST_PLACED}).",
            {},
            noise_share(points[even], values[even], generator),
        )
    gains = _gains(points, values, even, placed, generator)
    return _decided(gains, len(even), noise_share(points[even], values[even], generator), generator)


def n_placed(n: int, share: float, number: int) -> int:
    """How many of the ``n`` runs of plan ``number`` are placed: ``share`` of them, over many plans of one run too.

    Examples
    --------
    >>> [n_placed(1, 0.5, number) for number in range(8)], n_placed(8, 0.0, 3)
    ([0, 1, 0, 1, 0, 1, 1, 0], 0)
    """
    # Multiples of the golden ratio are spread evenly however many there are.
    return int(share * n + (0.6180339887498949 * number) % 1.0)


def _some(rows: IntArray, generator: np.random.Generator) -> IntArray:
    return rows if len(rows) <= _MOST else np.sort(generator.choice(rows, _MOST, replace=False))


def _scaled(labels: FloatArray, even: IntArray) -> FloatArray:
    """Labels in deviations over the domain: an extreme one that was sought out does not shrink the rest."""
    values = standardised(labels)
    deviation = values[even].std(axis=0)
    scaled: FloatArray = (values - values[even].mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return scaled


def _gains(
    points: FloatArray, values: FloatArray, even: IntArray, placed: IntArray, generator: np.random.Generator
) -> FloatArray:
    """Log of the error of even runs over that of mixed ones, ``(n_kinds, n_splits)``; larger is better for mixing."""
    gains = []
    for _ in range(_REPEATS):
        fold = generator.permutation(np.arange(len(even)) % _FOLDS)
        for i in range(_FOLDS):
            held, rest = even[fold == i], generator.permutation(even[fold != i])
            n_placed = min(len(placed), len(rest) // 2)
            mixed = np.concatenate([rest[n_placed:], generator.choice(placed, n_placed, replace=False)])
            gains.append(
                [
                    _error(k, points, values, rest, held) - _error(k, points, values, mixed, held)
                    for k in KERNELS
                ]
            )
    return np.array(gains).T


def _error(kind: str, points: FloatArray, values: FloatArray, rows: IntArray, held: IntArray) -> float:
    """Log of the root mean square error on the held-out runs, a little above zero even where it is exact."""
    wrong = fit(kind, points[rows], values[rows]).predict(points[held]) - values[held]
    return 0.5 * float(np.log((wrong**2).mean() + 1e-10))


def _decided(gains: FloatArray, n_even: int, noise: float, generator: np.random.Generator) -> Hedge:
    factors = {kind: float(np.exp(-gain)) for kind, gain in zip(KERNELS, gains.mean(axis=1), strict=True)}
    ratio = 1 / (_FOLDS - 1)
    both = gains.mean(axis=0)
    pays = weigh_evidence(both[None], ratio, _CONFIDENCE, generator).chosen is not None
    costs = weigh_evidence(-gains, ratio, _CONFIDENCE, generator)
    worst = max(factors, key=lambda kind: factors[kind])
    told = (
        f"trained on runs half of which were placed, quick surrogates err {np.exp(-both.mean()):.2f} times as much on "
        f"{n_even} held-out even runs as trained on even runs alone (worst: {worst}, {factors[worst]:.2f})"
    )
    if costs.chosen is not None and factors[worst] > 1 + _VETO:
        return Hedge(NONE, f"All of the next runs are even, as Sobol's: {told}.", factors, noise)
    if pays and factors[worst] <= 1 + _VETO:
        return Hedge(MOST, f"Three quarters of the next runs are placed: {told}.", factors, noise)
    return Hedge(HALF, f"Half of the next runs are placed: {told}, which decides nothing.", factors, noise)


def noise_share(points: FloatArray, values: FloatArray, generator: np.random.Generator) -> float:
    """Share of the variance that is noise: a nugget that predicts left-out labels better than none, or 0.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> U = rng.random((80, 1))
    >>> clean = np.sin(6 * U)
    >>> noisy = noise_share(U, clean + 0.3 * rng.standard_normal((80, 1)), rng)
    >>> noise_share(U, clean, rng), 0.05 < noisy < 0.4
    (0.0, True)
    """
    if len(points) < _FEWEST_EVEN:
        return 0.0
    found = fit("rough", points, values)
    gain = (found.clean**2).mean(axis=1) - (found.errors**2).mean(axis=1)
    if not gain.any() or weigh_evidence(gain[None], 0.0, 0.95, generator).chosen is None:
        return 0.0
    # What is left out is predicted up to the noise, and a little worse.
    return float(min(1.0, (found.errors**2).mean()))
