"""What a head is trained for: its labels, its loss, and how each held-out sample is scored.

task         labels                          head           score of a sample
multiclass   class numbers 0 … C−1           C logits       1 if the class is right
binary       0/1                             one logit      1 if the class is right
multilabel   0/1 columns                     C logits       share of labels that are right
regression   numbers                         values         − squared error (summed over outputs)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, check_choice
from steep.exceptions import InputError
from steep.labels import Labels

TaskName = Literal["auto", "multiclass", "binary", "multilabel", "regression"]
TASKS = ("auto", "multiclass", "binary", "multilabel", "regression")


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
    def unit(self) -> str:
        """What the mean score is called."""
        return "mean squared error" if self.name == "regression" else "accuracy"

    def targets(self, labels: Any, *, name: str = "labels") -> npt.NDArray[Any]:
        """Check labels and return class numbers, or float columns."""
        array = np.asarray(labels)
        if self.name == "multiclass":
            return _class_numbers(array, self.n_outputs, name)
        columns = array.reshape(len(array), -1).astype(np.float64)
        if columns.shape[1] != self.n_outputs:
            raise InputError(
                f"{name} has shape {array.shape} for a head of {self.n_outputs} outputs; need "
                f"({len(array)}, {self.n_outputs})"
            )
        if not np.isfinite(columns).all():
            raise InputError(
                f"{name} contains NaN or infinity; need a label for every sample; drop those rows"
            )
        if self.name != "regression" and not np.isin(columns, (0, 1)).all():
            raise InputError(f"{name} holds values other than 0 and 1; need 0/1 for a {self.name} head")
        return columns

    def as_labels(self, targets: npt.NDArray[Any]) -> Labels:
        """Targets in the form the measures work with."""
        if self.name == "multiclass":
            return Labels(codes=targets.astype(np.int32))
        return Labels(values=targets)

    def scores(self, outputs: FloatArray, targets: npt.NDArray[Any]) -> FloatArray:
        """Score of each sample; larger is better."""
        if self.name == "multiclass":
            hits: FloatArray = (outputs.argmax(axis=1) == targets).astype(np.float64)
            return hits
        if self.name == "regression":
            errors: FloatArray = -((outputs - targets) ** 2).sum(axis=1)
            return errors
        right: FloatArray = ((outputs > 0) == (targets > 0.5)).mean(axis=1)
        return right


def find_task(task: TaskName, labels: Any, n_outputs: int) -> HeadTask:
    """Tell the task from the labels and the head."""
    check_choice(task, name="task", choices=TASKS)
    if task != "auto":
        return HeadTask(task, n_outputs)
    array = np.asarray(labels)
    is_indicator = array.dtype.kind in "biuf" and bool(np.isin(array, (0, 1)).all())
    columns = 1 if array.ndim == 1 else array.shape[1]
    if n_outputs == 1:
        return HeadTask("binary" if is_indicator else "regression", 1)
    if columns == 1:
        return HeadTask("multiclass", n_outputs)
    return HeadTask("multilabel" if is_indicator else "regression", n_outputs)


def _class_numbers(array: npt.NDArray[Any], n_classes: int, name: str) -> npt.NDArray[np.int64]:
    flat = array.reshape(-1) if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.ndim != 1:
        raise InputError(f"{name} has shape {array.shape}; need one class number for each sample")
    classes = flat.astype(np.int64) if flat.dtype.kind in "biuf" and np.isfinite(flat).all() else None
    if classes is None or (classes != flat).any():
        raise InputError(f"{name} holds values that are not class numbers; need 0 … {n_classes - 1}")
    if classes.min() < 0 or classes.max() >= n_classes:
        bad = classes[(classes < 0) | (classes >= n_classes)][0]
        raise InputError(
            f"{name} holds class {bad}, but the head has {n_classes} outputs; need classes 0 … {n_classes - 1}"
        )
    return classes
