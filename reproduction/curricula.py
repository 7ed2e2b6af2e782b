"""What a training shows when, and how much each sample counts: plain training, and the door for the rivals."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steep._validation import check_count


def fingerprint(*tensors: Tensor) -> str:
    """Short checksum of every value in some tensors.

    Examples
    --------
    >>> one, two = (fingerprint(torch.zeros(3, 2), torch.tensor(labels)) for labels in ([0, 1, 1], [1, 1, 0]))
    >>> one == two
    False
    """
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(np.ascontiguousarray(tensor.numpy()).data)
    return digest.hexdigest()[:16]


class Curriculum:
    """Plain training: every sample once an epoch in random order, all weights one."""

    def __init__(self, n_samples: int, batch_size: int) -> None:
        self.n_samples = check_count(n_samples, name="n_samples")
        self.batch_size = check_count(batch_size, name="batch_size")

    @property
    def n_steps(self) -> int:
        """Steps of an epoch."""
        return -(-self.n_samples // self.batch_size)

    def settings(self) -> dict[str, Any]:
        """What tells it from another curriculum: its kind and all its public attributes.

        Examples
        --------
        >>> Curriculum(100, 20).settings()
        {'kind': 'Curriculum', 'n_samples': 100, 'batch_size': 20}
        """
        public = {name: value for name, value in vars(self).items() if not name.startswith("_") and not callable(value)}
        plain = {name: fingerprint(value) if isinstance(value, Tensor) else value for name, value in public.items()}
        return {"kind": type(self).__name__, **plain}

    def batches(self, epoch: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Yield the rows of each step."""
        yield from torch.split(torch.randperm(self.n_samples, generator=generator), self.batch_size)

    def weights(self, rows: Tensor, epoch: int) -> Tensor | None:
        """Weights of the samples of a step; None is one for each."""
        return None

    def observe(self, rows: Tensor, probability: Tensor) -> None:
        """Take note of the probability the network gave the right class."""

    def state(self) -> dict[str, Tensor]:
        """What has to be kept for a stopped run to continue."""
        return {}

    def load(self, state: dict[str, Tensor]) -> None:
        """Take up what :meth:`state` kept."""
