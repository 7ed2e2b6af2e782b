"""The data of an improvement: every part read once, as features and targets, and what can be told from them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from steep.exceptions import InputError
from steep.nn.batches import label_array
from steep.nn.data_checks import check_parts, refuse_same_object
from steep.nn.feature_space import contradicted_by, contradicted_by_others, search_neighbors
from steep.nn.heads import Head, HeadTask, Samples, TaskName, find_task
from steep.nn.network import Split
from steep.nn.projection import Projection, project

# Neighbours that say whether a held-out sample is contradicted.
_N_ASKED = 20
# Features have collapsed where held-out samples are wrong so much more often than training samples.
_GAP, _TIMES = 0.05, 2.0


class HeadData(NamedTuple):
    """Every data set as features and targets, projected once."""

    task: HeadTask
    plain: Samples
    held_out: Samples | None
    reweighting: Samples | None


def read_data(
    parts: Split, train: Any, validation: Any, reweighting: Any, task: TaskName, settings: dict[str, Any]
) -> HeadData:
    """Project every part once, unless it is features already, and check its labels."""
    refuse_same_object(train, validation)
    kind, plain = label_samples(parts, features_of(parts, train, **settings), None, task)
    kind.refuse_one_label(plain.targets)
    held_out = extra = None
    if reweighting is not None:
        extra = label_samples(parts, features_of(parts, reweighting, **settings), None, kind.name)[1]
        kind.refuse_one_label(extra.targets)
    if validation is not None:
        held_out = label_samples(parts, features_of(parts, validation, **settings), None, kind.name)[1]
        if len(held_out) < 2:
            raise InputError("validation has 1 sample; need at least 2 to compare heads; pass more data")
    check_parts(kind, plain, held_out, extra)
    return HeadData(kind, plain, held_out, extra)


def features_of(parts: Split, data: Any, **settings: Any) -> Projection:
    """Features of the data; where they are features already, they must be those of this network."""
    if not isinstance(data, Projection):
        return project(parts, data, **settings)
    data.split(parts.network, parts.name)
    return data


def label_samples(parts: Split, projection: Projection, y: Any, task: TaskName) -> tuple[HeadTask, Samples]:
    """Features with their targets, and what the head is for."""
    labels = projection.labels if y is None else label_array(y)
    if labels is None:
        raise InputError("the data hold no labels; need one for each sample; pass (inputs, labels), or y=...")
    if labels.ndim == 0 or len(labels) != len(projection.features):
        got = 1 if labels.ndim == 0 else len(labels)
        raise InputError(f"y has {got} labels for {len(projection.features)} samples; need one for each sample")
    kind = find_task(task, labels, parts.head.out_features)
    if kind.name == "regression" and parts.response not in (None, "logits"):
        raise InputError(
            f"the network ends in a {parts.response}, and the labels are numbers, which its head cannot be fitted to; "
            "pass a network that returns logits, or labels of classes"
        )
    return kind, Samples(projection.features, kind.targets(labels))


def contradicted(data: HeadData, n_jobs: int | None) -> npt.NDArray[np.bool_]:
    """Whether most of the nearest training samples of each scored one have another label."""
    labels = data.plain.targets.reshape(-1).astype(np.int64)
    n_asked = min(_N_ASKED, len(data.plain) - 1)
    if data.held_out is not None:
        own = data.held_out.targets.reshape(-1).astype(np.int64)
        return contradicted_by(data.plain, labels, data.held_out.features, own, n_asked)
    return contradicted_by_others(labels, search_neighbors(data.plain.features, n_asked + 1, n_jobs))


def collapse_advice(original: Head, data: HeadData) -> str | None:
    """Say that the training features have collapsed, where training samples are right far more often than others."""
    if data.held_out is None or data.reweighting is not None or data.task.name not in ("multiclass", "binary"):
        return None
    wrong, unseen = (
        1 - float(data.task.scores(original.outputs(s.features), s.targets).mean()) for s in (data.plain, data.held_out)
    )
    if unseen - wrong < _GAP or unseen < _TIMES * wrong:
        return None
    return (
        f"The network is right on {1 - wrong:.1%} of the training samples and on {1 - unseen:.1%} of the held-out "
        "ones: its training features have collapsed. Weights are better measured on data it has not seen; keep a part "
        "of the data for that and pass it as reweighting=."
    )
