"""Suspects of Dask arrays and files: the rule of the data in memory, lazily, in the same order."""

import numpy as np
import pytest

from large_data import SMALL, blobs
from steep import suspects
from steep.exceptions import InputError, SteepError
from steep.weighting.suspect_labels import Suspects

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own


@pytest.fixture(autouse=True)
def _here(tmp_path):
    with dask.config.set({"scheduler": "synchronous", "temporary-directory": str(tmp_path / "scratch")}):
        yield


def mislabelled(n_rows, n_wrong, kind="classes"):
    """Points whose labels are partly wrong, which rows those are, and what a model would say of all."""
    X, y = blobs(n_rows)
    rng = np.random.default_rng(1)
    wrong = np.sort(rng.choice(n_rows, n_wrong, replace=False))
    if kind == "classes":
        given = y.copy()
        given[wrong] = (y[wrong] + 1 + rng.integers(0, 2, n_wrong)) % 3
        said = 0.8 * np.eye(3)[y] + 0.2 * rng.dirichlet(np.ones(3), n_rows)
        return X, given, wrong, said
    values = X[:, 0].astype(float) * X[:, 1] + np.sin(3.0 * X[:, 2])
    given = values.copy()
    given[wrong] += rng.choice([-4.0, 4.0], n_wrong)
    return X, given, wrong, values + 0.1 * rng.normal(size=n_rows)


def chunked(*arrays, rows=1_000):
    return [da.from_array(array, chunks=(rows, *array.shape[1:])) for array in arrays]


def how_said(kind, said):
    return {"pred_probs" if kind == "classes" else "predictions": said}


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_in_one_task_the_rule_is_that_in_memory(kind):
    X, y, _, said = mislabelled(3_000, 150, kind)
    X_, y_, said_ = chunked(X, y, said)
    lazy = suspects(X_, y_, n_neighbors=10, **how_said(kind, said_))
    assert isinstance(lazy.score, da.Array)
    assert lazy.score.chunks == ((1_000,) * 3,)
    found, memory = lazy.compute(), suspects(X, y, n_neighbors=10, **how_said(kind, said))
    assert isinstance(found, Suspects)
    np.testing.assert_allclose(found.score, memory.score, atol=2e-3)
    assert found.n_wrong.mean == pytest.approx(memory.n_wrong.mean, rel=0.01)
    assert (found.label == memory.label).all()
    assert (found.indices == memory.indices).all()
    if kind == "classes":
        assert (found.suggested == memory.suggested).all()
    else:
        np.testing.assert_allclose(found.suggested, memory.suggested, atol=1e-2)


@pytest.mark.parametrize("kind", ["classes", pytest.param("numbers", marks=pytest.mark.slow)])
def test_groups_find_the_wrong_labels_as_one_task_does(kind):
    X, y, wrong, said = mislabelled(9_000, 450, kind)
    with dask.config.set(SMALL):
        lazy = suspects(*chunked(X, y), n_neighbors=10, **how_said(kind, chunked(said)[0]))
        found, top = lazy.compute(), lazy.top(100).compute()
    memory = suspects(X, y, n_neighbors=10, **how_said(kind, said))
    assert np.corrcoef(found.score, memory.score)[0, 1] > 0.99
    assert (found.score != memory.score).any()
    assert np.isin(top.index, wrong).mean() >= 0.98
    assert top["rank"].tolist() == list(range(1, 101))
    assert top.index.tolist() == np.argsort(-found.score, kind="stable")[:100].tolist()
    assert found.score.sum() == pytest.approx(found.n_wrong.mean, rel=0.01)


@pytest.mark.slow
def test_the_default_forest_judges_rows_that_its_trees_have_not_seen():
    X, y, wrong, _ = mislabelled(3_000, 150)
    lazy = suspects(*chunked(X, y), n_neighbors=10, random_state=0)
    found, memory = lazy.compute(), suspects(X, y, n_neighbors=10, random_state=0)
    np.testing.assert_allclose(found.predicted, memory.predicted, atol=1e-5)
    # A forest that had seen the labels would agree with nearly all of them, wrong ones included.
    assert (found.predicted.argmax(axis=1)[wrong] == y[wrong]).mean() < 0.3


def test_a_pool_smaller_than_the_data_is_asked_of_trees_that_have_not_drawn_it(monkeypatch):
    from steep.dask import plan

    monkeypatch.setattr(plan, "POOL", 600)
    X, y, wrong, _ = mislabelled(1_200, 60)
    found = suspects(*chunked(X, y), n_neighbors=10, random_state=0).compute()
    assert (found.predicted.argmax(axis=1)[wrong] == y[wrong]).mean() < 0.3
    assert np.isin(found.top(30).index, wrong).mean() > 0.8


def test_the_table_is_a_frame_in_the_order_of_the_rows():
    X, y, _, said = mislabelled(2_000, 100)
    names = np.array(["red", "green", "blue"])[y]
    order = np.argsort(["red", "green", "blue"])
    lazy = suspects(*chunked(X, names), n_neighbors=10, pred_probs=chunked(said[:, order])[0])
    assert isinstance(lazy.table, dd.DataFrame)
    table, found = lazy.table.compute(), lazy.compute()
    assert table.index.tolist() == list(range(2_000))
    assert (table["label"] == names).all()
    assert (table["suggested"].to_numpy() == found.suggested).all()
    expected = found.table[["is_suspect", "score", "label", "suggested"]]
    assert (table == expected).all(axis=None)
    top = lazy.top(60).compute()
    assert top["neighbors"].tolist() == found.top(60)["neighbors"].tolist()
    assert top.columns.tolist() == found.top(60).columns.tolist()


def test_files_are_judged_and_a_checkpoint_is_continued(tmp_path):
    X, y, _, said = mislabelled(2_000, 100)
    for name, array in (("x", X), ("y", y), ("p", said)):
        np.save(tmp_path / f"{name}.npy", array)

    def lazily():
        return suspects(
            tmp_path / "x.npy", tmp_path / "y.npy", n_neighbors=10, pred_probs=tmp_path / "p.npy",
            checkpoint=tmp_path / "run",
        )  # fmt: skip

    first = lazily().compute()
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").glob("*.npz")}
    assert {"joined-0.npz", "polled-0.npz", "judged-0.npz"} <= {path.name for path in stamps}
    assert (lazily().compute().score == first.score).all()
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())


def refused(match, call):
    with pytest.raises(SteepError, match=match) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_what_cannot_be_judged_is_refused_in_one_line():
    X, y, _, said = mislabelled(2_000, 100)
    X_, y_, said_ = chunked(X, y, said)
    refused("estimator= needs all samples in memory", lambda: suspects(X_, y_, estimator=object()))
    refused("groups= needs all samples in memory", lambda: suspects(X_, y_, groups=y))
    refused(
        "predictions is given, and y is read as classes", lambda: suspects(X_, y_, predictions=said_[:, 0])
    )
    refused("pred_probs has 1,000 rows, X 2,000", lambda: suspects(X_, y_, pred_probs=said_[:1_000]))
    refused("of other lengths from partition 0", lambda: suspects(X_, y_, pred_probs=said_.rechunk((500, 3))))
    refused("pred_probs has 2 columns; need 3", lambda: suspects(X_, y_, pred_probs=_two(said_)).compute())
    refused(
        r"partition 1 \(rows 1,000 to 1,999\): pred_probs holds no probabilities: row 5",
        lambda: suspects(X_, y_, pred_probs=_spoilt(said)).compute(),
    )
    refused("all 2000 labels of y are equal", lambda: suspects(X_, da.zeros_like(y_)).compute())
    refused("looks in-sample", lambda: suspects(X_, y_, pred_probs=chunked(np.eye(3)[y])[0]).compute())
    refused("y is None", lambda: suspects(X_, None))
    with pytest.raises(InputError, match="is for data that are not in memory"):
        suspects(X, y, checkpoint="here")


def _two(said):
    both = said[:, :2]
    return both / both.sum(axis=1, keepdims=True)


def _spoilt(said):
    said = said.copy()
    said[1_005] *= 2
    return chunked(said)[0]
