# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled loops over strips of products, and those that decide: distances in float64 of the data as given.

Distances are ranked as if rounded to float32's 24 digits but with float64's range, so that those beyond
float32 (above 3·10³⁸, below 10⁻³⁸) still come in their true order.
"""

from __future__ import annotations

from math import frexp, ldexp
from typing import Any, NamedTuple

import numpy as np

from steep.neighbors.kernels import NO_NAN, compiled
from steep.neighbors.kernels.panels import insert, knows, put, sort_pairs
from steep.neighbors.kernels.vectors import PANEL, first_bit, low_scores

ROWS = 128  # rows per product: this many make the most of a product
FLOAT32_LEAST, FLOAT32_MOST = 1.2e-38, 3.4e38
LARGEST = float(np.finfo(np.float32).max)
STRIP = 64  # scores whose lowest is compared with the bound first


class Block(NamedTuple):
    """Some points: the first row, the points in float32, and half their squared lengths."""

    first: int
    points: Any
    half: Any


class Rounding(NamedTuple):
    """What a float32 score may be too large by, a share of both half norms and ``least``; a distance by ``slack``."""

    share: float
    least: float
    slack: float


class Found(NamedTuple):
    """The best of each row so far, in float64, and the score beyond which no point is looked for."""

    score: Any
    index: Any
    limit: Any


@compiled()
def near_enough(line, half, my_half, bound, begin):
    """Return as bits which of the scores from ``begin`` on, 16 at most, do not exceed ``bound``."""
    if begin + PANEL <= line.shape[0]:
        return low_scores(line.ctypes.data + 4 * begin, half.ctypes.data + 4 * begin, my_half, bound)
    bits = np.uint32(0)
    for j in range(line.shape[0] - begin):
        if (my_half + half[begin + j]) - line[begin + j] <= bound:
            bits |= np.uint32(1) << np.uint32(j)
    return bits


@compiled()
def scan_rows(products, rows, row_half, cols, col_half, best):
    """Offer every column to the rows only; ``rows[i]`` keeps its neighbours in list i.

    Rows may meet themselves and points they already know: both are passed over.
    """
    score, index, top = best.score, best.index, best.top
    for i in range(rows.shape[0]):
        line = products[i]
        for begin in range(0, line.shape[0], PANEL):
            hits = near_enough(line, col_half, row_half[i], top[i], begin)
            while hits:
                j = begin + first_bit(hits)
                hits &= hits - np.uint32(1)
                found = max((row_half[i] + col_half[j]) - line[j], np.float32(0.0))
                if found < top[i] and rows[i] != cols[j] and not knows(index[i], cols[j]):
                    top[i] = insert(score, index, i, found, cols[j])


@compiled()
def count_nearer(products, row_half, col_half, limits, counts):
    """Add to ``counts[i, j]`` the points whose score is above ``limits[i, j − 1]`` and at most ``limits[i, j]``.

    ``limits`` ascend along each row; a score is half_x + half_y − x·y. The point itself is counted too.
    """
    for i in range(products.shape[0]):
        line, my_half, last = products[i], row_half[i], limits[i, limits.shape[1] - 1]
        for begin in range(0, line.shape[0], PANEL):
            hits = near_enough(line, col_half, my_half, last, begin)
            while hits:
                j = begin + first_bit(hits)
                hits &= hits - np.uint32(1)
                score, place = (my_half + col_half[j]) - line[j], 0
                while place < limits.shape[1] - 1 and limits[i, place] < score:
                    place += 1
                counts[i, place] += 1


@compiled(fastmath=NO_NAN)
def distance(X, q, m):
    """Distance of two rows in float64; features lie one behind the other."""
    total = 0.0
    for f in range(X.shape[1]):
        step = np.float64(X[q, f]) - np.float64(X[m, f])
        total += step * step
    return np.sqrt(total)


@compiled()
def ranked(value):
    """Round to the digits of float32, at any scale."""
    if FLOAT32_LEAST < value < FLOAT32_MOST:
        return np.float64(np.float32(value))
    mantissa, exponent = frexp(value)
    return ldexp(np.float64(np.float32(mantissa)), exponent)


@compiled()
def compare(X, rows, mine, part, rounding, found, stop):
    """Offer the rows of ``X`` in ``part`` to some other ``rows``, given as ``mine``.

    What could still be within ``found.limit`` is measured in float64.
    """
    limit, block = found.limit, part.points
    room = np.empty(ROWS * block.shape[0], np.float32)
    for begin in range(0, rows.shape[0], ROWS):
        if stop[0]:
            return
        end = min(begin + ROWS, rows.shape[0])
        if np.max(limit[begin:end]) < 0:  # all have found their equals
            continue
        products = room[: (end - begin) * block.shape[0]].reshape(end - begin, block.shape[0])
        np.dot(mine.points[begin:end], block.T, products)
        for i in range(begin, end):
            if limit[i] >= 0:
                compare_row(X, rows[i], i, products[i - begin], mine.half[i], part, rounding, found)


@compiled()
def bound_of(limit, rounding):
    """Return the float32 score that no point within ``limit`` exceeds."""
    reach = np.sqrt(2 * limit) + rounding.slack
    return np.float32(0.5 * reach * reach * (1 + 1e-6) + rounding.least)


@compiled(fastmath=NO_NAN)
def lowest(line, half, my_half, rest):
    """Return the lowest float32 score of a strip."""
    low = np.float32(np.inf)
    for j in range(line.shape[0]):
        low = min(low, (my_half + half[j]) * rest - line[j])
    return low


@compiled()
def compare_row(X, q, i, line, my_half, part, rounding, found):
    """Offer one strip of rows to row ``q``, whose list is the ``i``-th."""
    score, index, limit, half = found.score, found.index, found.limit, part.half
    rest, bound = np.float32(1.0 - rounding.share), bound_of(limit[i], rounding)
    for begin in range(0, line.shape[0], STRIP):
        end = min(begin + STRIP, line.shape[0])
        if lowest(line[begin:end], half[begin:end], my_half, rest) > bound:
            continue
        for j in range(begin, end):
            m = part.first + j
            if m == q or (my_half + half[j]) * rest - line[j] > bound:
                continue
            far = ranked(distance(X, q, m))
            if far < score[i, -1] or (far == score[i, -1] and m < index[i, -1]):
                put(score[i], index[i], far, m)
                worst = score[i, -1]
                limit[i] = min(limit[i], 0.5 * worst * worst)
                bound = bound_of(limit[i], rounding)
                if worst == 0:  # nothing is nearer, and all rows to come have a higher index
                    limit[i] = -1
                    return


@compiled()
def nearest_scores(X, rows, index, width):
    """Return the ``width``-th lowest score of each of some rows with those it has listed."""
    found, scores = np.empty(rows.shape[0], np.float64), np.empty(index.shape[1], np.float64)
    for i in range(rows.shape[0]):
        for j in range(index.shape[1]):
            known = index[i, j] < X.shape[0]
            scores[j] = distance(X, rows[i], index[i, j]) if known else np.inf
        last = np.sort(scores)[width - 1]
        found[i] = 0.5 * last * last
    return found


@compiled()
def rank(X, order, index, certain, best, unsure, first, last):
    """Turn lists of positions into the best rows, sorted, and their float32 distances, of the data as given.

    ``unsure`` are rows whose list is not full or has not reached as near as no missing point can be.
    """
    width, wanted = index.shape[1], best.score.shape[1]
    keys, indices = np.empty(width, np.float64), np.empty(width, np.int32)
    for q in range(first, last):
        row = order[q]
        unsure[row] = index[q, width - 1] >= X.shape[0]  # a place not taken
        if unsure[row]:
            continue
        for j in range(width):
            indices[j] = order[index[q, j]]
            keys[j] = ranked(distance(X, row, indices[j]))
        sort_pairs(keys, indices, 1 if width == wanted else width // 2)  # sorted already, but for rounding
        for j in range(wanted):
            best.score[q, j], best.index[q, j] = min(keys[j], LARGEST), indices[j]
        reached = keys[wanted - 1]
        unsure[row] = not (certain[q] == np.inf or 0.5 * reached * reached * (1 + 1e-6) < certain[q])
