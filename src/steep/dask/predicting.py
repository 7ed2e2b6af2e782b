"""What a model that has not seen a sample says of it: the caller's own predictions, or those of a forest.

The forest is that of the data in memory (steep/weighting/out_of_bag.py): of large data each of its trees draws 10,000
rows. They draw from a pool of rows that one task can hold. A row of the pool is asked of the trees that have not
drawn it, any other row of all trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, IntArray, check_numbers, check_vector
from steep.dask.plan import Plan
from steep.dask.store import Summary
from steep.exceptions import InputError, SteepError
from steep.labels import Labels
from steep.weighting.out_of_bag import grown, spread
from steep.weighting.own_predictions import normalised

_ROWS = 16_384  # rows predicted at a time


def read_predicted(
    plan: Plan, chunk: int, labels: npt.NDArray[Any], predicted: Any
) -> npt.NDArray[np.float32]:
    """Predictions of one chunk as they were given, checked; nothing where none were."""
    if plan.predicts != "given" or not len(labels):
        return np.empty((0, 0), np.float32)
    try:
        if plan.task == "regression":
            return check_vector(predicted, name="predictions", n_samples=len(labels)).astype(np.float32)
        given = check_numbers(predicted, name="pred_probs")
        if given.shape != (len(labels), plan.n_predicted):
            raise InputError(
                f"pred_probs has shape {given.shape}; need ({len(labels)}, {plan.n_predicted}) as announced"
            )
        return normalised(given).astype(np.float32)
    except SteepError as error:
        raise type(error)(f"{plan.called(chunk)}: {error}") from error


def check_classes(plan: Plan, taken: Sequence[Summary], classes: npt.NDArray[Any]) -> None:
    """Refuse labels that are all equal, and predictions of another number of classes."""
    ends = np.array([part["labels"] for part in taken])
    n_kinds = len(classes) if plan.task == "classification" else 1 + (ends[:, 0].min() < ends[:, 1].max())
    if n_kinds < 2:
        raise InputError(
            f"all {plan.n_rows} labels of y are equal; need at least two different ones to tell a wrong one from"
        )
    if plan.predicts == "given" and plan.task == "classification" and plan.n_predicted != len(classes):
        raise InputError(
            f"pred_probs has {plan.n_predicted} columns; need {len(classes)}, one for each class of y in sorted order"
        )


# ------------------------------------------------------------------------------------- the forest


def write_pool(plan: Plan, chunk: int, points: FloatArray, labels: npt.NDArray[Any]) -> None:
    """Write the rows of a chunk that the forest is grown on."""
    mine = _pool_of(plan, chunk)[1]
    plan.store.write(f"pool-{chunk}", points[mine])
    plan.store.write(f"pool-labels-{chunk}", labels[mine])


def _pool_of(plan: Plan, chunk: int) -> tuple[slice, IntArray]:
    """Which of the pool are in a chunk, and their places there."""
    pool = plan.pool_rows()
    part = slice(*np.searchsorted(pool, plan.bounds[chunk : chunk + 2]).tolist())
    return part, pool[part] - plan.bounds[chunk]


def grow_forest(plan: Plan, taken: Sequence[Summary], partition: Summary) -> Any:
    """Grow the forest, and write what it says of its own pool; None where every chunk has been asked already."""
    from steep.dask.partition import global_codes, placed_like

    if all(plan.store.summary(f"sorted-{chunk}") is not None for chunk in range(plan.n_chunks)):
        return None
    has = [chunk for chunk in range(plan.n_chunks) if int(taken[chunk]["n_rows"])]
    points = np.concatenate([plan.store.read(f"pool-{chunk}") for chunk in has])
    labels = np.concatenate(
        [
            global_codes(
                plan.store.read(f"pool-labels-{chunk}"), taken[chunk]["classes"], partition["classes"]
            )
            for chunk in has
        ]
    )
    known = Labels(codes=labels, classes=partition["classes"]) if labels.ndim == 1 else Labels(values=labels)
    seed = int(np.random.default_rng(plan.seed).integers(2**31))
    model, said = grown(placed_like(points, plan, partition), known, seed, plan.n_rows, plan.n_jobs)
    plan.store.write("pool-predicted", said.astype(np.float32))
    return model


def ask_forest(plan: Plan, chunk: int, points: FloatArray, model: Any, partition: Summary) -> FloatArray:
    """What the trees that have not seen a row say of it, for the rows of one chunk as they come."""
    n_classes = len(partition["classes"])
    is_number = plan.task == "regression"
    said = np.empty((len(points),) if is_number else (len(points), n_classes), np.float32)
    for first in range(0, len(points), _ROWS):
        part = slice(first, first + _ROWS)
        said[part] = (
            model.predict(points[part])
            if is_number
            else spread(model, model.predict_proba(points[part]), n_classes)
        )
    part, mine = _pool_of(plan, chunk)
    said[mine] = plan.store.read("pool-predicted", part.start, part.stop)
    return said
