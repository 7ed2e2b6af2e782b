"""Odd values at every door of designs, domains and their measures: an answer or a SteepError, nothing else."""

import enum
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from steep import (
    Adaptive,
    Box,
    Category,
    Integer,
    Log,
    SteepError,
    Taylor,
    Variance,
    VariationSampler,
    WeightedGaussianMixture,
    design,
    metrics,
    perturbation_variance,
    taylor_variation,
)
from steep.measures import MEASURES, Measure
from steep.measures.taylor import FiniteDifferences


class Stubborn:
    def __repr__(self):
        raise RuntimeError("no name")

    def __bool__(self):
        raise RuntimeError("no truth")


class Kind(enum.Enum):
    ONE = 1


ODD = [
    None, True, False, 0, 1, -1, 2, 3, 7, 0.5, -0.5, 1e-300, 1e300, 1e308, float("nan"), float("inf"), 10**400, 2**61,
    -(2**61), 1j, "", "a", "paper", "3", b"a", (), [], {}, [1], [1.0, 2.0], (0, 1), [[1]], [[0.1, 0.2]], [[], []],
    [[1], [1, 2]], {"a": 1}, {1, 2}, range(3), iter([1, 2]), object(), Stubborn(), Kind.ONE, Decimal("0.5"),
    np.nan, np.float32(0.3), np.int8(3), np.bool_(True), np.str_("a"), np.array(3.0), np.empty(0), np.empty((0, 2)),
    np.empty((2, 0)), np.ones(3), np.ones((3, 2)), np.ones((2, 2, 2)), np.full((3, 2), np.nan), np.full((3, 2), 1e308),
    np.array([None, 1]), np.array(["a", "b"]), np.array([1, 2], "M8[s]"), np.ma.masked_less(np.arange(3.0), 2),
    np.ones((3, 2), dtype=np.float32), np.ones((3, 2)) * 1j, sparse.eye_array(3), pd.DataFrame({"a": [1.0, 2]}),
    pd.Series([1, None]), pd.NA, pd.Timestamp("2020"), np.random.default_rng(0), np.random.RandomState(0),
    Log(1, 2), Integer(1, 3), Category("a", "b"), Box([(0, 1)]), Box([(0, 1)] * 2),
    lambda X, *rest: X, lambda X, *rest: None, lambda X, *rest: "text", lambda X, *rest: [],
    lambda X, *rest: np.ones(len(X)), lambda X, *rest: -np.ones(len(X)), lambda X, *rest: np.ones(len(X), dtype=bool),
    lambda X, *rest: X[:, 0] * np.nan, lambda X, *rest: np.ones((len(X), 0)), lambda X, *rest: 10**400,
    lambda X, *rest: X[:, 0] * 1e300, MEASURES["density"],
    Measure("nan", lambda around: np.full(len(around.points), np.nan)),
]  # fmt: skip
X2 = np.random.default_rng(0).random((12, 2))


def plane(X):
    with np.errstate(over="ignore"):
        return X.sum(axis=-1)


def box():
    return Box({"x": (0, 1), "m": Category("a", "b", 3)})


DOORS = {
    "Box": (Box, {"bounds": [(0, 1)], "constraint": None}),
    "Box of one": (lambda entry: Box([entry]), {"entry": (0, 1)}),
    "Box of a pair": (lambda low, high: Box([(low, high)]), {"low": 0, "high": 1}),
    "Log": (lambda low, high: Box([Log(low, high)]), {"low": 1, "high": 2}),
    "Integer": (lambda low, high: Box([Integer(low, high)]), {"low": 1, "high": 2}),
    "Category": (lambda a, b: Box([Category(a, b)]), {"a": "a", "b": "b"}),
    "unit": (lambda X: box().unit(X), {"X": X2}),
    "from_unit": (lambda U: box().from_unit(U), {"U": X2}),
    "contains": (lambda X: box().contains(X), {"X": X2}),
    "decode": (lambda X: box().decode(X), {"X": X2}),
    "encode": (lambda rows: box().encode(rows), {"rows": [{"x": 0.5, "m": 3}]}),
    "encode one": (lambda x, m: box().encode([{"x": x, "m": m}]), {"x": 0.5, "m": 3}),
    "sobol": (lambda n, random_state: box().sobol(n, random_state=random_state), {"n": 3, "random_state": 0}),
    "uniform": (lambda n, random_state: box().uniform(n, random_state=random_state), {"n": 3, "random_state": 0}),
    "taylor_variation": (
        taylor_variation,
        {"function": plane, "X": X2, "order": 1, "epsilon": 1e-3, "derivatives": None, "bounds": None,
         "vectorized": True},
    ),
    "FiniteDifferences": (
        lambda function, bounds, step, k: FiniteDifferences(function, bounds=bounds, step=step)(X2, k),
        {"function": plane, "bounds": None, "step": None, "k": np.eye(2, dtype=int)},
    ),
    "perturbation_variance": (
        perturbation_variance,
        {"function": plane, "X": X2, "epsilon": 1e-3, "n_draws": 3, "center": "point", "bounds": [(0, 1)] * 2,
         "vectorized": True, "random_state": 0},
    ),
    "mixture": (
        lambda X, sample_weight, n_samples, **options: WeightedGaussianMixture(**options)
        .fit(X, sample_weight=sample_weight)
        .sample(n_samples),
        {"X": X2, "sample_weight": None, "n_samples": 3, "n_components": 2, "n_init": 1, "max_iter": 5, "tol": 1e-3,
         "reg_covar": 1e-6, "random_state": 0},
    ),
    "score_samples": (lambda X: WeightedGaussianMixture(2, random_state=0).fit(X2).score_samples(X), {"X": X2}),
    "mean_interval": (metrics.mean_interval, {"scores": [1.0, 2.0]}),
    "paired_interval": (metrics.paired_interval, {"baseline": [1.0, 2.0], "new": [2.0, 3.0]}),
    "VariationSampler": (
        lambda bounds, X, variation, n, **options: VariationSampler(bounds, **options)
        .fit(X, variation)
        .sample(n),
        {"bounds": [(0, 1)] * 2, "X": X2, "variation": X2[:, 0], "n": 3,
         "draw": "fill", "n_components": 2, "temper": 0.5, "floor": 0.1, "random_state": 0},
    ),
    "design": (
        design,
        {"function": plane, "bounds": [(0, 1)] * 2, "n_runs": 8, "n_initial": 6, "strategy": None, "constraint": None,
         "fixed": None, "pass_as": "array", "n_jobs": None, "random_state": 0},
    ),
    "Adaptive": (
        lambda **options: design(plane, [(0, 1)] * 2, 8, n_initial=6, strategy=Adaptive(**options), random_state=0),
        {"measure": "auto", "rounds": 2, "epsilon": 1e-3},
    ),
    "Taylor": (
        lambda **options: design(plane, [(0, 1)] * 2, 8, n_initial=6, strategy=Taylor(**options), random_state=0),
        {"order": 1, "epsilon": 1e-3, "n_components": 2, "derivatives": None},
    ),
    "Variance": (
        lambda **options: design(plane, [(0, 1)] * 2, 8, n_initial=6, strategy=Variance(**options), random_state=0),
        {"n_neighbors": None, "n_components": 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_odd_values_are_answered_or_refused_in_one_line(door):
    call, usual = DOORS[door]
    for name in usual:
        for odd in ODD:
            try_odd(door, call, usual, {name: odd})
    rng = np.random.default_rng(len(door))
    for _ in range(20):  # two odd values at once
        names = rng.choice(list(usual), min(2, len(usual)), replace=False)
        try_odd(door, call, usual, {name: ODD[rng.integers(len(ODD))] for name in names})


# Values of these that are large but legal are only a matter of patience.
PATIENCE = {"n_init", "max_iter"}


def try_odd(door, call, usual, odd):
    if any(name in PATIENCE and isinstance(value, int) and value > 10**6 for name, value in odd.items()):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="variation is zero at every point|X has feature names")
        try:
            call(**usual | odd)
        except Exception as error:
            if not isinstance(error, SteepError) or "\n" in str(error):
                shown = {name: type(value).__name__ for name, value in odd.items()}
                pytest.fail(f"{door}, {shown}: {type(error).__name__}: {error}")
