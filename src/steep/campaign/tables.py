"""A campaign as tables, and tables as results of a campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from steep._validation import FloatArray
from steep.campaign.journal import decode
from steep.domain import Box
from steep.exceptions import InputError

if TYPE_CHECKING:
    from steep.campaign.campaign import Campaign

# Columns that say how a run came about, beside its inputs and outputs.
MARKS = ["state", "origin", "asked", "told", "run"]


def failures(campaign: Campaign) -> pd.DataFrame:
    """One row for each failed attempt."""
    rows = campaign.journal.rows(
        "SELECT r.x, r.id, r.state, f.at, f.kind, f.message, f.traceback FROM failures f "
        "JOIN runs r ON r.id = f.run ORDER BY f.id"
    )
    box, columns = campaign.box, ["run", "state", "at", "kind", "message", "traceback"]
    inputs = _named(box, decode([row[0] for row in rows], box.n_features))
    return pd.DataFrame(
        [point | dict(zip(columns, row[1:], strict=True)) for point, row in zip(inputs, rows, strict=True)],
        columns=[*box.names, *columns],
    )


def to_dataframe(campaign: Campaign) -> pd.DataFrame:
    """One row for each run."""
    box, outputs = campaign.box, list(campaign.outputs or ())
    rows = campaign.journal.rows("SELECT x, y, state, origin, asked, told, id FROM runs ORDER BY id")
    X = decode([row[0] for row in rows], box.n_features)
    nothing = np.full(len(outputs), np.nan)
    y = np.array([nothing if row[1] is None else np.frombuffer(row[1], "<f8") for row in rows])
    frame = pd.DataFrame(_named(box, X), columns=list(box.names))
    frame[outputs] = y.reshape(len(rows), len(outputs))
    frame[MARKS] = pd.DataFrame([row[2:] for row in rows], columns=MARKS)
    frame["inside"] = box.contains(X) if len(X) else np.empty(0, dtype=bool)
    return frame


def load_dataframe(campaign: Campaign, frame: pd.DataFrame) -> None:
    """Tell the rows that have a result."""
    names, outputs = list(campaign.box.names), list(campaign.outputs or ())
    missing = [name for name in names + outputs if name not in frame.columns]
    if missing:
        raise InputError(f"the frame lacks {missing}; it has {list(frame.columns)}; rename its columns")
    extra = [name for name in frame.columns if name not in [*names, *outputs, *MARKS, "inside"]]
    if outputs and extra:
        raise InputError(f"the frame has unknown columns {extra}; need {names + outputs}; drop them")
    if not outputs and not extra:
        raise InputError("the frame has no output columns; need at least one besides the inputs")
    campaign.name_outputs(outputs or extra)
    rows = frame[frame[outputs or extra].notna().all(axis=1)]
    if len(rows):
        inputs: Any = rows[names].to_dict("records")
        campaign.tell(campaign.box.encode(inputs), rows[outputs or extra].to_numpy(dtype=np.float64))


def _named(box: Box, X: FloatArray) -> list[dict[str, Any]]:
    """Named inputs; a foreign point with a code no category has stays a row of numbers."""
    if not len(X):
        return []
    known = Box(dict(zip(box.names, box.axes, strict=True))).contains(X)
    return [
        box.decode(x[None])[0] if ok else dict(zip(box.names, map(float, x), strict=True))
        for x, ok in zip(X, known, strict=True)
    ]
