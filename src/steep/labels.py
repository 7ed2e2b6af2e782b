"""Labels of every kind, in the two forms the measures work with.

Variance needs numbers, and the index of a class is not one: class 9 is not nine times class 1. So a
class stands for its one-hot column and variance is summed over columns. Labels are kept as one of

* ``codes``, ``(n_samples,)`` integers: one class per sample; variances follow from counts, without the one-hot matrix;
* ``values``, ``(n_samples, n_outputs)`` floats: regression, several outputs, or indicator columns of multi-label data.

One rule says which of the two labels are, :func:`infer_task`: floats are numbers; so are integers of more than 20
different values, unless they are exactly the codes 0 to C − 1 or 1 to C of C classes with ten samples or more each on
average; everything else is classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from steep._validation import SMALLEST_NUMBER, FloatArray, IntArray, check_choice, check_size, one_line, refuse_large
from steep.exceptions import InputError, InputTypeError, warn_user

Task = Literal["auto", "classification", "regression"]
TASKS = ("auto", "classification", "regression")

# Integers of more different values are more likely counts, ages or prices, unless they are codes of classes.
_MOST_CLASSES = 20
_SAMPLES_A_CLASS = 10

_AT_ONCE = 2**24  # numbers of one-hot columns held at once: 128 MiB
_MOST_NUMBERS = 2**26  # of all one-hot columns of labels in several columns

# Whole floats with no more different values than this, each met ten times on average, are more likely classes.
_FEW_VALUES = 10

# An output whose deviation is a smaller share of its size than this is constant: the rest is rounding.
_ROUNDING = 1e-12


def deviations(values: FloatArray) -> FloatArray:
    """Standard deviation of each output, to divide by; infinite for an output that is constant up to rounding."""
    spread = values.std(axis=0)
    return np.where(spread > _ROUNDING * np.abs(values).max(axis=0, initial=0.0), spread, np.inf)


@dataclass(frozen=True)
class Labels:
    """Labels as class ``codes``, which stand for ``classes`` in order, or as ``values``; one of the two is set."""

    codes: npt.NDArray[np.int32] | None = None
    values: npt.NDArray[np.float64] | None = None
    classes: npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.codes if self.codes is not None else self.array)

    @property
    def array(self) -> npt.NDArray[Any]:
        """Whichever of the two forms is set."""
        return self.codes if self.codes is not None else self.values  # type: ignore[return-value]

    @property
    def n_columns(self) -> int:
        """Columns whose variances are summed: one per class, or one per output."""
        if self.codes is None:
            return int(self.array.shape[1])
        return len(self.classes) if self.classes is not None else int(self.codes.max()) + 1

    @property
    def size(self) -> float:
        """The largest length of a label that is a number, or several."""
        return 0.0 if self.codes is not None else float(np.linalg.norm(np.abs(self.array).max(axis=0)))

    def rows(self, rows: IntArray) -> Labels:
        """The labels of some samples, as they were read among all."""
        if self.codes is not None:
            return Labels(codes=self.codes[rows], classes=self.classes)
        return Labels(values=self.array[rows])


def check_labels(y: Any, *, n_samples: int, task: Task = "auto", name: str = "y") -> Labels:
    """``y`` in the form of its kind; classes in several columns are 0/1 columns, or become one column per class."""
    check_choice(task, name="task", choices=TASKS)
    array = label_array(y, name)
    if array.ndim not in (1, 2) or array.shape[0] != n_samples or 0 in array.shape:
        raise InputError(
            f"{name} has shape {array.shape} for {n_samples} samples; expected ({n_samples},) or ({n_samples}, "
            "n_outputs)"
        )
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if task == "auto":
        task = _inferred(array, y)
        if task == "regression" and array.dtype.kind in "iu":
            warn_user(
                f"{name} holds {len(np.unique(array))} different integers and is read as numbers; pass "
                "task='classification' if they are classes, or task='regression' to keep this quiet"
            )
    if task == "regression":
        return Labels(values=_finite_values(array, name))
    if array.ndim == 2:
        return Labels(values=_indicator_columns(array, name))
    codes, classes = _class_codes(array, name)
    return Labels(codes=codes, classes=classes)


def infer_task(y: Any, name: str = "y") -> Literal["classification", "regression"]:
    """Whether labels are classes or numbers where task= is not given; numbers as soon as one column is."""
    return _inferred(label_array(y, name), y)


def _inferred(array: npt.NDArray[Any], y: Any) -> Literal["classification", "regression"]:
    kinds = y.dtypes if isinstance(y, pd.DataFrame) else [getattr(y, "dtype", None)]
    if all(isinstance(kind, pd.CategoricalDtype) for kind in kinds):
        return "classification"
    if array.dtype.kind == "f":
        return "regression"
    if array.dtype.kind in "iu" and array.ndim and array.size:
        columns = array.reshape(len(array), -1).T
        if any(are_quantities(np.unique(column), len(column)) for column in columns):
            return "regression"
    return "classification"


def are_quantities(different: npt.NDArray[Any], n_samples: int) -> bool:
    """Whether integers, of which the different ones are given in order, are numbers rather than classes."""
    first, last = int(different[0]), int(different[-1])
    are_codes = first in (0, 1) and last - first == len(different) - 1
    are_codes &= n_samples >= _SAMPLES_A_CLASS * len(different)
    return len(different) > _MOST_CLASSES and not are_codes


def warn_of_float_classes(labels: Labels, task: Task, *, fewest: int = 3) -> None:
    """Warn where "auto" took a few whole floats as quantities; two classes get the same weights either way."""
    if task != "auto" or labels.codes is not None or labels.n_columns > 1:
        return
    values = labels.array[:, 0]
    if not (values[: 10 * _FEW_VALUES] == np.round(values[: 10 * _FEW_VALUES])).all():
        return
    different = np.unique(values)
    is_few = fewest <= len(different) <= min(_FEW_VALUES, len(values) // 10)
    if is_few and (different == np.round(different)).all():
        warn_user(
            f"y holds {len(different)} different whole numbers as floats and is taken as quantities; pass "
            "task='classification' if they are classes, or task='regression' to keep this quiet"
        )


def label_array(y: Any, name: str) -> npt.NDArray[Any]:
    """Labels as NumPy holds them, without missing ones; numbers that are held as objects as numbers."""
    if y is None:
        raise InputError(
            f"{name} is None. This estimator requires y to be passed, but the target y is None; pass labels"
        )
    refuse_large(y, name)
    if hasattr(y, "toarray"):
        raise InputTypeError(f"{name} is sparse; expected a dense array; call {name}.toarray()")
    is_pandas = isinstance(y, pd.Series | pd.DataFrame)
    if is_pandas or np.ma.isMA(y):
        missing = np.asarray(y.isna()) if is_pandas else np.ma.getmaskarray(y)
        if missing.any():
            raise _missing(name, missing)
    try:
        array = np.asarray(y)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} is not an array ({one_line(error)}); expected rows of one length") from error
    if np.iscomplexobj(array):
        raise InputError(f"{name} is complex. Complex data not supported: pass real numbers or classes")
    if array.dtype.kind == "V":
        raise InputTypeError(f"{name} holds records ({array.dtype}); expected one array of numbers or classes")
    if array.dtype.kind in "OmM" and (missing := np.asarray(pd.isna(array))).any():
        raise _missing(name, missing)
    return _plain_numbers(array) if array.dtype.kind == "O" else array


def _plain_numbers(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Objects that are all numbers (decimals, floats of pandas' object columns) as numbers; others as they are."""
    flat = array.ravel().tolist()
    if not all(isinstance(value, Real | Decimal) and not isinstance(value, bool) for value in flat):
        return array
    if not all(isinstance(value, Integral) for value in flat):
        return array.astype(np.float64)
    for dtype in (np.int64, np.uint64):
        try:
            return array.astype(dtype)
        except OverflowError:
            continue
    return array  # beyond all integers of NumPy: classes


def _missing(name: str, missing: npt.NDArray[Any]) -> InputError:
    at = int(np.argwhere(np.atleast_1d(missing))[0][0])  # a lone NA has no axis
    return InputError(
        f"{name} contains NaN, infinity (inf) or None, first at sample {at} ({int(missing.sum())} in all, NaT, NA and "
        "masked entries counted); expected a label for every sample; drop those rows"
    )


def _finite_values(array: npt.NDArray[Any], name: str) -> npt.NDArray[np.float64]:
    if array.dtype.kind in "iu" and max(largest := int(array.max()), -int(array.min())) > 2**53:
        raise InputError(
            f"{name} reaches {largest}, and integers above 2^53 lose digits as floating-point numbers; expected "
            "smaller ones; subtract an offset, or pass task='classification' if they are classes"
        )
    try:
        values = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{name} is not numeric ({one_line(error)}); expected numbers for regression; pass task='classification' "
            "if these are classes"
        ) from error
    if not (finite := np.isfinite(values)).all():
        at = int(np.argwhere(~finite)[0][0])
        kind = "NaN" if np.isnan(values[at]).any() else "infinity (inf)"
        raise InputError(f"{name} contains {kind}, first at sample {at}; expected a label everywhere; drop those rows")
    check_size(values, name)
    return values.reshape(len(values), -1)


def refuse_tiny(labels: Labels) -> None:
    """Reject numbers whose squares vanish, where ratios of them matter."""
    largest = 0.0 if labels.codes is not None else float(np.abs(labels.array).max())
    if 0 < largest < SMALLEST_NUMBER:
        raise InputError(
            f"y reaches {largest:.2g}; expected numbers from {SMALLEST_NUMBER:g} on, because squares of smaller ones "
            "vanish; multiply them"
        )


def _class_codes(array: npt.NDArray[Any], name: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise _missing(name, ~np.isfinite(array))
    try:
        classes, codes = np.unique(array, return_inverse=True)
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"{name} mixes kinds of labels that cannot be compared ({one_line(error)}); expected one kind; convert "
            "them to str"
        ) from error
    return codes.reshape(-1).astype(np.int32), classes


def _indicator_columns(array: npt.NDArray[Any], name: str) -> npt.NDArray[np.float64]:
    """One column per label; columns that hold several classes become one column per class."""
    if array.dtype.kind in "biuf" and np.isin(array, (0, 1)).all():
        return array.astype(np.float64)
    columns = [_class_codes(array[:, j], name)[0] for j in range(array.shape[1])]
    n_classes = sum(int(codes.max()) + 1 for codes in columns)
    if n_classes * len(array) > _MOST_NUMBERS:
        raise InputError(
            f"{name} has {len(columns)} columns with {n_classes:,} classes in {len(array):,} samples; expected at most "
            f"{_MOST_NUMBERS // len(array):,} classes; pass one column at a time, or task='regression' for numbers"
        )
    return np.hstack([np.eye(int(codes.max()) + 1)[codes] for codes in columns])


def one_hot(labels: Labels) -> FloatArray:
    """Return the columns whose variances are summed: one-hot for classes, the values themselves else."""
    if labels.codes is None:
        return labels.array
    return np.asarray(np.eye(labels.n_columns)[labels.codes])


def column_blocks(labels: Labels) -> Iterator[FloatArray]:
    """The columns of :func:`one_hot`, a block of them at a time: thousands of classes would fill the memory."""
    if labels.codes is None:
        yield labels.array
        return
    step = max(1, _AT_ONCE // len(labels))
    for first in range(0, labels.n_columns, step):
        block = np.zeros((len(labels), min(step, labels.n_columns - first)))
        inside = np.flatnonzero((labels.codes >= first) & (labels.codes < first + block.shape[1]))
        block[inside, labels.codes[inside] - first] = 1.0
        yield block
