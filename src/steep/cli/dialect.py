"""How a text table is written, detected in the text itself: encoding, separator, decimal mark, and columns."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import pandas as pd

from steep.exceptions import InputError

# Bytes and rows that separator and decimal mark are detected in.
_SAMPLE_BYTES, _SAMPLE_ROWS = 2**18, 500
_SEPARATORS = (",", ";", "\t", "|")
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_COMMA = re.compile(r"[+-]?\d+,\d+")

# Missing values in any column, and among dates and numbers only: among names they are names.
_MISSING = ["", "?", "#N/A", "#N/A N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a",
            "nan", "null"]  # fmt: skip
_BLANKS = ["-", "--", "---", "–", "—", ".", "..", "*", "na", "n.a.", "N.A.", "n.a", "nil", "none", "NONE", "(null)",
           "unknown", "Unknown", "missing", "not available", "#VALUE!", "#DIV/0!", "#REF!", "#NUM!"]  # fmt: skip
GAPS = [*_MISSING, *_BLANKS]
# A column of this many different texts that are mostly numbers was probably meant to hold numbers.
_MANY, _MOSTLY = 20, 0.8
_SPACES = "'’ \u00a0\u202f"
_LOOKS_LIKE_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}([-/.]|\b)")
_DAYS = ("%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%d-%m-%Y", "%Y/%m/%d", "%Y.%m.%d")
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p")


@dataclass(frozen=True)
class Dialect:
    """How the text of a table is to be read; a column may have a decimal mark of its own."""

    encoding: str = "utf-8"
    bom: bytes = b""
    separator: str = ","
    decimal: str = "."

    def __str__(self) -> str:
        fields = "tabs" if self.separator == "\t" else repr(self.separator)
        marks = ", decimal commas" if self.decimal == "," else ""
        return f"CSV separated by {fields}, {self.encoding.upper()}{marks}"


def detect(raw: bytes, decimal: str | None = None) -> Dialect:
    """Detect the dialect of a table from its bytes; ``decimal`` is its decimal mark, if the user named it."""
    if decimal not in (None, ".", ","):
        raise InputError(f"--decimal is {decimal!r}; expected '.' or ','")
    encoding, bom = _encoding(raw)
    head = raw[len(bom) : len(bom) + _SAMPLE_BYTES]
    lines = list(io.StringIO(head.decode(encoding, errors="replace"), newline=""))
    whole = lines[:-1] if len(head) == _SAMPLE_BYTES and len(lines) > 1 else lines
    lines = whole[: _SAMPLE_ROWS + 1]
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
    """The separator that gives the same number of fields, two or more, in the most rows."""
    scores = {}
    for separator in _SEPARATORS:
        rows = _fields(lines, separator)
        width = len(rows[0]) if rows else 0
        if width > 1:
            scores[separator] = (sum(len(row) == width for row in rows) / len(rows), width)
    return max(scores, key=lambda separator: scores[separator], default=",")


def _decimal(lines: Sequence[str], separator: str) -> str:
    """The decimal mark that the columns prove."""
    rows = _fields(lines, separator)[1:]
    columns = [[text for cell in column if (text := cell.strip())] for column in zip_longest(*rows, fillvalue="")]
    proven = {mark for column in columns if (mark := decimal_of(column))}
    # 1,234 alone can be read both ways; a file with semicolons usually has them because of its decimal commas.
    is_likely = separator == ";" and any(_COMMA.fullmatch(text) for column in columns for text in column)
    # Between commas a decimal comma stands in quotes; such columns are read one by one.
    return "," if separator != "," and (proven == {","} or (not proven and is_likely)) else "."


def _number(decimal: str) -> re.Pattern[str]:
    """A number with this decimal mark; three digits at a time may be set apart by one mark."""
    mark, other = re.escape(decimal), re.escape("," if decimal == "." else ".")
    apart = "|".join(rf"[1-9]\d{{0,2}}(?:{group}\d{{3}})+" for group in (other, *_SPACES))
    return re.compile(rf"[+-]?(?:(?:\d+|{apart})(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?")


_NUMBERS = {decimal: _number(decimal) for decimal in (".", ",")}
_APART = {decimal: re.compile(f"[{',' if decimal == '.' else '.'}{_SPACES}]") for decimal in _NUMBERS}


def decimal_of(texts: Sequence[str]) -> str | None:
    """The decimal mark that texts prove; None where they are not all numbers, or can be read both ways."""
    marks = _marks([text for text in texts if text not in GAPS])
    return marks[0] if len(marks) == 1 else None


def _marks(texts: Sequence[str]) -> list[str]:
    """The decimal marks with which all texts are numbers."""
    return [mark for mark, pattern in _NUMBERS.items() if texts and all(map(pattern.fullmatch, texts))]


def read_cells(column: pd.Series[Any], decimal: str = ".") -> tuple[pd.Series[Any], str | None]:
    """A column as dates, numbers or names, and a remark where that may surprise."""
    if not (column.dtype == object or isinstance(column.dtype, pd.StringDtype)):
        return column, None
    codes, given = pd.factorize(column)
    if not len(given) or pd.api.types.infer_dtype(given) != "string":
        return column, None
    stripped = [text.strip() for text in given]
    texts = [text for text in dict.fromkeys(stripped) if text not in GAPS]
    meaning, remark = _meaning(texts, str(column.name), decimal) if texts else (None, None)
    if meaning is None:
        values = pd.Series([None if text in _MISSING else text for text in stripped], dtype=object)
    else:
        meant = dict(zip(texts, meaning, strict=True))
        values = pd.Series([meant.get(text) for text in stripped])
    found = values.reindex(codes).set_axis(column.index).rename(str(column.name))  # code -1, a gap, is not in the index
    return found, remark


def _meaning(texts: list[str], name: str, decimal: str) -> tuple[Any, str | None]:
    """What each text stands for, or None for names; and a remark."""
    forms = ("ISO8601", *(day + time for day in _DAYS for time in _TIMES)) if _LOOKS_LIKE_DATE.match(texts[0]) else ()
    for form in forms:
        if _parsed(texts[:1], form) is None or (dates := _parsed(texts, form)) is None:
            continue
        other = form.replace("%d", "%M").replace("%m", "%d").replace("%M", "%m")
        if form[2:3] not in "/-" or other not in _DAYS or _parsed(texts, other) is None:
            return dates, None
        order = {"%d": "day", "%m": "month", "%Y": "year", "%y": "year"}
        words = form[2:3].join(order[part] for part in re.findall("%[dmYy]", form))
        return dates, f"{name!r} is read as {words}, for example {texts[0]!r} as {dates[0]:%Y-%m-%d}"
    marks = _marks(texts)
    if not marks:
        return None, _mixed(texts, name)
    mark = decimal if decimal in marks else marks[0]
    numbers = [float(_APART[mark].sub("", text).replace(mark, ".")) for text in texts]
    for text, number in zip(texts, numbers, strict=True):
        if _APART[mark].search(text) or (mark in text and mark != decimal):
            why = "thousands separators" if _APART[mark].search(text) else "another decimal mark"
            return numbers, f"{name!r} has {why}: {text!r} is read as {number:.12g}"
    return numbers, None


def _parsed(texts: list[str], form: str) -> Any:
    try:
        return pd.to_datetime(texts, format=form, utc=True).tz_localize(None)
    except (ValueError, OverflowError):
        return None


def _mixed(texts: list[str], name: str) -> str | None:
    """A remark on a column that is nearly one of numbers."""
    others = [text for text in texts if not _marks([text])]
    if len(texts) < _MANY or len(others) > (1 - _MOSTLY) * len(texts):
        return None
    return (
        f"{name!r} is read as categories: {len(others):,} of its {len(texts):,} different values, such as "
        f"{others[0]!r}, are not numbers; empty those cells to read it as numbers, or leave it out with --drop"
    )
