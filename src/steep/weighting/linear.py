"""Linear models that a search solves for all its weightings at once, instead of fitting them one by one.

Taken are scikit-learn's own ``Ridge`` (solved directly) and ``LogisticRegression`` (lbfgs, l2 penalty), alone or at
the end of a pipeline, whose other steps never see the weights and so are fitted once a training set. The estimator
itself is fitted once on all rows: where that fit disagrees with ours or ran out of iterations, as for any other
estimator or setting, nothing is solved here and every candidate is fitted.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline

from steep._sklearn import is_own_score, is_scorer, take_rows
from steep._validation import FloatArray, IntArray
from steep.convex import Inputs, LogisticProblem, solve_logistic, solve_ridge, to_probabilities
from steep.convex.logistic import FEW_PARAMETERS
from steep.convex.minimise import Solve
from steep.metrics import Scorer, quick_scores
from steep.weighting.candidates import finite_score
from steep.weighting.fitting import N_PARTS, deal, fit_weighted
from steep.weighting.weights import TrainingSet

# Wider problems have second derivatives that cost more than they save.
_MOST_FEATURES, _MOST_PARAMETERS = 300, 1000
# How far the estimator's own fit may be from ours: coefficients of ridge regression, relative to the largest, and
# probabilities on average, since lbfgs stops early where the loss is flat.
_COEFFICIENTS_AGREE, _PROBABILITIES_AGREE = 1e-6, 0.01
# Steps, relative to the largest coefficient, that end a solution, in units of the estimator's own ``tol``.
_FINER, _FINEST = 0.01, 1e-9

# Weights, and for classes probabilities, of problems that are solved together.
_RIDGE_TOGETHER, _LOGISTIC_TOGETHER = 2**20, 2**17


@dataclass(frozen=True)
class Linear:
    """A linear model of a training set: the estimator, not fitted, its last step, and the targets of all rows.

    ``classes`` are what codes in ``target`` stand for, None for numbers; ``numbers`` all rows, where nothing is done to
    them before the last step; ``start`` and ``solver`` the solution for equal weights on all rows and what solves its
    Hessian; ``own_fit`` the estimator itself, fitted on all rows with equal weights.
    """

    model: Any
    last: Any
    target: npt.NDArray[Any]
    classes: npt.NDArray[Any] | None
    numbers: FloatArray | None
    start: FloatArray | None = None
    solver: Solve | None = None
    own_fit: Any = None

    @classmethod
    def of(
        cls, model: Any, samples: TrainingSet, params: Mapping[str, Any], scorers: Mapping[str, Scorer]
    ) -> Self | None:
        """The model in this form; None where it must be fitted itself."""
        last = model.steps[-1][1] if type(model) is Pipeline and model.memory is None else model
        known = _is_ridge(last) or _is_logistic(last)
        asks_predictions = all(is_scorer(scorer) or is_own_score(scorer) for scorer in scorers.values())
        if params or not known or not asks_predictions:
            return None
        labels = samples.labels
        if (labels.codes is None) != _is_ridge(last) or (labels.codes is None and labels.n_columns > 1):
            return None
        target = labels.array[:, 0] if labels.codes is None else labels.codes
        numbers = _numbers(samples.X) if last is model else None
        if last is model and numbers is None:
            return None
        return cls(model, last, target, labels.classes, numbers)._started(samples)

    @property
    def is_exact(self) -> bool:
        """Whether the estimator's own solver gives the same answer to the last digits; lbfgs stops before."""
        return self.classes is None

    def _started(self, samples: TrainingSet) -> Self | None:
        """The same with a start, if the estimator's own fit agrees with it."""
        own = np.ones(len(samples)) if samples.sample_weight is None else samples.sample_weight
        fitted = clone(self.model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # then every candidate is fitted, and says so
            fit_weighted(fitted, samples.X, samples.y, own, {})
        last = fitted if self.last is self.model else fitted.steps[-1][1]
        X = self.numbers if self.numbers is not None else _numbers(fitted[:-1].transform(samples.X))
        if X is None or X.shape[1] > _MOST_FEATURES or last.coef_.size > _MOST_PARAMETERS:
            return None
        theirs = np.column_stack([np.atleast_2d(last.coef_), np.atleast_1d(last.intercept_)])
        if self.classes is None:
            ours = self.solve(X, self.target, own[None])
            apart = np.inf if ours is None else np.abs(ours[0] - theirs).max()
            return replace(self, own_fit=fitted) if apart <= _COEFFICIENTS_AGREE * np.abs(theirs).max() else None
        if np.max(last.n_iter_) >= last.max_iter:
            return None
        width = X.shape[1] + bool(last.fit_intercept)
        solver = self._logistic(X, self.target).solver(theirs[:, :width], 1.0, float(last.C) * own)
        started = replace(self, start=theirs[:, :width], solver=solver)
        ours = started.solve(X, self.target, own[None])
        if ours is None or np.abs(self._answers(X, ours[0]) - self._answers(X, theirs)).mean() > _PROBABILITIES_AGREE:
            return None
        return replace(started, start=ours[0, :, :width], own_fit=fitted)

    def _logistic(self, X: FloatArray, target: npt.NDArray[Any]) -> LogisticProblem:
        n_classes, bias = len(np.asarray(self.classes)), bool(self.last.fit_intercept)
        inputs, held = Inputs(X, np.zeros(X.shape[1]), 1.0, bias=bias), np.ones(X.shape[1] + bias)
        held[X.shape[1] :] = 0.0
        if n_classes == 2:
            return LogisticProblem(inputs, target[None].astype(np.float64), 1, held)
        return LogisticProblem(inputs, target, n_classes, held)

    def solve(
        self, X: FloatArray, target: npt.NDArray[Any], weights: FloatArray, near: FloatArray | None = None
    ) -> FloatArray | None:
        """Coefficients, intercept last, of every row of ``weights``, ``(n_problems, n_outputs, n_features + 1)``.

        None where no solution is found: a class without weight, columns other than the start's, or numbers of such
        different sizes that the equations are singular. ``near`` are solutions to begin with instead of the start.
        """
        if self.classes is None:
            try:
                alpha, fit_intercept = float(self.last.alpha), bool(self.last.fit_intercept)
                return solve_ridge(X, target, weights, alpha=alpha, fit_intercept=fit_intercept)[:, None, :]
            except np.linalg.LinAlgError:  # one huge cell swallows the digits of all others
                return None
        problem = self._logistic(X, target)
        if self.start is None or problem.shape != self.start.shape:
            return None
        start, tol = self.start if near is None else near, max(_FINER * self.last.tol, _FINEST)
        theta = solve_logistic(problem, float(self.last.C) * weights, start, self.solver, tol=tol)
        if theta is None or self.last.fit_intercept:
            return theta
        return np.concatenate([theta, np.zeros((*theta.shape[:2], 1))], axis=2)

    def inputs(self, samples: TrainingSet, train: IntArray, test: IntArray) -> tuple[FloatArray, FloatArray] | None:
        """Inputs of the last step for training and other rows; the steps before it are fitted to the first."""
        before = clone(self.model[:-1])
        X = _numbers(before.fit_transform(take_rows(samples.X, train), take_rows(samples.y, train)))
        others = _numbers(before.transform(take_rows(samples.X, test)))
        return None if X is None or others is None else (X, others)

    def solve_folds(
        self, samples: TrainingSet, splits: Sequence[tuple[IntArray, IntArray]], weights: Sequence[FloatArray]
    ) -> list[tuple[FloatArray | None, Any]]:
        """Solutions on the training rows of every split, None where they must be fitted, and inputs of the others."""
        if self.numbers is not None:
            thetas = self.solve_each([train for train, _ in splits], weights)
            return [(theta, self.numbers[test]) for theta, (_, test) in zip(thetas, splits, strict=True)]
        found: list[tuple[FloatArray | None, Any]] = []
        for (train, test), given in zip(splits, weights, strict=True):
            pair = self.inputs(samples, train, test)
            theta = None if pair is None else self.solve(pair[0], self.target[train], given)
            found.append((theta, None if pair is None else pair[1]))
        return found

    def solve_each(self, trains: Sequence[IntArray], weights: Sequence[FloatArray]) -> list[FloatArray | None]:
        """:meth:`solve` on several training sets, each with weights of its own.

        Small problems are solved together, as weights of all rows that are 0 outside the training set: a step in
        Python takes longer than what it computes. Large ones begin where the last one ended.
        """
        assert self.numbers is not None
        ends = np.cumsum([len(given) for given in weights])
        outputs = 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)
        most = _RIDGE_TOGETHER if self.classes is None else _LOGISTIC_TOGETHER
        # A row that is drawn twice has two weights.
        once = all(len(train) <= len(self.numbers) and np.bincount(train).max() <= 1 for train in trains)
        if once and ends[-1] * len(self.numbers) * outputs <= most:
            whole = np.zeros((ends[-1], len(self.numbers)))
            for end, train, given in zip(ends, trains, weights, strict=True):
                whole[end - len(given) : end, train] = given
            theta = self.solve(self.numbers, self.target, whole)
            if theta is not None:
                return list(np.split(theta, ends[:-1]))
        found: list[FloatArray | None] = []
        near: FloatArray | None = None
        for train, given in zip(trains, weights, strict=True):
            if near is not None and len(near) != len(given):
                near = None
            theta = self.solve(self.numbers[train], self.target[train], given, near)
            found.append(theta)
            # With many parameters a few rows decide, and the solution for equal weights on all rows is no farther.
            is_near = theta is not None and self.start is not None and self.start.size <= FEW_PARAMETERS
            near = theta[..., : self.start.shape[1]] if is_near else None  # type: ignore[index, union-attr]
        return found

    def cross_fitted(self, samples: TrainingSet, trains: Sequence[IntArray]) -> list[FloatArray | None]:
        """Predictions of every training set by fits to parts of it; see :func:`fitting.cross_fitted`."""
        parts, weights = [], []
        for inside in map(samples.rows, trains):
            part = np.unique(deal(inside.labels, N_PARTS, inside.groups), return_inverse=True)[1]
            own = 1.0 if inside.sample_weight is None else inside.sample_weight
            parts.append(part)
            weights.append(own * (part != np.arange(part.max() + 1)[:, None]))
        if self.numbers is None:
            return [self._part_by_part(samples, *given) for given in zip(trains, parts, weights, strict=True)]
        answers: list[FloatArray | None] = []
        for rows, part, theta in zip(trains, parts, self.solve_each(trains, weights), strict=True):
            if theta is None:
                answers.append(None)
            else:  # every row by the solution that left out its part
                raw = _raw(self.numbers[rows], theta)[part, :, np.arange(len(rows))]
                answers.append(self._to_answers(raw.T[None]))
        return answers

    def _part_by_part(
        self, samples: TrainingSet, rows: IntArray, part: IntArray, weights: FloatArray
    ) -> FloatArray | None:
        """The same where the steps before the last are fitted to every part's training rows."""
        predicted = np.empty((len(rows), 1 if self.classes is None else len(self.classes)))
        for number, given in enumerate(weights):
            kept = part != number
            pair = self.inputs(samples, rows[kept], rows[~kept])
            theta = None if pair is None else self.solve(pair[0], self.target[rows[kept]], given[None, kept])
            if pair is None or theta is None:
                return None
            predicted[~kept] = self._answers(pair[1], theta[0])
        return predicted

    def _answers(self, X: FloatArray, theta: FloatArray) -> FloatArray:
        """Predicted numbers, or a probability per class."""
        return self._to_answers(_raw(X, theta[None]))

    def _to_answers(self, raw: FloatArray) -> FloatArray:
        """Scores ``(1, n_outputs, n_samples)`` as numbers, or as a probability per class."""
        found = raw if self.classes is None else to_probabilities(raw, softmax=raw.shape[1] > 1)
        answers: FloatArray = found[0].T
        return np.hstack([1 - answers, answers]) if self.classes is not None and len(self.classes) == 2 else answers

    def scores(
        self, X: FloatArray, rows: IntArray, theta: FloatArray, scorers: Mapping[str, Scorer], samples: TrainingSet
    ) -> FloatArray:
        """Scores of every solution on some rows, whose inputs are ``X``; ``(n_problems, n_scorers)``."""
        target, own = self.target[rows], samples.sample_weight
        weight = None if own is None else own[rows]
        raw = _raw(X, theta)
        predicted: Any = raw[:, 0]
        if self.classes is not None:
            predicted = predicted > 0 if raw.shape[1] == 1 else raw.argmax(axis=1)
        columns = []
        for name, scorer in scorers.items():
            quick = quick_scores(scorer, target, predicted, weight, is_classifier=self.classes is not None)
            if quick is None or not np.isfinite(quick).all():
                kept = {} if weight is None else {"sample_weight": weight}
                y = take_rows(samples.y, rows)
                quick = np.array([finite_score(name, scorer, self.fitted(t), X, y, kept) for t in theta])
            columns.append(quick)
        return np.column_stack(columns)

    def fitted(self, theta: FloatArray) -> Any:
        """The last step with a solution in it, for scorers and thresholds."""
        model, coefficients, intercepts = clone(self.last), theta[:, :-1], theta[:, -1]
        model.n_features_in_ = coefficients.shape[1]
        if self.classes is None:
            model.coef_, model.intercept_ = coefficients[0], float(intercepts[0])
        else:
            model.coef_, model.intercept_, model.classes_ = coefficients, intercepts, self.classes
        return model


def _is_ridge(last: Any) -> bool:
    """Whether a step is a ridge regression whose solver finds the exact answer."""
    exact = type(last) is Ridge and last.solver in ("auto", "cholesky", "svd") and not last.positive
    return exact and _is_positive(last.alpha)


def _is_logistic(last: Any) -> bool:
    """Whether a step is a logistic regression by lbfgs with an l2 penalty and no weights of its own."""
    if type(last) is not LogisticRegression:
        return False
    params = last.get_params()
    return (
        params["solver"] == "lbfgs"
        and params.get("penalty", "l2") in ("l2", "deprecated")
        and params.get("l1_ratio") in (None, 0)
        and params.get("multi_class", "auto") in ("auto", "deprecated")
        and params["class_weight"] is None
        and not params["dual"]
        and not params["verbose"]
        and _is_positive(params["C"])
    )


def _is_positive(value: Any) -> bool:
    return isinstance(value, Real) and 0 < float(value) < np.inf


def _numbers(X: Any) -> FloatArray | None:
    """Dense numbers in double precision, as the estimator would use them; None for anything else."""
    if issparse(X):
        return None
    array = np.asarray(X)
    if array.ndim != 2 or array.dtype.kind not in "fiub" or array.dtype in (np.float16, np.float32):
        return None
    return np.ascontiguousarray(array, dtype=np.float64)


def _raw(X: FloatArray, theta: FloatArray) -> FloatArray:
    """Inputs times coefficients plus intercepts, ``(n_problems, n_outputs, n_samples)``."""
    n_problems, n_outputs, width = theta.shape
    raw: FloatArray = np.ascontiguousarray(theta[:, :, :-1]).reshape(-1, width - 1) @ X.T
    raw += theta[:, :, -1].reshape(-1, 1)
    return raw.reshape(n_problems, n_outputs, len(X))
