"""What a weighting search tries: controls and a grid of weightings, and their scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid

from steep._sklearn import take_rows
from steep._timing import Stopwatch
from steep._validation import FloatArray, IntArray, one_line
from steep.exceptions import InputError
from steep.measures import Measure
from steep.metrics import Scorer
from steep.neighbors.folds import SharedGraph
from steep.rescaling import Rescaling, rescale_pairs
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
from steep.weighting.weights import Measured, Samples, measure_samples
from steep.weighting.wrapping import fit_weighted, params_of_rows

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Candidate:
    """One way to train: a weighting (measure, k, m) or a control, and parameters of the wrapped estimator."""

    measure: Measure | None = None
    n_neighbors: int | None = None
    weight_ratio: float = 1.0
    params: Mapping[str, Any] = field(default_factory=dict)
    control: str | None = None

    def __str__(self) -> str:
        """As a verdict names it: "misfit (ratio 10, 5 neighbours)"."""
        own = [f"{name}={value!r}" for name, value in self.params.items()]
        if self.measure is None:
            return f"{self.control} ({', '.join(own)})" if own else str(self.control)
        size = "the sample alone" if self.n_neighbors == 1 else f"{self.n_neighbors} neighbours"
        return f"{self.measure.name} ({', '.join([f'ratio {self.weight_ratio:g}', size, *own])})"


@dataclass(frozen=True)
class Menu:
    """What may be combined.

    Attributes
    ----------
    sizes : mapping
        Values of k for every measure.
    ratios : tuple of float
        Values of m; 1 is equal weights, a control.
    settings : list of dict
        Parameters of the wrapped estimator.
    controls : tuple of str
        Equal weights first.
    """

    sizes: Mapping[Measure, Sequence[int]]
    ratios: tuple[float, ...]
    settings: Sequence[Mapping[str, Any]]
    controls: tuple[str, ...] = (EQUAL,)

    @property
    def largest_size(self) -> int:
        """Most neighbours that any measure looks at."""
        return max((k for sizes in self.sizes.values() for k in sizes), default=1)

    def of(self, candidates: Sequence[Candidate]) -> Menu:
        """The same for some candidates: what none of them needs is not measured."""
        pairs = {(c.measure, c.n_neighbors) for c in candidates}
        wanted = {m: [k for k in sizes if (m, k) in pairs] for m, sizes in self.sizes.items()}
        return replace(self, sizes={measure: sizes for measure, sizes in wanted.items() if sizes})

    def controls_of(self, params: Mapping[str, Any]) -> list[Candidate]:
        """The controls of one setting; a tuned threshold follows the equal weights whose fit it uses."""
        order = [name for name in (EQUAL, THRESHOLD, BALANCED, ROBUST) if name in self.controls]
        return [Candidate(params=params, control=name) for name in order if name != ROBUST or not params]

    def grid(self) -> list[Candidate]:
        """Every combination, the controls of each setting before its weightings."""
        # From ratios near 1 outwards, so that a warm start has the least way to go.
        ratios = sorted({r for r in self.ratios if r != 1}, key=lambda r: abs(np.log(r)))
        candidates: list[Candidate] = []
        for params in self.settings:
            candidates += self.controls_of(params)
            candidates += [Candidate(m, k, r, params) for m, sizes in self.sizes.items() for k in sizes for r in ratios]
        return candidates


@dataclass(frozen=True)
class Training:
    """What every fit of a search shares."""

    estimator: Any
    params: Mapping[str, Any]
    scorers: Mapping[str, Scorer]
    rescaling: Rescaling
    linear: tuple[tuple[Mapping[str, Any], Linear], ...] = ()

    def linear_of(self, candidate: Candidate) -> Linear | None:
        """How to solve a setting for all weights at once; None where every candidate is fitted."""
        if candidate.control == ROBUST:
            return None
        params = dict(candidate.params)
        return next((linear for setting, linear in self.linear if dict(setting) == params), None)

    def model(self, candidate: Candidate) -> Any:
        """A fresh estimator with the candidate's parameters, or with a robust loss."""
        if candidate.control == ROBUST:
            return robust_twin(self.estimator)
        return clone(self.estimator).set_params(**candidate.params)


def fits_per_fold(candidates: Sequence[Candidate], training: Training, is_new: bool) -> int:
    """Fits that some candidates take on one fold; a new one is measured first.

    Weightings that are solved together count as one, and so does a cross-fitting that is solved.
    """
    settings = _settings_of(candidates)
    solved = sum(training.linear_of(candidates[places[0]]) is not None for places in settings)
    fitted = sum(
        candidates[i].control != THRESHOLD
        for places in settings
        if training.linear_of(candidates[places[0]]) is None
        for i in places
    )
    asked = any(c.measure is not None and c.measure.needs == "model" for c in candidates)
    cross_fits = sum(c.control == THRESHOLD and (not asked or bool(c.params)) for c in candidates) * N_PARTS
    if is_new and asked:
        cross_fits += N_PARTS if training.linear_of(Candidate()) is None else 1
    return solved + fitted + cross_fits


@dataclass(frozen=True)
class Fold:
    """Rows of a split, and what was measured on its training rows."""

    train: Rows
    test: Rows
    measured: Measured


def prepare_folds(
    samples: Samples, splits: Sequence[tuple[Rows, Rows]], *, training: Training, menu: Menu, graph: SharedGraph | None
) -> list[Fold]:
    """Measure the training rows of every split, and nothing but them."""
    watch = Stopwatch()
    trains = [train for train, _ in splits]
    graphs: Sequence[IntArray | None] = [None] * len(splits)
    if graph is not None and menu.largest_size > 1:
        graphs = list(graph.within(trains, menu.largest_size))
    watch.lap("neighbors")
    linear = training.linear_of(Candidate()) if any(measure.needs == "model" for measure in menu.sizes) else None
    predicted = [None] * len(splits) if linear is None else linear.cross_fitted(samples, trains)
    watch.lap("cross_fitting")
    shared = {name: seconds / len(splits) for name, seconds in watch.seconds.items()}
    return [
        _measured_fold(samples, pair, training, menu, known, answers, shared)
        for pair, known, answers in zip(splits, graphs, predicted, strict=True)
    ]


def _measured_fold(
    samples: Samples,
    split: tuple[Rows, Rows],
    training: Training,
    menu: Menu,
    graph: IntArray | None,
    predicted: FloatArray | None,
    spent: Mapping[str, float],
) -> Fold:
    """One split with what is measured on its training rows; ``spent`` are seconds spent on it before."""
    train, test = split
    measured = measure_samples(
        samples.rows(train),
        menu.sizes,
        estimator=training.estimator,
        params=params_of_rows(training.params, train, len(samples)),
        neighbors=graph,
        predicted=predicted,
    )
    seconds = {name: value + spent.get(name, 0.0) for name, value in measured.seconds.items()}
    return Fold(train, test, replace(measured, seconds=seconds))


def score_folds(
    folds: Sequence[Fold], candidates: Sequence[Candidate], *, samples: Samples, training: Training
) -> FloatArray:
    """Train each candidate on the training rows and score it on the others, ``(n_candidates, n_folds, n_scorers)``."""
    scores = np.empty((len(candidates), len(folds), len(training.scorers)))
    for places in _settings_of(candidates):
        some = [candidates[i] for i in places]
        linear = training.linear_of(some[0])
        solved = [None] * len(folds) if linear is None else _solved(linear, folds, some, samples, training)
        for number, (fold, found) in enumerate(zip(folds, solved, strict=True)):
            scores[places, number] = _fitted_scores(fold, some, samples, training) if found is None else found
    return scores


def _solved(
    linear: Linear, folds: Sequence[Fold], candidates: Sequence[Candidate], samples: Samples, training: Training
) -> list[FloatArray | None]:
    """Scores of candidates that are solved at once, fold by fold; None where they must be fitted."""
    insides = [samples.rows(fold.train) for fold in folds]
    weights = [
        weights_of(candidates, inside, fold.measured, training.rescaling)
        for inside, fold in zip(insides, folds, strict=True)
    ]
    if linear.numbers is not None:
        thetas = linear.solve_each([fold.train for fold in folds], weights)
        inputs = [linear.numbers[fold.test] for fold in folds]
    else:
        pairs = [linear.inputs(samples, fold.train, fold.test) for fold in folds]
        thetas = [
            None if pair is None else linear.solve(pair[0], linear.target[fold.train], given)
            for pair, fold, given in zip(pairs, folds, weights, strict=True)
        ]
        inputs = [samples.X if pair is None else pair[1] for pair in pairs]
    return [
        None if theta is None else _solved_scores(linear, fold, candidates, theta, X_test, samples, training)
        for fold, theta, X_test in zip(folds, thetas, inputs, strict=True)
    ]


def _settings_of(candidates: Sequence[Candidate]) -> list[list[int]]:
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


def _solved_scores(
    linear: Linear,
    fold: Fold,
    candidates: Sequence[Candidate],
    theta: FloatArray,
    X_test: FloatArray,
    samples: Samples,
    training: Training,
) -> FloatArray:
    """Scores of the solutions of one fold."""
    scores = linear.scores(X_test, fold.test, theta, training.scorers, samples)
    for place, candidate in enumerate(candidates):
        if candidate.control == THRESHOLD:
            own, y_test = samples.sample_weight, take_rows(samples.y, fold.test)
            weight = {} if own is None else {"sample_weight": own[fold.test]}
            threshold = threshold_of(candidate, samples.rows(fold.train), fold.measured, training, {})
            asked = thresholded(linear.fitted(theta[place]), threshold)
            scores[place] = [finite_score(n, s, asked, X_test, y_test, weight) for n, s in training.scorers.items()]
    return scores


def _fitted_scores(fold: Fold, candidates: Sequence[Candidate], samples: Samples, training: Training) -> FloatArray:
    """Scores of candidates of one setting that are fitted one after the other."""
    inside = samples.rows(fold.train)
    X_test, y_test = take_rows(samples.X, fold.test), take_rows(samples.y, fold.test)
    own = samples.sample_weight
    weight = {} if own is None else {"sample_weight": own[fold.test]}
    extra = params_of_rows(training.params, fold.train, len(samples))
    # An estimator set to warm_start resumes from its last solution; any other starts anew each time.
    reuse = bool(getattr(training.estimator, "warm_start", False))
    weights = weights_of(candidates, inside, fold.measured, training.rescaling)
    scores = np.empty((len(candidates), len(training.scorers)))
    model = None
    for row, candidate, given in zip(scores, candidates, weights, strict=True):
        if candidate.control != THRESHOLD:
            model = training.model(candidate) if model is None or not reuse else model
            asked = fit_weighted(model, inside.X, inside.y, given, extra if candidate.control != ROBUST else {})
        else:
            asked = thresholded(model, threshold_of(candidate, inside, fold.measured, training, extra))
        row[:] = [finite_score(n, s, asked, X_test, y_test, weight) for n, s in training.scorers.items()]
    return scores


def weights_of(
    candidates: Sequence[Candidate], samples: Samples, measured: Measured | None, rescaling: Rescaling
) -> FloatArray:
    """Weights of the candidates, ``(n_candidates, n_samples)``, the caller's own multiplied in."""
    weights = np.ones((len(candidates), len(samples)))
    weighted = [i for i, c in enumerate(candidates) if c.measure is not None and c.n_neighbors is not None]
    if weighted and measured is not None:
        keys = list(dict.fromkeys((candidates[i].measure, candidates[i].n_neighbors) for i in weighted))
        place = {key: number for number, key in enumerate(keys)}
        pairs = [
            (place[candidates[i].measure, candidates[i].n_neighbors], candidates[i].weight_ratio) for i in weighted
        ]
        variations = [measured.variation[key] for key in keys]  # type: ignore[index]
        weights[weighted] = rescale_pairs(variations, pairs, rescaling)
    own = samples.sample_weight
    for number, candidate in enumerate(candidates):
        if candidate.control == BALANCED:
            weights[number] = balancing(samples.labels, np.ones(len(samples)) if own is None else own)
    return weights if own is None else weights * own


def threshold_of(
    candidate: Candidate, samples: Samples, measured: Measured | None, training: Training, params: Mapping[str, Any]
) -> float:
    """Tuned threshold of a candidate; predictions that a measure asked for are used again."""
    predicted = measured.predicted if measured is not None and not candidate.params else None
    if predicted is None:
        predicted = cross_fitted(
            training.model(candidate),
            samples.X,
            samples.y,
            samples.labels,
            sample_weight=samples.sample_weight,
            groups=samples.groups,
            params=params,
        )
    return tuned_threshold(samples, predicted[:, 1], *next(iter(training.scorers.items())))


def default_measures(estimator: Any, samples: Samples) -> tuple[str, ...]:
    """Return the measures to try: what gained most on development tables, if the estimator can answer."""
    if not is_classifier(estimator):
        return ("variance", "misfit")
    one_class_each = samples.labels.codes is not None
    return ("misfit", "border") if one_class_each and hasattr(estimator, "predict_proba") else ("misfit",)


def default_sizes(estimator: Any) -> tuple[int, ...]:
    """Return the values of k to try: borders between classes blur over many neighbours, numbers less so."""
    return (1, 5) if is_classifier(estimator) else (1, 5, 20)


def sizes_for(measure: Measure, sizes: Sequence[int]) -> list[int]:
    """Return the k that make sense for a measure; one at least."""
    fitting = [k for k in sizes if k >= measure.smallest_k] or [max(sizes)]
    return list(dict.fromkeys(measure.check_k(k) for k in fitting))


def values_of(given: Any, name: str) -> list[Any]:
    """One value or several, as a list."""
    several = isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)
    values = list(given) if several and getattr(given, "ndim", 1) != 0 else [given]
    if not values:
        raise InputError(f"{name} is empty; need at least one value; leave it out for the default")
    return values


def check_settings(estimator: Any, param_grid: Any) -> list[dict[str, Any]]:
    """Return every combination of the estimator's parameters that is to be tried."""
    if param_grid is None:
        return [{}]
    try:
        settings = list(ParameterGrid(param_grid))
        for setting in settings:
            clone(estimator).set_params(**setting)
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"param_grid={param_grid!r} does not fit {type(estimator).__name__} ({one_line(error)}); need a mapping "
            "from its parameters to lists of values"
        ) from error
    if not settings:
        raise InputError("param_grid is empty; need at least one setting; leave it out for none")
    return settings
