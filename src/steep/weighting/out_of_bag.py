"""Predictions of a forest for samples its trees have not seen, without fitting it again for every part.

Each tree is fitted to samples drawn with replacement; a sample is predicted by the trees that have not drawn it.
One forest of 500 trees costs what five cross-fitted ones of 100 do, its trees see more of the data, and each
sample is predicted by nearly twice as many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from steep._validation import FloatArray
from steep.labels import Labels

# Trees for up to so many samples. Large data need fewer: most trees have not drawn a sample there.
_TREES = ((5_000, 500), (100_000, 200))
_FEWEST_TREES = 50
_DRAWN_BY_A_TREE = 10_000

# Of the features, the share each split of a regression looks at; for classes scikit-learn's √d.
_FEATURES_OF_NUMBERS = 0.5

# In a forest that is fitted anew for every part.
_TREES_OF_A_PART = 100


def forest(labels: Labels, seed: int, n_jobs: int | None = None, **settings: Any) -> Any:
    """A random forest for these labels, that is cheap enough for their number."""
    settings = {"n_estimators": _TREES_OF_A_PART, "random_state": seed, "n_jobs": n_jobs} | settings
    if len(labels) > _DRAWN_BY_A_TREE:
        settings["max_samples"] = _DRAWN_BY_A_TREE
    if labels.codes is None:
        return RandomForestRegressor(max_features=_FEATURES_OF_NUMBERS, **settings)
    return RandomForestClassifier(**settings)


def out_of_bag(points: FloatArray, labels: Labels, seed: int, n_jobs: int | None = None) -> FloatArray:
    """Probability of every class, or the value, as the trees that have not drawn a sample predict it."""
    n_trees = next((trees for most, trees in _TREES if len(labels) <= most), _FEWEST_TREES)
    model = forest(labels, seed, n_jobs, n_estimators=n_trees, oob_score=True)
    if labels.codes is None:
        return np.asarray(model.fit(points, labels.array[:, 0]).oob_prediction_)
    model.fit(points, labels.codes)
    predicted = np.zeros((len(labels), labels.n_columns))
    predicted[:, model.classes_] = model.oob_decision_function_
    return predicted
