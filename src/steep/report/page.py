r"""One HTML file that needs nothing else: templates filled in, style and scripts inside, nothing from any network.

What the user brings (titles, labels, column names, texts) reaches the page on two ways only, and both escape it: the
templates, where Jinja's autoescape is on, and one block of JSON, where ``<``, ``>``, ``&`` and the line separators of
JavaScript are written as ``\u003c`` and so on. A content security policy in the page allows the page's own style and
script, by their hash, and nothing else: what slipped through would still not run, and no request can leave.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from steep._files import write_whole
from steep._validation import shown
from steep.evidence import Verdict
from steep.exceptions import InputTypeError, MissingExtraError

if TYPE_CHECKING:
    from jinja2 import Environment

# Every page has these; a page names what it needs in addition.
_SCRIPTS = ("core.js", "theme.js", "table.js")
# Characters of a cell.
CELL = 60

# What could end a script block, or be read as markup, and what JavaScript takes for a line end.
_UNSAFE = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}


def write_page(
    path: str | Path, template: str, *, title: str, scripts: Sequence[str] = (), data: Any = None, **content: Any
) -> Path:
    """Fill in ``template`` and write it, whole or not at all; return ``path``.

    ``scripts`` are files under ``assets`` in addition to those of all pages, ``data`` is what they draw, ``content``
    what the template shows.
    """
    if not isinstance(path, str | Path):
        raise InputTypeError(f"path is {shown(path)}, a {type(path).__name__}; expected a str or a Path")
    style = _asset("page.css")
    # One scope for all files, in which slips are errors.
    script = f'"use strict";(()=>{{\n{"".join(_asset(name) for name in (*_SCRIPTS, *scripts))}}})();\n'
    text = _environment().get_template(template).render(
        title=title, version=version("steep"), style=style, style_hash=_hash(style), script=script,
        script_hash=_hash(script), json=to_json(data), **content,
    )  # fmt: skip
    # Half of a surrogate pair stands for nothing and has no UTF-8: a question mark takes its place.
    return write_whole(path, lambda temporary: temporary.write_bytes(text.encode("utf-8", "replace")))


def check_text(value: Any, *, name: str, default: str = "") -> str:
    """Return a text as it is, ``default`` for None."""
    if value is None and default:
        return default
    if not isinstance(value, str):
        raise InputTypeError(f"{name} is {shown(value)}, a {type(value).__name__}; expected text")
    return value


def to_json(value: Any) -> str:
    r"""JSON that may stand inside a script element, whatever its strings hold."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Lone surrogates have no UTF-8; JSON can still name them.
    return text.translate(_UNSAFE).encode("utf-8", "backslashreplace").decode("utf-8")


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtraError("pages need jinja2; pip install 'steep[report]'") from error
    environment = Environment(
        loader=FileSystemLoader(str(files("steep.report") / "templates")), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters["number"] = number
    return environment


def number(value: Any, digits: int = 3) -> str:
    """A number as people read it: thousands apart from five digits on, since four may be a year."""
    value = float(value)
    if value != value:
        return "–"
    if value in (float("inf"), float("-inf")):
        return "∞" if value > 0 else "−∞"
    big = abs(value) >= 10 ** (digits - 1)
    grouped = "," if abs(value) >= 9999.5 else ""
    text = f"{value:{grouped}.0f}" if big and abs(value) < 1e15 else f"{value:.{digits}g}"
    return text.replace("-", "−", 1) if text.startswith("-") else text


def verdict_of(verdict: Any, *, default: str = "") -> dict[str, Any]:
    """What a template needs of a verdict, a sentence or nothing."""
    if verdict is None:
        verdict = default
    if isinstance(verdict, str):
        return {"sentence": verdict, "state": "none"}
    if not isinstance(verdict, Verdict):
        raise InputTypeError(f"verdict is a {type(verdict).__name__}; expected a Verdict or a sentence")
    interval = verdict.interval
    state = "kept" if interval.mean == 0 else "sure" if interval.low > 0 else "unsure"
    return {"sentence": str(verdict), "state": state}


def pack(values: Any, kind: str = "f4") -> dict[str, str]:
    """Numbers for ``unpack`` of the page's scripts; ``kind`` is floats or whole numbers ≥ 0, and the bytes of each."""
    with np.errstate(over="ignore"):  # values beyond a float32 are drawn at its ends
        packed = np.asarray(values).astype(f"<{kind}").tobytes()
    return {"kind": kind, "base64": base64.b64encode(packed).decode("ascii")}


def cell_of(value: Any) -> dict[str, Any]:
    """Text of a cell, and the number to sort it by where it is one."""
    if isinstance(value, bool | np.bool_):
        return {"text": "yes" if value else "no", "key": None}
    if isinstance(value, int | float | np.integer | np.floating):
        return {"text": number(value, 4), "key": float(value) if np.isfinite(value) else None}
    is_missing = pd.api.types.is_scalar(value) and bool(pd.isna(value))
    return {"text": "missing" if is_missing else cut(str(value)), "key": None}


def cut(text: str, most: int = CELL) -> str:
    """A text, shortened where it is too long."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


@cache
def _asset(name: str) -> str:
    return (files("steep.report") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
