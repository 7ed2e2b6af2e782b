"""Project data into the feature space of a network: line 3 of Algorithm 3."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from steep._progress import progress_bar
from steep._validation import FloatArray, Seed, check_flag, one_line
from steep.exceptions import InputError
from steep.nn._arguments import check_batch_size, check_callable, check_network, check_seed
from steep.nn._random import kept_random_state
from steep.nn.batches import first_rows, iterate_batches, label_array, move, n_samples, refuse_single_samples
from steep.nn.feature_file import FeatureWriter, open_features
from steep.nn.network import Forward, Split, default_forward, run_network, split, undisturbed


@dataclass(frozen=True)
class Projection:
    """Features of every sample; :func:`improve` and :func:`retrain_head` take them in place of data.

    Attributes
    ----------
    features : ndarray of shape (n_samples, n_features)
        M*(x_i), one row a sample; a ``numpy.memmap`` where they lie in a file.
    labels : ndarray or None
        The labels that came with the data; None where none did.
    head : str or None
        The layer whose inputs they are.
    network : str or None
        A digest of everything in the network before that layer: features of another network are refused.
    """

    features: FloatArray
    labels: npt.NDArray[Any] | None
    head: str | None = None
    network: str | None = None

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Features that :func:`project` wrote to a file, mapped and not read.

        Parameters
        ----------
        path : str or path
            The file, as given to ``project(..., memmap=path)``.
        """
        features, labels, note = open_features(path)
        return cls(features, labels, note["head"], note["network"])

    def split(self, network: nn.Module, head: str | None = None, forward: Forward | None = None) -> Split:
        """Cut the network these are features of, without a sample to run it on; any other is refused."""
        check_network(network)
        run = check_callable(forward, name="forward", signature="forward(network, batch)") or default_forward
        name = self.head if head is None else head
        if name is None:
            raise InputError("the features do not say which layer they are the inputs of; need its name; pass head=")
        layer = dict(network.named_modules()).get(name) if isinstance(name, str) else None
        if not isinstance(layer, nn.Linear) or layer.in_features != self.features.shape[1]:
            raise InputError(
                f"the features are the {self.features.shape[1]} inputs of head {self.head!r}; need the network they "
                f"were projected with, got one whose {name!r} is {_described(layer)}; project again"
            )
        is_same = self.network is None or self.network == digest_of(network, name)
        if self.head not in (None, name) or not is_same:
            raise InputError(
                f"the features before head {name!r} are those of another network, or of this one before it was trained "
                "further; need the network they were projected with; project again"
            )
        return Split(network, name, run)


def _described(layer: nn.Module | None) -> str:
    if not isinstance(layer, nn.Linear):
        return "not there" if layer is None else f"a {type(layer).__name__}"
    return f"an nn.Linear of {layer.in_features} inputs"


def project(
    network: nn.Module | Split,
    data: Any,
    *,
    head: str | None = None,
    forward: Forward | None = None,
    batch_size: int | None = None,
    memmap: str | Path | None = None,
    progress: bool | None = None,
    random_state: Seed = 0,
) -> Projection:
    """Features of every sample in one pass, in eval mode without gradients.

    Parameters
    ----------
    network : nn.Module or Split
        M; it is run where its parameters are, and left as it was.
    data : Tensor, dict of tensors, (inputs, labels), Dataset, DataLoader or list of dicts
        See :mod:`steep.nn.batches`. With ``memmap`` also a ``DataLoader`` over a stream, or any object that yields
        batches each time it is iterated over.
    head, forward
        See :func:`split`.
    batch_size : int, optional
        Samples run at once; default as many as fit in 32 MB. A ``DataLoader`` has its own.
    memmap : path, optional
        An ``.npy`` file for the features, when there are more than fit in memory; one batch is held at a time. The
        labels go to ``*.labels.npy`` next to it. The files get their names when the pass ends;
        :meth:`Projection.open` opens them again.
    progress : bool, optional
        Whether to show a progress bar on standard error; default on a terminal, after two seconds.
    random_state : int, Generator or None, default 0
        Seed of torch, NumPy and Python while data are read; their global random states are given back as they were.

    Returns
    -------
    Projection

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> project(network, torch.zeros(10, 4)).features.shape
    (10, 8)
    """
    is_public = not isinstance(network, Split)
    if memmap is not None:
        refuse_single_samples(data)
    if not isinstance(network, Split):
        network = cut(network, data, head=head, forward=forward, streams=memmap is not None)
    check_flag(progress, name="progress", optional=True)
    check_batch_size(batch_size)
    seed = check_seed(random_state)
    total = n_samples(data, streams=memmap is not None)
    with _ready(network, seed), progress_bar(total=total, label="projecting", shown=progress) as bar:
        batches = iterate_batches(data, batch_size, streams=memmap is not None)
        passes = _pass(network, batches, bar)
        if memmap is not None:
            return _projected_to_file(network, passes, memmap)
        rows, labels = _Rows(total), []
        for features, batch_labels in passes:
            rows.append(features)
            if batch_labels is not None:
                labels.append(batch_labels)
    made_by = digest_of(network.network, network.name) if is_public else None
    return Projection(rows.filled(), _joined(labels), network.name, made_by)


def _pass(
    parts: Split, batches: Iterator[tuple[Any, Any]], bar: Any
) -> Iterator[tuple[FloatArray, npt.NDArray[Any] | None]]:
    """Features and labels of each batch."""
    for inputs, labels in batches:
        features = _run(parts, inputs)
        yield features, None if labels is None else label_array(labels)
        bar.update(len(features))


def _projected_to_file(parts: Split, passes: Iterator[tuple[FloatArray, Any]], path: str | Path) -> Projection:
    """Write the features of a pass, and open them."""
    with FeatureWriter(path) as file:
        for features, labels in passes:
            file.append(features, labels)
        file.finish(network=digest_of(parts.network, parts.name), head=parts.name)
    return Projection.open(path)


def digest_of(network: nn.Module, head: str) -> str:
    """A digest of all that features come from: parameters and buffers but those of the head, and the layers' names."""
    told = hashlib.sha256()
    own = {f"{head}.{key}" if head else key for key in network.get_submodule(head).state_dict()}
    layers = [(name, type(module).__name__) for name, module in network.named_modules()]
    for part in _leaves([layers, {k: v for k, v in network.state_dict().items() if k not in own}]):
        told.update(part)
    return told.hexdigest()


def _leaves(value: Any) -> Iterator[bytes]:
    """Everything in nested tuples, lists and dicts, as bytes."""
    if isinstance(value, Tensor):
        bits = value.detach().cpu().contiguous()
        yield f"{bits.dtype} {tuple(bits.shape)}".encode()
        yield bits.reshape(-1).view(torch.uint8).numpy().tobytes()
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape}".encode()
        yield value.tobytes() if not value.dtype.hasobject else repr(value.tolist()).encode()
    elif isinstance(value, dict):
        for key, part in value.items():
            yield str(key).encode()
            yield from _leaves(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _leaves(part)
    else:
        is_plain = isinstance(value, str | bytes | int | float | bool | None)
        yield (repr(value) if is_plain else type(value).__name__).encode()


@contextmanager
def _ready(parts: Split, seed: int) -> Iterator[None]:
    """Eval mode, no gradients, seeded; all given back as it was."""
    with kept_random_state(parts.network, seed=seed), undisturbed(parts.network), torch.no_grad():
        yield


def _run(parts: Split, inputs: Any) -> FloatArray:
    return _features(parts, move(inputs, device_of(parts)))


def cut(
    network: nn.Module, data: Any, *, head: str | None = None, forward: Forward | None = None, streams: bool = False
) -> Split:
    """Split the network, looking at it with the first two samples of the data; features know where it was cut."""
    check_network(network)
    if isinstance(data, Projection):
        return data.split(network, head, forward)
    if not streams and not n_samples(data):
        raise InputError("data has 0 samples; need at least 1; pass some data")
    with kept_random_state(network):
        batches = iterate_batches(data, 2, streams=streams)
        first = next(batches, None)
        batches.close()  # gives back the states of a loader's generators
    if first is None:
        raise InputError("data yielded no batch; need at least 1 sample; pass some data")
    return split(network, head, sample=move(first_rows(first[0]), device_of(network)), forward=forward)


def device_of(network: nn.Module | Split) -> torch.device:
    """Where the network's parameters are."""
    module = network.network if isinstance(network, Split) else network
    parameter = next(module.parameters(), None) if isinstance(module, nn.Module) else None
    return torch.device("cpu") if parameter is None else parameter.device


def _features(parts: Split, inputs: Any) -> FloatArray:
    features = parts.run(inputs).features
    if features.ndim != 2:
        raise InputError(
            f"head {parts.name!r} is given features of shape {tuple(features.shape)}; need one row a sample, "
            "(n_samples, n_features); pass inputs of the same form everywhere"
        )
    if not torch.isfinite(features).all():
        raise InputError(
            f"the features before head {parts.name!r} contain NaN or infinity, which first appear in the output of "
            f"{_first_not_finite(parts, inputs)}; need finite features; look for bad inputs or a diverged network"
        )
    # NumPy has no bfloat16, and sums of float16 overflow.
    kept = features if features.dtype in (torch.float32, torch.float64) else features.float()
    return kept.cpu().numpy()


def _first_not_finite(parts: Split, inputs: Any) -> str:
    """Name the first layer whose output is not finite."""
    seen: list[str] = []

    def look(name: str, output: Any) -> None:
        if isinstance(output, Tensor) and output.is_floating_point() and not torch.isfinite(output).all():
            seen.append(name)

    leaves = [(name, m) for name, m in parts.network.named_modules() if not list(m.children())]
    handles = [m.register_forward_hook(lambda _, __, out, name=name: look(name, out)) for name, m in leaves]
    try:
        run_network(parts.network, inputs, parts.forward)
    finally:
        for handle in handles:
            handle.remove()
    if not seen:
        return "no layer (the inputs themselves)"
    return f"layer {seen[0]!r} ({type(parts.network.get_submodule(seen[0])).__name__})"


class _Rows:
    """Rows appended to one array; it grows where a loader yields more than expected."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.store: FloatArray | None = None
        self.n_filled = 0

    def append(self, rows: FloatArray) -> None:
        needed = self.n_filled + len(rows)
        if self.store is None:
            self.store = np.empty((max(self.total, len(rows)), rows.shape[1]), dtype=rows.dtype)
        elif rows.shape[1:] != self.store.shape[1:]:
            raise InputError(
                f"the head is given {self.store.shape[1]} features in one batch and {rows.shape[1]} in another; need "
                "the same for all"
            )
        elif needed > len(self.store):
            self._grow(needed)
        self.store[self.n_filled : needed] = rows
        self.n_filled = needed

    def filled(self) -> FloatArray:
        """All rows that were appended."""
        if self.store is None:
            raise InputError("data yielded no batch; need at least 1 sample; pass some data")
        return self.store[: self.n_filled]

    def _grow(self, needed: int) -> None:
        known = self.filled()
        larger = np.empty((max(needed, 2 * len(known)), known.shape[1]), dtype=known.dtype)
        larger[: self.n_filled] = known
        self.store = larger


def _joined(labels: list[npt.NDArray[Any]]) -> npt.NDArray[Any] | None:
    if not labels:
        return None
    try:
        return np.concatenate(labels)
    except ValueError as error:
        raise InputError(f"labels differ in shape from batch to batch ({one_line(error)}); need one form") from error
