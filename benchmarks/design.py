"""Designs side by side: the error of surrogates trained on them, at equal numbers of evaluations.

    python benchmarks/design.py --half development         run what is missing, then print the tables
    python benchmarks/design.py --half unseen               the functions no choice was made on: once, at the end
    python benchmarks/design.py --half simulators --designs steep sobol --seeds 5
    python benchmarks/design.py --half unseen --summary     print the tables, write the JSON
    python benchmarks/design.py --only franke --designs steep sobol --seeds 2
    python benchmarks/design.py --only runge tanh --designs sobol steep lhs --seeds 5
    python benchmarks/design.py --ask                       time to ask 100 points with 2,000 there, d = 10

Every line of results/design-<half>.jsonl is one (function, design, seed): root mean square error and largest error on
4,096 fresh points (1,024 for simulators), in deviations of each output, of a network and of two Gaussian processes. The
tables hold geometric means over seeds of the ratio to Sobol points with the same surrogate.
"""

from __future__ import annotations

import argparse
import time
from functools import cache
from pathlib import Path

import numpy as np
from scipy.stats import qmc, rankdata

from design_functions_unseen import UNSEEN
from design_integrated_variance import least_variance
from design_rivals import sequential
from problems import PROBLEMS
from reproduction.records import Records, write_json
from simulators import SIMULATORS
from steep import Adaptive, design

FOLDER = Path(__file__).parent / "results"
HALVES = {"development": PROBLEMS, "unseen": UNSEEN, "simulators": SIMULATORS}
SURROGATES = ("network", "matern", "rbf")
START = 0.25


def sobol(d, n, rng):
    return qmc.Sobol(d, rng=rng).random_base2(int(np.ceil(np.log2(n))))[:n]


def n_start(problem):
    return max(int(START * problem.n_runs), 2 * problem.n_features + 2)


def uniform_design(problem, seed):
    return np.random.default_rng(seed).random((problem.n_runs, problem.n_features))


def sobol_design(problem, seed):
    return sobol(problem.n_features, problem.n_runs, np.random.default_rng(seed))


def lhs_design(problem, seed):
    return qmc.LatinHypercube(problem.n_features, rng=np.random.default_rng(seed)).random(problem.n_runs)


def steep_design(problem, seed, **options):
    plan = design(
        problem.function,
        [(0, 1)] * problem.n_features,
        problem.n_runs,
        n_initial=n_start(problem),
        strategy=Adaptive(**options),
        random_state=seed,
    )
    assert plan.n_evaluations == problem.n_runs
    return plan.X


def adaptive_design(problem, seed):
    """python-adaptive's learners with their default loss, one point at a time.

    They are deterministic; the seed moves the far ends by a hair so that repeats differ.
    """
    import adaptive

    rng = np.random.default_rng(seed)
    bounds = [(low, 1 - high) for low, high in 1e-3 * rng.random((problem.n_features, 2))]

    def one(x):
        value = problem.function(np.atleast_2d(np.asarray(x, dtype=float)))[0]
        return float(value) if np.ndim(value) == 0 else np.asarray(value, dtype=float)

    is_line = problem.n_features == 1
    learner = adaptive.Learner1D(one, bounds[0]) if is_line else adaptive.LearnerND(one, bounds)
    told = []
    while len(told) < problem.n_runs:
        for point in learner.ask(1)[0]:
            learner.tell(point, one(point))
            told.append(np.atleast_1d(point))
    return np.array(told)[: problem.n_runs]


def lola_design(problem, seed):
    """OpenTURNS' LOLAVoronoi, the same start and rounds as steep."""
    import openturns as ot
    import openturns.experimental as otexp

    ot.RandomGenerator.SetSeed(seed)
    distribution = ot.JointDistribution([ot.Uniform(0.0, 1.0)] * problem.n_features)
    X = sobol(problem.n_features, n_start(problem), np.random.default_rng(seed))
    algorithm = otexp.LOLAVoronoi(X, problem.function(X).reshape(len(X), -1), distribution)
    ends = np.round(np.linspace(0, problem.n_runs - len(X), 13)).astype(int)
    for size in np.diff(ends):
        if size:
            points = np.asarray(fresh := algorithm.generate(int(size)))
            algorithm.update(fresh, problem.function(points).reshape(len(points), -1))
            X = np.vstack([X, points])
    return X


def rival(score):
    def made(problem, seed):
        start = sobol(problem.n_features, n_start(problem), np.random.default_rng(seed))
        return sequential(score, problem.function, start, problem.n_runs, seed)

    return made


def qnipv_design(problem, seed):
    start = sobol(problem.n_features, n_start(problem), np.random.default_rng(seed))
    return least_variance(problem.function, start, problem.n_runs, seed)


DESIGNS = {
    "sobol": sobol_design,
    "steep": steep_design,
    "uniform": uniform_design,
    "lhs": lhs_design,
    "guess": rival("guess"),
    "tead": rival("tead"),
    "eigf": rival("eigf"),
    "lola": lola_design,
    "adaptive": adaptive_design,
    "qnipv": qnipv_design,
}
# Not run above these dimensions: python-adaptive takes minutes, and LOLA-Voronoi's neighbourhoods grow with 2^d.
MOST_FEATURES = {"adaptive": 3, "lola": 4}


@cache
def fresh(problem):
    """Points that no design runs, and the function there."""
    n_test = 1024 if problem.name in SIMULATORS else 4096
    X = sobol(problem.n_features, n_test, np.random.default_rng(10**6))
    return X, problem.function(X).reshape(n_test, -1)


def figures(problem, designs, seeds):
    """RMSE and largest error of every surrogate for some designs of one function, one mapping a design and its seed."""
    from design_surrogates import predictions, process_prediction

    X_test, truth = fresh(problem)
    labels = [problem.function(X).reshape(len(X), -1) for X in designs]
    predicted = {"network": predictions(np.stack(designs), np.stack(labels), X_test, numbers=seeds)}
    for kind in ("matern", "rbf"):
        predicted[kind] = [process_prediction(X, y, X_test, kind=kind) for X, y in zip(designs, labels, strict=True)]
    found = [{} for _ in designs]
    for name, values in predicted.items():
        for line, value in zip(found, values, strict=True):
            wrong = np.abs(value - truth) / truth.std(axis=0)
            line[name] = {"rmse": float(np.sqrt((wrong**2).mean())), "linf": float(wrong.max())}
    return found


def run(half, names, designs, n_seeds):
    import torch

    torch.set_num_threads(1)
    records = Records(FOLDER / f"design-{half}.jsonl")
    for name in names:
        problem = HALVES[half][name]
        for design_name in designs:
            if problem.n_features > MOST_FEATURES.get(design_name, 99):
                continue
            missing = list(records.missing((name, design_name, seed) for seed in range(n_seeds)))
            if not missing:
                continue
            began = time.process_time()
            made = [DESIGNS[design_name](problem, seed) for _, _, seed in missing]
            seconds = (time.process_time() - began) / len(made)
            found = figures(problem, made, [seed for *_, seed in missing])
            for key, line in zip(missing, found, strict=True):
                records.add(*key, settings={"n": problem.n_runs}, result=line | {"seconds": seconds})
            print(f"{name} {design_name} {time.process_time() - began:.0f} s", flush=True)


def ratios(there, name, design_name, seeds, surrogate, key):
    """Logarithms of the ratio to Sobol points, seed by seed."""
    pairs = [(there.get((name, design_name, s)), there.get((name, "sobol", s))) for s in seeds]
    if any(a is None or b is None for a, b in pairs):
        return None
    return np.array([np.log(a[surrogate][key] / b[surrogate][key]) for a, b in pairs])


def cell(values):
    if values is None:
        return None
    ratio = float(np.exp(values.mean()))
    if len(values) < 2:
        return {"ratio": ratio, "factor": None}  # one seed has no interval
    error = values.std(ddof=1) / np.sqrt(len(values))
    return {"ratio": ratio, "factor": float(np.exp(1.96 * error))}


def seeds_of(there, names, design_name, n_seeds):
    """Seeds with which a design was run on every function it is meant for."""
    return [s for s in range(n_seeds) if all((n, d, s) in there for n in names for d in (design_name, "sobol"))]


def cells(there, name, design_name, seeds):
    """Every figure of a design on a function, over that of Sobol points."""
    return {
        s: {key: cell(ratios(there, name, design_name, seeds, s, key)) for key in ("rmse", "linf")} for s in SURROGATES
    }


def summary(half, n_seeds, only=None):
    there = {key: line["result"] for key, line in Records(FOLDER / f"design-{half}.jsonl").by_key().items()}
    problems = HALVES[half]
    names = [n for n in only or problems if all((n, d, s) in there for d in ("sobol", "steep") for s in range(n_seeds))]
    table = {name: cells(there, name, "steep", range(n_seeds)) for name in names}
    print(f"{half}: {len(names)} functions, {n_seeds} seeds; RMSE / largest error, over that of Sobol points\n")
    print("| function | d | runs | " + " | ".join(f"steep, {s}" for s in SURROGATES) + " |")
    print("|---|---|---|" + "---|" * len(SURROGATES))
    for name in names:
        shown = [" / ".join(f"{table[name][s][k]['ratio']:.2f}" for k in ("rmse", "linf")) for s in SURROGATES]
        print(f"| {name} | {problems[name].n_features} | {problems[name].n_runs} | {' | '.join(shown)} |")
    written = {"half": half, "n_seeds": n_seeds, "functions": table} | league(there, names, problems, n_seeds)
    written["goals"] = goals(table, names, problems)
    for goal, value in written["goals"].items():
        print(f"{goal}: {value}")
    if not only:
        write_json(FOLDER / f"design-{half}.json", written)


def league(there, names, problems, n_seeds):
    """One line a design: means over its functions and seeds, and its mean rank among those run everywhere."""
    found = {"means": {}, "ranks": {}, "rank_seeds": 0}
    for d in DESIGNS:
        meant = [n for n in names if problems[n].n_features <= MOST_FEATURES.get(d, 99)]
        seeds = seeds_of(there, meant, d, n_seeds)
        if not (meant and seeds):
            continue
        every = {n: cells(there, n, d, seeds) for n in meant}
        means = {
            s: {k: geometric([every[n][s][k]["ratio"] for n in meant]) for k in ("rmse", "linf")} for s in SURROGATES
        }
        above = sum(every[n][s]["rmse"]["ratio"] > 1.03 for n in meant for s in SURROGATES)
        found["means"][d] = {"functions": len(meant), "seeds": len(seeds), "above": above, **means}
    everywhere = [d for d, line in found["means"].items() if line["functions"] == len(names)]
    if everywhere:
        n_common = min(found["means"][d]["seeds"] for d in everywhere)
        found["ranks"], found["rank_seeds"] = mean_ranks(there, names, everywhere, range(n_common)), n_common
    print("\n| design | functions | seeds | " + " | ".join(SURROGATES) + " | RMSE above 1.03 | rank, RMSE | rank, L∞ |")
    print("|---|---|---|" + "---|" * (len(SURROGATES) + 3))
    for d, line in found["means"].items():
        shown = " | ".join(f"{line[s]['rmse']:.2f} / {line[s]['linf']:.2f}" for s in SURROGATES)
        rank = " | ".join(f"{found['ranks'][d][k]:.1f}" for k in ("rmse", "linf")) if d in found["ranks"] else "– | –"
        of = line["functions"] * len(SURROGATES)
        print(f"| {d} | {line['functions']} | {line['seeds']} | {shown} | {line['above']} of {of} | {rank} |")
    print(f"ranks with {found['rank_seeds']} seeds\n")
    return found


def mean_ranks(there, names, designs, seeds):
    """Mean rank over functions and surrogates, the same seeds for all."""
    table = {n: {d: cells(there, n, d, seeds) for d in designs} for n in names}
    found = {d: {} for d in designs}
    for key in ("rmse", "linf"):
        rows = [rankdata([table[n][d][s][key]["ratio"] for d in designs]) for n in names for s in SURROGATES]
        for d, rank in zip(designs, np.mean(rows, axis=0), strict=True):
            found[d][key] = float(rank)
        for s in SURROGATES:
            by = np.mean([rankdata([table[n][d][s][key]["ratio"] for d in designs]) for n in names], axis=0)
            for d, rank in zip(designs, by, strict=True):
                found[d][f"{key}, {s}"] = float(rank)
    return found


def goals(table, names, problems):
    def of(key, chosen):
        return [table[n][s][key]["ratio"] for n in chosen for s in SURROGATES]

    low = [n for n in names if problems[n].n_features <= 4]
    high = [n for n in names if problems[n].n_features > 4]
    above = [f"{n} {s} {table[n][s]['rmse']['ratio']:.2f}" for n in names for s in SURROGATES
             if table[n][s]["rmse"]["ratio"] > 1.03]  # fmt: skip
    return {
        "RMSE of Sobol, mean (goal 0.75)": geometric(of("rmse", names)),
        "RMSE above 1.03 of Sobol (goal: none)": above,
        "largest error of Sobol, d <= 4 (goal 0.60)": geometric(of("linf", low)),
        "largest error of Sobol, d >= 5 (goal 0.70)": geometric(of("linf", high)),
    }


def geometric(values):
    return float(np.exp(np.mean(np.log(values)))) if len(values) else float("nan")


def ask_times():
    """CPU time to ask for points, with results even and placed, so that the hedge compares them."""
    for d, n_told, n_asked in ((10, 2000, 100), (3, 100_000, 1)):
        print(f"ask({n_asked}) with {n_told} told, d = {d}: {timed_asks(d, n_told, n_asked)} s of CPU")


def timed_asks(d, n_told, n_asked):
    from steep.campaign import Campaign

    campaign = Campaign([(0, 1)] * d, storage=":memory:", n_initial=1)
    n_even = min(n_told // 2, 4096)
    X = np.vstack([
        campaign.box.sobol(n_even + 1, random_state=0)[1:],
        np.random.default_rng(0).random((n_told - n_even, d)) * ([0.5] + [1] * (d - 1)),
    ])  # fmt: skip
    campaign.tell(X, np.tanh(9 * (X[:, 0] + 0.6 * X[:, 1] - 0.8)))
    campaign.ask(1)  # the one start point
    campaign.ask(1)
    assert campaign.to_design().hedge.gains, "nothing was compared"
    times = []
    for _ in range(5):
        began = time.process_time()
        assert len(campaign.ask(n_asked)) == n_asked
        times.append(round(time.process_time() - began, 2))
    return times


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=list(HALVES), default="development")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--designs", nargs="*", choices=list(DESIGNS), default=list(DESIGNS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--ask", action="store_true")
    options = parser.parse_args()
    if options.ask:
        ask_times()
    else:
        if not options.summary:
            run(options.half, options.only or list(HALVES[options.half]), options.designs, options.seeds)
        summary(options.half, options.seeds, options.only)
