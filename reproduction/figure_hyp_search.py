"""Figure hyp-search: the error over a grid of m and k, Boston housing and breast cancer.

20 values of m from 2 to 100 and 20 of k from 10 to 50. Boston's linear model is solved exactly: what Adam tends to.
The paper shows one split, and reads the best (m, k) off its test set. Beside it: further splits, where a good (m, k)
has to be good again. Two claims a data set: that many pairs improve on equal weights, and what the map looks like.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.linear_model import LinearRegression

import steep
from reproduction.appendix import row
from reproduction.data import describe
from reproduction.ensemble import train_ensemble
from reproduction.jobs import Context, Job, Results, Scale
from reproduction.summary import Drawing, Figure, Lines, Section, markdown, show_gain
from reproduction.table3 import CANCER_UNITS, one_split
from reproduction.verdicts import Claim, compare, interval_of, not_run
from steep._progress import progress
from steep._validation import FloatArray

TITLE = "Figure hyp-search: error over m and k"
SMALL, WHOLE = {"n_m": 4, "n_k": 4, "splits": 2}, {"n_m": 20, "n_k": 20, "splits": 40}
SETTINGS: dict[str, dict[str, dict[str, int]]] = {
    "smoke": {"boston": SMALL, "breast_cancer": {**SMALL, "seeds": 1, "epochs": 20}},
    "laptop": {"boston": WHOLE, "breast_cancer": {**WHOLE, "splits": 5, "seeds": 3, "epochs": 1000}},
    "paper": {"boston": WHOLE, "breast_cancer": {**WHOLE, "splits": 10, "seeds": 10, "epochs": 250000}},
}
N_SHOWN = 10  # splits in the table
METRICS = {"boston": "MSE", "breast_cancer": "1 − accuracy"}
# What the paper says of each map, as signs: how the error goes with k and with m (0: nothing said).
SHAPES = {
    "boston": ("the error is larger for low k, and grows with m", -1, 1),
    "breast_cancer": ("the error is least for low k", 1, 0),
}


def grid(numbers: dict[str, int]) -> tuple[list[float], list[int]]:
    """Values of m and of k."""
    sizes = np.linspace(10, 50, numbers["n_k"]).round().astype(int)
    return np.linspace(2, 100, numbers["n_m"]).tolist(), sizes.tolist()


def jobs(scale: Scale) -> list[Job]:
    """One map for each data set and split; breast cancer, the dear one, on fewer splits."""
    found = []
    for name, numbers in SETTINGS[scale].items():
        told = {**describe(scale if name == "boston" else "real"), **numbers}
        for split in range(numbers["splits"]):
            run = partial(_run, name, numbers, split)
            found.append(Job(name, f"split {split}", (("map", split),), run, told))
    return found


def _run(name: str, numbers: dict[str, int], split: int, context: Context) -> Results:
    X, X_test, y, y_test = one_split(name, context.data, split)
    ratios, sizes = grid(numbers)
    by_maximum, rows = steep.Rescaling(method="max"), []
    for k in progress(sizes, total=len(sizes), label="values of k", shown=context.progress):
        weights = [
            steep.sample_weights(X, y, n_neighbors=k, weight_ratio=m, rescaling=by_maximum, embedding=None)
            for m in ratios
        ]
        rows.append([round(e, 5) for e in _errors(name, numbers, (X, y, X_test, y_test), weights, context)])
    equal = _errors(name, numbers, (X, y, X_test, y_test), [np.ones(len(X))], context)[0]
    return {("map", split): {"error": rows, "equal_weights": equal}}


def _errors(name: str, numbers: dict[str, int], split: Any, weights: list[Any], context: Context) -> list[float]:
    """Mean error of each set of weights over the seeds."""
    X, y, X_test, y_test = split
    if name == "boston":
        models = [LinearRegression().fit(X, y, sample_weight=w) for w in weights]
        return [float(((model.predict(X_test) - y_test) ** 2).mean()) for model in models]
    seeds = list(range(numbers["seeds"])) * len(weights)
    ensemble = train_ensemble(
        X, y, layers=(CANCER_UNITS,), loss="binary", epochs=numbers["epochs"], learning_rate=row(name).learning_rate,
        sample_weight=np.repeat(np.stack(weights), numbers["seeds"], axis=0), seeds=seeds, device=context.device,
    )  # fmt: skip
    wrong = ((ensemble.predict(X_test)[:, :, 0] > 0.5) != y_test).mean(axis=1)
    return [float(e) for e in wrong.reshape(len(weights), -1).mean(axis=1)]


def summarize(lines: Lines) -> Section:
    """How many pairs beat equal weights and what the map looks like, on the paper's one split and on all."""
    claims, tables, figures = [], [], []
    for name in METRICS:
        said = name.replace("_", " ")
        titles = (f"Many (m, k) improve on equal weights: {said}", f"Map of the error, {said}: {SHAPES[name][0]}")
        if len(lines.seeds(name, "map")) < 2:
            claims += [not_run(title, "a heat map") for title in titles]
            continue
        maps, equal = _maps(lines, name)
        claims += [_claim(titles[0], name, maps, equal), _shape_claim(titles[1], lines, name, maps)]
        tables.append(f"**{said}** ({METRICS[name]})\n\n" + _table(lines, name, maps, equal))
        caption = f"{said}: error minus that of equal weights over m and k (blue is better than equal weights)"
        figures.append(Figure(f"hyp-search-{name}", caption, partial(_draw, lines, name)))
    return Section(claims, tables, figures)


def _maps(lines: Lines, name: str) -> tuple[FloatArray, FloatArray]:
    results = [lines.result(name, "map", split) or {} for split in lines.seeds(name, "map")]
    return np.array([r["error"] for r in results]), np.array([r["equal_weights"] for r in results])


def chosen_elsewhere(maps: FloatArray, equal: FloatArray) -> FloatArray:
    """Gain on every split of the pair that is best on the mean of the others: a choice that saw no test set."""
    gains = equal[:, None, None] - maps
    others = [np.delete(gains, split, axis=0).mean(axis=0) for split in range(len(gains))]
    return np.array([own.ravel()[other.argmax()] for own, other in zip(gains, others, strict=True)])


def _claim(title: str, name: str, maps: FloatArray, equal: FloatArray) -> Claim:
    gains = equal[:, None, None] - maps
    share = (gains > 0).mean(axis=(1, 2))
    mean, chosen = (interval_of(found, "splits") for found in (gains.mean(axis=(1, 2)), chosen_elsewhere(maps, equal)))
    return compare(
        title, "a heat map",
        f"on one split {share[0]:.0%} of the pairs do; the best gains {gains[0].max():.3g}",
        f"over {len(maps)} splits {share.mean():.0%} do; mean gain of all pairs {show_gain(mean)}; of the pair that is "
        f"best on the other splits {show_gain(chosen)}",
        (bool(share[0] > 0.5),), chosen, printed=0.68 if name == "boston" else 0.001, at_scale=name == "boston",
    )  # fmt: skip


def _shape_claim(title: str, lines: Lines, name: str, maps: FloatArray) -> Claim:
    ratios, sizes = _grid_of(lines, name)
    by_k = np.array([_rank_correlation(sizes, errors.mean(axis=1)) for errors in maps])
    by_m = np.array([_rank_correlation(ratios, errors.mean(axis=0)) for errors in maps])
    _, *signs = SHAPES[name]
    # The weakest of the signs that the paper speaks of.
    expected = [sign * found for sign, found in zip(signs, (by_k, by_m), strict=True) if sign]
    intervals = [interval_of(found, "splits") for found in expected]
    weakest = min(intervals, key=lambda found: found.low if found else -1.0)
    told = [show_gain(interval_of(found, "splits")) for found in (by_k, by_m)]
    return compare(
        title, "a heat map", f"rank correlation of the error with k {by_k[0]:+.2f}, with m {by_m[0]:+.2f}",
        f"with k {told[0]}, with m {told[1]} over {len(maps)} splits",
        (all(bool(found[0] > 0) for found in expected),), weakest, printed=0.5, at_scale=name == "boston",
    )  # fmt: skip


def _rank_correlation(values: Sequence[float], errors: FloatArray) -> float:
    return float(spearmanr(values, errors)[0]) if np.ptp(errors) > 0 else 0.0


def _grid_of(lines: Lines, name: str) -> tuple[list[float], list[int]]:
    return grid({key: lines.settings(name)[key] for key in ("n_m", "n_k")})


def _table(lines: Lines, name: str, maps: FloatArray, equal: FloatArray) -> str:
    ratios, sizes = _grid_of(lines, name)
    rows = []
    for split, errors, base in list(zip(lines.seeds(name, "map"), maps, equal, strict=True))[:N_SHOWN]:
        k, m = np.unravel_index(np.argmin(errors), errors.shape)
        better = f"{(errors < base).mean():.0%}"
        rows.append([str(split), f"{base:.4g}", f"{errors.min():.4g}", f"{ratios[m]:.3g}", str(sizes[k]), better])
    header = ["split", "equal weights", "best of the map (chosen on the test set)", "its m", "its k",
              "pairs better than equal weights"]  # fmt: skip
    more = f"\n\n{len(maps) - N_SHOWN} more splits in the lines." if len(maps) > N_SHOWN else ""
    return markdown(header, rows) + more


def _draw(lines: Lines, name: str) -> Drawing:
    from matplotlib import pyplot

    maps, equal = _maps(lines, name)
    excess = maps - equal[:, None, None]
    ratios, sizes = _grid_of(lines, name)
    shown = {"one split": excess[0], f"mean of {len(maps)} splits": excess.mean(axis=0)}
    figure, axes = pyplot.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
    for ax, (title, values) in zip(axes, shown.items(), strict=True):
        reach = max(float(np.abs(values).max()), 1e-12)
        image = ax.pcolormesh(ratios, sizes, values, cmap="coolwarm", vmin=-reach, vmax=reach, shading="nearest")
        k, m = np.unravel_index(np.argmin(values), values.shape)
        ax.plot(ratios[m], sizes[k], "kx", label="least")
        ax.set(title=title, xlabel="m", ylabel="k")
        ax.legend(loc="upper right", fontsize=8)
        figure.colorbar(image, ax=ax, label=f"{METRICS[name]}, minus equal weights")
    return figure
