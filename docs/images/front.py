"""Draws front.png: python docs/images/front.py."""

from pathlib import Path

import numpy as np
from matplotlib import pyplot
from scipy.interpolate import RBFInterpolator

import steep

BOUNDS = {"u": (0, 1), "t": (0, 10)}
BOX = steep.Box(BOUNDS)
TEST = BOX.sobol(4096, random_state=99)
SIZES, N_SEEDS = (40, 60, 80, 120, 160), 5


def simulator(X):
    """A front that moves a little with t."""
    return np.tanh(20 * (X[:, 0] - 0.3 - 0.02 * X[:, 1])) * (1 + X[:, 1] / 10)


def rmse(points):
    """Error of a cubic interpolant of runs at these points, as a share of the output's spread."""
    fitted = RBFInterpolator(BOX.unit(points), simulator(points), kernel="cubic")
    truth = simulator(TEST)
    return np.sqrt(np.mean((fitted(BOX.unit(TEST)) - truth) ** 2)) / truth.std()


def design(n, seed):
    """A design of n runs, a quarter of them the start."""
    return steep.design(simulator, BOUNDS, n, n_initial=n // 4, random_state=seed)


placed = [[rmse(design(n, seed).X) for seed in range(N_SEEDS)] for n in SIZES]
even = [[rmse(BOX.sobol(n, random_state=seed)) for seed in range(N_SEEDS)] for n in SIZES]

figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
u, t = np.meshgrid(np.linspace(0, 1, 200), np.linspace(0, 10, 200))
heights = simulator(np.column_stack([u.ravel(), t.ravel()])).reshape(u.shape)
left.contourf(u, t, heights, levels=20, cmap="Greys", alpha=0.6)
plan = design(160, 0)
for rows, colour, label in ((~plan.is_placed, "#1f6fb4", "even runs"), (plan.is_placed, "#d1495b", "placed runs")):
    left.scatter(*plan.X[rows].T, s=14, color=colour, label=label)
left.set(title="160 runs of a simulator with a moving front", xlabel="u", ylabel="t")
left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, frameon=False)
for errors, colour, label in ((even, "#1f6fb4", "Sobol points"), (placed, "#d1495b", "steep.design")):
    right.plot(SIZES, np.median(errors, axis=1), "o-", color=colour, label=label)
    right.fill_between(SIZES, np.min(errors, axis=1), np.max(errors, axis=1), color=colour, alpha=0.15, lw=0)
right.set(title="Error of a cubic interpolant, 5 seeds", xlabel="runs", ylabel="RMSE / spread of the output")
right.set(yscale="log")
right.legend(frameon=False)
figure.savefig(Path(__file__).with_suffix(".png"), dpi=100)
