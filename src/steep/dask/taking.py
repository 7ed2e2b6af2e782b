"""The first stage: each chunk is checked, written to the store once, and says what the partition needs to know.

Later stages read the store and not the caller's blocks, which Dask would else keep, or compute again, for all of them.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, check_points
from steep.dask.plan import Plan
from steep.dask.store import Summary
from steep.exceptions import InputError, SteepError
from steep.labels import check_labels, label_array
from steep.neighbors.distances import unit_rows


def take_chunk(plan: Plan, chunk: int, X: Any, y: Any) -> Summary:
    """Check and write one chunk; with X=None it was written before, by the same data."""
    name = f"taken-{chunk}"
    done = plan.store.summary(name)
    if X is None and done is not None:
        return done
    points, labels, classes = _read(plan, chunk, X, y)
    print_ = _fingerprint(points, labels)
    if done is not None:
        if str(done["fingerprint"]) != print_:
            raise InputError(
                f"checkpoint={plan.store.folder!r} holds other data in chunk {chunk}; expected the data it was "
                "made with; name another folder"
            )
        return done
    first, last = plan.bounds[chunk], plan.bounds[chunk + 1]
    if plan.framed:
        plan.store.write_index(f"index-{chunk}", X.index)
    if first == last:
        return plan.store.finish(name, **_nothing(plan, print_))
    sampled = plan.sampled_rows()
    mine = sampled[slice(*np.searchsorted(sampled, (first, last)))] - first
    plan.store.write(f"x-{chunk}", points)
    plan.store.write(f"y-{chunk}", labels)
    return plan.store.finish(
        name,
        fingerprint=print_,
        n_rows=len(points),
        mean=points.mean(axis=0, dtype=np.float64),
        squares=points.var(axis=0, dtype=np.float64) * len(points),
        lower=points.min(axis=0).astype(np.float64),
        upper=points.max(axis=0).astype(np.float64),
        sample=points[mine],
        classes=classes,
    )


def _read(plan: Plan, chunk: int, X: Any, y: Any) -> tuple[FloatArray, npt.NDArray[Any], npt.NDArray[Any]]:
    """Points, labels as codes or values, and what the codes stand for."""
    first, last = plan.bounds[chunk], plan.bounds[chunk + 1]
    if first == last:
        return np.empty((0, plan.n_features), plan.dtype), np.empty(0, np.int32), np.empty(0)
    try:
        points = check_points(X).astype(plan.dtype, copy=False)
        if points.shape != (last - first, plan.n_features):
            raise InputError(f"X has shape {points.shape}; expected ({last - first}, {plan.n_features}) as announced")
        if plan.metric == "cosine":
            points = unit_rows(points, "X").astype(plan.dtype, copy=False)
        if plan.wanted == "graph":
            return points, np.empty((len(points), 0)), np.empty(0)
        if plan.inferred and plan.task == "classification" and label_array(y, "y").dtype.kind == "f":
            raise InputError(
                "y holds numbers as objects; expected task= for such labels; pass task='regression', or "
                "task='classification' if they are classes"
            )
        labels = check_labels(y, n_samples=len(points), task=plan.task)  # type: ignore[arg-type]
        if labels.codes is None and labels.n_columns != np.shape(y)[-1] and np.ndim(y) == 2:
            raise InputError(
                "y has columns of several classes; expected 0/1 columns in Dask arrays; encode them one-hot"
            )
    except SteepError as error:
        raise type(error)(f"{plan.called(chunk)}: {error}") from error
    if labels.codes is None:
        return points, labels.array, np.empty(0)
    return points, labels.codes, _plain_classes(labels.classes, chunk)


def _nothing(plan: Plan, fingerprint: str) -> dict[str, Any]:
    """What a chunk without rows says."""
    none = np.zeros(plan.n_features)
    return {
        "fingerprint": fingerprint, "n_rows": 0, "mean": none, "squares": none, "lower": none + np.inf,
        "upper": none - np.inf, "sample": np.empty((0, plan.n_features), plan.dtype), "classes": np.empty(0),
    }  # fmt: skip


def _plain_classes(classes: Any, chunk: int) -> npt.NDArray[Any]:
    """Classes in a form that needs no pickle."""
    if classes.dtype.kind != "O":
        return np.asarray(classes)
    kinds = {type(value) for value in classes}
    if kinds != {str}:
        raise InputError(
            f"partition {chunk}: y holds objects of kind {', '.join(sorted(kind.__name__ for kind in kinds))}; "
            "expected numbers or text; convert them to str"
        )
    return np.asarray(classes.tolist(), dtype=np.str_)


def _fingerprint(points: FloatArray, labels: npt.NDArray[Any]) -> str:
    found = hashlib.blake2b(np.ascontiguousarray(points).data, digest_size=16)
    found.update(np.ascontiguousarray(labels).data)
    return found.hexdigest()
