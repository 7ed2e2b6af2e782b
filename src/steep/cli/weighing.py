"""What ``steep weigh`` computes: weights of a given ratio, or those that held-out folds ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from steep._validation import FloatArray, IntArray
from steep.cli.printing import note, working
from steep.cli.tables import Table
from steep.cli.tables.features import Features
from steep.cli.tables.target import Target
from steep.exceptions import InputError
from steep.measures import resolve
from steep.neighbors import neighbor_graph, refined_graph
from steep.rescaling import rescale
from steep.weighting import VarianceWeighted, VarianceWeightedCV
from steep.weighting.weights import Samples, check_size, measure_samples

# Rows above which neighbours are searched with less recall, and no further where labels vary: a third of the time and
# less memory, for weights that correlate as benchmarks/results/command.json says with exact ones.
_MANY_ROWS = 200_000
_RECALL, _RECALL_OF_MANY = 0.99, 0.95
# Quantile above which the search cuts variation off: the weights of all rows are made as those of the folds were.
_CLIP = 0.98


@dataclass(frozen=True)
class Weighing:
    """Weights, and what they were made from.

    Attributes
    ----------
    weights : ndarray of shape (n_samples,)
        One for each row.
    figures : dict
        What was done, for ``--json``.
    variation : ndarray of shape (n_samples,) or None
        What the weights follow.
    neighbors : ndarray of shape (n_samples, k) or None
        The neighbours compared.
    verdict : Verdict or None
        What the evidence says.
    """

    weights: FloatArray
    figures: dict[str, Any] = field(default_factory=dict)
    variation: FloatArray | None = None
    neighbors: IntArray | None = None
    verdict: Any = None

    @property
    def effective(self) -> float:
        """How many equal weights these are worth."""
        return float(self.weights.sum() ** 2 / (self.weights**2).sum())


def weigh_by_ratio(
    features: Features,
    target: Target,
    *,
    n_neighbors: int,
    weight_ratio: float,
    measure: str = "variance",
    recall: float | None = None,
    jobs: int,
) -> Weighing:
    """Weights of Algorithm 2 for one k and one m, by any measure that compares labels."""
    found = resolve(measure, use="steep weigh", feeds=("labels",))
    size = check_size(n_neighbors, measure, found)
    with working(f"finding {size} neighbours of {len(features.points):,} rows"):
        neighbors, found_share = _neighbors(features.points, target, size, recall, jobs)
        samples = Samples.check(features.points, target.labels.array, embedding=None, task=target.task)
        measured = measure_samples(samples, {found: [size]}, neighbors=lambda points: neighbors)
    (variation,) = measured.variation.values()
    figures = {
        "measure": measure,
        "n_neighbors": size,
        "weight_ratio": weight_ratio,
        "recall": found_share,
    }
    return Weighing(rescale(variation, weight_ratio=weight_ratio), figures, variation, neighbors)


def _neighbors(
    points: FloatArray, target: Target, size: int, recall: float | None, jobs: int
) -> tuple[IntArray, float]:
    """The neighbours of every row, and the share of the true ones that was found."""
    is_large = len(points) > _MANY_ROWS
    wanted = recall if recall is not None else _RECALL_OF_MANY if is_large else _RECALL
    how: dict[str, Any] = {"n_neighbors": size, "recall": wanted, "n_jobs": jobs}
    how |= {"random_state": 0, "return_info": True}
    if is_large:
        _, neighbors, info = neighbor_graph(points, **how)
    else:
        _, neighbors, info = refined_graph(points, target.labels, **how)
    return neighbors, info.estimated_recall


def weigh_by_evidence(
    table: Table,
    features: Features,
    target: Target,
    *,
    groups: Any = None,
    scoring: str | None = None,
    n_neighbors: int | None = None,
    measure: str | None = None,
    impute: str | None = None,
    most_rows: int = 20_000,
    jobs: int = -1,
) -> Weighing:
    """Weights that held-out folds of a linear model ask for; of a large table some rows decide for all."""
    if n_neighbors is not None and n_neighbors < 1:
        raise InputError(f"-k {n_neighbors} is too small; need at least 1; raise it")
    rows = _deciding_rows(len(target.labels), most_rows)
    X, model = _model(table, features, target, impute, rows)
    search = VarianceWeightedCV(
        model, scoring=scoring, random_state=0, measure=measure, n_jobs=None,
        n_neighbors=None if n_neighbors is None else (n_neighbors,),
    )  # fmt: skip
    search.fit(X, _taken(target.values, rows), groups=_taken(groups, rows))
    interval = search.gain_interval_
    figures = {
        "chosen": search.best_params_, "gain": search.gain_, "gain_interval": [interval.low, interval.high],
        "verdict": str(search.verdict_), "deciding_rows": len(X),
    }  # fmt: skip
    if rows is None:
        weights = np.asarray(search.sample_weight_)
    else:
        note(
            f"{len(rows):,} of {len(target.labels):,} rows, drawn at random, decide for all; --rows N takes more"
        )
        weights = _applied(search, table, features, target, groups, impute)
    return Weighing(weights, figures, verdict=search.verdict_)


def _deciding_rows(n_rows: int, most_rows: int) -> IntArray | None:
    """Rows the evidence is taken from; None for all."""
    if n_rows <= most_rows:
        return None
    return np.sort(np.random.default_rng(0).choice(n_rows, most_rows, replace=False))


def _taken(values: Any, rows: IntArray | None) -> Any:
    return values if rows is None or values is None else values[rows]


def _applied(
    search: VarianceWeightedCV,
    table: Table,
    features: Features,
    target: Target,
    groups: Any,
    impute: str | None,
) -> FloatArray:
    """The weights of all rows, made as those of the deciding rows were."""
    chosen = search.best_params_
    if "measure" not in chosen:
        if chosen.get("control") != "balanced class weights":
            return np.ones(len(target.labels))
        from sklearn.utils.class_weight import compute_sample_weight

        return np.asarray(compute_sample_weight("balanced", target.values))
    X, model = _model(table, features, target, impute, None)
    settings = {name: chosen[name] for name in ("measure", "n_neighbors", "weight_ratio")}
    with working(f"weighing {len(X):,} rows"):
        whole = VarianceWeighted(model, clip=_CLIP, n_jobs=-1, **settings).fit(
            X, target.values, groups=groups
        )
    return np.asarray(whole.sample_weight_)


def _model(
    table: Table, features: Features, target: Target, impute: str | None, rows: IntArray | None
) -> tuple[Any, Any]:
    """The features as an estimator takes them, and a linear model with the preprocessing they need."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    last = Ridge() if target.labels.codes is None else LogisticRegression(max_iter=1000)
    frame = table.frame(features.names) if rows is None else table.rows(features.names, rows)
    categories = features.of_kind("categories")
    if not categories and not features.missing and not features.of_kind("dates"):
        return frame.to_numpy(dtype=float), make_pipeline(StandardScaler(), last)
    numbers = [name for name in features.names if name not in categories]
    ready = _as_numbers(frame, numbers, categories)
    return ready, make_pipeline(_preprocessing(numbers, categories, impute), last)


def _as_numbers(frame: Any, numbers: Sequence[str], categories: Sequence[str]) -> Any:
    """Dates as days and categories as text, missing ones as NaN."""
    import pandas as pd

    ready = {}
    for name in numbers:
        column = frame[name]
        if getattr(column.dtype, "kind", "O") == "M":
            column = (column - pd.Timestamp(0)) / pd.Timedelta(days=1)
        elif getattr(column.dtype, "kind", "O") == "m":
            column = column / pd.Timedelta(days=1)
        ready[name] = column.astype(float)
    for name in categories:
        column = frame[name]
        ready[name] = (
            column.astype(object).where(column.isna(), column.astype(str)).where(~column.isna(), np.nan)
        )
    return pd.DataFrame(ready)


def _preprocessing(numbers: Sequence[str], categories: Sequence[str], impute: str | None) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    filled = SimpleImputer(strategy=impute or "median", add_indicator=True)
    coded = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=51, sparse_output=False)
    parts = [
        ("numbers", make_pipeline(filled, StandardScaler()), list(numbers)),
        ("categories", coded, list(categories)),
    ]
    return ColumnTransformer([part for part in parts if part[2]])
