"""Predictions of an estimator for samples it has not seen, as the measures that ask a model need them.

The samples are dealt into five parts; each part is predicted by a fit on the other four, with equal
weights or the caller's own. An error on samples a model was fitted to would flatter it: a model that
memorises its labels has none. Samples of one group go to the same part, so that none is predicted by a fit
that saw its group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone

from steep._sklearn import take_rows
from steep._validation import FloatArray, IntArray, Seed, check_generator
from steep.exceptions import InputError
from steep.labels import Labels, one_hot
from steep.weighting.wrapping import accepts_sample_weight, fit_weighted, params_of_rows

N_PARTS = 5


def cross_fitted(
    estimator: Any,
    X: Any,
    y: Any,
    labels: Labels,
    *,
    sample_weight: FloatArray | None = None,
    groups: IntArray | None = None,
    params: Mapping[str, Any] | None = None,
    part: npt.NDArray[np.intp] | None = None,
    n_jobs: int | None = None,
) -> FloatArray:
    """Predict every sample by a fit that has not seen it, nor its group: a probability per class, or values.

    Classifiers without ``predict_proba`` count as certain of what they predict. Samples of one ``part`` are predicted
    together; default five parts, dealt class by class or group by group. ``params`` are arguments of ``fit``.
    """
    own = sample_weight
    if own is None and accepts_sample_weight(estimator):
        own = np.ones(len(labels))
    part = deal(labels, N_PARTS, groups) if part is None else part
    turns = [(np.flatnonzero(part != number), np.flatnonzero(part == number)) for number in np.unique(part)]
    arguments = [(estimator, X, y, labels, kept, asked, own, params or {}) for kept, asked in turns]
    if effective_n_jobs(n_jobs) == 1:
        answers = [_answers(*given) for given in arguments]
    else:
        answers = Parallel(n_jobs=n_jobs)(delayed(_answers)(*given) for given in arguments)
    predicted = np.empty((len(labels), answers[0].shape[1]))
    for (_, asked), answer in zip(turns, answers, strict=True):
        predicted[asked] = answer
    return predicted


def deal(labels: Labels, n_parts: int, groups: IntArray | None = None, random_state: Seed = 0) -> npt.NDArray[np.intp]:
    """Deal the samples into parts like cards, class by class, always in the same way for the same data and seed.

    With ``groups`` whole groups are dealt, the largest first, each to the part that is smallest so far.
    """
    rng = check_generator(random_state)
    if groups is not None:
        return _deal_groups(groups, n_parts, rng)
    order = rng.permutation(len(labels))
    if labels.codes is not None:
        order = order[np.argsort(labels.codes[order], kind="stable")]
    part = np.empty(len(labels), dtype=np.intp)
    part[order] = np.arange(len(labels)) % n_parts
    return part


def _deal_groups(groups: IntArray, n_parts: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    _, codes = np.unique(groups, return_inverse=True)
    sizes = np.bincount(codes)
    if len(sizes) < 2:
        raise InputError(
            "groups holds 1 group; expected at least 2, so that each group can be predicted from the others; "
            "pass finer groups or none"
        )
    filled, part_of = np.zeros(n_parts, dtype=np.intp), np.empty(len(sizes), dtype=np.intp)
    order = rng.permutation(len(sizes))
    for group in order[np.argsort(-sizes[order], kind="stable")]:
        part_of[group] = filled.argmin()
        filled[part_of[group]] += sizes[group]
    parts: npt.NDArray[np.intp] = part_of[codes]
    return parts


def _answers(
    estimator: Any,
    X: Any,
    y: Any,
    labels: Labels,
    kept: npt.NDArray[np.intp],
    asked: npt.NDArray[np.intp],
    own: FloatArray | None,
    params: Mapping[str, Any],
) -> FloatArray:
    """Predictions for the samples ``asked`` of a fit to the samples ``kept``."""
    if labels.codes is not None and len(seen := np.unique(labels.codes[kept])) == 1:
        # No classifier can be fitted to one class, and none is needed.
        return np.tile(np.eye(labels.n_columns)[seen[0]], (len(asked), 1))
    extra = params_of_rows(params, kept, len(labels))
    data = take_rows(X, kept), take_rows(y, kept)
    if own is None:
        model = clone(estimator).fit(*data, **extra)
    else:
        model = fit_weighted(clone(estimator), *data, own[kept], extra)
    inputs = take_rows(X, asked)
    if labels.codes is None or labels.classes is None:
        return np.asarray(model.predict(inputs), dtype=np.float64).reshape(len(asked), -1)
    if not hasattr(model, "predict_proba"):
        codes = np.searchsorted(labels.classes, np.asarray(model.predict(inputs)).ravel())
        return one_hot(Labels(codes=codes.astype(np.int32), classes=labels.classes))
    probability = np.zeros((len(asked), labels.n_columns))
    probability[:, np.searchsorted(labels.classes, model.classes_)] = model.predict_proba(inputs)
    return probability
