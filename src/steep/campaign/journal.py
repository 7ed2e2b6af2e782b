"""The journal of a campaign: one SQLite file in which every ask and every result is a transaction.

    meta       key → JSON: the domain, the outputs, the seed, the number of plans drawn so far
    owners     processes that hold runs in flight
    runs       one row a point: x, y as float64 bytes; state pending → done | failed
    failures   one row an attempt that went wrong, with its traceback

A run counts once its transaction is committed: write-ahead log, ``synchronous=FULL``, so neither a
killed process nor a power cut takes back what was told. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from steep._validation import FloatArray
from steep.exceptions import StorageError

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
]
VERSION = len(MIGRATIONS)

# Seconds to wait for another process that is writing.
_PATIENCE = 60.0


class Journal:
    """An open journal file; each public write is one transaction."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        with self._explained():
            self._db = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._migrate()

    def close(self) -> None:
        """Close the file; it can be opened again at any time."""
        self._db.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StorageError(
                f"storage {self.path!r}: {error}; need a writable SQLite file with room on its disk; nothing "
                "committed so far is lost: mend it and make the same call again"
            ) from error

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing: the write lock is taken at once, so that what is read stays true."""
        with self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Answer of a query that only reads."""
        with self._explained():
            return self._db.execute(query, values).fetchall()

    def _migrate(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise StorageError(
                f"storage {self.path!r} has schema version {version}, this steep reads up to {VERSION}; "
                "it is left untouched: upgrade steep or use another file"
            )
        if version == VERSION:
            return
        with self.transaction() as db:
            # Another process may have migrated while this one waited for the lock.
            (version,) = db.execute("PRAGMA user_version").fetchone()
            for number in range(version, VERSION):
                for statement in MIGRATIONS[number].split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {number + 1:d}")

    def meta(self) -> dict[str, Any]:
        """Everything in the meta table, decoded."""
        return {key: json.loads(value) for key, value in self.rows("SELECT key, value FROM meta")}

    def set_meta(self, db: sqlite3.Connection, key: str, value: Any) -> None:
        """Write one entry inside a transaction."""
        db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    def next_plan(self) -> int:
        """Take the next number of a plan: no two plans, in any process, share one."""
        with self.transaction() as db:
            plan = int(self.meta()["plans"])
            self.set_meta(db, "plans", plan + 1)
        return plan

    def register(self, owner: str, pid: int, started: str) -> None:
        """Announce a process, so that others leave its runs in flight alone."""
        with self.transaction() as db:
            db.execute("INSERT INTO owners VALUES (?, ?, ?)", (owner, pid, started))

    def unregister(self, owner: str) -> None:
        """Take a process off the list: its runs in flight are free to be asked again."""
        with self.transaction() as db:
            db.execute("DELETE FROM owners WHERE id = ?", (owner,))

    def add(self, db: sqlite3.Connection, X: FloatArray, *, origin: str, owner: str) -> list[int]:
        """Insert pending runs inside a transaction and return their numbers."""
        now, numbers = time.time(), []
        for x in X:
            row = (encode(x), origin, owner, now)
            cursor = db.execute(
                "INSERT INTO runs (x, state, origin, owner, asked) VALUES (?, 'pending', ?, ?, ?)", row
            )
            numbers.append(int(cursor.lastrowid or 0))
        return numbers

    def finish(self, db: sqlite3.Connection, number: int, y: FloatArray) -> None:
        """Give a run its result inside a transaction."""
        db.execute(
            "UPDATE runs SET y = ?, state = 'done', owner = NULL, told = ?, "
            "told_order = (SELECT COALESCE(MAX(told_order), 0) + 1 FROM runs) WHERE id = ?",
            (encode(y), time.time(), number),
        )

    def fail(
        self, db: sqlite3.Connection, number: int, report: tuple[str, str, str], *, retries: int
    ) -> bool:
        """Record a failed attempt inside a transaction; True when the run may be tried again."""
        db.execute(
            "INSERT INTO failures (run, at, kind, message, traceback) VALUES (?, ?, ?, ?, ?)",
            (number, time.time(), *report),
        )
        db.execute("UPDATE runs SET attempts = attempts + 1 WHERE id = ?", (number,))
        (attempts,) = db.execute("SELECT attempts FROM runs WHERE id = ?", (number,)).fetchone()
        if attempts > retries:
            db.execute("UPDATE runs SET state = 'failed', owner = NULL WHERE id = ?", (number,))
        return bool(attempts <= retries)


def encode(values: FloatArray) -> bytes:
    """Numbers as little-endian float64 bytes: exact, and equal points are equal bytes."""
    # Adding 0.0 turns −0.0 into 0.0, which is the same point.
    return (np.asarray(values, dtype="<f8") + 0.0).tobytes()


def decode(blobs: list[bytes], width: int) -> FloatArray:
    """Rows of numbers from their bytes."""
    return np.frombuffer(b"".join(blobs), dtype="<f8").reshape(len(blobs), width).astype(np.float64)
