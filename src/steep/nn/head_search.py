"""Fit the candidates, score them on samples they were not fitted to, and fit the chosen one for good."""

from __future__ import annotations

import numpy as np
import pandas as pd

from steep._validation import FloatArray, check_count
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
from steep.nn.tasks import HeadTask
from steep.rescaling import rescale


def pool_samples(plain: Samples, copies: list[FloatArray]) -> Samples:
    """Training samples, with the copies of each of them behind."""
    if not copies:
        return plain
    targets = np.concatenate([plain.targets] * (1 + len(copies)))
    return Samples(np.concatenate([plain.features, *copies]), targets, augmented=True)


def score_candidates(
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
        plain = pool_samples(plain, copies)
    sizes = grid.n_neighbors if grid.weight_ratio else ()
    variation = label_variations(plain.features, plain.targets, task, sizes, n_jobs)
    samples = Samples(plain.features, plain.targets, plain.augmented, variation)
    fitted += fit_candidates(samples, task, grid, original=original, weighted=bool(sizes))
    scores = [task.scores(head_outputs(head, held_out.features), held_out.targets) for _, head in fitted]
    return [candidate for candidate, _ in fitted], [head for _, head in fitted], np.stack(scores)


def cross_validate(
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
        candidates, _, part = score_candidates(
            rest, [c[kept] for c in copies], held_out, task, grid, original, n_jobs
        )
        scores = np.empty((len(candidates), n)) if scores is None else scores
        scores[:, fold] = part
    assert scores is not None  # n_folds ≥ 2
    return candidates, scores


def final_head(
    pool: Samples,
    added: Samples | None,
    chosen: Candidate,
    task: HeadTask,
    original: Head,
    n_jobs: int | None,
) -> Head:
    """The chosen head fitted to all training samples, and to the held-out ones where they are ``added``."""
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


def training_weights(
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


def list_candidates(candidates: list[Candidate], scores: FloatArray, task: HeadTask) -> pd.DataFrame:
    """Every candidate with its mean held-out score."""
    sign = -1.0 if task.name == "regression" else 1.0
    return pd.DataFrame(candidates).assign(**{task.unit: sign * scores.mean(axis=1)})
