"""Scores by name: what ``scoring=`` may be, and the score on held-out samples behind each name.

Scores that are mathematically equal are one score: they choose the same head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import get_scorer

from steep._validation import FloatArray, IntArray, shown
from steep.evidence import Score
from steep.exceptions import InputError, InputTypeError, warn_user
from steep.metrics import Scorer, resolve_scorers
from steep.nn.heads import HeadTask
from steep.nn.scores import Array, CellScore, MeanScore, WholeScore, classes_of, decision_score, log_likelihoods

Wanted = dict[str, Scorer | None]

# Names with evidence of their own, by what the head is for.
_OF_CLASSES = (
    "accuracy", "neg_log_loss", "balanced_accuracy", "worst_class_accuracy", "worst_group_accuracy",
    "worst_contradicted", "f2",
)  # fmt: skip
_OF_LABELS = ("accuracy", "balanced_accuracy", "neg_log_loss", "worst_group_accuracy")  # means over the labels
_OF_NUMBERS = ("neg_mean_squared_error", "neg_mean_absolute_error", "worst_group_mae")
_WITH_GROUPS = ("worst_group_accuracy", "worst_group_mae")
# Scores of one class per sample that are equal to one of ours; recall_macro where every class occurs.
_EQUAL = {
    "recall_micro": "accuracy", "precision_micro": "accuracy", "f1_micro": "accuracy",
    "recall_macro": "balanced_accuracy", "recall_weighted": "accuracy",
}  # fmt: skip
# A cell of fewer samples says little about its accuracy and does not count.
_FEWEST_CONTRADICTED = 10


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
    wanted: Wanted,
    task: HeadTask,
    targets: Array,
    groups: IntArray | None,
    contradicted: Callable[[], npt.NDArray[np.bool_]],
) -> list[MeanScore]:
    """The scores on samples with these targets and groups, the deciding one first.

    ``contradicted`` says whether most of a sample's nearest training samples have another label; called if needed.
    """
    wanted = wanted or {_default(task): None}
    codes = groups
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
    groups: IntArray | None
    contradicted: Callable[[], npt.NDArray[np.bool_]]

    def score(self, name: str, scorer: Scorer | None) -> MeanScore:
        task, targets = self.task, self.targets
        if scorer is not None or name == "f2":
            equal = self._equal_to(name, scorer)
            if equal is None:
                if found := decision_score(name, scorer, task, targets):
                    return found
                if scorer is None:
                    raise InputError(
                        f"scoring='f2' needs two classes, got {task.n_outputs}; pass sklearn.metrics.make_scorer("
                        "fbeta_score, beta=2, average='macro')"
                    )
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

    def _equal_to(self, name: str, scorer: Scorer | None) -> str | None:
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
        classes = classes_of(self.targets)
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


def check_groups(groups: Any, n_samples: int, *, name: str = "validation") -> npt.NDArray[np.int64]:
    """Groups as numbers from 0; every group named must be met."""
    unused = [c for c in getattr(groups, "categories", []) if c not in set(np.asarray(groups, dtype=object))]
    if unused:
        raise InputError(f"group {shown(unused[0])} is absent from {name}; expected samples of each; pass more")
    try:
        array = np.asarray(groups)
    except ValueError as error:
        raise InputError(f"groups are ragged ({error}); expected one for each of {n_samples} samples") from error
    if array.ndim != 1 or len(array) != n_samples:
        got = f"shape {array.shape}" if array.ndim != 1 else f"{len(array)} entries"
        raise InputError(f"groups has {got}; expected one group for each of {n_samples} {name} samples")
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


def _balanced_over_labels(estimator: Any, rows: Array, y: Array) -> float:
    """Mean over labels of the recall of 0 and 1; what does not occur does not count."""
    right = estimator.predict(rows) == y
    with np.errstate(invalid="ignore"):
        recalls = [(right & (y == value)).sum(axis=0) / (y == value).sum(axis=0) for value in (0, 1)]
    return float(np.nanmean(np.nanmean(recalls, axis=0)))
