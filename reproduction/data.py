"""The data sets of the paper: from a folder of the user's, else from their public source, checked by checksum.

The folder (``--data``, or the environment variable ``STEEP_DATA``) is laid out as

    mnist/      train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-…        as published
    cifar10/    cifar-10-binary.tar.gz as published, or one lossless WebP sheet a batch and labels.npz
    boston/     boston_house_prices.csv                                             as in scikit-learn 1.1
    glue/       cls_features_<encoder>.npz                                          frozen [CLS] vectors

A file whose checksum is unknown is rejected: a damaged or different data set would give numbers that look right.
Smoke runs use stand-ins made from scikit-learn's own data, and every line says so.
"""

import gzip
import hashlib
import io
import os
import tarfile
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from steep._files import write_whole
from steep._validation import check_choice
from steep.exceptions import MissingExtraError, StorageError

ENVIRONMENT = "STEEP_DATA"
ENCODERS = ("tinybert-4l-312d-ner", "bert-tiny-l2-h128-toxicity")
TASKS = ("RTE", "MRPC", "STS-B")

_FILES = tomllib.loads(files("reproduction").joinpath("data_files.toml").read_text(encoding="utf-8"))
CHECKSUMS: dict[str, list[str]] = {name: found["sha256"] for name, found in _FILES.items()}
SOURCES: dict[str, str] = {name: found["source"] for name, found in _FILES.items() if "source" in found}
_TIMEOUT_SECONDS = 60
# Where kernel and bias of each layer begin in the authors' file: plain arrays in a file whose checksum is known.
_LENET = {
    (5, 5, 1, 6): (9536, 10136), (5, 5, 6, 16): (15176, 10160), (5, 5, 16, 120): (28464, 10224),
    (5880, 84): (224048, 10704), (84, 10): (2202480, 11040),
}  # fmt: skip


class Split(NamedTuple):
    """Inputs and labels to train on and to test on."""

    x_train: npt.NDArray[Any]
    y_train: npt.NDArray[Any]
    x_test: npt.NDArray[Any]
    y_test: npt.NDArray[Any]


@dataclass(frozen=True)
class Data:
    """Where data sets come from: the folder of the user, then the cache."""

    folder: str | Path | None = None
    cache: str | Path | None = None

    def mnist(self) -> Split:
        """60,000 + 10,000 digits, ``(n, 28, 28)`` bytes."""
        kinds = ("images-idx3", "labels-idx1")
        return Split(*(_read_idx(self.path(f"mnist/{p}-{kind}-ubyte.gz")) for p in ("train", "t10k") for kind in kinds))

    def authors_lenet(self) -> list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
        """Kernel and bias of each layer of the network that the authors publish, in Keras's order of axes."""
        raw = self.path("mnist/authors-lenet.h5").read_bytes()
        return [
            (np.frombuffer(raw, "<f4", int(np.prod(shape)), kernel).reshape(shape).copy(),
             np.frombuffer(raw, "<f4", shape[-1], bias).copy())
            for shape, (kernel, bias) in _LENET.items()
        ]  # fmt: skip

    def cifar10(self) -> Split:
        """50,000 + 10,000 pictures, ``(n, 32, 32, 3)`` bytes."""
        if self._find("cifar10/labels.npz") is not None:
            return self._cifar10_sheets()
        return _read_cifar10(self.path("cifar10/cifar-10-binary.tar.gz"))

    def _cifar10_sheets(self) -> Split:
        with np.load(self.path("cifar10/labels.npz"), allow_pickle=False) as labels:
            y_train, y_test = labels["y_train"], labels["y_test"]
        sheets = [_read_sheet(self.path(f"cifar10/data_batch_{i}.webp")) for i in range(1, 6)]
        test = _read_sheet(self.path("cifar10/test_batch.webp"))
        return Split(np.concatenate(sheets), np.asarray(y_train), test, np.asarray(y_test))

    def boston(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """506 × 13 features, and the median value of homes."""
        text = self.path("boston/boston_house_prices.csv").read_text(encoding="utf-8")
        table = np.loadtxt(io.StringIO(text.replace('"', "")), delimiter=",", skiprows=2)
        return table[:, :13], table[:, 13]

    def glue(self, task: str, encoder: str = ENCODERS[0]) -> Split:
        """Frozen [CLS] vectors of a GLUE task; the test part is GLUE's validation split, as in the paper."""
        check_choice(task, name="task", choices=TASKS)
        check_choice(encoder, name="encoder", choices=ENCODERS)
        with np.load(self.path(f"glue/cls_features_{encoder}.npz"), allow_pickle=False) as stored:
            parts = [stored[f"{task}/{split}/{kind}"] for split in ("train", "dev") for kind in "xy"]
        return Split(parts[0].astype(np.float32), parts[1], parts[2].astype(np.float32), parts[3])

    def path(self, name: str) -> Path:
        """Where a file is, its checksum seen to be right; downloaded first where it has to be."""
        found = self._find(name) or self._download(name)
        if (digest := _sha256(found)) not in CHECKSUMS[name]:
            raise StorageError(
                f"{found} has SHA-256 {digest[:12]}…; expected {CHECKSUMS[name][0][:12]}… of the published file; "
                "delete it and fetch it again"
            )
        return found

    @cached_property
    def _folders(self) -> list[Path]:
        given = self.folder or os.environ.get(ENVIRONMENT)
        return [Path(folder) for folder in (given, self.cache and Path(self.cache) / "data") if folder]

    def _find(self, name: str) -> Path | None:
        return next((folder / name for folder in self._folders if (folder / name).is_file()), None)

    def _download(self, name: str) -> Path:
        source = SOURCES.get(name)
        place = self._folders[0] if self._folders else f"a folder named by --data or {ENVIRONMENT}"
        what_to_do = f"fetch it{f' from {source}' if source else ' (see docs/reproduction-data.md)'} and put it there"
        if source is None or self.cache is None:
            raise StorageError(f"{name} is not in {place}; {what_to_do}")
        target = Path(self.cache) / "data" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with urllib.request.urlopen(source, timeout=_TIMEOUT_SECONDS) as reply:
                content = reply.read()
        except (urllib.error.URLError, TimeoutError, OSError) as error:
            raise StorageError(f"{name} is not in {place} and cannot be downloaded ({error}); {what_to_do}") from error
        return write_whole(target, lambda path: path.write_bytes(content))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """Read one idx file: two zero bytes, the type, the number of axes, their sizes, the data."""
    with gzip.open(path) as file:
        raw = file.read()
    n_axes = raw[3]
    shape = np.frombuffer(raw, ">u4", n_axes, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


def _read_sheet(path: Path) -> npt.NDArray[np.uint8]:
    """One lossless sheet of 500 × 20 tiles of 32 × 32, row by row in the original order."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError(f"{path.name} needs Pillow ({error}); run pip install steep[paper]") from error
    # The sheets are larger than what Pillow takes for an attack; their checksum was seen to be right.
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        pixels = np.asarray(Image.open(path).convert("RGB"))
    finally:
        Image.MAX_IMAGE_PIXELS = limit
    return pixels.reshape(500, 32, 20, 32, 3).transpose(0, 2, 1, 3, 4).reshape(10000, 32, 32, 3)


def _read_cifar10(path: Path) -> Split:
    """The published binary archive: a byte of label and 3,072 of picture, channel by channel."""
    with tarfile.open(path) as archive:
        parts = [archive.extractfile(f"cifar-10-batches-bin/{name}.bin") for name in (
            *(f"data_batch_{i}" for i in range(1, 6)), "test_batch")]  # fmt: skip
        rows = [np.frombuffer(part.read(), np.uint8).reshape(-1, 3073) for part in parts if part is not None]
    train, test = np.concatenate(rows[:-1]), rows[-1]
    pictures = [np.ascontiguousarray(a[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)) for a in (train, test)]
    return Split(pictures[0], train[:, 0].copy(), pictures[1], test[:, 0].copy())


class StandIns(Data):
    """Small stand-ins made from scikit-learn's own data, for smoke runs: never the real thing, and labelled so."""

    def mnist(self) -> Split:
        """scikit-learn's 8 × 8 digits, enlarged: 600 to train, 300 to test."""
        return _split(_enlarge(28), 600, 300)

    def authors_lenet(self) -> list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
        """A network of the same shape with random weights."""
        rng = np.random.default_rng(0)
        return [(rng.normal(0, 0.05, shape).astype(np.float32), np.zeros(shape[-1], np.float32)) for shape in _LENET]

    def cifar10(self) -> Split:
        """The same digits at 32 × 32 in three random colours."""
        pictures, labels = _enlarge(32)
        colour = np.random.default_rng(0).uniform(0.3, 1.0, (len(pictures), 1, 1, 3))
        return _split(((pictures[..., None] * colour).astype(np.uint8), labels), 140, 60)

    def boston(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """scikit-learn's diabetes data."""
        from sklearn.datasets import load_diabetes

        X, y = load_diabetes(return_X_y=True)
        return X - X.min(axis=0), y / 10

    def glue(self, task: str, encoder: str = ENCODERS[0]) -> Split:
        """Digits as features; odd or even for the classes, the diabetes data for STS-B."""
        check_choice(task, name="task", choices=TASKS)
        if task == "STS-B":
            X, y = self.boston()
            return _split((X.astype(np.float32), y), 300, 100)
        pictures, labels = _enlarge(8)
        return _split((pictures.reshape(len(pictures), -1).astype(np.float32) / 255, labels % 2), 400, 200)


def _enlarge(size: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    index = np.arange(size) * 8 // size
    return (images.reshape(-1, 8, 8)[:, index][:, :, index] * (255 / 16)).astype(np.uint8), labels


def _split(data: tuple[npt.NDArray[Any], npt.NDArray[Any]], n_train: int, n_test: int) -> Split:
    X, y = data
    order = np.random.default_rng(0).permutation(len(X))[: n_train + n_test]
    train, test = order[:n_train], order[n_train:]
    return Split(X[train], y[train], X[test], y[test])


def describe(scale: str) -> Mapping[str, str]:
    """What the data of a scale are, for the settings of every line."""
    return {"data": "stand-in made from scikit-learn's data" if scale == "smoke" else "as published"}
