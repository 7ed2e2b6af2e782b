"""∂^k f of a black box by central finite differences, and the protocol for anything better.

The one-dimensional central stencils

    ∂^j ≈ δ^j / h^j          j even      δ^2: (1, −2, 1)
    ∂^j ≈ μδ^j / h^j         j odd       μδ:  (−½, 0, ½)

have error O(h²). The stencil of a multi-index k is their tensor product. All multi-indices share one
set of nodes, each evaluated once: order 2 in d dimensions needs 1 + 2d + 2d(d−1) evaluations a point.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from steep._function import Function, evaluate
from steep._validation import FloatArray, check_points, check_real
from steep.domain import Bounds, Box

Stencil = dict[tuple[int, ...], float]


class Derivatives(Protocol):
    """Anything that gives partial derivatives: finite differences, autodiff, or formulas by hand."""

    def __call__(self, X: FloatArray, multi_indices: npt.NDArray[np.int64], /) -> FloatArray:
        """Return ∂^k f(x) as ``(n_indices, n_samples, n_outputs)``; one output may be left out."""
        ...


class FiniteDifferences:
    """Derivatives of ``function`` by central differences on one batched stencil.

    Parameters
    ----------
    function : callable
        Called once with all nodes, shape ``(n, n_features)``; see ``vectorized``.
    bounds : bounds or Box, optional
        Scale of each axis, and limits the nodes must stay within: a stencil that would leave the box
        is moved inwards, by at most its own reach. Without it the scale is the range of ``X`` and
        nodes may lie outside it.
    step : float, optional
        h as a share of each axis. Default (machine epsilon)^(1/(order+2)), which balances truncation
        O(h²) against rounding O(1/h^order): 1.2e-4 at order 2.
    vectorized : bool, default True
        False when ``function`` takes one point at a time.

    Attributes
    ----------
    n_evaluations : int
        Points at which the function was evaluated so far.

    Examples
    --------
    >>> import numpy as np
    >>> d = FiniteDifferences(lambda X: X[:, 0] ** 2 * X[:, 1], bounds=[(0, 2), (0, 2)])
    >>> d(np.array([[1.0, 1.0]]), np.array([[1, 1], [2, 0]])).round(4).ravel().tolist()
    [2.0, 2.0]
    >>> d.n_evaluations
    7
    """

    def __init__(
        self,
        function: Function,
        *,
        bounds: Bounds | Box | None = None,
        step: float | None = None,
        vectorized: bool = True,
    ) -> None:
        self.function = function
        self.box = None if bounds is None else Box(bounds)
        self.step = None if step is None else check_real(step, name="step", above=0.0, maximum=0.1)
        self.vectorized = vectorized
        self.n_evaluations = 0

    def __call__(self, X: Any, multi_indices: npt.NDArray[np.int64], /) -> FloatArray:
        """Return ∂^k f as ``(n_indices, n_samples, n_outputs)``."""
        points = check_points(X).astype(np.float64, copy=False)
        stencils = [_tensor_stencil(tuple(int(j) for j in k)) for k in multi_indices]
        nodes = sorted({node for stencil in stencils for node in stencil})
        order = int(np.max(np.sum(multi_indices, axis=1)))
        width = self._width(points)
        step = (self.step or np.finfo(np.float64).eps ** (1 / (order + 2))) * width
        values = self._evaluate_nodes(points, np.array(nodes), step)
        rows = _coefficients(stencils, nodes) / np.prod(step**multi_indices, axis=1)[:, None]
        derivatives: FloatArray = np.tensordot(rows, values, axes=1)
        return derivatives

    def _width(self, points: FloatArray) -> FloatArray:
        if self.box is not None:
            return self.box.width
        width: FloatArray = np.ptp(points, axis=0)
        # A column that does not vary has no range; fall back on its size, then on 1.
        return np.where(width > 0, width, np.where(points[0] != 0, np.abs(points[0]), 1.0))

    def _evaluate_nodes(
        self, points: FloatArray, nodes: npt.NDArray[np.int64], step: FloatArray
    ) -> FloatArray:
        """Values at every node of every point, ``(n_nodes, n_samples, n_outputs)``, in one call."""
        centres = points
        if self.box is not None:
            reach = np.abs(nodes).max(axis=0) * step
            inside = np.clip(points, self.box.lower + reach, self.box.upper - reach)
            # Only points of the box are moved: where a caller's point lies outside, so must its nodes.
            centres = np.where(self.box.contains(points)[:, None], inside, points)
        stacked: FloatArray = (centres[None] + nodes[:, None, :] * step).reshape(-1, points.shape[1])
        if self.box is not None:
            stacked = _clip_rounding(stacked, self.box)
        self.n_evaluations += len(stacked)
        values = evaluate(self.function, stacked, vectorized=self.vectorized)
        return values.reshape(len(nodes), len(points), -1)


def _clip_rounding(points: FloatArray, box: Box) -> FloatArray:
    """Bring back nodes that rounding alone put outside."""
    clipped = np.clip(points, box.lower, box.upper)
    return np.where(np.abs(points - clipped) <= 1e-12 * box.width, clipped, points)


def _central_stencil(order: int) -> dict[int, float]:
    """Coefficients of δ^order (even) or μδ^order (odd), by offset in steps."""
    coefficients = np.array([1.0])
    for _ in range(order // 2):
        coefficients = np.convolve(coefficients, [1.0, -2.0, 1.0])
    if order % 2:
        coefficients = np.convolve(coefficients, [-0.5, 0.0, 0.5])
    reach = len(coefficients) // 2
    return {i - reach: float(c) for i, c in enumerate(coefficients) if c}


def _tensor_stencil(k: tuple[int, ...]) -> Stencil:
    stencil: Stencil = {(): 1.0}
    for order in k:
        axis = _central_stencil(order)
        stencil = {(*node, o): c * a for node, c in stencil.items() for o, a in axis.items()}
    return stencil


def _coefficients(stencils: list[Stencil], nodes: list[tuple[int, ...]]) -> FloatArray:
    column = {node: i for i, node in enumerate(nodes)}
    rows = np.zeros((len(stencils), len(nodes)))
    for row, stencil in zip(rows, stencils, strict=True):
        for node, coefficient in stencil.items():
            row[column[node]] = coefficient
    return rows
