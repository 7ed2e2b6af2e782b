"""What heads are chosen by: scores of the user's choice, on samples a head has not seen.

Larger is better throughout. A score is of one of three kinds, by how its evidence is found:

    mean     mean over samples of a score of each          accuracy, log loss, errors       paired differences
    cells    mean of the means within cells                balanced accuracy                paired differences, weighted
             worst of the means within cells               worst group, worst class         resamples within the cells
    whole    any function of all samples together          F1, average precision, R²        resamples of the samples

"worst_contradicted" is for those who know no groups: its cells are the classes × whether most of a sample's nearest
training samples have another label.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from steep._validation import FloatArray, one_line
from steep.evidence import Score
from steep.exceptions import InputError, SteepError
from steep.metrics import Scorer
from steep.nn.heads import HeadTask

Array = npt.NDArray[Any]
# Draws of the samples: cheap where cells are all that counts, a call of the scorer each where it is not.
_N_DRAWS, _N_WHOLE_DRAWS = 1000, 200


@dataclass(frozen=True)
class MeanScore:
    """Mean over samples of what ``function(outputs, targets)`` gives each."""

    name: str
    task: HeadTask
    targets: Array
    function: Callable[[FloatArray, Array], Array]

    @property
    def words(self) -> Score:
        """The score as people read it."""
        return Score.named(self.name)

    @property
    def unit(self) -> str:
        """What it is called in a table."""
        return self.words.title.removeprefix("the ")

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest value, larger is better; infinite where there is none."""
        return _bounds(self.name)

    @property
    def strata(self) -> Array:
        """What samples are dealt by, so that each part holds all of it: their classes, if they have any."""
        has_classes = self.task.name in ("multiclass", "binary")
        return self.targets.reshape(-1) if has_classes else np.zeros(len(self.targets), np.int64)

    def part(self, rows: npt.NDArray[np.intp]) -> Self:
        """The same score on some of the samples."""
        return replace(self, targets=self.targets[rows])

    def units(self, kept: Array) -> FloatArray | None:
        """Values of each sample whose mean is the score, ``(n_heads, n_samples)``; None where there are none."""
        return kept.astype(np.float64)

    def n_for(self, kept: Array, original: Array) -> int:
        """Samples that a head answers better than the original one: the gain rests on them."""
        return int(np.count_nonzero(kept > original))

    def shown(self, value: float) -> float:
        """A value in its own sign: an accuracy, or an error ≥ 0."""
        return -value if self.words.is_error else value

    def keep(self, outputs: FloatArray, units: npt.NDArray[np.intp]) -> Array:
        """What has to be known of a head: one row for each of these samples."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.function(outputs, self.targets[units])

    def values(self, kept: Array) -> FloatArray:
        """Score of every head, ``(n_heads,)``; −∞ for one whose outputs are no numbers."""
        means = kept.mean(axis=1, dtype=np.float64)
        return np.where(np.isfinite(means), means, -np.inf)

    def value(self, outputs: FloatArray) -> float:
        """Score of one head by its outputs for all samples."""
        return float(self.values(self.keep(outputs, np.arange(len(outputs)))[None])[0])


@dataclass(frozen=True)
class CellScore(MeanScore):
    """The worst of the means within cells, or their mean; samples of cell −1 do not count."""

    cells: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    is_worst: bool = True

    @property
    def strata(self) -> Array:
        """The cells."""
        return self.cells

    def part(self, rows: npt.NDArray[np.intp]) -> Self:
        """The same score on some of the samples."""
        return replace(self, targets=self.targets[rows], cells=self.cells[rows])

    def units(self, kept: Array) -> FloatArray | None:
        """For the mean of cells, samples weighted so that cells count the same."""
        if self.is_worst:
            return None
        rows = self._rows
        weight = np.zeros(len(self.cells))
        for own in rows:
            weight[own] = len(self.cells) / (len(rows) * len(own))
        return np.asarray(kept * weight)

    def n_for(self, kept: Array, original: Array) -> int:
        """For the worst of cells, those in the worst cell of the original head."""
        if not self.is_worst:
            return super().n_for(kept, original)
        worst = min(self._rows, key=lambda rows: original[rows].mean())
        return super().n_for(kept[worst], original[worst])

    @property
    def _rows(self) -> list[npt.NDArray[np.intp]]:
        return [np.flatnonzero(self.cells == cell) for cell in np.unique(self.cells[self.cells >= 0])]

    def _joined(self, means: Sequence[FloatArray]) -> FloatArray:
        table = np.stack(means)
        found: FloatArray = table.min(axis=0) if self.is_worst else table.mean(axis=0)
        return np.where(np.isfinite(found), found, -np.inf)

    def values(self, kept: Array) -> FloatArray:
        """Score of every head."""
        return self._joined([kept[:, rows].mean(axis=1, dtype=np.float64) for rows in self._rows])

    def resamples(self, kept: Array, generator: np.random.Generator) -> FloatArray:
        """Scores on samples drawn within each cell, ``(n_heads, n_draws)``."""
        means = []
        for rows in self._rows:
            shares = np.full(len(rows), 1 / len(rows))
            counts = generator.multinomial(len(rows), shares, size=_N_DRAWS).astype(np.float32)
            means.append((kept[:, rows].astype(np.float32) @ counts.T / len(rows)).astype(np.float64))
        return self._joined(means)


@dataclass(frozen=True)
class WholeScore(MeanScore):
    """Any scorer ``scorer(estimator, X, y)``: it is given the head's answers as an estimator's."""

    scorer: Scorer | None = None
    warned: list[str] = field(default_factory=list)

    def units(self, kept: Array) -> FloatArray | None:
        """None: it is not a mean over samples."""
        return None

    def n_for(self, kept: Array, original: Array) -> int:
        """Samples of a class that is predicted at last, where predictions count; else those with other outputs."""
        if self.task.name in ("multiclass", "binary") and self._is_of_predictions:
            return super().n_for(*(self.task.scores(outputs, self.targets) for outputs in (kept, original)))
        return int(np.count_nonzero((kept != original).any(axis=1)))

    @property
    def _is_of_predictions(self) -> bool:
        return getattr(self.scorer, "_response_method", None) == "predict"

    def keep(self, outputs: FloatArray, units: npt.NDArray[np.intp]) -> Array:
        """The outputs themselves."""
        return outputs

    def values(self, kept: Array) -> FloatArray:
        """Score of every head."""
        everyone = np.arange(len(self.targets))
        return np.array([self._score(outputs, everyone) for outputs in kept])

    def resamples(self, kept: Array, generator: np.random.Generator) -> FloatArray:
        """Scores on samples drawn within each class, so that none is lost; equal answers are scored once."""
        draws = [self._draw(generator) for _ in range(_N_WHOLE_DRAWS)]
        different = {outputs.tobytes(): outputs for outputs in kept}
        found = {key: [self._score(outputs, rows) for rows in draws] for key, outputs in different.items()}
        return np.array([found[outputs.tobytes()] for outputs in kept])

    def _draw(self, generator: np.random.Generator) -> npt.NDArray[np.intp]:
        if self.task.name not in ("multiclass", "binary"):
            return generator.integers(len(self.targets), size=len(self.targets))
        labels = self.targets.reshape(-1)
        parts = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        return np.concatenate([generator.choice(rows, size=len(rows)) for rows in parts])

    def _score(self, outputs: FloatArray, rows: npt.NDArray[np.intp]) -> float:
        if not np.isfinite(outputs).all():
            return -np.inf
        assert self.scorer is not None
        y = self.targets[rows]
        answers = _answers(self.task, outputs)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                value = float(self.scorer(answers, rows, y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y))
        except SteepError:
            raise
        except Exception as error:
            raise InputError(
                f"scoring={self.name!r} cannot score a {self.task.name} head of {self.task.n_outputs} outputs "
                f"({one_line(error)[:200]}); need a score of what it gives; {_gives(self.task)}"
            ) from error
        if caught and not self.warned:
            first = " ".join(str(caught[0].message).split())[:200]
            self.warned.append(first)
            warnings.warn(
                f"scoring={self.name!r} warned; further warnings are not shown: {first}",
                caught[0].category,
                stacklevel=2,
            )
        if not np.isfinite(value):
            raise InputError(
                f"scoring={self.name!r} is {value} on {len(rows)} validation samples; need a finite score; pass more "
                "samples, or use another score"
            )
        return value


# Scores by the start of their name: those between 0 and 1, and those with other bounds.
_SHARES = (
    "accuracy", "balanced_accuracy", "average_precision", "f1", "precision", "recall", "roc_auc", "jaccard", "top_k",
    "worst_group_accuracy", "worst_class_accuracy", "worst_contradicted",
)  # fmt: skip
_BOUNDS = {
    "matthews": (-1.0, 1.0), "r2": (-np.inf, 1.0), "explained_variance": (-np.inf, 1.0), "d2_": (-np.inf, 1.0),
    "neg_": (-np.inf, 0.0), "max_error": (-np.inf, 0.0), "worst_decile": (-np.inf, 0.0),
    "worst_group_mae": (-np.inf, 0.0),
}  # fmt: skip


def _bounds(name: str) -> tuple[float, float]:
    """The least and the largest value of a score.

    Examples
    --------
    >>> _bounds("recall_macro"), _bounds("mine")
    ((0.0, 1.0), (-inf, inf))
    """
    if name.startswith(_SHARES):
        return 0.0, 1.0
    known = (bounds for start, bounds in _BOUNDS.items() if name.startswith(start))
    return next(known, (-np.inf, np.inf))


def _gives(task: HeadTask) -> str:
    if task.name == "regression":
        return "it gives numbers and no probabilities: use neg_mean_absolute_error, r2, worst_decile or max_error"
    return "it gives classes and probabilities: use accuracy, f1_macro, average_precision or neg_log_loss"


class _Given:
    """Outputs that are known already; ``X`` are the numbers of the rows asked for."""

    def __init__(self, task: HeadTask, outputs: FloatArray) -> None:
        self.task, self.outputs = task, outputs

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _ClassAnswers(_Given, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    @property
    def classes_(self) -> Array:
        """The classes of the head."""
        return np.arange(max(self.task.n_outputs, 2))

    def predict(self, rows: Array) -> Array:
        """Classes, or 0/1 columns."""
        outputs = self.outputs[rows]
        if self.task.name == "multiclass":
            return np.asarray(outputs.argmax(axis=1))
        right = (outputs > 0).astype(np.int64)
        return np.asarray(right[:, 0] if self.task.name == "binary" else right)

    def predict_proba(self, rows: Array) -> FloatArray:
        """Probabilities."""
        return self.task.probabilities(self.outputs[rows])


class _NumberAnswers(_Given, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    def predict(self, rows: Array) -> FloatArray:
        """Numbers."""
        outputs = self.outputs[rows]
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs


def _answers(task: HeadTask, outputs: FloatArray) -> Any:
    return (_NumberAnswers if task.name == "regression" else _ClassAnswers)(task, outputs)
