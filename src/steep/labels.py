"""Labels of every kind, in the two forms the measures work with.

Variance needs numbers, and the index of a class is not one: class 9 is not nine times class 1. So a
class stands for its one-hot column and variance is summed over columns. Labels are kept as one of

* ``codes``, ``(n_samples,)`` integers: one class per sample. The one-hot matrix they stand for is
  never built, because the variance of one-hot columns follows from counts alone;
* ``values``, ``(n_samples, n_outputs)`` floats: regression, several outputs, or indicator columns of
  multi-label data.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, check_choice
from steep.exceptions import InputError, InputTypeError, SteepWarning

Task = Literal["auto", "classification", "regression"]
TASKS = ("auto", "classification", "regression")

INF = float("inf")

# Integer labels with more classes than this share of the samples are more likely counts or ages.
_SUSPICIOUS_CLASS_SHARE = 0.1
_SUSPICIOUS_CLASS_MINIMUM = 20


@dataclass(frozen=True)
class Labels:
    """Labels as class ``codes`` or as ``values``; exactly one of the two is set."""

    codes: npt.NDArray[np.int32] | None = None
    values: npt.NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.codes if self.codes is not None else self.array)

    @property
    def array(self) -> npt.NDArray[Any]:
        """Whichever of the two forms is set."""
        return self.codes if self.codes is not None else self.values  # type: ignore[return-value]


def check_labels(y: Any, *, n_samples: int, task: Task = "auto", name: str = "y") -> Labels:
    """Return ``y`` in the form its kind asks for.

    With ``task="auto"`` floats are regression and everything else (integers, booleans, strings,
    categories) is classes; a 2-D array of 0 and 1 is multi-label. Integers that are quantities need
    ``task="regression"``.
    """
    check_choice(task, name="task", choices=TASKS)
    array = _label_array(y, name)
    if array.ndim not in (1, 2) or array.shape[0] != n_samples:
        raise InputError(
            f"{name} has shape {array.shape} for {n_samples} samples; need ({n_samples},) or "
            f"({n_samples}, n_outputs)"
        )
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    is_regression = task == "regression" or (task == "auto" and array.dtype.kind == "f")
    if is_regression:
        return Labels(values=_finite_values(array, name))
    if array.ndim == 2:
        return Labels(values=_indicator_columns(array, name))
    return Labels(codes=_class_codes(array, name, warn=task == "auto"))


def _label_array(y: Any, name: str) -> npt.NDArray[Any]:
    if y is None:
        raise InputError(
            f"{name} is None; need labels. This requires y to be passed, but the target y is None"
        )
    if hasattr(y, "toarray"):
        raise InputTypeError(f"{name} is sparse; need a dense array; call {name}.toarray()")
    try:
        array = np.asarray(y)
    except ValueError as error:
        raise InputError(f"{name} is ragged ({error}); need one row of the same length per sample") from error
    if np.iscomplexobj(array):
        raise InputError(f"{name} is complex. Complex data not supported: need real numbers or classes")
    return array


def _finite_values(array: npt.NDArray[Any], name: str) -> npt.NDArray[np.float64]:
    try:
        values = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} is not numeric ({error}); need numbers for regression; pass task='classification' "
            "if these are classes"
        ) from error
    finite = np.isfinite(values)
    if not finite.all():
        at = int(np.argwhere(~finite)[0][0])
        kind = "NaN" if np.isnan(values[at]).any() else "infinity (inf)"
        raise InputError(
            f"{name} contains {kind}, first at sample {at}; need a label for every sample; drop those rows"
        )
    return values.reshape(len(values), -1)


def _class_codes(array: npt.NDArray[Any], name: str, *, warn: bool) -> npt.NDArray[np.int32]:
    if array.dtype.kind in "fO":
        _refuse_missing(array, name)
    try:
        classes, codes = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise InputTypeError(
            f"{name} mixes kinds of labels that cannot be compared ({error}); need one kind; convert them to str"
        ) from error
    suspicious = max(_SUSPICIOUS_CLASS_MINIMUM, _SUSPICIOUS_CLASS_SHARE * len(array))
    if warn and array.dtype.kind in "iu" and len(classes) > suspicious:
        warnings.warn(
            f"{name} holds {len(classes)} different integers in {len(array)} samples and is taken as classes; "
            "pass task='regression' if they are quantities, or task='classification' to keep this quiet",
            SteepWarning,
            stacklevel=4,
        )
    return codes.reshape(-1).astype(np.int32)


def _refuse_missing(array: npt.NDArray[Any], name: str) -> None:
    missing = [
        i for i, label in enumerate(array.tolist()) if label is None or label != label or label in (INF, -INF)
    ]
    if missing:
        raise InputError(
            f"{name} contains NaN, infinity (inf) or None, first at sample {missing[0]}; need a label for every "
            "sample; drop those rows"
        )


def _indicator_columns(array: npt.NDArray[Any], name: str) -> npt.NDArray[np.float64]:
    """One column per label; columns that hold several classes become one column per class."""
    if array.dtype.kind in "biuf" and np.isin(array, (0, 1)).all():
        return array.astype(np.float64)
    columns = [_class_codes(array[:, j], name, warn=False) for j in range(array.shape[1])]
    return np.hstack([np.eye(int(codes.max()) + 1)[codes] for codes in columns])


def one_hot(labels: Labels) -> FloatArray:
    """Return the columns whose variances are summed: one-hot for classes, the values themselves else."""
    if labels.codes is None:
        return labels.array
    return np.asarray(np.eye(int(labels.codes.max()) + 1)[labels.codes])
