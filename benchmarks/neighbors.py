"""Steep's neighbour graph beside its peers, each tuned: one run, one thread each, the same data.

    taskset -c 1 python benchmarks/neighbors.py run --part development          # resumable, one line a measurement
    taskset -c 1 python benchmarks/neighbors.py run --part unseen               # tunes the peers
    taskset -c 1 python benchmarks/neighbors.py final --part unseen --again     # ours beside the best of them
    python benchmarks/neighbors.py run --part unseen --method pipnn pyglass --only letter protein    # tunes two more
    python benchmarks/neighbors.py run --part quick                # small sizes, to see that everything runs
    python benchmarks/neighbors.py run --part development --only mnist-pixels --method steep pynndescent
    python benchmarks/neighbors.py promise                         # 10 data sets x 10 seeds: is the recall kept
    python benchmarks/neighbors.py growth                          # 10,000 to 3,000,000 points at recall .95
    python benchmarks/neighbors.py summary                         # ratios; kept in results/neighbors.json

STEEP_DATA names the folder of MNIST, CIFAR-10 and the tables. One process a method loads the data and what is
compiled, then forks for every measurement, so that its peak memory is its own and compiling is excluded. The true
neighbours of sampled points, found by plain NumPy, tell the recall. Each peer has about fifteen settings
(neighbor_peers.py), steep the recalls it is asked for. At recall .80, .95 and .99 the quickest setting that
reaches it counts, in CPU seconds.

Let t be the least CPU time of any peer at a level; a peer is stopped at 1.1 times the longest t of the three recalls
and correlation .998, for then it cannot be the best at any of them, or after ``--most`` seconds where a level is not
reached by anyone yet. Nor can a setting be the best that does at least as much in every respect (candidates, probes,
...) as one that was stopped or that reached all levels: it is not run. Above 400,000 points every
setting of a peer is run on 50,000 rows of the same data first; its quickest at each level are run in full, and the
next quickest that found more where those fall short of the level there. Flat search of all of them is told from a
part of the questions.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "VECLIB_MAXIMUM")}
ONE_THREAD["NUMBA_THREADING_LAYER"] = "workqueue"  # OpenMP's cannot be forked
os.environ.update(ONE_THREAD)

import numpy as np  # noqa: E402  after the thread counts

from neighbor_data import DEVELOPMENT, cube, feature_like, flat, low_rank_clusters, mnist_pixels  # noqa: E402
from neighbor_data_unseen import UNSEEN, embedding_like, two_layers  # noqa: E402
from neighbor_peers import K, flat_part, is_installed, settings_of  # noqa: E402
from reproduction.records import Records, machine, write_json  # noqa: E402

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
ALIKE = 0.998  # correlation of the local variance with the exact one
RECALLS = (0.78, 0.8, 0.94, 0.95, 0.985, 0.99, 0.998)
SAMPLED = 1_000
MOST_SECONDS, UNLIMITED = 1_200, 3_600  # CPU, of one measurement
LARGE, FEW = 400_000, 50_000  # points above which settings are chosen on this many of them
TRIES = 3  # settings of a peer run in full for a level, at most
OURS = ("steep", "steep exact")


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
    with np.load(file, allow_pickle=False) as stored:
        return stored["X"], stored["y"], stored["rows"], stored["truth"]


def few_of(part, name):
    """A sample of large data, with its own truth, on which settings are chosen."""
    file = CACHE / f"{part}-{name}-few.npz"
    if not file.exists():
        X, y, _, _ = load(part, name)
        chosen = np.sort(np.random.default_rng(2).choice(len(X), FEW, replace=False))
        X, y = np.ascontiguousarray(X[chosen]), y[chosen]
        rows = np.random.default_rng(1).choice(FEW, SAMPLED, replace=False)
        np.savez(file.with_suffix(".tmp.npz"), X=X, y=y, rows=rows, truth=exact_neighbors(X, rows))
        file.with_suffix(".tmp.npz").replace(file)
    with np.load(file, allow_pickle=False) as stored:
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


def ours(X, y, *, method, recall=0.95, n_jobs=1, seed=0):
    """One of steep's own."""
    from steep.neighbors import neighbor_graph

    options = {"n_neighbors": K, "include_self": False, "random_state": seed, "n_jobs": n_jobs, "return_info": True}
    _, indices, info = neighbor_graph(X, recall=1 if method == "steep exact" else recall, **options)
    return indices, {"used": info.algorithm, "estimated": info.estimated_recall, "coordinates": info.n_coordinates}


def choices(X, methods):
    """Settings by method of everything that is to be measured on some data, ours first."""
    unit = bool(np.allclose(np.linalg.norm(X[:100], axis=1), 1, atol=1e-3))
    found = {"steep": [{"recall": r} for r in RECALLS] + [{"recall": 0.95, "n_jobs": 2}], "steep exact": [{}]}
    for peer, settings in settings_of(len(X), X.shape[1], unit).items():
        if is_installed(peer):
            found[peer] = [values for _, values in settings]
        else:
            print(f"{peer} is not installed and left out; make bench installs the peers", file=sys.stderr)
    if len(X) > LARGE and X.shape[1] > 10:  # minutes to hours; ours are kept to the levels
        del found["steep exact"]
        found["steep"] = [{"recall": r} for r in (0.8, 0.95, 0.99)] + [{"recall": 0.95, "n_jobs": 2}]
    return {method: found[method] for method in found if not methods or method in methods}


def function_of(method, values, X):
    """The call of one method with one setting: points and labels to indices and what else is known."""
    if method in OURS:
        return partial(ours, method=method, **values)
    function = peer_function(method, X)
    return lambda X, y: (function(X, **values), {})


def peer_function(method, X):
    """The function of a peer, the same for all its settings."""
    return settings_of(len(X), X.shape[1], True)[method][0][0]


def warm_up(method, values, X):
    """Import and compile what a method needs, on other data."""
    small = np.random.default_rng(0).normal(size=(3_000, X.shape[1])).astype(np.float32)
    small /= np.linalg.norm(small, axis=1, keepdims=True)
    if method not in OURS:
        small_values = {**values, "cells": 16} if "cells" in values else values
        peer_function(method, X)(small, **small_values)
        return
    function_of(method, values, X)(small, np.arange(3_000) % 2)
    if X.shape[1] > 10:
        from steep.neighbors.graph import search_graph

        search_graph(small, n_neighbors=K, algorithm="partitioned", random_state=0)


def measure(part, method, jobs):
    """Time one method on some data with some settings, each in a fork of this process; print one line each."""
    warm = set()
    for name, few, settings, limit in jobs:
        X, y, rows, truth = (few_of if few else load)(part, name)
        if method in OURS or not warm:
            warm_up(method, settings[0], X)
            warm.add(name)
        stopped = []
        for values in settings:
            if any(is_dearer(values, other) for other in stopped):
                result = {"stopped": "a cheaper setting of it was: cannot be the best"}
            else:
                result = forked(lambda v=values, d=(X, y, rows, truth): timed(method, v, *d), limit)
            if "stopped" in result:
                stopped.append(values)
            elif method not in OURS and is_enough(result) and limit < UNLIMITED:
                limit = min(limit, 1.1 * result["cpu_s"])
                stopped += [values]  # what does more of everything takes longer
            print(json.dumps({"name": name, "few": few, "values": values, "result": result}), flush=True)


def is_dearer(values, other):
    """Whether a setting does at least as much as another in every respect.

    Numbers of cells and trees do not compare: more of them may save more than they cost. Nor do kinds of numbers.
    """
    if values.keys() != other.keys() or any(values.get(n) != other.get(n) for n in ("cells", "n_trees", "quantizer")):
        return False
    return all(values[name] >= other[name] for name in values)


def is_enough(result):
    """Whether a result reaches every level, so that what is slower cannot be the best at any."""
    return result.get("recall", 0) >= LEVELS[-1] and (result["correlation"] or 1) >= ALIKE


def forked(task, limit):
    """The result of a task in a child process, which is stopped after ``limit`` seconds of CPU time."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.setitimer(signal.ITIMER_PROF, limit)  # no one listens: the process ends
        try:
            result = task()
        except Exception as error:  # a peer may reject some data: that is its result
            result = {"failed": f"{type(error).__name__}: {error}"[:300]}
        os.write(writer, json.dumps(result).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) == signal.SIGPROF:
            return {"stopped": f"after {limit:.2f} s: cannot be the best"}
        return {"failed": signal.strsignal(os.WTERMSIG(status))}
    return json.loads(said)


def timed(method, values, X, y, rows, truth):
    """Time one method with one setting, the best of three runs where they are short."""
    if values.get("n_jobs", 1) > 1:
        os.sched_setaffinity(0, range(os.cpu_count()))
    share = 1
    call = function_of(method, values, X)
    if method == "faiss Flat" and len(X) > LARGE:
        share = len(X) / FEW
        call = lambda X, y: (flat_part(X, rows), {"share": 1 / share})  # noqa: E731
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    while len(times) < 3 and sum(cpu for cpu, _ in times) < 5:
        cpu, wall = time.process_time(), time.perf_counter()
        indices, extra = call(X, y)
        times.append((time.process_time() - cpu, time.perf_counter() - wall))
        signal.setitimer(signal.ITIMER_PROF, 0)  # done once: it counts
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = np.asarray(indices).astype(np.int64)  # some peers count in unsigned numbers
    found = found if share > 1 else found[rows]
    clean = np.where((found >= 0) & (found < len(X)), found, rows[:, None])
    others = np.array([[m for m in line if m != q][:K] + [q] * max(0, K - (line != q).sum()) for q, line in zip(rows, clean, strict=True)])  # fmt: skip  # noqa: E501
    exact, mine = local_variance(y, rows, truth), local_variance(y, rows, others)
    return {
        "cpu_s": share * min(cpu for cpu, _ in times), "wall_s": share * min(wall for _, wall in times),
        "runs": len(times), "recall": recall_of(X, rows, truth, found),
        "correlation": float(np.corrcoef(exact, mine)[0, 1]) if exact.std() > 0 and mine.std() > 0 else None,
        "peak_mib": peak / 1024, "search_mib": (peak - before) / 1024, "data_mib": X.nbytes / 2**20,
        "shape": list(X.shape), **extra,
    }  # fmt: skip


# ------------------------------------------------------------------------------------------- running


def run(options):
    """Method by method, so that each is loaded and compiled once for all data."""
    records = Records(tuning_file(options.part))
    todo, large = {}, set()
    for name in options.only or PARTS[options.part]:
        X = load(options.part, name)[0]
        for method, settings in choices(X, options.method).items():
            todo.setdefault(method, {})[name] = settings
        if len(X) > LARGE:
            large.add(name)
        del X
    for method, by_name in todo.items():
        chosen = {name for name in by_name if name in large and method not in OURS and len(by_name[name]) > 1}
        jobs = [(name, name in chosen, settings) for name, settings in by_name.items()]
        run_some(records, options.part, method, jobs, options.most)
        for name in chosen:
            run_best(records, options.part, name, method, by_name[name], options.most)


def key_of(name, method, values, few=False):
    return (f"{name} few" if few else name, f"{method} {json.dumps(values, sort_keys=True)}", 0)


def run_some(records, part, method, jobs, most, *, limited=True):
    """Measure what is missing of some (data, whether few of them, settings) with one method."""
    missing = set(records.missing([key_of(name, method, v, few) for name, few, settings in jobs for v in settings]))
    left = []
    for name, few, settings in jobs:
        settings = [values for values in settings if key_of(name, method, values, few) in missing]
        if settings:
            unlimited = not limited or method in OURS or method == "faiss Flat"  # what exact search is held against
            limit = UNLIMITED if unlimited else limit_of(records, key_of(name, method, {}, few)[0], most)
            left.append((name, few, settings, limit))
    if not left:
        return
    command = [sys.executable, __file__, "measure", part, method, json.dumps(left)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **ONE_THREAD}) as child:
        for said in child.stdout:
            if not said.startswith("{"):
                continue
            line = json.loads(said)
            name, few, values, result = line["name"], line["few"], line["values"], line["result"]
            records.add(*key_of(name, method, values, few), result=result, settings={"method": method, **values})
            shown = {k: result[k] for k in ("recall", "cpu_s", "failed", "stopped") if k in result}
            print(name, "few" if few else "", method, values, shown, flush=True)


def limit_of(records, experiment, most):
    """CPU seconds after which no peer can be the best at any level any more."""
    results = [
        line["result"] for line in records
        if line["experiment"] == experiment and line["settings"]["method"] not in OURS and "cpu_s" in line["result"]
        and line["settings"]["method"] != "faiss Flat"
    ]  # fmt: skip
    wanted = [("recall", level) for level in LEVELS]
    wanted += [("correlation", ALIKE)] if any(result["correlation"] is not None for result in results) else []
    least = [min((r["cpu_s"] for r in results if (r[key] or 0) >= level), default=most) for key, level in wanted]
    return min(1.1 * max(least), most)


def run_best(records, part, name, method, settings, most):
    """Run in full the settings that were quickest on few points at each level, more thorough ones where they fail."""
    few = name + " few"
    of_few = {json.dumps(line["settings"], sort_keys=True): line["result"] for line in records if line["experiment"] == few}  # fmt: skip  # noqa: E501
    ranked = sorted(
        (values for values in settings if "cpu_s" in of_few.get(said_of(method, values), {})),
        key=lambda values: of_few[said_of(method, values)]["cpu_s"],
    )
    for level in LEVELS:
        least, tries = level, 0
        for values in ranked:
            if of_few[said_of(method, values)]["recall"] < least or tries == TRIES:
                continue
            run_some(records, part, method, [(name, False, [values])], most)
            result = next(line["result"] for line in records if (line["experiment"], line["arm"]) == key_of(name, method, values)[:2])  # fmt: skip  # noqa: E501
            if result.get("recall", 1.0) >= level:  # reached, or stopped as too slow
                break
            least, tries = of_few[said_of(method, values)]["recall"] + 1e-9, tries + 1


def said_of(method, values):
    return json.dumps({"method": method, **values}, sort_keys=True)


# --------------------------------------------------------------------------------------------- final


def final(options):
    """Run ours, and of the peers the settings that were the quickest at any level, data set by data set.

    Tuning takes hours, in which the machine is not always quiet; what is published comes from one run in which nothing
    else ran.
    """
    tried = list(Records(tuning_file(options.part)))
    names, file = options.only or list(PARTS[options.part]), RESULTS / f"neighbors-{options.part}.jsonl"
    if options.again and file.exists():
        kept = [json.dumps(line) for line in Records(file) if line["experiment"] not in names]
        file.write_text("".join(line + "\n" for line in kept))
    records = Records(file)
    for name in names:
        X = load(options.part, name)[0]
        jobs = {method: settings for method, settings in choices(X, None).items() if method in OURS}
        if len(X) <= FEW:
            jobs["faiss Flat"] = [{}]
        lines = [line for line in tried if line["experiment"] == name and "cpu_s" in line["result"]]
        for method, values in quickest(lines):
            jobs.setdefault(method, []).append(values)
        del X
        for method, settings in jobs.items():
            run_some(records, options.part, method, [(name, False, settings)], MOST_SECONDS, limited=False)


def tuning_file(part):
    return RESULTS / f"neighbors-{part}-tuning.jsonl"


def quickest(lines):
    """The settings of peers that were the quickest at some level, those of the two best peers."""
    chosen = []
    for key, level in [("recall", v) for v in LEVELS] + [("correlation", ALIKE)]:
        by_method = {}
        for line in lines:
            method = line["settings"]["method"]
            if method in OURS or method == "faiss Flat" or (line["result"].get(key) or 0) < level:
                continue
            if method not in by_method or line["result"]["cpu_s"] < by_method[method]["result"]["cpu_s"]:
                by_method[method] = line
        for line in sorted(by_method.values(), key=lambda line: line["result"]["cpu_s"])[:2]:
            values = {n: v for n, v in line["settings"].items() if n != "method"}
            if (line["settings"]["method"], values) not in chosen:
                chosen.append((line["settings"]["method"], values))
    return chosen


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


def summarise(lines, tried):
    """Ratios by data set and level, their geometric means, and which peers were ``tried`` when they were tuned."""
    table = {}
    for name in dict.fromkeys(line["experiment"] for line in lines):
        mine = [line for line in lines if line["experiment"] == name]
        row = {}
        for label, level, key in [(f"{v:g}", v, "recall") for v in LEVELS] + [("variance", ALIKE, "correlation")]:
            (we, _), (they, peer) = (
                fastest(mine, level, mine=True, key=key),
                fastest(mine, level, mine=False, key=key),
            )
            if we and they and peer != "faiss Flat":  # else no approximate peer has reached the level yet
                row[label] = {
                    "ours": round(we, 2),
                    "peer": peer,
                    "theirs": round(they, 2),
                    "ratio": round(they / we, 2),
                }
        exact = {line["settings"]["method"]: line["result"].get("cpu_s") for line in mine}
        if exact.get("steep exact") and exact.get("faiss Flat"):
            row["exact"] = round(exact["faiss Flat"] / exact["steep exact"], 2)
        peers = {line["settings"]["method"] for line in [*tried, *lines] if line["experiment"] == name} - set(OURS)
        table[name] = {**row, "peers": sorted(peers)}
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
    """How far the recall reached is above the recall asked for."""
    over = [line["result"]["recall"] - line["settings"]["recall"] for line in lines]
    if not over:
        return {}
    return {
        "runs": len(over), "kept": sum(v >= 0 for v in over), "median over": round(float(np.median(over)), 4),
        "least over": round(min(over), 4), "used": sorted({line["result"]["used"] for line in lines}),
    }  # fmt: skip


# -------------------------------------------------------------------------------- promise and growth

PROMISED = {
    "made features": partial(feature_like, 25_000, seed=21),
    "flat clusters": partial(low_rank_clusters, 25_000, seed=22),
    "two layers": partial(two_layers, 25_000, seed=23),
    "embedding": partial(embedding_like, 25_000, seed=24),
    "pictures": lambda: mnist_pixels_of(25_000),
    "few clusters": partial(low_rank_clusters, 25_000, clusters=4, rank=6, seed=25),
    "many clusters": partial(low_rank_clusters, 25_000, clusters=400, rank=8, seed=26),
    "narrow features": partial(feature_like, 25_000, n_features=24, latent=6, seed=27),
    "wide features": partial(feature_like, 25_000, n_features=256, seed=28),
    "heavy tails": lambda: heavy_tails(25_000, 16),
}


def mnist_pixels_of(n):
    X, y = mnist_pixels()
    return X[:n], y[:n]


def heavy_tails(n, n_features, seed=29):
    """Independent columns of Student's t with three degrees of freedom, mixed."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, size=(n, n_features)) @ rng.normal(size=(n_features, n_features))
    return X.astype(np.float32), (X[:, 0] > 0).astype(int)


def promise(options):
    """Ask for recall .95 on 10 data sets with 10 seeds; the recall of all lists is told from 2,000 exact ones."""
    records = Records(RESULTS / "neighbors-promise.jsonl")
    for name, make in PROMISED.items():
        keys = list(records.missing([(name, "steep", seed) for seed in range(options.seeds)]))
        if not keys:
            continue
        X = np.ascontiguousarray(make()[0], np.float32)
        rows = np.random.default_rng(1).choice(len(X), 2 * SAMPLED, replace=False)
        truth = exact_neighbors(X, rows)
        for key in keys:
            indices, extra = ours(X, None, method="steep", recall=options.recall, seed=key[2])
            result = {"recall": recall_of(X, rows, truth, indices[rows]), "shape": list(X.shape), **extra}
            records.add(*key, result=result, settings={"method": "steep", "recall": options.recall})
            print(*key, result, flush=True)


def growth(options):
    """CPU seconds at recall .95 from 10,000 to 3,000,000 points of one kind, each in a process of its own."""
    records = Records(RESULTS / "neighbors-growth.jsonl")
    for n in options.sizes:
        for key in records.missing([(f"features {n}", "steep", 0)]):
            X, y = feature_like(n)
            rows = np.random.default_rng(1).choice(n, min(n, 200), replace=False)
            truth = exact_neighbors(X, rows)
            warm_up("steep", {"recall": 0.95}, X)
            result = forked(lambda X=X, y=y, r=rows, t=truth: timed("steep", {"recall": 0.95}, X, y, r, t), 3_600)
            records.add(*key, result=result, settings={"method": "steep", "recall": 0.95})
            print(*key, {k: result.get(k) for k in ("recall", "cpu_s", "search_mib", "data_mib")}, flush=True)


def exponent(lines):
    """Slope of log CPU seconds over log points."""
    points = sorted((line["result"]["shape"][0], line["result"]["cpu_s"]) for line in lines)
    if len(points) < 2:
        return {}
    n, seconds = np.log(np.array(points, float).T)
    return {"points": [int(p) for p, _ in points], "cpu_s": [round(s, 2) for _, s in points],
            "exponent": round(float(np.polyfit(n, seconds, 1)[0]), 2)}  # fmt: skip


def summary(options):
    found = {"machine": machine(), "threads": 1}
    for part in ("unseen", "development"):
        file = RESULTS / f"neighbors-{part}.jsonl"
        if file.exists():
            lines = [line for line in Records(file) if "cpu_s" in line["result"]]
            tuned = tuning_file(part)
            tried = (
                [line for line in Records(tuned) if not line["experiment"].endswith(" few")] if tuned.exists() else []
            )
            asked = [line for line in lines if line["result"].get("used") == "partitioned" and line["settings"]["method"] == "steep"]  # fmt: skip  # noqa: E501
            found[part] = {**summarise(lines, tried), "promise": promises(asked)}
    found["promise"] = promises(list(Records(RESULTS / "neighbors-promise.jsonl")))
    found["growth"] = exponent(list(Records(RESULTS / "neighbors-growth.jsonl")))
    write_json(RESULTS / "neighbors.json", found)
    print(json.dumps(found, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("--part", choices=list(PARTS), default="development")
    runner.add_argument("--only", nargs="+")
    runner.add_argument("--method", nargs="+")
    runner.add_argument("--most", type=float, default=MOST_SECONDS, help="CPU seconds of a peer's setting")
    runner.set_defaults(call=run)
    finisher = commands.add_parser("final")
    finisher.add_argument("--part", choices=list(PARTS), default="unseen")
    finisher.add_argument("--only", nargs="+")
    finisher.add_argument("--again", action="store_true", help="drop what is known of these data first")
    finisher.set_defaults(call=final)
    summer = commands.add_parser("summary")
    summer.set_defaults(call=summary)
    promiser = commands.add_parser("promise")
    promiser.add_argument("--seeds", type=int, default=10)
    promiser.add_argument("--recall", type=float, default=0.95)
    promiser.set_defaults(call=promise)
    grower = commands.add_parser("growth")
    grower.add_argument(
        "--sizes", type=int, nargs="+", default=[10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000]
    )
    grower.set_defaults(call=growth)
    child = commands.add_parser("measure")
    child.add_argument("what", nargs=3)
    child.set_defaults(call=lambda o: measure(*o.what[:2], json.loads(o.what[2])))
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
