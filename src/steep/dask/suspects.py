""":func:`steep.suspects` of data that do not fit in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from dask import compute, delayed
from dask.delayed import Delayed

from steep._validation import check_count
from steep.dask import judging, scoring
from steep.dask.inputs import read_beside
from steep.dask.lazy import Joined, join_all, lazy_rows
from steep.dask.plan import pool_size
from steep.exceptions import InputError
from steep.weighting.suspect_labels import Suspects
from steep.weighting.suspects import recall_of
from steep.weighting.suspicion import ROUNDS, first_confusion


@dataclass(frozen=True, eq=False, repr=False)
class LazySuspects:
    """As :class:`~steep.weighting.suspect_labels.Suspects`, but nothing is computed yet.

    Attributes
    ----------
    score, label, suggested, distances, indices, predicted : dask.array.Array
        As in :class:`Suspects`, in the order of the rows.
    n_wrong : dask.delayed.Delayed
        The estimated number of wrong labels with its limits.
    table : dask.dataframe.DataFrame
        One row a sample: ``is_suspect``, ``score``, ``label``, ``suggested``. Ranks would need a sort of all rows, and
        neighbours are numbers of rows in ``indices``: see :meth:`top` for both.
    """

    score: Any
    label: Any
    suggested: Any
    n_wrong: Delayed
    distances: Any
    indices: Any
    predicted: Any
    table: Any
    _top: Callable[[int], Delayed]

    def __len__(self) -> int:
        return len(self.score)

    def top(self, n: int = 20) -> Delayed:
        """The ``n`` labels that are most probably wrong, the worst first, with ranks and neighbours, lazily."""
        return self._top(check_count(n, name="n"))

    def compute(self, **how: Any) -> Suspects:
        """Everything in memory at once, if it fits; ``how`` goes to ``dask.compute``."""
        # The one that is no array comes last: dask.compute brings back arrays first, whatever the order.
        kinds = ("score", "label", "suggested", "distances", "indices", "predicted", "n_wrong")
        found = compute(*(getattr(self, kind) for kind in kinds), **how)
        return Suspects(**dict(zip(kinds, found, strict=True)))

    def __repr__(self) -> str:
        return f"LazySuspects(n_samples={len(self)}); use .table, .top(20), or .compute() if it fits"


def find_suspects(
    X: Any,
    y: Any,
    predicted: Any,
    *,
    n_neighbors: int,
    standardised: bool,
    task: str,
    seed: int,
    n_jobs: int | None,
    checkpoint: Any,
) -> LazySuspects:
    """Lay out the search, the predictions and the judgement of all labels."""
    points, labels, said = read_beside(X, y, predicted)
    if task == "auto":
        task = "regression" if labels.dtype.kind == "f" else "classification"
    called = "pred_probs" if task == "classification" else "predictions"
    if said is not None and said.name != called:
        read = "classes" if task == "classification" else "numbers"
        raise InputError(f"{said.name} is given, and y is read as {read}; pass {called}=")
    joined = join_all(
        points, labels, checkpoint=checkpoint, predicted=None if said is None else said.rows, n_others=n_neighbors,
        include_self=False, recall=recall_of(points.bounds[-1]), metric="euclidean", standardised=standardised,
        wanted="suspects", task=task, seed=seed, algorithm="auto", n_jobs=n_jobs,
        predicts="forest" if said is None else "given",
        n_predicted=0 if said is None else said.rows.n_columns,
        n_pool=pool_size(points.bounds[-1], points.n_columns) if said is None else 0,
    )  # fmt: skip
    return _result(joined, _found(joined, _judged(joined)), labels.dtype)


def _judged(joined: Joined) -> Delayed:
    """The passes over all groups that judge the labels; see judging.py."""
    plan, name, groups, atlas = joined.plan, joined.name, joined.groups, joined.atlas

    def one(function: Callable[..., Any], key: str, *arguments: Any) -> Delayed:
        return delayed(function, pure=False)(*arguments, dask_key_name=name(key))

    def each(function: Callable[..., Any], key: str, *arguments: Any) -> Delayed:
        parts = [
            delayed(function, pure=False)(
                joined.shared, group, groups, *arguments, dask_key_name=name(key, group)
            )
            for group in range(plan.n_groups)
        ]
        return one(list, f"all-{key}", parts)

    is_number = plan.task == "regression"
    shares = (
        None if is_number else one(judging.class_shares, "shares", joined.shared, joined.partition, groups)
    )
    polled = each(judging.poll, "poll", atlas, shares)
    checked = one(judging.check_in_sample, "check", joined.shared, polled)
    first = each(judging.losses, "losses", judging.GRID, checked)
    grid = one(judging.finer, "grid", judging.GRID, first)
    share = one(
        judging.best_share, "share", joined.shared, grid, each(judging.losses, "losses-again", grid, checked)
    )
    if is_number:
        sums = each(judging.believe, "believe", share, None, True)
        judged = each(judging.judge, "judge", atlas, share, sums, polled)
        median = one(judging.median_around, "median", joined.shared, judged)
        return each(judging.margins, "margins", median, polled)
    labelled = one(_first_confusion, "confusion", shares)
    for turn in range(ROUNDS - 1):
        sums = each(judging.believe, f"believe-{turn}", share, labelled, False)
        labelled = one(judging.next_confusion, f"confusion-{turn}", sums)
    sums = each(judging.believe, "believe", share, labelled, True)
    return each(judging.judge, "judge", atlas, share, sums, polled)


def _first_confusion(shares: Any) -> Any:
    return first_confusion(len(shares))


def _found(joined: Joined, judged: Delayed) -> Delayed:
    return delayed(scoring.weigh_evidence, pure=False)(
        joined.shared, joined.partition, joined.groups, judged, dask_key_name=joined.name("weigh")
    )


def _result(joined: Joined, found: Delayed, dtype: Any) -> LazySuspects:
    plan, name = joined.plan, joined.name
    lengths = np.diff(plan.bounds).tolist()
    dtype = np.dtype(object) if dtype.kind not in "iufb" else dtype

    def task(function: Callable[..., Any], key: str, chunk: int, *more: Any) -> Delayed:
        return delayed(_held, pure=False)(
            joined.holder, function, joined.shared, chunk, joined.groups, found, *more, dask_key_name=name(key, chunk)
        )  # fmt: skip

    def rows(function: Callable[..., Any], key: str, kind: Any) -> Any:
        chunks = [
            da.from_delayed(task(function, f"gather-{key}", i), (length,), kind, name=name(f"rows-{key}", i))
            for i, length in enumerate(lengths)
        ]
        return da.concatenate(chunks)

    def top(n: int) -> Delayed:
        parts = [task(scoring.top_of_chunk, f"top-{n}", chunk, n) for chunk in range(plan.n_chunks)]
        return delayed(scoring.top_of_all, pure=False)(joined.shared, parts, joined.groups, found, n)

    number = plan.task == "regression"
    width: Any = () if number else ((plan.n_predicted,) if plan.n_predicted else (np.nan,))
    k = (plan.n_others,)
    return LazySuspects(
        score=rows(scoring.score_chunk, "score", "float64"),
        label=rows(scoring.label_chunk, "label", "float64" if number else dtype),
        suggested=rows(scoring.suggest_chunk, "suggested", "float64" if number else dtype),
        n_wrong=delayed(_n_wrong, pure=False)(found),
        distances=lazy_rows(joined, "distances", shape=k, dtype="float32"),
        indices=lazy_rows(joined, "indices", shape=k, dtype="int32"),
        predicted=lazy_rows(joined, "predicted", shape=width, dtype="float32"),
        table=_table(joined, task, "float64" if number else dtype),
        _top=top,
    )


def _held(holder: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call; the graph holds on to the temporary folder here."""
    return function(*arguments)


def _n_wrong(found: scoring.Found) -> Any:
    return found.n_wrong


def _table(joined: Joined, task: Callable[..., Delayed], kind: Any) -> Any:
    import dask.dataframe as dd
    import pandas as pd

    empty = pd.DataFrame(
        {
            "is_suspect": np.empty(0, bool), "score": np.empty(0), "label": np.empty(0, kind),
            "suggested": np.empty(0, kind),
        },
        index=pd.RangeIndex(0, name="row"),
    )  # fmt: skip
    bounds = joined.plan.bounds
    has = [chunk for chunk in range(joined.plan.n_chunks) if bounds[chunk] < bounds[chunk + 1]]
    parts = [task(scoring.table_chunk, "table", chunk) for chunk in has]
    divisions = (*(bounds[chunk] for chunk in has), bounds[-1] - 1)
    return dd.from_delayed(parts, meta=empty, divisions=divisions, verify_meta=False)
