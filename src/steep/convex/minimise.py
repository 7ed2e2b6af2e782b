"""Minimise many smooth strictly convex functions together: preconditioned L-BFGS.

The direction is −B g with B the two-loop L-BFGS inverse started from M⁻¹, M a model of the Hessian. The functions are
convex, so a step is good when the slope along it has not grown past the start's, and no value need be computed.

    λ²/2 = ½ gᵀ B g ≈ f(x) − min f

half the squared Newton decrement, says how much is still to be gained. All functions take their steps together: the
gradients are then a few large products instead of many small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, IntArray

# Gradients of the functions with these numbers at these points, (n_points, n_parameters).
Gradient = Callable[[FloatArray, IntArray], FloatArray]
# Vectors, one for each of the functions with these numbers, times M⁻¹.
Solve = Callable[[FloatArray, IntArray], FloatArray]
# Steps of all functions, the changes of the gradient over them, and 1/(step · change), 0 where none is known.
Pair = tuple[FloatArray, FloatArray, FloatArray]

# Trials of one step at most.
_N_TRIALS = 30
# A step is kept when the slope at its end is at most this share of that at its start, upwards.
_CURVATURE = 0.9
# Steps after which Hessians are computed again: later where that costs more.
_RENEW, _RENEW_PER_PARAMETER = 12, 1 / 4
# Steps along which the gradient hardly changes say nothing.
_LEAST_CHANGE = 1e-12


@dataclass(frozen=True)
class Limits:
    """When a search ends, and the steps and gradients it remembers (``memory``).

    ``gap`` is the value still to be gained, ``step`` the largest step relative to the largest parameter, and no step is
    begun after ``deadline``, by ``time.monotonic``.
    """

    gap: float = 0.0
    step: float = 0.0
    n_steps: int = 500
    memory: int = 12
    deadline: float = inf


@dataclass
class Minima:
    """Points at which the searches ended, and, if asked for, what they know of the Hessian there."""

    theta: FloatArray
    converged: npt.NDArray[np.bool_]
    n_evaluations: npt.NDArray[Any]
    pairs: list[Pair] = field(default_factory=list)


def minimise(
    gradient: Gradient,
    start: FloatArray,
    solve: Solve,
    limits: Limits,
    *,
    pairs: Sequence[Pair] | None = None,
    renewed: Callable[[FloatArray, IntArray], Solve] | None = None,
) -> Minima:
    """Look for the minima of several functions, from ``start``, one row for each.

    Functions that are solved are not asked for again. ``pairs`` are known of functions with nearly the same Hessians;
    if given, even if empty, those of each search are returned. ``renewed`` gives another ``solve`` for the points
    reached, after some steps: far from the start its Hessian does not help.
    """
    theta, left, known = start.copy(), np.arange(len(start)), list(pairs or ())
    slope, renew_every = gradient(theta, left), max(_RENEW, round(_RENEW_PER_PARAMETER * start.shape[1]))
    found = Minima(start.copy(), np.zeros(len(start), dtype=bool), np.ones(len(start), dtype=np.intp))

    def end(gone: npt.NDArray[np.bool_], at: FloatArray, converged: Any, *others: FloatArray) -> list[FloatArray]:
        """Take the searches that end out, with the pairs they know, the last ones last; the rest of such arrays."""
        nonlocal left, theta, slope, known
        found.theta[left[gone]], found.converged[left[gone]] = at[gone], converged
        if pairs is not None:
            while len(found.pairs) < len(known):
                found.pairs.insert(0, (np.zeros_like(start), np.zeros_like(start), np.zeros(len(start))))
            for kept, pair in zip(reversed(found.pairs), reversed(known), strict=False):
                for whole, some in zip(kept, pair, strict=True):
                    whole[left[gone]] = some[gone]
        keep = ~gone
        left, theta, slope = left[keep], theta[keep], slope[keep]
        known = [(one[keep], other[keep], rate[keep]) for one, other, rate in known]
        return [other[keep] for other in others]

    for number in range(1, limits.n_steps + 1):
        if monotonic() > limits.deadline:
            break
        if renewed is not None and number % renew_every == 0:
            solve, known = renewed(theta, left), []
        direction: FloatArray = -_two_loops(slope, known, solve, left)
        decrement: FloatArray = -_dots(slope, direction) / 2
        solved = decrement <= limits.gap
        if limits.step:
            solved = np.abs(direction).max(axis=1) <= limits.step * np.maximum(np.abs(theta).max(axis=1), 1e-9)
        if solved.any():
            direction, decrement = end(solved, theta + direction, True, direction, decrement)
        step, after, stuck = _moved(gradient, theta, slope, direction, left, found.n_evaluations)
        if stuck.any():
            step, after = end(stuck, theta, decrement[stuck] <= 100 * limits.gap, step, after)
        if not len(left):
            return found
        change = after - slope
        curved = _dots(step, change)
        clear = curved > _LEAST_CHANGE * np.sqrt(_dots(step, step) * _dots(change, change))
        rate = np.divide(1, curved, out=np.zeros(len(curved)), where=clear)
        known = [*known[1 - limits.memory :], (step, change, rate)]
        theta, slope = theta + step, after
    end(np.ones(len(left), dtype=bool), theta, False)
    return found


def _two_loops(slope: FloatArray, pairs: Sequence[Pair], solve: Solve, left: IntArray) -> FloatArray:
    """B g of L-BFGS (Nocedal and Wright, Algorithm 7.4), for every row."""
    rest, shares = slope.copy(), []
    for step, change, rate in reversed(pairs):
        shares.append(rate * _dots(step, rest))
        rest -= shares[-1][:, None] * change
    result = solve(rest, left)
    if pairs:  # M, scaled so that it fits the last step
        _, change, rate = pairs[-1]
        fit = rate * _dots(change, solve(change, left))
        result = result / np.where(rate > 0, fit, 1.0)[:, None]
    for (step, change, rate), share in zip(pairs, reversed(shares), strict=True):
        result += (share - rate * _dots(change, result))[:, None] * step
    return result


def _dots(one: FloatArray, other: FloatArray) -> FloatArray:
    products: FloatArray = np.einsum("bd,bd->b", one, other)
    return products


def _moved(
    gradient: Gradient, theta: FloatArray, slope: FloatArray, direction: FloatArray, left: IntArray,
    n_evaluations: npt.NDArray[Any],
) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:  # fmt: skip
    """Steps along the directions, shortened where they overshoot, gradients at their ends, and who found none."""
    stuck = np.zeros(len(left), dtype=bool)
    if not len(left):
        return direction, slope, stuck
    step, falls, long = direction.copy(), np.abs(_dots(slope, direction)), np.arange(len(left))
    after = gradient(theta + step, left)
    n_evaluations[left] += 1
    for _ in range(_N_TRIALS):
        ends = _dots(after[long], direction[long])
        over = ~(ends <= _CURVATURE * falls[long])
        long, ends = long[over], ends[over]
        if not len(long):
            return step, after, stuck
        # Where the slope, if it were straight, would be 0.
        share = falls[long] / (falls[long] + ends)
        step[long] *= np.clip(np.nan_to_num(share, nan=0.1), 0.1, 0.7)[:, None]
        after[long] = gradient(theta[long] + step[long], left[long])
        n_evaluations[left[long]] += 1
    stuck[long] = True
    return step, after, stuck
