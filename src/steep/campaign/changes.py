"""What is changed after it was recorded: each change is an event of the journal, and nothing is erased."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from steep.campaign import tables
from steep.campaign.settings import add_outputs as add_to_outputs
from steep.campaign.settings import checked_outputs, set_box, widened
from steep.campaign.telling import aligned, known_run, labels_of, run_numbers
from steep.exceptions import InputError, InputTypeError

if TYPE_CHECKING:
    from steep.campaign.campaign import Campaign

Where = Mapping[str, Any] | Callable[[pd.DataFrame], Any]


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
        frame = tables.failures(campaign)
        marks = tables.failure_columns(campaign.box.names)
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
            frame, mark = tables.to_dataframe(campaign), tables.run_columns(campaign)
            frame = frame[frame[mark["state"]] != "forgotten"]
            numbers = [int(number) for number in frame.loc[_chosen(frame, where), mark["run"]]]
        for number in numbers:
            state = known_run(campaign.journal, number)[2]
            campaign.journal.record("forgotten", {"state": state, "reason": str(reason)}, run=number)
        campaign.journal.forget(numbers)
        campaign.journal.revise()
    return len(numbers)


def widen(campaign: Campaign, bounds: Any) -> None:
    """Make the domain larger."""
    with campaign.journal.transaction():
        box = widened(campaign.box, bounds)
        if box.axes == campaign.box.axes:
            return
        set_box(campaign.journal, box)
        before, after = ([list(axis.key()) for axis in b.axes] for b in (campaign.box, box))
        campaign.journal.record("widened", {"names": list(box.names), "from": before, "to": after})
        campaign.journal.revise()


def add_outputs(campaign: Campaign, names: Any) -> None:
    """Have more outputs from now on."""
    new = checked_outputs([names] if isinstance(names, str) else names)
    with campaign.journal.transaction():
        outputs = add_to_outputs(campaign.journal, new)
        campaign.journal.record("outputs added", {"names": list(new), "outputs": list(outputs)})
        campaign.journal.revise()


def _chosen(frame: pd.DataFrame, where: Where | None) -> Any:
    """Which rows of a frame are meant."""
    if where is None:
        return np.ones(len(frame), dtype=bool)
    if callable(where):
        mask = np.asarray(where(frame.copy()))
        if mask.shape != (len(frame),) or mask.dtype != bool:
            raise InputError(
                f"where returned {mask.dtype} of shape {mask.shape} for {len(frame)} rows; need one boolean for each"
            )
        return mask
    if not isinstance(where, Mapping):
        raise InputTypeError(
            f"where is a {type(where).__name__}; need a mapping of column to value, or a callable of the frame"
        )
    unknown = [name for name in where if name not in frame.columns]
    if unknown:
        raise InputError(f"where names unknown columns {unknown}; need some of {list(frame.columns)}")
    mask = np.ones(len(frame), dtype=bool)
    for name, value in where.items():
        wanted = value if isinstance(value, list | tuple | set) else [value]
        mask &= frame[name].isin(list(wanted)).to_numpy()
    return mask
