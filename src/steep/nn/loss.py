"""Train a whole network with sample weights: a weighted loss, or a sampler that draws by weight.

    J = 1/n Σ_i w_i ℓ_i,      mean of w_i = 1 over the data set

The sum is divided by the number of samples, never by the weights in the batch: so a short last batch, and
batches whose gradients are accumulated, add up to the same J as one large batch.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import WeightedRandomSampler

from steep._validation import FloatArray, Seed, check_count, check_sample_weight, one_line
from steep.exceptions import InputError, InputTypeError
from steep.nn.batches import check_seed


class WeightedLoss(nn.Module):
    """A loss in which each sample counts by its weight.

    Parameters
    ----------
    loss : nn.Module
        A loss with a ``reduction``, such as ``nn.CrossEntropyLoss()`` or ``nn.MSELoss()``; it is not changed.
    weights : array-like of shape (n_samples,)
        Weights ≥ 0 of the whole training set, as from :func:`steep.sample_weights`; brought to mean one.
    accumulate : int, default 1
        Samples whose gradients are accumulated before a step: ``accumulate=n`` divides a batch's sum by n instead
        of by the batch's length, so that the short last batch counts no more than its samples.

    Notes
    -----
    Call it with the numbers of the batch's samples: ``loss(output, target, index)``. With equal weights it is exactly
    the plain loss; weight 0 has no gradient; weight 2 is a sample that occurs twice, up to the division by the number
    of samples.

    Examples
    --------
    >>> loss = WeightedLoss(nn.MSELoss(), [1.0, 3.0])
    >>> float(loss(torch.tensor([1.0]), torch.tensor([0.0]), torch.tensor([1])))
    1.5
    """

    weights: Tensor

    def __init__(self, loss: nn.Module, weights: Any, *, accumulate: int | None = None) -> None:
        super().__init__()
        if not isinstance(loss, nn.Module) or getattr(loss, "reduction", None) not in ("mean", "sum", "none"):
            raise InputTypeError(
                f"loss is a {type(loss).__name__} without a reduction; expected a loss such as nn.CrossEntropyLoss()"
            )
        if getattr(loss, "weight", None) is not None:
            raise InputError("loss has class weights; pass a loss without, and multiply them into weights")
        checked = _check_weights(weights)
        self.loss = loss
        self.accumulate = None if accumulate is None else check_count(accumulate, name="accumulate")
        scaled = torch.as_tensor(checked / checked.mean(), dtype=torch.float32)
        self.register_buffer("weights", scaled, persistent=False)
        self._is_equal = bool((scaled == scaled[0]).all())

    def forward(self, output: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Weighted mean loss of a batch; ``index`` are the numbers of its samples in the training set."""
        index = self._check_index(index, target)
        if self._is_equal and self.accumulate is None:
            result: Tensor = self._reduced("mean", output, target)
            return result
        losses = self._reduced("none", output, target)
        per_sample = losses.reshape(len(target), -1).mean(dim=1)
        weight = self.weights[index.to(self.weights.device)].to(per_sample.dtype)
        return (weight * per_sample).sum() / (self.accumulate or len(target))

    def _check_index(self, index: Any, target: Any) -> Tensor:
        """Return the numbers of the batch's samples, within the training set."""
        if not isinstance(target, Tensor) or target.ndim == 0:
            raise InputTypeError(f"target is a {type(target).__name__}; expected a tensor with a row for each sample")
        try:
            numbers = torch.as_tensor(index)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputTypeError(
                f"index is a {type(index).__name__}; expected a tensor of whole numbers, one for each sample"
            ) from error
        if numbers.shape != target.shape[:1]:
            raise InputError(
                f"index has shape {tuple(numbers.shape)} for a batch of {len(target)}; expected one number per sample"
            )
        if numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool:
            raise InputTypeError(f"index has dtype {numbers.dtype}; expected whole numbers")
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(self.weights):
            raise InputError(
                f"index holds {int(numbers.min())} to {int(numbers.max())} for {len(self.weights)} weights; expected "
                f"numbers from 0 to {len(self.weights) - 1}"
            )
        return numbers

    def _reduced(self, reduction: str, output: Tensor, target: Tensor) -> Tensor:
        before = self.loss.reduction
        try:
            self.loss.reduction = reduction  # type: ignore[assignment]
            result: Tensor = self.loss(output, target)
            return result
        except (RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
            raise InputError(
                f"{type(self.loss).__name__} failed ({one_line(error)}); check the shapes and dtypes of outputs and "
                "targets"
            ) from error
        finally:
            self.loss.reduction = before


def weighted_sampler(weights: Any, *, n_samples: int | None = None, random_state: Seed = None) -> WeightedRandomSampler:
    """Draw samples in proportion to their weights: the other way to train with them.

    Parameters
    ----------
    weights : array-like of shape (n_samples,)
        Weights ≥ 0; a sample of weight 0 is never drawn.
    n_samples : int, optional
        Draws in one epoch; default as many as there are weights.
    random_state : int or Generator, optional
        Seed of the draws; default torch's global generator, as in ``WeightedRandomSampler``.

    Returns
    -------
    WeightedRandomSampler
        For ``DataLoader(dataset, sampler=...)``; drawn with replacement.

    Examples
    --------
    >>> list(weighted_sampler([0.0, 1.0, 0.0], random_state=0))
    [1, 1, 1]
    """
    checked = _check_weights(weights)
    count = len(checked) if n_samples is None else check_count(n_samples, name="n_samples")
    generator = None if random_state is None else torch.Generator().manual_seed(check_seed(random_state))
    return WeightedRandomSampler(checked.tolist(), count, replacement=True, generator=generator)


def _check_weights(weights: Any) -> FloatArray:
    """Return the weights of a data set as a vector of its own length."""
    array = weights.detach().cpu().double().numpy() if isinstance(weights, Tensor) else weights
    if not isinstance(array, Sized) or isinstance(array, str | bytes | dict) or getattr(array, "ndim", 1) != 1:
        raise InputTypeError(
            f"weights is a {type(weights).__name__}; expected one weight ≥ 0 for each sample, shape (n_samples,)"
        )
    if not len(array):
        raise InputError("weights is empty; expected one weight ≥ 0 for each sample")
    return check_sample_weight(array, len(array))
