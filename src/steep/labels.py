"""Labels of every kind, in the two forms the measures work with.

Variance needs numbers, and the index of a class is not one: class 9 is not nine times class 1. So a
class stands for its one-hot column and variance is summed over columns. Labels are kept as one of

* ``codes``, ``(n_samples,)`` integers: one class per sample. The one-hot matrix they stand for is
  never built, because the variance of one-hot columns follows from counts alone;
* ``values``, ``(n_samples, n_outputs)`` floats: regression, several outputs, or indicator columns of
  multi-label data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from steep._large import refuse_large
from steep._validation import FloatArray, IntArray, check_choice, one_line
from steep._warnings import warn_user
from steep.exceptions import InputError, InputTypeError

Task = Literal["auto", "classification", "regression"]
TASKS = ("auto", "classification", "regression")

# Integer labels with more classes than this share of the samples are more likely counts or ages.
_SUSPICIOUS_CLASS_SHARE = 0.1
_SUSPICIOUS_CLASS_MINIMUM = 20

# Whole floats with no more different values than this, each met ten times on average, are more likely classes.
_FEW_VALUES = 10


# An output whose deviation is a smaller share of its size than this is constant: the rest is rounding.
_ROUNDING = 1e-12


def deviations(values: FloatArray) -> FloatArray:
    """Standard deviation of each output, to divide by; infinite for an output that is constant up to rounding.

    Examples
    --------
    >>> deviations(np.array([[1.0, 0.1 + 0.2], [3.0, 0.3]])).tolist()
    [1.0, inf]
    """
    spread = values.std(axis=0)
    return np.where(spread > _ROUNDING * np.abs(values).max(axis=0, initial=0.0), spread, np.inf)


@dataclass(frozen=True)
class Labels:
    """Labels as class ``codes`` or as ``values``; exactly one of the two is set.

    ``classes`` are what the codes stand for, in order; rows taken from others keep them all.
    """

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
        """Columns whose variances are summed: one a class, or one an output."""
        if self.codes is None:
            return int(self.array.shape[1])
        return len(self.classes) if self.classes is not None else int(self.codes.max()) + 1

    def rows(self, rows: IntArray) -> Labels:
        """The labels of some samples, as they were read among all."""
        if self.codes is not None:
            return Labels(codes=self.codes[rows], classes=self.classes)
        return Labels(values=self.array[rows])


def check_labels(y: Any, *, n_samples: int, task: Task = "auto", name: str = "y") -> Labels:
    """Return ``y`` in the form its kind asks for.

    With ``task="auto"`` floats are regression and everything else (integers, booleans, strings,
    categories) is classes; a 2-D array of 0 and 1 is multi-label. Integers that are quantities need
    ``task="regression"``, floats that are classes ``task="classification"``.
    """
    check_choice(task, name="task", choices=TASKS)
    array = _label_array(y, name)
    if array.ndim not in (1, 2) or array.shape[0] != n_samples or 0 in array.shape:
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
    codes, classes = _class_codes(array, name, warn=task == "auto")
    return Labels(codes=codes, classes=classes)


def warn_of_float_classes(labels: Labels, task: Task, *, fewest: int = 3) -> None:
    """Warn where ``task="auto"`` took a few whole floats (0.0, 1.0, 2.0) as quantities.

    Two classes weigh the same either way, so that ``fewest`` is 3 where only weights are wanted.
    """
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


def _label_array(y: Any, name: str) -> npt.NDArray[Any]:
    if y is None:
        raise InputError(
            f"{name} is None; need labels. This requires y to be passed, but the target y is None"
        )
    refuse_large(y, name, f"call {name}.compute() if it fits")
    if hasattr(y, "toarray"):
        raise InputTypeError(f"{name} is sparse; need a dense array; call {name}.toarray()")
    is_pandas = isinstance(y, pd.Series | pd.DataFrame)
    if is_pandas or np.ma.isMA(y):
        missing = np.asarray(y.isna()) if is_pandas else np.ma.getmaskarray(y)
        if missing.any():
            raise _missing(name, missing)
    try:
        array = _pandas_array(y) if is_pandas else np.asarray(y)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{name} is no array ({one_line(error)}); need one row of the same length per sample"
        ) from error
    if np.iscomplexobj(array):
        raise InputError(f"{name} is complex. Complex data not supported: need real numbers or classes")
    if array.dtype.kind == "V":
        raise InputTypeError(f"{name} holds records ({array.dtype}); need one array of numbers or classes")
    if array.dtype.kind in "OmM" and (missing := np.asarray(pd.isna(array))).any():
        raise _missing(name, missing)
    return array


def _pandas_array(y: Any) -> npt.NDArray[Any]:
    """Pandas labels as NumPy holds them; its nullable dtypes would become objects otherwise."""
    kinds = {dtype.kind for dtype in ([y.dtype] if isinstance(y, pd.Series) else y.dtypes)}
    for allowed, dtype in (("b", bool), ("biu", np.int64), ("biuf", np.float64)):
        if kinds and kinds <= set(allowed):
            return np.asarray(y.to_numpy(dtype=dtype))
    return np.asarray(y)


def _missing(name: str, missing: npt.NDArray[Any]) -> InputError:
    at = int(np.argwhere(np.atleast_1d(missing))[0][0])  # a lone NA has no axis
    return InputError(
        f"{name} contains NaN, infinity (inf) or None, first at sample {at} ({int(missing.sum())} in all, NaT, NA and "
        "masked entries counted); need a label for every sample; drop those rows"
    )


def _finite_values(array: npt.NDArray[Any], name: str) -> npt.NDArray[np.float64]:
    try:
        values = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{name} is not numeric ({one_line(error)}); need numbers for regression; pass task='classification' "
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


def _class_codes(
    array: npt.NDArray[Any], name: str, *, warn: bool
) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise _missing(name, ~np.isfinite(array))
    try:
        classes, codes = np.unique(array, return_inverse=True)
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"{name} mixes kinds of labels that cannot be compared ({one_line(error)}); need one kind; convert "
            "them to str"
        ) from error
    suspicious = max(_SUSPICIOUS_CLASS_MINIMUM, _SUSPICIOUS_CLASS_SHARE * len(array))
    if warn and array.dtype.kind in "iu" and len(classes) > suspicious:
        warn_user(
            f"{name} holds {len(classes)} different integers in {len(array)} samples and is taken as classes; "
            "pass task='regression' if they are quantities, or task='classification' to keep this quiet"
        )
    return codes.reshape(-1).astype(np.int32), classes


def _indicator_columns(array: npt.NDArray[Any], name: str) -> npt.NDArray[np.float64]:
    """One column per label; columns that hold several classes become one column per class."""
    if array.dtype.kind in "biuf" and np.isin(array, (0, 1)).all():
        return array.astype(np.float64)
    columns = [_class_codes(array[:, j], name, warn=False)[0] for j in range(array.shape[1])]
    return np.hstack([np.eye(int(codes.max()) + 1)[codes] for codes in columns])


def one_hot(labels: Labels) -> FloatArray:
    """Return the columns whose variances are summed: one-hot for classes, the values themselves else."""
    if labels.codes is None:
        return labels.array
    return np.asarray(np.eye(labels.n_columns)[labels.codes])
