"""The data of an improvement: every part read once, as features and targets, and what misleads about them.

Two samples are the same if their features are, up to the rounding of batches of different sizes. They are found by
one number each, the product of the features with a fixed random direction: equal rows have equal numbers, and rows of
nearly equal numbers are compared in full.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, IntArray
from steep.exceptions import InputError, warn_user
from steep.nn.batches import label_array
from steep.nn.heads import Head, HeadSamples, HeadTask, TaskName, find_task
from steep.nn.network import Split
from steep.nn.projection import read_features

# Features have collapsed if held-out samples are wrong this much more often than training samples.
_GAP, _TIMES = 0.05, 2.0
# Relative distance up to which features are the same: what rounding in single precision adds up to in a deep network.
_SAME = 1e-5
# Numbers that are held at a time: features may lie in a file.
_BLOCK = 2**20
# Rows that occur twice within one part anyway, as in discrete data, explain up to this many times as many shared rows.
_NATURAL = 2.0
# Classes that are named; of more the number is given.
_N_NAMED = 5


@dataclass(frozen=True)
class HeadData:
    """Every data set as features and targets, projected once."""

    task: HeadTask
    train: HeadSamples
    validation: HeadSamples | None
    reweighting: HeadSamples | None

    @classmethod
    def read(cls, parts: Split, train: Any, validation: Any, reweighting: Any, task: TaskName) -> Self:
        """Project every part once, unless it is features already, and check its labels."""
        _refuse_same_object(train, validation)
        kind, samples = read_samples(parts, train, None, task)
        held_out = extra = None
        if reweighting is not None:
            extra = read_samples(parts, reweighting, None, kind.name)[1]
        if validation is not None:
            held_out = _labelled(parts, validation, None, kind.name)[1]
            if len(held_out) < 2:
                raise InputError("validation has 1 sample; at least 2 are required to compare heads; pass more data")
        _check_parts(kind, samples, held_out, extra)
        return cls(kind, samples, held_out, extra)

    def advice(self, original: Head) -> str | None:
        """Say so if the training features have collapsed: training samples are right far more often than others."""
        if self.validation is None or self.reweighting is not None or not self.task.has_classes:
            return None
        wrong, unseen = (
            1 - float(self.task.scores(original.outputs(s.features), s.targets).mean())
            for s in (self.train, self.validation)
        )
        if unseen - wrong < _GAP or unseen < _TIMES * wrong:
            return None
        return (
            f"The network is right on {1 - wrong:.1%} of the training samples and on {1 - unseen:.1%} of the held-out "
            "ones: its training features have collapsed. Weights are better measured on data it has not seen; keep a "
            "part of the data for that and pass it as reweighting=."
        )


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


def _refuse_same_object(train: Any, validation: Any) -> None:
    """Reject the training data passed a second time, also where each pass draws other samples from them."""
    same = validation is train
    if isinstance(train, tuple | list) and isinstance(validation, tuple | list) and len(train) == len(validation) == 2:
        same = same or train[0] is validation[0]
    if same and train is not None:
        raise InputError("validation is the training data; nothing is held out; pass data the network has not seen")


def _check_parts(
    task: HeadTask, train: HeadSamples, validation: HeadSamples | None, reweighting: HeadSamples | None
) -> None:
    """Reject parts that are the same samples, warn of parts that share some, and of absent classes."""
    if validation is not None:
        _check_shared("validation", validation, "train", train, "pass data the network has not seen")
    if reweighting is not None and validation is not None:
        _check_shared("reweighting", reweighting, "validation", validation, "pass other data")
        if n_shared := count_shared(reweighting.features, train.features):
            warn_user(
                f"{n_shared:,} of {len(reweighting):,} reweighting samples are also in train (their features are the "
                "same); the network has seen them; keep data for reweighting that it was not trained on"
            )
    warn_of_absent_classes(task, train, validation)


def _check_shared(name: str, part: HeadSamples, other_name: str, other: HeadSamples, advice: str) -> None:
    n_shared = count_shared(part.features, other.features)
    if n_shared == len(part):
        raise InputError(
            f"all {len(part):,} {name} samples are also in {other_name} (their features are the same); nothing is held "
            f"out; {advice}"
        )
    if n_shared:
        warn_user(
            f"{n_shared:,} of {len(part):,} {name} samples are also in {other_name} (their features are the same); "
            f"gains on them are not held out; remove them from {name}"
        )


def count_shared(features: FloatArray, others: FloatArray) -> int:
    """How many rows are among other rows; 0 if as many rows of the others occur twice among themselves."""
    direction = np.random.default_rng(0).normal(size=features.shape[1])
    reach = 2 * _SAME * float(np.linalg.norm(direction))
    own, theirs = (
        np.concatenate([np.asarray(part[rows], dtype=np.float64) @ direction for rows in _blocks(*part.shape)])
        for part in (features, others)
    )
    order, everyone = np.argsort(theirs, kind="stable"), np.arange(len(own))
    place = np.searchsorted(theirs[order], own)
    found = np.zeros(len(own), bool)
    for neighbor in (order[np.minimum(place, len(order) - 1)], order[np.maximum(place - 1, 0)]):
        found |= _same_rows(features, everyone, others, neighbor, own - theirs[neighbor], reach)
    twins = _same_rows(others, order[1:], others, order[:-1], np.diff(theirs[order]), reach).sum() / len(order)
    return int(found.sum()) if found.mean() > _NATURAL * twins else 0


def _blocks(n_rows: int, n_features: int) -> Iterator[slice]:
    """Rows that are held at a time."""
    size = max(1, _BLOCK // n_features)
    return (slice(start, start + size) for start in range(0, n_rows, size))


def _same_rows(
    ones: FloatArray, i: IntArray, others: FloatArray, j: IntArray, apart: FloatArray, reach: float
) -> npt.NDArray[np.bool_]:
    """Whether row i of the ones is row j of the others; ``apart`` is the difference of their numbers."""
    same = np.zeros(len(i), bool)
    for rows in _blocks(len(i), ones.shape[1]):
        z = np.asarray(ones[i[rows]], dtype=np.float64)
        size = np.linalg.norm(z, axis=1)
        near = np.abs(apart[rows]) <= reach * size
        distance = np.linalg.norm(z[near] - others[j[rows][near]], axis=1)
        same[rows][near] = distance <= _SAME * size[near]
    return same


def warn_of_absent_classes(task: HeadTask, train: HeadSamples, validation: HeadSamples | None = None) -> None:
    """Warn of classes of the head that no training sample has, and of those that no validation sample has."""
    if task.name == "regression":
        return
    counts = task.class_counts(train.targets)
    held_out = None if validation is None else task.class_counts(validation.targets)
    words = ("label", "labels") if task.name == "multilabel" else ("class", "classes")
    if len(absent := np.flatnonzero(counts == 0)):
        are, them = ("is", "it") if len(absent) == 1 else ("are", "them")
        seen = 0 if held_out is None else int(held_out[absent].sum())
        warn_user(
            f"{_named(absent, *words)} of the network {are} absent from train: a re-trained head will not predict "
            f"{them} any more{f' (validation has {seen} samples of {them})' if seen else ''}; add samples, or keep the "
            "original head"
        )
    if held_out is not None and len(absent := np.flatnonzero((counts > 0) & (held_out == 0))):
        warn_user(
            f"{_named(absent, *words)} {'is' if len(absent) == 1 else 'are'} in train and absent from validation: "
            "what a new head gains or loses there is not measured; add samples to validation"
        )


def _named(classes: Sequence[Any] | npt.NDArray[Any], one: str, many: str) -> str:
    first, more = ", ".join(str(label) for label in classes[:_N_NAMED]), len(classes) - _N_NAMED
    return f"{one if len(classes) == 1 else many} {first}" + (f" and {more} more" if more > 0 else "")
