"""A look at the data before any search: how much weights would change, and how hard the labels are to predict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from steep._html import card
from steep._validation import FloatArray
from steep.labels import Labels, Task, one_hot, warn_of_float_classes
from steep.measures import MEASURES, Neighborhood
from steep.measures.label_measures import contradiction, noise
from steep.measures.variance import variance
from steep.rescaling import WEIGHT_RATIO, effective_samples, rescale
from steep.weighting.candidates import default_measures
from steep.weighting.cross_fitting import cross_fitted
from steep.weighting.weights import Samples
from steep.weighting.wrapping import require_sample_weight, task_of

# Below this share of mixed neighbourhoods the variance of labels touches too few samples to matter.
_FEW_MIXED = 0.05
# Below this share of effective samples a ratio costs much precision.
_FEW_EFFECTIVE = 0.25

# Votes counted at once, to bound the (rows, k, classes) block in memory.
_BLOCK = 4_000_000


@dataclass(frozen=True)
class WeightingReport:
    """What :func:`weighting_report` found; ``print`` it.

    Attributes
    ----------
    n_samples : int
        Samples looked at.
    effective_samples : float
        (Σw)²/Σw² of the first measure: how many equally weighted samples the weighted ones are worth.
    effective_by_measure : dict
        The same for every measure.
    mixed_share : float
        Share of samples whose neighbours' labels differ at all.
    noise_share : float
        Share of the local variation that no local linear fit explains, from 0 (all slope) to 1.
    label_noise : float
        Share of classes that nearly all neighbours contradict; for numbers, the local residual spread
        as a share of the labels' spread.
    separability : float
        Accuracy, or R² for numbers, of predicting each label from its neighbours' alone.
    model_score : float or None
        The same for the estimator's cross-fitted predictions, when one was given.
    chance_level : float
        The same for somebody who does not look at the sample: the share of the largest class, or 0.
    suggestion : str
        What to run.
    """

    n_samples: int
    effective_samples: float
    mixed_share: float
    noise_share: float
    label_noise: float
    separability: float
    chance_level: float
    suggestion: str
    model_score: float | None = None
    effective_by_measure: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [
            f"effective samples      {value:.0f} of {self.n_samples} ({value / self.n_samples:.0%}) by {name}"
            for name, value in self.effective_by_measure.items()
        ]
        lines += [
            f"mixed neighbourhoods   {self.mixed_share:.1%}",
            f"noise in the variation {self.noise_share:.0%}",
            f"label noise            {self.label_noise:.1%}",
            f"separability           {self.separability:.3f} by neighbours, {self.chance_level:.3f} by chance",
        ]
        if self.model_score is not None:
            lines[-1] += f", {self.model_score:.3f} by the model"
        return "\n".join([*lines, self.suggestion])

    def _repr_html_(self) -> str:
        figures: dict[str, Any] = {
            f"effective samples by {name}": value for name, value in self.effective_by_measure.items()
        }
        figures |= {
            "samples": self.n_samples,
            "mixed neighbourhoods": f"{self.mixed_share:.1%}",
            "noise in the variation": f"{self.noise_share:.0%}",
            "label noise": f"{self.label_noise:.1%}",
            "separability by neighbours": self.separability,
            "by chance": self.chance_level,
        }
        if self.model_score is not None:
            figures["by the model"] = self.model_score
        return card("Before weighting", self.suggestion, figures)


def weighting_report(
    X: Any,
    y: Any,
    *,
    estimator: Any = None,
    n_neighbors: int = 20,
    weight_ratio: float = WEIGHT_RATIO,
    embedding: Any = "auto",
    task: Task = "auto",
    n_jobs: int | None = None,
) -> WeightingReport:
    """Look at labelled samples before a search: what weights would do, and how hard the labels are to predict.

    Which ratio helps, above 1 or below, cannot be told from the data alone: it depends on the model and on the
    score. :class:`VarianceWeightedCV` finds out.

    Parameters
    ----------
    X, y : array-like
        See :func:`sample_weights`.
    estimator : estimator, optional
        The model that is to be trained. The report then looks at the measures that
        :class:`VarianceWeightedCV` would try for it, which needs five fits; else at "variance".
    n_neighbors, weight_ratio, embedding, task, n_jobs
        See :func:`sample_weights`.

    Returns
    -------
    WeightingReport

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> print(weighting_report(*load_wine(return_X_y=True), weight_ratio=40))
    effective samples      70 of 178 (39%) by variance
    ...
    separability           0.972 by neighbours, 0.399 by chance
    To learn whether weights help, run VarianceWeightedCV(estimator, scoring=...).fit(X, y).
    """
    if estimator is not None:
        require_sample_weight(estimator)
        task = task_of(estimator) if task == "auto" else task
    size = MEASURES["slope"].check_k(n_neighbors)
    samples = Samples.check(X, y, embedding=embedding, task=task, estimator=estimator)
    warn_of_float_classes(samples.labels, task, fewest=2)
    names = ("variance",) if estimator is None else default_measures(estimator, samples)
    predicted = None
    if any(MEASURES[name].needs == "model" for name in names):
        predicted = cross_fitted(estimator, samples.X, samples.y, samples.labels)
    points = samples.space.points()
    found = Neighborhood.search(points, samples.labels, n_neighbors=size, n_jobs=n_jobs)
    around = Neighborhood(points, samples.labels, found.indices, predicted=predicted)
    effective = {
        name: effective_samples(rescale(MEASURES[name].variation(around), weight_ratio=weight_ratio)) for name in names
    }
    return _report(around, effective, weight_ratio)


def _report(around: Neighborhood, effective: dict[str, float], weight_ratio: float) -> WeightingReport:
    labels = around.labels
    total, unexplained, errors = variance(around), noise(around), contradiction(around)
    # Rounding of equal labels is no mixture.
    mixed_share = float(np.mean(total > 1e-12 * max(float(total.max()), 1e-300)))
    smallest = min(effective, key=lambda name: effective[name])
    return WeightingReport(
        n_samples=len(labels),
        effective_samples=next(iter(effective.values())),
        mixed_share=mixed_share,
        noise_share=float(unexplained.sum() / total.sum()) if total.any() else 0.0,
        label_noise=_label_noise(labels, errors, unexplained),
        separability=_score(labels, _foretold(around)),
        chance_level=_chance(labels),
        suggestion=_suggest(len(labels), weight_ratio, mixed_share, smallest, effective[smallest]),
        model_score=None if around.predicted is None else _score(labels, around.predicted),
        effective_by_measure=effective,
    )


def _label_noise(labels: Labels, errors: FloatArray, unexplained: FloatArray) -> float:
    if labels.codes is not None:
        # ‖one-hot − mean of the others‖² is 2 when all others agree on another class; 0.8² + 0.8² = 1.28
        # when four in five do.
        return float(np.mean(errors >= 1.28))
    spread = float(labels.array.var(axis=0).sum())
    return float(np.sqrt(unexplained.mean() / spread)) if spread > 0 else 0.0


def _foretold(around: Neighborhood) -> FloatArray:
    """Mean of the other neighbours' labels, one column a class or an output."""
    columns = one_hot(around.labels)
    others = around.indices[:, 1:]
    means = np.empty(columns.shape)
    step = max(1, _BLOCK // (others.shape[1] * columns.shape[1]))
    for start in range(0, len(means), step):
        means[start : start + step] = columns[others[start : start + step]].mean(axis=1)
    return means


def _score(labels: Labels, predicted: FloatArray) -> float:
    """Accuracy of the most likely class, or R² over all outputs."""
    if labels.codes is not None:
        return float(np.mean(predicted.argmax(axis=1) == labels.codes))
    spread = float(labels.array.var(axis=0).sum())
    errors = float(((labels.array - predicted) ** 2).sum(axis=1).mean())
    return 1 - errors / spread if spread > 0 else 1.0


def _chance(labels: Labels) -> float:
    """Share of the largest class; 0, the R² of the mean, for numbers."""
    return 0.0 if labels.codes is None else float(np.bincount(labels.codes).max() / len(labels))


def _suggest(n_samples: int, weight_ratio: float, mixed_share: float, smallest: str, effective: float) -> str:
    run = "To learn whether weights help, run VarianceWeightedCV(estimator, scoring=...).fit(X, y)."
    if mixed_share < _FEW_MIXED:
        return f"Hardly any neighbourhood is mixed: the variance of labels changes few weights. {run}"
    if effective < _FEW_EFFECTIVE * n_samples:
        return (
            f"weight_ratio={weight_ratio:g} by {smallest} leaves {effective:.0f} effective samples of {n_samples}: a "
            f"ratio nearer to 1 keeps more. {run}"
        )
    return run
