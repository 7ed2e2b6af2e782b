"""The estimated error beside the true one, while a design grows.

    python benchmarks/design_error.py --half development --runs 200 --seeds 1
    python benchmarks/design_error.py --half unseen --runs 400 --seeds 3

The truth is the root mean square error of the interpolant through all runs so far, on 1,024 fresh points. Every line of
results/design-error-<half>.jsonl is one (function, "steep", seed): estimates, intervals and truths at each size.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import qmc

from design_functions_unseen import UNSEEN
from problems import PROBLEMS
from reproduction.records import Records, write_json
from steep import Adaptive, design
from steep.expected_error import estimate_error, interpolant

FOLDER = Path(__file__).parent / "results"
NAMES = {
    "development": ("franke", "branin", "michalewicz_2", "moving_shock", "ishigami", "ridge_4", "bateman_3", "friedman",
                    "wall_6", "otl_circuit"),
    "unseen": ("currin", "camel", "circular_front", "hartmann_3", "curved", "ignition", "park", "kinks", "burgers",
               "hartmann_6"),
}  # fmt: skip
FUNCTIONS = {"development": PROBLEMS, "unseen": UNSEEN}
# A tenth apart, so that stopping late shows.
SIZES = (*(round(50 * 1.1**i) for i in range(22)), 400)


def follow(problem, n_runs, seed):
    """Estimate, interval and truth at each size of one design."""
    d = problem.n_features
    n_initial = max(n_runs // 8, 2 * d + 2)
    plan = design(
        problem.function,
        [(0, 1)] * d,
        n_runs,
        n_initial=n_initial,
        strategy=Adaptive(rounds=max(12, n_runs // 8)),
        random_state=seed,
    )
    fresh = qmc.Sobol(d, rng=np.random.default_rng(10**6)).random_base2(10)
    truth, labels = problem.function(fresh).reshape(len(fresh), -1), plan.labels
    lines = []
    for n in [size for size in SIZES if size <= n_runs]:
        error = estimate_error(plan.X[:n], labels[:n], plan.is_even[:n])
        wrong = (interpolant(plan.X[:n], labels[:n])(fresh) - truth) / truth.std(axis=0)
        true = float(np.sqrt((wrong**2).mean(axis=0)).max())
        lines.append({"n": n, "estimate": float(error), "low": error.low, "high": error.high, "true": true})
    return lines


def overshoot(lines):
    """Runs at which the estimate reaches each true error, over those at which the error did; None where it does not."""
    sizes, estimates = np.array([line["n"] for line in lines]), np.array([line["estimate"] for line in lines])
    found = []
    for line in lines[1:]:
        reached = np.flatnonzero(estimates <= line["true"])
        found.append(float(sizes[reached[0]] / line["n"]) if len(reached) else None)
    return found


def summary(half):
    lines = list(Records(FOLDER / f"design-error-{half}.jsonl"))
    cases = [case for line in lines for case in line["result"]["lines"]]
    covered = np.mean([case["low"] <= case["true"] <= case["high"] for case in cases])
    stops = [stop for line in lines for stop in overshoot(line["result"]["lines"])]
    late = np.median([np.inf if stop is None else stop for stop in stops])
    ratio = np.array([case["estimate"] / case["true"] for case in cases])
    for line in lines:
        shown = ", ".join(f"{c['n']}: {c['estimate']:.3f} ({c['true']:.3f})" for c in line["result"]["lines"])
        print(f"{line['experiment']} {line['seed']}: {shown}")
    result = {
        "half": half, "designs": len(lines), "cases": len(cases), "within the 90 % interval": float(covered),
        "estimate over truth, median": float(np.median(ratio)),
        "runs when the estimate says so over runs when it is so, median": float(late),
        "said to be reached a fifth of the runs early or more": float(np.mean([(s or 9) < 0.8 for s in stops])),
        "goals never said to be reached": sum(stop is None for stop in stops), "goals": len(stops),
    }  # fmt: skip
    print(result)
    write_json(FOLDER / f"design-error-{half}.json", result)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=list(NAMES), default="development")
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    records = Records(FOLDER / f"design-error-{options.half}.jsonl")
    wanted = [(name, "steep", seed) for seed in range(options.seeds) for name in NAMES[options.half]]
    for name, arm, seed in [] if options.summary else records.missing(wanted):
        lines = follow(FUNCTIONS[options.half][name], options.runs, seed)
        records.add(name, arm, seed, settings={"runs": options.runs}, result={"lines": lines})
    summary(options.half)
