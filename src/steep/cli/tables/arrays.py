"""NPZ files: arrays of NumPy by name."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from steep._validation import one_line
from steep.exceptions import InputError, StorageError

# What NumPy and zipfile raise for a file that is damaged, encrypted or packed in a way they do not know.
_BROKEN = (
    OSError,
    ValueError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    AttributeError,
    NotImplementedError,
    RuntimeError,
    struct.error,
)


def load_arrays(path: Path) -> dict[str, Any]:
    """The arrays of an NPZ file by name; nothing in the file is ever executed."""
    try:
        # Opened here, since NumPy leaves a file that is no archive open.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not hasattr(archive, "files"):
                raise InputError(f"{path} holds one array; need an .npz with several; save them by numpy.savez")
            return {name: archive[name] for name in archive.files}
    except InputError:
        raise
    except _BROKEN as error:
        reason = getattr(error, "strerror", None) or one_line(error)
        raise StorageError(
            f"{path} cannot be read ({reason}); need an .npz of plain arrays; save numbers and text alone"
        ) from error
