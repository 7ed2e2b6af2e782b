"""Variation Based Sampling: Algorithm 1 for any measure of variation, in one round or several.

    1   N, N', ε, n, n_GMM      n_initial, n_samples, epsilon, order, n_components
    2   {x_1 … x_N} ~ U(S)                                     _initial_points
    3-6 Df^n_ε(x_i)             any measure                     Measured
    7   dP ∝ Df by a Gaussian mixture, or a pool                VariationSampler.fit
    8   {x̄_1 … x̄_N'} inside S                                  VariationSampler.sample
    9   f(x̄_i)
    10  both sets joined                                        Design

With ``rounds`` above one, lines 3 to 10 repeat on all points so far, N'/rounds new ones at a time.
Everything happens in the unit cube, so ε is a variance relative to each axis; a variance ε in the
inputs' own units is ``epsilon = ε / box.width**2``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from steep._function import Function, evaluate
from steep._validation import FloatArray, Seed, check_choice, check_count, check_generator
from steep.domain import Bounds, Box, Constraint
from steep.exceptions import InputError
from steep.measures.derivatives import Derivatives
from steep.sampling.measure import NAMED, Measure, Measured, squeeze
from steep.sampling.relevance import axis_relevance
from steep.sampling.sampler import Density, Draw, VariationSampler


@dataclass(frozen=True)
class Plan:
    """Every choice of a design; the defaults are what the benchmark found best, ``PAPER`` Algorithm 1."""

    measure: Any = "auto"
    density: Density = "pool"
    draw: Draw = "fill"
    temper: float = 0.6
    floor: float = 0.15
    rounds: int = 12
    initial: str = "sobol"


PAPER = Plan("taylor", "mixture", "random", 1.0, 0.0, 1, "uniform")


@dataclass(frozen=True)
class Design:
    """Points, labels and how they came about.

    Attributes
    ----------
    X : ndarray of shape (n_initial + n_samples, n_features)
        All points in the user's units, the start first.
    y : ndarray of shape (n_initial + n_samples,) or (n_initial + n_samples, n_outputs)
        Labels.
    variation : ndarray of shape (n_initial + n_samples,)
        Variation where it was measured, before the last round; NaN elsewhere.
    is_initial : ndarray of bool
        Which points belong to the start.
    n_evaluations : int
        Function evaluations spent in all, finite differences included.
    """

    X: FloatArray
    y: FloatArray
    variation: FloatArray
    is_initial: npt.NDArray[np.bool_]
    n_evaluations: int


def design(
    function: Function,
    bounds: Bounds | Box,
    *,
    n_initial: int,
    n_samples: int,
    variant: Literal["paper"] | None = None,
    measure: Measure = "auto",
    order: int = 2,
    epsilon: Any = 1e-3,
    derivatives: Derivatives | None = None,
    n_neighbors: int | None = None,
    initial: Literal["uniform", "grid", "sobol"] | None = None,
    density: Density | None = None,
    draw: Draw | None = None,
    rounds: int | None = None,
    n_components: int = 3,
    temper: float | None = None,
    floor: float | None = None,
    constraint: Constraint | None = None,
    fixed: Any = None,
    vectorized: bool = True,
    random_state: Seed = None,
) -> Design:
    """Choose where to evaluate ``function``: a start, then points where it varies.

    Parameters
    ----------
    function : callable
        f, called with an ``(n, n_features)`` array in the units of ``bounds``; see ``vectorized``.
    bounds : list of (low, high), mapping of name to (low, high), or Box
        S. An entry may also be ``Log``, ``Integer`` or ``Category`` of :mod:`steep.domain.axes`.
    n_initial, n_samples : int
        N start points and N' points placed where the variation is. A quarter of the budget is a good
        start; fewer than 2(d+1) points tell little.
    variant : {"paper", None}, default None
        "paper" is Algorithm 1 as printed: Taylor variation, a mixture, random draws, ``temper=1``,
        ``floor=0``, one round, a uniform start unless ``initial`` says otherwise.
    measure : {"auto", "taylor", "neighbors", "surprise"} or callable(X, y), default "auto"
        What counts as variation. "auto" takes "taylor" when ``derivatives`` are given and
        "surprise", which costs no evaluation, otherwise. "taylor" without ``derivatives`` spends
        finite differences: they are counted in ``n_evaluations``.
    order, epsilon : int and float or array, default 2 and 1e-3
        n and ε of Eq. dn, ε relative to each axis of the box.
    derivatives : callable, optional
        ``derivatives(X, multi_indices)`` in the units of ``bounds``; see :class:`Derivatives`.
    n_neighbors : int, optional
        k of the neighbour measures; their own defaults grow with the points or the dimension.
    initial : {"uniform", "grid", "sobol"}, optional
        How the start is laid; default "sobol".
    density, draw : str, optional
        See :class:`VariationSampler`; default "pool" and "fill".
    rounds : int, optional
        How often the variation is measured anew; default 12, or 1 where finite differences are spent.
    n_components : int, default 3
        Gaussians of the mixture.
    temper, floor : float, optional
        See :class:`VariationSampler`; default 0.6 and 0.15.
    constraint : callable, optional
        ``constraint(X)`` returns booleans: which points of the box belong to S.
    fixed : array-like of shape (n_fixed, n_features), optional
        Points that must be in the design: they come first and take the place of start points.
    vectorized : bool, default True
        False when ``function`` takes one point at a time.
    random_state : int, Generator or None
        Seed of the whole design.

    Returns
    -------
    Design

    Examples
    --------
    >>> runge = lambda X: 1 / (1 + 25 * (X[:, 0] - 0.5) ** 2)
    >>> plan = design(runge, [(0, 1)], n_initial=8, n_samples=8, initial="grid", random_state=0)
    >>> plan.X.shape, plan.y.shape, plan.n_evaluations
    ((16, 1), (16,), 16)
    """
    box = Box(bounds, constraint=constraint)
    generator = check_generator(random_state)
    n_initial = check_count(n_initial, name="n_initial", minimum=2)
    n_samples = check_count(n_samples, name="n_samples")
    chosen = {
        "density": density, "draw": draw, "temper": temper, "floor": floor, "rounds": rounds, "initial": initial
    }  # fmt: skip
    plan = _resolve(variant, measure, derivatives, chosen)
    sampler = VariationSampler(
        box, density=plan.density, draw=plan.draw, n_components=n_components, temper=plan.temper,
        floor=plan.floor, random_state=generator,
    )  # fmt: skip
    measured = Measured(
        plan.measure, box, function=function, vectorized=vectorized, order=order, epsilon=epsilon,
        derivatives=derivatives, n_neighbors=n_neighbors,
    )  # fmt: skip
    X = _initial_points(box, n_initial, plan.initial, fixed, generator)
    labels = evaluate(function, X, vectorized=vectorized)
    for size in _round_sizes(n_samples, plan.rounds):
        variation = measured(X, labels)
        # The paper measures distances nowhere; a pool does, along the axes that matter.
        scale = None if plan.density == "mixture" else axis_relevance(box.embed(box.unit(X)), labels)
        drawn = sampler.fit(X, variation, scale=scale).sample(size)
        X = np.vstack([X, drawn])
        labels = np.vstack([labels, evaluate(function, drawn, vectorized=vectorized)])
    return Design(
        X=X,
        y=squeeze(labels),
        variation=np.concatenate([variation, np.full(len(X) - len(variation), np.nan)]),
        is_initial=np.arange(len(X)) < n_initial,
        n_evaluations=len(X) + measured.n_evaluations,
    )


def _resolve(
    variant: str | None, measure: Any, derivatives: Derivatives | None, chosen: dict[str, Any]
) -> Plan:
    """Fill in what the caller left open: from the paper, or from the benchmark."""
    check_choice(variant, name="variant", choices=(None, "paper"))
    if not callable(measure):
        check_choice(measure, name="measure", choices=NAMED)
    given = {name: value for name, value in chosen.items() if value is not None}
    if variant == "paper":
        plan = replace(PAPER, initial=given.pop("initial", PAPER.initial))
        wrong = [f"{name}={value!r}" for name, value in given.items() if value != getattr(PAPER, name)]
        wrong += [] if measure in ("auto", "taylor") else [f"measure={measure!r}"]
        if wrong:
            raise InputError(
                "variant='paper' means measure='taylor', temper=1 and floor=0, density='mixture', draw='random', "
                f"rounds=1; got {', '.join(wrong)}; leave variant out to combine them freely"
            )
        return plan
    if measure == "auto":
        measure = "surprise" if derivatives is None else "taylor"
    if measure == "taylor" and derivatives is None:
        given.setdefault("rounds", 1)
    plan = replace(Plan(measure), **given)
    return replace(plan, rounds=check_count(plan.rounds, name="rounds"))


def _initial_points(
    box: Box, n_initial: int, initial: str, fixed: Any, generator: np.random.Generator
) -> FloatArray:
    check_choice(initial, name="initial", choices=("uniform", "grid", "sobol"))
    must = np.empty((0, box.n_features)) if fixed is None else np.asarray(fixed, dtype=np.float64)
    if len(must):
        inside = box.contains(must)
        if not inside.all() or len(must) > n_initial:
            raise InputError(
                f"fixed has {len(must)} points, {int(inside.sum())} of them in {box!r}; need points of the domain "
                f"and at most n_initial={n_initial}"
            )
    n_open = n_initial - len(must)
    if n_open == 0:
        return must
    if initial == "grid":
        return np.vstack([must, box.grid(n_open)])
    draw = box.uniform if initial == "uniform" else box.sobol
    return np.vstack([must, draw(n_open, random_state=generator)])


def _round_sizes(n_samples: int, rounds: int) -> list[int]:
    """Rounds as equal as whole numbers allow, none empty."""
    ends = np.round(np.linspace(0, n_samples, min(rounds, n_samples) + 1)).astype(int)
    return [int(size) for size in np.diff(ends)]
