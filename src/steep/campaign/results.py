"""Results on their way into the journal and out of it: as arrays and as tables."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from steep._outputs import named_outputs, numbers
from steep._validation import FloatArray, check_count, check_points, check_real, refuse_masked, shown
from steep.campaign.journal import Journal, encode
from steep.campaign.schema import Names, checked_outputs
from steep.campaign.simulate import Failure
from steep.domain import Box
from steep.exceptions import InputError, InputTypeError, SteepError, warn_user

if TYPE_CHECKING:
    from steep.campaign.campaign import Campaign
    from steep.campaign.planner import Job


# More runs than this are a typo.
_MOST_RUNS = 10**9
# A hundred years.
_LONGEST = 3.2e9
# Share of each axis by which a point may be off the one that was asked: programs print six digits.
TOLERANCE = 1e-5


def check_runs(value: Any, *, name: str, minimum: int = 1) -> int:
    """Return a number of runs, within what a campaign can be."""
    count = check_count(value, name=name, minimum=minimum)
    if count > _MOST_RUNS:
        raise InputError(f"{name} is above {_MOST_RUNS}; expected fewer runs")
    return count


def check_seconds(value: Any, *, name: str) -> float:
    """Return a length of time in seconds; a text needs its unit."""
    if isinstance(value, str) and value.strip().replace(".", "").isdigit():
        raise InputTypeError(f"{name}={shown(value)} has no unit; expected a text such as '12 h' or '90 s'; add it")
    if isinstance(value, str | timedelta):
        try:
            value = pd.Timedelta(value).total_seconds()
        except (ValueError, OverflowError) as error:
            raise InputError(
                f"{name}={shown(value)} is not a length of time ({error}); expected seconds or a text such as '12 h'"
            ) from error
    return check_real(value, name=name, above=0.0, maximum=_LONGEST)


def numbers_of(name: str, read: Callable[[], FloatArray]) -> FloatArray:
    """What ``read`` returns, as float64 of ours."""
    try:
        return np.array(read(), dtype=np.float64)
    except SteepError:
        raise
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{name} is not an array of numbers ({error}); expected finite numbers in rows") from error


def label_rows(y: Any, n: int) -> FloatArray:
    """Results as ``(n, n_outputs)``; never transposed by guessing."""
    values = numbers_of("y", lambda: check_points(_as_rows(y, n), name="y"))
    if len(values) != n:
        raise InputError(f"y has {len(values)} rows for {n} points; expected one row, or one number, for each")
    return values


def _as_rows(y: Any, n: int) -> Any:
    refuse_masked(y, "y")
    if len(y.shape if hasattr(y, "shape") else np.shape(y)) > 1:
        return y
    # One point: a vector is its outputs.
    return np.reshape(np.asarray(y), (1, -1) if n == 1 else (-1, 1))


def labels_of(y: Any, n: int) -> tuple[FloatArray, Names | None]:
    """Results as rows, with the names of their columns where they have some."""
    try:
        # Labels of a Series of several results name its rows.
        named = None if isinstance(y, pd.Series) and n > 1 else named_outputs(y)
    except ValueError as error:
        raise InputError(f"{error}; nothing was recorded; rename them") from error
    if named is None:
        return label_rows(y, n), None
    if not named:
        raise InputError("y has no outputs; expected at least one name")
    for name, column in named.items():
        refuse_masked(column, f"output {name!r}")
    columns = [label_rows(np.reshape(np.asarray(column), (-1, 1)), n) for column in named.values()]
    return np.hstack(columns), tuple(named)


def aligned(journal: Journal, values: FloatArray, names: Names | None) -> FloatArray:
    """Rows of results in the order of the outputs, which the first result in the file decides, inside a transaction."""
    outputs = journal.outputs()
    if outputs is None:
        outputs = checked_outputs(names or tuple(f"y{i}" for i in range(values.shape[1])))
        journal.set_meta("outputs", list(outputs))
    if names is not None and set(names) != set(outputs):
        raise InputError(
            f"outputs are {sorted(names)}, expected {sorted(outputs)} as in every run of {journal.path!r}; "
            "nothing was recorded; return every one by its name"
        )
    if values.shape[1] != len(outputs):
        raise InputError(
            f"y has {values.shape[1]} outputs, expected {len(outputs)} ({', '.join(outputs)}) as in every run of "
            f"{journal.path!r}; nothing was recorded"
        )
    return values if names is None else values[:, [names.index(name) for name in outputs]]


def tell_points(campaign: Campaign, points: FloatArray, values: FloatArray, names: Names | None) -> None:
    """Record results by their points, inside a transaction; a point that was not asked for is foreign."""
    journal, numbers = campaign.journal, _meant(campaign, points)
    for x, label, number in zip(points, aligned(journal, values, names), numbers, strict=True):
        if number is None:  # a point may come twice
            number = (journal.at(x) or journal.add(x[None], origin="foreign", owner=""))[0]
        tell_run(journal, number, label)


def tell_run(journal: Journal, number: int, label: FloatArray) -> None:
    """Record the result of one run by its number, inside a transaction."""
    found = known_run(journal, number)
    if found[2] != "done":
        return journal.finish(number, label)
    before, now = found[1] or b"", encode(label)
    if now == before:
        return None
    x = journal.numbers([found[0]], len(found[0]) // 8)[0]
    raise InputError(
        f"run {number} at {x.tolist()} has another result already; nothing was recorded; leave it out, or replace the "
        "result with Campaign.correct in Python"
    )


def known_run(journal: Journal, number: int) -> tuple[bytes, bytes | None, str]:
    """Point, result and state of a run that counts."""
    found = journal.run(number)
    if found is None or found[2] == "forgotten":
        what = "is not in" if found is None else "was forgotten in"
        raise InputError(
            f"run {number} {what} {journal.path!r}; nothing was recorded; pass run numbers returned by ask()"
        )
    return found


def pending_numbers(campaign: Campaign, points: FloatArray) -> list[int]:
    """Numbers of the pending runs at given points."""
    numbers = _meant(campaign, points)
    for x, number in zip(points, numbers, strict=True):
        if number is None:
            raise InputError(
                f"{x.tolist()} is not pending; nothing was recorded; tell failures of points that were asked"
            )
    return [number for number in numbers if number is not None]


def run_numbers(run: Any, *, once: bool = True) -> list[int]:
    """Numbers of runs as a caller gives them: one, or a sequence; at least one, and ``once`` each."""
    if isinstance(run, pd.Series | pd.Index | np.ndarray):
        run = run.tolist()
    listed = run if isinstance(run, Sequence) and not isinstance(run, str | bytes) else [run]
    for number in listed:
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 0 < number < 2**63:
            raise InputTypeError(f"run is {shown(number)}; expected the number of a run, as ask gives it")
    numbers = list(dict.fromkeys(map(int, listed)))
    if once and not numbers:
        raise InputError("run is empty; expected at least one number of a run")
    if once and len(numbers) < len(listed):
        raise InputError("run names the same run twice; expected each once")
    return numbers


def _meant(campaign: Campaign, points: FloatArray) -> list[int | None]:
    """The run meant by each point: the one found there, or the nearest pending one that rounding explains."""
    numbers: list[int | None] = [(campaign.journal.at(x) or (None,))[0] for x in points]
    left = [i for i, number in enumerate(numbers) if number is None]
    pending, known = campaign.journal.numbered_points("pending", campaign.box.n_features) if left else ([], points)
    if not pending:
        return numbers
    # Far outside is outside. Whole numbers and categories are one apart: none is taken for another.
    stretch = [axis.n_values if np.isfinite(axis.n_values) else 1.0 for axis in campaign.box.axes]
    unit, known = (np.clip(campaign.box.unit(X), -1e6, 1e6) * stretch for X in (points, known))
    for i in left:
        apart = np.abs(known - unit[i]).max(axis=1)
        place = int(apart.argmin())
        if apart[place] <= TOLERANCE and pending[place] not in numbers:
            numbers[i] = pending[place]
    return numbers


class Results:
    """Results inside S in the order they were recorded; each call reads only what is new."""

    def __init__(self, journal: Journal, box: Box) -> None:
        self.journal, self.box = journal, box
        self._X: FloatArray = np.empty((0, box.n_features))
        self._y: FloatArray = np.empty((0, 0))
        self._origins: npt.NDArray[np.str_] = np.empty(0, dtype="<U8")
        self._read = 0

    def told(self) -> tuple[FloatArray, FloatArray]:
        """Points ``(n, n_features)`` and labels ``(n, n_outputs)``, NaN for outputs that a run did not have yet."""
        rows = self.journal.told_after(self._read)
        if rows:
            X = self.journal.numbers([row[0] for row in rows], self.box.n_features)
            inside = self.box.contains(X)
            y = self.journal.labels([row[1] for row in rows])[inside]
            self._y = np.vstack([self._y, y]) if len(self._X) else y
            self._X = np.vstack([self._X, X[inside]])
            self._origins = np.append(self._origins, np.array([row[3] for row in rows], dtype="<U8")[inside])
            self._read = rows[-1][2]
        return self._X, self._y

    def origins(self) -> npt.NDArray[np.str_]:
        """How each of them came about."""
        self.told()
        return self._origins

    def without_gaps(self) -> tuple[FloatArray, FloatArray, npt.NDArray[np.str_], FloatArray]:
        """Points, labels without NaN and origins, and the points left out for their gaps.

        Runs with every output once they are half of all; before that all runs, with the outputs all of them have.
        """
        X, y = self.told()
        gaps = np.isnan(y)
        whole = ~gaps.any(axis=1)
        if 2 * whole.sum() >= len(y):
            return X[whole], y[whole], self._origins[whole], X[~whole]
        return X, y[:, ~gaps.any(axis=0)], self._origins, X[:0]


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


def failures(campaign: Campaign) -> pd.DataFrame:
    """One row for each failed attempt."""
    rows, box = campaign.journal.all_failures(), campaign.box
    frame = _inputs(box, campaign.journal.numbers([row[0] for row in rows], box.n_features))
    for i, name in enumerate(_distinct(_FAILURE_MARKS, box.names), start=1):
        frame[name] = _column([row[i] for row in rows], _KINDS[_FAILURE_MARKS[i - 1]])
    return frame


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
    is_gap = ~has_all & ~is_marked & ~failed
    if n := int(is_gap.sum()):
        named = ", ".join(map(repr, frame.index[is_gap].tolist()[:_NAMED])) + (", …" if n > _NAMED else "")
        warn_user(f"{n} of {len(frame)} rows lack an output and were left out: {named}")
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
                campaign.journal.each("release", [number])


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
    try:
        return isinstance(value, str) and float(value) is None
    except ValueError:
        return True


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
    folder, name = os.path.split(os.path.abspath(campaign.journal.path))
    for place in (folder, tempfile.gettempdir()):  # a server may be away
        path = os.path.join(place, f"{os.path.splitext(name)[0]}.unsaved-{mark}.csv")  # never that of another process
        try:
            pd.DataFrame(rows).to_csv(path, index=False)
        except OSError:
            continue
        return (
            f"; they are in {path!r}: record them with campaign.tell_dataframe(pandas.read_csv({path!r})), or with "
            "steep campaign tell"
        )
    return ", or take them from campaign.unsaved"


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
