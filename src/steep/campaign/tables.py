"""A campaign as tables, and tables as results of a campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from steep._validation import FloatArray
from steep.domain import Box
from steep.exceptions import InputError, InputTypeError

if TYPE_CHECKING:
    from steep.campaign.campaign import Campaign

# Columns that say how a run or a failure came about, beside its inputs and outputs.
MARKS = ("state", "origin", "asked", "told", "run", "inside")
_FAILURE_MARKS = ("run", "state", "at", "kind", "message", "traceback")


def failures(campaign: Campaign) -> pd.DataFrame:
    """One row for each failed attempt."""
    rows, box = campaign.journal.all_failures(), campaign.box
    frame = _inputs(box, campaign.journal.numbers([row[0] for row in rows], box.n_features))
    for i, name in enumerate(_distinct(_FAILURE_MARKS, box.names), start=1):
        frame[name] = [row[i] for row in rows]
    return frame


def to_dataframe(campaign: Campaign) -> pd.DataFrame:
    """One row for each run."""
    box, outputs = campaign.box, campaign.outputs or ()
    rows = campaign.journal.all_runs()
    X = campaign.journal.numbers([row[0] for row in rows], box.n_features)
    frame = _inputs(box, X)
    y = np.full((len(rows), len(outputs)), np.nan)
    done = [i for i, row in enumerate(rows) if row[1] is not None]
    y[done] = campaign.journal.numbers([rows[i][1] for i in done], len(outputs))
    labels, marks = _columns(box.names, outputs)
    for name, column in zip(labels, y.T, strict=True):
        frame[name] = column
    for i, name in enumerate(marks[:-1], start=2):
        frame[name] = [row[i] for row in rows]
    frame[marks[-1]] = box.contains(X) if len(X) else np.empty(0, dtype=bool)
    return frame


def load_dataframe(campaign: Campaign, frame: pd.DataFrame) -> None:
    """Tell the rows that have a result."""
    if not isinstance(frame, pd.DataFrame):
        raise InputTypeError(f"frame is a {type(frame).__name__}; need a pandas DataFrame")
    if not frame.columns.is_unique:
        raise InputError(f"the frame has columns {list(frame.columns)}; need each name once; rename them")
    names, known = campaign.box.names, campaign.outputs or ()
    labels, marks = _columns(names, known)
    missing = [name for name in (*names, *labels) if name not in frame.columns]
    if missing:
        raise InputError(f"the frame lacks {missing}; it has {list(frame.columns)}; rename its columns")
    extra = [name for name in frame.columns if name not in {*names, *labels, *marks}]
    if known and extra:
        raise InputError(f"the frame has unknown columns {extra}; need {[*names, *labels]}; drop them")
    if not known and not extra:
        raise InputError("the frame has no output columns; need at least one besides the inputs")
    if not known:
        labels = extra
    rows = frame[frame[labels].notna().all(axis=1)]
    if len(rows):
        inputs: Any = rows[list(names)].to_dict("records")
        columns = known or tuple(map(str, extra))
        campaign.tell_named(_encoded(campaign.box, inputs), _values(rows[labels]), columns)


def _encoded(box: Box, inputs: Any) -> FloatArray:
    try:
        X = box.encode(inputs)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError | InputTypeError):
            raise
        raise InputError(
            f"the inputs of the frame are no numbers ({error}); need points of {box!r}"
        ) from error
    if not np.isfinite(X).all():
        raise InputError(
            "the inputs of the frame contain NaN or infinity; need finite numbers; drop those rows"
        )
    return X


def _values(frame: pd.DataFrame) -> FloatArray:
    try:
        values = frame.to_numpy(dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the outputs of the frame are no numbers ({error}); need finite numbers") from error
    if not np.isfinite(values).all():
        raise InputError("the outputs of the frame contain infinity; need finite numbers; drop those rows")
    return values


def _columns(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Names of the columns of outputs and marks, none like that of another.

    Examples
    --------
    >>> _columns(("u", "state"), ("u",))
    (['u_'], ['state_', 'origin', 'asked', 'told', 'run', 'inside'])
    """
    labels = _distinct(outputs, inputs)
    return labels, _distinct(MARKS, (*inputs, *labels))


def _distinct(names: tuple[str, ...], taken: tuple[str, ...]) -> list[str]:
    """The names, with underscores at the end of those that are taken."""
    found: list[str] = []
    for name in names:
        while name in taken or name in found:
            name = f"{name}_"
        found.append(name)
    return found


def _inputs(box: Box, X: FloatArray) -> pd.DataFrame:
    """Named inputs; a foreign point with a code no category has stays a row of numbers."""
    if not len(X):
        return pd.DataFrame(columns=list(box.names))
    known = Box(dict(zip(box.names, box.axes, strict=True))).contains(X)
    points = [
        box.decode(x[None])[0] if ok else dict(zip(box.names, map(float, x), strict=True))
        for x, ok in zip(X, known, strict=True)
    ]
    return pd.DataFrame(points, columns=list(box.names))
