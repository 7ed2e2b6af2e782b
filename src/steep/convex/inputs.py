"""Inputs of a convex problem, [(z − mean)/s, 1]: held in memory, or read block by block from a file."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from steep._validation import FloatArray, IntArray

# Numbers worked on at once: 2 MB of float32, to stay in the processor's cache.
BLOCK = 2**19
# Products of a table that stay in the cache, and columns from which on it is slower, as measured.
_TABLE, _MANY_COLUMNS = 2**17, 100


class Inputs:
    """Scaled inputs, one row per sample, of single or double precision; with ``bias`` a column of ones follows.

    Examples
    --------
    >>> Inputs(np.array([[1.0], [3.0]]), np.array([2.0]), 0.5, bias=True)[0:2]
    array([[-2.,  1.],
           [ 2.,  1.]])
    """

    def __init__(self, features: FloatArray, mean: FloatArray, scale: float, *, bias: bool) -> None:
        self.features, self.scale, self.bias = features, scale, bias
        self.dtype = np.dtype(np.float64 if features.dtype == np.float64 else np.float32)
        self.mean = np.asarray(mean, dtype=self.dtype)
        self.shape = features.shape[0], features.shape[1] + bias
        self._held = None if isinstance(features, np.memmap) else self._scaled(slice(None))

    def __getitem__(self, samples: slice | IntArray) -> FloatArray:
        if self._held is not None:
            return self._held[samples]
        if isinstance(samples, slice):
            return self._scaled(samples)
        order = np.argsort(samples)  # in the order of the file, which is quicker to read
        return self._scaled(samples[order])[np.argsort(order)]

    def blocks(self, n_models: int) -> Iterator[slice]:
        """Blocks of samples, so short that the scores of this many models stay in the cache."""
        width = max(256, BLOCK // n_models)
        if self._held is None:
            width = min(width, max(256, BLOCK // self.shape[1]))
        for start in range(0, self.shape[0], width):
            yield slice(start, start + width)

    def _scaled(self, samples: slice | IntArray) -> FloatArray:
        some = self.features[samples]
        rows = np.empty((len(some), self.shape[1]), dtype=self.dtype)
        rows[:, some.shape[1] :] = 1.0
        np.subtract(some, self.mean, out=rows[:, : some.shape[1]])
        if self.scale != 1.0:
            rows[:, : some.shape[1]] /= self.dtype.type(self.scale)
        return rows


def feature_scale(features: FloatArray, mean: FloatArray) -> float:
    """s: the root of the features' mean variance; 1 when they do not vary."""
    squares = np.einsum("ij,ij->", features, features, dtype=np.float64) / features.size
    variance = squares - float((mean**2).mean())
    return float(np.sqrt(variance)) if variance > 1e-12 * squares else 1.0


def weighted_products(columns: FloatArray, weights: FloatArray) -> FloatArray:
    """Σ_i w_bi c_ij c_il for every row b of ``weights``, ``(n_problems, n_columns, n_columns)``.

    For more problems than columns they are one product of the weights with the table of all c_ij c_il.
    """
    n_rows, width = columns.shape
    if len(weights) <= width or width > _MANY_COLUMNS:
        return np.stack([columns.T @ (columns * weight[:, None]) for weight in weights])
    n_products = width * (width + 1) // 2
    packed = np.zeros((len(weights), n_products))
    step = min(n_rows, max(64, _TABLE // n_products))
    transposed, products = np.ascontiguousarray(columns.T), np.empty((n_products, step), dtype=columns.dtype)
    for start in range(0, n_rows, step):
        part = transposed[:, start : start + step]
        table = products[:, : part.shape[1]]
        end = 0
        for number, column in enumerate(part):
            np.multiply(column, part[number:], out=table[end : end + width - number])
            end += width - number
        packed += weights[:, start : start + step] @ table.T
    whole = np.empty((len(weights), width, width))
    first, second = np.triu_indices(width)
    whole[:, first, second] = packed
    whole[:, second, first] = packed
    return whole
