"""What the pages of designs and campaigns share: points, errors and slices, prepared for the scripts."""

from __future__ import annotations

from typing import Any

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.domain import Box
from steep.domain.axes import Axis, Category
from steep.expected_error import cross_errors, error_history, fewest_points, interpolant
from steep.labels import deviations
from steep.report.maps import MOST_POINTS, MOST_ROWS
from steep.report.page import cell_of, pack, pack_text
from steep.sampling import Design

# Inputs of the pair plot and of the slices.
MOST_PAIRS, _MOST_SLICES = 5, 4
# Places along an input at which the surrogate is asked.
_STEPS = 120
# Points that can be downloaded.
_MOST_KEPT = 100_000

ORIGINS = ("start", "placed", "foreign", "in flight", "failed", "even")


def judge(plan: Design) -> tuple[FloatArray, FloatArray]:
    """Prediction of every result from the others, and its error; NaN where there are too few."""
    points = _points(plan)
    if len(points) < 2 * fewest_points(points.shape[1]):
        return np.full(plan.labels.shape, np.nan), np.full(len(points), np.nan)
    return cross_errors(points, plan.labels)


def _points(plan: Design) -> FloatArray:
    box = plan.domain
    return box.embed(box.unit(plan.X))


def axes_data(box: Box, X: FloatArray, order: IntArray) -> list[dict[str, Any]]:
    """The inputs as axes of a map, the steepest first."""
    return [_axis(box.names[i], box.axes[i], X[:, i]) for i in order]


def _axis(name: str, axis: Axis, values: FloatArray) -> dict[str, Any]:
    names = [str(value)[:60] for value in axis.values] if isinstance(axis, Category) else None
    return {
        "name": name[:80],
        "values": pack(values),
        "isLog": axis.kind == "log",
        "ends": [float(axis.low), float(axis.high)],
        "names": names,
    }


def output_axes(names: tuple[str, ...], labels: FloatArray) -> list[dict[str, Any]]:
    """The outputs as axes of a map; points without a result are not drawn over them."""
    return [{"name": name[:80], "values": pack(column)} for name, column in zip(names, labels.T, strict=True)]


def thinned(n_points: int, keep: IntArray, generator: np.random.Generator) -> IntArray:
    """Rows on the map: all, or some of many with those to keep among them."""
    if n_points <= MOST_POINTS:
        return np.arange(n_points)
    others = np.setdiff1d(generator.permutation(n_points)[:MOST_POINTS], keep)[: MOST_POINTS - len(keep)]
    return np.sort(np.concatenate([others, keep]))


def error_data(plan: Design) -> dict[str, Any] | None:
    """The estimated error against the number of runs."""
    history = error_history(_points(plan), plan.labels, plan.is_even)
    if not history:
        return None
    sizes, n_initial = [error.n_runs for error in history], int(plan.is_initial.sum())
    return {
        "sizes": sizes,
        "errors": [float(error) for error in history],
        "start": n_initial if sizes[0] < n_initial < len(plan.X) else None,
    }


def slices_data(plan: Design, order: IntArray, predicted: FloatArray, errors: FloatArray) -> dict[str, Any] | None:
    """The surrogate along the steepest inputs, through the result that is predicted worst."""
    if not np.isfinite(errors).any():
        return None
    box, worst = plan.domain, int(np.nanargmax(errors))
    output = int(np.argmax(np.abs(predicted[worst] - plan.labels[worst]) / deviations(plan.labels)))
    ask = interpolant(_points(plan), plan.labels)
    slices = []
    for i in order[:_MOST_SLICES]:
        axis = box.axes[i]
        values = axis.along(_STEPS)
        X = np.repeat(plan.X[worst][None], len(values), axis=0)
        X[:, i] = values
        heights = ask(box.embed(box.unit(X)))[:, output]
        slices.append(
            _axis(box.names[i], axis, values)
            | {"heights": pack(heights), "at": float(plan.X[worst, i]), "isWhole": axis.n_values <= _STEPS}
        )
    return {
        "row": worst,
        "output": plan.output_names[output][:80],
        "told": float(plan.labels[worst, output]),
        "predicted": float(predicted[worst, output]),
        "slices": slices,
    }


def worst_first(errors: FloatArray) -> IntArray:
    """Rows of the table: those predicted worst first, or the first ones where nothing is known."""
    return np.argsort(-np.nan_to_num(errors, nan=-1.0), kind="stable")[:MOST_ROWS]


def run_rows(
    plan: Design, rows: IntArray, numbers: IntArray, origin: IntArray, predicted: FloatArray, errors: FloatArray
) -> list[dict[str, Any]]:
    """Rows of the table of runs."""
    inputs = plan.domain.decode(plan.X[rows])
    return [
        {
            "row": int(numbers[row]),
            "cells": [*(cell_of(value) for value in point.values()), *(cell_of(value) for value in plan.labels[row])],
            "predicted": [cell_of(value) for value in predicted[row]],
            "error": float(errors[row]) if np.isfinite(errors[row]) else None,
            "origin": ORIGINS[origin[row]],
        }
        for row, point in zip(map(int, rows), inputs, strict=True)
    ]  # fmt: skip


def kept_points(plan: Design) -> dict[str, str]:
    """All points and results, for the download."""
    if len(plan.X) > _MOST_KEPT:
        return {}
    return {"kept": pack_text(np.hstack([plan.X, plan.labels]).T, "f8")}


def origins_of(plan: Design) -> IntArray:
    """The origin of each point of a design, as a place in ``ORIGINS``."""
    return np.select([plan.is_initial, plan.is_placed], [0, 1], ORIGINS.index("even"))
