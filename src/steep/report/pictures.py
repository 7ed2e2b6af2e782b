"""Samples that are pictures, as small PNG files inside the page."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import numpy.typing as npt

from steep.exceptions import InputError, MissingExtraError
from steep.report.coordinates import array_of

# Longer side of a thumbnail; larger pictures are made smaller.
_LARGEST = 96


class Pictures:
    """Pictures of the samples.

    Parameters
    ----------
    images : array-like of shape (n_samples, height, width) or (n_samples, height, width, 1, 3 or 4)
        Grey, grey, colour, or colour with opacity. Whole numbers are bytes from 0 to 255; floats are taken from 0 to
        the largest one, or from the smallest to the largest where some are below 0.
    n_samples : int
        Rows there must be.
    """

    def __init__(self, images: Any, n_samples: int) -> None:
        self._images = array_of(images, "images")
        shape = self._images.shape
        is_stack = len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3, 4))
        if not is_stack or shape[0] != n_samples or 0 in shape or self._images.dtype.kind not in "biuf":
            raise InputError(
                f"images is {self._images.dtype} of shape {shape}; need numbers of shape ({n_samples}, height, width) "
                f"or ({n_samples}, height, width, 1, 3 or 4)"
            )
        self._low, self._spread = _range(self._images)

    def uri(self, row: int) -> str:
        """One picture as a data URI."""
        try:
            from PIL import Image
        except ImportError as error:
            raise MissingExtraError("pictures in pages need pillow; pip install 'steep[report]'") from error
        picture = Image.fromarray(self._bytes(row))
        if max(picture.size) > _LARGEST:
            picture.thumbnail((_LARGEST, _LARGEST))
        file = io.BytesIO()
        picture.save(file, format="PNG", optimize=True)
        return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"

    def _bytes(self, row: int) -> npt.NDArray[np.uint8]:
        picture = self._images[row]
        if picture.ndim == 3 and picture.shape[2] == 1:
            picture = picture[:, :, 0]
        if picture.dtype == np.uint8:
            return np.ascontiguousarray(picture)
        share = (np.nan_to_num(picture.astype(np.float64)) - self._low) / self._spread
        return np.ascontiguousarray(np.round(255 * np.clip(share, 0.0, 1.0)).astype(np.uint8))


def _range(images: npt.NDArray[Any]) -> tuple[float, float]:
    """Darkest value, and how far the brightest is from it."""
    if images.dtype.kind == "b":
        return 0.0, 1.0
    if images.dtype == np.uint8:
        return 0.0, 255.0
    finite = images[np.isfinite(images)] if images.dtype.kind == "f" else images
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    low = min(low, 0.0)
    return low, (high - low) or 1.0
