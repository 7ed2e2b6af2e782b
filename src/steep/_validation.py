"""Checks on what callers pass in: shapes, finiteness, counts, labels.

Each returns the value in one form, or raises an error that says what was got, what is needed and what to do.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array

from steep.exceptions import InputError, InputTypeError

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]
Seed = int | np.random.Generator | np.random.RandomState | None

# The one rule of size: squares of larger numbers, summed over columns and neighbours, overflow; of smaller ones vanish.
LARGEST_NUMBER, SMALLEST_NUMBER = 1e100, 1e-100

# No array is longer, and no computer counts so far.
_LARGEST = 2**62

# More jobs than any machine has processors: joblib would fail on numbers far beyond.
_MOST_JOBS = 2**20


def check_points(X: Any, *, name: str = "X", n_features: int | None = None) -> FloatArray:
    """Return ``X`` as a finite 2-D float array of numbers up to 1e100; float32 and float64 are kept without a copy."""
    points = _numeric_array(X, name)
    if points.ndim != 2:
        raise InputError(
            f"{name} has shape {points.shape}; expected 2 dimensions (n_samples, n_features); Reshape your data: "
            f"{name}.reshape(n_samples, -1)"
        )
    if n_features is not None and points.shape[1] != n_features:
        raise InputError(
            f"{name} has {points.shape[1]} columns, expected {n_features}; pass the same inputs in the same order"
        )
    if not points.size:
        kind = "feature(s)" if len(points) else "sample(s)"
        raise InputError(
            f"{name} has 0 {kind} (shape={points.shape}) while a minimum of 1 is required.; pass some data"
        )
    check_size(points, name)
    return points


def check_size(array: FloatArray, name: str) -> None:
    """Reject NaN, infinity and numbers whose squares overflow."""
    with np.errstate(over="ignore", invalid="ignore"):  # the sum of squares is small where no entry is any of these
        if array.flags.forc:
            flat = array.ravel(order="K")
            if float(np.einsum("i,i->", flat, flat)) <= LARGEST_NUMBER**2:  # np.vdot would wake the threads of BLAS
                return
    _check_finite(array, name)
    largest = float(max(array.max(), -array.min()))
    if largest > LARGEST_NUMBER:
        raise InputError(
            f"{name} reaches {largest:.2g}; expected numbers up to {LARGEST_NUMBER:g}, because squares of larger ones "
            "overflow; divide them"
        )


def check_numbers(values: Any, *, name: str) -> FloatArray:
    """Return ``values`` as a finite float64 array of any shape, with at least one entry."""
    array = _numeric_array(values, name).astype(np.float64, copy=False)
    if not array.size:
        raise InputError(f"{name} has 0 values (shape={array.shape}); expected at least 1; pass some data")
    _check_finite(array, name)
    return array


def check_vector(values: Any, *, name: str, n_samples: int | None = None, minimum: float | None = None) -> FloatArray:
    """Return ``values`` as a finite float64 array of shape ``(n_samples,)``; any length ≥ 1 if that is None."""
    vector = check_numbers(values, name=name)
    if n_samples is None:
        n_samples = len(vector) if vector.ndim else 1
    if vector.shape != (n_samples,):
        raise InputError(f"{name} has shape {vector.shape}; expected ({n_samples},), one value per sample")
    if minimum is not None and vector.min() < minimum:
        at = int(vector.argmin())
        raise InputError(f"{name}[{at}] is {vector[at]:g}; expected values ≥ {minimum:g}")
    return vector


def check_sample_weight(sample_weight: Any, n_samples: int, *, name: str = "sample_weight") -> FloatArray:
    """Return a caller's weights, ≥ 0 and not all zero; ones when there are none."""
    if sample_weight is None:
        return np.ones(n_samples)
    weights = check_vector(sample_weight, name=name, n_samples=n_samples, minimum=0.0)
    if not weights.any():
        raise InputError(f"{name} is zero everywhere; expected at least one positive weight; check its source")
    return weights


def check_count(value: Any, *, name: str, minimum: int = 1) -> int:
    """Return ``value`` as an int that is at least ``minimum``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InputTypeError(f"{name}={shown(value)} is a {type(value).__name__}; expected a whole number ≥ {minimum}")
    number = int(value)
    if not minimum <= number <= _LARGEST:
        size = "small" if number < minimum else "large"
        raise InputError(f"{name}={shown(value)} is too {size}; expected a whole number ≥ {minimum}")
    return number


def check_real(
    value: Any, *, name: str, above: float = -np.inf, minimum: float = -np.inf, maximum: float = np.inf
) -> float:
    """Return ``value`` as a finite float within ``(above, ∞) ∩ [minimum, maximum]``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputTypeError(f"{name}={shown(value)} is a {type(value).__name__}; expected a number")
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond all floats is out of any range
        number = float("inf")
    if not (np.isfinite(number) and number > above and minimum <= number <= maximum):
        limits = [f"{sign} {x:g}" for sign, x in ((">", above), ("≥", minimum), ("≤", maximum)) if np.isfinite(x)]
        raise InputError(
            f"{name}={shown(value)} is out of range; expected a finite number {' and '.join(limits)}".rstrip()
        )
    return number


def check_choice(value: Any, *, name: str, choices: tuple[Any, ...]) -> Any:
    """Return ``value`` when it is one of ``choices``."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
        raise InputError(f"{name}={shown(value)} is unknown; expected one of {', '.join(map(repr, choices))}")
    return value


def check_flag(value: Any, *, name: str, optional: bool = False) -> Any:
    """Return ``value`` as a bool; only True and False are flags, and None where that is ``optional``."""
    if optional and value is None:
        return None
    if not isinstance(value, bool | np.bool_):
        kinds = "True, False or None" if optional else "True or False"
        raise InputTypeError(f"{name}={shown(value)} is a {type(value).__name__}; expected {kinds}")
    return bool(value)


def check_jobs(n_jobs: Any) -> int | None:
    """Return a number of jobs as joblib understands it; None is one."""
    if n_jobs is None:
        return None
    if isinstance(n_jobs, bool | np.bool_) or not isinstance(n_jobs, int | np.integer):
        raise InputTypeError(f"n_jobs={shown(n_jobs)} is a {type(n_jobs).__name__}; expected None or a whole number")
    if not 0 < abs(int(n_jobs)) <= _MOST_JOBS:
        raise InputError(f"n_jobs={shown(n_jobs)} is invalid; use None, 1 to {_MOST_JOBS:,}, or -1 for all processors")
    return int(n_jobs)


def check_epsilon(epsilon: Any, n_features: int) -> FloatArray:
    """Return ε as a vector of ``n_features`` variances; a scalar holds for every axis."""
    vector = _numeric_array(epsilon, "epsilon").astype(np.float64, copy=False)
    if vector.ndim > 1 or vector.size not in (1, n_features):
        raise InputError(f"epsilon has shape {vector.shape}; expected a number, or one for each of {n_features} inputs")
    if not (np.isfinite(vector).all() and (vector > 0).all()):
        raise InputError(f"epsilon={shown(epsilon)} is out of range; expected variances > 0")
    return np.broadcast_to(vector, (n_features,)).copy()


def check_generator(random_state: Seed) -> np.random.Generator:
    """Return one ``Generator`` for this call; a given ``Generator`` is used as it is."""
    if random_state is None or isinstance(random_state, int | np.integer | np.random.Generator):
        if isinstance(random_state, int | np.integer) and random_state < 0:
            raise InputError(f"random_state={random_state} is negative; expected a whole number ≥ 0, or None")
        return np.random.default_rng(random_state)
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    raise InputTypeError(
        f"random_state={shown(random_state)} is a {type(random_state).__name__}; expected None, a whole number, "
        "or a numpy Generator or RandomState"
    )


def _numeric_array(values: Any, name: str) -> FloatArray:
    if type(values) is np.ndarray and values.dtype in (np.float32, np.float64):
        return values  # what all that follows would say too, at a hundredth of the time
    refuse_large(values, name)
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise InputTypeError(f"{name} is sparse; expected a dense array; call {name}.toarray() if it fits in memory")
    refuse_masked(values, name)
    try:
        if isinstance(values, np.ndarray) and values.dtype.kind in "US":
            values = values.astype(np.float64)  # numbers written as text are numbers
        array = check_array(
            values, dtype="numeric", ensure_2d=False, allow_nd=True, ensure_all_finite=False, ensure_min_samples=0,
            ensure_min_features=0, input_name=name,
        )  # fmt: skip
        if array.dtype.kind in "mM":
            raise TypeError(f"dtype {array.dtype}")
        return np.asarray(array, dtype=None if array.dtype in (np.float32, np.float64) else np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        if str(error).startswith("Complex data"):
            raise InputError(
                f"{name} is complex. Complex data not supported: need real numbers; pass its real part"
            ) from error
        # A cell that has no number in it at all (a dict, None) is a TypeError for NumPy; so it is for us.
        kind = InputTypeError if isinstance(error, TypeError) else InputError
        raise kind(
            f"{name} is not numeric ({one_line(error)}); expected real numbers; encode text, categories and dates first"
        ) from error


def refuse_masked(values: Any, name: str, depth: int = 3) -> None:
    """Reject arrays with masked entries, also in lists of them."""
    for entry in values if depth and isinstance(values, list | tuple) else ():
        refuse_masked(entry, name, depth - 1)
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        n_masked = int(np.ma.getmaskarray(values).sum())
        raise InputError(
            f"{name} is masked at {n_masked} of {values.size} entries; expected a value everywhere; fill them or drop "
            "those rows"
        )


def one_line(error: BaseException) -> str:
    """What another library complains about: short, and on one line."""
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]} …"


def shown(value: Any) -> str:
    """A value as an error shows it: short, and on one line."""
    try:
        text = " ".join(repr(value).split())
    except Exception as error:  # an object that cannot even be shown is still named
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"


def _check_finite(array: FloatArray, name: str) -> None:
    finite = np.isfinite(array)
    if finite.all():
        return
    at = tuple(int(i) for i in np.argwhere(~finite)[0])
    kind = "NaN" if np.isnan(array[at]) else "infinity (inf)"
    raise InputError(
        f"{name} contains {kind}, first at {list(at)} ({int((~finite).sum())} entries in all); expected "
        "finite numbers; impute or drop those rows"
    )


def is_collection(data: Any) -> bool:
    """Whether ``data`` is a lazy Dask array, frame, series or bag."""
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(data, "__dask_graph__")


def refuse_large(data: Any, name: str) -> None:
    """Reject a Dask collection or the path of a file where data in memory are expected."""
    if is_collection(data):
        got, instead = f"a Dask {type(data).__name__}", f"pass {name}.compute() if it fits"
    elif isinstance(data, PathLike) or (isinstance(data, str) and data.endswith((".npy", ".parquet", ".pq"))):
        got, instead = f"the path {str(data)!r}", "load the file and pass what it holds"
    else:
        return
    raise InputTypeError(
        f"{name} is {got}; expected data in memory; {instead}, or call neighbor_variance or sample_weights "
        "of steep.dask"
    )
