"""A CSV table as text: its numbers are read by pandas, its text is handed on as it was.

Only one column is added or replaced. Every other field keeps its digits, quotes and line ends, so that
``00002`` stays ``00002`` and ``NA`` stays ``NA``.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from steep._validation import FloatArray
from steep.exceptions import InputError, StorageError

# One field with its quotes; what follows a closing quote belongs to it, as it does for the csv module.
_FIELD = re.compile(r'(?:"(?:[^"]|"")*"[^,]*|[^,]*)(?:,|\Z)')


@dataclass(frozen=True)
class TextTable:
    """The bytes of a table with a header, known to be UTF-8 and to have equally many fields in every row."""

    path: Path
    raw: bytes
    names: tuple[str, ...]
    n_rows: int

    @classmethod
    def read(cls, path: Path) -> TextTable:
        """Read the file once, and refuse what is no table."""
        raw = _read_bytes(path)
        try:
            names, n_rows = _count(raw)
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path} is not UTF-8 (byte 0x{error.object[error.start]:02x}: {error.reason}); need UTF-8 text; "
                "convert it first, as with iconv -f latin1 -t utf8"
            ) from error
        except (csv.Error, InputError) as error:
            raise InputError(
                f"{path} is not a CSV table ({error}); need comma-separated rows with a header"
            ) from error
        return cls(path, raw, names, n_rows)

    def frame(self, columns: Sequence[int]) -> pd.DataFrame:
        """Return some columns as pandas reads them, with their names."""
        positions = range(len(self.names))
        try:
            frame = pd.read_csv(
                io.BytesIO(self.raw), header=0, names=list(positions), usecols=list(columns), index_col=False,
                low_memory=False, encoding="utf-8",
            )  # fmt: skip
        except pd.errors.ParserError as error:
            raise InputError(
                f"{self.path} is not a CSV table ({error}); need comma-separated rows with a header"
            ) from error
        if len(frame) != self.n_rows:
            raise InputError(
                f"{self.path} has {self.n_rows} rows or {len(frame)}, which its quotes leave open; need a quote to be "
                "doubled inside quotes, and quotes around the whole field"
            )
        frame = frame[list(columns)]
        frame.columns = pd.Index([self.names[position] for position in columns])
        return frame

    def with_column(self, name: str, values: FloatArray) -> Iterator[str]:
        """Yield the text row by row with one more column, or with that column replaced."""
        at = self.names.index(name) if name in self.names else None
        fields = iter([_quoted(name), *map(repr, values.tolist())])
        if self.raw.startswith(_BOM):
            yield _BOM.decode()
        for text, row in _records(self.raw):
            if not row:
                yield text
                continue
            body = text.rstrip("\r\n")
            end = text[len(body) :]
            yield (f"{body},{next(fields)}" if at is None else _replaced(body, at, next(fields))) + end


_BOM = b"\xef\xbb\xbf"


def _read_bytes(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read()
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"{path} cannot be read ({reason}); need a CSV file; check its name") from error


def _records(raw: bytes) -> Iterator[tuple[str, list[str]]]:
    """Yield the text of each row with its line end, and its fields; a blank line has none."""
    taken: list[str] = []

    def lines() -> Iterator[str]:
        # Line ends are kept as they are; "utf-8-sig" passes over a byte-order mark.
        for line in io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig", newline=""):
            taken.append(line)
            yield line

    for row in csv.reader(lines()):
        text = taken[0] if len(taken) == 1 else "".join(taken)
        taken.clear()
        # pandas passes over blank lines too.
        yield text, (row if len(row) > 1 or text.strip(" \t\r\n") else [])


def _count(raw: bytes) -> tuple[tuple[str, ...], int]:
    """Names in the header and the number of rows under it; each must have as many fields."""
    names: tuple[str, ...] = ()
    n_rows = -1
    for _, row in _records(raw):
        if not row:
            continue
        names = names or tuple(row)
        if len(row) != len(names):
            raise InputError(f"row {n_rows + 1} has {len(row)} fields and the header {len(names)}")
        n_rows += 1
    if n_rows < 1:
        raise InputError("it has no rows" if names else "it is empty")
    return names, n_rows


def _replaced(body: str, at: int, field: str) -> str:
    fields = [match[0] for match in _FIELD.finditer(body)]
    comma = "," if fields[at].endswith(",") else ""
    return "".join([*fields[:at], field + comma, *fields[at + 1 :]])


def _quoted(name: str) -> str:
    """A name as CSV writes it."""
    needs_quotes = any(mark in name for mark in ',"\r\n')
    return '"' + name.replace('"', '""') + '"' if needs_quotes else name


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write text as it is, line ends included."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(lines)
