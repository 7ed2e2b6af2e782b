"""Results on their way into the journal and out of it: which run is meant, which column is which output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from steep._outputs import named_outputs
from steep._validation import FloatArray, check_count, check_points, check_real, refuse_masked, shown
from steep.campaign.journal import Journal, encode
from steep.campaign.schema import Names, checked_outputs
from steep.domain import Box
from steep.exceptions import InputError, InputTypeError, SteepError

if TYPE_CHECKING:
    from steep.campaign.campaign import Campaign


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
    shape = np.shape(y) if not hasattr(y, "shape") else y.shape
    if len(shape) > 1:
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
    journal = campaign.journal
    foreign: dict[bytes, int] = {}  # a point may come twice
    numbers = _meant(campaign, points, [(journal.at(x) or (None,))[0] for x in points])
    for x, label, number in zip(points, aligned(journal, values, names), numbers, strict=True):
        if number is None:
            number = foreign.get(encode(x))
        if number is None:
            number = foreign[encode(x)] = journal.add(x[None], origin="foreign", owner="")[0]
            journal.finish(number, label)
        else:
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
    numbers = _meant(campaign, points, [campaign.journal.pending_at(x) for x in points])
    for x, number in zip(points, numbers, strict=True):
        if number is None:
            raise InputError(
                f"{x.tolist()} is not pending; nothing was recorded; tell failures of points that were asked"
            )
    return [number for number in numbers if number is not None]


def run_numbers(run: Any) -> list[int]:
    """Numbers of runs as a caller gives them: one, or a sequence."""
    if isinstance(run, pd.Series | pd.Index | np.ndarray):
        run = run.tolist()
    listed = run if isinstance(run, Sequence) and not isinstance(run, str | bytes) else [run]
    for number in listed:
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 0 < number < 2**63:
            raise InputTypeError(f"run is {shown(number)}; expected the number of a run, as ask gives it")
    if not listed:
        raise InputError("run is empty; expected at least one number of a run")
    if len({int(number) for number in listed}) < len(listed):
        raise InputError("run names the same run twice; expected each once")
    return [int(number) for number in listed]


def _meant(campaign: Campaign, points: FloatArray, numbers: list[int | None]) -> list[int | None]:
    """The run meant by each point: the one found there, or the nearest pending one that rounding explains."""
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
        self._n_foreign = self._read = 0

    def told(self) -> tuple[FloatArray, FloatArray]:
        """Points ``(n, n_features)`` and labels ``(n, n_outputs)``, NaN for outputs that a run did not have yet."""
        rows = self.journal.told_after(self._read)
        if rows:
            X = self.journal.numbers([row[0] for row in rows], self.box.n_features)
            inside = self.box.contains(X)
            y = self.journal.labels([row[1] for row in rows])[inside]
            self._y = np.vstack([self._y, y]) if len(self._X) else y
            self._X = np.vstack([self._X, X[inside]])
            self._n_foreign += sum(bool(is_in) and row[3] == "foreign" for row, is_in in zip(rows, inside, strict=True))
            self._read = rows[-1][2]
        return self._X, self._y

    def n_foreign(self) -> int:
        """How many of them were not asked for."""
        self.told()
        return self._n_foreign

    def is_check(self, X: FloatArray) -> npt.NDArray[np.bool_]:
        """Which points are check runs, made for the certificate of a surrogate."""
        if not self.journal.count_asked("check"):
            return np.zeros(len(X), dtype=bool)
        origins = dict(self.journal.origins())
        return np.array([origins.get(encode(x)) == "check" for x in X], dtype=bool)

    def without_gaps(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Points and labels without NaN, and the points left out for it.

        Runs with every output once they are half of all; before that all runs, with the outputs all of them have.
        """
        X, y = self.told()
        gaps = np.isnan(y)
        whole = ~gaps.any(axis=1)
        if 2 * whole.sum() >= len(y):
            return X[whole], y[whole], X[~whole]
        return X, y[:, ~gaps.any(axis=0)], X[:0]
