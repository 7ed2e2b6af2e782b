"""A campaign to look at: its results as a design, its pictures, and its card in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steep._html import card, text_of
from steep._validation import FloatArray, check_choice
from steep.exceptions import InputError
from steep.sampling import Design
from steep.sampling.evaluated import Evaluated, label_variation, squeezed
from steep.sampling.result import KINDS

if TYPE_CHECKING:
    from steep.campaign.campaign import Campaign

# Above this many results the variation of all of them is more than a picture is worth.
_MOST_MEASURED = 2048


def design_of(campaign: Campaign) -> Design:
    """The results of a campaign as a design; see :meth:`Results.without_gaps` for outputs that were added later."""
    if not len(campaign.X):
        raise InputError(f"the campaign of {campaign.journal.path!r} has no result inside its bounds yet; run it first")
    every = campaign.y.reshape(len(campaign.X), -1)
    X, labels, _ = campaign.results.without_gaps()
    outputs = campaign.outputs or ()
    if labels.shape[1] < len(outputs):
        outputs = tuple(name for name, column in zip(outputs, every.T, strict=True) if not np.isnan(column).any())
    origins = dict(campaign.journal.origins())
    return Design(
        X=X,
        y=squeezed(labels),
        variation=_variation(campaign, X, labels),
        is_initial=np.array([origins.get(x.astype("<f8").tobytes()) == "initial" for x in X]),
        n_evaluations=campaign.n_done,
        box=campaign.box,
        outputs=outputs or None,
        is_even=campaign.sequence.holds(X),
    )


def _variation(campaign: Campaign, X: FloatArray, labels: FloatArray) -> FloatArray:
    """Variation by the measure of the campaign; NaN where there are too few results, or too many."""
    least = max(campaign.measure.smallest_k, 2 * (campaign.box.n_features + 1))
    if not least <= len(X) <= _MOST_MEASURED:
        return np.full(len(X), np.nan)
    return label_variation(campaign.measure, Evaluated.at(campaign.box, X, labels))


def plot_campaign(campaign: Campaign, kind: str = "overview", **options: Any) -> Any:
    """Draw a campaign; see :meth:`Campaign.plot`."""
    check_choice(kind, name="kind", choices=("overview", *KINDS))
    plan, failed = design_of(campaign), campaign.journal.points("failed", campaign.box.n_features)
    if kind == "points":
        return plan.plot(kind, failed=failed, **options)
    if kind != "overview":
        return plan.plot(kind, **options)
    from steep.plotting import plot_overview

    return plot_overview(plan, failed=failed, **options)


def campaign_card(campaign: Campaign) -> str:
    """A campaign as a notebook shows it."""
    path = text_of(campaign.journal.path)
    if campaign.journal.is_closed:
        return card("Campaign", f"{path}: closed; open it again to look at it.")
    n_pending, error = len(campaign.pending), campaign.estimated_error()
    n_leased = campaign.journal.count_leased()
    figures: dict[str, Any] = {
        "done": campaign.n_done,
        "in flight": n_pending - n_leased,
        **({"leased": n_leased} if n_leased else {}),
        "failed": campaign.n_failed,
        "estimated error": "not known yet" if np.isnan(error) else float(error),
    }
    asked = campaign.n_done + n_pending + campaign.n_failed
    share = campaign.n_done / asked if asked else None
    sentence = f"{path}: {text_of(campaign.box)}"
    return card("Campaign", sentence, figures, campaign.to_dataframe().tail(8), share=share)
