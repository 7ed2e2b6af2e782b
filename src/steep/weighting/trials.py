"""Train candidates and score them, fold by fold: solved together where the model is linear, fitted one by one else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier

from steep._progress import Bar
from steep._sklearn import take_rows
from steep._validation import FloatArray, IntArray
from steep.metrics import Scorer
from steep.neighbors.folds import SharedGraph
from steep.rescaling import Rescaling, rescale_pairs
from steep.weighting.candidates import (
    BALANCED,
    EQUAL,
    ROBUST,
    THRESHOLD,
    Menu,
    WeightingCandidate,
    balancing,
    finite_score,
    robust_twin,
    tuned_threshold,
)
from steep.weighting.fitting import N_PARTS, cross_fitted, fit_weighted, params_of_rows
from steep.weighting.linear import Linear
from steep.weighting.weights import Measured, TrainingSet, measure_samples


@dataclass(frozen=True)
class Trainer:
    """What every fit of a search shares; ``linear`` if the estimator can be solved for all weights at once."""

    estimator: Any
    params: Mapping[str, Any]
    scorers: Mapping[str, Scorer]
    rescaling: Rescaling
    linear: Linear | None = None

    def fits_per_fold(self, candidates: Sequence[WeightingCandidate], is_new: bool) -> int:
        """Fits that some candidates take on one fold; a new one is measured first.

        Weightings that are solved together count as one, and so does a cross-fitting that is solved.
        """
        controls = [c.control for c in candidates]
        asked, solved = any(c.asks_model for c in candidates), self.linear is not None
        fits = N_PARTS if THRESHOLD in controls and not asked else 0
        if is_new and asked:
            fits += 1 if solved else N_PARTS
        return fits + (1 + (ROBUST in controls) if solved else sum(control != THRESHOLD for control in controls))

    def weights(
        self, candidates: Sequence[WeightingCandidate], samples: TrainingSet, measured: Measured | None
    ) -> FloatArray:
        """Weights of the candidates, ``(n_candidates, n_samples)``, the caller's own multiplied in."""
        weights = np.ones((len(candidates), len(samples)))
        weighted = [i for i, c in enumerate(candidates) if c.measure is not None]
        if weighted and measured is not None:
            wanted = [((c := candidates[i]).measure, c.n_neighbors) for i in weighted]
            keys = list(dict.fromkeys(wanted))
            pairs = [(keys.index(key), candidates[i].weight_ratio) for key, i in zip(wanted, weighted, strict=True)]
            variations = [measured.variation[key] for key in keys]  # type: ignore[index]
            weights[weighted] = rescale_pairs(variations, pairs, self.rescaling)
        own = samples.sample_weight
        for number, candidate in enumerate(candidates):
            if candidate.control == BALANCED:
                weights[number] = balancing(samples.labels, np.ones(len(samples)) if own is None else own)
        return weights if own is None else weights * own

    def fit(self, candidate: WeightingCandidate, samples: TrainingSet, weights: FloatArray) -> Any:
        """Fit a new model; the robust twin gets no arguments of ``fit``."""
        if candidate.control == ROBUST:
            return fit_weighted(robust_twin(self.estimator), samples.X, samples.y, weights, {})
        return fit_weighted(clone(self.estimator), samples.X, samples.y, weights, self.params)

    def with_threshold(self, model: Any, samples: TrainingSet, measured: Measured | None) -> Any:
        """A fitted classifier with a tuned threshold; predictions that a measure asked for are used again."""
        predicted = None if measured is None else measured.predicted
        if predicted is None:
            predicted = cross_fitted(
                self.estimator, samples.X, samples.y, samples.labels, sample_weight=samples.sample_weight,
                groups=samples.groups, params=self.params,
            )  # fmt: skip
        threshold = tuned_threshold(samples, predicted[:, 1], *next(iter(self.scorers.items())))
        return FixedThresholdClassifier(FrozenEstimator(model), threshold=threshold, response_method="predict_proba")

    def measured(self, samples: TrainingSet, sizes: Mapping[Any, Sequence[int]], graph: Any, answers: Any) -> Measured:
        """Variation of a training set, from a graph and predictions if these are known already."""
        return measure_samples(
            samples, sizes, estimator=self.estimator, params=self.params, neighbors=graph, predicted=answers
        )

    def train(
        self, chosen: WeightingCandidate, samples: TrainingSet, graph: SharedGraph | None
    ) -> tuple[Any, FloatArray, dict[str, Any]]:
        """Fit the choice on all rows; the estimator, its weights and how they are written."""
        measured, size = None, chosen.n_neighbors
        if chosen.measure is not None and size is not None:
            answers, known = None, None if graph is None or size == 1 else graph.whole(size)
            if chosen.asks_model and self.linear is not None and self.linear.is_exact:
                answers = self.linear.cross_fitted(samples, [np.arange(len(samples))])[0]
            measured = self.measured(samples, {chosen.measure: [size]}, known, answers)
        (weights,) = self.weights([chosen], samples, measured)
        if self.linear is not None and chosen.control == EQUAL:  # fitted before, on the same rows
            return self.linear.own_fit, weights, chosen.written
        model = self.fit(chosen, samples, weights)
        if chosen.control != THRESHOLD:
            return model, weights, chosen.written
        tuned = self.with_threshold(model, samples, measured).fit(samples.X, samples.y)
        return tuned, weights, chosen.written | {"threshold": tuned.threshold}

    def on(self, rows: IntArray, n_samples: int) -> Trainer:
        """The same for some of the samples: arguments of ``fit`` with one entry per sample are cut to them."""
        return replace(self, params=params_of_rows(self.params, rows, n_samples)) if self.params else self


@dataclass(frozen=True)
class Fold:
    """Rows of a split, and what was measured on its training rows."""

    train: IntArray
    test: IntArray
    measured: Measured


def prepare_folds(
    samples: TrainingSet, splits: Sequence[tuple[IntArray, IntArray]], *, trainer: Trainer, menu: Menu,
    graph: SharedGraph | None,
) -> list[Fold]:  # fmt: skip
    """Measure the training rows of every split, and nothing but them."""
    trains = [train for train, _ in splits]
    graphs: Sequence[IntArray | None] = [None] * len(splits)
    if graph is not None and menu.largest_size > 1:
        graphs = list(graph.within(trains, menu.largest_size))
    predicted: Sequence[FloatArray | None] = [None] * len(splits)
    if trainer.linear is not None and any(measure.needs == "model" for measure in menu.sizes):
        predicted = trainer.linear.cross_fitted(samples, trains)
    return [
        Fold(train, test, trainer.on(train, len(samples)).measured(samples.rows(train), menu.sizes, known, answers))
        for (train, test), known, answers in zip(splits, graphs, predicted, strict=True)
    ]


def score_folds(
    folds: Sequence[Fold], candidates: Sequence[WeightingCandidate], *, samples: TrainingSet, trainer: Trainer
) -> FloatArray:
    """Train each candidate on the training rows and score it on the others, ``(n_candidates, n_folds, n_scorers)``."""
    insides = [samples.rows(fold.train) for fold in folds]
    weights = [trainer.weights(candidates, inside, f.measured) for inside, f in zip(insides, folds, strict=True)]
    solved: Sequence[Any] = [(None, None)] * len(folds)
    if trainer.linear is not None:
        own = [i for i, c in enumerate(candidates) if c.control != ROBUST]
        splits = [(fold.train, fold.test) for fold in folds]
        solved = trainer.linear.solve_folds(samples, splits, [given[own] for given in weights])
    scores = [
        _fold_scores(fold, candidates, inside, given, solution, samples, trainer)
        for fold, inside, given, solution in zip(folds, insides, weights, solved, strict=True)
    ]
    return np.stack(scores, axis=1)


def _fold_scores(
    fold: Fold, candidates: Sequence[WeightingCandidate], inside: TrainingSet, weights: FloatArray,
    solved: tuple[FloatArray | None, Any], samples: TrainingSet, trainer: Trainer,
) -> FloatArray:  # fmt: skip
    """Scores of candidates, from the solutions of all but the robust one and the inputs these take, or by fits."""
    theta, points = solved
    linear, trainer = trainer.linear, trainer.on(fold.train, len(samples))
    X_test, y_test = take_rows(samples.X, fold.test), take_rows(samples.y, fold.test)
    own = samples.sample_weight
    weight = {} if own is None else {"sample_weight": own[fold.test]}
    known: Any = None
    if linear is not None and theta is not None:
        known = iter(zip(theta, linear.scores(points, fold.test, theta, trainer.scorers, samples), strict=True))
    model: Any = None  # the last one fitted: that with equal weights, when its threshold is tuned
    scores: FloatArray = np.empty((len(candidates), len(trainer.scorers)))
    for place, (candidate, given) in enumerate(zip(candidates, weights, strict=True)):
        inputs = X_test
        if candidate.control == ROBUST:
            asked = trainer.fit(candidate, inside, given)
        elif linear is not None and known is not None:
            solution, scores[place] = next(known)
            if candidate.control != THRESHOLD:
                continue
            asked, inputs = trainer.with_threshold(linear.fitted(solution), inside, fold.measured), points
        elif candidate.control == THRESHOLD:
            asked = trainer.with_threshold(model, inside, fold.measured)
        else:
            asked = model = trainer.fit(candidate, inside, given)
        scores[place] = [finite_score(n, s, asked, inputs, y_test, weight) for n, s in trainer.scorers.items()]
    return scores


class FoldScores:
    """Scores of candidates fold by fold, in several jobs; the folds measured so far, and the fits all this took."""

    def __init__(
        self, samples: TrainingSet, splits: Sequence[tuple[IntArray, IntArray]], trainer: Trainer, menu: Menu,
        n_jobs: int | None, bar: Bar,
    ) -> None:  # fmt: skip
        self.samples, self.splits, self.trainer, self.menu = samples, splits, trainer, menu
        self.n_jobs, self.bar = n_jobs, bar
        self.graph: SharedGraph | None = None
        if samples.space.numbers is not None:  # rows become points by themselves: one graph for all folds
            self.graph = SharedGraph.of(
                samples.space.numbers, menu.largest_size, [train for train, _ in splits],
                standardised=samples.space.standardised, n_jobs=n_jobs,
            )  # fmt: skip
        self.folds: list[Fold] = []
        self.n_fits = 0

    def of(self, first: int, last: int, candidates: Sequence[WeightingCandidate]) -> FloatArray:
        """Scores on folds from ``first`` up to ``last``, ``(n_candidates, n_folds, n_scorers)``."""
        price = self.trainer.fits_per_fold(candidates, last > len(self.folds))
        self.n_fits += price * (last - first)
        if last > len(self.folds):
            self.bar.expect(price * (len(self.splits) - first))
            shared = {"trainer": self.trainer, "menu": self.menu.of(candidates), "graph": self.graph}
            parts = self._shares(self.splits[len(self.folds) : last])
            for folds in self._run(prepare_folds, [(self.samples, part) for part in parts], **shared):
                self.folds += folds
        wanted, found = self.folds[first:last], []
        parts = [[fold] for fold in wanted] if self.trainer.linear is None else self._shares(wanted)
        shared = {"samples": self.samples, "trainer": self.trainer}
        for scores in self._run(score_folds, [(part, candidates) for part in parts], **shared):
            found.append(scores)
            self.bar.update(price * scores.shape[1])
        return np.concatenate(found, axis=1)

    def _shares(self, items: Sequence[Any]) -> list[Sequence[Any]]:
        """What every job gets: what folds have in common is then computed once."""
        size = -(-len(items) // effective_n_jobs(self.n_jobs))
        return [items[first : first + size] for first in range(0, len(items), size)]

    def _run(self, call: Callable[..., Any], parts: Sequence[tuple[Any, ...]], **shared: Any) -> Iterator[Any]:
        """Call with every part, in as many jobs as were asked for."""
        if effective_n_jobs(self.n_jobs) == 1:
            return (call(*part, **shared) for part in parts)
        jobs = (delayed(call)(*part, **shared) for part in parts)
        return iter(Parallel(self.n_jobs, return_as="generator")(jobs))
