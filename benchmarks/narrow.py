"""How many candidates a search in few coordinates must keep: by number of coordinates and by β (narrow.py).

    python benchmarks/narrow.py        # MNIST's and CIFAR-10's pixels, STEEP_DATA; kept in results/narrow.json

For 150 sampled points of 20,000, the rank below which 99.5 % of the 20 true neighbours lie. "bound" is the rank by
|z_x − z_y|² + (r_x − r_y)², which exact search uses.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from neighbor_data import cifar_pixels, mnist_pixels
from reproduction.records import machine, write_json
from steep.neighbors.frame import Frame
from steep.neighbors.lists import Join, threads
from steep.neighbors.narrow import BETAS, LADDER, _ranks, _rotated, leading_directions
from steep.neighbors.recall import Truth, exact_sample

N, SAMPLED, K, SHARE = 20_000, 150, 20, 0.995


def needed(X):
    """Candidates by coordinates and β."""
    rng = np.random.default_rng(0)
    X = X[rng.choice(len(X), N, replace=False)]
    frame = Frame.of(X)
    with threads(1) as team:
        truth = exact_sample(Join(X, frame, K, False, team), 400, rng)
        truth = Truth(truth.rows[:SAMPLED], truth.indices[:SAMPLED], truth.distances[:SAMPLED])
        points, half = _rotated(X, frame, leading_directions(X, frame, LADDER[-1], rng), team)
    ranks = _ranks(points, half, truth, LADDER, BETAS)
    table = {}
    for p, by_beta in zip(LADDER, ranks, strict=True):
        row = {f"β = {beta:g}": int(np.quantile(r, SHARE)) for beta, r in zip(BETAS, by_beta, strict=True)}
        table[p] = {**row, "bound": int(np.quantile(bound_ranks(points[:, :p], half, truth), SHARE))}
    return table


def bound_ranks(points, half, truth):
    """Rank of the true neighbours by the lower bound."""
    norm = np.einsum("ij,ij->i", points, points)
    rest = np.sqrt(np.maximum(2 * half - norm, 0))
    rows = truth.rows
    score = norm[rows][:, None] + norm - 2 * points[rows] @ points.T + (rest[rows][:, None] - rest) ** 2
    mine = np.take_along_axis(score, truth.indices, axis=1)
    return np.array([np.searchsorted(np.sort(line), values) for line, values in zip(score, mine, strict=True)])


def main():
    found = {name: needed(make()[0]) for name, make in (("mnist", mnist_pixels), ("cifar10", cifar_pixels))}
    write_json(Path(__file__).parent / "results" / "narrow.json", {"machine": machine(), "candidates": found})
    for name, table in found.items():
        for p, row in table.items():
            print(name, p, row)


if __name__ == "__main__":
    main()
