"""Project data into the feature space of a network: line 3 of Algorithm 3."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from steep._validation import FloatArray
from steep.exceptions import InputError
from steep.nn.batches import iterate_batches, move, n_samples
from steep.nn.network import Forward, Split, split, undisturbed

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
    random_state: int = 0,
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
        ``augment(inputs)`` → inputs of an altered copy, called on each batch.
    batch_size : int, optional
        Samples run at once; default as many as fit in 32 MB. A ``DataLoader`` has its own.
    memmap : path, optional
        An ``.npy`` file for the features, when there are more than fit in memory.
    progress : bool, optional
        Whether to show progress on standard error; default when that is a terminal.
    random_state : int, default 0
        Seed of torch while ``augment`` runs; the global random state is given back as it was.

    Returns
    -------
    Projection

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> project(network, torch.zeros(10, 4)).features.shape
    (10, 8)
    """
    parts = network if isinstance(network, Split) else None
    total, show = n_samples(data), sys.stderr.isatty() if progress is None else progress
    if not total:
        raise InputError("data has 0 samples; need at least 1; pass some data")
    store: FloatArray | None = None
    labels: list[npt.NDArray[Any]] = []
    filled = 0
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(random_state)
        for inputs, batch_labels in iterate_batches(data, batch_size):
            given = move(inputs if augment is None else augment(inputs), device_of(network))
            parts = parts or split(network, head, sample=given, forward=forward)  # type: ignore[arg-type]
            rows = _features(parts, given)
            if store is None:
                store = _store(total, rows, memmap)
            store[filled : filled + len(rows)] = rows
            filled += len(rows)
            if batch_labels is not None:
                labels.append(np.asarray(torch.as_tensor(batch_labels).cpu()))
            _show(filled, total, show)
    assert store is not None  # total > 0, so at least one batch was run
    return Projection(store[:filled], np.concatenate(labels) if labels else None)


def device_of(network: nn.Module | Split) -> torch.device:
    """Where the network's parameters are."""
    module = network.network if isinstance(network, Split) else network
    parameter = next(module.parameters(), None) if isinstance(module, nn.Module) else None
    return torch.device("cpu") if parameter is None else parameter.device


def _features(parts: Split, inputs: Any) -> FloatArray:
    features = parts.features(inputs)
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
        with undisturbed(parts.network), torch.no_grad():
            parts.forward(parts.network, inputs)
    finally:
        for handle in handles:
            handle.remove()
    if not seen:
        return "no layer (the inputs themselves)"
    return f"layer {seen[0]!r} ({type(parts.network.get_submodule(seen[0])).__name__})"


def _store(total: int, rows: FloatArray, memmap: str | Path | None) -> FloatArray:
    shape = (total, rows.shape[1])
    if memmap is None:
        return np.empty(shape, dtype=rows.dtype)
    return np.lib.format.open_memmap(memmap, mode="w+", dtype=rows.dtype, shape=shape)


def _show(done: int, total: int, show: bool) -> None:
    if show:
        bar = "█" * (20 * done // total)
        end = "\n" if done >= total else ""
        print(f"\rprojecting {bar:20} {done:,}/{total:,}", end=end, file=sys.stderr, flush=True)
