"""The outputs in what a program printed, among lines of anything else."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

# Lines at the end of an answer among which its JSON may begin.
_LINES = 10_000


def last_json(text: str) -> Any:
    r"""Return the JSON value a text consists of, or ends with after other lines.

    Other lines may also follow where it is an object.

    Examples
    --------
    >>> last_json('reading mesh [3]\n{"u": 1,\n "v": 2}\n')
    {'u': 1, 'v': 2}
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        first = error
    decoder = json.JSONDecoder()
    starts = [match.end() for match in re.finditer(r"^[ \t]*", text, re.MULTILINE)]
    last_object = None
    for start in reversed(starts[-_LINES:]):
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        rest = text[end:].strip() if len(text) - end < 1000 else "more"
        if not rest:
            return value
        if last_object is None and isinstance(value, dict) and text[end] in "\r\n":
            last_object = value
    if last_object is None:
        raise first
    return last_object


def last_row(text: str) -> dict[str, float]:
    r"""Return the last row of a CSV, by the names in its header; other lines may come before it.

    Examples
    --------
    >>> last_row("reading mesh\na,b\n1,2\n3,4\n")
    {'a': 3.0, 'b': 4.0}
    """
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    values = [float(entry) for entry in rows[-1]]
    for row in reversed(rows[:-1]):
        if len(row) == len(values) and not any(_is_number(entry) for entry in row):
            return dict(zip((name.strip() for name in row), values, strict=True))
    raise ValueError("no header with a name for each number")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
