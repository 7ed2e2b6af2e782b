"""Weighted logistic regression, many at once: weightings of the same samples, along a path of penalties or not.

    f_b(θ) = Σ_i w_bi ℓ(θ z_i, y_i) + ½ λ Σ_j h_j ‖θ_j − c_j‖²,      b = 1…B

ℓ is the cross-entropy of a softmax over the outputs, or the sum of binary cross-entropies; h is 0 for a free bias and 1
for all other inputs; c, the centre, is 0 or another model that θ is held near. Gradients are two matrix products per
block of samples, in the precision of the inputs, with sums over blocks in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from steep._validation import FloatArray, IntArray
from steep.convex.inputs import Inputs, weighted_products
from steep.convex.minimise import Limits, Minima, Pair, Solve, minimise

# Up to this many parameters every weighting has its own Hessian at the start.
FEW_PARAMETERS = 40
# Samples from which one Hessian is modelled for all, and the largest one modelled in full.
_HESSIAN_SAMPLES, _FULL_HESSIAN = 4000, 2500
# Hessians that are inverted: many vectors are then multiplied more quickly.
_INVERTED = 600
# Shares of the largest diagonal entry added to a Hessian that is not positive definite, one after the other.
_SHARES_ADDED = (0.0, 1e-7, 1e-5, 1e-3)
# Gap of the first, rough solution of a path, at which the Hessian is modelled.
_ROUGH = Limits(gap=5e-3)


@dataclass(frozen=True)
class LogisticProblem:
    """Samples, labels and penalty: z is ``inputs``, h ``held`` and c ``center``.

    ``targets`` are class numbers ``(n_samples,)`` for the softmax, 0 and 1 ``(n_outputs, n_samples)`` for binary
    outputs. Searches end where they are at ``deadline``, by ``time.monotonic``.
    """

    inputs: Inputs
    targets: npt.NDArray[Any]
    n_outputs: int
    held: FloatArray
    center: FloatArray | float = 0.0
    deadline: float = inf

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs."""
        return self.n_outputs, self.inputs.shape[1]

    @property
    def is_softmax(self) -> bool:
        """Whether each sample has one class."""
        return self.targets.ndim == 1

    def gradient(self, theta: FloatArray, weights: FloatArray, l2: float) -> FloatArray:
        """Derivative of f_b at θ_b, ``(n_problems, n_outputs, n_inputs)``."""
        flat = theta.reshape(-1, theta.shape[-1])
        total = np.zeros(flat.shape)
        for block in self.inputs.blocks(len(flat)):
            rows = self.inputs[block]
            surplus = self.probabilities(theta, rows)
            if self.is_softmax:
                surplus[:, self.targets[block], np.arange(len(rows))] -= 1
            else:
                surplus -= self.targets[:, block]
            surplus *= weights[:, None, block]
            total += surplus.reshape(len(flat), -1) @ rows
        slope: FloatArray = total.reshape(theta.shape) + l2 * self.held * (theta - self.center)
        return slope

    def probabilities(self, theta: FloatArray, rows: FloatArray) -> FloatArray:
        """Probability of every class, or of 1, ``(n_problems, n_outputs, n_samples)``."""
        flat: FloatArray = theta.reshape(-1, theta.shape[-1]).astype(rows.dtype, copy=False) @ rows.T
        return to_probabilities(flat.reshape(-1, self.n_outputs, len(rows)), softmax=self.is_softmax)

    def hessian(self, theta: FloatArray, weights: FloatArray, l2: float, samples: Any = slice(None)) -> FloatArray:
        """Second derivative of f_b at θ_b, or at one θ, ``(n_problems, n_parameters, n_parameters)``.

        ``weights`` are those of ``samples``, from which it is computed.
        """
        rows = self.inputs[samples]
        p = self.probabilities(theta, rows)
        n_outputs, width = self.shape
        blocks = np.zeros((len(weights), n_outputs, width, n_outputs, width))
        for k in range(n_outputs):
            last = n_outputs if self.is_softmax else k + 1
            spreads = -p[:, k, None] * p[:, k:last]
            spreads[:, 0] += p[:, k]
            spreads = spreads * weights[:, None]
            found = weighted_products(rows, spreads.reshape(-1, len(rows)))
            found = found.reshape(len(weights), last - k, width, width)
            blocks[:, k, :, k:last] = found.transpose(0, 2, 1, 3)
            blocks[:, k + 1 : last, :, k] = found[:, 1:]
        whole = blocks.reshape(len(weights), n_outputs * width, n_outputs * width)
        diagonal = np.arange(n_outputs * width)
        whole[:, diagonal, diagonal] += np.tile(l2 * self.held, n_outputs)
        if self.is_softmax and self.held[-1] == 0:
            # The biases of all classes may rise together without any change; held where they are.
            shared = np.flatnonzero(diagonal % width == width - 1)
            whole[:, shared[:, None], shared] += weights.sum(axis=1)[:, None, None] / n_outputs**2
        return whole

    def solver(self, theta: FloatArray, l2: float, weight: FloatArray, *, rough: bool = False) -> Solve:
        """g ↦ M⁻¹ g for all problems, M the Hessian at one θ, from the samples that bend f most and some others.

        ``rough`` takes one block for all outputs, which is enough to come near from far away and costs nothing.
        """
        samples, importance = self._curved(theta[None], weight)
        n_outputs, width = self.shape
        if rough or n_outputs * width > _FULL_HESSIAN:
            p = self.probabilities(theta[None], self.inputs[samples])[0]
            spread = (p * (1 - p)).mean(axis=0) * importance
            block = weighted_products(self.inputs[samples], spread[None])[0].astype(np.float64)
            factor = _factor(block + np.diag(l2 * self.held + 1e-9 + 1e-6 * (self.held == 0)))
        else:
            factor = _factor(self.hessian(theta[None], importance[None], l2, samples)[0])
        size = len(factor[0])
        inverse = linalg.cho_solve(factor, np.eye(size), check_finite=False) if size <= _INVERTED else None

        def solve(vectors: FloatArray, _: IntArray) -> FloatArray:
            flat = vectors.reshape(-1, size)
            solved: FloatArray = (
                linalg.cho_solve(factor, flat.T, check_finite=False).T if inverse is None else flat @ inverse
            )
            return solved.reshape(vectors.shape)

        return solve

    def _curved(self, theta: FloatArray, weight: FloatArray) -> tuple[Any, FloatArray]:
        """Samples a model of the Hessian is built from, and how much each counts.

        A sample's curvature is w Σ_c p_c (1 − p_c). If a model is sure of nearly all samples the few others carry
        the Hessian: they are all taken, and the rest is represented by every so-many-th.
        """
        n_samples, width = self.inputs.shape
        n_curved = max(_HESSIAN_SAMPLES, 4 * width)
        importance = weight.astype(self.inputs.dtype)
        if n_samples <= 2 * n_curved:
            return slice(None), importance
        curvature = np.empty(n_samples, dtype=self.inputs.dtype)
        for block in self.inputs.blocks(self.n_outputs):
            p = self.probabilities(theta, self.inputs[block])[0]
            curvature[block] = (p * (1 - p)).sum(axis=0)
        order = np.argsort(-curvature * importance, kind="stable")
        every = -(-(n_samples - n_curved) // (n_curved // 4))
        importance[order[n_curved:]] *= every
        chosen = np.concatenate([order[:n_curved], order[n_curved::every]])
        return chosen, importance[chosen]


def to_probabilities(raw: FloatArray, *, softmax: bool) -> FloatArray:
    """Softmax over the outputs ``(n_problems, n_outputs, n_samples)``, or the sigmoid of each; in place."""
    if not softmax:
        with np.errstate(over="ignore"):  # exp(−z) of a class that is impossible: 1/∞
            np.exp(np.negative(raw, out=raw), out=raw)
        raw += 1
        return np.reciprocal(raw, out=raw)
    raw -= raw.max(axis=1, keepdims=True)
    np.exp(raw, out=raw)
    raw /= raw.sum(axis=1, keepdims=True)
    return raw


def _factor(matrix: FloatArray) -> tuple[FloatArray, bool]:
    """Factor M, which rounding may have left a little short of positive definite when λ is zero.

    M only shapes the steps, so what is added to its diagonal changes the way to the minimum and not the minimum.
    """
    size = float(np.diagonal(matrix).max())
    for share in _SHARES_ADDED:
        try:
            held = matrix + share * size * np.eye(len(matrix)) if share else matrix
            factor: tuple[FloatArray, bool] = linalg.cho_factor(held, check_finite=False)
            return factor
        except linalg.LinAlgError:
            continue
    return np.sqrt(size) * np.eye(len(matrix)), False  # plain descent: M is beyond repair


def _search(
    problem: LogisticProblem, weights: FloatArray, l2: float, start: FloatArray, solve: Solve, limits: Limits,
    pairs: Sequence[Pair] | None = None, renewed: Any = None,
) -> Minima:  # fmt: skip
    """:func:`minimise` from starts ``(n_problems, n_outputs, n_inputs)``."""
    asked, some = None, weights

    def gradient(points: FloatArray, numbers: IntArray) -> FloatArray:
        nonlocal asked, some
        if numbers is not asked:  # most often the same problems as last time
            asked, some = numbers, weights if len(numbers) == len(weights) else weights[numbers]
        return problem.gradient(points.reshape(-1, *problem.shape), some, l2).reshape(points.shape)

    return minimise(gradient, start.reshape(len(weights), -1), solve, limits, pairs=pairs, renewed=renewed)


def solve_logistic(
    problem: LogisticProblem, weights: FloatArray, start: FloatArray, shared: Solve | None = None, *, tol: float = 1e-7
) -> FloatArray | None:
    """Solve one problem for every row of ``weights``, λ = 1, from one θ or one for each; ``(n_problems, …)``.

    ``shared`` is what :meth:`LogisticProblem.solver` returns for a start that is near all solutions; problems of few
    parameters have their own Hessians. A step below ``tol``, relative to the largest parameter, ends the search. None
    if a class has no weight in some problem, or if no solution was found.
    """
    classes = problem.targets if problem.is_softmax else problem.targets[0].astype(np.intp)
    if not (weights @ np.eye(max(problem.n_outputs, 2))[classes] > 0).all():
        return None
    start = np.broadcast_to(start, (len(weights), *problem.shape))

    def own(points: FloatArray, numbers: IntArray) -> Solve:
        inverses = np.linalg.inv(problem.hessian(points.reshape(-1, *problem.shape), weights[numbers], 1.0))

        def solve(vectors: FloatArray, some: IntArray) -> FloatArray:
            nonlocal inverses, numbers
            if len(some) < len(numbers):
                inverses, numbers = inverses[np.searchsorted(numbers, some)], some
            product: FloatArray = np.matmul(inverses, vectors[:, :, None])[:, :, 0]
            return product

        return solve

    few = shared is None or np.prod(problem.shape) <= FEW_PARAMETERS
    solve = own(start, np.arange(len(weights))) if few or shared is None else shared
    found = _search(problem, weights, 1.0, start, solve, Limits(step=tol, n_steps=200, memory=20), renewed=own)
    return found.theta.reshape(start.shape) if found.converged.all() else None


def logistic_path(
    problem: LogisticProblem, weights: FloatArray, l2s: Sequence[float], start: FloatArray, gap: float
) -> Iterator[tuple[float, Minima]]:
    """Yield λ and the minima for every row of ``weights``, from the largest λ down.

    Each first row starts from the one before, comes near, and there the Hessian is modelled for all rows. The others
    start from where they were, moved by as much as the first has moved, with what they learned of their own Hessian:
    with λ it changes by a known multiple of the identity, and so do the changes of the gradient.
    ``gap`` is what may still be gained at the end, in units of f.
    """
    held, limits = np.tile(problem.held, problem.n_outputs), Limits(gap=gap, deadline=problem.deadline)
    known: Minima | None = None
    first, before = start.reshape(1, -1), 0.0
    for l2 in sorted(l2s, reverse=True):
        rough = problem.solver(first.reshape(problem.shape), l2, weights[0], rough=True)
        near = _search(problem, weights[:1], l2, first, rough, replace(_ROUGH, deadline=problem.deadline)).theta
        solve = problem.solver(near.reshape(problem.shape), l2, weights[0])
        exact = _search(problem, weights[:1], l2, near, solve, limits)
        if len(weights) == 1:
            known, found = None, exact
        else:
            others = np.repeat(exact.theta, len(weights) - 1, axis=0)
            pairs: list[Pair] = []
            if known is not None:
                others = known.theta + exact.theta - first
                for step, change, _ in known.pairs:  # in place: of wide models they are most of the memory
                    change += (l2 - before) * held * step
                    curved = np.einsum("bd,bd->b", step, change)
                    pairs.append((step, change, np.divide(1, curved, out=np.zeros(len(curved)), where=curved > 0)))
            known = _search(problem, weights[1:], l2, others, solve, limits, pairs)
            found = Minima(
                np.concatenate([exact.theta, known.theta]), np.concatenate([exact.converged, known.converged]),
                np.concatenate([exact.n_evaluations, known.n_evaluations]),
            )  # fmt: skip
        first, before = exact.theta, l2
        yield l2, found
