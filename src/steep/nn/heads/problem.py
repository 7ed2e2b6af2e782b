"""The weighted convex problem of a head, evaluated for many heads at once.

    J(W, b) = 1/N Σ_i w_i ℓ(W z_i + b, y_i) + ½ λ s² ‖W‖²,      mean of w_i = 1

z_i = M*(x_i) are the features, ℓ the cross-entropy of a softmax ("softmax") or the summed binary
cross-entropies of the outputs ("sigmoid"). λ is ``l2``; s² is the mean variance of the features, so that the
same λ means the same strength whatever the scale of the features. The bias is not penalised.

A head may be held near another one, W₀ and b₀, instead of near zero (the regulariser of AFR, Qiu et al. 2023):

    J₀(W, b) = 1/N Σ_i w_i ℓ(W z_i + b, y_i) + ½ λ (s² ‖W − W₀‖² + ‖c − c₀‖²),      c = b + W z̄

z̄ is the mean of the features, c the outputs there. With λ → ∞ it is W₀ and b₀, with λ → 0 the head that is held by
nothing.

Features are columns [(z − mean)/s; 1] and heads rows of one matrix: all logits of a block of samples are one product.
Products are in the precision of the features (float32 as a rule), sums over blocks in float64. Features in a file are
read block by block, once an evaluation, and never held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy import linalg
from torch import Tensor

from steep._validation import FloatArray
from steep.nn.heads.columns import Columns
from steep.nn.heads.lbfgs import Solve

Link = Literal["softmax", "sigmoid"]

# Numbers in a block of logits: 2 MB of float32, to stay in the processor's cache.
_BLOCK_NUMBERS = 2**19
# Samples from which the Hessian is modelled, and the largest one modelled in full.
_HESSIAN_SAMPLES, _FULL_HESSIAN = 4000, 2500
# Shares of the largest diagonal entry added to a Hessian that is not positive definite, one after the other.
_SHARES_ADDED = (0.0, 1e-7, 1e-5, 1e-3)


@dataclass(frozen=True)
class Head:
    """A linear layer: ``weight`` (n_outputs, n_features), ``bias`` (n_outputs,) or None, and how it was found.

    A bias that ``is_bias_fixed`` is the caller's own, frozen: it is used as it is and never fitted.
    """

    weight: FloatArray
    bias: FloatArray | None
    is_bias_fixed: bool = False
    objective: float = float("nan")
    converged: bool = True
    n_evaluations: int = 0

    @property
    def is_finite(self) -> bool:
        """Whether no weight and no bias is NaN or infinite."""
        return bool(np.isfinite(self.weight).all() and (self.bias is None or np.isfinite(self.bias).all()))

    @property
    def fixed_bias(self) -> FloatArray | None:
        """The frozen bias; None where the bias is fitted, or there is none."""
        return self.bias if self.is_bias_fixed else None

    def outputs(self, features: FloatArray) -> FloatArray:
        """W z + b, in the precision of the features."""
        with np.errstate(over="ignore", invalid="ignore"):  # a head may hold NaN; its scores then say so
            outputs: FloatArray = features @ self.weight.T.astype(features.dtype)
            return outputs if self.bias is None else outputs + self.bias.astype(features.dtype)


class HeadProblem:
    """Features, labels and link of a head, ready for evaluation.

    Parameters
    ----------
    features : ndarray of shape (n_samples, n_features)
        z, float32 or float64; a ``numpy.memmap`` is read as it is used.
    targets : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Class numbers for "softmax", 0/1 columns for "sigmoid".
    n_outputs : int
        Outputs of the head.
    link : {"softmax", "sigmoid"}
        Which ℓ.
    bias : bool, default True
        Whether a bias is fitted; without one the features are not centred.
    offset : ndarray of shape (n_outputs,), optional
        A bias that is not fitted but given; needs ``bias=False``.
    anchor : Head, optional
        W₀ and b₀ of J₀; default none, which is J.
    """

    def __init__(
        self,
        features: FloatArray,
        targets: FloatArray,
        *,
        n_outputs: int,
        link: Link,
        bias: bool = True,
        offset: FloatArray | None = None,
        anchor: Head | None = None,
    ) -> None:
        self.link, self.bias, self.n_outputs, self.offset = link, bias, n_outputs, offset
        self.n_samples, self.n_features = features.shape
        self.mean = features.mean(axis=0, dtype=np.float64) if bias else np.zeros(self.n_features)
        self.scale = feature_scale(features, self.mean)
        self.columns = Columns(features, self.mean, self.scale, bias=bias)
        as_rows = torch.as_tensor(targets, dtype=torch.int64 if link == "softmax" else self.columns.dtype)
        self.targets = as_rows[None, :] if link == "softmax" else as_rows.reshape(self.n_samples, -1).T.contiguous()
        self.center = self.parameters(anchor)
        self.is_bias_free = bias and anchor is None

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs, and inputs with the bias."""
        return self.n_outputs, self.n_features + self.bias

    @property
    def is_penalised(self) -> FloatArray:
        """1 for the parameters that λ holds back, 0 for a free bias."""
        held = np.ones(self.shape)
        if self.is_bias_free:
            held[:, -1] = 0.0
        return held.ravel()

    def parameters(self, head: Head | None) -> FloatArray:
        """A head in the coordinates of the scaled features; zero when there is none."""
        if head is None:
            return np.zeros(self.n_outputs * (self.n_features + self.bias))
        weight = np.asarray(head.weight, dtype=np.float64)
        if not self.bias:
            return (weight * self.scale).ravel()
        offset = (head.bias if head.bias is not None else 0.0) + weight @ self.mean
        return np.hstack([weight * self.scale, offset[:, None]]).ravel()

    def head(self, x: FloatArray, **info: float) -> Head:
        """The head in the coordinates of the features as they were given."""
        table = x.reshape(self.shape)
        weight = table[:, : self.n_features] / self.scale
        bias = table[:, -1] - weight @ self.mean if self.bias else self.offset
        return Head(weight, bias, is_bias_fixed=self.offset is not None, **info)  # type: ignore[arg-type]

    def evaluate(self, x: FloatArray, weights: Tensor, l2: float) -> tuple[FloatArray, FloatArray]:
        """J and its gradient for heads ``x`` (n_heads, n_parameters) with ``weights`` (n_heads, n_samples)."""
        n_heads = len(x)
        rows = torch.as_tensor(x.reshape(n_heads * self.n_outputs, -1), dtype=self.columns.dtype)
        gradient = torch.zeros(rows.shape, dtype=torch.float64)
        values = torch.zeros(n_heads, dtype=torch.float64)
        for block in self._blocks(n_heads):
            columns = self.columns[block]
            logits = (rows @ columns).view(n_heads, self.n_outputs, -1)
            if self.offset is not None:
                logits += torch.as_tensor(self.offset, dtype=logits.dtype)[:, None]
            residuals, losses = _LINKS[self.link](logits, self.targets[:, block])
            weight = weights[:, block]
            values += (losses * weight).sum(dim=1, dtype=torch.float64)
            residuals.mul_(weight[:, None])
            gradient += residuals.view(len(rows), -1) @ columns.T
        penalised = (x - self.center).reshape(n_heads, *self.shape)
        if self.is_bias_free:
            penalised[:, :, -1] = 0.0
        smooth = gradient.view(penalised.shape).numpy() / self.n_samples
        total = values.numpy() / self.n_samples + l2 / 2 * (penalised**2).sum(axis=(1, 2))
        return total, (smooth + l2 * penalised).reshape(n_heads, -1)

    def _blocks(self, n_heads: int) -> list[slice]:
        width = max(256, _BLOCK_NUMBERS // (n_heads * self.n_outputs))
        if not self.columns.is_held:
            width = min(width, max(256, self.columns.width))
        return [slice(start, start + width) for start in range(0, self.n_samples, width)]

    def solver(self, x: FloatArray, l2: float, weight: FloatArray | None = None, *, rough: bool = False) -> Solve:
        """g ↦ M⁻¹ g, M the Hessian at ``x``, from the samples that bend J the most and some of the others.

        ``rough`` takes one block for all outputs, which is enough to come near from far away and costs nothing.
        """
        columns, p, importance = self._curved_samples(x, weight)
        penalty = np.full(self.shape[1], l2 + 1e-9)
        if self.is_bias_free:
            penalty[-1] = 1e-6  # the bias is not penalised; this keeps M invertible
        if rough or self.n_outputs * self.shape[1] > _FULL_HESSIAN:
            return _shared_solver(columns, p, importance, penalty)
        hessian = _hessian(columns, p, importance, self.link) + np.diag(np.tile(penalty, self.n_outputs))
        factor = _factor(hessian)
        return lambda g: linalg.cho_solve(factor, g, check_finite=False)

    def _curved_samples(self, x: FloatArray, weight: FloatArray | None) -> tuple[Tensor, Tensor, Tensor]:
        """Features, probabilities and importance of the samples a model of the Hessian is built from.

        A sample's curvature is w Σ_c p_c (1 − p_c). Where a network is sure of nearly all samples the few
        others carry the Hessian: they are all taken, and the rest is represented by every so-many-th.
        """
        n = self.n_samples
        n_curved = max(_HESSIAN_SAMPLES, 4 * self.shape[1])
        importance = torch.full((n,), 1.0 / n, dtype=self.columns.dtype)
        if weight is not None:
            importance *= torch.as_tensor(weight, dtype=importance.dtype)
        if n <= 2 * n_curved:
            columns = self.columns[slice(None)].contiguous()
            return columns, self._probabilities(x, columns), importance
        order = torch.argsort(self._curvature(x) * importance, descending=True)
        every = -(-(n - n_curved) // (n_curved // 4))
        importance[order[n_curved:]] *= every
        chosen = torch.cat([order[:n_curved], order[n_curved::every]])
        columns = self.columns[chosen].contiguous()
        return columns, self._probabilities(x, columns), importance[chosen]

    def _curvature(self, x: FloatArray) -> Tensor:
        """Σ_c p_c (1 − p_c) of every sample."""
        curvature = torch.empty(self.n_samples, dtype=self.columns.dtype)
        for block in self._blocks(1):
            p = self._probabilities(x, self.columns[block])
            curvature[block] = (p * (1 - p)).sum(dim=0)
        return curvature

    def _probabilities(self, x: FloatArray, columns: Tensor) -> Tensor:
        outputs = torch.as_tensor(x.reshape(self.shape), dtype=columns.dtype) @ columns
        if self.offset is not None:
            outputs += torch.as_tensor(self.offset, dtype=outputs.dtype)[:, None]
        return outputs.softmax(dim=0) if self.link == "softmax" else outputs.sigmoid()


def feature_scale(features: FloatArray, mean: FloatArray) -> float:
    """s: the root of the features' mean variance; 1 when they do not vary."""
    squares = np.einsum("ij,ij->", features, features, dtype=np.float64) / features.size
    variance = squares - float((mean**2).mean())
    return float(np.sqrt(variance)) if variance > 1e-12 * squares else 1.0


def _softmax_link(logits: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
    """Residuals p − onehot(y), in place of the logits, and cross-entropies."""
    index = classes.expand(len(logits), 1, -1) if classes.ndim == 3 else classes[None].expand(len(logits), 1, -1)
    logits -= logits.amax(dim=1, keepdim=True)
    own = logits.gather(1, index)[:, 0]
    total = logits.exp_().sum(dim=1)
    losses = total.log() - own
    logits.div_(total[:, None])
    logits.scatter_add_(1, index, logits.new_full((1, 1, 1), -1.0).expand(index.shape))
    return logits, losses


def _sigmoid_link(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Residuals p − y, and binary cross-entropies summed over outputs."""
    losses = (torch.nn.functional.softplus(logits) - logits * targets).sum(dim=1)
    return logits.sigmoid_().sub_(targets), losses


_LINKS = {"softmax": _softmax_link, "sigmoid": _sigmoid_link}


def _hessian(columns: Tensor, p: Tensor, importance: Tensor, link: Link) -> FloatArray:
    """Σ_i (diag p − p pᵀ) ⊗ z zᵀ for the softmax, diag p(1 − p) ⊗ z zᵀ for the sigmoid, by importance."""
    (d, n), c = columns.shape, len(p)
    hessian = torch.zeros(c, d, c, d, dtype=columns.dtype)
    if link == "softmax":
        outer = (p[:, None, :] * (columns * importance.sqrt())[None]).view(c * d, n)
        hessian = -(outer @ outer.T).view(c, d, c, d)
    for k in range(c):
        curvature = p[k] if link == "softmax" else p[k] * (1 - p[k])
        hessian[k, :, k] += (columns * (curvature * importance)) @ columns.T
    return hessian.view(c * d, c * d).double().numpy()


def _shared_solver(columns: Tensor, p: Tensor, importance: Tensor, penalty: FloatArray) -> Solve:
    """One block for all outputs, the mean curvature p(1 − p): for heads too wide for a full Hessian."""
    curvature = (p * (1 - p)).mean(dim=0) * importance
    block = ((columns * curvature) @ columns.T).double().numpy()
    factor = _factor(block + np.diag(penalty))

    def solve(gradient: FloatArray) -> FloatArray:
        solved: FloatArray = linalg.cho_solve(factor, gradient.reshape(-1, len(penalty)).T, check_finite=False)
        return solved.T.ravel()

    return solve


def _factor(matrix: FloatArray) -> tuple[FloatArray, bool]:
    """Factor M, which rounding may have left a little short of positive definite when λ is zero.

    M only shapes the steps, so what is added to its diagonal changes the way to the minimum and not the minimum.
    """
    size = float(np.diagonal(matrix).max())
    for share in _SHARES_ADDED:
        try:
            factor: tuple[FloatArray, bool] = linalg.cho_factor(
                matrix + share * size * np.eye(len(matrix)) if share else matrix, check_finite=False
            )
            return factor
        except linalg.LinAlgError:
            continue
    return np.sqrt(size) * np.eye(len(matrix)), False  # plain descent: M is beyond repair
