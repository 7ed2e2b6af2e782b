"""Designs of noisy functions against Sobol points: the error of surrogates that allow for noise, over the clean truth.

    python benchmarks/design_noise.py --half development --seeds 5
    python benchmarks/design_noise.py --half unseen --seeds 5
    python benchmarks/design_noise.py --half unseen --summary

Noise has a tenth of the output's standard deviation, the same everywhere ("even") or from nothing to a fifth along the
first input ("uneven"). Every line of results/design-noise-<half>.jsonl is one (function and noise, design, seed).
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from design import DESIGNS, FOLDER, HALVES, N_TEST, cell, geometric, ratios, sobol
from design_error import NAMES
from steep.records import Records, write_json

NOISES = {"even": lambda U: np.full(len(U), 0.1), "uneven": lambda U: 0.2 * U[:, 0]}
SURROGATES = ("network", "matern", "rbf")


def noisy(problem, noise, seed):
    """The problem with a function that answers with noise, new in every call."""
    spread = (
        problem.function(sobol(problem.n_features, 1024, np.random.default_rng(7)))
        .reshape(1024, -1)
        .std(axis=0)
    )
    rng = np.random.default_rng([seed, 1])

    def function(U):
        clean = problem.function(U)
        values = clean.reshape(len(U), -1)
        wrong = rng.standard_normal(values.shape) * NOISES[noise](U)[:, None] * spread
        return (values + wrong).reshape(clean.shape)

    return replace(problem, function=function)


def figures(problem, noise, design_name, seed):
    """RMSE of each surrogate over the clean function."""
    from surrogates import predictions, process_prediction

    answering = noisy(problem, noise, seed)
    X = DESIGNS[design_name](answering, seed)
    y = answering.function(X).reshape(len(X), -1)
    fresh = sobol(problem.n_features, N_TEST, np.random.default_rng(10**6))
    truth = problem.function(fresh).reshape(N_TEST, -1)
    predicted = {"network": predictions(X[None], y[None], fresh)[0]}
    for kind in ("matern", "rbf"):
        predicted[kind] = process_prediction(X, y, fresh, kind=kind, noisy=True)
    scaled = {name: (values - truth) / truth.std(axis=0) for name, values in predicted.items()}
    return {name: {"rmse": float(np.sqrt((wrong**2).mean()))} for name, wrong in scaled.items()}


def summary(half, n_seeds):
    there = {k: line["result"] for k, line in Records(FOLDER / f"design-noise-{half}.jsonl").by_key().items()}
    table = {}
    for name in (f"{function}, {noise}" for function in NAMES[half] for noise in NOISES):
        cells = {s: cell(ratios(there, name, "steep", range(n_seeds), s, "rmse")) for s in SURROGATES}
        if cells["network"] is not None:
            table[name] = cells
            print(name, " ".join(f"{s} {cells[s]['ratio']:.2f}" for s in SURROGATES))
    means = {s: geometric([cells[s]["ratio"] for cells in table.values()]) for s in SURROGATES}
    print(f"RMSE over that of Sobol points, {len(table)} noisy functions, {n_seeds} seeds: {means}")
    write_json(FOLDER / f"design-noise-{half}.json", {"n_seeds": n_seeds, "means": means, "functions": table})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=list(NAMES), default="development")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    records = Records(FOLDER / f"design-noise-{options.half}.jsonl")
    wanted = [
        (f"{name}, {noise}", design_name, seed)
        for seed in range(options.seeds)
        for name in NAMES[options.half]
        for noise in NOISES
        for design_name in ("sobol", "steep")
    ]
    for experiment, design_name, seed in [] if options.summary else records.missing(wanted):
        name, noise = experiment.split(", ")
        result = figures(HALVES[options.half][name], noise, design_name, seed)
        records.add(experiment, design_name, seed, result=result)
    summary(options.half, options.seeds)
