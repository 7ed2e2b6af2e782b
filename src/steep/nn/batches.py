"""Data of every form a network is trained with, as batches of inputs and labels.

A tensor or array of inputs; a pair (inputs, labels) of them; a ``Dataset``; a ``DataLoader``; a list of dicts.
In a batch that is a dict the labels are under "labels", "label" or "y"; in a tuple they are the last entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
)

from steep.exceptions import InputError, InputTypeError

Batch = tuple[Any, Any]
_LABEL_KEYS = ("labels", "label", "y")
# Inputs of a batch: 32 MB at most, which leaves room for the activations of usual networks.
_BATCH_BYTES, _LARGEST_BATCH, _SMALLEST_BATCH = 2**25, 1024, 8


def iterate_batches(data: Any, batch_size: int | None = None) -> Iterator[Batch]:
    """Yield (inputs, labels or None) in the order of the data set, whether or not a loader shuffles it."""
    _refuse_streams(data)
    if isinstance(data, DataLoader):
        with _restored(data.generator):
            yield from map(separate, _in_order(data))
    elif isinstance(data, Tensor | np.ndarray):
        for inputs in torch.split(torch.as_tensor(data), batch_size or fitting_batch(data)):
            yield inputs, None
    elif _is_pair(data):
        inputs, labels = (torch.as_tensor(part) for part in data)
        if len(inputs) != len(labels):
            raise InputError(
                f"data has {len(inputs)} inputs and {len(labels)} labels; need one label for each input"
            )
        size = batch_size or fitting_batch(inputs)
        yield from zip(torch.split(inputs, size), torch.split(labels, size), strict=True)
    elif isinstance(data, Dataset) or (isinstance(data, list) and data and isinstance(data[0], dict | tuple)):
        size = batch_size or fitting_batch(_inputs_of(data[0]), single=True)
        for start in range(0, len(data), size):  # type: ignore[arg-type]
            stop = min(start + size, len(data))  # type: ignore[arg-type]
            yield separate(default_collate([data[i] for i in range(start, stop)]))
    else:
        raise InputTypeError(
            f"data is a {type(data).__name__}; need a tensor, (inputs, labels), a Dataset, a DataLoader "
            "or a list of dicts"
        )


def separate(batch: Any) -> Batch:
    """Inputs and labels of one batch."""
    if isinstance(batch, dict):
        key = next((key for key in _LABEL_KEYS if key in batch), None)
        return {k: v for k, v in batch.items() if k != key}, None if key is None else batch[key]
    if isinstance(batch, tuple | list):
        if len(batch) < 2:
            return batch[0], None
        return batch[0] if len(batch) == 2 else tuple(batch[:-1]), batch[-1]
    return batch, None


def n_samples(data: Any) -> int:
    """Samples in the data."""
    _refuse_streams(data)
    if isinstance(data, DataLoader):
        return len(data.dataset)  # type: ignore[arg-type]
    return len(data[0]) if _is_pair(data) else len(data)


def fitting_batch(inputs: Any, *, single: bool = False) -> int:
    """How many samples make a batch that fits in memory."""
    parts = inputs.values() if isinstance(inputs, dict) else inputs if isinstance(inputs, tuple) else [inputs]
    tensors = [part for part in parts if isinstance(part, Tensor | np.ndarray)]
    rows = 1 if single else max(1, len(tensors[0]) if tensors else 1)
    bytes_each = sum(part.nbytes for part in tensors) / rows
    return int(min(_LARGEST_BATCH, max(_SMALLEST_BATCH, _BATCH_BYTES // max(bytes_each, 1))))


def move(inputs: Any, device: torch.device) -> Any:
    """Inputs on the network's device."""
    if isinstance(inputs, Tensor):
        return inputs.to(device)
    if isinstance(inputs, dict):
        return {key: move(value, device) for key, value in inputs.items()}
    return type(inputs)(move(part, device) for part in inputs) if isinstance(inputs, tuple | list) else inputs


def _in_order(loader: DataLoader[Any]) -> DataLoader[Any]:
    """The loader's batches in the order of its data set; a sampler of the caller's own is kept."""
    sampler = loader.sampler
    is_shuffle = (
        isinstance(sampler, RandomSampler) and not sampler.replacement and len(sampler) == n_samples(loader)
    )
    if loader.batch_size is None or not (
        is_shuffle or (loader.drop_last and isinstance(sampler, SequentialSampler))
    ):
        return loader
    return DataLoader(loader.dataset, batch_size=loader.batch_size, collate_fn=loader.collate_fn)


def _refuse_streams(data: Any) -> None:
    source = data.dataset if isinstance(data, DataLoader) else data
    if isinstance(source, IterableDataset):
        raise InputTypeError(
            f"data is a stream ({type(source).__name__}) of unknown length; need samples that can be counted; pass "
            "list(data)"
        )


def _is_pair(data: Any) -> bool:
    return (
        isinstance(data, tuple | list)
        and len(data) == 2
        and all(isinstance(p, Tensor | np.ndarray) for p in data)
    )


def _inputs_of(item: Any) -> Any:
    return separate(item)[0]


@contextmanager
def _restored(generator: torch.Generator | None) -> Iterator[None]:
    """A loader's own generator is given back in the state it was in."""
    state = None if generator is None else generator.get_state()
    try:
        yield
    finally:
        if generator is not None and state is not None:
            generator.set_state(state)
