"""∂^k f by automatic differentiation: what ``taylor_variation`` takes as ``derivatives=``.

A multi-index k of order |k| is a path of axes (i_1, …, i_n). Differentiating along e_i forward is a directional
derivative with a constant direction, so with D_i f = jvp(f, e_i)

    ∂^k f = D_{i_1} D_{i_2} … D_{i_n} f,

nested ``torch.func.jvp`` of the batched function: one pass for all points, the lower orders along the way for
free. No point is treated by itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.func import jvp

from steep._validation import FloatArray, check_count, check_points, one_line
from steep.exceptions import FunctionError, InputError, InputTypeError, SteepError

TorchFunction = Callable[[Tensor], Tensor]
# Numbers in a batch of points: derivatives of order n keep about 2ⁿ copies of every intermediate result.
_BLOCK = 2**16
# Nested derivatives double the work with every order: 2¹² passes is the most that is allowed.
_LARGEST_ORDER = 12


def torch_derivatives(
    function: TorchFunction, *, block: int = _BLOCK, dtype: torch.dtype = torch.float64
) -> TorchDerivatives:
    """Derivatives of a torch function, for ``taylor_variation(None, X, derivatives=torch_derivatives(f))``.

    Parameters
    ----------
    function : callable
        f, of a tensor ``(n_samples, n_features)`` → ``(n_samples,)`` or ``(n_samples, n_outputs)``, each row by
        itself (a network in eval mode, for instance). It needs forward-mode derivatives, which torch's own
        operations have.
    block : int, default 65536
        Points differentiated at once.
    dtype : torch.dtype, default torch.float64
        Precision of the points given to ``function``; that of its parameters for a network.

    Returns
    -------
    TorchDerivatives
        A callable ``(X, multi_indices)``, which can be pickled if ``function`` can.

    Examples
    --------
    >>> d = torch_derivatives(lambda x: x[:, 0] ** 2 * x[:, 1])
    >>> d(np.array([[3.0, 5.0]]), np.array([[1, 0], [2, 0], [1, 1]])).ravel().tolist()
    [30.0, 10.0, 6.0]
    """
    if not callable(function):
        raise InputTypeError(f"function is a {type(function).__name__}; expected a callable of a tensor")
    if not isinstance(dtype, torch.dtype):
        raise InputTypeError(f"dtype is a {type(dtype).__name__}; expected torch.float32 or torch.float64")
    if dtype not in (torch.float32, torch.float64):
        raise InputError(f"dtype={dtype} is not supported; expected torch.float32 or torch.float64")
    return TorchDerivatives(function, check_count(block, name="block"), dtype)


@dataclass(frozen=True)
class TorchDerivatives:
    """What :func:`torch_derivatives` returns: ∂^k f by automatic differentiation, block by block."""

    function: TorchFunction
    block: int
    dtype: torch.dtype

    def __call__(self, X: Any, multi_indices: npt.NDArray[np.int64], /) -> FloatArray:
        """Return ∂^k f as ``(n_indices, n_samples, n_outputs)``."""
        points = check_points(X)
        indices = _check_indices(multi_indices, points.shape[1])
        paths = [tuple(np.repeat(np.arange(len(k)), k).tolist()) for k in indices]
        derivatives: FloatArray | None = None
        with torch.no_grad():
            for start in range(0, len(points), self.block):
                x = torch.as_tensor(points[start : start + self.block], dtype=self.dtype)
                found = _path_derivatives(self.function, x, paths)
                if derivatives is None:
                    derivatives = np.empty((len(paths), len(points), found[paths[0]].shape[1]))
                for row, path in enumerate(paths):
                    derivatives[row, start : start + len(x)] = found[path].numpy()
        assert derivatives is not None  # check_points rejects an empty X
        return derivatives


def _check_indices(multi_indices: Any, n_features: int) -> npt.NDArray[np.int64]:
    """Return multi-indices k as rows, at least one."""
    try:
        indices = np.asarray(multi_indices)
    except ValueError as error:
        raise InputError(f"multi_indices are ragged ({error}); expected (n_indices, {n_features})") from error
    if indices.dtype.kind not in "iu" or indices.ndim != 2 or not len(indices) or indices.shape[1] != n_features:
        raise InputError(
            f"multi_indices have shape {indices.shape} and dtype {indices.dtype}; expected whole numbers "
            f"(n_indices, {n_features}), one column per input"
        )
    if indices.min() < 0 or indices.sum(axis=1).max() > _LARGEST_ORDER:
        raise InputError(f"multi_indices are out of range; expected orders from 0 to {_LARGEST_ORDER}")
    return indices.astype(np.int64)


def _path_derivatives(
    function: TorchFunction, x: Tensor, paths: list[tuple[int, ...]]
) -> dict[tuple[int, ...], Tensor]:
    """D along each path; a prefix's derivative comes with that of the longer path and is kept."""
    found: dict[tuple[int, ...], Tensor] = {}
    for path in sorted(paths, key=len, reverse=True):
        if path in found:
            continue
        values = _nested(function, path)(x)
        for length, value in enumerate(values):
            found.setdefault(path[:length], value)
    return found


def _nested(function: TorchFunction, path: tuple[int, ...]) -> Callable[[Tensor], tuple[Tensor, ...]]:
    """x ↦ (f, D_{i_1} f, D_{i_1} D_{i_2} f, …) for one path."""
    if not path:
        return lambda x: (_values(function, x),)
    shorter = _nested(function, path[:-1])

    def derivatives(x: Tensor) -> tuple[Tensor, ...]:
        direction = torch.zeros_like(x)
        direction[:, path[-1]] = 1
        with warnings.catch_warnings():
            # The first use of forward mode loads parts of torch that warn of torch's own deprecations.
            warnings.simplefilter("ignore", DeprecationWarning)
            values, tangents = jvp(shorter, (x,), (direction,))[:2]
        return (*values, tangents[-1])

    return derivatives


def _values(function: TorchFunction, x: Tensor) -> Tensor:
    """f(x) as columns; errors name the points it was given."""
    try:
        values = function(x)
    except SteepError:
        raise
    except Exception as error:
        raise FunctionError(
            f"function failed on {len(x)} points of {x.dtype} ({one_line(error)}); expected a function of a tensor "
            "(n_samples, n_features); pass dtype=torch.float32 for a network in single precision"
        ) from error
    if not isinstance(values, Tensor) or values.ndim not in (1, 2) or len(values) != len(x):
        shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise FunctionError(
            f"function returned {shape} for {len(x)} points; expected a tensor ({len(x)},) or ({len(x)}, n_outputs)"
        )
    return values.reshape(len(x), -1)
