"""Decisions about labels, read from a file, a frame, a mapping or a list, and checked against the data.

A file holds a checksum of all rows and labels, so that decisions about other data are not taken for these.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from steep._validation import IntArray, one_line, shown
from steep.exceptions import InputError, InputTypeError, StorageError

_EXPORTED = "expected the CSV or JSON file that the page of suspects exports"


def row_names(index: pd.Index[Any] | None, n_samples: int) -> list[str]:
    """The index as text, where its entries differ; else the places in the data."""
    names = [] if index is None else [str(name) for name in index.tolist()]
    return names if len(set(names)) == n_samples else [str(row) for row in range(n_samples)]


def checksum(labels: npt.NDArray[Any], names: list[str]) -> str:
    """What tells these rows and labels from others."""
    text = json.dumps([[str(label) for label in labels.tolist()], names])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def corrected(
    labels: npt.NDArray[Any],
    index: pd.Index[Any] | None,
    decisions: Any,
    *,
    is_number: bool,
    suggested: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """A copy of the labels with the decided ones; ``suggested`` for the rows of a plain list."""
    source, rows, new, data = _split(decisions, "decisions")
    names = row_names(index, len(labels))
    if data is not None and not (data == checksum(labels, names)).all():
        raise InputError(
            f"{source} holds decisions about other data: the checksums differ; expected decisions about these rows and "
            "labels; pass the data that the page was written from"
        )
    places = _places(rows, names, source, index if data is None else None)
    found = labels.copy()
    if new is not None:
        found[places] = _as_labels(rows, new, labels, is_number, source)
    elif suggested is not None:
        found[places] = suggested[places]
    return found


def places_of(decisions: Any, index: pd.Index[Any] | None, n_samples: int, name: str) -> IntArray:
    """The places of the rows that are decided on, or listed."""
    source, rows, _, data = _split(decisions, name)
    return _places(rows, row_names(index, n_samples), source, index if data is None else None)


def _split(decisions: Any, name: str) -> tuple[Any, list[Any], list[Any] | None, Any]:
    """The source of the decisions, the rows, their labels if they have any, and the checksums if they have any."""
    source = decisions if isinstance(decisions, str | Path) else name
    if isinstance(decisions, str | Path):
        decisions = _read(Path(decisions))
    if isinstance(decisions, Mapping):
        return source, list(decisions), list(decisions.values()), None
    if not isinstance(decisions, pd.DataFrame):
        if not isinstance(decisions, Iterable):
            raise InputTypeError(
                f"{name} is {shown(decisions)}; expected a path, a DataFrame, a mapping of rows to labels, or rows"
            )
        return source, list(decisions), None, None
    if not {"row", "new_label"} <= set(decisions.columns):
        raise InputError(
            f"{source} has the columns {shown(list(decisions.columns))}; expected row and new_label; rename them"
        )
    return source, decisions["row"].tolist(), decisions["new_label"].tolist(), decisions.get("data")


def _read(path: Path) -> pd.DataFrame:
    try:
        if path.suffix.lower() != ".json":
            return pd.read_csv(path, dtype=str, keep_default_na=False)
        found = json.loads(path.read_text(encoding="utf-8"))
        return pd.DataFrame(found["decisions"], columns=["row", "new_label"]).assign(data=found["data"])
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}); {_EXPORTED}; check its name") from error
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} does not hold decisions ({one_line(error)}); {_EXPORTED}; export it again") from error


def _places(rows: list[Any], names: list[str], source: Any, index: pd.Index[Any] | None) -> IntArray:
    if index is not None and not index.is_unique:
        raise InputError("the index of X names several rows the same; expected different names; reset the index first")
    known = {name: place for place, name in enumerate(names)}
    places: dict[int, None] = {}
    for row in rows:
        place = known.get(str(row))
        if place is None:
            raise InputError(
                f"{source} names row {shown(row)}, which is not in the data; expected rows of its index; remove it"
            )
        if place in places:
            raise InputError(f"{source} names row {shown(row)} more than once; expected each row once; keep one")
        places[place] = None
    return np.array(list(places), dtype=np.int64)


def _as_labels(rows: list[Any], new: list[Any], labels: npt.NDArray[Any], is_number: bool, source: Any) -> list[Any]:
    """The new labels as the data hold them: numbers, or one of the classes by its value or its text."""
    if is_number:
        numbers = pd.to_numeric(pd.Series(new, dtype=object), errors="coerce")
        found = [number if np.isfinite(number) else None for number in numbers.astype(float).tolist()]
    else:
        known = {key: one for one in np.unique(labels).tolist() for key in (str(one), one)}
        found = [known.get(value if isinstance(value, Hashable) else None) for value in new]
    for row, value, one in zip(rows, new, found, strict=True):
        if one is None:
            classes = "a finite number" if is_number else f"one of {shown(np.unique(labels).tolist())}"
            raise InputError(
                f"{source} gives row {shown(row)} the label {shown(value)}; expected {classes}; correct it"
            )
    return found
