"""``steep weigh --workers N`` and ``--scheduler ADDRESS``: Parquet files of any size, weighed by a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from glob import glob, has_magic
from importlib import import_module
from pathlib import Path
from typing import Any

from steep._files import write_whole
from steep._progress import progress_bar
from steep._validation import FloatArray
from steep.cli.destinations import check_destination
from steep.cli.printing import note
from steep.exceptions import CampaignError, InputError, MissingExtraError, SteepError

_PATIENCE = 10  # seconds a scheduler may take to answer
_LOOK = 0.2  # seconds between two looks at what is done


def check_request(
    tables: Sequence[Path],
    output: Path | None,
    *,
    weight_ratio: float | None,
    refused: Sequence[str],
    force: bool,
) -> Path:
    """Refuse what is not done on Dask before a cluster is asked for; return where the weights go."""
    if weight_ratio is None:
        raise InputError(
            "got --workers or --scheduler without -m; need a ratio, for nothing is tried there; pass -m 40"
        )
    if refused:
        raise InputError(
            f"{refused[0]} does not go with --workers or --scheduler; need one or the other; leave it out"
        )
    tables = expanded(tables)
    other = [path for path in tables if path.suffix.lower() not in (".parquet", ".pq") and not path.is_dir()]
    if other:
        raise InputError(
            f"{other[0]} is no Parquet; need Parquet with --workers or --scheduler; convert it first"
        )
    missing = [path for path in tables if not path.exists()]
    if missing:
        raise InputError(f"{missing[0]} is not there; need Parquet files or a folder of them; check the path")
    if output is None or output.suffix.lower() != ".npy":
        raise InputError(
            f"the output is {output}; need a .npy file for the weights with --workers or --scheduler; pass "
            "-o weights.npy"
        )
    return check_destination(output, inputs=list(tables), force=force)


def expanded(tables: Sequence[Path]) -> list[Path]:
    """The files that patterns such as ``big/*.parquet`` stand for, where no shell has done so."""
    found = [
        sorted(map(Path, glob(str(path)))) if has_magic(str(path)) and not path.exists() else [path]
        for path in tables
    ]
    return [path for paths in found for path in paths]


@contextmanager
def cluster_of(scheduler: str | None, workers: int | None) -> Iterator[Any]:
    """A client of a scheduler that is running, or of workers on this machine."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise MissingExtraError(
            "--workers and --scheduler need Dask; pip install 'steep[distributed]'"
        ) from error
    if scheduler is not None and workers is not None:
        raise InputError("got --scheduler and --workers; need one or the other; leave one out")
    if scheduler is not None:
        client = _reached(distributed, scheduler)
        with client:
            note(f"dashboard: {client.dashboard_link}")
            yield client
        return
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        note(f"dashboard: {client.dashboard_link}")
        yield client


def _reached(distributed: Any, scheduler: str) -> Any:
    try:
        return distributed.Client(scheduler, timeout=_PATIENCE)
    except (OSError, ValueError) as error:
        raise CampaignError(
            f"no scheduler answers at {scheduler!r} within {_PATIENCE} seconds ({type(error).__name__}); need one that "
            "runs; start it with: dask scheduler"
        ) from error


def weigh_on_dask(
    client: Any,
    tables: Sequence[Path],
    target: str,
    *,
    drop: Sequence[str],
    checkpoint: Path | None,
    **how: Any,
) -> FloatArray:
    """Weights of all rows, in the order of the files."""
    import dask.dataframe as dd
    import numpy as np

    from steep.weighting import sample_weights

    paths = [str(path) for path in expanded(tables)]
    table = dd.read_parquet(paths if len(paths) > 1 else paths[0])
    for name in (target, *drop):
        if name not in table.columns:
            raise InputError(
                f"there is no column {name!r}; need one of {', '.join(map(str, table.columns[:8]))}; check the name"
            )
    y = table[target]
    X = table.drop(columns=[target, *drop])
    weights = sample_weights(X, y, checkpoint=checkpoint, **how)
    return np.asarray(_computed(client, weights))


def _computed(client: Any, weights: Any) -> Any:
    """Compute with a bar over all tasks; an interrupt cancels what is left of them."""
    import time

    future = client.compute(weights)
    try:
        with progress_bar(total=1, label="tasks") as bar:
            while not future.done():
                time.sleep(_LOOK)
                if bar.shown:
                    n_done, _ = client.run_on_scheduler(_counts)
                    bar.counts(n_done)
        return future.result()
    except SteepError:
        raise
    except KeyboardInterrupt:
        future.cancel()
        raise


def _counts(dask_scheduler: Any) -> tuple[int, int]:
    """Tasks that are done, and tasks in all."""
    states = [task.state for task in dask_scheduler.tasks.values()]
    return sum(state in ("memory", "released", "forgotten") for state in states), len(states)


def write_weights(output: Path, weights: FloatArray) -> None:
    """Write the weights, whole or not at all."""
    import numpy as np

    write_whole(output, lambda path: np.save(path, weights))
