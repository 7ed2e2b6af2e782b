"""One output: which candidates answer, with which weights, and how far off they are expected to be at a point.

Candidates are compared by cross-validation. Runs lie where they were placed, so the squared error of each run counts
as much as the part of the domain nearest to it. An average of candidates is taken where it lowers that error by a
clear margin.

    log |e(x)| ≈ β₀ + β₁ log a(x) + β₂ log b(x) + β₃ log c(x),  β ≥ 0

a is the mean error, by cross-validation, of the runs nearest to x; b the distance to the nearest run; c how far the
candidates disagree. β is found on the runs themselves, each predicted from the other folds. The certificate scales the
result so that it becomes an interval.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from steep._validation import FloatArray, IntArray
from steep.exceptions import InputError
from steep.neighbors.query import nearest
from steep.surrogate._candidates import KERNELS, Arrays, Member, try_all

_FOLDS = 8
# An average has to lower the mean squared error by this share; a smaller weight is left out.
_GAIN, _LEAST_WEIGHT = 0.06, 0.05
# Nearest runs whose errors are averaged; candidates up to this many times the best squared error may disagree.
_AROUND, _JUDGES = 6, 6.0
# Errors are distinguished down to this share of their root mean square.
_FLOOR = 0.05


class Blend(NamedTuple):
    """The model of one output, in deviations of the training runs around their mean."""

    mean: float
    deviation: float
    members: tuple[Member, ...]
    weights: FloatArray
    points: FloatArray
    errors: FloatArray
    betas: FloatArray
    floor: float
    scores: dict[str, float]
    # Expected errors of the runs, each from the other folds; not kept in files.
    sizes: FloatArray = np.empty(0)

    @property
    def rmse(self) -> float:
        """RMSE over the domain by cross-validation, in units of the output."""
        return self.deviation * self.floor / _FLOOR

    def predict(self, at: FloatArray) -> FloatArray:
        """Values in units of the output."""
        return self.mean + self.deviation * self._each(at) @ self.weights

    def predict_both(self, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values and expected errors, both in units of the output."""
        each = self._each(at)
        values = each @ self.weights
        if not len(self.points):
            return self.mean + values, np.zeros(len(at))
        distances, around = nearest(self.points, at, min(_AROUND, len(self.points)))
        sizes = np.exp(_features(self.errors[around], distances[:, 0], each, values, self.floor) @ self.betas)
        return self.mean + self.deviation * values, self.deviation * sizes

    def _each(self, at: FloatArray) -> FloatArray:
        return np.column_stack([member.predict(at) for member in self.members]) if self.members else at[:, :0]

    def arrays(self) -> Arrays:
        """Everything, by name, as arrays."""
        found: Arrays = {
            "scale": np.array([self.mean, self.deviation, self.floor]), "weights": self.weights,
            "points": self.points, "errors": self.errors, "betas": self.betas,
            "kinds": np.array([member.kind for member in self.members], dtype="U16"),
            "score_names": np.array(list(self.scores), dtype="U16"), "score_values": np.array([*self.scores.values()]),
        }  # fmt: skip
        for i, member in enumerate(self.members):
            found |= {f"member{i}.{name}": array for name, array in member.arrays.items()}
        return found

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> Blend:
        """Undo :meth:`arrays`."""
        kinds = enumerate(arrays["kinds"].tolist())
        members = tuple(Member(kind, part(arrays, f"member{i}.")) for i, kind in kinds)
        mean, deviation, floor = arrays["scale"].tolist()
        scores = dict(zip(arrays["score_names"].tolist(), arrays["score_values"].tolist(), strict=True))
        weights, points, errors, betas = (arrays[name] for name in ("weights", "points", "errors", "betas"))
        return cls(mean, deviation, members, weights, points, errors, betas, floor, scores)


def part(arrays: Arrays, start: str) -> Arrays:
    """The arrays whose names begin like this, without that beginning."""
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def constant(value: float, points: FloatArray) -> Blend:
    """The model of an output that never changes."""
    none = np.zeros(len(points))
    return Blend(value, 0.0, (), np.empty(0), points[:0], none, np.zeros(4), 1.0, {}, none)


def blend(
    points: FloatArray, labels: FloatArray, cells: FloatArray, kinds: tuple[str, ...], seed: int,
    groups: IntArray | None = None,
) -> Blend:  # fmt: skip
    """Fit and choose for one output; ``cells``: part of the domain nearest to each run; ``groups`` keep together."""
    groups = np.arange(len(points)) if groups is None else np.unique(groups, return_inverse=True)[1]
    mean, deviation = float(labels.mean()), float(labels.std())
    values = (labels - mean) / deviation
    fold = np.random.default_rng(seed).permutation(np.arange(groups.max() + 1) % _FOLDS)[groups]
    weights = cells / cells.sum()
    tried = [one for one in try_all(kinds, points, values, fold, weights, seed) if np.isfinite(one.predicted).all()]
    if not tried:
        raise InputError(
            "no candidate could be fitted to these runs; expected runs at different points; pass other candidates"
        )
    predicted = np.column_stack([one.predicted for one in tried])
    losses = weights @ (predicted - values[:, None]) ** 2
    shares = _shares(predicted, values, weights, losses)
    # Kernels that do not answer still disagree, which costs little.
    best = losses[shares > 0].min()
    kept = [i for i, one in enumerate(tried) if shares[i] > 0 or (one.kind in KERNELS and losses[i] < _JUDGES * best)]
    members = tuple(tried[i].fit() for i in kept)
    each, chosen = predicted[:, kept], predicted @ shares
    errors = np.abs(values - chosen)
    floor = _FLOOR * float(np.sqrt(weights @ errors**2)) + 1e-12
    betas, sizes = _betas(points, errors, fold, each, chosen, weights, floor)
    scores = {one.kind: float(np.sqrt(loss)) for one, loss in zip(tried, losses, strict=True)}
    return Blend(mean, deviation, members, shares[kept], points, errors, betas, floor, scores, sizes)


def _shares(predicted: FloatArray, values: FloatArray, weights: FloatArray, losses: FloatArray) -> FloatArray:
    """The weight of each candidate: one for the best, or those of an average that is clearly better."""
    alone: FloatArray = np.eye(len(losses))[int(np.argmin(losses))]
    roots = np.sqrt(weights)[:, None]
    # A last row asks for a sum of one.
    found, _ = nnls(np.vstack([roots * predicted, np.full(len(losses), 1e3)]), np.append(roots[:, 0] * values, 1e3))
    found = np.where(found < _LEAST_WEIGHT, 0.0, found)
    if not found.any():
        return alone
    found = np.asarray(found / found.sum())
    loss = weights @ (predicted @ found - values) ** 2
    better: FloatArray = found if loss < (1 - _GAIN) * losses.min() else alone
    return better


def _features(
    errors: FloatArray, distance: FloatArray, each: FloatArray, values: FloatArray, floor: float
) -> FloatArray:
    """Columns of the model of log |e|; ``errors`` are those of the nearest runs."""
    disagreement = np.sqrt(((each - values[:, None]) ** 2).mean(axis=1))
    return np.column_stack(
        [np.ones(len(values)), np.log(errors.mean(axis=1) + floor), np.log(distance + 1e-6),
         np.log(disagreement + floor)]
    )  # fmt: skip


def _betas(
    points: FloatArray, errors: FloatArray, fold: IntArray, each: FloatArray, chosen: FloatArray, weights: FloatArray,
    floor: float,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """β by least squares over the domain, none below zero but the first; and the expected error of each run."""
    features = np.empty((len(points), 4))
    for i in range(fold.max() + 1):
        held, others = np.flatnonzero(fold == i), np.flatnonzero(fold != i)
        distances, around = nearest(points[others], points[held], min(_AROUND, len(others)))
        features[held] = _features(errors[others][around], distances[:, 0], each[held], chosen[held], floor)
    target = np.log(errors + floor)
    middle, aim = weights @ features[:, 1:], float(weights @ target)
    roots = np.sqrt(weights)[:, None]
    slopes, _ = nnls(roots * (features[:, 1:] - middle), roots[:, 0] * (target - aim))
    betas = np.append(aim - middle @ slopes, slopes)
    return betas, np.exp(features @ betas)
