"""The journal's cost: results told a second beside bare SQLite, asking with 100,000 told, and kills.

python benchmarks/journal.py            throughput and asking
python benchmarks/journal.py --kills    50 kills -9 at random moments of a running campaign
python benchmarks/journal.py --workers  what a run and a replaced worker process cost
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import tempfile
import time
from pathlib import Path

import numpy as np

from steep.campaign import Campaign

RESULTS = Path(__file__).parent / "results" / "design_journal.json"
N = 400


def bare(path, X, y):
    """One INSERT and one commit a row, at the same durability: the floor of any such journal."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE runs (id INTEGER PRIMARY KEY, x BLOB, y BLOB, told REAL)")
    began = time.perf_counter()
    for x, label in zip(X, y, strict=True):
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO runs (x, y, told) VALUES (?, ?, ?)", (x.tobytes(), label.tobytes(), time.time()))
        db.execute("COMMIT")
    return len(X) / (time.perf_counter() - began)


def told(path, X, y):
    """Results of asked runs, each told by a call of its own."""
    with Campaign([(0, 1)] * X.shape[1], storage=path, n_initial=len(X)) as campaign:
        asked = campaign.ask(len(X))
        began = time.perf_counter()
        for x, label in zip(asked, y, strict=True):
            campaign.tell(x[None], label[None])
        return len(X) / (time.perf_counter() - began)


def asking(directory, d, n_told, n):
    """Seconds to ask for ``n`` points of ``d`` inputs with this many results told, by the clock and of one core."""
    with Campaign([(0, 1)] * d, storage=directory / f"ask{d}-{n_told}.db", n_initial=1) as campaign:
        campaign.ask(1)
        X = np.random.default_rng(0).random((n_told, d))
        began = time.perf_counter()
        campaign.tell(X, np.tanh(10 * (X[:, :1] - 0.5)))
        loaded = time.perf_counter() - began
        times, busy = [], []
        for _ in range(9):
            began, worked = time.perf_counter(), time.process_time()
            campaign.ask(n)
            times.append(time.perf_counter() - began)
            busy.append(time.process_time() - worked)
    return {
        "tell_s": loaded,
        "first_ask_s": times[0],
        "median_ask_s": float(np.median(times)),
        "first_ask_cpu_s": busy[0],
        "median_ask_cpu_s": float(np.median(busy)),
    }


def throughput():
    rng = np.random.default_rng(0)
    X, y = rng.random((N, 4)), rng.random((N, 2))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        rates = [(bare(directory / f"bare{i}.db", X, y), told(directory / f"told{i}.db", X, y)) for i in range(9)]
        result = {
            "bare_commits_per_s": float(np.median([a for a, _ in rates])),
            "told_per_s": float(np.median([b for _, b in rates])),
            "ratio": float(np.median([b / a for a, b in rates])),
            "ratios": sorted(b / a for a, b in rates),
            "ask_100_of_10_inputs_with_2000_told": asking(directory, 10, 2000, 100),
            "ask_1_with_100000_told": {str(d): asking(directory, d, 100_000, 1) for d in (3, 10)},
            "load": os.getloadavg()[0],
            "cores": os.cpu_count(),
        }
    print(json.dumps(result, indent=1))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


def kills():
    """The test of the same law, at its full size."""
    import sys

    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import campaign_simulators as law

    with tempfile.TemporaryDirectory() as name:
        storage, log = Path(name, "campaign.db"), Path(name, "log.txt")
        law.kill_often(storage, log, 50, seed=1, n_runs=800)
        n_before = len(log.read_text().splitlines())
        assert law.start_noted(storage, log, 800).wait(600) == 0
        law.check_nothing_lost(storage, log, 50)
        print(f"50 kills, {n_before} log lines before the last: 0 results lost, 0 finished runs repeated")


def workers():
    """Seconds for runs that do nothing, and for runs each of which takes its worker with it."""
    import sys

    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from campaign_simulators import exits, nothing

    n_runs = 200
    for function in (nothing, exits):
        with Campaign({"u": (0.0, 1.0)}, storage=":memory:") as campaign:
            began = time.perf_counter()
            campaign.run(
                function, n_runs, executor="processes", n_workers=2, retries=0,
                max_failures=None,
            )  # fmt: skip
            print(f"{n_runs} runs of {function.__name__}: {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", action="store_true")
    parser.add_argument("--workers", action="store_true")
    chosen = parser.parse_args()
    kills() if chosen.kills else workers() if chosen.workers else throughput()
