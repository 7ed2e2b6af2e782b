"""Pictures as tensors: split into training, held-out and test parts, and small ones kept in lines."""

from __future__ import annotations

import base64
import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from reproduction.data import Split
from steep._validation import check_count
from steep.exceptions import InputError

# Mean and spread of CIFAR-10's three channels over the training set.
_MEAN, _SPREAD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class Parts(NamedTuple):
    """Three labelled parts of a picture set; ``raw`` are the training pictures as bytes."""

    train: tuple[Tensor, Tensor]
    held_out: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    raw: npt.NDArray[np.uint8]


def parts_of(data: Split, *, n_train: int, n_held_out: int, seed: int = 0) -> Parts:
    """Draw training and held-out pictures without overlap; the test part is the published one."""
    n_train = check_count(n_train, name="n_train")
    n_held_out = check_count(n_held_out, name="n_held_out", minimum=0)
    if n_train + n_held_out > len(data.x_train):
        raise InputError(
            f"{n_train} + {n_held_out} pictures asked for; expected at most {len(data.x_train)}; lower n_train"
        )
    order = np.random.default_rng(seed).permutation(len(data.x_train))
    train, held_out = order[:n_train], order[n_train : n_train + n_held_out]
    labelled = [
        (to_tensor(x), torch.as_tensor(np.array(y), dtype=torch.long))
        for x, y in ((data.x_train[train], data.y_train[train]), (data.x_train[held_out], data.y_train[held_out]),
                     (data.x_test, data.y_test))
    ]  # fmt: skip
    return Parts(labelled[0], labelled[1], labelled[2], np.asarray(data.x_train[train]))


def to_tensor(pictures: npt.NDArray[np.uint8]) -> Tensor:
    """``(n, channels, height, width)`` floats: grey in [0, 1], colours standardised by channel."""
    scaled = torch.as_tensor(np.array(pictures), dtype=torch.float32) / 255
    if scaled.ndim == 3:
        return scaled[:, None]
    return ((scaled - torch.tensor(_MEAN)) / torch.tensor(_SPREAD)).permute(0, 3, 1, 2).contiguous()


def pack(pictures: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """A few pictures as text for a line.

    Examples
    --------
    >>> unpack(pack(np.zeros((2, 3), dtype=np.uint8))).shape
    (2, 3)
    """
    packed = zlib.compress(np.ascontiguousarray(pictures).tobytes(), 9)
    return {"shape": list(pictures.shape), "bytes": base64.b64encode(packed).decode()}


def unpack(packed: dict[str, Any]) -> npt.NDArray[np.uint8]:
    """What :func:`pack` packed."""
    raw = zlib.decompress(base64.b64decode(packed["bytes"]))
    return np.frombuffer(raw, np.uint8).reshape(packed["shape"])
