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
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.func import jvp

from steep._validation import FloatArray, check_choice, check_points, one_line
from steep.exceptions import FunctionError, InputError, InputTypeError, SteepError

TorchFunction = Callable[[Tensor], Tensor]
Path = tuple[int, ...]
# Points differentiated at once: derivatives of order n keep about 2ⁿ copies of every intermediate result.
_BLOCK = 2**16
# Nested derivatives double the work with every order: 2¹² passes is the most that is allowed.
_LARGEST_ORDER = 12


def torch_derivatives(
    function: TorchFunction, *, dtype: torch.dtype = torch.float64
) -> Callable[[Any, npt.NDArray[np.int64]], FloatArray]:
    """Derivatives of a torch function, for ``taylor_variation(None, X, derivatives=torch_derivatives(f))``.

    Parameters
    ----------
    function : callable
        f, of a tensor ``(n_samples, n_features)`` → ``(n_samples,)`` or ``(n_samples, n_outputs)``, each row by
        itself (a network in eval mode, for instance). It needs forward-mode derivatives, which torch's own
        operations have.
    dtype : torch.dtype, default torch.float64
        Precision of the points given to ``function``; that of its parameters for a network.

    Returns
    -------
    callable
        ``(X, multi_indices)`` → ``(n_indices, n_samples, n_outputs)``, which can be pickled if ``function`` can.

    Examples
    --------
    >>> d = torch_derivatives(lambda x: x[:, 0] ** 2 * x[:, 1])
    >>> d(np.array([[3.0, 5.0]]), np.array([[1, 0], [2, 0], [1, 1]])).ravel().tolist()
    [30.0, 10.0, 6.0]
    """
    if not callable(function):
        raise InputTypeError(f"function is a {type(function).__name__}; expected a callable of a tensor")
    return partial(_derivatives, function, check_choice(dtype, name="dtype", choices=(torch.float32, torch.float64)))


def _derivatives(function: TorchFunction, dtype: torch.dtype, X: Any, multi_indices: Any) -> FloatArray:
    points = check_points(X)
    n_features = points.shape[1]
    try:
        indices = np.asarray(multi_indices)
    except ValueError as error:
        raise InputError(f"multi_indices are ragged ({error}); expected (n_indices, {n_features})") from error
    if (
        indices.dtype.kind not in "iu" or indices.ndim != 2 or not len(indices) or indices.shape[1] != n_features
        or indices.min() < 0 or indices.sum(axis=1).max() > _LARGEST_ORDER
    ):  # fmt: skip
        raise InputError(
            f"multi_indices have shape {indices.shape} and dtype {indices.dtype}; expected whole numbers "
            f"(n_indices, {n_features}), one column per input, of orders from 0 to {_LARGEST_ORDER}"
        )
    paths = [tuple(np.repeat(np.arange(n_features), k).tolist()) for k in indices]
    parts = []
    with torch.no_grad():
        for x in torch.split(torch.as_tensor(points, dtype=dtype), _BLOCK):
            found = _path_derivatives(function, x, paths)
            parts.append(np.stack([found[path].numpy().astype(np.float64, copy=False) for path in paths]))
    return np.concatenate(parts, axis=1)


def _path_derivatives(function: TorchFunction, x: Tensor, paths: list[Path]) -> dict[Path, Tensor]:
    """D along each path; a prefix's derivative comes with that of the longer path and is kept."""
    found: dict[Path, Tensor] = {}
    for path in sorted(paths, key=len, reverse=True):
        if path not in found:
            for length, value in enumerate(_nested(function, path)(x)):
                found.setdefault(path[:length], value)
    return found


def _nested(function: TorchFunction, path: Path) -> Callable[[Tensor], tuple[Tensor, ...]]:
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
