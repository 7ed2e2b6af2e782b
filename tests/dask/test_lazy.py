"""The same calls on Dask arrays, frames and files: the same answer, lazily, in the same order."""

import numpy as np
import pandas as pd
import pytest

from large_data import SMALL, blobs
from steep import Rescaling, neighbor_graph, neighbor_variance, rescale, sample_weights
from steep import dask as lazy
from steep.dask.plan import spatial_order

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own


@pytest.fixture(autouse=True)
def _here(tmp_path):
    with dask.config.set({"scheduler": "synchronous", "temporary-directory": str(tmp_path / "scratch")}):
        yield


def chunked(X, y, rows=2_000):
    return da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=rows)


def test_what_one_task_can_hold_is_weighed_as_in_memory():
    X, y = blobs(3_000)
    weights = lazy.sample_weights(*chunked(X, y, 700), n_neighbors=8)
    assert isinstance(weights, da.Array)
    assert weights.chunks == ((700, 700, 700, 700, 200),)
    np.testing.assert_allclose(weights.compute(), sample_weights(X, y, n_neighbors=8), rtol=1e-5)
    variance = lazy.neighbor_variance(*chunked(X, y, 700), n_neighbors=8, include_self=False).compute()
    assert (variance == neighbor_variance(X, y, n_neighbors=8, include_self=False)).all()


@pytest.mark.slow
def test_groups_find_the_variance_of_exact_search():
    X, y = blobs()
    with dask.config.set(SMALL):
        found = lazy.neighbor_variance(*chunked(X, y), n_neighbors=8).compute()
    exact = neighbor_variance(X, y, n_neighbors=8, neighbors=neighbor_graph(X, n_neighbors=8, recall=1))
    assert np.corrcoef(found, exact)[0, 1] > 0.995
    assert (found != exact).any()  # several groups, approximate search: not the in-memory engine in disguise


def test_no_neighbor_is_counted_twice(monkeypatch):
    from steep.dask import groups

    lists = []
    sweep = groups.Meeting.sweep

    def watched(meeting):
        sweep(meeting)
        lists.append(np.sort(meeting.lists.index, axis=1).copy())

    monkeypatch.setattr(groups.Meeting, "sweep", watched)
    with dask.config.set(SMALL):
        lazy.neighbor_variance(*chunked(*blobs(5_000)), n_neighbors=8).compute()
    assert len(lists) > 1
    for index in lists:
        assert (np.diff(index, axis=1) > 0).all()


def test_near_cells_are_near_both_ways():
    from steep.dask.atlas import near_among
    from steep.neighbors.cells import near_centers

    centers = np.random.default_rng(0).normal(size=(60, 3))
    start, near = near_centers(centers, 5)
    listed = [set(near[start[c] : start[c + 1]].tolist()) for c in range(60)]
    lengths = np.linalg.norm(centers[:, None] - centers, axis=2)
    for cell in range(60):
        assert set(np.argsort(lengths[cell])[1:6].tolist()) <= listed[cell]
        assert all(cell in listed[other] for other in listed[cell])
        assert cell not in listed[cell]
    some = np.array([7, 3, 20])
    pairs = {(a, b) for a in range(3) for b in range(3) if some[b] in listed[some[a]]}
    assert {divmod(int(key), 3) for key in near_among(start, near, some) if key >= 0} == pairs


@pytest.mark.slow
def test_numbers_are_weighed_by_groups_as_well():
    X, _ = blobs()
    values = np.column_stack([X[:, 0] * X[:, 1], np.sin(3 * X[:, 2])]).astype(np.float64)
    with dask.config.set(SMALL):
        found = lazy.neighbor_variance(*chunked(X, values), n_neighbors=8).compute()
    exact = neighbor_variance(X, values, n_neighbors=8, neighbors=neighbor_graph(X, n_neighbors=8, recall=1))
    assert np.corrcoef(found, exact)[0, 1] > 0.995


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint") / "run"
    with dask.config.set(SMALL, scheduler="synchronous"):
        variation = lazy.neighbor_variance(*chunked(*blobs()), n_neighbors=8, checkpoint=folder)
        return variation.compute(), folder


@pytest.mark.parametrize(
    "how",
    [
        {"rescaling": Rescaling(clip=0.9)}, {"rescaling": Rescaling("max", normalize=None)}, {"weight_ratio": 1},
        *(pytest.param(how, marks=pytest.mark.slow)
          for how in ({}, {"weight_ratio": 0.1}, {"rescaling": Rescaling(normalize="sum")})),
    ],
    ids=str,
)  # fmt: skip
def test_weights_are_the_rescaled_variation(how, searched):
    X, y = blobs()
    variation, folder = searched  # the search is the checkpoint's, so that only what follows it runs again
    with dask.config.set(SMALL):
        weights = lazy.sample_weights(*chunked(X, y), n_neighbors=8, embedding=None, checkpoint=folder, **how).compute()
    np.testing.assert_allclose(weights, rescale(variation, **how), rtol=1e-12)


def test_columns_are_standardised_as_in_memory():
    X, y = blobs(4_000)
    X = X * np.array([1, 1000, 1, 1e-3, 1, 1, 1, 0], np.float32)
    with dask.config.set(SMALL):
        found = lazy.sample_weights(*chunked(X, y, 1_500), n_neighbors=8).compute()
    assert np.corrcoef(found, sample_weights(X, y, n_neighbors=8))[0, 1] > 0.99
    assert np.corrcoef(found, sample_weights(X, y, n_neighbors=8, embedding=None))[0, 1] < 0.9


def test_the_partition_is_not_the_schedulers_affair():
    X, y = blobs(5_000)
    with dask.config.set(SMALL):
        weights = lazy.sample_weights(*chunked(X, y), n_neighbors=8)
        alone = weights.compute(scheduler="synchronous")
        assert (weights.compute(scheduler="threads", num_workers=3) == alone).all()
        assert (lazy.sample_weights(*chunked(X, y), n_neighbors=8).compute() == alone).all()


def test_a_frame_gives_a_series_of_the_same_index():
    X, y = blobs(5_000)
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(8)], index=np.arange(5_000) * 3 + 7)
    frame["kind"] = np.array(["red", "green", "blue"])[y]
    table = dd.from_pandas(frame, npartitions=4)
    weights = lazy.sample_weights(table.drop(columns="kind"), table["kind"], n_neighbors=8)
    assert isinstance(weights, dd.Series)
    assert weights.divisions == table.divisions
    found = weights.compute()
    assert (found.index == frame.index).all()
    expected = sample_weights(X, y, n_neighbors=8)
    np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-5)
    assert table.assign(weight=weights).compute()["weight"].equals(found.rename("weight"))


def test_files_are_weighed_as_arrays_are(tmp_path):
    X, y = blobs(5_000)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y)
    expected = sample_weights(X, y, n_neighbors=8)
    paths = lazy.sample_weights(str(tmp_path / "x.npy"), tmp_path / "y.npy", n_neighbors=8)
    assert isinstance(paths, da.Array)
    np.testing.assert_allclose(paths.compute(), expected, rtol=1e-5)


def test_a_folder_of_parquet_read_by_dask_continues_from_its_checkpoint(tmp_path):
    X, y = blobs(5_000)
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(8)]).assign(kind=y)
    dd.from_pandas(frame, npartitions=3).to_parquet(tmp_path / "table")

    def weights():
        table = dd.read_parquet(tmp_path / "table")
        X, y = table.drop(columns="kind"), table["kind"]
        return lazy.sample_weights(X, y, n_neighbors=8, checkpoint=tmp_path / "run").compute()

    np.testing.assert_allclose(weights(), sample_weights(X, y, n_neighbors=8), rtol=1e-5)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").glob("*.npz")}
    weights()
    assert before
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").glob("*.npz")} == before


def test_numbers_of_any_scale_are_weighed_alike():
    X, y = blobs(5_000)
    with dask.config.set(SMALL):
        weights = [
            lazy.sample_weights(*chunked(scale * X.astype(np.float64), y), n_neighbors=8, embedding=None).compute()
            for scale in (1.0, 2.0**-200, 2.0**200)
        ]
    np.testing.assert_array_equal(weights[1], weights[0])
    np.testing.assert_array_equal(weights[2], weights[0])


@pytest.mark.parametrize("clip", [None, 0.9])
def test_rounding_does_not_become_weights(clip):
    rng = np.random.default_rng(0)
    points = [da.from_array(rng.normal(size=(20, 3)), chunks=(10, 3)) for _ in range(2)]
    y = [rng.normal(size=20), 0.3 * (1 + 2.3e-16 * rng.integers(-1, 2, 20))]
    for X_, y_, k in zip(points, y, (20, 5), strict=True):
        weights = lazy.sample_weights(X_, da.from_array(y_, chunks=10), n_neighbors=k, rescaling=Rescaling(clip=clip))
        assert (weights.compute() == 1.0).all()


def test_partitions_without_rows_are_passed_over():
    X, y = blobs(4_000)
    X_, y_ = (da.concatenate([da.from_array(a[:0]), da.from_array(a, chunks=(2_000, *a.shape[1:]))]) for a in (X, y))
    weights = lazy.sample_weights(X_, y_, n_neighbors=8)
    np.testing.assert_allclose(weights.compute(), sample_weights(X, y, n_neighbors=8), rtol=1e-5)


@pytest.mark.slow
def test_equal_rows_are_dealt_to_several_groups():
    X, y = blobs()
    X[1_000:8_000] = X[0]
    with dask.config.set(SMALL):
        found = lazy.neighbor_variance(*chunked(X, y, 500), n_neighbors=8).compute()
    assert np.isfinite(found).all()


def test_nothing_is_computed_before_it_is_asked_for(tmp_path):
    def never(block):
        raise AssertionError("computed")

    X = da.zeros((5_000, 3), chunks=(1_000, 3)).map_blocks(never, dtype=float, meta=np.empty((0, 0)))
    weights = lazy.sample_weights(X, da.zeros(5_000, chunks=1_000))
    with pytest.raises(AssertionError, match="computed"):
        weights.compute()


def test_cells_in_order_lie_side_by_side():
    angle = np.random.default_rng(0).permutation(64) / 64 * np.pi
    centers = np.column_stack([np.cos(angle), np.sin(angle)])
    walked = centers[spatial_order(centers, np.ones(64, int))]
    mixed = np.linalg.norm(np.diff(centers, axis=0), axis=1).mean()
    assert np.linalg.norm(np.diff(walked, axis=0), axis=1).mean() < mixed / 3


def test_a_memory_map_is_an_array_in_memory(tmp_path):
    X, y = blobs(300)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")[10:]
    assert (neighbor_variance(mapped, y[10:]) == neighbor_variance(X[10:], y[10:])).all()
