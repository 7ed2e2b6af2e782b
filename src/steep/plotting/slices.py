"""A surrogate cut along each input through one point: by default the one where it errs most."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from steep._function import evaluate
from steep._validation import FloatArray, check_count, check_vector
from steep.exceptions import InputError
from steep.expected_error import Predict, cross_errors, fewest_points, interpolant
from steep.plotting.design import checked_output
from steep.plotting.style import CURVE, DRAWN, QUIET, START, Drawable, legend, name_of, new_axes, span, tidy

# Places along a real axis at which the surrogate is asked.
_STEPS = 160


def plot_slices(plan: Drawable, *, predict: Any = None, at: Any = None, output: int = 0, max_inputs: int = 4) -> Any:
    """Draw a surrogate along each input, the others held where it errs most.

    Parameters
    ----------
    plan : Design
        Points and labels.
    predict : callable, optional
        ``predict(X)`` of your surrogate, in the units of the inputs; default a cubic interpolant of the results.
    at : array-like of shape (n_features,), optional
        The point to cut through; default the result that is predicted worst, by the surrogate given or, for the
        default one, from the other results.
    output : int, default 0
        Which output is drawn.
    max_inputs : int, default 4
        Inputs that are drawn, the steepest first.

    Returns
    -------
    ndarray of Axes

    Examples
    --------
    >>> from steep import design
    >>> plan = design(lambda X: X[:, 0] * X[:, 1], [(0, 1), (0, 1)], 32, n_initial=16, random_state=0)
    >>> len(plot_slices(plan))
    2
    """
    number = checked_output(plan, output)
    ask, predicted = _surrogate(plan, predict)
    errors = np.abs(predicted[:, number] - plan.labels[:, number])
    worst = int(np.nanargmax(errors)) if at is None and np.isfinite(errors).any() else None
    if at is None and worst is None:
        raise InputError("the surrogate predicts no result; need finite numbers; check predict, or pass at=")
    n_features = plan.X.shape[1]
    centre = plan.X[worst] if worst is not None else check_vector(at, name="at", n_samples=n_features)
    order = np.argsort(-plan.steepness(), kind="stable")[: check_count(max_inputs, name="max_inputs")]
    panels = new_axes(1, len(order), size=(3.1 * len(order) + 0.4, 3.2), squeeze=False, sharey=True)[0]
    for ax, column in zip(panels, order, strict=True):
        _slice(plan, tidy(ax), ask, centre, int(column), number)
        if worst is not None:
            _mark(plan, ax, worst, predicted, int(column), number)
    panels[0].set_ylabel(name_of(plan.output_names[number]))
    legend(panels[0])
    return panels


def _surrogate(plan: Drawable, predict: Any) -> tuple[Predict, FloatArray]:
    """A surrogate in the user's units, and what it says about results it has not seen where that is known."""
    if predict is not None:
        return partial(evaluate, predict), evaluate(predict, plan.X)
    box = plan.domain
    points = box.embed(box.unit(plan.X))
    if len(points) < 2 * fewest_points(points.shape[1]):
        raise InputError(
            f"there are {len(points)} results; need at least {2 * fewest_points(points.shape[1])} for a surrogate; run "
            "more, or pass predict="
        )
    inside = interpolant(points, plan.labels)
    return lambda X: inside(box.embed(box.unit(X))), cross_errors(points, plan.labels)[0]


def _slice(plan: Drawable, ax: Any, ask: Predict, centre: FloatArray, column: int, output: int) -> None:
    axis = plan.domain.axes[column]
    values = axis.along(_STEPS)
    X = np.repeat(centre[None], len(values), axis=0)
    X[:, column] = values
    heights = ask(X)[:, output]
    style = {"marker": "s", "ls": ""} if axis.n_values <= 20 else {"lw": 1.6}
    ax.plot(values, heights, color=CURVE, label="surrogate", **style)
    span(ax, axis, along="x")
    ax.set_xlabel(name_of(plan.domain.names[column]))


def _mark(plan: Drawable, ax: Any, worst: int, predicted: FloatArray, column: int, output: int) -> None:
    """The result that is predicted worst, and its prediction."""
    x, told, foretold = plan.X[worst, column], plan.labels[worst, output], predicted[worst, output]
    ax.plot([x, x], [told, foretold], color=QUIET, lw=1, ls=":")
    ax.plot(x, told, color=DRAWN, marker="o", ms=7, ls="", label="worst result")
    ax.plot(x, foretold, color=START, marker="^", ms=7, ls="", label="predicted")
