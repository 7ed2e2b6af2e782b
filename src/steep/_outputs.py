"""What a function or a program returned, as numbers: by name where it has names, NaN where a value is missing.

Nothing else of steep is imported, and NumPy only when it is needed: worker processes load this file before a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def named_outputs(value: Any) -> dict[str, Any] | None:
    """Outputs by name, or None if they have no names; see :func:`labelled`."""
    pairs = labelled(value)
    if pairs is None:
        return None
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(f"outputs are named {names}; expected each name once")
    return dict(pairs)


def labelled(value: Any) -> list[tuple[str, Any]] | None:
    """Names, which may occur twice, and entries of a mapping, table or Series; None if they are only numbered."""
    if isinstance(value, Mapping):
        return [(str(name), entry) for name, entry in value.items()]
    table = as_pandas(value)
    labels = list(_labels(table))
    if not any(isinstance(label, str) for label in labels):
        return None
    parts = [table.iloc[:, i].to_numpy() if table.ndim == 2 else table.iloc[i] for i in range(len(labels))]
    return [(str(label), part) for label, part in zip(labels, parts, strict=True)]


def one_number(value: Any, name: str) -> float:
    """The single number of an output."""
    if isinstance(value, int | float):
        return float(value)
    found = numbers(value)
    if found.size != 1:
        raise ValueError(f"output {name!r} has {found.size} numbers; expected one")
    return float(found.reshape(-1)[0])


def numbers(value: Any) -> npt.NDArray[np.float64]:
    """Numbers of any shape as float64; what is masked or missing is NaN, what is not real raises TypeError."""
    import numpy as np

    masked: Any = np.ma.MaskedArray
    if isinstance(value, list | tuple) and any(isinstance(entry, masked) for entry in value):
        value = np.ma.asarray([np.nan if entry is np.ma.masked else entry for entry in value])
    held = value if isinstance(value, masked) else np.asarray(as_pandas(value))
    is_complex = held.dtype == object and any(isinstance(entry, complex) for entry in held.flat)
    if held.dtype.kind in "cmM" or is_complex:
        raise TypeError(f"got {'complex' if is_complex else held.dtype}; expected real numbers")
    return np.asarray(np.ma.filled(held.astype(np.float64), np.nan))


def as_pandas(value: Any) -> Any:
    """A table of polars or Arrow as one of pandas; anything else as it is."""
    is_other = type(value).__module__.partition(".")[0] in ("polars", "pyarrow")
    return value.to_pandas() if is_other and hasattr(value, "to_pandas") else value


def _labels(value: Any) -> Any:
    """Names of the columns of a pandas table, or of the entries of a Series."""
    if type(value).__module__.partition(".")[0] != "pandas" or not hasattr(value, "iloc"):
        return ()
    return value.columns if value.ndim == 2 else value.index
