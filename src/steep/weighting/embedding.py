"""The space in which neighbours are looked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from steep._validation import FloatArray, check_points
from steep.exceptions import InputTypeError


def embed(X: Any, embedding: Any) -> FloatArray:
    """Map ``X`` to the space in which neighbours are looked for; see :func:`sample_weights`."""
    if isinstance(embedding, str) and embedding == "standard":
        points = check_points(X)
        spread = points.std(axis=0)
        standard: FloatArray = (points - points.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        return standard
    if embedding is None:
        return check_points(X)
    if hasattr(embedding, "fit_transform"):
        return check_points(clone(embedding).fit_transform(X), name="embedding.fit_transform(X)")
    if callable(embedding):
        return check_points(embedding(X), name="embedding(X)")
    raise InputTypeError(
        f"embedding={embedding!r} is unknown; need 'standard', None, a transformer with fit_transform, or a callable"
    )
