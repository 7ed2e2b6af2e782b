"""What heads are chosen by: scores on samples a head has not seen.

Larger is better throughout. A score is of one of four kinds, by how its evidence is found:

    mean     mean over samples of a score of each          accuracy, log loss, errors       paired differences
    cells    mean of the means within cells                balanced accuracy                paired differences, weighted
             worst of the means within cells               worst group, worst class         resamples within the cells
    table    a function of true and predicted classes      F1, Matthews                     resamples within the classes
    whole    any function of all samples together          average precision, R²            resamples of the samples

"worst_contradicted" needs no groups: its cells are the classes × whether most of a sample's nearest training samples
have another label. F1, F-beta and Matthews' coefficient are functions of the table T of true and predicted
classes, so that all heads are scored at once:

    F_β = (1 + β²) T₁₁ / (β² T₁. + T.₁)        T_a. samples of class a, T.b samples predicted as b
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import log_expit, log_softmax
from sklearn import metrics
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from steep._validation import FloatArray, IntArray, one_line, shown
from steep.evidence import Score
from steep.exceptions import InputError, InputTypeError, SteepError
from steep.metrics import Scorer, resolve_scorers
from steep.nn.heads import HeadTask

Array = npt.NDArray[Any]
# Scorers by name; None for scores of ours.
Wanted = dict[str, Scorer | None]
# Draws of the samples: cheap where cells are all that counts, a call of the scorer each where it is not.
_N_DRAWS, _N_WHOLE_DRAWS = 1000, 200


@dataclass(frozen=True)
class MeanScore:
    """Mean over samples of what ``function(outputs, targets)`` gives each; ``is_mean`` is False for other scores."""

    is_mean: ClassVar[bool] = True
    name: str
    task: HeadTask
    targets: Array
    function: Callable[[FloatArray, Array], Array]

    @property
    def words(self) -> Score:
        """The score in words."""
        return Score.named(self.name)

    @property
    def unit(self) -> str:
        """What it is called in a table."""
        return self.words.title.removeprefix("the ")

    @property
    def strata(self) -> Array:
        """What samples are dealt by, so that each part holds all of it: their classes, if they have any."""
        return self.targets.reshape(-1) if self.task.has_classes else np.zeros(len(self.targets), np.int64)

    def part(self, rows: npt.NDArray[np.intp]) -> Self:
        """The same score on some of the samples."""
        return replace(self, targets=self.targets[rows])

    def units(self, kept: Array) -> FloatArray | None:
        """Values of each sample whose mean is the score, ``(n_heads, n_samples)``; None where there are none."""
        return kept.astype(np.float64) if self.is_mean else None

    def n_for(self, kept: Array, original: Array) -> int:
        """Samples that a head answers better than the original one: the gain rests on them."""
        return int(np.count_nonzero(kept > original))

    def shown(self, value: float) -> float:
        """A value in its own sign: an accuracy, or an error ≥ 0."""
        return -value if self.words.is_error else value

    def keep(self, outputs: FloatArray) -> Array:
        """What the score needs of the outputs of a head, one row per sample."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.function(outputs, self.targets)

    def values(self, kept: Array) -> FloatArray:
        """Score of every head, ``(n_heads,)``; −∞ for one whose outputs are not numbers."""
        means = kept.mean(axis=1, dtype=np.float64)
        return np.where(np.isfinite(means), means, -np.inf)

    def value(self, outputs: FloatArray) -> float:
        """Score of one head by its outputs for all samples."""
        return float(self.values(self.keep(outputs)[None])[0])


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

    is_mean: ClassVar[bool] = False
    scorer: Scorer | None = None

    def n_for(self, kept: Array, original: Array) -> int:
        """Samples of a class that is predicted at last, where predictions count; else those with other outputs."""
        if self.task.has_classes and getattr(self.scorer, "_response_method", None) == "predict":
            return super().n_for(*(self.task.scores(outputs, self.targets) for outputs in (kept, original)))
        return int(np.count_nonzero((kept != original).any(axis=1)))

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
        if not self.task.has_classes:
            return generator.integers(len(self.targets), size=len(self.targets))
        labels = self.targets.reshape(-1)
        parts = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        return np.concatenate([generator.choice(rows, size=len(rows)) for rows in parts])

    def _score(self, outputs: FloatArray, rows: npt.NDArray[np.intp]) -> float:
        if not np.isfinite(outputs).all():
            return -np.inf
        assert self.scorer is not None
        y = self.targets[rows]
        answers = (_NumberAnswers if self.task.name == "regression" else _ClassAnswers)(self.task, outputs)
        try:
            value = float(self.scorer(answers, rows, y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y))
        except SteepError:
            raise
        except Exception as error:
            raise InputError(
                f"scoring={self.name!r} cannot score a {self.task.name} head of {self.task.n_outputs} outputs "
                f"({one_line(error)[:200]}); expected a score of "
                + ("numbers" if self.task.name == "regression" else "classes and probabilities")
            ) from error
        if not np.isfinite(value):
            raise InputError(
                f"scoring={self.name!r} is {value} on {len(rows)} validation samples, which is not finite; pass "
                "more samples, or use another score"
            )
        return value


class _Given:
    """Known outputs as an estimator; ``rows`` are the numbers of the samples, in place of X."""

    def __init__(self, task: HeadTask, outputs: FloatArray) -> None:
        self.task, self.outputs = task, outputs

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, rows: Array) -> Array:
        outputs = self.outputs[rows]
        if self.task.name == "multiclass":
            return np.asarray(outputs.argmax(axis=1))
        found = outputs if self.task.name == "regression" else (outputs > 0).astype(np.int64)
        return np.asarray(found[:, 0] if found.shape[1] == 1 and self.task.name != "multilabel" else found)


class _ClassAnswers(_Given, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    @property
    def classes_(self) -> Array:
        return np.arange(max(self.task.n_outputs, 2))

    def predict_proba(self, rows: Array) -> FloatArray:
        return self.task.probabilities(self.outputs[rows])


class _NumberAnswers(_Given, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    pass


# ------------------------------------------------------------------------------- scores of each sample


def classes_of(targets: Array) -> npt.NDArray[np.int64]:
    """The class of each sample, from class numbers or a column of 0 and 1."""
    return targets.reshape(-1).astype(np.int64)


def log_likelihoods(task: HeadTask) -> Callable[[FloatArray, Array], Array]:
    """A function of outputs and targets that gives the log-likelihood of each sample."""

    def each(outputs: FloatArray, targets: Array) -> Array:
        z = outputs.astype(np.float64)
        if task.name != "multiclass":
            return np.asarray(log_expit(np.where(targets > 0.5, z, -z)).mean(axis=1))
        return np.asarray(log_softmax(z, axis=1)[np.arange(len(z)), targets])

    return each


# ------------------------------------------------------------------------------- scores of decisions


@dataclass(frozen=True)
class DecisionScore(MeanScore):
    """A function of the table of true and predicted classes."""

    is_mean: ClassVar[bool] = False
    of_table: Callable[[FloatArray], FloatArray] = field(default=lambda tables: tables.sum(axis=(-2, -1)))

    def n_for(self, kept: Array, original: Array) -> int:
        """Samples of a class that is predicted at last."""
        classes = classes_of(self.targets)
        return int(np.count_nonzero((kept == classes) & (original != classes)))

    @property
    def _n_classes(self) -> int:
        return max(self.task.n_outputs, 2)

    def values(self, kept: Array) -> FloatArray:
        """Score of every head."""
        n, first = self._n_classes, classes_of(self.targets) * self._n_classes
        tables = np.stack([np.bincount(first + np.maximum(row, 0), minlength=n * n) for row in kept])
        found = self.of_table(tables.reshape(-1, n, n).astype(np.float64))
        return np.where((kept < 0).any(axis=1), -np.inf, found)

    def resamples(self, kept: Array, generator: np.random.Generator) -> FloatArray:
        """Scores on samples drawn within each class, ``(n_heads, n_draws)``."""
        n, classes = self._n_classes, classes_of(self.targets)
        tables = np.zeros((len(kept), _N_DRAWS, n, n), dtype=np.float32)
        for label in np.unique(classes):
            rows = np.flatnonzero(classes == label)
            counts = generator.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=_N_DRAWS)
            counts = counts.astype(np.float32)
            for number, own in enumerate(kept[:, rows]):
                tables[number, :, label] = counts @ (own[:, None] == np.arange(n)).astype(np.float32)
        return self.of_table(tables.astype(np.float64))


def decision_score(name: str, scorer: Any, task: HeadTask, targets: Array) -> DecisionScore | None:
    """The score behind a scorer of scikit-learn's, if it is a function of the table; None for any other."""
    function, given = getattr(scorer, "_score_func", None), dict(getattr(scorer, "_kwargs", None) or {})
    average, n_classes = given.pop("average", "binary"), max(task.n_outputs, 2)
    given.pop("zero_division", None)
    if given.get("pos_label", 1) in (1, None):
        given.pop("pos_label", None)
    if not task.has_classes or getattr(scorer, "_response_method", "") != "predict" or scorer._sign < 0:
        return None
    if function is metrics.matthews_corrcoef and not given:
        return DecisionScore(name, task, targets, _decided(task), _matthews)
    is_f = function in (metrics.f1_score, metrics.fbeta_score) and set(given) <= {"beta"}
    if not is_f or average not in ("binary", "macro", "weighted") or (average == "binary" and n_classes > 2):
        return None
    beta = float(given.get("beta", 1.0))

    def of_table(tables: FloatArray) -> FloatArray:
        right, true, called = _parts(tables)
        return _averaged(_ratio((1 + beta**2) * right, beta**2 * true + called), tables, average)

    return DecisionScore(name, task, targets, _decided(task), of_table)


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


# ------------------------------------------------------------------------------- scores by name

# Names with evidence of their own, by what the head is for.
_OF_CLASSES = (
    "accuracy", "neg_log_loss", "balanced_accuracy", "worst_class_accuracy", "worst_group_accuracy",
    "worst_contradicted",
)  # fmt: skip
_OF_LABELS = ("accuracy", "neg_log_loss", "worst_group_accuracy")  # means over the labels
_OF_NUMBERS = ("neg_mean_squared_error", "neg_mean_absolute_error", "worst_group_mae")
_WITH_GROUPS = ("worst_group_accuracy", "worst_group_mae")
_MEANS = ("accuracy", "neg_log_loss", "neg_mean_squared_error", "neg_mean_absolute_error")
# A cell of fewer samples says little about its accuracy and does not count.
_FEWEST_CONTRADICTED = 10


def check_scoring(scoring: Any) -> Wanted:
    """The scores asked for, the deciding one first; names of ours have no scorer. Empty for the default of the task."""
    if scoring is None:
        return {}
    if isinstance(scoring, Mapping):
        return dict(resolve_scorers(None, scoring))
    entries = [scoring] if isinstance(scoring, str) or callable(scoring) else scoring
    if not isinstance(entries, Iterable) or getattr(entries, "ndim", 1) == 0:
        raise InputTypeError(
            f"scoring={shown(scoring)} is a {type(scoring).__name__}; expected the name of a score, or several"
        )
    wanted: Wanted = {}
    for entry in entries:
        if isinstance(entry, str) and entry in (*_OF_CLASSES, *_OF_NUMBERS):
            wanted[entry] = None
        elif isinstance(entry, str) and entry == "f2":
            wanted[entry] = metrics.make_scorer(metrics.fbeta_score, beta=2)
        elif isinstance(entry, str) or callable(entry):
            wanted |= resolve_scorers(None, entry)
        else:
            raise InputTypeError(f"scoring holds {shown(entry)}; expected names of scores, or callables")
    if not wanted:
        raise InputError("scoring is empty; expected at least one score; leave it out for the default")
    return wanted


def make_scores(
    wanted: Wanted,
    task: HeadTask,
    targets: Array,
    groups: IntArray | None,
    contradicted: Callable[[], npt.NDArray[np.bool_]],
) -> list[MeanScore]:
    """The scores on samples with these targets and groups, the deciding one first."""

    def made(name: str, scorer: Scorer | None) -> MeanScore:
        if scorer is not None:
            whole = WholeScore(name, task, targets, lambda outputs, _: outputs, scorer=scorer)
            return decision_score(name, scorer, task, targets) or whole
        function = _function(name, task)
        if name in _MEANS:
            return MeanScore(name, task, targets, function)
        cells = np.asarray(groups) if name in _WITH_GROUPS else _cells(name, task, targets, contradicted)
        return CellScore(name, task, targets, function, cells=cells, is_worst=name != "balanced_accuracy")

    return [made(name, scorer) for name, scorer in (wanted or {_default(task): None}).items()]


def refuse_unfit(wanted: Wanted, task: HeadTask, *, has_groups: bool) -> None:
    """Raise if a score does not fit the head, or lacks its groups."""
    known = {"regression": _OF_NUMBERS, "multilabel": _OF_LABELS}.get(task.name, _OF_CLASSES)
    for name, scorer in wanted.items():
        if name in _WITH_GROUPS and not has_groups:
            raise InputError(f"scoring={name!r} needs groups, got none; pass groups=, one for each sample")
        if scorer is None and name not in known:
            raise InputError(
                f"scoring={name!r} does not fit a {task.name} head; expected one of {', '.join(known)}, or a "
                "scikit-learn scorer of what it gives; choose one"
            )


def _default(task: HeadTask) -> str:
    return "neg_mean_squared_error" if task.name == "regression" else "accuracy"


def _function(name: str, task: HeadTask) -> Callable[[FloatArray, Array], Array]:
    if name == "neg_log_loss":
        return log_likelihoods(task)
    if task.name == "regression" and name != "neg_mean_squared_error":
        return lambda outputs, targets: -np.abs(outputs - targets).mean(axis=1)
    return task.scores


def _cells(
    name: str, task: HeadTask, targets: Array, contradicted: Callable[[], npt.NDArray[np.bool_]]
) -> npt.NDArray[np.int64]:
    """The class of each sample, or the class and whether it is contradicted; −1 for those that do not count."""
    classes, n_classes = classes_of(targets), max(task.n_outputs, 2)
    if name != "worst_contradicted":
        if absent := sorted(set(range(n_classes)) - set(classes.tolist())):
            raise InputError(
                f"scoring={name!r} counts every class, but class {absent[0]} is absent from the validation data; "
                "pass more data, or use accuracy"
            )
        return classes
    cells = 2 * classes + contradicted()
    counts = np.bincount(cells, minlength=2 * n_classes)
    if not (counts >= _FEWEST_CONTRADICTED).any():
        raise InputError(
            f"scoring={name!r} needs {_FEWEST_CONTRADICTED} validation samples of one class that are all "
            "contradicted, or all not; pass more data, or use accuracy"
        )
    return np.where(counts[cells] >= _FEWEST_CONTRADICTED, cells, -1)


def check_groups(groups: Any, n_samples: int, *, name: str = "validation") -> npt.NDArray[np.int64]:
    """Groups as numbers from 0."""
    try:
        array = np.asarray(groups)
    except ValueError as error:
        raise InputError(f"groups are ragged ({error}); expected one for each of {n_samples} samples") from error
    if array.ndim != 1 or len(array) != n_samples:
        got = f"shape {array.shape}" if array.ndim != 1 else f"{len(array)} entries"
        raise InputError(f"groups has {got}; expected one group for each of {n_samples} {name} samples")
    try:
        codes, names = pd.factorize(array, sort=True)
    except TypeError as error:
        raise InputTypeError(f"groups cannot be sorted ({error}); expected text or numbers") from error
    if (codes < 0).any():
        raise InputError(f"groups lacks {(codes < 0).sum()} entries; expected a group for each sample; name it")
    if len(names) < 2:
        raise InputError(f"groups holds one group, {shown(names[0])}; expected at least two; leave groups out")
    return codes.astype(np.int64)
