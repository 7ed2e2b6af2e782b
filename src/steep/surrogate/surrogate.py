"""Surrogate: a fast replacement of a simulator, with an error that is measured on runs it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin

from steep._blas import one_blas_thread
from steep._outputs import labelled
from steep._validation import (
    FloatArray,
    IntArray,
    Seed,
    check_flag,
    check_generator,
    check_numbers,
    check_points,
    check_real,
    check_size,
    shown,
)
from steep.domain import Bounds, Box
from steep.exceptions import InputError, InputTypeError
from steep.labels import deviations
from steep.neighbors.query import nearest
from steep.sampling.design import Design
from steep.sampling.evaluated import squeezed
from steep.surrogate import _file
from steep.surrogate._blend import Blend, blend, constant
from steep.surrogate._candidates import CANDIDATES
from steep.surrogate.certificate import Certificate, Density, certify, interval_factor

# Points that the domain is measured by.
_DOMAIN = 1024
# Fewest runs a model is fitted to: 2 (d + 1), and at least as many as this.
_FEWEST = 10
# Digits by which a point on the edge may lie outside.
_ROUNDING = 1e-9


class Surrogate(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor that replaces a simulator, chosen by cross-validation and certified on runs it has not seen.

    For each output several models are compared: Gaussian processes with one length per input, a cubic interpolant,
    gradient boosting and small networks; an average is taken where it wins.

    Parameters
    ----------
    bounds : mapping of name to (low, high), Log, Integer or Category; or a list; or Box; optional
        The domain. Default that of the design or campaign, or the smallest box around the rows of a table.
    candidates : sequence of str, default ("rough", "smooth", "cubic", "boosting", "network")
        Models to choose from: Gaussian processes of Matérn 5/2 ("rough") and Gaussian ("smooth") kernels, ….
    check_share : float, default 0.2
        Share of the runs held out for the certificate, where the runs have no check runs of their own.
    random_state : int, Generator or None
        Seed of the folds, the held-out runs, trees and networks.

    Attributes
    ----------
    certificate : Certificate
        RMSE with interval, 95th percentile and largest error of each output.
    box : Box
        The domain.
    outputs : tuple of str
        Names of the outputs.
    X_, y_, X_check_, y_check_, check_weights_ : ndarray
        The runs it was fitted to, its check runs, and the part of the domain that each of these stands for (mean 1).
    scores_ : list of dict
        For each output the cross-validated RMSE of each candidate, in deviations of the output.

    Examples
    --------
    >>> import steep
    >>> X = np.random.default_rng(0).random((80, 2))
    >>> model = steep.Surrogate([(0, 1), (0, 1)], candidates=["smooth"], random_state=0).fit(X, np.sin(3 * X[:, 0]))
    >>> bool(abs(model.predict([[0.5, 0.5]])[0] - np.sin(1.5)) < 0.01)
    True
    """

    def __init__(
        self,
        bounds: Bounds | Box | None = None,
        *,
        candidates: Any = CANDIDATES,
        check_share: float = 0.2,
        random_state: Seed = None,
    ) -> None:
        self.bounds = bounds
        self.candidates = candidates
        self.check_share = check_share
        self.random_state = random_state

    stop_reason: str | None = None

    # ---------------------------------------------------------------- fitting

    @one_blas_thread()
    def fit(self, X: Any, y: Any = None, *, check: Any = None) -> Self:
        """Fit, choose and certify.

        Parameters
        ----------
        X : Design, Campaign, or array-like of shape (n_samples, n_features), DataFrame or mapping
            Runs, or their inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), DataFrame or mapping
            Their outputs, if ``X`` holds only inputs.
        check : array-like of bool of shape (n_samples,), optional
            Runs of the certificate: drawn evenly over the domain for no other purpose. Default those that the design or
            campaign made, or a part of the even runs, or of all rows.
        """
        kinds = _checked_kinds(self.candidates)
        share = check_real(self.check_share, name="check_share", above=0.0, maximum=0.9)
        generator = check_generator(self.random_state)
        X = X.to_design() if hasattr(X, "to_design") else X
        box, points, labels, names, even, own = self._runs(X, y)
        independent = check is not None or own is not None
        held = own if check is None else np.asarray(check)
        if held is not None and (held.shape != (len(points),) or held.dtype != bool):
            raise InputError(
                f"check is {held.dtype} of shape {held.shape}; expected a boolean for each of {len(points)} runs"
            )
        if held is None:
            rows = np.flatnonzero(even)
            held = np.zeros(len(points), dtype=bool)
            held[generator.permutation(rows)[: max(1, round(share * len(rows)))]] = True
        self._train(box, points[~held], labels[~held], names, generator, kinds)
        look = 1 + (X.n_looks if isinstance(X, Design) else 0)
        return self._certify(points[held], labels[held], independent=independent, look=look)

    @one_blas_thread()
    def _train(
        self,
        box: Box,
        X: FloatArray,
        labels: FloatArray,
        names: Sequence[str],
        generator: np.random.Generator,
        kinds: tuple[str, ...] = CANDIDATES,
        groups: IntArray | None = None,
    ) -> Self:
        """Choose and fit a model for each output."""
        least = max(_FEWEST, 2 * (box.n_features + 1))
        if len(X) < least:
            raise InputError(
                f"{len(X)} runs are left to fit {box.n_features} inputs when check runs are set aside; expected "
                f"at least {least}; make more runs"
            )
        self.box, self.outputs, self.n_features_in_ = box, tuple(names), box.n_features
        domain = box.every_point() if box.n_points <= _DOMAIN else box.sobol(_DOMAIN, random_state=0)
        unit = box.embed(box.unit(X))
        cells = np.bincount(nearest(unit, box.embed(box.unit(domain)))[1][:, 0], minlength=len(unit)) + 0.1
        seed = int(generator.integers(2**31))
        varies = np.isfinite(deviations(labels))
        self.blends_: list[Blend] = [
            blend(unit, column, cells, kinds, seed, groups) if moves else constant(float(column.mean()), unit)
            for column, moves in zip(labels.T, varies, strict=True)
        ]
        self.scores_ = [one.scores for one in self.blends_]
        values, sizes = self._both(domain)
        self._spread = np.where(varies, values.std(axis=0), 0.0)
        self.X_, self.y_, self._density = X, labels, Density.of(sizes)
        return self

    @one_blas_thread()
    def _certify(
        self, X: FloatArray, labels: FloatArray, *, independent: bool, look: int = 1, weights: FloatArray | None = None
    ) -> Self:
        """Measure the error on check runs, drawn evenly or with these weights."""
        if not len(X):
            raise InputError("there is no check run; expected at least one; raise check_share or make more runs")
        predicted, sizes = self._both(X)
        errors = np.abs(labels - predicted)
        # An output that is constant up to rounding has no error but that rounding.
        rounded = (self._spread == 0) & (errors <= 1e-9 * np.abs(predicted))
        errors = np.where(rounded, 0.0, errors)
        self._ratios = errors / np.where(sizes > 0, sizes, 1.0)
        self.check_weights_ = np.ones(len(X)) if weights is None else weights
        others = self._largest(weighted=bool((self.check_weights_ != 1).any()))
        self.certificate: Certificate = certify(
            errors, self.check_weights_, others, self._spread, self.outputs,
            n_runs=len(self.X_) + len(X), look=look, independent=independent,
        )  # fmt: skip
        self.X_check_, self.y_check_ = X, labels
        return self

    def _largest(self, *, weighted: bool) -> FloatArray:
        """For each output the largest error by cross-validation, and the largest weighted squared one."""
        errors = np.column_stack([one.deviation * one.errors for one in self.blends_])
        sizes = np.column_stack([one.deviation * one.sizes for one in self.blends_])
        weights = 1 / self._density.at(sizes) if weighted else np.ones(len(errors))
        return np.vstack([errors.max(axis=0), (weights[:, None] * errors**2).max(axis=0)])

    def _runs(
        self, X: Any, y: Any
    ) -> tuple[Box, FloatArray, FloatArray, tuple[str, ...], npt.NDArray[np.bool_], npt.NDArray[np.bool_] | None]:
        """Domain, points, labels, names of outputs, which runs are even, and check runs if there are any."""
        plan: Design | None = X if isinstance(X, Design) else None
        if plan is not None:
            if y is not None:
                raise InputTypeError("y was passed with a design or a campaign, which holds its outputs; leave it out")
            box = plan.box if self.bounds is None else Box(self.bounds)
            points, labels, names = plan.X, plan.labels, plan.output_names
            even = plan.is_even
            own = plan.is_check if plan.is_check is not None and plan.is_check.any() else None
            return box, points, labels, names, even, own
        if y is None:
            raise InputTypeError(f"X is a {type(X).__name__} without outputs; pass y, a Design or a Campaign")
        box = _box_around(X) if self.bounds is None else Box(self.bounds)
        points = np.asarray(box.points(X), dtype=np.float64)
        labels, names = _labels(y, len(points))
        inside = box.contains(points)
        if not inside.all():
            raise InputError(
                f"{int((~inside).sum())} of {len(points)} rows of X lie outside the bounds, first row "
                f"{int(np.argmin(inside))}; expected rows inside; widen the bounds or drop these rows"
            )
        return box, points, labels, names, np.ones(len(points), dtype=bool), None

    # ---------------------------------------------------------------- predicting

    @one_blas_thread()
    def predict(self, X: Any, return_error: bool = False, *, confidence: float = 0.9, extrapolate: bool = False) -> Any:
        """Outputs at new points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), DataFrame or mapping
            Points of the domain; with names in any order.
        return_error : bool, default False
            Return the half-widths of the intervals as well.
        confidence : float, default 0.9
            Share of the domain, on average, whose truth the intervals hold.
        extrapolate : bool, default False
            Answer outside the bounds too, where no error is known (half-widths are infinite).

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs); with ``return_error`` a pair of them
        """
        self._check_fitted()
        points = np.asarray(self.box.points(X), dtype=np.float64)
        outside = ~self._covers(points)
        if outside.any() and not check_flag(extrapolate, name="extrapolate"):
            first = int(np.argmax(outside))
            raise InputError(
                f"row {first} of X lies outside the domain {shown(self.box)} ({int(outside.sum())} of {len(points)} "
                "rows); expected points inside; pass extrapolate=True to predict without a known error"
            )
        if not check_flag(return_error, name="return_error"):
            unit = self.box.embed(self.box.unit(points))
            return squeezed(np.column_stack([one.predict(unit) for one in self.blends_]))
        values, sizes = self._both(points)
        share = check_real(confidence, name="confidence", above=0.0, maximum=1.0)
        halves = sizes * [interval_factor(column, self.check_weights_, share) for column in self._ratios.T]
        halves[outside] = np.inf
        return squeezed(values), squeezed(halves)

    def _covers(self, points: FloatArray) -> npt.NDArray[np.bool_]:
        """Which points are of the domain, up to rounding on its edges."""
        room = _ROUNDING * self.box.width
        edges = np.clip(points, self.box.lower, self.box.upper)
        near: npt.NDArray[np.bool_] = np.all(np.abs(points - edges) <= room, axis=1)
        return near & self.box.contains(np.where(near[:, None], edges, points))

    def _both(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values and expected errors."""
        unit = self.box.embed(self.box.unit(points))
        pairs = [one.predict_both(unit) for one in self.blends_]
        return np.column_stack([pair[0] for pair in pairs]), np.column_stack([pair[1] for pair in pairs])

    def _check_fitted(self) -> None:
        if not hasattr(self, "blends_"):
            raise InputError("the surrogate is not fitted yet; call fit(X, y) first")

    # ---------------------------------------------------------------- files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model, its runs and its certificate to one file, without pickle; the file is written whole."""
        self._check_fitted()
        _file.write(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Surrogate:
        """Read what :meth:`save` wrote; nothing in a file is ever run."""
        model = cls()
        _file.read(model, path)
        return model

    def __repr__(self) -> str:
        if not hasattr(self, "blends_"):
            return str(super().__repr__())
        return (
            f"Surrogate of {', '.join(self.outputs)} over {', '.join(self.box.names)}: {self.certificate.n_runs:,} runs"
        )


def _checked_kinds(candidates: Any) -> tuple[str, ...]:
    kinds = (candidates,) if isinstance(candidates, str) else tuple(candidates)
    if not kinds or any(kind not in CANDIDATES for kind in kinds):
        raise InputError(f"candidates={shown(candidates)} is unknown; expected some of {', '.join(CANDIDATES)}")
    return tuple(kind for kind in CANDIDATES if kind in kinds)


def _box_around(X: Any) -> Box:
    """The smallest box around the rows of a table."""
    named = labelled(X)
    points = check_points(X if named is None else np.column_stack([column for _, column in named]))
    names = [f"x{i}" for i in range(points.shape[1])] if named is None else [name for name, _ in named]
    ends = zip(names, points.min(axis=0).tolist(), points.max(axis=0).tolist(), strict=True)
    return Box({name: (low, high) for name, low, high in ends})


def _labels(y: Any, n: int) -> tuple[FloatArray, tuple[str, ...]]:
    """Outputs as ``(n, n_outputs)``, and their names."""
    named = labelled(y) if not hasattr(y, "index") or getattr(y, "ndim", 2) == 2 else None
    values = np.column_stack([column for _, column in named]) if named is not None else y
    labels = check_numbers(values, name="y")
    check_size(labels, "y")
    labels = labels.reshape(len(labels), -1) if labels.ndim in (1, 2) else labels
    if labels.ndim != 2 or len(labels) != n:
        raise InputError(f"y has shape {labels.shape}; expected ({n},) or ({n}, n_outputs), one row per row of X")
    if named is not None:
        return labels, tuple(name for name, _ in named)
    return labels, ("y",) if labels.shape[1] == 1 else tuple(f"y{i}" for i in range(labels.shape[1]))
