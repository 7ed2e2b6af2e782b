"""Variance Based Samples Weighting for deep learning: Algorithm 3.

1   k, m                                      n_neighbors, weight_ratio
2   train M                                   the given, trained network
3   M* = M without its last layer             cut, read_samples
4   w_i = Df̂²(M*(x_i)) by Eq. Dhat2           HeadTraining: neighbours, variation, weights
5   {(w_i, M*(x_i))}                          samples and their weights
6   train f_θ on it; M_f = f_θ ∘ M*           fit_head, Split.join

``retrain_head`` is the algorithm; ``improve`` runs it over a grid and lets held-out data choose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from steep._blas import few_threads
from steep._validation import IntArray, Seed, check_generator, check_jobs, check_real, shown
from steep.exceptions import FunctionError, InputError
from steep.nn.batches import iterate_batches, kept_random_state, label_array, move
from steep.nn.candidates import Grid, HeadSearch, HeadTraining, ScoredHeads, search_heads
from steep.nn.choose import Layers, can_blend, choose_head, deal_folds
from steep.nn.data import HeadData, read_samples, warn_of_absent_classes
from steep.nn.heads import TaskName, fit_head
from steep.nn.improvement import Improvement, judged
from steep.nn.network import Split, response_of, same_up_to_rounding, undisturbed
from steep.nn.projection import Projection, cut, device_of, rows_of_labels
from steep.nn.scores import check_groups, check_scoring, make_scores, refuse_unfit
from steep.nn.weightings import is_contradicted

# Neighbours that say whether a held-out sample is contradicted.
_N_ASKED = 20
_DEFAULT = HeadSearch()
Array = npt.NDArray[Any]


def retrain_head(
    network: nn.Module | Split,
    X: Any,
    y: Any = None,
    *,
    measure: str | Callable[..., Any] = "variance",
    n_neighbors: int = 20,
    weight_ratio: float = 40.0,
    l2: float = 1e-3,
    task: TaskName = "auto",
    n_jobs: int | None = None,
) -> nn.Module:
    """Re-train the head of a network on its own features, weighted by local label variance (Algorithm 3).

    Parameters
    ----------
    network : nn.Module or Split
        M, trained; it is not changed. :func:`split` says which layer is the head and how the network is run.
    X : Tensor, dict of tensors, Dataset, DataLoader, list of dicts or Projection
        Training data, or their features, which may be in a file; see :func:`project`.
    y : array-like, optional
        Labels, if ``X`` does not hold them.
    measure : str or callable, default "variance"
        What the weights follow: "variance" (Eq. Dhat2), any measure of :mod:`steep.measures` that compares labels,
        "misfit" or "border", which use predictions of equal-weight heads that have not seen the sample, "doubt", which
        uses those of the network's own head, or ``measure(features, labels)`` → values ≥ 0.
    n_neighbors : int, default 20
        k, neighbours in feature space whose labels are compared.
    weight_ratio : float, default 40
        m, the largest weight over the smallest; 1 is equal weights.
    l2 : float, default 1e-3
        λ of the penalty ½ λ s² ‖W‖², s² the mean variance of the features, in addition to a mean loss. With 0 there is
        no penalty: if the classes can be separated the weights then grow until the loss falls by no more than 1e-8.

    Other Parameters
    ----------------
    task : {"auto", "multiclass", "binary", "multilabel", "regression"}, default "auto"
        What the head is for; "auto" decides by labels and outputs.
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
    strength = check_real(l2, name="l2", minimum=0.0)
    search = HeadSearch(l2=(strength,), weight_ratio=(weight_ratio,), n_neighbors=(n_neighbors,), measure=measure)
    grid = Grid.of(search, has_classes=False, use="retrain_head")
    check_jobs(n_jobs)
    parts = cut(network, X)
    kind, samples = read_samples(parts, X, y, task)  # line 3
    warn_of_absent_classes(kind, samples)
    original = parts.own_head()
    weightings = HeadTraining.of(samples, kind, grid, original, n_jobs=n_jobs).weightings  # line 4
    weight = weightings[0].weight if weightings else np.ones(len(samples))  # line 5
    return parts.join(fit_head(samples, kind, weight, strength, original=original))  # line 6


def improve(
    network: nn.Module | Split,
    train: Any,
    validation: Any,
    *,
    scoring: Any = None,
    groups: Any = None,
    reweighting: Any = None,
    search: HeadSearch = _DEFAULT,
    task: TaskName = "auto",
    random_state: Seed = 0,
    n_jobs: int | None = None,
) -> Improvement:
    """Re-train the last layer with a grid of settings and keep the best head on held-out data, or the original one.

    Parameters
    ----------
    network : nn.Module or Split
        A trained network; it is not changed. :func:`split` says which layer is the head and how the network is run.
    train : (inputs, labels), Dataset, DataLoader, list of dicts or Projection
        Labelled data the head is fitted to, usually those the network was trained on; or their features by
        :func:`project`, which may be in a file and are then read block by block.
    validation : same kinds
        Labelled data the network has not seen: ``train``, which it was fitted to, cannot show what a new head gains.
    scoring : str, callable, or a sequence of them, optional
        Scores: the first one decides, the others are only reported. Default accuracy, or the mean
        squared error. For classes also "balanced_accuracy", "neg_log_loss", "worst_class_accuracy", with ``groups``
        "worst_group_accuracy", and without them "worst_contradicted": the worst of the classes × whether most of a
        sample's nearest training samples have another label. For numbers "neg_mean_absolute_error", "worst_decile",
        "max_error" and, with ``groups``, "worst_group_mae". "f2" and any scorer of scikit-learn work too ("f1_macro",
        "average_precision", "r2"), or ``scorer(estimator, X, y)``, whose X are numbers of rows.
    groups : array-like of shape (n_validation,) or dict, optional
        Group of each validation sample. Those of other data are used too: ``{"train": ..., "validation": ...}``, and
        "reweighting".
    reweighting : same kinds as ``train``, optional
        Labelled data that neither the network nor ``validation`` has seen: heads are fitted to them too, with weights
        measured among them. Worth a fifth of the data if the training features have collapsed.

    Other Parameters
    ----------------
    search : HeadSearch, optional
        What is tried; the default depends on the first score.
    task : {"auto", "multiclass", "binary", "multilabel", "regression"}, default "auto"
        What the head is for.
    random_state : int, Generator or None, default 0
        Seed of the evidence.
    n_jobs : int, optional
        Parallel jobs of the neighbour search.

    Returns
    -------
    Improvement

    Notes
    -----
    The choice is made on four fifths of the validation samples and scored on the last fifth, five times over. There it
    must beat the original head significantly, and the same choice among equal-weight heads by a standard error.

    Examples
    --------
    >>> import torch
    >>> generator = torch.Generator().manual_seed(0)
    >>> X = torch.randn(600, 2, generator=generator)
    >>> y = (X[:, 0] * X[:, 1] > 0).long()
    >>> network = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    >>> search = HeadSearch(l2=(1e-3, 1e-4), weight_ratio=(5.0,))
    >>> result = improve(network, (X[:400], y[:400]), (X[400:], y[400:]), search=search)
    >>> bool(result.table.loc["chosen", "gain"] > 0.2)
    True
    """
    wanted = check_scoring(scoring)
    generator = check_generator(random_state)
    seed = int(random_state if isinstance(random_state, int | np.integer) else generator.integers(2**31))
    grid = Grid.of(search, has_classes=True)
    check_jobs(n_jobs)
    parts = cut(network, train)
    data = HeadData.read(parts, train, validation, reweighting, task)
    if not data.task.has_classes:
        grid = Grid.of(search, has_classes=False)
    known = _groups_of(groups, data)
    refuse_unfit(wanted, data.task, has_groups="validation" in known)
    original, held_out = parts.own_head(), data.validation
    with few_threads(data.train.features.size, openmp=True):
        grid = grid.of_data(data)
        trainings = [
            HeadTraining.of(
                part, data.task, grid, original, n_jobs=n_jobs, is_reweighting=part is data.reweighting,
                groups=known.get(name),
            )
            for name, part in {"train": data.train, "reweighting": data.reweighting}.items()
            if part is not None
        ]  # fmt: skip
        n_asked = min(_N_ASKED, len(data.train) - 1)
        scores = make_scores(
            wanted, data.task, held_out.targets, known.get("validation"),
            lambda: is_contradicted(data.train, held_out, n_asked),
        )  # fmt: skip
        fold = deal_folds(scores[0], np.random.default_rng(seed))
        found = search_heads(trainings, grid, held_out, scores, fold, known.get("validation"))
        layers = Layers.of(scores[0], original, data.train) if grid.held_out else None
        blends = grid.held_out and can_blend(scores[0])
        found, choice = choose_head(found, random_state=seed, blends=blends, layers=layers)
    joined = parts.join(found.heads[choice.chosen].head)
    rescored = float("nan")  # without inputs the network cannot be run
    if not isinstance(validation, Projection):
        rescored = rescore(parts, joined, found, choice.chosen, validation)
    return judged(joined, rescored, found, choice, trainings)


def _groups_of(groups: Any, data: HeadData) -> dict[str, IntArray]:
    """Known groups of each part of the data, as numbers."""
    given = groups if isinstance(groups, Mapping) else {} if groups is None else {"validation": groups}
    parts = {"train": data.train, "validation": data.validation, "reweighting": data.reweighting}
    sizes = {name: len(part) for name, part in parts.items() if part is not None}
    for name in given:
        if name not in sizes:
            raise InputError(f"groups holds {shown(name)}; expected groups of {', '.join(sizes)}, the data passed")
    return {name: check_groups(own, sizes[name], name=name) for name, own in given.items()}


# ------------------------------------------------------------------------------- the network itself, run again


def rescore(parts: Split, joined: nn.Module, found: ScoredHeads, chosen: int, data: Any) -> float:
    """The deciding score of the joined network, run once more; an error if its outputs are not those of its head."""
    head, task, known = found.heads[chosen].head, found.task, found.held_out
    whole = replace(parts, network=joined)
    batches: list[tuple[Array, Array]] = []
    with kept_random_state(joined, seed=0), undisturbed(joined), torch.no_grad():
        for inputs, labels in iterate_batches(data, parts.batch_size):
            seen = whole.run(move(inputs, device_of(whole)))
            features = seen.features if seen.features.dtype == torch.float64 else seen.features.float()
            promised = torch.from_numpy(head.outputs(features.cpu().numpy()))
            if not same_up_to_rounding(seen.logits.cpu(), promised):
                raise FunctionError(
                    f"head {whole.name!r} of the joined network does not return what was fitted; expected W z + b for "
                    "every batch; remove what changes it, or name another layer with split(network, head='...')"
                )
            response_of(whole.name, seen.logits, seen.output)  # what follows is what followed the original head
            logits, own = rows_of_labels(whole, seen.logits.float().cpu().numpy(), label_array(labels))
            batches.append((logits, task.targets(own)))
    outputs, targets = (np.concatenate(column) for column in zip(*batches, strict=True))
    expected = head.outputs(known.features)
    if not np.array_equal(targets, known.targets):  # a loader drew other samples than before
        return found.scores[0].value(expected)
    if not same_up_to_rounding(torch.from_numpy(outputs).to(seen.logits.dtype), torch.from_numpy(expected)):
        raise FunctionError(
            "the outputs of the joined network are not those of its head on the features of the first pass; expected "
            "the same in every pass; look for dropout that stays on in eval mode, and for data that change from pass "
            "to pass"
        )
    return found.scores[0].value(outputs)
