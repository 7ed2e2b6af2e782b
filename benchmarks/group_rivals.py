"""Peers that re-train a head for the group that fails, written from their papers' equations; all on given features.

With z the features, p̂_i the probability of the own class by the network as trained (θ₀ its head), n_y the size of a
class and n_g that of a group:

    AFR   Qiu et al. 2023     min_θ Σ_i μ_i ℓ(θ, z_i) + λ ‖θ − θ₀‖²,   μ_i ∝ exp(−γ p̂_i) / n_{y_i},   Σ μ_i = 1
    JTT   Liu et al. 2021     weight λ_up for the samples θ₀ gets wrong, 1 for the others; here for the head alone
    DFR   Kirichenko 2023     a head fitted to group-balanced data: balanced subsets drawn ten times and averaged, or
                              weights 1/n_g; told every group
    DFR, validation           the same fitted to the validation data: the setting is chosen on one half by heads fitted
                              to the other, and fitted again to all
    LEIA  Gourabathina 2026   min_A Σ_i μ_i ℓ(θ₀ z_i + A Vᵀ(z_i − z̄), y_i) + λ ‖A‖², V the first r eigenvectors of
                              Σ_i μ_i (z_i − z̄)(z_i − z̄)ᵀ; μ of AFR. Written from the abstract and reviews alone: it
                              weights by errors, but its exact weights were not available
    inverse frequency         weights 1/n_y

λ of AFR is relative to the features' mean variance, as in steep; DFR has an L2 penalty in place of the paper's L1.
Each yields heads, one for each setting; the caller chooses among them on the validation data.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from steep.convex import feature_scale
from steep.nn.heads import Head, HeadSamples, HeadTask, fit_head

# As many settings as steep tries: 5 λ and more as needed × 14 ways to weigh.
L2 = (10.0, 1.0, 1e-1, 1e-2, 1e-3, 1e-5, 0.0)
GAMMAS = (0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 13.0, 16.0, 20.0)
UPWEIGHTS = (2.0, 5.0, 10.0, 20.0, 35.0, 50.0, 75.0, 100.0, 200.0, 500.0)
N_SUBSETS = 10
RANKS = (1, 4, 16)
# Gap at which a solution counts as found.
TOLERANCE = 1e-6


def probabilities(head, features):
    logits = head.outputs(features).astype(np.float64)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def afr_weights(own, classes, gamma):
    """μ of mean one instead of sum one: the mean loss is then the paper's sum."""
    counts = np.bincount(classes)
    weights = np.exp(-gamma * own) / counts[classes]
    return weights / weights.mean()


def jtt_weights(is_wrong, upweight):
    weights = np.where(is_wrong, upweight, 1.0)
    return weights / weights.mean()


def mass_weights(groups):
    _, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    weights = 1.0 / counts[codes]
    return weights / weights.mean()


def leia(x, y, first):
    own = probabilities(first, x)[np.arange(len(y)), y]
    z = (x - x.mean(axis=0)).astype(np.float64)
    for gamma in GAMMAS[2::2]:
        mu = afr_weights(own, y, gamma)
        vectors = np.linalg.eigh((z * mu[:, None]).T @ z)[1][:, ::-1]
        for rank in RANKS:
            along = z @ vectors[:, :rank] / feature_scale(x, x.mean(axis=0, dtype=np.float64))
            near = np.zeros((len(first.weight), rank))
            for l2 in L2[1:-1]:
                near = fit_correction(along, y, mu, l2, first.outputs(x).astype(np.float64), near)
                correction = near @ vectors[:, :rank].T / feature_scale(x, x.mean(axis=0, dtype=np.float64))
                head = Head(first.weight + correction, first.bias - correction @ x.mean(axis=0))
                yield {"gamma": gamma, "rank": rank, "l2": l2}, head


def fit_correction(along, y, weight, l2, given, start):
    """min_A 1/N Σ w ℓ(given + A u) + ½ λ ‖A‖² by L-BFGS."""
    rows = np.arange(len(y))

    def objective(flat):
        table = flat.reshape(start.shape)
        logits = given + along @ table.T
        logits -= logits.max(axis=1, keepdims=True)
        totals = np.log(np.exp(logits).sum(axis=1))
        value = (weight * (totals - logits[rows, y])).mean()
        residual = np.exp(logits - totals[:, None])
        residual[rows, y] -= 1
        gradient = (residual * weight[:, None]).T @ along / len(y) + l2 * table
        return value + l2 / 2 * (table**2).sum(), gradient.ravel()

    return minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 200}).x.reshape(
        start.shape
    )


def fit_towards(x, y, weight, l2, first, start=None):
    """min 1/N Σ w ℓ + ½ λ s² ‖θ − θ₀‖², the bias included, by L-BFGS; θ₀ is the head ``first``."""
    n_classes, width = first.weight.shape
    scale = feature_scale(x, x.mean(axis=0, dtype=np.float64))
    z = np.hstack([x / scale, np.ones((len(x), 1))]).astype(np.float32)
    origin = np.hstack([first.weight * scale, first.bias[:, None]])
    rows = np.arange(len(x))

    def objective(flat):
        theta = flat.reshape(n_classes, width + 1)
        logits = (z @ theta.T.astype(np.float32)).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        totals = np.log(np.exp(logits).sum(axis=1))
        value = (weight * (totals - logits[rows, y])).mean()
        residual = np.exp(logits - totals[:, None])
        residual[rows, y] -= 1
        gap = theta - origin
        gradient = (residual * weight[:, None]).T.astype(np.float32) @ z / len(z) + l2 * gap
        return value + l2 / 2 * (gap**2).sum(), gradient.ravel()

    begin = origin if start is None else np.hstack([start.weight * scale, start.bias[:, None]])
    found = minimize(objective, begin.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 200, "ftol": 1e-7})
    theta = found.x.reshape(n_classes, width + 1)
    return Head(theta[:, :-1] / scale, theta[:, -1])


def afr(x, y, first):
    own = probabilities(first, x)[np.arange(len(y)), y]
    for gamma in GAMMAS:
        weight, near = afr_weights(own, y, gamma), None
        for l2 in L2:
            near = fit_towards(x, y, weight, l2, first, near)
            yield {"gamma": gamma, "l2": l2}, near


def weighted(x, y, first, weights, l2s=L2):
    """Heads with the given weights, by name, for every λ."""
    task = HeadTask("multiclass", len(first.weight))
    for name, weight in weights.items():
        near = first
        for l2 in l2s:
            near = fit_head(HeadSamples(x, y), task, weight, l2, original=near, tolerance=TOLERANCE)
            yield {"weights": name, "l2": l2}, near


def jtt(x, y, first):
    is_wrong = first.outputs(x).argmax(axis=1) != y
    yield from weighted(x, y, first, {f"{up:g}": jtt_weights(is_wrong, up) for up in UPWEIGHTS})


def dfr(x, y, groups, first, seed=0):
    """Weights 1/n_g, and the mean of heads fitted to balanced subsets."""
    yield from weighted(x, y, first, {"1/n_g": mass_weights(groups)})
    rng = np.random.default_rng(seed)
    rows = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    size = min(len(r) for r in rows)
    found = {}
    for _ in range(N_SUBSETS):
        subset = np.concatenate([rng.choice(r, size, replace=False) for r in rows])
        for setting, head in weighted(x[subset], y[subset], first, {"subsets": np.ones(len(subset))}, L2[:-1]):
            found.setdefault(setting["l2"], []).append(head)
    for l2, heads in found.items():
        mean = Head(np.mean([h.weight for h in heads], axis=0), np.mean([h.bias for h in heads], axis=0))
        yield {"weights": "subsets", "l2": l2}, mean


def dfr_validation(validation, groups, first, score, seed=0):
    """The head of the setting that is best on half of the validation data, fitted to all of them; and the settings."""
    rng = np.random.default_rng(seed)
    half = np.zeros(len(groups), bool)
    for group in np.unique(groups):
        rows = rng.permutation(np.flatnonzero(groups == group))
        half[rows[: len(rows) // 2]] = True
    x, y = validation
    fitted = list(dfr(x[half], y[half], groups[half], first, seed))
    values = [score(head, ~half) for _, head in fitted]
    setting = fitted[int(np.argmax(values))][0]
    again = [head for other, head in dfr(x, y, groups, first, seed) if other == setting]
    return again[0], setting, len(fitted)


def inverse_frequency(x, y, first):
    yield from weighted(x, y, first, {"1/n_y": mass_weights(y)})


def equal_weights(x, y, first):
    yield from weighted(x, y, first, {"equal": np.ones(len(y))})
