"""Predictions the caller brings along: probabilities of classes, or numbers, for samples the model had not seen.

Nothing can prove that a model had not seen a label. What can be seen is a model that agrees with every label,
wrong ones included, where the neighbours do not: it was fitted to them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from steep._suspects.score import Opinions
from steep._validation import FloatArray, IntArray, check_points, check_vector
from steep.exceptions import InputError, warn_user
from steep.labels import Labels

# Rows of probabilities may miss a sum of 1 by so much: float16 rounds to three digits.
_ROUNDING, _SAME = 0.01, 1e-6
# Where the neighbours name the given label for this share of the samples, so may a model, for all of them.
_CLEAN = 0.98
# A model that agrees this often looks fitted to the labels where the neighbours agree less than that.
_TOO_GOOD, _FAR_FROM_CLEAN = 0.999, 0.9

_HELP = "use cross_val_predict(model, X, y, cv=5{method}), or pass estimator= and let suspects do it"
_HELP_CLASSES, _HELP_NUMBERS = _HELP.format(method=", method='predict_proba'"), _HELP.format(method="")


def own_predictions(labels: Labels, pred_probs: Any, predictions: Any) -> FloatArray | None:
    """User-supplied predictions in the form the rule wants, or None without any."""
    if labels.codes is not None:
        if predictions is not None:
            raise InputError("predictions goes with numbers, and y is read as classes; pass pred_probs=")
        return None if pred_probs is None else _probabilities(labels, pred_probs)
    if pred_probs is not None:
        raise InputError(
            "pred_probs goes with classes, and y is read as numbers; pass predictions=, or task='classification'"
        )
    if predictions is None:
        return None
    numbers = check_vector(predictions, name="predictions", n_samples=len(labels))
    if (numbers == labels.array[:, 0]).all():
        raise InputError(
            f"predictions are the labels of all {len(labels)} samples: they look in-sample; expected predictions of "
            f"models that have not seen the sample; {_HELP_NUMBERS}"
        )
    return numbers


def _probabilities(labels: Labels, pred_probs: Any) -> FloatArray:
    """Rows of probabilities, one column per class, that sum to 1; those that nearly do are not copied."""
    given = check_points(pred_probs, name="pred_probs")
    shape = len(labels), labels.n_columns
    if given.shape != shape:
        raise InputError(
            f"pred_probs has shape {given.shape}; expected {shape}, one row per sample and one column for each of the "
            f"{shape[1]} classes of y in sorted order"
        )
    sums, smallest = given.sum(axis=1), given.min(axis=1)
    off = np.where(smallest < 0, np.inf, np.abs(sums - 1))
    if off.max() > _ROUNDING:
        worst = int(off.argmax())
        raise InputError(
            f"pred_probs does not hold probabilities: row {worst} sums to {sums[worst]:.4g} and its smallest entry is "
            f"{smallest[worst]:.4g}; expected entries ≥ 0 that sum to 1 in each row; pass predict_proba, or a "
            "softmax of logits"
        )
    return given if off.max() <= _SAME else np.asarray(given / sums[:, None])


def refuse_in_sample(codes: IntArray, probabilities: FloatArray, asked: csr_matrix) -> None:
    """Reject probabilities that agree with every label where the neighbours do not, and warn where nearly so."""
    agreed = float(np.mean(probabilities.argmax(axis=1) == codes))
    if agreed < _TOO_GOOD:
        return
    opinions = Opinions(codes, probabilities, asked)
    says = np.concatenate([opinions.votes(part).argmax(axis=1) for part in opinions.rows()])
    by_neighbors = float(np.mean(says == codes))
    if agreed == 1 and by_neighbors < _CLEAN:
        raise InputError(
            f"pred_probs agrees with all {len(codes)} labels and the neighbours with {by_neighbors:.0%}: it looks "
            f"in-sample; expected probabilities of models that have not seen the sample; {_HELP_CLASSES}"
        )
    if by_neighbors < _FAR_FROM_CLEAN:
        warn_user(
            f"pred_probs agrees with {agreed:.2%} of the labels and the neighbours with {by_neighbors:.0%}: it may be "
            f"in-sample, and then hides wrong labels; {_HELP_CLASSES}"
        )
