"""Variance Based Samples Weighting for deep learning: Algorithm 3.

1   k, m                                      n_neighbors, weight_ratio
2   train M                                   the caller's trained network
3   M* = M without its last layer             split, project
4   w_i = Df̂²(M*(x_i)) by Eq. Dhat2           label_variations, rescale
5   {(w_i, M*(x_i))}                          Samples and their weights
6   train f_θ on it; M_f = f_θ ∘ M*           fit_one, Split.join

``retrain_head`` is the algorithm; ``improve`` runs it over a grid and lets held-out data choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from torch import nn

from steep._validation import FloatArray, check_choice, check_count, check_real
from steep.exceptions import InputError
from steep.nn.batches import iterate_batches, move
from steep.nn.candidates import Grid, Samples, fit_one, label_variations
from steep.nn.heads import Head
from steep.nn.improvement import Improvement, choose, evidence_table, write_verdict
from steep.nn.network import Forward, Split, split
from steep.nn.projection import Augment, Projection, device_of, project
from steep.nn.selection import (
    cross_validate,
    final_head,
    list_candidates,
    pool_samples,
    score_candidates,
    training_weights,
)
from steep.nn.tasks import HeadTask, TaskName, find_task
from steep.rescaling import rescale

Solver = Literal["convex", "adam"]


def retrain_head(
    network: nn.Module,
    X: Any,
    y: Any = None,
    *,
    n_neighbors: int = 20,
    weight_ratio: float = 40.0,
    l2: float = 1e-3,
    solver: Solver = "convex",
    task: TaskName = "auto",
    head: str | None = None,
    forward: Forward | None = None,
    batch_size: int | None = None,
    learning_rate: float = 1e-3,
    epochs: int = 25,
    random_state: int = 0,
    progress: bool | None = None,
    n_jobs: int | None = None,
) -> nn.Module:
    """Re-train the head of a network on its own features, weighted by local label variance (Algorithm 3).

    Parameters
    ----------
    network : nn.Module
        M, trained; it is not changed.
    X : Tensor, Dataset, DataLoader or list of dicts
        Training data; see :func:`project`.
    y : array-like, optional
        Labels, where ``X`` does not hold them.
    n_neighbors : int, default 20
        k, neighbours in feature space whose labels are compared.
    weight_ratio : float, default 40
        m, the largest weight over the smallest; 1 is equal weights.
    l2 : float, default 1e-3
        λ of the penalty ½ λ s² ‖W‖², s² the mean variance of the features, beside a mean loss.
    solver : {"convex", "adam"}, default "convex"
        To the minimum of the convex problem, or the paper's Adam from a random start.
    task : {"auto", "multiclass", "binary", "multilabel", "regression"}, default "auto"
        What the head is for; "auto" tells from labels and outputs.
    head, forward
        See :func:`split`.
    batch_size : int, optional
        Samples of one step of Adam (default 25), and with it of the projection.
    learning_rate, epochs, random_state
        Of Adam.
    progress : bool, optional
        See :func:`project`.
    n_jobs : int, optional
        Parallel jobs of the neighbour search.

    Returns
    -------
    nn.Module
        M_f, a copy with a new head: same keys of the ``state_dict``, same form of outputs.

    Examples
    --------
    >>> import torch
    >>> generator = torch.Generator().manual_seed(0)
    >>> X = torch.randn(300, 2, generator=generator)
    >>> y = (X[:, 0] > 0).long()
    >>> network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> retrained = retrain_head(network, X, y)
    >>> bool((retrained(X).argmax(1) == y).float().mean() > 0.95)
    True
    """
    check_choice(solver, name="solver", choices=("convex", "adam"))
    check_real(l2, name="l2", minimum=0.0)
    n_neighbors = check_count(n_neighbors, name="n_neighbors", minimum=2)
    parts, original = _cut(network, X, head, forward)
    projection = project(parts, X, batch_size=batch_size, progress=progress)  # line 3
    kind, samples = _samples(parts, projection, y, task)
    variation = label_variations(samples.features, samples.targets, kind, [n_neighbors], n_jobs)  # line 4
    weight = rescale(variation[n_neighbors], weight_ratio=weight_ratio)  # line 5
    adam = None
    if solver == "adam":
        adam = {
            "learning_rate": learning_rate,
            "batch_size": batch_size or 25,
            "epochs": epochs,
            "seed": random_state,
        }
    return parts.join(fit_one(samples, kind, weight, l2, original=original, adam=adam))  # line 6


def improve(
    network: nn.Module,
    train: Any,
    validation: Any = None,
    *,
    task: TaskName = "auto",
    l2: Sequence[float] = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6),
    weight_ratio: Sequence[float] = (0.2, 0.5, 2.0, 5.0, 15.0, 40.0),
    n_neighbors: Sequence[int] = (10, 20, 35),
    augment: Augment | None = None,
    n_copies: int = 2,
    refit: bool = False,
    n_folds: int = 5,
    head: str | None = None,
    forward: Forward | None = None,
    batch_size: int | None = None,
    progress: bool | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Improvement:
    """Re-train the head in every way of a grid and let held-out data choose, the original head included.

    Parameters
    ----------
    network : nn.Module
        A trained network; it is not changed.
    train : (inputs, labels), Dataset, DataLoader or list of dicts
        Labelled data the head is fitted to, usually those the network was trained on.
    validation : same kinds, optional
        Labelled data the network has not seen. Without them the heads are cross-validated on ``train``, whose
        features the network was fitted to: gains are then measured less honestly, and the verdict says so.
    task : {"auto", "multiclass", "binary", "multilabel", "regression"}, default "auto"
        What the head is for.
    l2 : sequence of float
        Strengths of the penalty, relative to the features' mean variance; see :func:`retrain_head`.
    weight_ratio : sequence of float
        Values of m; equal weights are always tried besides.
    n_neighbors : sequence of int
        Values of k.
    augment : callable, optional
        ``augment(inputs)`` → an altered copy of a batch of inputs. Features of copies have not collapsed as
        those of the training inputs have; weighted heads are then fitted with the copies.
    n_copies : int, default 2
        Altered copies of each training input.
    refit : bool, default False
        Whether the chosen head is fitted once more with the held-out data added. Its figures are those from
        before that.
    n_folds : int, default 5
        Folds of the cross-validation.
    head, forward, batch_size, progress
        See :func:`project`.
    random_state : int, default 0
        Seed of ``augment`` and of the folds.
    n_jobs : int, optional
        Parallel jobs of the neighbour search.

    Returns
    -------
    Improvement

    Examples
    --------
    >>> import torch
    >>> generator = torch.Generator().manual_seed(0)
    >>> X = torch.randn(600, 2, generator=generator)
    >>> y = (X[:, 0] * X[:, 1] > 0).long()
    >>> network = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    >>> result = improve(network, (X[:400], y[:400]), (X[400:], y[400:]), l2=(1e-3, 1e-4), weight_ratio=(5.0,))
    >>> bool(result.table.loc["chosen", "gain"] > 0.2)
    True
    """
    grid = Grid(tuple(l2), tuple(weight_ratio), tuple(n_neighbors))
    parts, original = _cut(network, train, head, forward)
    settings: dict[str, Any] = {"batch_size": batch_size, "progress": progress}
    kind, plain = _samples(parts, project(parts, train, **settings), None, task)
    copies = [
        _copy(parts, train, plain, kind, augment, random_state + copy, settings)
        for copy in range(check_count(n_copies, name="n_copies") if augment is not None else 0)
    ]
    held_out: Samples | None = None
    heads: list[Head] = []
    if validation is not None:
        held_out = _samples(parts, project(parts, validation, **settings), None, kind.name)[1]
        candidates, heads, scores = score_candidates(plain, copies, held_out, kind, grid, original, n_jobs)
        told = f"{len(held_out.targets):,} held-out samples"
    else:
        candidates, scores = cross_validate(
            plain, copies, kind, grid, original, n_folds, random_state, n_jobs
        )
        told = f"{n_folds}-fold cross-validation of the head (its features were fitted on the same data)"
    choice = choose(candidates, scores)
    chosen = candidates[choice.chosen]
    final = heads[choice.chosen] if heads else original
    if chosen.kind != "original" and (refit or not heads):
        pool = pool_samples(plain, copies if chosen.augmented else [])
        final = final_head(pool, held_out if refit else None, chosen, kind, original, n_jobs)
    table = evidence_table(candidates, scores, choice, kind)
    return Improvement(
        network=parts.join(final),
        verdict=write_verdict(table, chosen, kind, told),
        table=table,
        candidates=list_candidates(candidates, scores, kind),
        chosen=chosen,
        weights=training_weights(plain, candidates, choice.chosen, choice.best, kind, n_jobs),
        heads={row: heads[number] for row, number in choice.rows().items() if heads} | {"chosen": final},
    )


def _cut(network: nn.Module, data: Any, head: str | None, forward: Forward | None) -> tuple[Split, Head]:
    """Line 3 of Algorithm 3 on a first small batch: the split network, and its own head."""
    inputs, _ = next(iter(iterate_batches(data, 2)))
    parts = split(network, head, sample=move(inputs, device_of(network)), forward=forward)
    return parts, own_head(parts)


def _copy(
    parts: Split, data: Any, plain: Samples, task: HeadTask, augment: Any, seed: int, settings: dict[str, Any]
) -> FloatArray:  # fmt: skip
    """Features of an altered copy, row by row those of the same samples."""
    altered = _samples(
        parts, project(parts, data, augment=augment, random_state=seed, **settings), None, task.name
    )[1]
    if not np.array_equal(altered.targets, plain.targets):
        raise InputError(
            "train comes in a different order each time it is read; need a fixed order to make altered copies; pass "
            "a Dataset, or a DataLoader without a sampler of its own"
        )
    return altered.features


def own_head(parts: Split) -> Head:
    """The head the network came with."""
    linear = parts.head
    bias = None if linear.bias is None else linear.bias.detach().cpu().double().numpy()
    return Head(linear.weight.detach().cpu().double().numpy(), bias)


def _samples(parts: Split, projection: Projection, y: Any, task: TaskName) -> tuple[HeadTask, Samples]:
    labels = projection.labels if y is None else np.asarray(y)
    if labels is None:
        raise InputError("the data hold no labels; need one for each sample; pass (inputs, labels), or y=...")
    if len(labels) != len(projection.features):
        raise InputError(
            f"y has {len(labels)} labels for {len(projection.features)} samples; need one for each sample"
        )
    kind = find_task(task, labels, parts.head.out_features)
    return kind, Samples(projection.features, kind.targets(labels))
