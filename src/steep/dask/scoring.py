"""How many labels are wrong and how probable it is of each, from the margins of all groups (weighting/wrong_share.py).

Quantiles are found by counting, group by group. The threshold of the scores is found from counts of the evidence on
65,536 levels, which moves a score in the fifth digit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from steep._validation import FloatArray, IntArray
from steep.dask.plan import Plan
from steep.dask.results import gather_chunk, ranked
from steep.dask.store import Summary
from steep.metrics import Interval
from steep.weighting.suspect_labels import SUSPECT, witnesses
from steep.weighting.wrong_share import (
    STANDS_OUT,
    class_evidence,
    contradicted_classes,
    number_evidence,
    outstanding_numbers,
    scores_above,
    surest,
    threshold,
    usual_ones,
)

_LEVELS = 2**16

Parts = Sequence[Summary]


@dataclass(frozen=True)
class Found:
    """What the scores of all samples have in common."""

    n_wrong: Interval
    least: float
    classes: npt.NDArray[Any] | None


def weigh_evidence(plan: Plan, partition: Summary, joined: Parts, judged: Any) -> Found:
    """n_wrong and the threshold of the scores."""
    is_number = plan.task == "regression"
    n_wrong = _wrong_numbers(plan, len(joined)) if is_number else _wrong_classes(plan, len(joined))
    evidence, counts = _levels(plan, len(joined), number_evidence if is_number else class_evidence)
    return Found(
        n_wrong, threshold(evidence, n_wrong.mean, counts), None if is_number else partition["classes"]
    )


def _each(plan: Plan, n_groups: int, kind: str) -> Iterator[FloatArray]:
    for group in range(n_groups):
        if plan.store.path(f"{kind}-{group}").exists():
            yield plan.store.read(f"{kind}-{group}")


def _wrong_classes(plan: Plan, n_groups: int) -> Interval:
    """As ``wrong_classes``; equally sure samples of which some are wanted count in proportion."""
    n, shares = plan.n_rows, []
    for first in surest(n):
        least = ranked(plan, n - first, n_groups, "out-sure")
        above = level = above_wrong = level_wrong = 0
        for sure in _each(plan, n_groups, "out-sure"):
            surer, equal, wrong = np.abs(sure) > least, np.abs(sure) == least, sure < 0
            above, level = above + int(surer.sum()), level + int(equal.sum())
            above_wrong += int((surer & wrong).sum())
            level_wrong += int((equal & wrong).sum())
        shares.append((above_wrong + (first - above) * level_wrong / max(level, 1)) / first)
    return contradicted_classes(n, shares)


def _wrong_numbers(plan: Plan, n_groups: int) -> Interval:
    """As ``wrong_numbers``."""
    n, n_usual = plan.n_rows, usual_ones(plan.n_rows)
    largest = ranked(plan, n_usual - 1, n_groups, "out-margin")
    below, total = 0, 0.0
    for margin in _each(plan, n_groups, "out-margin"):
        smaller = margin[margin < largest]
        below, total = below + len(smaller), total + float(smaller.sum())
    usual = (total + (n_usual - below) * largest) / n_usual
    above = [
        sum((margin > c * usual).sum() for margin in _each(plan, n_groups, "out-margin")) for c in STANDS_OUT
    ]
    return outstanding_numbers(n, [float(count) / n for count in above])


def _levels(
    plan: Plan, n_groups: int, evidence_of: Callable[[FloatArray], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """The mean evidence of each level that has any, and how many samples are there."""
    ends = [(part.min(), part.max()) for part in _each(plan, n_groups, "out-margin")]
    low, high = evidence_of(np.array([min(end[0] for end in ends), max(end[1] for end in ends)]))
    counts, sums = np.zeros(_LEVELS), np.zeros(_LEVELS)
    for margin in _each(plan, n_groups, "out-margin"):
        evidence = evidence_of(margin)
        step = (high - low) / _LEVELS
        level = (
            np.minimum((evidence - low) / step, _LEVELS - 1).astype(np.int64)
            if step > 0
            else np.zeros(len(evidence), np.int64)
        )
        counts += np.bincount(level, minlength=_LEVELS)
        sums += np.bincount(level, evidence, minlength=_LEVELS)
    met = counts > 0
    return sums[met] / counts[met], counts[met]


# ----------------------------------------------------------------------------------------- chunks


def score_chunk(plan: Plan, chunk: int, joined: Parts, found: Found) -> FloatArray:
    """How probable it is that each label of a chunk is wrong."""
    margin = gather_chunk(plan, chunk, "margin", joined)
    evidence = number_evidence(margin) if found.classes is None else class_evidence(margin)
    return scores_above(evidence, found.least)


def label_chunk(plan: Plan, chunk: int, joined: Parts, found: Found) -> npt.NDArray[Any]:
    """The labels of a chunk as they were given."""
    label = gather_chunk(plan, chunk, "label", joined)
    return np.asarray(label.reshape(-1) if found.classes is None else found.classes[label.astype(np.int64)])


def suggest_chunk(plan: Plan, chunk: int, joined: Parts, found: Found) -> npt.NDArray[Any]:
    """What stands there instead, if they are wrong: a class, or a number."""
    if found.classes is None:
        return np.asarray(gather_chunk(plan, chunk, "expected", joined))
    own, other, margin = (gather_chunk(plan, chunk, kind, joined) for kind in ("label", "other", "margin"))
    is_doubted = (margin > 0) | (score_chunk(plan, chunk, joined, found) > SUSPECT)
    return np.asarray(found.classes[np.where(is_doubted, other, own).astype(np.int64)])


def table_chunk(plan: Plan, chunk: int, joined: Parts, found: Found) -> pd.DataFrame:
    """One row a sample."""
    score = score_chunk(plan, chunk, joined, found)
    rows = pd.RangeIndex(plan.bounds[chunk], plan.bounds[chunk + 1], name="row")
    return pd.DataFrame(
        {
            "is_suspect": score > SUSPECT, "score": score, "label": label_chunk(plan, chunk, joined, found),
            "suggested": suggest_chunk(plan, chunk, joined, found),
        },
        index=rows,
    )  # fmt: skip


def top_of_chunk(
    plan: Plan, chunk: int, joined: Parts, found: Found, n: int
) -> tuple[pd.DataFrame, IntArray]:
    """The labels of a chunk that are most probably wrong, and their neighbours."""
    table = table_chunk(plan, chunk, joined, found)
    worst = np.argsort(-table["score"].to_numpy(), kind="stable")[:n]
    return table.iloc[worst], gather_chunk(plan, chunk, "indices", joined)[worst]


def top_of_all(plan: Plan, parts: Sequence[Any], joined: Parts, found: Found, n: int) -> pd.DataFrame:
    """The labels that are most probably wrong, with their ranks and the neighbours that say so."""
    has = [part for part in parts if len(part[0])]
    table: pd.DataFrame = pd.concat([part[0] for part in has])
    around = np.concatenate([part[1] for part in has])
    worst = np.lexsort([table.index.to_numpy(), -table["score"].to_numpy()])[:n]
    table, around = table.iloc[worst].copy(), around[worst]
    labels = labels_at(plan, joined, np.unique(around), found)
    own, other = table["label"].to_numpy(), table["suggested"].to_numpy()
    table.insert(2, "rank", np.arange(1, len(table) + 1))
    says = labels[np.searchsorted(np.unique(around), around)]
    table["neighbors"] = witnesses(around, says, own, other)
    return table


def labels_at(plan: Plan, joined: Parts, rows: IntArray, found: Found) -> npt.NDArray[Any]:
    """The labels of some rows, ascending."""
    chunks = np.searchsorted(plan.bounds, rows, side="right") - 1
    return np.concatenate(
        [
            label_chunk(plan, chunk, joined, found)[rows[chunks == chunk] - plan.bounds[chunk]]
            for chunk in np.unique(chunks)
        ]
    )
