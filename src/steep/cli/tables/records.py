"""Excel sheets and JSON: rows that are read at once."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from steep._validation import one_line
from steep.cli.tables.cells import read_cells
from steep.cli.tables.part import Part, refuse_nested
from steep.exceptions import InputError, StorageError


@dataclass(frozen=True)
class _Whole(Part):
    """A file that is read at once."""

    path: Path

    @abstractmethod
    def _load(self) -> pd.DataFrame:
        """The file as pandas reads it."""

    @cached_property
    def _read(self) -> tuple[pd.DataFrame, dict[str, str]]:
        found, names = self._load(), []
        columns, remarks = {}, {}
        for place in range(found.shape[1]):
            names.append(str(found.columns[place]).strip())
            columns[place], remark = read_cells(found.iloc[:, place].rename(names[-1]))
            if remark is not None:
                remarks[names[-1]] = remark
        frame = pd.DataFrame(columns, index=found.index)
        frame.columns = pd.Index(names)
        return frame, remarks

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self._read[0].columns)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self._read[0])

    @property
    def remarks(self) -> dict[str, str]:
        """Readings that may surprise, by column."""
        return self._read[1]

    def frame(self, columns: Sequence[int]) -> pd.DataFrame:
        """Some columns, by their places."""
        return self._read[0].iloc[:, list(columns)]


class ExcelTable(_Whole):
    """The first sheet of a spreadsheet; its first row holds the names."""

    @property
    def about(self) -> str:
        """How it was read, in words."""
        return "the first sheet of a spreadsheet"

    def _load(self) -> pd.DataFrame:
        try:
            with pd.ExcelFile(self.path) as book:
                head = pd.read_excel(book, header=None, nrows=1)
                frame = pd.read_excel(book)
        except ImportError as error:
            raise InputError(
                f"{self.path} is a spreadsheet, which needs another package ({one_line(error)}); run pip install "
                "openpyxl, or save it as CSV"
            ) from error
        except Exception as error:  # every reader has errors of its own
            reason = getattr(error, "strerror", None) or one_line(error)
            raise StorageError(
                f"{self.path} cannot be read ({reason}); expected a spreadsheet; save it as CSV"
            ) from error
        if len(head):  # names as they are: pandas would number those that are there twice
            frame.columns = pd.Index(["" if pd.isna(name) else name for name in head.iloc[0]])
        return frame


class JsonTable(_Whole):
    """Lines of JSON, one object per row; or one list of objects."""

    @property
    def about(self) -> str:
        """How it was read, in words."""
        return "JSON"

    def _load(self) -> pd.DataFrame:
        try:
            text = self.path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or one_line(error)
            raise StorageError(f"{self.path} cannot be read ({reason}); expected JSON; check the file") from error
        rows = self._rows(text)
        if not all(isinstance(row, dict) for row in rows):
            raise InputError(
                f"{self.path} holds other values than objects; expected one object per row, for example "
                f'{{"x": 1, "y": "a"}}; '
                "write it as lines of objects"
            )
        return pd.DataFrame(rows)

    def frame(self, columns: Sequence[int]) -> pd.DataFrame:
        """Some columns, by their places."""
        frame = super().frame(columns)
        refuse_nested([str(name) for name in frame if any(isinstance(cell, list | dict) for cell in frame[name])])
        return frame

    def _rows(self, text: str) -> list[Any]:
        is_list = text.lstrip().startswith("[")
        pieces = [(1, text)] if is_list else list(enumerate(text.splitlines(), 1))
        rows: list[Any] = []
        for number, piece in pieces:
            try:
                found = json.loads(piece) if piece.strip() else []
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"{self.path} is not valid JSON (line {number}: {one_line(error)}); expected one object per "
                    "line; fix the file"
                ) from error
            rows += found if isinstance(found, list) and (is_list or not found) else [found]
        return rows
