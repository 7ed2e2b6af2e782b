"""How a design or a campaign chooses its runs: one small class for each way.

    Adaptive    even runs and runs placed where the labels vary, as far as the runs so far show that it pays
    Taylor      Algorithm 1 of the paper: Eq. dn from derivatives, a Gaussian mixture, independent draws, one round
    Variance    the third method of the paper: the local variance of the labels (Eq. Dhat2), drawn in the same way
    Even        a Sobol sequence, whatever the labels are

A strategy holds numbers and names only; :mod:`steep.sampling.round` plans by them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from steep._validation import FloatArray, check_count, shown
from steep.exceptions import InputError, InputTypeError
from steep.measures import Measure, resolve
from steep.measures.taylor import Derivatives

# From this many coordinates on, draws alternate and each coordinate gets its own length scale.
MANY_INPUTS = 5


class Strategy:
    """What a round reads from a strategy: the values of Algorithm 1, of which each strategy changes some.

    ``temper``, ``floor`` and ``n_components`` are those of :class:`VariationSampler`; ``start`` is how the initial
    points are chosen; ``hedges`` whether the runs so far decide how many of the next ones are placed.
    """

    measure: str | Measure | Callable[[FloatArray, FloatArray], Any] | None = None
    rounds: int | None = 1
    order: int = 2
    epsilon: Any = 1e-3
    derivatives: Derivatives | None = None
    n_neighbors: int | None = None
    n_components: int = 3
    temper: float = 1.0
    floor: float = 0.0
    start: Literal["uniform", "sobol"] = "uniform"
    hedges: bool = False

    def resolved(self, *, use: str = "design", feeds: Any = ("function", "labels")) -> Measure | None:
        """The measure that is followed, if any; an error where ``use`` cannot feed it."""
        measure = "surprise" if self.hedges else self.measure
        return None if measure is None else resolve(measure, use=use, feeds=feeds)

    def draw_in(self, n_coordinates: int, number: int) -> Literal["random", "fill", "doubt"]:
        """How round ``number`` draws from the density."""
        return "random"


@dataclass(frozen=True)
class Adaptive(Strategy):
    """Even runs, and runs placed where the outputs vary; the default of designs and campaigns.

    Parameters
    ----------
    measure : str, Measure or callable(X, y), default "auto"
        What counts as variation. "auto" is "surprise", which costs no evaluation; the runs so far then decide in each
        round how far to follow it (``Design.hedge``). Any other measure is followed as it is. "taylor" and
        "perturbation" evaluate the function around each point; see ``Design.n_evaluations``.
    rounds : int, optional
        How often the variation is measured; default 12, or 1 for a measure that costs evaluations. A campaign plans
        whenever points are asked for.
    epsilon : float or array of shape (n_features,), default 1e-3
        Variance of the noise of "perturbation", relative to each axis, and ε of "taylor".

    Examples
    --------
    >>> import steep
    >>> plan = steep.design(lambda X: X[:, 0] ** 3, [(0, 1)], 16, strategy=steep.Adaptive("variance"), random_state=0)
    >>> len(plan.X), plan.hedge is None
    (16, True)
    """

    measure: str | Measure | Callable[[FloatArray, FloatArray], Any] = "auto"
    rounds: int | None = None
    epsilon: Any = 1e-3

    temper = 0.6
    floor = 0.15
    start = "sobol"

    def __post_init__(self) -> None:
        """Check the fields."""
        if self.rounds is not None:
            check_count(self.rounds, name="rounds")

    @property
    def hedges(self) -> bool:  # type: ignore[override]
        """Whether the runs so far decide how many of the next ones are placed."""
        name = self.measure.name if isinstance(self.measure, Measure) else self.measure
        return isinstance(name, str) and name in ("auto", "surprise")

    def draw_in(self, n_coordinates: int, number: int) -> Literal["random", "fill", "doubt"]:
        """How round ``number`` draws from the density."""
        # On a line doubt spares evenly spaced runs where f is smooth. With many inputs filling resolves fronts, and
        # doubt lowers the largest errors of smooth functions.
        alternates = n_coordinates >= MANY_INPUTS and number % 2 == 0
        return "doubt" if self.hedges and (alternates or n_coordinates == 1) else "fill"


@dataclass(frozen=True)
class Taylor(Strategy):
    """Algorithm 1 as printed: Df^n_ε at a uniform start, a Gaussian mixture, draws inside S, one round.

    Parameters
    ----------
    order : int, default 2
        n of Eq. dn.
    epsilon : float or array of shape (n_features,), default 1e-3
        ε of Eq. dn, a variance relative to each axis; ε in the inputs' own units is ``epsilon = ε / box.width**2``.
    n_components : int, default 3
        n_GMM, Gaussians in the mixture.
    derivatives : callable, optional
        ``derivatives(X, multi_indices)`` in the units of the bounds. Without it finite differences are taken, and
        counted in ``Design.n_evaluations``.

    Examples
    --------
    >>> import steep
    >>> plan = steep.design(lambda X: X[:, 0] ** 3, [(0, 1)], 16, n_initial=8, strategy=steep.Taylor(), random_state=0)
    >>> len(plan.X), plan.n_evaluations  # three more evaluations for each initial point
    (16, 40)
    """

    order: int = 2
    epsilon: Any = 1e-3
    n_components: int = 3
    derivatives: Derivatives | None = None

    measure = "taylor"

    def __post_init__(self) -> None:
        """Check the fields."""
        check_count(self.order, name="order")
        check_count(self.n_components, name="n_components")


@dataclass(frozen=True)
class Variance(Strategy):
    """The third method of the paper: points drawn in proportion to the local variance of the labels.

    Parameters
    ----------
    n_neighbors : int, optional
        k of Eq. Dhat2, the point itself counted; default 20, fewer for fewer than 80 points.
    n_components : int, default 3
        Gaussians in the mixture.

    Examples
    --------
    >>> import steep
    >>> steep.design(lambda X: X[:, 0] ** 3, [(0, 1)], 16, strategy=steep.Variance(), random_state=0).n_evaluations
    16
    """

    n_neighbors: int | None = None
    n_components: int = 3

    measure = "variance"

    def __post_init__(self) -> None:
        """Check the fields."""
        if self.n_neighbors is not None:
            check_count(self.n_neighbors, name="n_neighbors", minimum=2)
        check_count(self.n_components, name="n_components")


@dataclass(frozen=True)
class Even(Strategy):
    """All runs on one Sobol sequence, which every other design has to beat.

    Examples
    --------
    >>> import steep
    >>> steep.design(lambda X: X[:, 0] ** 3, [(0, 1)], 16, strategy=Even(), random_state=0).is_even.all()
    np.True_
    """

    start = "sobol"

    def draw_in(self, n_coordinates: int, number: int) -> Literal["random", "fill", "doubt"]:
        """Fill the largest gaps once the sequence has ended."""
        return "fill"


def check_strategy(strategy: Strategy | None) -> Strategy:
    """The strategy that is meant: ``Adaptive()`` where none is given."""
    if strategy is None:
        return Adaptive()
    if not isinstance(strategy, Strategy):
        raise InputTypeError(
            f"strategy={shown(strategy)} is a {type(strategy).__name__}; expected Adaptive(), Taylor(), Variance() or "
            "Even(); a measure is named by Adaptive(measure=...)"
        )
    return strategy


def initial_runs(n_runs: int, n_features: int, strategy: Strategy, n_initial: int | None) -> int:
    """How many of the runs come before the labels decide: by default a quarter, at least 2(d + 1)."""
    if n_initial is None:
        return n_runs if strategy.measure is None else min(n_runs, max(n_runs // 4, 2 * (n_features + 1)))
    n_initial = check_count(n_initial, name="n_initial", minimum=2)
    if n_initial > n_runs:
        raise InputError(
            f"n_initial={n_initial} is larger than n_runs={n_runs}, which counts all runs; lower n_initial or raise "
            "n_runs"
        )
    return n_initial
