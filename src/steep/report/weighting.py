"""The page of a weighting: does it help, which samples are heavy, and where they lie.

The slider for ``weight_ratio`` needs each sample's share v and the ratio used, which follow from the weights:

    w = c (1 + (m − 1) v)     v is 0 at the lightest sample and 1 at the heaviest

Weights of zero stay zero at every ratio.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from steep._validation import FloatArray, IntArray, check_sample_weight, check_size
from steep.labels import Labels
from steep.report.page import check_text, cut, number, pack, verdict_of, write_page
from steep.report.samples import Cards, axes_of, frame_of, read_labels
from steep.rescaling import effective_samples

# Points of a map, which a canvas draws again while a slider moves; rows of the table, which all stand in the page.
MOST_POINTS, MOST_ROWS = 10_000, 100
# Classes whose share of the weight is shown.
_MOST_CLASSES = 12
# Values that stand for the distribution of all samples, and of each class.
_MOST_QUANTILES, _QUANTILES_OF_CLASS = 4001, 501


def weighting_page(
    path: str | Path,
    *,
    X: Any,
    y: Any,
    weights: Any,
    target: str = "label",
    verdict: Any = None,
    title: str | None = None,
    images: Any = None,
    texts: Any = None,
) -> Path:
    """Write a report of sample weights: one self-contained HTML file.

    Parameters
    ----------
    path : str or path
        The file to write.
    X : array-like or frame of shape (n_samples, n_features)
        Samples, as :func:`steep.sample_weights` takes them. Rows are shown by the index of a frame where it holds
        whole numbers, and otherwise counted from 0.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Labels.
    weights : array-like of shape (n_samples,)
        What :func:`steep.sample_weights` returned, or ``sample_weight_`` of a search.
    target : str, default "label"
        What the labels are called.
    verdict : Verdict or str, optional
        What the evidence says; it comes first.
    title : str, optional
        Title of the page.

    Other Parameters
    ----------------
    images : array-like of shape (n_samples, height, width[, channels]), optional
        The samples as pictures.
    texts : sequence of str, optional
        The samples as texts.

    Returns
    -------
    Path
        ``path``.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from steep import sample_weights
    >>> X, y = load_iris(return_X_y=True)
    >>> file = weighting_page(tempfile.mkdtemp() + "/iris.html", X=X, y=y, weights=sample_weights(X, y))
    >>> file.read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    frame = frame_of(X, "X")
    n_samples = len(frame)
    labels = read_labels(y, n_samples)
    known = check_sample_weight(weights, n_samples, name="weights")
    check_size(known, "weights")
    share, ratio = shares_of(known)
    points, heaviest = chosen_rows(known)
    target = check_text(target, name="target")
    table = frame if images is None and texts is None else None
    cards = Cards(labels, table=table, target=target, images=images, texts=texts, index=frame.index)
    # A number for each label to colour by, and the names of the classes.
    colours = labels.array[:, 0] if labels.codes is None else labels.codes
    names = None if labels.codes is None or labels.classes is None else [cut(str(name)) for name in labels.classes]
    data = {
        "n": int((~np.isnan(share)).sum()),
        "ratio": ratio,
        "axes": axes_of(frame.iloc[points], (target, colours[points])),
        "rows": pack(cards.numbers[points], "u4"),
        "share": pack(np.nan_to_num(share[points], nan=-1.0)),
        "quantiles": pack(quantiles_of(share, _MOST_QUANTILES)),
        "groups": _groups(share, labels),
        "labels": {"names": names, "values": pack(colours[points])},
    }
    return write_page(
        path,
        "weighting.html",
        title=check_text(title, name="title", default=f"Weights of {n_samples:,} samples"),
        scripts=("scales.js", "map.js", "histogram.js", "weighting.js"),
        data=data,
        verdict=verdict_of(verdict, default=_sentence(known)),
        figures=_figures(known, ratio),
        rows=_rows(cards, heaviest, share),
        cards=cards,
        shown=_shown(len(points), n_samples),
        target=target,
        ratio=ratio,
        can_slide=ratio > 1,
    )


def shares_of(weights: FloatArray) -> tuple[FloatArray, float]:
    """The share v of every sample, NaN where the weight is zero, and the ratio m: the inverse of a rescaling."""
    low, high = weights[weights > 0].min(), weights.max()
    spread = high - low if high > low * (1 + 1e-9) else np.inf  # equal but for rounding
    return np.where(weights > 0, (weights - low) / spread, np.nan), float(high / low) if spread < np.inf else 1.0


def chosen_rows(weights: FloatArray) -> tuple[IntArray, IntArray]:
    """Rows on the map, in the order of the data, and rows in the table, the heaviest first; these are on both."""
    heaviest = np.argsort(-weights, kind="stable")[:MOST_ROWS]
    if len(weights) <= MOST_POINTS:
        return np.arange(len(weights)), heaviest
    others = np.random.default_rng(0).permutation(np.setdiff1d(np.arange(len(weights)), heaviest))
    return np.sort(np.concatenate([heaviest, others[: MOST_POINTS - len(heaviest)]])), heaviest


def _shown(n_points: int, n_samples: int) -> str:
    if n_points == n_samples:
        return f"All {n_samples:,} rows are on the map."
    return (
        f"{n_points:,} of {n_samples:,} rows are on the map: the {MOST_ROWS} heaviest, and others drawn at random. "
        "Distribution and figures are of all rows."
    )


def _groups(share: FloatArray, labels: Labels) -> list[dict[str, Any]]:
    """The shares of each class, to say which class carries the weight; nothing for numbers and many classes."""
    if labels.codes is None or labels.classes is None or not 2 <= len(labels.classes) <= _MOST_CLASSES:
        return []
    groups = [share[labels.codes == code] for code in range(len(labels.classes))]
    return [
        {"name": cut(str(name)), "n": len(group), "quantiles": pack(quantiles_of(group, _QUANTILES_OF_CLASS))}
        for name, group in zip(labels.classes, groups, strict=True)
        if len(group)
    ]


def quantiles_of(share: FloatArray, most: int) -> FloatArray:
    """Shares in order, those of weight zero left out; ``most`` of them, evenly chosen, if there are more."""
    known = np.sort(share[~np.isnan(share)])
    if len(known) <= most:
        return known
    middle = (np.arange(most) + 0.5) / most
    return np.asarray(known[(middle * len(known)).astype(np.intp)])


def _rows(cards: Cards, heaviest: IntArray, share: FloatArray) -> list[dict[str, Any]]:
    return [
        cards.face(row)
        | {
            "label_key": None if cards.labels.codes is not None else float(cards.labels.array[row, 0]),
            "share": float(np.nan_to_num(share[row], nan=-1.0)),
            "cells": cells,
        }
        for row, cells in zip(heaviest.tolist(), cards.columns.cells(heaviest), strict=True)
    ]


def _sentence(weights: FloatArray) -> str:
    """What can be said without evidence."""
    if shares_of(weights)[1] == 1:
        return f"All {len(weights):,} samples have the same weight."
    return (
        f"{len(weights):,} samples are weighted from {number(weights.min())} to {number(weights.max())}; the effective "
        f"sample size is {number(effective_samples(weights))}. Whether these weights help was not tested; use "
        "VarianceWeightedCV for that."
    )


def _figures(weights: FloatArray, ratio: float) -> list[dict[str, str]]:
    """Figures under the verdict; the scripts keep those with an id up to date."""
    heavy = np.sort(weights)[::-1][: max(1, round(len(weights) / 10))].sum() / weights.sum()
    return [
        {"name": "samples", "value": f"{len(weights):,}", "id": ""},
        {"name": "heaviest over lightest", "value": number(ratio), "id": "figure-ratio"},
        {"name": "effective sample size", "value": number(effective_samples(weights)), "id": "figure-worth"},
        {"name": "weight of the heaviest tenth", "value": f"{100 * heavy:.0f} %", "id": "figure-tenth"},
    ]  # fmt: skip
