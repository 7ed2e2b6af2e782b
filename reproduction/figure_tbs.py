"""Figure tbs (a) to (d): networks trained on uniform points and on TBS points of the Bateman equations.

(a) f_θ over time for a start drawn at random, (b) for the start with the largest error, (c) max_t Df over (u_0, η_0),
capped at 0.10 as in the paper, (d) g_BS − g_TBS: where TBS lowers the largest error over time. The paper shows one
pair of networks; the claim drawn from it is measured on every repeat of Table 2.
"""

from functools import partial
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import steep
from reproduction import table2
from reproduction.jobs import Context, Job, Results, Scale
from reproduction.problems import BATEMAN
from reproduction.summary import Drawing, Figure, Lines, Section, show_gain
from reproduction.verdicts import compare, interval_of, not_run

TITLE = "Figure tbs: what TBS changes on the Bateman equations"
INPUTS = "as in the paper"
N_GRID = {"smoke": 6, "laptop": 40, "paper": 100}
CAP = 0.10
CLAIM = "The error falls most where Df is high, at small u_0 (Fig. tbs c, d)", "a picture"


def jobs(scale: Scale) -> list[Job]:
    """One line a repeat: the map of its gain; the first also holds curves and Df. Networks are those of Table 2."""
    numbers = {**table2.SETTINGS[scale], "n_grid": N_GRID[scale]}
    return [
        Job("tbs", f"maps {seed}", (("maps", seed),), partial(_run, numbers, seed), {"inputs": INPUTS, **numbers})
        for seed in range(table2.REPEATS[scale])
    ]


def _run(numbers: dict[str, int], seed: int, context: Context) -> Results:
    n = numbers["n_grid"]
    grid = table2.grid_of(n)
    flat = grid.reshape(-1, 3)
    truth = BATEMAN.function(flat)
    outputs = {arm: table2.network(arm, seed, numbers, context)[0](flat) for arm in ("uniform", "TBS")}
    worst = {arm: table2.worst_in_time(out, truth, grid) for arm, out in outputs.items()}
    df = steep.taylor_variation(None, flat, order=2, epsilon=table2.EPSILON, derivatives=BATEMAN.derivatives)
    variation = df.reshape(grid.shape[:2]).max(axis=1)
    gain = worst["uniform"] - worst["TBS"]
    correlation = float(spearmanr(variation, gain)[0])
    result: dict[str, Any] = {"gain": _rounded(gain.reshape(n, n)), "correlation": correlation}
    if seed == 0:
        random = int(np.random.default_rng(0).integers(n * n))
        chosen = {"random": random, "worst": int(np.argmax(np.maximum(*worst.values())))}
        shape = (n * n, -1, 2)
        result |= {
            "variation": _rounded(variation.reshape(n, n)),
            "curves": {name: {"start": _rounded(grid[row, 0, :2]), "truth": _rounded(truth.reshape(shape)[row]),
                              **{arm: _rounded(out.reshape(shape)[row]) for arm, out in outputs.items()}}
                       for name, row in chosen.items()},
        }  # fmt: skip
    return {("maps", seed): result}


def _rounded(values: Any) -> Any:
    return np.asarray(values).astype(float).round(5).tolist()


def summarize(lines: Lines) -> Section:
    """The four pictures, and the rank correlation of (c) and (d) over the repeats."""
    first = lines.result("tbs", "maps")
    correlations = lines.values("tbs", "maps", "correlation")
    if first is None:
        return Section([not_run(*CLAIM)])
    variation = np.array(first["variation"])
    peak = np.unravel_index(np.argmax(variation), variation.shape)
    u0, eta0 = (
        float(index) / (len(variation) - 1) * high for index, (_, high) in zip(peak, BATEMAN.bounds[:2], strict=True)
    )
    found = interval_of(correlations)
    claim = compare(
        *CLAIM,
        f"rank correlation of max Df and error reduction, one pair of networks {correlations[0]:+.2f}; max Df at "
        f"u_0 = {u0:.2f}, η_0 = {eta0:.2f}, {variation.max():.3g}",
        f"mean of {len(correlations)} pairs {show_gain(found)}", (), found, printed=0.5, at_scale=u0 < 1,
    )  # fmt: skip
    caption = "Bateman: (a) a random start, (b) the worst start, (c) max Df, (d) mean error reduction by TBS"
    return Section([claim], [], [Figure("tbs", caption, partial(_draw, lines))])


def _draw(lines: Lines) -> Drawing:
    from matplotlib import pyplot

    result = lines.result("tbs", "maps") or {}
    gains = [(lines.result("tbs", "maps", seed) or {})["gain"] for seed in lines.seeds("tbs", "maps")]
    figure, axes = pyplot.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
    for ax, (letter, (name, curves)) in zip(axes[0], zip("ab", result["curves"].items(), strict=True), strict=True):
        t = np.linspace(0, 10, len(curves["truth"]))
        for label, colour, style in (("truth", "0.3", "-"), ("uniform", "#235789", "--"), ("TBS", "#d94800", "--")):
            for output, values in enumerate(np.array(curves[label]).T):
                ax.plot(t, values, style, color=colour, label=label if output == 0 else None)
        u0, eta0 = curves["start"]
        ax.set(title=f"({letter}) {name} start: $u_0$ = {u0:.2f}, $η_0$ = {eta0:.2f}", xlabel="t", ylabel="u, η")
        ax.legend(frameon=False)
    maps = (
        ("(c) largest Df over time", np.minimum(result["variation"], CAP), "viridis"),
        ("(d) $g_{BS} − g_{TBS}$, mean (red: TBS better)", np.mean(gains, axis=0), "coolwarm"),
    )
    for ax, (title, values, colours) in zip(axes[1], maps, strict=True):
        reach = np.abs(values).max() if colours == "coolwarm" else None
        image = ax.imshow(values.T, origin="lower", extent=(0, 4, 0, 2), aspect="auto", cmap=colours,
                          vmin=-reach if reach else None, vmax=reach)  # fmt: skip
        ax.set(title=title, xlabel="$u_0$", ylabel="$η_0$")
        figure.colorbar(image, ax=ax)
    return figure
