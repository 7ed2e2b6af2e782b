"""The loop that keeps a simulator busy: a new run starts as soon as one ends, wherever it runs.

It knows a campaign by a few calls: ``_ask``, ``_finish``, ``_keep``, ``_release`` and its counts.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from steep._progress import Bar
from steep._validation import FloatArray, check_count, check_real
from steep.campaign.journal import Journal, StoreGoneError
from steep.campaign.simulate import Answer, Failure, Style
from steep.campaign.workers import Crew, Inline, Landing, Processes, Task, Threads
from steep.exceptions import CampaignError, InputError, InputTypeError, StorageError
from steep.sampling.pool import among
from steep.surrogate.fit import checks_to_make, is_due
from steep.surrogate.surrogate import Surrogate

if TYPE_CHECKING:
    from steep.campaign.campaign import Campaign
    from steep.campaign.planner import Job


# Runs that may fail in the same way before any run of a call worked: five are hardly chance.
_FIRST = 5

_NUMBERS = re.compile(r"[-+]?\d+\.?\d*(e[-+]?\d+)?", re.IGNORECASE)
# Seconds between two looks at the clock while nothing ends.
_PACE = 0.05
_STOPS = ("runs", "seconds", "error", "absolute_error")


def without_numbers(message: str) -> str:
    """What failures have in common whose messages differ in their numbers alone."""
    return _NUMBERS.sub("#", message)[:500]


class Streak:
    """Runs in a row that failed in the same way; at most ``most``, or any number, and fewer while none worked."""

    def __init__(self, most: int | None, kept: Sequence[Any] = (None, [], False)) -> None:
        self.most = None if most is None else check_count(most, name="max_failures")
        self.pattern: Sequence[str] | None = kept[0]
        self.runs, self.has_worked = list[int](kept[1]), bool(kept[2])

    def kept(self) -> list[Any]:
        """What makes it again, as JSON holds it."""
        return [self.pattern, self.runs, self.has_worked]

    def worked(self) -> None:
        """A run gave a result."""
        self.runs, self.pattern, self.has_worked = [], None, True

    def failed(self, number: int, failure: Failure) -> str | None:
        """Note a failed attempt; why to stop, when it is one too many."""
        pattern = [failure.kind, without_numbers(failure.message)]
        if pattern != self.pattern:
            self.runs, self.pattern = [], pattern
        if number not in self.runs:
            self.runs.append(number)
        if self.most is None or len(self.runs) < (self.most if self.has_worked else min(self.most, _FIRST)):
            return None
        message = " ".join(failure.message.split())
        return (
            f"{len(self.runs)} runs in a row failed in the same way ({message[:300]}); all of them are kept: fix "
            "the cause and start again, or allow that many failures with max_failures=None (--max-failures 0)"
        )

    def record(self, journal: Journal, number: int, failure: Failure, retries: int) -> tuple[bool, str | None]:
        """Record a failed attempt inside a transaction: whether the run may be tried again, and why to stop, if so."""
        if failure.kind == "rejected":  # by the simulator: neither tried again nor a mistake
            return journal.fail(number, failure, retries=0), None
        again, reason = journal.fail(number, failure, retries=retries), self.failed(number, failure)
        if reason is not None:  # a mistake, most likely: what it burnt is asked again once it is fixed
            journal.each("reopen", self.runs)
        return again, reason


@dataclass
class Loop:
    """Runs waiting, runs in flight, and what happens when one ends."""

    campaign: Campaign
    crew: Crew
    style: Style
    retries: int
    streak: Streak
    stop: Callable[[], str | None]
    bar: Bar
    waiting: deque[Job] = field(default_factory=deque)
    flying: dict[int, Job] = field(default_factory=dict)
    landed: deque[Landing] = field(default_factory=deque)

    @property
    def stopped(self) -> bool:
        """Whether ``stop_when`` ended it."""
        return self.campaign.stop_reason is not None

    def run(self, plan: Callable[[], list[Job]]) -> None:
        """Work until ``plan`` has no run left; whatever ends it, runs without a result are let go of."""
        try:
            while self._launch(plan):
                self.landed.extend(self.crew.landed(_PACE))
                while self.landed:
                    number, answer = self.landed.popleft()
                    self._land(self.flying[number], answer)
                    del self.flying[number]
                self._show()
        except BaseException as error:
            self._keep_landed()
            if not isinstance(error, CampaignError):
                self.campaign.journal.hurry()
            try:
                self._release()
            except StoreGoneError:
                raise
            except StorageError:
                pass  # noted by the campaign: its next call does it
            raise
        self._release()
        self._show()

    def _release(self) -> None:
        self.campaign._release([number for number, _ in [*self.flying.values(), *self.waiting]])

    def _keep_landed(self) -> None:
        """Keep the results of runs that ended before the end of it all."""
        with contextlib.suppress(Exception):  # a crew that broke has no more to say
            self.landed.extend(self.crew.landed(0.0))
        for number, answer in self.landed:
            if answer.failure is None and answer.values and np.isfinite(answer.values).all():
                self.campaign._keep(number, answer.values, answer.names)

    def _launch(self, plan: Callable[[], list[Job]]) -> bool:
        """Fill the free workers; False when nothing is in flight and nothing is left to do."""
        # A reason to stop holds while the runs in flight end.
        self.campaign.stop_reason = self.campaign.stop_reason or self.stop()
        while not self.stopped and len(self.flying) < self.crew.n and self._is_more(plan):
            # In flight before it is started: whatever happens then, it is not forgotten.
            number, x = job = self.waiting.popleft()
            self.flying[number] = job
            self.crew.start(number, self._inputs(x))
        # A cluster without workers waits for one, for a while.
        return bool(self.flying) or (self.crew.n == 0 and not self.stopped and self._is_more(plan))

    def _is_more(self, plan: Callable[[], list[Job]]) -> bool:
        """Whether a run is waiting, or can be planned."""
        if not self.waiting:
            self.waiting.extend(plan())
        return bool(self.waiting)

    def _inputs(self, x: Any) -> Any:
        """Inputs for one attempt, made again: what the function does to them stays there."""
        return x.copy() if self.style == "array" else self.campaign.box.decode(x[None])[0]

    def _land(self, job: Job, answer: Answer) -> None:
        if answer.failure is not None:
            return self._fail(job, answer.failure)
        if not np.isfinite(answer.values).all():
            return self._fail(job, Failure("nan", f"outputs are {answer.values}; expected finite numbers"))
        try:
            self.campaign._finish(job[0], answer.values, answer.names)
        except InputError as wrong:
            return self._fail(job, Failure("shape", str(wrong)))
        return self.streak.worked()

    def _fail(self, job: Job, failure: Failure) -> None:
        journal = self.campaign.journal
        with journal.transaction():
            again, reason = self.streak.record(journal, job[0], failure, self.retries)
        if again:
            self.waiting.append(job)
        if reason is not None:
            raise CampaignError(reason)

    def _show(self) -> None:
        if self.bar.shown:
            self.bar.counts(self.campaign.n_done, running=len(self.flying), failed=self.campaign.n_failed)


def stopper(campaign: Campaign, stop_when: Any, n_initial: int) -> Callable[[], str | None]:
    """Why to stop now, by what ``stop_when`` of :meth:`Campaign.run` says; None to go on."""
    if stop_when is None:
        return lambda: None
    if callable(stop_when):
        return lambda: "stop_when returned True" if stop_when(campaign) else None
    if not isinstance(stop_when, Mapping):
        raise InputTypeError(
            f"stop_when is a {type(stop_when).__name__}; expected a mapping with some of {', '.join(_STOPS)}, or "
            "a callable"
        )
    unknown = [name for name in stop_when if name not in _STOPS]
    if unknown:
        raise InputError(
            f"stop_when has unknown entries {unknown}; expected some of {', '.join(_STOPS)}, or a callable"
        )
    limits = {name: check_real(value, name=f"stop_when[{name!r}]", minimum=0.0) for name, value in stop_when.items()}
    goals = [
        _CertifiedError(campaign, limits[name], n_initial, absolute=name != "error")
        for name in ("error", "absolute_error")
        if name in limits
    ]
    started, judged_at = time.monotonic(), -1

    def reached() -> str | None:
        """Look at the runs, the clock and the error."""
        nonlocal judged_at
        n_done, seconds = campaign.n_done, time.monotonic() - started
        if n_done >= limits.get("runs", np.inf):
            return f"{n_done} runs are done, at least {limits['runs']:g} were asked for"
        if seconds >= limits.get("seconds", np.inf):
            return f"{seconds:.3g} seconds have passed, at most {limits['seconds']:g} were allowed"
        if n_done == judged_at:
            return None
        judged_at = n_done
        return next((reason for reason in [goal.look() for goal in goals] if reason is not None), None)

    return reached


class _CertifiedError:
    """Whether the error of every output is at most ``tolerance``: a share of its spread, or in its units.

    After the initial runs, whenever there are a fifth more runs, a surrogate is fitted. If its error by
    cross-validation is small enough, the next runs are check runs, drawn evenly, by which nothing is fitted or placed;
    when they are done, the surrogate is certified. The number of looks is stored, and each costs
    (:mod:`steep.surrogate.certificate`), so neither a first dip stops a campaign nor starting it again.
    """

    def __init__(self, campaign: Campaign, tolerance: float, n_initial: int, *, absolute: bool) -> None:
        self.campaign, self.tolerance, self.absolute, self.n_initial = campaign, tolerance, absolute, n_initial
        self._fitted_at = n_initial
        self._wanted = 0
        self._model: Surrogate | None = None

    def look(self) -> str | None:
        """Look at the results so far; why to stop, if the error is certified."""
        campaign = self.campaign
        # A planner is made again when another process changes the results.
        campaign._planner.n_checks = self._wanted
        X, labels, origins, _ = campaign.results.without_gaps()
        is_check = origins == "check"
        if self._model is not None:
            return self._certified(self._model, X[is_check], labels[is_check])
        rows = ~is_check
        n = int(rows.sum())
        if n <= self.n_initial or not is_due(n, self._fitted_at):
            return None
        self._fitted_at = n
        names = campaign.outputs or tuple(f"y{i}" for i in range(labels.shape[1]))
        generator = np.random.default_rng([campaign._seed, n])
        model = Surrogate(campaign.box)._train(campaign.box, X[rows], labels[rows], names[: labels.shape[1]], generator)
        wanted = checks_to_make(model, self.tolerance, self.campaign.journal.looks() + 1, n, absolute=self.absolute)
        if wanted is not None:
            self._model, self._wanted = model, max(wanted, self._wanted)
            campaign._planner.n_checks = self._wanted
        return None

    def _certified(self, model: Surrogate, X: FloatArray, labels: FloatArray) -> str | None:
        """The certificate of the surrogate that waited for its check runs, once they are all done."""
        campaign, journal = self.campaign, self.campaign.journal
        points = campaign._planner.check_points(self._wanted)
        if among(points, campaign.pending).any() or any(journal.at(x) is None for x in points):
            return None
        self._model = None
        if not len(X):
            return None
        with journal.transaction():
            look = journal.looks() + 1
            journal.set_meta("looks", look)
        found = model._certify(X, labels, independent=True, look=look).certificate
        if not found.reached(self.tolerance, absolute=self.absolute):
            return None
        campaign.surrogate = model
        worst, unit = found.worst(absolute=self.absolute), "" if self.absolute else " of its spread"
        return f"certified by {found.n_checks} check runs: the RMSE of every output is at most {worst:.3g}{unit}"


def make_crew(executor: Any, n_workers: int | None, task: Task) -> Crew:
    """The crew for an ``executor`` argument."""
    n = None if n_workers is None else check_count(n_workers, name="n_workers")
    if executor is None:
        return Inline(task)
    if executor == "threads":
        return Threads(task, n or os.cpu_count() or 1)
    if executor == "processes":
        return Processes(task, n or os.cpu_count() or 1)
    client = getattr(executor, "_client", executor)
    if type(client).__module__.split(".")[0] == "distributed":
        from steep.campaign.dask import Cluster

        return Cluster(task, executor, n)
    raise InputTypeError(
        f"executor={executor!r} is unknown; expected None, 'threads', 'processes', 'slurm' or a Dask client; elsewhere "
        "use ask() and tell()"
    )
