"""hybrid: a simulator answered by its surrogate where that is close enough, by itself elsewhere, and always checked.

    answered by the model    κ s(x) ≤ tolerance for every output, s the expected error
    checked                  each such answer with probability p, by a coin that is independent of everything else
    κ                        up after a check that was off, the more the further; a little down after one that was not;
                             towards the usual ratio of error and s wherever the model was not sure

The model is fitted again when there are enough more runs and they took the simulator longer than the last fit took.

Let Z_t say whether answer t is off by more than the tolerance and c_t whether it was checked. Whatever the order of the
calls, also one chosen to do harm, for every λ > 0

    M_T = Π_t exp(−λ c_t Z_t) / (1 − p (1 − e^−λ))^Z_t

is a martingale, and M_T < 1/α for all T at once with probability 1 − α. With K answers found to be off this bounds how
many there are, checked ones among them: ΣZ_t ≤ (log 1/α + λ K) / −log(1 − p (1 − e^−λ)).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steep._blas import one_blas_thread
from steep._function import PassAs
from steep._validation import FloatArray, IntArray, Seed, check_generator, check_real, shown
from steep.exceptions import FunctionError, InputError, InputTypeError
from steep.sampling.evaluated import squeezed
from steep.sampling.simulator import Simulator
from steep.surrogate.certificate import ALPHA
from steep.surrogate.surrogate import Surrogate, _checked_kinds

Mask = npt.NDArray[np.bool_]

# λ that α is shared by: infinity counts only as long as nothing was off.
_LAMBDAS = (np.inf, 3.0, 1.0, 0.3, 0.1)
# κ begins with the largest ratio of error and s of a check run, times this.
_MARGIN = 1.5
# Step of log κ after a check that was off; the share of the risk that κ settles at.
_STEP, _AIM = 0.7, 0.3
# Share of the simulator's answers with errors above κ s that κ moves to; step for each, largest step, limits of κ.
_ABOVE, _SLOW, _JUMP, _LIMITS = 0.03, 0.1, 0.35, (1e-6, 1e6)
# A refit needs this many times the runs, and the last fit's time in the simulator; most runs, and of a call in a fold.
_REFIT, _PATIENCE, _MOST, _GROUP = 1.25, 1.0, 3000, 50


@dataclass(frozen=True)
class HybridReport:
    """What a hybrid did: calls in all, answered by the model, by the simulator, and checked.

    ``share`` of the model's answers is estimated to be off by more than the tolerance; it is at most ``bound`` with
    95 % confidence, at any time and in any order of calls. ``is_slower``: the model, asked for at
    least a second in all, takes longer than the simulator.

    Examples
    --------
    >>> print(HybridReport(100, 90, 15, 5, 0, 0.0, 0.4, tolerance=0.1, risk=0.01))
    100 calls: 90 answered by the model, 15 by the simulator, 5 answers checked
    0 of them off by more than 0.1; of all answers of the model at most 40 % (95 %), not yet within the risk of 1 %
    """

    n_calls: int
    n_model: int
    n_simulated: int
    n_checked: int
    n_off: int
    share: float
    bound: float
    tolerance: float
    risk: float
    is_slower: bool = False

    def __str__(self) -> str:
        advice = "\nthe model takes longer than the simulator; call the simulator itself" if self.is_slower else ""
        state = "within" if self.bound <= self.risk else "not yet within"
        return (
            f"{self.n_calls:,} calls: {self.n_model:,} answered by the model, {self.n_simulated:,} by the simulator, "
            f"{self.n_checked:,} answers checked\n{self.n_off} of them off by more than {self.tolerance:g}; of all "
            f"answers of the model at most {100 * self.bound:.3g} % (95 %), {state} the risk of {100 * self.risk:.3g} %"
            + advice
        )


class Hybrid:
    """A simulator that answers from its surrogate where it can; made by :func:`hybrid`.

    Attributes
    ----------
    model : Surrogate
        The surrogate that answers now.

    Examples
    --------
    >>> import steep
    >>> f = lambda X: 3 * X[:, 0]
    >>> X = np.random.default_rng(0).random((60, 1))
    >>> fast = steep.hybrid(f, steep.Surrogate([(0, 1)], random_state=0).fit(X, f(X)), 0.1, random_state=0)
    >>> bool(abs(fast([[0.5]])[0] - 1.5) < 0.1), fast.report().n_calls
    (True, 1)
    """

    def __init__(
        self, simulator: Simulator, model: Surrogate, tolerance: FloatArray, risk: float, check_share: float,
        store: Any, generator: np.random.Generator,
    ) -> None:  # fmt: skip
        self._simulator, self.model, self._tolerance = simulator, model, tolerance
        self._risk, self._p, self._store, self._generator = risk, check_share, store, generator
        self._kappa = _MARGIN * model._ratios.max(axis=0)
        self._lock, self._running = threading.RLock(), threading.Lock()
        # Trees are slow to fit; they stay only where they were chosen.
        left_out = {"boosting"} - {member.kind for one in model.blends_ for member in one.members}
        self._kinds = tuple(one for one in _checked_kinds(model.candidates) if one not in left_out) or ("boosting",)
        # Inputs, outputs, and groups of neighbours of one call, which say little about other calls.
        self._runs: list[tuple[FloatArray, FloatArray, IntArray]] = [(model.X_, model.y_, -np.arange(len(model.X_)))]
        self._n_runs, self._n_fitted, self._patience = len(model.X_), len(model.X_), _PATIENCE
        # Seconds: of the last fit, of the simulator since then, of it in all, of all predictions.
        self._fitting = self._unused = self._simulating = self._predicting = 0.0
        # Calls, those answered by the model and by the simulator, answers checked, and found to be off.
        self._counts = [0] * 5

    def __call__(self, X: Any) -> Any:
        """Outputs at some points, as the simulator gives them; points outside the domain are simulated."""
        model = self.model
        points = np.asarray(model.box.points(X), dtype=np.float64)
        inside = model._covers(points)
        values, sizes = (np.full((len(points), len(model.outputs)), np.inf) for _ in range(2))
        began = time.perf_counter()
        if inside.any():
            with one_blas_thread():
                values[inside], sizes[inside] = model._both(points[inside])
        predicting = time.perf_counter() - began
        by_model = np.all(self._kappa * sizes <= self._tolerance, axis=1)
        with self._lock:
            checked = by_model & (self._generator.random(len(points)) < self._p)
        asked = ~by_model | checked
        truth = self._simulate(points[asked])
        with self._lock:
            off = np.zeros(len(points), dtype=bool)
            errors = np.abs(values[asked] - truth)
            off[asked] = (errors > self._tolerance).any(axis=1) & checked[asked]
            above = (errors > self._kappa * sizes[asked])[(inside & ~by_model)[asked]]
            step = np.clip(_SLOW * (above - _ABOVE).sum(axis=0), -_JUMP, _JUMP)
            self._kappa = np.clip(self._kappa * np.exp(step), *_LIMITS)
            for ratio in errors[off[asked]] / (sizes[off] + 1e-300):
                # A model that is far off is dropped after a few checks, however sure it was.
                self._kappa = np.maximum(self._kappa * np.exp(_STEP), np.sqrt(self._kappa * ratio))
            self._kappa = self._kappa * np.exp(-_STEP * _AIM * self._risk * int(checked.sum()))
            counted = (np.ones_like(off), by_model, asked, checked, off)
            self._counts = [n + int(mask.sum()) for n, mask in zip(self._counts, counted, strict=True)]
            self._predicting += predicting
            values[asked] = truth
            if len(truth):
                self._learn(points[asked], truth, inside[asked] & (~by_model | off)[asked])
        return squeezed(values)

    def _simulate(self, points: FloatArray) -> FloatArray:
        if not len(points):
            return np.empty((0, len(self.model.outputs)))
        # A user's function need not be safe to call twice at once.
        with self._running:
            began = time.perf_counter()
            truth = self._simulator.everywhere(points)
            seconds = time.perf_counter() - began
            self._unused, self._simulating = self._unused + seconds, self._simulating + seconds
        if truth.shape[1] != len(self.model.outputs):
            raise FunctionError(
                f"simulator returned {truth.shape[1]} outputs; the model has {len(self.model.outputs)}: "
                f"{', '.join(self.model.outputs)}; fit the model to what the simulator returns now"
            )
        return truth

    def _learn(self, points: FloatArray, truth: FloatArray, fresh: Mask) -> None:
        """Keep the answers of the simulator, and fit the model again when there are enough new ones."""
        if self._store is not None:
            self._store.tell(points, truth)
        if not fresh.any():
            return
        self._runs.append((points[fresh], truth[fresh], self._counts[0] + np.arange(fresh.sum()) // _GROUP))
        self._n_runs += int(fresh.sum())
        if self._n_runs < _REFIT * self._n_fitted or self._unused < self._patience * self._fitting:
            return
        began, old = time.perf_counter(), self.model
        X, labels, calls = (np.concatenate(parts) for parts in zip(*self._runs, strict=True))
        self._runs, self._n_fitted = [(X, labels, calls)], len(X)
        drawn = self._generator.permutation(len(X))[:_MOST]
        rows = drawn[np.unique(X[drawn], axis=0, return_index=True)[1]]
        model = Surrogate(old.box)
        model._train(old.box, X[rows], labels[rows], old.outputs, self._generator, self._kinds, calls[rows])
        known = old.certificate
        self.model = model._certify(
            old.X_check_, old.y_check_, independent=known.independent, look=known.look + 1, weights=old.check_weights_
        )
        self._fitting, self._unused = time.perf_counter() - began, 0.0

    def report(self) -> HybridReport:
        """How many answers came from where, and how many of the model's are off, with a bound."""
        with self._lock:
            n, n_model, n_simulated, n_checked, n_off = self._counts
            share = n_off / n_checked if n_checked else float("nan")
            bound = _most_off(n_off, self._p, n_model) / n_model if n_model else 0.0
            is_slower = self._predicting > 1.0 and self._predicting * n_simulated > self._simulating * n > 0
            tolerance = float(self._tolerance.min())
        return HybridReport(n, n_model, n_simulated, n_checked, n_off, share, bound, tolerance, self._risk, is_slower)


def _most_off(n_found: int, p: float, n: int) -> float:
    """The largest number of answers that may be off, by the martingales of all λ."""
    rates = np.array(_LAMBDAS[1:] if n_found else _LAMBDAS)
    costs = np.log(len(_LAMBDAS) / ALPHA) + (rates * n_found if n_found else 0.0)
    with np.errstate(divide="ignore"):  # p = 1
        return float(min((costs / -np.log1p(-p * (1 - np.exp(-rates)))).min(), n))


def hybrid(
    simulator: Callable[..., Any],
    model: Surrogate,
    tolerance: Any,
    risk: float = 1e-3,
    *,
    check_share: float = 0.01,
    store: Any = None,
    pass_as: PassAs = "auto",
    n_jobs: int | None = None,
    random_state: Seed = None,
) -> Hybrid:
    """Answer calls of a simulator from its surrogate where the expected error allows it, and run it elsewhere.

    Parameters
    ----------
    simulator : callable
        f, called as by :func:`steep.design`.
    model : Surrogate
        A fitted surrogate of it; it is replaced by better ones as the simulator is run.
    tolerance : float or array-like of shape (n_outputs,)
        Largest error of an answer, in the units of the outputs.
    risk : float, default 1e-3
        Share of the model's answers that may be off by more.
    check_share : float, default 0.01
        Share of the model's answers that are checked, always. Bounding a risk takes about 5 / (risk · check_share)
        answers of the model.
    store : Campaign, optional
        Campaign that stores the answers of the simulator.
    random_state : int, Generator or None
        Seed of the checks.

    Other Parameters
    ----------------
    pass_as, n_jobs
        See :func:`steep.design`.

    Returns
    -------
    Hybrid
        Call it as ``fast(X)``; ``print(fast.report())``. It may be called from several threads.

    Examples
    --------
    >>> import steep
    >>> f = lambda X: np.sin(3 * X[:, 0]) * X[:, 1]
    >>> model = steep.emulate(f, [(0, 1), (0, 1)], tolerance=0.05, max_runs=150, random_state=0)
    >>> fast = steep.hybrid(f, model, tolerance=0.05, random_state=0)
    >>> fast([[0.5, 0.5]]).shape
    (1,)
    """
    if not isinstance(model, Surrogate):
        raise InputTypeError(f"model is a {type(model).__name__}; expected a steep.Surrogate that is fitted")
    model._check_fitted()
    sizes = np.atleast_1d(np.asarray(tolerance, dtype=np.float64))
    n_outputs = len(model.outputs)
    if sizes.shape not in ((1,), (n_outputs,)) or not (np.isfinite(sizes).all() and (sizes > 0).all()):
        raise InputError(f"tolerance={shown(tolerance)} is invalid; expected a number > 0, or one for each output")
    risk = check_real(risk, name="risk", above=0.0, maximum=1.0)
    share = check_real(check_share, name="check_share", above=0.0, maximum=1.0)
    if store is not None and not hasattr(store, "tell"):
        raise InputTypeError(f"store is a {type(store).__name__}; expected a Campaign")
    simulating = Simulator(simulator, model.box, pass_as=pass_as, n_jobs=n_jobs)
    simulating.outputs = model.outputs
    generator = check_generator(random_state)
    return Hybrid(simulating, model, np.broadcast_to(sizes, (n_outputs,)), risk, share, store, generator)
