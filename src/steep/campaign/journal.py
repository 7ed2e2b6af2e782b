"""The journal of a campaign: one SQLite file in which every ask and every result is a transaction.

    meta       key → JSON: the domain, the outputs, the seed, the strategy, the number of plans and the sessions so far
    owners     processes that hold runs in flight
    runs       one row per point: x, y as float64 bytes; state pending → done | failed, or forgotten; until when it is
               leased to somebody outside any process
    failures   one row per attempt that failed, with its traceback
    events     one row per change of what was recorded before: corrections, wider bounds, more outputs, …

A run counts once its transaction is committed (write-ahead log, ``synchronous=FULL``): neither a killed process nor a
power cut takes it back. All SQL of the package is in this file and, as far as it makes the tables, in schema.py.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import threading
import time
import uuid
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, NoReturn

import numpy as np

from steep._validation import FloatArray
from steep.campaign.schema import ENTRIES, SESSION, VERSION, check_ours, migrate, open_to_read, refuse_newer
from steep.campaign.shared_disk import hold, is_held, network_of, process_exists, process_start
from steep.campaign.simulate import Failure
from steep.exceptions import CampaignError, InputError, InputTypeError, StorageError

# What is said to a journal while a campaign runs. None of these may read all runs: a test asks SQLite.
FREQUENT = {
    "count": "SELECT COUNT(*) FROM runs WHERE state = ?",
    "count asked": "SELECT COUNT(*) FROM runs WHERE origin IN ('initial', 'design', 'check') AND state != 'forgotten'",
    "count origin": "SELECT COUNT(*) FROM runs WHERE origin = ?",
    "told": "SELECT x, y, told_order, origin FROM runs WHERE told_order > ? AND state = 'done' ORDER BY told_order",
    "last told": "SELECT told FROM runs WHERE told_order IS NOT NULL ORDER BY told_order DESC LIMIT ?",
    "numbered": "SELECT id, x FROM runs WHERE state = ? ORDER BY id",
    "at": "SELECT id, y FROM runs WHERE x = ? AND state != 'forgotten' ORDER BY state = 'done', id",
    "run": "SELECT x, y, state FROM runs WHERE id = ?",
    "others pending": "SELECT 1 FROM runs WHERE state = 'pending' AND owner IS NOT ? AND (lease IS NULL OR lease < ?) "
    "LIMIT 1",
    "pending": "SELECT id, x, owner FROM runs WHERE state = 'pending' AND (lease IS NULL OR lease < ?) ORDER BY id",
    "leased": "SELECT COUNT(*) FROM runs WHERE state = 'pending' AND lease > ?",
    "holders": "SELECT owner FROM runs WHERE state = 'pending' ORDER BY id",
    "take": "UPDATE runs SET owner = ?, lease = ? WHERE id = ?",
    "release": "UPDATE runs SET owner = NULL, lease = NULL WHERE id = ? AND state = 'pending'",
    "finish": "UPDATE runs SET y = ?, state = 'done', owner = NULL, lease = NULL, told = ?, told_order = "
    "(SELECT COALESCE(MAX(told_order), 0) + 1 FROM runs) WHERE id = ? AND state IN ('pending', 'failed')",
    "attempt": "UPDATE runs SET attempts = attempts + 1 WHERE id = ?",
    "attempts": "SELECT attempts FROM runs WHERE id = ?",
    "give up": "UPDATE runs SET state = 'failed', owner = NULL, lease = NULL WHERE id = ? AND state = 'pending'",
    "reopen": "UPDATE runs SET state = 'pending', owner = NULL, attempts = 0 WHERE id = ? "
    "AND state IN ('pending', 'failed')",
    "forget": "UPDATE runs SET state = 'forgotten', owner = NULL, lease = NULL WHERE id = ?",
    "correct": "UPDATE runs SET y = ? WHERE id = ? AND state = 'done'",
}
# Sessions that a file remembers.
_SESSIONS_KEPT = 20
_ADD = "INSERT INTO runs (x, state, origin, owner, asked, lease) VALUES (?, 'pending', ?, ?, ?, ?)"
_ADD_FAILURE = "INSERT INTO failures (run, at, kind, message, traceback) VALUES (?, ?, ?, ?, ?)"
_ADD_EVENT = "INSERT INTO events (at, kind, run, detail) VALUES (?, ?, ?, ?)"
_ALL_RUNS = "SELECT x, y, state, origin, asked, told, id, lease FROM runs ORDER BY id"
_ALL_FAILURES = (
    "SELECT r.x, r.id, r.state, f.at, f.kind, f.message, f.traceback FROM failures f "
    "JOIN runs r ON r.id = f.run ORDER BY f.id"
)

# Seconds to wait for another process that is writing, and between two tries. SQLite's own waiting cannot
# be interrupted, so it is kept short and repeated here, where Ctrl-C is heard.
_PATIENCE = 60.0
_SHORT = 0.2
# Seconds that all waiting takes together once a campaign was interrupted.
_HASTE = 2.0
# Connections to files that went away. Closing one would remove the write-ahead log of that name, which may be that of
# another file by now.
_ABANDONED: list[sqlite3.Connection] = []


# Campaigns that are open in this process.
_OPEN: set[str] = set()


def new_owner() -> str:
    """A name for one open campaign of this process."""
    owner = uuid.uuid4().hex
    _OPEN.add(owner)
    return owner


def forget_owner(owner: str) -> None:
    """Note that a campaign of this process was closed."""
    _OPEN.discard(owner)


def is_alive(owner: str, pid: int, started: str) -> bool:
    """Whether the campaign that registered so is still open; a file has one machine, so a process says it all."""
    if pid == os.getpid() and started == process_start(pid):
        return owner in _OPEN
    return process_start(pid) == started if started else process_exists(pid)


class StoreGoneError(StorageError):
    """The file was deleted or replaced while it was in use; what was recorded is in a copy."""


class Journal:
    """An open journal file. Writes are made inside :meth:`transaction`."""

    def __init__(self, storage: str | os.PathLike[str], *, create: bool = True, read_only: bool = False) -> None:
        self.path = _checked_path(storage)
        self._thread, self._pid = threading.get_ident(), os.getpid()
        self.is_closed = False
        self._hurried: float | None = None
        self._identity: tuple[int, int] | None = None
        # Never relative: the process may change its folder, and a name such as "file:x" is not an address.
        self._file = self.path if self.path == ":memory:" else os.path.abspath(self.path)
        if not create and self.path != ":memory:" and _is_missing(self.path):
            raise InputError(f"storage {self.path!r} holds no campaign yet; pass bounds")
        refuse_newer(self.path)
        self._network = None if self.path == ":memory:" else network_of(self._file)
        self._lock: IO[bytes] | None = None
        if read_only:
            with self._explained():
                self._db = open_to_read(self.path, _PATIENCE)
            return
        if self._network is not None:
            self._lock = hold(self._file, self._network, _PATIENCE)
            weakref.finalize(self, self._lock.close)
        with self._explained():
            self._db = sqlite3.connect(self._file, timeout=_SHORT, isolation_level=None)
        try:
            with self._explained():
                if self._network is not None:  # a log, which a local disk left, is then read without shared memory
                    self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
                check_ours(self._db, self.path)
                self._adopt()
            self._migrate()
        except BaseException:
            self._db.close()
            if self._lock is not None:
                self._lock.close()
            raise

    def _adopt(self) -> None:
        """Make the connection durable, and remember which file it is."""
        if self._network is None:
            self._db.execute("PRAGMA journal_mode = WAL")
        else:
            self._db.execute("PRAGMA journal_mode = DELETE")
            self._db.execute("PRAGMA locking_mode = NORMAL")
            self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        self._db.execute("PRAGMA synchronous = FULL")
        self._identity = None
        if self._file != ":memory:":
            with suppress(OSError):  # a file system that does not tell is not watched
                self._identity = _identity(self._file)

    def __del__(self) -> None:
        """Close the file that no one holds any more, as where a notebook opens a campaign once again."""
        if getattr(self, "_db", None) is not None and self._pid == os.getpid():  # not in a fork
            with suppress(sqlite3.Error):  # as in another thread, where SQLite does not allow it
                self._db.close()

    def close(self) -> None:
        """Close the file; it can be opened again at any time."""
        with self._explained():
            self._db.close()
        if self._lock is not None:
            self._lock.close()
        self.is_closed = True

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of SQLite in one line that says what to do."""
        if threading.get_ident() != self._thread:
            raise CampaignError(
                f"the campaign of {self.path!r} was opened in another thread; open it again in this one: several may "
                "share a file"
            )
        try:
            yield
        except sqlite3.ProgrammingError as error:
            raise CampaignError(f"the campaign of {self.path!r} is closed ({error}); open it again") from error
        except UnicodeDecodeError as error:
            raise self.damaged(f"its schema is unreadable ({error})") from error
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise StorageError(
                f"storage {self.path!r}: {error}; expected a writable SQLite file with room on its disk; nothing "
                "committed so far is lost: fix it and repeat the call"
            ) from error

    def damaged(self, what: str) -> StorageError:
        """The error for content that no campaign has written."""
        return StorageError(f"storage {self.path!r} is damaged: {what}; restore the file from a copy")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing: the write lock is taken at once, so that what is read stays true."""
        with self._explained():
            try:
                self._begin()
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        # After the commit, so that a copy holds what was just recorded.
        if self._identity is not None and self._is_gone():
            self._rescue()

    def _begin(self) -> None:
        deadline = self._hurried or time.monotonic() + _PATIENCE
        while True:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                self._hurried = None
                return
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > deadline:
                    raise
            except BaseException:  # Ctrl-C
                self.hurry()
                raise

    def _is_gone(self) -> bool:
        """Whether the file has left the place where it was opened; one that cannot be read now counts as present."""
        with suppress(OSError):
            return _is_missing(self._file) or _identity(self._file) != self._identity
        return False

    def hurry(self) -> None:
        """Have no more than a few seconds spent on waiting from now on, until the file can be written again."""
        if self._hurried is None:
            self._hurried = time.monotonic() + _HASTE

    def _rescue(self) -> NoReturn:
        """Write all to a new file and say so: the content of a file that is gone lasts while a process holds it."""
        gone = self.path
        try:
            path = _new_file(self._file)
            copy = sqlite3.connect(path, timeout=_SHORT, isolation_level=None)
            self._db.backup(copy)
        except (OSError, sqlite3.Error) as error:
            raise StoreGoneError(
                f"storage {gone!r} was deleted or replaced while it was in use, and no copy could be written "
                f"({error}); the results are only in this process: save campaign.to_dataframe() before it ends"
            ) from error
        _ABANDONED.append(self._db)
        self.path = self._file = path
        self._db = copy
        with self._explained():
            self._adopt()
        raise StoreGoneError(
            f"storage {gone!r} was deleted or replaced while it was in use; all its runs and results are now in "
            f"{path!r}; go on with that file, or move it to where it was"
        )

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._explained():
            return self._db.execute(statement, values).fetchall()

    def _migrate(self) -> None:
        if self._rows("PRAGMA user_version")[0][0] == VERSION:
            return
        with self.transaction():
            # Another process may have migrated while this one waited for the lock.
            check_ours(self._db, self.path)
            migrate(self._db)

    def meta(self) -> dict[str, Any]:
        """Everything in the meta table, decoded."""
        rows = self._rows("SELECT key, value FROM meta")
        try:
            found = {key: json.loads(value) for key, value in rows}
        except (ValueError, TypeError, RecursionError) as error:
            raise self.damaged(f"its meta table is unreadable ({error})") from error
        for key, value in found.items():
            if key in ENTRIES and not ENTRIES[key](value):
                raise self.damaged(f"its {key} is {value!r}")
        return found

    def set_meta(self, key: str, value: Any) -> None:
        """Write one entry inside a transaction."""
        self._rows("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    def outputs(self) -> tuple[str, ...] | None:
        """Names of the outputs, once they are known."""
        names = self.meta().get("outputs")
        return None if names is None else tuple(names)

    def revise(self) -> None:
        """Note inside a transaction that what was read before has changed."""
        self.set_meta("revision", self.revision() + 1)

    def revision(self) -> int:
        """How often something recorded was changed."""
        return int(self.meta().get("revision", 0))

    def looks(self) -> int:
        """How often check runs were looked at."""
        return int(self.meta().get("looks", 0))

    def record(self, kind: str, detail: Any, *, run: int | None = None) -> None:
        """Write inside a transaction that something recorded was changed, and how."""
        self._rows(_ADD_EVENT, (time.time(), kind, run, _storable(json.dumps(detail))))

    def all_events(self) -> list[tuple[Any, ...]]:
        """at, kind, run, detail of every change."""
        return self._rows("SELECT at, kind, run, detail FROM events ORDER BY id")

    def next_plan(self) -> int:
        """Take the next number of a plan: no two plans, in any process, share one."""
        with self.transaction():
            plan = int(self.meta()["plans"])
            self.set_meta("plans", plan + 1)
        return plan

    def register(self, owner: str) -> None:
        """Announce an open campaign of this process, so that others leave its runs in flight alone."""
        pid = os.getpid()
        with self.transaction():
            # Those of killed processes would pile up.
            rows = self._rows("SELECT id, pid, started FROM owners")
            gone = [row[:1] for row in rows if not self._is_alive(*row)]
            with self._explained():
                self._db.executemany("DELETE FROM owners WHERE id = ?", gone)
            self._rows("INSERT INTO owners VALUES (?, ?, ?)", (owner, pid, process_start(pid)))

    def unregister(self, owner: str) -> None:
        """Take a campaign off the list: its runs in flight are free to be asked again."""
        with self.transaction():
            self._rows("DELETE FROM owners WHERE id = ?", (owner,))

    def owners_alive(self) -> set[str]:
        """Campaigns that are open now, in any process."""
        known = self._rows("SELECT id, pid, started FROM owners")
        return {name for name, pid, started in known if self._is_alive(name, pid, started)}

    def _is_alive(self, owner: str, pid: int, started: str) -> bool:
        """Whether a campaign is open; on a network file system, where it may be elsewhere, the lock says so."""
        if self._network is None:
            return is_alive(owner, pid, started)
        return owner in _OPEN if self._lock is not None else is_held(self._file)

    def sessions(self) -> list[dict[str, Any]]:
        """The last calls of ``run``: owner, budget, when they began and ended (None while they run), and how."""
        return list(self.meta().get("sessions", []))

    def begin_session(self, owner: str, budget: int, n_initial: int) -> None:
        """Note that ``owner`` starts to run, up to ``budget`` runs in all, the first ``n_initial`` of them even."""
        session = dict(zip(SESSION, (owner, budget, time.time(), None, None), strict=True))
        with self.transaction():
            self.set_meta("sessions", [*self.sessions(), session][-_SESSIONS_KEPT:])
            self.set_meta("n_initial", n_initial)

    def end_session(self, owner: str, outcome: str) -> None:
        """Note how the running session of ``owner`` ended."""
        with self.transaction():
            sessions = self.sessions()
            for session in sessions:
                if session["owner"] == owner and session["ended"] is None:
                    session.update(ended=time.time(), outcome=outcome)
            self.set_meta("sessions", sessions)

    def take_over(self, n: int, owner: str, *, lease: float | None = None) -> list[tuple[int, bytes]]:
        """Take pending runs whose process is gone or whose lease is over, for ``owner`` or until ``lease``."""
        now = time.time()
        if n <= 0 or not self._rows(FREQUENT["others pending"], (owner, now)):
            return []
        with self.transaction():
            alive = self.owners_alive()
            rows = self._rows(FREQUENT["pending"], (now,))
            free = [(number, x) for number, x, holder in rows if holder not in alive][:n]
            for number, _ in free:
                self.take(number, owner, lease=lease)
        return free

    def take(self, number: int, owner: str, *, lease: float | None = None) -> None:
        """Make a run that of ``owner`` inside a transaction, or lease it until a time."""
        self._rows(FREQUENT["take"], (owner if lease is None else None, lease, number))

    def add(self, X: FloatArray, *, origin: str, owner: str, lease: float | None = None) -> list[int]:
        """Insert pending runs inside a transaction and return their numbers."""
        now, numbers = time.time(), []
        with self._explained():
            for x in X:
                holder = owner if lease is None else None
                cursor = self._db.execute(_ADD, (encode(x), origin, holder, now, lease))
                numbers.append(int(cursor.lastrowid or 0))
        return numbers

    def finish(self, number: int, y: FloatArray) -> None:
        """Give a run its result inside a transaction."""
        self._rows(FREQUENT["finish"], (encode(y), time.time(), number))

    def fail(self, number: int, failure: Failure, *, retries: int) -> bool:
        """Record a failed attempt inside a transaction; True when the run may be tried again."""
        self._rows(_ADD_FAILURE, (number, time.time(), *(_storable(text) for text in failure)))
        self._rows(FREQUENT["attempt"], (number,))
        again = bool(self._rows(FREQUENT["attempts"], (number,))[0][0] <= retries)
        if not again:
            self._rows(FREQUENT["give up"], (number,))
        return again

    def correct(self, number: int, y: FloatArray) -> None:
        """Replace a result inside a transaction."""
        self._rows(FREQUENT["correct"], (encode(y), number))

    def each(self, statement: str, numbers: Iterable[int]) -> None:
        """Inside a transaction, "release" pending runs for the next caller, "reopen" those that failed, or "forget"."""
        with self._explained():
            self._db.executemany(FREQUENT[statement], [(number,) for number in numbers])

    def at(self, x: FloatArray) -> tuple[int, bytes | None] | None:
        """Number and result of the run at a point, one without a result first."""
        rows = self._rows(FREQUENT["at"], (encode(x),))
        return rows[0] if rows else None

    def run(self, number: int) -> tuple[bytes, bytes | None, str] | None:
        """Point, result and state of a run."""
        rows = self._rows(FREQUENT["run"], (number,))
        if rows and not (isinstance(rows[0][0], bytes) and isinstance(rows[0][1], bytes | None)):
            raise self.damaged(f"run {number} has no point")
        return rows[0] if rows else None

    def count(self, state: str) -> int:
        """Number of runs in a state."""
        return int(self._rows(FREQUENT["count"], (state,))[0][0])

    def count_asked(self, origin: str | None = None) -> int:
        """Runs ever asked from an origin; when none is named, those that a budget pays for."""
        if origin is None:
            return int(self._rows(FREQUENT["count asked"])[0][0])
        return int(self._rows(FREQUENT["count origin"], (origin,))[0][0])

    def pending_owners(self) -> list[str | None]:
        """Who holds each run in flight."""
        return [owner for (owner,) in self._rows(FREQUENT["holders"])]

    def count_leased(self) -> int:
        """Runs in flight outside any process whose lease lasts."""
        return int(self._rows(FREQUENT["leased"], (time.time(),))[0][0])

    def last_told(self, n: int) -> list[float]:
        """When the last ``n`` results were recorded, the latest first."""
        times = [told for (told,) in self._rows(FREQUENT["last told"], (n,))]
        if not all(isinstance(told, int | float) for told in times):
            raise self.damaged("a result has no time")
        return times

    def points(self, state: str, width: int) -> FloatArray:
        """Points of all runs in a state, in the order they were asked."""
        return self.numbered_points(state, width)[1]

    def numbered_points(self, state: str, width: int) -> tuple[list[int], FloatArray]:
        """Numbers and points of all runs in a state."""
        rows = self._rows(FREQUENT["numbered"], (state,))
        return [number for number, _ in rows], self.numbers([x for _, x in rows], width)

    def told_after(self, order: int) -> list[tuple[bytes, bytes, int, str]]:
        """Points, results, places and origins of what was recorded after place ``order``."""
        return self._rows(FREQUENT["told"], (order,))

    def all_runs(self) -> list[tuple[Any, ...]]:
        """x, y, state, origin, asked, told, number, lease of every run."""
        return self._rows(_ALL_RUNS)

    def all_failures(self) -> list[tuple[Any, ...]]:
        """x, run, state, at, kind, message, traceback of every failed attempt."""
        return self._rows(_ALL_FAILURES)

    def numbers(self, blobs: Sequence[Any], width: int) -> FloatArray:
        """Rows of ``width`` numbers from their bytes."""
        for blob in blobs:
            if not isinstance(blob, bytes) or len(blob) != 8 * width:
                size = len(blob) if isinstance(blob, bytes) else type(blob).__name__
                raise self.damaged(f"a run has {size} bytes where {8 * width} are needed")
        values = np.frombuffer(b"".join(blobs), dtype="<f8").reshape(len(blobs), width).astype(np.float64)
        if not np.isfinite(values).all():
            raise self.damaged("a run has numbers that are not finite")
        return values

    def labels(self, blobs: Sequence[Any]) -> FloatArray:
        """Rows of results from their bytes; NaN for outputs that were added after a run."""
        meta = self.meta()
        width, earlier = len(meta.get("outputs") or ()), meta.get("widths", [])
        if not earlier:
            return self.numbers(blobs, width)
        values = np.full((len(blobs), width), np.nan)
        sizes = [len(blob) // 8 if isinstance(blob, bytes) else -1 for blob in blobs]
        for size in {*sizes}:
            rows = [i for i, found in enumerate(sizes) if found == size]
            known = size if size in earlier else width
            values[rows, :known] = self.numbers([blobs[i] for i in rows], known)
        return values


def encode(values: FloatArray) -> bytes:
    """Numbers as little-endian float64 bytes: exact, and equal points are equal bytes."""
    # Adding 0.0 turns −0.0 into 0.0, which is the same point.
    return (np.asarray(values, dtype="<f8") + 0.0).tobytes()


def _identity(file: str) -> tuple[int, int]:
    """What tells a file from another that takes its place."""
    found = os.stat(file)
    return found.st_dev, found.st_ino


def _is_missing(file: str) -> bool:
    """Whether there is no such file; one that cannot be read now, as while a server is away, is not missing."""
    try:
        os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False


def _new_file(gone: str) -> str:
    """Make a file next to one that is gone, or in the folder for temporary files."""
    folder = os.path.dirname(gone)
    stem, suffix = os.path.splitext(os.path.basename(gone))
    for place in (folder, tempfile.gettempdir()):
        for number in range(1, 1000):
            path = os.path.join(place, f"{stem}.rescued{'' if number == 1 else f'-{number}'}{suffix}")
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644))
                return path
            except FileExistsError:
                continue
            except OSError:
                break
    raise FileNotFoundError(f"neither {folder} nor {tempfile.gettempdir()} can be written")


def _storable(text: str) -> str:
    """Text as SQLite takes it: half a surrogate pair, as in undecodable file names, is spelled out."""
    return str(text).encode(errors="backslashreplace").decode()


def _checked_path(storage: Any) -> str:
    try:
        path = os.fspath(storage)
    except TypeError:
        path = None
    if not isinstance(path, str):
        raise InputTypeError(
            f"storage is {storage!r}; expected a path, or ':memory:' for a campaign that is kept nowhere"
        )
    if not path.strip() or "\0" in path:
        raise InputError(f"storage is {path!r}; expected a path, or ':memory:' for a campaign that is kept nowhere")
    return path
