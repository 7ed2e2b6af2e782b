"""Taylor variation, Eq. dn: how much f varies around x, from its derivatives.

    Df^n_ε(x) = Σ_{1 ≤ |k| ≤ n}  ε^k (∂^k f(x))² / k!

n is ``order``, ε is ``epsilon`` (a variance: the neighbourhood has radius √ε), k a multi-index. For
several outputs the sum runs over them too. It is the variance of f(x + e), e ~ N(0, ε I), up to O(ε²)
(see docs/errata.md for the order of that remainder). For a multi-index

    |k| = Σ k_i      k! = Π k_i!      ε^k = Π ε_i^{k_i}

∂^k f of a black box comes from central finite differences, or from anything better. The one-dimensional stencils

    ∂^j ≈ δ^j / h^j          j even      δ^2: (1, −2, 1)
    ∂^j ≈ μδ^j / h^j         j odd       μδ:  (−½, 0, ½)

have error O(h²). The stencil of a multi-index k is their tensor product. All multi-indices share one
set of nodes, each evaluated once: order 2 in d dimensions needs 1 + 2d + 2d(d−1) evaluations a point. A node is
kept as its offsets along the few axes where it has any.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import factorial as _factorial

from steep._function import Function, check_function, check_variation, evaluate, function_values
from steep._validation import FloatArray, check_count, check_epsilon, check_flag, check_points, check_real
from steep.domain import Bounds, Box
from steep.exceptions import FunctionError, InputError
from steep.measures.neighborhood import FunctionAround

# Offsets in steps along the axes that have one: ((axis, offset), …), in the order of the axes.
Node = tuple[tuple[int, int], ...]
Stencil = dict[Node, float]

# Terms of all stencils together; beyond it the bookkeeping alone takes minutes.
_MOST_TERMS = 1_000_000
# Numbers in one call of the function: 2^24 doubles are 128 MiB.
_BLOCK = 2**24
# Places tried for a stencil that a constraint does not let stand around its own point.
_TRIES = 64

# Derivatives beyond this many are not worth their time, and ε^k/k! beyond this order is nothing.
_MOST_INDICES = 100_000
_HIGHEST_ORDER = 100


class Derivatives(Protocol):
    """Anything that gives partial derivatives: finite differences, autodiff, or formulas by hand."""

    def __call__(self, X: FloatArray, multi_indices: npt.NDArray[np.int64], /) -> FloatArray:
        """Return ∂^k f(x) as ``(n_indices, n_samples, n_outputs)``; one output may be left out."""
        ...


class FiniteDifferences:
    """Derivatives of ``function`` by central differences on one batched stencil.

    ``bounds`` give the scale of each axis and limits of the nodes: a stencil that would leave the box is moved inwards,
    one that would break the constraint to a place nearby, or rejected; without them the scale is the range of ``X``.
    ``step`` is h as a share of each axis; by default (machine epsilon)^(1/(order+2)), which balances truncation O(h²)
    against rounding O(1/h^order), and less where a stencil would not fit into the box.

    Examples
    --------
    >>> import numpy as np
    >>> d = FiniteDifferences(lambda X: X[:, 0] ** 2 * X[:, 1], bounds=[(0, 2), (0, 2)])
    >>> d(np.array([[1.0, 1.0]]), np.array([[1, 1], [2, 0]])).round(4).ravel().tolist()
    [2.0, 2.0]
    """

    def __init__(
        self, function: Function, *, bounds: Bounds | Box | None = None, step: float | None = None,
        vectorized: bool = True,
    ) -> None:  # fmt: skip
        check_function(function)
        self.function = function
        self.box = None if bounds is None else Box(bounds)
        self.step = None if step is None else check_real(step, name="step", above=0.0, maximum=0.1)
        self.vectorized = check_flag(vectorized, name="vectorized")

    def __call__(self, X: Any, multi_indices: npt.NDArray[np.int64], /) -> FloatArray:
        """Return ∂^k f as ``(n_indices, n_samples, n_outputs)``."""
        points = check_points(X, n_features=None if self.box is None else self.box.n_features)
        points = points.astype(np.float64, copy=False)
        k = _check_multi_indices(multi_indices, points.shape[1])
        stencils = [_tensor_stencil(row) for row in k]
        nodes = sorted({node for stencil in stencils for node in stencil})
        offsets = _offsets(nodes, points.shape[1])
        step = self._step(points, int(k.sum(axis=1).max()), np.abs(offsets).max(axis=0))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            scale = np.prod(step**k, axis=1)
            rows = _coefficients(stencils, nodes, scale)
            n_block = max(1, _BLOCK // offsets.size)
            blocks = [points[i : i + n_block] for i in range(0, len(points), n_block)]
            return _joined([self._differences(block, offsets, step, rows) for block in blocks])

    def _step(self, points: FloatArray, order: int, reach: npt.NDArray[np.int64]) -> FloatArray:
        """h along each axis; both arms of a stencil fit into the box."""
        share: FloatArray = np.full(len(reach), self.step or np.finfo(np.float64).eps ** (1 / (order + 2)))
        if self.box is not None:
            return np.minimum(share, 0.5 / np.maximum(reach, 1)) * self.box.width
        width: FloatArray = np.ptp(points, axis=0)
        # A column that does not vary has no range; fall back on its size, then on 1.
        return share * np.where(width > 0, width, np.where(points[0] != 0, np.abs(points[0]), 1.0))

    def _differences(
        self, points: FloatArray, offsets: npt.NDArray[np.int64], step: FloatArray, rows: Any
    ) -> FloatArray:
        """Derivatives at some of the points, from the values at every node of each, in one call."""
        centres = self._centres(points, offsets, step)
        nodes = self._nodes(centres, offsets, step)
        if not np.isfinite(nodes).all():
            raise InputError("X spans more than floats reach; expected a smaller range; scale the inputs")
        values = evaluate(self.function, nodes, vectorized=self.vectorized)
        return np.asarray((rows @ values.reshape(len(offsets), -1)).reshape(rows.shape[0], len(points), -1))

    def _nodes(self, centres: FloatArray, offsets: npt.NDArray[np.int64], step: FloatArray) -> FloatArray:
        """Every node of every centre, node by node."""
        nodes: FloatArray = (offsets * step)[:, None, :] + centres
        if self.box is not None:
            # Nodes of points inside leave the box by rounding alone: they are brought back.
            inside = _in_box(self.box, centres)[:, None]
            np.clip(nodes, self.box.lower, self.box.upper, out=nodes, where=inside)
        return nodes.reshape(-1, centres.shape[1])

    def _centres(self, points: FloatArray, offsets: npt.NDArray[np.int64], step: FloatArray) -> FloatArray:
        """Centres of the stencils: at the points, or nearby where they stay inside the domain."""
        if self.box is None:
            return points
        reach = np.abs(offsets).max(axis=0) * step
        within = (self.box.lower + reach, self.box.upper - reach)
        # Only points inside are moved: where a caller's point lies outside, so must its nodes.
        centres: FloatArray = np.where(_in_box(self.box, points)[:, None], np.clip(points, *within), points)
        if self.box.constraint is None:
            return centres
        generator = np.random.default_rng(0)
        left = np.flatnonzero(self.box.contains(points))
        for attempt in range(_TRIES):
            if len(left):
                inside = self.box.contains(self._nodes(centres[left], offsets, step))
                left = left[~inside.reshape(len(offsets), -1).all(axis=0)]
            if not len(left):
                return centres
            # Further away as the tries go on, up to sixteen times the reach.
            shift = generator.uniform(-1, 1, (len(left), points.shape[1])) * reach * (1 + attempt // 4)
            centres[left] = np.clip(points[left] + shift, *within)
        raise InputError(
            f"the constraint leaves no room for finite differences around {len(left)} of {len(points)} points; pass "
            "derivatives, or use a measure of labels such as 'surprise'"
        )


def _in_box(box: Box, points: FloatArray) -> npt.NDArray[np.bool_]:
    """Tell which points lie between the bounds, whatever the constraint says."""
    return np.asarray(np.all((points >= box.lower) & (points <= box.upper), axis=1))


def _joined(blocks: list[FloatArray]) -> FloatArray:
    sizes = {block.shape[2] for block in blocks}
    if len(sizes) > 1:
        raise FunctionError(
            f"function returned different numbers of outputs in different calls: {sorted(sizes)}; expected the same"
        )
    return np.concatenate(blocks, axis=1)


def _check_multi_indices(multi_indices: Any, n_features: int) -> npt.NDArray[np.int64]:
    try:
        k = np.asarray(multi_indices)
    except ValueError as error:
        raise InputError(f"multi_indices is ragged ({error}); expected one row of {n_features} numbers each") from error
    if k.ndim != 2 or not len(k) or k.shape[1] != n_features or k.dtype.kind not in "iu" or k.min() < 0:
        raise InputError(
            f"multi_indices is {k.dtype} of shape {k.shape}; expected whole numbers ≥ 0 of shape (n_indices, "
            f"{n_features})"
        )
    check_count(int(k.sum(axis=1).min()), name="|k| of a multi-index")
    n_terms = np.prod(k + 1.0, axis=1).sum()
    if n_terms > _MOST_TERMS:
        raise InputError(
            f"finite differences of order {k.sum(axis=1).max()} in {n_features} inputs have {n_terms:.3g} terms; "
            f"expected at most {_MOST_TERMS}; lower order, pass derivatives or use perturbation_variance"
        )
    return k.astype(np.int64)


def _central_stencil(order: int) -> dict[int, float]:
    """Coefficients of δ^order (even) or μδ^order (odd), by offset in steps."""
    coefficients = np.array([1.0])
    for _ in range(order // 2):
        coefficients = np.convolve(coefficients, [1.0, -2.0, 1.0])
    if order % 2:
        coefficients = np.convolve(coefficients, [-0.5, 0.0, 0.5])
    reach = len(coefficients) // 2
    return {i - reach: float(c) for i, c in enumerate(coefficients) if c}


def _tensor_stencil(k: npt.NDArray[np.int64]) -> Stencil:
    stencil: Stencil = {(): 1.0}
    for axis in np.flatnonzero(k).tolist():
        arms = _central_stencil(int(k[axis]))
        stencil = {
            ((*node, (axis, offset)) if offset else node): c * a
            for node, c in stencil.items()
            for offset, a in arms.items()
        }
    return stencil


def _offsets(nodes: list[Node], n_features: int) -> npt.NDArray[np.int64]:
    """Nodes as vectors, ``(n_nodes, n_features)``."""
    offsets = np.zeros((len(nodes), n_features), dtype=np.int64)
    for i, node in enumerate(nodes):
        for axis, offset in node:
            offsets[i, axis] = offset
    return offsets


def _coefficients(stencils: list[Stencil], nodes: list[Node], scale: FloatArray) -> Any:
    """Coefficient of every node in every stencil over its ``scale``, a sparse ``(n_indices, n_nodes)``."""
    column = {node: i for i, node in enumerate(nodes)}
    entries = [(row, column[node], c) for row, stencil in enumerate(stencils) for node, c in stencil.items()]
    rows, columns, coefficients = (np.array(part) for part in zip(*entries, strict=True))
    return sparse.csr_array((coefficients / scale[rows], (rows, columns)), shape=(len(stencils), len(nodes)))


def taylor_variation(
    function: Function | None,
    X: Any,
    *,
    order: int = 2,
    epsilon: Any = 1e-3,
    derivatives: Derivatives | None = None,
    bounds: Bounds | Box | None = None,
    vectorized: bool = True,
) -> FloatArray:
    """Measure how fast ``function`` varies around each point, from its derivatives (Eq. dn).

    Parameters
    ----------
    function : callable
        f, called with an ``(n, n_features)`` array; may be None when ``derivatives`` is given.
    X : array-like of shape (n_samples, n_features)
        Points at which to measure.
    order : int, default 2
        n, the highest order of derivative used. By finite differences order 2 costs
        1 + 2d + 2d(d−1) evaluations a point in d dimensions.
    epsilon : float or array of shape (n_features,), default 1e-3
        ε, a variance in the squared units of each input. Larger values give high orders more say.
    derivatives : callable, optional
        ``derivatives(X, multi_indices)`` → ``(n_indices, n_samples, n_outputs)``. Default: central
        finite differences of ``function``.
    bounds : bounds or Box, optional
        For finite differences: scale of each axis and limits of the evaluations, a constraint included.
    vectorized : bool, default True
        False when ``function`` takes one point at a time.

    Returns
    -------
    ndarray of shape (n_samples,)
        Df^n_ε ≥ 0.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[0.0], [1.0]])
    >>> taylor_variation(lambda X: X[:, 0] ** 2, x, epsilon=0.01).round(6)
    array([0.0002, 0.0402])
    """
    points = check_points(X, n_features=None if bounds is None else Box(bounds).n_features)
    epsilon = check_epsilon(epsilon, points.shape[1])
    k = multi_indices(points.shape[1], order)
    if derivatives is None:
        if function is None:
            raise InputError("function is None and derivatives is None; expected one; pass function")
        derivatives = FiniteDifferences(function, bounds=bounds, vectorized=vectorized)
    check_function(derivatives, name="derivatives", of="(X, multi_indices)")
    partials = _check_partials(derivatives(points.copy(), k.copy()), len(k), len(points))
    with np.errstate(over="ignore", invalid="ignore"):
        coefficients = power(epsilon, k) / factorial(k)
        return check_variation(np.einsum("k,kno->n", coefficients, partials**2))


def taylor(around: FunctionAround) -> FloatArray:
    """Eq. dn, for the registry."""
    return taylor_variation(
        around.function, around.points, order=around.order, epsilon=around.epsilon, derivatives=around.derivatives,
        bounds=around.bounds,
    )  # fmt: skip


def _check_partials(raw: Any, n_indices: int, n_samples: int) -> FloatArray:
    partials = function_values(raw, "derivatives")
    if partials.shape == (n_indices, n_samples):
        partials = partials[:, :, None]
    if partials.ndim != 3 or partials.shape[:2] != (n_indices, n_samples) or not partials.size:
        raise FunctionError(
            f"derivatives returned shape {partials.shape}; expected ({n_indices}, {n_samples}, n_outputs): one "
            "block per multi-index, one row per point"
        )
    if not np.isfinite(partials).all():
        bad = np.flatnonzero(~np.isfinite(partials).all(axis=(0, 2)))
        raise FunctionError(
            f"derivatives returned NaN or infinity at {bad.size} of {n_samples} points, first at row {bad[0]} "
            "of X; expected finite values; leave those points out"
        )
    return partials


def multi_indices(n_features: int, order: int) -> npt.NDArray[np.int64]:
    """Every multi-index with 1 ≤ |k| ≤ ``order``, by |k| first, ``(C(n_features + order, order) − 1, n_features)``."""
    n_features, order = check_count(n_features, name="n_features"), check_count(order, name="order")
    if order > _HIGHEST_ORDER:
        raise InputError(f"order={order} is too large; expected at most {_HIGHEST_ORDER}; 2 is usual")
    n_indices = comb(n_features + order, order) - 1
    if n_indices > _MOST_INDICES:
        raise InputError(
            f"order={order} of {n_features} inputs takes {n_indices:.6g} derivatives; expected at most "
            f"{_MOST_INDICES}; lower order, or use perturbation_variance"
        )
    return np.vstack([_of_total(n_features, total) for total in range(1, order + 1)])


def factorial(k: npt.NDArray[np.int64]) -> FloatArray:
    """k! of each row of ``k``."""
    return np.asarray(_factorial(k).prod(axis=-1))


def power(epsilon: FloatArray, k: npt.NDArray[np.int64]) -> FloatArray:
    """ε^k of each row of ``k``, for a vector ε of shape ``(n_features,)``."""
    return np.asarray(np.power(epsilon, k).prod(axis=-1))


def _of_total(n_features: int, total: int) -> npt.NDArray[np.int64]:
    axes = np.array(list(combinations_with_replacement(range(n_features), total)))
    k = np.zeros((len(axes), n_features), dtype=np.int64)
    np.add.at(k, (np.arange(len(axes))[:, None], axes), 1)
    return k
