"""Figure f1: Runge and tanh, their Taylor variation, and the points TBS draws."""

from functools import partial

import numpy as np

import steep
from reproduction.jobs import Context, Job, Results, Scale
from reproduction.problems import PROBLEMS
from reproduction.summary import Drawing, Figure, Lines, Section
from reproduction.table1 import ARMS, EPSILON, N_GMM, N_NEW, ORDER, N
from reproduction.verdicts import not_run, seen

TITLE = "Figure f1: Runge, tanh, Df² and the points drawn"
NAMES = ("runge", "tanh")
CLAIM = "TBS draws its points where Runge and tanh are steep (Fig. f1)", "a picture"


def jobs(scale: Scale) -> list[Job]:
    """One line for each function: the points of the first repeat of Table 1."""
    told = {"N": N, "N_new": N_NEW, "order": ORDER, "epsilon": EPSILON, "n_components": N_GMM}
    return [Job("f1", name, ((name, 0),), partial(_run, name), told) for name in NAMES]


def _run(name: str, context: Context) -> Results:
    problem = PROBLEMS[name]
    X, _ = ARMS["TBS"](problem, 0)
    many = np.concatenate([ARMS["TBS"](problem, seed)[0][N:, 0] for seed in range(20)])
    x = np.linspace(0, 1, 201)[:, None]
    df = steep.taylor_variation(None, x, order=ORDER, epsilon=EPSILON, derivatives=problem.derivatives)
    at = steep.taylor_variation(None, many[:, None], order=ORDER, epsilon=EPSILON, derivatives=problem.derivatives)
    points, ratio = X[:, 0].round(6).tolist(), float(at.mean() / df.mean())
    return {(name, 0): {"points": points, "df": df.round(8).tolist(), "ratio": ratio}}


def summarize(lines: Lines) -> Section:
    """The pictures, and how much larger Df is at drawn points than on average."""
    ratios = {name: result["ratio"] for name in NAMES if (result := lines.result("f1", name))}
    if len(ratios) < len(NAMES):
        return Section([not_run(*CLAIM)])
    said = ", ".join(f"{ratio:.2f} times ({name})" for name, ratio in ratios.items())
    claim = seen(*CLAIM, f"Df at drawn points over its mean on [0, 1]: {said}, 20 repeats", min(ratios.values()) > 1)
    figures = [
        Figure(f"f1-{name}", f"{name}: f, Df² and the points of TBS", partial(_draw, lines, name)) for name in NAMES
    ]
    return Section([claim], [], figures)


def _draw(lines: Lines, name: str) -> Drawing:
    from matplotlib import pyplot

    result = lines.result("f1", name) or {}
    figure, ax = pyplot.subplots(figsize=(4.8, 3.2), layout="constrained")
    x, points = np.linspace(0, 1, 201), np.array(result["points"])
    f = PROBLEMS[name].function
    ax.plot(x, f(x[:, None]), color="#444444", label="f")
    ax.scatter(points[:N], f(points[:N, None]), color="#235789", s=16, label="grid", zorder=3)
    ax.scatter(points[N:], f(points[N:, None]), color="#d94800", s=16, label="TBS", zorder=3)
    ax.plot(points[N:], np.zeros(len(points) - N), "|", color="#d94800", ms=10)
    ax.set(xlabel="x", ylabel="f(x)")
    right = ax.twinx()
    (dashed,) = right.plot(x, result["df"], "--", color="0.6")
    right.set_ylabel("Df²")
    handles, labels = ax.get_legend_handles_labels()
    for axis, highest in ((ax, np.max(f(x[:, None]))), (right, np.max(result["df"]))):
        axis.set_ylim(top=1.4 * float(highest))  # room for the legend
    ax.legend([*handles, dashed], [*labels, "Df² (right)"], frameon=False, loc="upper left", ncols=2, fontsize=8)
    return figure
