"""Variation Based Sampling: Algorithm 1 for any measure of variation, in one round or several.

    1   N, N', ε, n, n_GMM      n_initial, n_runs − n_initial; Taylor(epsilon, order, n_components)
    2   {x_1 … x_N} ~ U(S)                                     _start_points
    3-6 Df^n_ε(x_i)             any measure                    Measuring
    7   dP ∝ Df by a Gaussian mixture, or a pool               plan_round, VariationSampler
    8   {x̄_1 … x̄_N'} inside S                                  plan_round, EvenSequence
    9   f(x̄_i)                                                 Simulator
    10  both sets joined                                       Evaluated, Design

With more than one round, lines 3 to 10 repeat on all points so far. Everything happens in the unit cube, so ε is a
variance relative to each axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from steep._function import Function, PassAs
from steep._html import card, text_of
from steep._validation import FloatArray, Seed, check_count, check_generator, check_points, shown
from steep.domain import Bounds, Box, Constraint
from steep.exceptions import InputError
from steep.sampling.evaluated import Evaluated, Measuring, squeezed
from steep.sampling.hedge import Hedge
from steep.sampling.pool import EvenSequence, among
from steep.sampling.process import axis_relevance
from steep.sampling.round import Runs, plan_round
from steep.sampling.sampler import check_enough
from steep.sampling.simulator import Simulator
from steep.sampling.strategies import Strategy, check_strategy, initial_runs

if TYPE_CHECKING:
    import pandas as pd

# Rounds of an adaptive design; more of them gained nothing on the development functions.
_ROUNDS = 12
# Domains of whole numbers and categories up to this size are listed point by point.
_LISTED = 2**16


@dataclass(frozen=True)
class Design:
    """The points of a design, their results, and how they were chosen.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        All points in the user's units, the initial ones first.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Labels.
    variation : ndarray of shape (n_samples,)
        Variation where it was measured, before the last round; NaN elsewhere.
    is_initial : ndarray of bool
        Which points are initial ones.
    n_evaluations : int
        Function evaluations spent in all, those of the measure included.
    box : Box
        S, with the names and kinds of the inputs.
    is_even : ndarray of bool
        Which points stand for the whole of S: the initial ones and those that continue their Sobol sequence. The others
        were placed: they fill a density that follows the variation as far as ``hedge`` says.
    outputs : tuple of str, optional
        Names of the outputs.
    failed, messages : ndarray of shape (n_failed, n_features) and tuple of str
        Points at which the function failed, which are not in ``X``, and why; see :meth:`failures`.
    hedge : Hedge, optional
        How far the last round was concentrated, and why: ``print(plan.hedge)``; None where the strategy fixes it.
    is_check : ndarray of bool, optional
        Check runs, drawn evenly and independently for the certificate of a surrogate: nothing was placed by them.
    n_looks : int
        How often they were looked at.

    Examples
    --------
    >>> from steep import design
    >>> plan = design(lambda X: np.tanh(9 * X[:, 0]), {"u": (-1, 1)}, 16, random_state=0)
    >>> print(plan)
    Design of 16 runs over u: 4 initial, 0 even and 12 placed
    >>> list(plan.to_dataframe())
    ['u', 'f', 'is_initial', 'is_even']
    """

    X: FloatArray
    y: FloatArray
    variation: FloatArray
    is_initial: npt.NDArray[np.bool_]
    n_evaluations: int
    box: Box
    is_even: npt.NDArray[np.bool_]
    outputs: tuple[str, ...] | None = None
    failed: FloatArray | None = None
    messages: tuple[str, ...] = ()
    hedge: Hedge | None = None
    is_check: npt.NDArray[np.bool_] | None = None
    n_looks: int = 0

    @property
    def labels(self) -> FloatArray:
        """Labels as ``(n_samples, n_outputs)``, whatever their number."""
        return self.y.reshape(len(self.X), -1)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs: ``f``, or ``f0, f1, …`` where none were given."""
        n_outputs = self.labels.shape[1]
        if self.outputs is not None and len(self.outputs) == n_outputs:
            return self.outputs
        return ("f",) if n_outputs == 1 else tuple(f"f{i}" for i in range(n_outputs))

    @property
    def coordinates(self) -> FloatArray:
        """Points in the coordinates in which distances are taken: the unit cube, a category with one for each value."""
        return self.box.embed(self.box.unit(self.X))

    @property
    def is_placed(self) -> npt.NDArray[np.bool_]:
        """Which points were placed: neither initial nor even."""
        return ~(self.is_initial | self.is_even)

    @property
    def parts(self) -> str:
        """How many points are initial, even and placed, in words."""
        return "{:,} initial, {:,} even and {:,} placed".format(*self._n_parts)

    @property
    def _n_parts(self) -> tuple[int, int, int]:
        n_initial, n_placed = int(self.is_initial.sum()), int(self.is_placed.sum())
        return n_initial, len(self.X) - n_initial - n_placed, n_placed

    def steepness(self) -> FloatArray:
        """How much each input matters: root mean square slope of local fits, of geometric mean one."""
        unit = self.box.unit(self.X)
        widths = [axis.embed(unit[:1, i]).shape[1] for i, axis in enumerate(self.box.axes)]
        starts = np.cumsum([0, *widths[:-1]])  # a category matters as much as its most relevant value
        return np.asarray(np.maximum.reduceat(axis_relevance(self.coordinates, self.labels), starts))

    def plot(self, **options: Any) -> Any:
        """Draw the points with matplotlib, over one input or over the two steepest, and return the axes.

        The options are those of :func:`steep.plotting.plot_design`.
        """
        from steep.plotting import plot_design

        return plot_design(self, **options)

    def to_dataframe(self) -> pd.DataFrame:
        """Inputs by name, outputs, which points belong to the start, and which are even."""
        import pandas as pd

        frame = pd.DataFrame(self.box.decode(self.X), columns=list(self.box.names))
        for name, column in zip(self.output_names, self.labels.T, strict=True):
            frame[_free(name, frame)] = column
        frame[_free("is_initial", frame)] = self.is_initial
        frame[_free("is_even", frame)] = self.is_even
        return frame

    def failures(self) -> pd.DataFrame:
        """Points at which the function failed: inputs by name, and why."""
        import pandas as pd

        none = self.failed is None or not len(self.failed)
        rows = [] if none else self.box.decode(self.failed)
        frame = pd.DataFrame(rows, columns=list(self.box.names))
        frame[_free("message", frame)] = pd.Series(self.messages, dtype=object)
        return frame

    def __repr__(self) -> str:
        return f"Design of {len(self.X):,} runs over {', '.join(self.box.names)}: {self.parts}"

    def _repr_html_(self) -> str:
        parts = dict(zip(("initial", "even", "placed"), self._n_parts, strict=True))
        figures = {"points": len(self.X), **parts, "evaluations": self.n_evaluations}
        why = "" if self.hedge is None else f". {text_of(self.hedge)}"
        about = f"Inputs: {text_of(self.box)}{why}"
        return card("Design", about, figures, self.to_dataframe(), rows=8)


def _free(name: str, frame: pd.DataFrame) -> str:
    while name in frame.columns:
        name = f"{name}_"
    return name


def design(
    function: Function,
    bounds: Bounds | Box,
    n_runs: int,
    *,
    n_initial: int | None = None,
    strategy: Strategy | None = None,
    constraint: Constraint | None = None,
    fixed: Any = None,
    pass_as: PassAs = "auto",
    n_jobs: int | None = None,
    random_state: Seed = None,
) -> Design:
    """Choose where to evaluate ``function``: evenly spread points first, then points where its output varies most.

    Parameters
    ----------
    function : callable
        f, called with an ``(n, n_features)`` array in the units of ``bounds``; see ``pass_as``. It may return a
        mapping of output names to numbers. Points at which it fails, or is not finite, are left out; see
        ``Design.failures``.
    bounds : list of (low, high), mapping of name to (low, high), or Box
        The domain S. An entry may also be :class:`Log`, :class:`Integer` or :class:`Category`.
    n_runs : int
        All points, the initial ones included. A measure that evaluates the function needs more; see
        ``Design.n_evaluations``.
    n_initial : int, optional
        Evenly spread points at the start; default a quarter of ``n_runs``, at least 2(d+1) for d inputs.
    strategy : Strategy, optional
        How the other points are chosen: :class:`Adaptive` (default), :class:`Taylor` (Algorithm 1 as printed),
        :class:`Variance` (the third method of the paper) or :class:`Even` (Sobol points).
    constraint : callable, optional
        ``constraint(X)`` returns booleans: which points of the box belong to S.
    random_state : int, Generator or None
        Seed of the whole design.

    Other Parameters
    ----------------
    fixed : array-like of shape (n_fixed, n_features), optional
        Points that must be in the design: they come first and take the place of initial points.
    pass_as : {"auto", "array", "point", "keywords", "mapping"}, default "auto"
        How ``function`` gets its inputs: an array of all points, an array of one point, or one point by the names of
        the inputs. "auto" is keywords where its arguments have the names of two or more inputs, array otherwise.
    n_jobs : int, optional
        Points run at once, by joblib, if ``function`` takes one at a time; −1 is all processors. None is one, or
        what ``joblib.parallel_config`` says: within ``parallel_config("dask")`` they run on the cluster. The design is
        the same.

    Returns
    -------
    Design

    Notes
    -----
    ``function``, ``constraint`` and user-supplied measures and derivatives get copies. Finite differences that would
    leave S are taken at a nearby place, noise that would is reflected at the faces of the box and brought halfway back
    to its point until the constraint allows it.

    Examples
    --------
    >>> runge = lambda X: 1 / (1 + 25 * (X[:, 0] - 0.5) ** 2)
    >>> plan = design(runge, [(0, 1)], 16, random_state=0)
    >>> plan.X.shape, plan.y.shape, plan.n_evaluations
    ((16, 1), (16,), 16)
    """
    box, generator, chosen = Box(bounds, constraint=constraint), check_generator(random_state), check_strategy(strategy)
    simulator = Simulator(function, box, pass_as=pass_as, n_jobs=n_jobs)
    n_runs = check_count(n_runs, name="n_runs", minimum=2)
    n_initial = initial_runs(n_runs, box.n_features, chosen, n_initial)
    check_room(box, n_runs)
    growth = Growth(simulator, chosen, generator)
    growth.start(n_initial, fixed)
    n_rounds = chosen.rounds or (1 if growth.measuring.costs else _ROUNDS)
    # Rounds as equal as whole numbers allow, none empty.
    ends = np.round(np.linspace(0, n_runs - n_initial, min(n_rounds, n_runs - n_initial) + 1)).astype(int)
    for size in np.diff(ends).tolist():
        growth.add(size)
    simulator.warn_failed(len(growth.seen.X))
    return growth.design()


class Growth:
    """A design while it grows: what was run, in which order, and what comes next."""

    def __init__(self, simulator: Simulator, strategy: Strategy, generator: np.random.Generator) -> None:
        self.simulator, self.box, self.strategy, self.generator = simulator, simulator.box, strategy, generator
        self.measuring = Measuring(strategy, self.box, simulator.everywhere, generator)
        self.n_rounds, self.n_asked = 0, 0
        self.variation: FloatArray = np.empty(0)
        self.hedge: Hedge | None = None

    def start(self, n_initial: int, fixed: Any = None) -> None:
        """Line 2, run."""
        self.even, self.sequence = _start_points(self.box, n_initial, self.strategy.start, fixed, self.generator)
        self.seen = Evaluated.at(self.box, *self.simulator(self.even))
        self.n_started, self.n_asked = len(self.seen.X), n_initial

    def add(self, n: int) -> None:
        """One round of ``n`` runs."""
        box, simulator = self.box, self.simulator
        self.variation = self.measuring(self.seen)
        failed = np.vstack([self.even[:0], *simulator.failed])
        runs = Runs(self.seen, self.variation, among(self.seen.X, self.even), failed=failed)
        planned = plan_round(
            box, self.strategy, runs, n=n, number=self.n_rounds, sequence=self.sequence, generator=self.generator
        )
        self.n_rounds, self.n_asked, self.hedge = self.n_rounds + 1, self.n_asked + n, planned.hedge
        check_enough(box, len(planned.points), n)
        self.even = np.vstack([self.even, planned.points[: planned.n_even]])
        X, labels = simulator(planned.points)
        self.seen = self.seen.joined(Evaluated.at(box, X, labels)) if len(X) else self.seen

    def design(self) -> Design:
        """What was run so far."""
        n = len(self.seen.X)
        return Design(
            self.seen.X, squeezed(self.seen.labels),
            variation=np.concatenate([self.variation, np.full(n - len(self.variation), np.nan)]),
            is_initial=np.arange(n) < self.n_started,
            n_evaluations=self.simulator.n_evaluations + self.measuring.n_evaluations, box=self.box,
            is_even=among(self.seen.X, self.even), outputs=self.simulator.outputs,
            failed=np.vstack([self.even[:0], *self.simulator.failed]), messages=tuple(self.simulator.messages),
            hedge=self.hedge,
        )  # fmt: skip


def check_room(box: Box, n_points: int) -> None:
    """Reject a design of more points than the domain has, before anything is run."""
    n_held = len(box.every_point()) if box.n_points <= _LISTED else box.n_points
    if n_points > n_held:
        raise InputError(
            f"the domain holds {n_held:g} different points, n_runs asks for {n_points}; lower it or widen the bounds"
        )


def _start_points(
    box: Box, n_initial: int, laid: str, fixed: Any, generator: np.random.Generator
) -> tuple[FloatArray, EvenSequence]:
    """Line 2: the fixed points, then the start; and the sequence that goes on after it."""
    must: FloatArray = np.empty((0, box.n_features))
    if fixed is not None and not (isinstance(fixed, list | tuple) and not fixed):
        must = check_points(fixed, name="fixed", n_features=box.n_features).astype(np.float64)
        inside = box.contains(must)
        if not inside.all() or len(must) > n_initial:
            raise InputError(
                f"fixed has {len(must)} points, {int(inside.sum())} of them in {shown(box)}; expected points inside "
                f"the domain and at most n_initial={n_initial}"
            )
    n_open, sequence = n_initial - len(must), EvenSequence(box, generator)
    if n_open == 0:
        return must, sequence
    points = box.uniform(n_open, random_state=generator) if laid == "uniform" else sequence.first(n_open)
    if len(points) < n_open:  # the sequence gives up on very many, or where a constraint rejects nearly all
        points = box.sobol(n_open, random_state=generator)
    start = np.vstack([must, points])
    return (_each_once(box, start, generator) if box.n_points <= _LISTED else start), sequence


def _each_once(box: Box, start: FloatArray, generator: np.random.Generator) -> FloatArray:
    """The start with other points of a small domain in the place of those that come twice."""
    _, first = np.unique(start, axis=0, return_index=True)
    kept = start[np.sort(first)]
    if len(kept) == len(start):
        return start
    known = {tuple(x) for x in kept.tolist()}
    others = np.array([x for x in box.every_point().tolist() if tuple(x) not in known])
    more = generator.choice(len(others), len(start) - len(kept), replace=False)
    return np.vstack([kept, others[more]])
