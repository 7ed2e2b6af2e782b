"""A campaign as tables, tables as results of a campaign, and changes of what was recorded before.

Each change is an event of the journal, and nothing is erased.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from steep._outputs import numbers
from steep._validation import FloatArray
from steep.campaign.results import TOLERANCE, aligned, known_run, labels_of, run_numbers, tell_run
from steep.campaign.simulate import Failure
from steep.domain import Box
from steep.exceptions import InputError, InputTypeError, warn_user

if TYPE_CHECKING:
    from steep.campaign.campaign import Campaign
    from steep.campaign.planner import Job


# Columns that say how a run or a failure came about, next to its inputs and outputs.
MARKS = ("state", "origin", "asked", "told", "run", "expires", "inside")
_FAILURE_MARKS = ("run", "state", "at", "kind", "message", "traceback")
# What a column holds: a table without a row has the same kinds of columns as one with rows.
_KINDS: dict[str, Any] = {
    "run": 0, "state": "", "origin": "", "asked": 0.0, "told": 0.0, "expires": 0.0, "at": 0.0, "kind": "",
    "message": "", "traceback": "",
}  # fmt: skip
# Rows of a table of runs that have no result to load, as their state says.
_WITHOUT = ("pending", "failed", "forgotten")
# Rows that a warning names.
_NAMED = 5
Where = Mapping[str, Any] | Callable[[pd.DataFrame], Any]


def failures(campaign: Campaign) -> pd.DataFrame:
    """One row for each failed attempt."""
    rows, box = campaign.journal.all_failures(), campaign.box
    frame = _inputs(box, campaign.journal.numbers([row[0] for row in rows], box.n_features))
    for i, name in enumerate(_distinct(_FAILURE_MARKS, box.names), start=1):
        frame[name] = _column([row[i] for row in rows], _KINDS[_FAILURE_MARKS[i - 1]])
    return frame


def failure_columns(inputs: tuple[str, ...]) -> dict[str, str]:
    """Names of the columns next to the inputs in the table of failures."""
    return dict(zip(_FAILURE_MARKS, _distinct(_FAILURE_MARKS, inputs), strict=True))


def run_columns(campaign: Campaign) -> dict[str, str]:
    """Names of the columns next to inputs and outputs in the table of runs."""
    return dict(zip(MARKS, _columns(campaign.box.names, campaign.outputs or ())[1], strict=True))


def events(campaign: Campaign) -> pd.DataFrame:
    """One row for each change of what was recorded before."""
    rows = campaign.journal.all_events()
    try:
        details = [json.loads(row[3]) for row in rows]
        runs = pd.Series([row[2] for row in rows], dtype="Int64")
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise campaign.journal.damaged(f"its events are unreadable ({error})") from error
    frame = pd.DataFrame(
        {name: _column([row[i] for row in rows], _KINDS[name]) for i, name in enumerate(("at", "kind"))}
    )
    frame["run"] = runs
    frame["detail"] = pd.Series(details, dtype=object)
    return frame


def asked(campaign: Campaign, jobs: list[Job], until: float) -> pd.DataFrame:
    """Runs that were asked with a lease: number, inputs, when it ends."""
    frame = _inputs(campaign.box, np.array([x for _, x in jobs]))
    run, expires = _lease_columns(campaign.box.names)
    frame.insert(0, run, [number for number, _ in jobs])
    frame[expires] = pd.to_datetime(np.full(len(jobs), until), unit="s", utc=True).round("s")
    return frame


def _lease_columns(inputs: tuple[str, ...]) -> list[str]:
    return _distinct(("run", "expires"), inputs)


def to_dataframe(campaign: Campaign) -> pd.DataFrame:
    """One row for each run."""
    box, outputs = campaign.box, campaign.outputs or ()
    rows = campaign.journal.all_runs()
    X = campaign.journal.numbers([row[0] for row in rows], box.n_features)
    frame = _inputs(box, X)
    y = np.full((len(rows), len(outputs)), np.nan)
    done = [i for i, row in enumerate(rows) if row[1] is not None]
    y[done] = campaign.journal.labels([rows[i][1] for i in done])
    labels, marks = _columns(box.names, outputs)
    for name, column in zip(labels, y.T, strict=True):
        frame[name] = column
    for i, name in enumerate(marks[:-1], start=2):
        frame[name] = _column([row[i] for row in rows], _KINDS[MARKS[i - 2]])
    frame[marks[-1]] = box.contains(X) if len(X) else np.empty(0, dtype=bool)
    return frame


def load_dataframe(campaign: Campaign, frame: pd.DataFrame, outputs: tuple[str, ...] | None) -> None:
    """Tell the rows that have a result, and those that failed."""
    names, known = campaign.box.names, campaign.outputs or outputs or ()
    labels, marks = _columns(names, known)
    _check_frame(frame, [*names, *labels])
    extra = [name for name in frame.columns if name not in {*names, *labels, *marks, "error"}]
    if not known and not extra:
        raise InputError("the frame has no output columns; expected at least one in addition to the inputs")
    failed = _failed(frame, labels)
    labels = _labels(frame, labels, [] if outputs is not None else extra)
    is_marked = frame[marks[0]].isin(_WITHOUT) if marks[0] in frame.columns else pd.Series(False, index=frame.index)
    has_all = frame[labels].notna().all(axis=1)
    _warn_of_gaps(frame, ~has_all & ~is_marked & ~failed)
    inputs: Any = frame[list(names)]
    if (rows := has_all & ~is_marked & ~failed).any():
        X = _encoded(campaign.box, inputs[rows].to_dict("records"))
        campaign._tell_named(X, _values(frame.loc[rows, labels]), known or tuple(map(str, extra)))
    X = _encoded(campaign.box, inputs[failed].to_dict("records")) if failed.any() else np.empty((0, len(names)))
    with campaign.journal.transaction():
        for x, error in zip(X, frame.loc[failed].get("error", ()), strict=True):
            if campaign.journal.at(x) is None:  # so that loading a table twice does no harm
                (number,) = campaign.journal.add(x[None], origin="foreign", owner="")
                campaign.journal.fail(number, Failure("told", str(error)), retries=0)


def tell_dataframe(campaign: Campaign, frame: pd.DataFrame, *, retries: int) -> None:
    """Tell the rows that have a result or an error, by the numbers of their runs."""
    names, outputs = campaign.box.names, campaign.outputs or ()
    run, expires = _lease_columns(names)
    _check_frame(frame, [run])
    labels = _distinct(outputs, names)
    marks = {run, expires, "error", *names, *_columns(names, outputs)[1]}
    extra = [name for name in frame.columns if name not in {*labels, *marks}]
    failed = _failed(frame, labels)
    labels = _labels(frame, labels, extra)
    # A table of failures alone needs no outputs.
    labels = [] if failed.all() and not {*labels} & {*frame.columns} else labels
    _check_frame(frame, [run, *labels])
    done = frame[labels].notna().all(axis=1) & ~failed
    if not failed.all() and (not labels or (frame[labels].notna().any(axis=1) & ~done & ~failed).any()):
        raise InputError(
            "some rows of the frame lack outputs; expected every output of a run, or a text in the column error"
        )
    _check_inputs(campaign, frame[done | failed], run)
    with campaign.journal.transaction():
        if done.any():
            known = outputs or tuple(map(str, extra))
            rows = aligned(campaign.journal, _values(frame.loc[done, labels]), known)
            for number, label in zip(_numbers(frame.loc[done, run]), rows, strict=True):
                tell_run(campaign.journal, number, label)
        for number, error in zip(_numbers(frame.loc[failed, run]), frame.loc[failed].get("error", ()), strict=True):
            if known_run(campaign.journal, number)[2] != "pending":
                continue
            if campaign.journal.fail(number, Failure("told", str(error)), retries=retries):
                campaign.journal.release([number])


def _labels(frame: pd.DataFrame, known: list[str], extra: list[Any]) -> list[Any]:
    """The columns of the outputs: those that are known, or all that are left before the first result."""
    if known:
        if extra:
            warn_user(f"columns {extra} are neither inputs nor outputs ({', '.join(known)}) and were left out")
        return known
    for name in extra:
        if any(map(_is_text, frame[name])):
            raise InputError(
                f"column {str(name)!r} of the frame has text; expected numbers in every output; drop it, or name the "
                "outputs with Campaign(outputs=[…]): other columns are then left out"
            )
    return extra


def _is_text(value: Any) -> bool:
    """Whether a cell has text that is not a number."""
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


def _warn_of_gaps(frame: pd.DataFrame, is_gap: pd.Series[bool]) -> None:
    """Name the rows that are left out because they lack an output."""
    if n := int(is_gap.sum()):
        shown = ", ".join(repr(label) for label in frame.index[is_gap].tolist()[:_NAMED])
        more = ", …" if n > _NAMED else ""
        warn_user(f"{n} of {len(frame)} rows lack an output and were left out: {shown}{more}")


def _column(values: list[Any], kind: Any) -> pd.Series[Any]:
    """Values as a column, of the kind that ``kind`` is even if there are none."""
    if isinstance(kind, float) and all(isinstance(value, int | float | None) for value in values):
        return pd.Series(values, dtype=np.float64)
    return pd.Series(values) if values else pd.Series([kind]).iloc[:0]


def write_unsaved(campaign: Campaign, mark: str) -> str:
    """Write results that the journal did not take as a table to tell; where it is, as the end of a sentence."""
    run, _ = _lease_columns(campaign.box.names)
    outputs = campaign.outputs
    rows = []
    for number, values, names in campaign.unsaved:
        known = names or outputs or tuple(f"y{i}" for i in range(len(values)))
        rows.append({run: number, **dict(zip(_distinct(known, campaign.box.names), values, strict=False))})
    stem = os.path.splitext(os.path.abspath(campaign.journal.path))[0]
    path = f"{stem}.unsaved-{mark}.csv"  # never that of another process
    try:
        pd.DataFrame(rows).to_csv(path, index=False)
    except OSError:
        return ", or take them from campaign.unsaved"
    return (
        f"; they are in {path!r}: record them with campaign.tell_dataframe(pandas.read_csv({path!r})), or with steep "
        "campaign tell"
    )


def _failed(frame: pd.DataFrame, labels: list[str]) -> Any:
    """Rows that say why their run failed."""
    if "error" in frame.columns and "error" not in labels:
        return frame["error"].notna()
    return pd.Series(False, index=frame.index)


def _check_frame(frame: Any, needed: list[str]) -> None:
    if not isinstance(frame, pd.DataFrame):
        raise InputTypeError(f"frame is a {type(frame).__name__}; expected a pandas DataFrame")
    if not frame.columns.is_unique:
        raise InputError(f"the frame has columns {list(frame.columns)}; expected each name once; rename them")
    missing = [name for name in needed if name not in frame.columns]
    if missing:
        raise InputError(f"the frame lacks {missing}; it has {list(frame.columns)}; rename its columns")


def _numbers(column: Any) -> list[int]:
    """Numbers of runs from a column; a file of text may have made them floats."""
    if not len(column):
        return []
    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    if not np.isfinite(values).all() or (values != np.round(values)).any():
        raise InputError("column 'run' must contain run numbers returned by ask()")
    return run_numbers([int(value) for value in values])


def _check_inputs(campaign: Campaign, frame: pd.DataFrame, run: str) -> None:
    """Inputs that came along must be those of the run: else the table is of another campaign."""
    names, box = list(campaign.box.names), campaign.box
    if not len(frame) or not set(names) <= set(frame.columns):
        return
    given = box.unit(_encoded(box, frame[names].to_dict("records")))
    blobs = [known_run(campaign.journal, number)[0] for number in _numbers(frame[run])]
    wanted = box.unit(campaign.journal.numbers(blobs, box.n_features))
    off = np.abs(given - wanted).max(axis=1) > TOLERANCE
    if off.any():
        raise InputError(
            f"the inputs of run {_numbers(frame[run])[int(off.argmax())]} are not those it was asked with; nothing was "
            "recorded; is the table of another campaign?"
        )


def _encoded(box: Box, inputs: Any) -> FloatArray:
    try:
        X = box.encode(inputs)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError | InputTypeError):
            raise
        raise InputError(f"the inputs of the frame are not numbers ({error}); expected points of {box!r}") from error
    if not np.isfinite(X).all():
        raise InputError("the inputs of the frame contain NaN or infinity; expected finite numbers; drop those rows")
    return X


def _values(frame: pd.DataFrame) -> FloatArray:
    try:
        values = np.column_stack([numbers(frame[name].to_numpy()) for name in frame.columns])
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the outputs of the frame are not numbers ({error}); expected finite numbers") from error
    if not np.isfinite(values).all():
        raise InputError("the outputs of the frame contain infinity; expected finite numbers; drop those rows")
    return values


def _columns(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Names of the columns of outputs and marks, none like that of another."""
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
    """Named inputs; what is not a value of its axis, as in a foreign point outside S, stays a number."""
    columns: dict[str, pd.Series[Any]] = {}
    for name, axis, x in zip(box.names, box.axes, X.T, strict=True):
        known = np.asarray(axis.contains(x))
        values = [axis.value(v) if ok else float(v) for v, ok in zip(x, known, strict=True)]
        columns[name] = _column(values, axis.value(axis.low))
    return pd.DataFrame(columns, columns=list(box.names))


def correct(campaign: Campaign, run: Any, y: Any, reason: str) -> None:
    """Replace results."""
    numbers, journal = run_numbers(run), campaign.journal
    values, names = labels_of(y, len(numbers))
    with journal.transaction():
        labels = aligned(journal, values, names)
        for number, label in zip(numbers, labels, strict=True):
            before = known_run(journal, number)
            if before[2] != "done":
                raise InputError(
                    f"run {number} is {before[2]} and has no result to correct; nothing was recorded; tell it"
                )
            old = journal.labels([before[1]])[0]
            journal.correct(number, label)
            detail = {"from": [None if np.isnan(v) else v for v in old], "to": label.tolist(), "reason": str(reason)}
            journal.record("corrected", detail, run=number)
        journal.revise()


def retry_failures(campaign: Campaign, where: Where | None) -> int:
    """Make runs that were given up pending again."""
    with campaign.journal.transaction():
        frame = failures(campaign)
        marks = failure_columns(campaign.box.names)
        frame = frame[frame[marks["state"]] == "failed"].drop_duplicates(marks["run"], keep="last")
        numbers = [int(number) for number in frame.loc[_chosen(frame, where), marks["run"]]]
        campaign.journal.reopen(numbers)
        for number in numbers:
            campaign.journal.record("retried", {}, run=number)
    return len(numbers)


def forget(campaign: Campaign, run: Any, where: Where | None, reason: str) -> int:
    """Leave runs out of all that counts."""
    if (run is None) == (where is None):
        raise InputTypeError("forget needs run= or where=, one of them")
    with campaign.journal.transaction():
        if run is not None:
            numbers = run_numbers(run)
        else:
            frame, mark = to_dataframe(campaign), run_columns(campaign)
            frame = frame[frame[mark["state"]] != "forgotten"]
            numbers = [int(number) for number in frame.loc[_chosen(frame, where), mark["run"]]]
        for number in numbers:
            state = known_run(campaign.journal, number)[2]
            campaign.journal.record("forgotten", {"state": state, "reason": str(reason)}, run=number)
        campaign.journal.forget(numbers)
        campaign.journal.revise()
    return len(numbers)


def _chosen(frame: pd.DataFrame, where: Where | None) -> Any:
    """Which rows of a frame are meant."""
    if where is None:
        return np.ones(len(frame), dtype=bool)
    if callable(where):
        mask = np.asarray(where(frame.copy()))
        if mask.shape != (len(frame),) or mask.dtype != bool:
            raise InputError(
                f"where returned {mask.dtype} of shape {mask.shape} for {len(frame)} rows; expected one boolean each"
            )
        return mask
    if not isinstance(where, Mapping):
        raise InputTypeError(
            f"where is a {type(where).__name__}; expected a mapping of column to value, or a callable of the frame"
        )
    unknown = [name for name in where if name not in frame.columns]
    if unknown:
        raise InputError(f"where names unknown columns {unknown}; expected some of {list(frame.columns)}")
    mask = np.ones(len(frame), dtype=bool)
    for name, value in where.items():
        wanted = value if isinstance(value, list | tuple | set) else [value]
        mask &= frame[name].isin(list(wanted)).to_numpy()
    return mask
