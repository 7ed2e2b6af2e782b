"""A campaign as a generator of the gest-api standard: others run the simulator, steep says where.

``suggest`` is :meth:`Campaign.ask` and ``ingest`` is :meth:`Campaign.tell`, so libEnsemble and Optimas get a design
whose every point and result is in a journal, and resume it after a crash. Needs ``pip install steep[gest]``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from steep._outputs import one_number
from steep._validation import check_count, shown
from steep.campaign.campaign import Campaign
from steep.domain import Bounds, Category, Constraint, Integer
from steep.exceptions import InputError, InputTypeError, MissingExtraError
from steep.measures import Measure

try:
    from gest_api import Generator
    from gest_api.vocs import VOCS, ContextualVariable, ContinuousVariable, DiscreteVariable
except ImportError as error:
    raise MissingExtraError(
        "steep.campaign.generator needs gest-api, which is not installed; run: pip install steep[gest]"
    ) from error


class CampaignGenerator(Generator):  # type: ignore[misc,unused-ignore]
    """Suggest points where the outputs vary; every suggestion and result is kept in a journal.

    Parameters
    ----------
    vocs : gest_api.vocs.VOCS
        Variables: continuous ones, whole numbers in a row, or any set of values. Objectives, constraints and
        observables are all outputs to follow; whether one is to be minimised plays no role.
    storage : str or path, default "campaign.db"
        The journal; see :class:`Campaign`. What is in it already counts.
    batch_size : int, default 1
        Points that ``suggest()`` without a number gives.
    n_initial, constraint, measure, random_state
        See :class:`Campaign`.

    Notes
    -----
    A generator may be sent to another process, or used from several threads: each opens the journal for itself. Points
    that were suggested and never came back are suggested again once the process they were suggested by is gone.

    Examples
    --------
    >>> from gest_api.vocs import VOCS
    >>> vocs = VOCS(variables={"u": [0.0, 1.0], "n": {1, 2, 3}}, objectives={"f": "EXPLORE"})
    >>> import tempfile
    >>> generator = CampaignGenerator(vocs, storage=tempfile.mkdtemp() + "/campaign.db")
    >>> points = generator.suggest(8)
    >>> sorted(points[0])
    ['_id', 'n', 'u']
    >>> generator.ingest([point | {"f": point["u"] * point["n"]} for point in points])
    >>> generator.campaign.n_done
    8
    >>> generator.finalize()
    """

    returns_id = True

    def __init__(
        self,
        vocs: VOCS,
        *,
        storage: str | PathLike[str] = "campaign.db",
        batch_size: int = 1,
        n_initial: int | None = None,
        constraint: Constraint | None = None,
        measure: str | Measure | Callable[[Any, Any], Any] | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(vocs)
        self.vocs = vocs
        self.batch_size = check_count(batch_size, name="batch_size")
        self._outputs = tuple(map(str, vocs.output_names))
        self._constants = {name: constant.value for name, constant in vocs.constants.items()}
        self._bounds: Bounds = {name: _axis(name, entry) for name, entry in vocs.variables.items()}
        if storage == ":memory:":
            raise InputError("storage=':memory:' cannot be shared by the parts of a workflow; need a path")
        # Its parts may work in other folders than this one.
        path = os.fspath(storage) if isinstance(storage, str | os.PathLike) else storage
        self._storage = os.path.abspath(path) if isinstance(path, str) and path.strip() else path
        self._options = {
            "n_initial": n_initial, "constraint": constraint, "measure": measure, "random_state": random_state
        }  # fmt: skip
        self._open: dict[tuple[int, int], Campaign] = {}
        # Made, checked and closed again: it may be sent away before it is used.
        self._new_campaign().close()

    def _validate_vocs(self, vocs: VOCS) -> None:
        if not isinstance(vocs, VOCS):
            raise InputTypeError(f"vocs is a {type(vocs).__name__}; need a gest_api.vocs.VOCS")
        if not vocs.variables:
            raise InputError("vocs has no variables; need at least one")
        if not vocs.output_names:
            raise InputError("vocs has no outputs; need an objective, constraint or observable to follow")
        for name, variable in vocs.variables.items():
            _axis(name, variable)

    @property
    def campaign(self) -> Campaign:
        """The campaign behind it, opened by this process and thread."""
        here = (os.getpid(), threading.get_ident())
        if here not in self._open:
            self._open[here] = self._new_campaign()
        return self._open[here]

    def _new_campaign(self) -> Campaign:
        return Campaign(self._bounds, outputs=self._outputs, storage=self._storage, **self._options)  # type: ignore[arg-type]

    def suggest(self, num_points: int | None = None) -> list[dict[str, Any]]:
        """Points to evaluate next: every variable and constant by name, and ``_id``."""
        n = self.batch_size if num_points is None else check_count(num_points, name="num_points", minimum=0)
        if n == 0:
            return []
        campaign = self.campaign
        jobs = campaign.ask_jobs(n)
        if len(jobs) < n:
            campaign.release([number for number, _ in jobs])
            raise InputError(
                f"{len(jobs)} points are left in {campaign.box!r}, need {n}; widen the variables"
            )
        points = campaign.box.decode(np.array([x for _, x in jobs]))
        return [
            point | self._constants | {"_id": number} for point, (number, _) in zip(points, jobs, strict=True)
        ]

    def ingest(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Record results: by ``_id`` where they have one, by their variables otherwise.

        A result without a number for every output is a failure of its run.
        """
        if isinstance(results, str | Mapping) or not isinstance(results, Sequence):
            raise InputTypeError(f"results is a {type(results).__name__}; need a list of mappings")
        rows = [_Row(self, i, result) for i, result in enumerate(results)]
        campaign = self.campaign
        for row in rows:
            values = row.values
            if row.number is None and values is not None:
                campaign.tell_named(campaign.box.encode([row.inputs]), values, self._outputs)
            elif row.number is not None and values is not None:
                campaign.tell(run=row.number, y=dict(zip(self._outputs, values.T, strict=True)))
            elif row.number is not None:
                self._fail(row.number)

    def _fail(self, number: int) -> None:
        campaign = self.campaign
        if campaign.state_of(number) == "pending":
            campaign.tell_failure(run=number, message="came back without a number for every output")

    def finalize(self) -> None:
        """Close the journal."""
        here = (os.getpid(), threading.get_ident())
        if (campaign := self._open.pop(here, None)) is not None:
            campaign.close()

    def __getstate__(self) -> dict[str, Any]:
        """All but the open journals, which belong to a thread."""
        return self.__dict__ | {"_open": {}}

    def __deepcopy__(self, memo: dict[int, Any]) -> CampaignGenerator:
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__getstate__())
        return copy


class _Row:
    """One result as it came back."""

    def __init__(self, generator: CampaignGenerator, i: int, result: Any) -> None:
        if not isinstance(result, Mapping):
            raise InputTypeError(
                f"result {i} is a {type(result).__name__}; need a mapping of names to values"
            )
        self.number = _number(i, result.get("_id"))
        self.inputs = {name: result[name] for name in generator._bounds if name in result}
        if self.number is None and len(self.inputs) < len(generator._bounds):
            lacks = [name for name in generator._bounds if name not in result]
            raise InputError(f"result {i} has neither an _id nor {lacks}; need one or the other")
        self.values = _outputs(i, [result.get(name) for name in generator._outputs])


def _number(i: int, given: Any) -> int | None:
    plain = given.item() if isinstance(given, np.generic) else given
    if plain is None or (isinstance(plain, int) and plain == -1):  # how libEnsemble says that there is none
        return None
    if isinstance(plain, bool) or not isinstance(plain, int):
        raise InputTypeError(f"result {i} has _id={shown(given)}; need one that suggest gave")
    return plain


def _outputs(i: int, values: list[Any]) -> Any:
    """Outputs as one row of numbers; None where one is missing or not finite."""
    if any(value is None for value in values):
        return None
    try:
        row = np.array([[one_number(value, "of a result") for value in values]])
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"result {i} has outputs that are not numbers ({error}); need plain numbers"
        ) from error
    return row if np.isfinite(row).all() else None


def _axis(name: str, variable: Any) -> Any:
    """The axis for one variable."""
    if isinstance(variable, ContextualVariable):
        raise InputError(f"variable {name!r} is contextual, which a design cannot choose; leave it out")
    dtype = getattr(variable, "dtype", None)
    if isinstance(dtype, tuple) and len(dtype) > 1:
        raise InputError(f"variable {name!r} is an array ({dtype!r}); need one variable for each number")
    if isinstance(variable, ContinuousVariable):
        return tuple(variable.domain)
    if not isinstance(variable, DiscreteVariable):
        raise InputTypeError(
            f"variable {name!r} is a {type(variable).__name__}; need a continuous or discrete one"
        )
    # A set has no order of its own: the file needs one.
    values = sorted(variable.values, key=lambda value: (type(value).__name__, value))
    if len(values) < 2:
        raise InputError(f"variable {name!r} has the one value {values}; make it a constant")
    if all(type(value) is int for value in values) and values[-1] - values[0] == len(values) - 1:
        return Integer(values[0], values[-1])
    return Category(*values)
