"""Linear algebra held to one thread during a search, without asking each time which libraries are loaded.

To look through all that a process has loaded takes milliseconds, several fits of a small linear model. Libraries come
with imports, so they are looked for again only after modules were imported; and where none has more than one thread,
there is nothing to hold.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache

from threadpoolctl import ThreadpoolController

from steep._blas import few_threads


def one_thread(n_numbers: int) -> AbstractContextManager[None]:
    """:func:`steep._blas.few_threads`, unless linear algebra has one thread anyway.

    Examples
    --------
    >>> with one_thread(569 * 30):
    ...     pass
    """
    libraries = _loaded(len(sys.modules)).select(user_api="blas").lib_controllers
    return nullcontext() if all(lib.num_threads == 1 for lib in libraries) else few_threads(n_numbers)


@lru_cache(maxsize=1)
def _loaded(n_modules: int) -> ThreadpoolController:
    """Libraries with threads, as of the time when so many modules were imported."""
    return ThreadpoolController()
