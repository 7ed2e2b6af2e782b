# ruff: noqa: ANN001, ANN201
# mypy: allow-untyped-defs
"""The compiled loops that decide: distances in float64 of the data as given, whatever their scale.

Distances are ranked as if rounded to float32's 24 digits but with float64's range, so that those beyond
float32 (above 3·10³⁸, below 10⁻³⁸) still come in their true order.
"""

from __future__ import annotations

from math import frexp, ldexp

import numpy as np

from steep.neighbors.kernels import NO_NAN, compiled
from steep.neighbors.kernels.lists import push, sort_from_gap, sort_pairs
from steep.neighbors.kernels.vectors import squares_by_8, squares_by_32, wide_squares_by_8, wide_squares_by_32

ROWS = 128  # rows per product: so many make the most of a product
LEAST, MOST = 1e-280, 1e300  # between them squares have neither vanished nor overflown
FLOAT32_LEAST, FLOAT32_MOST = 1.2e-38, 3.4e38
LARGEST = float(np.finfo(np.float32).max)
STRIP = 64  # scores whose lowest is compared with the bound first


@compiled()
def square(X, q, m):
    """Squared distance of two rows in float64; features lie one behind the other."""
    n_features, size = X.shape[1], X.itemsize
    one, other = X.ctypes.data + q * X.strides[0], X.ctypes.data + m * X.strides[0]
    total, begin = 0.0, n_features - n_features % 32
    if begin > 0:
        if size == 4:
            total += squares_by_32(one, other, begin // 32)
        else:
            total += wide_squares_by_32(one, other, begin // 32)
    n_eights = (n_features - begin) // 8
    if n_eights > 0:
        if size == 4:
            total += squares_by_8(one + size * begin, other + size * begin, n_eights)
        else:
            total += wide_squares_by_8(one + size * begin, other + size * begin, n_eights)
    for f in range(begin + 8 * n_eights, n_features):
        step = np.float64(X[q, f]) - np.float64(X[m, f])
        total += step * step
    return total


@compiled()
def careful_distance(X, q, m):
    """Distance of two rows whose squares overflow or vanish: scaled by the largest difference."""
    largest = 0.0
    for f in range(X.shape[1]):
        largest = max(largest, abs(np.float64(X[q, f]) - np.float64(X[m, f])))
    if largest == 0.0:
        return 0.0
    exponent = frexp(largest)[1]
    total = 0.0
    for f in range(X.shape[1]):
        step = ldexp(np.float64(X[q, f]) - np.float64(X[m, f]), -exponent)
        total += step * step
    return ldexp(np.sqrt(total), exponent)


@compiled()
def distance(X, q, m):
    """Distance of two rows in float64."""
    total = square(X, q, m)
    if LEAST < total < MOST:
        return np.sqrt(total)
    return careful_distance(X, q, m)


@compiled()
def ranked(value):
    """Round to the digits of float32, at any scale."""
    if FLOAT32_LEAST < value < FLOAT32_MOST:
        return np.float64(np.float32(value))
    mantissa, exponent = frexp(value)
    return ldexp(np.float64(np.float32(mantissa)), exponent)


@compiled()
def write(keys, indices, score, index):
    """Write the best of a sorted row as float32; what is beyond it becomes its largest number."""
    for j in range(score.shape[0]):
        score[j], index[j] = min(keys[j], LARGEST), indices[j]


@compiled()
def prove(X, index, certain, unit, best, best_index, unsure, rows):
    """Rank the shortlisted by float64 distances, keep the best, and say where that proves nothing."""
    width, wanted = index.shape[1], best.shape[1]
    keys, indices = np.empty(width, np.float64), np.empty(width, np.int32)
    for q in rows:
        unsure[q] = np.max(index[q]) >= X.shape[0]  # a place nobody has taken
        if unsure[q]:
            continue
        for j in range(width):
            keys[j], indices[j] = ranked(distance(X, q, index[q, j])), index[q, j]
        sort_pairs(keys, indices)
        write(keys, indices, best[q], best_index[q])
        reached = keys[wanted - 1] * unit
        unsure[q] = not (certain[q] == np.inf or 0.5 * reached * reached * (1 + 1e-6) < certain[q])


@compiled()
def compare(X, rows, mine, mine_half, first, block, half, error, least, slack, unit, limit, score, index, stop):
    """Offer the rows of ``X`` from ``first`` on, also given as float32 ``block``, to some other ``rows``.

    A float32 score may be too large by ``error`` of both half norms and by ``least``, a distance by ``slack``. What
    could still be within ``limit`` is measured in float64.
    """
    room = np.empty(ROWS * block.shape[0], np.float32)
    rest = np.float32(1.0 - error)
    for begin in range(0, rows.shape[0], ROWS):
        if stop[0]:
            return
        end = min(begin + ROWS, rows.shape[0])
        if np.max(limit[begin:end]) < 0:  # all have found their equals
            continue
        products = room[: (end - begin) * block.shape[0]].reshape(end - begin, block.shape[0])
        np.dot(mine[begin:end], block.T, products)
        for i in range(begin, end):
            if limit[i] >= 0:
                compare_row(
                    X, rows[i], i, products[i - begin], mine_half[i], first, half, rest, least, slack, unit,
                    limit, score, index,
                )  # fmt: skip


@compiled()
def bound_of(limit, slack, least):
    """Return the float32 score that nobody within ``limit`` exceeds."""
    reach = np.sqrt(2 * limit) + slack
    return np.float32(0.5 * reach * reach * (1 + 1e-6) + least)


@compiled(fastmath=NO_NAN)
def lowest(line, half, my_half, rest):
    """Return the lowest float32 score of a strip."""
    low = np.float32(np.inf)
    for j in range(line.shape[0]):
        low = min(low, (my_half + half[j]) * rest - line[j])
    return low


@compiled()
def compare_row(X, q, i, line, my_half, first, half, rest, least, slack, unit, limit, score, index):
    """Offer one strip of rows to row ``q``, whose list is the ``i``-th."""
    bound = bound_of(limit[i], slack, least)
    for begin in range(0, line.shape[0], STRIP):
        end = min(begin + STRIP, line.shape[0])
        if lowest(line[begin:end], half[begin:end], my_half, rest) > bound:
            continue
        for j in range(begin, end):
            m = first + j
            if m == q or (my_half + half[j]) * rest - line[j] > bound:
                continue
            found = ranked(distance(X, q, m))
            if found < score[i, 0] or (found == score[i, 0] and m < index[i, 0]):
                push(score, index, i, found, m)
                worst = score[i, 0]
                limit[i] = min(limit[i], 0.5 * (worst * unit) * (worst * unit))
                bound = bound_of(limit[i], slack, least)
                if worst == 0:  # nothing is nearer, and all rows to come have a higher index
                    limit[i] = -1
                    return


@compiled()
def nearest_scores(X, rows, index, width, unit):
    """Return the ``width``-th lowest score of each of some rows with those it has listed."""
    found, scores = np.empty(rows.shape[0], np.float64), np.empty(index.shape[1], np.float64)
    for i in range(rows.shape[0]):
        for j in range(index.shape[1]):
            known = index[i, j] < X.shape[0]
            scores[j] = unit * distance(X, rows[i], index[i, j]) if known else np.inf
        last = np.sort(scores)[width - 1]
        found[i] = 0.5 * last * last
    return found


@compiled()
def finish(X, order, index, best, best_index, unsure, first, last):
    """Turn lists of positions into the best rows, sorted, and their distances, of the data as given."""
    width = index.shape[1]
    keys, indices = np.empty(width, np.float64), np.empty(width, np.int32)
    for q in range(first, last):
        row = order[q]
        unsure[row] = index[q, width - 1] >= X.shape[0]  # a place nobody has taken
        if unsure[row]:
            continue
        for j in range(width):
            indices[j] = order[index[q, j]]
            keys[j] = ranked(distance(X, row, indices[j]))
        sort_from_gap(keys, indices, 1 if width == best.shape[1] else width // 2)  # sorted already, but for rounding
        write(keys, indices, best[q], best_index[q])
