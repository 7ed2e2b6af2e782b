"""What the page of a weighting shows is what was given."""

import base64
import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris

from steep import rescale
from steep.cli import main
from steep.exceptions import InputError, SteepError
from steep.report import weighting_page
from steep.report.samples import Pictures
from steep.report.weighting import MOST_POINTS, chosen_rows, quantiles_of, shares_of
from steep.rescaling import effective_samples

from .conftest import WRITERS


def data_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def unpacked(packed):
    return np.frombuffer(base64.b64decode(packed["base64"]), dtype=f"<{packed['kind']}")


@given(
    st.lists(st.floats(0, 1e6), min_size=2, max_size=30).filter(lambda v: max(v) - min(v) > 1e-3), st.floats(1.01, 200)
)
def test_share_and_ratio_undo_rescaling(variation, ratio):
    values = np.array(variation)
    share, found = shares_of(rescale(values, weight_ratio=ratio))
    np.testing.assert_allclose(found, ratio, rtol=1e-6)
    np.testing.assert_allclose(share, (values - values.min()) / np.ptp(values), atol=1e-5)


def test_samples_without_weight_stay_without():
    share, ratio = shares_of(np.array([0.0, 1.0, 3.0]))
    assert np.isnan(share[0])
    assert ratio == 3


def test_equal_weights_have_a_ratio_of_one():
    share, ratio = shares_of(np.array([0.3, 0.1 + 0.2, 0.0]))
    assert share[:2].tolist() == [0, 0]
    assert ratio == 1


def test_quantiles_of_many_samples_keep_their_worth():
    share = np.random.default_rng(0).gamma(1.0, size=50_000)
    share /= share.max()
    whole, some = (1 + 39 * values for values in (share, quantiles_of(share, 4001)))
    assert len(some) == 4001
    np.testing.assert_allclose(effective_samples(some) / len(some), effective_samples(whole) / len(whole), rtol=2e-3)


def test_few_rows_are_all_shown_and_many_with_the_heaviest_among_them():
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(chosen_rows(rng.random(50))[0], np.arange(50))
    weights = rng.random(30_000)
    points, heaviest = chosen_rows(weights)
    assert len(points) == MOST_POINTS == len(set(points))
    assert set(heaviest) <= set(points)
    assert set(heaviest) == set(np.argsort(-weights)[:100])


@pytest.mark.parametrize("kind", ["weights of texts", "design of one input", "suspects"])
def test_the_same_seed_gives_the_same_bytes(kind, tmp_path):
    first, second = (WRITERS[kind](tmp_path / name).read_bytes() for name in ("a.html", "b.html"))
    assert first == second


def test_the_rows_of_many_are_drawn_the_same_each_time(tmp_path):
    rng = np.random.default_rng(0)
    X, y, weights = rng.random((12_000, 2)), np.arange(12_000) % 2, rng.random(12_000) + 0.1
    pages = [weighting_page(tmp_path / f"{i}.html", X=X, y=y, weights=weights) for i in range(2)]
    rows = [unpacked(data_of(page)["rows"]) for page in pages]
    np.testing.assert_array_equal(rows[0], rows[1])
    assert len(rows[0]) == 10_000


def test_the_map_of_two_features_is_those_features_and_of_one_the_label(tmp_path):
    X, y = load_iris(return_X_y=True)
    weights = np.linspace(1, 2, 150)
    two = data_of(weighting_page(tmp_path / "2.html", X=X[:, :2], y=y, weights=weights))
    assert [axis["name"] for axis in two["axes"]] == ["x0", "x1", "label"]
    np.testing.assert_allclose(unpacked(two["axes"][0]["values"]), X[:, 0].astype(np.float32))
    one = data_of(weighting_page(tmp_path / "1.html", X=X[:, :1], y=X[:, 3], weights=weights, target="width"))
    assert [axis["name"] for axis in one["axes"]] == ["x0", "width"]
    np.testing.assert_allclose(unpacked(one["axes"][1]["values"]), X[:, 3].astype(np.float32))


def test_a_table_of_any_columns_is_taken(tmp_path):
    X = pd.DataFrame(
        {
            "n": [1.0, np.nan, 3.0, 4.0] * 5,
            "colour": ["red", None, "blue", "red"] * 5,
            "day": pd.to_datetime(["2024-01-01"] * 20),
            "yes": [True, False] * 10,
        }
    )
    page = weighting_page(tmp_path / "p.html", X=X, y=["a", "b"] * 10, weights=np.linspace(1, 3, 20))
    text = page.read_text(encoding="utf-8")
    assert text.count(">–<") == 10
    assert "2024-01-01" in text


def test_years_are_written_without_a_comma(tmp_path):
    X = pd.DataFrame({"year": np.arange(1990, 2040), "price": np.linspace(10_000, 20_000, 50)})
    page = weighting_page(tmp_path / "p.html", X=X, y=X["year"].astype(float), weights=np.linspace(1, 2, 50))
    text = page.read_text(encoding="utf-8")
    assert ">2013<" in text
    assert "2,013" not in text
    assert ">20,000<" in text


def test_a_few_gaps_do_not_squeeze_the_map(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(500, 4)), columns=list("abcd")).assign(kind=["u", "v"] * 250)
    frame.loc[3, "a"] = frame.loc[9, "b"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = ["--target", "kind", "-m", "5", "-o", str(tmp_path / "w.csv"), "--report", str(tmp_path / "p.html")]
    assert main(["weight", str(tmp_path / "t.csv"), *options]) == 0
    axes = data_of(tmp_path / "p.html")["axes"]
    for axis in axes[:2]:
        values = np.abs(unpacked(axis["values"]))
        assert values.max() < 3 * np.quantile(values, 0.9)
    assert {"c", "d"} <= {axis["name"] for axis in axes}


@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 4, 5, 1), (3, 4, 5, 3), (3, 4, 5, 4), (3, 200, 100)])
def test_pictures_of_every_kind_come_back(shape):
    import io

    from PIL import Image

    images = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    picture = Image.open(io.BytesIO(base64.b64decode(Pictures(images, 3).uri(1).split(",")[1])))
    assert max(picture.size) <= 96
    if max(shape[1:3]) <= 96:
        np.testing.assert_array_equal(np.asarray(picture).reshape(-1), images[1].reshape(-1))


def test_what_cannot_be_a_page_is_refused_by_name(tmp_path):
    """Seeded loop of bad inputs: only errors of ours come out, and no file."""
    rng = np.random.default_rng(0)
    good = {"X": rng.random((20, 3)), "y": np.arange(20) % 2, "weights": rng.random(20) + 0.1}
    bad = [
        None, 3, "x", [], {}, np.nan, object(), [1, 2], np.ones(3), np.ones((20, 2)), -np.ones(20), np.zeros(20),
        np.full(20, np.nan), np.full(20, np.inf), [None] * 20, [[1], [2, 3]] * 10, np.ones((20, 0)), b"x" * 20,
        rng.random((20, 3)).astype(complex), np.arange(20).astype("M8[D]"), np.ones((4, 4, 4)),
    ]  # fmt: skip
    names = ["X", "y", "weights", "verdict", "target", "images", "texts"]
    said = []
    for i in range(200):
        name, value = names[i % len(names)], bad[rng.integers(len(bad))]
        path = tmp_path / f"{i}.html"
        try:
            weighting_page(path, **(good | {name: value}))
        except SteepError as error:
            said.append(str(error))
    assert len(said) > 100
    assert not any("\n" in text for text in said)
    assert len(list(tmp_path.iterdir())) == 200 - len(said)


def test_texts_of_another_length_are_refused(tmp_path):
    with pytest.raises(InputError, match="texts has 2 entries for 3 samples"):
        weighting_page(tmp_path / "p.html", X=np.ones((3, 1)), y=[0, 1, 0], weights=[1, 2, 3], texts=["a", "b"])


@pytest.mark.slow
def test_a_million_rows_stay_under_a_megabyte_and_open(tmp_path, visit):
    rng = np.random.default_rng(0)
    n = 1_000_000
    variation = rng.gamma(1.0, size=n)
    X = rng.normal(size=(n, 6)).astype(np.float32)
    weights = rescale(variation)
    path = weighting_page(tmp_path / "p.html", X=X, y=rng.integers(0, 3, n), weights=weights)
    assert path.stat().st_size < 1e6
    there = visit(path)
    assert there.complaints == []
    assert "10,000 of 1,000,000 rows" in there.page.inner_text("main")
