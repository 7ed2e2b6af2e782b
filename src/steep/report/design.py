"""The page of a design: where its points are, how the error fell, and where a surrogate still errs.

:func:`prepare` does the same for the page of a campaign.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.domain.axes import Axis, Category
from steep.exceptions import InputTypeError
from steep.expected_error import cross_errors, error_history, fewest_points, interpolant
from steep.labels import deviations
from steep.report.maps import MOST_POINTS, MOST_ROWS
from steep.report.page import cell_of, check_text, number, pack, pack_text, write_page
from steep.sampling import Design

SCRIPTS = ("scales.js", "map.js", "charts.js", "pairs.js", "runs.js")
ORIGINS = ("start", "placed", "foreign", "in flight", "failed", "even")
# Inputs of the pair plot and of the slices.
_MOST_PAIRS, _MOST_SLICES = 5, 4
# Places along an input at which the surrogate is asked.
_STEPS = 120
# Points that can be downloaded.
_MOST_KEPT = 100_000


def design_page(path: str | Path, design: Design, *, title: str | None = None) -> Path:
    """Write a report of a design: one self-contained HTML file.

    Parameters
    ----------
    path : str or path
        The file to write.
    design : Design
        What :func:`steep.design` returned.
    title : str, optional
        Title of the page.

    Returns
    -------
    Path
        ``path``.

    Examples
    --------
    >>> import tempfile
    >>> from steep import design as choose
    >>> plan = choose(lambda X: X[:, 0] ** 3, [(0, 1)], 16, n_initial=8, random_state=0)
    >>> design_page(tempfile.mkdtemp() + "/design.html", plan).name
    'design.html'
    """
    if not isinstance(design, Design):
        raise InputTypeError(f"design is a {type(design).__name__}; expected a Design; pass what design() returned")
    n_points = len(design.X)
    content = prepare(design, numbers=np.arange(n_points), origin=origins_of(design))
    told = f"{n_points:,} points: {design.parts}. {content.pop('error_words')}"
    figures = [
        {"name": "points", "value": f"{n_points:,}", "id": ""},
        {"name": "evaluations in all", "value": f"{design.n_evaluations:,}", "id": ""},
        {"name": "inputs", "value": str(design.X.shape[1]), "id": ""},
        {"name": "estimated error (deviations)", "value": content.pop("error"), "id": ""},
    ]
    return write_page(
        path,
        "runs.html",
        title=check_text(title, name="title", default=f"A design of {n_points:,} points"),
        scripts=SCRIPTS,
        kind="design",
        verdict={"sentence": told, "state": "none"},
        figures=figures,
        campaign=None,
        **content,
    )


def prepare(
    plan: Design, *, numbers: Any, origin: Any, X: Any = None, labels: Any = None, word: str = "point"
) -> dict[str, Any]:
    """What the template and the scripts need of the results of a design or a campaign.

    ``X``, ``labels`` and ``origin`` may hold more points than the design: those in flight, failed or foreign.
    """
    X, labels = plan.X if X is None else X, plan.labels if labels is None else labels
    names, axes = plan.domain.names, plan.domain.axes
    order = np.argsort(-plan.steepness(), kind="stable")
    predicted, errors = _judged(plan)
    # Those predicted worst first, or the first ones where nothing is known.
    worst = np.argsort(-np.nan_to_num(errors, nan=-1.0), kind="stable")[:MOST_ROWS]
    shown = _thinned(len(X), worst, np.random.default_rng(0))
    error = plan.estimated_error()
    data = {
        "axes": [_axis(names[i], axes[i], X[shown, i]) for i in order],
        # Points without a result are not drawn over outputs.
        "outputs": [{"name": name[:80], "values": pack(labels[shown, i])} for i, name in enumerate(plan.output_names)],
        "variation": _filled(plan.variation, len(X))[shown],
        "errors": _filled(errors, len(X))[shown],
        "origin": pack(origin[shown], "u2"),
        "rows": pack(numbers[shown], "u4"),
        "origins": list(ORIGINS),
        "nPairs": _MOST_PAIRS if plan.X.shape[1] > 2 else 0,
        "curve": _error_data(plan),
        "slices": _slices_data(plan, order, predicted, errors),
        "columns": [*map(_column, names, axes), *({"name": name} for name in plan.output_names)],
        "nKept": len(plan.X),
        "runWord": word,
        "times": None,
    }  # fmt: skip
    data |= {name: None if np.isnan(data[name]).all() else pack(data[name]) for name in ("variation", "errors")}
    part = "" if len(shown) == len(X) else f"{len(shown):,} of {len(X):,} points are on the map, drawn at random."
    is_kept = len(plan.X) <= _MOST_KEPT
    return {
        "data": data,
        "blocks": {"kept": pack_text(np.hstack([plan.X, plan.labels]).T, "f8")} if is_kept else {},
        "rows": _run_rows(plan, worst, numbers, origin, predicted, errors),
        "names": {"inputs": list(names), "outputs": list(plan.output_names)},
        "judged": bool(np.isfinite(errors).any()),
        "shown": part or f"All {len(X):,} points are on the map.",
        "error": number(error),
        "error_words": f"{error.sentence[0].upper()}{error.sentence[1:]}.",
        "n_points": len(plan.X),
    }  # fmt: skip


def _judged(plan: Design) -> tuple[FloatArray, FloatArray]:
    """Prediction of every result from the others, and its error; NaN where there are too few."""
    points = plan.coordinates
    if len(points) < 2 * fewest_points(points.shape[1]):
        return np.full(plan.labels.shape, np.nan), np.full(len(points), np.nan)
    return cross_errors(points, plan.labels)


def _axis(name: str, axis: Axis, values: FloatArray) -> dict[str, Any]:
    names = [str(value)[:60] for value in axis.values] if isinstance(axis, Category) else None
    return {
        "name": name[:80],
        "values": pack(values),
        "isLog": axis.kind == "log",
        "ends": [float(axis.low), float(axis.high)],
        "names": names,
    }


def _thinned(n_points: int, keep: IntArray, generator: np.random.Generator) -> IntArray:
    """Rows on the map: all, or some of many with those to keep among them."""
    if n_points <= MOST_POINTS:
        return np.arange(n_points)
    others = np.setdiff1d(generator.permutation(n_points)[:MOST_POINTS], keep)[: MOST_POINTS - len(keep)]
    return np.sort(np.concatenate([others, keep]))


def _error_data(plan: Design) -> dict[str, Any] | None:
    """The estimated error against the number of runs."""
    history = error_history(plan.coordinates, plan.labels, plan.is_even)
    if not history:
        return None
    sizes, n_initial = [error.n_runs for error in history], int(plan.is_initial.sum())
    return {
        "sizes": sizes,
        "errors": [float(error) for error in history],
        "start": n_initial if sizes[0] < n_initial < len(plan.X) else None,
    }


def _slices_data(plan: Design, order: IntArray, predicted: FloatArray, errors: FloatArray) -> dict[str, Any] | None:
    """The surrogate along the steepest inputs, through the result that is predicted worst."""
    if not np.isfinite(errors).any():
        return None
    box, worst = plan.domain, int(np.nanargmax(errors))
    output = int(np.argmax(np.abs(predicted[worst] - plan.labels[worst]) / deviations(plan.labels)))
    ask = interpolant(plan.coordinates, plan.labels)
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


def _run_rows(
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


def origins_of(plan: Design) -> IntArray:
    """The origin of each point of a design, as a place in ``ORIGINS``."""
    return np.select([plan.is_initial, plan.is_placed], [0, 1], ORIGINS.index("even"))


def _filled(values: Any, n: int) -> Any:
    """Values of the results, and NaN for points that have none."""
    return np.concatenate([values, np.full(n - len(values), np.nan)])


def _column(name: str, axis: Any) -> dict[str, Any]:
    """A column of the download: its name, and the values of a category."""
    return {"name": name, "names": [str(value) for value in axis.values] if axis.kind == "category" else None}
