"""The page on which suspects are decided: one sample at a time, by keys, and a file of decisions at the end.

Samples are held from the most suspicious on, as many as there is room for; the others are counted by their score.
The rule by which verdicts move the samples that are left is at the top of ``assets/review.js``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from steep._validation import IntArray
from steep.report.page import check_text, pack, verdict_of, write_page
from steep.report.samples import Cards, read_labels

# Samples on the page, neighbours of each that are on it too, and characters that show them.
_MOST_LISTED, _SIMILAR, _ROOM = 20_000, 6, 6_000_000
_NOBODY = 2**32 - 1
_BINS = 50


def review_page(
    path: str | Path,
    suspects: Any,
    *,
    data: str,
    names: list[str],
    images: Any = None,
    texts: Any = None,
    target: str = "label",
    title: str | None = None,
) -> Path:
    """Write the page of ``suspects``; ``data`` is their checksum and ``names`` are those of the rows."""
    target = check_text(target, name="target")
    n_samples = len(suspects)
    table = None if images is not None or texts is not None or hasattr(suspects.X, "tocsr") else suspects.X
    labels = suspects.label if suspects.has_numbers else suspects.label.astype(str)
    cards = Cards(
        read_labels(labels, n_samples), table=table, target=target, images=images, texts=texts, index=suspects.index
    )
    ranked = np.argsort(suspects.rank, kind="stable")[:_MOST_LISTED]
    faces = _faces(cards, ranked)
    listed = ranked[: len(faces)]
    return write_page(
        path,
        "review.html",
        title=check_text(title, name="title", default=f"Labels to look at, of {n_samples:,}"),
        scripts=("review.js",),
        data=_data(suspects, listed) | {
            "data": data, "names": [names[row] for row in listed.tolist()], "faces": faces,
            "columns": cards.columns.names, "target": target,
        },
        verdict=verdict_of(str(suspects.verdict)),
        figures=[
            {"name": "looked at", "value": "0", "id": "n-looked"},
            {"name": "wrong ones found", "value": "0", "id": "n-wrong"},
            {"name": "wrong ones left, estimated", "value": f"{suspects.n_wrong.mean:,.0f}", "id": "n-left"},
            {"name": "on this page", "value": f"{len(listed):,} of {n_samples:,}", "id": ""},
        ],
        is_number=suspects.has_numbers,
        target=target,
    )  # fmt: skip


def _faces(cards: Cards, rows: IntArray) -> list[dict[str, Any]]:
    """Picture, text and cells of samples, as long as there is room."""
    found: list[dict[str, Any]] = []
    room = _ROOM
    for row, cells in zip(rows.tolist(), cards.columns.cells(rows), strict=True):
        face = {name: value for name, value in cards.face(row).items() if name in ("picture", "text")}
        if cells:
            face["cells"] = [cell["text"] for cell in cells]
        room -= sum(map(len, face.get("cells", ()))) + sum(len(face.get(name, "")) for name in ("picture", "text")) + 20
        if room < 0 and found:
            break
        found.append(face)
    return found


def _data(suspects: Any, listed: IntArray) -> dict[str, Any]:
    """Labels, suggestions, scores and what speaks for them, of the samples on the page; and scores of the others."""
    around = suspects.indices[listed]
    place = np.full(len(suspects), _NOBODY, dtype=np.int64)
    place[listed] = np.arange(len(listed))
    near = place[around]
    near = np.take_along_axis(near, np.argsort(near == _NOBODY, axis=1, kind="stable"), axis=1)[:, :_SIMILAR]
    found: dict[str, Any] = {
        "score": pack(suspects.score[listed]),
        "near": pack(near, "u4"),
        "nNear": near.shape[1],
        "rest": _binned(np.delete(suspects.score, listed)),
        "n": len(suspects),
    }
    if suspects.has_numbers:
        median = np.median(suspects.label[around], axis=1)
        values = {"label": suspects.label, "suggested": suspects.suggested, "byModel": suspects.predicted}
        return found | {
            "classes": None,
            "byNeighbors": pack(median, "f8"),
            **{name: pack(value[listed], "f8") for name, value in values.items()},
        }
    classes, codes = np.unique(suspects.label, return_inverse=True)
    other = np.searchsorted(classes, suspects.suggested)[listed]
    own = codes[listed]
    of = {"own": own, "other": other}
    return found | {
        "classes": [str(name) for name in classes],
        "label": pack(own, "u4"),
        "suggested": pack(other, "u4"),
        "nAsked": around.shape[1],
        "votes": {name: pack((codes[around] == code[:, None]).sum(axis=1), "u2") for name, code in of.items()},
        "chance": {
            name: pack(np.asarray(suspects.predicted[listed, code]).ravel().astype(float)) for name, code in of.items()
        },
    }


def _binned(score: Any) -> list[list[float]]:
    """[mean score, how many] of samples that are not on the page."""
    if not len(score):
        return []
    bins = pd.Series(score).groupby(np.minimum((score * _BINS).astype(int), _BINS - 1))
    return [[float(mean), int(n)] for mean, n in zip(bins.mean(), bins.size(), strict=True)]
