"""What heads are chosen by: scores by name and scorers, on samples a head has not seen.

Larger is better throughout. A score is of one of three kinds, by how its evidence is found:

    mean     mean over samples of a score of each          accuracy, log loss, errors       paired differences
    cells    mean of the means within cells                balanced accuracy                paired differences, weighted
             worst of the means within cells               worst group, worst class         resamples within the cells
    whole    any function of all samples together          F1, average precision, R²        resamples of the samples

"worst_contradicted" needs no groups: its cells are the classes × whether most of a sample's nearest training samples
have another label.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import log_expit, log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer

from steep._validation import FloatArray, one_line, shown
from steep.evidence import Score
from steep.exceptions import InputError, InputTypeError, SteepError, warn_user
from steep.metrics import Scorer, resolve_scorers
from steep.nn.heads import HeadTask

Array = npt.NDArray[Any]
Wanted = dict[str, Scorer | None]

# Names with evidence of their own, by what the head is for.
_OF_CLASSES = (
    "accuracy", "neg_log_loss", "balanced_accuracy", "worst_class_accuracy", "worst_group_accuracy",
    "worst_contradicted",
)  # fmt: skip
_OF_LABELS = ("accuracy", "balanced_accuracy", "neg_log_loss", "worst_group_accuracy")  # means over the labels
_OF_NUMBERS = ("neg_mean_squared_error", "neg_mean_absolute_error", "worst_group_mae")
_WITH_GROUPS = ("worst_group_accuracy", "worst_group_mae")
# Scores of groups and rare classes: they count the samples a mean forgets.
UNEVEN = (
    "worst_group_accuracy", "worst_class_accuracy", "worst_contradicted", "balanced_accuracy", "recall_macro",
    "f1_macro",
)  # fmt: skip
# Scores of one class per sample that are equal to one of ours; recall_macro where every class occurs.
_EQUAL = {
    "recall_micro": "accuracy", "precision_micro": "accuracy", "f1_micro": "accuracy",
    "recall_macro": "balanced_accuracy", "recall_weighted": "accuracy",
}  # fmt: skip
# A cell of fewer samples says little about its accuracy and does not count.
_FEWEST_CONTRADICTED = 10

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
        return kept.astype(np.float64)

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

    scorer: Scorer | None = None
    warned: list[str] = field(default_factory=list)

    def units(self, kept: Array) -> FloatArray | None:
        """None: it is not a mean over samples."""
        return None

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
        gives = "classes and probabilities: use accuracy, f1_macro, average_precision or neg_log_loss"
        if self.task.name == "regression":
            gives = "numbers and no probabilities: use neg_mean_absolute_error, r2, worst_decile or max_error"
        y = self.targets[rows]
        answers = (_NumberAnswers if self.task.name == "regression" else _ClassAnswers)(self.task, outputs)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                value = float(self.scorer(answers, rows, y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y))
        except SteepError:
            raise
        except Exception as error:
            raise InputError(
                f"scoring={self.name!r} cannot score a {self.task.name} head of {self.task.n_outputs} outputs "
                f"({one_line(error)[:200]}); expected a score of what it gives; it gives {gives}"
            ) from error
        if caught and not self.warned:
            self.warned.append(" ".join(str(caught[0].message).split())[:200])
            words = f"scoring={self.name!r} warned; further warnings are not shown: {self.warned[0]}"
            warnings.warn(words, caught[0].category, stacklevel=2)
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
        """Classes, 0/1 columns, or numbers."""
        outputs = self.outputs[rows]
        if self.task.name == "multiclass":
            return np.asarray(outputs.argmax(axis=1))
        found = outputs if self.task.name == "regression" else (outputs > 0).astype(np.int64)
        return np.asarray(found[:, 0] if found.shape[1] == 1 and self.task.name != "multilabel" else found)


class _ClassAnswers(_Given, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    @property
    def classes_(self) -> Array:
        """The classes of the head."""
        return np.arange(max(self.task.n_outputs, 2))

    def predict_proba(self, rows: Array) -> FloatArray:
        """Probabilities."""
        return self.task.probabilities(self.outputs[rows])


class _NumberAnswers(_Given, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    pass


# ------------------------------------------------------------------------------- scores by name


def check_scoring(scoring: Any) -> Wanted:
    """The scores asked for, the deciding one first; names of ours have no scorer. Empty for the default of the task."""
    if scoring is None:
        return {}
    if isinstance(scoring, Mapping | str) or callable(scoring):
        entries = scoring if isinstance(scoring, Mapping) else [scoring]
    elif isinstance(scoring, Iterable) and getattr(scoring, "ndim", 1) > 0:
        entries = list(scoring)
    else:
        raise InputTypeError(
            f"scoring={shown(scoring)} is a {type(scoring).__name__}; expected the name of a score, or several"
        )
    if not entries:
        raise InputError("scoring is empty; expected at least one score; leave it out for the default")
    if isinstance(entries, Mapping):
        return dict(resolve_scorers(None, entries))
    wanted: Wanted = {}
    for entry in entries:
        if isinstance(entry, str) and entry in (*_OF_CLASSES, *_OF_NUMBERS):
            wanted[entry] = None
        elif isinstance(entry, str) or callable(entry):
            wanted |= resolve_scorers(None, entry)
        else:
            raise InputTypeError(f"scoring holds {shown(entry)}; expected names of scores, or callables")
    return wanted


def make_scores(
    wanted: Wanted, task: HeadTask, targets: Array, groups: Any, contradicted: Callable[[], npt.NDArray[np.bool_]]
) -> list[MeanScore]:
    """The scores on samples with these targets and groups, the deciding one first.

    ``contradicted`` says whether most of a sample's nearest training samples have another label; called if needed.
    """
    wanted = wanted or {_default(task): None}
    codes = None if groups is None else check_groups(groups, len(targets))
    if codes is not None and "worst_group_accuracy" in wanted and task.has_classes:
        pairs = np.unique(np.column_stack([codes, targets.reshape(-1)]), axis=0)
        if len(pairs) == len(np.unique(codes)) == len(np.unique(targets)):
            warn_user(
                "groups are the classes, so worst_group_accuracy is worst_class_accuracy; pass "
                "scoring='worst_class_accuracy' and leave groups out"
            )
    samples = _Scored(task, targets, codes, contradicted)
    return [samples.score(name, scorer) for name, scorer in wanted.items()]


def refuse_unfit(wanted: Wanted, task: HeadTask, *, has_groups: bool) -> None:
    """Raise if a score does not fit the head, or lacks its groups."""
    known = {"regression": _OF_NUMBERS, "multilabel": _OF_LABELS}.get(task.name, _OF_CLASSES)
    for name, scorer in wanted.items():
        if name in _WITH_GROUPS and not has_groups:
            raise InputError(f"scoring={name!r} needs groups, got none; pass groups=, one for each sample")
        if scorer is not None or name in known:
            continue
        if task.name == "multilabel" and name in _OF_CLASSES:
            raise InputError(
                f"scoring={name!r} needs one class per sample, but the head has several labels per sample; use "
                f"{', '.join(_OF_LABELS)}, or a scikit-learn scorer such as f1_macro"
            )
        raise InputError(
            f"scoring={name!r} does not fit a {task.name} head; expected one of {', '.join(known)}, or a scikit-learn "
            "scorer of what it gives; choose one"
        )


def deciding_words(wanted: Wanted, task: HeadTask) -> Score:
    """The deciding score as people read it."""
    return Score.named(next(iter(wanted), _default(task)))


def _default(task: HeadTask) -> str:
    return "neg_mean_squared_error" if task.name == "regression" else "accuracy"


@dataclass(frozen=True)
class _Scored:
    """The samples that scores are made for."""

    task: HeadTask
    targets: Array
    groups: npt.NDArray[np.int64] | None
    contradicted: Callable[[], npt.NDArray[np.bool_]]

    def score(self, name: str, scorer: Scorer | None) -> MeanScore:
        task, targets = self.task, self.targets
        if scorer is not None:
            equal = self._equal_to(name, scorer)
            if equal is None:
                return WholeScore(name, task, targets, lambda outputs, _: outputs, scorer=scorer)
            return replace(self.score(equal, None), name=name)
        if task.name == "multilabel" and name == "balanced_accuracy":
            return WholeScore(name, task, targets, lambda outputs, _: outputs, scorer=_balanced_over_labels)
        function = self._function(name)
        if name in ("accuracy", "neg_log_loss", "neg_mean_squared_error", "neg_mean_absolute_error"):
            return MeanScore(name, task, targets, function)
        return CellScore(name, task, targets, function, cells=self._cells(name), is_worst=name != "balanced_accuracy")

    def _function(self, name: str) -> Callable[[FloatArray, Array], Array]:
        if name == "neg_log_loss":
            return log_likelihoods(self.task)
        if self.task.name == "regression" and name != "neg_mean_squared_error":
            return lambda outputs, targets: -np.abs(outputs - targets).mean(axis=1)
        return self.task.scores

    def _equal_to(self, name: str, scorer: Scorer) -> str | None:
        """The score of ours that a scikit-learn score is equal to; None if there is none."""
        equal = _EQUAL.get(name)
        # A mapping may give the name to another scorer.
        if equal is None or not self.task.has_classes or repr(scorer) != repr(get_scorer(name)):
            return None
        if equal == "balanced_accuracy" and len(np.unique(self.targets)) < max(self.task.n_outputs, 2):
            return None
        return equal

    def _cells(self, name: str) -> npt.NDArray[np.int64]:
        if name in _WITH_GROUPS:
            return np.asarray(self.groups)
        classes = self.targets.reshape(-1).astype(np.int64)
        n_classes = max(self.task.n_outputs, 2)
        if name != "worst_contradicted":
            if absent := sorted(set(range(n_classes)) - set(classes.tolist())):
                raise InputError(
                    f"scoring={name!r} counts every class, but class {absent[0]} is absent from the validation data; "
                    "pass more data, or use accuracy"
                )
            return classes
        cells = 2 * classes + self.contradicted()
        counts = np.bincount(cells, minlength=2 * n_classes)
        if not (counts >= _FEWEST_CONTRADICTED).any():
            raise InputError(
                f"scoring={name!r} needs {_FEWEST_CONTRADICTED} validation samples of one class that are all "
                "contradicted, or all not; pass more data, or use accuracy"
            )
        return np.where(counts[cells] >= _FEWEST_CONTRADICTED, cells, -1)


def check_groups(groups: Any, n_samples: int) -> npt.NDArray[np.int64]:
    """Groups as numbers from 0; every group named must be met."""
    unused = [c for c in getattr(groups, "categories", []) if c not in set(np.asarray(groups, dtype=object))]
    if unused:
        raise InputError(f"group {shown(unused[0])} is absent from validation; expected samples of each; pass more")
    try:
        array = np.asarray(groups)
    except ValueError as error:
        raise InputError(f"groups are ragged ({error}); expected one for each of {n_samples} samples") from error
    if array.ndim != 1 or len(array) != n_samples:
        got = f"shape {array.shape}" if array.ndim != 1 else f"{len(array)} entries"
        raise InputError(f"groups has {got}; expected one group for each of {n_samples} validation samples")
    missing = array != array if array.dtype.kind == "f" else np.array([value is None for value in array])
    if np.any(missing):
        raise InputError(f"groups lacks {int(np.sum(missing))} entries; expected a group for each sample; name it")
    try:
        names, codes = np.unique(array.astype(str) if array.dtype == object else array, return_inverse=True)
    except TypeError as error:
        raise InputTypeError(f"groups cannot be sorted ({error}); expected text or numbers") from error
    if len(names) < 2:
        raise InputError(f"groups holds one group, {shown(names[0])}; expected at least two; leave groups out")
    return codes.astype(np.int64)


# ------------------------------------------------------------------------------- scores of each sample


def log_likelihoods(task: HeadTask) -> Callable[[FloatArray, Array], Array]:
    """A function of outputs and targets that gives the log-likelihood of each sample."""

    def each(outputs: FloatArray, targets: Array) -> Array:
        z = outputs.astype(np.float64)
        if task.name != "multiclass":
            return np.asarray(log_expit(np.where(targets > 0.5, z, -z)).mean(axis=1))
        return np.asarray(log_softmax(z, axis=1)[np.arange(len(z)), targets])

    return each


def _balanced_over_labels(estimator: Any, rows: Array, y: Array) -> float:
    """Mean over labels of the recall of 0 and 1; what does not occur does not count."""
    right = estimator.predict(rows) == y
    with np.errstate(invalid="ignore"):
        recalls = [(right & (y == value)).sum(axis=0) / (y == value).sum(axis=0) for value in (0, 1)]
    return float(np.nanmean(np.nanmean(recalls, axis=0)))
