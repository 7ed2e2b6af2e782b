"""Where the next runs come from: runs of dead processes, then the start, then the plan."""

from __future__ import annotations

import sqlite3

import numpy as np

from steep._validation import FloatArray
from steep.campaign import owners
from steep.campaign.journal import Journal, decode, encode
from steep.campaign.planner import next_points
from steep.campaign.results import Results
from steep.domain import Box

# A run to make: its number in the journal, and its point.
Job = tuple[int, FloatArray]

# Plans made for one call when other processes take its points away.
_TRIES = 3
_BUDGETED = "SELECT COUNT(*) FROM runs WHERE origin != 'foreign'"


class Asker:
    """Commits runs as pending in the name of ``owner``, at most until there are ``limit`` of them."""

    def __init__(self, journal: Journal, box: Box, results: Results, *, owner: str, seed: int) -> None:
        self.journal, self.box, self.results = journal, box, results
        self.owner, self.seed = owner, seed

    def ask(self, n: int, *, n_initial: int, limit: int | None = None) -> list[Job]:
        """Up to ``n`` runs to make next."""
        jobs = self._reclaim(n)
        jobs += self._start(n - len(jobs), n_initial, limit)
        for _ in range(_TRIES):
            if len(jobs) < n and (limit is None or self.journal.rows(_BUDGETED)[0][0] < limit):
                jobs += self._planned(n - len(jobs), limit)
        return jobs

    def _reclaim(self, n: int) -> list[Job]:
        """Take over pending runs whose process is gone."""
        pending = "SELECT 1 FROM runs WHERE state = 'pending' AND owner IS NOT ? LIMIT 1"
        if not self.journal.rows(pending, (self.owner,)):
            return []
        with self.journal.transaction() as db:
            known = db.execute("SELECT id, pid, started FROM owners").fetchall()
            alive = {name for name, pid, started in known if owners.is_alive(name, pid, started)}
            rows = db.execute("SELECT id, x, owner FROM runs WHERE state = 'pending' ORDER BY id").fetchall()
            free = [(number, x) for number, x, owner in rows if owner not in alive][:n]
            db.executemany("UPDATE runs SET owner = ? WHERE id = ?", [(self.owner, i) for i, _ in free])
        return [(number, decode([x], self.box.n_features)[0]) for number, x in free]

    def _start(self, n: int, n_initial: int, limit: int | None) -> list[Job]:
        """The next points of the Sobol start, the same whoever asks."""
        asked = "SELECT COUNT(*) FROM runs WHERE origin = 'initial'"
        if n <= 0 or self.journal.rows(asked)[0][0] >= n_initial:
            return []
        start = self.box.sobol(n_initial, random_state=self.seed)
        with self.journal.transaction() as db:
            (n_asked,) = db.execute(asked).fetchone()
            points = start[n_asked : n_asked + _room(db, n, limit)]
            return self._add(db, points, "initial")

    def _planned(self, n: int, limit: int | None) -> list[Job]:
        plan = self.journal.next_plan()
        X, labels = self.results.told()
        occupied, failed = self.results.points("pending"), self.results.points("failed")
        # No lock is held while planning; two processes plan from different pools.
        points = next_points(self.box, X, labels, occupied, failed, n, [self.seed, plan])
        with self.journal.transaction() as db:
            # Corners are in every pool: another process may have asked for one in the meantime.
            known = "SELECT 1 FROM runs WHERE x = ?"
            fresh = [x for x in points if db.execute(known, (encode(x),)).fetchone() is None]
            chosen = np.array(fresh).reshape(-1, self.box.n_features)[: _room(db, n, limit)]
            return self._add(db, chosen, "design")

    def _add(self, db: sqlite3.Connection, points: FloatArray, origin: str) -> list[Job]:
        numbers = self.journal.add(db, points, origin=origin, owner=self.owner)
        return list(zip(numbers, points, strict=True))


def _room(db: sqlite3.Connection, n: int, limit: int | None) -> int:
    """How many of ``n`` runs the budget still allows."""
    if limit is None:
        return n
    (n_there,) = db.execute(_BUDGETED).fetchone()
    return max(0, min(n, limit - int(n_there)))
