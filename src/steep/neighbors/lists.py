"""The lists of best neighbours that every engine fills, the order in which cells meet, and the threads that do it.

Compiled kernels run on a few threads, with BLAS held to one thread and nothing left behind.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg.cython_blas  # noqa: F401  the BLAS of compiled kernels: loaded before it is limited
from joblib import effective_n_jobs
from numba.core import event

from steep._blas import one_blas_thread
from steep._validation import FloatArray, IntArray
from steep.neighbors.frame import Float32Array, Frame
from steep.neighbors.kernels.panels import Best, color

logger = logging.getLogger("steep.neighbors")

_said = threading.Event()
NO_POINT = np.iinfo(np.int32).max


class Team:
    """Threads for kernels that release the GIL."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        # Kernels read it between two pieces of work, so that an interrupt ends every thread promptly.
        self.stop: npt.NDArray[np.bool_] = np.zeros(1, dtype=np.bool_)
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

    def each(self, work: Callable[[Any], None], pieces: Iterable[Any]) -> None:
        """Call ``work`` on every piece; pieces of one call must not write to the same points."""
        if self._pool is None:
            for piece in pieces:
                work(piece)
            return
        for done in [self._pool.submit(work, piece) for piece in pieces]:
            done.result()

    def close(self) -> None:
        """Stop what still runs and wait for it."""
        self.stop[0] = True
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def threads(n_jobs: int | None) -> Iterator[Team]:
    """Open the threads of one call; on leaving, also by Ctrl-C, no thread is still running."""
    team = Team(effective_n_jobs(n_jobs))
    try:
        with one_blas_thread(), event.install_listener("numba:compile", _Announcer()):
            yield team
    finally:
        team.close()


class _Announcer(event.Listener):
    """Say once, before the wait, that kernels are being compiled; those read from the cache are silent."""

    def on_start(self, event: Any) -> None:
        """Speak once per process."""
        if not _said.is_set():
            _said.set()
            message = "steep: compiling the neighbour kernels; once per machine, about half a minute"
            logger.info(message)
            if sys.stderr is not None and sys.stderr.isatty():
                print(message, file=sys.stderr)

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


class Join(NamedTuple):
    """What is joined with itself, how many others each point needs, and the threads that do it."""

    X: FloatArray  # features lie one behind the other
    frame: Frame
    n_others: int
    include_self: bool
    team: Team


@dataclass
class Lists:
    """The best neighbours of each point so far (see kernels/panels.py for the notation)."""

    score: Float32Array
    index: npt.NDArray[np.int32]
    top: Float32Array

    @property
    def best(self) -> Best:
        """The lists as kernels take them."""
        return Best(self.score, self.index, self.top)

    def in_rows_of(
        self, order: npt.NDArray[np.int32], include_self: bool
    ) -> tuple[Float32Array, npt.NDArray[np.int32]]:
        """Return finished lists in the caller's order, ``order[position]`` being the row.

        Each array is let go once it is copied, so that never more than one exists twice.
        """
        score, index = self.score, self.index
        if include_self:
            score, index = score.base, index.base  # type: ignore[assignment]
            score[:, 0], index[:, 0] = 0.0, order
        self.score, self.index = score[:0].copy(), index[:0].copy()
        distances = np.empty(score.shape, np.float32)
        distances[order] = score
        del score
        indices = np.empty(index.shape, np.int32)
        indices[order] = index
        return distances, indices


def empty_lists(n_points: int, width: int) -> Lists:
    """Return lists of ``width``, with a spare column before them for the point itself.

    They have it always, so that kernels meet one memory layout and are compiled once.
    """
    score = np.full((n_points, width + 1), np.inf, dtype=np.float32)
    score[:, 0] = -np.inf  # comes before all scores: see kernels/panels.py
    index = np.full((n_points, width + 1), NO_POINT, dtype=np.int32)
    return Lists(score[:, 1:], index[:, 1:], np.full(n_points, np.inf, np.float32))


def in_rounds(pairs: IntArray, n_cells: int, n_threads: int, at_once: int) -> tuple[IntArray, list[list[slice]]]:
    """Order pairs of cells so that those of one round share no cell and may run side by side.

    Return the order, and slices of at most ``at_once`` of each round. The order, and so the result to the last bit,
    does not depend on the number of threads; with one thread all is one long round.
    """
    rounds = color(pairs, n_cells)
    order = np.argsort(rounds, kind="stable")
    starts = np.flatnonzero(np.diff(rounds[order], prepend=-1)).tolist() if n_threads > 1 else [0]
    found = []
    for first, last in pairwise([*starts, len(pairs)]):
        step = at_once if n_threads == 1 else max(1, min(at_once, -(-(last - first) // (2 * n_threads))))
        found.append([slice(begin, min(begin + step, last)) for begin in range(first, last, step)])
    return order, found


def batches(n: int, size: int) -> list[IntArray]:
    """Return the numbers below ``n`` in runs of at most ``size``."""
    return [np.arange(first, min(first + size, n)) for first in range(0, n, size)]
