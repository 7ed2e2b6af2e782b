"""How a text table is written: its encoding, its separator and its decimal mark, detected in the text itself."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from steep.cli.cells import decimal_of
from steep.exceptions import InputError

# Bytes and rows that separator and decimal mark are detected in.
_SAMPLE_BYTES, _SAMPLE_ROWS = 2**18, 500
_SEPARATORS = (",", ";", "\t", "|")
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_COMMA = re.compile(r"[+-]?\d+,\d+")
_NAMES = {"\t": "tabs", " ": "spaces"}


@dataclass(frozen=True)
class Dialect:
    """How the text of a table is to be read; a column may have a decimal mark of its own."""

    encoding: str = "utf-8"
    bom: bytes = b""
    separator: str = ","
    decimal: str = "."

    def __str__(self) -> str:
        fields = _NAMES.get(self.separator, repr(self.separator))
        marks = ", decimal commas" if self.decimal == "," else ""
        return f"CSV separated by {fields}, {self.encoding.upper()}{marks}"


def detect(raw: bytes, decimal: str | None = None) -> Dialect:
    """Detect the dialect of a table from its bytes; ``decimal`` is its decimal mark, if the user named it."""
    if decimal not in (None, ".", ","):
        raise InputError(f"--decimal is {decimal!r}; expected '.' or ','")
    encoding, bom = _encoding(raw)
    head = raw[len(bom) : len(bom) + _SAMPLE_BYTES]
    lines = list(io.StringIO(head.decode(encoding, errors="replace"), newline=""))
    if len(head) == _SAMPLE_BYTES and len(lines) > 1:
        lines.pop()  # whole lines only
    lines = lines[: _SAMPLE_ROWS + 1]
    separator = _separator(lines)
    return Dialect(encoding, bom, separator, decimal or _decimal(lines, separator))


def _encoding(raw: bytes) -> tuple[str, bytes]:
    for bom, name in _BOMS:
        if raw.startswith(bom):
            return name, bom
    # What does not read as UTF-8 is nearly always in Windows' western code page. Latin 1 takes any byte.
    for name in ("utf-8", "cp1252"):
        try:
            raw.decode(name)
        except UnicodeDecodeError:
            continue
        return name, b""
    return "latin-1", b""


def _fields(lines: Sequence[str], separator: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(lines, delimiter=separator, skipinitialspace=True) if row]
    except csv.Error:
        return []


def _separator(lines: Sequence[str]) -> str:
    """The separator that gives the same number of fields, two or more, in the most rows; or spaces if there is none."""
    scores = {}
    for separator in _SEPARATORS:
        rows = _fields(lines, separator)
        width = len(rows[0]) if rows else 0
        if width > 1:
            scores[separator] = (sum(len(row) == width for row in rows) / len(rows), width)
    if scores:
        return max(scores, key=lambda separator: scores[separator])
    by_spaces = {len(row) for row in _fields(lines, " ")}
    return " " if len(by_spaces) == 1 and by_spaces != {1} else ","


def _decimal(lines: Sequence[str], separator: str) -> str:
    """The decimal mark that the columns prove."""
    rows = _fields(lines, separator)[1:]
    columns = [[text for cell in column if (text := cell.strip())] for column in zip_longest(*rows, fillvalue="")]
    proven = {mark for column in columns if (mark := decimal_of(column))}
    # 1,234 alone can be read both ways; a file with semicolons usually has them because of its decimal commas.
    is_likely = separator == ";" and any(_COMMA.fullmatch(text) for column in columns for text in column)
    # Between commas a decimal comma stands in quotes; such columns are read one by one.
    return "," if separator != "," and (proven == {","} or (not proven and is_likely)) else "."
