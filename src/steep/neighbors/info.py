"""What a search did, for those who ask."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class GraphInfo:
    """What :func:`steep.neighbors.neighbor_graph` did.

    Attributes
    ----------
    algorithm : str
        "brute", "tree", "exact" or "partitioned".
    estimated_recall : float
        Share of true neighbours found, estimated on ``n_estimated`` sampled points; 1 when exact.
    n_estimated : int
        Number of points searched exactly to estimate the recall; 0 when the search itself is exact.
    n_probes : float
        Mean number of cells each cell was compared with, itself included; 0 without cells.
    reach : float
        How far cells were swept, in units of their radius; infinite when exact.
    seconds : dict of str to float
        Wall-clock time of each stage.
    """

    algorithm: str
    estimated_recall: float = 1.0
    n_estimated: int = 0
    n_probes: float = 0.0
    reach: float = float("inf")
    seconds: dict[str, float] = field(default_factory=dict)


class Stopwatch:
    """Seconds between laps."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        """Book the time since the last lap under ``stage``."""
        now = time.perf_counter()
        self.seconds[stage] = now - self._last
        self._last = now
