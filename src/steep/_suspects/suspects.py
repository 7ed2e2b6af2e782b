"""Rank labels by what speaks against them: their neighbours, and a model that has not seen them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_matrix

from steep._progress import Stopwatch
from steep._suspects.numbers import Fits, blend, suspect_numbers
from steep._suspects.predictions import check_features, forest, out_of_bag, refuse_in_sample, regressors, supplied
from steep._suspects.result import SUSPECT, Suspects
from steep._suspects.score import Suspicion, ballots, scores, suspect_classes
from steep._validation import FloatArray, Seed, check_count, check_generator, check_jobs, one_line, refuse_large, shown
from steep.exceptions import InputError, SteepError, UnsupportedEstimatorError
from steep.labels import Labels, Task, warn_of_float_classes
from steep.measures.neighborhood import MANY_VOTES, RECALL_OF_MANY_VOTES, RECALL_OF_VOTES
from steep.neighbors.graph import search_graph
from steep.weighting.fitting import cross_fitted, deal, task_of
from steep.weighting.weights import TrainingSet, row_index


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
    """Rank labels by how likely they are to be wrong, for classes and for numbers.

    Each label is compared with those of its nearest neighbours and with the prediction of a model that was
    fitted without it. Together they find more wrong labels than each alone.

    Parameters
    ----------
    X : array-like or frame of shape (n_samples, n_features)
        Samples; with the default ``embedding`` columns may hold text, categories, dates and missing values.
        Features of a network are samples too.
    y : array-like of shape (n_samples,)
        Labels as they are, some of them perhaps wrong: classes or numbers.
    estimator : estimator, optional
        The model that predicts, cloned for every part; default a random forest whose trees each judge the samples
        they were not fitted to, and for numbers boosted trees as well. Classifiers without ``predict_proba``
        count as certain of what they predict.
    pred_probs : array-like of shape (n_samples, n_classes), optional
        Your probabilities, one column per class in sorted order, each row from a model that has not seen
        that sample; nothing is fitted then.
    predictions : array-like of shape (n_samples,), optional
        The same for numbers: your out-of-sample predictions.
    groups : array-like of shape (n_samples,), optional
        Samples that belong together, such as those of one patient: neither the model nor the neighbours of a
        sample come from its own group.
    random_state : int, Generator or None, default None
        Seed of the parts and of the default forest.

    Other Parameters
    ----------------
    n_neighbors : int, default 20
        Neighbours compared, the sample itself not counted.
    cv : int, default 5
        Parts the samples are dealt into; each is predicted by a fit of ``estimator`` to the others. The
        default forest for classes needs none, unless there are groups.
    embedding : {"auto", "standard", None}, transformer or callable, default "auto"
        Space in which neighbours are looked for; see :func:`sample_weights`.
    task : {"auto", "classification", "regression"}, default "auto"
        How to read ``y``; default as the estimator does, else as :func:`sample_weights`.
    n_jobs : int, optional
        Threads of the search and processes of the fits; −1 is all processors.

    Returns
    -------
    Suspects
        ``top(20)`` has the labels to look at first, ``table`` one row per sample in the order and with the index of
        ``X``; ``verdict`` is the outcome in one sentence, and ``n_wrong`` roughly the number of wrong labels.

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
    for name, data in (("X", X), ("y", y), ("pred_probs", pred_probs), ("predictions", predictions)):
        refuse_large(data, name)
    watch = Stopwatch()
    rng = check_generator(random_state)
    jobs = check_jobs(n_jobs)
    if estimator is not None and not (pred_probs is None and predictions is None):
        raise InputError("both an estimator and its predictions are given; expected one; leave out the other")
    samples = _checked(X, y, estimator, embedding, task, groups)
    given = supplied(samples.labels, pred_probs, predictions)
    size = _count(n_neighbors, "n_neighbors", len(samples) - 1)
    n_parts = _count(cv, "cv", len(samples), minimum=2)
    points = samples.space.points()
    if estimator is None and given is None:
        check_features(points)
    distances, indices, _ = search_graph(
        points,
        n_neighbors=size,
        include_self=False,
        recall=RECALL_OF_VOTES if len(points) <= MANY_VOTES else RECALL_OF_MANY_VOTES,
        n_jobs=jobs,
        random_state=0,
    )
    watch.lap("neighbors")
    models = _Models(samples, points, estimator, n_parts, rng, jobs)
    is_number = samples.labels.codes is None
    judge = models.judge_numbers if is_number else models.judge_classes
    predicted, found = judge(given, ballots(indices, samples.groups))
    score = scores(found.margin, found.n_wrong.mean, is_number=is_number)
    watch.lap("scores")
    return Suspects(
        score=score,
        label=labels_as_given(samples.labels),
        suggested=_suggested(samples.labels, found, score),
        n_wrong=found.n_wrong,
        distances=distances,
        indices=indices,
        predicted=predicted,
        seconds=watch.seconds,
        index=row_index(X if isinstance(X, pd.DataFrame | pd.Series) else y),
        X=X,
    )


def _suggested(labels: Labels, found: Suspicion, score: FloatArray) -> npt.NDArray[Any]:
    """The number expected; or the most probable other class where the own one is outvoted or suspect."""
    if labels.codes is None or labels.classes is None:
        return found.expected
    is_doubted = np.asarray(found.is_contradicted) | (score > SUSPECT)
    return np.asarray(labels.classes[np.where(is_doubted, found.expected, labels.codes)])


def labels_as_given(labels: Labels) -> npt.NDArray[Any]:
    """Classes by name, or numbers."""
    if labels.codes is None or labels.classes is None:
        return np.asarray(labels.array[:, 0])
    return np.asarray(labels.classes[labels.codes])


@dataclass(frozen=True)
class _Models:
    """What predicts samples that it has not seen: the estimator of the caller, or the default ones."""

    samples: TrainingSet
    points: FloatArray
    estimator: Any
    n_parts: int
    rng: np.random.Generator
    n_jobs: int | None

    def judge_classes(self, given: Any, asked: csr_matrix) -> tuple[Any, Suspicion]:
        """Probabilities, which may be sparse, and what speaks against each class."""
        samples, labels, codes = self.samples, self.samples.labels, np.asarray(self.samples.labels.codes)
        if given is not None:
            refuse_in_sample(codes, given, asked)
            return given, suspect_classes(codes, given, asked)
        seed, part = int(self.rng.integers(2**31)), deal(samples.labels, self.n_parts, samples.groups, self.rng)
        X, model = samples.X, self.estimator
        if model is None:  # the forest sees the points: X as given may hold text
            X, model = self.points, forest(labels, seed)
        if self.estimator is None and samples.groups is None:
            predicted = out_of_bag(X, labels, seed, self.n_jobs)
        else:
            with self._named():
                predicted = cross_fitted(model, X, samples.y, labels, part=part, n_jobs=self.n_jobs)
            self._check(predicted, labels.n_columns)
        return predicted, suspect_classes(codes, predicted, asked)

    def judge_numbers(self, given: Any, asked: csr_matrix) -> tuple[FloatArray, Suspicion]:
        """Predicted values, and what speaks against each number."""
        samples, values = self.samples, self.samples.labels.array[:, 0]
        if given is not None:
            return given, suspect_numbers(values, given[:, None], asked, None)
        seed, part = int(self.rng.integers(2**31)), deal(samples.labels, self.n_parts, samples.groups, self.rng)
        models, X, y, unit = [self.estimator], samples.X, samples.y, 1.0
        if self.estimator is None:
            models, unit = regressors(samples.labels, seed)
            X, y = self.points, values / unit
        fits = Fits(models, X, y, part, self.n_jobs, unit)
        with self._named():
            columns = fits.predict(np.ones(len(values), dtype=bool))
            self._check(columns, len(models))
            return blend(values, columns), suspect_numbers(values, columns, asked, fits)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors of an estimator in a line that names it."""
        try:
            yield
        except SteepError:
            raise
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"{type(self.estimator).__name__} cannot be fitted to X and y ({one_line(error)}); expected an "
                "estimator that takes them as they are; wrap it in a pipeline, or pass pred_probs= or predictions="
            ) from error

    def _check(self, predicted: FloatArray, width: int) -> None:
        if predicted.shape != (len(self.points), width) or not np.isfinite(predicted).all():
            raise InputError(
                f"{type(self.estimator).__name__} predicts an array of shape {predicted.shape} with "
                f"{int((~np.isfinite(predicted)).sum())} entries that are not finite; expected one finite number per "
                "sample, or one probability per class; use another estimator"
            )


def _checked(X: Any, y: Any, estimator: Any, embedding: Any, task: Task, groups: Any) -> TrainingSet:
    if estimator is not None and (isinstance(estimator, type) or not hasattr(estimator, "fit")):
        raise UnsupportedEstimatorError(
            f"estimator={shown(estimator)} is not an estimator instance; expected an object with fit(X, y) and "
            "predict, or None for a random forest"
        )
    if estimator is not None and task == "auto":
        task = task_of(estimator)
    samples = TrainingSet.check(X, y, embedding=embedding, task=task, estimator=estimator, groups=groups)
    labels = samples.labels
    warn_of_float_classes(labels, task, fewest=2)
    if labels.codes is None and labels.n_columns > 1:
        raise InputError(
            f"y has {labels.n_columns} columns; expected one label per sample; call suspects once for every column"
        )
    if (labels.array == labels.array[0]).all():
        raise InputError(f"all {len(labels)} labels of y are equal; expected at least two classes or values")
    return samples


def _count(value: Any, name: str, most: int, minimum: int = 1) -> int:
    count = check_count(value, name=name, minimum=minimum)
    if count > most:
        more = count + (name == "n_neighbors")
        raise InputError(
            f"{name}={count} needs at least {more} samples, got {most + more - count}; lower {name} or pass more data"
        )
    return count
