"""Predictions of an estimator for samples it has not seen, as the measures that ask a model need them.

The samples are dealt into five parts; each part is predicted by a fit on the other four, with equal
weights or the caller's own. An error on samples a model was fitted to would flatter it: a model that
memorises its labels has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from steep._validation import FloatArray
from steep.labels import Labels
from steep.weighting.wrapping import fit_weighted

_N_PARTS = 5


def cross_fitted(
    estimator: Any,
    X: Any,
    y: Any,
    labels: Labels,
    *,
    sample_weight: FloatArray | None = None,
    params: Mapping[str, Any] | None = None,
) -> FloatArray:
    """Predict every sample by a fit that has not seen it.

    Parameters
    ----------
    estimator : estimator
        Cloned for every fit; classifiers without ``predict_proba`` count as certain of what they predict.
    X, y : array-like
        Samples and labels as the estimator wants them.
    labels : Labels
        The same labels as the measures read them.
    sample_weight : ndarray of shape (n_samples,), optional
        The caller's own weights.
    params : mapping, optional
        Further arguments of the estimator's ``fit``.

    Returns
    -------
    ndarray of shape (n_samples, n_columns)
        A probability per class, or the predicted values.
    """
    own = np.ones(len(labels)) if sample_weight is None else sample_weight
    part = deal(labels, _N_PARTS)
    predicted: FloatArray | None = None
    for number in range(part.max() + 1):
        kept, asked = np.flatnonzero(part != number), np.flatnonzero(part == number)
        answer = _answers(estimator, X, y, labels, kept, asked, own, dict(params or {}))
        if predicted is None:
            predicted = np.empty((len(labels), answer.shape[1]))
        predicted[asked] = answer
    assert predicted is not None
    return predicted


def deal(labels: Labels, n_parts: int) -> npt.NDArray[np.intp]:
    """Deal the samples into parts like cards, class by class, always in the same way for the same data."""
    order = np.random.default_rng(0).permutation(len(labels))
    if labels.codes is not None:
        order = order[np.argsort(labels.codes[order], kind="stable")]
    part = np.empty(len(labels), dtype=np.intp)
    part[order] = np.arange(len(labels)) % n_parts
    return part


def _answers(
    estimator: Any,
    X: Any,
    y: Any,
    labels: Labels,
    kept: npt.NDArray[np.intp],
    asked: npt.NDArray[np.intp],
    own: FloatArray,
    params: dict[str, Any],
) -> FloatArray:
    """Predictions for the samples ``asked`` of a fit to the samples ``kept``."""
    if labels.codes is not None:
        columns = np.eye(int(labels.codes.max()) + 1)
        if len(seen := np.unique(labels.codes[kept])) == 1:
            # No classifier can be fitted to one class, and none is needed.
            return np.tile(columns[seen[0]], (len(asked), 1))
    model = fit_weighted(
        clone(estimator), _safe_indexing(X, kept), _safe_indexing(y, kept), own[kept], params
    )
    inputs = _safe_indexing(X, asked)
    if labels.codes is None:
        return np.asarray(model.predict(inputs), dtype=np.float64).reshape(len(asked), -1)
    classes = np.unique(np.asarray(y))
    if not hasattr(model, "predict_proba"):
        return columns[np.searchsorted(classes, np.asarray(model.predict(inputs)).ravel())]
    probability = np.zeros((len(asked), len(classes)))
    probability[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(inputs)
    return probability
