"""A verdict as pages show it: the sentence, how sure it is, the interval, and what was compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from steep.evidence import Verdict
from steep.exceptions import InputTypeError
from steep.metrics import without_rounding

# Shades of the heat map on either side of zero.
_SHADES = 4


def verdict_of(verdict: Any, *, default: str = "") -> dict[str, Any]:
    """What a template needs of a verdict, a sentence or nothing."""
    if verdict is None:
        return {"sentence": default, "state": "none", "grids": []}
    if isinstance(verdict, str):
        return {"sentence": verdict, "state": "none", "grids": []}
    if not isinstance(verdict, Verdict):
        raise InputTypeError(f"verdict is a {type(verdict).__name__}; need a Verdict or a sentence")
    interval = verdict.interval
    state = "kept" if interval.mean == 0 else "sure" if interval.low > 0 else "unsure"
    return {"sentence": str(verdict), "state": state, "grids": heat_maps(verdict.table)}


def heat_maps(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Mean gain by weight ratio and number of neighbours, one grid a measure.

    Parameters
    ----------
    table : DataFrame
        ``verdict.table`` of a weighting search; any other table gives no grids.
    """
    names = [str(name) for name in table.columns]
    gain = next((name for name in names if name.startswith("mean_gain_")), None)
    if gain is None or not {"measure", "n_neighbors", "weight_ratio"} <= set(names):
        return []
    rows = table[table["measure"].notna()].copy()
    rows[gain] = without_rounding(rows[gain], table.get(gain.replace("mean_gain_", "mean_test_")))
    largest = float(np.abs(rows[gain]).max()) if len(rows) else 0.0
    return [_grid(str(measure), part, gain, largest) for measure, part in rows.groupby("measure", sort=False)]


def _grid(measure: str, part: pd.DataFrame, gain: str, largest: float) -> dict[str, Any]:
    """One measure; parameters of the estimator that were tried too are shown at their best."""
    best = part.groupby(["n_neighbors", "weight_ratio"])[gain].max().unstack()
    return {
        "measure": measure,
        "score": gain.removeprefix("mean_gain_"),
        "ratios": [float(ratio) for ratio in best.columns],
        "rows": [
            {"size": int(size), "cells": [_shaded(float(value), largest) for value in values]}
            for size, values in zip(best.index, best.to_numpy(), strict=True)
        ],
    }


def _shaded(value: float, largest: float) -> dict[str, Any]:
    shade = 0 if not largest or np.isnan(value) else round(_SHADES * value / largest)
    return {"value": value, "shade": shade}
