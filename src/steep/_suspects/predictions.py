"""Predictions for samples that a model has not seen: those the caller brings along, or those of a forest.

One forest of 500 trees, of which each sample is predicted by those that have not drawn it, costs what five cross-fitted
ones of 100 do; its trees see more of the data, and each sample is predicted by nearly twice as many. scikit-learn's
trees keep a number for each class at each node, which fills the memory where there are hundreds of classes. There each
tree is grown on a sketch of the one-hot columns instead: their products with random signs, 16 of them, keep the
variance of the columns, and so the impurity of a node, on average (Joly, Geurts and Wehenkel, 2014).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from scipy.sparse import coo_matrix, csr_matrix, diags
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.preprocessing import normalize
from sklearn.tree import DecisionTreeRegressor

from steep._suspects.score import Opinions
from steep._validation import FloatArray, IntArray, check_points, check_vector
from steep.exceptions import InputError, warn_user
from steep.labels import Labels

# Rows of probabilities may miss a sum of 1 by so much: float16 rounds to three digits.
_ROUNDING, _SAME = 0.01, 1e-6
# A model that agrees with all labels, or this share, looks fitted to them where the neighbours agree with fewer.
_TOO_GOOD, _CLEAN, _FAR_FROM_CLEAN = 0.999, 0.98, 0.9

_HELP = "use cross_val_predict(model, X, y, cv=5{method}), or pass estimator= and let suspects do it"
_HELP_CLASSES, _HELP_NUMBERS = _HELP.format(method=", method='predict_proba'"), _HELP.format(method="")

# Trees for up to this many samples. Large data need fewer: most trees have not drawn a sample there.
_TREES = ((5_000, 500), (100_000, 200))
_FEWEST_TREES, _DRAWN_BY_A_TREE = 50, 10_000
# In a forest that is fitted again for every part; and the share of the features that each split of a regression tries.
_TREES_OF_A_PART, _FEATURES_OF_NUMBERS = 100, 0.5
# Bytes that the nodes of a forest may take, and else columns of a sketch.
_NODES, _SKETCH = 2**30, 16
# Trees hold features in float32, and scikit-learn looks at numbers as int64.
_LARGEST_FEATURE, _LARGEST_NUMBER = float(np.finfo(np.float32).max), 1e18


def supplied(labels: Labels, pred_probs: Any, predictions: Any) -> FloatArray | None:
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
    """Reject probabilities that agree with every label where the neighbours do not, and warn where nearly so.

    Nothing can prove that a model had not seen a label. Whoever agrees with wrong ones as well was fitted to them.
    """
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


def forest(labels: Labels, seed: int, n_jobs: int | None = None, **settings: Any) -> Any:
    """A random forest for these labels, that is cheap enough for their number."""
    settings = {"n_estimators": _TREES_OF_A_PART, "random_state": seed, "n_jobs": n_jobs} | settings
    if len(labels) > _drawn(labels):
        settings["max_samples"] = _drawn(labels)
    if labels.codes is None:
        return RandomForestRegressor(max_features=_FEATURES_OF_NUMBERS, **settings)
    return RandomForestClassifier(**settings)


def regressors(labels: Labels, seed: int) -> tuple[list[Any], float]:
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
    votes = csr_matrix((len(labels), labels.n_columns), dtype=np.float32)
    seeds = np.random.SeedSequence(seed).spawn(n_trees)
    team = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")
    for said in team(delayed(_votes_of_tree)(points, labels, mine) for mine in seeds):
        votes = votes + said
    return normalize(votes, norm="l1", copy=False)


def _votes_of_tree(points: npt.NDArray[np.float32], labels: Labels, seed: np.random.SeedSequence) -> csr_matrix:
    """Shares of the classes in the leaves that samples fall into which one tree has not drawn."""
    rng, codes = np.random.default_rng(seed), np.asarray(labels.codes)
    drawn = rng.integers(len(labels), size=_drawn(labels))
    signs = rng.choice(np.array([-1.0, 1.0]), size=(labels.n_columns, _SKETCH))
    tree = DecisionTreeRegressor(max_features="sqrt", random_state=int(rng.integers(2**31)))
    leaves = tree.fit(points[drawn], signs[codes[drawn]]).apply(points)
    shape = tree.tree_.node_count, labels.n_columns
    held = coo_matrix((np.ones(len(drawn), np.float32), (leaves[drawn], codes[drawn])), shape).tocsr()
    was_out = np.ones(len(labels), np.float32)
    was_out[drawn] = 0.0
    said = diags(was_out).astype(np.float32) @ normalize(held, norm="l1", copy=False)[leaves]
    said.eliminate_zeros()
    return said
