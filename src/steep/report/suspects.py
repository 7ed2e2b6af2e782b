"""The page of suspects: labels that may be wrong, each next to what speaks against it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from steep._validation import FloatArray, IntArray, check_vector, shown
from steep.exceptions import InputError, InputTypeError
from steep.report.cards import MOST_NEIGHBORS, Cards, check_neighbors, count_rows, label_columns, looks, read_labels
from steep.report.maps import Shown, axes_of
from steep.report.page import check_text, number, pack, verdict_of, write_page

# Labels with a higher score are listed and marked; the score is a rank, not a probability.
_SUSPECT = 0.5
# Suspects that are listed, and mix-ups that are counted.
_MOST_LISTED, _MOST_PAIRS = 300, 12
_UNKNOWN = "not known"


def suspects_page(
    path: str | Path,
    suspects: Any,
    *,
    X: Any = None,
    y: Any = None,
    neighbors: Any = None,
    table: Any = None,
    images: Any = None,
    texts: Any = None,
    target: str = "label",
    verdict: Any = None,
    title: str | None = None,
) -> Path:
    """Write a report of labels that may be wrong: one self-contained HTML file.

    Parameters
    ----------
    path : str or path
        The file to write.
    suspects : DataFrame, or what ``steep.suspects`` returned
        One row per label: ``score``, ``label``, ``suggested``, and optionally ``neighbors``, rows that speak for what
        is suggested. The index of a DataFrame is the row of the data set. What ``steep.suspects`` returned keeps the
        index of its samples if that holds whole numbers, as in its ``table``.
    X : array-like or frame of shape (n_samples, n_features), optional
        The samples; with them the page has a map.
    y : array-like of shape (n_samples,), optional
        All labels; default those of ``suspects``.
    images : array-like of shape (n_samples, height, width[, channels]), optional
        The samples as pictures.
    texts : sequence of str, optional
        The samples as texts.

    Other Parameters
    ----------------
    neighbors : array-like of shape (n_samples, k) or (distances, indices), optional
        Neighbours of every sample; default those that ``suspects`` names.
    table : frame, optional
        Columns to show for single samples; default those of ``X``.
    target : str, default "label"
        What the labels are called.
    verdict : Verdict or str, optional
        What comes first; default the verdict of ``suspects``, or a count.
    title : str, optional
        Title of the page.

    Returns
    -------
    Path
        ``path``.

    Examples
    --------
    >>> import tempfile
    >>> frame = pd.DataFrame({"score": [0.9], "label": ["cat"], "suggested": ["dog"]}, index=[3])
    >>> suspects_page(tempfile.mkdtemp() + "/suspects.html", frame).name
    'suspects.html'
    """
    frame = _checked_frame(suspects)
    n_samples = _n_samples(frame, y=y, X=X, table=table, images=images, texts=texts)
    labels = read_labels(_labels_of(frame, n_samples) if y is None else y, n_samples)
    if table is None and images is None and texts is None:
        table = X
    target = check_text(target, name="target")
    index = getattr(suspects, "index", None) if hasattr(suspects, "numbered") else None
    cards = Cards(labels, table=table, target=target, images=images, texts=texts, index=index)
    graph = getattr(suspects, "indices", None) if neighbors is None else neighbors
    around = None if graph is None else check_neighbors(graph, n_samples)
    listed = _listed(frame)
    rows = [_row(frame, row, cards, around) for row in listed.index]
    for row, cells in zip(rows, cards.columns.cells(np.asarray(listed.index)), strict=True):
        row["cells"] = cells
    if verdict is None:
        verdict = getattr(suspects, "verdict", None)
    n_suspects = int((frame["score"] > _SUSPECT).sum())
    return write_page(
        path,
        "suspects.html",
        title=check_text(title, name="title", default=f"Labels to look at, of {n_samples:,}"),
        scripts=("scales.js", "map.js", "charts.js", "suspects.js"),
        data=looks(cards, rows) | {"map": _map(X, frame, cards, np.random.default_rng(0), target)},
        verdict=verdict_of(verdict, default=_sentence(len(frame), len(rows))) | {"state": "none"},
        figures=[
            {"name": "labels ranked", "value": f"{len(frame):,}", "id": ""},
            {"name": "listed here", "value": f"{len(rows):,}", "id": ""},
        ],
        rows=rows,
        pairs=_pairs(listed, cards),
        cards=cards,
        target=target,
        n_suspects=n_suspects,
        is_classes=labels.codes is not None,
    )


def _checked_frame(suspects: Any) -> pd.DataFrame:
    frame = suspects.numbered() if hasattr(suspects, "numbered") else suspects
    if not isinstance(frame, pd.DataFrame):
        raise InputTypeError(
            f"suspects is {shown(suspects)}; expected a DataFrame with score, label and suggested; pass what "
            "suspects() returned"
        )
    missing = [name for name in ("score", "label", "suggested") if name not in frame.columns]
    if missing:
        raise InputError(
            f"suspects lacks {', '.join(missing)}; it has {shown(list(frame.columns))}; rename its columns"
        )
    index = frame.index
    is_rows = pd.api.types.is_integer_dtype(index.dtype) and index.is_unique
    if len(frame) and (not is_rows or index.min() < 0):
        raise InputError("the index of suspects does not hold rows; expected different whole numbers ≥ 0")
    if not len(frame):
        raise InputError("suspects is empty; expected at least one row")
    score = check_vector(frame["score"], name="score", minimum=0.0)
    return frame.assign(score=score)


def _n_samples(frame: pd.DataFrame, **data: Any) -> int:
    """Samples there are: as many as the data given, or up to the last row named."""
    lengths = [count_rows(part, name) for name, part in data.items() if part is not None]
    n_samples = lengths[0] if lengths else int(frame.index.max()) + 1
    if frame.index.max() >= n_samples:
        raise InputError(f"suspects names row {frame.index.max()}; expected rows below {n_samples}")
    return n_samples


def _labels_of(frame: pd.DataFrame, n_samples: int) -> npt.NDArray[Any]:
    """Labels of all samples, from the frame where it has them."""
    labels = frame["label"].to_numpy()
    if len(frame) == n_samples and frame["label"].dtype.kind in "iufb":
        found = np.empty(n_samples, dtype=labels.dtype)
    else:
        found, labels = np.full(n_samples, _UNKNOWN, dtype=object), frame["label"].astype(str).to_numpy()
    found[np.asarray(frame.index)] = labels
    return found


def _listed(frame: pd.DataFrame) -> pd.DataFrame:
    """The suspects, worst first; the first few where there are none."""
    ordered = frame.sort_values("score", ascending=False, kind="stable")
    n_suspects = int((ordered["score"] > _SUSPECT).sum())
    return ordered.head(min(max(n_suspects, 20), _MOST_LISTED))


def _row(frame: pd.DataFrame, row: Any, cards: Cards, around: IntArray | None) -> dict[str, Any]:
    entry = frame.loc[row]
    suggested = entry["suggested"]
    is_number = isinstance(suggested, float | np.floating)
    found = cards.face(int(row)) | {
        "score": float(entry["score"]),
        "suggested": number(suggested, 4) if is_number else str(suggested)[:60],
        "label_key": None if cards.labels.codes is not None else float(cards.labels.array[int(row), 0]),
        "suggested_key": float(suggested) if is_number and np.isfinite(suggested) else None,
        "is_suspect": bool(entry["score"] > _SUSPECT),
    }
    if around is not None:
        return found | {"around": cards.around(int(row), around[int(row)][around[int(row)] >= 0])}
    return found | {"around": _witnesses(entry, len(cards.labels), found["suggested"])}


def _witnesses(entry: Any, n_samples: int, suggested: str) -> dict[str, Any]:
    """Neighbours that the frame names: those that speak for what is suggested."""
    named = entry.get("neighbors", entry.get("neighbours", ()))
    try:
        rows = [int(other) for other in named if 0 <= int(other) < n_samples][:MOST_NEIGHBORS]
    except (TypeError, ValueError):  # no list of rows
        rows = []
    words = f"{len(rows)} say {suggested}" if rows else _UNKNOWN
    return {"rows": rows, "words": words, "differs": False, "key": len(rows)}


def _pairs(listed: pd.DataFrame, cards: Cards) -> list[dict[str, Any]]:
    """Which class is taken for which, how often; nothing for numbers."""
    if cards.labels.codes is None:
        return []
    suspected = listed[listed["score"] > _SUSPECT]
    counts = Counter(zip(suspected["label"].astype(str), suspected["suggested"].astype(str), strict=True))
    return [
        {"label": label[:60], "suggested": suggested[:60], "n": n}
        for (label, suggested), n in counts.most_common(_MOST_PAIRS)
    ]


def _map(
    X: Any, frame: pd.DataFrame, cards: Cards, generator: np.random.Generator, target: str
) -> dict[str, Any] | None:
    if X is None:
        return None
    score: FloatArray = np.zeros(len(cards.labels))
    score[np.asarray(frame.index)] = frame["score"]
    found = Shown.of(score, generator)
    values, names = label_columns(cards.labels)
    return {
        "axes": axes_of(X, found.points, (target, np.asarray(values[found.points], dtype=np.float64))),
        "rows": pack(cards.numbers[found.points], "u4"),
        "score": pack(score[found.points]),
        "labels": {"names": names, "values": pack(values[found.points])},
        "faces": cards.faces(found.points, found.hardest),
        "facesArePictures": cards.has_pictures,
        "sentence": found.sentence.split(". Distribution")[0].rstrip(".") + ".",
    }


def _sentence(n_labels: int, n_listed: int) -> str:
    return f"{n_labels:,} labels are ranked by score; the first {n_listed:,} are listed. Look from the top down."
