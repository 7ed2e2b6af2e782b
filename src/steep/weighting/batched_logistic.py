"""Logistic regression for many sample weights at once, from a start near all of them.

    θ_b = argmin C Σ_i w_bi ℓ(y_i, x_i θ) + ½ ‖θ‖²,      b = 1…B weightings of the same rows

ℓ is the log loss of two classes (one row of θ) or of several (one row each); intercepts are not penalised. All
gradients are two matrix products. L-BFGS begins at the solution for equal weights and with the inverse of its
second derivative, so that the first step is nearly Newton's; f is convex, so a step is good when the
slope along it has not grown past the start's, and no loss need be computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.weighting.batched_ridge import weighted_products

# Pairs of steps and gradients remembered, steps at most, and trials of one step at most.
_MEMORY, _N_STEPS, _N_TRIALS = 20, 200, 30
# Steps after which the second derivative is computed anew: later where that costs more.
_REFRESH, _REFRESH_PER_PARAMETER = 12, 1 / 4
# A step is kept when the slope at its end is at most this share of that at its start, upwards.
_CURVATURE = 0.9
# Probabilities worked on at once, to bound the memory.
_BLOCK = 2**19
# Up to this many parameters every weighting has its own second derivative at the start.
FEW_PARAMETERS = 40


@dataclass(frozen=True)
class Logistic:
    """Rows and classes of a training set.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_inputs)
        Inputs; the last column is 1 where there is an intercept.
    codes : ndarray of int of shape (n_samples,)
        Classes, counted from 0.
    n_outputs : int
        Rows of θ: 1 for two classes, else one a class.
    C : float
        Inverse strength of the penalty.
    penalised : ndarray of shape (n_inputs,)
        1 for coefficients, 0 for the intercept.
    """

    X: FloatArray
    codes: IntArray
    n_outputs: int
    C: float
    penalised: FloatArray

    @classmethod
    def of(cls, X: FloatArray, codes: IntArray, n_classes: int, C: float, *, fit_intercept: bool) -> Logistic:
        """Inputs as they are given, classes as codes."""
        penalised = np.ones(X.shape[1])
        if fit_intercept:
            X, penalised = np.column_stack([X, np.ones(len(X))]), np.append(penalised, 0.0)
        n_outputs = 1 if n_classes == 2 else n_classes
        return cls(np.ascontiguousarray(X), codes, n_outputs, C, penalised)

    @property
    def n_parameters(self) -> int:
        """Numbers in one θ."""
        return self.n_outputs * int(self.X.shape[1])

    def probabilities(self, theta: FloatArray) -> FloatArray:
        """Probability of class 1, or of every class, ``(n_problems, n_outputs, n_samples)``."""
        return to_probabilities(raw_scores(self.X, theta))

    def gradient(self, theta: FloatArray, weights: FloatArray) -> FloatArray:
        """Derivative of f_b at θ_b, ``(n_problems, n_outputs, n_inputs)``; ``weights`` are C w_b."""
        surplus = self.probabilities(theta)
        if self.n_outputs == 1:
            surplus[:, 0] -= self.codes
        else:
            surplus[:, self.codes, np.arange(len(self.codes))] -= 1
        surplus *= weights[:, None, :]
        flat = surplus.reshape(-1, len(self.codes)) @ self.X
        return flat.reshape(theta.shape) + self.penalised * theta

    def curvature(self, theta: FloatArray, weights: FloatArray) -> FloatArray:
        """Second derivative of f_b at one θ or at θ_b, ``(n_problems, n_parameters, n_parameters)``."""
        p = self.probabilities(theta.reshape(-1, *theta.shape[-2:]))
        width, n_outputs = self.X.shape[1], self.n_outputs
        blocks = np.empty((len(weights), n_outputs, width, n_outputs, width))
        for k in range(n_outputs):
            spreads = -p[:, k, None] * p[:, k:]
            spreads[:, 0] += p[:, k]
            spreads = spreads * (self.C * weights)[:, None]
            rows = weighted_products(self.X, spreads.reshape(-1, len(self.codes)))
            rows = rows.reshape(len(weights), n_outputs - k, width, width)
            blocks[:, k, :, k:] = rows.transpose(0, 2, 1, 3)
            blocks[:, k + 1 :, :, k] = rows[:, 1:]
        whole: FloatArray = blocks.reshape(len(weights), n_outputs * width, n_outputs * width)
        diagonal = np.arange(n_outputs * width)
        whole[:, diagonal, diagonal] += np.tile(self.penalised, n_outputs)
        if n_outputs > 1 and self.penalised[-1] == 0:
            # Intercepts of all classes may rise together without any change; held where they are.
            shared = np.flatnonzero(diagonal % width == width - 1)
            whole[:, shared[:, None], shared] += self.C * weights.sum(axis=1)[:, None, None] / n_outputs**2
        return whole


def raw_scores(X: FloatArray, theta: FloatArray) -> FloatArray:
    """Inputs times parameters, ``(n_problems, n_outputs, n_samples)``."""
    n_problems, n_outputs, width = theta.shape
    return (theta.reshape(-1, width) @ X.T).reshape(n_problems, n_outputs, len(X))


def to_probabilities(raw: FloatArray) -> FloatArray:
    """Sigmoid of one output, softmax of several; in place."""
    if raw.shape[1] == 1:
        with np.errstate(over="ignore"):  # exp(−z) of a class that is impossible: 1/∞
            np.exp(np.negative(raw, out=raw), out=raw)
        raw += 1
        return np.reciprocal(raw, out=raw)
    raw -= raw.max(axis=1, keepdims=True)
    np.exp(raw, out=raw)
    raw /= raw.sum(axis=1, keepdims=True)
    return raw


def solve_logistic(
    problem: Logistic, weights: FloatArray, start: FloatArray, inverse: FloatArray | None = None, *, tol: float = 1e-7
) -> FloatArray | None:
    """Solve logistic regression for every row of ``weights``.

    Parameters
    ----------
    problem : Logistic
        The training set.
    weights : ndarray of shape (n_problems, n_samples)
        Sample weights of every problem; a weight of 0 leaves the sample out.
    start : ndarray of shape (n_outputs, n_inputs) or (n_problems, n_outputs, n_inputs)
        θ to begin with, for all problems or each its own.
    inverse : ndarray of shape (n_parameters, n_parameters), optional
        Inverse of the second derivative near the start, for all problems; default each its own, at the start.
    tol : float, default 1e-7
        Largest step, relative to the largest parameter, that ends the search.

    Returns
    -------
    ndarray of shape (n_problems, n_outputs, n_inputs) or None
        None if a class has no weight in some problem, or if no solution was found.
    """
    if not (weights @ np.eye(max(problem.n_outputs, 2))[problem.codes] > 0).all():
        return None
    step = max(1, _BLOCK // (len(problem.codes) * problem.n_outputs))
    start = np.broadcast_to(start, (len(weights), *start.shape[-2:]))
    parts = []
    for first in range(0, len(weights), step):
        some = slice(first, first + step)
        rows, begin = weights[some], start[some]
        found = _minimise(problem, rows, begin, _inverses(problem, rows, begin, inverse), tol)
        if found is None:
            return None
        parts.append(found)
    return np.concatenate(parts)


def _inverses(problem: Logistic, weights: FloatArray, start: FloatArray, shared: FloatArray | None) -> FloatArray:
    """Where L-BFGS begins, ``(1 or n_problems, n_parameters, n_parameters)``."""
    if shared is not None and problem.n_parameters > FEW_PARAMETERS:
        return shared[None]
    inverse: FloatArray = np.linalg.inv(problem.curvature(start, weights))
    return inverse


def _minimise(
    problem: Logistic, weights: FloatArray, start: FloatArray, inverse: FloatArray, tol: float
) -> FloatArray | None:
    """L-BFGS on all problems together; those that are solved leave."""
    shape, n_problems = start.shape[1:], len(weights)
    theta = start.reshape(n_problems, -1)
    solved, left = np.empty(theta.shape), np.arange(n_problems)

    def gradient(at: FloatArray, rows: FloatArray) -> FloatArray:
        return problem.gradient(at.reshape(-1, *shape), rows).reshape(len(at), -1)

    weights = problem.C * weights
    slope = gradient(theta, weights)
    pairs: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    refresh = max(_REFRESH, round(_REFRESH_PER_PARAMETER * problem.n_parameters))
    for number in range(1, _N_STEPS):
        if number % refresh == 0:
            # Far from the start its second derivative helps no more: each of the few left gets its own.
            inverse, pairs = (np.linalg.inv(problem.curvature(theta.reshape(-1, *shape), weights / problem.C)), [])
        direction = -_two_loops(slope, pairs, inverse)
        small = np.abs(direction).max(axis=1) <= tol * np.maximum(np.abs(theta).max(axis=1), 1e-9)
        if small.any():
            solved[left[small]] = theta[small] + direction[small]
            keep = ~small
            left, theta, slope, direction = left[keep], theta[keep], slope[keep], direction[keep]
            weights = weights[keep]
            inverse = inverse[keep] if len(inverse) == len(keep) else inverse
            pairs = [(s[keep], y[keep], r[keep]) for s, y, r in pairs]
            if not len(left):
                return solved.reshape(n_problems, *shape)
        moved = _moved(gradient, theta, weights, slope, direction)
        if moved is None:
            return None
        step, after = moved
        change = after - slope
        curved = _dots(step, change)
        pairs = [*pairs[-(_MEMORY - 1) :], (step, change, 1 / np.maximum(curved, 1e-300))]
        theta, slope = theta + step, after
    return None


def _two_loops(
    slope: FloatArray, pairs: list[tuple[FloatArray, FloatArray, FloatArray]], inverse: FloatArray
) -> FloatArray:
    """Inverse second derivative, as the last steps tell it, times the gradient."""
    rest, shares = slope.copy(), []
    for step, change, rate in reversed(pairs):
        share = rate * _dots(step, rest)
        rest -= share[:, None] * change
        shares.append(share)
    result = _times(inverse, rest)
    if pairs:
        step, change, rate = pairs[-1]
        scale = 1 / (rate * _dots(change, _times(inverse, change)))
        result *= scale[:, None]
    for (step, change, rate), share in zip(pairs, reversed(shares), strict=True):
        result += (share - rate * _dots(change, result))[:, None] * step
    return result


def _dots(one: FloatArray, other: FloatArray) -> FloatArray:
    """Inner products of rows."""
    products: FloatArray = np.einsum("bd,bd->b", one, other)
    return products


def _times(inverse: FloatArray, vectors: FloatArray) -> FloatArray:
    product: FloatArray = (
        vectors @ inverse[0] if len(inverse) == 1 else np.matmul(inverse, vectors[:, :, None])[:, :, 0]
    )
    return product


def _moved(
    gradient: Callable[[FloatArray, FloatArray], FloatArray],
    theta: FloatArray,
    weights: FloatArray,
    slope: FloatArray,
    direction: FloatArray,
) -> tuple[FloatArray, FloatArray] | None:
    """Steps along the directions, shortened where they overshoot, and the gradients at their ends."""
    step, falls = direction.copy(), _dots(slope, direction)
    after = gradient(theta + step, weights)
    for _ in range(_N_TRIALS):
        ends = _dots(after, direction)
        long = np.flatnonzero(~(ends <= _CURVATURE * np.abs(falls)))
        if not len(long):
            return step, after
        # Where the slope, if it were straight, would be 0.
        share = np.abs(falls[long]) / (np.abs(falls[long]) + ends[long])
        step[long] *= np.clip(np.nan_to_num(share, nan=0.1), 0.1, 0.7)[:, None]
        after[long] = gradient(theta[long] + step[long], weights[long])
    return None
