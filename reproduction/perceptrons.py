"""Plain stochastic gradient descent for many small classifiers at once (the double moon of Table 3).

:mod:`reproduction.ensemble` trains by Adam; the paper's double moon uses SGD, where the size of the weights is a size
of the step: w_i is *not* scaled to mean one here, so that the effect of the authors' code can be separated from the
effect of weighting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from steep._progress import progress_bar
from steep._validation import FloatArray


def sgd_classifiers(
    X: FloatArray, y: FloatArray, weights: FloatArray, *, test: FloatArray, units: int, epochs: int, batch_size: int,
    learning_rate: float | Sequence[float], seeds: Sequence[int],
    loss: Literal["cross_entropy", "squared_error"] = "cross_entropy", shuffle: bool = True,
    watch: Callable[[int, FloatArray], object] | None = None, watch_every: int = 10, device: str = "cpu",
    progress: bool | None = None,
) -> FloatArray:  # fmt: skip
    """Train one ReLU layer and a sigmoid by SGD on a weighted loss.

    ``weights`` (n_members, n) are used as they are: their mean multiplies the step. A step may be given for each
    member; equal seeds give equal starts and equal batches. ``shuffle=False`` takes the rows as they come, and
    ``watch(epoch, probabilities)`` is called after epoch 1, 1 + ``watch_every``, …, both as in the authors' code.
    Returns the probability of class 1, (n_members, n_test).

    Examples
    --------
    >>> X = np.array([[-1.0], [1.0]] * 10)
    >>> found = sgd_classifiers(X, (X[:, 0] > 0) * 1.0, np.ones((1, 20)), test=X[:2], units=4, epochs=300,
    ...                         batch_size=5, learning_rate=0.1, seeds=[0])
    >>> (found > 0.5).tolist()
    [[False, True]]
    """
    rates = np.broadcast_to(learning_rate, (len(seeds),)).copy()
    inputs, targets, weight, rate = (
        torch.as_tensor(part, dtype=torch.float32, device=device) for part in (X, y, weights, rates[:, None, None])
    )
    parameters = [
        torch.stack(parts).to(device)
        for parts in zip(*(_start(X.shape[1], units, seed) for seed in seeds), strict=True)
    ]
    unique = sorted(set(seeds))
    column = torch.tensor([unique.index(seed) for seed in seeds])
    orders = [torch.Generator().manual_seed(seed) for seed in unique]
    points = torch.as_tensor(test, dtype=torch.float32, device=device).expand(len(seeds), *test.shape)
    order = torch.arange(len(X), device=device).expand(len(seeds), -1)
    with progress_bar(total=epochs, label="epochs", shown=progress) as bar:
        for epoch in range(epochs):
            if shuffle:
                order = torch.stack([torch.randperm(len(X), generator=g) for g in orders])[column].to(device)
            for rows in torch.split(order, batch_size, dim=1):
                gradients = _gradients(parameters, inputs[rows], targets[rows], torch.gather(weight, 1, rows), loss)
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.sub_(rate * gradient)
            if watch is not None and epoch % watch_every == 0:
                watch(epoch + 1, _probabilities(parameters, points))
            bar.update()
    return _probabilities(parameters, points)


def _probabilities(parameters: list[Tensor], points: Tensor) -> FloatArray:
    found: FloatArray = torch.sigmoid(_forward(parameters, points)[1]).double().cpu().numpy()
    return found


def _start(n_inputs: int, units: int, seed: int) -> list[Tensor]:
    """Glorot's uniform weights and zero biases, as Keras does; biases are rows of one."""
    generator = torch.Generator().manual_seed(seed)
    bounds = [(6 / (n_inputs + units)) ** 0.5, (6 / (units + 1)) ** 0.5]
    shapes = [(n_inputs, units), (units, 1)]
    first, second = (
        (torch.rand(shape, generator=generator) * 2 - 1) * b for shape, b in zip(shapes, bounds, strict=True)
    )
    return [first, torch.zeros(1, units), second, torch.zeros(1, 1)]


def _forward(parameters: list[Tensor], points: Tensor) -> tuple[Tensor, Tensor]:
    hidden = torch.relu(torch.baddbmm(parameters[1], points, parameters[0]))
    return hidden, torch.baddbmm(parameters[3], hidden, parameters[2])[..., 0]


def _gradients(parameters: list[Tensor], points: Tensor, targets: Tensor, weight: Tensor, loss: str) -> list[Tensor]:
    """Of the mean weighted loss, by hand: δ = w (p − y)/n at the output, times 2p(1 − p) for squares."""
    hidden, logits = _forward(parameters, points)
    found = torch.sigmoid(logits)
    slope = 2 * found * (1 - found) if loss == "squared_error" else 1.0
    delta = (weight * (found - targets) * slope / targets.shape[1])[..., None]
    below = (delta @ parameters[2].mT) * (hidden > 0)
    return [points.mT @ below, below.sum(1, keepdim=True), hidden.mT @ delta, delta.sum(1, keepdim=True)]
