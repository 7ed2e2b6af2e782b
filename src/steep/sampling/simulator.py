"""The caller's function as a design calls it: all points at once, one by one, or by the names of its inputs.

A point that fails is noted and left out; a function that fails everywhere is an error. If it takes one point at a
time, joblib runs several at once: in processes, or on a cluster.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from steep._function import PassAs, calling_style, evaluate, format_point, function_values, output_rows, stack_rows
from steep._outputs import named_outputs
from steep._validation import FloatArray, check_choice, check_jobs
from steep.domain import Box
from steep.exceptions import FunctionError, warn_user

STYLES = ("auto", "array", "point", "keywords", "mapping")


class Simulator:
    """Evaluates points, counts them, and notes those that fail and why (``failed``, ``messages``).

    ``outputs`` are the names of the outputs, where the function returns a mapping.
    """

    def __init__(
        self, function: Callable[..., Any], box: Box, *, pass_as: PassAs = "auto", n_jobs: int | None = None
    ) -> None:
        check_jobs(n_jobs)
        self.n_jobs = n_jobs
        check_choice(pass_as, name="pass_as", choices=STYLES)
        self.style = calling_style(function, box.names, pass_as)
        self.function, self.box = function, box
        self.outputs: tuple[str, ...] | None = None
        self.failed: list[FloatArray] = []
        self.messages: list[str] = []
        self.n_evaluations = 0
        self._n_outputs: int | None = None

    def __call__(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The points that worked, and their labels ``(n_points, n_outputs)``."""
        self.n_evaluations += len(X)
        if self.style == "array":
            return self._at_once(X)
        return self._one_by_one(X, self._answers(X))

    def everywhere(self, X: FloatArray) -> FloatArray:
        """Labels of all points; one that fails is an error, as where a measure compares them."""
        if self.style == "array":
            return evaluate(lambda points: self._values(self.function(points)), X)
        return evaluate(lambda points: stack_rows([self._row(answer) for answer in self._answers(points)]), X)

    def warn_failed(self, n_worked: int) -> None:
        """Say how many points failed, if any."""
        if n_failed := len(self.failed):
            warn_user(
                f"function failed at {n_failed} of {n_failed + n_worked} points, which are left out, first at "
                f"{format_point(self.failed[0])}: {self.messages[0]}; call it at that point to see why"
            )

    def _answers(self, X: FloatArray) -> list[Any]:
        """What the function answers at each point, errors included; several points at once if joblib says so."""
        points = self.box.decode(X) if self.style in ("keywords", "mapping") else [x.copy() for x in X]
        jobs = (delayed(_answer)(self.function, point, self.style == "keywords") for point in points)
        found: list[Any] = Parallel(self.n_jobs)(jobs)
        return found

    def _row(self, answer: Any) -> FloatArray:
        """Values of one point; what the function raised there is raised here."""
        if isinstance(answer, _Raised):
            raise answer.error
        return np.ravel(function_values(self._values(answer), "function"))

    def _at_once(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        try:
            raw = self.function(X.copy())
        except Exception as error:
            if len(X) == 1 and self._n_outputs is not None:
                self._fail(X[0], error)
                return X[:0], np.empty((0, self._n_outputs))
            return self._parts(X, error)
        return self._finite(X, output_rows(function_values(self._values(raw), "function"), len(X)))

    def _parts(self, X: FloatArray, error: Exception) -> tuple[FloatArray, FloatArray]:
        """One point may spoil the call for all: each by itself, until it is clear that all fail."""
        if len(X) == 1:
            raise error
        one = lambda x: np.ravel(function_values(self._values(self.function(x[None].copy())), "function"))  # noqa: E731
        try:
            self.n_evaluations += len(X)
            return self._one_by_one(X, [_answer(one, x, False) for x in X])
        except FunctionError:
            raise error from None

    def _finite(self, X: FloatArray, labels: FloatArray) -> tuple[FloatArray, FloatArray]:
        worked = np.isfinite(labels).all(axis=1)
        if not worked.any() and self._n_outputs is None:
            self._give_up(X, "NaN or infinity")
        self._n_outputs = labels.shape[1]
        for x in X[~worked]:
            self._fail(x, "NaN or infinity")
        return X[worked], labels[worked]

    def _values(self, raw: Any) -> Any:
        """Numbers of an answer: outputs that have names in the order of the first answer, one column for each."""
        try:
            named = named_outputs(raw)
        except ValueError as error:
            raise FunctionError(f"function returned outputs that look the same: {error}") from error
        if named is None:
            return raw
        if self.outputs is None:
            self.outputs = tuple(named)
        if set(named) != set(self.outputs):
            raise FunctionError(
                f"function returned the outputs {sorted(named)} after {sorted(self.outputs)}; expected the same names "
                "at every point"
            )
        return np.stack([function_values(named[name], f"output {name!r}") for name in self.outputs], axis=-1)

    def _one_by_one(self, X: FloatArray, answers: list[Any]) -> tuple[FloatArray, FloatArray]:
        rows, kept = [], []
        first: Exception | None = None
        for i, (x, answer) in enumerate(zip(X, answers, strict=True)):
            try:
                row = self._row(answer)
            except Exception as error:
                first = first or error
                self._fail(x, error)
                continue
            if np.isfinite(row).all():
                rows.append(row)
                kept.append(i)
            else:
                self._fail(x, "NaN or infinity")
        labels = stack_rows(rows, self._n_outputs)
        if not rows:
            if self._n_outputs is None:
                self._give_up(X, self.messages[0], first)
            return X[:0], np.empty((0, self._n_outputs or 0))
        self._n_outputs = labels.shape[1]
        return X[kept], labels

    def _fail(self, x: FloatArray, reason: Exception | str) -> None:
        self.failed.append(x.copy())
        self.messages.append(reason if isinstance(reason, str) else f"{type(reason).__name__}: {reason}")

    def _give_up(self, X: FloatArray, message: str, cause: Exception | None = None) -> None:
        if isinstance(cause, FunctionError):
            raise cause
        raise FunctionError(
            f"function failed at all {len(X)} points of the start, first at {format_point(X[0])}: {message}; fix it or "
            "shrink the bounds"
        ) from cause


class _Raised:
    """What the function raised at a point, on its way back from wherever it ran."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __reduce__(self) -> tuple[Any, ...]:
        """As it is where it can be sent, else by its words."""
        try:
            pickle.loads(pickle.dumps(self.error))
        except Exception:
            return _Raised, (FunctionError(f"{type(self.error).__name__}: {self.error}"),)
        return _Raised, (self.error,)


def _answer(function: Callable[..., Any], point: Any, as_keywords: bool) -> Any:
    try:
        return function(**point) if as_keywords else function(point)
    except Exception as error:
        return _Raised(error)
