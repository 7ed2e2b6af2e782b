"""The page of a campaign: how far it is, what failed, and how the error fell."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from steep._validation import FloatArray
from steep.campaign import Campaign
from steep.exceptions import InputTypeError
from steep.report.design import ORIGINS, SCRIPTS, origins_of, prepare
from steep.report.page import cell_of, check_text, number, write_page

# Attempts that are listed, the last ones.
_MOST_FAILURES = 200
_LONGEST_TEXT = 4000
# Where results are counted over time, this many places are enough for a line.
_MOST_TIMES = 2000
# Seconds above which the next unit is easier to read.
_UNITS = (("seconds", 1.0, 300.0), ("minutes", 60.0, 18e3), ("hours", 3600.0, 432e3), ("days", 86400.0, np.inf))


def campaign_page(path: str | Path, campaign: Campaign, *, title: str | None = None) -> Path:
    """Write a report of a campaign as it stands: one self-contained HTML file.

    Parameters
    ----------
    path : str or path
        The file to write.
    campaign : Campaign
        An open campaign; another process may be running it.
    title : str, optional
        Title of the page.

    Returns
    -------
    Path
        ``path``.

    Examples
    --------
    >>> import tempfile
    >>> campaign = Campaign({"x": (0, 1)}, storage=":memory:")
    >>> campaign.run(lambda x: x**2, 12).n_done
    12
    >>> campaign_page(tempfile.mkdtemp() + "/campaign.html", campaign).name
    'campaign.html'
    """
    if not isinstance(campaign, Campaign):
        raise InputTypeError(f"campaign is a {type(campaign).__name__}; expected a Campaign")
    runs = _read(campaign)
    content = _content(campaign, runs)
    state = _state(campaign, runs)
    told = f"{state['words']} {content.pop('error_words')}"
    figures = [
        {"name": "done", "value": f"{state['n_done']:,}", "id": ""},
        {"name": "in flight", "value": f"{state['n_pending']:,}", "id": ""},
        {"name": "given up", "value": f"{state['n_failed']:,}", "id": ""},
        {"name": "estimated error (deviations)", "value": content.pop("error"), "id": ""},
    ]
    stored = campaign.journal.path
    name = "A campaign" if stored == ":memory:" else f"Campaign {Path(stored).stem}"
    return write_page(
        path,
        "runs.html",
        title=check_text(title, name="title", default=name),
        scripts=SCRIPTS if content["data"] else (),
        kind="campaign",
        verdict={"sentence": told, "state": "none"},
        figures=figures,
        campaign=state,
        **content,
    )


def _read(campaign: Campaign) -> pd.DataFrame:
    """All runs that were not forgotten: state, origin and times; ``inside`` marks those in S."""
    names = ["state", "origin", "asked", "told", "run"]
    rows = [row for row in campaign.journal.all_runs() if row[2] != "forgotten"]
    frame = pd.DataFrame([row[2 : 2 + len(names)] for row in rows], columns=names)
    X = campaign.journal.numbers([row[0] for row in rows], campaign.box.n_features)
    frame["inside"] = campaign.box.contains(X) if len(X) else np.empty(0, dtype=bool)
    frame["x"] = list(X)
    return frame


def _content(campaign: Campaign, runs: pd.DataFrame) -> dict[str, Any]:
    """Results, and the points without one, for the template and the scripts."""
    done = runs[(runs["state"] == "done") & runs["inside"]].sort_values(["told", "run"], kind="stable")
    if not len(done):
        empty: dict[str, Any] = {"data": None, "blocks": {}, "rows": [], "names": {}, "judged": False, "n_points": 0}
        return empty | {"shown": "", "error_words": "No result has come in yet.", "error": "–"}
    plan = campaign.to_design()
    others = runs[(runs["state"] != "done") & runs["inside"]]
    place = {x.tobytes(): i for i, x in enumerate(plan.X)}
    # Results in the order of the design, whatever the clock said.
    done = done.assign(place=[place.get(x.tobytes(), -1) for x in done["x"]])
    done = done[done["place"] >= 0].sort_values("place", kind="stable")
    is_foreign = (done["origin"] == "foreign").to_numpy()
    known = np.where(is_foreign, ORIGINS.index("foreign"), origins_of(plan))
    origin = [*known, *(ORIGINS.index("failed" if state == "failed" else "in flight") for state in others["state"])]
    labels = np.vstack([plan.labels, np.full((len(others), plan.labels.shape[1]), np.nan)])
    X: FloatArray = np.vstack([plan.X, *[x[None] for x in others["x"]]])
    content = prepare(
        plan, numbers=np.array([*done["run"], *others["run"]]), origin=np.array(origin), X=X, labels=labels, word="run"
    )  # fmt: skip
    content["data"]["times"] = _times(runs)
    return content


def _times(runs: pd.DataFrame) -> dict[str, Any] | None:
    """When results came in, counted from the first run that was asked for."""
    told = np.sort(runs.loc[(runs["state"] == "done") & (runs["origin"] != "foreign"), "told"].to_numpy(np.float64))
    if len(told) < 3:
        return None
    seconds = np.maximum.accumulate(told - float(runs["asked"].min()))
    unit, length = next((name, length) for name, length, most in _UNITS if seconds[-1] < most)
    kept = np.unique(np.linspace(0, len(seconds) - 1, min(len(seconds), _MOST_TIMES)).astype(int))
    return {"counts": (kept + 1).tolist(), "times": (seconds[kept] / length).tolist(), "unit": unit}


def _state(campaign: Campaign, runs: pd.DataFrame) -> dict[str, Any]:
    """How far the campaign is, in words and as parts of a bar; and what failed."""
    counts = Counter(runs["state"])
    n_done, n_pending, n_failed = (counts.get(name, 0) for name in ("done", "pending", "failed"))
    total = max(len(runs), 1)
    words = f"{n_done:,} runs are done, {n_pending:,} in flight and {n_failed:,} given up."
    parts = [("done", n_done, "done"), ("flying", n_pending, "in flight"), ("failed", n_failed, "given up")]
    return {
        "words": words, "n_done": n_done, "n_pending": n_pending, "n_failed": n_failed,
        "parts": [{"name": name, "n": n, "share": n / total, "words": said} for name, n, said in parts],
        "pace": _pace(runs),
        **_failures(campaign),
    }  # fmt: skip


def _pace(runs: pd.DataFrame) -> str:
    found = _times(runs)
    if found is None or not found["times"][-1] > 0:
        return ""
    rate = found["counts"][-1] / found["times"][-1]
    return f"{number(rate)} results in a {found['unit'].removesuffix('s')} on average, pauses included."


def _failures(campaign: Campaign) -> dict[str, Any]:
    rows, box = campaign.journal.all_failures(), campaign.box
    listed = rows[-_MOST_FAILURES:][::-1]
    X = campaign.journal.numbers([row[0] for row in listed], box.n_features)
    known = box.contains(X) if len(X) else np.empty(0, dtype=bool)
    kinds = Counter(str(row[4]) for row in rows)
    told = ", ".join(f"{n:,} × {kind}" for kind, n in kinds.most_common(6))
    cut = f" The last {_MOST_FAILURES} are listed." if len(rows) > _MOST_FAILURES else ""
    return {
        "failure_words": f"{len(rows):,} attempts went wrong: {told}.{cut}",
        "inputs": list(box.names),
        "failures": [
            {
                "run": int(row[1]), "state": "given up" if row[2] == "failed" else row[2], "kind": row[4],
                "message": str(row[5])[:_LONGEST_TEXT], "traceback": str(row[6] or "")[-_LONGEST_TEXT:],
                "cells": [cell_of(v) for v in (box.decode(x[None])[0].values() if inside else x.tolist())],
            }
            for row, x, inside in zip(listed, X, known, strict=True)
        ],
    }  # fmt: skip
