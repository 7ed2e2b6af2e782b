"""What a weighting search tries: its controls, the weightings it proposes, and their scores on one fold.

A *control* is what anybody would try before weighting by variation: equal weights, and for scores that count
rare classes as much as frequent ones also weights that balance the classes, or a decision threshold tuned on
cross-fitted probabilities. A weighting has to beat them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier

from steep._sklearn import take_rows
from steep._validation import FloatArray, IntArray, check_count
from steep.exceptions import InputError, MissingExtraError
from steep.labels import Labels
from steep.measures import Measure
from steep.metrics import Scorer
from steep.neighbors.folds import SharedGraph
from steep.rescaling import rescale
from steep.weighting.cross_fitting import cross_fitted
from steep.weighting.weights import Measured, Samples, measure_samples
from steep.weighting.wrapping import fit_weighted, params_of_rows

EQUAL, BALANCED, THRESHOLD = "equal weights", "balanced class weights", "tuned threshold"

# Thresholds tried: enough that the best of a few thousand probabilities is not missed by much.
_N_THRESHOLDS = 100


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
        return max(k for sizes in self.sizes.values() for k in sizes)

    def controls_of(self, params: Mapping[str, Any]) -> list[Candidate]:
        """The controls of one setting; a tuned threshold follows the equal weights whose fit it uses."""
        order = [name for name in (EQUAL, THRESHOLD, BALANCED) if name in self.controls]
        return [Candidate(params=params, control=name) for name in order]

    def grid(self) -> list[Candidate]:
        """Every combination, the controls of each setting before its weightings."""
        # From ratios near 1 outwards, so that a warm start has the least way to go.
        ratios = sorted({r for r in self.ratios if r != 1}, key=lambda r: abs(np.log(r)))
        candidates: list[Candidate] = []
        for params in self.settings:
            candidates += self.controls_of(params)
            candidates += [
                Candidate(m, k, r, params) for m, sizes in self.sizes.items() for k in sizes for r in ratios
            ]
        return candidates


def propose(
    score: Callable[[Sequence[Candidate], str], FloatArray],
    menu: Menu,
    n_trials: int,
    generator: np.random.Generator,
) -> tuple[list[Candidate], FloatArray]:
    """Score the controls, then what Optuna proposes from the gains so far.

    Returns
    -------
    candidates, scores : list of Candidate, ndarray of shape (n_candidates, n_folds, n_scorers)
    """
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("search='optuna' needs Optuna; pip install 'steep[search]'") from error
    candidates = [control for params in menu.settings for control in menu.controls_of(params)]
    scores = [score(candidates, "controls")]
    best_control = scores[0][:, :, 0].mean(axis=1).max()
    sampler = optuna.samplers.TPESampler(seed=int(generator.integers(2**31 - 1)))
    quiet, before = optuna.logging.WARNING, optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(quiet)
    try:
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for number in range(check_count(n_trials, name="n_trials")):
            trial = study.ask()
            candidates.append(_suggested(trial, menu))
            scores.append(score(candidates[-1:], f"trial {number + 1} of {n_trials}, folds"))
            study.tell(trial, float(scores[-1][0, :, 0].mean() - best_control))
    finally:
        optuna.logging.set_verbosity(before)
    return candidates, np.concatenate(scores)


def _suggested(trial: Any, menu: Menu) -> Candidate:
    measures = list(menu.sizes)
    measure = measures[trial.suggest_categorical("measure", list(range(len(measures))))]
    every = [k for sizes in menu.sizes.values() for k in sizes]
    size = trial.suggest_int("n_neighbors", min(every), max(every))
    sizes = menu.sizes[measure]
    return Candidate(
        measure=measure,
        n_neighbors=min(max(size, min(sizes)), max(sizes)),
        weight_ratio=trial.suggest_float("weight_ratio", min(menu.ratios), max(menu.ratios), log=True),
        params=menu.settings[trial.suggest_categorical("setting", list(range(len(menu.settings))))],
    )


@dataclass(frozen=True)
class Training:
    """What every fit of a search shares."""

    estimator: Any
    params: Mapping[str, Any]
    scorers: Mapping[str, Scorer]
    rescaling: Mapping[str, Any]

    def model(self, candidate: Candidate) -> Any:
        """A fresh estimator with the candidate's parameters."""
        return clone(self.estimator).set_params(**candidate.params)


@dataclass(frozen=True)
class Fold:
    """Rows of a split, and what was measured on its training rows."""

    train: npt.NDArray[np.intp]
    test: npt.NDArray[np.intp]
    measured: Measured


def prepare_fold(
    samples: Samples,
    train: npt.NDArray[np.intp],
    test: npt.NDArray[np.intp],
    *,
    training: Training,
    menu: Menu,
    graph: SharedGraph | None,
) -> Fold:
    """Measure the training rows, and nothing but them."""

    def known(points: FloatArray) -> IntArray | None:
        return None if graph is None else graph.within(train, points, menu.largest_size)

    measured = measure_samples(
        samples.rows(train),
        menu.sizes,
        estimator=training.estimator,
        params=params_of_rows(training.params, train, len(samples)),
        neighbors=known,
    )
    return Fold(train, test, measured)


def score_fold(
    fold: Fold, candidates: Sequence[Candidate], *, samples: Samples, training: Training
) -> FloatArray:
    """Fit each candidate on the training rows and score it on the others, ``(n_candidates, n_scorers)``."""
    inside = samples.rows(fold.train)
    X_test, y_test = take_rows(samples.X, fold.test), take_rows(samples.y, fold.test)
    own = samples.sample_weight
    weight = {} if own is None else {"sample_weight": own[fold.test]}
    extra = params_of_rows(training.params, fold.train, len(samples))
    # An estimator set to warm_start resumes from its last solution; any other starts anew each time.
    reuse = bool(getattr(training.estimator, "warm_start", False))
    scores = np.empty((len(candidates), len(training.scorers)))
    model, last = None, None
    for row, candidate in zip(scores, candidates, strict=True):
        if candidate.control != THRESHOLD:
            if not reuse or last is None or dict(last.params) != dict(candidate.params):
                model = training.model(candidate)
            weights = candidate_weights(candidate, inside, fold.measured, training.rescaling)
            fit_weighted(model, inside.X, inside.y, weights, extra)
            asked, last = model, candidate
        else:
            asked = thresholded(model, tuned_threshold(candidate, inside, fold.measured, training, extra))
        row[:] = [_score(s, asked, X_test, y_test, weight, n) for n, s in training.scorers.items()]
    return scores


def _score(scorer: Scorer, model: Any, X: Any, y: Any, weight: Mapping[str, Any], name: str) -> float:
    try:
        value = float(scorer(model, X, y, **weight))
    except TypeError as error:
        if weight and "sample_weight" in str(error):
            raise InputError(
                f"scoring={name!r} takes no sample_weight, and one was given to fit; leave it out, or use another score"
            ) from error
        raise
    if not np.isfinite(value):
        raise InputError(
            f"scoring={name!r} is {value} on a fold of {len(y)} samples; need a finite score on every fold; use fewer "
            "folds, stratified ones, or another score"
        )
    return value


def candidate_weights(
    candidate: Candidate, samples: Samples, measured: Measured | None, rescaling: Mapping[str, Any]
) -> FloatArray:
    """Weights of a candidate, the caller's own multiplied in; exactly one each for equal weights."""
    own = np.ones(len(samples)) if samples.sample_weight is None else samples.sample_weight
    if candidate.measure is not None and candidate.n_neighbors is not None and measured is not None:
        variation = measured.variation[candidate.measure, candidate.n_neighbors]
        return own * rescale(variation, weight_ratio=candidate.weight_ratio, **rescaling)
    return own * balancing(samples.labels, own) if candidate.control == BALANCED else own


def balancing(labels: Labels, own: FloatArray) -> FloatArray:
    """Weights under which every class counts the same, as ``class_weight="balanced"`` does for own weights of one."""
    codes = np.asarray(labels.codes)
    totals = np.bincount(codes, weights=own, minlength=labels.n_columns)
    present = totals > 0
    share = np.divide(totals.sum() / present.sum(), totals, out=np.zeros_like(totals), where=present)
    return np.asarray(share[codes])


def tuned_threshold(
    candidate: Candidate,
    samples: Samples,
    measured: Measured | None,
    training: Training,
    params: Mapping[str, Any],
) -> float:
    """Threshold of the second class's probability with the best deciding score on cross-fitted predictions."""
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
    probability = predicted[:, 1]
    weight = {} if samples.sample_weight is None else {"sample_weight": samples.sample_weight}
    name, scorer = next(iter(training.scorers.items()))
    steps = _thresholds(probability)
    scores = [
        _score(scorer, _Answers(samples.labels, probability >= t), samples.X, samples.y, weight, name)
        for t in steps
    ]
    return float(steps[int(np.argmax(scores))])


def _thresholds(probability: FloatArray) -> FloatArray:
    """Half-way between probabilities met, and 1/2; nearest to 1/2 first, so that it wins where scores are equal."""
    values = np.unique(np.quantile(probability, np.linspace(0, 1, _N_THRESHOLDS), method="nearest"))
    steps = np.append((values[1:] + values[:-1]) / 2, 0.5)
    return np.asarray(steps[np.argsort(np.abs(steps - 0.5), kind="stable")])


class _Answers(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose predictions are known, so that any scorer can be asked about them."""

    def __init__(self, labels: Labels, is_second: npt.NDArray[np.bool_]) -> None:
        self.labels = labels
        self.is_second = is_second

    @property
    def classes_(self) -> Any:
        return self.labels.classes

    def predict(self, X: Any) -> Any:
        """The known predictions, whatever ``X`` is."""
        return np.asarray(self.labels.classes)[self.is_second.astype(int)]


def thresholded(model: Any, threshold: float) -> Any:
    """A fitted classifier that predicts its second class from ``threshold`` on."""
    return FixedThresholdClassifier(
        FrozenEstimator(model), threshold=threshold, response_method="predict_proba"
    )
