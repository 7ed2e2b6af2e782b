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
        if self.style != "array":
            return self._worked(X, self._rows(X))
        try:
            raw = self.function(X.copy())
        except Exception as error:
            if len(X) == 1:
                if self._n_outputs is None:
                    raise
                return self._worked(X, [error])
            # One point may spoil the call for all: each by itself, until it is clear that all fail.
            self.n_evaluations += len(X)
            try:
                return self._worked(X, [self._row(_answer(self.function, x[None].copy(), False)) for x in X])
            except FunctionError:
                raise error from None
        return self._worked(X, list(output_rows(function_values(self._values(raw), "function"), len(X))))

    def everywhere(self, X: FloatArray) -> FloatArray:
        """Labels of all points; one that fails is an error, as where a measure compares them."""
        if self.style == "array":
            return evaluate(lambda points: self._values(self.function(points)), X)

        def rows(points: FloatArray) -> FloatArray:
            found = self._rows(points)
            for row in found:
                if isinstance(row, Exception):
                    raise row
            return stack_rows(found)  # type: ignore[arg-type]

        return evaluate(rows, X)

    def warn_failed(self, n_worked: int) -> None:
        """Say how many points failed, if any."""
        if n_failed := len(self.failed):
            warn_user(
                f"function failed at {n_failed} of {n_failed + n_worked} points, which are left out, first at "
                f"{format_point(self.failed[0])}: {self.messages[0]}; call it at that point to see why"
            )

    def _rows(self, X: FloatArray) -> list[FloatArray | Exception]:
        """Values at each point, or what was raised there; several points at once if joblib says so."""
        points = self.box.decode(X) if self.style in ("keywords", "mapping") else [x.copy() for x in X]
        jobs = (delayed(_answer)(self.function, point, self.style == "keywords") for point in points)
        return [self._row(answer) for answer in Parallel(self.n_jobs)(jobs)]

    def _row(self, answer: Any) -> FloatArray | Exception:
        if isinstance(answer, _Raised):
            return answer.error
        try:
            return np.ravel(function_values(self._values(answer), "function"))
        except Exception as error:
            return error

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

    def _worked(self, X: FloatArray, rows: list[FloatArray | Exception]) -> tuple[FloatArray, FloatArray]:
        """The points that worked and their labels; the others are noted, and all of the first ones are an error."""
        errors = [row for row in rows if isinstance(row, Exception)]
        labels, kept = [], []
        for i, row in enumerate(rows):
            if not isinstance(row, Exception) and np.isfinite(row).all():
                labels.append(row)
                kept.append(i)
            else:
                self.failed.append(X[i].copy())
                what = f"{type(row).__name__}: {row}" if isinstance(row, Exception) else "NaN or infinity"
                self.messages.append(what)
        if not kept and self._n_outputs is None:
            if errors and isinstance(errors[0], FunctionError):
                raise errors[0]
            raise FunctionError(
                f"function failed at all {len(X)} points of the start, first at {format_point(X[0])}: "
                f"{self.messages[0]}; fix it or shrink the bounds"
            ) from (errors[0] if errors else None)
        found = stack_rows(labels, self._n_outputs)
        self._n_outputs = found.shape[1]
        return X[kept], found


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
