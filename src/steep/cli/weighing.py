"""What ``steep weigh`` computes: weights of a given ratio, or those that held-out folds choose."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from steep._validation import FloatArray, IntArray, one_line
from steep.cli.models import Model, ready
from steep.cli.printing import note, stage
from steep.cli.reading import Samples
from steep.cli.wording import shell_words
from steep.exceptions import InputError, SteepError
from steep.measures import resolve
from steep.rescaling import effective_samples, rescale
from steep.weighting import VarianceWeightedCV, sample_weights
from steep.weighting.cross_fitting import N_PARTS, deal
from steep.weighting.search import CLIPPED
from steep.weighting.weights import Samples as CheckedSamples
from steep.weighting.weights import measure_samples

# Scores of the class that is labelled 1; each has a mean over all classes, called …_macro.
_ONE_CLASS = ("f1", "jaccard", "precision", "recall")


@dataclass(frozen=True)
class Weighing:
    """Weights, and what they were made from.

    Attributes
    ----------
    weights : ndarray of shape (n_samples,)
        One for each row that has a label.
    figures : dict
        What was done, for ``--json``.
    verdict : Verdict or None
        What the evidence says, and which model it comes from.
    """

    weights: FloatArray
    figures: dict[str, Any] = field(default_factory=dict)
    verdict: Any = None

    @property
    def effective(self) -> float:
        """How many equal weights these are worth."""
        return effective_samples(self.weights)


def weigh_by_ratio(
    samples: Samples, *, n_neighbors: int | None, weight_ratio: float, measure: str | None, jobs: int
) -> Weighing:
    """The weights of :func:`sample_weights` for one m; k and the measure are its defaults if the user names none."""
    usual = signature(sample_weights).parameters
    how: dict[str, Any] = {
        "measure": usual["measure"].default if measure is None else measure,
        "n_neighbors": usual["n_neighbors"].default if n_neighbors is None else n_neighbors,
        "weight_ratio": weight_ratio,
    }
    with stage(f"comparing {len(samples):,} rows with their neighbours", len(samples)), shell_words():
        weights = sample_weights(samples.X, samples.target.values, task=samples.target.task, n_jobs=jobs, **how)
    return Weighing(weights, how)


def weigh_by_evidence(
    samples: Samples,
    model: Model,
    *,
    scoring: str | None = None,
    n_neighbors: int | None = None,
    measure: str | None = None,
    most_rows: int | None = None,
    jobs: int = -1,
) -> Weighing:
    """Weights that held-out folds of a model choose; in a large table some rows decide for all."""
    if n_neighbors is not None and n_neighbors < 1:
        raise InputError(f"-k {n_neighbors} is too small; expected at least 1; raise it")
    X, y = ready(samples.X, samples.features), samples.target.values
    rows = _deciding_rows(len(samples), most_rows or model.rows)
    search = VarianceWeightedCV(
        model.estimator, scoring=scoring, random_state=0, measure=measure,
        n_jobs=None if model.option == "linear" else jobs, n_neighbors=None if n_neighbors is None else (n_neighbors,),
    )  # fmt: skip
    n_deciding = len(samples) if rows is None else len(rows)
    if rows is not None:
        note(f"{n_deciding:,} of {len(samples):,} rows, drawn at random, decide for all; --rows N takes another number")
    with stage(f"trying weightings with {model.name} on {n_deciding:,} rows", len(samples)), shell_words():
        _fit(search, _taken(X, rows), _taken(y, rows), _taken(samples.groups, rows), model)
    interval = search.gain_interval_
    figures = {
        "model": model.option, "decided_with": model.name, "chosen": search.best_params_, "gain": search.gain_,
        "gain_interval": [interval.low, interval.high], "verdict": str(search.verdict_), "deciding_rows": n_deciding,
    }  # fmt: skip
    if rows is None:
        weights = np.asarray(search.sample_weight_)
    else:
        with stage(f"weighting {len(samples):,} rows", len(samples)), shell_words():
            weights = _applied(search, samples, X, rows, jobs)
    verdict = replace(search.verdict_, sentence=f"{search.verdict_} {model.sentence}")
    return Weighing(weights, figures, verdict)


def _fit(search: VarianceWeightedCV, X: Any, y: Any, groups: Any, model: Model) -> None:
    """Let the folds decide; what a model or a score cannot do is said in one line."""
    try:
        search.fit(X, y, groups=groups)
    except SteepError:
        raise
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        if search.scoring in _ONE_CLASS and is_classifier(search.estimator) and not _is_binary(y):
            raise InputError(
                f"--scoring {search.scoring} does not work with {model.name} and this target (it expects two classes, "
                f"one of them labelled 1); try --scoring {search.scoring}_macro"
            ) from error
        if search.scoring is not None:
            raise InputError(
                f"--scoring {search.scoring} does not work with {model.name} and this target ({one_line(error)}); "
                "choose another score"
            ) from error
        raise InputError(
            f"{model.name} cannot be fitted to this table ({one_line(error)}); check its columns, or choose another "
            "--model"
        ) from error


def _is_binary(y: Any) -> bool:
    """Whether there are two classes and 1 is one of them."""
    classes = set(np.asarray(y).tolist())
    return len(classes) == 2 and 1 in classes


def _deciding_rows(n_rows: int, most_rows: int) -> IntArray | None:
    """Rows the evidence is taken from; None for all."""
    if n_rows <= most_rows:
        return None
    return np.sort(np.random.default_rng(0).choice(n_rows, most_rows, replace=False))


def _taken(values: Any, rows: IntArray | None) -> Any:
    if rows is None or values is None:
        return values
    return values.iloc[rows].reset_index(drop=True) if hasattr(values, "iloc") else values[rows]


def _applied(search: VarianceWeightedCV, samples: Samples, X: Any, rows: IntArray, jobs: int) -> FloatArray:
    """The weights of all rows, made as those of the deciding rows were; the model is fitted to deciding rows only."""
    chosen = search.best_params_
    if "measure" not in chosen:
        if chosen.get("control") != "balanced class weights":
            return np.ones(len(samples))
        from sklearn.utils.class_weight import compute_sample_weight

        return np.asarray(compute_sample_weight("balanced", samples.target.values))
    measure = resolve(chosen["measure"], use="steep weigh", feeds=("labels", "model"))
    checked = CheckedSamples.check(
        X, samples.target.values, embedding="auto", task=samples.target.task, estimator=search.estimator,
        groups=samples.groups,
    )  # fmt: skip
    predicted = _predicted(search.estimator, checked, rows) if measure.needs == "model" else None
    measured = measure_samples(
        checked, {measure: [chosen["n_neighbors"]]}, estimator=search.estimator, predicted=predicted, n_jobs=jobs
    )
    (variation,) = measured.variation.values()
    return rescale(variation, weight_ratio=chosen["weight_ratio"], rescaling=CLIPPED)


def _predicted(estimator: Any, samples: CheckedSamples, rows: IntArray) -> FloatArray:
    """Predictions for all rows, each by a fit to deciding rows of the other parts: it has not seen the row's group."""
    from sklearn.base import clone

    labels, part = samples.labels, deal(samples.labels, N_PARTS, samples.groups)
    predicted = np.zeros((len(samples), labels.n_columns))
    for number in range(N_PARTS):
        kept, asked = rows[part[rows] != number], np.flatnonzero(part == number)
        model = clone(estimator).fit(_taken(samples.X, kept), samples.y[kept])
        inputs = _taken(samples.X, asked)
        if labels.codes is None or labels.classes is None:
            predicted[asked, 0] = model.predict(inputs)
        elif hasattr(model, "predict_proba"):
            places = np.searchsorted(labels.classes, model.classes_)
            predicted[asked[:, None], places] = model.predict_proba(inputs)
        else:
            predicted[asked, np.searchsorted(labels.classes, model.predict(inputs))] = 1.0
    return predicted
