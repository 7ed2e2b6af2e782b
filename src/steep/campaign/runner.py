"""The loop that keeps a simulator busy: a new run starts as soon as one ends, wherever it runs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from steep._validation import check_choice, check_count, check_real
from steep.campaign.progress import Progress
from steep.campaign.simulate import Style, outputs_of, simulate
from steep.campaign.workers import Workers
from steep.exceptions import InputError, InputTypeError

if TYPE_CHECKING:
    from steep.campaign.asking import Job
    from steep.campaign.campaign import Campaign

# Seconds between two looks at the clock while nothing ends.
_PACE = 0.05
_STOPS = ("runs", "seconds", "error")


def run_campaign(
    campaign: Campaign,
    function: Callable[..., Any],
    *,
    n_initial: int,
    n_samples: int,
    batch_size: int | None = None,
    executor: Any = None,
    n_workers: int | None = None,
    retries: int = 1,
    timeout: float | None = None,
    stop_when: Mapping[str, float] | Callable[[Campaign], bool] | None = None,
    pass_as: Literal["auto", "keywords", "array", "mapping"] = "auto",
    progress: bool | None = None,
    live: Callable[[Campaign], Any] | None = None,
) -> None:
    """Run a campaign to its end.

    Parameters
    ----------
    campaign : Campaign
        What to run, and where it is kept.
    function : callable
        One run: ``function(u0=…, t=…)`` when the inputs have names, ``function(x)`` otherwise; see
        ``pass_as``. Returns a number, a sequence, or a mapping of output names to numbers.
    n_initial, n_samples : int
        Start, and runs placed by the results; runs already in the journal count.
    batch_size : int, optional
        Points planned at once; 1 plans each from all results so far. Default 1/32 of the budget, at
        least one for each worker.
    executor : None, "threads", "processes" or an executor, optional
        Where runs happen: here, in threads, in processes that are replaced when they die, or in
        anything with ``submit``: ``client.get_executor()`` of Dask, ``mpi4py.futures``.
    n_workers : int, optional
        Runs at the same time; default what the executor offers.
    retries : int, default 1
        Attempts after the first before a run is given up and its surroundings avoided.
    timeout : float, optional
        Seconds a run may take. Processes are killed and replaced; other executors cannot stop a run,
        its worker stays busy until it ends by itself and its result is dropped.
    stop_when : mapping or callable, optional
        Stop before the budget is spent: ``{"runs": n, "seconds": s, "error": e}``, any of them, or
        ``stop_when(campaign) -> bool``, looked at after each run. The error is
        :meth:`Campaign.estimated_error`. Runs in flight are finished first.
    pass_as : {"auto", "keywords", "array", "mapping"}, default "auto"
        How a run gets its inputs; "auto" is keywords for named bounds and an array for a list.
    progress : bool, optional
        Show a bar on stderr; default when it is a terminal.
    live : callable, optional
        ``live(campaign)`` is called after each result: redraw a plot there.
    """
    if not callable(function):
        raise InputTypeError(f"function is a {type(function).__name__}; need a callable of one point")
    check_choice(pass_as, name="pass_as", choices=("auto", "keywords", "array", "mapping"))
    total = check_count(n_initial, name="n_initial") + check_count(n_samples, name="n_samples", minimum=0)
    with Workers(executor, n_workers) as workers:
        if timeout is not None and workers.inline:
            raise InputError(
                "timeout needs an executor: 'processes', or command_simulator(timeout=) for programs"
            )
        style = ("keywords" if campaign.named else "array") if pass_as == "auto" else pass_as
        size = (
            max(workers.n, -(-total // 32))
            if batch_size is None
            else check_count(batch_size, name="batch_size")
        )
        loop = _Loop(campaign, function, style, workers)
        loop.retries = check_count(retries, name="retries", minimum=0)
        loop.timeout = None if timeout is None else check_real(timeout, name="timeout", above=0.0)
        loop.plan = lambda: campaign.ask_jobs(size, limit=total, n_initial=n_initial)
        loop.stop = _stopper(campaign, stop_when)
        loop.live = live
        loop.progress = Progress(total, campaign.n_done, shown=progress)
        loop.run()


class _Loop:
    """Runs waiting, runs in flight, and what happens when one ends."""

    retries: int
    timeout: float | None
    plan: Callable[[], list[Job]]
    stop: Callable[[], bool]
    live: Callable[[Campaign], Any] | None
    progress: Progress

    def __init__(
        self, campaign: Campaign, function: Callable[..., Any], style: Style, workers: Workers
    ) -> None:
        self.campaign, self.function, self.style, self.workers = campaign, function, style, workers
        self.waiting: deque[Job] = deque()
        self.flying: dict[Future[Any], tuple[Job, float]] = {}
        # Runs that were in flight when a pool broke: flown alone, so that the culprit is known.
        self.suspects: deque[Job] = deque()

    def run(self) -> None:
        try:
            while self._launch():
                done, _ = wait(self.flying, timeout=_PACE, return_when=FIRST_COMPLETED)
                for future in done:
                    self._land(future)
                self._expire()
                self._show()
        finally:
            jobs = [job for job, _ in self.flying.values()] + [*self.waiting, *self.suspects]
            self.campaign.release(number for number, _ in jobs)
        self._show(last=True)

    def _launch(self) -> bool:
        """Fill the free workers; False when nothing is in flight and nothing is left to do."""
        while self.suspects and not self.flying:
            self._submit(self.suspects.popleft())
        stopping = self.stop()
        while not self.suspects and len(self.flying) < self.workers.n and not stopping:
            if not self.waiting:
                self.waiting.extend(self.plan())
            if not self.waiting:
                break
            self._submit(self.waiting.popleft())
            stopping = self.workers.inline or stopping
        return bool(self.flying)

    def _submit(self, job: Job) -> None:
        x = job[1]
        inputs = x if self.style == "array" else self.campaign.box.decode(x[None])[0]
        self.suspects.append(job)  # in case the executor refuses it: nothing is forgotten
        try:
            future = self.workers.submit(simulate, self.function, self.style, inputs)
        except BrokenProcessPool:
            self.workers.replace()
            future = self.workers.submit(simulate, self.function, self.style, inputs)
        self.suspects.pop()
        self.flying[future] = (job, time.monotonic())

    def _land(self, future: Future[Any]) -> None:
        if future not in self.flying:
            return None
        job, _ = self.flying.pop(future)
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            return self._broken(job, error)
        if error is not None:
            return self._fail(job, ("worker", f"{type(error).__name__}: {error}", ""))
        value, report = future.result()
        if report is not None:
            return self._fail(job, report)
        try:
            vector, names = outputs_of(value, self.campaign.outputs)
        except InputError as wrong:
            return self._fail(job, ("shape", str(wrong), ""))
        if not np.isfinite(vector).all():
            return self._fail(job, ("nan", f"outputs are {vector.tolist()}; need finite numbers", ""))
        self.campaign.finish_job(job[0], vector, names)
        if self.live is not None:
            self.live(self.campaign)
        return None

    def _fail(self, job: Job, report: tuple[str, str, str]) -> None:
        if self.campaign.fail_job(job[0], report, retries=self.retries):
            self.waiting.append(job)

    def _broken(self, job: Job, error: BaseException) -> None:
        """A process died: every run in flight fell with it, one of them is to blame."""
        self.suspects.extend([job, *(other for other, _ in self.flying.values())])
        alone = not self.flying
        self.flying.clear()
        self.workers.replace()
        if alone:
            self._fail(self.suspects.pop(), ("worker", f"the worker process died: {error}", ""))

    def _expire(self) -> None:
        if self.timeout is None:
            return
        now = time.monotonic()
        late = [f for f, (_, start) in self.flying.items() if now - start > self.timeout and not f.done()]
        if not late:
            return
        jobs = [self.flying.pop(future)[0] for future in late]
        if self.workers.killable:
            self.waiting.extendleft(job for job, _ in self.flying.values())
            self.flying.clear()
            self.workers.replace(kill=True)
        for future in late:
            future.cancel()
        for job in jobs:
            self._fail(job, ("timeout", f"the run took more than {self.timeout:g} s", ""))

    def _show(self, *, last: bool = False) -> None:
        if self.progress.shown:
            done, failed = self.campaign.n_done, self.campaign.n_failed
            self.progress.update(done=done, running=len(self.flying), failed=failed, last=last)


def _stopper(campaign: Campaign, stop_when: Any) -> Callable[[], bool]:
    if stop_when is None:
        return lambda: False
    if callable(stop_when):
        return lambda: bool(stop_when(campaign))
    unknown = [name for name in stop_when if name not in _STOPS]
    if unknown:
        raise InputError(
            f"stop_when has unknown entries {unknown}; need some of {', '.join(_STOPS)}, or a callable"
        )
    started = time.monotonic()
    judged = {"at": -1, "error": float("nan")}

    def reached() -> bool:
        if campaign.n_done >= stop_when.get("runs", np.inf):
            return True
        if time.monotonic() - started >= stop_when.get("seconds", np.inf):
            return True
        if "error" in stop_when and campaign.n_done != judged["at"]:
            judged["at"], judged["error"] = campaign.n_done, campaign.estimated_error()
        return "error" in stop_when and judged["error"] <= stop_when["error"]

    return reached
