"""Memory and time of features in a file: the pass that writes them, and heads fitted to them, beside those in memory.

    python benchmarks/features.py                     every stage in a process of its own; prints a table
    python benchmarks/features.py --samples 100000 --features 512

"own" is the peak of the memory that is the process's alone (RssAnon, looked at every 5 ms) beyond that after its
imports: what must be there. "all" is its largest resident size by getrusage, with pages of the file that the
system keeps while there is room and takes back when there is not.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

SHARD = 5000
STAGES = ("project", "equal weights, file", "equal weights, memory", "weighted, file", "weighted, memory")


class Shards:
    """Batches as from files."""

    def __init__(self, n_samples: int, seed: int) -> None:
        self.n_samples, self.seed = n_samples, seed

    def __iter__(self):
        import torch

        for start in range(0, self.n_samples, SHARD):
            generator = torch.Generator().manual_seed(self.seed + start)
            inputs = torch.randn(min(SHARD, self.n_samples - start), 8, generator=generator)
            yield inputs, (inputs[:, 0] * inputs[:, 1] + inputs[:, 2] > 0).long()


def own_memory() -> float:
    """Megabytes that are this process's alone."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


def run_stage(stage: str, path: str, n_samples: int, n_features: int) -> None:
    """One stage in this process; its figures on standard output."""
    import numpy as np
    import torch
    from torch import nn

    from steep.nn import HeadSearch, Projection, improve, project

    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, n_features), nn.Tanh(), nn.Linear(n_features, 2))
    before, peak, ended = own_memory(), [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.005):
            peak[0] = max(peak[0], own_memory())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start = time.perf_counter()
    if stage == "project":
        project(network, Shards(n_samples, 1), memmap=path)
    else:
        features = Projection.open(path)
        if stage.endswith("memory"):
            features = replace(features, features=np.array(features.features))
        ratios = () if stage.startswith("equal") else (0.2, 5.0)
        search = HeadSearch(l2=(1e-3, 1e-4), weight_ratio=ratios, n_neighbors=(10,))
        improve(network, features, next(iter(Shards(SHARD, 999))), search=search)
    seconds = time.perf_counter() - start
    ended.set()
    watcher.join()
    whole = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"own": peak[0] - before, "all": whole, "seconds": seconds}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stage:
        run_stage(given.stage, given.path, given.samples, given.features)
        return
    print(f"features: {given.samples * given.features * 4 / 2**20:.0f} MB")
    with tempfile.TemporaryDirectory() as folder:
        for stage in STAGES:
            command = [sys.executable, __file__, "--stage", stage, "--path", f"{folder}/features.npy"]
            command += ["--samples", str(given.samples), "--features", str(given.features)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout)
            print(f"{stage:24} own {found['own']:6.0f} MB   all {found['all']:6.0f} MB   {found['seconds']:6.1f} s")


if __name__ == "__main__":
    main()
