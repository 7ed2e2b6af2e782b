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
import numpy.typing as npt
import pandas as pd
from torch import nn

from steep._validation import FloatArray, check_choice, check_count, check_real
from steep.exceptions import InputError
from steep.nn.batches import iterate_batches, move
from steep.nn.candidates import (
    Candidate,
    Grid,
    Samples,
    fit_candidates,
    fit_one,
    head_outputs,
    label_variations,
)
from steep.nn.heads import Head
from steep.nn.improvement import Improvement, choose, evidence_table, write_verdict
from steep.nn.network import Forward, Split, split
from steep.nn.projection import Augment, Projection, _device, project
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
    parts = _split(network, X, head, forward)
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
    return parts.join(fit_one(samples, kind, weight, l2, original=own_head(parts), adam=adam))  # line 6


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
    parts = _split(network, train, head, forward)
    settings: dict[str, Any] = {"batch_size": batch_size, "progress": progress}
    kind, plain = _samples(parts, project(parts, train, **settings), None, task)
    copies = [
        project(parts, train, augment=augment, random_state=random_state + copy, **settings).features
        for copy in range(check_count(n_copies, name="n_copies") if augment is not None else 0)
    ]
    original = own_head(parts)
    held_out: Samples | None = None
    if validation is not None:
        held_out = _samples(parts, project(parts, validation, **settings), None, kind.name)[1]  # type: ignore[arg-type]
        candidates, heads, scores = _score(plain, copies, held_out, kind, grid, original, n_jobs)
        told = f"{len(held_out.targets):,} held-out samples"
    else:
        candidates, scores = _cross_validate(
            plain, copies, kind, grid, original, n_folds, random_state, n_jobs
        )
        heads = []
        told = f"{n_folds}-fold cross-validation of the head (its features were fitted on the same data)"
    choice = choose(candidates, scores)
    chosen = candidates[choice.chosen]
    pool = _pool(plain, copies if chosen.augmented else [])
    if chosen.kind != "original" and (refit or not heads):
        added = held_out if refit else None
        final = _final_head(pool, added, chosen, kind, original, n_jobs)
    else:
        final = heads[choice.chosen] if heads else original
    table = evidence_table(candidates, scores, choice, kind)
    by_row = {name: heads[number] for name, number in choice.rows().items()} if heads else {}
    return Improvement(
        network=parts.join(final),
        verdict=write_verdict(table, chosen, kind, told),
        table=table,
        candidates=_listing(candidates, scores, kind),
        chosen=chosen,
        weights=_training_weights(plain, candidates, choice.chosen, choice.best, kind, n_jobs),
        heads=by_row | {"chosen": final},
    )


def own_head(parts: Split) -> Head:
    """The head the network came with."""
    linear = parts.head
    bias = None if linear.bias is None else linear.bias.detach().cpu().double().numpy()
    return Head(linear.weight.detach().cpu().double().numpy(), bias)


def _split(network: nn.Module, data: Any, head: str | None, forward: Forward | None) -> Split:
    inputs, _ = next(iter(iterate_batches(data, 2)))
    return split(network, head, sample=move(inputs, _device(network)), forward=forward)


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


def _pool(plain: Samples, copies: list[FloatArray], rows: npt.NDArray[np.intp] | None = None) -> Samples:
    """Training samples, with the copies of each of them behind."""
    chosen: Any = slice(None) if rows is None else rows
    features = np.concatenate([part[chosen] for part in (plain.features, *copies)])
    return Samples(
        features, np.concatenate([plain.targets[chosen]] * (1 + len(copies))), augmented=bool(copies)
    )


def _score(
    plain: Samples,
    copies: list[FloatArray],
    held_out: Samples,
    task: HeadTask,
    grid: Grid,
    original: Head,
    n_jobs: int | None,
) -> tuple[list[Candidate], list[Head], FloatArray]:
    """Fit every candidate and score it on each held-out sample."""
    fitted = [(Candidate("original"), original)]
    if copies:
        fitted += fit_candidates(plain, task, grid, original=original, weighted=False)
        plain = _pool(plain, copies)
    sizes = grid.n_neighbors if grid.weight_ratio else ()
    variation = label_variations(plain.features, plain.targets, task, sizes, n_jobs)
    samples = Samples(plain.features, plain.targets, plain.augmented, variation)
    fitted += fit_candidates(samples, task, grid, original=original, weighted=bool(sizes))
    scores = [task.scores(head_outputs(head, held_out.features), held_out.targets) for _, head in fitted]
    return [candidate for candidate, _ in fitted], [head for _, head in fitted], np.stack(scores)


def _cross_validate(
    plain: Samples,
    copies: list[FloatArray],
    task: HeadTask,
    grid: Grid,
    original: Head,
    n_folds: int,
    random_state: int,
    n_jobs: int | None,
) -> tuple[list[Candidate], FloatArray]:
    """Scores of every training sample by heads fitted without it (and without its copies)."""
    n_folds = check_count(n_folds, name="n_folds", minimum=2)
    n = len(plain.targets)
    folds = np.array_split(np.random.default_rng(random_state).permutation(n), n_folds)
    candidates: list[Candidate] = []
    scores: FloatArray | None = None
    for fold in folds:
        kept = np.setdiff1d(np.arange(n), fold)
        rest = Samples(plain.features[kept], plain.targets[kept])
        held_out = Samples(plain.features[fold], plain.targets[fold])
        candidates, _, part = _score(rest, [c[kept] for c in copies], held_out, task, grid, original, n_jobs)
        scores = np.empty((len(candidates), n)) if scores is None else scores
        scores[:, fold] = part
    assert scores is not None  # n_folds ≥ 2
    return candidates, scores


def _final_head(
    pool: Samples,
    added: Samples | None,
    chosen: Candidate,
    task: HeadTask,
    original: Head,
    n_jobs: int | None,
) -> Head:
    if added is not None:
        pool = Samples(
            np.concatenate([pool.features, added.features]), np.concatenate([pool.targets, added.targets])
        )
    weight = _weights(pool, chosen, task, n_jobs)
    return fit_one(pool, task, weight, chosen.l2 or 0.0, original=original)


def _weights(samples: Samples, candidate: Candidate, task: HeadTask, n_jobs: int | None) -> FloatArray:
    if candidate.n_neighbors is None:
        return np.ones(len(samples.targets))
    k = candidate.n_neighbors
    variation = label_variations(samples.features, samples.targets, task, [k], n_jobs)[k]
    return rescale(variation, weight_ratio=candidate.weight_ratio)


def _training_weights(
    plain: Samples,
    candidates: list[Candidate],
    chosen: int,
    best: dict[tuple[str, bool], int],
    task: HeadTask,
    n_jobs: int | None,
) -> FloatArray:
    """Weights of the training samples themselves, by the chosen settings or else the best weighted ones."""
    weighted = [number for (kind, _), number in best.items() if kind == "weighted"]
    number = chosen if candidates[chosen].kind == "weighted" else weighted[0] if weighted else chosen
    return _weights(plain, candidates[number], task, n_jobs)


def _listing(candidates: list[Candidate], scores: FloatArray, task: HeadTask) -> pd.DataFrame:
    sign = -1.0 if task.name == "regression" else 1.0
    return pd.DataFrame(candidates).assign(**{task.unit: sign * scores.mean(axis=1)})
