"""A stop at an error that is true: the certificate of the surrogate the user gets, on check runs made for it.

After the initial runs, whenever there are a fifth more runs, a surrogate is fitted. If its error by cross-validation is
small enough, the next runs are check runs, drawn evenly, by which nothing is fitted or placed; when they are done, the
surrogate is certified. The number of looks is stored, and each costs (:mod:`steep.surrogate.certificate`), so neither a
first dip stops a campaign nor starting it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steep._validation import FloatArray
from steep.sampling.pool import among
from steep.surrogate.fit import checks_to_make, is_due, trained
from steep.surrogate.surrogate import Surrogate

if TYPE_CHECKING:
    from steep.campaign.campaign import Campaign


class CertifiedError:
    """Whether the error of every output is at most ``tolerance``: a share of its spread, or in its units."""

    def __init__(self, campaign: Campaign, tolerance: float, n_initial: int, *, absolute: bool) -> None:
        self.campaign, self.tolerance, self.absolute, self.n_initial = campaign, tolerance, absolute, n_initial
        self._fitted_at = n_initial
        self._wanted = 0
        self._model: Surrogate | None = None

    def look(self) -> str | None:
        """Look at the results so far; why to stop, if the error is certified."""
        campaign = self.campaign
        # A planner is made again when another process changes the results.
        campaign._planner.n_checks = self._wanted
        X, labels, _ = campaign.results.without_gaps()
        is_check = campaign.results.is_check(X)
        if self._model is not None:
            return self._certified(self._model, X[is_check], labels[is_check])
        rows = ~is_check
        n = int(rows.sum())
        if n <= self.n_initial or not is_due(n, self._fitted_at):
            return None
        self._fitted_at = n
        names = campaign.outputs or tuple(f"y{i}" for i in range(labels.shape[1]))
        generator = np.random.default_rng([campaign._seed, n])
        model = trained(campaign.box, X[rows], labels[rows], names[: labels.shape[1]], generator)
        wanted = checks_to_make(model, self.tolerance, n_looks(self.campaign) + 1, n, absolute=self.absolute)
        if wanted is not None:
            self._model, self._wanted = model, max(wanted, self._wanted)
            campaign._planner.n_checks = self._wanted
        return None

    def _certified(self, model: Surrogate, X: FloatArray, labels: FloatArray) -> str | None:
        """The certificate of the surrogate that waited for its check runs, once they are all done."""
        campaign, journal = self.campaign, self.campaign.journal
        points = campaign._planner.check_points(self._wanted)
        if among(points, campaign.pending).any() or any(journal.at(x) is None for x in points):
            return None
        self._model = None
        if not len(X):
            return None
        with journal.transaction():
            look = n_looks(self.campaign) + 1
            journal.set_meta("looks", look)
        found = model._certify(X, labels, independent=True, look=look).certificate
        if not found.reached(self.tolerance, absolute=self.absolute):
            return None
        campaign.surrogate = model
        worst, unit = found.worst(absolute=self.absolute), "" if self.absolute else " of its spread"
        return f"certified by {found.n_checks} check runs: the RMSE of every output is at most {worst:.3g}{unit}"


def n_looks(campaign: Campaign) -> int:
    """How often check runs of this campaign were looked at."""
    looks = campaign.journal.meta().get("looks", 0)
    if not isinstance(looks, int) or looks < 0:
        raise campaign.journal.damaged(f"its number of looks is {looks!r}")
    return looks
