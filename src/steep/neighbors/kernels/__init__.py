"""The compiled loops of the neighbour engines; imported only for data that are large enough."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba import njit
from numba.core import caching

from steep.exceptions import warn_user

logger = logging.getLogger("steep.neighbors")

# Infinities are met, NaN never: points are finite and bounded.
NO_NAN = {"nnan", "nsz", "reassoc", "contract"}

_FunctionCache: Any = caching.FunctionCache  # numba has no types


class _Cache(_FunctionCache):  # type: ignore[misc]
    """Numba's cache on disk, which a full disk or a damaged file turns into one warning and not into an error."""

    _has_warned = False

    def load_overload(self, *arguments: Any) -> Any:
        """What was compiled before; a damaged file is emptied, and filled again by what is compiled now."""
        try:
            return super().load_overload(*arguments)
        except Exception as error:  # whatever unpickling raises
            self._warn("read", error)
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, *arguments: Any) -> None:
        """Keep what was compiled, if there is room."""
        try:
            super().save_overload(*arguments)
        except Exception as error:
            self._warn("written", error)

    def _warn(self, what: str, error: Exception) -> None:
        if not _Cache._has_warned:
            _Cache._has_warned = True
            reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            warn_user(
                f"the cache of compiled loops in {self.cache_path} cannot be {what} ({reason}); this process compiles "
                "them again, which takes some seconds; free some space, or set NUMBA_CACHE_DIR to another folder"
            )


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a loop that releases the GIL, and keep the result on disk where a folder can be written.

    Containers often have none: package and home are read-only. Then each process compiles again.
    """

    def compile_it(loop: Callable[..., Any]) -> Any:
        dispatcher = njit(nogil=True, **options)(loop)
        try:
            dispatcher._cache = _Cache(loop)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            logger.info("steep: %s; set NUMBA_CACHE_DIR to a folder that can be written", error)
        return dispatcher

    return compile_it
