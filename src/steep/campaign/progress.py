"""A one-line progress bar on stderr, silent where nobody watches."""

from __future__ import annotations

import sys
import time
from typing import TextIO

_WIDTH = 24
# Seconds between two drawings.
_PACE = 0.1


class Progress:
    """Runs done, running and failed, and the time left at the pace so far."""

    def __init__(
        self, total: int, done: int, *, shown: bool | None = None, stream: TextIO | None = None
    ) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.shown = self.stream.isatty() if shown is None else shown
        self.total, self.first = max(total, 1), done
        self.started = self.drawn = time.monotonic()

    def update(self, *, done: int, running: int, failed: int, last: bool = False) -> None:
        """Draw the bar anew, at most ten times a second."""
        now = time.monotonic()
        if not self.shown or (now - self.drawn < _PACE and not last):
            return
        self.drawn = now
        filled = min(_WIDTH, _WIDTH * (done + failed) // self.total)
        bar = "█" * filled + "·" * (_WIDTH - filled)
        text = (
            f"\r{bar} {done}/{self.total} done, {running} running, {failed} failed{self._left(done, now)}  "
        )
        self.stream.write(text + ("\n" if last else ""))
        self.stream.flush()

    def _left(self, done: int, now: float) -> str:
        if done <= self.first or done >= self.total:
            return ""
        seconds = (now - self.started) / (done - self.first) * (self.total - done)
        minutes, seconds = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f", {hours:d}:{minutes:02d}:{seconds:02d} left"
