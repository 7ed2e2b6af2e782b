"""What a design is: points, labels, how they came about, and how to look at them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from steep._html import card, text_of
from steep._validation import FloatArray, check_choice
from steep.domain import Box
from steep.expected_error import ErrorEstimate, estimate_error
from steep.sampling.hedge import Hedge
from steep.sampling.process import input_relevance

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("points", "error", "slices")


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
    box : Box, optional
        S, with the names and kinds of the inputs.
    outputs : tuple of str, optional
        Names of the outputs.
    failed, messages : ndarray of shape (n_failed, n_features) and tuple of str
        Points at which the function failed, which are not in ``X``, and why; see :meth:`failures`.
    is_even : ndarray of bool, optional
        Which points stand for the whole of S: the initial ones and those that continue their Sobol sequence. The others
        were placed: they fill a density that follows the variation as far as ``hedge`` says.
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
    box: Box | None = None
    outputs: tuple[str, ...] | None = None
    failed: FloatArray | None = None
    messages: tuple[str, ...] = ()
    is_even: npt.NDArray[np.bool_] | None = None
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
    def domain(self) -> Box:
        """``box``, or the smallest one around the points."""
        if self.box is not None:
            return self.box
        low, high = self.X.min(axis=0), self.X.max(axis=0)
        return Box([(a, b if b > a else a + 1.0) for a, b in zip(low.tolist(), high.tolist(), strict=True)])

    @property
    def coordinates(self) -> FloatArray:
        """Points in the coordinates in which distances are taken: the unit cube, a category with one for each value."""
        return self.domain.embed(self.domain.unit(self.X))

    @property
    def is_placed(self) -> npt.NDArray[np.bool_]:
        """Which points were placed: neither initial nor even."""
        return ~self.is_initial if self.is_even is None else ~self.is_initial & ~self.is_even

    @property
    def parts(self) -> str:
        """How many points are initial, even and placed, in words."""
        return "{:,} initial, {:,} even and {:,} placed".format(*self._n_parts)

    @property
    def _n_parts(self) -> tuple[int, int, int]:
        n_initial, n_placed = int(self.is_initial.sum()), int(self.is_placed.sum())
        return n_initial, len(self.X) - n_initial - n_placed, n_placed

    def estimated_error(self) -> ErrorEstimate:
        """Error of a surrogate over S, with an interval; see :meth:`steep.Campaign.estimated_error`."""
        even = np.ones(len(self.X), dtype=bool) if self.is_even is None else self.is_even
        return estimate_error(self.coordinates, self.labels, even)

    def steepness(self) -> FloatArray:
        """How much each input matters: root mean square slope of local fits, of geometric mean one."""
        return input_relevance(self.domain, self.X, self.labels)

    def plot(self, kind: str = "points", **options: Any) -> Any:
        """Draw the design with matplotlib and return its axes.

        ``kind`` is "points" (over one input, or over the two steepest; the default), "error" (how the error fell
        with the runs) or "slices" (the surrogate cut through the point where it errs most). For the options see
        :func:`steep.plotting.plot_design`, :func:`steep.plotting.plot_error` and :func:`steep.plotting.plot_slices`.
        """
        from steep import plotting

        check_choice(kind, name="kind", choices=KINDS)
        draw: dict[str, Callable[..., Any]] = {
            "points": plotting.plot_design, "error": plotting.plot_error, "slices": plotting.plot_slices
        }  # fmt: skip
        return draw[kind](self, **options)

    def to_dataframe(self) -> pd.DataFrame:
        """Inputs by name, outputs, which points belong to the start, and which are even, where that is known."""
        import pandas as pd

        frame = pd.DataFrame(self.domain.decode(self.X), columns=list(self.domain.names))
        for name, column in zip(self.output_names, self.labels.T, strict=True):
            frame[_free(name, frame)] = column
        frame[_free("is_initial", frame)] = self.is_initial
        if self.is_even is not None:
            frame[_free("is_even", frame)] = self.is_even
        return frame

    def failures(self) -> pd.DataFrame:
        """Points at which the function failed: inputs by name, and why."""
        import pandas as pd

        none = self.failed is None or not len(self.failed)
        rows = [] if none else self.domain.decode(self.failed)
        frame = pd.DataFrame(rows, columns=list(self.domain.names))
        frame[_free("message", frame)] = pd.Series(self.messages, dtype=object)
        return frame

    def __repr__(self) -> str:
        return f"Design of {len(self.X):,} runs over {', '.join(self.domain.names)}: {self.parts}"

    def _repr_html_(self) -> str:
        parts = dict(zip(("initial", "even", "placed"), self._n_parts, strict=True))
        figures = {"points": len(self.X), **parts, "evaluations": self.n_evaluations}
        why = "" if self.hedge is None else f". {text_of(self.hedge)}"
        about = f"Inputs: {text_of(self.domain)}{why}"
        return card("Design", about, figures, self.to_dataframe(), rows=8)


def _free(name: str, frame: pd.DataFrame) -> str:
    """A name no column has yet."""
    while name in frame.columns:
        name = f"{name}_"
    return name
