"""Features of a head's problem as columns [(z − mean)/s; 1]: held in memory, or made from a file as they are used."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steep._validation import FloatArray

# Numbers scaled at once: 2 MB of float32, to stay in the processor's cache.
_BLOCK_NUMBERS = 2**19


class Columns:
    """Scaled features, one column a sample.

    Parameters
    ----------
    features : ndarray of shape (n_samples, n_features)
        z; a ``numpy.memmap`` stays in its file.
    mean, scale : ndarray of shape (n_features,), float
        What is taken off, and what the rest is divided by.
    bias : bool
        Whether a row of ones follows.

    Attributes
    ----------
    dtype : torch.dtype
        Of the columns.
    width : int
        Samples that are well scaled at once.

    Examples
    --------
    >>> columns = Columns(np.array([[1.0], [3.0]]), np.array([2.0]), 0.5, bias=True)
    >>> columns[slice(0, 2)].tolist()
    [[-2.0, 2.0], [1.0, 1.0]]
    """

    def __init__(self, features: FloatArray, mean: FloatArray, scale: float, *, bias: bool) -> None:
        self.features, self.scale, self.bias = features, scale, bias
        self.dtype = torch.float64 if features.dtype == np.float64 else torch.float32
        self.mean = torch.as_tensor(mean, dtype=self.dtype)[:, None]
        self.width = max(1, _BLOCK_NUMBERS // max(1, features.shape[1]))
        self._held = None if isinstance(features, np.memmap) else self._all()

    @property
    def is_held(self) -> bool:
        """Whether all columns are in memory."""
        return self._held is not None

    def __getitem__(self, samples: slice | Tensor) -> Tensor:
        """Columns of some samples."""
        if self._held is not None:
            return self._held[:, samples]
        if isinstance(samples, slice):
            return self._scaled(samples)
        # In the order of the file, which is quicker to read.
        order = torch.argsort(samples)
        found = self._scaled(samples[order].numpy())
        return found[:, torch.argsort(order)]

    def _all(self) -> Tensor:
        n_samples, n_features = self.features.shape
        columns = torch.empty(n_features + self.bias, n_samples, dtype=self.dtype)
        for start in range(0, n_samples, self.width):
            block = slice(start, start + self.width)
            rows = torch.from_numpy(self.features[block])
            torch.div(rows.T - self.mean, self.scale, out=columns[:n_features, block])
        if self.bias:
            columns[-1] = 1.0
        return columns

    def _scaled(self, samples: slice | npt.NDArray[Any]) -> Tensor:
        """Made as rows, as they lie in the file, and turned without being moved."""
        some = self.features[samples]
        rows = torch.empty(len(some), some.shape[1] + self.bias, dtype=self.dtype)
        if self.bias:
            rows[:, -1] = 1.0
        scaled = rows[:, : some.shape[1]]
        np.subtract(some, self.mean.T.numpy(), out=scaled.numpy())
        scaled.div_(self.scale)
        return rows.T
