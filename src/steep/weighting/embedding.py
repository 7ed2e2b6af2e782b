"""The space in which neighbours are looked for.

Distances need finite numbers in comparable units, estimators take far more than that. With ``embedding="auto"``
the samples become points in three steps, each learned from the training rows alone:

    preprocessing   all steps but the last of the wrapped pipeline, as the estimator will see the data
    encoding        categories, text and booleans one-hot, two different ones 1 apart; dates as numbers; missing
                    values as the median or the most frequent value, with a column that says "missing"
    standardising   numbers to mean 0 and deviation 1

The points serve distances only: the estimator is trained on the data as they were given.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import infer_dtype
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from steep._outputs import as_pandas
from steep._sklearn import count_samples, take_rows
from steep._validation import FloatArray, IntArray, check_points, one_line, shown
from steep.exceptions import InputError, InputTypeError, SteepError
from steep.neighbors.folds import standardise
from steep.weighting.fitting import inner_estimator

# A column of more categories keeps the most frequent ones apart and pools the others.
_MOST_CATEGORIES = 50

# Entries of a sparse result that is still made dense: 64 M doubles are 512 MB.
_MOST_DENSE = 2**26

_HELP = "pass embedding=, a transformer or a callable that returns numbers, for example a fitted encoder's transform"

_NUMBERS = frozenset({"integer", "floating", "mixed-integer-float", "decimal", "empty"})
_DATES = frozenset({"datetime", "datetime64", "date", "timedelta", "timedelta64"})


@dataclass(frozen=True)
class Space:
    """How samples become points, settled once; ``rows`` gives that of a training set.

    ``transform`` is fitted to the training rows and applied to them first; then other columns are ``encoded`` and
    numbers ``standardised``. ``numbers`` is ``X`` where it is plain numbers and nothing but standardising is left to
    do: the points of some rows then follow from theirs, and one neighbour graph serves all training sets.
    """

    X: Any
    y: Any
    transform: Any = None
    encoded: bool = False
    standardised: bool = True
    numbers: FloatArray | None = None

    @classmethod
    def settle(cls, X: Any, embedding: Any, *, y: Any = None, estimator: Any = None) -> Self:
        """Check ``X`` and ``embedding`` before anything is fitted; see :func:`sample_weights`."""
        if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
            check_points(X)
        if embedding is None or (isinstance(embedding, str) and embedding == "standard"):
            try:
                numbers_alone = check_points(X)
            except SteepError as error:
                raise type(error)(f"{error}; or leave embedding={shown(embedding)} for 'auto'") from error
            return cls(X, y, standardised=embedding is not None, numbers=numbers_alone)
        if isinstance(embedding, str) and embedding == "auto":
            steps = preprocessing_of(estimator)
            if steps:
                return cls(X, y, make_pipeline(*steps), encoded=True)
            if issparse(X):
                raise InputTypeError(
                    "X is sparse; expected dense numbers to find neighbours; pass embedding=TruncatedSVD(50) or "
                    "another transformer, or call X.toarray() if it fits in memory"
                )
            found = None if _needs_encoding(X) else check_points(X)
            return cls(X, y, encoded=found is None, numbers=found)
        if not isinstance(embedding, type) and (hasattr(embedding, "fit_transform") or callable(embedding)):
            return cls(X, y, embedding, standardised=False)
        raise InputTypeError(
            f"embedding={shown(embedding)} is unknown; expected 'auto', 'standard', None, a transformer with "
            "fit_transform, or a callable"
        )

    def rows(self, rows: IntArray) -> Self:
        """The same for some of the samples."""
        X = take_rows(self.X, rows)
        numbers = self.numbers
        if numbers is not None:
            numbers = X if numbers is self.X else numbers[rows]
        return replace(self, X=X, y=None if self.y is None else take_rows(self.y, rows), numbers=numbers)

    def points(self) -> FloatArray:
        """Points of the samples, learned from them alone."""
        if self.numbers is not None:
            return standardise(self.numbers) if self.standardised else self.numbers
        X = self.X if self.transform is None else self._transformed(self.X, self.y)
        if not self.standardised:
            return check_points(X, name=f"{_name(self.transform)}(X)")
        return encode(X) if _needs_encoding(X) else standardise(check_points(X))

    def _transformed(self, X: Any, y: Any) -> Any:
        if not hasattr(self.transform, "fit_transform"):
            result = self.transform(X)
        else:
            supervised = self.encoded or get_tags(self.transform).target_tags.required
            try:
                result = clone(self.transform).fit_transform(X, *((y,) if supervised else ()))
            except (TypeError, ValueError) as error:
                raise InputError(
                    f"{_name(self.transform)} fails on X ({one_line(error)}), so no neighbours can be found; {_HELP}"
                ) from error
        n_samples = count_samples(X)
        shape = getattr(result, "shape", ()) or (len(result) if hasattr(result, "__len__") else 0,)
        if shape[0] != n_samples:
            name = _name(self.transform)
            raise InputError(f"{name} turns {n_samples} samples into {shape[0]}; expected one row per sample; {_HELP}")
        if issparse(result) and result.shape[0] * result.shape[1] > _MOST_DENSE:
            raise InputTypeError(
                f"the preprocessing returns a sparse matrix of shape {result.shape}, too large to make dense; {_HELP}, "
                "or embedding=make_pipeline(preprocessing, TruncatedSVD(50))"
            )
        return result.toarray() if issparse(result) else result


def embed(X: Any, embedding: Any = "auto", *, y: Any = None, estimator: Any = None) -> FloatArray:
    """Map all of ``X`` to the space in which neighbours are looked for; see :func:`sample_weights`.

    Examples
    --------
    >>> embed([[1.0, 10.0], [3.0, 30.0]])
    array([[-1., -1.],
           [ 1.,  1.]])
    >>> embed(pd.DataFrame({"colour": ["red", "blue"]})) @ [1.0, 1.0]
    array([0.70710678, 0.70710678])
    """
    return Space.settle(X, embedding, y=y, estimator=estimator).points()


def preprocessing_of(estimator: Any) -> list[Any]:
    """Steps before the last of a pipeline, also of one inside a search or another pipeline."""
    if hasattr(estimator, "steps"):
        before = [step for _, step in estimator.steps[:-1] if step not in (None, "passthrough")]
        return before + preprocessing_of(estimator.steps[-1][1])
    inner = inner_estimator(estimator)
    return [] if inner is None else preprocessing_of(inner)


def encode(X: Any) -> FloatArray:
    """Numbers for distances of a table of any columns; numbers and dates standardised.

    Examples
    --------
    >>> encode([[1.0], [None], [5.0], [3.0]]).round(2)
    array([[-1.41,  0.  ],
           [ 0.  ,  1.  ],
           [ 1.41,  0.  ],
           [ 0.  ,  0.  ]])
    """
    frame = _frame(X)
    parts = [part for j, name in enumerate(frame.columns) for part in _encoded(repr(name), frame.iloc[:, j])]
    return check_points(np.column_stack(parts))


def _frame(X: Any) -> pd.DataFrame:
    """A frame of pandas or polars, or a 2-D array of objects, as a frame."""
    table = as_pandas(X)
    if isinstance(table, pd.DataFrame):
        return table
    table = _objects(table)
    # Without a dtype pandas guesses one, and a guess may turn numbers and text into text.
    return pd.DataFrame(table, dtype=object if table.dtype.kind == "O" else None)


def _encoded(name: str, column: pd.Series) -> list[FloatArray]:
    """The columns that stand for one: numbers, or a column a category; and one for "missing"."""
    missing, kind = column.isna().to_numpy(dtype=bool), column_kind(column)
    if kind == "categories":
        _refuse_strange(name, column)
        part = _categories(column, missing)
    else:
        part = _numbers(name, column, kind, missing)[:, None]
    return [part, missing[:, None].astype(np.float64)] if missing.any() else [part]


def column_kind(column: pd.Series) -> str:
    """What a column holds: "numbers", "dates", spans of time among them, or "categories"."""
    kind = getattr(column.dtype, "kind", "O")
    if kind in "iufMm":
        return "dates" if kind in "Mm" else "numbers"
    inferred = "" if kind == "b" else infer_dtype(column, skipna=True)
    return "numbers" if inferred in _NUMBERS else "dates" if inferred in _DATES else "categories"


def _refuse_strange(name: str, column: pd.Series) -> None:
    """Reject complex numbers, and cells that are neither text nor numbers, such as lists and dicts."""
    kind = getattr(column.dtype, "kind", "O")
    inferred = infer_dtype(column, skipna=True) if kind == "O" else ""
    if kind == "c" or inferred == "complex":
        raise InputError(f"column {name} of X is complex. Complex data not supported: need real numbers; {_HELP}")
    for value in column[~column.isna()] if inferred.startswith("mixed") else ():
        if not isinstance(value, str | bytes | numbers.Number):
            raise InputTypeError(
                f"column {name} of X is not numeric (argument must be a string or a real number, not "
                f"{type(value).__name__!r}); {_HELP}"
            )


def _numbers(name: str, column: pd.Series, kind: str, missing: npt.NDArray[np.bool_]) -> FloatArray:
    """A column of numbers or dates, standardised; missing ones at the median."""
    try:
        if kind == "dates" and (column.dtype.kind == "m" or infer_dtype(column, skipna=True) == "timedelta"):
            values = np.asarray(pd.to_timedelta(column), dtype="timedelta64[us]")
        elif kind == "dates":
            values = np.asarray(pd.to_datetime(column, utc=True).dt.tz_localize(None), dtype="datetime64[us]")
        else:
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        values = values.astype(np.float64)
    except (TypeError, ValueError, OverflowError, pd.errors.OutOfBoundsDatetime) as error:
        raise InputError(f"column {name} of X is not numeric ({one_line(error)}); {_HELP}") from error
    if np.isinf(values[~missing]).any():
        raise InputError(f"column {name} of X contains infinity (inf); expected finite numbers; or {_HELP}")
    values[missing] = np.median(values[~missing]) if not missing.all() else 0.0
    return standardise(values[:, None])[:, 0]


def _categories(column: pd.Series, missing: npt.NDArray[np.bool_]) -> FloatArray:
    """One column a category, 1/√2 where it is met, so that two different ones are 1 apart."""
    codes = pd.factorize(column)[0].copy()
    counts = np.bincount(codes[~missing], minlength=1)
    codes[missing] = counts.argmax()
    if len(counts) > _MOST_CATEGORIES:
        frequent = np.argsort(-counts, kind="stable")[:_MOST_CATEGORIES]
        place = np.full(len(counts), _MOST_CATEGORIES)
        place[frequent] = np.arange(_MOST_CATEGORIES)
        codes = place[codes]
    return np.asarray(np.eye(int(codes.max()) + 1)[codes] / np.sqrt(2))


def _needs_encoding(X: Any) -> bool:
    """Whether a table holds anything but finite numbers."""
    table = as_pandas(X)
    if isinstance(table, pd.DataFrame):
        kinds = {getattr(dtype, "kind", "O") for dtype in table.dtypes}
        return bool(table.size) and (not kinds <= set("iuf") or bool(table.isna().to_numpy().any()))
    array = table if isinstance(table, np.ndarray) else _objects(table)
    if array.ndim != 2 or not array.size:
        return False
    if array.dtype.kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):
            return bool(np.isnan(array.sum()) and np.isnan(array).any())
    return array.dtype.kind in "OUSmM"


def _objects(X: Any) -> npt.NDArray[Any]:
    """A nested list as an array; text next to numbers does not turn them into text."""
    try:
        array = np.asarray(X)
        return array if array.dtype.kind not in "US" else np.asarray(X, dtype=object)
    except (TypeError, ValueError) as error:
        raise InputError(f"X is not a table ({one_line(error)}); expected (n_samples, n_features); {_HELP}") from error


def _name(transform: Any) -> str:
    if hasattr(transform, "steps"):
        return "the preprocessing of the pipeline"
    return "embedding.fit_transform" if hasattr(transform, "fit_transform") else "embedding"
