"""Runs on a Dask cluster: a worker that dies fails its own run, and no run is made twice.

Dask makes a task again, up to four times, when its worker dies. For a simulator that is wrong: the run that crashed
the worker would crash the next. So each attempt has a claim, an event of the scheduler's that is set before it is
submitted. The worker takes the claim back before it calls the function, and says where it is: when this worker is gone,
the run has failed. A task that finds no claim was begun before, on a worker that died, and answers so.

Dask keeps the answer of a task on its worker until somebody fetches it, and it is lost when the next run kills this
worker. So the answer itself travels as an event of the scheduler's, which the client hears before the task is over.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import distributed

from steep.campaign.simulate import Answer, Failure, Style, describe, pack, simulate, unpack
from steep.campaign.workers import Crew, Landing, Task
from steep.exceptions import CampaignError, InputTypeError

# Seconds between two looks: at the futures, at the workers.
_LOOK = 0.01
_ROLL_CALL = 2.0
# Seconds the scheduler may take to answer.
_SILENCE = 60.0
# Seconds without any worker before that is an error: a day for the first to come, as in the queue of a batch
# system, a quarter of an hour once there were some.
_FIRST_WORKER = 86_400.0
_NEXT_WORKER = 900.0
# Seconds each step of closing may take.
_GRACE = 10.0

_DIED = Answer([], None, Failure("worker", "the Dask worker died during this run"))


def run_once(claim: str, topic: str, serial: int, function: Callable[..., Any], style: Style, inputs: Any) -> Answer:
    """One attempt, on a worker."""
    client = distributed.get_client()
    event = _event(claim, client)
    if not event.is_set():
        return _DIED
    event.clear()
    client.log_event(topic, [serial, distributed.get_worker().address])
    answer = simulate(function, style, inputs, catch=BaseException)
    client.log_event(topic, [serial, pack(answer)])
    return answer


class Cluster(Crew):
    """A Dask cluster: a client, or the executor that ``client.get_executor()`` gives."""

    n = 0

    def __init__(self, task: Task, executor: Any, n: int | None) -> None:
        self.task = task
        # Each start of a run has a number of its own: a late answer is never taken for that of a retry.
        self._serials, self._flying = itertools.count(), dict[int, int]()
        self._client = getattr(executor, "_client", executor)
        if getattr(self._client, "asynchronous", False):
            raise InputTypeError(
                "executor belongs to an asynchronous Dask client; expected a plain one: Client(address)"
            )
        options = getattr(executor, "_kwargs", {})
        # Never "pure": a call with the same inputs would be taken for the same result, and a retry for no run.
        self._options = {key: value for key, value in options.items() if key != "retries"} | {"pure": False}
        self._wanted = n
        self._futures: dict[int, Any] = {}
        self._where: dict[int, str] = {}
        self._kept: dict[int, Answer] = {}
        self._name = f"steep-{uuid.uuid4().hex}"
        self._had_workers = False
        self._called = self._workers_seen = time.monotonic()
        self._check_client()
        self._roll_call()
        self._client.subscribe_topic(self._name, self._hear)

    def start(self, number: int, inputs: Any) -> None:
        """Submit one attempt with a claim of its own."""
        serial = next(self._serials)
        self._flying[serial] = number
        claim = f"{self._name}-{serial}"
        self._ask(_event(claim, self._client).set)
        try:
            self._futures[serial] = self._client.submit(
                run_once, claim, self._name, serial, self.task.function, self.task.style, inputs,
                **self._options, key=f"{claim}-run",
            )  # fmt: skip
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise InputTypeError(
                f"function cannot be sent to a Dask worker ({describe(error)}); define it with def at the top of a "
                "module that the workers can import"
            ) from error
        except Exception as error:  # whatever Dask says, it is about the cluster
            raise _lost(describe(error)) from error

    def _hear(self, event: tuple[float, tuple[int, str | bytes]]) -> None:
        """A worker took a claim back, so that its run begins, or left an answer; hearing it twice does no harm."""
        serial, news = event[1]
        if serial in self._flying and isinstance(news, bytes):
            self._kept[serial] = unpack(news)
        elif serial in self._flying:
            self._where[serial] = str(news)

    def landed(self, seconds: float) -> list[Landing]:
        """Runs that ended, were cancelled, or died with their worker."""
        deadline = time.monotonic() + seconds
        while True:
            self._check_client()
            found = [landing for serial in list(self._flying) if (landing := self._look(serial))]
            if found or time.monotonic() >= deadline:
                break
            time.sleep(_LOOK)
        if time.monotonic() - self._called > _ROLL_CALL:
            alive = self._roll_call()
            found += self._bury(alive)
        return found

    def _look(self, serial: int) -> Landing | None:
        """The answer of an attempt, once there is one."""
        future = self._futures[serial]
        if not _is_over(future):
            return None
        if future.cancelled():  # by somebody who wants no answer, though the worker may have left one
            self._kept.pop(serial, None)
        answer = self._kept.pop(serial) if serial in self._kept else self._answer(future)
        return self._land(serial, answer)

    def _land(self, serial: int, answer: Answer) -> Landing:
        self._futures.pop(serial)
        self._where.pop(serial, None)
        return self._flying.pop(serial), answer

    def _bury(self, alive: set[str]) -> list[Landing]:
        """Attempts whose worker is gone; Dask would wait for another one to make them again."""
        dead = [serial for serial in self._flying if serial in self._where and self._where[serial] not in alive]
        lost = {serial: self._futures[serial] for serial in dead if not _is_over(self._futures[serial])}
        if lost:
            for event in self._ask(lambda: self._client.get_events(self._name)):
                self._hear(event)  # an answer may still be on its way
            self._ask(lambda: self._client.cancel(list(lost.values())))
        return [self._land(serial, self._kept.pop(serial, _DIED)) for serial in lost]

    def _answer(self, future: Any) -> Answer:
        try:
            answer: Answer = future.result(timeout=_SILENCE)
        except BaseException as error:
            if getattr(error, "reason", "") == "scheduler-connection-lost":
                raise _lost("the connection to the scheduler broke") from error
            self._check_client()
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            cancelled = future.cancelled()
            reason = "the run was cancelled from outside" if cancelled else describe(error)
            return Answer([], None, Failure("worker", reason))
        return answer

    def _check_client(self) -> None:
        if self._client.status not in ("running", "newly-created"):
            raise _lost(f"the client is {self._client.status}")

    def _roll_call(self) -> set[str]:
        """Addresses of the workers; the scheduler's silence is an error, and so is a long time without any."""
        threads = self._ask(self._client.nthreads)
        now = self._called = time.monotonic()
        n_threads = sum(threads.values())
        self.n = n_threads if self._wanted is None else min(self._wanted, n_threads)
        if threads:
            self._had_workers, self._workers_seen = True, now
        elif now - self._workers_seen > (_NEXT_WORKER if self._had_workers else _FIRST_WORKER):
            raise CampaignError(
                f"the Dask cluster has had no worker for {now - self._workers_seen:.0f} s; start some; the same call "
                "resumes where the journal ends"
            )
        return set(threads)

    def _ask(self, call: Callable[[], Any]) -> Any:
        """What a call to the scheduler returns; an error when it does not answer."""
        return _within(_SILENCE, call)

    def close(self, *, at_once: bool) -> None:
        """Cancel what is left and take its claims back, as far as the scheduler still listens."""
        if self._client.status != "running":
            return
        left = list(self._futures.values())
        claims = [f"{self._name}-{serial}" for serial in self._futures]
        with contextlib.suppress(Exception):
            self._client.unsubscribe_topic(self._name)
            if left:
                _within(_GRACE, lambda: self._client.cancel(left))
            for claim in claims:
                _within(_GRACE, _event(claim, self._client).clear)


def _event(name: str, client: Any) -> Any:
    return distributed.Event(name, client=client)  # type: ignore[no-untyped-call,unused-ignore]


def _is_over(future: Any) -> bool:
    # "lost": the worker that held the answer died; Dask runs the task again, which finds no claim.
    return future.status not in ("pending", "lost")


def _within(seconds: float, call: Callable[[], Any]) -> Any:
    """What a call that may hang returns within its time."""
    found: list[Any] = []

    def attempt() -> None:
        try:
            found.append((call(), None))
        except BaseException as error:
            found.append((None, error))

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        raise _lost(f"its scheduler did not answer for {seconds:g} s")
    value, error = found[0]
    if error is not None:
        raise _lost(describe(error)) from error
    return value


def _lost(reason: str) -> CampaignError:
    return CampaignError(
        f"the Dask cluster is lost ({reason}); start its scheduler, make a new client and repeat the call: it resumes "
        "where the journal ends"
    )
