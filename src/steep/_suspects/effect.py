"""What dropping or correcting wrong labels gains, by cross-validation on rows whose labels are trusted."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from steep._sklearn import take_rows
from steep._validation import IntArray, Seed, check_count, check_generator, one_line
from steep.exceptions import InputError
from steep.metrics import paired_interval, resolve_scorers

# Each part must score some rows.
_FEWEST = 10


def measured(
    estimator: Any,
    X: Any,
    labels: npt.NDArray[Any],
    right: npt.NDArray[Any],
    trusted: IntArray,
    *,
    scoring: Any,
    cv: Any,
    random_state: Seed,
) -> pd.DataFrame:
    """Scores of ``estimator`` fitted to the labels as given, to the rows where ``right`` agrees, and to ``right``.

    Every part of the cross-validation scores its trusted rows, by ``right``, on fits to the other parts.
    """
    n_parts = check_count(cv, name="cv", minimum=2)
    if len(trusted) < max(_FEWEST, 2 * n_parts):
        raise InputError(
            f"there are {len(trusted)} trusted rows; expected at least {max(_FEWEST, 2 * n_parts)} to score on; name "
            "more of them, or lower cv"
        )
    scorers = resolve_scorers(estimator, scoring)
    if len(scorers) != 1:
        raise InputError(f"scoring names {len(scorers)} scores; expected one; call effect once for each")
    ((name, score),) = scorers.items()
    all_rows = np.ones(len(labels), dtype=bool)
    ways = {"as given": (all_rows, labels), "dropped": (labels == right, labels), "corrected": (all_rows, right)}
    seed = int(check_generator(random_state).integers(2**31))
    few = right.dtype.kind != "f" and np.unique(right[trusted], return_counts=True)[1].min() >= n_parts
    deal: Any = (StratifiedKFold if few else KFold)(n_parts, shuffle=True, random_state=seed)
    scores: dict[str, list[float]] = {way: [] for way in ways}
    sizes: dict[str, list[int]] = {way: [] for way in ways}
    for _, chosen in deal.split(trusted, right[trusted]):
        asked = trusted[chosen]
        others = np.setdiff1d(np.arange(len(labels)), asked)
        for way, (kept, y) in ways.items():
            rows = others[kept[others]]
            try:
                model = clone(estimator).fit(take_rows(X, rows), y[rows])
                scores[way].append(float(score(model, take_rows(X, asked), right[asked])))
            except (TypeError, ValueError) as error:
                raise InputError(
                    f"{type(estimator).__name__} cannot be fitted to or scored on the labels {way} "
                    f"({one_line(error)}); expected an estimator and a scoring that take them; choose others"
                ) from error
            sizes[way].append(len(rows))
    gains = {way: paired_interval(np.array(scores["as given"]), np.array(scores[way])) for way in ways}
    return pd.DataFrame(
        {
            name: {way: float(np.mean(values)) for way, values in scores.items()},
            "gain": {way: gain.mean for way, gain in gains.items()},
            "low": {way: gain.low for way, gain in gains.items()},
            "high": {way: gain.high for way, gain in gains.items()},
            "n_train": {way: round(float(np.mean(values))) for way, values in sizes.items()},
        }
    )
