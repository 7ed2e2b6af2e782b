"""Which rows of a large data set a page shows, and the sentence that says so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steep._validation import FloatArray, IntArray

# Points of a map: a canvas redraws so many while a slider moves.
MOST_POINTS = 10_000
# Rows of a table, which all stand in the page.
MOST_ROWS = 100


@dataclass(frozen=True)
class Shown:
    """Rows on the map and rows in the table.

    Attributes
    ----------
    points : ndarray of int
        Rows on the map, in the order of the data.
    hardest : ndarray of int
        Rows in the table, hardest first; all of them are on the map too.
    sentence : str
        What is shown, in words.
    """

    points: IntArray
    hardest: IntArray
    sentence: str

    @classmethod
    def of(cls, hardness: FloatArray, generator: np.random.Generator) -> Shown:
        """The hardest rows, and others at random when there are too many.

        Examples
        --------
        >>> shown = Shown.of(np.arange(20_000.0), np.random.default_rng(0))
        >>> len(shown.points), shown.hardest[:2]
        (10000, array([19999, 19998]))
        """
        n_samples = len(hardness)
        hardest = np.argsort(-hardness, kind="stable")[:MOST_ROWS]
        if n_samples <= MOST_POINTS:
            return cls(np.arange(n_samples), hardest, f"All {n_samples:,} rows are on the map.")
        drawn = generator.choice(n_samples, MOST_POINTS, replace=False)
        others = np.setdiff1d(drawn, hardest)
        surplus = len(others) + len(hardest) - MOST_POINTS
        if surplus > 0:
            others = generator.permutation(others)[surplus:]
        points = np.sort(np.concatenate([others, hardest]))
        sentence = (
            f"{len(points):,} of {n_samples:,} rows are on the map, drawn at random, the {len(hardest)} hardest always "
            "among them. Distribution and figures are of all rows."
        )
        return cls(points, hardest, sentence)
