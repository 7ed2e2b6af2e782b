"""Variance Based Samples Weighting for deep learning: Algorithm 3.

1   k, m                                      n_neighbors, weight_ratio
2   train M                                   the caller's trained network
3   M* = M without its last layer             cut, project
4   w_i = Df̂²(M*(x_i)) by Eq. Dhat2           search_neighbors, measure_variations, rescale
5   {(w_i, M*(x_i))}                          Samples and their weights
6   train f_θ on it; M_f = f_θ ∘ M*           fit_head, Split.join

``retrain_head`` is the algorithm; ``improve`` runs it over a grid and lets held-out data choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from torch import nn

from steep._validation import FloatArray, Seed, check_choice, check_count, check_real
from steep.exceptions import InputError
from steep.nn._arguments import check_batch_size, check_callable, check_flag, check_jobs, check_seed
from steep.nn.batches import label_array
from steep.nn.candidates import Grid, Training, Trial
from steep.nn.feature_space import measure_variations, search_neighbors
from steep.nn.head_search import choose, final_head, search_heads
from steep.nn.heads import Head, HeadTask, Samples, TaskName, find_task, fit_head
from steep.nn.improvement import Improvement, report
from steep.nn.network import Forward, Split
from steep.nn.projection import Augment, Projection, cut, project
from steep.nn.rescoring import rescore
from steep.rescaling import rescale

Solver = Literal["convex", "adam"]
Measures = str | Callable[..., Any] | Sequence[Any]


def retrain_head(
    network: nn.Module,
    X: Any,
    y: Any = None,
    *,
    measure: str | Callable[..., Any] = "variance",
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
    random_state: Seed = 0,
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
    measure : str or callable, default "variance"
        What the weights follow: "variance" (Eq. Dhat2), any measure of :mod:`steep.measures` that compares labels,
        "misfit" or "border", which ask equal-weight heads that have not seen the sample, or ``measure(features,
        labels)`` → values ≥ 0.
    n_neighbors : int, default 20
        k, neighbours in feature space whose labels are compared.
    weight_ratio : float, default 40
        m, the largest weight over the smallest; 1 is equal weights.
    l2 : float, default 1e-3
        λ of the penalty ½ λ s² ‖W‖², s² the mean variance of the features, beside a mean loss. With 0 there is no
        penalty: where the classes can be separated the weights then grow until the loss falls by no more than 1e-8.
    solver : {"convex", "adam"}, default "convex"
        To the minimum of the convex problem, or the paper's Adam from a random start.
    task : {"auto", "multiclass", "binary", "multilabel", "regression"}, default "auto"
        What the head is for; "auto" tells from labels and outputs.
    head, forward
        See :func:`split`.
    batch_size : int, optional
        Samples of one step of Adam (default 25), and with it of the projection.
    learning_rate, epochs, random_state : float, int, int or Generator
        Of Adam: its step, its passes over the data, and the seed of its start and its batches.
    progress : bool, optional
        See :func:`project`.
    n_jobs : int, optional
        Parallel jobs of the neighbour search.

    Returns
    -------
    nn.Module
        M_f, a copy with a new head: same keys of the ``state_dict``, same form of outputs. A bias that is frozen
        (``requires_grad=False``) stays as it is.

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
    strength = check_real(l2, name="l2", minimum=0.0)
    ratio = check_real(weight_ratio, name="weight_ratio", above=0.0)
    grid = Grid.of((strength,), (ratio,), (n_neighbors,), (measure,), use="retrain_head")
    check_jobs(n_jobs)
    adam = _adam_settings(learning_rate, batch_size, epochs, random_state)
    check_flag(progress, name="progress", optional=True)
    parts = cut(network, X, head=head, forward=forward)
    projection = project(parts, X, batch_size=batch_size, progress=progress)  # line 3
    kind, samples = _samples(parts, projection, y, task)
    original = _original(parts)
    k = grid.n_neighbors[0]
    neighbors = search_neighbors(samples.features, k, n_jobs)  # line 4
    variation = measure_variations(
        samples, kind, neighbors, grid.measures, [k], original=original, l2=strength
    )[grid.measures[0].name, k]
    weight = rescale(variation, weight_ratio=ratio)  # line 5
    retrained = fit_head(
        samples, kind, weight, strength, original=original, adam=adam if solver == "adam" else None
    )
    return parts.join(retrained)  # line 6


def _adam_settings(learning_rate: Any, batch_size: Any, epochs: Any, random_state: Seed) -> dict[str, Any]:
    return {
        "learning_rate": check_real(learning_rate, name="learning_rate", above=0.0),
        "batch_size": check_batch_size(batch_size) or 25,
        "epochs": check_count(epochs, name="epochs", minimum=0),
        "seed": check_seed(random_state),
    }


def improve(
    network: nn.Module,
    train: Any,
    validation: Any = None,
    *,
    task: TaskName = "auto",
    measure: Measures = "variance",
    l2: Sequence[float] | None = None,
    weight_ratio: Sequence[float] = (0.2, 0.5, 2.0, 5.0, 15.0, 40.0),
    n_neighbors: Sequence[int] = (10, 20, 35),
    confidence: float = 0.84,
    augment: Augment | None = None,
    n_copies: int = 2,
    refit: bool = False,
    n_folds: int = 5,
    head: str | None = None,
    forward: Forward | None = None,
    batch_size: int | None = None,
    progress: bool | None = None,
    random_state: Seed = 0,
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
    measure : str, callable, or a sequence of them, default "variance"
        What the weights follow; several are tried side by side. See :func:`retrain_head`.
    l2 : sequence of float, optional
        Strengths of the penalty, relative to the features' mean variance; see :func:`retrain_head`. Default 1e-2,
        …, 1e-6, and further by factors of ten, within 1e-8 and 1e3, until the best equal-weight head and the best
        weighted head both lie inside. Values given are tried as they are.
    weight_ratio : sequence of float
        Values of m; equal weights are always tried besides.
    n_neighbors : sequence of int
        Values of k.
    confidence : float, default 0.84
        Probability that no head is chosen when none is better: the default is one standard error, corrected for the
        number of heads. See :mod:`steep.evidence`.
    augment : callable, optional
        ``augment(inputs)`` → an altered copy of a batch of inputs, which it may change in place. Features of copies
        have not collapsed as those of the training inputs have; weighted heads are then fitted with the copies.
    n_copies : int, default 2
        Altered copies of each training input.
    refit : bool, default False
        Whether the chosen head is fitted once more with the held-out data added. Its figures are those from
        before that.
    n_folds : int, default 5
        Folds of the cross-validation.
    head, forward, batch_size, progress
        See :func:`project`.
    random_state : int, Generator or None, default 0
        Seed of ``augment``, of the folds and of the evidence.
    n_jobs : int, optional
        Parallel jobs of the neighbour search.

    Returns
    -------
    Improvement

    Notes
    -----
    A weighted head must beat the best equal-weight head, and any head the original one, by the evidence of paired
    differences on held-out samples. Under cross-validation the samples are the units as well: a variance of five folds
    is hardly known. The interval is then widened as Nadeau and Bengio do for folds, by √(1 + n_folds/(n_folds − 1)).

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
    grid = Grid.of(l2, weight_ratio, n_neighbors, measure, use="improve")
    seed = check_seed(random_state)
    check_jobs(n_jobs)
    check_real(confidence, name="confidence", above=0.0, maximum=1.0)
    n_folds = check_count(n_folds, name="n_folds", minimum=2)
    n_copies = check_count(n_copies, name="n_copies")
    check_callable(augment, name="augment", signature="augment(inputs)")
    check_flag(refit, name="refit")
    settings: dict[str, Any] = {"batch_size": batch_size, "progress": progress}

    parts = cut(network, train, head=head, forward=forward)
    data = _read(parts, train, validation, task, augment, n_copies, seed, settings)
    training = Training.of(
        data.plain, data.copies, data.held_out if refit else None, data.task, grid, _original(parts),
        n_folds=None if data.held_out is not None else n_folds, n_jobs=n_jobs,
    )  # fmt: skip
    trials, test_ratio, where = _trials(training, data, n_folds, seed)
    search = search_heads(trials, training)
    choice = choose(
        search.candidates, search.scores, confidence=confidence, test_ratio=test_ratio, random_state=seed
    )
    final = final_head(training, search, choice, trials, refit=refit)
    joined = parts.join(final.head)
    scored = (train, data.plain) if data.held_out is None else (validation, data.held_out)
    rescored = rescore(parts, joined, final.head, *scored, data.task, **settings)
    return report(search, choice, final, joined, rescored, training, where)


class _Data(NamedTuple):
    """Every data set as features and targets, projected once."""

    task: HeadTask
    plain: Samples
    copies: list[FloatArray]
    held_out: Samples | None


def _read(
    parts: Split,
    train: Any,
    validation: Any,
    task: TaskName,
    augment: Augment | None,
    n_copies: int,
    seed: int,
    settings: dict[str, Any],
) -> _Data:
    kind, plain = _samples(parts, project(parts, train, **settings), None, task)
    held_out = None
    if validation is not None:
        held_out = _samples(parts, project(parts, validation, **settings), None, kind.name)[1]
        if len(held_out) < 2:
            raise InputError("validation has 1 sample; need at least 2 to compare heads; pass more data")
    copies = [
        _copy(parts, train, plain, kind, augment, seed + copy, settings)
        for copy in range(n_copies if augment is not None else 0)
    ]
    return _Data(kind, plain, copies, held_out)


def _trials(training: Training, data: _Data, n_folds: int, seed: int) -> tuple[list[Trial], float, str]:
    """What is fitted and scored: once against held-out samples, or fold by fold; and how to tell of it."""
    if data.held_out is not None:
        return [training.trial(data.held_out)], 0.0, f"{len(data.held_out):,} held-out samples"
    n = len(data.plain)
    if n < n_folds:
        raise InputError(f"n_folds={n_folds} needs at least {n_folds} samples, got {n}; lower n_folds")
    order = np.random.default_rng(seed).permutation(n)
    trials = [training.fold(fold) for fold in np.array_split(order, n_folds)]
    where = f"{n_folds}-fold cross-validation of the head (its features were fitted on the same data)"
    return trials, n_folds / ((n_folds - 1) * n), where


def _copy(
    parts: Split,
    data: Any,
    plain: Samples,
    task: HeadTask,
    augment: Augment | None,
    seed: int,
    settings: dict[str, Any],
) -> FloatArray:
    """Features of an altered copy, row by row those of the same samples."""
    projection = project(parts, data, augment=augment, random_state=seed, **settings)
    if len(projection.features) != len(plain):
        raise InputError(
            f"augment returned {len(projection.features)} samples for {len(plain)}; need one copy of each; return as "
            "many as it is given"
        )
    altered = _samples(parts, projection, None, task.name)[1]
    if not np.array_equal(altered.targets, plain.targets):
        raise InputError(
            "train comes in a different order each time it is read; need a fixed order to make altered copies; pass "
            "a Dataset, or a DataLoader without a sampler of its own"
        )
    return altered.features


def _original(parts: Split) -> Head:
    """The head the network came with; a frozen bias must be a number, since all heads keep it."""
    original = parts.own_head()
    if original.fixed_bias is not None and not np.isfinite(original.fixed_bias).all():
        raise InputError(
            f"the bias of head {parts.name!r} is frozen and holds NaN or infinity; need a finite one; fix it, or set "
            "requires_grad=True"
        )
    return original


def _samples(parts: Split, projection: Projection, y: Any, task: TaskName) -> tuple[HeadTask, Samples]:
    labels = projection.labels if y is None else label_array(y)
    if labels is None:
        raise InputError("the data hold no labels; need one for each sample; pass (inputs, labels), or y=...")
    if labels.ndim == 0 or len(labels) != len(projection.features):
        got = 1 if labels.ndim == 0 else len(labels)
        raise InputError(
            f"y has {got} labels for {len(projection.features)} samples; need one for each sample"
        )
    kind = find_task(task, labels, parts.head.out_features)
    return kind, Samples(projection.features, kind.targets(labels))
