"""From what a caller tells to rows of the journal: which run is meant, and which column is which output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from steep._outputs import named_outputs
from steep._validation import FloatArray, shown
from steep.campaign.arguments import label_column, label_rows
from steep.campaign.journal import Journal, encode
from steep.campaign.settings import Names, checked_outputs
from steep.domain import Box
from steep.exceptions import InputError, InputTypeError

if TYPE_CHECKING:
    from steep.campaign.campaign import Campaign

# Share of each axis by which a point may be off the one that was asked: programs print six digits.
TOLERANCE = 1e-5
# Fewer points than this are compared with all known ones: building a tree takes longer.
_FEW = 20


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
        raise InputError("y has no outputs; need at least one name")
    return np.hstack([label_column(column, n, name) for name, column in named.items()]), tuple(named)


def aligned(journal: Journal, values: FloatArray, names: Names | None) -> FloatArray:
    """Rows of results in the order of the outputs, which the first one decides, inside a transaction.

    Another process may have been first: what the file says counts.
    """
    outputs = journal.outputs()
    if outputs is None:
        outputs = checked_outputs(names or tuple(f"y{i}" for i in range(values.shape[1])))
        journal.set_meta("outputs", list(outputs))
    if names is not None and set(names) != set(outputs):
        raise InputError(
            f"outputs are {sorted(names)}, need {sorted(outputs)} as in every run of {journal.path!r}; "
            "nothing was recorded; return every one by its name"
        )
    if values.shape[1] != len(outputs):
        raise InputError(
            f"y has {values.shape[1]} outputs, need {len(outputs)} ({', '.join(outputs)}) as in every run of "
            f"{journal.path!r}; nothing was recorded"
        )
    return values if names is None else values[:, [names.index(name) for name in outputs]]


def tell_points(
    campaign: Campaign, points: FloatArray, values: FloatArray, names: Names | None, tolerance: float
) -> None:
    """Record results by their points, inside a transaction; a point nobody asked for is foreign."""
    journal = campaign.journal
    labels = aligned(journal, values, names)
    numbers = _meant(campaign, points, labels, tolerance)
    foreign: dict[bytes, int] = {}  # a point may come twice
    for x, label, number in zip(points, labels, numbers, strict=True):
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
    if len(before) < len(now) and now.startswith(before):
        # Outputs that were added later, for a run that was made before.
        journal.correct(number, label)
        journal.record("completed", {"to": label.tolist()}, run=number)
        return journal.revise()
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
        raise InputError(f"run {number} {what} {journal.path!r}; nothing was recorded; need numbers that ask gave")
    return found


def pending_numbers(campaign: Campaign, points: FloatArray, tolerance: float) -> list[int]:
    """Numbers of the pending runs at given points."""
    numbers = [campaign.journal.pending_at(x) for x in points]
    _match_pending(campaign, points, numbers, tolerance)
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
            raise InputTypeError(f"run is {shown(number)}; need the number of a run, as ask gives it")
    if not listed:
        raise InputError("run is empty; need at least one number of a run")
    if len({int(number) for number in listed}) < len(listed):
        raise InputError("run names the same run twice; need each once")
    return [int(number) for number in listed]


# ---------------------------------------------------------------- points that were rounded on their way


def _meant(campaign: Campaign, points: FloatArray, labels: FloatArray, tolerance: float) -> list[int | None]:
    """The run meant by each point: exactly there, pending near by, or near by with this very result, told again."""
    journal = campaign.journal
    numbers = [known[0] if (known := journal.at(x)) is not None else None for x in points]
    _match_pending(campaign, points, numbers, tolerance)
    rows = _open_rows(numbers, tolerance)
    if rows:
        done = campaign.results.numbers()
        places = _near(campaign.box, campaign.results.unit(), points[rows], tolerance)
        for i, place in zip(rows, places, strict=True):
            if place is not None:
                found = journal.run(int(done[place]))
                if found is not None and found[1] == encode(labels[i]):
                    numbers[i] = int(done[place])
    return numbers


def _match_pending(campaign: Campaign, points: FloatArray, numbers: list[int | None], tolerance: float) -> None:
    """Fill in the nearest pending run within the tolerance; each run once."""
    rows = _open_rows(numbers, tolerance)
    if not rows:
        return
    pending, known = campaign.journal.numbered_points("pending", campaign.box.n_features)
    unit = campaign.box.unit(known) if len(known) else known
    for i, place in zip(rows, _near(campaign.box, unit, points[rows], tolerance), strict=True):
        if place is not None and pending[place] not in numbers:
            numbers[i] = pending[place]


def _open_rows(numbers: list[int | None], tolerance: float) -> list[int]:
    return [i for i, number in enumerate(numbers) if number is None] if tolerance > 0 else []


def _near(box: Box, known: FloatArray, points: FloatArray, tolerance: float) -> list[int | None]:
    """Row of the known unit point nearest to each point, no axis off by more than the tolerance."""
    if not len(known):
        return [None] * len(points)
    # Far outside is outside. Whole numbers and categories are one apart: none is taken for another.
    stretch = [axis.n_values if np.isfinite(axis.n_values) else 1.0 for axis in box.axes]
    unit, known = (np.clip(U, -1e6, 1e6) * stretch for U in (box.unit(points), known))
    if len(points) < _FEW:
        apart = [np.abs(known - u).max(axis=1) for u in unit]
        places = [int(distances.argmin()) for distances in apart]
        nearest = [float(distances[place]) for distances, place in zip(apart, places, strict=True)]
    else:
        nearest, places = cKDTree(known).query(unit, p=np.inf)
    return [int(place) if distance <= tolerance else None for distance, place in zip(nearest, places, strict=True)]
