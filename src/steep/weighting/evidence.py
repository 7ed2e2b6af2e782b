"""Tell a candidate that is better than equal weights from one of many that looks so by chance.

Candidates c and the equal-weight control are scored on the same folds j = 1…J; d_cj is the difference.

    t_c = mean_j d_cj / (sd_j d_cj / √J)

Having tried many candidates raises the largest t even if none is any better. How far is found by
flipping the signs of whole folds at random, which keeps the correlation between candidates: under "no
difference" each sign is as likely as the other. A candidate counts when its t exceeds a quantile of
that largest t (``confidence``); of those that count the largest mean gain is chosen.

Folds share most of their training data, so the interval reported uses Nadeau and Bengio's wider error
and the 95 % quantile of the largest |t|, which holds for all candidates at once:

    gain ± q · sd_j d_cj · √(1/J + n_test/n_train)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steep._validation import FloatArray
from steep.metrics import Interval

_N_FLIPS = 2000


@dataclass(frozen=True)
class Evidence:
    """Mean gain of every candidate over the control, its standard error, and the choice."""

    gains: FloatArray
    standard_errors: FloatArray
    critical: float
    n_folds: int
    chosen: int | None
    nearest: int

    def interval(self, candidate: int) -> Interval:
        """Interval at 95 % that holds for all candidates at once, so also for a chosen one."""
        gain, half = self.gains[candidate], self.critical * self.standard_errors[candidate]
        return Interval(float(gain), float(gain - half), float(gain + half), self.n_folds)


def weigh_evidence(
    differences: FloatArray, test_ratio: float, confidence: float, generator: np.random.Generator
) -> Evidence:
    """Choose a candidate, or none, from its paired differences to the control.

    Parameters
    ----------
    differences : ndarray of shape (n_candidates, n_folds)
        Score of each candidate minus that of the control, fold by fold; larger is better.
    test_ratio : float
        n_test/n_train of the folds, for the interval.
    confidence : float
        Probability that no candidate counts when none differs from the control and folds are
        independent.

    Returns
    -------
    Evidence
        ``nearest`` is the chosen candidate or, when there is none, the one with the largest t.
    """
    n_folds = differences.shape[1]
    gains, spread = differences.mean(axis=1), differences.std(axis=1, ddof=1)
    t = np.divide(gains * np.sqrt(n_folds), spread, out=np.zeros_like(gains), where=spread > 0)
    largest = _largest_flipped_t(differences, generator)
    counts = (t > max(float(np.quantile(largest[:, 0], confidence)), 0.0)) & (gains > 0)
    chosen = int(np.argmax(np.where(counts, gains, -np.inf))) if counts.any() else None
    return Evidence(
        gains=gains,
        standard_errors=spread * np.sqrt(1 / n_folds + test_ratio),
        critical=float(np.quantile(largest[:, 1], 0.95)),
        n_folds=n_folds,
        chosen=chosen,
        nearest=int(np.argmax(t)) if chosen is None else chosen,
    )


def _largest_flipped_t(differences: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Largest t and largest |t| over the candidates under random signs, ``(n_flips, 2)``."""
    n_folds = differences.shape[1]
    signs = generator.choice([-1.0, 1.0], size=(_N_FLIPS, n_folds))
    means = signs @ differences.T / n_folds
    squares = (differences**2).mean(axis=1)
    errors = np.sqrt(np.maximum(squares - means**2, 0) / (n_folds - 1))
    t = np.divide(means, errors, out=np.zeros_like(means), where=errors > 1e-12 * (1 + np.abs(means)))
    return np.column_stack([t.max(axis=1), np.abs(t).max(axis=1)])
