"""Repeat or explore: runs made twice tell how much of the labels is noise, and whether more of them should be.

    s² = Σ_i Σ_a (y_ia − ȳ_i)² / (n_answers − n_points)       pure error, whatever the function does in between
    share = s² / var y                                        the part of the variance that is noise

Noise and a function that is not resolved yet look the same until a point is run again. A twentieth of the runs is,
eight at most; where the first two give the same answers, to the last digit, the function is exact and none is repeated
any more. Noise of a tenth of the output's deviation makes repeating cost error, noise as large as the output makes it
spare some (``docs/designs.md``). So where the share is above a fifth beyond doubt a design repeats even points.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from steep._validation import FloatArray, IntArray
from steep.sampling.evaluated import Evaluated
from steep.sampling.hedge import NONE, Hedge

# One run in so many is repeated to measure the noise, and so many at most; so many first.
_EVERY, _MOST, _FIRST = 20, 8, 2
# Share of the variance from which repeating pays, and how sure one must be of it.
_PAYS, _CONFIDENCE = 0.2, 0.8
# Part of the runs that are repeated where it pays.
_PART = 2 / 3


class Repeats:
    """Every answer of a design, and which point it belongs to.

    Parameters
    ----------
    seen : Evaluated
        The start, each point once.
    n_runs : int
        Runs of the whole design.

    Attributes
    ----------
    labels : ndarray of shape (n_answers, n_outputs)
        Answers, in the order of the runs.
    rows : ndarray of int of shape (n_answers,)
        The point of each.
    """

    def __init__(self, seen: Evaluated, n_runs: int) -> None:
        self.labels, self.rows = seen.labels, np.arange(len(seen.X))
        self.most = min(_MOST, n_runs // _EVERY)

    @property
    def times(self) -> IntArray:
        """How often each point was run."""
        return np.bincount(self.rows)

    @property
    def n_again(self) -> int:
        """Runs of points that were run before."""
        return len(self.rows) - int(self.rows.max()) - 1

    @property
    def is_exact(self) -> bool:
        """Whether points that were run again gave the same answers."""
        return self.n_again >= min(_FIRST, self.most) > 0 and not self._deviations().any()

    def joined(self, seen: Evaluated, new: Evaluated) -> Evaluated:
        """All points, with new ones."""
        self.rows = np.concatenate([self.rows, len(seen.X) + np.arange(len(new.X))])
        self.labels = np.vstack([self.labels, new.labels])
        return seen.joined(new)

    def answered(self, seen: Evaluated, X: FloatArray, labels: FloatArray) -> Evaluated:
        """All points, some of which were run again; each has the mean of its answers."""
        known = {x.tobytes(): row for row, x in enumerate(seen.X)}
        again = np.array([known[x.tobytes()] for x in X], dtype=int)
        self.rows, self.labels = np.concatenate([self.rows, again]), np.vstack([self.labels, labels])
        return replace(seen, labels=self._means())

    def wanted(self, size: int, is_even: npt.NDArray[np.bool_]) -> IntArray:
        """Which points to run again in a round of ``size`` runs: those run least, even ones first."""
        n = 0
        if self.n_again < self.most and not self.is_exact:
            n = min(self.most - self.n_again if self.n_again else _FIRST, self.most, size - 1)
        elif self.pays(is_even):
            n = int(_PART * size)
        return np.lexsort([~is_even, self.times])[: max(0, n)]

    def share(self, is_even: npt.NDArray[np.bool_]) -> tuple[float, float]:
        """Share of the variance that is noise, and what it is at least; zeros where no point was run again."""
        if not self.n_again:
            return 0.0, 0.0
        total = self.labels[first_of(self.rows)][is_even].var(axis=0)
        pure = (self._deviations() ** 2).sum(axis=0) / self.n_again
        share = min(1.0, float(np.mean(pure[total > 0] / total[total > 0]))) if total.any() else 0.0
        return share, share * self.n_again / float(chi2.ppf(_CONFIDENCE, self.n_again))

    def pays(self, is_even: npt.NDArray[np.bool_]) -> bool:
        """Whether there is so much noise that repeating beats exploring."""
        return 0 < self.most <= self.n_again and self.share(is_even)[1] > _PAYS

    def told(self, hedge: Hedge, is_even: npt.NDArray[np.bool_]) -> Hedge:
        """The hedge, with what repeated runs say about the noise."""
        if not self.n_again:
            return hedge
        if self.is_exact:
            why = f"{self.n_again} runs were repeated and gave the same answers: the function is exact."
            return replace(hedge, noise=0.0, sentence=f"{hedge.sentence} {why}")
        (share, low), pays = self.share(is_even), self.pays(is_even)
        why = (
            f"{self.n_again} runs were repeated: by them {100 * share:.2g} % of the variance is noise, at least "
            f"{100 * low:.2g} %, so"
        )
        if not pays:
            return replace(hedge, sentence=f"{hedge.sentence} {why} new points are run.")
        # Labels that are noise for more than a fifth lead nowhere.
        return replace(hedge, share=NONE, noise=share, sentence=f"{why} even points are run, and run again.")

    def _means(self) -> FloatArray:
        sums: FloatArray = np.zeros((len(self.times), self.labels.shape[1]))
        np.add.at(sums, self.rows, self.labels)
        return np.asarray(sums / self.times[:, None])

    def _deviations(self) -> FloatArray:
        """Of every answer from the mean of its point; nothing at all where all answers of a point are the same."""
        # A mean of equal numbers need not be that number.
        is_same = (self.labels == self.labels[first_of(self.rows)][self.rows]).all()
        return np.zeros_like(self.labels) if is_same else self.labels - self._means()[self.rows]


def first_of(rows: IntArray) -> npt.NDArray[np.bool_]:
    """Which answers are the first of their point; points are numbered in the order of their first answers.

    Examples
    --------
    >>> first_of(np.array([0, 1, 0, 2, 1])).tolist()
    [True, True, False, True, False]
    """
    is_first = np.zeros(len(rows), dtype=bool)
    is_first[np.unique(rows, return_index=True)[1]] = True
    return is_first
