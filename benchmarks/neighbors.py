"""Steep's neighbour graph beside its peers, each tuned: one run, one thread each, the same data.

    python benchmarks/neighbors.py run --part development          # resumable, one line a measurement
    python benchmarks/neighbors.py run --part unseen               # once, when the engine is done
    python benchmarks/neighbors.py run --part quick                # small sizes, to see that everything runs
    python benchmarks/neighbors.py run --part development --only mnist-pixels --method steep pynndescent
    python benchmarks/neighbors.py summary                         # ratios; kept in results/neighbors.json

STEEP_DATA names the folder of MNIST, CIFAR-10 and the tables. Each measurement is a process of its own, so that its
peak memory is its own; compiling is excluded. The true neighbours of sampled points, found by plain NumPy, tell the
recall. Each peer has about fifteen settings (neighbor_peers.py), steep the recalls it is asked for. At recall .80,
.95 and .99 the quickest setting that reaches it counts, in CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "VECLIB_MAXIMUM")}
os.environ.update(ONE_THREAD)

import numpy as np  # noqa: E402  after the thread counts

from neighbor_data import DEVELOPMENT, cube, feature_like, flat  # noqa: E402
from neighbor_data_unseen import UNSEEN, embedding_like  # noqa: E402
from neighbor_peers import K, is_installed, settings_of  # noqa: E402
from steep.records import Records, machine, write_json  # noqa: E402

RESULTS = Path(__file__).parent / "results"
CACHE = Path(os.environ.get("STEEP_CACHE", tempfile.gettempdir())) / "steep-neighbors"
QUICK = {
    "features-5k": partial(feature_like, 5_000),
    "embedding-3k": partial(embedding_like, 3_000),
    "flat-3k": partial(flat, 3_000, 32),
    "cube-5k": partial(cube, 5_000),
}
PARTS = {"development": DEVELOPMENT, "unseen": UNSEEN, "quick": QUICK}
LEVELS = (0.80, 0.95, 0.99)
RECALLS = (0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995)
SAMPLED = 1_000
MOST_SECONDS = 3_600
OURS = ("steep", "steep refined", "steep exact")


# ---------------------------------------------------------------------------------------------- data


def load(part, name):
    """The data with the true neighbours of sampled points, made once and kept between processes."""
    CACHE.mkdir(parents=True, exist_ok=True)
    file = CACHE / f"{part}-{name}.npz"
    if not file.exists():
        X, y = PARTS[part][name]()
        X = np.ascontiguousarray(X, np.float32)
        rows = np.random.default_rng(1).choice(len(X), min(len(X), SAMPLED), replace=False)
        np.savez(file.with_suffix(".tmp.npz"), X=X, y=y, rows=rows, truth=exact_neighbors(X, rows))
        file.with_suffix(".tmp.npz").replace(file)
    stored = np.load(file, allow_pickle=False)
    return stored["X"], stored["y"], stored["rows"], stored["truth"]


def exact_neighbors(X, rows):
    """Plain NumPy: float32 products to shortlist, float64 differences to decide."""
    centered = (X - X.mean(axis=0, dtype=np.float64)).astype(np.float32)
    half = np.einsum("ij,ij->i", centered, centered) / 2
    truth = np.empty((len(rows), K), np.int64)
    for s in range(0, len(rows), 50):
        part = rows[s : s + 50]
        score = half - centered[part] @ centered.T
        short = np.argpartition(score, min(3 * K, len(X) - 1), axis=1)[:, : 3 * K]
        for i, q in enumerate(part):
            near = np.sort(short[i][short[i] != q])
            squared = ((X[near].astype(np.float64) - X[q]) ** 2).sum(axis=1)
            truth[s + i] = near[np.argsort(squared, kind="stable")[:K]]
    return truth


def recall_of(X, rows, truth, indices):
    """Share of the K places filled by points no farther than the K-th true one; the point itself is no neighbour."""
    found = np.empty(len(rows))
    for i, q in enumerate(rows):
        mine = [m for m in dict.fromkeys(indices[i].tolist()) if m != q and 0 <= m < len(X)][:K]
        last = np.linalg.norm(X[truth[i, -1]].astype(np.float64) - X[q])
        far = np.linalg.norm(X[mine].astype(np.float64) - X[q], axis=1)
        found[i] = (far <= last * (1 + 1e-6)).sum() / K
    return float(found.mean())


def local_variance(y, rows, indices):
    """1 − Σ p² of the labels of each row and its neighbours."""
    group = np.column_stack([y[rows], y[indices]])
    share = np.stack([(group == c).mean(axis=1) for c in np.unique(y)])
    return 1 - (share**2).sum(axis=0)


# ------------------------------------------------------------------------------------------- methods


def ours(X, y, *, method, recall=0.95, n_jobs=1):
    """One of steep's own."""
    from steep.neighbors import neighbor_graph, refined_graph

    options = {
        "n_neighbors": K,
        "include_self": False,
        "random_state": 0,
        "n_jobs": n_jobs,
        "return_info": True,
    }
    if method == "steep exact":
        _, indices, info = neighbor_graph(X, algorithm="exact", **options)
    elif method == "steep refined":
        _, indices, info = refined_graph(X, y, recall=recall, **options)
    else:
        _, indices, info = neighbor_graph(X, recall=recall, **options)
    return indices, {
        "used": info.algorithm,
        "estimated": info.estimated_recall,
        "coordinates": info.n_coordinates,
    }


def choices(X, methods):
    """(method, settings) of everything that is to be measured on some data."""
    unit = bool(np.allclose(np.linalg.norm(X[:100], axis=1), 1, atol=1e-3))
    found = [("steep", {"recall": r}) for r in RECALLS] + [("steep refined", {"recall": 0.95})]
    found += [("steep", {"recall": 0.95, "n_jobs": 2}), ("steep exact", {})]
    for peer, settings in settings_of(len(X), X.shape[1], unit).items():
        if is_installed(peer):
            found += [(peer, values) for _, values in settings]
        else:
            print(f"{peer} is not installed and left out; make bench installs the peers", file=sys.stderr)
    return [(method, values) for method, values in found if not methods or method in methods]


def measure(part, name, method, values):
    """Time one method with one setting; runs in a process of its own."""
    X, y, rows, truth = load(part, name)
    if method in OURS:
        call = partial(ours, method=method, **values)
    else:
        unit = True
        function = next(f for f, v in settings_of(len(X), X.shape[1], unit)[method] if v == values)
        call = lambda X, y: (function(X, **values), {})  # noqa: E731
    if method in OURS or method.startswith(("pynn", "evoc")):  # load the compiled kernels
        small = np.random.default_rng(0).normal(size=(3_000, X.shape[1])).astype(np.float32)
        call(small / np.linalg.norm(small, axis=1, keepdims=True), np.arange(3_000) % 2)
        if method in OURS and X.shape[1] > 10:
            from steep.neighbors import neighbor_graph

            neighbor_graph(small, n_neighbors=K, algorithm="partitioned", random_state=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    while len(times) < 3 and sum(cpu for cpu, _ in times) < 5:
        cpu, wall = time.process_time(), time.perf_counter()
        indices, extra = call(X, y)
        times.append((time.process_time() - cpu, time.perf_counter() - wall))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = np.asarray(indices)[rows]
    clean = np.where((found >= 0) & (found < len(X)), found, rows[:, None])
    others = np.array([[m for m in line if m != q][:K] + [q] * max(0, K - (line != q).sum()) for q, line in zip(rows, clean, strict=True)])  # fmt: skip  # noqa: E501
    exact, mine = local_variance(y, rows, truth), local_variance(y, rows, others)
    return {
        "cpu_s": min(cpu for cpu, _ in times), "wall_s": min(wall for _, wall in times), "runs": len(times),
        "recall": recall_of(X, rows, truth, found),
        "correlation": float(np.corrcoef(exact, mine)[0, 1]) if exact.std() > 0 and mine.std() > 0 else None,
        "peak_mib": peak / 1024, "search_mib": (peak - before) / 1024, "data_mib": X.nbytes / 2**20,
        "shape": list(X.shape), **extra,
    }  # fmt: skip


def run(options):
    records = Records(RESULTS / f"neighbors-{options.part}.jsonl")
    for name in options.only or PARTS[options.part]:
        X = load(options.part, name)[0]
        todo = choices(X, options.method)
        del X
        keys = {
            (name, f"{method} {json.dumps(values, sort_keys=True)}", 0): (method, values)
            for method, values in todo
        }
        for key in records.missing(list(keys)):
            method, values = keys[key]
            result = in_a_process(options.part, name, method, values)
            records.add(*key, result=result, settings={"method": method, **values})
            print(name, method, values, {k: result.get(k) for k in ("recall", "cpu_s", "failed")}, flush=True)


def in_a_process(part, name, method, values):
    """Measure in a child; return its result, or why there is none."""
    command = [sys.executable, __file__, "measure", part, name, method, json.dumps(values)]
    environment = {**os.environ, **ONE_THREAD}
    try:
        child = subprocess.run(
            command, capture_output=True, text=True, env=environment, check=False, timeout=MOST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {MOST_SECONDS} s"}
    if child.returncode:
        return {"failed": (child.stderr.strip().splitlines() or ["no message"])[-1][:300]}
    return json.loads(child.stdout.strip().splitlines()[-1])


# ------------------------------------------------------------------------------------------- summary


def fastest(lines, level, *, mine, key="recall"):
    """Least CPU seconds, one thread, of what reaches a level, ours or the peers'; and who it is."""
    kept = [
        line for line in lines
        if (line["settings"]["method"] in OURS) == mine and line["settings"].get("n_jobs", 1) == 1
        and (line["result"].get(key) or 0) >= level
    ]  # fmt: skip
    best = min(kept, key=lambda line: line["result"]["cpu_s"], default=None)
    return (None, None) if best is None else (best["result"]["cpu_s"], best["settings"]["method"])


def summarise(lines):
    """Ratios by data set and level, and their geometric means."""
    table = {}
    for name in dict.fromkeys(line["experiment"] for line in lines):
        mine = [line for line in lines if line["experiment"] == name]
        row = {}
        for label, level, key in [(f"{v:g}", v, "recall") for v in LEVELS] + [
            ("variance", 0.998, "correlation")
        ]:
            (we, _), (they, peer) = (
                fastest(mine, level, mine=True, key=key),
                fastest(mine, level, mine=False, key=key),
            )
            if we and they:
                row[label] = {
                    "ours": round(we, 2),
                    "peer": peer,
                    "theirs": round(they, 2),
                    "ratio": round(they / we, 2),
                }
        exact = {line["settings"]["method"]: line["result"].get("cpu_s") for line in mine}
        if exact.get("steep exact") and exact.get("faiss Flat"):
            row["exact"] = round(exact["faiss Flat"] / exact["steep exact"], 2)
        table[name] = row
    means = {}
    for level in [f"{v:g}" for v in LEVELS] + ["variance"]:
        ratios = [row[level]["ratio"] for row in table.values() if level in row]
        if ratios:
            means[level] = {
                "geometric mean": round(float(np.exp(np.mean(np.log(ratios)))), 2),
                "ahead": sum(r > 1 for r in ratios), "of": len(ratios),
            }  # fmt: skip
    return {"means": means, "data": table}


def promises(lines):
    """How far the recall reached is above the recall asked for, over all of steep's lines."""
    over = [
        line["result"]["recall"] - line["settings"]["recall"]
        for line in lines
        if line["settings"]["method"] == "steep" and line["result"].get("used") == "partitioned"
    ]
    return {
        "runs": len(over),
        "kept": sum(v >= 0 for v in over),
        "median over": float(np.median(over)) if over else None,
    }


def summary(options):
    found = {"machine": machine(), "threads": 1}
    for part in ("unseen", "development"):
        file = RESULTS / f"neighbors-{part}.jsonl"
        if file.exists():
            lines = [line for line in Records(file) if "failed" not in line["result"]]
            found[part] = {**summarise(lines), "promise": promises(lines)}
    write_json(RESULTS / "neighbors.json", found)
    print(json.dumps(found, indent=1))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("--part", choices=list(PARTS), default="development")
    runner.add_argument("--only", nargs="+")
    runner.add_argument("--method", nargs="+")
    runner.set_defaults(call=run)
    summer = commands.add_parser("summary")
    summer.set_defaults(call=summary)
    child = commands.add_parser("measure")
    child.add_argument("what", nargs=4)
    child.set_defaults(call=lambda o: print(json.dumps(measure(*o.what[:3], json.loads(o.what[3])))))
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
