"""How far a campaign is, told from its journal alone: also while other processes run it.

    rate          results a second, over the last results of the sessions that run now (or of the last one)
    time left     (budget − runs that ended) / rate
    error         that of :meth:`Campaign.estimated_error`

The journal is opened for reading only, so that a look never delays a run.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np

from steep.campaign.journal import Journal
from steep.campaign.results import Results
from steep.campaign.settings import stored_box
from steep.expected_error import ErrorEstimate, ErrorTrack, unknown_error
from steep.sampling.even import EvenSequence

# Results the rate is taken from.
_RECENT = 50


@dataclass(frozen=True)
class Status:
    """Where a campaign stands.

    Attributes
    ----------
    storage : str
        The journal.
    n_done, n_running, n_leased, n_waiting, n_failed : int
        Runs with a result; in flight in a process that is alive; asked with a lease that lasts; in flight in a
        process that is gone, or with a lease that is over, which are asked again; given up.
    budget : int or None
        Runs the last call of ``run`` asked for in all; None before the first.
    n_left : int or None
        Runs of the budget that have not ended.
    rate : float
        Results a second; NaN where there are too few.
    seconds_left : float
        NaN where budget or rate are unknown.
    estimated_error : ErrorEstimate
        See :meth:`Campaign.estimated_error`.
    is_running : bool
        Whether a process runs it now.
    outcome : str or None
        How the last session ended: "finished", "stopped" by its ``stop_when``, "interrupted"; None while it runs,
        and before the first.
    """

    storage: str
    n_done: int
    n_running: int
    n_leased: int
    n_waiting: int
    n_failed: int
    budget: int | None
    n_left: int | None
    rate: float
    seconds_left: float
    estimated_error: ErrorEstimate
    is_running: bool
    outcome: str | None


class StatusReader:
    """Reads the status of one campaign, again and again.

    Parameters
    ----------
    storage : str or path
        The journal.

    Examples
    --------
    >>> import tempfile
    >>> from steep import Campaign
    >>> storage = tempfile.mkdtemp() + "/campaign.db"
    >>> with Campaign({"u": (0.0, 1.0)}, storage=storage) as campaign:
    ...     _ = campaign.run(lambda u: u**2, n_initial=8, n_samples=4)
    >>> with StatusReader(storage) as reader:
    ...     status = reader.read()
    >>> status.n_done, status.n_left, status.outcome
    (12, 0, 'finished')
    """

    def __init__(self, storage: str | os.PathLike[str]) -> None:
        self.journal = Journal(storage, create=False, read_only=True)
        try:
            self.box = stored_box(self.journal, self.journal.meta())
        except BaseException:
            self.journal.close()
            raise
        self._begin()

    def _begin(self) -> None:
        journal = self.journal
        self._results, self._track = Results(journal, self.box), ErrorTrack()
        self._sequence = EvenSequence(self.box, int(journal.meta()["seed"]))
        self._revision = journal.revision()
        self._judged, self._error = -1, unknown_error(0)

    def read(self) -> Status:
        """Where the campaign stands now."""
        journal = self.journal
        if journal.revision() != self._revision:  # something was corrected, forgotten or widened
            self.box = stored_box(journal, journal.meta())
            self._begin()
        alive, sessions = journal.owners_alive(), journal.sessions()
        holders = journal.pending_owners()
        n_running = sum(holder in alive for holder in holders)
        n_leased = journal.count_leased()
        running = [session for session in sessions if session["ended"] is None and session["owner"] in alive]
        budget = max((session["budget"] for session in running or sessions[-1:]), default=None)
        n_left = None if budget is None else max(0, budget - journal.count_asked() + len(holders))
        rate = self._rate(running or sessions[-1:], is_running=bool(running))
        return Status(
            storage=journal.path, n_done=journal.count("done"), n_running=n_running, n_leased=n_leased,
            n_waiting=len(holders) - n_running - n_leased, n_failed=journal.count("failed"), budget=budget,
            n_left=n_left, rate=rate, seconds_left=_left(n_left, rate),
            estimated_error=self._estimated_error(), is_running=bool(running),
            outcome=_outcome(sessions, is_running=bool(running)),
        )  # fmt: skip

    def _rate(self, sessions: list[dict[str, Any]], *, is_running: bool) -> float:
        since = min((session["began"] for session in sessions), default=np.inf)
        told = self.journal.last_told(_RECENT)
        recent = [at for at in told if at >= since]
        if not recent:
            return float("nan")
        end = time.time() if is_running else recent[0]
        # All results of the session count from its beginning; of more, each from the one before.
        if len(recent) < len(told) or len(told) < _RECENT:
            return len(recent) / max(end - since, 1e-9)
        return (len(recent) - 1) / max(end - recent[-1], 1e-9)

    def _estimated_error(self) -> ErrorEstimate:
        X, labels, _ = self._results.without_gaps()
        if len(X) != self._judged:
            points = self.box.embed(self.box.unit(X)) if len(X) else X
            self._judged = len(X)
            self._error = self._track.estimate(points, labels, self._sequence.holds(X))
        return self._error

    def close(self) -> None:
        """Let go of the journal."""
        self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _left(n_left: int | None, rate: float) -> float:
    if n_left is None or not rate > 0:
        return float("nan")
    return n_left / rate


def _outcome(sessions: list[dict[str, Any]], *, is_running: bool) -> str | None:
    if is_running or not sessions:
        return None
    # A process that was killed could not say how it ended.
    return sessions[-1]["outcome"] or "interrupted"
