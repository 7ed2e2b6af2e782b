"""Bounds as one writes them in a shell or a TOML file: ``x=0:1,k=1e-3:1e3:log,n=1:8:int,c={steel|copper}``."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from steep.exceptions import InputError

if TYPE_CHECKING:
    from steep.domain.axes import Axis

ENTRY = re.compile(r"\s*([^=,{}]*?)\s*=\s*(\{[^{}]*\}|[^,{}]*)\s*(?:,|\Z)")
_FORMS = "low:high, low:high:log, low:high:int or {a|b|c}"


def parse_bounds(text: str) -> dict[str, Axis]:
    """Read the text of ``--bounds``: one entry per input, with commas between them."""
    axes: dict[str, Axis] = {}
    at = 0
    while at < len(text):
        match = ENTRY.match(text, at)
        if match is None or not match[1]:
            raise InputError(
                f"--bounds has {text[at:]!r}, which is not an input with its range; expected name={_FORMS}; write "
                "it so, with commas between inputs"
            )
        if match[1] in axes:
            raise InputError(f"--bounds has {match[1]!r} twice; expected each input once; leave one out")
        axes[match[1]] = parse_axis(match[1], match[2].strip())
        at = match.end()
    if not axes:
        raise InputError(f"--bounds is empty; expected at least one input; write name={_FORMS}")
    return axes


def parse_axis(name: str, text: str) -> Axis:
    """Read the range of one input."""
    from steep.domain import Category, Integer, Log
    from steep.domain.axes import make_axis

    if text.startswith("{") and text.endswith("}"):
        return make_axis(name, Category(*(_value(part.strip()) for part in text[1:-1].split("|"))))
    low, _, rest = text.partition(":")
    high, _, kind = rest.partition(":")
    kinds: dict[str, Any] = {"": lambda *ends: ends, "log": Log, "int": Integer}
    ends = [_number(part) for part in (low, high)]
    if kind not in kinds or None in ends:
        raise InputError(f"the range of {name!r} is {text!r}; expected {_FORMS}; write it so")
    return make_axis(name, kinds[kind](*ends))


def axes_of(entries: Mapping[str, Any]) -> dict[str, Axis]:
    """Read the ``[bounds]`` of a TOML file: text as above, pairs of numbers, or lists of categories."""
    from steep.domain import Category
    from steep.domain.axes import make_axis

    axes: dict[str, Axis] = {}
    for name, entry in entries.items():
        if isinstance(entry, str):
            axes[name] = parse_axis(name, entry.strip())
        elif isinstance(entry, list) and (len(entry) != 2 or not all(map(_is_number, entry))):
            axes[name] = make_axis(name, Category(*entry))
        else:
            axes[name] = make_axis(name, entry)
    if not axes:
        raise InputError("the bounds are empty; expected at least one input; add it under [bounds]")
    return axes


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(text: str) -> float | int | None:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return None


def _value(text: str) -> Any:
    """A value of a category: a number where it reads as a finite one, else text."""
    if not text:
        raise InputError("--bounds has a category without a name; expected a name between the bars, as {a|b}; add it")
    number = _number(text)
    return number if number is not None and math.isfinite(number) else text
