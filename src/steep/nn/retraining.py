"""Variance Based Samples Weighting for deep learning: Algorithm 3.

1   k, m                                      n_neighbors, weight_ratio
2   train M                                   the caller's trained network
3   M* = M without its last layer             cut, features_of
4   w_i = Df̂²(M*(x_i)) by Eq. Dhat2           Training.groups: neighbours, variation, weights
5   {(w_i, M*(x_i))}                          Samples and their weights
6   train f_θ on it; M_f = f_θ ∘ M*           fit_head, Split.join

``retrain_head`` is the algorithm; ``improve`` runs it over a grid and lets held-out data choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from torch import nn

from steep._blas import one_thread
from steep._validation import Seed, check_choice, check_count, check_flag, check_jobs, check_real
from steep.exceptions import InputError
from steep.nn._arguments import check_batch_size, check_seed
from steep.nn.blends import can_blend
from steep.nn.candidates import FIRST_POWERS, Anchor, Grid, Training, Trial
from steep.nn.crossed_choice import choose_head
from steep.nn.data_checks import warn_of_absent_classes
from steep.nn.head_data import collapse_advice, contradicted, features_of, label_samples, read_data
from steep.nn.head_search import final_head, search_heads
from steep.nn.heads import Head, Samples, TaskName, fit_head
from steep.nn.improvement import Improvement, report, report_unjudged
from steep.nn.network import Forward, Split
from steep.nn.projection import Projection, cut
from steep.nn.rescoring import rescore
from steep.nn.score_names import UNEVEN, check_scoring, deciding_words, make_scores, refuse_unfit
from steep.nn.scoring import CellScore, MeanScore

Solver = Literal["convex", "adam"]
Measures = str | Callable[..., Any] | Sequence[Any]

# Ways to weigh that are tried where the caller names none: for scores that are means over all samples, and for those
# of groups and rare classes (benchmarks/groups.py).
_USUAL: dict[str, Any] = {
    "measure": "variance", "weight_ratio": (0.2, 0.5, 2.0, 5.0, 15.0, 40.0), "n_neighbors": (10, 20, 35)
}  # fmt: skip
_UNEVEN: dict[str, Any] = {
    "measure": "disagreement", "n_neighbors": (5, 20, 100, 200),
    "weight_ratio": (
        1000.0, "balanced", "pseudo_groups", "pseudo_groups:0.9", "doubted:4", "doubted:8", "doubted:13"
    ),
}  # fmt: skip
# Powers of ten of their first λ: stronger ones, as few samples count for much.
_UNEVEN_POWERS = range(-5, 2)
# Numbers in the features up to which one thread is quicker than many.
_SMALL = 2**21


def retrain_head(
    network: nn.Module,
    X: Any,
    y: Any = None,
    *,
    measure: str | Callable[..., Any] = "variance",
    n_neighbors: int = 20,
    weight_ratio: float | str = 40.0,
    l2: float = 1e-3,
    anchor: bool = False,
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
    X : Tensor, dict of tensors, Dataset, DataLoader, list of dicts or Projection
        Training data, or their features, which may lie in a file; see :func:`project`.
    y : array-like, optional
        Labels, where ``X`` does not hold them.
    measure : str or callable, default "variance"
        What the weights follow: "variance" (Eq. Dhat2), any measure of :mod:`steep.measures` that compares labels,
        "misfit" or "border", which ask equal-weight heads that have not seen the sample, "doubt", which asks the
        network's own head, or ``measure(features, labels)`` → values ≥ 0.
    n_neighbors : int, default 20
        k, neighbours in feature space whose labels are compared.
    weight_ratio : float, "balanced" or "pseudo_groups", default 40
        m, the largest weight over the smallest; 1 is equal weights. "balanced" gives every class the same sum of
        weights; "pseudo_groups" gives half of that to the samples of the class that most of their neighbours
        contradict, "pseudo_groups:0.9" nine tenths, whatever the measure; "doubted:8" weighs by exp(8 (1 − p_y)) / n_y,
        p_y by the network's own head, n_y samples of the class.
    l2 : float, default 1e-3
        λ of the penalty ½ λ s² ‖W‖², s² the mean variance of the features, beside a mean loss. With 0 there is no
        penalty: where the classes can be separated the weights then grow until the loss falls by no more than 1e-8.
    anchor : bool, default False
        Whether the head is held near the original one: ½ λ (s² ‖W − W₀‖² + ‖c − c₀‖²) in place of the penalty, c the
        outputs at the mean of the features.
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
    grid = Grid.of((strength,), (weight_ratio,), (n_neighbors,), (measure,), use="retrain_head")
    check_flag(anchor, name="anchor")
    if anchor and solver == "adam":
        raise InputError("anchor=True needs solver='convex', got 'adam'; leave one of them out")
    check_jobs(n_jobs)
    adam = _adam_settings(learning_rate, batch_size, epochs, random_state)
    check_flag(progress, name="progress", optional=True)
    parts = cut(network, X, head=head, forward=forward)
    projection = features_of(parts, X, batch_size=batch_size, progress=progress)  # line 3
    kind, samples = label_samples(parts, projection, y, task)
    kind.refuse_one_label(samples.targets)
    warn_of_absent_classes(kind, samples)
    grid.refuse_masses(kind)
    original = _original(parts)
    if (anchor or grid.doubted) and not original.is_finite:
        asked = "anchor=True" if anchor else f"weight_ratio={weight_ratio!r}"
        raise InputError(f"{asked} needs the original head, which holds NaN or infinity; leave it out")
    training = Training.of(samples, kind, grid, original, n_jobs=n_jobs)  # line 4
    weightings = training.groups()[-1].weightings
    weight = weightings[0].weight if weightings else np.ones(len(samples))  # line 5
    retrained = fit_head(
        samples, kind, weight, strength, original=original, anchored=anchor,
        adam=adam if solver == "adam" else None,
    )  # fmt: skip
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
    scoring: Any = None,
    groups: Any = None,
    reweighting: Any = None,
    task: TaskName = "auto",
    measure: Measures | None = None,
    l2: Sequence[float] | None = None,
    weight_ratio: Sequence[float | str] | None = None,
    n_neighbors: Sequence[int] | None = None,
    anchor: bool | None = None,
    blend: bool | None = None,
    confidence: float = 0.95,
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
    train : (inputs, labels), Dataset, DataLoader, list of dicts or Projection
        Labelled data the head is fitted to, usually those the network was trained on; or their features by
        :func:`project`, which may lie in a file and are then read block by block.
    validation : same kinds, optional
        Labelled data the network has not seen. Without them the original head is kept: the network was fitted to
        ``train``, so no part of it can show what a new head gains on other data.
    scoring : str, callable, or a sequence of them, optional
        What the head is chosen by, the first one; the others are reported with it. Default accuracy, or the mean
        squared error. For classes also "balanced_accuracy", "neg_log_loss", "worst_class_accuracy", with ``groups``
        "worst_group_accuracy", and without them "worst_contradicted": the worst of the classes × whether most of a
        sample's nearest training samples have another label. For numbers "neg_mean_absolute_error", "worst_decile",
        "max_error" and, with ``groups``, "worst_group_mae". Any scorer of scikit-learn's goes too ("f1_macro",
        "average_precision", "r2"), or ``scorer(estimator, X, y)``, whose X are numbers of rows.
    groups : array-like of shape (n_validation,), optional
        Group of each validation sample. Heads are chosen by them, never fitted to them.
    reweighting : same kinds as ``train``, optional
        Labelled data that neither the network nor ``validation`` has seen: heads are fitted to them too, with weights
        measured among them. Worth a fifth of the data where the training features have collapsed. Needs ``validation``.
    task : {"auto", "multiclass", "binary", "multilabel", "regression"}, default "auto"
        What the head is for.
    measure : str, callable, or a sequence of them, optional
        What the weights follow; several are tried side by side. See :func:`retrain_head`. Default "variance";
        "disagreement" for scores of groups and rare classes.
    l2 : sequence of float, optional
        Strengths of the penalty, relative to the features' mean variance; see :func:`retrain_head`. Default 1e-2,
        …, 1e-6 (10, …, 1e-5 for scores of groups and rare classes), and further by factors of ten, within 1e-8 and
        1e3, until the best equal-weight head and the best weighted head both lie inside. Values given are tried
        as they are.
    weight_ratio : sequence of float, "balanced" and "pseudo_groups", optional
        Values of m, and masses; equal weights are always tried besides. Default 0.2 to 40; for scores of groups
        and rare classes 1,000, "balanced", "pseudo_groups", "pseudo_groups:0.9" and "doubted:4", ":8" and ":13". What
        asks the original head is left out where that head holds NaN.
    n_neighbors : sequence of int, optional
        Values of k; default 10, 20, 35; for scores of groups and rare classes 5, 20, 100, 200,
        up to a fifth of the samples.
    anchor : bool, optional
        Whether every head is tried a second time, held near the original one; see :func:`retrain_head`. Default False;
        for scores of groups and rare classes the heads weighted by "doubted" alone.
    blend : bool, optional
        Whether means of two heads are tried. Default True for accuracies of groups and classes, and only for those.
    confidence : float, default 0.95
        The original head is replaced only if the interval of the gain at this confidence excludes zero. Lower values
        replace it more readily: 0.68 asks for one standard error. The interval that is reported is that at 95 %.
    head, forward, batch_size, progress
        See :func:`project`.
    random_state : int, Generator or None, default 0
        Seed of the evidence.
    n_jobs : int, optional
        Parallel jobs of the neighbour search.

    Returns
    -------
    Improvement

    Notes
    -----
    A choice among all heads must beat the same choice among equal-weight heads, and the original head, on samples it
    was not made by: it is made on four fifths of the validation samples and scored on the last fifth, five times over.
    The gain that is reported is measured on these samples. See :mod:`steep.nn.crossed_choice`.

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
    wanted = check_scoring(scoring)
    is_uneven = next(iter(wanted), None) in UNEVEN
    grid = _grid(l2, weight_ratio, n_neighbors, measure, anchor, is_uneven=is_uneven)
    check_flag(blend, name="blend", optional=True)
    seed = check_seed(random_state)
    check_jobs(n_jobs)
    check_real(confidence, name="confidence", above=0.0, maximum=1.0)
    for name, value in {"reweighting": reweighting, "groups": groups}.items():
        if value is not None and validation is None:
            raise InputError(f"{name} needs validation data to choose by, got none; pass validation=")
    settings: dict[str, Any] = {"batch_size": batch_size, "progress": progress}

    parts = cut(network, train, head=head, forward=forward)
    data = read_data(parts, train, validation, reweighting, task, settings)
    if data.task.name == "multilabel" and is_uneven:  # masses of classes are no default for several labels per sample
        grid = _grid(l2, weight_ratio, n_neighbors, measure, anchor, is_uneven=False)
    grid.refuse_masses(data.task)
    refuse_unfit(wanted, data.task, has_groups=groups is not None)
    if n_neighbors is None and grid.grouped:
        grid = grid.within(min(len(part) for part in (data.plain, data.reweighting) if part is not None))
    original = _original(parts)
    if not original.is_finite:
        grid = grid.without_original()
    with _few_threads(data.plain):
        training = Training.of(data.plain, data.task, grid, original, n_jobs=n_jobs)
        if data.held_out is None:
            return report_unjudged(parts.join(original), training, deciding_words(wanted, data.task))
        trial, used = Trial(training.groups(), data.held_out), training
        if data.reweighting is not None:
            other = Training.of(data.reweighting, data.task, grid, original, n_jobs=n_jobs, is_reweighting=True)
            trial = replace(trial, groups=[*trial.groups, *other.groups()])
        scores = make_scores(wanted, data.task, data.held_out.targets, groups, lambda: contradicted(data, n_jobs))
        search = search_heads(trial, training, scores)
        search, choice = choose_head(
            search, trial, training, confidence=confidence, random_state=seed,
            blends=_is_blended(blend, scores[0], training),
        )  # fmt: skip
        chosen = search.candidates[choice.chosen]
        used = other if chosen.reweighted else training
        final = final_head(used, search, chosen, trial)
    joined = parts.join(final.head)
    rescored = float("nan")  # without inputs the network cannot be run
    if not isinstance(validation, Projection):
        rescored = rescore(parts, joined, final.head, validation, data.held_out, scores[0], **settings)
    advice = collapse_advice(original, data)
    return report(search, choice, final, joined, rescored, used, data.held_out, advice)


def _is_blended(blend: bool | None, score: MeanScore, training: Training) -> bool:
    """Whether means of two heads are tried."""
    if blend and not isinstance(score, CellScore):
        raise InputError(
            f"blend=True needs the accuracy of groups or classes as the first score, got {score.name!r}; leave it out"
        )
    can = isinstance(score, CellScore) and can_blend(training.task, training.original)
    return can and blend is not False


def _grid(l2: Any, weight_ratio: Any, n_neighbors: Any, measure: Any, anchor: Any, *, is_uneven: bool) -> Grid:
    """What the caller gave, and for the rest what suits the deciding score."""
    check_flag(anchor, name="anchor", optional=True)
    given = {"measure": measure, "weight_ratio": weight_ratio, "n_neighbors": n_neighbors}
    values = (_UNEVEN if is_uneven else _USUAL) | {name: value for name, value in given.items() if value is not None}
    held: Anchor = "all" if anchor else "doubted" if anchor is None and is_uneven else "none"
    grid = Grid.of(l2, **values, use="improve", anchor=held, powers=_UNEVEN_POWERS if is_uneven else FIRST_POWERS)
    return replace(grid, anchor="none") if held == "doubted" and not grid.doubted else grid


def _few_threads(samples: Samples) -> AbstractContextManager[None]:
    """Hold BLAS and torch to one thread where the products are small: threads would wait for each other."""
    return one_thread() if samples.features.size <= _SMALL else nullcontext()


def _original(parts: Split) -> Head:
    """The head the network came with; a frozen bias must be a number, since all heads keep it."""
    original = parts.own_head()
    if original.fixed_bias is not None and not np.isfinite(original.fixed_bias).all():
        raise InputError(
            f"the bias of head {parts.name!r} is frozen and holds NaN or infinity; need a finite one; fix it, or set "
            "requires_grad=True"
        )
    return original
