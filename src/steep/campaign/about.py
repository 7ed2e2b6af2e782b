"""What a campaign is about, as its journal remembers it: inputs, outputs and seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steep.campaign.journal import Journal
from steep.domain import Box, Constraint
from steep.domain.axes import axis_from_key
from steep.exceptions import InputError


def reconcile(
    journal: Journal, box: Box | None, outputs: Sequence[str] | None, seed: int | None
) -> dict[str, Any]:
    """Write what a new campaign is about, or check that an old one is about the same."""
    with journal.transaction() as db:
        meta = journal.meta()
        if meta:
            _check_same(journal.path, meta, box, outputs, seed)
            fresh: dict[str, Any] = (
                {} if outputs is None or meta["outputs"] is not None else {"outputs": list(outputs)}
            )
        elif box is None:
            raise InputError(f"storage {journal.path!r} holds no campaign yet; pass bounds")
        else:
            fresh = {
                "names": list(box.names),
                "axes": [list(axis.key()) for axis in box.axes],
                "named": box.names != tuple(f"x{i}" for i in range(box.n_features)),
                "outputs": None if outputs is None else list(outputs),
                "seed": seed or 0,
                "plans": 0,
            }
        for key, value in fresh.items():
            journal.set_meta(db, key, value)
        return meta | fresh


def stored_box(meta: dict[str, Any], constraint: Constraint | None = None) -> Box:
    """The domain of a stored campaign."""
    axes = map(axis_from_key, meta["axes"])
    return Box(dict(zip(meta["names"], axes, strict=True)), constraint=constraint)


def _check_same(
    path: str, meta: dict[str, Any], box: Box | None, outputs: Sequence[str] | None, seed: int | None
) -> None:
    stored = stored_box(meta)
    if box is not None and (box.names, box.axes) != (stored.names, stored.axes):
        raise InputError(f"bounds are {box!r} but storage {path!r} has {stored!r}; use those or another file")
    if outputs is not None and meta["outputs"] not in (None, list(outputs)):
        raise InputError(
            f"outputs are {list(outputs)} but storage {path!r} has {meta['outputs']}; use those or another file"
        )
    if seed is not None and seed != meta["seed"]:
        raise InputError(
            f"random_state={seed} but storage {path!r} was started with {meta['seed']}; leave it out"
        )
