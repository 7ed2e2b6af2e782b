"""What the authors leave open: weights divided by p(x), how the neighbour estimate approaches Df², and what it costs.

*Density.* Eq. J2* asks for w = Df̂²/p(x); the paper leaves p out, because estimates of it gave extreme values. In two
inputs p is known: weights with the exact p, with the estimate by the k-th neighbour, and with that estimate kept within
a factor 3 of its median (``measure="density"``), against Df̂² alone and equal weights.

*Convergence.* Over k neighbours in radius r the variance of the labels is about r²‖∇f‖²/(d + 2), so Df̂² can follow Df²
up to a factor. Its relative error has a bias O(r²) = O((k/n)^{2/d}) and a variance O(1/k): with k fixed the second
stays whatever n is, and k ∝ n^{4/(d+4)} balances both. Measured as a rank correlation on a function whose gradient is
known, with k = 20 and with k growing so.

The third question, why TCL and VBSW go together, is answered from the lines of Table 7.
"""

from functools import partial
from typing import Any

import numpy as np
from scipy import stats
from scipy.spatial import cKDTree

import steep
from reproduction.ensemble import train_ensemble
from reproduction.jobs import Context, Job, Results, Scale
from reproduction.records import cpu_seconds
from reproduction.summary import Drawing, Figure, Lines, Section, markdown, show, show_gain
from reproduction.verdicts import Claim, compare, not_run, seen
from steep._progress import progress
from steep._validation import FloatArray

TITLE = "Open questions of the paper"
RATIO, K = 20.0, 20
GROWING = "convergence, k grows"
KNOWN, MIDDLE = "density, p known", 0.6
KNOWN_ARMS = ("equal weights", "Df²", "Df²/p, exact", "Df²/p, k-th neighbour", "Df²/p, clipped")
LAPTOP: dict[str, Any] = {
    "sizes": [250, 1000, 4000, 16000, 64000], "dimensions": [1, 2, 3, 6], "repeats": 5, "n_growing": 4,
    "epochs": 3000, "known": 20, "cost": 60000,
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "smoke": {"sizes": [100, 400], "dimensions": [1, 3], "repeats": 2, "n_growing": 2, "epochs": 20,
              "known": 3, "cost": 1000},
    "laptop": LAPTOP, "paper": {**LAPTOP, "repeats": 20, "n_growing": 5, "known": 40},
}  # fmt: skip


def jobs(scale: Scale) -> list[Job]:
    """Weights with p known, the cost, and repeats of the convergence for each dimension."""
    numbers = SETTINGS[scale]
    found = []
    known = {"n": 1000, "n_test": 20000, "m": RATIO, "k": K, "layers": [32], "epochs": numbers["epochs"]}
    lines = tuple((arm, seed) for arm in KNOWN_ARMS for seed in range(numbers["known"]))
    found.append(Job(KNOWN, "all arms", lines, partial(_known, known, numbers["known"]), known))
    cost = {"n": numbers["cost"], "n_features": 84, "k": K, "heads": 10, "epochs": 25, "batch_size": 25}
    found.append(Job("cost", "weights and heads", (("VBSW", 0),), partial(_cost, cost), cost))
    for d in numbers["dimensions"]:
        lines, sizes = tuple((f"d = {d}", seed) for seed in range(numbers["repeats"])), numbers["sizes"]
        run = partial(_convergence, d, numbers["repeats"], sizes, [K] * len(sizes))
        found.append(Job("convergence", f"d = {d}", lines, run, {"k": K, "sizes": sizes}))
        sizes = sizes[: numbers["n_growing"]]
        neighbors = [growing(n, sizes[0], d) for n in sizes]
        run = partial(_convergence, d, numbers["repeats"], sizes, neighbors)
        found.append(Job(GROWING, f"d = {d}", lines, run, {"k": neighbors, "sizes": sizes}))
    return found


def growing(n: int, first: int, d: int) -> int:
    """k ∝ n^{4/(d + 4)}, 20 at the first size."""
    factor: float = (n / first) ** (4 / (d + 4))
    return round(K * factor)


def _known(numbers: dict[str, Any], repeats: int, context: Context) -> Results:
    """Points of [0, 1]², each coordinate with the density 12 x (1 − x)²; errors under this p and on the square."""
    n, results, data, weights = numbers["n"], {}, [], []
    for seed in range(repeats):
        X = np.random.default_rng(seed).beta(2, 3, (n, 2))
        f, _ = _wave(X, MIDDLE)
        df = steep.neighbor_variance(X, f, n_neighbors=K)
        distance = cKDTree(X).query(X, K)[0][:, -1]
        exact, nearest = stats.beta(2, 3).pdf(X).prod(axis=1), 1 / distance**2
        clipped = np.clip(nearest, np.median(nearest) / 3, np.median(nearest) * 3)
        data.append((X, f))
        weights.append([np.ones(n), *(1 + (RATIO - 1) * v / v.max() for v in (
            df, df / exact, df / nearest, df / clipped))])  # fmt: skip
    uniform = np.random.default_rng(2**20).random((numbers["n_test"], 2))
    drawn = np.random.default_rng(2**20).beta(2, 3, (numbers["n_test"], 2))
    for number, arm in enumerate(KNOWN_ARMS):
        trained = train_ensemble(
            [2 * X - 1 for X, _ in data], [f for _, f in data], seeds=range(repeats), layers=numbers["layers"],
            epochs=numbers["epochs"], learning_rate=3e-3, sample_weight=np.stack([w[number] for w in weights]),
            device=context.device, progress=context.progress,
        )  # fmt: skip
        errors = [(trained.predict(2 * X - 1)[:, :, 0] - _wave(X, MIDDLE)[0]) ** 2 for X in (drawn, uniform)]
        for seed in range(repeats):
            results[arm, seed] = {"mse": float(errors[0][seed].mean()), "max_squared": float(errors[1][seed].max())}
    return results


def _cost(numbers: dict[str, Any], context: Context) -> Results:
    """CPU minutes of Algorithm 3 on as many samples and features as MNIST's LeNet has: the weights, and ten heads."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, numbers["n"])
    features = rng.normal(size=(10, numbers["n_features"]))[labels]
    features = features + rng.normal(size=features.shape)
    with cpu_seconds() as weighting:
        weights = steep.sample_weights(features, labels, n_neighbors=K, embedding=None, task="classification")
    with cpu_seconds() as training:
        train_ensemble(features, labels, seeds=range(numbers["heads"]), layers=(), epochs=numbers["epochs"],
                       learning_rate=1e-3, loss="cross_entropy", batch_size=numbers["batch_size"],
                       sample_weight=weights, device=context.device, progress=context.progress)  # fmt: skip
    return {("VBSW", 0): {"weights": weighting["seconds"] / 60, "heads": training["seconds"] / 60}}


def _wave(X: FloatArray, middle: float | None = None) -> tuple[FloatArray, FloatArray]:
    """A function of all inputs with a known gradient, f and ‖∇f‖²; its front goes through the mean of X by default."""
    direction = np.arange(1, X.shape[1] + 1) / np.linalg.norm(np.arange(1, X.shape[1] + 1))
    along = X @ direction
    along = along - (along.mean() if middle is None else middle)
    return np.tanh(4 * along), (4 / np.cosh(4 * along) ** 2) ** 2


def _convergence(d: int, repeats: int, sizes: list[int], neighbors: list[int], context: Context) -> Results:
    results: Results = {}
    for seed in progress(range(repeats), total=repeats, label="repeats", shown=context.progress):
        correlations = []
        for n, k in zip(sizes, neighbors, strict=True):
            X = np.random.default_rng(seed).random((n, d))
            f, squared = _wave(X)
            estimate = steep.neighbor_variance(X, f, n_neighbors=k)
            correlations.append(float(stats.spearmanr(estimate, squared)[0]))
        results[f"d = {d}", seed] = {"sizes": sizes, "rank_correlation": correlations}
    return results


def summarize(lines: Lines) -> Section:
    """Whether p(x) helps, and how fast the estimate converges."""
    claims = [_density_claim(lines), _convergence_claim(lines), _cost_claim(lines)]
    tables, figures = [_known_table(lines)], []
    for experiment, told in CURVES.items():
        if _dimensions(lines, experiment):
            tables.append(f"Rank correlation of Df̂² and ‖∇f‖², {told}\n\n" + _convergence_table(lines, experiment))
    if _dimensions(lines, "convergence"):
        caption = "1 − rank correlation of Df̂² and ‖∇f‖² against n: k = 20 (solid), k growing with n (dashed)"
        figures.append(Figure("convergence", caption, partial(_draw, lines)))
    return Section(claims, tables, figures)


CURVES = {"convergence": "k = 20", GROWING: "k ∝ n^{4/(d+4)}"}


def _density_claim(lines: Lines) -> Claim:
    told = {(before, arm): lines.gain(KNOWN, before, arm, "mse", is_error=True)
            for arm in KNOWN_ARMS[2:] for before in KNOWN_ARMS[:2]}  # fmt: skip
    over = {before: [f"{arm} {show_gain(told[before, arm])}" for arm in KNOWN_ARMS[2:]] for before in KNOWN_ARMS[:2]}
    exact = told["equal weights", KNOWN_ARMS[2]]
    return compare(
        "Dividing by p(x) improves the weights", "left open (p omitted)",
        f"two inputs, p known, squared error over Df²: {'; '.join(over['Df²'])}",
        f"over equal weights: {'; '.join(over['equal weights'])}", (exact,), exact, claimed=False,
    )  # fmt: skip


def _cost_claim(lines: Lines) -> Claim:
    title = "VBSW takes less than 15 minutes on a laptop CPU", "§ Image classification"
    if (result := lines.result("cost", "VBSW")) is None:
        return not_run(*title)
    total = result["weights"] + result["heads"]
    n, weights = lines.settings("cost")["n"], result["weights"]
    said = f"{n:,} samples, 84 features, 10 heads: {total:.1f} CPU minutes, {weights:.2f} of them for the weights"
    return seen(*title, said, total < 15)


def _known_table(lines: Lines) -> str:
    rows = [
        [arm, *(show(lines.interval(KNOWN, arm, name)) for name in ("mse", "max_squared")),
         *("" if arm == "equal weights" else show_gain(lines.gain(KNOWN, "equal weights", arm, name, is_error=True))
           for name in ("mse", "max_squared"))]
        for arm in KNOWN_ARMS
    ]  # fmt: skip
    header = ["weights, p known", "mean squared error under p", "largest on the square", "gain over equal",
              "gain, largest"]  # fmt: skip
    return markdown(header, rows)


def _dimensions(lines: Lines, experiment: str) -> list[str]:
    found = {line["arm"] for line in lines.all if line["experiment"] == experiment}
    return sorted(found, key=lambda arm: int(arm.split()[-1]))


def _curve(lines: Lines, experiment: str, arm: str) -> tuple[list[int], FloatArray]:
    results = [lines.result(experiment, arm, seed) or {} for seed in lines.seeds(experiment, arm)]
    return results[0]["sizes"], np.mean([r["rank_correlation"] for r in results], axis=0)


def slope(sizes: list[int], curve: FloatArray) -> float:
    """s of 1 − ρ ∝ n^{−s}, by least squares over all sizes."""
    return -float(np.polyfit(np.log(sizes), np.log(1 - curve), 1)[0])


def _convergence_claim(lines: Lines) -> Claim:
    title = "Df̂² over neighbours becomes Df² as data grow denser", "argued, not measured"
    dimensions = _dimensions(lines, GROWING)
    if not dimensions or dimensions != _dimensions(lines, "convergence"):
        return not_run(*title)
    fixed, grown = ({arm: _curve(lines, name, arm) for arm in dimensions} for name in CURVES)
    slopes = [slope(*grown[arm]) for arm in dimensions]
    ends = [f"{arm}: {fixed[arm][1][-1]:.3f}" for arm in dimensions]
    told = [f"{arm}: n^−{found:.2f}" for arm, found in zip(dimensions, slopes, strict=True)]
    said = f"rank correlation with ‖∇f‖² at k = 20 and the largest n: {', '.join(ends)}"
    said += f"; with k growing, 1 − correlation falls as {', '.join(told)}"
    return seen(*title, said, all(found > 0 for found in slopes))


def _convergence_table(lines: Lines, experiment: str) -> str:
    curves = {arm: _curve(lines, experiment, arm) for arm in _dimensions(lines, experiment)}
    sizes = next(iter(curves.values()))[0]
    grows = experiment == GROWING
    rows = [
        [arm, *(f"{value:.3f}" for value in curve), f"n^−{slope(sizes, curve):.2f}"]
        + ([f"n^−{4 / (int(arm.split()[-1]) + 4):.2f}"] if grows else [])
        for arm, (_, curve) in curves.items()
    ]
    header = ["dimension", *(f"n = {n}" for n in sizes), "1 − correlation falls as"]
    return markdown([*header, "theory: n^−4/(d+4)"] if grows else header, rows)


def _draw(lines: Lines) -> Drawing:
    from matplotlib import pyplot

    figure, ax = pyplot.subplots(figsize=(5.2, 3.4), layout="constrained")
    for number, arm in enumerate(_dimensions(lines, "convergence")):
        for experiment, style in zip(CURVES, ("o-", "s--"), strict=True):
            if lines.seeds(experiment, arm):
                sizes, curve = _curve(lines, experiment, arm)
                label = arm if experiment == "convergence" else None
                ax.loglog(sizes, 1 - curve, style, color=f"C{number}", ms=4, label=label)
    ax.set(xlabel="n", ylabel="1 − rank correlation")
    ax.legend(frameon=False, fontsize=8)
    return figure
