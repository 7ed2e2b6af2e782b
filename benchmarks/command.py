"""The command on a large table: a million rows and thirty columns of Parquet, weighted within a minute.

    python benchmarks/command.py                    # make the table, weight it, keep the figures
    python benchmarks/command.py --rows 100000      # smaller, to see that everything runs
    python benchmarks/command.py --table flat       # thirty independent columns: the worst case for neighbours
    python benchmarks/command.py --decide           # CSV, and held-out folds of a model choose the weights
    python benchmarks/command.py --start            # how long steep --help takes, beside importing everything

Each command runs in a process of its own: wall time, CPU time and peak memory (resident set) are the child's, the
interpreter and all libraries included. Memory is given in tables too: one is the 30 features and the label in RAM, as
float64. The weights are held against exact ones: the neighbours of sampled rows are found by plain NumPy.

    structured   20 numbers driven by 8 hidden factors, with noise; 5 of 0 or 1; 5 counts: columns that depend on each
                 other, as those of real tables do
    flat         30 independent normal columns, in which all points are about equally far from each other
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
from pathlib import Path

import numpy as np
import pandas as pd

RESULTS = Path(__file__).parent / "results" / "command.json"
N_COLUMNS, K, RATIO = 30, 20, 40.0
# Rows whose weights are held against exact ones.
SAMPLED = 500
# What is promised, on two cores that have nothing else to do.
MOST_SECONDS, MOST_TABLES = 60.0, 8.0


def structured(n, rng):
    factors = rng.normal(size=(n, 8)).astype(np.float32)
    mixing = rng.normal(size=(8, 20)).astype(np.float32) / np.sqrt(8, dtype=np.float32)
    numbers = factors @ mixing + 0.3 * rng.standard_normal((n, 20), dtype=np.float32)
    flags = rng.random((n, 5)) < 1 / (1 + np.exp(-2 * factors[:, :5]))
    counts = rng.poisson(np.exp(0.5 * factors[:, 3:8]))
    columns = {f"x{j}": numbers[:, j].astype(np.float64) for j in range(20)}
    columns |= {f"flag{j}": flags[:, j].astype(np.float64) for j in range(5)}
    columns |= {f"count{j}": counts[:, j].astype(np.float64) for j in range(5)}
    return columns, factors[:, 0] + factors[:, 1] * factors[:, 2] + 0.3 * rng.normal(size=n) > 0


def flat(n, rng):
    columns = {f"x{j}": rng.normal(size=n) for j in range(N_COLUMNS)}
    return columns, columns["x0"] + columns["x1"] * columns["x2"] + 0.3 * rng.normal(size=n) > 0


def make(path, kind, n):
    """Write the table; its size in RAM in bytes."""
    columns, label = {"structured": structured, "flat": flat}[kind](n, np.random.default_rng(0))
    frame = pd.DataFrame(columns).assign(label=np.where(label, "yes", "no"))
    frame.to_parquet(path, index=False)
    return 8 * n * (N_COLUMNS + 1)


def measure(arguments, nice=0):
    """Run the command in a child; seconds, peak memory and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    child = subprocess.Popen(
        ["nice", "-n", str(nice), sys.executable, "-m", "steep", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    if nice:  # Linux shares processors between sessions, and a session has a priority of its own
        Path(f"/proc/{child.pid}/autogroup").write_text(str(nice))
    out, err = child.communicate()
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if child.returncode:
        raise SystemExit(err)
    return {
        "wall_seconds": wall,
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        # That of the largest child so far, which the warm-up is not.
        "peak_bytes": after.ru_maxrss * 1024,
        "printed": json.loads(out),
        "notes": err.splitlines(),
    }


STARTS = {
    "python": "pass",
    "steep --help": "from steep.cli import main; main(['--help'])",
    "steep --version": "from steep.cli import main; main(['--version'])",
    "import steep": "import steep",
    "every public name": "from steep import *",
}


def start_up(code):
    """CPU and wall seconds of a new process, the least of seven."""
    least = [float("inf"), float("inf")]
    for _ in range(7):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        wall = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        least = [
            min(least[0], after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime),
            min(least[1], wall),
        ]
    return {"cpu_seconds": least[0], "wall_seconds": least[1]}


def warm_up(folder):
    """Let the kernels be compiled, which is done once a machine."""
    path = folder / "small.parquet"
    make(path, "structured", 30_000)
    arguments = ["weight", str(path), "--target", "label", "-m", str(RATIO), "-o", str(folder / "small.npy"), "--json"]
    subprocess.run([sys.executable, "-m", "steep", *arguments], check=True, capture_output=True)


def agreement(table, weighted):
    """Correlation with exact weights, on sampled rows: the local variance of labels, found by plain NumPy."""
    frame = pd.read_parquet(table)
    y = (frame.pop("label") == "yes").to_numpy()
    X = frame.to_numpy(dtype=np.float32)
    X = (X - X.mean(axis=0, dtype=np.float64).astype(np.float32)) / X.std(axis=0, dtype=np.float64).astype(np.float32)
    rows = np.random.default_rng(1).choice(len(X), min(SAMPLED, len(X)), replace=False)
    half = 0.5 * np.einsum("ij,ij->i", X, X)
    exact = np.empty(len(rows))
    for i, row in enumerate(rows):
        near = np.argpartition(half - X @ X[row], K)[:K]
        exact[i] = 2 * y[near].var(ddof=1)
    found = pd.read_parquet(weighted, columns=["sample_weight"])["sample_weight"].to_numpy()[rows]
    return float(np.corrcoef(exact, found)[0, 1])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--table", choices=["structured", "flat"], default="structured")
    options.add_argument("--decide", action="store_true", help="read CSV, and let held-out folds choose the weights")
    options.add_argument("--keep", type=Path, default=RESULTS, help="file of the figures")
    options.add_argument("--nice", type=int, default=0, help="priority of the command, where others are at work")
    options.add_argument("--start", action="store_true")
    given = options.parse_args()
    if given.start:
        entry = {"load_before": list(os.getloadavg())} | {name: start_up(code) for name, code in STARTS.items()}
        keep(given.keep, "start-up", entry)
        return print(json.dumps(entry, indent=1))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        warm_up(folder)
        table, weighted = folder / "table.parquet", folder / "weights.parquet"
        size = make(table, given.table, given.rows)
        if given.decide:
            pd.read_parquet(table).to_csv(folder / "table.csv", index=False)
            table = folder / "table.csv"
        arguments = ["weight", str(table), "--target", "label", "-o", str(weighted), "--json"]
        arguments += [] if given.decide else ["-m", str(RATIO), "-k", str(K)]
        load = os.getloadavg()
        figures = measure(arguments, given.nice)
        figures["tables_of_memory"] = figures["peak_bytes"] / size
        if not given.decide:
            figures["correlation_with_exact"] = agreement(table, weighted)
        figures["size_on_disk"] = table.stat().st_size
    printed = figures.pop("printed")
    entry = {
        "rows": given.rows, "columns": N_COLUMNS, "table_bytes": size,
        "effective_samples": printed["effective_samples"], "verdict": printed.get("verdict"),
        "processors": os.cpu_count(), "load_before": list(load), "nice": given.nice,
        **figures,
    }  # fmt: skip
    keep(given.keep, f"{given.table}-{given.rows}" + ("-decide" if given.decide else ""), entry)
    print(json.dumps(entry, indent=1))
    met = entry["wall_seconds"] < MOST_SECONDS and entry["tables_of_memory"] < MOST_TABLES
    return print(f"within {MOST_SECONDS:g} s and {MOST_TABLES:g} tables: {'yes' if met else 'no'}")


def keep(path, name, entry):
    """Put the figures beside those of other runs."""
    from reproduction.records import machine, write_json

    known = json.loads(path.read_text()) if path.exists() else {}
    write_json(path, known | {name: entry | machine()})


if __name__ == "__main__":
    main()
