"""What speaks against a number: its neighbours, and models that have not seen it, fitted twice.

With S the k nearest neighbours of x_i without x_i itself, ỹ the labels as given, m_i their median over S, p^1 and p^2
the cross-fitted predictions of a random forest and of boosted trees (or p^1 alone, those of one model), and the
weights v and w that fit the labels best in the mean absolute error:

    p    = (1 − v) p^1 + v p^2
    e_i  = min(|ỹ_i − p_i|, |ỹ_i − (1 − w) p_i − w m_i|)              either may speak for the label
    u_i  = 0.3 mean_{j∈S} e_j + 0.7 median_l mean_{j∈S(l)} e_j        what is usual there
    r_i  = e_i / (u_i + s_i/2),                                       s_i the standard deviation of p^1, p^2 and m

The models are then fitted again without the twentieth of the samples whose r is largest, m leaves them out too, and
the root of the product of both r is the margin. All figures were settled on development tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from scipy.sparse import csr_matrix
from sklearn.base import clone

from steep._sklearn import take_rows
from steep._suspects.score import Suspicion, best_weight, count_votes, wrong_numbers
from steep._validation import FloatArray, IntArray

_LOCAL_SHARE, _DOUBT = 0.3, 0.5
# Left out of the second fit; samples above which there is none; and the most samples of one fit.
_LEFT_OUT, _MANY, _MOST_FITTED = 0.05, 200_000, 100_000


@dataclass(frozen=True)
class Fits:
    """Models, the samples and labels they are fitted to, in units of ``unit``, and the part of each sample."""

    models: list[Any]
    X: Any
    y: Any
    part: npt.NDArray[np.intp]
    n_jobs: int | None
    unit: float = 1.0

    def predict(self, kept: npt.NDArray[np.bool_]) -> FloatArray:
        """A column for each model: every sample as predicted by a fit to ``kept`` samples of the other parts."""
        turns = [(model, number) for model in self.models for number in np.unique(self.part)]
        answers = Parallel(n_jobs=self.n_jobs)(delayed(self._answers)(*turn, kept) for turn in turns)
        predicted = np.empty((len(self.part), len(self.models)))
        for place, ((_, number), answer) in enumerate(zip(turns, answers, strict=True)):
            predicted[self.part == number, place * len(self.models) // len(turns)] = answer
        return predicted * self.unit

    def _answers(self, model: Any, number: int, kept: npt.NDArray[np.bool_]) -> FloatArray:
        rows = np.flatnonzero((self.part != number) & kept)
        if len(rows) > _MOST_FITTED:
            rows = np.random.default_rng(0).choice(rows, _MOST_FITTED, replace=False)
        fitted = clone(model).fit(take_rows(self.X, rows), take_rows(self.y, rows))
        return np.ravel(fitted.predict(take_rows(self.X, np.flatnonzero(self.part == number))))


def suspect_numbers(values: FloatArray, predicted: FloatArray, asked: csr_matrix, fits: Fits | None) -> Suspicion:
    """r, the number expected and w; without ``fits`` the predictions, a column per model, are all there is."""
    kept = np.ones(len(values), dtype=bool)
    margin, expected, share = _judged(values, predicted, asked, kept)
    if fits is not None and len(values) <= _MANY:
        kept[np.argsort(-margin, kind="stable")[: int(_LEFT_OUT * len(values))]] = False
        again, expected, share = _judged(values, fits.predict(kept), asked, kept)
        margin = np.sqrt(margin * again)
    return Suspicion(margin, expected, share, wrong_numbers(margin))


def blend(values: FloatArray, predicted: FloatArray) -> FloatArray:
    """p, from a column for each of one or two models."""
    first, last = predicted[:, 0], predicted[:, -1]
    if predicted.shape[1] == 1:
        return first
    weight = best_weight(lambda w: float(np.abs(values - (1 - w) * first - w * last).mean()))
    return np.asarray((1 - weight) * first + weight * last)


def _judged(
    values: FloatArray, predicted: FloatArray, asked: csr_matrix, kept: npt.NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray, float]:
    """r, the number expected and w of one round of fits."""
    by_models = blend(values, predicted)
    around = _medians(values, by_models, asked, kept)
    share = best_weight(lambda w: float(np.abs(values - (1 - w) * by_models - w * around).mean()))
    expected = (1 - share) * by_models + share * around
    error = np.minimum(np.abs(values - by_models), np.abs(values - expected))
    local = count_votes(asked, error[:, None])[:, 0]
    usual = _LOCAL_SHARE * local + (1 - _LOCAL_SHARE) * float(np.median(local))
    usual += _DOUBT * np.column_stack([predicted, around]).std(axis=1)
    usual += np.finfo(np.float64).tiny + 1e-9 * float(np.abs(values).max())
    return np.asarray(error / usual), expected, share


def _medians(values: FloatArray, predicted: FloatArray, asked: csr_matrix, kept: npt.NDArray[np.bool_]) -> FloatArray:
    """m: medians over the kept neighbours that are asked; the prediction where none is."""
    k = asked.nnz // len(values)
    around: IntArray = asked.indices.reshape(-1, k)
    silent = (asked.data.reshape(-1, k) == 0) | ~kept[around]
    if not silent.any():
        return np.asarray(np.median(values[around], axis=1))
    found = np.where(silent, np.nan, values[around])
    alone = silent.all(axis=1)
    found[alone] = predicted[alone, None]
    return np.asarray(np.nanmedian(found, axis=1))
