"""Project data into the feature space of a network: line 3 of Algorithm 3."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from steep._files import write_whole
from steep._progress import progress_bar
from steep._validation import FloatArray, one_line
from steep.exceptions import InputError, InputTypeError, StorageError
from steep.nn.batches import iterate_batches, kept_random_state, label_array, move, n_samples
from steep.nn.network import Split, is_head, run_once, split, undisturbed

Array = npt.NDArray[Any]

# The label of a position that does not count, as in PyTorch's and Hugging Face's losses.
IGNORED = -100
Batches = Iterator[tuple[FloatArray, Array | None]]

_FORMAT = 1
_LABELS, _NOTE = ".labels.npy", ".npy.json"


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
        file = _check_path(path)
        note = _read_note(file)
        labels = _mapped(beside(file, _LABELS), note["n_rows"]) if note["labels"] else None
        return cls(_mapped(file, note["n_rows"]), labels, note["head"], note["network"])

    def split(self, network: nn.Module | Split) -> Split:
        """Cut the network these are features of, without a sample to run it on; any other is rejected."""
        parts = network if isinstance(network, Split) else split(network)
        name = self.head if parts.name is None else parts.name
        if name is None:
            raise InputError(
                "the features do not say which layer they are the inputs of; pass split(network, head='...')"
            )
        layer = dict(parts.network.named_modules()).get(name)
        fits = layer is not None and is_head(layer) and layer.weight.shape[1] == self.features.shape[1]
        if not fits or self.head not in (None, name) or self.network not in (None, digest_of(parts.network, name)):
            raise InputError(
                f"the {self.features.shape[1]} features before head {self.head!r} are those of another network, or of "
                "this one before it was trained further; expected the network they were projected with; project again"
            )
        return replace(parts, name=name)


def project(network: nn.Module | Split, data: Any, *, memmap: str | Path | None = None) -> Projection:
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
    parts = cut(network, data, streams=streams)
    source: dict[str, Any] = {"head": parts.name, "network": digest_of(parts.network, parts.name or "")}
    with _passes(parts, data, streams=streams) as passes:
        if memmap is None:
            return replace(_held(passes, n_samples(data)), **source)
        write_features(memmap, passes, **source)
    return Projection.open(memmap)


def read_features(parts: Split, data: Any) -> Projection:
    """Features of data that are used at once; data that are features already must be those of this network."""
    if isinstance(data, Projection):
        data.split(parts)
        return data
    with _passes(parts, data, streams=False) as passes:
        return _held(passes, n_samples(data))


@contextmanager
def _passes(parts: Split, data: Any, *, streams: bool) -> Iterator[Batches]:
    """Features and labels of each batch, in eval mode, seeded; all states are restored."""
    bar = progress_bar(total=n_samples(data, streams=streams), label="projecting")
    with kept_random_state(parts.network, seed=0), undisturbed(parts.network), torch.no_grad(), bar as shown:

        def rows() -> Batches:
            for inputs, labels in iterate_batches(data, parts.batch_size, streams=streams):
                features = _features(parts, move(inputs, device_of(parts)))
                shown.update(len(features) if parts.positions != "each" else len(labels) if labels is not None else 1)
                yield rows_of_labels(parts, features, None if labels is None else label_array(labels))

        yield _checked(rows())


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


def _checked(batches: Batches) -> Batches:
    """The batches, of as many features each, with labels in all or in none."""
    first: tuple[Array, Array | None] | None = None
    for rows, labels in batches:
        first = first or (rows[:0], labels)
        if (labels is None) != (first[1] is None):
            raise InputError("some batches have labels and some do not; expected labels in all or in none")
        if labels is not None and len(labels) != len(rows):
            raise InputError(f"a batch has {len(labels)} labels for {len(rows)} samples; expected one per sample")
        if labels is not None and labels.dtype.hasobject:
            raise InputTypeError(f"labels have dtype {labels.dtype}; expected numbers or text")
        if rows.shape[1] != first[0].shape[1] or not np.can_cast(rows.dtype, first[0].dtype, casting="safe"):
            raise InputError(
                f"the head is given {first[0].shape[1]} features of {first[0].dtype} in one batch and {rows.shape[1]} "
                f"of {rows.dtype} in another; expected the same in all batches"
            )
        yield rows, labels
    if first is None:
        raise InputError("data yielded no batch; expected at least 1 sample")


def _joined(labels: list[Array]) -> Array | None:
    try:
        return np.concatenate(labels) if labels else None
    except ValueError as error:
        raise InputError(f"labels differ in shape from batch to batch ({one_line(error)}); use one form") from error


def _held(passes: Batches, total: int) -> Projection:
    """Features in memory, in one array that grows if there are more rows than expected."""
    store, n_filled, labels = np.empty((0, 0)), 0, list[Array]()
    for rows, own in passes:
        end = n_filled + len(rows)
        if not n_filled:
            store = np.empty((max(total, end), rows.shape[1]), dtype=rows.dtype)
        elif end > len(store):
            store.resize((end, rows.shape[1]), refcheck=False)
        store[n_filled:end], n_filled = rows, end
        labels += [] if own is None else [own]
    return Projection(store[:n_filled], _joined(labels))


def digest_of(network: nn.Module, head: str) -> str:
    """A digest of all that features come from: parameters and buffers but those of the head, and the layers' names."""
    digest = hashlib.sha256()
    for name, module in network.named_modules():
        digest.update(f"{name!r}{type(module).__name__!r}".encode())
    own = {f"{head}.{key}" if head else key for key in network.get_submodule(head).state_dict()}
    for key, value in network.state_dict().items():
        if key not in own:
            digest.update(key.encode())
            if isinstance(value, Tensor):
                bits = value.detach().cpu().contiguous()
                digest.update(f"{bits.dtype} {tuple(bits.shape)}".encode())
                digest.update(bits.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def cut(network: nn.Module | Split, data: Any, *, streams: bool = False) -> Split:
    """Find the head by running the network on the first two samples of the data; features know where it was cut."""
    parts = network if isinstance(network, Split) else split(network)
    if isinstance(data, Projection):
        return data.split(parts)
    if parts.response is not None:
        return parts
    with kept_random_state(parts.network):
        batches = iterate_batches(data, 2, streams=streams)
        first = next(batches, None)
        batches.close()  # restores the states of a loader's generators
    if first is None:
        raise InputError("data yielded no batch; expected at least 1 sample")
    return run_once(parts, move(first[0], device_of(parts)))


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
            f"the features before head {parts.name!r} contain NaN or infinity; look for bad inputs or a bad network"
        )
    # NumPy has no bfloat16, and sums of float16 overflow.
    kept = features if features.dtype in (torch.float32, torch.float64) else features.float()
    return kept.cpu().numpy()


# ------------------------------------------------------------------------------- features in a file


def write_features(path: str | Path, batches: Batches, *, network: str, head: str) -> None:
    """Write the features of one pass, next to them the labels, which are held, and the note that names the network."""
    target, labels = _check_path(path), list[Array]()

    def write(temporary: Path) -> None:
        first: Array = np.empty((0, 0))
        n_rows = 0
        with temporary.open("w+b") as file:
            for rows, own in batches:
                if not n_rows:
                    first = rows[:0]
                    file.write(_header(first, 0))
                labels.extend([] if own is None else [own])
                file.write(np.ascontiguousarray(rows, dtype=first.dtype).data)
                n_rows += len(rows)
            file.seek(0)
            file.write(_header(first, n_rows))
        target.unlink(missing_ok=True)
        if (known := _joined(labels)) is not None:
            write_whole(beside(target, _LABELS), lambda part: np.save(part, known))
        note = {"format": _FORMAT, "network": network, "head": head, "n_rows": n_rows, "labels": bool(labels)}
        write_whole(beside(target, _NOTE), lambda part: part.write_text(json.dumps(note, indent=1) + "\n"))

    write_whole(target, write)


def beside(path: Path, ending: str) -> Path:
    """What is next to a feature file: its labels, or the note that names its network."""
    return path.with_name(path.stem + ending)


def _header(first: Array, n_rows: int) -> bytes:
    """The header of an ``.npy`` file; NumPy pads it to the same length for any number of rows."""
    buffer = io.BytesIO()
    about = {"descr": first.dtype.str, "fortran_order": False, "shape": (n_rows, *first.shape[1:])}
    np.lib.format.write_array_header_1_0(buffer, about)
    return buffer.getvalue()


def _check_path(path: Any) -> Path:
    try:
        found = Path(path)
    except TypeError as error:
        raise InputTypeError(f"memmap is a {type(path).__name__}; expected the path of an .npy file") from error
    if found.suffix != ".npy":
        raise InputError(f"memmap={str(path)!r} must end in .npy, for example features.npy")
    if not found.parent.is_dir():
        raise StorageError(f"memmap={str(path)!r}: the folder {found.parent} does not exist; create it first")
    return found


def _read_note(path: Path) -> dict[str, Any]:
    note = beside(path, _NOTE)
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{note} cannot be read ({one_line(error)}): the features do not exist or were not written to the end; run "
            "project(network, data, memmap=...)"
        ) from error
    keys = {"n_rows", "labels", "network", "head"}
    if not isinstance(found, dict) or found.get("format") != _FORMAT or not keys <= set(found):
        raise StorageError(f"{note} was not written by project; run project again")
    return found


def _mapped(path: Path, n_rows: int) -> Array:
    try:
        found: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read ({one_line(error)}); run project again") from error
    if len(found) != n_rows:
        raise StorageError(f"{path} has {len(found)} rows, but {n_rows} were written; run project again")
    return found
