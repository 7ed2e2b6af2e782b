"""Whether one round among the neighbours of neighbours beats sweeping further: it does not (decision 3).

    python benchmarks/local_join.py        # made features, leading coordinates of MNIST's pixels; STEEP_DATA

Lists of a low recall are taken from the engine. Then each point meets the first w neighbours of its first w neighbours,
and each such pair is offered to both. Printed are CPU seconds and recall, beside those of the engine asked for more;
kept in results/local_join.json.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from numba import njit

from neighbor_data import feature_like, mnist_pixels
from neighbors import K, exact_neighbors, recall_of
from reproduction.records import machine, write_json
from steep.neighbors import neighbor_graph
from steep.neighbors.cells import cut
from steep.neighbors.frame import Frame
from steep.neighbors.kernels.best import knows, push
from steep.neighbors.narrow import leading_view
from steep.neighbors.threads import threads

SAMPLED = 500
WIDTHS = (5, 8, 12)


@njit(fastmath=True)
def score_of(X, a, b):
    total = np.float32(0)
    for f in range(X.shape[1]):
        step = X[a, f] - X[b, f]
        total += step * step
    return np.float32(0.5) * total


@njit
def local_join(X, known, score, index, top, seen, width):
    """Offer the neighbours of neighbours; ``known`` are the sorted lists before."""
    for q in range(known.shape[0]):
        seen[q] = q
        for j in range(known.shape[1]):
            seen[known[q, j]] = q
        for j in range(width):
            for m in known[known[q, j], :width]:
                if seen[m] == q:
                    continue
                seen[m] = q
                found = score_of(X, q, m)
                if found < top[q]:
                    push(score, index, q, found, m)
                    top[q] = score[q, 0]
                if found < top[m] and not knows(index[m], q):
                    push(score, index, m, found, q)
                    top[m] = score[m, 0]


def in_cell_order(X):
    with threads(1) as team:
        cells = cut(X, Frame.of(X), 600, np.random.default_rng(0), team)
    return np.ascontiguousarray(X[cells.order])


def leading(X):
    with threads(1) as team:
        return leading_view(X, Frame.of(X), 64, np.random.default_rng(0), team).points


def measure(X):
    """Rows of (recall asked, width of the round, CPU seconds, recall)."""
    rows = np.random.default_rng(1).choice(len(X), SAMPLED, replace=False)
    truth, table = exact_neighbors(X, rows), []
    for asked in (0.8, 0.9, 0.99):
        neighbor_graph(X[:25_000], n_neighbors=K, recall=asked, random_state=0)
        seconds = []
        for _ in range(3):
            begun = time.process_time()
            distances, indices = neighbor_graph(X, n_neighbors=K, include_self=False, recall=asked, random_state=0)
            seconds.append(time.process_time() - begun)
        table.append((asked, 0, min(seconds), recall_of(X, rows, truth, indices[rows])))
        table += [(asked, w, *joined(X, distances, indices, rows, truth, w)) for w in WIDTHS]
    return table


def joined(X, distances, indices, rows, truth, width):
    seconds = []
    for _ in range(3):
        score = np.ascontiguousarray(0.5 * distances[:, ::-1] ** 2)
        index, top, seen = np.ascontiguousarray(indices[:, ::-1]), score[:, 0].copy(), np.full(len(X), -1)
        begun = time.process_time()
        local_join(X, indices, score, index, top, seen, width)
        seconds.append(time.process_time() - begun)
    return min(seconds), recall_of(X, rows, truth, index[rows])


def main():
    data = {
        "made features": in_cell_order(feature_like(50_000)[0]),
        "MNIST, 64 leading coordinates": in_cell_order(leading(mnist_pixels()[0])),
    }
    found = {}
    for name, X in data.items():
        found[name] = [
            {"asked": a, "width": w, "cpu_s": round(s, 3), "recall": round(r, 4)} for a, w, s, r in measure(X)
        ]
        for line in found[name]:
            print(name, line, flush=True)
    write_json(Path(__file__).parent / "results" / "local_join.json", {"machine": machine(), "rounds": found})


if __name__ == "__main__":
    main()
