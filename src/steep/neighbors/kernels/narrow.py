# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled count of how many points a guess of distances puts before each true neighbour."""

from __future__ import annotations

from steep.neighbors.kernels import compiled
from steep.neighbors.kernels.lists import BLOCK


@compiled()
def count_nearer(products, row_half, col_half, limits, counts):
    """Add to ``counts[i, j]`` the points whose score is above ``limits[i, j − 1]`` and at most ``limits[i, j]``.

    ``limits`` ascend along each row; a score is half_x + half_y − x·y. The point itself is counted too.
    """
    for i in range(products.shape[0]):
        line, my_half, last = products[i], row_half[i], limits[i, limits.shape[1] - 1]
        for begin in range(0, line.shape[0], BLOCK):
            end = min(begin + BLOCK, line.shape[0])
            hits = 0
            for j in range(begin, end):
                hits += (my_half + col_half[j]) - line[j] <= last
            if hits == 0:
                continue
            for j in range(begin, end):
                score = (my_half + col_half[j]) - line[j]
                if score <= last:
                    place = 0
                    while limits[i, place] < score:
                        place += 1
                    counts[i, place] += 1
