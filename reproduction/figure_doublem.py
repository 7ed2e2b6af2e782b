"""Figure doublem: the double moon and the weight of each of its points."""

from functools import partial

import numpy as np
from sklearn.datasets import make_moons

from reproduction.appendix import row
from reproduction.jobs import Context, Job, Results, Scale
from reproduction.summary import Drawing, Figure, Lines, Section
from reproduction.table3 import paper_weights
from reproduction.verdicts import not_run, seen

TITLE = "Figure doublem: weights of the double moon"
CLAIM = "Weights of the double moon are high near the boundary between the classes", "a picture"


def jobs(scale: Scale) -> list[Job]:
    """One line."""
    hyper = row("double_moon")
    return [Job("doublem", "weights", (("weights", 0),), _run, {"n": 300, "noise": 0.2, "m": hyper.m, "k": hyper.k})]


def _run(context: Context) -> Results:
    hyper = row("double_moon")
    X, y = make_moons(300, noise=0.2, random_state=0)
    weights = paper_weights(X, y, k=hyper.k, m=hyper.m)
    # Distance to the nearest point of the other class: small near the boundary.
    distance = np.array([np.linalg.norm(X[y != label] - x, axis=1).min() for x, label in zip(X, y, strict=True)])
    heavy = weights > np.median(weights)
    share = float(distance[heavy].mean() / distance[~heavy].mean())
    return {("weights", 0): {"weights": [round(float(w), 3) for w in weights], "distance_ratio": share}}


def summarize(lines: Lines) -> Section:
    """The picture, and how much nearer to the other class the heavy points are."""
    result = lines.result("doublem", "weights")
    if result is None:
        return Section([not_run(*CLAIM)])
    said = f"heavy points are {1 / result['distance_ratio']:.1f} times nearer to the other class"
    claim = seen(*CLAIM, said, result["distance_ratio"] < 1)
    return Section(
        [claim], [], [Figure("doublem", "The double moon, and the weight of each point", partial(_draw, lines))]
    )


def _draw(lines: Lines) -> Drawing:
    from matplotlib import pyplot

    X, y = make_moons(300, noise=0.2, random_state=0)
    weights = np.array((lines.result("doublem", "weights") or {})["weights"])
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharey=True)
    for label, colour, mark in ((0, "#235789", "o"), (1, "#d94800", "^")):
        left.scatter(*X[y == label].T, color=colour, marker=mark, s=10, label=f"class {label}")
    left.set(title="(a) classes", xlabel="$x_0$", ylabel="$x_1$")
    left.legend(frameon=False, fontsize=8)
    order = np.argsort(weights)  # heavy points on top
    dots = right.scatter(*X[order].T, c=weights[order], s=10, cmap="coolwarm")
    right.set(title="(b) weights $w_i$", xlabel="$x_0$")
    figure.colorbar(dots, ax=right)
    return figure
