"""Let Optuna propose candidates when there are too many for a grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from steep._validation import FloatArray, check_count
from steep.exceptions import MissingExtraError
from steep.weighting.candidates import Candidate
from steep.weighting.measuring import sizes_for

Space = tuple[Sequence[str], Sequence[int], Sequence[float], Sequence[Mapping[str, Any]]]


def optuna_candidates(
    score: Callable[[Sequence[Candidate], str], FloatArray],
    space: Space,
    n_trials: int,
    generator: np.random.Generator,
) -> tuple[list[Candidate], FloatArray]:
    """Score the controls, then what Optuna proposes from the gains so far.

    Returns
    -------
    candidates, scores : list of Candidate, ndarray of shape (n_candidates, n_folds, n_scorers)
    """
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("search='optuna' needs Optuna; pip install 'steep[search]'") from error
    measures, sizes, ratios, settings = space
    candidates = [Candidate(params=params) for params in settings]
    scores = [score(candidates, "controls")]
    best_control = scores[0][:, :, 0].mean(axis=1).max()
    sampler = optuna.samplers.TPESampler(seed=int(generator.integers(2**31 - 1)))
    quiet, before = optuna.logging.WARNING, optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(quiet)
    try:
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for number in range(check_count(n_trials, name="n_trials")):
            trial = study.ask()
            measure = trial.suggest_categorical("measure", list(measures))
            n_neighbors = trial.suggest_int("n_neighbors", min(sizes), max(sizes))
            candidate = Candidate(
                measure=measure,
                n_neighbors=max(n_neighbors, min(sizes_for(measure, sizes))),
                weight_ratio=trial.suggest_float("weight_ratio", min(ratios), max(ratios), log=True),
                params=settings[trial.suggest_categorical("setting", list(range(len(settings))))],
            )
            candidates.append(candidate)
            scores.append(score([candidate], f"trial {number + 1} of {n_trials}, folds"))
            study.tell(trial, float(scores[-1][0, :, 0].mean() - best_control))
    finally:
        optuna.logging.set_verbosity(before)
    return candidates, np.concatenate(scores)
