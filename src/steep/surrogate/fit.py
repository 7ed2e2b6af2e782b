"""When to look at the error of a growing design, and by how many check runs: shared by ``emulate`` and campaigns.

Everything here follows from the runs a surrogate is fitted to. Given these, check runs are fresh draws.
"""

from __future__ import annotations

import numpy as np

from steep.surrogate.certificate import ALPHA
from steep.surrogate.surrogate import Surrogate

# A surrogate is fitted when there are this share more runs.
GROWTH = 0.2
# Fewest check runs, as a number and as a share of the others. If the largest share is not enough, more of the others
# lower the error more than check runs would narrow its interval.
FEWEST, _LEAST, _MOST = 20, 0.1, 0.6
# A look is taken where the error by cross-validation is below this share of the tolerance.
_PROMISING = 0.9


def is_due(n: int, fitted_at: int) -> bool:
    """Whether there are enough more runs to fit again."""
    return n >= fitted_at + max(4, round(GROWTH * fitted_at))


def checks_to_make(
    model: Surrogate, tolerance: float, look: int, n_runs: int, *, absolute: bool, weighted: bool = False
) -> int | None:
    """Check runs that will hold the bound of every output below the tolerance if errors are as expected.

    None where the error is too large for a look, or where more of the other runs are worth more.
    """
    wanted, rest = 0.0, -np.log(ALPHA / (look * (look + 1)))
    limits = model._largest(weighted=weighted)[1].tolist()
    for one, limit, spread in zip(model.blends_, limits, model._spread.tolist(), strict=True):
        if not spread > 0:
            continue
        goal = _PROMISING * (tolerance if absolute else tolerance * spread)
        if one.rmse >= goal:
            return None
        wanted = max(wanted, rest * limit / (goal**2 - one.rmse**2))
    if wanted > max(FEWEST, _MOST * n_runs):
        return None
    return max(int(np.ceil(wanted)), FEWEST, round(_LEAST * n_runs))
