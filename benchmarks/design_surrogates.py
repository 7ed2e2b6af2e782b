"""The surrogates that score a design: small networks, trained as one batched computation, and Gaussian processes.

Network r starts from its own number, by default r, whatever the design, so designs are compared pairwise. A process
has one length scale an input, by greatest likelihood from two starts; labels are taken as exact but for 1e-6 of their
variance.
"""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

_WIDTH = 32


def _parameters(numbers, sizes, seed):
    """Uniform starts of fan-in scale, one number per network."""
    layers, n_networks = [], len(numbers)
    for fan_in, fan_out in pairwise(sizes):
        weight, bias = np.empty((n_networks, fan_in, fan_out)), np.empty((n_networks, 1, fan_out))
        for r, number in enumerate(numbers):
            rng = np.random.default_rng([seed, number, len(layers)])
            limit = np.sqrt(6 / (fan_in + fan_out))
            weight[r] = rng.uniform(-limit, limit, (fan_in, fan_out))
            bias[r] = rng.uniform(-limit, limit, (1, fan_out))
        layers += [torch.tensor(weight, dtype=torch.float32), torch.tensor(bias, dtype=torch.float32)]
    return [layer.requires_grad_() for layer in layers]


def _forward(parameters, x):
    for i in range(0, len(parameters) - 2, 2):
        x = torch.tanh(torch.baddbmm(parameters[i + 1], x, parameters[i]))
    return torch.baddbmm(parameters[-1], x, parameters[-2])


def predictions(X, y, X_test, *, n_steps=600, lr=2e-2, seed=0, numbers=None):
    """Train one network per design ``X[r], y[r]`` and predict ``X_test`` with each.

    ``X`` is (R, n, d) in the unit cube, ``y`` (R, n, outputs), ``X_test`` (m, d); the answer is
    (R, m, outputs). Labels are standardised inside with each design's own mean and deviation. Networks of the same
    number start alike.
    """
    mean, deviation = y.mean(axis=1, keepdims=True), y.std(axis=1, keepdims=True) + 1e-12
    inputs = torch.tensor(4 * X - 2, dtype=torch.float32)
    targets = torch.tensor((y - mean) / deviation, dtype=torch.float32)
    numbers = range(len(X)) if numbers is None else numbers
    parameters = _parameters(numbers, [X.shape[2], _WIDTH, _WIDTH, y.shape[2]], seed)
    optimizer = torch.optim.Adam(parameters, lr=lr, fused=True)
    for step in range(n_steps):
        # Up in a tenth of the steps, then down to nothing along half a cosine.
        share = step / n_steps
        optimizer.param_groups[0]["lr"] = lr * min(10 * share + 0.1, 0.5 + 0.5 * np.cos(np.pi * share))
        optimizer.zero_grad(set_to_none=True)
        loss = (_forward(parameters, inputs) - targets).square().mean(dim=(1, 2)).sum()
        loss.backward()
        optimizer.step()
    test = torch.tensor(4 * X_test - 2, dtype=torch.float32).expand(len(X), -1, -1)
    with torch.no_grad():
        predicted = torch.cat([_forward(parameters, test[:, i : i + 2048]) for i in range(0, len(X_test), 2048)], 1)
    return predicted.numpy() * deviation + mean


def process_prediction(X, y, X_test, *, kind):
    """Prediction of one Gaussian process, "matern" (5/2) or "rbf", of shape (m, outputs)."""
    mean, deviation = y.mean(axis=0), y.std(axis=0) + 1e-12
    scales, bounds = np.full(X.shape[1], 0.5), (0.02, 20)
    shape = RBF(scales, bounds) if kind == "rbf" else Matern(scales, bounds, nu=2.5)
    kernel = ConstantKernel(1.0, (1e-3, 1e4)) * shape
    model = GaussianProcessRegressor(kernel, alpha=1e-6, n_restarts_optimizer=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, (y - mean) / deviation)
    return model.predict(X_test).reshape(len(X_test), -1) * deviation + mean
