"""Figure tbs (a) to (d): one network trained on uniform points and one on TBS points of the Bateman equations.

(a) f_θ over time for a start drawn at random, (b) for the start with the largest error, (c) max_t Df over (u_0, η_0),
capped at 0.10 as in the paper, (d) g_BS − g_TBS: where TBS lowers the largest error over time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import steep
from steep._validation import FloatArray
from steep.paper import table2
from steep.paper.jobs import Context, Job, Results, Scale
from steep.paper.problems import BATEMAN
from steep.paper.summary import Claim, Figure, Lines, Section, not_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

TITLE = "Figure tbs: what TBS changes on the Bateman equations"
INPUTS = "scaled"
N_GRID = {"smoke": 6, "laptop": 30, "paper": 100}
CAP = 0.10
CLAIM = "The error falls most where Df is high, at small u_0 (Fig. tbs c, d)", "a picture"


def jobs(scale: Scale) -> list[Job]:
    """One line: curves and maps of the first repeat."""
    numbers = {**table2.SETTINGS[scale]["bateman"], "repeats": 1, "n_grid": N_GRID[scale]}
    return [Job("tbs", "maps", (("maps", 0),), partial(_run, numbers), {"inputs": INPUTS, **numbers})]


def _run(numbers: dict[str, int], context: Context) -> Results:
    n = numbers["n_grid"]
    grid = table2.grid_of(BATEMAN, n)
    flat = grid.reshape(-1, 3)
    truth = BATEMAN.function(flat).reshape(*grid.shape[:2], 2)
    outputs = {}
    for arm in ("uniform", "TBS"):
        X, _ = table2.ARMS[arm](BATEMAN, numbers["n_points"], 0)
        ensemble = table2.train(BATEMAN, INPUTS, [X], numbers)
        outputs[arm] = table2.predict(ensemble, BATEMAN, INPUTS, flat)[0].reshape(truth.shape)
    worst = {arm: ((out - truth) ** 2).sum(axis=2).max(axis=1) for arm, out in outputs.items()}
    df = steep.taylor_variation(None, flat, order=2, epsilon=table2.EPSILON, derivatives=BATEMAN.derivatives)
    variation = df.reshape(grid.shape[:2]).max(axis=1)
    gain = worst["uniform"] - worst["TBS"]
    chosen = {
        "random": int(np.random.default_rng(0).integers(n * n)),
        "worst": int(np.argmax(np.maximum(*worst.values()))),
    }
    return {("maps", 0): {
        "variation": _rounded(variation.reshape(n, n)), "gain": _rounded(gain.reshape(n, n)),
        "correlation": float(np.corrcoef(_ranks(variation), _ranks(gain))[0, 1]),
        "curves": {name: {"start": _rounded(grid[row, 0, :2]), "truth": _rounded(truth[row]),
                          **{arm: _rounded(out[row]) for arm, out in outputs.items()}} for name, row in chosen.items()},
    }}  # fmt: skip


def _ranks(values: FloatArray) -> FloatArray:
    from scipy.stats import rankdata

    return np.asarray(rankdata(values), dtype=np.float64)


def _rounded(values: Any) -> Any:
    return np.asarray(values).astype(float).round(6).tolist()


def summarize(lines: Lines) -> Section:
    """The four pictures, and the rank correlation of (c) and (d)."""
    result = lines.result("tbs", "maps")
    if result is None:
        return Section([not_run(*CLAIM)])
    found = result["correlation"]
    variation = np.array(result["variation"])
    peak = np.unravel_index(np.argmax(variation), variation.shape)
    u0, eta0 = (float(index) / (len(variation) - 1) for index in peak)
    said = f"rank correlation of max Df and error reduction {found:+.2f}; max Df at u_0 = {u0:.2f}, η_0 = {eta0:.2f}"
    verdict = "holds" if found > 0.2 else "does not hold"
    return Section(
        [Claim(*CLAIM, said, f"{said} (one network each)", verdict)],
        [],
        [
            Figure(
                "tbs",
                "Bateman: (a) a random start, (b) the worst start, (c) max Df, (d) error reduction by TBS",
                partial(_draw, lines),
            )
        ],
    )


def _draw(lines: Lines) -> Drawing:
    from matplotlib import pyplot

    result = lines.result("tbs", "maps") or {}
    figure, axes = pyplot.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
    for ax, (letter, (name, curves)) in zip(
        axes[0], zip("ab", result["curves"].items(), strict=True), strict=True
    ):
        t = np.linspace(0, 10, len(curves["truth"]))
        for label, colour, style in (
            ("truth", "0.3", "-"),
            ("uniform", "#235789", "--"),
            ("TBS", "#d94800", "--"),
        ):
            for output, values in enumerate(np.array(curves[label]).T):
                ax.plot(t, values, style, color=colour, label=label if output == 0 else None)
        ax.set(title=f"({letter}) {name} start {curves['start']}", xlabel="t")
        ax.legend(frameon=False)
    maps = (
        ("(c) max Df (capped)", np.minimum(result["variation"], CAP), "viridis"),
        ("(d) g_BS − g_TBS", np.array(result["gain"]), "coolwarm"),
    )
    for ax, (title, values, colours) in zip(axes[1], maps, strict=True):
        reach = np.abs(values).max() if colours == "coolwarm" else None
        image = ax.imshow(
            values.T,
            origin="lower",
            extent=(0, 1, 0, 1),
            cmap=colours,
            vmin=-reach if reach else None,
            vmax=reach,
        )
        ax.set(title=title, xlabel="$u_0$", ylabel="$η_0$")
        figure.colorbar(image, ax=ax)
    return figure
