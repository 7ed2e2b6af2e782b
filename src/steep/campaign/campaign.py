"""Campaign: ask where to run a simulator, tell what came out, and never lose either."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from steep._validation import FloatArray, check_count, check_points
from steep.campaign.journal import Journal, Results, encode, forget_owner, new_owner
from steep.campaign.planner import Job, Planner
from steep.campaign.simulate import Failure
from steep.domain import Bounds, Box, Constraint
from steep.domain.axes import axis_from_key
from steep.exceptions import CampaignError, InputError, InputTypeError, SteepError, StorageError
from steep.interpolation import error_on_last
from steep.measures import Measure, resolve

if TYPE_CHECKING:
    import pandas as pd

    from steep.campaign.live import LivePlot
    from steep.sampling import Design

# More runs than this are a slip of the pen.
_MOST_RUNS = 10**9

# The measure a campaign follows unless told otherwise.
_DEFAULT = "surprise"

Names = tuple[str, ...]


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
        names = None if outputs is None else _checked_outputs(outputs)
        self.n_initial = None if n_initial is None else check_runs(n_initial, name="n_initial")
        seed = None if random_state is None else check_count(random_state, name="random_state", minimum=0)
        chosen = None if measure is None else resolve(measure, use="Campaign", feeds=("labels",))
        self.journal = Journal(storage, create=box is not None)
        try:
            named = None if bounds is None else _is_named(bounds)
            meta = _reconcile(self.journal, box, names, seed, named, chosen)
            self.box = box or stored_box(self.journal, meta, constraint)
            self.named = bool(meta["named"] if named is None else named)
            self.measure = chosen or _stored_measure(self.journal, meta)
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
        points = _numbers("X", lambda: check_points(X, n_features=self.box.n_features))
        self.tell_named(points, _label_rows(y, len(points)), None)

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
            outputs = _checked_outputs(first)
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
        points = _numbers("X", lambda: check_points(X, n_features=self.box.n_features))
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

    def begin_session(self, budget: int) -> None:
        """Note that running begins, so that others can tell how far it is."""
        self.journal.begin_session(self._owner, budget)

    def end_session(self, outcome: str) -> None:
        """Note how running ended; a file that cannot be written says nothing, and its owner's end tells."""
        with contextlib.suppress(StorageError):
            self.journal.end_session(self._owner, outcome)

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

    # ---------------------------------------------------------------- looking

    def to_design(self) -> Design:
        """The results as a :class:`steep.Design`, in the order they were told; foreign ones outside S left out."""
        from steep.campaign.views import design_of

        return design_of(self)

    def plot(self, kind: str = "overview", **options: Any) -> Any:
        """Draw the campaign with matplotlib.

        Parameters
        ----------
        kind : {"overview", "points", "error", "slices"}, default "overview"
            Points of the two steepest inputs beside the error; or what :meth:`steep.Design.plot` draws.
        **options
            See there.

        Returns
        -------
        Axes or ndarray of Axes
        """
        from steep.campaign.views import plot_campaign

        return plot_campaign(self, kind, **options)

    def watch(self, *, interval: float = 2.0, path: str | PathLike[str] | None = None) -> LivePlot:
        """A picture of this campaign that is drawn again as results come in.

        Hand it to :meth:`run` as ``live=campaign.watch()``; or call ``campaign.watch().follow(seconds=600)`` on a
        campaign that another process runs.

        Parameters
        ----------
        interval : float, default 2
            Seconds between two pictures, at least.
        path : str or path, optional
            A file to write each picture to (.svg, .pdf or .png); needed where there is no notebook.

        Returns
        -------
        LivePlot
        """
        from steep.campaign.live import LivePlot

        return LivePlot(self, interval=interval, path=path)

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
            ``live(campaign)`` is called after each result: ``campaign.watch()`` redraws a picture then.

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

    def _repr_html_(self) -> str:
        from steep.campaign.views import campaign_card

        return campaign_card(self)

    def __repr__(self) -> str:
        return f"Campaign({self.journal.path!r}: {self.n_done} done, {self.n_failed} failed, {self.box!r})"


# ---------------------------------------------------------------- what a campaign is about


def _reconcile(
    journal: Journal,
    box: Box | None,
    outputs: Names | None,
    seed: int | None,
    named: bool | None,
    measure: Measure | None,
) -> dict[str, Any]:
    """Write what a new campaign is about, or check that an old one is about the same."""
    with journal.transaction():
        meta = journal.meta()
        fresh: dict[str, Any] = {}
        if meta:
            _check_same(journal, meta, box, outputs, seed)
            _check_measure(journal, meta, measure)
            if outputs is not None and meta["outputs"] is None:
                fresh = {"outputs": list(outputs)}
        elif box is None:
            raise InputError(f"storage {journal.path!r} holds no campaign yet; pass bounds")
        else:
            fresh = {
                "names": list(box.names),
                "axes": [_axis_key(name, axis) for name, axis in zip(box.names, box.axes, strict=True)],
                "named": named,
                "outputs": None if outputs is None else list(outputs),
                "seed": seed or 0,
                "plans": 0,
                "measure": _DEFAULT if measure is None else measure.name,
            }
        for key, value in fresh.items():
            journal.set_meta(key, value)
        return meta | fresh


def _check_same(
    journal: Journal, meta: dict[str, Any], box: Box | None, outputs: Names | None, seed: int | None
) -> None:
    stored, path = stored_box(journal, meta), journal.path
    if box is not None and (box.names, box.axes) != (stored.names, stored.axes):
        raise InputError(f"bounds are {box!r} but storage {path!r} has {stored!r}; use those or another file")
    if outputs is not None and meta["outputs"] not in (None, list(outputs)):
        raise InputError(
            f"outputs are {list(outputs)} but storage {path!r} has {meta['outputs']}; use those or another file"
        )
    if seed is not None and seed != meta["seed"]:
        raise InputError(
            f"random_state={seed} but storage {path!r} was started with {meta['seed']}; leave it out"
        )


def stored_box(journal: Journal, meta: dict[str, Any], constraint: Constraint | None = None) -> Box:
    """The domain of a stored campaign."""
    try:
        seed = meta["seed"]
        if {"named", "outputs", "plans"} - set(meta) or not isinstance(seed, int) or seed < 0:
            raise ValueError(f"its meta table has {sorted(meta)} and the seed {seed!r}")
        axes = map(axis_from_key, meta["axes"])
        return Box(dict(zip(meta["names"], axes, strict=True)), constraint=constraint)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, SteepError) as error:
        raise journal.damaged(f"what it is about cannot be read ({error!r})") from error


def _check_measure(journal: Journal, meta: dict[str, Any], measure: Measure | None) -> None:
    # Files that were made before there was a choice have no such entry.
    stored = meta.get("measure", _DEFAULT)
    if measure is not None and measure.name != stored:
        raise InputError(
            f"measure={measure.name!r} but storage {journal.path!r} was started with {stored!r}; use that or another "
            "file"
        )


def _stored_measure(journal: Journal, meta: dict[str, Any]) -> Measure:
    """The measure a stored campaign follows."""
    stored = meta.get("measure", _DEFAULT)
    if not isinstance(stored, str):
        raise journal.damaged(f"its measure is {stored!r}")
    try:
        return resolve(stored, use="Campaign", feeds=("labels",))
    except InputError as error:
        raise InputError(
            f"storage {journal.path!r} was started with the measure {stored!r}, which is none of steep's; pass "
            "measure= again"
        ) from error


def _axis_key(name: str, axis: Any) -> list[Any]:
    """An axis as the file keeps it; one that would not come back the same is refused."""
    key = list(axis.key())
    try:
        again = axis_from_key(json.loads(json.dumps(key, allow_nan=False)))
        same = again == axis
    except (TypeError, ValueError, RecursionError, SteepError):
        same = False
    if not same:
        raise InputError(
            f"axis {name!r} is {axis!r}, whose values a file cannot keep; use strings, whole numbers or other "
            "plain numbers for them"
        )
    return key


def _is_named(bounds: Any) -> bool:
    """Whether the inputs have names of their own."""
    if isinstance(bounds, Box):
        return bounds.names != tuple(f"x{i}" for i in range(bounds.n_features))
    return isinstance(bounds, Mapping)


def _checked_outputs(outputs: Any) -> Names:
    if isinstance(outputs, str) or not isinstance(outputs, Sequence):
        raise InputTypeError(f"outputs is {outputs!r}; need a list of names")
    names = tuple(outputs)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InputError(f"outputs are {list(names)}; need one or more different names")
    return tuple(str(name) for name in names)


# ---------------------------------------------------------------- numbers


def check_runs(value: Any, *, name: str, minimum: int = 1) -> int:
    """Return a number of runs, within what a campaign can be."""
    count = check_count(value, name=name, minimum=minimum)
    if count > _MOST_RUNS:
        raise InputError(f"{name} is above {_MOST_RUNS}; need fewer runs")
    return count


def _numbers(name: str, read: Callable[[], FloatArray]) -> FloatArray:
    """What ``read`` returns, as float64 of our own."""
    try:
        return np.array(read(), dtype=np.float64)
    except SteepError:
        raise
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{name} is no array of numbers ({error}); need finite numbers in rows") from error


def _label_rows(y: Any, n: int) -> FloatArray:
    """Results as ``(n, n_outputs)``; never transposed by guessing."""
    values = _numbers("y", lambda: check_points(_as_rows(y, n), name="y"))
    if len(values) != n:
        raise InputError(f"y has {len(values)} rows for {n} points; need one row, or one number, for each")
    return values


def _as_rows(y: Any, n: int) -> Any:
    shape = np.shape(y) if not hasattr(y, "shape") else y.shape
    if len(shape) > 1:
        return y
    # One point: a vector is its outputs.
    return np.reshape(np.asarray(y), (1, -1) if n == 1 else (-1, 1))
