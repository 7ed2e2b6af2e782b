"""How far a campaign is, from its journal alone, and how it looks.

rate          results per second, over the last results of the sessions that run now (or of the last one)
time left     (budget − runs that ended) / rate
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steep._html import card, text_of
from steep._validation import FloatArray
from steep.campaign.journal import Journal
from steep.campaign.schema import measure_of
from steep.exceptions import InputError
from steep.sampling import Design
from steep.sampling.evaluated import Evaluated, label_variation, squeezed

if TYPE_CHECKING:
    from steep.campaign.campaign import Campaign


# Results the rate is taken from.
_RECENT = 50
# Above this many results the variation of all of them is more than a picture is worth.
_MOST_MEASURED = 2048


@dataclass(frozen=True)
class Status:
    """The state of a campaign.

    Examples
    --------
    >>> from steep import Campaign
    >>> status = Campaign({"u": (0.0, 1.0)}, storage=":memory:").run(lambda u: u**2, 12).status()
    >>> status.n_done, status.n_left, status.outcome
    (12, 0, 'finished')

    Attributes
    ----------
    storage : str
        The journal.
    n_done, n_running, n_queued, n_leased, n_waiting, n_failed : int
        Runs with a result; in flight in a process that is alive; in the queue of SLURM; asked with a lease that
        lasts; in flight in a process that is gone, or with a lease that is over, which are asked again; given up.
    budget : int or None
        Runs the last call of ``run`` asked for in all; None before the first.
    n_left : int or None
        Runs of the budget that have not ended.
    rate : float
        Results a second; NaN where there are too few.
    seconds_left : float
        NaN where budget or rate are unknown.
    is_running : bool
        Whether a process runs it now.
    outcome : str or None
        How the last session ended: "finished", "stopped" by its ``stop_when``, "interrupted"; None while it runs,
        and before the first.
    """

    storage: str
    n_done: int
    n_running: int
    n_queued: int
    n_leased: int
    n_waiting: int
    n_failed: int
    budget: int | None
    n_left: int | None
    rate: float
    seconds_left: float
    is_running: bool
    outcome: str | None


def status_of(campaign: Campaign) -> Status:
    """The state of a campaign now."""
    journal = campaign.journal
    campaign._catch_up()
    alive, sessions = journal.owners_alive(), journal.sessions()
    holders = journal.pending_owners()
    n_running = sum(holder in alive for holder in holders)
    n_leased = journal.count_leased()
    running = [session for session in sessions if session["ended"] is None and session["owner"] in alive]
    looked_at = running or sessions[-1:]
    budget = max((session["budget"] for session in looked_at), default=None)
    order = journal.meta().get("slurm") or {}
    n_queued = sum(len(batch["runs"]) for batch in order.get("batches", {}).values())
    if order:
        budget = max(budget or 0, order["n_runs"])
    n_left = None if budget is None else max(0, budget - journal.count_asked() + len(holders))
    rate = _rate(journal, min((session["began"] for session in looked_at), default=np.inf), is_running=bool(running))
    # A process that was killed could not say how it ended.
    outcome = (sessions[-1]["outcome"] or "interrupted") if sessions and not running else None
    if order and not running:
        ended = "finished" if journal.count_asked() >= order["n_runs"] and not holders else "interrupted"
        outcome = None if n_queued else "stopped" if order["stopped"] else ended
    return Status(
        storage=journal.path, n_done=journal.count("done"), n_running=n_running,
        n_queued=n_queued, n_leased=max(0, n_leased - n_queued),
        n_waiting=len(holders) - n_running - n_leased, n_failed=journal.count("failed"), budget=budget, n_left=n_left,
        rate=rate, seconds_left=n_left / rate if n_left is not None and rate > 0 else float("nan"),
        is_running=bool(running) or n_queued > 0, outcome=outcome,
    )  # fmt: skip


def _rate(journal: Journal, since: float, *, is_running: bool) -> float:
    """Results per second since the sessions began, over the last of them."""
    told = journal.last_told(_RECENT)
    recent = [at for at in told if at >= since]
    if not recent:
        return float("nan")
    end = time.time() if is_running else recent[0]
    # All results of the session count from its beginning; of more, each from the one before.
    if len(recent) < len(told) or len(told) < _RECENT:
        return len(recent) / max(end - since, 1e-9)
    return (len(recent) - 1) / max(end - recent[-1], 1e-9)


def design_of(campaign: Campaign) -> Design:
    """The results of a campaign as a design; see :meth:`Results.without_gaps` for outputs that were added later."""
    if not len(campaign.X):
        raise InputError(f"the campaign of {campaign.journal.path!r} has no result inside its bounds yet; run it first")
    every = campaign.y.reshape(len(campaign.X), -1)
    X, labels, origins, _ = campaign.results.without_gaps()
    outputs = campaign.outputs or ()
    if labels.shape[1] < len(outputs):
        outputs = tuple(name for name, column in zip(outputs, every.T, strict=True) if not np.isnan(column).any())
    return Design(
        X=X,
        y=squeezed(labels),
        variation=_variation(campaign, X, labels),
        is_initial=origins == "initial",
        n_evaluations=campaign.n_done,
        box=campaign.box,
        outputs=outputs or None,
        is_even=campaign._planner.sequence.holds(X),
        is_check=origins == "check",
        n_looks=campaign.journal.looks(),
        hedge=campaign._planner.hedge,
    )


def _variation(campaign: Campaign, X: FloatArray, labels: FloatArray) -> FloatArray:
    """Variation by the measure of the campaign; NaN where there are too few results, or too many."""
    measure = measure_of(campaign.strategy)
    least = max(measure.smallest_k, 2 * (campaign.box.n_features + 1))
    if not least <= len(X) <= _MOST_MEASURED:
        return np.full(len(X), np.nan)
    return label_variation(measure, Evaluated.at(campaign.box, X, labels))


def campaign_card(campaign: Campaign) -> str:
    """A campaign as a notebook shows it."""
    path = text_of(campaign.journal.path)
    if campaign.journal.is_closed:
        return card("Campaign", f"{path}: closed; open it again to look at it.")
    n_pending, n_leased = len(campaign.pending), campaign.journal.count_leased()
    figures: dict[str, Any] = {
        "done": campaign.n_done,
        "in flight": n_pending - n_leased,
        **({"leased": n_leased} if n_leased else {}),
        "failed": campaign.n_failed,
    }
    asked = campaign.n_done + n_pending + campaign.n_failed
    share = campaign.n_done / asked if asked else None
    sentence = f"{path}: {text_of(campaign.box)}"
    return card("Campaign", sentence, figures, campaign.to_dataframe().tail(8), share=share)
