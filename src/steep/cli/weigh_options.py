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
        help="File for the table with its weights: .csv, .parquet, .feather, .arrow, .npz; or for the weights "
        "alone: .npy, .txt. Default TABLE-weighted and the table's own suffix.",
    ),
]
Auto = Annotated[
    bool,
    typer.Option("--auto", help="Let held-out folds choose, equal weights included (default without -m)."),
]
WeightRatio = Annotated[
    float | None,
    typer.Option(
        "--weight-ratio", "-m", help="m, heaviest over lightest weight, such as 40; nothing is tried."
    ),
]
Neighbors = Annotated[
    int | None,
    typer.Option(
        "--n-neighbors", "-k", help="k, neighbours compared; default 20 with -m, else several are tried."
    ),
]
Measure = Annotated[
    str | None,
    typer.Option("--measure", help="What the weights follow; default variance with -m, else several."),
]
Scoring = Annotated[
    str | None,
    typer.Option("--scoring", help="Score that decides: any of scikit-learn's, worst_decile or max_error."),
]
Recall = Annotated[
    float | None,
    typer.Option(
        "--recall", help="With -m, share of the true neighbours to find; default 0.99, of many 0.95."
    ),
]
Rows = Annotated[
    int,
    typer.Option("--rows", min=100, help="Rows that decide: of a larger table, so many drawn at random."),
]
WeightColumn = Annotated[str, typer.Option("--weight-column", help="Name of the column of weights.")]
Only = Annotated[bool, typer.Option("--only", help="Write the column of weights alone.")]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, help="With -m, Parquet of any size: weigh it with so many Dask workers here."
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler", metavar="ADDRESS", help="The same on the cluster of a Dask scheduler, tcp://…"
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FOLDER",
        help="With Dask, keep finished stages, so that a killed run continues.",
    ),
]
