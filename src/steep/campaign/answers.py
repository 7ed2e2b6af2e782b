"""The outputs in what a program printed, among lines of anything else."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
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
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    try:
        return _once(decoder.decode(text))
    except _TwiceError:
        raise
    except (ValueError, RecursionError) as error:
        first = error
    last_object = None
    for start in _line_starts(text):
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        rest = text[end:].strip() if len(text) - end < 1000 else "more"
        if not rest:
            return _once(value)
        if last_object is None and isinstance(value, dict) and text[end] in "\r\n":
            last_object = value
    if last_object is None:
        raise first
    return _once(last_object)


def _line_starts(text: str) -> Iterator[int]:
    """Where the last lines begin, blanks skipped, from the last one up; the lines before are not looked at."""
    end = len(text)
    for _ in range(_LINES):
        start = text.rfind("\n", 0, end) + 1
        while start < len(text) and text[start] in " \t":
            start += 1
        yield start
        end = text.rfind("\n", 0, end)
        if end < 0:
            return


class _Twice(dict[str, Any]):
    """An object of JSON that has a name twice, of which a dict would keep the last."""


class _TwiceError(ValueError):
    """An answer that has a name twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Twice(names=[name for name, _ in pairs])


def _once(value: Any) -> Any:
    if isinstance(value, _Twice):
        raise _TwiceError(f"outputs are named {value['names']}; expected each name once")
    return value


def last_row(text: str) -> dict[str, float]:
    r"""Return the last row of a CSV, by the names in its header; other lines may come before it.

    Examples
    --------
    >>> last_row("reading mesh\na,b\n1,2\n3,4\n")
    {'a': 3.0, 'b': 4.0}
    """
    last: list[str] = []
    headers: dict[int, list[str]] = {}  # the last row of each length without a number
    for row in csv.reader(io.StringIO(text)):
        if row:
            last = row
            if not any(map(_is_number, row)):
                headers[len(row)] = row
    values = [float(entry) for entry in last]
    if not values or len(values) not in headers:
        raise ValueError("no header with a name for each number")
    names = [name.strip() for name in headers[len(values)]]
    if len(set(names)) < len(names):
        raise _TwiceError(f"outputs are named {names}; expected each name once")
    return dict(zip(names, values, strict=True))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
