"""The data of an ensemble: every member's inputs, targets and weights as three tensors of one shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steep._validation import FloatArray, check_points, check_sample_weight, one_line
from steep.exceptions import InputError, InputTypeError
from steep.labels import check_labels
from steep.nn._arguments import check_each, check_seed

# A class is an output of every network: more of them than this are identifiers, not classes.
_MOST_CLASSES = 100_000


@dataclass(frozen=True)
class Members:
    """``inputs`` (R, n, d), ``targets`` (R, n, o) and ``weight`` (R, n); short members are padded by weight 0."""

    inputs: Tensor
    targets: Tensor
    weight: Tensor
    lengths: list[int]
    seeds: list[int]

    @property
    def n_samples(self) -> int:
        """Samples of the longest member."""
        return self.inputs.shape[1]

    @property
    def n_features(self) -> int:
        """Inputs of the networks."""
        return self.inputs.shape[2]

    @property
    def n_outputs(self) -> int:
        """Outputs of the networks."""
        return self.targets.shape[2]

    def refuse_padding(self, batch_size: int) -> None:
        """Mini-batches of members of different lengths would not be those of a member trained alone."""
        if len(set(self.lengths)) > 1:
            raise InputError(
                f"batch_size={batch_size} with members of {min(self.lengths)} to {max(self.lengths)} samples; need "
                "members of one length; leave batch_size out, or train each length by itself"
            )


def member_seeds(random_state: Any) -> list[int] | int:
    """One seed for each member, or the first of consecutive seeds."""
    if isinstance(random_state, list | tuple | np.ndarray):
        if not len(seeds := check_each(random_state, check_seed, name="random_state")):
            raise InputError("random_state is empty; need a seed for each member, or the first of them")
        return list(seeds)
    return check_seed(random_state)


def gather_members(
    X: Any, y: Any, sample_weight: Any, n_members: int | None, seeds: list[int] | int, loss: str, dtype: torch.dtype
) -> Members:  # fmt: skip
    """Check the data and stack them; what all members share is repeated."""
    n_axes, n_target_axes = _ndim(X, "X"), _ndim(y, "y")
    inputs = _split_members(X, ndim=2, own=n_axes == 3, name="X")
    own_targets = n_target_axes == 3 or (n_axes == 3 and n_target_axes == 2 and len(y) == len(inputs))
    targets = _split_members(y, ndim=n_target_axes - own_targets, own=own_targets, name="y")
    weights: list[Any] = [None]
    if sample_weight is not None:
        has_own = _ndim(sample_weight, "sample_weight") == 2
        weights = _split_members(sample_weight, 1, own=has_own, name="sample_weight")
    n = _agree(
        X=len(inputs), y=len(targets), sample_weight=len(weights), n_members=n_members or 1,
        random_state=len(seeds) if isinstance(seeds, list) else 1,
    )  # fmt: skip
    parts = (part * n if len(part) == 1 else part for part in (inputs, targets, weights))
    checked = [_check_member(*member, loss=loss) for member in zip(*parts, strict=True)]
    longest, n_outputs = max(len(x) for x, _, _ in checked), max(t.shape[1] for _, t, _ in checked)
    padded = [_pad(*member, longest, n_outputs) for member in checked]
    stacked = [torch.as_tensor(np.stack(arrays), dtype=dtype) for arrays in zip(*padded, strict=True)]
    numbered = seeds if isinstance(seeds, list) else [seeds + r for r in range(n)]
    return Members(stacked[0], stacked[1], stacked[2], [len(x) for x, _, _ in checked], numbered)


def check_numbers(data: Any, *, name: str) -> npt.NDArray[Any]:
    """Return an array of real numbers of any shape; members of different lengths are a list, not an array."""
    try:
        array = np.asarray(data.detach().cpu() if isinstance(data, Tensor) else data)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"{name} is ragged ({one_line(error)}); need arrays of one shape") from error
    if array.dtype.kind not in "biuf":
        raise InputTypeError(f"{name} has dtype {array.dtype}; need real numbers; encode text and classes first")
    return array


def _ndim(data: Any, name: str) -> int:
    """Axes of the data, the list of members counted as one."""
    if isinstance(data, list | tuple) and len(data) and isinstance(data[0], np.ndarray | Tensor):
        return 1 + int(data[0].ndim)
    return int(check_numbers(data, name=name).ndim)


def _split_members(data: Any, ndim: int, *, own: bool, name: str) -> list[Any]:
    arrays = [check_numbers(member, name=name) for member in data] if own else [check_numbers(data, name=name)]
    if not arrays or any(array.ndim != ndim for array in arrays) or ndim not in (1, 2):
        raise InputError(
            f"{name} has {_ndim(data, name)} dimensions where {ndim} (or one more for the members) are needed; pass "
            "(n_samples, n_features) or (n_members, n_samples, n_features)"
        )
    return arrays


def _agree(**counts: int) -> int:
    several = {name: count for name, count in counts.items() if count > 1}
    if len(set(several.values())) > 1:
        told = ", ".join(f"{name} {count}" for name, count in several.items())
        raise InputError(f"the number of members differs: {told}; need one number; pass data for every member")
    return max(counts.values())


def _check_member(x: Any, y: Any, weight: Any, *, loss: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    points = check_points(x)
    if len(y) != len(points):
        raise InputError(f"y has {len(y)} rows for {len(points)} samples; need one target for each sample")
    weights = check_sample_weight(weight, len(points))
    targets = check_labels(y, n_samples=len(points), task="regression").array
    if loss == "cross_entropy":
        classes = _class_numbers(targets)
        targets = np.eye(int(classes.max()) + 1)[classes]
    elif loss == "binary" and not np.isin(targets, (0, 1)).all():
        raise InputError("y holds values other than 0 and 1; need 0/1 for loss='binary'")
    return points, targets, weights * (len(weights) / weights.sum())


def _class_numbers(targets: FloatArray) -> npt.NDArray[np.int64]:
    classes = targets[:, 0].astype(np.int64)
    if targets.shape[1] != 1 or (classes != targets[:, 0]).any() or classes.min() < 0:
        raise InputError(
            "y holds values that are not class numbers; need one of 0, 1, … for each sample with loss='cross_entropy'"
        )
    if classes.max() >= _MOST_CLASSES:
        raise InputError(
            f"y holds class {classes.max()}; need class numbers from 0 without large gaps; number them by "
            "np.unique(y, return_inverse=True)[1]"
        )
    return classes


def _pad(x: FloatArray, y: FloatArray, weight: FloatArray, longest: int, n_outputs: int) -> list[FloatArray]:
    """Fill up to the longest member by samples of weight 0; the mean stays over the real ones."""
    missing = longest - len(x)
    scaled = weight * (longest / len(x))
    return [
        np.pad(x, ((0, missing), (0, 0))),
        np.pad(y, ((0, missing), (0, n_outputs - y.shape[1]))),
        np.pad(scaled, (0, missing)),
    ]
