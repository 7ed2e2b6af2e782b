"""Campaign: ask where to run a simulator, tell what came out, and never lose either."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np

from steep._function import check_signature
from steep._progress import progress_bar
from steep._validation import FloatArray, check_choice, check_count, check_points, check_real
from steep.campaign import results, slurm, status
from steep.campaign.journal import Journal, StoreGoneError, forget_owner, new_owner
from steep.campaign.planner import Job, Planner
from steep.campaign.results import aligned, check_runs, labels_of, run_numbers
from steep.campaign.runner import Loop, Streak, make_crew, stopper
from steep.campaign.schema import (
    Names,
    checked_outputs,
    checked_strategy,
    constrained_box,
    is_named,
    reconcile,
    stored_box,
    stored_strategy,
)
from steep.campaign.simulate import Failure, Style
from steep.campaign.workers import Task
from steep.domain import Bounds, Box, Constraint
from steep.exceptions import CampaignError, InputError, InputTypeError, StorageError, warn_user
from steep.sampling.strategies import Strategy, initial_runs

if TYPE_CHECKING:
    import pandas as pd

    from steep.sampling import Design
    from steep.surrogate import Surrogate


class Campaign:
    """Choose runs of an expensive simulator batch by batch, and keep every result on disk.

    Parameters
    ----------
    bounds : mapping of name to (low, high), Log, Integer or Category; or a list; or Box; optional
        S. May be left out when ``storage`` holds a campaign already; must agree with it otherwise. A
        mapping names the inputs, and a run gets them as keywords; a list gives it one array.
    outputs : sequence of str, optional
        Names of the outputs; default those of the first result, or ``y0, y1, …``.
    storage : str or path, default "campaign.db"
        The journal, a SQLite file, made when it does not exist. Several processes of one machine may
        use it at the same time; on a network file system one. ":memory:" keeps it nowhere.
    n_initial : int, optional
        Points of the Sobol start before the results decide. Default a quarter of the runs of the first :meth:`run`, at
        least 2(d+1); 4(d+1), at least 8, where :meth:`ask` comes first.
    constraint : str or callable, optional
        Which points of the box belong to S: text over the named inputs, as ``"u0 * t <= 5 and t > 1"``, which is
        stored; or a function, see :class:`Box`, which has to be passed again when the file is opened again.
    strategy : Adaptive, Variance or Even, default Adaptive()
        How runs are chosen; see :func:`steep.design`. It is stored; with a user-supplied measure it has to be passed
        again when the file is opened again.
    random_state : int, optional
        Seed, stored: a campaign resumes with the stream it was started with. Default 0.

    Attributes
    ----------
    box : Box
        S.
    unsaved : list of (run, label, names)
        Results that could not be written yet, as on a full disk; the next call writes them first.
    stop_reason : str or None
        Why ``stop_when`` ended the last :meth:`run` of this object; None where it did not.
    surrogate : Surrogate or None
        The surrogate whose certified error ended it.

    Examples
    --------
    >>> campaign = Campaign({"u0": (0.0, 1.0), "t": (0.0, 10.0)}, storage=":memory:")
    >>> X = campaign.ask(4)
    >>> campaign.tell(X, X[:, 0] * np.exp(-X[:, 1]))
    >>> campaign.n_done, len(campaign.pending)
    (4, 0)
    >>> campaign.run(lambda u0, t: u0 * np.exp(-t), 20).n_done
    20
    """

    def __init__(
        self,
        bounds: Bounds | Box | None = None,
        *,
        outputs: Sequence[str] | None = None,
        storage: str | PathLike[str] = "campaign.db",
        n_initial: int | None = None,
        constraint: str | Constraint | None = None,
        strategy: Strategy | None = None,
        random_state: int | None = None,
    ) -> None:
        box = None if bounds is None else constrained_box(Box(bounds), constraint)
        names = None if outputs is None else checked_outputs(outputs)
        self.n_initial = None if n_initial is None else check_runs(n_initial, name="n_initial")
        seed = None if random_state is None else check_count(random_state, name="random_state", minimum=0)
        chosen = None if strategy is None else checked_strategy(strategy)
        self.journal = Journal(storage, create=box is not None)
        try:
            named = None if bounds is None else is_named(bounds)
            meta = reconcile(self.journal, box, names, seed, named, chosen, self.n_initial, constraint)
            meta["named"] = meta["named"] if named is None else named
            self._settle(meta, box or stored_box(self.journal, meta, constraint), chosen)
            self.journal.register(self._owner)
        except BaseException:
            self.journal.close()
            raise

    def _settle(self, meta: dict[str, Any], box: Box, strategy: Strategy | None, *, warns: bool = True) -> None:
        """Begin with what the file is about."""
        self.box, self.named = box, bool(meta["named"])
        self.strategy = strategy or stored_strategy(self.journal, meta)
        self.n_initial = self.n_initial or meta.get("n_initial")
        self._owner: str = new_owner()
        self._seed = meta["seed"]
        self._revision = self.journal.revision()
        self._lacks_constraint = bool(meta.get("constrained")) and box.constraint is None
        if self._lacks_constraint and warns:
            warn_user(f"{self._without_constraint()}; until then points outside it count as points of the domain")
        self.unsaved: list[tuple[int, FloatArray, Names | None]] = []
        self.stop_reason: str | None = None
        self.surrogate: Surrogate | None = None
        self._unreleased: list[int] = []
        self._read_anew()

    def _without_constraint(self) -> str:
        return (
            f"storage {self.journal.path!r} has a constraint that is a function, which a file cannot keep; pass "
            'constraint= again, or name it in the TOML file of the campaign as constraint = "module:function"'
        )

    def _read_anew(self) -> None:
        self.results = results.Results(self.journal, self.box)
        self._planner = Planner(
            self.journal, self.box, self.results, owner=self._owner, seed=self._seed, strategy=self.strategy
        )

    def _catch_up(self) -> None:
        """Write what a full disk kept back; notice what this or another process changed afterwards."""
        self._flush()
        revision = self.journal.revision()
        if revision != self._revision:
            self.box = stored_box(self.journal, self.journal.meta(), self.box.constraint)
            self._read_anew()
            self._revision = revision

    # ---------------------------------------------------------------- ask and tell

    @overload
    def ask(self, n: int = 1, *, lease: None = None) -> FloatArray: ...

    @overload
    def ask(self, n: int = 1, *, lease: str | float | timedelta) -> pd.DataFrame: ...

    def ask(self, n: int = 1, *, lease: str | float | timedelta | None = None) -> FloatArray | pd.DataFrame:
        """Points to run next, in the user's units; committed as pending before they are returned.

        Runs that were in flight in a process that died, or whose lease is over, come first, again. Fewer than
        ``n`` when S has no more points, as a domain of whole numbers may.

        Parameters
        ----------
        n : int, default 1
            How many.
        lease : str, number of seconds or timedelta, optional
            For runs made without a living process, as by a batch system: "12 h", "30 min". Until then no one else gets
            these points, even when this process ends; afterwards they are asked again.

        Returns
        -------
        ndarray of shape (n, n_features) or DataFrame
            With a lease a frame: ``run``, the number to :meth:`tell` the result by; the inputs, by name; ``expires``.
        """
        count = check_runs(n, name="n")
        until = None if lease is None else time.time() + results.check_seconds(lease, name="lease")
        jobs = self._ask(count, lease=until)
        if not jobs:
            raise CampaignError(
                f"no new point was found in {self.box!r}: {self.n_done} runs are done, {len(self.pending)} pending "
                f"and {self.n_failed} failed; widen the bounds"
            )
        if until is None:
            return np.array([x for _, x in jobs])
        return results.asked(self, jobs, until)

    def _ask(
        self, n: int, *, limit: int | None = None, n_initial: int | None = None, lease: float | None = None
    ) -> list[Job]:
        """Runs to make next with their numbers, at most until the campaign has ``limit`` runs in all."""
        self._catch_up()
        if self._lacks_constraint:
            raise InputError(f"{self._without_constraint()}, to ask for points")
        return self._planner.ask(n, n_initial=n_initial or self._n_initial_of(None), limit=limit, lease=lease)

    def _n_initial_of(self, n_runs: int | None) -> int:
        """Points of the start: those given or stored, those made when the plan began, or the default."""
        if self.n_initial is not None:
            return self.n_initial
        if self.journal.count_asked("design"):
            return max(1, self.journal.count_asked("initial"))
        n_features = self.box.n_features
        return max(8, 4 * (n_features + 1)) if n_runs is None else initial_runs(n_runs, n_features, self.strategy, None)

    def tell(self, X: Any = None, y: Any = None, *, run: Any = None) -> None:
        """Record results by their points or by the numbers of their runs, one transaction for all rows.

        Points that were never asked, or lie outside S, are kept as foreign data and marked so; those
        inside S help to choose the next points. A result told twice is kept once.

        Parameters
        ----------
        X : array-like of shape (n, n_features), DataFrame or mapping of name to n values
            Points; or pass ``run``. Columns with names are matched by name, whatever their order. A point may be off
            the pending one it means by 1e-5 of each axis, as programs round what they print.
        y : array-like of shape (n,) or (n, n_outputs), DataFrame or mapping of name to n numbers
            Their results, matched by name where they have names. For one point a vector is its outputs.
        run : int or sequence of int
            Numbers of runs as :meth:`ask` with a lease, or :meth:`to_dataframe`, gives them; from any process.
        """
        if (X is None) == (run is None):
            raise InputTypeError("tell() takes either points X or run numbers run=, not both; pass one of them")
        if run is None:
            points = results.numbers_of("X", lambda: self.box.points(X))
            return self._tell_named(points, *labels_of(y, len(points)))
        numbers = run_numbers(run)
        values, names = labels_of(y, len(numbers))
        self._catch_up()
        with self.journal.transaction():
            for number, label in zip(numbers, aligned(self.journal, values, names), strict=True):
                results.tell_run(self.journal, number, label)
        return None

    def _tell_named(self, points: FloatArray, values: FloatArray, names: Names | None) -> None:
        """Record results whose columns have names, in any order."""
        points = results.numbers_of("X", lambda: check_points(points, n_features=self.box.n_features))
        self._catch_up()
        with self.journal.transaction():
            results.tell_points(self, points, values, names)

    def tell_failure(
        self, X: Any = None, message: str = "told as failed", *, run: Any = None, retries: int = 0
    ) -> None:
        """Record that pending runs failed; a run is asked again until it failed more than ``retries`` times.

        Runs are given by their points, up to rounding, or by their numbers ``run``.
        """
        if (X is None) == (run is None):
            raise InputTypeError("tell_failure needs points X or the numbers run=, one of them")
        retries = check_count(retries, name="retries", minimum=0)
        chosen = None if run is None else run_numbers(run)
        points = np.empty((0, 0)) if chosen else results.numbers_of("X", lambda: self.box.points(X))
        self._catch_up()
        with self.journal.transaction():
            for number in chosen or results.pending_numbers(self, points):
                state = results.known_run(self.journal, number)[2]
                if state != "pending":
                    raise InputError(f"run {number} is {state}, not pending; nothing was recorded")
                if self.journal.fail(number, Failure("told", str(message)), retries=retries):
                    self.journal.each("release", [number])

    # ---------------------------------------------------------------- what is changed afterwards

    def correct(self, run: Any, y: Any, *, reason: str = "") -> None:
        """Replace the results of runs, by their numbers; what they were stays in :meth:`events`."""
        numbers, journal = run_numbers(run), self.journal
        values, names = labels_of(y, len(numbers))
        self._catch_up()
        with journal.transaction():
            for number, label in zip(numbers, aligned(journal, values, names), strict=True):
                _, before, state = results.known_run(journal, number)
                if state != "done":
                    raise InputError(
                        f"run {number} is {state} and has no result to correct; nothing was recorded; tell it"
                    )
                old = [None if np.isnan(value) else value for value in journal.labels([before])[0]]
                journal.correct(number, label)
                journal.record("corrected", {"from": old, "to": label.tolist(), "reason": str(reason)}, run=number)
            journal.revise()

    def retry_failures(self, run: Any = None) -> int:
        """Ask failed runs again, for example after a mistake in the function was fixed; returns how many.

        Parameters
        ----------
        run : int or sequence of int, optional
            Their numbers; runs that were not given up are left out. Default all that were.
        """
        chosen = None if run is None else {*run_numbers(run, once=False)}
        self._catch_up()
        with self.journal.transaction():
            failed, _ = self.journal.numbered_points("failed", self.box.n_features)
            numbers = [number for number in failed if chosen is None or number in chosen]
            self.journal.each("reopen", numbers)
            for number in numbers:
                self.journal.record("retried", {}, run=number)
        return len(numbers)

    def forget(self, run: Any, *, reason: str = "") -> int:
        """Leave runs out of everything: results, failures, budget; returns how many.

        Parameters
        ----------
        run : int or sequence of int
            Their numbers. Their rows stay in the file as "forgotten".
        reason : str, optional
            Kept in :meth:`events`.
        """
        numbers = run_numbers(run, once=False)
        self._catch_up()
        with self.journal.transaction():
            for number in numbers:
                state = results.known_run(self.journal, number)[2]
                self.journal.record("forgotten", {"state": state, "reason": str(reason)}, run=number)
            self.journal.each("forget", numbers)
            self.journal.revise()
        return len(numbers)

    def events(self) -> pd.DataFrame:
        """Every change of what was recorded before: when, its kind, the run, what it was and what it became."""
        return results.events(self)

    # ---------------------------------------------------------------- what a runner says

    def _finish(self, number: int, values: Any, names: Names | None) -> None:
        """Record the result of one run by its number; kept in ``unsaved`` when it cannot be written."""
        label = np.asarray(values, dtype=np.float64)
        if not label.size:
            raise InputError("the run returned no outputs; expected at least one number")
        try:
            self._flush()
            with self.journal.transaction():
                self.journal.finish(number, aligned(self.journal, label[None], names)[0])
        except (InputError, StoreGoneError):  # nothing to keep, or kept in a copy
            raise
        except BaseException:  # Ctrl-C as well: the run is made, whatever happens
            self._keep(number, values, names)
            raise

    def _keep(self, number: int, values: Any, names: Names | None) -> None:
        """Note a result in memory; the next call writes it."""
        self.unsaved.append((number, np.asarray(values, dtype=np.float64), names))

    def _end(self, outcome: str) -> None:
        """Note how running ended; of a file that cannot be written, the end of this process says so."""
        try:
            self.journal.end_session(self._owner, outcome)
        except StoreGoneError:
            raise
        except StorageError:
            return

    def _release(self, numbers: Iterable[int]) -> None:
        """Let go of runs in flight: they are asked again by the next caller."""
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
                    self.journal.finish(number, aligned(self.journal, label[None], names)[0])
                except InputError as wrong:  # another process named the outputs otherwise in the meantime
                    self.journal.fail(number, Failure("shape", str(wrong)), retries=0)
            self.journal.each("release", self._unreleased)
        self.unsaved, self._unreleased = [], []

    # ---------------------------------------------------------------- what is known

    @property
    def outputs(self) -> Names | None:
        """Names of the outputs; None before the first result of a campaign that did not name them."""
        return self.journal.outputs()

    @property
    def X(self) -> FloatArray:  # noqa: N802 - the ecosystem's name
        """Points with a result, in the order they were recorded; foreign points outside S left out."""
        self._catch_up()
        return self.results.told()[0].copy()

    @property
    def y(self) -> FloatArray:
        """Their results, ``(n, n_outputs)``, or ``(n,)`` for one output; NaN where an output was added later."""
        self._catch_up()
        labels = self.results.told()[1].copy()
        return labels[:, 0] if labels.shape[1] == 1 else labels

    @property
    def pending(self) -> FloatArray:
        """Points that were asked and have no result yet."""
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
        """Runs the campaign chose, in any state; foreign ones are not counted."""
        return self.journal.count_asked()

    def status(self) -> status.Status:
        """Runs done, running, failed and left, the rate and the time left: also while another process runs it."""
        return status.status_of(self)

    def failures(self) -> pd.DataFrame:
        """Every attempt that went wrong: inputs, kind, message, traceback, whether it was given up."""
        self._catch_up()
        return results.failures(self)

    def to_dataframe(self) -> pd.DataFrame:
        """All runs: inputs, outputs, state, origin (initial, design, check or foreign) and whether inside S.

        An output or a mark named like an input gets an underscore at its end.
        """
        self._catch_up()
        return results.to_dataframe(self)

    def tell_dataframe(self, frame: pd.DataFrame, *, retries: int = 0) -> None:
        """Record results by the numbers of their runs, from any process: columns ``run`` and one per output.

        Rows without any output are left out; a text in the column ``error``, if there is one, tells that the run
        failed, and it is asked again until it failed more than ``retries`` times. Inputs, if given too,
        must be those of the run.
        """
        retries = check_count(retries, name="retries", minimum=0)
        self._catch_up()
        results.tell_dataframe(self, frame, retries=retries)

    def load_dataframe(self, frame: pd.DataFrame, *, outputs: Sequence[str] | None = None) -> None:
        """Tell runs made elsewhere: a column for each input and each output, by name; failed ones have an ``error``.

        Rows that lack an output are left out with a warning. Other columns are left out: with ``outputs``, or once
        the outputs are known; before, every other column is an output.
        """
        self._catch_up()
        results.load_dataframe(self, frame, None if outputs is None else checked_outputs(outputs))

    # ---------------------------------------------------------------- looking

    def to_design(self) -> Design:
        """The results as a :class:`steep.Design`, in the order they were recorded; foreign ones outside S left out."""
        return status.design_of(self)

    def plot(self, **options: Any) -> Any:
        """Draw the points with matplotlib, failed ones as crosses.

        The options are those of :meth:`steep.Design.plot`.

        Returns
        -------
        Axes
        """
        return self.to_design().plot(failed=self.journal.points("failed", self.box.n_features), **options)

    # ---------------------------------------------------------------- running

    def run(
        self,
        function: Callable[..., Any],
        n_runs: int,
        *,
        executor: Any = None,
        n_workers: int | None = None,
        retries: int = 1,
        timeout: float | None = None,
        max_failures: int | None = 20,
        stop_when: Mapping[str, float] | Callable[[Campaign], bool] | None = None,
        pass_as: Literal["auto", "keywords", "array", "mapping"] = "auto",
        progress: bool | None = None,
    ) -> Self:
        """Run the simulator until there are ``n_runs`` runs in all, done or given up.

        Repeated after a crash, the same call resumes where the journal ends.

        Parameters
        ----------
        function : callable
            One run: ``function(u0=…, t=…)`` when the inputs have names, ``function(x)`` otherwise; see
            ``pass_as``. Returns a number, a sequence, or a mapping of output names to numbers. Each
            attempt gets inputs of its own, which it may change.
        n_runs : int
            Runs in all; those in the journal count, foreign ones do not. The first of them are an even start: see
            ``n_initial`` of :class:`Campaign`.
        executor : None, "threads", "processes", "slurm" or a Dask client, optional
            How runs are made: here, in threads, in processes that are replaced when they die, in job arrays of SLURM
            (see :class:`steep.campaign.Slurm`) or on a Dask cluster (its client, or ``client.get_executor()``).
            What is in the queue of SLURM goes on when this call is interrupted.
        n_workers : int, optional
            Runs at the same time; default what the executor offers.
        timeout : float, optional
            Seconds a run may take, from the moment the function is called, with "processes" and "slurm": then it is
            killed with all it started. Threads and Dask cannot stop a run; for programs pass
            ``command_simulator(timeout=)``.
        stop_when : mapping or callable, optional
            Stop before the budget is spent: ``{"runs": n, "seconds": s, "error": e}``, any of them, or
            ``stop_when(campaign) -> bool``, looked at after each run. An error is reached when the RMSE of the
            campaign's :class:`steep.Surrogate` is certified to be at most ``e`` times the spread of each output, or at
            most ``e`` for "absolute_error". Some of the runs are then check runs, which place no others.
            Runs in flight are finished first; ``stop_reason`` says why it stopped.

        Other Parameters
        ----------------
        retries : int, default 1
            Attempts after the first before a run is given up and its surroundings avoided.
        max_failures : int or None, default 20
            Stop with an error when that many runs in a row fail in the same way, or the first 5 of the call: most
            likely by a mistake. Those runs are not given up. With None failures never stop the call.
        pass_as : {"auto", "keywords", "array", "mapping"}, default "auto"
            How a run gets its inputs; "auto" is keywords for named bounds and an array for a list.
        progress : bool, optional
            Show a bar on stderr; default when it is a terminal.

        Returns
        -------
        Campaign
            This one.
        """
        if not callable(function):
            raise InputTypeError(f"function is a {type(function).__name__}; expected a callable of one point")
        check_choice(pass_as, name="pass_as", choices=("auto", "keywords", "array", "mapping"))
        style: Style = ("keywords" if self.named else "array") if pass_as == "auto" else pass_as
        check_signature(function, style, self.box.names)
        total = check_runs(n_runs, name="n_runs")
        retries = check_count(retries, name="retries", minimum=0)
        on_slurm = executor == "slurm" or isinstance(executor, slurm.Slurm)
        if timeout is not None and executor != "processes" and not on_slurm:
            raise InputError(
                "timeout needs executor='processes' or 'slurm', which can stop a run; for programs pass "
                "command_simulator(timeout=)"
            )
        seconds = None if timeout is None else check_real(timeout, name="timeout", above=0.0)
        streak = Streak(max_failures)
        n_initial = self._n_initial_of(total)
        stop = stopper(self, stop_when, n_initial)
        self.stop_reason, self.surrogate = None, None
        if on_slurm:
            how = slurm.Slurm(in_flight=n_workers) if executor == "slurm" else executor
            first = slurm.submit(
                self, function, total, how, style=style, retries=retries, timeout=seconds,
                max_failures=streak.most,
            )  # fmt: skip
            slurm.run(self, first, stopper=stop)
            return self
        crew = make_crew(executor, n_workers, Task(function, style, seconds))
        batch = max(crew.n, -(-total // 32))
        at_once, outcome = True, "interrupted"
        try:
            self.n_initial = n_initial  # how long the start is, for good
            self.journal.begin_session(self._owner, total, n_initial)
            with progress_bar(total=total, label="runs", done=self.n_done, shown=progress) as bar:
                loop = Loop(self, crew, style, retries, streak, stop, bar)
                loop.run(lambda: self._ask(batch, limit=total, n_initial=n_initial))
            at_once, outcome = False, "stopped" if loop.stopped else "finished"
        finally:
            crew.close(at_once=at_once)
            self._end(outcome)
        if not loop.stopped and self.n_asked < total:
            warn_user(
                f"the campaign ended with {self.n_asked} of {total} runs: no new point was found in {self.box!r}; "
                "widen the bounds or ask for fewer runs"
            )
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
                    f"{len(self.unsaved)} results are not in the file yet ({error}); make room and close again"
                    f"{results.write_unsaved(self, self._owner[:8])}"
                ) from error
        forget_owner(self._owner)
        try:
            self.journal.unregister(self._owner)
        except StoreGoneError:
            raise
        except StorageError:
            pass  # a file that cannot be written keeps a stale name, which no living campaign bears
        finally:
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

    def _repr_html_(self) -> str:
        return status.campaign_card(self)

    def __repr__(self) -> str:
        return f"Campaign({self.journal.path!r}: {self.n_done} done, {self.n_failed} failed, {self.box!r})"


class ReadCampaign(Campaign):
    """A campaign to look at: its file is opened for reading only, as on a disk that cannot be written.

    Without its ``constraint`` it warns, if ``warns``.
    """

    def __init__(
        self, storage: str | PathLike[str], *, constraint: str | Constraint | None = None, warns: bool = True
    ) -> None:
        self.journal, self.n_initial = Journal(storage, create=False, read_only=True), None
        try:
            meta = self.journal.meta()
            if not meta:
                raise InputError(f"storage {self.journal.path!r} has no campaign yet; run one first")
            self._settle(meta, stored_box(self.journal, meta, constraint), None, warns=warns)
        except BaseException:
            self.journal.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        forget_owner(self._owner)
        self.journal.close()
