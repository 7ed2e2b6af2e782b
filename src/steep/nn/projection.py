"""Project data into the feature space of a network: line 3 of Algorithm 3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from steep._progress import progress_bar
from steep._validation import FloatArray, Seed
from steep.exceptions import FunctionError, InputError, InputTypeError, SteepError, StorageError
from steep.nn._arguments import check_batch_size, check_callable, check_flag, check_seed, one_line
from steep.nn._random import kept_random_state
from steep.nn.batches import first_rows, iterate_batches, label_array, move, n_samples
from steep.nn.network import Forward, Split, run_network, split, undisturbed

Augment = Callable[[Any], Any]


@dataclass(frozen=True)
class Projection:
    """Features M*(x_i), one row a sample, and the labels that came with the data (None where none did)."""

    features: FloatArray
    labels: npt.NDArray[Any] | None


def project(
    network: nn.Module | Split,
    data: Any,
    *,
    head: str | None = None,
    forward: Forward | None = None,
    augment: Augment | None = None,
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
    data : Tensor, (inputs, labels), Dataset, DataLoader or list of dicts
        See :mod:`steep.nn.batches`.
    head, forward
        See :func:`split`.
    augment : callable, optional
        ``augment(inputs)`` → inputs of an altered copy, called on a copy of each batch, so it may work in place.
    batch_size : int, optional
        Samples run at once; default as many as fit in 32 MB. A ``DataLoader`` has its own.
    memmap : path, optional
        An ``.npy`` file for the features, when there are more than fit in memory.
    progress : bool, optional
        Whether to show a progress bar on standard error; default on a terminal, after two seconds.
    random_state : int, Generator or None, default 0
        Seed of torch, NumPy and Python while data are read and ``augment`` runs; their global random states are
        given back as they were.

    Returns
    -------
    Projection

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> project(network, torch.zeros(10, 4)).features.shape
    (10, 8)
    """
    if not isinstance(network, Split):
        network = cut(network, data, head=head, forward=forward)
    check_callable(augment, name="augment", signature="augment(inputs)")
    check_flag(progress, name="progress", optional=True)
    check_batch_size(batch_size)
    total = n_samples(data)
    rows, labels = _Rows(total, memmap), []
    with (
        kept_random_state(network.network, seed=check_seed(random_state)),
        undisturbed(network.network),
        torch.no_grad(),
        progress_bar(total=total, label="projecting", shown=progress) as bar,
    ):
        for inputs, batch_labels in iterate_batches(data, batch_size):
            given = inputs if augment is None else _altered(augment, inputs)
            found = _features(network, move(given, device_of(network)))
            rows.append(found)
            if batch_labels is not None:
                labels.append(label_array(batch_labels))
            bar.update(len(found))
    return Projection(rows.filled(), _joined(labels))


def cut(network: nn.Module, data: Any, *, head: str | None = None, forward: Forward | None = None) -> Split:
    """Split the network, looking at it with the first two samples of the data."""
    if not isinstance(network, nn.Module):
        raise InputTypeError(f"network is a {type(network).__name__}; need a torch.nn.Module")
    if not n_samples(data):
        raise InputError("data has 0 samples; need at least 1; pass some data")
    with kept_random_state(network):
        batches = iterate_batches(data, 2)
        inputs = next(batches)[0]
        batches.close()  # gives back the states of a loader's generators
    return split(network, head, sample=move(first_rows(inputs), device_of(network)), forward=forward)


def _altered(augment: Augment, inputs: Any) -> Any:
    try:
        return augment(inputs)
    except SteepError:
        raise
    except Exception as error:
        raise FunctionError(
            f"augment failed on a batch ({one_line(error)}); need augment(inputs) → inputs of the same form"
        ) from error


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
    """Rows appended to one array, in memory or in a file; it grows where a loader yields more than expected."""

    def __init__(self, total: int, memmap: str | Path | None) -> None:
        self.total, self.memmap = total, memmap
        self.store: FloatArray | None = None
        self.n_filled = 0

    def append(self, rows: FloatArray) -> None:
        needed = self.n_filled + len(rows)
        if self.store is None:
            self.store = self._new(max(self.total, len(rows)), rows)
        elif rows.shape[1:] != self.store.shape[1:]:
            raise InputError(
                f"the head is given {self.store.shape[1]} features in one batch and {rows.shape[1]} in another; need "
                "the same for all"
            )
        elif needed > len(self.store):
            self._grow(needed, rows)
        self.store[self.n_filled : needed] = rows
        self.n_filled = needed

    def filled(self) -> FloatArray:
        """All rows that were appended."""
        if self.store is None:
            raise InputError("data yielded no batch; need at least 1 sample; pass some data")
        return self.store[: self.n_filled]

    def _grow(self, needed: int, rows: FloatArray) -> None:
        if self.memmap is not None:
            raise InputError(
                f"data yields more than the {self.total} samples it counts; need their number for memmap=...; leave it "
                "out, or pass a loader without batches of its own"
            )
        larger = self._new(max(needed, 2 * len(self.filled())), rows)
        larger[: self.n_filled] = self.filled()
        self.store = larger

    def _new(self, n_rows: int, rows: FloatArray) -> FloatArray:
        shape = (n_rows, rows.shape[1])
        if self.memmap is None:
            return np.empty(shape, dtype=rows.dtype)
        try:
            return np.lib.format.open_memmap(self.memmap, mode="w+", dtype=rows.dtype, shape=shape)
        except (OSError, TypeError, ValueError) as error:
            raise StorageError(
                f"memmap={str(self.memmap)!r} cannot be written ({one_line(error)}); need a file in a folder that "
                "is there"
            ) from error


def _joined(labels: list[npt.NDArray[Any]]) -> npt.NDArray[Any] | None:
    if not labels:
        return None
    try:
        return np.concatenate(labels)
    except ValueError as error:
        raise InputError(
            f"labels differ in shape from batch to batch ({one_line(error)}); need one form"
        ) from error
