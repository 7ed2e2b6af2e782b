"""Find the labels that are probably wrong: the neighbours and a model that has not seen them are asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from steep._timing import Stopwatch
from steep._validation import (
    FloatArray,
    IntArray,
    Seed,
    check_count,
    check_generator,
    check_jobs,
    check_numbers,
    check_vector,
)
from steep.exceptions import InputError, SteepError, UnsupportedEstimatorError
from steep.labels import Labels, Task, warn_of_float_classes
from steep.measures.neighborhood import RECALL
from steep.metrics import Interval
from steep.neighbors.graph import search_graph
from steep.weighting.cross_fitting import cross_fitted, deal
from steep.weighting.out_of_bag import forest, out_of_bag
from steep.weighting.suspect_labels import Suspects
from steep.weighting.suspicion import Suspicion, ballots, count_votes, suspect_classes, suspect_numbers
from steep.weighting.weights import Samples
from steep.weighting.wrapping import task_of
from steep.weighting.wrong_share import class_scores, number_scores, wrong_classes, wrong_numbers

# Rows of pred_probs may miss a sum of 1 by so much: float16 rounds to three digits.
_ROUNDING = 0.01
# Where the neighbours name the given label for more than this share, so may a model that has not seen it, for all.
_CLEAN = 0.98


def suspects(
    X: Any,
    y: Any,
    *,
    estimator: Any = None,
    n_neighbors: int = 20,
    pred_probs: Any = None,
    predictions: Any = None,
    groups: Any = None,
    cv: int = 5,
    embedding: Any = "auto",
    task: Task = "auto",
    random_state: Seed = None,
    n_jobs: int | None = None,
) -> Suspects:
    """Rank labels by how probable it is that they are wrong, for classes and for numbers.

    Each label is compared with those of its nearest neighbours and with the prediction of a model that was
    fitted without it. Both together find more wrong labels than either.

    Parameters
    ----------
    X : array-like or frame of shape (n_samples, n_features)
        Samples; with the default ``embedding`` columns may hold text, categories, dates and missing values.
        Features of a network are samples too.
    y : array-like of shape (n_samples,)
        Labels as they are, some of them perhaps wrong: classes or numbers.
    estimator : estimator, optional
        The model to ask, cloned for every part; default a random forest whose trees each judge the samples
        they were not fitted to. Classifiers without ``predict_proba`` count as certain of what they predict.
    n_neighbors : int, default 20
        Neighbours asked, the sample itself not counted.
    pred_probs : array-like of shape (n_samples, n_classes), optional
        Your own probabilities, one column a class in sorted order, each row from a model that has not seen
        that sample; nothing is fitted then.
    predictions : array-like of shape (n_samples,), optional
        The same for numbers: your own out-of-sample predictions.
    groups : array-like of shape (n_samples,), optional
        Samples that belong together, such as those of one patient: neither the model nor the neighbours of a
        sample come from its own group.
    cv : int, default 5
        Parts the samples are dealt into; each is predicted by a fit to the others.
    embedding : {"auto", "standard", None}, transformer or callable, default "auto"
        Space in which neighbours are looked for; see :func:`sample_weights`.
    task : {"auto", "classification", "regression"}, default "auto"
        How to read ``y``; default as the estimator does, else as :func:`sample_weights`.
    random_state : int, Generator or None, default None
        Seed of the parts, of the default forest and of the interval.
    n_jobs : int, optional
        Threads of the search and processes of the fits; −1 is all processors.

    Returns
    -------
    Suspects
        ``table`` has one row a sample in the order of ``X``, ``top(20)`` the most probable ones; ``verdict`` is
        one sentence, ``n_wrong`` the estimated number of wrong labels with its interval.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> y[[3, 77]] = [2, 0]  # two labels are made wrong
    >>> found = suspects(X, y, random_state=0)
    >>> sorted(found.top(2).index.tolist())
    [3, 77]
    >>> found.table.loc[3, ["label", "suggested"]].tolist()
    [2, 0]
    """
    watch = Stopwatch()
    rng = check_generator(random_state)
    jobs = check_jobs(n_jobs)
    samples = _checked(X, y, estimator, embedding, task, groups)
    predicted = _given(samples.labels, pred_probs, predictions)
    points = samples.space.points()
    distances, indices, _ = search_graph(
        points,
        samples.labels,
        n_neighbors=_size(n_neighbors, len(samples)),
        include_self=False,
        recall=RECALL,
        n_jobs=jobs,
        random_state=0,
    )
    watch.lap("neighbors")
    if predicted is None:
        predicted = _cross_fitted(samples, points, estimator, _parts(cv, samples, rng), rng, jobs)
    watch.lap("cross_fitting")
    asked = ballots(indices, samples.groups)
    found = _judged(samples.labels, predicted, asked, given=pred_probs is not None)
    n_wrong, score = _weighed(samples.labels, found)
    watch.lap("scores")
    return Suspects(
        score=score,
        label=_as_given(samples.labels),
        suggested=_suggested(samples.labels, found, score),
        n_wrong=n_wrong,
        distances=distances,
        indices=indices,
        predicted=predicted,
        seconds=watch.seconds,
    )


def _judged(labels: Labels, predicted: FloatArray, asked: csr_matrix, *, given: bool) -> Suspicion:
    """What speaks against each label; the caller's own probabilities are held against the neighbours first."""
    if labels.codes is None:
        return suspect_numbers(labels.array[:, 0], predicted, asked)
    if given:
        _refuse_in_sample(labels.codes, predicted, asked)
    return suspect_classes(labels.codes, predicted, asked)


def _weighed(labels: Labels, found: Suspicion) -> tuple[Interval, FloatArray]:
    """How many labels are wrong, and how probable it is of each."""
    if labels.codes is None:
        n_wrong = wrong_numbers(found.margin)
        return n_wrong, number_scores(found.margin, n_wrong.mean)
    n_wrong = wrong_classes(labels.codes, found.expected)
    return n_wrong, class_scores(found.margin, n_wrong.mean)


def _suggested(labels: Labels, found: Suspicion, score: FloatArray) -> npt.NDArray[Any]:
    """The number expected; or the most probable other class where the own one is outvoted or suspect."""
    if labels.codes is None or labels.classes is None:
        return found.expected
    others = found.expected.copy()
    others[np.arange(len(others)), labels.codes] = -1.0
    is_doubted = (found.margin > 0) | (score > 0.5)
    return np.asarray(labels.classes[np.where(is_doubted, others.argmax(axis=1), labels.codes)])


def _as_given(labels: Labels) -> npt.NDArray[Any]:
    if labels.codes is None or labels.classes is None:
        return np.asarray(labels.array[:, 0])
    return np.asarray(labels.classes[labels.codes])


# ---------------------------------------------------------------------------------------- the model


def _cross_fitted(
    samples: Samples,
    points: FloatArray,
    estimator: Any,
    part: npt.NDArray[np.intp],
    rng: np.random.Generator,
    n_jobs: int | None,
) -> FloatArray:
    X, y = samples.X, samples.y
    if estimator is None:
        # The forest sees the points: X as given may hold text.
        seed = int(rng.integers(2**31))
        if samples.groups is None:
            return out_of_bag(points, samples.labels, seed, n_jobs)
        X, estimator = points, forest(samples.labels, seed)
    try:
        predicted = cross_fitted(
            estimator, X, y, samples.labels, groups=samples.groups, part=part, n_jobs=n_jobs
        )
    except SteepError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{type(estimator).__name__} cannot be fitted to X and y ({' '.join(str(error).split())[:200]}); need "
            "an estimator that takes them as they are; wrap it in a pipeline, or pass pred_probs="
        ) from error
    return predicted if samples.labels.codes is not None else predicted[:, 0]


def _parts(cv: Any, samples: Samples, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    n_parts = check_count(cv, name="cv", minimum=2)
    if n_parts > len(samples):
        raise InputError(f"cv={n_parts} needs at least {n_parts} samples, got {len(samples)}; lower cv")
    return deal(samples.labels, n_parts, samples.groups, rng)


# ---------------------------------------------------------------------------------------- arguments


def _checked(X: Any, y: Any, estimator: Any, embedding: Any, task: Task, groups: Any) -> Samples:
    if estimator is not None and (isinstance(estimator, type) or not hasattr(estimator, "fit")):
        raise UnsupportedEstimatorError(
            f"estimator={estimator!r:.80} is not an estimator instance; need an object with fit(X, y) and predict, "
            "or None for a random forest"
        )
    if estimator is not None and task == "auto":
        task = task_of(estimator)
    samples = Samples.check(X, y, embedding=embedding, task=task, estimator=estimator, groups=groups)
    labels = samples.labels
    warn_of_float_classes(labels, task, fewest=2)
    if labels.codes is None and labels.n_columns > 1:
        raise InputError(
            f"y has {labels.n_columns} columns; need one label a sample; call suspects once for every column"
        )
    if (labels.array == labels.array[0]).all():
        raise InputError(
            f"all {len(labels)} labels of y are equal; need at least two different ones to tell a wrong one from"
        )
    return samples


def _size(n_neighbors: Any, n_samples: int) -> int:
    size = check_count(n_neighbors, name="n_neighbors")
    if size >= n_samples:
        raise InputError(
            f"n_neighbors={size} needs at least {size + 1} samples, got {n_samples}; lower n_neighbors or pass "
            "more data"
        )
    return size


def _given(labels: Labels, pred_probs: Any, predictions: Any) -> FloatArray | None:
    """The caller's own predictions, checked, or None."""
    if labels.codes is None:
        if pred_probs is not None:
            raise InputError(
                "pred_probs goes with classes, and y is read as numbers; pass predictions=, or task='classification'"
            )
        return (
            None
            if predictions is None
            else check_vector(predictions, name="predictions", n_samples=len(labels))
        )
    if predictions is not None:
        raise InputError("predictions goes with numbers, and y is read as classes; pass pred_probs=")
    return None if pred_probs is None else _probabilities(labels, pred_probs)


def _probabilities(labels: Labels, pred_probs: Any) -> FloatArray:
    """Rows of probabilities, one column a class."""
    given = check_numbers(pred_probs, name="pred_probs")
    shape = len(labels), labels.n_columns
    if given.shape != shape:
        raise InputError(
            f"pred_probs has shape {given.shape}; need {shape}, one row a sample and one column for each of the "
            f"{shape[1]} classes of y in sorted order"
        )
    sums = given.sum(axis=1)
    if given.min() < 0 or np.abs(sums - 1).max() > _ROUNDING:
        worst = int(np.abs(sums - 1).argmax()) if given.min() >= 0 else int(given.min(axis=1).argmin())
        raise InputError(
            f"pred_probs is no table of probabilities: row {worst} sums to {sums[worst]:.4g} and its smallest entry "
            f"is {given[worst].min():.4g}; need entries ≥ 0 that sum to 1 in each row; pass predict_proba, or a "
            "softmax of logits"
        )
    return np.asarray(given / sums[:, None])


def _refuse_in_sample(codes: IntArray, probabilities: FloatArray, asked: csr_matrix) -> None:
    """Refuse probabilities that agree with every label where the neighbours do not: the model saw the labels."""
    agreed = float(np.mean(probabilities.argmax(axis=1) == codes))
    if agreed < 1:
        return
    votes = count_votes(asked, np.eye(probabilities.shape[1])[codes])
    by_neighbors = float(np.mean(votes.argmax(axis=1) == codes))
    if by_neighbors < _CLEAN:
        raise InputError(
            f"pred_probs names the given label for every one of the {len(codes)} samples, and the neighbours for "
            f"{by_neighbors:.0%}: they look in-sample; need probabilities from models that have not seen the sample; "
            "use cross_val_predict(model, X, y, method='predict_proba'), or pass estimator="
        )
