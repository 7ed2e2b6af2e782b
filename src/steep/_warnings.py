"""Warnings that point at the user's own line, however deep in steep they arise."""

from __future__ import annotations

import os
import sys
import warnings

from steep.exceptions import SteepWarning

_HERE = os.path.dirname(__file__) + os.sep
# Libraries a call of ours may come back through: scikit-learn's wrappers, joblib's batches, context managers.
_BETWEEN = (f"{os.sep}sklearn{os.sep}", f"{os.sep}joblib{os.sep}", f"{os.sep}contextlib.py")


def warn_user(message: str, category: type[Warning] = SteepWarning) -> None:
    """Warn with the place of the first caller outside steep."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(filename: str) -> bool:
    return filename.startswith(_HERE) or any(part in filename for part in _BETWEEN)
