"""Designs side by side: the error of surrogates trained on them, at equal numbers of evaluations.

    python benchmarks/design.py                     run what is missing, then print the tables
    python benchmarks/design.py --only franke       some functions only
    python benchmarks/design.py --summary           print the tables
    python benchmarks/design.py --ask               time to ask 100 points with 2,000 there, d = 10

Every line of results/design.jsonl is one (function, design, repeat): largest absolute error and mean
squared error on 8,192 fresh points, in deviations of each output, of one network. Network r starts from
the same weights whatever the design, so ratios are taken pair by pair; the tables hold geometric means.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from scipy.stats import qmc

from problems import PROBLEMS
from steep import design
from steep.measures.derivatives import FiniteDifferences
from steep.records import Records

RESULTS = Path(__file__).parent / "results" / "design.jsonl"
REPEATS = 20
N_TEST = 8192
START = 0.25


def sobol(d, n, rng):
    return qmc.Sobol(d, rng=rng).random_base2(int(np.ceil(np.log2(n))))[:n]


def uniform_design(problem, seed):
    return np.random.default_rng(seed).random((problem.n_runs, problem.n_features))


def sobol_design(problem, seed):
    return sobol(problem.n_features, problem.n_runs, np.random.default_rng(seed))


def lhs_design(problem, seed):
    return qmc.LatinHypercube(problem.n_features, rng=np.random.default_rng(seed)).random(problem.n_runs)


def steep_design(problem, seed):
    n_initial = max(int(START * problem.n_runs), 2 * problem.n_features + 2)
    plan = design(
        problem.function, [(0, 1)] * problem.n_features, n_initial=n_initial,
        n_samples=problem.n_runs - n_initial, random_state=seed,
    )  # fmt: skip
    assert plan.n_evaluations == problem.n_runs
    return plan.X


def paper_design(problem, seed):
    """Algorithm 1, half the points at the start, with derivatives that cost nothing: for the record."""
    box = [(0, 1)] * problem.n_features
    half = problem.n_runs // 2
    return design(
        problem.function, box, n_initial=half, n_samples=problem.n_runs - half, variant="paper",
        derivatives=FiniteDifferences(problem.function, bounds=box), random_state=seed,
    ).X  # fmt: skip


def adaptive_design(problem, seed):
    """python-adaptive's learners with their default loss, one point at a time.

    They are deterministic; the seed moves the far ends by a hair so that repeats differ.
    """
    import adaptive

    rng = np.random.default_rng(seed)
    shrink = 1e-3 * rng.random((problem.n_features, 2))
    bounds = [(low, 1 - high) for low, high in shrink]

    def one(x):
        value = problem.function(np.atleast_2d(np.asarray(x, dtype=float)))[0]
        return float(value) if np.ndim(value) == 0 else np.asarray(value, dtype=float)

    one_dimensional = problem.n_features == 1
    learner = adaptive.Learner1D(one, bounds[0]) if one_dimensional else adaptive.LearnerND(one, bounds)
    told = []
    while len(told) < problem.n_runs:
        points, _ = learner.ask(1)
        for point in points:
            learner.tell(point, one(point))
            told.append(np.atleast_1d(point))
    return np.array(told)[: problem.n_runs]


def lola_design(problem, seed):
    """OpenTURNS' LOLAVoronoi, the same start and rounds as steep."""
    import openturns as ot
    import openturns.experimental as otexp

    ot.RandomGenerator.SetSeed(seed)
    distribution = ot.JointDistribution([ot.Uniform(0.0, 1.0)] * problem.n_features)
    n_initial = max(int(START * problem.n_runs), 2 * problem.n_features + 2)
    X = sobol(problem.n_features, n_initial, np.random.default_rng(seed))
    y = problem.function(X).reshape(n_initial, -1)
    algorithm = otexp.LOLAVoronoi(X, y, distribution)
    ends = np.round(np.linspace(0, problem.n_runs - n_initial, 13)).astype(int)
    for size in np.diff(ends):
        fresh = algorithm.generate(int(size))
        points = np.asarray(fresh)
        algorithm.update(fresh, problem.function(points).reshape(len(points), -1))
        X = np.vstack([X, points])
    return X


DESIGNS = {
    "uniform": uniform_design,
    "sobol": sobol_design,
    "steep": steep_design,
    "adaptive": adaptive_design,
    "paper": paper_design,
    "lhs": lhs_design,
    "lola": lola_design,
}
# Not run above these dimensions: python-adaptive takes minutes, LOLA-Voronoi was not tried.
MOST_FEATURES = {"adaptive": 4, "lola": 4}
# python-adaptive takes half a minute a design in four dimensions, and is deterministic but for the hair
# above: four designs, each with five networks.
FEWER = {("adaptive", 4): 4}


def run(names, designs):
    import torch

    from surrogates import predictions

    torch.set_num_threads(1)
    records = Records(RESULTS)
    there = records.keys()
    for design_name in designs:
        for name in names:
            problem = PROBLEMS[name]
            if problem.n_features > MOST_FEATURES.get(design_name, 99):
                continue
            if all((name, design_name, r) in there for r in range(REPEATS)):
                continue
            began = time.perf_counter()
            n_different = FEWER.get((design_name, problem.n_features), REPEATS)
            different = [DESIGNS[design_name](problem, r) for r in range(n_different)]
            seconds = (time.perf_counter() - began) / n_different
            X = np.stack([different[r % n_different] for r in range(REPEATS)])
            y = np.stack([problem.function(x).reshape(len(x), -1) for x in X])
            X_test = sobol(problem.n_features, N_TEST, np.random.default_rng(10**6))
            y_test = problem.function(X_test).reshape(N_TEST, -1)
            errors = (predictions(X, y, X_test) - y_test) / y_test.std(axis=0)
            for key in list(records.missing((name, design_name, r) for r in range(REPEATS))):
                figures = np.abs(errors[key[2]])
                result = {"linf": figures.max(), "mse": (figures**2).mean(), "seconds": seconds}
                records.add(*key, settings={"n": problem.n_runs}, result=result)
            print(f"{design_name} {name} {time.perf_counter() - began:.0f} s", flush=True)


def ratio(there, name, design_name, against, key):
    """Geometric mean of paired ratios over the repeats, None when a side is missing."""
    pairs = [(there.get((name, design_name, r)), there.get((name, against, r))) for r in range(REPEATS)]
    if any(a is None or b is None for a, b in pairs):
        return None
    return float(np.exp(np.mean([np.log(a[key] / b[key]) for a, b in pairs])))


def geometric(values):
    kept = [value for value in values if value is not None]
    return float(np.exp(np.mean(np.log(kept)))) if kept else float("nan")


def summary():
    there = {key: line["result"] for key, line in Records(RESULTS).by_key().items()}
    against = {"steep": "uniform", "high": "sobol", "smooth": "sobol"}
    table = []
    for name, problem in PROBLEMS.items():
        cells = [
            (
                ratio(there, name, d, against[problem.group], "linf"),
                ratio(there, name, d, against[problem.group], "mse"),
            )
            for d in DESIGNS
        ]
        table.append((name, problem, cells))
    print("| function | d | runs | against | " + " | ".join(DESIGNS) + " |")
    print("|---|---|---|---|" + "---|" * len(DESIGNS))
    for name, problem, cells in table:
        shown = ["–" if a is None else f"{a:.2f} / {b:.2f}" for a, b in cells]
        print(
            f"| {name} | {problem.n_features} | {problem.n_runs} | {against[problem.group]} | {' | '.join(shown)} |"
        )
    for group, goal in against.items():
        rows = [cells for _, problem, cells in table if problem.group == group]
        means = [
            f"{geometric([r[i][0] for r in rows]):.3f} / {geometric([r[i][1] for r in rows]):.3f}"
            for i in range(len(DESIGNS))
        ]
        print(f"| **{group}** | | | {goal} | {' | '.join(means)} |")
    steep = [name for name, problem in PROBLEMS.items() if problem.group == "steep"]
    versus = {name: ratio(there, name, "steep", "adaptive", "linf") for name in steep}
    known = {name: value for name, value in versus.items() if value is not None}
    if known:
        wins = sum(value <= 1 for value in known.values())
        print(f"\nsteep against adaptive, L∞: {geometric(known.values()):.3f}, no worse on {wins} of {len(known)}:",
              ", ".join(f"{name} {value:.2f}" for name, value in known.items()))  # fmt: skip
    smooth = ratio(there, "smooth", "steep", "sobol", "mse")
    if smooth is not None:
        print(f"smooth function, L2 (root of MSE) against Sobol: {smooth**0.5:.3f}")


def ask_times():
    """Time to ask 100 points in ten dimensions with 2,000 told, beside python-adaptive."""
    from steep.campaign import Campaign

    problem = PROBLEMS["shock_10"]
    X = sobol(10, 2000, np.random.default_rng(0))
    campaign = Campaign([(0, 1)] * 10, storage=":memory:", n_initial=1)
    campaign.tell(X, problem.function(X))
    campaign.ask(1)  # the one start point
    times = []
    for _ in range(5):
        began = time.perf_counter()
        assert len(campaign.ask(100)) == 100
        times.append(time.perf_counter() - began)
    print(
        f"steep: ask(100) with 2,000 told, d = 10: median {np.median(times):.2f} s, worst {max(times):.2f} s"
    )


def ask_adaptive(n_told=40, n_asked=1):
    """python-adaptive in ten dimensions, as far as it goes."""
    import adaptive

    problem = PROBLEMS["shock_10"]
    learner = adaptive.LearnerND(lambda x: float(problem.function(np.array([x]))[0]), [(0, 1)] * 10)
    X = sobol(10, n_told, np.random.default_rng(0))
    began = time.perf_counter()
    for i, x in enumerate(X):
        learner.tell(tuple(x), float(problem.function(x[None])[0]))
        print(f"adaptive: {i + 1} told in {time.perf_counter() - began:.1f} s", flush=True)
    learner.ask(n_asked)
    print(f"adaptive: ask({n_asked}) with {n_told} told: {time.perf_counter() - began:.1f} s in all")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--designs", nargs="*", default=list(DESIGNS))
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--ask", action="store_true")
    parser.add_argument("--ask-adaptive", action="store_true")
    options = parser.parse_args()
    if options.ask:
        ask_times()
    elif options.ask_adaptive:
        ask_adaptive()
    else:
        if not options.summary:
            run(options.only, options.designs)
        summary()
