"""Data of every form a network is trained with, as batches of inputs and labels.

A tensor or array of inputs; a dict of them by name; a pair (inputs, labels) of either; a ``Dataset``; a
``DataLoader``; a list of dicts. In a dict the labels are under "labels", "label" or "y"; in a tuple they are the last
entry. Lists of numbers in a dict become tensors.
Features that go to a file may come from a stream too: a ``DataLoader`` over an ``IterableDataset``, or any object that
yields batches each time it is iterated over, such as one that reads file after file.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler, default_collate

from steep._validation import one_line
from steep.exceptions import InputError, InputTypeError

Batch = tuple[Any, Any]
_LABEL_KEYS = ("labels", "label", "y")
# Inputs of a batch: 32 MB at most, which leaves room for the activations of usual networks.
_BATCH_BYTES, _LARGEST_BATCH, _SMALLEST_BATCH = 2**25, 1024, 8
_FORMS = "a tensor, a dict of tensors, (inputs, labels), a Dataset, a DataLoader or a list of dicts"


def iterate_batches(data: Any, batch_size: int | None = None, *, streams: bool = False) -> Generator[Batch, None, None]:
    """Yield copies of inputs, and labels or None, in the order of the data set, whether or not a loader shuffles it."""
    if isinstance(data, IterableDataset) and streams:
        raise InputTypeError(
            f"data is a stream of single samples ({type(data).__name__}); expected batches; pass DataLoader(data, "
            "batch_size=...)"
        )
    if not streams:
        _refuse_streams(data)
    with _kept_generators(data):
        yield from _batches(data, batch_size)


def _batches(data: Any, batch_size: int | None) -> Iterator[Batch]:
    if isinstance(data, DataLoader):
        # Begun here and not at the first batch: a loader draws a seed when it is begun.
        return (separate(mapped(batch, _cloned)) for batch in iter(_in_order(data)))
    if (held := _held(data)) is not None:
        return _slices(*held, batch_size)
    if isinstance(data, Dataset) or (isinstance(data, list) and data and isinstance(data[0], Mapping | tuple)):
        return _collated(data, batch_size)
    if _is_stream(data):
        return (separate(mapped(batch, _tensor)) for batch in iter(data))
    raise InputTypeError(f"data is a {type(data).__name__}; expected {_FORMS}")


@contextmanager
def _kept_generators(data: Any) -> Iterator[None]:
    """The generators of a loader are given back in the states they were in."""
    owners = (data, data.sampler, data.batch_sampler) if isinstance(data, DataLoader) else ()
    generators = [own for owner in owners if (own := getattr(owner, "generator", None)) is not None]
    states = [generator.get_state() for generator in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


# ------------------------------------------------------------------------------- the tensors of a batch


def mapped(batch: Any, function: Callable[[Any], Any]) -> Any:
    """A batch with a function applied to each tensor and array in its dicts, tuples and lists."""
    if isinstance(batch, Tensor | np.ndarray):
        return function(batch)
    if isinstance(batch, Mapping):
        return {key: mapped(value, function) for key, value in batch.items()}
    return type(batch)(mapped(part, function) for part in batch) if type(batch) in (tuple, list) else batch


def move(inputs: Any, device: torch.device) -> Any:
    """Inputs on the network's device."""
    return mapped(inputs, lambda value: value.to(device) if isinstance(value, Tensor) else value)


def _cloned(value: Any) -> Any:
    """Loaders without automatic batches hand out the data set's own tensors."""
    return value.clone() if isinstance(value, Tensor) else value


def _tensor(value: Any) -> Any:
    is_numeric = isinstance(value, np.ndarray) and value.dtype.kind in "biufc"
    return torch.from_numpy(np.array(value)) if is_numeric else _cloned(value)


def fitting_batch(inputs: Any, *, single: bool = False) -> int:
    """How many samples make a batch that fits in memory."""
    parts = inputs.values() if isinstance(inputs, dict) else inputs if isinstance(inputs, tuple) else [inputs]
    tensors = [part for part in parts if isinstance(part, Tensor | np.ndarray)]
    rows = 1 if single else max(1, len(tensors[0]) if tensors else 1)
    bytes_each = sum(part.nbytes for part in tensors) / rows
    return int(min(_LARGEST_BATCH, max(_SMALLEST_BATCH, _BATCH_BYTES // max(bytes_each, 1))))


def separate(batch: Any) -> Batch:
    """Inputs and labels of one batch."""
    if isinstance(batch, Mapping):
        key = next((key for key in _LABEL_KEYS if key in batch), None)
        inputs = {name: _stacked(value) for name, value in batch.items() if name != key}
        return inputs, None if key is None else _stacked(batch[key])
    if isinstance(batch, tuple | list):
        if len(batch) < 2:
            return batch[0], None
        inputs = separate(batch[0])[0] if isinstance(batch[0], Mapping) else batch[0]
        return inputs if len(batch) == 2 else (inputs, *batch[1:-1]), batch[-1]
    return batch, None


def _stacked(value: Any) -> Any:
    """Undo what collating makes of samples that hold lists of numbers: one tensor per place in the list."""
    if type(value) is not list or not value:
        return value
    parts = [_stacked(part) for part in value]
    if not all(isinstance(p, Tensor) and (p.ndim == 1 or type(v) is list) for p, v in zip(parts, value, strict=True)):
        return value
    joined = torch.stack(parts, dim=1)
    return joined.to(torch.get_default_dtype()) if joined.dtype == torch.float64 else joined  # Python's floats


def label_array(labels: Any) -> npt.NDArray[Any]:
    """Labels of a batch as an array, whatever they came in."""
    if isinstance(labels, Tensor):
        held = labels.detach().cpu()
        return np.asarray(held.float() if held.dtype in (torch.bfloat16, torch.float16) else held)
    try:
        return np.asarray(labels)
    except ValueError as error:
        raise InputError(f"labels are ragged ({one_line(error)}); expected the same form for each sample") from error


# ------------------------------------------------------------------------------- data that are held whole


def _held(data: Any) -> tuple[dict[str, Any], Any] | None:
    """Inputs by name, "" if there is one without, and labels of data that are held whole; None for other forms."""
    if isinstance(data, Mapping):
        inputs, labels = separate(data)
    elif isinstance(data, Tensor | np.ndarray):
        inputs, labels = data, None
    elif _is_pair(data):
        inputs, labels = data
    else:
        return None
    columns = dict(inputs) if isinstance(inputs, Mapping) else {"": inputs}
    for name, values in columns.items():
        try:
            columns[name] = values if isinstance(values, Tensor | np.ndarray) else torch.tensor(values)
        except (ValueError, TypeError, RuntimeError, OverflowError) as error:
            raise InputError(
                f"input {name!r} is not a tensor, an array or a list of numbers ({one_line(error)}); encode text, and "
                "pad rows to one length"
            ) from error
    n_rows = {name: len(values) if values.ndim else 0 for name, values in columns.items()}
    if len(set(n_rows.values())) != 1:
        raise InputError(f"inputs have {n_rows or 'no'} rows; expected one row per sample in each, and one input")
    return columns, labels


def _is_pair(data: Any) -> bool:
    """Inputs as one array or a dict of them, and labels as anything with a length that is not a sample itself."""
    if not (isinstance(data, tuple | list) and len(data) == 2):
        return False
    if not isinstance(data[0], Tensor | np.ndarray | Mapping) or isinstance(data[1], Mapping):
        return False
    return isinstance(data[1], Tensor | np.ndarray) or (isinstance(data, tuple) and hasattr(data[1], "__len__"))


def _slices(columns: dict[str, Any], labels: Any, batch_size: int | None) -> Iterator[Batch]:
    for values in columns.values():
        if isinstance(values, np.ndarray) and values.dtype.kind not in "biufc":
            raise InputTypeError(f"data has dtype {values.dtype}; expected numbers; encode text and objects first")
    first = next(iter(columns.values()))
    if first.ndim == 0:
        raise InputError("data has shape (); expected one row per sample")
    n_inputs = len(first)
    known = None if labels is None else label_array(labels)
    if known is not None and (known.ndim == 0 or len(known) != n_inputs):
        n_labels = len(known) if known.ndim else 1
        raise InputError(
            f"data has {n_inputs} inputs and {n_labels} labels; expected one label per input, (n_samples, …) both"
        )
    size = batch_size or fitting_batch(columns)
    for start in range(0, n_inputs, size):
        rows = slice(start, start + size)
        part = {name: _tensor(values[rows]) for name, values in columns.items()}
        yield part.get("", part), None if known is None else known[rows]


# ------------------------------------------------------------------------------- data sets, loaders and streams


def _collated(data: Any, batch_size: int | None) -> Iterator[Batch]:
    if not len(data):
        return
    size = batch_size or fitting_batch(separate(data[0])[0], single=True)
    for start in range(0, len(data), size):
        items = [data[i] for i in range(start, min(start + size, len(data)))]
        try:
            batch = default_collate(items)
        except (RuntimeError, TypeError, KeyError, ValueError) as error:
            raise InputError(
                f"samples {start} to {start + len(items) - 1} do not fit in one batch ({one_line(error)}); expected "
                "samples of one shape; pad them, or pass DataLoader(data, collate_fn=...)"
            ) from error
        yield separate(batch)


def n_samples(data: Any, *, streams: bool = False) -> int:
    """Samples of the data, as far as that is known: those of its data set for a loader, 0 for a stream."""
    if streams and _is_stream(data):
        return 0
    _refuse_streams(data)
    if isinstance(data, DataLoader):
        return len(data.dataset)  # type: ignore[arg-type]
    if (held := _held(data)) is not None:
        data = next(iter(held[0].values()))
    if not isinstance(data, Sized):
        raise InputTypeError(f"data is a {type(data).__name__}; expected {_FORMS}, with a length")
    return len(data) if getattr(data, "ndim", 1) else 0


def _is_reordered(loader: DataLoader[Any]) -> bool:
    """Whether the loader goes over its data set in another order, or leaves the end out, and need not."""
    sampler, dataset = loader.sampler, loader.dataset
    is_shuffle = isinstance(sampler, RandomSampler) and not sampler.replacement and len(sampler) == len(dataset)  # type: ignore[arg-type]
    is_cut = loader.drop_last and isinstance(sampler, SequentialSampler)
    return loader.batch_size is not None and (is_shuffle or is_cut)


def _in_order(loader: DataLoader[Any]) -> DataLoader[Any]:
    """The loader's batches in the order of its data set; a user-supplied sampler is kept."""
    if not _is_reordered(loader):
        return loader
    return DataLoader(loader.dataset, batch_size=loader.batch_size, collate_fn=loader.collate_fn)


def _is_stream(data: Any) -> bool:
    """Whether data come in batches whose number is not known: a loader over a stream, or any iterable of batches."""
    if isinstance(data, DataLoader):
        return isinstance(data.dataset, IterableDataset)
    known = isinstance(data, Tensor | np.ndarray | Dataset | list | tuple | Mapping | str | bytes)
    return not known and isinstance(data, Iterable) and not isinstance(data, Iterator)


def _refuse_streams(data: Any) -> None:
    source = data.dataset if isinstance(data, DataLoader) else data
    if isinstance(source, IterableDataset) or _is_stream(data):
        raise InputTypeError(
            f"data is a stream ({type(source).__name__}) of unknown length; expected samples that can be counted; pass "
            "list(data), or their features: project(network, DataLoader(data), memmap='features.npy')"
        )


# ------------------------------------------------------------------------------- seeds and random states


@contextmanager
def kept_random_state(network: nn.Module | None = None, *, seed: int | None = None) -> Iterator[None]:
    """Run with torch's, NumPy's and Python's generators seeded, or left as they are, and give all of them back."""
    devices = {p.device for p in network.parameters() if p.device.type == "cuda"} if network is not None else set()
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the global state is what is kept
    with torch.random.fork_rng(devices=list(devices)):
        try:
            if seed is not None:
                torch.manual_seed(seed)
                np.random.seed(seed % 2**32)  # noqa: NPY002 - for data sets that draw from it
                random.seed(seed)
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002
