"""What :func:`suspects` found, as users read it: a sentence, a table, the neighbours behind each row."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_matrix

from steep._html import card
from steep._validation import FloatArray, IntArray, check_count
from steep.evidence import Verdict
from steep.metrics import Interval
from steep.neighbors.sparse import sparse_graph

# So many of the neighbours that contradict a label are named.
_NAMED = 5
# Samples whose neighbours are compared in one go, to bound the block in memory.
_BLOCK = 100_000
# A label is a suspect when it is more likely wrong than right.
SUSPECT = 0.5
# Where so many labels may be wrong, the model and the neighbours are.
_HOPELESS = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class Suspects:
    """Labels and how probable it is that each is wrong; ``print`` it, or look at ``table``.

    Attributes
    ----------
    score : ndarray of shape (n_samples,)
        How probable it is that the label is wrong, from 0 to 1, in the order of the samples. The order is
        what was tested; the values sum to ``n_wrong``.
    label, suggested : ndarray of shape (n_samples,)
        The label as given, and what stands there instead if it is wrong: a class, or a number.
    n_wrong : Interval
        How many labels are wrong, and between what limits: rough ones, see ``docs/suspects.md``.
    distances, indices : ndarray of shape (n_samples, n_neighbors)
        The neighbours of every sample, nearest first, without itself.
    predicted : ndarray
        Cross-fitted probabilities (one column a class) or values, or those that were passed.
    seconds : dict
        Wall-clock time of each stage.
    """

    score: FloatArray
    label: npt.NDArray[Any]
    suggested: npt.NDArray[Any]
    n_wrong: Interval
    distances: FloatArray
    indices: IntArray
    predicted: FloatArray
    seconds: dict[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.score)

    @cached_property
    def rank(self) -> IntArray:
        """1 for the label that is most probably wrong, in the order of the samples."""
        rank = np.empty(len(self), dtype=np.int64)
        rank[np.argsort(-self.score, kind="stable")] = np.arange(1, len(self) + 1)
        return rank

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a sample, in the order of the samples.

        Columns: ``is_suspect`` (more likely wrong than right), ``score``, ``rank`` (1 is the most probable),
        ``label``, ``suggested``, and ``neighbors``, the numbers of the nearest rows that say so (up to five).
        """
        return self._rows(np.arange(len(self)))

    def top(self, n: int = 20) -> pd.DataFrame:
        """The ``n`` labels that are most probably wrong, the worst first; columns as in ``table``."""
        n = check_count(n, name="n")
        return self._rows(np.argsort(self.rank, kind="stable")[:n])

    @cached_property
    def verdict(self) -> Verdict:
        """How many labels look wrong, in one sentence, with its interval."""
        n, found = len(self), self.n_wrong
        flagged = int((self.score > SUSPECT).sum())
        sentence = (
            f"About {found.mean:,.0f} of {n:,} labels look wrong ({found.mean / n:.1%}; between {found.low:,.0f} and "
            f"{found.high:,.0f}); {flagged:,} {'is' if flagged == 1 else 'are'} more likely wrong than right. "
            + self._first()
        )
        if found.high > _HOPELESS * n:
            sentence += " Hardly any label can be predicted here, so the number may be far too high."
        return Verdict(sentence, found, "labels", self.top(min(20, n)))

    def _first(self) -> str:
        worst = int(self.rank.argmin())
        own, other = self.label[worst], self.suggested[worst]
        if own == other:  # a class; a number is hardly ever what was expected to the last digit
            return f"Least sure is row {worst}, labelled {_shown(own)}, but nothing else is expected there."
        return f"First is row {worst}, labelled {_shown(own)}, where {_shown(other)} is expected."

    def knn_graph(self) -> csr_matrix:
        """The neighbours as a sparse matrix of distances: ``Datalab.find_issues(knn_graph=...)`` of cleanlab."""
        return sparse_graph(self.distances, self.indices)

    def _repr_html_(self) -> str:
        figures = {"labels": len(self), "look wrong": f"{self.n_wrong.mean:.0f}"}
        return card("Suspects", str(self.verdict), figures, self.top(min(20, len(self))), rows=20)

    def __repr__(self) -> str:
        return f"Suspects(n_samples={len(self)}, n_wrong={self.n_wrong.mean:.0f})"

    def __str__(self) -> str:
        return f"{self.verdict}\n{self.top(min(10, len(self))).to_string()}"

    def _rows(self, rows: IntArray) -> pd.DataFrame:
        frame = {
            "is_suspect": self.score[rows] > SUSPECT,
            "score": self.score[rows],
            "rank": self.rank[rows],
            "label": self.label[rows],
            "suggested": self.suggested[rows],
            "neighbors": self._witnesses(rows),
        }
        return pd.DataFrame(frame, index=pd.Index(rows, name="row"))

    def _witnesses(self, rows: IntArray) -> list[tuple[int, ...]]:
        """The nearest neighbours whose label is the suggested one, or nearer to it than to the own."""
        labels, suggested = self._comparable
        named: list[tuple[int, ...]] = []
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            around, own, other = labels[self.indices[block]], labels[block, None], suggested[block, None]
            named += witnesses(self.indices[block], around, own[:, 0], other[:, 0])
        return named

    @cached_property
    def _comparable(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Labels and suggestions as numbers: classes by their codes, which text would make slow."""
        if self.label.dtype.kind == "f" and self.predicted.ndim == 1:
            return self.label, self.suggested
        classes, codes = np.unique(self.label, return_inverse=True)
        return codes, np.searchsorted(classes, self.suggested)


def witnesses(
    indices: IntArray, around: npt.NDArray[Any], own: npt.NDArray[Any], other: npt.NDArray[Any]
) -> list[tuple[int, ...]]:
    """Of each row's neighbours the nearest whose label is the ``other``, or nearer to it than to the ``own``."""
    own, other = own[:, None], other[:, None]
    says_so = np.abs(around - other) < np.abs(around - own) if around.dtype.kind == "f" else around == other
    says_so &= own != other
    first = np.argsort(~says_so, axis=1, kind="stable")[:, :_NAMED]
    numbers = np.take_along_axis(indices, first, axis=1).tolist()
    counts = np.minimum(says_so.sum(axis=1), _NAMED).tolist()
    return [tuple(row[:count]) for row, count in zip(numbers, counts, strict=True)]


def _shown(label: Any) -> str:
    return (
        f"{label:.4g}"
        if isinstance(label, float | np.floating)
        else repr(getattr(label, "item", lambda: label)())
    )
