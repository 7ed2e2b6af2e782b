"""Train candidates and score them, fold by fold: solved together where the model is linear, fitted one by one else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone

from steep._progress import Bar, Stopwatch
from steep._sklearn import take_rows
from steep._validation import FloatArray, IntArray
from steep.metrics import Scorer
from steep.neighbors.folds import SharedGraph
from steep.rescaling import Rescaling, rescale_pairs
from steep.weighting.candidates import Menu, WeightingCandidate
from steep.weighting.controls import (
    BALANCED,
    EQUAL,
    ROBUST,
    THRESHOLD,
    balancing,
    finite_score,
    robust_twin,
    thresholded,
    tuned_threshold,
)
from steep.weighting.cross_fitting import N_PARTS, cross_fitted
from steep.weighting.linear import Linear
from steep.weighting.weights import Measured, TrainingSet, measure_samples
from steep.weighting.wrapping import fit_weighted, params_of_rows


@dataclass(frozen=True)
class Trainer:
    """What every fit of a search shares."""

    estimator: Any
    params: Mapping[str, Any]
    scorers: Mapping[str, Scorer]
    rescaling: Rescaling
    linear: tuple[tuple[Mapping[str, Any], Linear], ...] = ()

    def solving(self, samples: TrainingSet, menu: Menu) -> Trainer:
        """The same with the settings that can be solved for all weights at once."""
        asks_model = any(measure.needs == "model" for measure in menu.sizes)
        settings = [*menu.settings, *([{}] if asks_model and {} not in menu.settings else [])]
        found = (
            (p, Linear.of(self.model(WeightingCandidate(params=p)), samples, self.params, self.scorers))
            for p in settings
        )
        return replace(self, linear=tuple((p, linear) for p, linear in found if linear is not None))

    def linear_of(self, candidate: WeightingCandidate) -> Linear | None:
        """How to solve a setting for all weights at once; None where every candidate is fitted."""
        if candidate.control == ROBUST:
            return None
        params = dict(candidate.params)
        return next((linear for setting, linear in self.linear if dict(setting) == params), None)

    def model(self, candidate: WeightingCandidate) -> Any:
        """A new estimator with the candidate's parameters, or with a robust loss."""
        if candidate.control == ROBUST:
            return robust_twin(self.estimator)
        return clone(self.estimator).set_params(**candidate.params)

    def fits_per_fold(self, candidates: Sequence[WeightingCandidate], is_new: bool) -> int:
        """Fits that some candidates take on one fold; a new one is measured first.

        Weightings that are solved together count as one, and so does a cross-fitting that is solved.
        """
        asked = any(c.measure is not None and c.measure.needs == "model" for c in candidates)
        cross_fits = sum(c.control == THRESHOLD and (not asked or bool(c.params)) for c in candidates) * N_PARTS
        if is_new and asked:
            cross_fits += N_PARTS if self.linear_of(WeightingCandidate()) is None else 1
        for places in _settings_of(candidates):
            some = [candidates[i] for i in places]
            is_solved = self.linear_of(some[0]) is not None
            cross_fits += 1 if is_solved else sum(c.control != THRESHOLD for c in some)
        return cross_fits

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

    def with_threshold(
        self, model: Any, candidate: WeightingCandidate, samples: TrainingSet, measured: Measured | None, params: Any
    ) -> Any:
        """A fitted classifier with a tuned threshold; predictions that a measure asked for are used again."""
        predicted = measured.predicted if measured is not None and not candidate.params else None
        if predicted is None:
            predicted = cross_fitted(
                self.model(candidate), samples.X, samples.y, samples.labels, sample_weight=samples.sample_weight,
                groups=samples.groups, params=params,
            )  # fmt: skip
        return thresholded(model, tuned_threshold(samples, predicted[:, 1], *next(iter(self.scorers.items()))))

    def measured(
        self, samples: TrainingSet, sizes: Mapping[Any, Sequence[int]], graph: Any, params: Any, predicted: Any
    ) -> Measured:
        """Variation of a training set, from a graph and predictions where these are known already."""
        return measure_samples(
            samples, sizes, estimator=self.estimator, params=params, neighbors=graph, predicted=predicted
        )

    def train(
        self, chosen: WeightingCandidate, samples: TrainingSet, graph: SharedGraph | None
    ) -> tuple[Any, FloatArray, dict[str, Any]]:
        """Fit the choice on all rows; the estimator, its weights and how they are written."""
        measured = self._measured_choice(chosen, samples, graph)
        (weights,) = self.weights([chosen], samples, measured)
        linear = self.linear_of(chosen)
        if linear is not None and chosen.control == EQUAL:  # fitted before, on the same rows
            return linear.own_fit, weights, chosen.written
        extra = {} if chosen.control == ROBUST else self.params
        model = fit_weighted(self.model(chosen), samples.X, samples.y, weights, extra)
        if chosen.control != THRESHOLD:
            return model, weights, chosen.written
        tuned = self.with_threshold(model, chosen, samples, measured, self.params).fit(samples.X, samples.y)
        return tuned, weights, chosen.written | {"threshold": tuned.threshold}

    def _measured_choice(
        self, chosen: WeightingCandidate, samples: TrainingSet, graph: SharedGraph | None
    ) -> Measured | None:
        """Variation of all rows by the chosen measure, from the graph that is known already; None for a control."""
        measure, size = chosen.measure, chosen.n_neighbors
        if measure is None or size is None:
            return None
        linear = self.linear_of(WeightingCandidate()) if measure.needs == "model" else None
        predicted = None
        if linear is not None and linear.is_exact:
            predicted = linear.cross_fitted(samples, [np.arange(len(samples))])[0]
        known = None if graph is None or size == 1 else graph.whole(size)
        return self.measured(samples, {measure: [size]}, known, self.params, predicted)


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
    watch = Stopwatch()
    trains = [train for train, _ in splits]
    graphs: Sequence[IntArray | None] = [None] * len(splits)
    if graph is not None and menu.largest_size > 1:
        graphs = list(graph.within(trains, menu.largest_size))
    watch.lap("neighbors")
    asks_model = any(measure.needs == "model" for measure in menu.sizes)
    linear = trainer.linear_of(WeightingCandidate()) if asks_model else None
    predicted = [None] * len(splits) if linear is None else linear.cross_fitted(samples, trains)
    watch.lap("cross_fitting")
    shared = {name: seconds / len(splits) for name, seconds in watch.seconds.items()}
    folds = []
    for (train, test), known, answers in zip(splits, graphs, predicted, strict=True):
        params = params_of_rows(trainer.params, train, len(samples))
        measured = trainer.measured(samples.rows(train), menu.sizes, known, params, answers)
        seconds = {name: value + shared.get(name, 0.0) for name, value in measured.seconds.items()}
        folds.append(Fold(train, test, replace(measured, seconds=seconds)))
    return folds


def score_folds(
    folds: Sequence[Fold], candidates: Sequence[WeightingCandidate], *, samples: TrainingSet, trainer: Trainer
) -> FloatArray:
    """Train each candidate on the training rows and score it on the others, ``(n_candidates, n_folds, n_scorers)``."""
    scores = np.empty((len(candidates), len(folds), len(trainer.scorers)))
    insides = [samples.rows(fold.train) for fold in folds]
    for places in _settings_of(candidates):
        some = [candidates[i] for i in places]
        linear = trainer.linear_of(some[0])
        weights = [trainer.weights(some, inside, f.measured) for inside, f in zip(insides, folds, strict=True)]
        solved: Sequence[Any] = [(None, None)] * len(folds)
        if linear is not None:
            solved = linear.solve_folds(samples, [(fold.train, fold.test) for fold in folds], weights)
        for number, (fold, inside) in enumerate(zip(folds, insides, strict=True)):
            scores[places, number] = _fold_scores(fold, some, inside, weights[number], solved[number], samples, trainer)
    return scores


def _fold_scores(
    fold: Fold, candidates: Sequence[WeightingCandidate], inside: TrainingSet, weights: FloatArray,
    solved: tuple[FloatArray | None, Any], samples: TrainingSet, trainer: Trainer,
) -> FloatArray:  # fmt: skip
    """Scores of candidates of one setting, from their solutions and the inputs these take, or by fits."""
    theta, X_test = solved
    linear, y_test = trainer.linear_of(candidates[0]), take_rows(samples.y, fold.test)
    own = samples.sample_weight
    weight = {} if own is None else {"sample_weight": own[fold.test]}
    extra = params_of_rows(trainer.params, fold.train, len(samples))
    scores: FloatArray = np.empty((len(candidates), len(trainer.scorers)))
    if linear is not None and theta is not None:
        scores = linear.scores(X_test, fold.test, theta, trainer.scorers, samples)
    else:
        X_test, linear = take_rows(samples.X, fold.test), None
    # An estimator set to warm_start resumes from its last solution; any other starts from nothing each time.
    reuse, model = bool(getattr(trainer.estimator, "warm_start", False)), None
    for place, (candidate, given) in enumerate(zip(candidates, weights, strict=True)):
        if candidate.control == THRESHOLD:
            fitted = model if linear is None or theta is None else linear.fitted(theta[place])
            asked = trainer.with_threshold(fitted, candidate, inside, fold.measured, extra)
        elif linear is not None:
            continue  # scored above
        else:
            model = trainer.model(candidate) if model is None or not reuse else model
            asked = fit_weighted(model, inside.X, inside.y, given, extra if candidate.control != ROBUST else {})
        scores[place] = [finite_score(n, s, asked, X_test, y_test, weight) for n, s in trainer.scorers.items()]
    return scores


def _settings_of(candidates: Sequence[WeightingCandidate]) -> list[list[int]]:
    """Places of the candidates that share their estimator and its parameters."""
    settings: list[tuple[tuple[bool, dict[str, Any]], list[int]]] = []
    for place, candidate in enumerate(candidates):
        params = candidate.control == ROBUST, dict(candidate.params)
        known = next((places for setting, places in settings if setting == params), None)
        if known is None:
            settings.append((params, [place]))
        else:
            known.append(place)
    return [places for _, places in settings]


@dataclass
class FoldScores:
    """Scores of candidates fold by fold, in several jobs, and the folds that were measured so far."""

    samples: TrainingSet
    splits: Sequence[tuple[IntArray, IntArray]]
    trainer: Trainer
    menu: Menu
    graph: SharedGraph | None
    n_jobs: int | None
    watch: Stopwatch
    bar: Bar
    most_fits: int
    folds: list[Fold] = field(default_factory=list)

    def of(self, first: int, last: int, candidates: Sequence[WeightingCandidate]) -> FloatArray:
        """Scores on folds from ``first`` up to ``last``, ``(n_candidates, n_folds, n_scorers)``."""
        is_new = last > len(self.folds)
        price = self.trainer.fits_per_fold(candidates, is_new)
        if is_new:
            self.bar.expect(price * (len(self.splits) - first), at_most=self.most_fits)
            self._prepare(last, candidates)
        wanted, found = self.folds[first:last], []
        parts = self._shares(wanted) if self.trainer.linear else [[fold] for fold in wanted]
        shared = {"samples": self.samples, "trainer": self.trainer}
        for scores in self._run(score_folds, [(part, candidates) for part in parts], **shared):
            found.append(scores)
            self.bar.update(price * scores.shape[1])
        self.watch.lap("fits")
        return np.concatenate(found, axis=1)

    def seconds(self) -> dict[str, float]:
        """Seconds of neighbours, cross-fitting and fits; the folds' own are summed."""
        spent = {name: sum(f.measured.seconds[name] for f in self.folds) for name in ("neighbors", "cross_fitting")}
        whole = self.watch.seconds
        return spent | {"neighbors": whole["neighbors"] + spent["neighbors"], "fits": whole["fits"]}

    def _prepare(self, last: int, candidates: Sequence[WeightingCandidate]) -> None:
        """Measure the training rows of new folds, as far as the candidates need it."""
        shared = {"trainer": self.trainer, "menu": self.menu.of(candidates), "graph": self.graph}
        parts = self._shares(self.splits[len(self.folds) : last])
        for folds in self._run(prepare_folds, [(self.samples, part) for part in parts], **shared):
            self.folds += folds
        self.watch.lap("preparing")

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
