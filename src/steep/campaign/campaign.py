"""Campaign: ask where to run a simulator, tell what came out, and never lose either."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from steep._validation import FloatArray, check_count, check_points
from steep.campaign.arguments import check_runs, label_rows, numbers_of
from steep.campaign.journal import Journal, Results, encode
from steep.campaign.liveness import forget_owner, new_owner
from steep.campaign.planner import Job, Planner
from steep.campaign.settings import Names, checked_outputs, is_named, reconcile, stored_box, stored_measure
from steep.campaign.simulate import Failure
from steep.campaign.surrogate_error import error_on_last
from steep.domain import Bounds, Box, Constraint
from steep.exceptions import CampaignError, InputError, StorageError
from steep.measures import Measure, resolve

if TYPE_CHECKING:
    import pandas as pd


class Campaign:
    """Choose runs of an expensive simulator one batch after another, with a journal on disk.

    Parameters
    ----------
    bounds : mapping of name to (low, high), Log, Integer or Category; or a list; or Box; optional
        S. May be left out when ``storage`` holds a campaign already; must agree with it otherwise. A
        mapping names the inputs, and a run gets them as keywords; a list gives it one array.
    outputs : sequence of str, optional
        Names of the outputs; default those of the first result, or ``y0, y1, …``.
    storage : str or path, default "campaign.db"
        The journal, a SQLite file, made when it is not there. Several processes of one machine may
        use it at the same time; put it on a local disk. ":memory:" keeps it nowhere.
    n_initial : int, optional
        Points of the Sobol start before the results decide; default 4(d+1), at least 8.
    constraint : callable, optional
        Which points of the box belong to S; see :class:`Box`. It is not stored.
    measure : str, Measure or callable(X, y), default "surprise"
        What counts as variation: any measure that compares labels. Its name is stored; one of your own
        has to be passed again when the file is opened again.
    random_state : int, optional
        Seed, stored: a campaign resumes with the stream it was started with. Default 0.

    Attributes
    ----------
    box : Box
        S.
    unsaved : list of (run, label, names)
        Results that could not be written yet, as on a full disk; the next call writes them first.

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
        storage: str | PathLike[str] = "campaign.db",
        n_initial: int | None = None,
        constraint: Constraint | None = None,
        measure: str | Measure | Callable[[Any, Any], Any] | None = None,
        random_state: int | None = None,
    ) -> None:
        box = None if bounds is None else Box(bounds, constraint=constraint)
        names = None if outputs is None else checked_outputs(outputs)
        self.n_initial = None if n_initial is None else check_runs(n_initial, name="n_initial")
        seed = None if random_state is None else check_count(random_state, name="random_state", minimum=0)
        chosen = None if measure is None else resolve(measure, use="Campaign", feeds=("labels",))
        self.journal = Journal(storage, create=box is not None)
        try:
            named = None if bounds is None else is_named(bounds)
            meta = reconcile(self.journal, box, names, seed, named, chosen)
            self.box = box or stored_box(self.journal, meta, constraint)
            self.named = bool(meta["named"] if named is None else named)
            self.measure = chosen or stored_measure(self.journal, meta)
            self._owner = new_owner()
            self.journal.register(self._owner)
        except BaseException:
            self.journal.close()
            raise
        self._results = Results(self.journal, self.box)
        self._planner = Planner(
            self.journal, self.box, self._results, owner=self._owner, seed=meta["seed"], measure=self.measure
        )
        self.unsaved: list[tuple[int, FloatArray, Names | None]] = []
        self._unreleased: list[int] = []

    # ---------------------------------------------------------------- ask and tell

    def ask(self, n: int = 1) -> FloatArray:
        """Points to run next, in the user's units; committed as pending before they are returned.

        Runs that were in flight in a process that died come first, again. Fewer than ``n`` when S has
        no more points, as a domain of whole numbers may.
        """
        jobs = self.ask_jobs(check_runs(n, name="n"))
        if not jobs:
            raise CampaignError(
                f"no new point was found in {self.box!r}: {self.n_done} runs are done, {len(self.pending)} pending "
                f"and {self.n_failed} failed; widen the bounds"
            )
        return np.array([x for _, x in jobs])

    def ask_jobs(self, n: int, *, limit: int | None = None, n_initial: int | None = None) -> list[Job]:
        """Runs to make next with their numbers, at most until the campaign has ``limit`` runs in all."""
        self._flush()
        start = n_initial or self.n_initial or max(8, 4 * (self.box.n_features + 1))
        return self._planner.ask(n, n_initial=start, limit=limit)

    def tell(self, X: Any, y: Any) -> None:
        """Record results, one transaction for all rows.

        Points that were never asked, or lie outside S, are kept as foreign data and marked so; those
        inside S help to choose the next points. A result told twice is kept once.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Points.
        y : array-like of shape (n,) or (n, n_outputs)
            Their results. For one point a vector is its outputs.
        """
        points = numbers_of("X", lambda: check_points(X, n_features=self.box.n_features))
        self.tell_named(points, label_rows(y, len(points)), None)

    def tell_named(self, points: FloatArray, values: FloatArray, names: Names | None) -> None:
        """Record results whose columns have names, in any order."""
        self._flush()
        with self.journal.transaction():
            for x, label in zip(points, self._aligned(values, names), strict=True):
                self._tell_one(x, label)

    def _tell_one(self, x: FloatArray, label: FloatArray) -> None:
        known = self.journal.at(x)
        if known is not None and known[1] is not None:
            if known[1] != encode(label):
                raise InputError(
                    f"run {known[0]} at {x.tolist()} has another result already; nothing was recorded; leave it out"
                )
            return
        number = (
            self.journal.add(x[None], origin="foreign", owner=self._owner)[0] if known is None else known[0]
        )
        self.journal.finish(number, label)

    def _aligned(self, values: FloatArray, names: Names | None) -> FloatArray:
        """Rows of results in the order of the outputs, which the first one decides, inside a transaction.

        Another process may have been first: what the file says counts.
        """
        outputs = self.journal.outputs()
        if outputs is None:
            first = names or tuple(f"y{i}" for i in range(values.shape[1]))
            outputs = checked_outputs(first)
            self.journal.set_meta("outputs", list(outputs))
        if names is not None and set(names) != set(outputs):
            raise InputError(
                f"outputs are {sorted(names)}, need {sorted(outputs)} as in every run of {self.journal.path!r}; "
                "nothing was recorded; return every one by its name"
            )
        if values.shape[1] != len(outputs):
            raise InputError(
                f"y has {values.shape[1]} outputs, need {len(outputs)} ({', '.join(outputs)}) as in every run of "
                f"{self.journal.path!r}; nothing was recorded"
            )
        return values if names is None else values[:, [names.index(name) for name in outputs]]

    def tell_failure(self, X: Any, message: str = "told as failed", *, retries: int = 0) -> None:
        """Record that pending runs failed; a run is asked again until it failed more than ``retries`` times."""
        retries = check_count(retries, name="retries", minimum=0)
        points = numbers_of("X", lambda: check_points(X, n_features=self.box.n_features))
        self._flush()
        with self.journal.transaction():
            for x in points:
                number = self.journal.pending_at(x)
                if number is None:
                    raise InputError(
                        f"{x.tolist()} is not pending; nothing was recorded; tell failures of points that were asked"
                    )
                if self.journal.fail(number, Failure("told", str(message)), retries=retries):
                    self.journal.release([number])

    # ---------------------------------------------------------------- what a runner says

    def finish_job(self, number: int, values: Any, names: Names | None) -> None:
        """Record the result of one run by its number; kept in ``unsaved`` when it cannot be written."""
        label = np.asarray(values, dtype=np.float64)
        if not label.size:
            raise InputError("the run returned no outputs; need at least one number")
        try:
            self._flush()
            with self.journal.transaction():
                self.journal.finish(number, self._aligned(label[None], names)[0])
        except StorageError:
            self.unsaved.append((number, label, names))
            raise

    def fail_job(self, number: int, failure: Failure, *, retries: int) -> bool:
        """Record a failed attempt of one run; True when it may be tried again."""
        with self.journal.transaction():
            return self.journal.fail(number, failure, retries=retries)

    def release(self, numbers: Iterable[int]) -> None:
        """Let go of runs in flight: they are asked again by whoever asks next."""
        # Noted first: where the file cannot be written now, the next call does it.
        self._unreleased.extend(numbers)
        self._flush()

    def _flush(self) -> None:
        """Commit what a full disk kept back."""
        if not self.unsaved and not self._unreleased:
            return
        with self.journal.transaction():
            for number, label, names in self.unsaved:
                try:
                    self.journal.finish(number, self._aligned(label[None], names)[0])
                except InputError as wrong:  # another process named the outputs otherwise in the meantime
                    self.journal.fail(number, Failure("shape", str(wrong)), retries=0)
            self.journal.release(self._unreleased)
        self.unsaved, self._unreleased = [], []

    # ---------------------------------------------------------------- what is known

    @property
    def outputs(self) -> Names | None:
        """Names of the outputs; None before the first result of a campaign that did not name them."""
        return self.journal.outputs()

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
        return self.journal.points("pending", self.box.n_features)

    @property
    def n_done(self) -> int:
        """Runs with a result, foreign ones included."""
        return self.journal.count("done")

    @property
    def n_failed(self) -> int:
        """Runs given up."""
        return self.journal.count("failed")

    @property
    def n_asked(self) -> int:
        """Runs the campaign chose, whatever became of them; foreign ones are none of them."""
        return self.journal.count_asked()

    def estimated_error(self, n_last: int | None = None) -> float:
        """Error of a surrogate on the last results, predicted from those before; see the guide.

        Root mean square over the last ``n_last`` results (default a tenth, at least 10), in standard
        deviations of the output; the worst output counts. NaN as long as there are too few results.
        """
        X, labels = self._results.told()
        n_last = max(10, len(X) // 10) if n_last is None else check_runs(n_last, name="n_last")
        if len(X) <= n_last:
            return float("nan")
        return error_on_last(self.box.embed(self.box.unit(X)), labels, n_last)

    def failures(self) -> pd.DataFrame:
        """Every attempt that went wrong: inputs, kind, message, traceback, whether it was given up."""
        from steep.campaign import tables

        return tables.failures(self)

    def to_dataframe(self) -> pd.DataFrame:
        """All runs: inputs, outputs, state, origin (initial, design or foreign) and whether inside S.

        An output or a mark named like an input gets an underscore at its end.
        """
        from steep.campaign import tables

        return tables.to_dataframe(self)

    def load_dataframe(self, frame: pd.DataFrame) -> None:
        """Tell results kept elsewhere: a column for each input and each output, by name."""
        from steep.campaign import tables

        tables.load_dataframe(self, frame)

    # ---------------------------------------------------------------- running

    def run(
        self,
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
    ) -> Self:
        """Run the simulator until ``n_initial + n_samples`` runs are done or given up.

        Repeated after a crash, the same call resumes where the journal ends.

        Parameters
        ----------
        function : callable
            One run: ``function(u0=…, t=…)`` when the inputs have names, ``function(x)`` otherwise; see
            ``pass_as``. Returns a number, a sequence, or a mapping of output names to numbers. Each
            attempt gets inputs of its own, which it may change.
        n_initial, n_samples : int
            Start, and runs placed by the results; runs already in the journal count.
        batch_size : int, optional
            Points planned at once; 1 plans each from all results so far. Default 1/32 of the budget,
            at least one for each worker.
        executor : None, "threads", "processes" or an executor, optional
            Where runs happen: here, in threads, in processes that are replaced when they die, or in
            anything with ``submit``: ``client.get_executor()`` of Dask, ``mpi4py.futures``.
        n_workers : int, optional
            Runs at the same time; default what the executor offers.
        retries : int, default 1
            Attempts after the first before a run is given up and its surroundings avoided.
        timeout : float, optional
            Seconds a run may take, from the moment the function is called. A process is killed with
            all it started and replaced; a thread cannot be stopped: it runs until it ends by
            itself, another takes its place, and its result is dropped. An executor of the caller's
            does not say when a run begins, so its time counts from ``submit``.
        stop_when : mapping or callable, optional
            Stop before the budget is spent: ``{"runs": n, "seconds": s, "error": e}``, any of them, or
            ``stop_when(campaign) -> bool``, looked at after each run. The error is
            :meth:`estimated_error`. Runs in flight are finished first.
        pass_as : {"auto", "keywords", "array", "mapping"}, default "auto"
            How a run gets its inputs; "auto" is keywords for named bounds and an array for a list.
        progress : bool, optional
            Show a bar on stderr; default when it is a terminal.
        live : callable, optional
            ``live(campaign)`` is called after each result: redraw a plot there.

        Returns
        -------
        Campaign
            This one.
        """
        from steep.campaign.runner import run_campaign

        run_campaign(
            self, function, n_initial=n_initial, n_samples=n_samples, batch_size=batch_size, executor=executor,
            n_workers=n_workers, retries=retries, timeout=timeout, stop_when=stop_when, pass_as=pass_as,
            progress=progress, live=live,
        )  # fmt: skip
        return self

    def close(self) -> None:
        """Close the journal; runs still in flight are asked again by the next campaign on this file.

        Results that could not be written are tried once more; while that fails the campaign stays open.
        """
        if self.journal.is_closed:
            return
        try:
            self._flush()
        except StorageError as error:
            if self.unsaved:
                raise StorageError(
                    f"{len(self.unsaved)} results are not in the file yet ({error}); make room and close again, or "
                    "take them from campaign.unsaved"
                ) from error
        forget_owner(self._owner)
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
            forget_owner(self._owner)

    def __repr__(self) -> str:
        return f"Campaign({self.journal.path!r}: {self.n_done} done, {self.n_failed} failed, {self.box!r})"
