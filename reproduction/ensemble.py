"""Train many small networks at once: the perceptrons of the paper's tables.

R multi-layer perceptrons of one shape are R slices of the same tensors: one batched product does a layer of all of
them, and one Adam step moves all parameters. Layer l of member r is

    a_l = max(0, W_lᵀ a_{l−1} + b_l) = max(0, [W_l; b_l]ᵀ [a_{l−1}; 1])

with the bias as last row of the weights and a row of ones under the activations, one column per sample. Gradients are
written out by hand, δ_{l−1} = W_l δ_l ∘ [a_{l−1} > 0] and ∂[W_l; b_l] = [a_{l−1}; 1] δ_lᵀ, because for eight units the
bookkeeping of autograd costs more than the arithmetic. The draws of a member come from its own seed alone, so it is
the same network as one trained by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from steep._progress import progress_bar
from steep._validation import FloatArray

Loss = Literal["squared_error", "cross_entropy", "binary"]
# Adam's constants, those of Kingma and Ba and of every framework.
_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Ensemble:
    """R trained networks: ``weights`` of shape (n_members, n_inputs + 1, n_outputs) per layer, last row the bias."""

    weights: list[Tensor]
    loss: Loss

    def predict(self, X: FloatArray) -> FloatArray:
        """Values, or probabilities of classes: (n_members, n_samples, n_outputs); X of all, or of each member."""
        points = torch.as_tensor(X, dtype=self.weights[0].dtype, device=self.weights[0].device).expand(
            len(self.weights[0]), *X.shape[-2:]
        )
        outputs: FloatArray = _respond(_forward(_columns(points), self.weights)[-1], self.loss).mT.cpu().numpy()
        return outputs

    def network(self, member: int) -> nn.Sequential:
        """One member as a plain network, without the softmax or sigmoid of its loss."""
        modules: list[nn.Module] = []
        for weight in self.weights:
            layer = nn.Linear(weight.shape[1] - 1, weight.shape[2], dtype=weight.dtype)
            layer.weight.data.copy_(weight[member, :-1].T)
            layer.bias.data.copy_(weight[member, -1])
            modules += [layer, nn.ReLU()]
        return nn.Sequential(*modules[:-1])


def train_ensemble(
    X: Any, y: Any, *, seeds: Sequence[int], layers: Sequence[int], epochs: int, learning_rate: float,
    loss: Loss = "squared_error", sample_weight: FloatArray | None = None, batch_size: int | None = None,
    dtype: torch.dtype = torch.float32, watch: Callable[[int, Ensemble], object] | None = None, device: str = "cpu",
    progress: bool | None = None,
) -> Ensemble:  # fmt: skip
    """Train one ReLU network per seed by Adam, from Glorot's uniform weights and zero biases (as Keras does).

    Parameters
    ----------
    X, y : ndarray of shape (n_samples, n_features) and (n_samples,) or (n_samples, n_outputs), or lists of them
        Shared by all members, or one array per member, which may differ in length. Class numbers for
        ``loss="cross_entropy"``, 0/1 for ``"binary"``.
    sample_weight : ndarray of shape (n_samples,) or (n_members, n_samples), optional
        Weights ≥ 0, scaled to mean one for each member.
    batch_size : int, optional
        Samples per step, shuffled by each member in each epoch; default all. Members must then have one length.
    watch : callable, optional
        Called as ``watch(epoch, ensemble)`` after epoch 1, 2, …; the ensemble is the one in training.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 20)[:, None]
    >>> trained = train_ensemble(x, x[:, 0] ** 2, seeds=range(3), layers=(16,), epochs=800, learning_rate=0.02)
    >>> bool(abs(trained.predict(np.array([[0.5]])) - 0.25).max() < 0.05)
    True
    """
    members = _members(X, y, sample_weight, len(seeds), loss, dtype)
    inputs, targets, weight = (part.to(device) for part in members)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    shape = [inputs.shape[2], *layers, targets.shape[2]]
    flat = torch.stack([_start(shape, generator) for generator in generators]).to(device, dtype)
    live = Ensemble(_layers(flat, shape), loss)
    n_steps = -(-inputs.shape[1] // (batch_size or inputs.shape[1]))
    batches = _batches(inputs, targets, weight, generators, epochs, batch_size)
    with torch.no_grad(), progress_bar(total=epochs * n_steps, label="steps", shown=progress) as bar:
        for step in _adam(flat, shape, live, batches, learning_rate):
            bar.update()
            if watch is not None and step % n_steps == 0:
                watch(step // n_steps, live)
    return live


def _members(
    X: Any, y: Any, sample_weight: FloatArray | None, n_members: int, loss: Loss, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, targets and weights of every member as three tensors; short members are padded by weight 0."""
    xs, ys = X if isinstance(X, list) else [X], y if isinstance(y, list) else [y]
    weights = [np.ones(len(x)) for x in xs] if sample_weight is None else np.atleast_2d(sample_weight)
    longest = max(len(x) for x in xs)
    columns = [np.reshape(target, (len(target), -1)) for target in ys]
    if loss == "cross_entropy":
        columns = [np.eye(int(np.max(y)) + 1)[np.ravel(target).astype(int)] for target in columns]
    scaled = [w * (longest / w.sum()) for w in weights]  # the mean stays over the real samples
    inputs, targets, weight = (
        torch.as_tensor(np.stack([_padded(part, longest) for part in parts]), dtype=dtype)
        for parts in (xs, columns, scaled)
    )
    return inputs.expand(n_members, -1, -1), targets.expand(n_members, -1, -1), weight.expand(n_members, -1)


def _padded(rows: FloatArray, length: int) -> FloatArray:
    return np.pad(rows, [(0, length - len(rows)), *[(0, 0)] * (np.ndim(rows) - 1)])


def _start(shape: list[int], generator: torch.Generator) -> Tensor:
    parts = []
    for n_in, n_out in pairwise(shape):
        draw = torch.rand(n_in + 1, n_out, generator=generator, dtype=torch.float64) * 2 - 1
        draw[-1] = 0
        parts.append((draw * (6 / (n_in + n_out)) ** 0.5).reshape(-1))
    return torch.cat(parts)


def _layers(flat: Tensor, shape: list[int]) -> list[Tensor]:
    """Views of all parameters, (n_members, n_parameters), layer by layer."""
    sizes = [(n_in + 1) * n_out for n_in, n_out in pairwise(shape)]
    parts = torch.split(flat, sizes, dim=1)
    return [part.view(-1, n_in + 1, n_out) for part, (n_in, n_out) in zip(parts, pairwise(shape), strict=True)]


def _adam(
    flat: Tensor, shape: list[int], live: Ensemble, batches: Iterator[tuple[Tensor, Tensor, Tensor]], rate: float
) -> Iterator[int]:
    """Move the weights, which are views of ``flat``; yields the number of each step done."""
    gradient, first, second = (torch.zeros_like(flat) for _ in range(3))
    views = _layers(gradient, shape)
    for step, (inputs, targets, weight) in enumerate(batches, start=1):
        activations = _forward(inputs, live.weights)
        _backward(_output_delta(activations[-1], targets, weight, live.loss), activations, live.weights, views)
        first.lerp_(gradient, 1 - _BETA1)
        second.mul_(_BETA2).addcmul_(gradient, gradient, value=1 - _BETA2)
        scale = second.sqrt().mul_((1 - _BETA2**step) ** -0.5).add_(_EPS)
        flat.addcdiv_(first, scale, value=-rate / (1 - _BETA1**step))
        yield step


def _batches(
    inputs: Tensor, targets: Tensor, weight: Tensor, generators: list[torch.Generator], epochs: int, size: int | None
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Inputs with their row of ones, targets, and weights already divided by the length of the batch."""
    if size is None:
        whole = _columns(inputs), targets.mT.contiguous(), weight / inputs.shape[1]
        for _ in range(epochs):
            yield whole
        return
    rows = torch.arange(len(generators), device=inputs.device)[:, None]
    for _ in range(epochs):
        order = torch.stack([torch.randperm(inputs.shape[1], generator=g) for g in generators]).to(inputs.device)
        for chosen in torch.split(order, min(size, inputs.shape[1]), dim=1):
            yield _columns(inputs[rows, chosen]), targets[rows, chosen].mT, weight[rows, chosen] / chosen.shape[1]


def _columns(points: Tensor) -> Tensor:
    """Samples as columns, with a last row of ones: long rows make the small products fast."""
    return torch.cat([points.mT, points.new_ones(len(points), 1, points.shape[1])], dim=1)


def _forward(inputs: Tensor, weights: list[Tensor]) -> list[Tensor]:
    """[a_0; 1], [a_1; 1], …, and the outputs a_L, which have no activation and no ones."""
    activations = [inputs]
    for weight in weights[:-1]:
        hidden = weight.new_ones(len(weight), weight.shape[2] + 1, inputs.shape[2])
        torch.clamp_min(torch.bmm(weight.mT, activations[-1]), 0.0, out=hidden[:, :-1])
        activations.append(hidden)
    return [*activations, torch.bmm(weights[-1].mT, activations[-1])]


def _respond(outputs: Tensor, loss: Loss) -> Tensor:
    if loss == "squared_error":
        return outputs
    return outputs.softmax(dim=1) if loss == "cross_entropy" else outputs.sigmoid()


def _output_delta(outputs: Tensor, targets: Tensor, weight: Tensor, loss: Loss) -> Tensor:
    """∂loss/∂outputs: w (response − target), doubled and averaged over outputs for squared errors."""
    factor = {"squared_error": 2.0 / outputs.shape[1], "cross_entropy": 1.0, "binary": 1.0 / outputs.shape[1]}[loss]
    return (_respond(outputs, loss) - targets).mul_(weight[:, None] * factor)


def _backward(delta: Tensor, activations: list[Tensor], weights: list[Tensor], gradients: list[Tensor]) -> None:
    """Write ∂loss/∂[W_l; b_l] of every layer into ``gradients``."""
    for layer in range(len(weights) - 1, -1, -1):
        gradients[layer].copy_(torch.bmm(delta, activations[layer].mT).mT)
        if layer:
            weight = weights[layer][:, :-1]
            # With one output the product is an outer product, which bmm computes slowly.
            delta = weight * delta if weight.shape[2] == 1 else torch.bmm(weight, delta)
            delta.mul_(activations[layer][:, :-1] > 0)
