"""Campaign: ask where to run a simulator, tell what came out, and never lose either."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from steep._validation import FloatArray, check_count, check_points
from steep.axes import axis_from_key
from steep.campaign import owners
from steep.campaign.estimate import estimated_error
from steep.campaign.journal import Journal, decode, encode
from steep.campaign.planner import next_points
from steep.campaign.simulate import Report
from steep.domain import Bounds, Box, Constraint
from steep.exceptions import InputError, StorageError

if TYPE_CHECKING:
    import pandas as pd

# A run to make: its number in the journal, and its point.
Job = tuple[int, FloatArray]


class Campaign:
    """Choose runs of an expensive simulator one batch after another, with a journal on disk.

    Parameters
    ----------
    bounds : mapping of name to (low, high), Log, Integer or Category; or a list; or Box; optional
        S. May be left out when ``storage`` holds a campaign already; must agree with it otherwise.
    outputs : sequence of str, optional
        Names of the outputs; default those of the first result, or ``y0, y1, …``.
    storage : str or path, default "campaign.db"
        The journal, a SQLite file, made when it is not there. Several processes of one machine may
        use it at the same time; put it on a local disk.
    n_initial : int, optional
        Points of the Sobol start before the results decide; default 4(d+1), at least 8.
    constraint : callable, optional
        Which points of the box belong to S; see :class:`Box`. It is not stored.
    random_state : int, optional
        Seed, stored: a campaign goes on with the stream it was started with. Default 0.

    Examples
    --------
    >>> campaign = Campaign({"u0": (0.0, 1.0), "t": (0.0, 10.0)}, storage=":memory:")
    >>> X = campaign.ask(4)
    >>> campaign.tell(X, X[:, 0] * np.exp(-X[:, 1]))
    >>> campaign.n_done, len(campaign.pending)
    (4, 0)
    >>> campaign.run(lambda u0, t: u0 * np.exp(-t), n_initial=12, n_samples=8).n_done
    20
    """

    def __init__(
        self,
        bounds: Bounds | Box | None = None,
        *,
        outputs: Sequence[str] | None = None,
        storage: str | Path = "campaign.db",
        n_initial: int | None = None,
        constraint: Constraint | None = None,
        random_state: int | None = None,
    ) -> None:
        box = None if bounds is None else Box(bounds, constraint=constraint)
        self.n_initial = None if n_initial is None else check_count(n_initial, name="n_initial")
        self._journal = Journal(storage)
        meta = self._reconcile(box, outputs, random_state)
        self.box = box or Box(
            dict(zip(meta["names"], map(axis_from_key, meta["axes"]), strict=True)), constraint=constraint
        )
        self.outputs: tuple[str, ...] | None = None if meta["outputs"] is None else tuple(meta["outputs"])
        self._seed = int(meta["seed"])
        self._named = bool(meta["named"])
        self._owner = owners.new_owner()
        self._journal.register(self._owner, os.getpid(), owners.process_start(os.getpid()))
        self._X, self._y = np.empty((0, self.box.n_features)), np.empty((0, 0))
        self._usable = np.empty(0, dtype=bool)
        self._read = 0
        self.unsaved: list[tuple[int, FloatArray]] = []

    def _reconcile(self, box: Box | None, outputs: Sequence[str] | None, seed: int | None) -> dict[str, Any]:
        """Write what a new campaign is about, or check that an old one is about the same."""
        with self._journal.transaction() as db:
            meta = self._journal.meta()
            if not meta:
                if box is None:
                    raise InputError(f"storage {self._journal.path!r} holds no campaign yet; pass bounds")
                named = box.names != tuple(f"x{i}" for i in range(box.n_features))
                meta = {"names": list(box.names), "axes": [list(axis.key()) for axis in box.axes], "named": named}
                meta |= {"outputs": None if outputs is None else list(outputs), "seed": seed or 0, "plans": 0}
                for key, value in meta.items():
                    self._journal.set_meta(db, key, value)
                return meta
            path = self._journal.path
            stored = Box(dict(zip(meta["names"], map(axis_from_key, meta["axes"]), strict=True)))
            if box is not None and (box.names, box.axes) != (stored.names, stored.axes):
                raise InputError(f"bounds are {box!r} but storage {path!r} has {stored!r}; use those or another file")
            if outputs is not None and meta["outputs"] not in (None, list(outputs)):
                raise InputError(f"outputs are {list(outputs)} but storage {path!r} has {meta['outputs']}")
            if seed is not None and seed != meta["seed"]:
                raise InputError(f"random_state={seed} but storage {path!r} was started with {meta['seed']}")
            if outputs is not None and meta["outputs"] is None:
                self._journal.set_meta(db, "outputs", list(outputs))
                meta["outputs"] = list(outputs)
            return meta

    # ---------------------------------------------------------------- ask and tell

    def ask(self, n: int = 1) -> FloatArray:
        """Points to run next, in the user's units; committed as pending before they are returned.

        Runs that were in flight in a process that died come first, again.
        """
        return np.array([x for _, x in self.ask_jobs(check_count(n, name="n"))]).reshape(-1, self.box.n_features)

    def ask_jobs(self, n: int, *, limit: int | None = None, n_initial: int | None = None) -> list[Job]:
        """Runs to make next with their numbers, at most until the campaign has ``limit`` runs in all."""
        self._flush()
        jobs = self._reclaim(n)
        start = n_initial or self.n_initial or max(8, 4 * (self.box.n_features + 1))
        jobs += self._ask_start(n - len(jobs), start, limit)
        if len(jobs) < n and (limit is None or self._count("origin != 'foreign'") < limit):
            jobs += self._ask_planned(n - len(jobs), limit)
        return jobs

    def _reclaim(self, n: int) -> list[Job]:
        """Take over pending runs whose process is gone."""
        if not self._journal.rows("SELECT 1 FROM runs WHERE state = 'pending' AND owner IS NOT ? LIMIT 1", (self._owner,)):
            return []
        with self._journal.transaction() as db:
            known = db.execute("SELECT id, pid, started FROM owners").fetchall()
            alive = {name for name, pid, started in known if owners.is_alive(name, pid, started)}
            rows = db.execute("SELECT id, x, owner FROM runs WHERE state = 'pending' ORDER BY id").fetchall()
            free = [(number, x) for number, x, owner in rows if owner not in alive][:n]
            db.executemany("UPDATE runs SET owner = ? WHERE id = ?", [(self._owner, i) for i, _ in free])
        return [(number, decode([x], self.box.n_features)[0]) for number, x in free]

    def _ask_start(self, n: int, n_initial: int, limit: int | None) -> list[Job]:
        if n <= 0 or self._count("origin = 'initial'") >= n_initial:
            return []
        start = self.box.sobol(n_initial, random_state=self._seed)
        with self._journal.transaction() as db:
            n_asked = _one(db, "SELECT COUNT(*) FROM runs WHERE origin = 'initial'")
            points = start[n_asked : n_asked + self._room(db, n, limit)]
            return list(zip(self._journal.add(db, points, origin="initial", owner=self._owner), points, strict=True))

    def _ask_planned(self, n: int, limit: int | None) -> list[Job]:
        with self._journal.transaction() as db:
            plan = _one(db, "SELECT value FROM meta WHERE key = 'plans'", int)
            self._journal.set_meta(db, "plans", plan + 1)
        X, labels = self._told()
        occupied, failed = (self._points(f"state = '{state}'") for state in ("pending", "failed"))
        # No lock is held while planning; two processes plan from different pools.
        points = next_points(self.box, X, labels, occupied, failed, n, [self._seed, plan])
        with self._journal.transaction() as db:
            points = points[: self._room(db, n, limit)]
            return list(zip(self._journal.add(db, points, origin="design", owner=self._owner), points, strict=True))

    def _room(self, db: sqlite3.Connection, n: int, limit: int | None) -> int:
        if limit is None:
            return n
        return max(0, min(n, limit - _one(db, "SELECT COUNT(*) FROM runs WHERE origin != 'foreign'")))

    def tell(self, X: Any, y: Any) -> None:
        """Record results, one transaction for all rows.

        Points that were never asked, or lie outside S, are kept as foreign data and marked so; those
        inside S help to choose the next points. A result told twice is kept once.
        """
        points = check_points(X, n_features=self.box.n_features)
        values = check_points(np.asarray(y, dtype=np.float64).reshape(len(points), -1), name="y")
        self._flush()
        with self._journal.transaction() as db:
            self._check_outputs(db, values.shape[1])
            for x, label in zip(points, values, strict=True):
                self._tell_one(db, x, label)

    def _tell_one(self, db: sqlite3.Connection, x: FloatArray, label: FloatArray) -> None:
        rows = db.execute("SELECT id, y FROM runs WHERE x = ? ORDER BY state = 'done'", (encode(x),)).fetchall()
        if rows and rows[0][1] is not None:
            if rows[0][1] != encode(label):
                raise InputError(
                    f"run {rows[0][0]} at {x.tolist()} has another result already; nothing was recorded; leave it out"
                )
            return
        number = rows[0][0] if rows else self._journal.add(db, x[None], origin="foreign", owner=self._owner)[0]
        self._journal.finish(db, number, label)

    def _check_outputs(self, db: sqlite3.Connection, n_outputs: int, names: Sequence[str] | None = None) -> None:
        """The first result decides the outputs of a campaign that did not name them."""
        if self.outputs is None:
            stored = _one(db, "SELECT value FROM meta WHERE key = 'outputs'", _json)
            self.outputs = tuple(stored or names or [f"y{i}" for i in range(n_outputs)])
            self._journal.set_meta(db, "outputs", list(self.outputs))
        if n_outputs != len(self.outputs):
            raise InputError(
                f"y has {n_outputs} outputs, need {len(self.outputs)} ({', '.join(self.outputs)}) as in every run of "
                f"{self._journal.path!r}; nothing was recorded"
            )

    def tell_failure(self, X: Any, message: str = "told as failed", *, retries: int = 0) -> None:
        """Record that pending runs failed; each is asked again until it failed ``retries`` times more."""
        for x in check_points(X, n_features=self.box.n_features):
            rows = self._journal.rows("SELECT id FROM runs WHERE x = ? AND state = 'pending'", (encode(x),))
            if not rows:
                raise InputError(f"{x.tolist()} is not pending; tell failures of points that were asked")
            self.fail_job(rows[0][0], ("told", message, ""), retries=retries)

    def finish_job(self, number: int, label: FloatArray, names: tuple[str, ...]) -> None:
        """Record the result of one run by its number; kept in ``unsaved`` when it cannot be written."""
        self.unsaved.append((number, label))
        if self.outputs is None:
            with self._journal.transaction() as db:
                self._check_outputs(db, len(label), names)
        self._flush()

    def fail_job(self, number: int, report: Report, *, retries: int) -> bool:
        """Record a failed attempt of one run; True when it may be tried again."""
        with self._journal.transaction() as db:
            again = self._journal.fail(db, number, report, retries=retries)
            if again:
                db.execute("UPDATE runs SET owner = ? WHERE id = ?", (self._owner, number))
        return again

    def release(self, numbers: Iterable[int]) -> None:
        """Let go of runs in flight: they are asked again by whoever asks next."""
        with self._journal.transaction() as db:
            db.executemany(
                "UPDATE runs SET owner = NULL WHERE id = ? AND state = 'pending'", [(i,) for i in numbers]
            )

    def _flush(self) -> None:
        """Commit results that a full disk kept back."""
        if not self.unsaved:
            return
        with self._journal.transaction() as db:
            for number, label in self.unsaved:
                self._journal.finish(db, number, label)
        self.unsaved = []

    # ---------------------------------------------------------------- what is known

    def _count(self, where: str) -> int:
        return int(self._journal.rows(f"SELECT COUNT(*) FROM runs WHERE {where}")[0][0])

    def _points(self, where: str) -> FloatArray:
        blobs = [x for (x,) in self._journal.rows(f"SELECT x FROM runs WHERE {where} ORDER BY id")]
        return decode(blobs, self.box.n_features)

    def _told(self) -> tuple[FloatArray, FloatArray]:
        """Results inside S in the order they were told; only new ones are read from the journal."""
        rows = self._journal.rows(
            "SELECT x, y, told_order FROM runs WHERE told_order > ? ORDER BY told_order", (self._read,)
        )
        if rows:
            X, y = decode([r[0] for r in rows], self.box.n_features), decode([r[1] for r in rows], len(rows[0][1]) // 8)
            self._X, self._y = np.vstack([self._X, X]), np.vstack([self._y, y]) if self._read else y
            self._usable = np.concatenate([self._usable, self.box.contains(X)])
            self._read = rows[-1][2]
        return self._X[self._usable], self._y[self._usable]

    @property
    def X(self) -> FloatArray:  # noqa: N802 - the ecosystem's name
        """Points with a result, in the order they were told; foreign points outside S left out."""
        return self._told()[0]

    @property
    def y(self) -> FloatArray:
        """Their results, ``(n, n_outputs)``, or ``(n,)`` for one output."""
        labels = self._told()[1]
        return labels[:, 0] if labels.shape[1] == 1 else labels

    @property
    def pending(self) -> FloatArray:
        """Points asked and not yet told."""
        return self._points("state = 'pending'")

    @property
    def n_done(self) -> int:
        """Runs with a result, foreign ones included."""
        return self._count("state = 'done'")

    @property
    def n_failed(self) -> int:
        """Runs given up."""
        return self._count("state = 'failed'")

    def estimated_error(self, n_last: int | None = None) -> float:
        """Error of a surrogate on the last results, foreseen from those before; see the guide."""
        X, labels = self._told()
        n_last = max(10, len(X) // 10) if n_last is None else check_count(n_last, name="n_last")
        if len(X) <= n_last:
            return float("nan")
        return estimated_error(self.box.embed(self.box.unit(X)), labels, n_last)

    def failures(self) -> pd.DataFrame:
        """Every attempt that went wrong: inputs, kind, message, traceback, whether it was given up."""
        import pandas as pd

        rows = self._journal.rows(
            "SELECT r.x, r.id, r.state, f.at, f.kind, f.message, f.traceback FROM failures f "
            "JOIN runs r ON r.id = f.run ORDER BY f.id"
        )
        columns = ["run", "state", "at", "kind", "message", "traceback"]
        inputs = self.box.decode(decode([r[0] for r in rows], self.box.n_features)) if rows else []
        return pd.DataFrame(
            [point | dict(zip(columns, row[1:], strict=True)) for point, row in zip(inputs, rows, strict=True)],
            columns=[*self.box.names, *columns],
        )

    def to_dataframe(self) -> pd.DataFrame:
        """All runs: inputs, outputs, state, origin (initial, design or foreign) and whether inside S."""
        import pandas as pd

        rows = self._journal.rows("SELECT x, y, state, origin, asked, told, id FROM runs ORDER BY id")
        outputs = self.outputs or ()
        X = decode([r[0] for r in rows], self.box.n_features)
        nothing = np.full(len(outputs), np.nan)
        y = np.array([nothing if r[1] is None else np.frombuffer(r[1], "<f8") for r in rows])
        frame = pd.DataFrame(self._decode_all(X), columns=list(self.box.names))
        frame[list(outputs)] = y.reshape(len(rows), len(outputs))
        frame[["state", "origin", "asked", "told", "run"]] = pd.DataFrame(
            [r[2:] for r in rows], columns=["state", "origin", "asked", "told", "run"]
        )
        frame["inside"] = self.box.contains(X) if len(X) else np.empty(0, dtype=bool)
        return frame

    def _decode_all(self, X: FloatArray) -> list[dict[str, Any]]:
        """Named inputs; a foreign category code without a name stays a number."""
        inside = Box(self.box.names and dict(zip(self.box.names, self.box.axes, strict=True)))
        known = inside.contains(X) if len(X) else []
        return [
            self.box.decode(x[None])[0] if ok else dict(zip(self.box.names, map(float, x), strict=True))
            for x, ok in zip(X, known, strict=True)
        ]

    def load_dataframe(self, frame: pd.DataFrame) -> None:
        """Tell results kept elsewhere: a column for each input and each output, by name."""
        wanted = [*self.box.names, *(self.outputs or [])]
        missing = [name for name in wanted if name not in frame.columns]
        if missing:
            raise InputError(f"the frame lacks {missing}; it has {list(frame.columns)}; rename its columns")
        marks = {"state", "origin", "asked", "told", "run", "inside"}
        extra = [name for name in frame.columns if name not in wanted and name not in marks]
        if self.outputs is None and not extra:
            raise InputError("the frame has no output columns; need at least one besides the inputs")
        if self.outputs is not None and extra:
            raise InputError(f"the frame has unknown columns {extra}; need {wanted}; drop them")
        outputs = list(self.outputs or extra)
        rows = frame[frame[outputs].notna().all(axis=1)]
        if self.outputs is None:
            with self._journal.transaction() as db:
                self._check_outputs(db, len(outputs), outputs)
        self.tell(self.box.encode(rows[list(self.box.names)].to_dict("records")), rows[outputs].to_numpy())

    # ---------------------------------------------------------------- running

    def run(self, function: Any, *, n_initial: int, n_samples: int, **options: Any) -> Self:
        """Run the simulator until ``n_initial + n_samples`` runs are done or given up.

        Made again after a crash, the same call goes on where the journal ends. See
        :func:`steep.campaign.runner.run_campaign` for the options: ``batch_size``, ``executor``,
        ``n_workers``, ``retries``, ``timeout``, ``stop_when``, ``pass_as``, ``progress``, ``live``.
        """
        from steep.campaign.runner import run_campaign

        run_campaign(self, function, n_initial=n_initial, n_samples=n_samples, **options)
        return self

    def close(self) -> None:
        """Close the journal; runs still in flight are asked again by the next campaign on this file."""
        owners.forget(self._owner)
        try:
            self._journal.unregister(self._owner)
        except StorageError:
            pass  # a file that cannot be written keeps a stale name, which no living process bears
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_owner"):
            owners.forget(self._owner)

    def __repr__(self) -> str:
        return f"Campaign({self._journal.path!r}: {self.n_done} done, {self.n_failed} failed, {self.box!r})"


def _one(db: sqlite3.Connection, query: str, convert: Any = int) -> Any:
    return convert(db.execute(query).fetchone()[0])


def _json(text: str) -> Any:
    return json.loads(text)
