"""Train a whole network with sample weights: a weighted loss, or a sampler that draws by weight.

    J = 1/n Σ_i w_i ℓ_i,      mean of w_i = 1 over the data set

The sum is divided by the number of samples, never by the weights in the batch: so a short last batch, and
batches whose gradients are accumulated, add up to the same J as one large batch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import WeightedRandomSampler

from steep._validation import check_count, check_sample_weight
from steep.exceptions import InputError, InputTypeError


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
    Call it with the numbers of the batch's samples: ``loss(output, target, index)``. With equal weights it is the
    plain loss to the last bit; weight 0 has no gradient; weight 2 is a sample met twice, up to the division
    by the number of samples.

    Examples
    --------
    >>> loss = WeightedLoss(nn.MSELoss(), [1.0, 3.0])
    >>> float(loss(torch.tensor([1.0]), torch.tensor([0.0]), torch.tensor([1])))
    1.5
    """

    weights: Tensor

    def __init__(self, loss: nn.Module, weights: Any, *, accumulate: int | None = None) -> None:
        super().__init__()
        if getattr(loss, "reduction", None) not in ("mean", "sum", "none"):
            raise InputTypeError(
                f"loss is a {type(loss).__name__} without a reduction; need a loss such as nn.CrossEntropyLoss()"
            )
        if getattr(loss, "weight", None) is not None:
            raise InputError(
                "loss has class weights of its own; need one without; multiply them into weights"
            )
        checked = check_sample_weight(_to_numpy(weights), len(weights))
        self.loss = loss
        self.accumulate = None if accumulate is None else check_count(accumulate, name="accumulate")
        scaled = torch.as_tensor(checked / checked.mean(), dtype=torch.float32)
        self.register_buffer("weights", scaled, persistent=False)
        self._is_equal = bool((scaled == scaled[0]).all())

    def forward(self, output: Tensor, target: Tensor, index: Tensor) -> Tensor:
        """Weighted mean loss of a batch; ``index`` are the numbers of its samples in the training set."""
        if index.shape != target.shape[:1]:
            raise InputError(
                f"index has shape {tuple(index.shape)} for a batch of {len(target)}; need the number of each sample"
            )
        if self._is_equal and self.accumulate is None:
            result: Tensor = self._reduced("mean", output, target)
            return result
        losses = self._reduced("none", output, target)
        per_sample = losses.reshape(len(target), -1).mean(dim=1)
        weight = self.weights[index.to(self.weights.device)].to(per_sample.dtype)
        return (weight * per_sample).sum() / (self.accumulate or len(target))

    def _reduced(self, reduction: str, output: Tensor, target: Tensor) -> Tensor:
        before = self.loss.reduction
        try:
            self.loss.reduction = reduction  # type: ignore[assignment]
            result: Tensor = self.loss(output, target)
            return result
        finally:
            self.loss.reduction = before


def weighted_sampler(
    weights: Any, *, n_samples: int | None = None, random_state: int | None = None
) -> WeightedRandomSampler:
    """Draw samples in proportion to their weights: the other way to train with them.

    Parameters
    ----------
    weights : array-like of shape (n_samples,)
        Weights ≥ 0; a sample of weight 0 is never drawn.
    n_samples : int, optional
        Draws in one epoch; default as many as there are weights.
    random_state : int, optional
        Seed of the draws.

    Returns
    -------
    WeightedRandomSampler
        For ``DataLoader(dataset, sampler=...)``; drawn with replacement.

    Examples
    --------
    >>> list(weighted_sampler([0.0, 1.0, 0.0], random_state=0))
    [1, 1, 1]
    """
    checked = check_sample_weight(_to_numpy(weights), len(weights))
    count = len(checked) if n_samples is None else check_count(n_samples, name="n_samples")
    generator = None if random_state is None else torch.Generator().manual_seed(random_state)
    return WeightedRandomSampler(checked.tolist(), count, replacement=True, generator=generator)


def _to_numpy(weights: Any) -> Any:
    return weights.detach().cpu().numpy() if isinstance(weights, Tensor) else weights
