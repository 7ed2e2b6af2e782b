"""Runs that fail, over the part of the domain that fails: designs and campaigns of a front with failing regions.

    python benchmarks/failing_regions.py --seeds 10

A quarter of the runs are the start. results/failing_regions.json holds means over the seeds; below one is better.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

from reproduction.records import write_json
from steep import Campaign, design

RESULT = Path(__file__).parent / "results" / "failing_regions.json"
# Radii of the ball by the number of inputs.
RADII = {2: 0.25, 3: 0.36, 5: 0.5}
REGIONS = {
    "corner": lambda X: (X[:, :2] > 0.5).all(axis=1),
    "face": lambda X: X[:, 0] < 0.04,
    "half-space": lambda X: X[:, :2].sum(axis=1) > 1.3,
    "ball": lambda X: ((X - 0.5) ** 2).sum(axis=1) < RADII[X.shape[1]] ** 2,
}


def front(X):
    return np.tanh(8 * (X[:, 0] - 0.4 * X[:, 1] - 0.3)) + X[:, -1] ** 2


def failed_in_design(function, d, n, seed):
    plan = design(function, [(0, 1)] * d, n, n_initial=n // 4, random_state=seed)
    return len(plan.failed) / n


def failed_in_campaign(function, d, n, seed):
    with Campaign([(0, 1)] * d, storage=":memory:", random_state=seed) as campaign:
        campaign.run(
            lambda x: function(x[None])[0], n, retries=0, max_failures=None
        )  # fmt: skip
        return campaign.n_failed / n


CASES = {"design, 100 runs": (failed_in_design, 100), "design, 200 runs": (failed_in_design, 200),
         "campaign, 100 runs": (failed_in_campaign, 100)}  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = []
    for d in RADII:
        for region, fails in REGIONS.items():
            part = float(fails(np.random.default_rng(1).random((200_000, d))).mean())
            function = lambda X, fails=fails: np.where(fails(X), np.nan, front(X))  # noqa: E731
            found = {
                case: round(float(np.mean([failed(function, d, n, seed) for seed in range(options.seeds)])) / part, 3)
                for case, (failed, n) in CASES.items()
            }
            lines.append({"inputs": d, "region": region, "part of the domain": round(part, 3)} | found)
            print(lines[-1], flush=True)
    write_json(RESULT, {"seeds": options.seeds, "lines": lines})
