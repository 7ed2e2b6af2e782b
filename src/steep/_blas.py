"""Linear algebra held to one thread where problems are small: threads would only wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from threadpoolctl import threadpool_limits

# Numbers in a matrix up to which a product with a vector is done before a second thread has woken up.
SMALL = 4_000_000


class _OneBlasThread:
    """Hold BLAS to one thread while calls are inside, and leave it as the first of them found it.

    The limit is the whole process's: calls that overlap would else restore each other's limit. Who set it
    restores it on leaving, even if others are still inside, because threadpoolctl may ignore all other threads
    (those inside then only lose speed). The last to leave restores it as well, for versions that do not.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._setter: threading.Thread | None = None
        self._limits: Any = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._inside == 0:
                self._setter = threading.current_thread()
                self._limits = threadpool_limits(limits=1, user_api="blas")
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0 or threading.current_thread() is self._setter:
                    self._limits.restore_original_limits()


one_blas_thread = _OneBlasThread()


def few_threads(n_numbers: int) -> AbstractContextManager[None]:
    """Hold BLAS to one thread for fits on ``n_numbers`` numbers, if those are few.

    Examples
    --------
    >>> with few_threads(569 * 30):
    ...     pass
    """
    return one_blas_thread() if n_numbers <= SMALL else nullcontext()
