"""How reliable the probabilities of a head are: log loss, calibration error, and the temperature that corrects them.

log loss    −mean_i log p_i(y_i)
ECE         Σ_b n_b/n |share right in b − mean confidence in b|, b fifteen bins of equal width of max_c p_c
T           argmin of the log loss of z / T: above 1 the head is too sure of itself (Guo et al. 2017)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from steep._validation import FloatArray
from steep.nn.heads import HeadTask
from steep.nn.scores import classes_of, log_likelihoods

_N_BINS = 15
# Logarithms of the temperatures that are looked at.
_RANGE = (-4.0, 4.0)


def calibration_of(task: HeadTask, outputs: FloatArray, targets: npt.NDArray[Any]) -> dict[str, float]:
    """Log loss and ECE of outputs, the fitted temperature, and the log loss with it; NaN for outputs not finite.

    Examples
    --------
    >>> sure = np.log([[0.99, 0.01]] * 10)  # right in eight of ten
    >>> found = calibration_of(HeadTask("multiclass", 2), sure, np.repeat([0, 1], [8, 2]))
    >>> {name: round(value, 2) for name, value in found.items()}
    {'log loss': 0.93, 'ECE': 0.19, 'temperature': 3.31, 'log loss with it': 0.5}
    """
    names = ("log loss", "ECE", "temperature", "log loss with it")
    if not np.isfinite(outputs).all():
        return dict.fromkeys(names, np.nan)
    likelihoods = log_likelihoods(task)

    def loss(power: float) -> float:
        return -float(likelihoods(outputs / np.exp(power), targets).mean())

    shares = task.probabilities(outputs)
    confidence, right = shares.max(axis=1), shares.argmax(axis=1) == classes_of(targets)
    place = np.minimum((confidence * _N_BINS).astype(int), _N_BINS - 1)
    error = np.abs(np.bincount(place, right - confidence, _N_BINS)).sum() / len(right)
    best = minimize_scalar(loss, bounds=_RANGE, method="bounded")
    return dict(zip(names, (loss(0.0), float(error), float(np.exp(best.x)), float(best.fun)), strict=True))
