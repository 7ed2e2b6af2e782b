"""Data that do not fit: the same weights on Dask as in memory, in how much time and memory, and after kills.

python benchmarks/weigh_on_dask.py same   --rows 1000000 --features 32    in memory, by one worker and by two
python benchmarks/weigh_on_dask.py time   --rows 5000000 --features 32    two workers beside the in-memory engine
python benchmarks/weigh_on_dask.py memory --rows 10000000 --features 64   all workers together within 1 GB
python benchmarks/weigh_on_dask.py kills  --rows 1000000 --features 32    20 workers and the client killed
python benchmarks/weigh_on_dask.py speedup --rows 1000000 --features 32   one worker, then two

Each result is kept in results/weigh_on_dask.json under its name and size, and is not measured again unless --again.
Wall-clock times mean little on a machine that does other things: CPU seconds are given beside them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import dask.array
import distributed
import numpy as np

from steep.dask import sample_weights
from steep.labels import Labels
from steep.measures.variance import prefix_variances
from steep.neighbors.query import nearest

RESULTS = Path(__file__).parent / "results" / "weigh_on_dask.json"
PIECE = 250_000
K = 20
KILLS_A_RUN = 4
HOW = {"n_neighbors": K, "embedding": None}


# --------------------------------------------------------------------------------------------- data


def write_data(folder, n_rows, n_features):
    """Clusters in a 12-dimensional latent space seen through a ReLU network, written piece by piece."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "y.npy").exists():
        return folder
    rng = np.random.default_rng(0)
    modes = rng.normal(size=(30, 12))
    w1, b1 = rng.normal(size=(12, 128)) / np.sqrt(12), 0.3 * rng.normal(size=128)
    w2, b2 = rng.normal(size=(128, n_features)) / np.sqrt(128), 0.1 * rng.normal(size=n_features)
    X = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (n_rows, n_features))
    y = np.empty(n_rows, np.int64)
    for first in range(0, n_rows, PIECE):
        part = np.random.default_rng([1, first])
        n = min(PIECE, n_rows - first)
        mode = part.integers(len(modes), size=n)
        z = modes[mode] + 0.5 * part.normal(size=(n, 12))
        X[first : first + n] = np.maximum(np.maximum(z @ w1 + b1, 0) @ w2 + b2, 0)
        y[first : first + n] = mode % 10
    X.flush()
    np.save(folder / "y.npy", y)
    return folder


def exact_variance(folder, rows):
    """Eq. Dhat2 of some rows by exact search through all of them."""
    X, y = np.load(folder / "x.npy", mmap_mode="r"), np.load(folder / "y.npy")
    asked = np.array(X[rows])
    best = np.full((len(rows), K), np.inf), np.zeros((len(rows), K), np.int64)
    for first in range(0, len(X), 100_000):
        distances, indices = nearest(np.array(X[first : first + 100_000]), asked, K)
        both = np.hstack([best[0], distances]), np.hstack([best[1], indices + first])
        order = np.argsort(both[0], axis=1, kind="stable")[:, :K]
        best = tuple(np.take_along_axis(part, order, 1) for part in both)
    return prefix_variances(Labels(codes=y.astype(np.int32)), best[1], [K])[0]


# ------------------------------------------------------------------------------------------ running


@contextlib.contextmanager
def workers(n, memory_limit="auto"):
    with (
        distributed.LocalCluster(
            n_workers=n, threads_per_worker=1, dashboard_address=None, memory_limit=memory_limit
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(warm_up)
        yield client


def warm_up():
    """Load the kernels, so that no time is compiling."""
    rng = np.random.default_rng(0)
    with dask.config.set({"scheduler": "synchronous", "steep.task-memory": "1 MiB"}):
        X, y = rng.normal(size=(6_000, 8)).astype(np.float32), rng.integers(0, 2, 6_000)
        sample_weights(dask.array.from_array(X), dask.array.from_array(y), n_neighbors=5).compute()


def cpu_and_memory():
    """CPU seconds of this worker so far and the most memory it has used, in MB."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def on_dask(folder, client, **how):
    """Weights, wall-clock and CPU seconds, and the peak memory of each worker."""
    before = client.run(cpu_and_memory)
    began = time.perf_counter()
    weights = sample_weights(folder / "x.npy", folder / "y.npy", **HOW, **how).compute()
    wall = time.perf_counter() - began
    after = client.run(cpu_and_memory)
    cpu = sum(after[name][0] - before.get(name, (0, 0))[0] for name in after)
    return weights, {"wall": wall, "cpu": cpu, "peak_mb": sorted(round(mb) for _, mb in after.values())}


def in_memory(folder, n_jobs):
    """The same by the in-memory engine, in a process of its own."""
    code = (
        "import json, resource, sys, time, numpy as np\n"
        "from steep import sample_weights\n"
        "rng = np.random.default_rng(0)\n"
        "sample_weights(rng.normal(size=(30_000, 12)).astype(np.float32), rng.integers(0, 2, 30_000), n_neighbors=5)\n"
        "folder, k, jobs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])\n"
        "X, y = np.load(f'{folder}/x.npy'), np.load(f'{folder}/y.npy')\n"
        "used = resource.getrusage(resource.RUSAGE_SELF); begun = used.ru_utime + used.ru_stime\n"
        "began = time.perf_counter()\n"
        "w = sample_weights(X, y, n_neighbors=k, embedding=None, n_jobs=jobs)\n"
        "wall = time.perf_counter() - began\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "np.save(f'{folder}/in-memory.npy', w)\n"
        "print(json.dumps({'wall': wall, 'cpu': used.ru_utime + used.ru_stime - begun, "
        "'peak_mb': round(used.ru_maxrss / 1024)}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(K), str(n_jobs)], capture_output=True, text=True, check=True
    )
    return np.load(folder / "in-memory.npy"), json.loads(done.stdout.splitlines()[-1])


def correlation(a, b):
    return float(np.corrcoef(a, b)[0, 1])


# ----------------------------------------------------------------------------------- what is shown


def same(folder, options):
    memory, _ = in_memory(folder, 1)
    found = {}
    for n in (1, 2):
        with workers(n) as client:
            found[n], _ = on_dask(folder, client)
    return {
        "correlation": correlation(memory, found[1]),
        "identical_for_1_and_2_workers": bool((found[1] == found[2]).all()),
    }


def timing(folder, options):
    _, memory = in_memory(folder, 2)
    with workers(2) as client:
        _, found = on_dask(folder, client)
    ratios = {f"{kind}_ratio": found[kind] / memory[kind] for kind in ("wall", "cpu")}
    return {"in_memory": memory, "dask": found, **ratios}


def limited(folder, options):
    """All workers within a limit; the stages that a run before this one has finished are counted."""
    checkpoint = folder / f"checkpoint-{options.task_memory.replace(' ', '')}"
    n_done = len(list(checkpoint.glob("*.npz")))
    with workers(options.workers, memory_limit=f"{options.limit_mb // options.workers} MB") as client:
        weights, found = on_dask(folder, client, checkpoint=checkpoint)
    np.save(folder / "limited.npy", weights)
    rows = np.sort(np.random.default_rng(0).choice(len(weights), min(2_000, len(weights)), replace=False))
    return {
        **found, "limit_mb": options.limit_mb, "workers": options.workers, "stages_done_before": n_done,
        "correlation_with_exact": correlation(weights[rows], exact_variance(folder, rows)),
    }  # fmt: skip


def speedup(folder, options):
    """One worker, then two, in turn; the medians decide, for a single pair differs by a fifth."""
    found = {1: [], 2: []}
    for _ in range(options.repeats):
        for n, runs in found.items():
            with workers(n) as client:
                runs.append(on_dask(folder, client)[1])
    walls = {n: float(np.median([run["wall"] for run in runs])) for n, runs in found.items()}
    return {"one": found[1], "two": found[2], "faster": walls[1] / walls[2]}


def kills(folder, options):
    """Workers killed in the middle, as often as told over as many runs as it takes; then the client."""
    dask.config.set({"distributed.scheduler.allowed-failures": 20})
    with workers(2) as client:
        expected, _ = on_dask(folder, client)
    n_killed, n_runs, equal, rng = 0, 0, True, np.random.default_rng(0)
    while n_killed < options.kills:
        with replaced_workers(2) as (client, team):
            future = client.compute(sample_weights(folder / "x.npy", folder / "y.npy", **HOW))
            for _ in range(min(KILLS_A_RUN, options.kills - n_killed)):
                client.wait_for_workers(2, timeout=120)
                time.sleep(rng.uniform(0, 2 * options.pause))
                if not future.done():
                    team.kill(n_killed % 2)
                    n_killed += 1
            equal &= bool((future.result(timeout=600) == expected).all())
            n_runs += 1
            print(n_runs, "runs,", n_killed, "workers killed, weights equal:", equal, flush=True)
    return {"killed": n_killed, "runs": n_runs, "same_weights": equal, **killed_client(folder, expected)}


class Workers:
    """Worker processes that are started again when they are killed, as a batch system does it.

    A local cluster's own nannies do not replace a worker that dies while it is starting.
    """

    def __init__(self, n, address):
        code = "from distributed.cli.dask_worker import main; main()"
        self._command = [sys.executable, "-c", code, address, "--no-nanny", "--nthreads", "1", "--no-dashboard",
                         "--memory-limit", "0"]  # fmt: skip
        self._running = [self._start() for _ in range(n)]

    def _start(self):
        return subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self, number):
        """Kill one, and start another in its place."""
        self._running[number].kill()
        self._running[number].wait()
        self._running[number] = self._start()

    def stop(self):
        """Kill them all."""
        for worker in self._running:
            worker.kill()
            worker.wait()


@contextlib.contextmanager
def replaced_workers(n):
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        team = Workers(n, cluster.scheduler_address)
        try:
            client.wait_for_workers(n, timeout=120)
            yield client, team
        finally:
            team.stop()


def killed_client(folder, expected):
    """Kill a client with a checkpoint once half of its groups are cut, begin again, and see what was done twice."""
    checkpoint = folder / f"checkpoint-{os.getpid()}"
    code = [sys.executable, __file__, "client", str(folder), str(checkpoint)]
    code += ["--task-memory", str(dask.config.get("steep.task-memory", "512 MiB"))]
    run = subprocess.Popen(code, start_new_session=True)
    while run.poll() is None and len(list(checkpoint.glob("group-*.npz"))) < 2:
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    done = {path: path.stat().st_mtime_ns for path in checkpoint.glob("*.npz")}
    subprocess.run(code, check=True)
    twice = sum(path.stat().st_mtime_ns != stamp for path, stamp in done.items())
    equal = bool((np.load(checkpoint / "weights.npy") == expected).all())
    return {"client": {"stages_done_when_killed": len(done), "done_twice": twice, "same_weights": equal}}


def client(folder, checkpoint):
    with workers(1):
        weights = sample_weights(folder / "x.npy", folder / "y.npy", checkpoint=checkpoint, **HOW).compute()
    np.save(checkpoint / "weights.npy", weights)


# ------------------------------------------------------------------------------------------ results

PARTS = {"same": same, "time": timing, "memory": limited, "kills": kills, "speedup": speedup}


def keep(name, result):
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found[name] = result | {
        "versions": {p: version(p) for p in ("steep", "dask", "distributed", "numpy", "numba")},
        "machine": f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}",
        "load": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*PARTS, "client"])
    parser.add_argument("places", nargs="*", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--task-memory", default="512 MiB", help="steep.task-memory")
    parser.add_argument("--workers", type=int, default=1, help="of memory")
    parser.add_argument("--limit-mb", type=int, default=1_000, help="of all workers of memory together")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--pause", type=float, default=3.0, help="seconds between two kills, on average")
    parser.add_argument("--repeats", type=int, default=3, help="of speedup")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "steep-distributed")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    dask.config.set({"steep.task-memory": options.task_memory})
    os.environ["DASK_STEEP__TASK_MEMORY"] = options.task_memory
    if options.part == "client":
        client(*options.places)
        return
    name = f"{options.part} {options.rows}x{options.features} {options.task_memory}"
    if not options.again and RESULTS.exists() and name in json.loads(RESULTS.read_text()):
        print(name, "is there already")
        return
    folder = write_data(options.folder / f"{options.rows}x{options.features}", options.rows, options.features)
    result = PARTS[options.part](folder, options)
    keep(name, result)
    print(name, json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
