"""How a data set is cut: what all tasks of a run have in common, decided first, and the coarse partition.

The cut depends on the data, the seed and the memory that a task may use, never on the workers: the same partition is
computed by one worker or by a thousand, and so are the same weights.

The partition is trained on a sample, rows are sorted by it, and coarse cells dealt into groups of equal size.
Coarse cells are put in an order in which neighbours are mostly near: split in two across the direction in which
their centres vary most, so that each half holds half of the rows, and again. A group is a stretch of that order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from steep._validation import FloatArray, IntArray, check_size
from steep.dask.store import Store, Summary
from steep.exceptions import InputError
from steep.labels import are_quantities
from steep.neighbors.cells import kmeans, nearest_center
from steep.neighbors.frame import Frame, ordinary
from steep.neighbors.query import nearest

# Bytes that a task may use besides the interpreter; see ``task_memory``.
TASK_MEMORY = "512 MiB"
INTERPRETER = 350 * 2**20  # bytes of a worker that has loaded NumPy, pandas and the compiled kernels
COARSE = 8  # coarse cells per group: fewer balance groups badly
# Positions are int32 and leave room for the points read from other groups.
MOST_ROWS = 2**30

# Entries of a plan that may change, or that others stand for.
_FREE = ("store", "bounds", "n_others", "inferred", "n_jobs")
_ROWS = 16_384  # rows placed at a time
_ROUNDING = 1e-6  # a column whose deviation is a smaller share of its largest entry is constant


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
        data = "\n".join([*sources, *map(str, self.bounds)]).encode()
        digest = hashlib.blake2b(data, digest_size=8).hexdigest()
        about = asdict(self) | {"n_neighbors": self.n_neighbors, "data": digest}
        return {key: value for key, value in about.items() if key not in _FREE}


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


def train_partition(plan: Plan, taken: Sequence[Summary]) -> dict[str, Any]:
    """From what the chunks say: mean and scale of the columns, the frame, the centres, and the classes."""
    lower = np.min([part["lower"] for part in taken], axis=0)
    upper = np.max([part["upper"] for part in taken], axis=0)
    largest = np.maximum(upper, -lower)
    check_size(largest, "X")
    shift: FloatArray = np.zeros(plan.n_features)
    scale: FloatArray = np.ones(plan.n_features)
    if plan.standardised:
        shift, spread = _moments(taken)
        scale = np.where(spread > _ROUNDING * largest, spread, np.inf)
    figures: dict[str, Any] = {"shift": shift, "scale": scale, "exponent": 0}
    sample = placed_like(np.concatenate([part["sample"] for part in taken]), plan, figures)
    sample, ends, _, exponent = ordinary(sample, placed_like(np.stack([lower, upper]), plan, figures))
    sample = sample.astype(plan.dtype, copy=False)
    figures |= {"scale": np.ldexp(scale, exponent), "exponent": exponent}
    frame = Frame.of(np.vstack([sample, ends]), len(sample))
    if not frame.is_plain:
        raise InputError(
            "X holds points beyond 2⁶⁰ times the typical distance; expected a narrower range in Dask arrays; "
            "clip or scale the columns"
        )
    figures |= {"center": frame.center, "frame": [frame.typical, frame.extent]}
    found = [part["classes"] for part in taken if len(part["classes"])]
    classes = np.unique(np.concatenate(found)) if found else np.empty(0)
    # Integers that labels in memory would be read as numbers for were taken as classes, unseen.
    if plan.inferred and classes.dtype.kind in "iu" and len(classes) and are_quantities(classes, plan.n_rows):
        raise InputError(
            f"y holds {len(classes)} different integers, which may be numbers or classes; expected task= for such "
            "labels in Dask collections and files; pass task='regression' or task='classification'"
        )
    return figures | _coarse(plan, frame, sample) | {"classes": classes}


def _moments(taken: Sequence[Summary]) -> tuple[FloatArray, FloatArray]:
    """Mean and deviation of every column, joined chunk by chunk."""
    n = 0
    mean: Any = 0.0
    squares: Any = 0.0
    for part in taken:
        more = int(part["n_rows"])
        if not more:
            continue
        step = part["mean"] - mean
        n += more
        mean = mean + step * (more / n)
        squares = squares + part["squares"] + step**2 * (more * (n - more) / n)
    return np.asarray(mean), np.sqrt(squares / n)


def placed_like(points: FloatArray, plan: Plan, figures: Any) -> FloatArray:
    """Rows in the space in which distances are taken, in the dtype of the points."""
    if not (plan.standardised or figures["exponent"]):
        return points.astype(plan.dtype, copy=False)
    return np.asarray((points - figures["shift"]) / figures["scale"]).astype(plan.dtype)


def frame_of(partition: Summary) -> Frame:
    """The frame that the partition was trained in."""
    return Frame(partition["center"], *(float(value) for value in partition["frame"]))


def _coarse(plan: Plan, frame: Frame, sample: FloatArray) -> dict[str, Any]:
    """Centres of the coarse cells; sampled rows that judge the recall, and how far their neighbours are at most."""
    if plan.n_groups == 1:
        return {}
    centers = kmeans(frame.bend(frame.place(sample)).astype(np.float32), plan.n_coarse, plan.rng(2))
    judged = plan.judged()
    farthest = nearest(sample, sample[judged], plan.n_others + 1)[0][:, -1]
    rows = plan.sampled_rows()[judged]
    return {"centers": centers, "judged": sample[judged], "judged_rows": rows, "farthest": farthest}


# ----------------------------------------------------------------------------------- sorting rows


def sort_chunk(plan: Plan, chunk: int, taken: Summary, partition: Summary) -> dict[str, Any]:
    """Write the rows of a chunk in the order of their coarse cells, placed, with their labels."""
    if not int(taken["n_rows"]):
        return {"counts": np.zeros(plan.n_coarse, np.int64)}
    raw = plan.store.read(f"x-{chunk}")
    labels = plan.store.read(f"y-{chunk}")
    if len(taken["classes"]):  # codes of the chunk become codes among all classes
        labels = np.searchsorted(partition["classes"], taken["classes"]).astype(np.int32)[labels]
    points = np.empty(raw.shape, plan.dtype)
    cell = np.zeros(len(raw), np.int64)
    frame = frame_of(partition)
    for first in range(0, len(raw), _ROWS):
        part = slice(first, first + _ROWS)
        points[part] = placed_like(raw[part], plan, partition)
        if plan.n_groups > 1:
            placed = frame.bend(frame.place(points[part])).astype(np.float32)
            cell[part] = nearest_center(placed, partition["centers"])
    del raw
    order = np.argsort(cell, kind="stable")
    plan.store.write(f"points-{chunk}", points[order])
    plan.store.write(f"rows-{chunk}", (order + plan.bounds[chunk]).astype(np.int64))
    plan.store.write(f"labels-{chunk}", labels[order])
    return {"counts": np.bincount(cell, minlength=plan.n_coarse)}


# ---------------------------------------------------------------------------------- dealing groups


def deal_groups(plan: Plan, partition: Summary, sorted_: Sequence[Summary]) -> dict[str, Any]:
    """Which rows of which chunk belong to which group."""
    plan.store.drop(*(f"{kind}-{chunk}" for kind in "xy" for chunk in range(plan.n_chunks)))
    counts = np.stack([part["counts"] for part in sorted_])  # (chunks, coarse cells)
    order = spatial_order(partition["centers"].astype(np.float64), counts.sum(axis=0))
    group = np.empty(counts.shape, np.int64)
    size = plan.n_rows / plan.n_groups
    before = 0
    for cell in order:
        total = int(counts[:, cell].sum())
        if total <= size / 2:
            group[:, cell] = int((before + total / 2) / size)
        else:  # a cell larger than half a group (many equal rows) is dealt chunk by chunk
            middle = before + np.cumsum(counts[:, cell]) - counts[:, cell] / 2
            group[:, cell] = (middle / size).astype(np.int64)
        before += total
    return {"group": np.minimum(group, plan.n_groups - 1), "counts": counts}


def spatial_order(centers: FloatArray, counts: IntArray) -> IntArray:
    """Cells in an order in which those next to each other are near.

    Examples
    --------
    >>> spatial_order(np.array([[0.0], [9.0], [1.0], [8.0]]), np.ones(4, int)).tolist() in ([0, 2, 3, 1], [1, 3, 2, 0])
    True
    """
    if len(centers) <= 1:
        return np.arange(len(centers))
    weight = np.maximum(counts, 1) / np.maximum(counts, 1).sum()
    centred = centers - weight @ centers
    axis = np.linalg.eigh((centred * weight[:, None]).T @ centred)[1][:, -1]
    axis = axis * np.sign(axis[np.argmax(np.abs(axis))])  # an eigenvector has no sign of its own
    along = np.argsort(centred @ axis, kind="stable")
    half = int(np.clip(np.searchsorted(np.cumsum(weight[along]), 0.5) + 1, 1, len(along) - 1))
    parts = [along[:half], along[half:]]
    return np.concatenate([part[spatial_order(centers[part], counts[part])] for part in parts])
