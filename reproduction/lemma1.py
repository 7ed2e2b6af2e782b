"""Lemma 1: Var f(x + e) = Df²_ε(x) + remainder, e ~ N(0, ε). The paper says O(ε³); it is O(ε²).

For f(x) = x³ both sides are known: Var = 9x⁴ε + 36x²ε² + 15ε³ and Df²_ε = 9x⁴ε + 18x²ε².
"""

from functools import partial
from typing import Any

import numpy as np

import steep
from reproduction.jobs import Context, Job, Results, Scale
from reproduction.summary import Drawing, Figure, Lines, Section, markdown
from reproduction.verdicts import not_run, seen

TITLE = "Lemma 1: how close Df² is to the variance"
CLAIM = "Var f(x+e) = Df² + O(ε³) (Lemma 1)", "O(‖ε‖³)"
X0 = 1.0
EPSILONS = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3)
# f, and its first and second derivative at X0.
FUNCTIONS: dict[str, Any] = {
    "x²": (lambda x: x**2, 2 * X0, 2.0), "x³": (lambda x: x**3, 3 * X0**2, 6 * X0),
    "sin 3x": (lambda x: np.sin(3 * x), 3 * np.cos(3 * X0), -9 * np.sin(3 * X0)),
}  # fmt: skip
N_NODES = 60  # Gauss–Hermite nodes: exact for polynomials up to degree 119


def jobs(scale: Scale) -> list[Job]:
    """One line for each function; all scales are the same."""
    told = {"x": X0, "epsilons": EPSILONS, "nodes": N_NODES}
    return [Job("lemma1", name, ((name, 0),), partial(_run, name), told) for name in FUNCTIONS]


def _run(name: str, context: Context) -> Results:
    f, first, second = FUNCTIONS[name]
    nodes, weights = np.polynomial.hermite_e.hermegauss(N_NODES)
    share = weights / weights.sum()
    variances, taylor = [], []
    for epsilon in EPSILONS:
        values = f(X0 + np.sqrt(epsilon) * nodes)
        variances.append(float(share @ values**2 - (share @ values) ** 2))
        df = steep.taylor_variation(
            None, [[X0]], order=2, epsilon=epsilon,
            derivatives=lambda X, k: np.array([[first if order[0] == 1 else second] * len(X) for order in k]),
        )  # fmt: skip
        taylor.append(float(df[0]))
    remainder = np.abs(np.subtract(variances, taylor))
    small = remainder > 1e-12
    logs = np.log(np.array(EPSILONS)[small][-3:]), np.log(remainder[small][-3:])
    slope = float(np.polyfit(*logs, 1)[0]) if small.sum() > 2 else None
    return {(name, 0): {"variance": variances, "taylor": taylor, "slope": slope}}


def summarize(lines: Lines) -> Section:
    """The slope of the remainder in ε."""
    slopes = {name: result["slope"] for name in FUNCTIONS if (result := lines.result("lemma1", name))}
    if len(slopes) < len(FUNCTIONS):
        return Section([not_run(*CLAIM)])
    rows = [[name, "exact" if slope is None else f"{slope:.2f}"] for name, slope in slopes.items()]
    claim = seen(*CLAIM, f"slope {slopes['x³']:.2f} on x³ at 1: O(ε²); exact for x²", slopes["x³"] > 2.5)
    figure = Figure("lemma1", "Remainder |Var − Df²| against ε, with slopes 2 and 3", partial(_draw, lines))
    return Section([claim], [markdown(["f at x = 1", "slope of the remainder"], rows)], [figure])


def _draw(lines: Lines) -> Drawing:
    from matplotlib import pyplot

    figure, ax = pyplot.subplots(figsize=(4.5, 3.2), layout="constrained")
    epsilons = np.array(EPSILONS)
    for name in ("x³", "sin 3x"):
        result = lines.result("lemma1", name) or {}
        ax.loglog(epsilons, np.abs(np.subtract(result["variance"], result["taylor"])), "o-", label=name)
    for slope, style in ((2, "--"), (3, ":")):
        # Below the curves, so that neither hides the other.
        ax.loglog(epsilons, 4 * epsilons**slope, style, color="0.5", label=f"slope {slope}")
    ax.set(xlabel="ε", ylabel="|Var − Df²|")
    ax.legend(frameon=False)
    return figure
