"""Campaign: ask where to run a simulator, tell what came out, and never lose either."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from steep._validation import FloatArray, check_count, check_points
from steep.campaign import owners
from steep.campaign.about import reconcile, stored_box
from steep.campaign.asking import Asker, Job
from steep.campaign.estimate import estimated_error
from steep.campaign.journal import Journal, encode
from steep.campaign.results import Results
from steep.campaign.simulate import Report
from steep.domain import Bounds, Box, Constraint
from steep.exceptions import InputError, StorageError

if TYPE_CHECKING:
    import pandas as pd


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
        self.journal = Journal(storage)
        try:
            meta = reconcile(self.journal, box, outputs, random_state)
        except BaseException:
            self.journal.close()
            raise
        self.box = box or stored_box(meta, constraint)
        self.outputs: tuple[str, ...] | None = None if meta["outputs"] is None else tuple(meta["outputs"])
        self.named = bool(meta["named"])
        self._owner = owners.new_owner()
        self.journal.register(self._owner, os.getpid(), owners.process_start(os.getpid()))
        self._results = Results(self.journal, self.box)
        self._asker = Asker(self.journal, self.box, self._results, owner=self._owner, seed=int(meta["seed"]))
        self.unsaved: list[tuple[int, FloatArray]] = []

    # ---------------------------------------------------------------- ask and tell

    def ask(self, n: int = 1) -> FloatArray:
        """Points to run next, in the user's units; committed as pending before they are returned.

        Runs that were in flight in a process that died come first, again.
        """
        return np.array([x for _, x in self.ask_jobs(check_count(n, name="n"))]).reshape(
            -1, self.box.n_features
        )

    def ask_jobs(self, n: int, *, limit: int | None = None, n_initial: int | None = None) -> list[Job]:
        """Runs to make next with their numbers, at most until the campaign has ``limit`` runs in all."""
        self._flush()
        start = n_initial or self.n_initial or max(8, 4 * (self.box.n_features + 1))
        return self._asker.ask(n, n_initial=start, limit=limit)

    def tell(self, X: Any, y: Any) -> None:
        """Record results, one transaction for all rows.

        Points that were never asked, or lie outside S, are kept as foreign data and marked so; those
        inside S help to choose the next points. A result told twice is kept once.
        """
        points = check_points(X, n_features=self.box.n_features)
        values = check_points(np.asarray(y, dtype=np.float64).reshape(len(points), -1), name="y")
        self._flush()
        with self.journal.transaction() as db:
            self._check_outputs(db, values.shape[1])
            for x, label in zip(points, values, strict=True):
                self._tell_one(db, x, label)

    def _tell_one(self, db: sqlite3.Connection, x: FloatArray, label: FloatArray) -> None:
        rows = db.execute(
            "SELECT id, y FROM runs WHERE x = ? ORDER BY state = 'done'", (encode(x),)
        ).fetchall()
        if rows and rows[0][1] is not None:
            if rows[0][1] != encode(label):
                raise InputError(
                    f"run {rows[0][0]} at {x.tolist()} has another result already; nothing was recorded; leave it out"
                )
            return
        number = rows[0][0] if rows else self.journal.add(db, x[None], origin="foreign", owner=self._owner)[0]
        self.journal.finish(db, number, label)

    def _check_outputs(
        self, db: sqlite3.Connection, n_outputs: int, names: Sequence[str] | None = None
    ) -> None:
        """The first result decides the outputs of a campaign that did not name them."""
        if self.outputs is None:
            stored = self.journal.meta()["outputs"]  # another process may have been first
            self.outputs = tuple(stored or names or [f"y{i}" for i in range(n_outputs)])
            self.journal.set_meta(db, "outputs", list(self.outputs))
        if n_outputs != len(self.outputs):
            raise InputError(
                f"y has {n_outputs} outputs, need {len(self.outputs)} ({', '.join(self.outputs)}) as in every run of "
                f"{self.journal.path!r}; nothing was recorded"
            )

    def name_outputs(self, names: Sequence[str]) -> None:
        """Name the outputs of a campaign that has no result yet."""
        with self.journal.transaction() as db:
            self._check_outputs(db, len(names), names)

    def tell_failure(self, X: Any, message: str = "told as failed", *, retries: int = 0) -> None:
        """Record that pending runs failed; a run is asked again until it failed more than ``retries`` times."""
        for x in check_points(X, n_features=self.box.n_features):
            rows = self.journal.rows("SELECT id FROM runs WHERE x = ? AND state = 'pending'", (encode(x),))
            if not rows:
                raise InputError(f"{x.tolist()} is not pending; tell failures of points that were asked")
            if self.fail_job(rows[0][0], ("told", message, ""), retries=retries):
                self.release([rows[0][0]])

    def finish_job(self, number: int, label: FloatArray, names: tuple[str, ...]) -> None:
        """Record the result of one run by its number; kept in ``unsaved`` when it cannot be written."""
        self.unsaved.append((number, label))
        if self.outputs is None:
            self.name_outputs(names)
        self._flush()

    def fail_job(self, number: int, report: Report, *, retries: int) -> bool:
        """Record a failed attempt of one run; True when it may be tried again."""
        with self.journal.transaction() as db:
            again = self.journal.fail(db, number, report, retries=retries)
            if again:
                db.execute("UPDATE runs SET owner = ? WHERE id = ?", (self._owner, number))
        return again

    def release(self, numbers: Iterable[int]) -> None:
        """Let go of runs in flight: they are asked again by whoever asks next."""
        with self.journal.transaction() as db:
            db.executemany(
                "UPDATE runs SET owner = NULL WHERE id = ? AND state = 'pending'", [(i,) for i in numbers]
            )

    def _flush(self) -> None:
        """Commit results that a full disk kept back."""
        if not self.unsaved:
            return
        with self.journal.transaction() as db:
            for number, label in self.unsaved:
                self.journal.finish(db, number, label)
        self.unsaved = []

    # ---------------------------------------------------------------- what is known

    @property
    def X(self) -> FloatArray:  # noqa: N802 - the ecosystem's name
        """Points with a result, in the order they were told; foreign points outside S left out."""
        return self._results.told()[0]

    @property
    def y(self) -> FloatArray:
        """Their results, ``(n, n_outputs)``, or ``(n,)`` for one output."""
        labels = self._results.told()[1]
        return labels[:, 0] if labels.shape[1] == 1 else labels

    @property
    def pending(self) -> FloatArray:
        """Points asked and not yet told."""
        return self._results.points("pending")

    @property
    def n_done(self) -> int:
        """Runs with a result, foreign ones included."""
        return self._results.count("done")

    @property
    def n_failed(self) -> int:
        """Runs given up."""
        return self._results.count("failed")

    def estimated_error(self, n_last: int | None = None) -> float:
        """Error of a surrogate on the last results, foreseen from those before; see the guide."""
        X, labels = self._results.told()
        n_last = max(10, len(X) // 10) if n_last is None else check_count(n_last, name="n_last")
        if len(X) <= n_last:
            return float("nan")
        return estimated_error(self.box.embed(self.box.unit(X)), labels, n_last)

    def failures(self) -> pd.DataFrame:
        """Every attempt that went wrong: inputs, kind, message, traceback, whether it was given up."""
        from steep.campaign import tables

        return tables.failures(self)

    def to_dataframe(self) -> pd.DataFrame:
        """All runs: inputs, outputs, state, origin (initial, design or foreign) and whether inside S."""
        from steep.campaign import tables

        return tables.to_dataframe(self)

    def load_dataframe(self, frame: pd.DataFrame) -> None:
        """Tell results kept elsewhere: a column for each input and each output, by name."""
        from steep.campaign import tables

        tables.load_dataframe(self, frame)

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
        # A file that cannot be written keeps a stale name, which no living campaign bears.
        with contextlib.suppress(StorageError):
            self.journal.unregister(self._owner)
        self.journal.close()

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
        return f"Campaign({self.journal.path!r}: {self.n_done} done, {self.n_failed} failed, {self.box!r})"
