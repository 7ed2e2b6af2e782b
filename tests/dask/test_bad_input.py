"""What cannot be weighed is one clear line, before or while it is computed, and never a hang."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import steep
from large_data import blobs
from steep import VarianceWeighted, suspects
from steep.dask import neighbor_variance, sample_weights
from steep.exceptions import InputError, InputTypeError, SteepError, StorageError

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _here(tmp_path):
    with dask.config.set({"scheduler": "synchronous", "temporary-directory": str(tmp_path / "scratch")}):
        yield


X_, Y_ = blobs(3_000)
X, Y = da.from_array(X_, chunks=(1_000, -1)), da.from_array(Y_, chunks=1_000)


def rejected(match, call, kind=SteepError):
    with pytest.raises(kind, match=match) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_unknown_chunk_sizes_are_refused():
    rejected(
        "X has unknown chunk sizes; expected .*compute_chunk_sizes",
        lambda: sample_weights(X[X[:, 0] > 0], Y),
        InputError,
    )


def test_partitions_that_do_not_match_are_refused():
    rejected(
        "X has 3 partitions and y 2, of other lengths from partition 0 on",
        lambda: neighbor_variance(X, Y.rechunk(1_500)),
        InputError,
    )
    rejected("y has 2,000 rows and X has 3,000", lambda: neighbor_variance(X, Y[:2_000]), InputError)
    frame = dd.from_pandas(pd.DataFrame(X_), npartitions=3)
    other = dd.from_pandas(pd.Series(Y_), npartitions=3).repartition(divisions=(0, 500, 2_000, 2_999))
    rejected(r"partition \d .*y has shape", lambda: neighbor_variance(frame, other).compute(), InputError)


def test_a_missing_value_is_named_by_its_partition():
    bad = X_.copy()
    bad[2_345, 3] = np.nan
    weights = sample_weights(da.from_array(bad, chunks=(1_000, -1)), Y)
    rejected(r"partition 2 \(rows 2,000 to 2,999\): X contains NaN", weights.compute, InputError)
    values = Y_.astype(float)
    values[1_001] = np.inf
    weights = sample_weights(X, da.from_array(values, chunks=1_000))
    rejected(r"partition 1 \(rows 1,000 to 1,999\): y contains .*inf", weights.compute, InputError)


def test_a_checkpoint_of_other_settings_or_data_is_refused(tmp_path):
    folder = tmp_path / "run"
    first = neighbor_variance(X, Y, n_neighbors=8, checkpoint=folder).compute()
    rejected(
        "was made with n_neighbors 8, not 9",
        lambda: neighbor_variance(X, Y, n_neighbors=9, checkpoint=folder),
        InputError,
    )
    other = da.from_array(X_[::-1].copy(), chunks=(1_000, -1))
    rejected(
        "was made with data .*, not .*; expected the same data and settings",
        lambda: neighbor_variance(other, Y, n_neighbors=8, checkpoint=folder),
        InputError,
    )
    assert (neighbor_variance(X, Y, n_neighbors=8, checkpoint=folder).compute() == first).all()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    rejected("holds other files", lambda: neighbor_variance(X, Y, checkpoint=tmp_path / "mine"), InputError)


def test_files_that_are_not_there_are_named(tmp_path):
    rejected("none.npy.* cannot be mapped", lambda: sample_weights(tmp_path / "none.npy", "y.npy"), StorageError)
    rejected("cannot be mapped.*read_parquet", lambda: sample_weights(str(tmp_path), "kind"), StorageError)
    np.save(tmp_path / "x.npy", np.array(["a", "b"])[:, None])
    rejected("dtype <U1", lambda: sample_weights(tmp_path / "x.npy", tmp_path / "x.npy"), InputError)


def test_files_that_hold_no_array_are_named(tmp_path):
    np.save(tmp_path / "y.npy", Y_)
    (tmp_path / "empty.npy").write_bytes(b"")
    np.savez(tmp_path / "two.npz", a=X_, b=Y_)
    (tmp_path / "two.npz").rename(tmp_path / "two.npy")
    for name in ("empty.npy", "two.npy"):
        rejected(
            f"{name}.* cannot be mapped",
            lambda name=name: sample_weights(tmp_path / name, tmp_path / "y.npy"),
            StorageError,
        )


def test_integers_that_may_be_numbers_are_asked_about():
    many = da.from_array(7 * np.arange(3_000), chunks=1_000)
    rejected("y holds 3000 different integers.*task=", lambda: sample_weights(X, many).compute(), InputError)
    numbers = sample_weights(X, many, task="regression").compute()
    np.testing.assert_allclose(numbers, steep.sample_weights(X_, 7 * np.arange(3_000), task="regression"), rtol=1e-4)


def test_decimals_are_asked_about():
    from decimal import Decimal

    decimals = [Decimal(value) for value in np.sin(np.arange(3_000.0))]
    frame = dd.from_pandas(pd.DataFrame(X_), npartitions=3)
    with dask.config.set({"dataframe.convert-string": False}):
        objects = dd.from_pandas(pd.Series(decimals, dtype=object), npartitions=3)
    rejected("y holds numbers as objects", lambda: neighbor_variance(frame, objects).compute(), InputError)


def test_what_needs_all_points_at_once_is_refused():
    rejected("embedding=", lambda: sample_weights(X, Y, embedding=lambda X: X), InputError)
    frame = dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), npartitions=1)
    rejected("column 'b' of X", lambda: sample_weights(frame, frame["a"]), InputError)
    rejected("n_neighbors=20 needs at least 20", lambda: sample_weights(X[:10], Y[:10]), InputError)


def test_no_dask_array_is_loaded_silently():
    from sklearn.linear_model import LogisticRegression

    rejected("X is a Dask Array; expected data in memory", lambda: suspects(X, Y_), InputTypeError)
    rejected("y is a Dask Array; expected data in memory", lambda: suspects(X_, Y), InputTypeError)
    rejected("X is the path 'x.npy'; expected data in memory", lambda: suspects("x.npy", Y_), InputTypeError)
    rejected("is a Dask Array", lambda: VarianceWeighted(LogisticRegression()).fit(X, Y), InputTypeError)
    rejected("X is a ndarray in memory", lambda: sample_weights(X_, Y), InputTypeError)
    rejected("y is a ndarray in memory", lambda: sample_weights(X, Y_), InputTypeError)
    rejected("y is a NoneType in memory", lambda: sample_weights(X, None), InputTypeError)


@pytest.mark.parametrize("large", [X, dd.from_pandas(pd.DataFrame(X_), npartitions=2), "x.npy", Path("table")])
def test_functions_in_memory_name_the_door(large):
    calls = (steep.neighbor_graph, lambda X: steep.neighbor_variance(X, Y_), lambda X: steep.sample_weights(X, Y_))
    for call in calls:
        rejected("X is .*; expected data in memory; .*of steep.dask", lambda call=call: call(large), InputTypeError)


def test_a_task_memory_that_is_none_is_refused():
    with dask.config.set({"steep.task-memory": "much"}):
        rejected("steep.task-memory is 'much'", lambda: sample_weights(X, Y), InputError)


def test_a_folder_that_a_worker_does_not_see_is_one_line(tmp_path):
    import shutil

    weights = neighbor_variance(X, Y, checkpoint=tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    rejected("run", weights.compute)
