"""Draws overview.png: python docs/images/overview.py."""

from pathlib import Path

from matplotlib import pyplot
from sklearn.datasets import make_moons

import steep
from steep.cli.demo import runge
from steep.plotting import plot_design, plot_weights

figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
plan = steep.design(
    runge, [(0, 1)], n_initial=8, n_samples=24, initial="grid", variant="paper", random_state=0
)
plot_design(plan, function=runge, ax=left)
left.set(title="design: run f where it varies", xlabel="x", ylabel="f(x)")
X, y = make_moons(300, noise=0.2, random_state=0)
plot_weights(X, steep.sample_weights(X, y), ax=right)
right.set(title="weigh: samples near the boundary count more", xlabel="$x_0$", ylabel="$x_1$")
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)
