"""Project data into the feature space of a network: line 3 of Algorithm 3."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from steep._progress import progress_bar
from steep._validation import FloatArray, Seed, check_flag, one_line
from steep.exceptions import InputError
from steep.nn._arguments import check_seed, kept_random_state
from steep.nn.batches import first_rows, iterate_batches, label_array, move, n_samples, refuse_single_samples
from steep.nn.feature_file import open_features, write_features
from steep.nn.network import Split, is_head, n_inputs, run_network, run_once, split, undisturbed, watched

Array = npt.NDArray[Any]

# The label of a position that does not count, as in PyTorch's and Hugging Face's losses.
IGNORED = -100


@dataclass(frozen=True)
class Projection:
    """Features of every sample; :func:`improve` and :func:`retrain_head` take them in place of data.

    Attributes
    ----------
    features : ndarray of shape (n_samples, n_features)
        M*(x_i), one row per sample; a ``numpy.memmap`` if they are in a file.
    labels : ndarray or None
        The labels that came with the data, if any.
    head : str or None
        The layer whose inputs they are.
    network : str or None
        A digest of everything in the network before that layer: features of another network are rejected.

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> projection = project(network, (torch.zeros(10, 4), torch.arange(10) % 3))
    >>> projection.features.shape, projection.labels.shape, projection.head
    ((10, 8), (10,), '2')
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

    def split(self, network: nn.Module | Split) -> Split:
        """Cut the network these are features of, without a sample to run it on; any other is rejected."""
        parts = network if isinstance(network, Split) else split(network)
        name = self.head if parts.name is None else parts.name
        if name is None:
            raise InputError(
                "the features do not say which layer they are the inputs of; pass split(network, head='...')"
            )
        layer = dict(parts.network.named_modules()).get(name)
        if layer is None or not is_head(layer) or n_inputs(layer) != self.features.shape[1]:
            raise InputError(
                f"the features are the {self.features.shape[1]} inputs of head {self.head!r}; expected the network "
                f"they were projected with, got one whose {name!r} is {_described(layer)}; project again"
            )
        is_same = self.network is None or self.network == digest_of(parts.network, name)
        if self.head not in (None, name) or not is_same:
            raise InputError(
                f"the features before head {name!r} are those of another network, or of this one before it was trained "
                "further; expected the network they were projected with; project again"
            )
        return replace(parts, name=name)


def _described(layer: nn.Module | None) -> str:
    if layer is None or not is_head(layer):
        return "not there" if layer is None else f"a {type(layer).__name__}"
    return f"a layer of {n_inputs(layer)} inputs"


def project(
    network: nn.Module | Split,
    data: Any,
    *,
    memmap: str | Path | None = None,
    progress: bool | None = None,
    random_state: Seed = 0,
) -> Projection:
    """Features of every sample in one pass, in eval mode without gradients.

    Parameters
    ----------
    network : nn.Module or Split
        M; it is run where its parameters are, and left as it was. :func:`split` says which layer is the head and how
        the network is run.
    data : Tensor, dict of tensors, (inputs, labels), Dataset, DataLoader or list of dicts
        See :mod:`steep.nn.batches`. With ``memmap`` also a ``DataLoader`` over a stream, or any object that yields
        batches each time it is iterated over.
    memmap : path, optional
        An ``.npy`` file for the features, if there are more than fit in memory; one batch is held at a time. The
        labels go to ``*.labels.npy`` next to it. The files get their names when the pass ends;
        :meth:`Projection.open` opens them again.
    progress : bool, optional
        Whether to show a progress bar on standard error; default on a terminal, after two seconds.
    random_state : int, Generator or None, default 0
        Seed of torch, NumPy and Python while data are read; their global random states are restored.

    Returns
    -------
    Projection

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> project(network, torch.zeros(10, 4)).features.shape
    (10, 8)
    """
    streams = memmap is not None
    if streams:
        refuse_single_samples(data)
    check_flag(progress, name="progress", optional=True)
    seed = check_seed(random_state)
    parts = cut(network, data, streams=streams)
    source: dict[str, Any] = {"head": parts.name, "network": digest_of(parts.network, parts.name or "")}
    with _passes(parts, data, seed=seed, progress=progress, streams=streams) as passes:
        if memmap is None:
            return replace(_held(passes, n_samples(data)), **source)
        write_features(memmap, passes, **source)
    return Projection.open(memmap)


def read_features(parts: Split, data: Any) -> Projection:
    """Features of data that are used at once; data that are features already must be those of this network."""
    if isinstance(data, Projection):
        data.split(parts)
        return data
    with _passes(parts, data, seed=0, progress=None, streams=False) as passes:
        return _held(passes, n_samples(data))


@contextmanager
def _passes(
    parts: Split, data: Any, *, seed: int, progress: bool | None, streams: bool
) -> Iterator[Iterator[tuple[FloatArray, Array | None]]]:
    """Features and labels of each batch, in eval mode, seeded; all states are restored."""
    bar = progress_bar(total=n_samples(data, streams=streams), label="projecting", shown=progress)
    with kept_random_state(parts.network, seed=seed), undisturbed(parts.network), torch.no_grad(), bar as shown:
        yield _pass(parts, iterate_batches(data, parts.batch_size, streams=streams), shown)


def _pass(parts: Split, batches: Iterator[tuple[Any, Any]], bar: Any) -> Iterator[tuple[FloatArray, Array | None]]:
    for inputs, labels in batches:
        features = _features(parts, move(inputs, device_of(parts)))
        bar.update(len(features) if parts.positions != "each" else len(labels) if labels is not None else 1)
        yield rows_of_labels(parts, features, None if labels is None else label_array(labels))


def rows_of_labels(parts: Split, rows: Array, labels: Array | None) -> tuple[Array, Array | None]:
    """Rows and labels of a batch; of a head that answers at each position, those of the positions that have a label."""
    if parts.positions != "each" or labels is None:
        return rows, labels
    flat = labels.reshape(-1)
    if len(flat) != len(rows):
        raise InputError(
            f"a batch has labels of shape {labels.shape} for {len(rows)} positions; expected one label per position, "
            f"{IGNORED} for those that do not count"
        )
    kept = flat != IGNORED
    return rows[kept], flat[kept]


def _held(passes: Iterator[tuple[FloatArray, Array | None]], total: int) -> Projection:
    """Features in memory, in one array that grows if there are more rows than expected."""
    store, n_filled, labels = np.empty((0, 0)), 0, []
    for rows, batch_labels in passes:
        if not n_filled:
            store = np.empty((max(total, len(rows)), rows.shape[1]), dtype=rows.dtype)
        elif rows.shape[1] != store.shape[1]:
            raise InputError(
                f"the head is given {store.shape[1]} features in one batch and {rows.shape[1]} in another; expected "
                "the same for all"
            )
        if (n_needed := n_filled + len(rows)) > len(store):
            store = np.concatenate([store[:n_filled], np.empty((n_needed, rows.shape[1]), dtype=rows.dtype)])
        store[n_filled:n_needed] = rows
        n_filled = n_needed
        labels += [] if batch_labels is None else [batch_labels]
    if not n_filled:
        raise InputError("data yielded no batch; expected at least 1 sample")
    try:
        return Projection(store[:n_filled], np.concatenate(labels) if labels else None)
    except ValueError as error:
        raise InputError(f"labels differ in shape from batch to batch ({one_line(error)}); use one form") from error


def digest_of(network: nn.Module, head: str) -> str:
    """A digest of all that features come from: parameters and buffers but those of the head, and the layers' names."""
    digest = hashlib.sha256()
    own = {f"{head}.{key}" if head else key for key in network.get_submodule(head).state_dict()}
    layers = [(name, type(module).__name__) for name, module in network.named_modules()]
    for part in _leaves([layers, {k: v for k, v in network.state_dict().items() if k not in own}]):
        digest.update(part)
    return digest.hexdigest()


def _leaves(value: Any) -> Iterator[bytes]:
    """Everything in nested tuples, lists and dicts, as bytes."""
    if isinstance(value, Tensor):
        bits = value.detach().cpu().contiguous()
        yield f"{bits.dtype} {tuple(bits.shape)}".encode()
        yield bits.reshape(-1).view(torch.uint8).numpy().tobytes()
    elif isinstance(value, dict):
        for key, part in value.items():
            yield str(key).encode()
            yield from _leaves(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _leaves(part)
    elif isinstance(value, np.ndarray):
        yield repr((value.dtype, value.tolist())).encode()
    else:
        is_plain = isinstance(value, str | bytes | int | float | bool | None)
        yield (repr(value) if is_plain else type(value).__name__).encode()


def cut(network: nn.Module | Split, data: Any, *, streams: bool = False) -> Split:
    """Find the head by running the network on the first two samples of the data; features know where it was cut."""
    parts = network if isinstance(network, Split) else split(network)
    if isinstance(data, Projection):
        return data.split(parts)
    if parts.response is not None:
        return parts
    if not streams and not n_samples(data):
        raise InputError("data has 0 samples; expected at least 1")
    with kept_random_state(parts.network):
        batches = iterate_batches(data, 2, streams=streams)
        first = next(batches, None)
        batches.close()  # restores the states of a loader's generators
    if first is None:
        raise InputError("data yielded no batch; expected at least 1 sample")
    return run_once(parts, move(first_rows(first[0]), device_of(parts)))


def device_of(parts: Split) -> torch.device:
    """Device of the network's parameters."""
    parameter = next(parts.network.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def _features(parts: Split, inputs: Any) -> FloatArray:
    features = parts.run(inputs).features
    if features.ndim != 2:
        raise InputError(
            f"head {parts.name!r} is given features of shape {tuple(features.shape)}; expected one row per "
            "sample, (n_samples, n_features); pass inputs of the same form everywhere"
        )
    if not torch.isfinite(features).all():
        raise InputError(
            f"the features before head {parts.name!r} contain NaN or infinity, which first appear in the output of "
            f"{_first_not_finite(parts, inputs)}; look for bad inputs or a diverged network"
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

    leaves = {name: m for name, m in parts.network.named_modules() if not list(m.children())}
    with watched(leaves, lambda name, _, output: look(name, output)):
        run_network(parts.network, inputs, parts.forward)
    if not seen:
        return "no layer (the inputs themselves)"
    return f"layer {seen[0]!r} ({type(leaves[seen[0]]).__name__})"
