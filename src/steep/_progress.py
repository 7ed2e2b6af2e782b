"""One progress bar for all long work, shown where someone watches, and one stopwatch for reports of time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

Item = TypeVar("Item")

# Shorter jobs end before anybody wonders.
_PATIENCE_SECONDS = 2.0


class Bar:
    """A bar that may be hidden; ``update`` moves it, ``counts`` shows figures next to it."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar

    @property
    def shown(self) -> bool:
        """Whether anybody watches: what only the bar needs can be left undone otherwise."""
        return self._bar is not None

    def update(self, n: int = 1) -> None:
        """Move the bar on by ``n``."""
        if self._bar is not None:
            self._bar.update(n)

    def expect(self, n_left: int) -> None:
        """Set how many steps are left."""
        if self._bar is not None:
            self._bar.total = self._bar.n + n_left
            self._bar.refresh()

    def counts(self, done: int, **figures: int) -> None:
        """Set how much is done, and show other figures next to the bar."""
        if self._bar is not None:
            self._bar.set_postfix(figures, refresh=False)
            self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Leave the bar as it is and end its line."""
        if self._bar is not None:
            self._bar.close()


@contextmanager
def progress_bar(*, total: int, label: str, done: int = 0, shown: bool | None = None) -> Iterator[Bar]:
    """A bar of ``total`` steps on stderr, ``done`` of them before; by default ``shown`` where someone watches."""
    bar = Bar(_open(total, label, done, shown))
    try:
        yield bar
    finally:
        bar.close()


def _open(total: int, label: str, done: int, shown: bool | None) -> Any:
    """A tqdm bar, or None where no one watches."""
    stream, notebook = sys.stderr, in_notebook()
    if stream is None or stream.closed or not (stream.isatty() or notebook if shown is None else shown):
        return None
    delay = _PATIENCE_SECONDS if shown is None else 0
    if notebook and find_spec("ipywidgets") is not None:
        from tqdm.auto import tqdm as widget  # a bar of the notebook's own

        return widget(total=total, initial=done, desc=label, delay=delay)
    from tqdm import tqdm  # whose bars fall silent when the terminal goes away

    return tqdm(total=total, initial=done, desc=label, file=stream, delay=delay, dynamic_ncols=not notebook)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    # A kernel has imported IPython long before it runs a line of anybody's.
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def progress(items: Iterable[Item], *, total: int, label: str, shown: bool | None = None) -> Iterator[Item]:
    """Yield the items, with a bar that counts them."""
    with progress_bar(total=total, label=label, shown=shown) as bar:
        for item in items:
            yield item
            bar.update()


class Stopwatch:
    """Seconds of wall-clock time by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        """Book the time since the last lap under ``stage``; a stage met again adds up."""
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now
