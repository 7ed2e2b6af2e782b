"""Train many small networks at once.

R multi-layer perceptrons of one shape are R slices of the same tensors: one batched product does a layer
of all of them, and one Adam step moves all parameters. Layer l of member r is

    a_l = φ(W_lᵀ a_{l−1} + b_l) = φ([W_l; b_l]ᵀ [a_{l−1}; 1])

with the bias as last row of the weights and a row of ones under the activations, one column a sample.
Gradients are written out by hand, δ_{l−1} = W_l δ_l ∘ φ'(a_{l−1}) and ∂[W_l; b_l] = [a_{l−1}; 1] δ_lᵀ,
because for eight units the book-keeping of autograd costs more than the arithmetic. A member's draws come
from its own seed alone, so it is the same network as one trained by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn

from steep._progress import progress_bar
from steep._validation import FloatArray, Seed, check_choice, check_count, check_flag, check_real
from steep.exceptions import InputError
from steep.nn._arguments import check_callable, check_each, check_precision
from steep.nn.ensemble.members import Members, check_numbers, gather_members, member_seeds
from steep.nn.ensemble.perceptrons import Activation, Loss, backward, columns, forward, output_delta, respond

# Adam's constants, those of Kingma and Ba and of every framework.
_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Ensemble:
    """R trained networks of one shape.

    Attributes
    ----------
    weights : list of Tensor of shape (n_members, n_inputs + 1, n_outputs)
        One for each layer; the last row is the bias.
    activation, loss : str
        As given to :func:`train_ensemble`.
    """

    weights: list[Tensor]
    activation: Activation
    loss: Loss

    def __len__(self) -> int:
        return len(self.weights[0])

    def predict(self, X: Any) -> FloatArray:
        """Outputs of every member: values for regression, probabilities for classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_members, n_samples, n_features)
            The same points for all members, or each member's own.

        Returns
        -------
        ndarray of shape (n_members, n_samples, n_outputs)
        """
        first = self.weights[0]
        array = check_numbers(X, name="X")
        owners = array.shape[:-2]
        if array.ndim not in (2, 3) or array.shape[-1] != first.shape[1] - 1 or owners not in ((), (1,), (len(self),)):
            raise InputError(
                f"X has shape {array.shape}; need (n_samples, {first.shape[1] - 1}), or that for each of the "
                f"{len(self)} members"
            )
        points = torch.as_tensor(array, dtype=first.dtype)
        points = points.expand(len(self), *points.shape[-2:])
        activations = forward(columns(points), self.weights, self.activation)
        outputs: FloatArray = respond(activations[-1], self.loss).mT.numpy()
        return outputs

    def network(self, member: int) -> nn.Sequential:
        """One member as a plain network (without the softmax or sigmoid of its loss)."""
        if not 0 <= check_count(member, name="member", minimum=0) < len(self):
            raise InputError(f"member={member} is out of range; need 0 to {len(self) - 1}")
        modules: list[nn.Module] = []
        for weight in self.weights:
            layer = nn.Linear(weight.shape[1] - 1, weight.shape[2], dtype=weight.dtype)
            layer.weight.data.copy_(weight[member, :-1].T)
            layer.bias.data.copy_(weight[member, -1])
            modules += [layer, nn.Tanh() if self.activation == "tanh" else nn.ReLU()]
        return nn.Sequential(*modules[:-1])


def train_ensemble(
    X: Any,
    y: Any,
    *,
    layers: Sequence[int] = (8,),
    activation: Activation = "tanh",
    loss: Loss = "squared_error",
    n_members: int | None = None,
    sample_weight: Any = None,
    epochs: int = 1000,
    batch_size: int | None = None,
    learning_rate: float = 1e-3,
    init: Literal["torch", "glorot"] = "torch",
    dtype: torch.dtype = torch.float32,
    random_state: Seed | Sequence[int] = None,
    watch: Callable[[int, Ensemble], object] | None = None,
    progress: bool | None = None,
) -> Ensemble:
    """Train R copies of a small network by Adam as one batched computation.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features) or (n_members, n_samples, n_features), or a list
        Inputs of all members, or of each; a list may hold arrays of different lengths.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), with members as for ``X``, or a list
        Targets; per-member targets of shape (n_members, n_samples) go with per-member ``X``, else they need
        three dimensions. Whole numbers 0, 1, … for ``loss="cross_entropy"``, 0/1 for ``"binary"``.
    layers : sequence of int, default (8,)
        Units of each hidden layer.
    activation : {"tanh", "relu"}, default "tanh"
        φ of the hidden layers.
    loss : {"squared_error", "cross_entropy", "binary"}, default "squared_error"
        Mean over samples (and outputs).
    n_members : int, optional
        R. Needed only where neither data, weights nor seeds tell.
    sample_weight : array-like of shape (n_samples,) or (n_members, n_samples), or a list, optional
        Weights ≥ 0, brought to mean one for each member; 0 leaves a sample out of the loss.
    epochs : int, default 1000
        Passes over the data.
    batch_size : int, optional
        Samples of a step, shuffled anew by each member in each epoch; default all of them.
    learning_rate : float, default 1e-3
        Adam's step.
    init : {"torch", "glorot"}, default "torch"
        Start of ``nn.Linear`` (uniform within ±1/√inputs), or Glorot's uniform weights and zero biases (Keras).
    dtype : torch.dtype, default torch.float32
        Precision of the computation.
    random_state : int, Generator or sequence of int, optional
        Member r uses seed ``random_state + r``, or ``random_state[r]``; a generator draws the first seed.
    watch : callable, optional
        Called as ``watch(epoch, ensemble)`` after each epoch, 1, 2, …; the ensemble it sees is the one in training,
        to be read and not kept.
    progress : bool, optional
        Whether to show a bar; default on a terminal, once the training has taken two seconds.

    Returns
    -------
    Ensemble

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 20)[:, None]
    >>> ensemble = train_ensemble(x, x[:, 0] ** 2, n_members=3, epochs=800, learning_rate=0.02, random_state=0)
    >>> ensemble.predict([[0.5], [0.0]]).shape
    (3, 2, 1)
    >>> bool(abs(ensemble.predict([[0.5]]) - 0.25).max() < 0.05)
    True
    """
    check_choice(activation, name="activation", choices=("tanh", "relu"))
    check_choice(loss, name="loss", choices=("squared_error", "cross_entropy", "binary"))
    check_choice(init, name="init", choices=("torch", "glorot"))
    check_callable(watch, name="watch", signature="watch(epoch, ensemble)")
    check_flag(progress, name="progress", optional=True)
    dtype = check_precision(dtype)
    sizes = check_each(layers, lambda units: check_count(units, name="layers"), name="layers")
    if n_members is not None:
        check_count(n_members, name="n_members")
    epochs = check_count(epochs, name="epochs", minimum=0)
    rate = check_real(learning_rate, name="learning_rate", above=0.0)
    seeds = member_seeds(random_state)
    data = gather_members(X, y, sample_weight, n_members, seeds, loss, dtype)
    if batch_size is not None:
        batch_size = min(check_count(batch_size, name="batch_size"), data.n_samples)
        data.refuse_padding(batch_size)
    generators = [torch.Generator().manual_seed(seed) for seed in data.seeds]
    shape = [data.n_features, *sizes, data.n_outputs]
    flat, weights = _initialize(shape, generators, init, dtype)
    live, n_steps = Ensemble(weights, activation, loss), -(-data.n_samples // (batch_size or data.n_samples))
    with torch.no_grad(), progress_bar(total=epochs * n_steps, label="steps", shown=progress) as bar:
        for step in _adam(flat, weights, data, generators, activation, loss, epochs, batch_size, rate):
            bar.update()
            if watch is not None and step % n_steps == 0:
                watch(step // n_steps, live)
    return Ensemble([weight.clone() for weight in weights], activation, loss)


def _initialize(
    shape: list[int], generators: list[torch.Generator], init: str, dtype: torch.dtype
) -> tuple[Tensor, list[Tensor]]:
    """All parameters as one ``(n_members, n_parameters)`` tensor, and each layer's view of it."""
    members = []
    for generator in generators:
        parts = []
        for n_in, n_out in pairwise(shape):
            draw = torch.rand(n_in + 1, n_out, generator=generator, dtype=torch.float64) * 2 - 1
            bound = n_in**-0.5 if init == "torch" else (6 / (n_in + n_out)) ** 0.5
            draw[-1] *= 1.0 if init == "torch" else 0.0
            parts.append((draw * bound).reshape(-1))
        members.append(torch.cat(parts))
    flat = torch.stack(members).to(dtype)
    return flat, _layer_views(flat, shape)


def _layer_views(flat: Tensor, shape: list[int]) -> list[Tensor]:
    views, start = [], 0
    for n_in, n_out in pairwise(shape):
        stop = start + (n_in + 1) * n_out
        views.append(flat[:, start:stop].view(-1, n_in + 1, n_out))
        start = stop
    return views


def _adam(
    flat: Tensor, weights: list[Tensor], data: Members, generators: list[torch.Generator],
    activation: Activation, loss: Loss, epochs: int, batch_size: int | None, rate: float,
) -> Iterator[int]:  # fmt: skip
    """Move ``weights``, which are views of ``flat``; yields the number of each step done."""
    gradient = torch.empty_like(flat)
    views = _layer_views(gradient, [data.n_features, *(weight.shape[2] for weight in weights)])
    first, second = torch.zeros_like(flat), torch.zeros_like(flat)
    for step, (inputs, targets, weight) in enumerate(_batches(data, generators, epochs, batch_size), start=1):
        activations = forward(inputs, weights, activation)
        delta = output_delta(activations[-1], targets, weight, loss)
        backward(delta, activations, weights, views, activation)
        first.lerp_(gradient, 1 - _BETA1)
        second.mul_(_BETA2).addcmul_(gradient, gradient, value=1 - _BETA2)
        scale = second.sqrt().mul_((1 - _BETA2**step) ** -0.5).add_(_EPS)
        flat.addcdiv_(first, scale, value=-rate / (1 - _BETA1**step))
        yield step


def _batches(
    data: Members, generators: list[torch.Generator], epochs: int, batch_size: int | None
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield inputs with their row of ones, targets, and weights already divided by the batch's length."""
    if batch_size is None:
        whole = (columns(data.inputs), data.targets.mT.contiguous(), data.weight / data.n_samples)
        for _ in range(epochs):
            yield whole
        return
    rows = torch.arange(len(generators))[:, None]
    for _ in range(epochs):
        order = torch.stack([torch.randperm(data.n_samples, generator=g) for g in generators])
        for chosen in torch.split(order, batch_size, dim=1):
            weight = data.weight[rows, chosen] / chosen.shape[1]
            yield columns(data.inputs[rows, chosen]), data.targets[rows, chosen].mT, weight
