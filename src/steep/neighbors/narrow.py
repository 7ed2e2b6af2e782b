"""Wide data searched in a few coordinates: the leading directions, and a guess of what the others add.

Let z be the p leading principal coordinates of x and r² = |x − c|² − |z|² what the others hold. For two points

    |x − y|² = |z_x − z_y|² + r_x² + r_y² − 2 ⟨rest_x, rest_y⟩.

In high dimension the rests of two points are nearly at right angles, unless they are neighbours also there. So the
search ranks pairs by |z_x − z_y|² + β (r_x² + r_y²), β = 0, ½ or 1, keeps more of them than are wanted, and measures
those in all coordinates. On pictures the term β takes half the coordinates away. How many coordinates, how many
candidates and which β is read off sampled points, whose true neighbours are known anyway (recall.py): each tells at
which rank the guess puts it. If the spectrum is flat no choice is cheaper than all coordinates, and none is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.neighbors.exact import Bounds
from steep.neighbors.frame import CHUNK, Float32Array, Frame, half_norms
from steep.neighbors.kernels.compare import count_nearer
from steep.neighbors.lists import Team
from steep.neighbors.recall import Truth

WIDE = 96  # features above which fewer coordinates may pay
LADDER = (16, 32, 48, 64, 96, 128)  # how many
BETAS = (0.0, 0.5, 1.0)
SAMPLE = 3_000  # rows from which the directions are taken
MOST_AXES = LADDER[-1]
SPARE = 8  # directions found beyond those wanted, which sharpens them
LOST = 0.4  # of the misses allowed: by the ranking; the others by the reach
RANKED = 64  # of the sampled points choose, all of them say what the choice is worth
LEAST_REST = 0.1  # √τ, in typical lengths
HELD_ELSEWHERE = 0.3  # share of the variance beyond them at which bounds rule too little out
MOST = 8  # candidates per neighbour wanted, at most
# Microseconds a point, measured: a pair of cells by coordinate, a candidate kept, a candidate measured by feature.
SWEEP, PER_COORDINATE, KEEP, MEASURE = 1.0, 0.03, 0.045, 0.00013


@dataclass(frozen=True)
class Narrow:
    """The points in few coordinates."""

    points: Float32Array
    extra: Float32Array  # β r²/2, which the score of a pair counts for each of its points
    width: int  # candidates to keep for each point
    ranks: IntArray  # place of the sampled points' true neighbours among all points, (n_sampled, n_neighbors)


@dataclass(frozen=True)
class Leading:
    """The leading coordinates of wide data, as many as any search may want, and |x − c|²/2."""

    points: Float32Array
    half: Float32Array
    n_features: int

    def bounds(self, frame: Frame) -> Bounds | None:
        """Return them with the length of the rest: no two points are farther apart there than in all.

        None where some points are far, or the other coordinates hold too much.

        In float32 products of d numbers are off by δ = (d + 8)·2⁻²³ of the lengths at most, so a coordinate z by
        δ|x| and r² by δ|x|². The root of r² + τ instead of r keeps the latter from growing where r is small, and is no
        steeper.
        """
        rest = self.half - half_norms(self.points)
        held = HELD_ELSEWHERE * self.half.sum(dtype=np.float64)
        if not frame.is_plain or rest.sum(dtype=np.float64) > held:
            return None
        longest, least = np.sqrt(2.0 * float(self.half.max())), LEAST_REST * frame.typical
        off = (self.n_features + 8) * 2.0**-23
        length = np.sqrt(2 * np.maximum(rest, 0) + np.float32(least**2))
        points = np.column_stack([self.points, length - length.mean()])
        return Bounds(points, 2 * off * (longest + longest**2 / (2 * least)))


def leading_view(X: FloatArray, frame: Frame, n_axes: int, rng: np.random.Generator, team: Team) -> Leading | None:
    """Return the leading coordinates of wide data; None where they are not wide."""
    n_features = X.shape[1]
    if n_features <= WIDE:
        return None
    points, half = _rotated(X, frame, leading_directions(X, frame, n_axes, rng), team)
    return Leading(points, half, n_features)


def narrow_view(leading: Leading, truth: Truth, recall: float) -> Narrow | None:
    """Return the points in the coordinates that make a search for ``recall`` quickest; None for all of them."""
    points, half, n_features = leading.points, leading.half, leading.n_features
    ladder = [p for p in LADDER if p <= points.shape[1]]
    step = max(1, len(truth.rows) // RANKED)
    some = Truth(truth.rows[::step], truth.indices[::step], truth.distances[::step])
    ranks = _ranks(points, half, some, ladder, BETAS)
    n_others = truth.indices.shape[1]
    lost = LOST * (1 - recall)
    choices: list[tuple[float, tuple[int, float, int] | None]] = [(_cost(n_features, n_others, n_features), None)]
    for p, of_betas in zip(ladder, ranks, strict=True):
        for beta, rank in zip(BETAS, of_betas, strict=True):
            width = max(n_others + 2, int(np.quantile(rank, 1 - lost, method="higher")))
            if width <= MOST * n_others:
                choices.append((_cost(p, width, n_features), (p, beta, width)))
    best = min(choices, key=lambda choice: choice[0])[1]
    if best is None:
        return None
    p, beta, width = best
    rank = _ranks(points, half, truth, [p], (beta,))[0, 0]
    narrow = np.ascontiguousarray(points[:, :p])
    return Narrow(narrow, np.float32(beta) * np.maximum(half - half_norms(narrow), 0), width, rank)


def leading_directions(X: FloatArray, frame: Frame, n_axes: int, rng: np.random.Generator) -> Float32Array:
    """Return orthonormal columns that span about the directions of largest variance, the largest first."""
    rows = rng.choice(len(X), min(SAMPLE, len(X)), replace=False)
    sample = frame.place_float32(X, rows)
    axes = rng.standard_normal((X.shape[1], min(n_axes + SPARE, X.shape[1])), dtype=np.float32)
    for _ in range(2):
        axes = np.linalg.qr(sample.T @ (sample @ axes))[0]
    seen = sample @ axes
    turn = np.linalg.eigh((seen.T @ seen).astype(np.float64))[1][:, ::-1]
    return np.ascontiguousarray((axes @ turn[:, :n_axes]).astype(np.float32))


def _rotated(X: FloatArray, frame: Frame, axes: Float32Array, team: Team) -> tuple[Float32Array, Float32Array]:
    """Return the leading coordinates of all points, and |x − c|²/2."""
    points, half = np.empty((len(X), axes.shape[1]), np.float32), np.empty(len(X), np.float32)

    def rotate(first: int) -> None:
        part = slice(first, first + CHUNK // 4)
        placed = frame.place_float32(X, part)
        np.matmul(placed, axes, out=points[part])
        half[part] = half_norms(placed)

    team.each(rotate, range(0, len(X), CHUNK // 4))
    return points, half


def _ranks(
    points: Float32Array, half: Float32Array, truth: Truth, ladder: Sequence[int], betas: Sequence[float]
) -> IntArray:
    """Return the rank of each true neighbour by number of coordinates and β, shape (p, β, n_sampled, n_neighbors)."""
    rows, wanted = truth.rows, truth.indices
    mine = points[rows]
    counts = np.zeros((len(ladder), len(betas), *wanted.shape), np.int64)
    order = np.empty(counts.shape, np.int64)
    limits = np.empty(counts.shape, np.float32)
    pieces = zip([0, *ladder[:-1]], ladder, strict=True)
    narrow = np.cumsum([half_norms(points[:, before:p]) for before, p in pieces], axis=0)
    for i, p in enumerate(ladder):
        products = np.einsum("ij,ikj->ik", mine[:, :p], points[wanted, :p])
        for j, beta in enumerate(betas):
            tall = _tall(narrow[i], half, beta)
            score = tall[rows][:, None] + tall[wanted] - products
            order[i, j] = np.argsort(score, axis=1)
            limits[i, j] = np.take_along_axis(score, order[i, j], axis=1)
    for first in range(0, len(points), CHUNK // 2):
        part = slice(first, first + CHUNK // 2)
        products = mine[:, : ladder[0]] @ points[part, : ladder[0]].T
        for i, p in enumerate(ladder):
            if i > 0:
                products += mine[:, ladder[i - 1] : p] @ points[part, ladder[i - 1] : p].T
            for j, beta in enumerate(betas):
                mine_tall = _tall(narrow[i, rows], half[rows], beta)
                tall = _tall(narrow[i, part], half[part], beta)
                count_nearer(products, mine_tall, tall, limits[i, j], counts[i, j])
    ranks = np.empty_like(counts)
    np.put_along_axis(ranks, order, np.cumsum(counts, axis=-1), axis=-1)
    return ranks


def _tall(narrow: Float32Array, half: Float32Array, beta: float) -> Float32Array:
    """What the score of a pair counts for each of its points."""
    return np.asarray(narrow + np.float32(beta) * np.maximum(half - narrow, 0))


def _cost(p: int, width: int, n_features: int) -> float:
    return SWEEP + PER_COORDINATE * p + width * (KEEP + MEASURE * n_features)
