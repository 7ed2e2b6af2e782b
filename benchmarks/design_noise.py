"""Designs of noisy functions against Sobol points: the error of surrogates that allow for noise, over the clean truth.

    python benchmarks/design_noise.py --half development --seeds 5
    python benchmarks/design_noise.py --half unseen --seeds 5
    python benchmarks/design_noise.py --half unseen --summary
    python benchmarks/design_noise.py --half development --designs sobol steep repeats repeat --seeds 1
    python benchmarks/design_noise.py --half development --designs sobol steep repeats repeat --seeds 1 --size 1.0

Noise has a tenth of the output's standard deviation (``--size``), the same everywhere ("even") or from nothing to twice
that along the first input ("uneven"). "repeats" runs half as many Sobol points, each twice; "repeat" is steep with
``noise="repeat"``. Surrogates are trained on the answers that the design saw. Every line of
results/design-noise-<half>.jsonl is one (function and noise, design, seed).
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial

import numpy as np

from design import DESIGNS, FOLDER, HALVES, N_TEST, cell, geometric, ratios, sobol
from design_error import NAMES
from reproduction.records import Records, write_json

NOISES = {"even": lambda U: np.ones(len(U)), "uneven": lambda U: 2 * U[:, 0]}
USUAL_SIZE = 0.1
SURROGATES = ("network", "matern", "rbf")


def repeats_design(problem, seed):
    """Half the Sobol points, each of them run twice."""
    return np.repeat(DESIGNS["sobol"](replace(problem, n_runs=problem.n_runs // 2), seed), 2, axis=0)


MADE = DESIGNS | {"repeats": repeats_design, "repeat": partial(DESIGNS["steep"], noise="repeat")}


def experiment_name(function, noise, size):
    return f"{function}, {noise}" if size == USUAL_SIZE else f"{function}, {noise} {size}"


def noisy(problem, noise, size, seed):
    """The problem with a function that answers with noise, new in every call, and the list of its answers."""
    spread = (
        problem.function(sobol(problem.n_features, 1024, np.random.default_rng(7)))
        .reshape(1024, -1)
        .std(axis=0)
    )
    rng, answers = np.random.default_rng([seed, 1]), []

    def function(U):
        clean = problem.function(U)
        values = clean.reshape(len(U), -1)
        wrong = rng.standard_normal(values.shape) * size * NOISES[noise](U)[:, None] * spread
        answers.append(values + wrong)
        return answers[-1].reshape(clean.shape)

    return replace(problem, function=function), answers


def figures(problem, noise, size, design_name, seed):
    """RMSE of each surrogate over the clean function."""
    from surrogates import predictions, process_prediction

    answering, answers = noisy(problem, noise, size, seed)
    X = MADE[design_name](answering, seed)
    if not answers:
        answering.function(X)
    y = np.vstack(answers)
    fresh = sobol(problem.n_features, N_TEST, np.random.default_rng(10**6))
    truth = problem.function(fresh).reshape(N_TEST, -1)
    predicted = {"network": predictions(X[None], y[None], fresh)[0]}
    for kind in ("matern", "rbf"):
        predicted[kind] = process_prediction(X, y, fresh, kind=kind, noisy=True)
    scaled = {name: (values - truth) / truth.std(axis=0) for name, values in predicted.items()}
    return {name: {"rmse": float(np.sqrt((wrong**2).mean()))} for name, wrong in scaled.items()}


def summary(half, n_seeds, size):
    there = {k: line["result"] for k, line in Records(FOLDER / f"design-noise-{half}.jsonl").by_key().items()}
    written = {"half": half, "designs": {}}
    for design_name in ("steep", "repeats", "repeat"):
        names = [experiment_name(function, noise, size) for function in NAMES[half] for noise in NOISES]
        seeds = [
            s
            for s in range(n_seeds)
            if all((n, d, s) in there for n in names for d in ("sobol", design_name))
        ]
        if seeds:
            written["designs"][design_name] = shown(there, names, design_name, seeds)
    write_json(FOLDER / f"design-noise-{half}{'' if size == USUAL_SIZE else f'-{size}'}.json", written)


def shown(there, names, design_name, seeds):
    """Print and return the ratios to Sobol points of one design, and what becomes of the goals."""
    table = {n: {s: cell(ratios(there, n, design_name, seeds, s, "rmse")) for s in SURROGATES} for n in names}
    for name, line in table.items():
        print(design_name, name, " ".join(f"{s} {line[s]['ratio']:.2f}" for s in SURROGATES))
    found = {"n_seeds": len(seeds), "functions": table, "surrogates": {}}
    for s in SURROGATES:
        all_of = np.array([line[s]["ratio"] for line in table.values()])
        found["surrogates"][s] = {
            "mean": geometric(all_of), "at most 0.8": int((all_of <= 0.8).sum()),
            "above 1.05": int((all_of > 1.05).sum()), "worst": float(all_of.max()), "of": len(all_of),
        }  # fmt: skip
    print(f"{design_name}: RMSE over that of Sobol points, {len(seeds)} seeds: {found['surrogates']}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=list(NAMES), default="development")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--designs", nargs="*", choices=list(MADE), default=["sobol", "steep"])
    parser.add_argument("--size", type=float, default=USUAL_SIZE)
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    records = Records(FOLDER / f"design-noise-{options.half}.jsonl")
    wanted = [
        (experiment_name(name, noise, options.size), design_name, seed)
        for seed in range(options.seeds)
        for name in NAMES[options.half]
        for noise in NOISES
        for design_name in options.designs
    ]
    for experiment, design_name, seed in [] if options.summary else records.missing(wanted):
        name, noise = experiment.split(", ")
        result = figures(HALVES[options.half][name], noise.split(" ")[0], options.size, design_name, seed)
        records.add(experiment, design_name, seed, result=result)
    summary(options.half, options.seeds, options.size)
