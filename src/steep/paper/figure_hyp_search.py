"""Figure hyp-search: the error over a grid of m and k, Boston housing and breast cancer.

20 values of m from 2 to 100 and 20 of k from 10 to 50. Boston's linear model is solved exactly: what Adam tends to.
The paper shows one split; beside it the mean over further splits, where a good (m, k) has to be good again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

import steep
from steep.paper.appendix import row
from steep.paper.data import Data, describe
from steep.paper.jobs import Context, Job, Results, Scale
from steep.paper.summary import Claim, Figure, Lines, Section, markdown, not_run
from steep.paper.table3 import CANCER_UNITS, load

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

TITLE = "Figure hyp-search: error over m and k"
SETTINGS: dict[str, dict[str, int]] = {
    "smoke": {"n_m": 4, "n_k": 4, "splits": 2, "seeds": 1, "epochs": 20},
    "laptop": {"n_m": 20, "n_k": 20, "splits": 10, "seeds": 3, "epochs": 1000},
    "paper": {"n_m": 20, "n_k": 20, "splits": 10, "seeds": 10, "epochs": 250000},
}
CLAIMS = {
    "boston": ("Boston: low k is poor, m near 2 is best; many (m, k) beat equal weights", "a heat map"),
    "breast_cancer": (
        "Breast cancer: low k is best, m may be high; many (m, k) beat equal weights",
        "a heat map",
    ),
}


def grid(numbers: dict[str, int]) -> tuple[list[float], list[int]]:
    """Values of m and of k."""
    return np.linspace(2, 100, numbers["n_m"]).tolist(), np.linspace(10, 50, numbers["n_k"]).round().astype(
        int
    ).tolist()


def jobs(scale: Scale) -> list[Job]:
    """One map for each data set and split; breast cancer, the dear one, on the first split only."""
    numbers = SETTINGS[scale]
    found = []
    for name in CLAIMS:
        told = {**describe(scale if name == "boston" else "real"), **numbers}
        for split in range(numbers["splits"] if name == "boston" else 1):
            run = partial(_run, name, numbers, split)
            found.append(Job(name, f"split {split}", (("map", split),), run, told))
    return found


def _run(name: str, numbers: dict[str, int], split: int, context: Context) -> Results:
    X, X_test, y, y_test = _split(name, split, context.data)
    ratios, sizes = grid(numbers)
    rows, equal = [], _errors(name, numbers, X, y, X_test, y_test, [np.ones(len(X))])[0]
    for k in sizes:
        weights = [
            steep.sample_weights(X, y, n_neighbors=k, weight_ratio=m, method="max", embedding=None)
            for m in ratios
        ]
        rows.append([round(e, 5) for e in _errors(name, numbers, X, y, X_test, y_test, weights)])
    return {("map", split): {"error": rows, "equal_weights": equal}}


def _split(name: str, split: int, data: Data) -> list[Any]:
    X, y = load(name, data)
    parts = train_test_split(X, y, test_size=0.2, random_state=split)
    largest = np.abs(parts[0]).max(axis=0)
    return [parts[0] / largest, parts[1] / largest, parts[2], parts[3]]


def _errors(
    name: str, numbers: dict[str, int], X: Any, y: Any, X_test: Any, y_test: Any, weights: list[Any]
) -> list[float]:
    """Mean error of each set of weights over the seeds."""
    if name == "boston":
        models = [LinearRegression().fit(X, y, sample_weight=w) for w in weights]
        return [float(((model.predict(X_test) - y_test) ** 2).mean()) for model in models]
    from steep.nn import train_ensemble

    seeds = list(range(numbers["seeds"])) * len(weights)
    ensemble = train_ensemble(
        X, y, layers=(CANCER_UNITS,), activation="relu", init="glorot", loss="binary", epochs=numbers["epochs"],
        learning_rate=row(name).learning_rate, sample_weight=np.repeat(np.stack(weights), numbers["seeds"], axis=0),
        random_state=seeds,
    )  # fmt: skip
    wrong = ((ensemble.predict(X_test)[:, :, 0] > 0.5) != y_test).mean(axis=1)
    return [float(e) for e in wrong.reshape(len(weights), -1).mean(axis=1)]


def summarize(lines: Lines) -> Section:
    """How many pairs beat equal weights, on the paper's one split and on the others."""
    claims, tables, figures = [], [], []
    for name, claim in CLAIMS.items():
        first = lines.result(name, "map")
        if first is None:
            claims.append(not_run(*claim))
            continue
        maps, equal = _maps(lines, name)
        share = (maps < equal[:, None, None]).mean(axis=(1, 2))
        mean_gain = (equal[:, None, None] - maps).mean(axis=0)
        printed = f"{share[0]:.0%} of the pairs beat equal weights on one split"
        honest = (
            f"over {len(maps)} splits {share.mean():.0%} do; mean gain of the best pair {mean_gain.max():.3g}, of all "
            f"{mean_gain.mean():.3g}"
            if len(maps) > 1 else "one split only"
        )  # fmt: skip
        good = share.mean() > 0.5 if len(maps) > 1 else share[0] > 0.5
        claims.append(
            Claim(
                *claim,
                printed,
                honest,
                "holds" if good else "holds under conditions" if share[0] > 0.5 else "does not hold",
            )
        )
        tables.append(_table(lines, name, maps, equal))
        figures.append(
            Figure(
                f"hyp-search-{name}",
                f"Error over m and k, {name.replace('_', ' ')}",
                partial(_draw, lines, name),
            )
        )
    return Section(claims, tables, figures)


def _maps(lines: Lines, name: str) -> tuple[Any, Any]:
    results = [lines.result(name, "map", split) or {} for split in lines.seeds(name, "map")]
    return np.array([r["error"] for r in results]), np.array([r["equal_weights"] for r in results])


def _table(lines: Lines, name: str, maps: Any, equal: Any) -> str:
    numbers = {key: lines.settings(name)[key] for key in ("n_m", "n_k")}
    ratios, sizes = grid(numbers)
    rows = []
    for split, (errors, base) in enumerate(zip(maps, equal, strict=True)):
        k, m = np.unravel_index(np.argmin(errors), errors.shape)
        rows.append(
            [
                str(split),
                f"{base:.4g}",
                f"{errors.min():.4g}",
                f"{ratios[m]:.3g}",
                str(sizes[k]),
                f"{(errors < base).mean():.0%}",
            ]
        )
    return f"**{name}**\n\n" + markdown(
        [
            "split",
            "equal weights",
            "best of the map (chosen on the test set)",
            "its m",
            "its k",
            "pairs better than equal weights",
        ],
        rows,
    )


def _draw(lines: Lines, name: str) -> Drawing:
    from matplotlib import pyplot

    maps, _ = _maps(lines, name)
    ratios, sizes = grid({key: lines.settings(name)[key] for key in ("n_m", "n_k")})
    shown = [("one split (the paper)", maps[0])] + (
        [(f"mean of {len(maps)} splits", maps.mean(axis=0))] if len(maps) > 1 else []
    )
    figure, axes = pyplot.subplots(
        1, len(shown), figsize=(4.2 * len(shown), 3.4), layout="constrained", squeeze=False
    )
    for ax, (title, errors) in zip(axes[0], shown, strict=True):
        image = ax.imshow(
            errors,
            origin="lower",
            aspect="auto",
            cmap="coolwarm",
            extent=(ratios[0], ratios[-1], sizes[0], sizes[-1]),
        )
        ax.set(title=title, xlabel="m", ylabel="k")
        figure.colorbar(image, ax=ax)
    return figure
