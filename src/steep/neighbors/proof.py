"""What float32 cannot decide is decided in float64, from the data as given.

Engines shortlist by float32 products and say below which score nobody can be missing (distances.py). Where
the shortlist reaches farther than that (many equal points, tight clusters far apart) the point is compared
with all others, measuring only those that float32 cannot rule out.
"""

from __future__ import annotations

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.neighbors.distances import vanished
from steep.neighbors.frame import CHUNK, Frame, half_norms
from steep.neighbors.kernels.lists import sort_pairs
from steep.neighbors.kernels.proof import compare, prove
from steep.neighbors.lists import NOBODY, Lists, batches, empty_lists
from steep.neighbors.threads import Team

ROWS = 1_024  # compared with all at a time: so many make placing the others in the frame cheap


def proven(
    X: FloatArray,
    frame: Frame,
    lists: Lists,
    certain: FloatArray,
    n_others: int,
    *,
    include_self: bool,
    team: Team,
) -> tuple[FloatArray, IntArray]:
    """Return the best of shortlists, by float64 distances of the data as given.

    No point missing from list q has a score below ``certain[q]`` in the frame.
    """
    n_points, X = len(X), np.ascontiguousarray(X)
    out = empty_lists(n_points, n_others)
    unsure = np.zeros(n_points, dtype=np.bool_)
    certain[frame.is_far(X)] = -np.inf
    team.each(
        lambda rows: prove(X, lists.index, certain, frame.unit, out.score, out.index, unsure, rows),
        batches(n_points, 5_000),
    )
    settle(X, frame, np.flatnonzero(unsure), out, team)
    return out.in_rows_of(np.arange(n_points, dtype=np.int32), include_self)


def settle(X: FloatArray, frame: Frame, rows: IntArray, lists: Lists, team: Team) -> None:
    """Replace the lists of some rows by their exact neighbours and distances, sorted."""
    if len(rows):
        distances, indices = exact_rows(X, frame, rows, lists.index.shape[1], team)
        lists.score[rows] = np.minimum(distances, np.finfo(np.float32).max)
        lists.index[rows] = indices


def exact_rows(
    X: FloatArray, frame: Frame, rows: IntArray, width: int, team: Team
) -> tuple[FloatArray, IntArray]:
    """Return ranked float64 distances and indices of the ``width`` nearest others of some rows, sorted."""
    X = np.ascontiguousarray(X)
    scores = np.full((len(rows), width), np.inf)
    indices = np.full((len(rows), width), NOBODY, np.int32)
    far = frame.is_far(X[rows])
    near = np.flatnonzero(~far)

    def look(part: IntArray) -> None:
        scores[part], indices[part] = _compare(X, frame, rows[part], width, team)

    n_parts = max(1, -(-len(near) // ROWS), min(team.n_threads, len(near)))
    team.each(look, np.array_split(near, n_parts))
    if far.any():  # rows that are far in this frame have one of their own
        scores[far], indices[far] = exact_rows(X, Frame.of(X, rows[far]), rows[far], width, team)
    return scores, indices


def _compare(
    X: FloatArray, frame: Frame, rows: IntArray, width: int, team: Team
) -> tuple[FloatArray, IntArray]:
    """Compare some rows with all, a block of them at a time."""
    scores = np.full((len(rows), width), np.inf)
    indices = np.full((len(rows), width), NOBODY, np.int32)
    n_features, limit = X.shape[1], np.full(len(rows), np.inf)
    error = 4 * (n_features + 8) * 2.0**-24
    mine = frame.place_float32(X, rows)
    half = half_norms(mine)
    for first in range(0, len(X), CHUNK // 2):
        block = frame.place_float32(X, slice(first, first + CHUNK // 2))
        compare(
            X, rows, mine, half, first, block, half_norms(block), error, vanished(n_features), frame.unit,
            limit, scores, indices, team.stop,
        )  # fmt: skip
    for i in range(len(rows)):
        sort_pairs(scores[i], indices[i])
    return scores, indices
