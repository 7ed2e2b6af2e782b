"""Weights where the theory of the paper promises a gain: regression surrogates of Runge, tanh and Bateman.

The paper derives its weights from the error of a regression, and measures them on classes. Here perceptrons learn from
uniform points, inputs scaled to [−1, 1]; m and k are chosen by cross-validation on the training points, by the norm
that is scored, with equal weights among the candidates. A search trains one network per candidate; its control is as
many restarts with equal weights, of which the one with the least training error is kept.
"""

from functools import partial
from typing import Any

import numpy as np

import steep
from reproduction.ensemble import train_ensemble
from reproduction.jobs import Context, Job, Results, Scale
from reproduction.problems import BATEMAN, RUNGE, TANH, Problem
from reproduction.summary import Lines, Section, markdown, show, show_gain
from reproduction.verdicts import Claim, compare, joined, not_run
from steep._validation import FloatArray

TITLE = "VBSW for regression surrogates"
PROBLEMS = {problem.name: problem for problem in (RUNGE, TANH, BATEMAN)}
ONE_INPUT = {"n": 30, "folds": 3, "layers": [8], "ratios": [5.0, 40.0], "k": [3, 6], "epochs": 10000}
SEVERAL = {"n": 300, "folds": 3, "layers": [32, 32], "ratios": [5.0, 40.0], "k": [5, 20], "epochs": 3000}
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "smoke": {name: {**SEVERAL, "n": 60, "epochs": 20, "repeats": 2} for name in PROBLEMS},
    "laptop": {name: {**ONE_INPUT, "repeats": 20} for name in ("runge", "tanh")} | {
        "bateman": {**SEVERAL, "repeats": 10}},
    "paper": {name: {**ONE_INPUT, "repeats": 40} for name in ("runge", "tanh")} | {
        "bateman": {**SEVERAL, "n": 2000, "epochs": 10000, "repeats": 40}},
}  # fmt: skip
ARMS = ("equal weights", "equal weights, restarts", "VBSW, least CV error", "VBSW, least largest CV error")
NORMS = {"mse": "L2 (mean squared error)", "max_squared": "L∞ (largest squared error)"}
LEARNING_RATE, N_TEST = 3e-3, 20_000
ARGUED = "argued (§ 4), not measured; here m and k by cross-validation, over equal weights, and as many restarts"


def jobs(scale: Scale) -> list[Job]:
    """One job a function: all repeats, folds and candidates are one batch of networks."""
    return [
        Job(name, "all arms", tuple((arm, seed) for arm in ARMS for seed in range(numbers["repeats"])),
            partial(_run, PROBLEMS[name], numbers), {**numbers, "learning_rate": LEARNING_RATE})
        for name, numbers in SETTINGS[scale].items()
    ]  # fmt: skip


def _run(problem: Problem, numbers: dict[str, Any], context: Context) -> Results:
    repeats = range(numbers["repeats"])
    low, high = np.array(problem.bounds).T
    drawn = [np.random.default_rng(seed).random((numbers["n"], len(low))) for seed in repeats]
    values = [problem.function(low + U * (high - low)).reshape(len(U), -1) for U in drawn]
    scale = np.std(np.concatenate(values), axis=0)
    data = [(2 * U - 1, y / scale) for U, y in zip(drawn, values, strict=True)]
    candidates: list[tuple[float, int]] = [(1.0, 2), *((m, k) for m in numbers["ratios"] for k in numbers["k"])]
    by_cv = _cross_validated(data, candidates, numbers, context)
    starts = [data[seed] for seed in repeats for _ in candidates]
    seeds = [seed + 1000 * start for seed in repeats for start in range(len(candidates))]
    restarts = _train(starts, [np.ones(numbers["n"])] * len(starts), seeds, numbers, context)
    losses = np.mean(
        (restarts.predict(np.stack([X for X, _ in starts])) - np.stack([y for _, y in starts])) ** 2, (1, 2)
    )
    best = losses.reshape(len(repeats), -1).argmin(axis=1)
    test = np.random.default_rng(2**20).random((N_TEST, len(low)))
    truth = problem.function(low + test * (high - low)).reshape(N_TEST, -1) / scale
    outputs = restarts.predict(2 * test - 1).reshape(len(repeats), len(candidates), *truth.shape)
    results: Results = {}
    for seed in repeats:
        results[ARMS[0], seed] = _errors(truth, outputs[seed, 0])
        results[ARMS[1], seed] = _errors(truth, outputs[seed, best[seed]])
    for arm, scores in zip(ARMS[2:], by_cv, strict=True):
        chosen = [candidates[i] for i in scores.argmin(axis=1)]
        weights = [_weights(X, y, *pair) for (X, y), pair in zip(data, chosen, strict=True)]
        found = _train(data, weights, list(repeats), numbers, context).predict(2 * test - 1)
        for seed in repeats:
            results[arm, seed] = {**_errors(truth, found[seed]), "m": chosen[seed][0], "k": chosen[seed][1]}
    return results


def _cross_validated(data: list[Any], candidates: list[Any], numbers: dict[str, Any], context: Context) -> list[Any]:
    """Mean and largest squared error of each candidate on unseen folds, two arrays (n_repeats, n_candidates)."""
    parts, weights, seeds, held_out = [], [], [], []
    for seed, (X, y) in enumerate(data):
        for rows in np.split(np.random.default_rng(seed).permutation(len(X)), numbers["folds"]):
            kept = np.setdiff1d(np.arange(len(X)), rows)
            for pair in candidates:
                parts.append((X[kept], y[kept]))
                weights.append(_weights(X[kept], y[kept], *pair))
                seeds.append(seed)
                held_out.append((X[rows], y[rows]))
    outputs = _train(parts, weights, seeds, numbers, context).predict(np.stack([X for X, _ in held_out]))
    squared = (outputs - np.stack([y for _, y in held_out])) ** 2
    shape = len(data), numbers["folds"], len(candidates)
    return [squared.mean(axis=(1, 2)).reshape(shape).mean(axis=1), squared.max(axis=(1, 2)).reshape(shape).max(axis=1)]


def _weights(X: FloatArray, y: FloatArray, m: float, k: int) -> FloatArray:
    if m == 1:
        return np.ones(len(X))
    return steep.sample_weights(X, y, n_neighbors=k, weight_ratio=m, embedding=None, task="regression")


def _train(
    data: list[Any], weights: list[FloatArray], seeds: list[int], numbers: dict[str, Any], context: Context
) -> Any:
    return train_ensemble(
        [X for X, _ in data], [y for _, y in data], seeds=seeds, layers=numbers["layers"], epochs=numbers["epochs"],
        learning_rate=LEARNING_RATE, sample_weight=np.stack(weights), device=context.device,
        progress=context.progress,
    )  # fmt: skip


def _errors(truth: FloatArray, outputs: FloatArray) -> dict[str, float]:
    squared = (truth - outputs) ** 2
    return {"mse": float(squared.mean()), "max_squared": float(squared.max())}


def summarize(lines: Lines) -> Section:
    """Both norms for each function; outputs are divided by their spread."""
    claims = [
        joined(f"Weights lower {told} of a surrogate of Runge, tanh and Bateman", ARGUED,
               {name: _claim(lines, name, norm) for name in PROBLEMS})
        for norm, told in NORMS.items()
    ]  # fmt: skip
    rows = []
    for name in PROBLEMS:
        for arm in ARMS:
            gains = [
                show_gain(lines.gain(name, before, arm, norm, is_error=True, kind="ranks")) if arm != before else ""
                for before in ARMS[:2] for norm in NORMS
            ]  # fmt: skip
            rows.append([name, arm, *(show(lines.interval(name, arm, norm)) for norm in NORMS), *gains])
    header = ["function", "arm", "mean squared error", "largest squared error", "gain over equal weights, L2", "L∞",
              "gain over restarts, L2", "L∞"]  # fmt: skip
    return Section(claims, [markdown(header, rows)])


def _claim(lines: Lines, name: str, norm: str) -> Claim:
    arm = ARMS[2] if norm == "mse" else ARMS[3]
    if not lines.seeds(name, arm):
        return not_run(name, ARGUED, claimed=False)
    plain, control = (lines.gain(name, before, arm, norm, is_error=True, kind="ranks") for before in ARMS[:2])
    return compare(name, ARGUED, show_gain(plain), show_gain(control), (plain,), control, claimed=False)
