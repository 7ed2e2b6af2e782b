"""The errors of steep, and warnings that point at the user's own line.

Every error is a :class:`SteepError` and also the builtin error a caller would expect, so both ``except
steep.SteepError`` and ``except ValueError`` work. Every message says what was got, what is needed and what to do.
"""

from __future__ import annotations

import os
import sys
import warnings

_HERE = os.path.dirname(__file__) + os.sep
# Libraries a call of ours may come back through: scikit-learn's wrappers, joblib's batches, context managers.
_BETWEEN = (f"{os.sep}sklearn{os.sep}", f"{os.sep}joblib{os.sep}", f"{os.sep}contextlib.py")


class SteepError(Exception):
    """Base of every error raised by steep.

    Examples
    --------
    >>> import steep
    >>> try:
    ...     steep.neighbor_graph([[0.0], [1.0]], n_neighbors=5)
    ... except steep.SteepError as error:
    ...     print(error)
    n_neighbors=5 needs at least 5 samples, got 2; lower n_neighbors or pass more data
    """


class InputError(SteepError, ValueError):
    """A value is out of its range, or an array has the wrong shape or is not finite."""


class InputTypeError(SteepError, TypeError):
    """An argument is of a type that cannot be used."""


class FunctionError(SteepError, ValueError):
    """A function given by the caller returned the wrong shape or values that are not finite."""


class RejectedError(FunctionError):
    """Raised by a simulator for inputs that it does not accept: they are not tried again, and avoided from then on.

    Examples
    --------
    >>> def simulator(u, t):
    ...     if u * t > 5:
    ...         raise RejectedError("no solution above u t = 5")
    ...     return u * t
    """

    failure_kind = "rejected"


class UnsupportedEstimatorError(SteepError, TypeError):
    """An estimator cannot be trained with ``sample_weight``."""


class AcceptanceError(SteepError, RuntimeError):
    """Too few of the points drawn fell inside the domain."""


class MissingExtraError(SteepError, ImportError):
    """A feature needs an optional dependency that is not installed."""


class SteepWarning(UserWarning):
    """A result is usable but probably not what was wanted.

    Examples
    --------
    >>> import steep, warnings
    >>> warnings.simplefilter("error", steep.SteepWarning)  # stop at the first one
    """


class CampaignError(SteepError, RuntimeError):
    """A campaign cannot go on: its executor broke, or it was asked for what it cannot do now."""


class StorageError(SteepError, OSError):
    """The file of a campaign cannot be opened, read or written."""


def warn_user(message: str, category: type[Warning] = SteepWarning) -> None:
    """Warn with the place of the first caller outside steep."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(filename: str) -> bool:
    return filename.startswith(_HERE) or any(part in filename for part in _BETWEEN)
