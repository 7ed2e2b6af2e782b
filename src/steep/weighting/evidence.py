"""Tell a candidate that is better than equal weights from one of many that looks so by chance.

Candidates c and the equal-weight control are scored on the same folds j = 1…J; d_cj is the difference.

    t_c = mean_j d_cj / se_c,    se_c² = (1/J + n_test/n_train) var_j d_cj

The second term of se² is Nadeau and Bengio's correction: folds share most of their training data, so
their scores are not independent. Having tried many candidates raises the largest t even if none is any
better; how far is found by flipping the signs of whole folds at random, which keeps the correlation
between candidates: under "no difference" each sign is as likely as the other. The threshold is a
quantile of that largest t. At one candidate the quantile Φ(1) = 0.84 is the one-standard-error rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steep._validation import FloatArray
from steep.metrics import Interval

# Share of sign flips whose largest t stays below a threshold: 1 and 2 standard errors, one-sided.
ONE_STANDARD_ERROR = 0.8413

_N_FLIPS = 2000


@dataclass(frozen=True)
class Evidence:
    """Mean gain of every candidate over the control, its standard error, and the choice."""

    gains: FloatArray
    standard_errors: FloatArray
    threshold: float
    critical: float
    n_folds: int
    chosen: int | None

    def interval(self, candidate: int) -> Interval:
        """Interval at 95 % that holds for all candidates at once, so also for a chosen one."""
        gain, half = self.gains[candidate], self.critical * self.standard_errors[candidate]
        return Interval(float(gain), float(gain - half), float(gain + half), self.n_folds)

    @property
    def best(self) -> int:
        """The chosen candidate, or the one that came closest to being chosen."""
        return int(np.argmax(self.gains - self.threshold * self.standard_errors))


def weigh_evidence(
    differences: FloatArray, test_ratio: float, confidence: float, generator: np.random.Generator
) -> Evidence:
    """Choose a candidate, or none, from its paired differences to the control.

    Parameters
    ----------
    differences : ndarray of shape (n_candidates, n_folds)
        Score of each candidate minus that of the control, fold by fold; larger is better.
    test_ratio : float
        n_test/n_train of the folds.
    confidence : float
        Probability that no candidate is chosen when none differs from the control.
    """
    n_folds = differences.shape[1]
    gains = differences.mean(axis=1)
    spread = differences.std(axis=1, ddof=1)
    standard_errors = spread * np.sqrt(1 / n_folds + test_ratio)
    largest = _largest_flipped_t(differences, generator)
    threshold = float(np.quantile(largest[:, 0], confidence))
    critical = float(np.quantile(largest[:, 1], 0.95))
    margins = gains - threshold * standard_errors
    chosen = int(np.argmax(margins)) if margins.size and margins.max() > 0 else None
    return Evidence(gains, standard_errors, threshold, critical, n_folds, chosen)


def _largest_flipped_t(differences: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Largest t and largest |t| over the candidates under random signs, ``(n_flips, 2)``."""
    n_folds = differences.shape[1]
    signs = generator.choice([-1.0, 1.0], size=(_N_FLIPS, n_folds))
    means = signs @ differences.T / n_folds
    squares = (differences**2).mean(axis=1)
    errors = np.sqrt(np.maximum(squares - means**2, 0) / (n_folds - 1))
    t = np.divide(means, errors, out=np.zeros_like(means), where=errors > 1e-12 * (1 + np.abs(means)))
    return np.column_stack([t.max(axis=1), np.abs(t).max(axis=1)])
