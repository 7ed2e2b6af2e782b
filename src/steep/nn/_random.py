"""Random states are given back as they were: torch's, NumPy's and Python's own.

Data sets may draw from any of the three, and a ``DataLoader`` draws a seed for its workers from torch
even when it does not shuffle.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn


@contextmanager
def kept_random_state(network: nn.Module | None = None, *, seed: int | None = None) -> Iterator[None]:
    """Run with every global generator seeded, or left as it is, and give all of them back."""
    devices = {p.device for p in network.parameters() if p.device.type == "cuda"} if network is not None else set()
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the global state is what is kept
    with torch.random.fork_rng(devices=list(devices)):
        try:
            if seed is not None:
                _seed_all(seed)
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002


def _seed_all(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - for data sets that draw from it
    random.seed(seed)
