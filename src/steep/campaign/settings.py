"""What a campaign is about, as its file keeps it: domain, outputs, seed, measure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from steep.campaign.journal import Journal
from steep.domain import Box, Constraint
from steep.domain.axes import axis_from_key
from steep.exceptions import InputError, InputTypeError, SteepError
from steep.measures import Measure, resolve

# The measure a campaign follows unless told otherwise.
_DEFAULT = "surprise"

Names = tuple[str, ...]


def reconcile(
    journal: Journal,
    box: Box | None,
    outputs: Names | None,
    seed: int | None,
    named: bool | None,
    measure: Measure | None,
) -> dict[str, Any]:
    """Write what a new campaign is about, or check that an old one is about the same."""
    with journal.transaction():
        meta = journal.meta()
        fresh: dict[str, Any] = {}
        if meta:
            _check_same(journal, meta, box, outputs, seed)
            _check_measure(journal, meta, measure)
            if outputs is not None and meta["outputs"] is None:
                fresh = {"outputs": list(outputs)}
        elif box is None:
            raise InputError(f"storage {journal.path!r} holds no campaign yet; pass bounds")
        else:
            fresh = {
                "names": list(box.names),
                "axes": [_axis_key(name, axis) for name, axis in zip(box.names, box.axes, strict=True)],
                "named": named,
                "outputs": None if outputs is None else list(outputs),
                "seed": seed or 0,
                "plans": 0,
                "measure": _DEFAULT if measure is None else measure.name,
            }
        for key, value in fresh.items():
            journal.set_meta(key, value)
        return meta | fresh


def _check_same(
    journal: Journal, meta: dict[str, Any], box: Box | None, outputs: Names | None, seed: int | None
) -> None:
    stored, path = stored_box(journal, meta), journal.path
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


def stored_box(journal: Journal, meta: dict[str, Any], constraint: Constraint | None = None) -> Box:
    """The domain of a stored campaign."""
    try:
        seed = meta["seed"]
        if {"named", "outputs", "plans"} - set(meta) or not isinstance(seed, int) or seed < 0:
            raise ValueError(f"its meta table has {sorted(meta)} and the seed {seed!r}")
        axes = map(axis_from_key, meta["axes"])
        return Box(dict(zip(meta["names"], axes, strict=True)), constraint=constraint)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, SteepError) as error:
        raise journal.damaged(f"what it is about cannot be read ({error!r})") from error


def _check_measure(journal: Journal, meta: dict[str, Any], measure: Measure | None) -> None:
    # Files that were made before there was a choice have no such entry.
    stored = meta.get("measure", _DEFAULT)
    if measure is not None and measure.name != stored:
        raise InputError(
            f"measure={measure.name!r} but storage {journal.path!r} was started with {stored!r}; use that or another "
            "file"
        )


def stored_measure(journal: Journal, meta: dict[str, Any]) -> Measure:
    """The measure a stored campaign follows."""
    stored = meta.get("measure", _DEFAULT)
    if not isinstance(stored, str):
        raise journal.damaged(f"its measure is {stored!r}")
    try:
        return resolve(stored, use="Campaign", feeds=("labels",))
    except InputError as error:
        raise InputError(
            f"storage {journal.path!r} was started with the measure {stored!r}, which is none of steep's; pass "
            "measure= again"
        ) from error


def _axis_key(name: str, axis: Any) -> list[Any]:
    """An axis as the file keeps it; one that would not come back the same is refused."""
    key = list(axis.key())
    try:
        again = axis_from_key(json.loads(json.dumps(key, allow_nan=False)))
        same = again == axis
    except (TypeError, ValueError, RecursionError, SteepError):
        same = False
    if not same:
        raise InputError(
            f"axis {name!r} is {axis!r}, whose values a file cannot keep; use strings, whole numbers or other "
            "plain numbers for them"
        )
    return key


def is_named(bounds: Any) -> bool:
    """Whether the inputs have names of their own."""
    if isinstance(bounds, Box):
        return bounds.names != tuple(f"x{i}" for i in range(bounds.n_features))
    return isinstance(bounds, Mapping)


def checked_outputs(outputs: Any) -> Names:
    """Names of outputs, all different."""
    if isinstance(outputs, str) or not isinstance(outputs, Sequence):
        raise InputTypeError(f"outputs is {outputs!r}; need a list of names")
    names = tuple(outputs)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InputError(f"outputs are {list(names)}; need one or more different names")
    return tuple(str(name) for name in names)
