"""How long re-training a head takes, beside the paper's way; and the other batched computations of steep.nn.

    python benchmarks/improve.py [head] [grid] [derivatives] [ensemble] [--threads 2]

head         features of 50,000 × 64, 10 classes → weights → head; peer: nmslib's HNSW and Adam (batch 25, 25 epochs);
             what both searches miss is told by how the label variances correlate with those of all neighbours
grid         a whole ``improve``: 5 λ × 6 ratios × 3 k = 90 weighted heads, 5 with equal weights; peer: that one fit
large        1,000 classes × 512 features × 100,000 samples with ``time_limit=120``; 20,000 held-out samples
derivatives  ∂^k f to order 2 of a function 3 → 2 at 1,000,000 points; peer: autograd point by point (on 300 of them)
ensemble     50 networks of 8 units on 16 points; peer: each trained by itself with torch.optim.Adam

All parts run with the same number of threads in the same process, after one small call each, so that neither imports
nor compilation are timed. Results are merged into results/improve.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import steep
import steep.nn
from reproduction.ensemble import train_ensemble
from reproduction.records import write_json
from steep.measures.neighborhood import RECALL_OF_HEADS
from steep.measures.taylor import multi_indices
from steep.measures.variance import neighbor_variance
from steep.nn.heads import Head, HeadProblem

N, D, C, N_VALIDATION = 50_000, 64, 10, 10_000
N_NEIGHBORS, WEIGHT_RATIO, L2 = 20, 40.0, 1e-4
EPOCHS, BATCH, LEARNING_RATE = 25, 25, 1e-3
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
clock = "wall"
RESULTS = Path(__file__).parent / "results" / "improve.json"


def make_features(n, seed=0):
    """Features like those before the head of an image network: ≥ 0, correlated, classes that overlap a little."""
    world = np.random.default_rng(0)
    centres, mixing = world.normal(size=(C, D)), np.eye(D) + world.normal(size=(D, D)) / np.sqrt(D)
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, C, n)
    return np.maximum(0, (0.6 * centres[labels] + rng.normal(size=(n, D))) @ mixing).astype(np.float32), labels


def timed(function):
    start = CLOCKS[clock]()
    result = function()
    return CLOCKS[clock]() - start, result


def our_head(features, labels):
    seconds_weights, weight = timed(
        lambda: steep.rescale(
            neighbor_variance(
                features,
                labels,
                n_neighbors=N_NEIGHBORS,
                neighbors=steep.neighbor_graph(
                    features, n_neighbors=N_NEIGHBORS, recall=RECALL_OF_HEADS, random_state=0
                ),
            ),
            weight_ratio=WEIGHT_RATIO,
        )
    )
    seconds_head, head = timed(
        lambda: next(HeadProblem(features, labels, n_outputs=C, link="softmax").path([weight], [L2]))[1][0]
    )
    return seconds_weights, seconds_head, head, weight


def paper_head(features, labels, threads):
    """The authors' way: an HNSW index, its own neighbours, and Adam from a random start."""
    import nmslib

    def weights():
        index = nmslib.init(method="hnsw", space="l2")
        index.addDataPointBatch(features)
        index.createIndex({"post": 2, "indexThreadQty": threads})
        found = index.knnQueryBatch(features, k=N_NEIGHBORS, num_threads=threads)
        short = [np.resize(neighbors, N_NEIGHBORS) for neighbors, _ in found]
        variation = neighbor_variance(features, labels, n_neighbors=N_NEIGHBORS, neighbors=np.array(short))
        return steep.rescale(variation, weight_ratio=WEIGHT_RATIO)

    seconds_weights, weight = timed(weights)
    # Adam minimises the very same objective: our λ is relative to the features' mean variance.
    penalty = L2 * float(features.var(axis=0).mean())
    seconds_head, head = timed(lambda: adam_head(features, labels, weight, penalty))
    return seconds_weights, seconds_head, head, weight


def adam_head(features, labels, weight, penalty):
    """A softmax head by Adam on shuffled mini-batches, from a random start; ``penalty`` is that of ½ λ ‖W‖²."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    z, y, w = torch.from_numpy(features), torch.from_numpy(labels), torch.as_tensor(weight, dtype=torch.float32)
    head = nn.Linear(D, C)
    optimizer = torch.optim.Adam(head.parameters(), lr=LEARNING_RATE)
    for _ in range(EPOCHS):
        for rows in torch.split(torch.randperm(len(z), generator=generator), BATCH):
            optimizer.zero_grad()
            losses = w[rows] * functional.cross_entropy(head(z[rows]), y[rows], reduction="none")
            (losses.mean() + penalty / 2 * (head.weight**2).sum()).backward()
            optimizer.step()
    return Head(head.weight.detach().double().numpy(), head.bias.detach().double().numpy())


def objective(head, features, labels, weight):
    problem = HeadProblem(features.astype(np.float64), labels, n_outputs=C, link="softmax")
    inner = problem.problem
    theta = problem.parameters(head)
    losses = -np.log(inner.probabilities(theta[None], inner.inputs[:])[0][labels, np.arange(len(labels))])
    return float(np.mean(weight * losses) + L2 / 2 * (inner.held * theta**2).sum())


def measure_head(threads):
    features, labels = make_features(N)
    our_head(*make_features(25_000, seed=9))
    our_weights, our_fit, head, weight = our_head(features, labels)
    peer_weights, peer_fit, peer, peer_weight = paper_head(features, labels, threads)
    everyone = steep.neighbor_graph(features, n_neighbors=N_NEIGHBORS, recall=1.0)
    exact = neighbor_variance(features, labels, n_neighbors=N_NEIGHBORS, neighbors=everyone)
    ours, theirs = our_weights + our_fit, peer_weights + peer_fit
    return {
        "our_seconds": ours, "our_weights_seconds": our_weights, "our_head_seconds": our_fit,
        "peer_seconds": theirs, "peer_weights_seconds": peer_weights, "peer_head_seconds": peer_fit,
        "times_faster": theirs / ours, "head_times_faster": peer_fit / our_fit,
        "our_correlation": float(np.corrcoef(weight, exact)[0, 1]),
        "peer_correlation": float(np.corrcoef(peer_weight, exact)[0, 1]),
        "our_objective": objective(head, features, labels, weight),
        "peer_objective": objective(peer, features, labels, weight), "goal": "times_faster ≥ 60, smaller objective",
    }  # fmt: skip


def measure_grid(threads):
    features, labels = (torch.as_tensor(part) for part in make_features(N))
    validation = [torch.as_tensor(part) for part in make_features(N_VALIDATION, seed=1)]
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(D, C))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for rows in torch.randperm(N, generator=torch.Generator().manual_seed(0)).split(500):
        optimizer.zero_grad()
        functional.cross_entropy(network(features[rows]), labels[rows]).backward()
        optimizer.step()
    seconds, result = timed(lambda: steep.nn.improve(network, (features, labels), tuple(validation)))
    saved = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    peer = saved.get("head", {}).get("peer_seconds")
    return {"seconds": seconds, "heads": len(result.candidates) - 1, "verdict": str(result.verdict),
            "peer_one_fit_seconds": peer, "share_of_peer": seconds / peer if peer else None,
            "goal": "share_of_peer ≤ 0.08"}  # fmt: skip


def measure_large(_):
    """A head of 1,000 classes as trained for one pass, features in single precision."""
    n_classes, n_features, n, n_held_out = 1000, 512, 100_000, 20_000
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(n_classes, n_features)).astype(np.float32) * 0.15
    labels = rng.integers(0, n_classes, n + n_held_out)
    features = centres[labels] + rng.normal(size=(n + n_held_out, n_features)).astype(np.float32)
    x, y = torch.as_tensor(features), torch.as_tensor(labels)
    torch.manual_seed(0)
    network = nn.Linear(n_features, n_classes)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for rows in torch.arange(n).split(2000):
        optimizer.zero_grad()
        functional.cross_entropy(network(x[rows]), y[rows]).backward()
        optimizer.step()
    search = steep.nn.HeadSearch(time_limit=120.0)
    seconds, result = timed(lambda: steep.nn.improve(network, (x[:n], y[:n]), (x[n:], y[n:]), search=search))
    return {"seconds": seconds, "heads": len(result.candidates) - 1, "verdict": str(result.verdict),
            "goal": "wall seconds ≤ 300 on two cores"}  # fmt: skip


def bent(x):
    return torch.stack([torch.sin(3 * x[:, 0]) * x[:, 1] ** 2 + x[:, 2], torch.exp(x[:, 0] * x[:, 2])], dim=1)


def point_by_point(points):
    """Hessians by autograd, one output of one point at a time, as in the authors' code."""
    for point in points:
        for output in range(2):
            torch.autograd.functional.hessian(lambda x, output=output: bent(x[None])[0, output], point)


def measure_derivatives(_):
    n, n_peer = 1_000_000, 300
    points = np.random.default_rng(0).uniform(-1, 1, (n, 3))
    derivatives, indices = steep.nn.torch_derivatives(bent), multi_indices(3, 2)
    derivatives(points[:10], indices)
    point_by_point(torch.as_tensor(points[:2]))
    ours, _ = timed(lambda: derivatives(points, indices))
    peer, _ = timed(lambda: point_by_point(torch.as_tensor(points[:n_peer])))
    return {"our_seconds": ours, "peer_seconds_extrapolated": peer * n / n_peer,
            "times_faster": peer * n / n_peer / ours, "goal": "times_faster ≥ 500"}  # fmt: skip


def measure_ensemble(_):
    x = np.linspace(0, 1, 16)[:, None]
    y, epochs, members = 1 / (1 + 25 * (x - 0.5) ** 2), 2000, 50
    settings = {"layers": (8,), "learning_rate": 1e-3}
    train_ensemble(x, y, seeds=range(2), epochs=2, **settings)
    ours, ensemble = timed(lambda: train_ensemble(x, y, seeds=range(members), epochs=epochs, **settings))
    alone = train_ensemble(x, y, seeds=[0], epochs=0, **settings).network(0)
    inputs, targets = (torch.as_tensor(part, dtype=torch.float32) for part in (x, y))
    optimizer = torch.optim.Adam(alone.parameters())

    def train():
        for _ in range(epochs):
            optimizer.zero_grad()
            functional.mse_loss(alone(inputs), targets).backward()
            optimizer.step()

    one, _ = timed(train)
    difference = float(np.abs(alone(inputs).detach().numpy() - ensemble.predict(x)[0]).max())
    return {"our_seconds": ours, "peer_seconds": one * members, "times_faster": one * members / ours,
            "largest_difference": difference, "goal": "times_faster ≥ 20"}  # fmt: skip


PARTS = {
    "head": measure_head,
    "grid": measure_grid,
    "large": measure_large,
    "derivatives": measure_derivatives,
    "ensemble": measure_ensemble,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)}; default all")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu, with one thread, on a busy machine")
    arguments = parser.parse_args()
    global clock
    clock = arguments.clock
    torch.set_num_threads(arguments.threads)
    RESULTS.parent.mkdir(exist_ok=True)
    for name in arguments.parts or PARTS:
        result = PARTS[name](arguments.threads) | {
            "threads": arguments.threads,
            "clock": clock,
            "load": os.getloadavg()[0],
        }
        saved = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        write_json(RESULTS, saved | {name: result})
        print(name)
        for key, value in result.items():
            print(f"  {key:28} {value:.4g}" if isinstance(value, float) else f"  {key:28} {value}", flush=True)


if __name__ == "__main__":
    main()
