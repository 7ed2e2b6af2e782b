"""Run compiled kernels on a few threads, with BLAS held to one thread and nothing left behind."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg.cython_blas  # noqa: F401  the BLAS of compiled kernels: loaded before it is limited
from joblib import effective_n_jobs
from numba.core import event

from steep._blas import one_blas_thread

logger = logging.getLogger("steep.neighbors")


class Team:
    """Threads for kernels that release the GIL.

    Attributes
    ----------
    stop : ndarray of bool, shape (1,)
        Kernels read it between two pieces of work, so that an interrupt ends every thread promptly.
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
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
        with one_blas_thread(), announced_compilation():
            yield team
    finally:
        team.close()


_said = threading.Event()


@contextmanager
def announced_compilation() -> Iterator[None]:
    """Say once, before the wait, that kernels are being compiled; those read from the cache are silent."""
    with event.install_listener("numba:compile", _Announcer()):
        yield


class _Announcer(event.Listener):
    def on_start(self, event: Any) -> None:
        """Speak once per process."""
        if not _said.is_set():
            _said.set()
            _announce("steep: compiling the neighbour kernels; once per machine, about half a minute")

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


def _announce(message: str) -> None:
    logger.info(message)
    if sys.stderr is not None and sys.stderr.isatty():
        print(message, file=sys.stderr)
