"""How a data set is cut: everything that the tasks of one run have in common, decided before the first of them.

The cut depends on the data, the seed and the memory that a task may use, never on the workers: the same partition is
computed by one worker or by a thousand, and so are the same weights.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from steep._validation import IntArray
from steep.dask.store import Store
from steep.exceptions import InputError

# Bytes that a task may use besides the interpreter; see ``task_memory``.
TASK_MEMORY = "512 MiB"
INTERPRETER = 350 * 2**20  # bytes of a worker that has loaded NumPy, pandas and the compiled kernels
COARSE = 8  # coarse cells per group: fewer balance groups badly
# Positions are int32 and leave room for the points read from other groups.
MOST_ROWS = 2**30


@dataclass(frozen=True)
class Plan:
    """What a run is about."""

    store: Store  # where stages meet
    bounds: tuple[int, ...]  # first row of each chunk, and the number of rows last
    n_features: int
    dtype: str  # of the points: "float32" or "float64"
    n_others: int  # neighbours looked for, the sample itself not counted
    include_self: bool
    n_groups: int  # groups of cells, one a task
    n_coarse: int  # coarse cells they are made of
    standardised: bool = False
    task: str = "regression"  # how labels are read
    framed: bool = False  # whether the result is a series with the index of X
    inferred: bool = False  # whether integers are read as classes because task= was not given
    n_jobs: int | None = None  # threads of a task

    @property
    def n_rows(self) -> int:
        """Samples in all."""
        return self.bounds[-1]

    @property
    def n_chunks(self) -> int:
        """Pieces the data come in."""
        return len(self.bounds) - 1

    @property
    def n_neighbors(self) -> int:
        """k, as the caller counts it."""
        return self.n_others + self.include_self

    def called(self, chunk: int) -> str:
        """What a chunk is called in errors."""
        return f"partition {chunk} (rows {self.bounds[chunk]:,} to {self.bounds[chunk + 1] - 1:,})"

    def rng(self, *place: int) -> np.random.Generator:
        """The random numbers of one task, the same on every worker."""
        return np.random.default_rng([0, *place])

    def sampled_rows(self) -> IntArray:
        """Rows that the partition is trained on, ascending."""
        from steep.neighbors.cells import PER_CENTER
        from steep.neighbors.recall import SAMPLE

        wanted = min(self.n_rows, max(PER_CENTER * self.n_coarse, 2 * SAMPLE))
        return np.sort(self.rng(0).choice(self.n_rows, wanted, replace=False))

    def judged(self) -> IntArray:
        """Places, among the sampled rows, of those that are searched exactly to estimate the recall."""
        from steep.neighbors.recall import SAMPLE

        n_sampled = len(self.sampled_rows())
        return np.sort(self.rng(1).choice(n_sampled, min(SAMPLE, n_sampled), replace=False))

    def about(self, sources: list[str]) -> dict[str, Any]:
        """What must be the same for a checkpoint to be continued; ``sources`` say where the data are from."""
        about = asdict(self) | {"n_neighbors": self.n_neighbors, "data": _digest([*sources, *map(str, self.bounds)])}
        return {key: value for key, value in about.items() if key not in _FREE}


# Entries of a plan that may change, or that others stand for.
_FREE = ("store", "bounds", "n_others", "inferred", "n_jobs")


def _digest(texts: list[str]) -> str:
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()


def task_memory() -> int:
    """Bytes that a task may use, by the setting ``steep.task-memory`` of Dask's configuration."""
    from dask import config
    from dask.utils import parse_bytes

    told = config.get("steep.task-memory", TASK_MEMORY)
    try:
        memory = int(parse_bytes(told))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"steep.task-memory is {told!r}; expected a size such as '512 MiB'; set it with dask.config.set"
        ) from error
    if memory < 2**20:
        raise InputError(f"steep.task-memory is {told!r}; expected at least 1 MiB; set it with dask.config.set")
    return memory


def rows_per_group(memory: int, n_features: int, dtype: str, n_others: int) -> int:
    """How many points a task can hold: as given and in cells, with their lists and some of other groups."""
    points = n_features * (2 * np.dtype(dtype).itemsize + 8)
    lists = 40 * (n_others + 1)
    return max(4 * n_others, 1_000, memory // (points + lists))


def cut_into(n_rows: int, n_features: int, dtype: str, n_others: int) -> tuple[int, int]:
    """Number of groups and of coarse cells; one of each where a task can hold all rows."""
    if n_rows > MOST_ROWS:
        raise InputError(f"X has {n_rows:,} rows; expected at most {MOST_ROWS:,}; weight it in parts")
    n_groups = -(-n_rows // rows_per_group(task_memory(), n_features, dtype, n_others))
    return (1, 1) if n_groups == 1 else (n_groups, COARSE * n_groups)
