"""What a page shows of samples: axes of a map, and cards: row, label, picture or text, and columns.

The samples as neighbours see them (standardised, categories one-hot) are turned so that the first two axes show as much
of their spread as a plane can: principal components. Two features are shown as they are, and one next to the label.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import is_bool_dtype, is_integer_dtype, is_numeric_dtype

from steep._validation import FloatArray, IntArray, one_line, shown
from steep.exceptions import InputError, InputTypeError, MissingExtraError
from steep.labels import Labels, check_labels, infer_task
from steep.plotting.weights import principal_plane
from steep.report.page import CELL, cell_of, cut, number, pack
from steep.weighting.embedding import embed

# Features that can be chosen as an axis, columns of the user's table, and characters of a text.
_MOST_FEATURES, _MOST_COLUMNS, _TEXT = 12, 8, 600
# Longer side of a thumbnail; larger pictures are made smaller.
_LARGEST = 96
# Pages keep row numbers in four bytes.
_LARGEST_NUMBER = 2**32 - 1


def axes_of(frame: pd.DataFrame, label: tuple[str, Any]) -> list[dict[str, Any]]:
    """Coordinates of samples, packed; the first two are what the map opens with.

    ``label`` has a name and a number per row: the second axis if there is one feature alone.
    """
    columns = [frame.iloc[:, place] for place in range(frame.shape[1]) if _is_number(frame.dtypes.iloc[place])]
    numbers = [(_name_of(column.name), column.to_numpy(dtype=np.float64, na_value=np.nan)) for column in columns]
    features = [(name, values) for name, values in numbers if np.isfinite(values).all()][:_MOST_FEATURES]
    plain = [_axis(name, "", values) for name, values in [*features, label]]
    if len(features) == frame.shape[1] <= 2:
        return plain
    planes = zip(("component 1", "component 2"), *(part.T for part in principal_plane(embed(frame))), strict=True)
    return [*(_axis(name, f"{100 * share:.0f} % of the spread", values) for name, values, share in planes), *plain]


def _axis(name: str, about: str, values: FloatArray) -> dict[str, Any]:
    return {"name": name[:80], "about": about, "values": pack(values)}


def _name_of(name: Any) -> str:
    """A name for a column; one that has only a number is x0, x1, …."""
    return f"x{name}" if isinstance(name, int | np.integer) else str(name)


def _is_number(dtype: Any) -> bool:
    return bool(is_numeric_dtype(dtype) and not is_bool_dtype(dtype))


def _array_of(values: Any, name: str) -> npt.NDArray[Any]:
    """Any values as an array, or an error that says which are none."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{name} is {shown(values)}, not an array ({one_line(error)}); expected rows of one length"
        ) from error


def frame_of(table: Any, name: str) -> pd.DataFrame:
    """A table of pandas, polars or NumPy as one of pandas."""
    if isinstance(table, pd.DataFrame):
        return table
    if hasattr(table, "get_columns"):  # polars
        return pd.DataFrame({column.name: column.to_numpy() for column in table.get_columns()})
    array = _array_of(table, name)
    if array.ndim != 2:
        raise InputError(f"{name} has shape {array.shape}; expected (n_samples, n_columns)")
    return pd.DataFrame(array)


def read_labels(y: Any, n_samples: int, name: str = "y") -> Labels:
    """Labels as a page shows them: classes by name, or numbers."""
    return check_labels(y, n_samples=n_samples, task=infer_task(y, name), name=name)


class Cards:
    """Rows of a data set as people look at them: columns of ``table`` but ``target``, pictures, texts, and row numbers.

    Row numbers are those of ``index`` if it holds whole numbers that a page can pack, and otherwise places in the data.
    """

    def __init__(self, labels: Labels, *, table: Any, target: str, images: Any, texts: Any, index: Any) -> None:
        self.labels = labels
        self.numbers = np.arange(len(labels))
        if (
            isinstance(index, pd.Index)
            and len(index) == len(labels)
            and is_integer_dtype(index.dtype)
            and index.is_unique
            and 0 <= index.min() <= index.max() <= _LARGEST_NUMBER
        ):
            self.numbers = index.to_numpy(dtype=np.int64)
        self.columns = _Columns(table, len(labels), target)
        self._pictures = None if images is None else Pictures(images, len(labels))
        self._texts = None if texts is None else _checked_texts(texts, len(labels))
        self.has_pictures, self.has_texts = images is not None, texts is not None

    def label(self, row: int) -> str:
        """The label of one sample, in words."""
        if self.labels.codes is None or self.labels.classes is None:
            return ", ".join(number(value, 4) for value in self.labels.array[row])
        return str(self.labels.classes[self.labels.codes[row]])[:CELL]

    def face(self, row: int) -> dict[str, Any]:
        """Row, label, and picture or text of one sample."""
        face: dict[str, Any] = {"row": int(self.numbers[row]), "label": self.label(row)}
        if self._pictures is not None:
            face["picture"] = self._pictures.uri(row)
        if self._texts is not None:
            face["text"] = cut(self._texts[row], _TEXT)
        return face


class _Columns:
    """The first columns of the user's table."""

    def __init__(self, table: Any, n_samples: int, target: str) -> None:
        frame = pd.DataFrame(index=range(n_samples)) if table is None else frame_of(table, "table")
        if len(frame) != n_samples:
            raise InputError(f"table has {len(frame)} rows for {n_samples} samples; expected one per sample")
        places = [place for place, name in enumerate(frame.columns) if str(name) != target]
        self._frame = frame.iloc[:, places[:_MOST_COLUMNS]]
        self.names = [cut(_name_of(name)) for name in self._frame.columns]
        self.kinds = ["number" if _is_number(dtype) else "text" for dtype in self._frame.dtypes]
        self.left_out = len(places) - self._frame.shape[1]

    def cells(self, rows: IntArray) -> list[list[dict[str, Any]]]:
        """Text of each cell, and the number to sort it by where it is one."""
        if not self.kinds:
            return [[] for _ in rows]
        part = self._frame.iloc[rows]
        return [[cell_of(value) for value in values] for values in part.itertuples(index=False, name=None)]


def _checked_texts(texts: Any, n_samples: int) -> list[str]:
    if isinstance(texts, str | bytes) or not (isinstance(texts, Sequence) or hasattr(texts, "__array__")):
        raise InputTypeError(f"texts is {shown(texts)}; expected a list of strings, one per sample")
    listed = [str(text) for text in texts]
    if len(listed) != n_samples:
        raise InputError(f"texts has {len(listed)} entries for {n_samples} samples; expected one per sample")
    return listed


class Pictures:
    """Pictures of the samples, ``(n_samples, height, width)`` or ``(n_samples, height, width, 1, 3 or 4)``.

    Whole numbers are bytes from 0 to 255; floats are taken from 0 to the largest one, or from the smallest to the
    largest where some are below 0.
    """

    def __init__(self, images: Any, n_samples: int) -> None:
        self._images = _array_of(images, "images")
        shape = self._images.shape
        is_stack = len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3, 4))
        if not is_stack or shape[0] != n_samples or 0 in shape or self._images.dtype.kind not in "biuf":
            raise InputError(
                f"images is {self._images.dtype} of shape {shape}; expected numbers of shape ({n_samples}, "
                f"height, width) or ({n_samples}, height, width, 1, 3 or 4)"
            )
        finite = self._images[np.isfinite(self._images)] if self._images.dtype.kind == "f" else self._images
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        self._low = min(low, 0.0)
        self._spread = (high - self._low) or 1.0

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
