"""What :func:`suspects` found: a sentence, a table, the neighbours behind each row, and what the right labels gain."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from steep._html import card
from steep._sklearn import take_rows
from steep._suspects.decisions import checksum, corrected, places_of, row_names
from steep._validation import FloatArray, IntArray, Seed, check_count, check_generator, one_line
from steep.evidence import Verdict
from steep.exceptions import InputError
from steep.metrics import Interval, paired_interval, resolve_scorers
from steep.neighbors.graph import sparse_graph

# Most neighbours named that contradict a label, and samples whose neighbours are compared at once, to bound memory.
_NAMED, _BLOCK = 5, 100_000
# Labels of larger scores are marked as suspects; as many are marked as are estimated to be wrong, roughly.
SUSPECT = 0.5
# Limits further apart than this share of the labels say little; and rows that effect must score at least.
_WIDE, _FEWEST = 0.25, 10


@dataclass(frozen=True, eq=False, repr=False)
class Suspects:
    """Labels ranked by how likely they are to be wrong; ``print`` it, or read ``table`` from the top.

    Attributes
    ----------
    score : ndarray of shape (n_samples,)
        From 0 to 1, in the order of the samples: the larger, the more likely the label is wrong. The values sum to
        ``n_wrong``, which is a rough estimate: rely on the order.
    label, suggested : ndarray of shape (n_samples,)
        The label as given, and what is expected there instead: a class, or a number.
    n_wrong : Interval
        A rough estimate of the number of wrong labels, with rough limits. It can be several times too low or too high;
        see ``docs/how-to/suspects.md``.
    distances, indices : ndarray of shape (n_samples, n_neighbors)
        The neighbours of every sample, nearest first, without itself, by their place in the data.
    predicted : ndarray or sparse matrix
        Cross-fitted probabilities (one column per class) or values, or those that were passed. Probabilities of
        hundreds of classes by the default forest are sparse.
    seconds : dict
        Wall-clock time of each stage.
    index : pandas.Index, optional
        The index of ``X``, or that of ``y`` where ``X`` has none; default the places in the data.
    X : array-like or frame
        The samples as given.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from steep import suspects
    >>> X, y = load_iris(return_X_y=True)
    >>> y[3] = 2  # one label is made wrong
    >>> found = suspects(X, y, random_state=0)
    >>> found.top(1)[["label", "suggested"]].values.tolist()
    [[2, 0]]
    >>> int(found.apply([3])[3])
    0
    """

    score: FloatArray
    label: npt.NDArray[Any]
    suggested: npt.NDArray[Any]
    n_wrong: Interval
    distances: FloatArray
    indices: IntArray
    predicted: Any
    seconds: dict[str, float] = field(default_factory=dict)
    index: pd.Index | None = None
    X: Any = None

    def __len__(self) -> int:
        return len(self.score)

    @cached_property
    def rank(self) -> IntArray:
        """1 for the label to look at first, in the order of the samples."""
        rank = np.empty(len(self), dtype=np.int64)
        rank[np.argsort(-self.score, kind="stable")] = np.arange(1, len(self) + 1)
        return rank

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per sample, in the order and with the index of the samples.

        Columns: ``is_suspect`` (score above 0.5), ``score``, ``rank`` (1 is the first to look at), ``label``,
        ``suggested``, and ``neighbors``, the nearest rows that speak for what is suggested (up to five), by the index.
        """
        return self._rows(np.arange(len(self)))

    def top(self, n: int = 20) -> pd.DataFrame:
        """The ``n`` labels to look at first, the most suspicious first; columns and index as in ``table``."""
        return self._rows(np.argsort(self.rank, kind="stable")[: check_count(n, name="n")])

    @cached_property
    def verdict(self) -> Verdict:
        """The first row to check, and a rough estimate of the number of wrong labels, in words."""
        n, found, worst = len(self), self.n_wrong, int(self.rank.argmin())
        row = worst if self.index is None else self.index[worst]
        own, other = _shown(self.label[worst]), _shown(self.suggested[worst])
        first = f"Look first at row {row}, labelled {own}, where {other} is expected."
        if self.label[worst] == self.suggested[worst]:  # a class; a number is hardly ever what was expected
            first = f"Least sure is row {row}, labelled {own}, but no other label is expected there."
        sentence = (
            f"{first} By a rough estimate about {found.mean:,.0f} of {n:,} labels are wrong "
            f"({100 * found.mean / n:.1f} %; limits {found.low:,.0f} and {found.high:,.0f}), which can be several "
            "times too low or too high: check rows from the top down and stop where they are right."
        )
        if found.high - found.low > _WIDE * n:
            sentence += " These data cannot show how many are wrong: many labels cannot be predicted well."
        # Without a count of values, so that these limits are not shown as those of a gain.
        return Verdict(sentence, replace(found, n=0), "labels", self.top(min(20, n)))

    def apply(self, decisions: Any) -> npt.NDArray[Any]:
        """The labels with those you decided on; nothing is changed in place.

        ``decisions`` are the file that the page exports, CSV or JSON; a DataFrame with its columns ``row`` and
        ``new_label``; a mapping of rows to labels; or a list of rows whose suggested labels are right. Rows are named
        by the index of the table, such as ``found.top(10).index``.
        """
        return corrected(self.label, self.index, decisions, is_number=self.has_numbers, suggested=self.suggested)

    def page(
        self,
        path: str | Path,
        *,
        images: Any = None,
        texts: Any = None,
        target: str = "label",
        title: str | None = None,
    ) -> Path:
        """Write a page on which you accept, keep or correct labels by keys, and export your decisions for ``apply``.

        One HTML file that needs nothing else. It shows the columns of ``X``, or ``images`` of shape
        ``(n_samples, height, width[, channels])``, or ``texts``, one per sample; ``target`` is what the labels are
        called. The most suspicious samples are on it, as many as there is room for.
        """
        from steep.report.review import review_page

        names = row_names(self.index, len(self))
        return review_page(
            path, self, data=checksum(self.label, names), names=names, images=images, texts=texts, target=target,
            title=title,
        )  # fmt: skip

    def effect(
        self,
        estimator: Any,
        *,
        decisions: Any = None,
        trusted: Any = None,
        scoring: Any = None,
        cv: int = 5,
        random_state: Seed = None,
    ) -> pd.DataFrame:
        """Measure what dropping or correcting labels gains: ``estimator`` cross-validated on trusted rows.

        Wrong are the labels that ``decisions`` change (see ``apply``), or without decisions the suspects, corrected to
        what is suggested. One row each for the labels as given, dropped and corrected: the mean score, its gain over
        the labels as given with a 95 % interval over the parts, and the rows fitted to.

        ``trusted`` names rows, by the index, whose labels are right once decided. The default is the rows in
        ``decisions`` and all that are not suspects, which flatters dropping a little: hard rows are not among them.
        ``scoring`` is the name of a scorer or a callable; default the estimator's own score.
        """
        is_suspect = self.score > SUSPECT
        right = np.where(is_suspect, self.suggested, self.label) if decisions is None else self.apply(decisions)
        if trusted is not None:
            rows = places_of(trusted, self.index, len(self), "trusted")
        elif decisions is None:
            rows = np.flatnonzero(~is_suspect)
        else:
            decided = places_of(decisions, self.index, len(self), "decisions")
            rows = np.union1d(np.flatnonzero(~is_suspect), decided)
        n_parts = check_count(cv, name="cv", minimum=2)
        if len(rows) < max(_FEWEST, 2 * n_parts):
            raise InputError(
                f"there are {len(rows)} trusted rows; expected at least {max(_FEWEST, 2 * n_parts)} to score on; name "
                "more of them, or lower cv"
            )
        seed = int(check_generator(random_state).integers(2**31))
        few = right.dtype.kind != "f" and np.unique(right[rows], return_counts=True)[1].min() >= n_parts
        deal = (StratifiedKFold if few else KFold)(n_parts, shuffle=True, random_state=seed)
        return measured(estimator, self.X, self.label, right, rows, scoring, deal)

    @property
    def has_numbers(self) -> bool:
        """Whether the labels are numbers, not classes."""
        return self.label.dtype.kind == "f" and self.predicted.ndim == 1

    def to_cleanlab(self) -> pd.DataFrame:
        """The table with the columns of cleanlab's label issues: a small ``label_quality`` is suspicious."""
        return pd.DataFrame(
            {
                "is_label_issue": self.score > SUSPECT,
                "label_quality": 1.0 - self.score,
                "given_label": self.label,
                "predicted_label": self.suggested,
            },
            index=self.index,
        )

    def knn_graph(self) -> csr_matrix:
        """The neighbours as a sparse matrix of distances: ``Datalab.find_issues(knn_graph=...)`` of cleanlab."""
        return sparse_graph(self.distances, self.indices)

    def _repr_html_(self) -> str:
        figures = {"labels": len(self), "wrong, by a rough estimate": f"{self.n_wrong.mean:.0f}"}
        return card("Suspects", str(self.verdict), figures, self.top(min(20, len(self))), rows=20)

    def __repr__(self) -> str:
        return f"Suspects(n_samples={len(self)}, about {self.n_wrong.mean:.0f} wrong by a rough estimate)"

    def __str__(self) -> str:
        return f"{self.verdict}\n{self.top(min(10, len(self))).to_string()}"

    def _rows(self, rows: IntArray) -> pd.DataFrame:
        index = pd.RangeIndex(len(self), name="row") if self.index is None else self.index
        named = index.tolist()
        frame = {
            "is_suspect": self.score[rows] > SUSPECT,
            "score": self.score[rows],
            "rank": self.rank[rows],
            "label": self.label[rows],
            "suggested": self.suggested[rows],
            "neighbors": [tuple(named[row] for row in around) for around in self._witnesses(rows)],
        }
        return pd.DataFrame(frame, index=index[rows])

    def _witnesses(self, rows: IntArray) -> list[tuple[int, ...]]:
        """The nearest neighbours whose label is the suggested one, or nearer to it than to the own."""
        labels, suggested = self._comparable
        named: list[tuple[int, ...]] = []
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            around, own, other = labels[self.indices[block]], labels[block, None], suggested[block, None]
            is_nearer = np.abs(around - other) < np.abs(around - own)
            says_so = (is_nearer if self.has_numbers else around == other) & (own != other)
            first = np.argsort(~says_so, axis=1, kind="stable")[:, :_NAMED]
            numbers = np.take_along_axis(self.indices[block], first, axis=1).tolist()
            named += [tuple(row[:count]) for row, count in zip(numbers, says_so.sum(axis=1).tolist(), strict=True)]
        return named

    @cached_property
    def _comparable(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Labels and suggestions as numbers: classes by their codes, which text would make slow."""
        if self.has_numbers:
            return self.label, self.suggested
        classes, codes = np.unique(self.label, return_inverse=True)
        return codes, np.searchsorted(classes, self.suggested)


def _shown(label: Any) -> str:
    return f"{label:.4g}" if isinstance(label, float | np.floating) else repr(getattr(label, "item", lambda: label)())


def measured(
    estimator: Any,
    X: Any,
    labels: npt.NDArray[Any],
    right: npt.NDArray[Any],
    trusted: IntArray,
    scoring: Any,
    deal: Any,
) -> pd.DataFrame:
    """Scores of ``estimator`` fitted to the labels as given, to the rows where ``right`` agrees, and to ``right``.

    Every part that ``deal`` makes of the trusted rows is scored, by ``right``, on fits to all other rows.
    """
    scorers = resolve_scorers(estimator, scoring)
    if len(scorers) != 1:
        raise InputError(f"scoring names {len(scorers)} scores; expected one; call effect once for each")
    ((name, score),) = scorers.items()
    everywhere = np.ones(len(labels), dtype=bool)
    ways = {"as given": (everywhere, labels), "dropped": (labels == right, labels), "corrected": (everywhere, right)}
    scores, sizes = pd.DataFrame(columns=list(ways), dtype=float), pd.DataFrame(columns=list(ways), dtype=float)
    for number, (_, chosen) in enumerate(deal.split(trusted, right[trusted])):
        asked = trusted[chosen]
        others = np.setdiff1d(np.arange(len(labels)), asked)
        for way, (kept, y) in ways.items():
            rows = others[kept[others]]
            try:
                model = clone(estimator).fit(take_rows(X, rows), y[rows])
                scores.loc[number, way] = float(score(model, take_rows(X, asked), right[asked]))
            except (TypeError, ValueError) as error:
                raise InputError(
                    f"{type(estimator).__name__} cannot be fitted to or scored on the labels {way} "
                    f"({one_line(error)}); expected an estimator and a scoring that take them; choose others"
                ) from error
            sizes.loc[number, way] = len(rows)
    gains = {way: paired_interval(scores["as given"].to_numpy(), scores[way].to_numpy()) for way in ways}
    columns = {side: {way: getattr(gain, side) for way, gain in gains.items()} for side in ("mean", "low", "high")}
    found = pd.DataFrame({name: scores.mean(), **columns, "n_train": sizes.mean().round().astype(int)})
    return found.rename(columns={"mean": "gain"})
