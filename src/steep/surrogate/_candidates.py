"""Models a surrogate chooses from, each for one output, as plain arrays that can be written to a file.

    rough, smooth, cubic    f̂(x) = p(x)ᵀ b + Σ_i k(x/ℓ, x_i/ℓ) c_i       Matérn 5/2, Gaussian, r³
                            [K + gI  P] [c]   [y]
                            [Pᵀ      0] [b] = [0]       Q the upper left block of the inverse, c = Q y
                            y_b − f̂₋b = Q_bb⁻¹ (Q y)_b  errors of a fold b predicted from the other folds
    boosting                gradient-boosted trees of scikit-learn, for jumps
    network                 the mean of three networks of two tanh layers

ℓ, one length per coordinate, and the nugget g have the largest likelihood, with a wide prior on ℓ; the cubic takes the
lengths of the rough process. Points are those of the unit cube, with a column per value of a category; outputs have
mean 0 and deviation 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray, IntArray
from steep.sampling.process import likeliest

Arrays = dict[str, npt.NDArray[Any]]

KERNELS = ("rough", "smooth", "cubic")
CANDIDATES = (*KERNELS, "boosting", "network")
# Runs that lengths are found by, and that a kernel and a network are fitted to, at most; steps of the search.
_MOST_FOR_LENGTHS, _MOST, _MOST_FOR_NETWORKS, _STEPS = 300, 1500, 3000, 60
_N_TREES, _N_NETWORKS, _HIDDEN = 200, 3, (40, 40)
# An expensive candidate is given up when its squared error on the first fold is this many times that of the best.
_HOPELESS = 2.0


class Member(NamedTuple):
    """A candidate with everything it needs to predict."""

    kind: str
    arrays: Arrays

    def predict(self, at: FloatArray) -> FloatArray:
        """Values at some points, ``(n,)``."""
        predict = {"boosting": _tree_values, "network": _net_values}.get(self.kind, _kernel_values)
        parts = [predict(self, at[i : i + 4096]) for i in range(0, len(at), 4096)]
        return np.concatenate(parts) if parts else np.empty(0)


class Tried(NamedTuple):
    """A fitted candidate, or the way to fit it, and each run predicted from the other folds."""

    kind: str
    predicted: FloatArray
    fit: Callable[[], Member]


def try_all(
    kinds: tuple[str, ...], points: FloatArray, values: FloatArray, fold: IntArray, weights: FloatArray, seed: int
) -> list[Tried]:
    """Cross-validate each kind; the expensive ones only as long as they have a chance."""
    tried = _try_kernels(kinds, points, values, fold)
    best = min((((one.predicted - values) ** 2 * weights)[fold == 0].sum() for one in tried), default=np.inf)
    for kind, make in {"boosting": _fit_boosting, "network": _fit_network}.items():
        if kind not in kinds:
            continue
        predicted = np.empty(len(values))
        for i in range(fold.max() + 1):
            held = fold == i
            predicted[held] = make(points[~held], values[~held], seed, 1).predict(points[held])
            if i == 0 and ((predicted - values) ** 2 * weights)[held].sum() > _HOPELESS * best:
                break
        else:
            tried.append(Tried(kind, predicted, lambda make=make: make(points, values, seed, _N_NETWORKS)))  # type: ignore[misc]
    return tried


# ---------------------------------------------------------------- kernels


def _kernel(kind: str, A: FloatArray, B: FloatArray) -> FloatArray:
    squares = np.maximum((A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * A @ B.T, 0.0)
    if kind == "smooth":
        return np.asarray(np.exp(-0.5 * squares))
    if kind == "cubic":
        return np.asarray(squares**1.5)
    gaps = np.sqrt(5 * squares)
    return np.asarray((1 + gaps + gaps**2 / 3) * np.exp(-gaps))


def _trend(kind: str, points: FloatArray) -> FloatArray:
    """P: a constant; for the cubic the coordinates too."""
    one = np.ones((len(points), 1))
    return np.hstack([one, points]) if kind == "cubic" else one


def _kernel_values(fitted: Member, at: FloatArray) -> FloatArray:
    arrays = fitted.arrays
    scaled = at / arrays["lengths"]
    found = _kernel(fitted.kind, scaled, arrays["points"] / arrays["lengths"]) @ arrays["coefficients"]
    return np.asarray(found + _trend(fitted.kind, scaled @ arrays["basis"]) @ arrays["trend"])


def _try_kernels(kinds: tuple[str, ...], points: FloatArray, values: FloatArray, fold: IntArray) -> list[Tried]:
    rows = thinned(len(points), _MOST)
    every, points, held, known = points, points[rows], fold[rows], values[rows]
    search = partial(likeliest, points, known[:, None], most=_MOST_FOR_LENGTHS, steps=_STEPS, finds_nugget=True)
    likely = cache(search)
    tried = []
    for kind in (one for one in KERNELS if one in kinds):
        lengths, nugget = likely(smooth=kind == "smooth")
        fitted, Q = fit_kernel(kind, points, known, lengths, 1e-10 if kind == "cubic" else nugget)
        residual, pull = np.empty(len(rows)), Q @ known
        for i in range(fold.max() + 1):
            block = np.flatnonzero(held == i)
            residual[block] = np.linalg.lstsq(Q[np.ix_(block, block)], pull[block])[0]
        predicted = np.array(values)
        predicted[rows] -= residual
        if len(rows) < len(values):  # runs that were left out are new to it
            others = np.setdiff1d(np.arange(len(values)), rows)
            predicted[others] = fitted.predict(every[others])
        tried.append(Tried(kind, predicted, lambda fitted=fitted: fitted))  # type: ignore[misc]
    return tried


def fit_kernel(
    kind: str, points: FloatArray, values: FloatArray, lengths: FloatArray, nugget: float
) -> tuple[Member, FloatArray]:
    """One kernel with given lengths, and Q."""
    scaled = points / lengths
    basis = _spanning(scaled) if kind == "cubic" else np.eye(points.shape[1])
    trend, n = _trend(kind, scaled @ basis), len(points)
    system = np.zeros((n + trend.shape[1],) * 2)
    system[:n, :n] = _kernel(kind, scaled, scaled)
    scale = float(np.abs(system[:n, :n]).max()) or 1.0
    system[np.diag_indices(n)] += nugget * scale
    system[:n, n:], system[n:, :n] = trend, trend.T
    try:
        inverse = np.linalg.inv(system)
    except np.linalg.LinAlgError:
        inverse = np.linalg.pinv(system)
    arrays = {
        "points": points, "lengths": lengths, "basis": basis,
        "coefficients": inverse[:n, :n] @ values, "trend": inverse[n:, :n] @ values,
    }  # fmt: skip
    return Member(kind, arrays), inverse[:n, :n]


def _spanning(points: FloatArray) -> FloatArray:
    """Directions along which points spread, as columns: the columns of a category sum to a constant."""
    _, sizes, directions = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    return np.asarray(directions[sizes > 1e-9 * max(float(sizes[0]), 1e-300)].T)


def thinned(n: int, most: int) -> IntArray:
    """All rows, or some of many, evenly."""
    return np.arange(n) if n <= most else np.unique(np.linspace(0, n - 1, most).astype(int))


# ---------------------------------------------------------------- trees and networks


def _fit_boosting(points: FloatArray, values: FloatArray, seed: int, _: int) -> Member:
    from sklearn.ensemble import GradientBoostingRegressor

    model = GradientBoostingRegressor(
        n_estimators=_N_TREES, max_depth=4, learning_rate=0.08, subsample=0.7, min_samples_leaf=3, random_state=seed
    )
    model.fit(points, values)
    trees = [tree.tree_ for tree in model.estimators_[:, 0]]
    starts = np.cumsum([0, *[tree.node_count for tree in trees]])
    # A leaf leads back to itself, so that all rows may take the same number of steps.
    joined: dict[str, list[Any]] = {"left": [], "right": [], "feature": [], "threshold": [], "value": []}
    for tree, start in zip(trees, starts, strict=False):
        nodes, is_leaf = np.arange(tree.node_count), tree.children_left < 0
        joined["left"].append(start + np.where(is_leaf, nodes, tree.children_left))
        joined["right"].append(start + np.where(is_leaf, nodes, tree.children_right))
        joined["feature"].append(np.maximum(tree.feature, 0))
        joined["threshold"].append(tree.threshold)
        joined["value"].append(model.learning_rate * tree.value[:, 0, 0])
    arrays = {name: np.concatenate(parts) for name, parts in joined.items()}
    return Member("boosting", arrays | {"roots": starts[:-1], "start": np.array(float(values.mean()))})


def _tree_values(fitted: Member, at: FloatArray) -> FloatArray:
    a = fitted.arrays
    rows, node = np.arange(len(at))[:, None], np.repeat(a["roots"][None], len(at), axis=0)
    compared = at.astype(np.float32)
    for _ in range(4):
        goes_left = compared[rows, a["feature"][node]] <= a["threshold"][node]
        node = np.where(goes_left, a["left"][node], a["right"][node])
    return np.asarray(a["start"] + a["value"][node].sum(axis=1))


def _fit_network(points: FloatArray, values: FloatArray, seed: int, n_networks: int) -> Member:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    rows, arrays = thinned(len(points), _MOST_FOR_NETWORKS), {}
    for i in range(n_networks):
        model = MLPRegressor(
            hidden_layer_sizes=_HIDDEN, activation="tanh", solver="lbfgs", alpha=1e-3, max_iter=250,
            random_state=(seed + i) % 2**32,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(4 * points[rows] - 2, values[rows])
        for layer, (weight, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
            arrays[f"weight{i}_{layer}"], arrays[f"bias{i}_{layer}"] = weight, bias
    return Member("network", arrays | {"n_networks": np.array(n_networks)})


def _net_values(fitted: Member, at: FloatArray) -> FloatArray:
    a, n, last = fitted.arrays, int(fitted.arrays["n_networks"]), len(_HIDDEN)
    total = np.zeros(len(at))
    for i in range(n):
        hidden = 4 * at - 2
        for layer in range(last):
            hidden = np.tanh(hidden @ a[f"weight{i}_{layer}"] + a[f"bias{i}_{layer}"])
        total += (hidden @ a[f"weight{i}_{last}"] + a[f"bias{i}_{last}"])[:, 0]
    return total / n
