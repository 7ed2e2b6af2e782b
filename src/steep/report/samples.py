"""What a page shows of samples: a map of them, and cards: row, label, picture or text, columns, and the neighbours.

The samples as neighbours see them (standardised, categories one-hot) are turned so that the first two axes show as much
of their spread as a plane can: principal components. Two features are shown as they are, and one next to the label.
"""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import is_bool_dtype, is_integer_dtype, is_numeric_dtype

from steep._sklearn import count_samples, take_rows
from steep._validation import FloatArray, IntArray, one_line, shown
from steep.exceptions import InputError, InputTypeError, MissingExtraError
from steep.labels import Labels, check_labels, infer_task
from steep.plotting.weights import principal_plane
from steep.report.page import CELL, cell_of, cut, number, pack
from steep.weighting.embedding import embed

# Points of a map: a canvas redraws this many while a slider moves.
MOST_POINTS = 10_000
# Rows of a table, which all stand in the page.
MOST_ROWS = 100
# Features that can be chosen as an axis in addition to the components.
_MOST_FEATURES = 12

# Columns of the user's table, neighbours of a sample, and characters of a text.
_MOST_COLUMNS, MOST_NEIGHBORS = 8, 10
_TEXT = 600
# Longer side of a thumbnail; larger pictures are made smaller.
_LARGEST = 96
# Pages keep row numbers in four bytes.
_LARGEST_NUMBER = 2**32 - 1


@dataclass(frozen=True)
class Shown:
    """Rows on the map, in the order of the data; rows in the table, hardest first; and what is shown, in words."""

    points: IntArray
    hardest: IntArray
    sentence: str

    @classmethod
    def of(cls, hardness: FloatArray, generator: np.random.Generator) -> Shown:
        """The hardest rows, and others at random if there are too many."""
        n_samples = len(hardness)
        hardest = np.argsort(-hardness, kind="stable")[:MOST_ROWS]
        if n_samples <= MOST_POINTS:
            return cls(np.arange(n_samples), hardest, f"All {n_samples:,} rows are on the map.")
        drawn = generator.choice(n_samples, MOST_POINTS, replace=False)
        others = np.setdiff1d(drawn, hardest)
        surplus = len(others) + len(hardest) - MOST_POINTS
        if surplus > 0:
            others = generator.permutation(others)[surplus:]
        points = np.sort(np.concatenate([others, hardest]))
        sentence = (
            f"{len(points):,} of {n_samples:,} rows are on the map, drawn at random, the {len(hardest)} hardest always "
            "among them. Distribution and figures are of all rows."
        )
        return cls(points, hardest, sentence)


def axes_of(X: Any, rows: IntArray, label: tuple[str, FloatArray]) -> list[dict[str, Any]]:
    """Coordinates of some rows of ``X``, packed; the first two are what the map opens with.

    ``label`` has a name and a number per row: the second axis if there is one feature alone.
    """
    part = take_rows(X, rows)
    points = embed(part)
    features = _features(part)
    n_columns = np.shape(part)[1] if np.ndim(part) == 2 else len(features)
    plain = [_axis(name, "", values) for name, values in [*features, label]]
    if len(features) == n_columns <= 2:
        return plain
    planes = zip(("component 1", "component 2"), *(part.T for part in principal_plane(points)), strict=True)
    return [*(_axis(name, f"{100 * share:.0f} % of the spread", values) for name, values, share in planes), *plain]


def array_of(values: Any, name: str) -> npt.NDArray[Any]:
    """Any values as an array, or an error that says which are none."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{name} is {shown(values)}, not an array ({one_line(error)}); expected rows of one length"
        ) from error


def _features(part: Any) -> list[tuple[str, FloatArray]]:
    """Columns of numbers, the first ones, with their names."""
    frame = frame_of(part, "X")
    found: list[tuple[str, FloatArray]] = []
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        if len(found) == _MOST_FEATURES:
            break
        if not is_number(column.dtype):
            continue
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        if np.isfinite(values).all():
            found.append((column_name(name), values))
    return found


def column_name(name: Any) -> str:
    """A name for a column; one that has only a number is x0, x1, …."""
    return f"x{name}" if isinstance(name, int | np.integer) else str(name)


def frame_of(table: Any, name: str) -> pd.DataFrame:
    """A table of pandas, polars or NumPy as one of pandas."""
    if isinstance(table, pd.DataFrame):
        return table
    if hasattr(table, "get_columns"):  # polars
        return pd.DataFrame({column.name: column.to_numpy() for column in table.get_columns()})
    array = array_of(table, name)
    if array.ndim != 2:
        raise InputError(f"{name} has shape {array.shape}; expected (n_samples, n_columns)")
    return pd.DataFrame(array)


def _axis(name: str, about: str, values: FloatArray) -> dict[str, Any]:
    return {"name": name[:80], "about": about, "values": pack(values)}


def is_number(dtype: Any) -> bool:
    """Whether a column holds numbers."""
    return bool(is_numeric_dtype(dtype) and not is_bool_dtype(dtype))


def count_rows(data: Any, name: str) -> int:
    """Rows of a table, or an error that says what is not a table."""
    if isinstance(data, str | bytes | Mapping):
        raise InputTypeError(f"{name} is {shown(data)}; expected a frame or an array with one row per sample")
    try:
        return int(count_samples(data))
    except TypeError as error:
        raise InputTypeError(
            f"{name} is {shown(data)}, not data ({one_line(error)}); expected one row per sample"
        ) from error


def read_labels(y: Any, n_samples: int, name: str = "y") -> Labels:
    """Labels as a page shows them: classes by name, or numbers."""
    return check_labels(y, n_samples=n_samples, task=infer_task(y, name), name=name)


class Cards:
    """Rows of a data set as people look at them: columns of ``table`` but ``target``, pictures, texts, and row numbers.

    Row numbers are those of ``index`` if it holds whole numbers, and otherwise places in the data.
    """

    def __init__(self, labels: Labels, *, table: Any, target: str, images: Any, texts: Any, index: Any) -> None:
        self.labels = labels
        self.numbers = _row_numbers(index, len(labels))
        self.columns = _Columns(table, len(labels), target)
        self._pictures = None if images is None else Pictures(images, len(labels))
        self._texts = None if texts is None else _checked_texts(texts, len(labels))
        self.has_pictures, self.has_texts = images is not None, texts is not None

    def label(self, row: int) -> str:
        """The label of one sample, in words."""
        if self.labels.codes is None:
            return ", ".join(number(value, 4) for value in self.labels.array[row])
        assert self.labels.classes is not None
        return str(self.labels.classes[self.labels.codes[row]])[:CELL]

    def face(self, row: int) -> dict[str, Any]:
        """Row, label, and picture or text of one sample."""
        face: dict[str, Any] = {"row": int(self.numbers[row]), "label": self.label(row)}
        if self._pictures is not None:
            face["picture"] = self._pictures.uri(row)
        if self._texts is not None:
            face["text"] = cut(self._texts[row], _TEXT)
        return face

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
            raise InputError(f"table has {n_rows} rows for {n_samples} samples; expected one per sample")
        frame = frame_of(table, "table")
        places = [place for place, name in enumerate(frame.columns) if str(name) != target]
        self._frame = frame.iloc[:, places[:_MOST_COLUMNS]]
        self.names = [cut(column_name(name)) for name in self._frame.columns]
        self.kinds = ["number" if is_number(dtype) else "text" for dtype in self._frame.dtypes]
        self.left_out = len(places) - self._frame.shape[1]

    def cells(self, rows: IntArray) -> list[list[dict[str, Any]]]:
        """Text of each cell, and the number to sort it by where it is one."""
        if self._frame is None or not self.kinds:  # a frame without columns has no rows to pandas 2
            return [[] for _ in rows]
        part = take_rows(self._frame, rows)
        return [[cell_of(value) for value in values] for values in part.itertuples(index=False, name=None)]


def _checked_texts(texts: Any, n_samples: int) -> list[str]:
    if isinstance(texts, str | bytes) or not (isinstance(texts, Sequence) or hasattr(texts, "__array__")):
        raise InputTypeError(f"texts is {shown(texts)}; expected a list of strings, one per sample")
    listed = [str(text) for text in texts]
    if len(listed) != n_samples:
        raise InputError(f"texts has {len(listed)} entries for {n_samples} samples; expected one per sample")
    return listed


def label_columns(labels: Labels) -> tuple[npt.NDArray[Any], list[str] | None]:
    """A number for each label to colour by, and the names of the classes."""
    if labels.codes is None:
        return labels.array[:, 0], None
    assert labels.classes is not None
    return labels.codes, [cut(str(name)) for name in labels.classes]


def looks(cards: Cards, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Neighbours of the samples in a table, and what each looks like; each is kept once."""
    around = {str(row["row"]): cards.numbers[row["around"]["rows"]].tolist() for row in rows}
    wanted = dict.fromkeys(other for row in rows for other in row["around"]["rows"])
    return {"around": around, "looks": {str(cards.numbers[other]): cards.face(other) for other in wanted}}


class Pictures:
    """Pictures of the samples, ``(n_samples, height, width)`` or ``(n_samples, height, width, 1, 3 or 4)``.

    Whole numbers are bytes from 0 to 255; floats are taken from 0 to the largest one, or from the smallest to the
    largest where some are below 0.
    """

    def __init__(self, images: Any, n_samples: int) -> None:
        self._images = array_of(images, "images")
        shape = self._images.shape
        is_stack = len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3, 4))
        if not is_stack or shape[0] != n_samples or 0 in shape or self._images.dtype.kind not in "biuf":
            raise InputError(
                f"images is {self._images.dtype} of shape {shape}; expected numbers of shape ({n_samples}, "
                f"height, width) or ({n_samples}, height, width, 1, 3 or 4)"
            )
        self._low, self._spread = _range(self._images)

    def uri(self, row: int) -> str:
        """One picture as a data URI."""
        try:
            from PIL import Image
        except ImportError as error:
            raise MissingExtraError("pictures in pages need pillow; pip install 'steep[report]'") from error
        picture = Image.fromarray(self._bytes(row))
        if max(picture.size) > _LARGEST:
            picture.thumbnail((_LARGEST, _LARGEST))
        file = io.BytesIO()
        picture.save(file, format="PNG", optimize=True)
        return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"

    def _bytes(self, row: int) -> npt.NDArray[np.uint8]:
        picture = self._images[row]
        if picture.ndim == 3 and picture.shape[2] == 1:
            picture = picture[:, :, 0]
        if picture.dtype == np.uint8:
            return np.ascontiguousarray(picture)
        share = (np.nan_to_num(picture.astype(np.float64)) - self._low) / self._spread
        return np.ascontiguousarray(np.round(255 * np.clip(share, 0.0, 1.0)).astype(np.uint8))


def _range(images: npt.NDArray[Any]) -> tuple[float, float]:
    """Darkest value, and how far the brightest is from it."""
    if images.dtype.kind == "b":
        return 0.0, 1.0
    if images.dtype == np.uint8:
        return 0.0, 255.0
    finite = images[np.isfinite(images)] if images.dtype.kind == "f" else images
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    low = min(low, 0.0)
    return low, (high - low) or 1.0
