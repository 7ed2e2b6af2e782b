"""A surrogate in a file: a zip of NumPy arrays, and a JSON text about them. Nothing is pickled, nothing is run."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steep._files import write_whole
from steep.domain import Box
from steep.domain.axes import axis_from_key
from steep.exceptions import StorageError, warn_user
from steep.surrogate._blend import Blend, part
from steep.surrogate.certificate import Certificate, OutputError

if TYPE_CHECKING:
    from steep.surrogate.surrogate import Surrogate

_ARRAYS = ("X_", "y_", "X_check_", "y_check_", "check_weights_", "_ratios", "_spread")
_FORMAT, _VERSION = "steep surrogate", 1


def write(model: Surrogate, path: str | PathLike[str]) -> None:
    """Write everything a fitted surrogate holds."""
    about = {
        "format": _FORMAT,
        "version": _VERSION,
        "names": list(model.box.names),
        "axes": [axis.key() for axis in model.box.axes],
        "constrained": model.box.constraint is not None,
        "outputs": list(model.outputs),
        "certificate": asdict(model.certificate),
        "candidates": list(model.candidates),
        "stop_reason": model.stop_reason,
    }
    arrays: dict[str, Any] = {name: getattr(model, name) for name in _ARRAYS}
    for i, blended in enumerate(model.blends_):
        arrays |= {f"output{i}.{name}": array for name, array in blended.arrays().items()}
    held = io.BytesIO()
    np.savez_compressed(held, about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8), **arrays)
    write_whole(str(path), lambda temporary: temporary.write_bytes(held.getvalue()))


def read(model: Surrogate, path: str | PathLike[str]) -> None:
    """Fill a surrogate from a file."""
    try:
        with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(arrays.pop("about").tobytes())
        if about["format"] != _FORMAT or about["version"] != _VERSION:
            raise ValueError(f"format {about['format']!r}, version {about['version']!r}")
        model.box = Box(dict(zip(about["names"], map(axis_from_key, about["axes"]), strict=True)))
        certificate = about["certificate"]
        outputs = tuple(OutputError(**one) for one in certificate.pop("outputs"))
        model.certificate = Certificate(outputs=outputs, **certificate)
        model.blends_ = [Blend.of_arrays(part(arrays, f"output{i}.")) for i in range(len(about["outputs"]))]
        model.outputs, model.candidates = tuple(about["outputs"]), tuple(about["candidates"])
        arrays.setdefault("check_weights_", np.ones(len(arrays["X_check_"])))  # earlier files have none
        for name in _ARRAYS:
            setattr(model, name, arrays[name])
        model.n_features_in_, model.stop_reason = model.box.n_features, about["stop_reason"]
        model.bounds, model.scores_ = model.box, [one.scores for one in model.blends_]
        model.predict(model.X_[:1], extrapolate=True)
    except FileNotFoundError as error:
        raise StorageError(f"{path} does not exist; pass the name of a file that save() wrote") from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise StorageError(
            f"{path} is damaged or is not a steep surrogate ({' '.join(str(error).split())[:120]}); pass a file that "
            "save() wrote"
        ) from error
    if about["constrained"]:
        warn_user(f"{path} was fitted with a constraint, which a file cannot keep; points it forbids are answered too")
