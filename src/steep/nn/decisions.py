"""Scores of decisions, and what is put behind a head to decide better: a threshold, shifted logits, a temperature.

F1, F-beta, precision, recall, Jaccard and Matthews' coefficient are functions of the table T of true and predicted
classes, so that all heads are scored at once:

    F_β = (1 + β²) T₁₁ / (β² T₁. + T.₁)        T_a. samples of class a, T.b samples predicted as b

Layers never see the labels they are chosen by, so they are candidates like any other:

    threshold     two classes: the share r of the samples is called positive, for r around that of the training labels
    prior^τ       more classes: z_c − τ log π_c, π_c the share of class c among the training labels (Menon et al. 2021)
    temperature   probabilities: z / T
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit
from sklearn import metrics

from steep._validation import FloatArray, IntArray
from steep.nn.heads import Head, HeadTask
from steep.nn.scores import CellScore, MeanScore, classes_of

Array = npt.NDArray[Any]

_N_DRAWS = 1000
# Shares called positive, on the scale of logits, around that of the training labels; and the other layers.
_RATES = np.linspace(-3.0, 3.0, 25)
_POWERS = (-0.5, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
_TEMPERATURES = (0.5, 0.63, 0.8, 1.25, 1.6, 2.0, 2.5, 3.2)


@dataclass(frozen=True)
class DecisionScore(MeanScore):
    """A function of the table of true and predicted classes."""

    of_table: Callable[[FloatArray], FloatArray] = field(default=lambda tables: tables.sum(axis=(-2, -1)))

    def units(self, kept: Array) -> FloatArray | None:
        """None: it is not a mean over samples."""
        return None

    def n_for(self, kept: Array, original: Array) -> int:
        """Samples of a class that is predicted at last."""
        right = kept == self.classes
        return int(np.count_nonzero(right & (original != self.classes)))

    @property
    def classes(self) -> IntArray:
        """The class of each sample."""
        return classes_of(self.targets)

    @property
    def _n_classes(self) -> int:
        return max(self.task.n_outputs, 2)

    def values(self, kept: Array) -> FloatArray:
        """Score of every head."""
        n, first = self._n_classes, self.classes * self._n_classes
        tables = np.stack([np.bincount(first + np.maximum(row, 0), minlength=n * n) for row in kept])
        found = self.of_table(tables.reshape(-1, n, n).astype(np.float64))
        return np.where((kept < 0).any(axis=1), -np.inf, found)

    def resamples(self, kept: Array, generator: np.random.Generator) -> FloatArray:
        """Scores on samples drawn within each class, ``(n_heads, n_draws)``."""
        n = self._n_classes
        tables = np.zeros((len(kept), _N_DRAWS, n, n), dtype=np.float32)
        for label in np.unique(self.classes):
            rows = np.flatnonzero(self.classes == label)
            counts = generator.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=_N_DRAWS)
            counts = counts.astype(np.float32)
            for number, own in enumerate(kept[:, rows]):
                tables[number, :, label] = counts @ (own[:, None] == np.arange(n)).astype(np.float32)
        return self.of_table(tables.astype(np.float64))


def decision_score(name: str, scorer: Any, task: HeadTask, targets: Array) -> DecisionScore | None:
    """The score behind a scorer of scikit-learn's, if it is a function of the table; None for any other."""
    if name == "f2":
        scorer = metrics.make_scorer(metrics.fbeta_score, beta=2)
    function, given = getattr(scorer, "_score_func", None), dict(getattr(scorer, "_kwargs", None) or {})
    average, n_classes = given.pop("average", "binary"), max(task.n_outputs, 2)
    given.pop("zero_division", None)
    if given.get("pos_label", 1) in (1, None):
        given.pop("pos_label", None)
    if not task.has_classes or getattr(scorer, "_response_method", "") != "predict" or scorer._sign < 0:
        return None
    if function is metrics.matthews_corrcoef and not given:
        return DecisionScore(name, task, targets, _decided(task), _matthews)
    each = _EACH.get(function) if set(given) <= {"beta"} else None
    if each is None or average not in ("binary", "macro", "weighted") or (average == "binary" and n_classes > 2):
        return None
    beta = float(given.get("beta", 1.0))
    return DecisionScore(
        name, task, targets, _decided(task), lambda tables: _averaged(each(tables, beta), tables, average)
    )


def _decided(task: HeadTask) -> Callable[[FloatArray, Array], Array]:
    """The class each sample is put in, −1 where the outputs are not numbers."""

    def decide(outputs: FloatArray, _: Array) -> Array:
        classes = outputs.argmax(axis=1) if task.name == "multiclass" else outputs[:, 0] > 0
        return np.where(np.isfinite(outputs).all(axis=1), classes, -1).astype(np.int16)

    return decide


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    return np.asarray(np.divide(above, below, out=np.zeros_like(above), where=below > 0))


def _parts(tables: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    return np.diagonal(tables, axis1=-2, axis2=-1).copy(), tables.sum(axis=-1), tables.sum(axis=-2)


def _f_beta(tables: FloatArray, beta: float) -> FloatArray:
    right, true, predicted = _parts(tables)
    return _ratio((1 + beta**2) * right, beta**2 * true + predicted)


def _precision(tables: FloatArray, beta: float) -> FloatArray:
    right, _, predicted = _parts(tables)
    return _ratio(right, predicted)


def _recall(tables: FloatArray, beta: float) -> FloatArray:
    right, true, _ = _parts(tables)
    return _ratio(right, true)


def _jaccard(tables: FloatArray, beta: float) -> FloatArray:
    right, true, predicted = _parts(tables)
    return _ratio(right, true + predicted - right)


_EACH = {
    metrics.f1_score: _f_beta, metrics.fbeta_score: _f_beta, metrics.precision_score: _precision,
    metrics.recall_score: _recall, metrics.jaccard_score: _jaccard,
}  # fmt: skip


def _averaged(each: FloatArray, tables: FloatArray, average: str) -> FloatArray:
    """The score of class 1, or the mean over the classes that occur or are predicted, by their size or not."""
    if average == "binary":
        return each[..., 1]
    _, true, predicted = _parts(tables)
    weights = true if average == "weighted" else (true + predicted > 0).astype(np.float64)
    return _ratio((each * weights).sum(axis=-1), weights.sum(axis=-1))


def _matthews(tables: FloatArray) -> FloatArray:
    right, true, predicted = _parts(tables)
    n = true.sum(axis=-1)
    covariance = np.asarray(n * right.sum(axis=-1) - (true * predicted).sum(axis=-1))
    return _ratio(covariance, np.sqrt((n**2 - (true**2).sum(axis=-1)) * (n**2 - (predicted**2).sum(axis=-1))))


# ------------------------------------------------------------------------------- layers


class Layer(NamedTuple):
    """z / ``temperature`` + ``shift``, and what it is called."""

    name: str
    shift: FloatArray
    temperature: float = 1.0

    def outputs(self, outputs: FloatArray) -> FloatArray:
        """Outputs behind the layer."""
        return (outputs / self.temperature + self.shift).astype(outputs.dtype, copy=False)

    def joined(self, head: Head) -> Head:
        """Head and layer as one head."""
        bias = None if head.bias is None else head.bias / self.temperature + self.shift
        return Head(head.weight / self.temperature, bias, head.is_bias_fixed)


@dataclass(frozen=True)
class Layers:
    """The layers that a score may be improved by."""

    kind: str
    priors: FloatArray

    @classmethod
    def of(cls, score: MeanScore, original: Head, counts: IntArray) -> Layers | None:
        """Those for a score; None if the head has no bias that may change, or classes of one size need no shift.

        ``counts`` are the training samples of every class.
        """
        if not score.task.has_classes or original.is_bias_fixed:
            return None
        priors = np.maximum(counts, 1) / np.maximum(counts, 1).sum()
        if score.name == "neg_log_loss":
            return cls("temperature", priors)
        if original.bias is None or not isinstance(score, DecisionScore | CellScore):
            return None
        if len(priors) == 2:
            return cls("threshold", priors)
        return cls("prior", priors) if np.ptp(np.log(priors)) > 1e-3 else None

    def behind(self, outputs: FloatArray) -> list[Layer]:
        """The layers for a head with these outputs for the held-out samples."""
        if not np.isfinite(outputs).all():
            return []
        if self.kind == "temperature":
            zero = np.zeros(outputs.shape[1])
            return [Layer(f"temperature {t:g}", zero, t) for t in _TEMPERATURES]
        if self.kind == "prior":
            levels = np.log(self.priors) - np.log(self.priors).mean()
            return [Layer(f"prior^{power:g}", -power * levels) for power in _POWERS]
        margins = np.sort(outputs[:, -1] - outputs[:, 0] if outputs.shape[1] == 2 else outputs[:, 0])
        rates = expit(logit(np.clip(self.priors[1], 1e-4, 1 - 1e-4)) + _RATES)
        places = np.clip(np.round((1 - rates) * len(margins)).astype(int), 1, len(margins) - 1)
        # Between two samples, so that rounding puts neither on the other side.
        cuts = ((margins[places - 1].astype(np.float64) + margins[places]) / 2).tolist()
        turned = np.array([0.5, -0.5]) if outputs.shape[1] == 2 else np.array([-1.0])
        return [Layer(f"threshold {cut:.3g}", cut * turned) for cut in dict.fromkeys(cuts)]
