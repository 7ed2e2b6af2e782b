"""Variation Based Sampling: Algorithm 1 for any measure of variation, in one round or several.

    1   N, N', ε, n, n_GMM      n_initial, n_samples, epsilon, order, n_components
    2   {x_1 … x_N} ~ U(S)                                     _start_points
    3-6 Df^n_ε(x_i)             any measure                     Measuring
    7   dP ∝ Df by a Gaussian mixture, or a pool                VariationSampler.fit_unit
    8   {x̄_1 … x̄_N'} inside S                                  VariationSampler.sample_unit, EvenSequence
    9   f(x̄_i)
    10  both sets joined                                        Evaluated, Design

By default only part of line 8 is drawn from the density, as much as the runs so far say that it pays (``hedge.py``);
the rest goes on with the Sobol sequence of the start.
With ``rounds`` above one, lines 3 to 10 repeat on all points so far, N'/rounds new ones at a time.
Everything happens in the unit cube, so ε is a variance relative to each axis; a variance ε in the
inputs' own units is ``epsilon = ε / box.width**2``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from steep._function import Function, format_point
from steep._validation import (
    FloatArray,
    Seed,
    check_choice,
    check_count,
    check_generator,
    check_points,
    check_real,
    shown,
)
from steep._warnings import warn_user
from steep.domain import Bounds, Box, Constraint
from steep.exceptions import InputError
from steep.measures import Measure, resolve
from steep.measures.derivatives import Derivatives
from steep.measures.surprise import standardised
from steep.sampling.evaluated import Evaluated, Measuring, squeezed
from steep.sampling.even import EvenSequence, among
from steep.sampling.hedge import Hedge, choose_share, domain_points, split
from steep.sampling.lengths import stretch
from steep.sampling.quick import length_scale
from steep.sampling.relevance import axis_relevance
from steep.sampling.result import Design
from steep.sampling.safety import safety
from steep.sampling.sampler import DENSITIES, DRAWS, Density, Draw, VariationSampler, usual_draw
from steep.sampling.simulator import PassAs, Simulator

STARTS = ("uniform", "grid", "sobol")
# Domains of whole numbers and categories up to this size are listed point by point.
_LISTED = 2**16


@dataclass(frozen=True)
class Recipe:
    """Every choice of a design; the defaults are what the benchmark found best, ``PAPER`` Algorithm 1.

    ``hedges`` tells whether some points stay even, as many as the evidence asks for.
    """

    density: Density = "pool"
    draw: Draw = "fill"
    temper: float = 0.6
    floor: float = 0.15
    rounds: int = 12
    initial: str = "sobol"
    hedges: bool = False


PAPER = Recipe("mixture", "random", 1.0, 0.0, 1, "uniform")


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


_CHECKS: dict[str, Callable[..., Any]] = {
    "density": partial(check_choice, choices=DENSITIES),
    "draw": partial(check_choice, choices=DRAWS),
    "temper": lambda value, name: Recipe.temper if _is_auto(value) else check_real(value, name=name, minimum=0.0),
    "floor": partial(check_real, minimum=0.0, maximum=1.0),
    "rounds": check_count,
    "initial": partial(check_choice, choices=STARTS),
}


def design(
    function: Function,
    bounds: Bounds | Box,
    *,
    n_initial: int,
    n_samples: int,
    variant: Literal["paper"] | None = None,
    measure: str | Measure | Callable[[FloatArray, FloatArray], Any] = "auto",
    order: int = 2,
    epsilon: Any = 1e-3,
    derivatives: Derivatives | None = None,
    n_neighbors: int | None = None,
    initial: Literal["uniform", "grid", "sobol"] | None = None,
    density: Density | None = None,
    draw: Draw | None = None,
    rounds: int | None = None,
    n_components: int = 3,
    temper: float | Literal["auto"] | None = None,
    floor: float | None = None,
    constraint: Constraint | None = None,
    fixed: Any = None,
    vectorized: bool = True,
    pass_as: PassAs = "auto",
    n_jobs: int | None = None,
    random_state: Seed = None,
) -> Design:
    """Choose where to evaluate ``function``: a start, then points where it varies.

    Parameters
    ----------
    function : callable
        f, called with an ``(n, n_features)`` array in the units of ``bounds``; see ``vectorized``. One whose arguments
        have the names of the inputs, ``f(u0, t)``, is called with one point at a time; it may return a mapping of
        output names to numbers. Points at which it fails, or is not finite, are left out; see ``Design.failures``.
    bounds : list of (low, high), mapping of name to (low, high), or Box
        S. An entry may also be ``Log``, ``Integer`` or ``Category`` of :mod:`steep.domain.axes`.
    n_initial, n_samples : int
        N start points and N' points placed where the variation is. A quarter of the budget is a good
        start; fewer than 2(d+1) points tell little.
    variant : {"paper", None}, default None
        "paper" is Algorithm 1 as printed: Taylor variation, a mixture, random draws, ``temper=1``,
        ``floor=0``, one round, a uniform start unless ``initial`` says otherwise.
    measure : str, Measure or callable(X, y), default "auto"
        What counts as variation: any measure of :mod:`steep.measures` that does not ask a model. "auto"
        takes "taylor" when ``derivatives`` are given and "surprise", which costs no evaluation, otherwise.
        "taylor" without ``derivatives`` spends finite differences and "perturbation" twenty draws a point:
        they are counted in ``n_evaluations``, taken once a point, and never leave S (see Notes). The
        others compare the labels at hand.
    order, epsilon : int and float or array, default 2 and 1e-3
        n and ε of Eq. dn, ε relative to each axis of the box; ε is also the variance of a perturbation's noise.
    derivatives : callable, optional
        ``derivatives(X, multi_indices)`` in the units of ``bounds``; see :class:`Derivatives`.
    n_neighbors : int, optional
        k of the measures that compare labels, the point itself counted; their own defaults grow with
        the points or the dimension.
    initial : {"uniform", "grid", "sobol"}, optional
        How the start is laid; default "sobol".
    density, draw : str, optional
        See :class:`VariationSampler`; default "pool" and "fill". Where the evidence decides (see ``temper``) "doubt"
        with one input, and in every second round from five inputs on.
    rounds : int, optional
        How often the variation is measured; default 12, or 1 where measuring costs evaluations.
    n_components : int, default 3
        Gaussians of the mixture.
    temper, floor : float, optional
        See :class:`VariationSampler`. With neither, and with ``measure="auto"`` or ``temper="auto"``, the evidence
        decides in each round how far the points follow variation^0.6, and how many are spread evenly: all of them where
        following it does not pay; see ``Design.hedge``. A measure that is named is followed, with 0.6 and 0.15.
    constraint : callable, optional
        ``constraint(X)`` returns booleans: which points of the box belong to S.
    fixed : array-like of shape (n_fixed, n_features), optional
        Points that must be in the design: they come first and take the place of start points.
    vectorized : bool, default True
        False when ``function`` takes an array of one point at a time.
    pass_as : {"auto", "array", "keywords", "mapping"}, default "auto"
        How ``function`` gets its inputs; "auto" is keywords where its arguments have the names of two or more.
    n_jobs : int, optional
        Points run at once, by joblib, where ``function`` takes one at a time; −1 is all processors. None is one, or
        what ``joblib.parallel_config`` says: within ``parallel_config("dask")`` they run on the cluster. The design is
        the same.
    random_state : int, Generator or None
        Seed of the whole design.

    Returns
    -------
    Design

    Notes
    -----
    ``function``, ``constraint``, ``derivatives`` and a measure of your own are given copies. Finite differences
    that would leave S are taken at a place near by, noise that would is reflected at the faces of the box and
    brought halfway back to its point until the constraint allows it.

    Examples
    --------
    >>> runge = lambda X: 1 / (1 + 25 * (X[:, 0] - 0.5) ** 2)
    >>> plan = design(runge, [(0, 1)], n_initial=8, n_samples=8, initial="grid", random_state=0)
    >>> plan.X.shape, plan.y.shape, plan.n_evaluations
    ((16, 1), (16,), 16)
    """
    box = Box(bounds, constraint=constraint)
    generator = check_generator(random_state)
    simulator = Simulator(function, box, pass_as=pass_as, vectorized=vectorized, n_jobs=n_jobs)
    n_initial = check_count(n_initial, name="n_initial", minimum=2)
    n_samples = check_count(n_samples, name="n_samples")
    _check_room(box, n_initial + n_samples)
    found = _resolved(variant, measure, derivatives)
    measuring = Measuring(
        found, box, function=simulator.everywhere, vectorized=True, order=order, epsilon=epsilon,
        derivatives=derivatives, n_neighbors=n_neighbors, random_state=generator,
    )  # fmt: skip
    chosen = {
        "density": density, "draw": draw, "temper": temper, "floor": floor, "rounds": rounds, "initial": initial
    }  # fmt: skip
    given = _recipe(variant, chosen, rounds=1 if measuring.costs else Recipe.rounds)
    hedges = _hedges(given, variant, measure, temper, floor)
    recipe = replace(given, hedges=hedges)
    sampler = VariationSampler(
        box, density=recipe.density, draw=recipe.draw, n_components=n_components, temper=recipe.temper,
        floor=recipe.floor, random_state=generator,
    )  # fmt: skip
    start, sequence = _start_points(box, n_initial, recipe.initial, fixed, generator)
    seen = Evaluated.at(box, *simulator(start))
    n_started, even = len(seen.X), start
    hedge: Hedge | None = None
    for number, size in enumerate(_round_sizes(n_samples, recipe.rounds)):
        variation = measuring(seen)
        # The paper measures distances nowhere; a pool does, along the axes that matter.
        scale: FloatArray | None = None
        length: float | None = None
        if recipe.hedges:
            scale, length = stretch(seen.coordinates, seen.labels)
        elif recipe.density != "mixture":
            scale = axis_relevance(seen.coordinates, seen.labels)
        spread, trust = start[:0], _trust(box, seen, simulator.failed)
        if recipe.hedges and scale is not None:
            domain = domain_points(box, sequence) * scale
            hedge = choose_share(seen.coordinates * scale, seen.labels, among(seen.X, even), domain, generator)
            parts = split(size, hedge.share, number=number, n_coordinates=len(scale), n_runs=len(seen.X))
            sampler.floor = recipe.floor if parts.floor is None else parts.floor
            spread = sequence.after(parts.n_even, taken=np.vstack([seen.X, *simulator.failed]), trust=trust)
            even = np.vstack([even, spread])
            sampler.draw = recipe.draw if draw else usual_draw(len(scale), number)
        drawn = spread
        if len(spread) < size:
            around: dict[str, Any] = {"trust": trust, "occupied": _occupied(box, spread, simulator.failed)}
            if sampler.draw == "doubt" and scale is not None:
                around["length"] = length or length_scale(seen.coordinates * scale, standardised(seen.labels))
            sampler.fit_unit(seen.unit, seen.coordinates, variation, scale=scale, **around)
            drawn = np.vstack([spread, box.from_unit(sampler.sample_unit(size - len(spread)))])
        X, labels = simulator(drawn)
        if len(X):
            seen = seen.joined(Evaluated.at(box, X, labels))
    _report(simulator, len(seen.X))
    return Design(
        X=seen.X,
        y=squeezed(seen.labels),
        variation=np.concatenate([variation, np.full(len(seen.X) - len(variation), np.nan)]),
        is_initial=np.arange(len(seen.X)) < n_started,
        n_evaluations=simulator.n_evaluations + measuring.n_evaluations,
        box=box,
        outputs=simulator.outputs,
        failed=np.array(simulator.failed).reshape(-1, box.n_features),
        messages=tuple(simulator.messages),
        is_even=among(seen.X, even),
        hedge=hedge,
    )


def _trust(box: Box, seen: Evaluated, failed: list[FloatArray]) -> Callable[[FloatArray], FloatArray] | None:
    """How far runs are trusted to work; None where none has failed."""
    return safety(box, seen.coordinates, box.embed(box.unit(np.array(failed)))) if failed else None


def _occupied(box: Box, spread: FloatArray, failed: list[FloatArray]) -> FloatArray | None:
    """Embedded coordinates of the even points of this round and of points that failed; None where there are none."""
    return box.embed(box.unit(np.vstack([spread, *failed]))) if failed or len(spread) else None


def _report(simulator: Simulator, n_worked: int) -> None:
    """Warn of points that failed."""
    if simulator.failed:
        where = format_point(simulator.failed[0])
        warn_user(
            f"function failed at {len(simulator.failed)} of {len(simulator.failed) + n_worked} points, which are left "
            f"out, first at {where}: {simulator.messages[0]}; see failures() of the design"
        )


def _resolved(variant: Any, measure: Any, derivatives: Derivatives | None) -> Measure:
    """The measure meant, "auto" included."""
    check_choice(variant, name="variant", choices=(None, "paper"))
    if isinstance(measure, str) and measure == "auto":
        measure = "surprise" if derivatives is None and variant is None else "taylor"
    found = resolve(measure, use="design", feeds=("function", "labels"))
    if variant == "paper" and found.name != "taylor":
        raise InputError(
            f"variant='paper' means measure='taylor', got {found.name!r}; leave variant out to combine them freely"
        )
    return found


def _recipe(variant: str | None, chosen: dict[str, Any], *, rounds: int) -> Recipe:
    """Fill in what the caller left open: from the paper, or from the benchmark."""
    given = {name: _CHECKS[name](value, name=name) for name, value in chosen.items() if value is not None}
    if variant is None:
        return replace(Recipe(rounds=rounds), **given)
    recipe = replace(PAPER, initial=given.pop("initial", PAPER.initial))
    wrong = [f"{name}={value!r}" for name, value in given.items() if value != getattr(PAPER, name)]
    if wrong:
        raise InputError(
            "variant='paper' means measure='taylor', temper=1 and floor=0, density='mixture', draw='random', "
            f"rounds=1; got {', '.join(wrong)}; leave variant out to combine them freely"
        )
    return recipe


def _hedges(recipe: Recipe, variant: Any, measure: Any, temper: Any, floor: Any) -> bool:
    """Whether the evidence decides how far to concentrate: unless the caller did."""
    if variant is not None or recipe.density != "pool":
        return False
    return _is_auto(temper) or (temper is None and floor is None and _is_auto(measure))


def _check_room(box: Box, n_points: int) -> None:
    """Refuse a design of more points than there are, before anything is run."""
    n_held = box.n_points
    if n_held <= _LISTED:
        n_held = len(box.every_point())
    if n_points > n_held:
        raise InputError(
            f"the domain holds {n_held:g} different points, n_initial + n_samples asks for {n_points}; lower them or "
            "widen the bounds"
        )


def _start_points(
    box: Box, n_initial: int, initial: str, fixed: Any, generator: np.random.Generator
) -> tuple[FloatArray, EvenSequence]:
    """Line 2: the fixed points, then the start; and the sequence that goes on after it."""
    must = _fixed_points(box, n_initial, fixed)
    n_open = n_initial - len(must)
    sequence = EvenSequence(box, generator)
    if n_open == 0:
        return must, sequence
    if initial == "grid":
        return np.vstack([must, box.grid(n_open)]), sequence
    if initial == "uniform":
        start = np.vstack([must, box.uniform(n_open, random_state=generator)])
    else:
        points = sequence.first(n_open)
        # The sequence gives up on very many, or where a constraint refuses nearly all; the box says why.
        points = points if len(points) == n_open else box.sobol(n_open, random_state=generator)
        start = np.vstack([must, points])
    return (_each_once(box, start, generator) if box.n_points <= _LISTED else start), sequence


def _fixed_points(box: Box, n_initial: int, fixed: Any) -> FloatArray:
    if fixed is None or (isinstance(fixed, list | tuple) and not fixed):
        return np.empty((0, box.n_features))
    must = check_points(fixed, name="fixed", n_features=box.n_features).astype(np.float64)
    inside = box.contains(must)
    if not inside.all() or len(must) > n_initial:
        raise InputError(
            f"fixed has {len(must)} points, {int(inside.sum())} of them in {shown(box)}; need points of the domain "
            f"and at most n_initial={n_initial}"
        )
    return must


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


def _round_sizes(n_samples: int, rounds: int) -> list[int]:
    """Rounds as equal as whole numbers allow, none empty."""
    ends = np.round(np.linspace(0, n_samples, min(rounds, n_samples) + 1)).astype(int)
    return [int(size) for size in np.diff(ends)]
