"""The page of a design: where its points are, how the error fell, and where a surrogate still errs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from steep.exceptions import InputTypeError
from steep.report import runs
from steep.report.page import check_text, number, pack, write_page
from steep.sampling import Design

SCRIPTS = ("scales.js", "map.js", "charts.js", "pairs.js", "runs.js")


def design_page(path: str | Path, design: Design, *, title: str | None = None) -> Path:
    """Write the page of a design: one HTML file that needs nothing else.

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
        raise InputTypeError(f"design is a {type(design).__name__}; need a Design; pass what design() returned")
    n_points = len(design.X)
    content = prepare(design, numbers=np.arange(n_points), origin=runs.origins_of(design))
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
    order = np.argsort(-plan.steepness(), kind="stable")
    predicted, errors = runs.judge(plan)
    worst = runs.worst_first(errors)
    shown = runs.thinned(len(X), worst, np.random.default_rng(0))
    error = plan.estimated_error()
    data = {
        "axes": runs.axes_data(plan.domain, X[shown], order),
        "outputs": runs.output_axes(plan.output_names, labels[shown]),
        "variation": _filled(plan.variation, len(X))[shown],
        "errors": _filled(errors, len(X))[shown],
        "origin": pack(origin[shown], "u2"),
        "rows": pack(numbers[shown], "u4"),
        "origins": list(runs.ORIGINS),
        "nPairs": runs.MOST_PAIRS if plan.X.shape[1] > 2 else 0,
        "curve": runs.error_data(plan),
        "slices": runs.slices_data(plan, order, predicted, errors),
        "columns": [*map(_column, plan.domain.names, plan.domain.axes), *({"name": n} for n in plan.output_names)],
        "nKept": len(plan.X),
        "runWord": word,
        "times": None,
    }  # fmt: skip
    data |= {name: None if np.isnan(data[name]).all() else pack(data[name]) for name in ("variation", "errors")}
    return {
        "data": data,
        "blocks": runs.kept_points(plan),
        "rows": runs.run_rows(plan, worst, numbers, origin, predicted, errors),
        "names": {"inputs": list(plan.domain.names), "outputs": list(plan.output_names)},
        "judged": bool(np.isfinite(errors).any()),
        "shown": _sentence(len(shown), len(X)),
        "error": number(error),
        "error_words": f"{error.sentence[0].upper()}{error.sentence[1:]}.",
        "n_points": len(plan.X),
    }  # fmt: skip


def _sentence(n_shown: int, n_points: int) -> str:
    if n_shown == n_points:
        return f"All {n_points:,} points are on the map."
    return f"{n_shown:,} of {n_points:,} points are on the map, drawn at random."


def _filled(values: Any, n: int) -> Any:
    """Values of the results, and NaN for points that have none."""
    return np.concatenate([values, np.full(n - len(values), np.nan)])


def _column(name: str, axis: Any) -> dict[str, Any]:
    """A column of the download: its name, and the values of a category."""
    return {"name": name, "names": [str(value) for value in axis.values] if axis.kind == "category" else None}
