"""What a page shows of single samples: row, label, picture or text, some columns, and the neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import is_bool_dtype, is_integer_dtype, is_numeric_dtype

from steep._sklearn import count_samples, take_rows
from steep._validation import IntArray, one_line, shown
from steep.exceptions import InputError, InputTypeError
from steep.labels import Labels, check_labels, infer_task
from steep.report.coordinates import array_of, column_name
from steep.report.page import number
from steep.report.pictures import Pictures

# Columns of the user's table, neighbours of a sample, and characters of a cell and of a text.
_MOST_COLUMNS, MOST_NEIGHBORS = 8, 10
_CELL, _TEXT = 60, 600
# Characters of pictures and texts in all that show up under the pointer.
_BUDGET = 1_500_000
# Pages keep row numbers in four bytes.
_LARGEST_NUMBER = 2**32 - 1


def count_rows(data: Any, name: str) -> int:
    """Rows of a table, or an error that says what is no table."""
    if isinstance(data, str | bytes | Mapping):
        raise InputTypeError(f"{name} is {shown(data)}; need a frame or an array, one row a sample")
    try:
        return int(count_samples(data))
    except TypeError as error:
        raise InputTypeError(f"{name} is {shown(data)}, no data ({one_line(error)}); need one row a sample") from error


def read_labels(y: Any, n_samples: int, name: str = "y") -> Labels:
    """Labels as a page shows them: classes by name, or numbers."""
    return check_labels(y, n_samples=n_samples, task=infer_task(y, name), name=name)


class Cards:
    """Rows of a data set as people look at them.

    Parameters
    ----------
    labels : Labels
        The labels.
    table : array-like or frame, optional
        Columns to show beside them.
    target : str
        Column that is not shown again.
    images, texts : array-like and sequence of str, optional
        Pictures and texts of the samples.
    index : Index, optional
        Row numbers to show; default, and for anything but row numbers, the places in the data.
    """

    def __init__(
        self,
        labels: Labels,
        *,
        table: Any = None,
        target: str = "",
        images: Any = None,
        texts: Any = None,
        index: Any = None,
    ) -> None:
        self.labels = labels
        self.numbers = _row_numbers(index, len(labels))
        self.columns = _Columns(table, len(labels), target)
        self._pictures = None if images is None else Pictures(images, len(labels))
        self._texts = None if texts is None else _checked_texts(texts, len(labels))

    @property
    def has_pictures(self) -> bool:
        """Whether samples are pictures."""
        return self._pictures is not None

    @property
    def has_texts(self) -> bool:
        """Whether samples are texts."""
        return self._texts is not None

    def label(self, row: int) -> str:
        """The label of one sample, in words."""
        if self.labels.codes is None:
            return ", ".join(number(value, 4) for value in self.labels.array[row])
        assert self.labels.classes is not None
        return str(self.labels.classes[self.labels.codes[row]])[:_CELL]

    def face(self, row: int) -> dict[str, Any]:
        """Row, label, and picture or text of one sample."""
        face: dict[str, Any] = {"row": int(self.numbers[row]), "label": self.label(row)}
        if self._pictures is not None:
            face["picture"] = self._pictures.uri(row)
        if self._texts is not None:
            face["text"] = _cut(self._texts[row], _TEXT)
        return face

    def faces(self, rows: IntArray, first: IntArray) -> list[str | None] | None:
        """Pictures or texts of many rows, ``first`` ones first, as long as there is room."""
        if self._pictures is None and self._texts is None:
            return None
        place = {int(row): i for i, row in enumerate(rows)}
        order = [*(int(row) for row in first), *(int(row) for row in rows)]
        found: list[str | None] = [None] * len(rows)
        room = _BUDGET
        for row in dict.fromkeys(order):
            face = self._pictures.uri(row) if self._pictures is not None else _cut(self._texts[row], 160)  # type: ignore[index]
            room -= len(face)
            if room < 0:
                break
            found[place[row]] = face
        return found

    def around(self, row: int, neighbors: IntArray) -> dict[str, Any]:
        """Places of the neighbours of one sample, and what they are labelled."""
        others = [int(other) for other in neighbors if other != row][:MOST_NEIGHBORS]
        around: dict[str, Any] = {"rows": others, "differs": False, "key": -1.0}
        if not others:
            return around | {"words": "not known"}
        if self.labels.codes is None:
            with np.errstate(over="ignore"):
                mean = float(self.labels.array[others, 0].mean())
            return around | {"words": f"{number(mean, 4)} on average", "key": mean}
        own, names = self.label(row), [self.label(other) for other in others]
        (most, votes), *_ = Counter(names).most_common(1)
        differs = most != own and 2 * votes > len(others)
        return around | {
            "words": f"{votes} of {len(others)} are {most}",
            "differs": differs,
            "key": names.count(own) / len(others),
        }


def _row_numbers(index: Any, n_samples: int) -> IntArray:
    """The index where it holds row numbers that a page can pack, else the places in the data."""
    if (
        isinstance(index, pd.Index)
        and len(index) == n_samples
        and is_integer_dtype(index.dtype)
        and index.is_unique
        and 0 <= index.min() <= index.max() <= _LARGEST_NUMBER
    ):
        return index.to_numpy(dtype=np.int64)
    return np.arange(n_samples)


class _Columns:
    """The first columns of the user's table."""

    def __init__(self, table: Any, n_samples: int, target: str) -> None:
        self._frame: pd.DataFrame | None = None
        self.names: list[str] = []
        self.kinds: list[str] = []
        self.left_out = 0
        if table is None:
            return
        if (n_rows := count_rows(table, "table")) != n_samples:
            raise InputError(f"table has {n_rows} rows for {n_samples} samples; need one a sample")
        self._frame, n_columns = _first_columns(table, target)
        self.names = [_cut(column_name(name), _CELL) for name in self._frame.columns]
        self.kinds = ["number" if _is_number(dtype) else "text" for dtype in self._frame.dtypes]
        self.left_out = n_columns - self._frame.shape[1]

    def cells(self, rows: IntArray) -> list[list[dict[str, Any]]]:
        """Text of each cell, and the number to sort it by where it is one."""
        if self._frame is None or not self.kinds:  # a frame without columns has no rows to pandas 2
            return [[] for _ in rows]
        part = take_rows(self._frame, rows)
        return [[_cell(value) for value in values] for values in part.itertuples(index=False, name=None)]


def _first_columns(table: Any, target: str) -> tuple[pd.DataFrame, int]:
    """The first columns but the target, and how many there are."""
    if not isinstance(table, pd.DataFrame):
        if hasattr(table, "get_columns"):  # polars
            table = pd.DataFrame({column.name: column.to_numpy() for column in table.get_columns()})
        else:
            array = array_of(table, "table")
            if array.ndim != 2:
                raise InputError(f"table has shape {array.shape}; need (n_samples, n_columns)")
            return pd.DataFrame(array[:, :_MOST_COLUMNS]), array.shape[1]
    places = [place for place, name in enumerate(table.columns) if str(name) != target]
    return table.iloc[:, places[:_MOST_COLUMNS]], len(places)


def _is_number(dtype: Any) -> bool:
    return bool(is_numeric_dtype(dtype) and not is_bool_dtype(dtype))


def _cell(value: Any) -> dict[str, Any]:
    if isinstance(value, bool | np.bool_):
        return {"text": "yes" if value else "no", "key": None}
    if isinstance(value, int | float | np.integer | np.floating) and np.isfinite(value):
        return {"text": number(value, 4), "key": float(value)}
    try:
        missing = bool(pd.isna(value))
    except (TypeError, ValueError):  # a list in a cell
        missing = False
    return {"text": "missing" if missing else _cut(str(value), _CELL), "key": None}


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _checked_texts(texts: Any, n_samples: int) -> list[str]:
    if isinstance(texts, str | bytes) or not (isinstance(texts, Sequence) or hasattr(texts, "__array__")):
        raise InputTypeError(f"texts is {shown(texts)}; need a list of strings, one a sample")
    listed = [str(text) for text in texts]
    if len(listed) != n_samples:
        raise InputError(f"texts has {len(listed)} entries for {n_samples} samples; need one a sample")
    return listed


def check_neighbors(neighbors: Any, n_samples: int) -> IntArray:
    """Indices of the neighbours of every sample, from them alone or from (distances, indices)."""
    if isinstance(neighbors, tuple) and len(neighbors) == 2:
        neighbors = neighbors[1]
    indices = array_of(neighbors, "neighbors")
    if indices.ndim != 2 or len(indices) != n_samples or indices.dtype.kind not in "iu":
        raise InputError(
            f"neighbors is {indices.dtype} of shape {indices.shape}; need whole numbers of shape "
            f"({n_samples}, n_neighbors), or (distances, indices)"
        )
    if indices.size and not (indices.min() >= -1 and indices.max() < n_samples):
        raise InputError(f"neighbors goes from {indices.min()} to {indices.max()}; need rows from 0 to {n_samples - 1}")
    return indices


def label_columns(labels: Labels) -> tuple[npt.NDArray[Any], list[str] | None]:
    """A number for each label to colour by, and the names of the classes."""
    if labels.codes is None:
        return labels.array[:, 0], None
    assert labels.classes is not None
    return labels.codes, [_cut(str(name), _CELL) for name in labels.classes]


def looks(cards: Cards, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Neighbours of the samples in a table, and what each looks like; each is kept once."""
    around = {str(row["row"]): cards.numbers[row["around"]["rows"]].tolist() for row in rows}
    wanted = dict.fromkeys(other for row in rows for other in row["around"]["rows"])
    return {"around": around, "looks": {str(cards.numbers[other]): cards.face(other) for other in wanted}}
