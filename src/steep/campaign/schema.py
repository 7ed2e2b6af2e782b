"""The tables of a journal: how each version of the file becomes the next, and what is refused before it is touched."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import struct
import tempfile
import urllib.parse

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


def check_ours(database: sqlite3.Connection, path: str) -> None:
    """Refuse a database of something else before anything is written."""
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
        # A write-ahead log needs a file next to the journal, which a read-only folder has no room for. Where no log is
        # left, nobody writes, and the file can be taken as it is.
        if not os.path.exists(f"{path}-wal"):
            database = sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)
        else:
            database = _with_its_log(path)
    (version,) = database.execute("PRAGMA user_version").fetchone()
    return _migrated(database) if 0 < version < VERSION else database


def _with_its_log(path: str) -> sqlite3.Connection:
    """A file and its log in memory, by way of a folder that can be written."""
    with tempfile.TemporaryDirectory(prefix="steep-") as folder:
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", os.path.join(folder, f"store{suffix}"))
        return _in_memory(sqlite3.connect(os.path.join(folder, "store")))


def _migrated(database: sqlite3.Connection) -> sqlite3.Connection:
    """A file of an older version as one of this version, in memory."""
    memory = _in_memory(database)
    migrate(memory)
    return memory


def _in_memory(database: sqlite3.Connection) -> sqlite3.Connection:
    memory = sqlite3.connect(":memory:", isolation_level=None)
    with contextlib.closing(database):
        database.backup(memory)
    return memory


def refuse_newer(path: str) -> None:
    """Refuse a newer schema by the file's first bytes: opening it may already change it."""
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
