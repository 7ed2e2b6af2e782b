"""Data of every form a network is trained with, as batches of inputs and labels.

A tensor or array of inputs; a pair (inputs, labels) of them; a ``Dataset``; a ``DataLoader``; a list of dicts.
In a batch that is a dict the labels are under "labels", "label" or "y"; in a tuple they are the last entry.
Features that go to a file may come from a stream too: a ``DataLoader`` over an ``IterableDataset``, or any object that
yields batches each time it is iterated over, such as one that reads file after file.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    default_collate,
)

from steep._validation import one_line
from steep.exceptions import InputError, InputTypeError
from steep.nn._arguments import check_batch_size

Batch = tuple[Any, Any]
_LABEL_KEYS = ("labels", "label", "y")
# Inputs of a batch: 32 MB at most, which leaves room for the activations of usual networks.
_BATCH_BYTES, _LARGEST_BATCH, _SMALLEST_BATCH = 2**25, 1024, 8


def iterate_batches(data: Any, batch_size: int | None = None) -> Generator[Batch, None, None]:
    """Yield (inputs, labels or None) in the order of the data set, whether or not a loader shuffles it.

    The inputs are copies: a network that works in place does not reach the caller's data.
    """
    _refuse_streams(data)
    with _kept_generators(data):
        yield from _batches(data, check_batch_size(batch_size))


def numbered_batches(
    data: Any, batch_size: int | None, *, first: int = 0, before: Callable[[int], None]
) -> Generator[tuple[int, Any, Any], None, None]:
    """Yield (number, inputs, labels or None); streams are read too.

    Parameters
    ----------
    data, batch_size
        As for :func:`iterate_batches`, or a stream.
    first : int, default 0
        The first batch wanted. Where rows can be addressed nothing before it is read; a stream, and a loader with
        workers, whose random states go from batch to batch, are read from the beginning, and yield those batches too.
    before : callable
        ``before(number)`` is called before each batch is read.
    """
    number = first if _is_addressable(data) else 0
    with _kept_generators(data):
        batches = iter(_batches(data, check_batch_size(batch_size), number))
        while True:
            before(number)
            batch = next(batches, None)
            if batch is None:
                return
            yield number, *batch
            number += 1


def is_stream(data: Any) -> bool:
    """Whether data come in batches whose number is not known: a loader over a stream, or any iterable of batches."""
    if isinstance(data, DataLoader):
        return isinstance(data.dataset, IterableDataset)
    known = isinstance(data, Tensor | np.ndarray | Dataset | list | tuple | dict | str | bytes)
    return not known and isinstance(data, Iterable) and not isinstance(data, Iterator)


def _batches(data: Any, batch_size: int | None, first: int = 0) -> Iterator[Batch]:
    """Batches from number ``first`` on; that is 0 where rows cannot be addressed."""
    if isinstance(data, DataLoader):
        # Begun here and not at the first batch: a loader draws a seed when it is begun.
        return (separate(_copied(batch)) for batch in iter(_in_order(data, first)))
    if isinstance(data, Tensor | np.ndarray):
        return ((part, None) for part in _slices(data, batch_size, first))
    if _is_pair(data):
        return _paired_slices(data[0], data[1], batch_size, first)
    if isinstance(data, Dataset) or (isinstance(data, list) and data and isinstance(data[0], dict | tuple)):
        return _collated(data, batch_size, first)
    if is_stream(data):
        return (separate(_as_tensors(_copied(batch))) for batch in iter(data))
    raise InputTypeError(
        f"data is a {type(data).__name__}; need a tensor, (inputs, labels), a Dataset, a DataLoader "
        "or a list of dicts"
    )


def _is_addressable(data: Any) -> bool:
    """Whether batches can be read from any number on, to the same bytes."""
    if not isinstance(data, DataLoader):
        return not is_stream(data)
    in_order = isinstance(data.sampler, SequentialSampler) or _is_reordered(data)
    return not is_stream(data) and data.batch_size is not None and data.num_workers == 0 and in_order


@contextmanager
def _kept_generators(data: Any) -> Iterator[None]:
    """The generators of a loader are given back in the states they were in."""
    with ExitStack() as stack:
        if isinstance(data, DataLoader):
            for owner in (data, data.sampler, data.batch_sampler):
                stack.enter_context(_restored(getattr(owner, "generator", None)))
        yield


def _as_tensors(batch: Any) -> Any:
    """Arrays of a batch as tensors; its last part, the labels, may stay what it is."""
    if isinstance(batch, np.ndarray):
        return torch.from_numpy(np.array(batch)) if batch.dtype.kind in "biufc" else batch
    if isinstance(batch, dict):
        return {key: _as_tensors(value) for key, value in batch.items()}
    return type(batch)(_as_tensors(part) for part in batch) if type(batch) in (tuple, list) else batch


def _slices(inputs: Any, batch_size: int | None, first: int = 0) -> Iterator[Tensor]:
    if inputs.ndim == 0:
        raise InputError("data has shape (); need one row for each sample")
    if isinstance(inputs, np.ndarray) and inputs.dtype.kind not in "biufc":
        raise InputTypeError(f"data has dtype {inputs.dtype}; need numbers; encode text and objects first")
    size = batch_size or fitting_batch(inputs)
    for start in range(first * size, len(inputs), size):
        part = inputs[start : start + size]
        yield part.clone() if isinstance(part, Tensor) else torch.from_numpy(np.array(part))


def _paired_slices(inputs: Any, labels: Any, batch_size: int | None, first: int = 0) -> Iterator[Batch]:
    told = label_array(labels)
    if inputs.ndim == 0 or told.ndim == 0 or len(inputs) != len(told):
        n_inputs, n_labels = (len(part) if part.ndim else 1 for part in (inputs, told))
        raise InputError(
            f"data has {n_inputs} inputs and {n_labels} labels; need one label for each input, (n_samples, …) both"
        )
    start = first * (batch_size or fitting_batch(inputs))
    for part in _slices(inputs, batch_size, first):
        yield part, told[start : start + len(part)]
        start += len(part)


def _collated(data: Any, batch_size: int | None, first: int = 0) -> Iterator[Batch]:
    if not len(data):
        return
    size = batch_size or fitting_batch(separate(data[0])[0], single=True)
    for start in range(first * size, len(data), size):
        items = [data[i] for i in range(start, min(start + size, len(data)))]
        try:
            batch = default_collate(items)
        except (RuntimeError, TypeError, KeyError, ValueError) as error:
            raise InputError(
                f"samples {start} to {start + len(items) - 1} do not fit in one batch ({one_line(error)}); need "
                "samples of one shape; pad them, or pass DataLoader(data, collate_fn=...)"
            ) from error
        yield separate(batch)


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


def label_array(labels: Any) -> npt.NDArray[Any]:
    """Labels of a batch as an array, whatever they came in."""
    if isinstance(labels, Tensor):
        told = labels.detach().cpu()
        return np.asarray(told.float() if told.dtype in (torch.bfloat16, torch.float16) else told)
    try:
        return np.asarray(labels)
    except ValueError as error:
        raise InputError(
            f"labels are ragged ({one_line(error)}); need the same form for each sample"
        ) from error


def n_samples(data: Any) -> int:
    """Samples that one pass over the data yields; those of a loader with batches of its own are a guess."""
    _refuse_streams(data)
    if isinstance(data, DataLoader):
        return _loader_length(data)
    if _is_pair(data):
        data = data[0]
    if isinstance(data, Tensor | np.ndarray) and data.ndim == 0:
        raise InputError("data has shape (); need one row for each sample")
    if not isinstance(data, Sized):
        raise InputTypeError(
            f"data is a {type(data).__name__}; need a tensor, (inputs, labels), a Dataset, a DataLoader or a list of "
            "dicts, with a length"
        )
    return len(data)


def _loader_length(loader: DataLoader[Any]) -> int:
    if loader.batch_size is None or _is_reordered(loader) or not hasattr(loader.sampler, "__len__"):
        return len(loader.dataset)  # type: ignore[arg-type]
    drawn = len(loader.sampler)  # type: ignore[arg-type]
    return drawn // loader.batch_size * loader.batch_size if loader.drop_last else drawn


def first_rows(inputs: Any, n: int = 2) -> Any:
    """The first samples of a batch, where it is plain which those are; else the batch."""
    if isinstance(inputs, Tensor):
        return inputs[:n]
    parts = list(inputs.values()) if isinstance(inputs, dict) else inputs if isinstance(inputs, tuple) else []
    if not parts or not all(isinstance(p, Tensor) and p.ndim and len(p) == len(parts[0]) for p in parts):
        return inputs
    return {k: v[:n] for k, v in inputs.items()} if isinstance(inputs, dict) else tuple(p[:n] for p in parts)


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
    return type(inputs)(move(part, device) for part in inputs) if type(inputs) in (tuple, list) else inputs


def _is_reordered(loader: DataLoader[Any]) -> bool:
    """Whether the loader goes over its data set in another order, or leaves the end out, and need not."""
    sampler = loader.sampler
    is_shuffle = (
        isinstance(sampler, RandomSampler) and not sampler.replacement and len(sampler) == len(loader.dataset)  # type: ignore[arg-type]
    )
    return loader.batch_size is not None and (
        is_shuffle or (loader.drop_last and isinstance(sampler, SequentialSampler))
    )


def _in_order(loader: DataLoader[Any], first: int = 0) -> DataLoader[Any]:
    """The loader's batches in the order of its data set; a sampler of the caller's own is kept.

    From batch ``first`` on, where rows can be addressed.
    """
    if not _is_reordered(loader) and not first:
        return loader
    dataset, size = loader.dataset, loader.batch_size or 1
    if first:
        n_samples = len(dataset)  # type: ignore[arg-type]
        dataset = Subset(dataset, range(min(first * size, n_samples), n_samples))
    return DataLoader(dataset, batch_size=loader.batch_size, collate_fn=loader.collate_fn)


def _copied(batch: Any) -> Any:
    """A batch of its own memory: loaders without automatic batches hand out the data set's own tensors."""
    if isinstance(batch, Tensor):
        return batch.clone()
    if isinstance(batch, dict):
        return {key: _copied(value) for key, value in batch.items()}
    return type(batch)(_copied(part) for part in batch) if type(batch) in (tuple, list) else batch


def _refuse_streams(data: Any) -> None:
    source = data.dataset if isinstance(data, DataLoader) else data
    if isinstance(source, IterableDataset) or is_stream(data):
        raise InputTypeError(
            f"data is a stream ({type(source).__name__}) of unknown length; need samples that can be counted; pass "
            "list(data), or their features: project(network, DataLoader(data), memmap='features.npy')"
        )


def refuse_single_samples(data: Any) -> None:
    """A stream must come in batches."""
    if isinstance(data, IterableDataset):
        raise InputTypeError(
            f"data is a stream of single samples ({type(data).__name__}); need batches; pass DataLoader(data, "
            "batch_size=...)"
        )


def _is_pair(data: Any) -> bool:
    """Inputs as one array, and labels as anything with a length that is no input of its own."""
    if not (isinstance(data, tuple | list) and len(data) == 2 and isinstance(data[0], Tensor | np.ndarray)):
        return False
    return isinstance(data[1], Tensor | np.ndarray) or (
        isinstance(data, tuple) and hasattr(data[1], "__len__")
    )


@contextmanager
def _restored(generator: torch.Generator | None) -> Iterator[None]:
    """A loader's own generator is given back in the state it was in."""
    state = None if generator is None else generator.get_state()
    try:
        yield
    finally:
        if generator is not None and state is not None:
            generator.set_state(state)
