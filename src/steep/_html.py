"""Results as notebooks show them: a few lines of HTML in which every text is escaped.

The colours are the notebook's own, so a card is readable on light and on dark.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_FRAME = "border-left:4px solid {edge};padding:2px 0 2px 14px;margin:4px 0"
_QUIET = "opacity:.72;font-size:90%"
# Edges that stand out on white and on black: neither sure nor unsure, sure, unsure.
EDGES = {"plain": "#3b82c4", "sure": "#2e9e6b", "unsure": "#c98a1b"}
_MOST_CHARACTERS = 400


def card(
    title: str,
    sentence: str = "",
    figures: Mapping[str, Any] | None = None,
    table: pd.DataFrame | None = None,
    *,
    rows: int = 12,
    edge: str = "plain",
    share: float | None = None,
) -> str:
    """One result as HTML: title, sentence, a bar of ``share``, figures in one line, and ``rows`` of a folded table."""
    parts = [f"<b>{escape(title)}</b>"]
    if sentence:
        parts.append(f'<div style="max-width:80ch">{escape(sentence)}</div>')
    if share is not None:
        parts.append(
            f'<progress max="1" value="{min(max(share, 0.0), 1.0):.4f}" style="width:min(100%,420px)"></progress>'
        )
    if figures:
        told = " · ".join(f"{escape(str(name))} <b>{escape(_value(value))}</b>" for name, value in figures.items())
        parts.append(f'<div style="{_QUIET}">{told}</div>')
    if table is not None and len(table):
        parts.append(_folded(table, rows))
    return f'<div style="{_FRAME.format(edge=EDGES[edge])}">{"".join(parts)}</div>'


def _folded(table: pd.DataFrame, rows: int) -> str:
    more = f", the first {rows} of {len(table)} rows" if len(table) > rows else ""
    body = table.head(rows).to_html(escape=True, border=0, float_format=lambda value: f"{value:.4g}")
    return f'<details><summary style="cursor:pointer">table{more}</summary>{body}</details>'


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else text_of(value)


def text_of(value: Any) -> str:
    """What a value looks like as text, cut where it is too long."""
    text = str(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
