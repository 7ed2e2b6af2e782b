"""What speaks against each label, group by group: the rule of steep/weighting/suspicion.py, in passes over files.

Every figure that the rule takes from all samples (π, w, P(ỹ | c), means, medians) is a sum over groups. Notation and
equations are those of that file.

    poll     v, or the median around, of each point
    weigh    the loss of some w; the next ones lie around the best of them
    believe  Σ t by label, ten times; the last time t is written. For numbers: e
    judge    z from the votes u of t, and r. For numbers: the mean of e around
    margins  for numbers alone, once the median of that mean is known: r
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.dask.plan import Plan
from steep.dask.results import ranked
from steep.dask.store import Summary
from steep.dask.votes import Around
from steep.weighting.own_predictions import refuse_equal, refuse_too_good
from steep.weighting.suspicion import (
    believed,
    confusion,
    neighbor_share,
    number_margin,
    own_probability,
    root_margin,
    sums_by_label,
)

GRID = np.linspace(0.0, 1.0, 41)
_ROWS = 65_536  # samples judged at a time

Parts = Sequence[Any]


class Group:
    """What is known of one group's points, in pieces."""

    def __init__(self, plan: Plan, group: int) -> None:
        self.store, self.group = plan.store, group
        self.labels = plan.store.read(f"cell-labels-{group}")
        if self.labels.ndim == 2:
            self.labels = self.labels[:, 0]

    def read(self, kind: str, part: slice = slice(0, None)) -> FloatArray:
        """Some rows of an array of this group."""
        return self.store.read(f"{kind}-{self.group}", part.start, part.stop).astype(np.float64)

    def parts(self) -> list[slice]:
        """The points, some at a time."""
        return [
            slice(first, min(first + _ROWS, len(self.labels))) for first in range(0, len(self.labels), _ROWS)
        ]


def class_shares(plan: Plan, partition: Summary, joined: Parts) -> FloatArray:
    """π."""
    counts = np.zeros(len(partition["classes"]))
    for group in range(len(joined)):
        if _has_points(joined, group):
            counts += np.bincount(plan.store.read(f"cell-labels-{group}"), minlength=len(counts))
    return counts / plan.n_rows


def _has_points(joined: Parts, group: int) -> bool:
    return bool(joined[group]["splits"][-1])


def poll(plan: Plan, group: int, joined: Parts, atlas: Summary | None, shares: Any) -> Summary:
    """v of each point, or for numbers the median around it; and how often model and neighbours agree with labels."""
    name = f"polled-{group}"
    done = plan.store.summary(name)
    if done is not None:
        return done
    if not _has_points(joined, group):
        return plan.store.finish(name, agreed=[0, 0], largest=0.0, equal=True)
    around, own = Around(plan, group, atlas), Group(plan, group)
    table = around.table("cell-labels")
    if shares is None:
        votes: FloatArray = np.empty(len(own.labels))
        for part, places in around.places():
            votes[part] = np.median(table[places, 0], axis=1)
    else:
        votes = around.votes(np.eye(len(shares), dtype=np.float32)[table], shares)
    plan.store.write(f"votes-{group}", votes)
    predicted, agreed, equal = own.read("cell-predicted"), [0, 0], False
    if shares is None:
        equal = bool((predicted == own.labels.astype(np.float32)).all())
    else:
        agreed = [int((said.argmax(axis=1) == own.labels).sum()) for said in (predicted, votes)]
    return plan.store.finish(name, agreed=agreed, largest=np.abs(own.labels).max(), equal=equal)


def check_in_sample(plan: Plan, polled: Parts) -> bool:
    """Refuse predictions that agree with every label where the neighbours do not."""
    if plan.predicts != "given":
        return True
    if plan.task == "regression":
        refuse_equal(plan.n_rows, all(bool(part["equal"]) for part in polled))
        return True
    agreed = np.sum([part["agreed"] for part in polled], axis=0) / plan.n_rows
    refuse_too_good(plan.n_rows, float(agreed[0]), float(agreed[1]))
    return True


# -------------------------------------------------------------------------------------------- w


def losses(plan: Plan, group: int, joined: Parts, weights: FloatArray, after: Any) -> FloatArray:
    """The loss of each of some w, summed over a group; ``after`` is what must be done before."""
    total = np.zeros(len(weights))
    if not _has_points(joined, group):
        return total
    own = Group(plan, group)
    for part in own.parts():
        labels, predicted, votes = own.labels[part], own.read("cell-predicted", part), own.read("votes", part)
        if plan.task == "regression":
            total += [np.abs(labels - (1 - w) * predicted - w * votes).sum() for w in weights]
        else:
            by_model, by_neighbors = own_probability(labels, predicted), own_probability(labels, votes)
            total -= [np.log((1 - w) * by_model + w * by_neighbors).sum() for w in weights]
    return total


def finer(weights: FloatArray, found: Parts) -> FloatArray:
    """As many w around the best of some: the loss is convex."""
    best = int(np.sum(found, axis=0).argmin())
    return np.linspace(weights[max(best - 1, 0)], weights[min(best + 1, len(weights) - 1)], len(weights))


def best_share(plan: Plan, weights: FloatArray, found: Parts) -> float:
    """a, or w for numbers."""
    weight = float(weights[np.sum(found, axis=0).argmin()])
    return weight if plan.task == "regression" else neighbor_share(weight)


# ---------------------------------------------------------------------------------------- beliefs


def believe(plan: Plan, group: int, joined: Parts, share: float, labelled: Any, last: bool) -> FloatArray:
    """Σ t by label, given P(ỹ | c); or Σ e. In the last round t, or e, is written."""
    own = Group(plan, group) if _has_points(joined, group) else None
    if own is None:
        return np.zeros(1 if labelled is None else np.shape(labelled))
    total: Any = 0.0
    likely = []
    for part in own.parts():
        labels, predicted, votes = own.labels[part], own.read("cell-predicted", part), own.read("votes", part)
        together = (1 - share) * predicted + share * votes
        if labelled is None:
            true = np.minimum(np.abs(labels - predicted), np.abs(labels - together))[:, None]
            total = total + true.sum(axis=0)
        else:
            true = believed(labels, together, labelled)
            total = total + sums_by_label(labels, true)
        if last:
            likely.append(true if labelled is None else true.astype(np.float32))
    if last:
        plan.store.write(f"likely-{group}", np.concatenate(likely))
    return np.asarray(total)


def next_confusion(sums: Parts) -> FloatArray:
    """P(ỹ | c) from what all groups believe."""
    return confusion(np.sum(sums, axis=0))


# -------------------------------------------------------------------------------------- judgement


def judge(
    plan: Plan, group: int, joined: Parts, atlas: Summary | None, share: float, sums: Parts, polled: Any
) -> Summary:
    """r of each point and the other class that is most probable, in the order of the rows."""
    name = f"judged-{group}"
    done = plan.store.summary(name)
    if done is not None or not _has_points(joined, group):
        return done or plan.store.finish(name, n_points=0)
    around, own = Around(plan, group, atlas), Group(plan, group)
    on_average = np.sum(sums, axis=0) / plan.n_rows
    order = np.argsort(plan.store.read(f"cell-rows-{group}"))
    if plan.task == "regression":
        votes = around.votes(around.table("likely"), on_average)
        plan.store.write(f"local-{group}", votes[:, 0])
        expected = (1 - share) * own.read("cell-predicted") + share * own.read("votes")
        plan.store.write(f"out-expected-{group}", expected[order])
    else:
        votes = around.votes(around.table("likely"), on_average.sum(axis=0))
        _judge_classes(plan, own, share, votes, order)
    return plan.store.finish(name, n_points=len(order))


def _judge_classes(plan: Plan, own: Group, share: float, votes: FloatArray, order: IntArray) -> None:
    """r, the most probable other class, and how sure the rule is, negative where it contradicts the label."""
    codes = own.labels
    margin, sure, other = np.empty(len(codes)), np.empty(len(codes)), np.empty(len(codes), np.int32)
    for part in own.parts():
        together = (1 - share) * own.read("cell-predicted", part) + share * votes[part]
        margin[part] = root_margin(codes[part], together)
        sure[part] = together.max(axis=1) * np.where(together.argmax(axis=1) == codes[part], 1, -1)
        together[np.arange(len(together)), codes[part]] = -1.0
        other[part] = together.argmax(axis=1)
    for kind, found in (("margin", margin), ("sure", sure), ("other", other)):
        plan.store.write(f"out-{kind}-{own.group}", found[order])


def median_around(plan: Plan, judged: Parts) -> float:
    """The median over all points of the mean of e around them."""
    n, n_groups = plan.n_rows, len(judged)
    return 0.5 * sum(ranked(plan, rank, n_groups, "local") for rank in ((n - 1) // 2, n // 2))


def margins(plan: Plan, group: int, joined: Parts, median: float, polled: Parts) -> Summary:
    """r of numbers, in the order of the rows."""
    name = f"margins-{group}"
    done = plan.store.summary(name)
    if done is not None or not _has_points(joined, group):
        return done or plan.store.finish(name, n_points=0)
    largest = max(float(part["largest"]) for part in polled)
    own = Group(plan, group)
    margin = number_margin(own.read("likely")[:, 0], own.read("local"), median, largest)
    order = np.argsort(plan.store.read(f"cell-rows-{group}"))
    plan.store.write(f"out-margin-{group}", margin[order])
    return plan.store.finish(name, n_points=len(order))
