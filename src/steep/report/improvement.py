"""The page of an improvement: what a new head gains, from what, and which samples were hard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from steep._validation import FloatArray
from steep.evidence import Verdict
from steep.exceptions import InputTypeError
from steep.report.cards import Cards, read_labels
from steep.report.packing import pack
from steep.report.page import check_text, number, write_page
from steep.report.ratio import effective_samples, quantiles_of
from steep.report.runs import cell_of
from steep.report.shown import MOST_ROWS
from steep.report.verdicts import verdict_of

_NEEDED = ("verdict", "table", "candidates", "weights", "variation", "rescored", "score", "gain_label", "note")
# Heads that are listed, the best first.
_MOST_HEADS = 300


def improvement_page(
    path: str | Path,
    improvement: Any,
    *,
    title: str | None = None,
    y: Any = None,
    table: Any = None,
    images: Any = None,
    texts: Any = None,
    target: str = "label",
) -> Path:
    """Write the page of an improvement: one HTML file that needs nothing else.

    Parameters
    ----------
    path : str or path
        The file to write.
    improvement : Improvement
        What :func:`steep.nn.improve` returned.
    title : str, optional
        Title of the page.
    y : array-like of shape (n_samples,), optional
        Labels of the training samples; with them, or with one of the following, the hardest samples are listed.
    table, images, texts : optional
        Columns, pictures or texts of the training samples.
    target : str, default "label"
        What the labels are called.

    Returns
    -------
    Path
        ``path``.
    """
    found = _checked(improvement)
    weights = np.asarray(found.weights, dtype=np.float64)
    rows, cards = _hardest(found, weights, y, table, images, texts, target)
    unit = found.verdict.unit
    return write_page(
        path,
        "improvement.html",
        title=check_text(title, name="title", default="What a new head gains"),
        scripts=("scales.js", "map.js", "charts.js", "histogram.js", "improvement.js"),
        data={
            "gains": _gains(found.table, found.score.factor),
            "unit": found.gain_label,
            "weights": None if _is_equal(weights) else pack(quantiles_of(weights / weights.mean(), 4001)),
        },
        verdict=verdict_of(found.verdict),
        figures=_figures(found, unit),
        note=found.note.replace("in the table", "on this page"),
        heads=_heads(found.candidates),
        head_names=[
            {"name": str(name), "kind": "number" if dtype.kind in "iuf" else "text"}
            for name, dtype in found.candidates.dtypes.items()
        ],
        n_heads=len(found.candidates),
        rows=rows,
        cards=cards,
        target=target,
        has_weights=not _is_equal(weights),
        worth=number(effective_samples(weights)),
    )


def _checked(improvement: Any) -> Any:
    missing = [name for name in _NEEDED if not hasattr(improvement, name)]
    if missing or not isinstance(improvement.verdict, Verdict):
        raise InputTypeError(
            f"improvement is a {type(improvement).__name__}; need an Improvement; pass what steep.nn.improve returned"
        )
    return improvement


def _is_equal(weights: FloatArray) -> bool:
    return bool(weights.max() <= weights.min() * (1 + 1e-9))


def _gains(table: pd.DataFrame, factor: float) -> list[dict[str, Any]]:
    """Rows of the forest plot: the best head of each kind, over the original one."""
    return [
        {"name": str(name), "chosen": name == "chosen"}
        | {key: _finite(factor * row[column]) for key, column in _COLUMNS.items()}
        for name, row in table.to_dict("index").items()
        if name != "original"
    ]


_COLUMNS = {"mean": "gain", "low": "gain_low", "high": "gain_high"}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _figures(found: Any, unit: str) -> list[dict[str, str]]:
    scores = found.table[unit]

    def shown(value: float) -> str:
        return f"{100 * value:.4g} %" if found.score.unit else number(value, 4)

    figures = {
        f"{unit} of the original": shown(scores["original"]),
        f"{unit} of the chosen head": shown(scores["chosen"]),
        "the network itself, run again": "–" if np.isnan(found.rescored) else shown(found.rescored),
        "heads tried": f"{len(found.candidates):,}",
    }
    return [{"name": name, "value": value, "id": ""} for name, value in figures.items()]


def _heads(candidates: pd.DataFrame) -> list[list[dict[str, Any]]]:
    return [[cell_of(value) for value in row] for row in candidates.head(_MOST_HEADS).itertuples(index=False)]


def _hardest(
    found: Any, weights: FloatArray, y: Any, table: Any, images: Any, texts: Any, target: str
) -> tuple[list[dict[str, Any]], Cards | None]:
    """The training samples around which labels vary most, where it is known and there is something to show."""
    if found.variation is None or all(part is None for part in (y, table, images, texts)):
        return [], None
    n_samples = len(weights)
    labels = read_labels(y if y is not None else np.full(n_samples, "not given"), n_samples)
    target = check_text(target, name="target")
    cards = Cards(labels, table=table, target=target, images=images, texts=texts)
    hardest = np.argsort(-found.variation, kind="stable")[:MOST_ROWS]
    cells = cards.columns.cells(hardest)
    rows = [
        cards.face(int(row))
        | {"weight": float(weights[row]), "variation": float(found.variation[row]), "cells": cells[place]}
        for place, row in enumerate(hardest)
    ]
    return rows, cards
