"""The one rule of evidence: tell a candidate that beats the control from one of many that looks so by chance.

Candidates c and the control are scored on the same units j = 1…J (folds, held-out samples or seeds), larger
is better; d_cj is the difference.

    t_c = mean_j d_cj / (sd_j d_cj / √J)

Having tried many candidates raises the largest t even if none is any better. How far is found by flipping the signs of
whole units at random (up to ten units: in every way there is): under "no difference" each sign is as likely as the
other. A candidate counts when its t exceeds a quantile of that largest t (``confidence``); of those that count the
largest mean gain is chosen, otherwise the control is kept.

A candidate may have been dropped before the last unit: its d_cj are NaN from there on, and it is not chosen. It still
counts among the candidates tried: for the bound its differences are repeated, in turn, in the units it missed.

Folds share most of their training data, so the interval reported uses Nadeau and Bengio's wider error
and the 95 % quantile of the largest |t|, which holds for all candidates at once:

    gain ± q · sd_j d_cj · √(1/J + n_test/n_train)

n_test/n_train is 0 for held-out samples and seeds, which are independent.

**The best of many looks better than it is.** So the rule is applied to simulated scores, in which every candidate has
its observed gain as its true one and only the noise is new (the differences from the mean, with random signs):

    g*_c = gain_c + noise_c        overshoot = mean of noise_c over the simulations, c the candidate chosen in each

The gain to state is gain − overshoot, or zero (:meth:`Evidence.stated`); simulations that choose nothing are left out.

A score that is not a mean over units (F1, the accuracy of the worst group) has no d_cj. The samples are drawn again
with replacement instead, the same draws for every candidate: t_c = gain_c / sd_b d*_cb, and its largest value under "no
difference" is that of (d*_cb − mean_b d*_cb) / sd_b d*_cb over the candidates. These centred draws are also the noise
of the simulations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import special

from steep._html import card
from steep._validation import FloatArray, IntArray
from steep.metrics import Interval

if TYPE_CHECKING:
    import pandas as pd

_N_FLIPS = 2000
# Simulated choices behind a stated gain: its error from so few is a twentieth of its standard error.
_N_SIMULATED = 500
# Up to this many units there are fewer ways to choose the signs: all of them are taken, and nothing is drawn.
_FEW_UNITS = 10
# Signs drawn at once: 2,000 flips of 10,000 units would be 160 MB.
_BLOCK = 4 * 2**20
_SIGNS = np.array([-1.0, 1.0])
# A spread below this share of the scores is rounding: all units gained the same.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Evidence:
    """Mean gain of every candidate over the control, its standard error, and the choice.

    ``gains`` and ``standard_errors`` are in the units of the score, larger is better; ``critical`` is how many standard
    errors to either side an interval for all candidates at once reaches; ``n_units`` is J. ``counts`` says which
    candidates beat the control, ``chosen`` is the best of those, if any, and ``nearest`` that one or else the candidate
    with the largest t, of those not dropped if there are any. ``n_scored`` are the comparisons of every candidate where
    some were dropped; ``kept_share`` is the share of the chosen gain left without the effect of choosing.
    """

    gains: FloatArray
    standard_errors: FloatArray
    critical: float
    n_units: int
    counts: npt.NDArray[np.bool_]
    chosen: int | None
    nearest: int
    n_scored: IntArray | None = None
    kept_share: float = 1.0

    def interval(self, candidate: int) -> Interval:
        """Interval at 95 % that holds for all candidates at once, so also for a chosen one."""
        gain, half = self.gains[candidate], self.critical * self.standard_errors[candidate]
        n = self.n_units if self.n_scored is None else int(self.n_scored[candidate])
        return Interval(float(gain), float(gain - half), float(gain + half), n)

    def stated(self, candidate: int) -> Interval:
        """Gain to expect on new data from a candidate that counts: corrected for having chosen it.

        The mean is ``kept_share`` of the observed gain. The ends are those of :meth:`interval`, which already hold for
        a chosen candidate; the lower end moves down to the mean where the correction is larger than the interval.
        """
        found = self.interval(candidate)
        mean = self.kept_share * found.mean
        return Interval(mean, min(found.low, mean), max(found.high, mean), found.n)


def weigh_evidence(
    differences: FloatArray, test_ratio: float, confidence: float, generator: np.random.Generator, *,
    every_sign: bool = True,
) -> Evidence:  # fmt: skip
    """Choose a candidate, or none, from its paired differences to the control, ``(n_candidates, n_units)``.

    A dropped candidate has NaN in the units it missed; each needs two. ``test_ratio`` is n_test/n_train, 0 where units
    are independent; ``confidence`` the probability that no candidate counts when none differs from the control;
    ``every_sign`` says whether up to ten units are flipped in every way instead of at random.
    """
    n_units = differences.shape[1]
    n_scored = n_units - np.isnan(differences).sum(axis=1)
    gains, spread, t = _student(differences, n_scored)
    quantile = _quantile if every_sign else np.quantile
    filled = _taken_again(differences)
    largest = _largest_flipped_t(filled, generator, every_sign)
    is_dropped = n_scored < n_units
    return _decided(
        gains,
        t,
        # Few units give few values of t: one that equals the bound does not exceed it by its last digit.
        max(float(quantile(largest[:, 0], confidence)), 0.0) * (1 + _ROUNDING),
        ~is_dropped,
        lambda: _simulated(filled, test_ratio, t != 0, generator),
        standard_errors=spread * np.sqrt(1 / n_scored + test_ratio),
        # With few units the largest flipped |t| is the observed one: Student's own bound is the least to allow.
        critical=max(float(quantile(largest[:, 1], 0.95)), float(special.stdtrit(n_units - 1, 0.975))),
        n_units=n_units,
        n_scored=n_scored if is_dropped.any() else None,
    )


def _decided(
    gains: FloatArray, t: FloatArray, bound: float, running: npt.NDArray[np.bool_],
    simulate: Callable[[], tuple[FloatArray, FloatArray]], **figures: Any,
) -> Evidence:  # fmt: skip
    """Which candidates count, and the best of them; ``simulate`` gives noise and errors of simulated gains."""
    counts = (t > bound) & (gains > 0) & running
    chosen = int(np.argmax(np.where(counts, gains, -np.inf))) if counts.any() else None
    nearest = int(np.argmax(np.where(running, t, -np.inf) if running.any() else t)) if chosen is None else chosen
    share = 1.0 if chosen is None else _kept_share(gains, *simulate(), bound, chosen)
    return Evidence(gains=gains, counts=counts, chosen=chosen, nearest=nearest, kept_share=share, **figures)


def _quantile(values: FloatArray, share: float) -> float:
    """The least of the values that at least this share of them do not exceed: few signs give few values."""
    place = ceil(share * len(values) * (1 - _ROUNDING)) - 1
    return float(np.partition(values, place)[place])


def student_t(differences: FloatArray) -> FloatArray:
    """t of every candidate; 0 where all its differences are the same."""
    return _student(differences, np.full(len(differences), differences.shape[1]))[2]


def _student(differences: FloatArray, n_scored: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean, spread and t of every candidate over the units it was scored in."""
    mean, std = (np.nanmean, np.nanstd) if np.isnan(differences).any() else (np.mean, np.std)
    gains: FloatArray = np.asarray(mean(differences, axis=1, dtype=np.float64))
    spread = std(differences, axis=1, ddof=1, dtype=np.float64)
    # Equal differences in all units have no spread but rounding: t says nothing, and ± 0 would say too much.
    size = np.sqrt(mean(differences**2, axis=1, dtype=np.float64))
    known = spread > _ROUNDING * size
    t = np.divide(gains * np.sqrt(n_scored), spread, out=np.zeros_like(gains), where=known)
    return gains, np.where(known, spread, size), t


def _taken_again(differences: FloatArray) -> FloatArray:
    """Differences of dropped candidates repeated, in turn, in the units they missed."""
    missed = np.isnan(differences)
    if not missed.any():
        return differences
    filled = differences.copy()
    for row, gaps in zip(filled, missed, strict=True):
        row[gaps] = np.resize(row[~gaps], gaps.sum())
    return filled


def _largest_flipped_t(differences: FloatArray, generator: np.random.Generator, every_sign: bool) -> FloatArray:
    """Largest t and largest |t| over the candidates under random signs, or under all signs, ``(n_flips, 2)``."""
    n_units = differences.shape[1]
    squares = (differences**2).mean(axis=1, dtype=np.float64)
    # Units in which no candidate differs from the control add nothing, whatever their sign; most samples are such.
    table = differences[:, differences.any(axis=0)].T
    if every_sign and 1 <= len(table) <= _FEW_UNITS:
        t = _flipped_t(_half_of_all_signs(len(table)), table, squares, n_units)
        most, least = t.max(axis=1), -t.min(axis=1)  # the other half are these with all signs turned
        either = np.maximum(most, least)
        return np.column_stack([np.append(most, least), np.append(either, either)])
    step = max(1, min(_N_FLIPS, _BLOCK // max(len(table), 1)))
    parts = []
    for first in range(0, _N_FLIPS, step):
        signs = generator.choice(_SIGNS.astype(table.dtype), size=(min(step, _N_FLIPS - first), len(table)))
        t = _flipped_t(signs, table, squares, n_units)
        parts.append(np.column_stack([t.max(axis=1), np.abs(t).max(axis=1)]))
    return np.vstack(parts)


def _half_of_all_signs(n_units: int) -> FloatArray:
    """Every row of signs that begins with +, ``(2^(n_units − 1), n_units)``."""
    bits = np.arange(2 ** (n_units - 1))[:, None] >> np.arange(n_units)[::-1]
    return 1.0 - 2.0 * (bits & 1)


def _flipped_t(signs: FloatArray, table: FloatArray, squares: FloatArray, n_units: int) -> FloatArray:
    """t of every candidate under every row of signs, ``(n_flips, n_candidates)``."""
    means = (signs @ table).astype(np.float64) / n_units
    errors = np.sqrt(np.maximum(squares - means**2, 0) / (n_units - 1))
    # Where all signs fall on one side of equal differences the spread is rounding, and so would be t.
    known = errors > _ROUNDING * np.sqrt(squares / (n_units - 1))
    return np.divide(means, errors, out=np.zeros_like(means), where=known)


def _simulated(
    differences: FloatArray, test_ratio: float, known: npt.NDArray[np.bool_], generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Noise of simulated gains and the errors that t is made with, both ``(n_simulated, n_candidates)``."""
    n_units = differences.shape[1]
    centred = differences - differences.mean(axis=1, keepdims=True, dtype=np.float64).astype(differences.dtype)
    if n_units <= _FEW_UNITS:
        half = _half_of_all_signs(n_units)
        signs, table = np.vstack([half, -half]), centred.T
    else:  # units in which no candidate differs add next to nothing
        table = centred[:, differences.any(axis=0)].T
        signs = generator.choice(_SIGNS.astype(table.dtype), size=(_N_SIMULATED, len(table)))
    means = (signs @ table).astype(np.float64) / n_units
    squares = (centred**2).mean(axis=1, dtype=np.float64)
    errors = np.sqrt(np.maximum(squares - means**2, 0) / (n_units - 1))
    errors = np.where(known & (errors > 0), errors, np.nan)  # what has no error never counts
    return means * np.sqrt(n_units / (n_units - 1) * (1 + n_units * test_ratio)), errors


def _kept_share(gains: FloatArray, noise: FloatArray, errors: FloatArray, bound: float, chosen: int) -> float:
    """Share of the gain of the chosen candidate that is left without the overshoot of the rule."""
    found = gains + noise
    counts = (found > bound * errors) & (found > 0)
    if not counts.any():
        return 1.0
    best = np.argmax(np.where(counts, found, -np.inf), axis=1)
    overshoot = noise[np.arange(len(noise)), best][counts.any(axis=1)].mean()
    return float(np.clip(1 - overshoot / gains[chosen], 0, 1))


def weigh_resamples(
    gains: FloatArray, resampled: FloatArray, n_units: int, test_ratio: float, confidence: float
) -> Evidence:
    """Choose a candidate, or none, by a score that is not a mean over units: from paired resamples.

    ``gains`` are differences to the control on all units, ``resampled`` the same on units drawn with replacement, the
    same draws for all, ``(n_candidates, n_resamples)``; for the rest see :func:`weigh_evidence`.
    """
    spread = resampled.std(axis=1, ddof=1)
    known = spread > _ROUNDING * np.abs(gains)
    t = np.divide(gains, spread, out=np.zeros_like(gains), where=known)
    centred = resampled - resampled.mean(axis=1, keepdims=True)
    null = np.divide(centred, spread[:, None], out=np.zeros_like(centred), where=known[:, None])
    noise = centred[:, :_N_SIMULATED].T * np.sqrt(1 + n_units * test_ratio)
    return _decided(
        gains,
        t,
        max(float(np.quantile(null.max(axis=0), confidence)), 0.0),
        np.ones(len(gains), np.bool_),
        lambda: (noise, np.where(known, spread, np.nan)),
        standard_errors=np.where(known, spread, np.abs(gains)) * np.sqrt(1 + n_units * test_ratio),
        critical=max(float(np.quantile(np.abs(null).max(axis=0), 0.95)), float(special.ndtri(0.975))),
        n_units=n_units,
    )


@dataclass(frozen=True)
class Score:
    """A score as people read it: its name in a sentence, and whether smaller is better.

    Gains are multiplied by ``factor`` and followed by ``unit``; ``least`` and ``most`` are values that the score cannot
    leave, as scorers return it (an error with a minus sign).
    """

    title: str
    is_error: bool = False
    factor: float = 1.0
    unit: str = ""
    least: float = -inf
    most: float = inf

    @classmethod
    def named(cls, name: str) -> Score:
        """The score behind a name of scikit-learn's or of ours."""
        if name in _TITLES:
            return _TITLES[name]
        title = f"{name[3:]} F1" if name.startswith("f1_") else name.removeprefix("neg_").replace("_", " ")
        if name.startswith(_IN_POINTS):
            return cls(title, **_POINTS)
        if name.startswith("neg_"):
            return cls(f"the {title}", is_error=True, most=0.0)
        is_share = name.startswith(("matthews", "explained_variance", "d2_"))
        return cls(title, least=-1.0 if name.startswith("matthews") else -inf, most=1.0 if is_share else inf)

    def within(self, interval: Interval, control: float) -> Interval:
        """The interval without gains that lead outside the score's range, from ``control`` as a scorer returns it."""
        low, high = max(interval.low, self.least - control), min(interval.high, self.most - control)
        mean = interval.mean
        return Interval(mean, float(min(low, mean)), float(max(high, mean)), interval.n)

    def cannot_tell(self, interval: Interval) -> bool:
        """Whether an interval, before it is cut, is wider than the score's range: it excludes nothing."""
        return bool(interval.high - interval.low > self.most - self.least)

    def describe(self, interval: Interval, control: float | None = None, *, where: str = "") -> str:
        """Put a gain into words: "raises accuracy by 1.6 points (95 % interval 1.1 to 2.1)".

        ``control`` is the score gained upon, in its own sign; a gain without a unit is then given in per cent too.
        ``where`` names what it was measured on: "raises accuracy by 1.6 points on 900 held-out samples (…)".
        """
        on = f" on {where}" if where else ""
        if self.cannot_tell(interval):
            return f"changes {self.title}{on} by an unknown amount (the 95 % interval is wider than its range)"
        if control is not None:
            interval = self.within(interval, control)
        better = interval.mean > 0
        sign = self.factor if interval.mean >= 0 else -self.factor
        low, high = sorted((sign * interval.low, sign * interval.high))
        doubt = "" if interval.excludes_zero else ", which includes 0"
        ends = f"95 % interval {low:z.3g} to {high:z.3g}{doubt}"  # z: zero has no sign
        if interval.mean == 0:
            return f"leaves {self.title} as it is{on} ({ends})"
        verb = "lowers" if self.is_error == better else "raises"
        amount = f"{abs(self.factor * interval.mean):.3g}{self.unit}"
        part = 100 * abs(interval.mean / control) if control and not self.unit else 0.0
        share = f"{part:,.0f} %; " if part >= 100 else f"{part:.2g} %; " if part else ""
        return f"{verb} {self.title} by {amount}{on} ({share}{ends})"


_POINTS: dict[str, Any] = {"factor": 100.0, "unit": " points", "least": 0.0, "most": 1.0}
_ERROR: dict[str, Any] = {"is_error": True, "most": 0.0}
_TITLES = {
    "r2": Score("R²", most=1.0),
    "roc_auc": Score("ROC AUC", **_POINTS),
    "f1": Score("F1", **_POINTS),
    "f2": Score("F2", **_POINTS),
    "neg_mean_squared_error": Score("the mean squared error", **_ERROR),
    "neg_log_loss": Score("the log loss", **_ERROR),
    "worst_decile": Score("the error of the worst tenth", **_ERROR),
    "max_error": Score("the largest error", **_ERROR),
    "worst_group_mae": Score("the mean absolute error of the worst group", **_ERROR),
    "worst_group_accuracy": Score("worst-group accuracy", **_POINTS),
    "worst_class_accuracy": Score("worst-class accuracy", **_POINTS),
    "worst_contradicted": Score("the accuracy of the worst contradicted group", **_POINTS),
}

# Scores between 0 and 1, whose gains people read in points.
_IN_POINTS = ("accuracy", "balanced", "average_precision", "f1", "precision", "recall", "roc_auc", "jaccard", "top_k")


@dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison: one sentence, and the figures behind it.

    Attributes
    ----------
    sentence : str
        The outcome in plain words; ``print(verdict)`` shows it.
    interval : Interval
        Gain of what was chosen over the control, larger is better: corrected for having chosen it
        (:meth:`Evidence.stated`), with an interval at 95 % for all candidates at once; zero when the control was kept.
    unit : str
        What the gain is measured in.
    columns : DataFrame or dict of arrays
        What was compared, one row a candidate; ``table`` is the same as a frame.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.preprocessing import scale
    >>> from steep import VarianceWeightedCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = VarianceWeightedCV(LogisticRegression(), weight_ratio=(1, 5), cv=3, random_state=0).fit(scale(X), y)
    >>> print(model.verdict_)
    Equal weights are kept: ...
    >>> model.verdict_.interval.mean, len(model.verdict_.table)
    (0.0, 5)
    """

    sentence: str
    interval: Interval
    unit: str
    columns: Any

    @cached_property
    def table(self) -> pd.DataFrame:
        """What was compared, one row a candidate."""
        import pandas as pd

        return pd.DataFrame(self.columns) if isinstance(self.columns, dict) else self.columns

    def __str__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        interval = self.interval
        edge = "plain" if interval.mean == 0 else "sure" if interval.low > 0 else "unsure"
        figures = {"gain": f"{interval.mean:.4g}", "95 % interval": f"{interval.low:.4g} to {interval.high:.4g}"}
        return card("Verdict", self.sentence, figures if interval.n else None, self.table, edge=edge)


NO_GAIN = Interval(0.0, 0.0, 0.0, 0)
