"""Options of ``steep weigh``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="File for the table with its weights: .csv, .parquet, .feather, .arrow; or for the weights "
        "alone: .npy, .txt. Default TABLE-weighted with the table's own suffix.",
    ),
]
Auto = Annotated[
    bool, typer.Option("--auto", help="Let held-out folds choose, equal weights included (default without -m).")
]
WeightRatio = Annotated[
    float | None,
    typer.Option("--weight-ratio", "-m", help="m, heaviest over lightest weight, such as 40; nothing is tried."),
]
Neighbors = Annotated[
    int | None,
    typer.Option("--n-neighbors", "-k", help="k, neighbours compared; default 20 with -m, else several are tried."),
]
Measure = Annotated[
    str | None, typer.Option("--measure", help="What the weights follow; default variance with -m, else several.")
]
Scoring = Annotated[
    str | None, typer.Option("--scoring", help="Score that decides: any of scikit-learn's, worst_decile or max_error.")
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        help="Model that decides, and that the weights are for: linear, svm, forest, boosting, or "
        "package.module:name of an estimator.",
    ),
]
Rows = Annotated[
    int | None,
    typer.Option(
        "--rows",
        min=100,
        help="Rows that decide, drawn at random from a larger table; default 20000 for linear, 2000 to 3000 for "
        "others.",
    ),
]
WeightColumn = Annotated[str, typer.Option("--weight-column", help="Name of the column of weights.")]
Only = Annotated[bool, typer.Option("--only", help="Write the column of weights alone.")]
