"""What the authors leave open: weights divided by p(x), and how the neighbour estimate approaches Df².

*Density.* Eq. J2* asks for w = Df̂²/p(x); the paper leaves p out. Both against equal weights on new splits.

*Convergence.* Over k neighbours in radius r the variance of the labels is about r²‖∇f‖²/(d + 2): Df̂² follows Df² only
up to r², which differs from point to point. Measured on functions whose gradient is known, for n growing.

The third question, why TCL and VBSW go together, is answered from the lines of Table 7.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import steep
from steep._validation import FloatArray
from steep.paper.data import describe
from steep.paper.jobs import Context, Job, Results, Scale
from steep.paper.summary import Claim, Figure, Lines, Section, judge, markdown, not_run, show, show_gain
from steep.paper.table3 import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

TITLE = "Open questions of the paper"
RATIO, K = 20.0, 20
MEASURES = {"equal weights": None, "Df²": "variance", "Df²/p": "density"}
SETTINGS: dict[str, dict[str, Any]] = {
    "smoke": {"splits": 3, "sizes": [100, 400], "dimensions": [1, 3], "repeats": 2},
    "laptop": {
        "splits": 60,
        "sizes": [250, 1000, 4000, 16000, 64000],
        "dimensions": [1, 2, 3, 6],
        "repeats": 5,
    },
    "paper": {
        "splits": 60,
        "sizes": [250, 1000, 4000, 16000, 64000],
        "dimensions": [1, 2, 3, 6],
        "repeats": 20,
    },
}
DATA = ("boston", "breast_cancer")


def jobs(scale: Scale) -> list[Job]:
    """Splits of two tables; repeats of the convergence for each dimension."""
    numbers = SETTINGS[scale]
    found = []
    for name in DATA:
        lines = tuple((arm, split) for arm in MEASURES for split in range(numbers["splits"]))
        told = {
            **describe(scale if name == "boston" else "real"),
            "m": RATIO,
            "k": K,
            "splits": numbers["splits"],
        }
        found.append(
            Job(f"density, {name}", "all splits", lines, partial(_density, name, numbers["splits"]), told)
        )
    for d in numbers["dimensions"]:
        lines = tuple((f"d = {d}", seed) for seed in range(numbers["repeats"]))
        run = partial(_convergence, d, numbers)
        found.append(Job("convergence", f"d = {d}", lines, run, {"k": K, "sizes": numbers["sizes"]}))
    return found


def _density(name: str, n_splits: int, context: Context) -> Results:
    X, y = load(name, context.data)
    results: Results = {}
    for split in range(n_splits):
        parts = train_test_split(X, y, test_size=0.2, random_state=split)
        scaler = StandardScaler().fit(parts[0])
        train, test = scaler.transform(parts[0]), scaler.transform(parts[1])
        for arm, measure in MEASURES.items():
            weight = (
                None
                if measure is None
                else steep.sample_weights(train, parts[2], measure=measure, weight_ratio=RATIO, n_neighbors=K)
            )
            model = LinearRegression() if name == "boston" else LogisticRegression(max_iter=1000)
            predicted = model.fit(train, parts[2], sample_weight=weight).predict(test)
            score = (
                ((predicted - parts[3]) ** 2).mean()
                if name == "boston"
                else 100 * (predicted == parts[3]).mean()
            )
            results[arm, split] = {"score": float(score)}
    return results


def _wave(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A function of all inputs with a known gradient: f and ‖∇f‖²."""
    direction = np.arange(1, X.shape[1] + 1) / np.linalg.norm(np.arange(1, X.shape[1] + 1))
    along = X @ direction
    return np.tanh(4 * (along - along.mean())), (4 / np.cosh(4 * (along - along.mean())) ** 2) ** 2


def _convergence(d: int, numbers: dict[str, Any], context: Context) -> Results:
    results: Results = {}
    for seed in range(numbers["repeats"]):
        correlations = []
        for n in numbers["sizes"]:
            X = np.random.default_rng(seed).random((n, d))
            f, squared = _wave(X)
            estimate = steep.neighbor_variance(X, f, n_neighbors=K)
            correlations.append(float(stats.spearmanr(estimate, squared)[0]))
        results[f"d = {d}", seed] = {"sizes": numbers["sizes"], "rank_correlation": correlations}
    return results


def summarize(lines: Lines) -> Section:
    """Whether p(x) helps, and how fast the estimate converges."""
    claims = [_density_claim(lines, name) for name in DATA] + [_convergence_claim(lines)]
    tables = [_density_table(lines)] + ([_convergence_table(lines)] if _dimensions(lines) else [])
    figures = (
        [Figure("convergence", "Rank correlation of Df̂² and Df² against n", partial(_draw, lines))]
        if _dimensions(lines)
        else []
    )
    return Section(claims, tables, figures)


def _density_claim(lines: Lines, name: str) -> Claim:
    is_error, experiment = name == "boston", f"density, {name}"
    gain = lines.gain(experiment, "Df²", "Df²/p", "score", is_error=is_error)
    over_equal = lines.gain(experiment, "equal weights", "Df²/p", "score", is_error=is_error)
    return Claim(
        f"Dividing by p(x) would matter: {name.replace('_', ' ')}", "left open (p omitted)", "not in the paper",
        f"Df²/p − Df² {show_gain(gain)}; Df²/p − equal weights {show_gain(over_equal)}", judge(gain),
    )  # fmt: skip


def _density_table(lines: Lines) -> str:
    rows = []
    for name in DATA:
        for arm in MEASURES:
            experiment = f"density, {name}"
            gain = lines.gain(experiment, "equal weights", arm, "score", is_error=name == "boston")
            rows.append(
                [
                    name,
                    arm,
                    show(lines.interval(experiment, arm, "score"), digits=4),
                    "" if arm == "equal weights" else show_gain(gain),
                ]
            )
    return markdown(
        ["data", f"weights (m = {RATIO:g}, k = {K})", "score (MSE or accuracy)", "gain over equal weights"],
        rows,
    )


def _dimensions(lines: Lines) -> list[str]:
    return sorted(
        {line["arm"] for line in lines.all if line["experiment"] == "convergence"},
        key=lambda arm: int(arm.split()[-1]),
    )


def _curve(lines: Lines, arm: str) -> tuple[list[int], FloatArray]:
    results = [lines.result("convergence", arm, seed) or {} for seed in lines.seeds("convergence", arm)]
    return results[0]["sizes"], np.mean([r["rank_correlation"] for r in results], axis=0)


def _convergence_claim(lines: Lines) -> Claim:
    title = "Df̂² over neighbours becomes Df² as data grow denser", "argued, not measured"
    dimensions = _dimensions(lines)
    if not dimensions:
        return not_run(*title)
    told = []
    for arm in dimensions:
        sizes, curve = _curve(lines, arm)
        told.append(f"{arm}: {curve[0]:.2f} at n = {sizes[0]}, {curve[-1]:.2f} at n = {sizes[-1]}")
    grows = all(_curve(lines, arm)[1][-1] > 0.95 for arm in dimensions)
    return Claim(
        *title,
        "not in the paper",
        "rank correlation with ‖∇f‖²; " + "; ".join(told),
        "holds" if grows else "holds under conditions",
    )


def _convergence_table(lines: Lines) -> str:
    sizes = _curve(lines, _dimensions(lines)[0])[0]
    rows = [[arm, *(f"{value:.3f}" for value in _curve(lines, arm)[1])] for arm in _dimensions(lines)]
    return markdown(["dimension", *(f"n = {n}" for n in sizes)], rows)


def _draw(lines: Lines) -> Drawing:
    from matplotlib import pyplot

    figure, ax = pyplot.subplots(figsize=(4.8, 3.2), layout="constrained")
    for arm in _dimensions(lines):
        sizes, curve = _curve(lines, arm)
        ax.loglog(sizes, 1 - curve, "o-", label=arm)
    ax.set(xlabel="n", ylabel="1 − rank correlation")
    ax.legend(frameon=False)
    return figure
