"""Rivals of designs, each rewritten from its paper over one small Gaussian process.

    EIGF    (ŷ(x) − y*)² + σ²(x)                Lam 2008; y* the label of the nearest run
    GUESS   (|ŷ(x) − t(x)| + 1) σ(x)             Lämmle and others 2023; t the first-order expansion at the nearest run
    TEAD    D/D_max + w R/R_max                  Mo and others 2017; R = |ŷ − t|, w = 1 − D/L, L the largest distance

Labels are standardised; several outputs are summed. The process is Matérn 5/2 with one length scale an input. Points
are taken one by one from a Sobol set of candidates; the length scales are fitted again twelve times, as often as steep
measures, and the process is conditioned on every point, so that a design of 400 runs takes seconds.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist
from scipy.stats import qmc
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

# As many as steep's own pool holds.
N_CANDIDATES = 4096
_JITTER = 1e-8


def matern(A, B):
    r = np.sqrt(5) * cdist(A, B)
    return (1 + r + r**2 / 3) * np.exp(-r)


def matern_slope(A, B):
    """Derivative of the kernel by its first argument, (len(A), len(B), d)."""
    gaps = A[:, None] - B[None]
    r = np.sqrt(5) * np.sqrt((gaps**2).sum(axis=2))
    return -5 / 3 * ((1 + r) * np.exp(-r))[:, :, None] * gaps


def fitted_scales(X, y, start):
    """Length scales of greatest likelihood, for the first output."""
    process = GaussianProcessRegressor(Matern(start, (0.02, 20), nu=2.5), alpha=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.atleast_1d(process.fit(X, y[:, 0]).kernel_.length_scale)


class Process:
    """A Gaussian process at candidates, conditioned on one run after another at the cost of one row."""

    def __init__(self, X, y, candidates, scales):
        self.scales, self.y = scales, y
        self.X, self.candidates = X / scales, candidates / scales
        self.lower = np.linalg.cholesky(matern(self.X, self.X) + _JITTER * np.eye(len(X)))
        self.rows = solve_triangular(self.lower, matern(self.X, self.candidates), lower=True)
        self.white = solve_triangular(self.lower, y, lower=True)

    @property
    def mean(self):
        """ŷ at the candidates."""
        return self.rows.T @ self.white

    @property
    def deviation(self):
        """σ at the candidates."""
        return np.sqrt(np.maximum(1 - (self.rows**2).sum(axis=0), 0.0))

    def expansions(self, distances):
        """Nearest run of each candidate, and the first-order expansion of the mean there."""
        near = distances.argmin(axis=0)
        weights = solve_triangular(self.lower.T, self.white, lower=False)
        used = np.unique(near)
        slopes = np.einsum("ijd,jo->iod", matern_slope(self.X[used], self.X), weights)
        step = self.candidates - self.X[near]
        return self.y[near] + np.einsum("cod,cd->co", slopes[np.searchsorted(used, near)], step)

    def add(self, x, label):
        """One more run."""
        x = x / self.scales
        side = solve_triangular(self.lower, matern(self.X, x[None])[:, 0], lower=True)
        corner = np.sqrt(max(1 + _JITTER - side @ side, _JITTER))
        n = len(self.X)
        lower = np.zeros((n + 1, n + 1))
        lower[:n, :n], lower[n, :n], lower[n, n] = self.lower, side, corner
        row = (matern(x[None], self.candidates)[0] - side @ self.rows) / corner
        white = (label - side @ self.white) / corner
        self.lower, self.rows = lower, np.vstack([self.rows, row])
        self.X, self.y, self.white = (
            np.vstack([self.X, x]),
            np.vstack([self.y, label]),
            np.vstack([self.white, white]),
        )


def eigf(process, distances):
    gap = process.mean - process.y[distances.argmin(axis=0)]
    return (gap**2).sum(axis=1) + process.deviation**2


def guess(process, distances):
    rest = np.abs(process.mean - process.expansions(distances)).sum(axis=1)
    return (rest + 1) * process.deviation


def tead(process, distances):
    rest = np.abs(process.mean - process.expansions(distances)).sum(axis=1)
    near, longest = distances.min(axis=0), cdist(*2 * [process.X * process.scales]).max()
    return near / near.max() + (1 - near / longest) * rest / max(rest.max(), 1e-300)


SCORES = {"eigf": eigf, "guess": guess, "tead": tead}


def sequential(score, function, start, n_runs, seed, n_fits=12):
    """``start``, then one run at a time where the score is largest."""
    d = start.shape[1]
    X, y = start, function(start).reshape(len(start), -1)
    scales = np.full(d, 0.5)
    ends = np.unique(np.round(np.linspace(len(X), n_runs, n_fits + 1)).astype(int))[1:]
    for number, end in enumerate(ends):
        candidates = qmc.Sobol(d, rng=np.random.default_rng([seed, number])).random(N_CANDIDATES)
        centre, deviation = y.mean(axis=0), y.std(axis=0) + 1e-12
        scaled = (y - centre) / deviation
        scales = fitted_scales(X, scaled, scales)
        process, free = Process(X, scaled, candidates, scales), np.ones(N_CANDIDATES, dtype=bool)
        distances = cdist(X, candidates)
        while len(X) < end:
            best = int(np.argmax(np.where(free, SCORES[score](process, distances), -np.inf)))
            free[best], x = False, candidates[best]
            label = function(x[None]).reshape(1, -1)
            process.add(x, ((label - centre) / deviation)[0])
            X, y = np.vstack([X, x]), np.vstack([y, label])
            distances = np.vstack([distances, cdist(x[None], candidates)])
    return X
