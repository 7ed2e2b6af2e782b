"""The figures the paper reports, and the intervals they need.

    L2 = E‖f − f_θ‖²      L∞ = max |f − f_θ|      Z = g_{θ_BS} − g_{θ_TBS}
    AEG = E[Z 1{Z>0}]     AEL = E[−Z 1{Z<0}]

AEL is ≤ 0 by the paper's formula but printed positive; ours is the printed sign (docs/errata.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from steep._validation import FloatArray, check_real, check_vector, count_values
from steep.exceptions import InputError


@dataclass(frozen=True)
class Interval:
    """A mean and its two-sided confidence interval from ``n`` values."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def half_width(self) -> float:
        """The ± of ``mean ± half_width``."""
        return (self.high - self.low) / 2

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies wholly on one side of zero."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.half_width:.2g}"


@dataclass(frozen=True)
class Summary:
    """Best, mean and standard error over repeats, as in Table 3."""

    best: float
    mean: float
    se: float

    def __str__(self) -> str:
        return f"{self.best:.4g}, {self.mean:.4g} ± {self.se:.2g}"


def l2_error(y_true: Any, y_pred: Any) -> float:
    """Mean squared error; several outputs are summed, as in E‖f − f_θ‖²."""
    return float((_difference(y_true, y_pred) ** 2).sum(axis=1).mean())


def linf_error(y_true: Any, y_pred: Any) -> float:
    """Largest absolute error over points and outputs."""
    return float(np.abs(_difference(y_true, y_pred)).max())


def worst_decile_error(y_true: Any, y_pred: Any) -> float:
    """Mean absolute error of the tenth of the samples that are predicted worst."""
    errors = np.sort(np.abs(_difference(y_true, y_pred)).max(axis=1))
    return float(errors[-max(1, round(len(errors) / 10)) :].mean())


def average_error_gain(error_baseline: Any, error_new: Any) -> float:
    """AEG: the average of what the new model gains, counting the places where it gains."""
    return float(np.maximum(_paired_differences(error_baseline, error_new), 0).mean())


def average_error_loss(error_baseline: Any, error_new: Any) -> float:
    """AEL: the average of what the new model loses, counting the places where it loses; ≥ 0."""
    return float(np.maximum(-_paired_differences(error_baseline, error_new), 0).mean())


def gain_per_model(baseline: Any, improved: Any) -> FloatArray:
    """Gain of each network over its own start: the best of its re-trainings minus its baseline.

    Parameters
    ----------
    baseline : array-like of shape (n_models,)
        Score of each network.
    improved : array-like of shape (n_models,) or (n_models, n_repeats)
        Scores after re-training; with several repeats the best counts, as in Table 4, which is a
        choice on the very data the score is measured on. Pass one score a model for an honest gain.
    """
    start, after = _numbers(baseline, "baseline"), _numbers(improved, "improved")
    if start.ndim != 1 or after.shape[:1] != start.shape or after.ndim > 2 or not after.size:
        raise InputError(
            f"baseline has shape {start.shape} and improved {after.shape}; need (n_models,) and (n_models,) or "
            "(n_models, n_repeats)"
        )
    best: FloatArray = after.reshape(len(start), -1).max(axis=1)
    return best - start


def summarize(scores: Any, *, greater_is_better: bool = True) -> Summary:
    """Best, mean and standard error of the mean over repeats."""
    values = _sample(scores, "scores")
    best = values.max() if greater_is_better else values.min()
    return Summary(float(best), float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size)))


def mean_interval(scores: Any, *, confidence: float = 0.95) -> Interval:
    """Mean over repeats with Student's confidence interval.

    Examples
    --------
    >>> print(mean_interval([1.0, 2.0, 3.0]))
    2 ± 2.5
    """
    values = _sample(scores, "scores")
    confidence = check_real(confidence, name="confidence", above=0.0, maximum=1 - 1e-12)
    mean = float(values.mean())
    standard_error = float(values.std(ddof=1) / np.sqrt(values.size))
    half = float(stats.t.ppf((1 + confidence) / 2, values.size - 1)) * standard_error
    return Interval(mean, mean - half, mean + half, values.size)


def paired_interval(baseline: Any, new: Any, *, confidence: float = 0.95) -> Interval:
    """Interval of the mean difference ``new − baseline`` over paired repeats (same seed, same split)."""
    first, second = _sample(baseline, "baseline"), _sample(new, "new")
    if first.size != second.size:
        raise InputError(
            f"baseline has {first.size} scores and new {second.size}; need pairs, one of each per repeat"
        )
    return mean_interval(second - first, confidence=confidence)


def _numbers(values: Any, name: str) -> FloatArray:
    """Finite numbers of any shape."""
    n_values = count_values(values, name=name)
    return check_vector(np.ravel(values), name=name, n_samples=n_values).reshape(np.shape(values))


def _sample(scores: Any, name: str) -> FloatArray:
    values = check_vector(scores, name=name, n_samples=count_values(scores, name=name))
    if values.size < 2:
        raise InputError(f"{name} has {values.size} value; need at least 2 repeats for an interval; run more")
    return values


def _difference(y_true: Any, y_pred: Any) -> FloatArray:
    true, predicted = _numbers(y_true, "y_true"), _numbers(y_pred, "y_pred")
    if true.shape != predicted.shape or true.ndim not in (1, 2) or not true.size:
        raise InputError(
            f"y_true has shape {true.shape} and y_pred {predicted.shape}; need the same (n_samples,) or "
            "(n_samples, n_outputs)"
        )
    difference: FloatArray = (true - predicted).reshape(len(true), -1)
    if not np.isfinite(difference).all():
        raise InputError(
            "y_true or y_pred contains NaN or infinity; need finite values; look for a diverged model"
        )
    return difference


def _paired_differences(error_baseline: Any, error_new: Any) -> FloatArray:
    n = count_values(error_baseline, name="error_baseline")
    baseline = check_vector(error_baseline, name="error_baseline", n_samples=n)
    return baseline - check_vector(error_new, name="error_new", n_samples=n)
