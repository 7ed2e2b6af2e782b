"""The compiled loops of the neighbour engines; imported only when data are large enough to need them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from numba import njit

logger = logging.getLogger("steep.neighbors")

# Infinities are met, NaN never: points are finite and bounded.
NO_NAN = {"nnan", "nsz", "reassoc", "contract"}


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a loop that releases the GIL, and keep the result on disk where a folder can be written.

    Containers often have none: package and home are read-only. Then each process compiles anew.
    """

    def compile_it(loop: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, nogil=True, **options)(loop)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            logger.info("steep: %s; set NUMBA_CACHE_DIR to a folder that can be written", error)
            return njit(nogil=True, **options)(loop)

    return compile_it
