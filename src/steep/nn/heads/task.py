"""What a head is trained for: its labels, its loss, and how each held-out sample is scored.

task         labels                          head           score of a sample
multiclass   class numbers 0 … C−1           C logits       whether the class is right
binary       0/1                             one logit      whether the class is right
multilabel   0/1 columns                     C logits       share of labels that are right
regression   numbers                         values         − squared error (summed over outputs)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from steep._validation import FloatArray, check_choice
from steep.exceptions import InputError, InputTypeError, warn_user
from steep.labels import Labels, check_labels

TaskName = Literal["auto", "multiclass", "binary", "multilabel", "regression"]
TASKS = ("auto", "multiclass", "binary", "multilabel", "regression")
# Whether each sample is right, as bool, or how well it is done, as float32.
Scores = npt.NDArray[Any]
# Squared errors are kept in single precision and squared once more as evidence; larger ones would overflow.
_LARGEST = 1e9
# How far the sum of the probabilities of a row may be from one; half precision keeps three digits.
_NEAR_ONE = 5e-3


@dataclass(frozen=True)
class HeadTask:
    """The kind of a head and its number of outputs."""

    name: TaskName
    n_outputs: int

    @property
    def loss(self) -> str:
        """Which convex problem the head solves."""
        return {"multiclass": "softmax", "regression": "squared"}.get(self.name, "sigmoid")

    @property
    def has_classes(self) -> bool:
        """Whether each sample has one class."""
        return self.name in ("multiclass", "binary")

    def refuse_one_label(self, targets: npt.NDArray[Any]) -> None:
        """Reject labels that are all the same: they cannot rank heads."""
        if len(targets) > 1 and (targets == targets[0]).all():
            raise InputError(
                f"all {len(targets)} training labels are equal; expected at least two different ones to fit a head; "
                "look at the labels"
            )

    def class_counts(self, targets: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Samples of each class, or of each label."""
        if self.name == "multilabel":
            return np.asarray(targets.sum(axis=0), dtype=np.int64)
        return np.bincount(targets.reshape(-1).astype(np.int64), minlength=max(self.n_outputs, 2))

    def targets(self, labels: Any, *, name: str = "labels") -> npt.NDArray[Any]:
        """Check labels and return class numbers, or float columns."""
        array = np.asarray(labels)
        if array.dtype.kind in "USmMV":
            raise InputTypeError(
                f"{name} has dtype {array.dtype}; expected numbers, for classes those of the head's outputs; "
                "encode text by np.unique(labels, return_inverse=True)[1]"
            )
        columns = check_labels(labels, n_samples=len(array), task="regression", name=name).array
        if self.name == "multiclass":
            return _class_numbers(columns, array.shape, self.n_outputs, name)
        if columns.shape[1] != self.n_outputs:
            raise InputError(
                f"{name} has shape {array.shape} for a head of {self.n_outputs} outputs; expected "
                f"({len(array)}, {self.n_outputs})"
            )
        largest, allowed = float(np.abs(columns).max(initial=0.0)), _LARGEST / columns.shape[1] ** 0.5
        if self.name == "regression" and largest > allowed:
            raise InputError(
                f"{name} reach {largest:.3g}; expected numbers up to {allowed:.3g}; divide them, and the outputs of "
                "the network, by a constant"
            )
        if self.name != "regression" and not np.isin(columns, (0, 1)).all():
            raise InputError(f"{name} holds values other than 0 and 1; expected 0/1 for a {self.name} head")
        return columns

    def as_labels(self, targets: npt.NDArray[Any]) -> Labels:
        """Targets in the form the measures work with: one class per sample, or columns."""
        if self.has_classes:
            return Labels(codes=targets.reshape(-1).astype(np.int32))
        return Labels(values=targets)

    def probabilities(self, outputs: FloatArray) -> FloatArray:
        """Probability of each class, or of each label of several."""
        if self.name == "multiclass":
            return np.asarray(softmax(outputs.astype(np.float64), axis=1))
        positive = np.asarray(expit(outputs.astype(np.float64)))
        return positive if self.name == "multilabel" else np.hstack([1 - positive, positive])

    def predictions(self, outputs: FloatArray, labels: Labels) -> FloatArray:
        """What the head says, in the columns of the labels: probabilities of the classes, or values."""
        if self.name == "regression":
            return outputs.astype(np.float64)
        probabilities = self.probabilities(outputs)
        # The measures count the classes that occur, which may be fewer than the head has outputs.
        return probabilities if labels.codes is None else probabilities[:, : int(labels.codes.max()) + 1]

    def scores(self, outputs: FloatArray, targets: npt.NDArray[Any], *, threshold: float = 0.0) -> Scores:
        """Score of each sample; larger is better. ``threshold`` is that between 0 and 1 in the outputs."""
        if self.name == "multiclass":
            return np.asarray(outputs.argmax(axis=1) == targets)
        if self.name == "regression":
            with np.errstate(over="ignore", invalid="ignore"):
                return np.asarray((-((outputs - targets) ** 2).sum(axis=1)).astype(np.float32))
        right = (outputs > threshold) == (targets > 0.5)
        return np.asarray(right[:, 0] if self.name == "binary" else right.mean(axis=1, dtype=np.float32))


def find_task(task: TaskName, labels: Any, n_outputs: int) -> HeadTask:
    """Tell the task from the labels and the head."""
    check_choice(task, name="task", choices=TASKS)
    array = np.asarray(labels)
    if task == "binary" and n_outputs != 1:
        raise InputError(
            f"task='binary' needs a head of one output, got {n_outputs}; pass task='multiclass' or 'multilabel'"
        )
    if task != "auto":
        return HeadTask(task, n_outputs)
    is_indicator = array.dtype.kind in "biuf" and bool(np.isin(array, (0, 1)).all())
    columns = 1 if array.ndim <= 1 else array.shape[1]
    if n_outputs == 1:
        return HeadTask("binary" if is_indicator else "regression", 1)
    if columns == 1:
        return HeadTask("multiclass", n_outputs)
    if not _are_shares(array, n_outputs):
        return HeadTask("multilabel" if is_indicator else "regression", n_outputs)
    if not is_indicator:
        raise InputError(
            "labels have rows that sum to one, as class probabilities; pass labels.argmax(1) to fit classes, or "
            "task='regression' if the outputs of the network are numbers"
        )
    warn_user(
        "labels are one-hot and are taken as classes; pass labels.argmax(1) or task='multiclass' to silence this "
        "warning, or task='multilabel' if each column is a label of its own"
    )
    return HeadTask("multiclass", n_outputs)


def _are_shares(array: npt.NDArray[Any], n_outputs: int) -> bool:
    """Whether every row holds one number ≥ 0 per output, and they sum to one."""
    if array.ndim != 2 or array.shape[1] != n_outputs or array.dtype.kind not in "biuf" or not len(array):
        return False
    sums = array.sum(axis=1, dtype=np.float64)
    return bool((array >= 0).all() and (np.abs(sums - 1) <= _NEAR_ONE).all())


def _class_numbers(columns: FloatArray, shape: tuple[int, ...], n_classes: int, name: str) -> npt.NDArray[np.int64]:
    if columns.shape[1] == n_classes > 1 and np.isin(columns, (0, 1)).all() and (columns.sum(axis=1) == 1).all():
        return np.asarray(columns.argmax(axis=1), dtype=np.int64)  # one-hot
    if columns.shape[1] != 1:
        raise InputError(f"{name} has shape {shape}; expected one class number per sample")
    classes = columns[:, 0].astype(np.int64)
    if (classes != columns[:, 0]).any():
        raise InputError(f"{name} holds values that are not class numbers; expected 0 … {n_classes - 1}")
    if classes.min() < 0 or classes.max() >= n_classes:
        bad = classes[(classes < 0) | (classes >= n_classes)][0]
        raise InputError(
            f"{name} holds class {bad}, but the head has {n_classes} outputs; expected classes 0 … {n_classes - 1}"
        )
    return classes
