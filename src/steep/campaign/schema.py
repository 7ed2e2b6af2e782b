"""What a file holds: the tables of each version, and what its campaign is about.

A file that is not a campaign, or that is newer than this steep, is rejected before it is touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import struct
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from steep.campaign.constraint import Expression
from steep.domain import Box, Constraint
from steep.domain.axes import axis_from_key
from steep.exceptions import InputError, InputTypeError, SteepError, StorageError
from steep.sampling.strategies import Adaptive, Even, Strategy, Variance

if TYPE_CHECKING:
    from steep.campaign.journal import Journal
    from steep.measures import Measure

# Script n brings a file from version n to n + 1. Never edit one that was released: add another.
MIGRATIONS = [
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE owners (id TEXT PRIMARY KEY, pid INTEGER NOT NULL, started TEXT NOT NULL);
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY, x BLOB NOT NULL, y BLOB, state TEXT NOT NULL, origin TEXT NOT NULL,
        owner TEXT, attempts INTEGER NOT NULL DEFAULT 0, asked REAL, told REAL, told_order INTEGER
    );
    CREATE INDEX runs_x ON runs (x);
    CREATE INDEX runs_state ON runs (state);
    CREATE UNIQUE INDEX runs_told ON runs (told_order);
    CREATE TABLE failures (
        id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs (id), at REAL NOT NULL,
        kind TEXT NOT NULL, message TEXT NOT NULL, traceback TEXT NOT NULL
    );
    """,
    # Files of the first days have indices on parts of the table, which frequent statements cannot use.
    """
    ALTER TABLE runs ADD COLUMN lease REAL;
    DROP INDEX IF EXISTS runs_open;
    DROP INDEX runs_told;
    CREATE INDEX IF NOT EXISTS runs_state ON runs (state);
    CREATE UNIQUE INDEX runs_told ON runs (told_order);
    CREATE INDEX runs_origin ON runs (origin, state);
    CREATE INDEX failures_run ON failures (run);
    CREATE TABLE events (
        id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, run INTEGER, detail TEXT NOT NULL
    );
    """,
]
VERSION = len(MIGRATIONS)
# The tables of each version.
TABLES = [{"meta", "owners", "runs", "failures"}, {"meta", "owners", "runs", "failures", "events"}]
# Strategies that need no calls of the function beyond the runs, by the names they are stored by.
_STRATEGIES: dict[str, Any] = {kind.__name__: kind for kind in (Adaptive, Variance, Even)}
Names = tuple[str, ...]

# What ``begin_session`` writes about a call of ``run``.
SESSION: dict[str, Any] = {
    "owner": str, "budget": int, "began": int | float, "ended": int | float | None, "outcome": str | None
}  # fmt: skip
# What a call of ``submit`` writes.
_ORDER = {
    "name": str, "batches": dict, "lost": dict, "task": dict, "how": dict, "n_runs": int, "streak": list,
    "n_unbegun": int,
}  # fmt: skip


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


def _is_list(value: Any, kind: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, kind) for entry in value)


def _has(value: dict[str, Any], kinds: Mapping[str, Any]) -> bool:
    return all(name in value and isinstance(value[name], kind) for name, kind in kinds.items())


# What entries of the meta table may be.
ENTRIES: dict[str, Callable[[Any], bool]] = {
    "seed": _is_count, "plans": _is_count, "looks": _is_count, "revision": _is_count,
    "outputs": lambda value: value is None or (_is_list(value, str) and bool(value)),
    "widths": lambda value: _is_list(value, int),
    "n_initial": lambda value: value is None or (_is_count(value) and value > 0),
    "constraint": lambda value: isinstance(value, str | None),
    "strategy": lambda value: isinstance(value, list) and [type(part) for part in value] == [str, dict],
    "sessions": lambda value: _is_list(value, dict) and all(_has(entry, SESSION) for entry in value),
    "slurm": lambda value: isinstance(value, dict) and (not value or _has(value, _ORDER)),
}  # fmt: skip


def check_ours(database: sqlite3.Connection, path: str) -> None:
    """Reject a database of something else before anything is written."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise _newer(path, version)
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and (version < 1 or not tables >= TABLES[version - 1]):
        raise StorageError(
            f"storage {path!r} is a database of something else, with tables {sorted(map(str, tables))[:5]}; "
            "it is left untouched: use another file"
        )


def migrate(database: sqlite3.Connection) -> None:
    """Bring a file of any version to this one, inside a transaction."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    for number in range(version, VERSION):
        for statement in MIGRATIONS[number].split(";"):
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {number + 1:d}")


def open_to_read(path: str, patience: float) -> sqlite3.Connection:
    """A connection that changes nothing, next to any number of processes that write."""
    address = f"file:{urllib.parse.quote(os.path.abspath(path))}?mode=ro"
    database = sqlite3.connect(address, uri=True, timeout=patience, isolation_level=None)
    try:
        database.execute("SELECT COUNT(*) FROM meta").fetchone()
    except sqlite3.Error as error:
        database.close()
        if not isinstance(error, sqlite3.OperationalError):
            raise
        # A write-ahead log needs a file next to the journal, which a read-only folder has no room for. If no log is
        # left, no process writes, and the file can be taken as it is.
        if os.path.exists(f"{path}-wal"):
            raise
        database = sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if not 0 < version < VERSION:
        return database
    memory = sqlite3.connect(":memory:", isolation_level=None)  # as one of this version, in memory
    with contextlib.closing(database):
        database.backup(memory)
    migrate(memory)
    return memory


def refuse_newer(path: str) -> None:
    """Reject a newer schema by the file's first bytes: opening it may already change it."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
    except OSError:
        return  # no such file yet, or SQLite says why not
    if head.startswith(b"SQLite format 3\0") and len(head) == 64:
        (version,) = struct.unpack(">i", head[60:])
        if version > VERSION:
            raise _newer(path, version)


def _newer(path: str, version: int) -> StorageError:
    return StorageError(
        f"storage {path!r} has schema version {version}, this steep reads up to {VERSION}; it is left untouched: "
        "upgrade steep or use another file"
    )


def reconcile(
    journal: Journal,
    box: Box | None,
    outputs: Names | None,
    seed: int | None,
    named: bool | None,
    strategy: Strategy | None,
    n_initial: int | None,
    constraint: str | Constraint | None,
) -> dict[str, Any]:
    """Write what a new campaign is about, or check that an old one is about the same."""
    given = constraint if box is None or constraint is not None else box.constraint
    text = getattr(given, "text", given) if isinstance(given, str | Expression) else None
    constrained = given is not None and text is None
    with journal.transaction():
        meta = journal.meta()
        fresh: dict[str, Any] = {}
        if meta:
            _check_same(journal, meta, box, outputs, seed, strategy)
            if outputs is not None and meta["outputs"] is None:
                fresh["outputs"] = list(outputs)
            if text is not None and text != meta.get("constraint"):
                stored_box(journal, meta, text)  # before it is stored: it may be about other inputs
                fresh |= {"constraint": text, "constrained": False}
            elif constrained and not meta.get("constrained"):
                fresh["constrained"] = True
        elif box is None:
            raise InputError(f"storage {journal.path!r} holds no campaign yet; pass bounds")
        else:
            fresh = {
                "names": list(box.names),
                "axes": [axis.key() for axis in box.axes],
                "named": named,
                "outputs": None if outputs is None else list(outputs),
                "seed": seed or 0,
                "plans": 0,
                "strategy": _strategy_key(strategy or Adaptive()),
                "n_initial": n_initial,
                "constrained": constrained,
                "constraint": text,
            }
        for key, value in fresh.items():
            journal.set_meta(key, value)
        return meta | fresh


def _check_same(
    journal: Journal,
    meta: dict[str, Any],
    box: Box | None,
    outputs: Names | None,
    seed: int | None,
    strategy: Strategy | None,
) -> None:
    """Reject what is not as the campaign was started with."""
    stored, path = stored_box(journal, meta), journal.path
    if box is not None and (box.names, box.axes) != (stored.names, stored.axes):
        raise InputError(f"bounds are {box!r} but storage {path!r} has {stored!r}; use those or another file")
    if outputs is not None and meta["outputs"] not in (None, list(outputs)):
        raise InputError(
            f"outputs are {list(outputs)} but storage {path!r} has {meta['outputs']}; use those or another file"
        )
    if seed is not None and seed != meta["seed"]:
        raise InputError(f"random_state={seed} but storage {path!r} was started with {meta['seed']}; leave it out")
    name, settings = _stored_key(meta)
    given, asked = (name, settings) if strategy is None else _strategy_key(strategy)
    if given != name or not settings.items() <= asked.items():
        known = ", ".join(f"{entry}={value!r}" for entry, value in settings.items())
        raise InputError(
            f"strategy is {strategy!r} but storage {path!r} was started with {name}({known}); use that or another file"
        )


def constrained_box(box: Box, constraint: str | Constraint | None) -> Box:
    """A box with a constraint, which may be text."""
    if isinstance(constraint, str):
        constraint = Expression(constraint, box)
    return Box(box, constraint=constraint)


def stored_box(journal: Journal, meta: dict[str, Any], constraint: str | Constraint | None = None) -> Box:
    """The domain of a stored campaign, with the constraint it is given, or its own."""
    try:
        if {"named", "outputs", "plans", "seed"} - set(meta):
            raise ValueError(f"its meta table has {sorted(meta)}")
        axes = map(axis_from_key, meta["axes"])
        box = Box(dict(zip(meta["names"], axes, strict=True)))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, SteepError) as error:
        raise journal.damaged(f"what it is about cannot be read ({error!r})") from error
    return constrained_box(box, meta.get("constraint") if constraint is None else constraint)


def checked_strategy(strategy: Any) -> Strategy:
    """A strategy that a campaign can follow."""
    if type(strategy) not in _STRATEGIES.values():
        raise InputTypeError(f"strategy is {strategy!r}; a campaign needs Adaptive(), Variance() or Even()")
    measure_of(strategy)
    found: Strategy = strategy
    return found


def measure_of(strategy: Strategy) -> Measure:
    """The measure a strategy follows, or by which its results are shown."""
    found = (Adaptive() if isinstance(strategy, Even) else strategy).resolved(use="Campaign", feeds=("labels",))
    assert found is not None
    return found


def _strategy_key(strategy: Strategy) -> tuple[str, dict[str, Any]]:
    """A strategy as the file keeps it: its name and its settings; of a measure the name."""
    settings: dict[str, Any] = {entry.name: getattr(strategy, entry.name) for entry in fields(strategy)}  # type: ignore[arg-type]
    if "measure" in settings:
        settings["measure"] = measure_of(strategy).name
    return type(strategy).__name__, json.loads(json.dumps(settings, default=lambda value: np.asarray(value).tolist()))


def _stored_key(meta: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and settings of the stored strategy; older files have a measure, or neither."""
    name, settings = meta.get("strategy", ["Adaptive", {"measure": meta.get("measure", "surprise")}])
    settings = {key: value for key, value in settings.items() if key != "draw"}  # an option of versions before 0.3
    if settings.get("measure") in ("slope", "noise"):  # measures of versions before 0.3
        settings = settings | {"measure": "variance"}
    return name, settings


def stored_strategy(journal: Journal, meta: dict[str, Any]) -> Strategy:
    """The strategy a stored campaign follows."""
    name, settings = _stored_key(meta)
    try:
        strategy: Strategy = _STRATEGIES[name](**settings)
    except (KeyError, TypeError, SteepError) as error:
        raise journal.damaged(f"its strategy is {name!r} with {settings}") from error
    try:
        measure_of(strategy)
    except SteepError as error:
        raise InputError(
            f"storage {journal.path!r} was started with the measure {settings.get('measure')!r}, which is none of "
            "steep's; pass strategy=Adaptive(measure) again"
        ) from error
    return strategy


def is_named(bounds: Any) -> bool:
    """Whether the inputs have names of their own."""
    if isinstance(bounds, Box):
        return bounds.names != tuple(f"x{i}" for i in range(bounds.n_features))
    return isinstance(bounds, Mapping)


def checked_outputs(outputs: Any) -> Names:
    """Names of outputs, all different."""
    if isinstance(outputs, str) or not isinstance(outputs, Sequence):
        raise InputTypeError(f"outputs is {outputs!r}; expected a list of names")
    names = tuple(outputs)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InputError(f"outputs are {list(names)}; expected one or more different names")
    return tuple(str(name) for name in names)
