"""Predictions of a forest for samples its trees have not seen, without fitting it again for every part.

Each tree is fitted to samples drawn with replacement; a sample is predicted by the trees that have not drawn it.
One forest of 500 trees costs what five cross-fitted ones of 100 do, its trees see more of the data, and each
sample is predicted by nearly twice as many.

scikit-learn's trees keep a number for each class at each node, which fills the memory where there are hundreds of
classes. There each tree is grown on a sketch of the one-hot columns instead: their products with random signs, 16 of
them, keep the variance of the columns, and so the impurity of a node, on average (Joly, Geurts and Wehenkel, 2014). A
sample's vote is the classes of the samples in its leaf.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from scipy.sparse import coo_matrix, csr_matrix, diags
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from steep._validation import FloatArray
from steep.exceptions import InputError
from steep.labels import Labels

# Trees for up to this many samples. Large data need fewer: most trees have not drawn a sample there.
_TREES = ((5_000, 500), (100_000, 200))
_FEWEST_TREES = 50
_DRAWN_BY_A_TREE = 10_000

# Of the features, the share each split of a regression looks at; for classes scikit-learn's √d.
_FEATURES_OF_NUMBERS = 0.5

# In a forest that is fitted again for every part.
_TREES_OF_A_PART = 100

# Bytes that the nodes of a forest may take, and else columns of a sketch and trees grown at a time.
_NODES, _SKETCH, _AT_A_TIME = 2**30, 16, 10

# Trees hold features in float32, and scikit-learn looks at numbers as int64.
_LARGEST_FEATURE, _LARGEST_NUMBER = float(np.finfo(np.float32).max), 1e18


def forest(labels: Labels, seed: int, n_jobs: int | None = None, **settings: Any) -> Any:
    """A random forest for these labels, that is cheap enough for their number."""
    settings = {"n_estimators": _TREES_OF_A_PART, "random_state": seed, "n_jobs": n_jobs} | settings
    if len(labels) > _drawn(labels):
        settings["max_samples"] = _drawn(labels)
    if labels.codes is None:
        return RandomForestRegressor(max_features=_FEATURES_OF_NUMBERS, **settings)
    return RandomForestClassifier(**settings)


def default_models(labels: Labels, seed: int) -> tuple[list[Any], float]:
    """The models that predict numbers, and the unit in which scikit-learn can hold these."""
    boosted = HistGradientBoostingRegressor(early_stopping=False, random_state=seed)
    largest = float(np.abs(labels.array).max())
    return [forest(labels, seed), boosted], 2.0 ** max(0, int(np.frexp(largest / _LARGEST_NUMBER)[1]))


def check_features(points: FloatArray) -> None:
    """Reject features beyond what trees hold."""
    largest = float(np.abs(points).max())
    if largest > _LARGEST_FEATURE:
        raise InputError(
            f"X reaches {largest:.2g}; expected numbers up to {_LARGEST_FEATURE:.2g} for the default forest; scale the "
            "columns, leave embedding at 'auto', or pass an estimator"
        )


def out_of_bag(points: FloatArray, labels: Labels, seed: int, n_jobs: int | None = None) -> Any:
    """Probability of every class, as the trees that have not drawn a sample predict it.

    The probabilities are sparse where a tree is grown on a sketch of them.
    """
    n_trees = next((trees for most, trees in _TREES if len(labels) <= most), _FEWEST_TREES)
    if 16 * n_trees * _drawn(labels) * labels.n_columns > _NODES:
        return _by_sketch(points.astype(np.float32), labels, seed, n_trees, n_jobs)
    model = forest(labels, seed, n_jobs, n_estimators=n_trees, oob_score=True)
    model.fit(points, labels.codes)
    predicted = np.zeros((len(labels), labels.n_columns))
    predicted[:, model.classes_] = model.oob_decision_function_
    return predicted


def _drawn(labels: Labels) -> int:
    """Samples that a tree draws."""
    return min(len(labels), _DRAWN_BY_A_TREE)


def _by_sketch(
    points: npt.NDArray[np.float32], labels: Labels, seed: int, n_trees: int, n_jobs: int | None
) -> csr_matrix:
    """Probabilities of the classes by trees grown on sketches of them; few of each row are not 0."""
    shape = len(labels), labels.n_columns
    votes, n_asked = csr_matrix(shape, dtype=np.float32), np.zeros(len(labels))
    seeds = np.random.SeedSequence(seed).spawn(n_trees)
    with Parallel(n_jobs=n_jobs, prefer="threads") as team:
        for first in range(0, n_trees, _AT_A_TIME):
            some = team(delayed(_votes_of_tree)(points, labels, mine) for mine in seeds[first : first + _AT_A_TIME])
            rows, columns, shares = (np.concatenate(parts) for parts in zip(*some, strict=True))
            votes = votes + coo_matrix((shares, (rows, columns)), shape=shape).tocsr()
            n_asked += np.bincount(rows, shares, minlength=len(labels))
    return (diags(1.0 / np.maximum(n_asked, 1.0)).astype(np.float32) @ votes).tocsr()


def _votes_of_tree(
    points: npt.NDArray[np.float32], labels: Labels, seed: np.random.SeedSequence
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Samples that one tree has not drawn, classes of the leaves they fall into, and the share of each."""
    rng, n_samples = np.random.default_rng(seed), len(labels)
    codes: Any = labels.codes
    drawn = rng.integers(n_samples, size=_drawn(labels))
    signs = rng.choice(np.array([-1.0, 1.0]), size=(labels.n_columns, _SKETCH))
    tree = DecisionTreeRegressor(max_features="sqrt", random_state=int(rng.integers(2**31)))
    tree.fit(points[drawn], signs[codes[drawn]])
    shape = tree.tree_.node_count, labels.n_columns
    leaves = coo_matrix((np.ones(len(drawn), np.float32), (tree.apply(points[drawn]), codes[drawn])), shape)
    held = leaves.tocsr()
    held = (diags(1.0 / np.maximum(np.asarray(held.sum(axis=1)).ravel(), 1.0)) @ held).tocsr()
    others = np.setdiff1d(np.arange(n_samples, dtype=np.int32), drawn)
    said = held[tree.apply(points[others])].tocoo()
    return others[said.row], said.col.astype(np.int32), said.data.astype(np.float32)
