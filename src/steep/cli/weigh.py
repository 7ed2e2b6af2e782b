"""The ``steep`` command.

steep weigh table.csv --target price --output weighted.csv
steep demo
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from pandas.api.types import is_numeric_dtype

import steep
from steep._files import write_whole
from steep.exceptions import InputError, SteepError
from steep.labels import TASKS
from steep.weighting import sample_weights

WEIGHT_COLUMN = "sample_weight"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; errors of the input end with one line and exit code 2."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except BrokenPipeError:  # the reader of our output has gone, as with `| head`
        sys.stderr.close()
        return 1
    except (SteepError, OSError) as error:
        print(f"steep: {error}", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="steep", description="Put the training effort where the function is steep."
    )
    parser.add_argument("--version", action="version", version=f"steep {steep.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    weigh = commands.add_parser("weigh", help="add a column of sample weights to a CSV table")
    weigh.add_argument("table", type=Path, help="CSV file with one sample per row")
    weigh.add_argument("--target", required=True, help="column that holds the labels")
    weigh.add_argument("--output", type=Path, help="CSV file to write; default: TABLE with -weighted added")
    weigh.add_argument(
        "--drop", action="append", default=[], metavar="COLUMN", help="column to leave out of X"
    )
    weigh.add_argument("--n-neighbors", type=int, default=20, help="k, neighbours compared (default 20)")
    weigh.add_argument(
        "--weight-ratio", type=float, default=40.0, help="m, heaviest over lightest (default 40)"
    )
    weigh.add_argument("--task", choices=TASKS, default="auto", help="how to read the target (default auto)")
    weigh.set_defaults(run=_weigh)

    demo = commands.add_parser("demo", help="run each job once and write its picture")
    demo.add_argument(
        "--output", type=Path, default=Path("demo"), help="folder for the pictures (default demo)"
    )
    demo.set_defaults(run=_demo)
    return parser


def _weigh(options: argparse.Namespace) -> int:
    table = _read(options.table)
    for column in [options.target, *options.drop]:
        if column not in table:
            raise InputError(
                f"{options.table} has no column {column!r}; its columns are {', '.join(table.columns)}"
            )
    features = table.drop(columns=[options.target, *options.drop])
    text = [name for name in features if not is_numeric_dtype(features[name])]
    if text:
        raise InputError(
            f"columns {', '.join(map(repr, text))} are not numeric; need numbers; leave them out with --drop, or "
            "encode them first"
        )
    weights = sample_weights(
        features.to_numpy(dtype=float),
        table[options.target],
        n_neighbors=options.n_neighbors,
        weight_ratio=options.weight_ratio,
        task=options.task,
    )
    output = options.output or options.table.with_name(f"{options.table.stem}-weighted.csv")
    weighted = table.assign(**{WEIGHT_COLUMN: weights})
    write_whole(output, lambda path: weighted.to_csv(path, index=False))
    effective = weights.sum() ** 2 / (weights**2).sum()
    print(f"{output}: {len(table)} samples weighted from {weights.min():.3g} to {weights.max():.3g}, worth "
          f"{effective:.0f} equal ones")  # fmt: skip
    return 0


def _read(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} is not a CSV table ({error}); need comma-separated rows with a header"
        ) from error


def _demo(options: argparse.Namespace) -> int:
    from steep.cli.demo import run_demo

    run_demo(options.output)
    return 0
