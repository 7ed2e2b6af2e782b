"""The figures the paper reports.

    L2 = E‖f − f_θ‖²      L∞ = max |f − f_θ|      Z = g_{θ_BS} − g_{θ_TBS}
    AEG = E[Z 1{Z>0}]     AEL = E[−Z 1{Z<0}]

AEL is ≤ 0 by the paper's formula but printed positive; ours is the printed sign (docs/errata.md).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from steep._validation import FloatArray, check_vector
from steep.metrics import difference, linf_error


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
    return float((difference(y_true, y_pred) ** 2).sum(axis=1).mean())


def errors(truth: FloatArray, outputs: FloatArray) -> dict[str, float]:
    """Both readings of L2 and L∞: mean (over outputs too, as in Keras) and largest squared error, and their roots."""
    mse, largest = l2_error(truth, outputs) / (truth.shape[1] if truth.ndim > 1 else 1), linf_error(truth, outputs)
    return {"mse": mse, "max_squared": largest**2, "l2": float(np.sqrt(mse)), "linf": largest}


def average_error_gain(error_baseline: Any, error_new: Any) -> float:
    """AEG: the average of what the new model gains, counting the places where it gains."""
    return float(np.maximum(_paired_differences(error_baseline, error_new), 0).mean())


def average_error_loss(error_baseline: Any, error_new: Any) -> float:
    """AEL: the average of what the new model loses, counting the places where it loses; ≥ 0."""
    return float(np.maximum(-_paired_differences(error_baseline, error_new), 0).mean())


def gain_per_model(baseline: Any, improved: Any) -> FloatArray:
    """Gain of each network over its own start; of several re-trainings, (n_models, n_repeats), the best counts."""
    return np.asarray(np.reshape(improved, (len(baseline), -1)).max(axis=1) - np.asarray(baseline))


def summarize(scores: Any, *, greater_is_better: bool = True) -> Summary:
    """Best, mean and standard error of the mean over repeats."""
    values = np.asarray(scores, dtype=np.float64)
    best = values.max() if greater_is_better else values.min()
    return Summary(float(best), float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size)))


def _paired_differences(error_baseline: Any, error_new: Any) -> FloatArray:
    baseline = check_vector(error_baseline, name="error_baseline")
    return baseline - check_vector(error_new, name="error_new", n_samples=len(baseline))
