"""Tables for the weighting battery: any folder of CSV files, or what ships with scikit-learn and mlxtend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets


class Table(NamedTuple):
    """Samples and labels with a name and a task."""

    name: str
    task: str
    X: np.ndarray
    y: np.ndarray


def load_tables(folder: Path | None, task: str) -> Iterator[Table]:
    """Yield every table of a task; in a folder the target is the last column of ``NAME.csv[.gz]``."""
    source = _from_packages() if folder is None else _from_folder(folder)
    for table in source:
        if table.task == task:
            labels = np.unique(table.y, return_inverse=True)[1] if task == "classification" else table.y.astype(float)
            yield table._replace(X=table.X.astype(float), y=labels)


def _from_folder(folder: Path) -> Iterator[Table]:
    manifest = folder / "manifest.csv"
    tasks = dict(pd.read_csv(manifest)[["name", "task"]].itertuples(index=False)) if manifest.exists() else {}
    for path in sorted(folder.glob("*.csv*")):
        name = path.name.split(".")[0]
        if path == manifest:
            continue
        frame = pd.read_csv(path)
        y = frame.iloc[:, -1].to_numpy()
        guess = "classification" if y.dtype.kind in "OUb" or len(np.unique(y)) <= 30 else "regression"
        yield Table(name, tasks.get(name, guess), frame.iloc[:, :-1].to_numpy(), y)


def _from_packages() -> Iterator[Table]:
    for name in ("breast_cancer", "digits", "wine", "iris"):
        yield Table(name, "classification", *getattr(datasets, f"load_{name}")(return_X_y=True))
    yield Table("diabetes", "regression", *datasets.load_diabetes(return_X_y=True))
    try:
        from mlxtend import data
    except ImportError:
        return
    yield Table("boston", "regression", *data.boston_housing_data())
    X, y = data.autompg_data()
    whole = ~np.isnan(X).any(axis=1)
    yield Table("autompg", "regression", X[whole], y[whole])
