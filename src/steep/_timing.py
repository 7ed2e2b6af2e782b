"""One stopwatch for every report of where the time went."""

from __future__ import annotations

import time


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
