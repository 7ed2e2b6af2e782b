"""The data of an ensemble: every member's inputs, targets and weights as three tensors of one shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steep._validation import FloatArray, check_count, check_points, check_sample_weight
from steep.exceptions import InputError


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


def member_seeds(random_state: int | Sequence[int] | None) -> list[int] | int:
    """One seed for each member, or the first of consecutive seeds."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, int | np.integer):
        return check_count(random_state, name="random_state", minimum=0)
    return [check_count(seed, name="random_state", minimum=0) for seed in random_state]


def gather_members(
    X: Any, y: Any, sample_weight: Any, n_members: int | None, seeds: list[int] | int, loss: str, dtype: torch.dtype
) -> Members:  # fmt: skip
    """Check the data and stack them; what all members share is repeated."""
    inputs = _split_members(X, ndim=2, own=_ndim(X) == 3)
    own_targets = _ndim(y) == 3 or (_ndim(X) == 3 and _ndim(y) == 2 and len(y) == len(inputs))
    targets = _split_members(y, ndim=_ndim(y) - own_targets, own=own_targets)
    weights = (
        [None] if sample_weight is None else _split_members(sample_weight, 1, own=_ndim(sample_weight) == 2)
    )
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


def _ndim(data: Any) -> int:
    """Axes of the data, the list of members counted as one."""
    if isinstance(data, list | tuple) and len(data) and isinstance(data[0], np.ndarray | Tensor):
        return 1 + int(data[0].ndim)
    return int(np.ndim(data))


def _split_members(data: Any, ndim: int, *, own: bool) -> list[Any]:
    arrays = [np.asarray(member) for member in data] if own else [np.asarray(data)]
    if not arrays or any(array.ndim != ndim for array in arrays) or ndim not in (1, 2):
        raise InputError(
            f"the data of an ensemble have {_ndim(data)} dimensions where {ndim} (or one more for the members) are "
            "needed; pass (n_samples, n_features) or (n_members, n_samples, n_features)"
        )
    return arrays


def _agree(**counts: int) -> int:
    several = {name: count for name, count in counts.items() if count > 1}
    if len(set(several.values())) > 1:
        told = ", ".join(f"{name} {count}" for name, count in several.items())
        raise InputError(
            f"the number of members differs: {told}; need one number; pass data for every member"
        )
    return max(counts.values())


def _check_member(x: Any, y: Any, weight: Any, *, loss: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    points = check_points(x)
    if len(y) != len(points):
        raise InputError(f"y has {len(y)} rows for {len(points)} samples; need one target for each sample")
    weights = check_sample_weight(weight, len(points))
    targets = check_points(y.reshape(len(y), -1), name="y")
    if loss == "cross_entropy":
        targets = np.eye(int(targets.max()) + 1)[_class_numbers(targets)]
    elif loss == "binary" and not np.isin(targets, (0, 1)).all():
        raise InputError("y holds values other than 0 and 1; need 0/1 for loss='binary'")
    return points, targets, weights * (len(weights) / weights.sum())


def _class_numbers(targets: FloatArray) -> npt.NDArray[np.int64]:
    classes = targets[:, 0].astype(np.int64)
    if targets.shape[1] != 1 or (classes != targets[:, 0]).any() or classes.min() < 0:
        raise InputError(
            "y holds values that are not class numbers; need one of 0, 1, … for each sample with loss='cross_entropy'"
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
