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
DEFAULT = "surprise"

Names = tuple[str, ...]


def reconcile(
    journal: Journal,
    box: Box | None,
    outputs: Names | None,
    seed: int | None,
    named: bool | None,
    measure: Measure | None,
    n_initial: int | None,
    constrained: bool,
) -> dict[str, Any]:
    """Write what a new campaign is about, or check that an old one is about the same."""
    with journal.transaction():
        meta = journal.meta()
        fresh: dict[str, Any] = {}
        if meta:
            _check_same(journal, meta, box, outputs, seed)
            _check_measure(journal, meta, measure)
            if outputs is not None and meta["outputs"] is None:
                fresh["outputs"] = list(outputs)
            if constrained and not meta.get("constrained"):
                fresh["constrained"] = True
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
                "measure": DEFAULT if measure is None else measure.name,
                "n_initial": n_initial,
                "constrained": constrained,
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
        raise InputError(f"random_state={seed} but storage {path!r} was started with {meta['seed']}; leave it out")


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
    stored = meta.get("measure", DEFAULT)
    if measure is not None and measure.name != stored:
        raise InputError(
            f"measure={measure.name!r} but storage {journal.path!r} was started with {stored!r}; use that or another "
            "file"
        )


def stored_measure(journal: Journal, meta: dict[str, Any]) -> Measure:
    """The measure a stored campaign follows."""
    stored = meta.get("measure", DEFAULT)
    if not isinstance(stored, str):
        raise journal.damaged(f"its measure is {stored!r}")
    try:
        return resolve(stored, use="Campaign", feeds=("labels",))
    except InputError as error:
        raise InputError(
            f"storage {journal.path!r} was started with the measure {stored!r}, which is none of steep's; pass "
            "measure= again"
        ) from error


def stored_start(journal: Journal, meta: dict[str, Any]) -> int | None:
    """Points of the Sobol start a campaign was made with."""
    n_initial = meta.get("n_initial")
    if n_initial is not None and (not isinstance(n_initial, int) or n_initial < 1):
        raise journal.damaged(f"its n_initial is {n_initial!r}")
    return n_initial


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


# ---------------------------------------------------------------- what may change


def widened(old: Box, bounds: Any) -> Box:
    """The domain with wider axes; nothing that was inside may be outside.

    Examples
    --------
    >>> widened(Box({"u": (0, 1), "t": (0, 10)}), {"t": (0, 20)})
    Box({'u': (0, 1), 't': (0, 20)})
    """
    entries = dict(zip(old.names, old.axes, strict=True))
    wider = Box(bounds)
    if not isinstance(bounds, Mapping) and wider.names != old.names:
        raise InputError(
            f"bounds have the inputs {list(wider.names)}, need {list(old.names)}; pass those, or a mapping of the axes "
            "to widen"
        )
    unknown = [name for name in wider.names if name not in entries]
    if unknown:
        raise InputError(f"bounds name unknown inputs {unknown}; need some of {list(old.names)}")
    for name, axis in zip(wider.names, wider.axes, strict=True):
        if not _holds(axis, entries[name]):
            raise InputError(
                f"axis {name!r} is {entries[name]!r} and cannot become {axis!r}; need an axis of the same kind that "
                "holds all of it, the values of a category in their old order first"
            )
        entries[name] = axis
    return Box(entries, constraint=old.constraint)


def _holds(new: Any, old: Any) -> bool:
    """Whether every value of the old axis is one of the new, stored as the same number."""
    if new.kind != old.kind:
        return False
    if old.kind == "category":
        return bool(type(old)(*new.values[: len(old.values)]) == old) if len(new.values) >= 2 else False
    return bool(new.low <= old.low and new.high >= old.high)


def set_box(journal: Journal, box: Box) -> None:
    """Write wider bounds inside a transaction."""
    journal.set_meta("axes", [_axis_key(name, axis) for name, axis in zip(box.names, box.axes, strict=True)])


def add_outputs(journal: Journal, names: Names) -> Names:
    """Write more outputs inside a transaction; results so far lack them."""
    old = journal.outputs()
    if old is None:
        raise InputError(f"{journal.path!r} has no outputs yet; the first result names them, or outputs=")
    known = [name for name in names if name in old]
    if known:
        raise InputError(f"outputs {known} are there already ({', '.join(old)}); need new names")
    journal.set_meta("outputs", [*old, *names])
    journal.set_meta("widths", [*journal.meta().get("widths", []), len(old)])
    return (*old, *names)
