"""Scores by name: ours, which know cells and pairs, and every scorer of scikit-learn's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import get_scorer

from steep._validation import FloatArray, shown
from steep.evidence import Score
from steep.exceptions import InputError, InputTypeError
from steep.metrics import Scorer, resolve_scorers
from steep.nn.data_checks import warn_of_groups_that_are_classes
from steep.nn.heads import HeadTask
from steep.nn.scoring import Array, CellScore, MeanScore, WholeScore

# Names with evidence of their own, by what the head is for.
_OF_CLASSES = (
    "accuracy", "neg_log_loss", "balanced_accuracy", "worst_class_accuracy", "worst_group_accuracy",
    "worst_contradicted",
)  # fmt: skip
_OF_LABELS = ("accuracy", "balanced_accuracy", "neg_log_loss", "worst_group_accuracy")  # means over the labels
_OF_NUMBERS = ("neg_mean_squared_error", "neg_mean_absolute_error", "worst_group_mae")
_WITH_GROUPS = ("worst_group_accuracy", "worst_group_mae")
# Scores that weights by contradiction were made for: they count the samples a mean forgets.
UNEVEN = (
    "worst_group_accuracy",
    "worst_class_accuracy",
    "worst_contradicted",
    "balanced_accuracy",
    "recall_macro",
    "f1_macro",
)
# Scores of one class per sample that are equal to one of ours; recall_macro where every class occurs.
_EQUAL = {
    "recall_micro": "accuracy", "precision_micro": "accuracy", "f1_micro": "accuracy",
    "recall_macro": "balanced_accuracy", "recall_weighted": "accuracy",
}  # fmt: skip
# A cell of fewer samples says little of its accuracy: it is not asked.
_FEWEST_CONTRADICTED = 10

Wanted = dict[str, Scorer | None]


def check_scoring(scoring: Any) -> Wanted:
    """The scores asked for, the deciding one first; empty for the default of the task.

    Parameters
    ----------
    scoring : None, str, callable, or a sequence or mapping of them
        Names of ours have no scorer: they are made once the data are known.

    Examples
    --------
    >>> list(check_scoring(["worst_group_accuracy", "accuracy"]))
    ['worst_group_accuracy', 'accuracy']
    """
    if scoring is None:
        return {}
    if isinstance(scoring, Mapping | str) or callable(scoring):
        entries = scoring if isinstance(scoring, Mapping) else [scoring]
    elif isinstance(scoring, Iterable):
        entries = list(scoring)
    else:
        raise InputTypeError(
            f"scoring={shown(scoring)} is a {type(scoring).__name__}; need the name of a score, or several"
        )
    if not entries:
        raise InputError("scoring is empty; need at least one score; leave it out for the default")
    if isinstance(entries, Mapping):
        return dict(resolve_scorers(None, entries))
    wanted: Wanted = {}
    for entry in entries:
        if isinstance(entry, str) and entry in (*_OF_CLASSES, *_OF_NUMBERS):
            wanted[entry] = None
        elif isinstance(entry, str) or callable(entry):
            wanted |= resolve_scorers(None, entry)
        else:
            raise InputTypeError(f"scoring holds {shown(entry)}; need names of scores, or callables")
    return wanted


def make_scores(
    wanted: Wanted, task: HeadTask, targets: Array, groups: Any, contradicted: Callable[[], npt.NDArray[np.bool_]]
) -> list[MeanScore]:
    """The scores on these samples, the deciding one first.

    Parameters
    ----------
    wanted : mapping
        From :func:`check_scoring`.
    task, targets
        What the heads are for, and the targets of the samples they are scored on.
    groups : array-like of shape (n_samples,), optional
        Groups of the same samples.
    contradicted : callable
        Whether most of a sample's nearest training samples have another label; asked when a score needs it.
    """
    wanted = wanted or {_default(task): None}
    codes = None if groups is None else check_groups(groups, len(targets))
    if codes is not None and "worst_group_accuracy" in wanted and task.name in ("multiclass", "binary"):
        warn_of_groups_that_are_classes(codes, targets.reshape(-1).astype(np.int64))
    return [_make(name, scorer, task, targets, codes, contradicted) for name, scorer in wanted.items()]


def refuse_unfit(wanted: Wanted, task: HeadTask, *, has_groups: bool) -> None:
    """Raise if a score does not fit the head, or lacks its groups."""
    for name, scorer in wanted.items():
        if name in _WITH_GROUPS and not has_groups:
            raise InputError(f"scoring={name!r} needs groups, got none; pass groups=, one for each sample")
        if scorer is None:
            _refuse_task(name, task)


def _refuse_task(name: str, task: HeadTask) -> None:
    is_number = task.name == "regression"
    if task.name == "multilabel" and name in _OF_CLASSES and name not in _OF_LABELS:
        raise InputError(
            f"scoring={name!r} needs one class per sample, but the head has several labels per sample; use "
            f"{', '.join(_OF_LABELS)}, or a scikit-learn scorer such as f1_macro"
        )
    if is_number != (name in _OF_NUMBERS):
        known = _OF_NUMBERS if is_number else _OF_LABELS if task.name == "multilabel" else _OF_CLASSES
        raise InputError(
            f"scoring={name!r} does not fit a {task.name} head; need one of {', '.join(known)}, or a scikit-learn "
            "scorer of what it gives; choose one"
        )


def deciding_words(wanted: Wanted, task: HeadTask) -> Score:
    """The deciding score as people read it."""
    return Score.named(next(iter(wanted), _default(task)))


def _default(task: HeadTask) -> str:
    return "neg_mean_squared_error" if task.name == "regression" else "accuracy"


def _make(
    name: str, scorer: Scorer | None, task: HeadTask, targets: Array, groups: Any, contradicted: Any
) -> MeanScore:
    if scorer is not None:
        equal = _equal_to(name, scorer, task, targets)
        if equal is None:
            return WholeScore(name, task, targets, _nothing, scorer=scorer)
        return replace(_make(equal, None, task, targets, groups, contradicted), name=name)
    if task.name == "multilabel" and name == "balanced_accuracy":
        return WholeScore(name, task, targets, _nothing, scorer=_balanced_over_labels)
    function = _FUNCTIONS.get(name, _absolute if task.name == "regression" else _hits)(task)
    if name in ("accuracy", "neg_log_loss", "neg_mean_squared_error", "neg_mean_absolute_error"):
        return MeanScore(name, task, targets, function)
    cells = _cells(name, task, targets, groups, contradicted)
    return CellScore(name, task, targets, function, cells=cells, is_worst=name != "balanced_accuracy")


def _equal_to(name: str, scorer: Scorer, task: HeadTask, targets: Array) -> str | None:
    """The score of ours that a scikit-learn score is equal to; None where there is none."""
    equal = _EQUAL.get(name)
    # A mapping of the caller may give the name to another scorer.
    if equal is None or task.name not in ("multiclass", "binary") or repr(scorer) != repr(get_scorer(name)):
        return None
    if equal == "balanced_accuracy" and len(np.unique(targets)) < max(task.n_outputs, 2):
        return None
    return equal


def _cells(name: str, task: HeadTask, targets: Array, groups: Any, contradicted: Any) -> npt.NDArray[np.int64]:
    if name in _WITH_GROUPS:
        return np.asarray(groups)
    classes = targets.reshape(-1).astype(np.int64)
    n_classes = max(task.n_outputs, 2)
    if name != "worst_contradicted":
        if absent := sorted(set(range(n_classes)) - set(classes.tolist())):
            raise InputError(
                f"scoring={name!r} counts every class, and class {absent[0]} is absent from the validation data; need "
                "all of them; pass more data, or use accuracy"
            )
        return classes
    cells = 2 * classes + contradicted()
    counts = np.bincount(cells, minlength=2 * n_classes)
    if not (counts >= _FEWEST_CONTRADICTED).any():
        raise InputError(
            f"scoring={name!r} found no {_FEWEST_CONTRADICTED} validation samples of one class alike; need more data; "
            "use accuracy"
        )
    return np.where(counts[cells] >= _FEWEST_CONTRADICTED, cells, -1)


def check_groups(groups: Any, n_samples: int) -> npt.NDArray[np.int64]:
    """Groups as numbers from 0; every group named must be met."""
    unused = [c for c in getattr(groups, "categories", []) if c not in set(np.asarray(groups, dtype=object))]
    if unused:
        raise InputError(f"group {shown(unused[0])} is absent from validation; need samples of each; pass more")
    try:
        array = np.asarray(groups)
    except ValueError as error:
        raise InputError(f"groups are ragged ({error}); need one for each of {n_samples} samples") from error
    if array.ndim != 1 or len(array) != n_samples:
        got = f"shape {array.shape}" if array.ndim != 1 else f"{len(array)} entries"
        raise InputError(f"groups has {got}; need one group for each of {n_samples} validation samples")
    missing = array != array if array.dtype.kind == "f" else np.array([value is None for value in array])
    if np.any(missing):
        raise InputError(f"groups lacks {int(np.sum(missing))} entries; need a group for each sample; name it")
    try:
        names, codes = np.unique(array.astype(str) if array.dtype == object else array, return_inverse=True)
    except TypeError as error:
        raise InputTypeError(f"groups cannot be sorted ({error}); need text or numbers") from error
    if len(names) < 2:
        raise InputError(f"groups holds one group, {shown(names[0])}; need at least two; leave groups out")
    return codes.astype(np.int64)


# ------------------------------------------------------------------------------- scores of each sample


def _hits(task: HeadTask) -> Callable[[FloatArray, Array], Array]:
    return lambda outputs, targets: task.scores(outputs, targets)


def _absolute(task: HeadTask) -> Callable[[FloatArray, Array], Array]:
    return lambda outputs, targets: -np.abs(outputs - targets).mean(axis=1)


def log_likelihoods(task: HeadTask) -> Callable[[FloatArray, Array], Array]:
    """A function of outputs and targets that gives the log-likelihood of each sample."""

    def each(outputs: FloatArray, targets: Array) -> Array:
        z = outputs.astype(np.float64)
        if task.name != "multiclass":
            return np.asarray(-np.logaddexp(0.0, -np.where(targets > 0.5, z, -z)).mean(axis=1))
        own = z[np.arange(len(z)), targets]
        return np.asarray(own - np.logaddexp.reduce(z, axis=1))

    return each


def _balanced_over_labels(estimator: Any, rows: Array, y: Array) -> float:
    """Mean over labels of the recall of 0 and 1; what does not occur does not count."""
    right = estimator.predict(rows) == y
    with np.errstate(invalid="ignore"):
        recalls = [(right & (y == value)).sum(axis=0) / (y == value).sum(axis=0) for value in (0, 1)]
    return float(np.nanmean(np.nanmean(recalls, axis=0)))


def _nothing(outputs: FloatArray, targets: Array) -> Array:
    return outputs


_FUNCTIONS = {"neg_log_loss": log_likelihoods, "neg_mean_squared_error": _hits}
