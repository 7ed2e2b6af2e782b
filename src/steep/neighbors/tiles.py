"""Exact self-join by tiles of float32 products, which shortlist a few more neighbours than wanted."""

from __future__ import annotations

from typing import Any

import numpy as np

from steep._progress import Stopwatch
from steep._validation import FloatArray, IntArray
from steep.neighbors.distances import SLACK, certain_scores
from steep.neighbors.frame import Float32Array, half_norms
from steep.neighbors.kernels.joins import join_across, join_within
from steep.neighbors.lists import Join, Lists, Rounds, empty_lists
from steep.neighbors.proof import proven
from steep.neighbors.threads import Team

TILE = 1024  # points per tile


def join_tiles(job: Join) -> tuple[FloatArray, IntArray, dict[str, Any]]:
    """Return distances and indices of the nearest others of each point, exactly."""
    X, frame, n_others, _, team = job
    watch = Stopwatch()
    points = frame.place_float32(X)
    half = half_norms(points)
    lists = _shortlists(points, half, min(n_others + SLACK, len(X) - 1), team)
    watch.lap("tiles")
    if n_others + SLACK >= len(X) - 1:  # everybody is on the list
        certain = np.full(len(X), np.inf)
    else:
        certain = certain_scores(lists.top, np.sqrt(2.0 * half.astype(np.float64)), X.shape[1], 24)
    del points
    distances, indices = proven(job, lists, certain)
    watch.lap("proof")
    return distances, indices, {"seconds": watch.seconds}


def _shortlists(points: Float32Array, half: Float32Array, width: int, team: Team) -> Lists:
    """Return the lists of the ``width`` nearest others of each point, in no order, by float32 scores."""
    lists = empty_lists(len(points), width)
    start = np.append(np.arange(0, len(points), TILE), len(points))
    n_tiles = len(start) - 1
    args = (lists.best, team.stop)
    team.each(lambda tile: join_within(points, half, start, np.array([tile]), *args), range(n_tiles))
    rounds = Rounds(np.column_stack(np.triu_indices(n_tiles, 1)), n_tiles)
    rounds.run(lambda some: join_across(points, half, start, rounds.pairs[some], *args), team, at_once=16)
    return lists
