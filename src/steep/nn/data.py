"""The data of an improvement: every part read once, as features and targets, and what misleads about them.

Two samples are the same if their features are, up to the rounding of batches of different sizes. They are found by
the products of the features with a few fixed random directions: a − b is nearly zero in all of them only if it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, shown
from steep.exceptions import InputError, warn_user
from steep.nn.batches import label_array
from steep.nn.heads import HeadSamples, HeadTask, TaskName, find_task
from steep.nn.network import Split
from steep.nn.projection import read_features

# Relative distance up to which features are the same: what rounding in single precision adds up to in a deep network.
_SAME = 1e-5
_N_DIRECTIONS = 8
# Rows that are held in double precision at a time.
_BLOCK = 2**12
# Rows that occur twice within one part anyway, as in discrete data, explain up to this many times as many shared rows.
_NATURAL = 2.0


@dataclass(frozen=True)
class HeadData:
    """Every data set as features and targets, projected once."""

    task: HeadTask
    train: HeadSamples
    validation: HeadSamples
    reweighting: HeadSamples | None

    @classmethod
    def read(cls, parts: Split, train: Any, validation: Any, reweighting: Any, task: TaskName) -> Self:
        """Project every part once, unless it is features already, and check its labels."""
        if validation is train:
            raise InputError("validation is the training data; nothing is held out; pass data the network has not seen")
        kind, samples = read_samples(parts, train, None, task)
        extra = None if reweighting is None else read_samples(parts, reweighting, None, kind.name)[1]
        held_out = _labelled(parts, validation, None, kind.name)[1]
        if len(held_out) < 2:
            raise InputError("validation has 1 sample; at least 2 are required to compare heads; pass more data")
        _check_shared("validation", held_out, "train", samples)
        if extra is not None:
            _check_shared("reweighting", extra, "validation", held_out)
            _check_shared("reweighting", extra, "train", samples)
        warn_of_absent_classes(kind, samples)
        return cls(kind, samples, held_out, extra)


def read_samples(parts: Split, data: Any, y: Any, task: TaskName) -> tuple[HeadTask, HeadSamples]:
    """What the head is for, and the training samples as features and targets."""
    kind, samples = _labelled(parts, data, y, task)
    if len(samples) > 1 and (samples.targets == samples.targets[0]).all():  # they cannot rank heads
        raise InputError(
            f"all {len(samples)} training labels are equal; expected at least two different ones to fit a head; "
            "look at the labels"
        )
    return kind, samples


def _labelled(parts: Split, data: Any, y: Any, task: TaskName) -> tuple[HeadTask, HeadSamples]:
    projection = read_features(parts, data)
    labels = projection.labels if y is None else label_array(y)
    if labels is None:
        raise InputError("the data hold no labels; expected one per sample; pass (inputs, labels), or y=...")
    if labels.ndim == 0 or len(labels) != len(projection.features):
        got = 1 if labels.ndim == 0 else len(labels)
        raise InputError(f"y has {got} labels for {len(projection.features)} samples; expected one per sample")
    kind = find_task(task, labels, len(parts.head.weight))
    if kind.name == "regression" and parts.response not in (None, "logits"):
        raise InputError(
            f"the network ends in a {parts.response}, and the labels are numbers, which its head cannot be fitted to; "
            "pass a network that returns logits, or labels of classes"
        )
    return kind, HeadSamples(projection.features, kind.targets(labels))


def _check_shared(name: str, part: HeadSamples, other_name: str, other: HeadSamples) -> None:
    """Warn of samples that are in two parts, and reject validation data that are all in another one."""
    n_shared, n = count_shared(part.features, other.features), len(part)
    how_many = f"all {n:,}" if n_shared == n else f"{n_shared:,} of {n:,}"
    words = (
        f"{how_many} {name} samples are also in {other_name} (their features are the same); pass data the network has "
        "not seen, different ones for each part"
    )
    if n_shared == n and "validation" in (name, other_name):
        raise InputError(words)
    if n_shared:
        warn_user(words)


def count_shared(features: FloatArray, others: FloatArray) -> int:
    """How many rows are among other rows; 0 if as many rows of the others occur twice among themselves."""
    directions = np.random.default_rng(0).normal(size=(features.shape[1], _N_DIRECTIONS))
    own, theirs = (
        np.concatenate([np.asarray(part[i : i + _BLOCK], np.float64) @ directions for i in range(0, len(part), _BLOCK)])
        for part in (features, others)
    )
    order = np.argsort(theirs[:, 0], kind="stable")
    place = np.searchsorted(theirs[order, 0], own[:, 0])
    sides = (order[np.minimum(place, len(order) - 1)], order[np.maximum(place - 1, 0)])
    shared = _are_same(own, theirs[sides[0]]) | _are_same(own, theirs[sides[1]])
    n_twins = _are_same(theirs[order[1:]], theirs[order[:-1]]).sum()
    return int(shared.sum()) if shared.mean() > _NATURAL * n_twins / len(theirs) else 0


def _are_same(ones: FloatArray, others: FloatArray) -> npt.NDArray[np.bool_]:
    return np.asarray(np.linalg.norm(ones - others, axis=1) <= _SAME * np.linalg.norm(ones, axis=1))


def warn_of_absent_classes(task: HeadTask, train: HeadSamples) -> None:
    """Warn of classes of the head that no training sample has."""
    absent = [] if task.name == "regression" else np.flatnonzero(task.class_counts(train.targets) == 0).tolist()
    if absent:
        warn_user(
            f"no training sample has class {shown(absent)}: a re-trained head will not predict what it has not seen; "
            "add samples"
        )
