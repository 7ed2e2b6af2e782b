"""The page of a weighting: does it help, which samples are heavy, and where they lie.

The slider for ``weight_ratio`` needs each sample's share v and the ratio used, which follow from the weights:

    w = c (1 + (m − 1) v)         m ≥ 1
    w = c / (1 + (1/m − 1) v)     m < 1

v is 0 at the flattest sample and 1 at the steepest; the variation says which of the two are the heavy ones. Weights of
zero stay zero at every ratio.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from steep._sklearn import take_rows
from steep._validation import FloatArray, IntArray, check_sample_weight, check_size, check_vector
from steep.labels import Labels
from steep.neighbors.query import nearest
from steep.report.page import check_text, number, pack, verdict_of, write_page
from steep.report.samples import MOST_NEIGHBORS, Cards, Shown, axes_of, count_rows, label_columns, looks, read_labels
from steep.rescaling import effective_samples
from steep.weighting.embedding import embed

# Classes whose share of the weight is shown.
_MOST_CLASSES = 12
# Weights this near to each other are equal but for rounding.
_EQUAL = 1e-9
# Values that stand for the distribution of all samples.
_MOST_QUANTILES = 4001


def weighting_page(
    path: str | Path,
    *,
    X: Any,
    y: Any,
    weights: Any,
    variation: Any = None,
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
    variation : array-like of shape (n_samples,), optional
        What the weights were made from; decides which samples are hard. Default the weights themselves.
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
    n_samples = count_rows(X, "X")
    labels = read_labels(y, n_samples)
    known = check_sample_weight(weights, n_samples, name="weights")
    check_size(known, "weights")
    varies = None if variation is None else check_vector(variation, name="variation", n_samples=n_samples, minimum=0.0)
    generator = np.random.default_rng(0)
    ratio = Ratio.of(known, varies)
    hardness = varies if varies is not None else np.nan_to_num(ratio.share)
    shown = Shown.of(hardness, generator)
    table = X if images is None and texts is None else None
    target = check_text(target, name="target")
    index = getattr(X, "index", None)
    cards = Cards(labels, table=table, target=target, images=images, texts=texts, index=index)
    around = _neighbors(X, shown.hardest)
    rows = _rows(shown.hardest, cards, around, ratio, varies)
    data = _data(X, ratio, shown, cards, varies, target) | looks(cards, rows)
    return write_page(
        path,
        "weighting.html",
        title=check_text(title, name="title", default=f"Weights of {n_samples:,} samples"),
        scripts=("scales.js", "map.js", "histogram.js", "weighting.js"),
        data=data,
        verdict=verdict_of(verdict, default=_sentence(known)),
        figures=_figures(known, ratio),
        rows=rows,
        cards=cards,
        shown=shown,
        target=target,
        ratio=ratio,
        has_variation=varies is not None,
        is_hard_known=bool(hardness.max() > hardness.min()),
        can_slide=bool(np.nanmax(ratio.share) > 0),
    )


def _data(
    X: Any, ratio: Ratio, shown: Shown, cards: Cards, variation: FloatArray | None, target: str
) -> dict[str, Any]:
    points = shown.points
    values, names = label_columns(cards.labels)
    return {
        "n": int((~np.isnan(ratio.share)).sum()),
        "ratio": ratio.ratio,
        "axes": axes_of(X, points, (target, values[points])),
        "rows": pack(cards.numbers[points], "u4"),
        "share": pack(np.nan_to_num(ratio.share[points], nan=-1.0)),
        "variation": None if variation is None else pack(variation[points]),
        "quantiles": pack(ratio.quantiles()),
        "groups": _groups(ratio, cards.labels),
        "labels": {"names": names, "values": pack(values[points])},
    }


def _groups(ratio: Ratio, labels: Labels) -> list[dict[str, Any]]:
    """The shares of each class, to say which class carries the weight; nothing for numbers and many classes."""
    if labels.codes is None or labels.classes is None or not 2 <= len(labels.classes) <= _MOST_CLASSES:
        return []
    groups = [ratio.share[labels.codes == code] for code in range(len(labels.classes))]
    return [
        {"name": str(name)[:60], "n": len(group), "quantiles": pack(quantiles_of(group, 501))}
        for name, group in zip(labels.classes, groups, strict=True)
        if len(group)
    ]


def _neighbors(X: Any, rows: IntArray) -> dict[int, IntArray]:
    points = embed(X)
    found = nearest(points, take_rows(points, rows), MOST_NEIGHBORS + 1)[1]
    return {int(row): indices for row, indices in zip(rows, found, strict=True)}


def _rows(
    hardest: IntArray, cards: Cards, around: dict[int, IntArray], ratio: Ratio, variation: FloatArray | None
) -> list[dict[str, Any]]:
    cells = cards.columns.cells(hardest)
    return [
        cards.face(row)
        | {
            "label_key": None if cards.labels.codes is not None else float(cards.labels.array[row, 0]),
            "share": float(np.nan_to_num(ratio.share[row], nan=-1.0)),
            "variation": None if variation is None else float(variation[row]),
            "cells": cells[place],
            "around": cards.around(row, around[row]),
        }
        for place, row in enumerate(map(int, hardest))
    ]


def _sentence(weights: FloatArray) -> str:
    """What can be said without evidence."""
    if weights.max() <= weights.min() * (1 + 1e-9):
        return f"All {len(weights):,} samples have the same weight."
    worth = effective_samples(weights)
    return (
        f"{len(weights):,} samples are weighted from {number(weights.min())} to {number(weights.max())}; the effective "
        f"sample size is {number(worth)}. Whether these weights help was not tested; use "
        "VarianceWeightedCV for that."
    )


def _figures(weights: FloatArray, ratio: Ratio) -> list[dict[str, str]]:
    """Figures under the verdict; the scripts keep those with an id up to date."""
    heavy = np.sort(weights)[::-1][: max(1, round(len(weights) / 10))].sum() / weights.sum()
    return [
        {"name": "samples", "value": f"{len(weights):,}", "id": ""},
        {"name": "heaviest over lightest", "value": number(max(ratio.ratio, 1 / ratio.ratio)), "id": "figure-ratio"},
        {"name": "effective sample size", "value": number(effective_samples(weights)), "id": "figure-worth"},
        {"name": "weight of the heaviest tenth", "value": f"{100 * heavy:.0f} %", "id": "figure-tenth"},
    ]  # fmt: skip


@dataclass(frozen=True)
class Ratio:
    """The share v of every sample, NaN where the weight is zero, and the ratio m of the weights.

    ``is_from_weights`` is False where equal weights say nothing of v and the variation was taken.
    """

    share: FloatArray
    ratio: float
    is_from_weights: bool

    @classmethod
    def of(cls, weights: FloatArray, variation: FloatArray | None) -> Ratio:
        """Undo :func:`steep.rescale`."""
        used = weights > 0
        heavy = weights[used]
        share = np.full(len(weights), np.nan)
        if heavy.max() <= heavy.min() * (1 + _EQUAL):
            share[used] = 0.0 if variation is None else _unit_range(variation[used])
            return cls(share, 1.0, variation is None)
        is_flat_heavy = variation is not None and _falls(variation[used], heavy)
        share[used] = _unit_range(heavy.min() / heavy if is_flat_heavy else heavy)
        ratio = float(heavy.max() / heavy.min())
        return cls(share, 1 / ratio if is_flat_heavy else ratio, True)

    def quantiles(self) -> FloatArray:
        """The shares of all samples in order, or as many quantiles as a page has room for."""
        return quantiles_of(self.share, _MOST_QUANTILES)


def quantiles_of(share: FloatArray, most: int) -> FloatArray:
    """Shares in order, those of weight zero left out; ``most`` of them, evenly chosen, if there are more."""
    known = np.sort(share[~np.isnan(share)])
    if len(known) <= most:
        return known
    middle = (np.arange(most) + 0.5) / most
    return np.asarray(known[(middle * len(known)).astype(np.intp)])


def _unit_range(values: FloatArray) -> FloatArray:
    low, spread = values.min(), values.max() - values.min()
    return (values - low) / spread if spread > 0 else np.zeros_like(values)


def _falls(variation: FloatArray, weights: FloatArray) -> bool:
    first, second = _unit_range(variation), _unit_range(weights)
    return bool((first - first.mean()) @ (second - second.mean()) < 0)
