"""Odd samples, labels and parameters at every door: each works or is rejected in one line."""

import datetime
import decimal
import traceback
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from steep import (
    VarianceWeighted,
    VarianceWeightedCV,
    WeightSearch,
    neighbor_variance,
    rescale,
    sample_weights,
    suspects,
)
from steep.exceptions import SteepError

N = 24
RNG = np.random.default_rng(0)
PLAIN = RNG.normal(size=(N, 2))


def with_cell(value):
    table = PLAIN.astype(object)
    table[3, 1] = value
    return table


SAMPLES = [
    PLAIN, PLAIN[:1], PLAIN[:0], PLAIN[:, :0], PLAIN[:, 0], PLAIN[None], PLAIN.astype(np.float16), PLAIN * 1e200,
    PLAIN * 1e-200, np.zeros((N, 2)), np.ones((N, 1), bool), PLAIN + 1j, np.float64(3), None, "text", 7, [], [[]], {},
    {"a": 1}, object(), [[1], [1, 2]] * 12, sparse.csr_matrix(PLAIN), np.ma.masked_array(PLAIN, PLAIN > 1),
    np.array([["a", "b"]] * N), np.array([[b"a", b"b"]] * N), np.array([["2024-01-01", "NaT"]] * N, "datetime64[D]"),
    np.array([(1, 2.0)] * N, dtype=[("a", int), ("b", float)]),
    *(with_cell(v) for v in (np.nan, np.inf, None, pd.NA, pd.NaT, 10**400, "x", {}, [1], True, 1j,
                             decimal.Decimal("1.5"), datetime.date(2024, 1, 1), datetime.timedelta(1), object())),
    pd.DataFrame(PLAIN), pd.DataFrame(PLAIN).astype("Float64"), pd.DataFrame(with_cell(pd.NA)).astype("Float64"),
    pd.DataFrame({"a": ["x", None] * 12}), pd.DataFrame({"a": pd.Categorical(["x", "y"] * 12)}),
    pd.DataFrame({"a": pd.array([True, None] * 12, "boolean")}), pd.DataFrame({"a": [{}] * N}),
    pd.DataFrame({"a": pd.period_range("2024-01", periods=N, freq="M")}), pd.DataFrame({"a": [np.inf, 1.0] * 12}),
    pd.DataFrame({"a": pd.date_range("2024-01-01", periods=N, tz="UTC"), "b": ["x"] * N}),
    pd.DataFrame(PLAIN, columns=["a", "a"]), pd.DataFrame(index=range(N)), pd.Series(PLAIN[:, 0]),
    pl.DataFrame({"a": PLAIN[:, 0], "b": ["x", None] * 12}), pl.DataFrame({"a": [[1]] * N}), pl.DataFrame(),
]  # fmt: skip

LABELS = [
    PLAIN[:, 0], (PLAIN[:, 0] > 0).astype(int), PLAIN, np.zeros(N), np.zeros(N, int), np.zeros(N, bool), PLAIN[:5, 0],
    PLAIN[:, :0], PLAIN[None], PLAIN[:, :1], np.arange(N), np.repeat([0.0, 1.0, 2.0], 8), PLAIN[:, 0] * 1e200,
    PLAIN[:, 0] * 1e-200, np.where(PLAIN[:, 0] > 1, np.nan, PLAIN[:, 0]), np.where(PLAIN[:, 0] > 1, np.inf, 0.0),
    PLAIN[:, 0] + 1j, None, "text", 7, [], {}, ["a", "b"] * 12, ["a", 1] * 12, ["a", None] * 12, [b"a", b"b"] * 12,
    [10**400, 1] * 12, [{}] * N, [[1], [1, 2]] * 12, np.array(["2024-01-01", "NaT"] * 12, "datetime64[D]"),
    np.array(["2024-01-01", "2024-01-02"] * 12, "datetime64[D]"), sparse.csr_matrix(PLAIN), pl.Series(["a", "b"] * 12),
    np.ma.masked_array(PLAIN[:, 0], PLAIN[:, 0] > 1), pd.Series(["a", None] * 12, dtype="string"),
    pd.Series(["a", "b"] * 12, dtype="category"), pd.Series([1, None] * 12, dtype="Int64"),
    pd.Series([1, 2] * 12, dtype="Int64"), pd.Series([1.5, None] * 12, dtype="Float64"),
    pd.Series([True, False] * 12, dtype="boolean"), pd.DataFrame({"a": [0, 1] * 12, "b": [1, 0] * 12}),
    pl.Series([1.0, None] * 12), np.array([(1, 2.0)] * N, dtype=[("a", int), ("b", float)]),
]  # fmt: skip

ODD = [
    None, True, 0, 1, -1, 2, 2.5, 10**400, 5e-324, 1e308, np.nan, np.inf, "x", "", b"x", [], [1], (), {}, set(), object,
    np.float64(3), np.int8(3), np.array(3), np.array([3]), np.array([]), complex(1), lambda *a: 1, int, 1e-9, range(3),
    pd.NA, pd.NaT, decimal.Decimal(2), "variance", "misfit", "standard", "mean", "auto", [[1], [2, 3]],
]  # fmt: skip

CLASSES, NUMBERS = (PLAIN[:, 0] > 0).astype(int), PLAIN[:, 0]
FAST = {"n_neighbors": (1, 4), "weight_ratio": (1, 3), "cv": 2, "search": WeightSearch(n_repeats=1), "random_state": 0}
DOORS = {
    "sample_weights": lambda X, y, **k: sample_weights(X, y, **{"n_neighbors": 4} | k),
    "neighbor_variance": lambda X, y, **k: neighbor_variance(X, y, **{"n_neighbors": 4} | k),
    "suspects": lambda X, y, **k: suspects(X, y, **{"n_neighbors": 4, "random_state": 0} | k),
    "class_suspects": lambda X, y, **k: suspects(X, y, **{"n_neighbors": 4, "random_state": 0} | k),
    "ridge": lambda X, y, **k: VarianceWeighted(Ridge(), **{"n_neighbors": 4} | k).fit(X, y),
    "logistic": lambda X, y, **k: VarianceWeighted(LogisticRegression(), **{"n_neighbors": 4} | k).fit(X, y),
    "trees": lambda X, y, **k: VarianceWeighted(
        HistGradientBoostingRegressor(max_iter=1), **{"n_neighbors": 4, "measure": "misfit"} | k
    ).fit(X, y),
    "search": lambda X, y, **k: VarianceWeightedCV(Ridge(), **FAST | k).fit(X, y),
    "class_search": lambda X, y, **k: VarianceWeightedCV(
        LogisticRegression(), **FAST | {"scoring": "f1_macro"} | k
    ).fit(X, y),
    "tree_search": lambda X, y, **k: VarianceWeightedCV(
        HistGradientBoostingClassifier(max_iter=1), **FAST | {"measure": "misfit"} | k
    ).fit(X, y),
}  # fmt: skip
PARAMETERS = {
    "sample_weights": ["n_neighbors", "weight_ratio", "measure", "rescaling", "embedding", "neighbors", "task",
                       "n_jobs"],
    "neighbor_variance": ["n_neighbors", "include_self", "neighbors", "task", "n_jobs"],
    "suspects": ["estimator", "n_neighbors", "pred_probs", "predictions", "groups", "cv", "embedding", "task",
                 "random_state", "n_jobs"],
    "class_suspects": ["estimator", "n_neighbors", "pred_probs", "predictions", "groups", "cv", "embedding", "task",
                 "random_state", "n_jobs"],
    "ridge": ["n_neighbors", "weight_ratio", "measure", "rescaling", "embedding", "n_jobs"],
    "class_search": ["n_neighbors", "weight_ratio", "measure", "scoring", "cv", "search", "embedding",
                     "n_jobs", "random_state"],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _small_forests(monkeypatch):
    monkeypatch.setattr("steep._suspects.predictions._TREES", ((100, 10),))
    monkeypatch.setattr("steep._suspects.predictions._TREES_OF_A_PART", 2)


def works_or_is_refused(call):
    """Run a call; anything it raises must be ours, of one line, or the wrapped estimator's own refusal."""
    raised = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except Exception as error:
            raised = error
    if raised is None:
        return
    if isinstance(raised, SteepError):
        assert "\n" not in str(raised), raised
        return
    frames = {frame.name for frame in traceback.extract_tb(raised.__traceback__)}
    assert isinstance(raised, TypeError | ValueError), repr(raised)
    assert frames & {"fit_weighted", "finite_score", "_answers"}, repr(raised)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_odd_data_work_or_are_refused(door, seed):
    rng = np.random.default_rng(seed)
    classes = "class" in door or door in ("logistic", "tree_search")
    for X in [SAMPLES[i] for i in rng.permutation(len(SAMPLES))[: len(SAMPLES) // 6 + 1]]:
        works_or_is_refused(lambda X=X: DOORS[door](X, CLASSES if classes else NUMBERS))
    for y in [LABELS[i] for i in rng.permutation(len(LABELS))[: len(LABELS) // 6 + 1]]:
        works_or_is_refused(lambda y=y: DOORS[door](PLAIN, y))


@pytest.mark.parametrize("door", PARAMETERS)
def test_odd_parameters_work_or_are_refused(door):
    rng = np.random.default_rng(1)
    y = CLASSES if "class" in door else NUMBERS
    for name in PARAMETERS[door]:
        for i in rng.permutation(len(ODD))[: 6 if "search" in door else 14]:
            works_or_is_refused(lambda name=name, i=i: DOORS[door](PLAIN, y, **{name: ODD[i]}))


@pytest.mark.parametrize("name", ["variation", "weight_ratio", "rescaling"])
def test_odd_arguments_of_rescale_work_or_are_refused(name):
    for value in ODD + LABELS:
        works_or_is_refused(lambda value=value: rescale(**{"variation": [0.0, 1.0, 3.0]} | {name: value}))
