"""A look at the data before any training: what would weights do here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from steep._validation import FloatArray
from steep.labels import Task, one_hot
from steep.measures.label_measures import contradiction, noise
from steep.measures.neighborhood import Neighborhood
from steep.measures.variance import variance
from steep.rescaling import rescale
from steep.weighting.embedding import embed

# Below this share of mixed neighbourhoods weights touch too few samples to matter.
_FEW_MIXED = 0.05
# Below this share of effective samples the ratio costs more precision than it can give back.
_FEW_EFFECTIVE = 0.25
# Above this share of unexplained variation the heavy samples are mostly noisy ones.
_MOSTLY_NOISE = 0.7


@dataclass(frozen=True)
class WeightingReport:
    """What :func:`weighting_report` found; ``print`` it.

    Attributes
    ----------
    n_samples : int
        Samples looked at.
    effective_samples : float
        (Σw)²/Σw², how many equally weighted samples the weighted ones are worth.
    mixed_share : float
        Share of samples whose neighbours' labels differ at all.
    noise_share : float
        Share of the local variation that no local linear fit explains, from 0 (all slope) to 1.
    label_noise : float
        Share of classes that nearly all neighbours contradict; for numbers, the local residual spread
        as a share of the labels' spread.
    separability : float
        Accuracy, or R² for numbers, of predicting each label from its neighbours' alone.
    suggestion : str
        What these suggest to try.
    """

    n_samples: int
    effective_samples: float
    mixed_share: float
    noise_share: float
    label_noise: float
    separability: float
    suggestion: str

    def __str__(self) -> str:
        share = self.effective_samples / self.n_samples
        return "\n".join(
            [
                f"effective samples      {self.effective_samples:.0f} of {self.n_samples} ({share:.0%})",
                f"mixed neighbourhoods   {self.mixed_share:.1%}",
                f"noise in the variation {self.noise_share:.0%}",
                f"label noise            {self.label_noise:.1%}",
                f"separability           {self.separability:.3f}",
                self.suggestion,
            ]
        )


def weighting_report(
    X: Any,
    y: Any,
    *,
    n_neighbors: int = 20,
    weight_ratio: float = 40.0,
    embedding: Any = "standard",
    task: Task = "auto",
    n_jobs: int | None = None,
) -> WeightingReport:
    """Look at labelled samples before any training and suggest which weights are worth a try.

    Parameters
    ----------
    X, y, n_neighbors, weight_ratio, embedding, task, n_jobs
        See :func:`sample_weights`.

    Returns
    -------
    WeightingReport

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> print(weighting_report(*load_wine(return_X_y=True)))
    effective samples      70 of 178 (39%)
    ...
    """
    around = Neighborhood.of(embed(X, embedding), y, n_neighbors=n_neighbors, task=task, n_jobs=n_jobs)
    total, unexplained = variance(around), noise(around)
    weights = rescale(total, weight_ratio=weight_ratio)
    errors = contradiction(around)
    figures = {
        "effective_samples": float(weights.sum() ** 2 / (weights**2).sum()),
        "mixed_share": float(np.mean(total > 1e-12 * max(float(total.max()), 1e-300))),
        "noise_share": float(unexplained.sum() / total.sum()) if total.any() else 0.0,
        "label_noise": _label_noise(around, errors, unexplained),
        "separability": _separability(around, errors),
    }
    return WeightingReport(
        n_samples=len(weights), suggestion=_suggest(len(weights), weight_ratio, **figures), **figures
    )


def _label_noise(around: Neighborhood, errors: FloatArray, unexplained: FloatArray) -> float:
    if around.labels.codes is not None:
        # ‖one-hot − mean of the others‖² is 2 when all others agree on another class; 0.8² + 0.8² = 1.28
        # when four in five do.
        return float(np.mean(errors >= 1.28))
    spread = float(around.labels.array.var(axis=0).sum())
    return float(np.sqrt(unexplained.mean() / spread)) if spread > 0 else 0.0


def _separability(around: Neighborhood, errors: FloatArray) -> float:
    """Leave-one-out accuracy of the majority of the neighbours, or leave-one-out R² of their mean."""
    if around.labels.codes is None:
        spread = float(around.labels.array.var(axis=0).sum())
        return float(1 - errors.mean() / spread) if spread > 0 else 1.0
    columns = one_hot(around.labels)
    votes = np.stack([columns[row[1:]].sum(axis=0) for row in around.indices])
    return float(np.mean(votes.argmax(axis=1) == around.labels.codes))


def _suggest(n_samples: int, weight_ratio: float, **figures: float) -> str:
    if figures["mixed_share"] < _FEW_MIXED:
        return (
            "Hardly any neighbourhood is mixed: weights touch few samples, equal weights are a safe choice."
        )
    if figures["noise_share"] > _MOSTLY_NOISE:
        return (
            "Most of the variation is noise: heavy samples would be noisy ones. Try ratios below 1, and "
            "let VarianceWeightedCV decide."
        )
    if figures["effective_samples"] < _FEW_EFFECTIVE * n_samples:
        return (
            f"weight_ratio={weight_ratio:g} leaves {figures['effective_samples']:.0f} effective samples of "
            f"{n_samples}: try a smaller ratio, and let VarianceWeightedCV decide."
        )
    return "Much of the variation is slope: ratios above 1 are worth a try. Let VarianceWeightedCV decide."
