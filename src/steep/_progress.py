"""A one-line progress bar on stderr, quiet when nobody is watching."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

# Shorter jobs end before anybody wonders; redrawing more often only flickers.
_PATIENCE_SECONDS = 2.0
_REDRAW_SECONDS = 0.2


def progress(items: Iterable[Item], *, total: int, label: str) -> Iterator[Item]:
    """Yield the items; on a terminal show how many are done and how long the rest will take."""
    watched = sys.stderr is not None and sys.stderr.isatty()
    started = drawn = time.monotonic()
    shown = False
    for done, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if watched and now - started > _PATIENCE_SECONDS and now - drawn > _REDRAW_SECONDS:
            left = (now - started) / done * (total - done)
            print(f"\r{label} {done}/{total}, about {left:.0f} s left ", end="", file=sys.stderr, flush=True)
            drawn, shown = now, True
    if shown:
        print(f"\r{label} {total}/{total}, {time.monotonic() - started:.0f} s{' ' * 20}", file=sys.stderr)
