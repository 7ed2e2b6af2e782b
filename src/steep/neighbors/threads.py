"""Run compiled kernels on a few threads, with BLAS held to one thread and nothing left behind."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

logger = logging.getLogger("steep.neighbors")

Task = Callable[[Any], None]


def count_workers(n_jobs: int | None) -> int:
    """Return the number of threads: ``None`` is 1, −1 all processors, −2 all but one."""
    if n_jobs is None:
        return 1
    if n_jobs > 0:
        return n_jobs
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, processors + 1 + n_jobs)


class Workers:
    """Threads for kernels that release the GIL.

    Attributes
    ----------
    stop : ndarray of bool, shape (1,)
        Kernels read it between two pieces of work, so that an interrupt ends every thread promptly.
    """

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self.stop: npt.NDArray[np.bool_] = np.zeros(1, dtype=np.bool_)
        self._pool = ThreadPoolExecutor(n_workers) if n_workers > 1 else None

    def each(self, task: Task, pieces: Iterable[Any]) -> None:
        """Call ``task`` on every piece; pieces of one call must not write to the same points."""
        if self._pool is None:
            for piece in pieces:
                task(piece)
            return
        for done in [self._pool.submit(task, piece) for piece in pieces]:
            done.result()

    def close(self) -> None:
        """Stop what still runs and wait for it."""
        self.stop[0] = True
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def workers(n_jobs: int | None) -> Iterator[Workers]:
    """Open the threads of one call; on leaving, also by Ctrl-C, none of them is still running."""
    import scipy.linalg.cython_blas  # noqa: F401  the BLAS of compiled kernels: loaded before it is limited

    team = Workers(count_workers(n_jobs))
    try:
        with threadpool_limits(limits=1, user_api="blas"), announced_compilation():
            yield team
    finally:
        team.close()


_said = threading.Event()


@contextmanager
def announced_compilation() -> Iterator[None]:
    """Say once, before the wait, that kernels are being compiled; those read from the cache are silent."""
    from numba.core import event

    class Announcer(event.Listener):
        def on_start(self, event: Any) -> None:
            if not _said.is_set():
                _said.set()
                _announce("steep: compiling the neighbour kernels; once per machine, about half a minute")

        def on_end(self, event: Any) -> None:
            """Nothing to say."""

    with event.install_listener("numba:compile", Announcer()):
        yield


def _announce(message: str) -> None:
    logger.info(message)
    if sys.stderr is not None and sys.stderr.isatty():
        print(message, file=sys.stderr)
