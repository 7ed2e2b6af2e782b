"""Figure gb: the generalization bound of f(x) = x³ over cells, the cells it asks for, and the bound in several inputs.

    J ≤ Σ_i (|f'(x_i)| + K)² c |S_i|³

c is 1/3 wherever x_i lies in its cell; in its middle it is 1/4, or exactly 1/12 if the square is integrated. Algorithm
1 joins uniform points with points ∝ Df; the same cells from Df alone are shown next to it. With ρ cells per unit of
length the sum becomes ∫ s² ρ^{−2} dx, s = |f'| + K, which is least at ρ ∝ s^{2/3}.

In d inputs, with cubes of side h_i around x_i, |x − x_i|² integrates to d h_i^{d+2}/12 over a cube, so

    J ≤ Σ_i (‖∇f(x_i)‖ + K)² (d/12) |S_i|^{1+2/d},    least at ρ ∝ (‖∇f‖ + K)^{2d/(d+2)}

(the same step as for one input; d/3 in the place of d/12 wherever x_i lies in its cube). The density asked for goes
from Df^{1/3} at d = 1 over Df^{1/2} at d = 2 towards the Df of Algorithm 1 as d grows.
"""

from functools import partial
from typing import Any

import numpy as np

from reproduction.jobs import Context, Job, Results, Scale
from reproduction.summary import Drawing, Figure, Lines, Section, markdown
from reproduction.verdicts import not_run, seen
from steep._validation import FloatArray

TITLE = "Figure gb: the bound on x³, and in several inputs"
LOW, HIGH, LIPSCHITZ, N_CELLS, EPSILON = -1.0, 1.0, 1.0, 12, 1e-3
CONSTANTS = {"any": 1 / 3, "centred": 1 / 4, "exact": 1 / 12}
UNIFORM, PAPER, DF, ASKED = "uniform", "Algorithm 1: half uniform, half ∝ Df", "∝ Df alone", "∝ (|f'| + K)^⅔"
DENSITIES = (UNIFORM, PAPER, DF, "∝ √Df", "∝ |f'| + K", ASKED)
DIMENSIONS, N_DRAWN = (1, 2, 4, 8), 200_000
CLAIM = "Smaller cells where f is steep lower the bound (Fig. gb)", "a picture"


def jobs(scale: Scale) -> list[Job]:
    """One line for each density, and one for each number of inputs."""
    told = {"f": "x³", "domain": [LOW, HIGH], "K": LIPSCHITZ, "n_cells": N_CELLS, "epsilon": EPSILON}
    several = {"f": "tanh(4 Σx/√d)", "K": LIPSCHITZ, "epsilon": EPSILON, "n_drawn": N_DRAWN}
    return [Job("gb", name, ((name, 0),), partial(_run, name), told) for name in DENSITIES] + [
        Job("gb, several inputs", f"d = {d}", ((f"d = {d}", 0),), partial(_several, d), several) for d in DIMENSIONS
    ]


def _run(name: str, context: Context) -> Results:
    x = np.linspace(LOW, HIGH, 20001)
    slope, second = 3 * x**2, 6 * x
    df = EPSILON * slope**2 + EPSILON**2 / 2 * second**2
    s = slope + LIPSCHITZ
    densities = (np.ones_like(x), 1 + df / df.mean(), df, np.sqrt(df), s, s ** (2 / 3))
    edges = _cells(x, dict(zip(DENSITIES, densities, strict=True))[name])
    centres, sizes = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / (HIGH - LOW)
    # Derivatives in shares of the domain, as the sizes of the cells are.
    slopes, lipschitz = 3 * centres**2 * (HIGH - LOW), LIPSCHITZ * (HIGH - LOW)
    bounds = {c: generalization_bound(slopes, sizes, lipschitz, constant=c) for c in CONSTANTS}
    return {(name, 0): {"edges": [round(float(e), 5) for e in edges], **bounds}}


def generalization_bound(derivative: Any, cell_sizes: Any, lipschitz: float, *, constant: str = "any") -> float:
    """The bound in one dimension, without its last term: |f'(x_i)|, the shares of the domain, and K ≥ 0."""
    slopes, sizes = np.abs(derivative), np.asarray(cell_sizes)
    return float(CONSTANTS[constant] * np.sum((slopes + lipschitz) ** 2 * sizes**3))


def _cells(x: FloatArray, density: FloatArray) -> FloatArray:
    """Edges of cells of equal mass."""
    cumulated = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return np.interp(np.linspace(0, 1, N_CELLS + 1), cumulated / cumulated[-1], x)


def cube_bound(slopes: FloatArray, sides: FloatArray, lipschitz: float, n_features: int) -> float:
    """The bound in several inputs for cubes of the given sides centred on their points."""
    return float(((slopes + lipschitz) ** 2 * n_features / 12 * sides ** (n_features + 2)).sum())


def _several(d: int, context: Context) -> Results:
    """∫ s² ρ^{−2/d} for each density, over that of uniform cells; the mean over drawn points of the unit cube."""
    along = 4 * (np.random.default_rng(0).random((N_DRAWN, d)) - 0.5).sum(axis=1) / np.sqrt(d)
    slope = 4 / np.cosh(along) ** 2
    second = -8 * np.tanh(along) / np.cosh(along) ** 2 * 4
    df = EPSILON * slope**2 + EPSILON**2 / 2 * second**2  # along the one direction in which f varies
    s = slope + LIPSCHITZ
    densities = {UNIFORM: np.ones_like(s), PAPER: 0.5 + 0.5 * df / df.mean(), ASKED: s ** (2 * d / (d + 2))}
    values = {name: float((s**2 * (rho / rho.mean()) ** (-2 / d)).mean()) for name, rho in densities.items()}
    return {(f"d = {d}", 0): {name: value / values[UNIFORM] for name, value in values.items()}}


def summarize(lines: Lines) -> Section:
    """The bound under each density."""
    bounds = {name: result for name in DENSITIES if (result := lines.result("gb", name))}
    several = {d: result for d in DIMENSIONS if (result := lines.result("gb, several inputs", f"d = {d}"))}
    if len(bounds) < len(DENSITIES) or len(several) < len(DIMENSIONS):
        return Section([not_run(*CLAIM)])
    uniform, paper, asked = (bounds[name]["any"] for name in (UNIFORM, PAPER, ASKED))
    said = f"uniform {uniform:.3g}, {PAPER[13:]} {paper:.3g}, density {ASKED} {asked:.3g}"
    claims = [seen(*CLAIM, said, asked < uniform)]
    rows = [[name, *(f"{bounds[name][constant]:.4g}" for constant in CONSTANTS)] for name in bounds]
    more = [[str(d), f"{result[PAPER]:.3g}", f"{result[ASKED]:.3g}"] for d, result in several.items()]
    header = ["inputs d, f = tanh(4 Σx/√d)", f"{PAPER}, over uniform", "∝ (‖∇f‖ + K)^{2d/(d+2)}, over uniform"]
    tables = [markdown(["density of cells, f = x³", "bound, c = 1/3", "c = 1/4", "c = 1/12"], rows),
              markdown(header, more)]  # fmt: skip
    caption = "x³ and cells of three densities; shaded is (|f'| + K)|x − x_i|, whose square the bound sums up"
    return Section(claims, tables, [Figure("gb", caption, partial(_draw, lines))])


def _draw(lines: Lines) -> Drawing:
    from matplotlib import pyplot

    shown = [UNIFORM, PAPER, ASKED]
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
