"""How many threads linear algebra runs on: one for small problems, where threads would only wait for each other.

This is the only place that sets a limit. A limit is set around the linear algebra itself, never around a call of the
user's function, which keeps its threads. Which libraries are loaded is looked up again only after modules were
imported: a look takes about a millisecond, as long as several fits of a small model.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

# Numbers in a matrix up to which a product with a vector is done before a second thread has woken up.
SMALL = 4_000_000


class _OneBlasThread:
    """Hold BLAS to one thread while calls are inside, and leave it as it was; also a decorator.

    The limit belongs to the whole process, and threadpoolctl lets only the thread that set it change it again. So one
    thread at a time holds it, from its first call to the end of its last. Calls of other threads meanwhile share the
    limit and change nothing; the next call after the holder has left becomes the holder.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: threading.Thread | None = None
        self._depth = 0
        self._limits: Any = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        thread = threading.current_thread()
        with self._lock:
            if self._holder is None:
                self._limits = _libraries("blas", len(sys.modules)).limit(limits=1)
                self._holder = thread
            is_mine = self._holder is thread
            self._depth += is_mine
        try:
            yield
        finally:
            if is_mine:
                with self._lock:
                    self._depth -= 1
                    if self._depth == 0:
                        self._holder = None
                        self._limits.restore_original_limits()


@lru_cache(maxsize=2)
def _libraries(kind: str, n_modules: int) -> ThreadpoolController:
    """Libraries of one kind, loaded when ``n_modules`` were imported; only these are set back when a limit ends."""
    return ThreadpoolController().select(user_api=kind)


one_blas_thread = _OneBlasThread()


def few_threads(n_numbers: int, *, openmp: bool = False) -> AbstractContextManager[None]:
    """Hold BLAS to one thread for work on ``n_numbers`` numbers, if these are few; and OpenMP, which torch uses."""
    if n_numbers > SMALL:
        return nullcontext()
    return one_thread() if openmp else one_blas_thread()


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold BLAS to one thread, and OpenMP as well, which torch uses and whose limit is the calling thread's own."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.get_num_threads()  # the first question in a thread sets its number, over any limit
    with one_blas_thread(), _libraries("openmp", len(sys.modules)).limit(limits=1):
        yield
