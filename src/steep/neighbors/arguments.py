"""Checks on the arguments that only the neighbour graph takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from steep._validation import check_choice, check_count, check_points
from steep.exceptions import InputError, InputTypeError


def check_neighbors(n_neighbors: int, include_self: bool, n_samples: int) -> int:
    """Return how many others each point needs."""
    n_neighbors = check_count(n_neighbors, name="n_neighbors")
    check_choice(include_self, name="include_self", choices=(True, False))
    needed = n_neighbors if include_self else n_neighbors + 1
    if n_samples < needed:
        raise InputError(
            f"n_neighbors={n_neighbors} needs at least {needed} samples, got {n_samples}; "
            "lower n_neighbors or pass more data"
        )
    return needed - 1


def check_jobs(n_jobs: Any) -> None:
    """Refuse numbers of threads that mean nothing."""
    if n_jobs is None:
        return
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer):
        raise InputTypeError(f"n_jobs={n_jobs!r} is a {type(n_jobs).__name__}; need None or a whole number")
    if n_jobs == 0:
        raise InputError("n_jobs=0 is no thread at all; need None, a number ≥ 1, or −1 for all processors")


def check_labels(labels: Any, n_samples: int) -> Any:
    """Return class codes as int64 (n,) or outputs as float64 (n, n_outputs)."""
    given = np.asarray(labels)
    if given.ndim not in (1, 2) or len(given) != n_samples:
        raise InputError(
            f"labels has shape {given.shape}; need ({n_samples},) or ({n_samples}, n_outputs), one per sample"
        )
    if given.ndim == 1 and given.dtype.kind in "iub":
        return given.astype(np.int64)
    return check_points(given[:, None] if given.ndim == 1 else given, name="labels").astype(np.float64)
