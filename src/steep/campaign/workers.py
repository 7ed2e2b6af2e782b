"""Where runs happen: in this thread, in threads or processes of our own, or in an executor given."""

from __future__ import annotations

import os
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from types import TracebackType
from typing import Any, Self

from steep._validation import check_count
from steep.exceptions import CampaignError, InputTypeError


class InlineExecutor(Executor):
    """Runs at once, in the caller's thread."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call the function and return a future that is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Workers:
    """An executor with a known number of workers; our own process pool is replaced when it breaks."""

    def __init__(self, executor: Any, n_workers: int | None) -> None:
        self.kind = executor if isinstance(executor, str) or executor is None else "given"
        if self.kind not in (None, "threads", "processes", "given") or (
            self.kind == "given" and not callable(getattr(executor, "submit", None))
        ):
            raise InputTypeError(
                f"executor={executor!r} is unknown; need None, 'threads', 'processes' or an object with submit(), "
                "as client.get_executor() of Dask gives"
            )
        self.n = 1 if executor is None else n_workers or _offered(executor)
        self.n = check_count(self.n, name="n_workers")
        self._pool: Any = executor if self.kind == "given" else self._make()

    @property
    def inline(self) -> bool:
        """Whether runs happen in this thread."""
        return self.kind is None

    @property
    def killable(self) -> bool:
        """Whether a run can be stopped."""
        return self.kind == "processes"

    def _make(self) -> Executor:
        if self.kind is None:
            return InlineExecutor()
        if self.kind == "threads":
            return ThreadPoolExecutor(self.n)
        return ProcessPoolExecutor(self.n, mp_context=_clean_context())

    def submit(self, function: Any, *args: Any) -> Future[Any]:
        """Start a run."""
        future: Future[Any] = self._pool.submit(function, *args)
        return future

    def replace(self, *, kill: bool = False) -> None:
        """Put a new pool in place of a broken or busy one."""
        if self.kind != "processes":
            raise CampaignError(
                "the executor broke: a worker process died; pass executor='processes', which is replaced when it "
                "breaks, or make a new executor; the same call goes on where the journal ends"
            )
        if kill:
            self._kill()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._make()

    def _kill(self) -> None:
        for process in list((getattr(self._pool, "_processes", None) or {}).values()):
            process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.kind == "given":
            return
        if kind is not None:
            self._kill()
        # Every run that counts has ended; a thread that is over its time is not waited for.
        self._pool.shutdown(wait=self.killable and kind is None, cancel_futures=True)


def _clean_context() -> BaseContext:
    """Processes that inherit no threads: forking one that has some may lock up.

    A server that imported steep once hands out new ones quickly; where there is none, each starts anew.
    """
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["steep.campaign.simulate"])
    return context


def _offered(executor: Any) -> int:
    """Workers an executor says it has."""
    for name in ("_max_workers", "num_workers"):
        if isinstance(getattr(executor, name, None), int):
            return int(getattr(executor, name))
    client = getattr(executor, "_client", None)
    if client is not None and hasattr(client, "ncores"):
        return max(1, int(sum(client.ncores().values())))
    return os.cpu_count() or 1
