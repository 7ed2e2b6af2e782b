"""Train many small networks at once: the perceptrons of the paper's tables.

R multi-layer perceptrons of one shape are R slices of the same tensors: one batched product does a layer of all of
them, and one Adam step moves all parameters. Layer l of member r is

    a_l = max(0, W_lᵀ a_{l−1} + b_l) = max(0, [W_l; b_l]ᵀ [a_{l−1}; 1])

with the bias as last row of the weights and a row of ones under the activations, one column per sample. Gradients are
written out by hand, δ_{l−1} = W_l δ_l ∘ [a_{l−1} > 0] and ∂[W_l; b_l] = [a_{l−1}; 1] δ_lᵀ, because for eight units the
bookkeeping of autograd costs more than the arithmetic. The draws of a member come from its own seed alone, so it is
the same network as one trained by itself.

:func:`sgd_classifiers` is plain gradient descent for the double moon of Table 3, where the size of the weights is a
size of the step: there w_i is *not* scaled to mean one, so that the effect of the authors' code can be separated from
the effect of weighting.
"""

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

    ``X`` (n_samples, n_features) and ``y`` (n_samples,) or (n_samples, n_outputs) are shared by all members, or lists
    with one array per member, which may differ in length: class numbers for "cross_entropy", 0/1 for "binary".
    ``sample_weight`` (n_samples,) or (n_members, n_samples) is scaled to mean one for each member. With ``batch_size``
    each member shuffles its samples in each epoch; members must then have one length. ``watch(epoch, ensemble)`` is
    called after epoch 1, 2, … with the ensemble in training.
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
        torch.as_tensor(
            np.stack([np.pad(p, [(0, longest - len(p)), *[(0, 0)] * (np.ndim(p) - 1)]) for p in parts]), dtype=dtype)
        for parts in (xs, columns, scaled)
    )  # fmt: skip
    return inputs.expand(n_members, -1, -1), targets.expand(n_members, -1, -1), weight.expand(n_members, -1)


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
        # ∂loss/∂outputs: w (response − target), doubled and averaged over outputs for squared errors.
        n = targets.shape[1]
        factor = {"squared_error": 2.0 / n, "cross_entropy": 1.0, "binary": 1.0 / n}[live.loss]
        delta = (_respond(activations[-1], live.loss) - targets).mul_(weight[:, None] * factor)
        _backward(delta, activations, live.weights, views)
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


def _backward(delta: Tensor, activations: list[Tensor], weights: list[Tensor], gradients: list[Tensor]) -> None:
    """Write ∂loss/∂[W_l; b_l] of every layer into ``gradients``."""
    for layer in range(len(weights) - 1, -1, -1):
        gradients[layer].copy_(torch.bmm(delta, activations[layer].mT).mT)
        if layer:
            weight = weights[layer][:, :-1]
            # With one output the product is an outer product, which bmm computes slowly.
            delta = weight * delta if weight.shape[2] == 1 else torch.bmm(weight, delta)
            delta.mul_(activations[layer][:, :-1] > 0)


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
    """
    rates = np.broadcast_to(learning_rate, (len(seeds),)).copy()
    inputs, targets, weight, rate = (
        torch.as_tensor(part, dtype=torch.float32, device=device) for part in (X, y, weights, rates[:, None, None])
    )
    parameters = [
        torch.stack(parts).to(device)
        for parts in zip(*(_start_classifier(X.shape[1], units, seed) for seed in seeds), strict=True)
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
                gradients = _classifier_gradients(
                    parameters, inputs[rows], targets[rows], torch.gather(weight, 1, rows), loss
                )
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.sub_(rate * gradient)
            if watch is not None and epoch % watch_every == 0:
                watch(epoch + 1, _probabilities(parameters, points))
            bar.update()
    return _probabilities(parameters, points)


def _probabilities(parameters: list[Tensor], points: Tensor) -> FloatArray:
    found: FloatArray = torch.sigmoid(_hidden_and_logits(parameters, points)[1]).double().cpu().numpy()
    return found


def _start_classifier(n_inputs: int, units: int, seed: int) -> list[Tensor]:
    """Glorot's uniform weights and zero biases, as Keras does; biases are rows of one."""
    generator = torch.Generator().manual_seed(seed)
    bounds = [(6 / (n_inputs + units)) ** 0.5, (6 / (units + 1)) ** 0.5]
    shapes = [(n_inputs, units), (units, 1)]
    first, second = (
        (torch.rand(shape, generator=generator) * 2 - 1) * b for shape, b in zip(shapes, bounds, strict=True)
    )
    return [first, torch.zeros(1, units), second, torch.zeros(1, 1)]


def _hidden_and_logits(parameters: list[Tensor], points: Tensor) -> tuple[Tensor, Tensor]:
    hidden = torch.relu(torch.baddbmm(parameters[1], points, parameters[0]))
    return hidden, torch.baddbmm(parameters[3], hidden, parameters[2])[..., 0]


def _classifier_gradients(
    parameters: list[Tensor], points: Tensor, targets: Tensor, weight: Tensor, loss: str
) -> list[Tensor]:
    """Of the mean weighted loss, by hand: δ = w (p − y)/n at the output, times 2p(1 − p) for squares."""
    hidden, logits = _hidden_and_logits(parameters, points)
    found = torch.sigmoid(logits)
    slope = 2 * found * (1 - found) if loss == "squared_error" else 1.0
    delta = (weight * (found - targets) * slope / targets.shape[1])[..., None]
    below = (delta @ parameters[2].mT) * (hidden > 0)
    return [points.mT @ below, below.sum(1, keepdim=True), hidden.mT @ delta, delta.sum(1, keepdim=True)]
