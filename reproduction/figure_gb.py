"""Figure gb: the generalization bound of f(x) = x³ over cells, and the cells the bound itself asks for.

    J ≤ Σ_i (|f'(x_i)| + K)² c |S_i|³

At a fixed number of cells the bound is least where the density of points is ∝ |f'| + K; the paper draws ∝ Df, and
uniform cells are the baseline. All three are compared for the same K.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import steep
from reproduction.jobs import Context, Job, Results, Scale
from reproduction.summary import Claim, Figure, Lines, Section, markdown, not_run
from steep._validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

TITLE = "Figure gb: the bound on x³"
LOW, HIGH, LIPSCHITZ, N_CELLS, EPSILON = -1.0, 1.0, 1.0, 12, 1e-3
DENSITIES = ("uniform", "∝ Df (the paper)", "∝ √Df", "∝ |f'| + K (the bound)")
CLAIM = "Smaller cells where f is steep lower the bound (Fig. gb)", "a picture"


def jobs(scale: Scale) -> list[Job]:
    """One line for each density."""
    told = {"f": "x³", "domain": [LOW, HIGH], "K": LIPSCHITZ, "n_cells": N_CELLS, "epsilon": EPSILON}
    return [Job("gb", name, ((name, 0),), partial(_run, name), told) for name in DENSITIES]


def _run(name: str, context: Context) -> Results:
    x = np.linspace(LOW, HIGH, 20001)
    slope, second = 3 * x**2, 6 * x
    df = EPSILON * slope**2 + EPSILON**2 / 2 * second**2
    density = dict(zip(DENSITIES, (np.ones_like(x), df, np.sqrt(df), slope + LIPSCHITZ), strict=True))[name]
    edges = _cells(x, density)
    centres, sizes = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / (HIGH - LOW)
    # Derivatives in shares of the domain, as the sizes of the cells are.
    slopes, lipschitz = 3 * centres**2 * (HIGH - LOW), LIPSCHITZ * (HIGH - LOW)
    bounds = {
        constant: steep.generalization_bound(slopes, sizes, lipschitz, constant=constant)
        for constant in ("any", "centred", "exact")
    }  # fmt: skip
    return {(name, 0): {"edges": [round(float(e), 5) for e in edges], **bounds}}


def _cells(x: FloatArray, density: FloatArray) -> FloatArray:
    """Edges of cells of equal mass."""
    cumulated = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return np.interp(np.linspace(0, 1, N_CELLS + 1), cumulated / cumulated[-1], x)


def summarize(lines: Lines) -> Section:
    """The bound under each density."""
    results = {name: lines.result("gb", name) for name in DENSITIES}
    if not all(results.values()):
        return Section([not_run(*CLAIM)])
    bounds = {name: result for name, result in results.items() if result}
    rows = [
        [name, *(f"{bounds[name][constant]:.4g}" for constant in ("any", "centred", "exact"))] for name in DENSITIES
    ]
    uniform, paper, asked = (bounds[name]["any"] for name in (DENSITIES[0], DENSITIES[1], DENSITIES[3]))
    said = f"uniform {uniform:.3g}, ∝ Df {paper:.3g}"
    verdict = "holds" if paper < uniform else "holds under conditions" if asked < uniform else "does not hold"
    honest = f"least with density ∝ |f'| + K: {asked:.3g}; ∝ Df empties the flat part"
    table = markdown(["density of cells", "bound, c = 1/3", "c = 1/4", "c = 1/12"], rows)
    return Section(
        [Claim(*CLAIM, said, honest, verdict)],
        [table],
        [
            Figure(
                "gb",
                "x³ and cells of three densities; shaded is (|f'| + K)|x − x_i|, whose square the bound sums up",
                partial(_draw, lines),
            )
        ],
    )


def _draw(lines: Lines) -> Drawing:
    from matplotlib import pyplot

    shown = [DENSITIES[0], DENSITIES[1], DENSITIES[3]]
    figure, axes = pyplot.subplots(1, len(shown), figsize=(11, 3), layout="constrained", sharey=True)
    x = np.linspace(LOW, HIGH, 300)
    for ax, name in zip(axes, shown, strict=True):
        result = lines.result("gb", name) or {}
        edges = np.array(result["edges"])
        centres = (edges[1:] + edges[:-1]) / 2
        ax.plot(x, x**3, color="#444444")
        for left, right, at in zip(edges[:-1], edges[1:], centres, strict=True):
            reach = (3 * at**2 + LIPSCHITZ) * np.abs([left - at, 0, right - at])
            ax.fill_between([left, at, right], at**3 - reach, at**3 + reach, color="#d94800", alpha=0.25, lw=0)
            ax.axvline(left, color="0.8", lw=0.5)
        ax.plot(centres, centres**3, ".", color="#235789")
        ax.set(title=f"{name}: bound {result['any']:.3g}", xlabel="x", ylim=(-1.6, 1.6))
    axes[0].set_ylabel("f(x) = x³")
    return figure
