"""The paper's way of training a head: Adam on shuffled mini-batches for so many epochs, from a random start."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from steep._validation import FloatArray
from steep.nn.heads.problem import Head


def fit_adam(
    features: FloatArray,
    targets: FloatArray,
    weight: FloatArray,
    *,
    n_outputs: int,
    loss: str,
    l2: float = 0.0,
    learning_rate: float = 1e-3,
    batch_size: int = 25,
    epochs: int = 25,
    seed: int = 0,
    bias: bool = True,
    offset: FloatArray | None = None,
) -> Head:
    """Train one head by Adam; ``l2`` is a plain penalty ½ λ ‖W‖² here.

    Targets are class numbers for the loss "softmax", columns for "sigmoid" and "squared"; ``offset`` is a bias that is
    not fitted but given, with ``bias=False``.
    """
    generator = torch.Generator().manual_seed(seed)
    head = nn.Linear(
        features.shape[1], n_outputs, bias=bias, dtype=torch.from_numpy(features[[0]]).dtype, device="meta"
    )
    head = head.to_empty(device="cpu")
    bound = features.shape[1] ** -0.5
    for parameter in head.parameters():
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
    w = torch.as_tensor(weight, dtype=head.weight.dtype)
    y = torch.as_tensor(targets, dtype=torch.int64 if loss == "softmax" else head.weight.dtype)
    given = 0.0 if offset is None else torch.as_tensor(offset, dtype=head.weight.dtype)
    optimizer = torch.optim.Adam(head.parameters(), lr=learning_rate)
    with torch.enable_grad():
        for _ in range(epochs):
            for rows in torch.split(torch.randperm(len(features), generator=generator), batch_size):
                optimizer.zero_grad()
                z = torch.from_numpy(features[rows.numpy()])  # a copy of these rows: features may lie in a file
                losses = w[rows] * _sample_losses(head(z) + given, y[rows], loss)
                torch.autograd.backward(losses.mean() + l2 / 2 * (head.weight**2).sum())
                optimizer.step()
    trained_bias = head.bias.detach().double().numpy() if bias else offset
    weights = head.weight.detach().double().numpy()
    return Head(weights, trained_bias, is_bias_fixed=offset is not None)


def _sample_losses(outputs: Tensor, targets: Tensor, loss: str) -> Tensor:
    if loss == "softmax":
        return functional.cross_entropy(outputs, targets, reduction="none")
    columns = targets.reshape(outputs.shape)
    if loss == "sigmoid":
        return functional.binary_cross_entropy_with_logits(outputs, columns, reduction="none").sum(dim=1)
    return ((outputs - columns) ** 2).sum(dim=1) / 2
