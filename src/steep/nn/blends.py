"""Means of two heads: between a head that follows a shortcut and one that turned against it lies one that does neither.

    W = √(s_a s_b)/2 (W_a/s_a + W_b/s_b),      s = ‖W‖,      and b alike

Every head counts alike, whatever its penalty made of its size. Of a softmax only differences between outputs count,
so the mean over the classes is taken from W and b first. The mean of two linear layers is a linear layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from steep._validation import FloatArray
from steep.nn.candidates import Candidate
from steep.nn.heads import Head, HeadTask, Samples
from steep.nn.scoring import Array, MeanScore


def blend(one: Head, other: Head, task: HeadTask) -> Head:
    """The mean of two heads.

    Examples
    --------
    >>> a, b = (Head(np.array([[x, y]]), np.zeros(1)) for x, y in ((4.0, 0.0), (0.0, 1.0)))
    >>> blend(a, b, HeadTask("binary", 1)).weight
    array([[1., 1.]])
    """
    (first, s), (second, t) = (_direction(head, task) for head in (one, other))
    mean = np.sqrt(s * t) / 2 * (first + second)
    return Head(mean[:, :-1], None if one.bias is None else mean[:, -1])


def blended(one: Candidate, other: Candidate) -> Candidate:
    """How such a head was made."""
    return Candidate("blended", reweighted=one.reweighted or other.reweighted, blend=(one, other))


def may_blend(one: Candidate, other: Candidate) -> bool:
    """Heads of the same data, and the original one with any."""
    return "original" in (one.kind, other.kind) or one.reweighted == other.reweighted


def can_blend(task: HeadTask, original: Head) -> bool:
    """Classes, and a bias that moves with the weights: a frozen one would count twice."""
    return task.name in ("multiclass", "binary") and not original.is_bias_fixed


def blended_answers(
    heads: Sequence[Head], starts: Iterable[int], held_out: Samples, task: HeadTask, score: MeanScore
) -> dict[int, Array]:
    """What the score knows of the mean of each start and every head: ``{start: (n_heads, n_samples)}``."""
    everyone = np.arange(len(held_out))
    first = {start: _outputs(heads[start], held_out.features, task) for start in starts}
    found: dict[int, list[Array]] = {start: [] for start in first}
    for head in heads:
        outputs = _outputs(head, held_out.features, task)
        for start, own in first.items():
            found[start].append(score.keep(own + outputs, everyone))
    return {start: np.stack(rows) for start, rows in found.items()}


def _outputs(head: Head, features: FloatArray, task: HeadTask) -> FloatArray:
    direction, _ = _direction(head, task)
    return Head(direction[:, :-1], direction[:, -1]).outputs(features)


def _direction(head: Head, task: HeadTask) -> tuple[FloatArray, float]:
    """[W, b] divided by s, and s; a head of no weights keeps its size."""
    bias = np.zeros(len(head.weight)) if head.bias is None else head.bias
    table = np.hstack([head.weight, bias[:, None]]).astype(np.float64)
    if task.loss == "softmax":
        table -= table.mean(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(np.linalg.norm(table[:, :-1]))
    size = size if np.isfinite(size) and size > 0 else 1.0
    return table / size, size
