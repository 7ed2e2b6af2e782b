"""emulate: run a simulator until a surrogate of it is certified.

    1  even runs, then rounds of an adaptive design
    2  after each round a surrogate; its error by cross-validation, which costs no run
    3  where that is small enough, as many check runs as a certificate of the tolerance is expected to take
    4  the certificate: done, or back to 1

Whether and by how many check runs a look is taken follows from the other runs alone, and so does the surrogate: given
these, the check runs are fresh, and each look has its share of α (:mod:`steep.surrogate.certificate`).
"""

from __future__ import annotations

import numpy as np

from steep._function import Function, PassAs
from steep._validation import FloatArray, Seed, check_count, check_flag, check_generator, check_real
from steep.domain import Bounds, Box, Constraint
from steep.exceptions import FunctionError, InputError, warn_user
from steep.sampling.design import Growth, check_room
from steep.sampling.pool import among
from steep.sampling.simulator import Simulator
from steep.sampling.strategies import Strategy, check_strategy
from steep.surrogate.fit import FEWEST, GROWTH, checks_to_make
from steep.surrogate.surrogate import Surrogate

# Share of the budget that is kept for check runs in the end.
_KEPT = 0.2


def emulate(
    simulator: Function,
    bounds: Bounds | Box,
    tolerance: float = 0.05,
    max_runs: int = 500,
    *,
    absolute: bool = False,
    strategy: Strategy | None = None,
    constraint: Constraint | None = None,
    pass_as: PassAs = "auto",
    n_jobs: int | None = None,
    random_state: Seed = None,
) -> Surrogate:
    """Run a simulator until a surrogate of it is certified, and return the surrogate.

    Parameters
    ----------
    simulator : callable
        f, called as by :func:`steep.design`. It must give the same outputs every time.
    bounds : list of (low, high), mapping of name to (low, high), Log, Integer or Category; or Box
        The domain.
    tolerance : float, default 0.05
        Largest RMSE over the domain, of every output: a share of the output's deviation there.
    max_runs : int, default 500
        Budget, check runs included.
    absolute : bool, default False
        ``tolerance`` is in the units of the outputs instead.
    strategy : Strategy, optional
        How runs are chosen; default :class:`steep.Adaptive`.
    random_state : int, Generator or None
        Seed of everything.

    Other Parameters
    ----------------
    constraint, pass_as, n_jobs
        See :func:`steep.design`.

    Returns
    -------
    Surrogate
        ``certificate.reached(tolerance)`` says whether the tolerance is certified; if not, a warning says why not.
        ``stop_reason`` holds the same sentence. A claim is wrong with a probability of 5 %, all looks together, if no
        error in the domain is larger than the largest seen.

    Examples
    --------
    >>> import steep
    >>> f = lambda X: np.sin(3 * X[:, 0]) * X[:, 1]
    >>> model = steep.emulate(f, [(0, 1), (0, 1)], tolerance=0.1, max_runs=100, random_state=0)
    >>> model.certificate.reached(0.1)
    True
    """
    box, generator = Box(bounds, constraint=constraint), check_generator(random_state)
    tolerance = check_real(tolerance, name="tolerance", above=0.0)
    absolute = check_flag(absolute, name="absolute")
    max_runs = check_count(max_runs, name="max_runs")
    n_initial = max(16, 4 * (box.n_features + 1))
    if max_runs < n_initial + FEWEST:
        raise InputError(
            f"max_runs={max_runs} is too small for {box.n_features} inputs; expected at least {n_initial + FEWEST}: "
            f"{n_initial} initial runs and {FEWEST} check runs"
        )
    check_room(box, max_runs)
    chosen = check_strategy(strategy)
    chosen.resolved(use="emulate", feeds=("labels",))
    simulating = Simulator(simulator, box, pass_as=pass_as, n_jobs=n_jobs)
    growth = Growth(simulating, chosen, generator)
    growth.start(n_initial)
    own = Simulator(simulator, box, pass_as=pass_as, n_jobs=n_jobs)
    own.outputs = simulating.outputs
    checks = Checks(own, generator, growth.seen.labels.shape[1])
    look = 0
    while True:
        n_kept = max(round(_KEPT * max_runs), FEWEST, checks.n_asked)
        n_new = min(max(4, round(GROWTH * growth.n_asked)), max_runs - n_kept - growth.n_asked)
        if n_new > 0:
            growth.add(n_new)
        is_last = growth.n_asked + n_kept >= max_runs
        plan, affordable = growth.design(), max_runs - growth.n_asked
        model = Surrogate(box)._train(box, plan.X, plan.labels, plan.output_names, generator)
        wanted = checks_to_make(model, tolerance, look + 1, growth.n_asked, absolute=absolute, weighted=True)
        if not is_last and (wanted is None or wanted > affordable):
            continue
        look += 1
        checks.draw(affordable if is_last or wanted is None else wanted, model)
        model._certify(checks.X, checks.labels, independent=True, look=look, weights=checks.fair_weights())
        is_done = model.certificate.reached(tolerance, absolute=absolute)
        if is_done or is_last:
            break
    simulating.warn_failed(len(growth.seen.X))
    model.stop_reason = _reason(model, tolerance, max_runs, absolute=absolute, is_done=is_done)
    if not is_done:
        warn_user(f"{model.stop_reason}; raise max_runs or tolerance")
    return model


class Checks:
    """Check runs: independent draws, each run once, and the part of the domain that each stands for."""

    def __init__(self, simulator: Simulator, generator: np.random.Generator, n_outputs: int) -> None:
        # A stream of its own: how many are drawn changes nothing else.
        self.simulator, self.generator = simulator, generator.spawn(1)[0]
        self.n_asked = 0
        self.X: FloatArray = np.empty((0, simulator.box.n_features))
        self.labels: FloatArray = np.empty((0, n_outputs))
        self.weights: FloatArray = np.empty(0)

    def draw(self, n: int, model: Surrogate) -> None:
        """Make more of them until there are ``n``, where a model expects to be wrong; those that fail count."""
        if n <= self.n_asked:
            return
        box, density = self.simulator.box, model._density
        points, weights = self.X[:0], self.weights[:0]
        while len(points) < n - self.n_asked:
            tried = box.uniform(4 * n, random_state=self.generator)
            found = density.at(model._both(tried)[1])
            kept = self.generator.random(len(tried)) * density.highest < found
            points, weights = np.vstack([points, tried[kept]]), np.append(weights, 1 / found[kept])
        points = points[: n - self.n_asked]
        X, labels = self.simulator(points)
        if labels.shape[1] != self.labels.shape[1]:
            raise FunctionError(
                f"simulator returned {self.labels.shape[1]} outputs at first and {labels.shape[1]} now; expected the "
                "same number everywhere"
            )
        self.labels = np.vstack([self.labels, labels])
        self.weights = np.append(self.weights, weights[: len(points)][among(points, X)])
        self.X, self.n_asked = np.vstack([self.X, X]), n

    def fair_weights(self) -> FloatArray:
        """Weights, none too small if fewer failed than would have of even draws."""
        n = len(self.weights)
        return self.weights if n in (0, self.n_asked) else self.weights * max(1.0, n / self.weights.sum())


def _reason(model: Surrogate, tolerance: float, max_runs: int, *, absolute: bool, is_done: bool) -> str:
    found, unit = model.certificate, "" if absolute else " of its spread"
    worst = max(found.outputs, key=lambda one: one.bound if absolute else one.share)
    said = f"the RMSE of {worst.name} is at most {found.worst(absolute=absolute):.3g}{unit}"
    if is_done:
        return f"certified after {found.n_runs} runs, {found.n_checks} of them check runs: {said}"
    return f"not certified within {max_runs} runs: {said}, more than the tolerance of {tolerance:g}"
