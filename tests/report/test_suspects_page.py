"""The page of suspects lists what was found, worst first, with what speaks against each label."""

import base64
import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from steep import suspects
from steep.exceptions import InputError, SteepError
from steep.report import suspects_page


def rows_of(path):
    return [int(row) for row in re.findall(r'<tr data-row="(\d+)"', path.read_text(encoding="utf-8"))]


def test_what_suspects_returns_is_a_page(tmp_path):
    X, y = load_iris(return_X_y=True)
    y[[3, 77]] = [2, 0]
    found = suspects(X, y, pred_probs=np.full((150, 3), 1 / 3), random_state=0)
    page = suspects_page(tmp_path / "p.html", found, X=X)
    text = page.read_text(encoding="utf-8")
    assert rows_of(page)[:2] == found.top(2).index.tolist()
    assert found.verdict.sentence.split(";")[0].split("(")[0] in text
    assert "10 of 10 are 0" in text


def test_the_page_names_rows_by_the_index_as_the_table_does(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    y[[3, 77]] = [2, 0]
    X, y = X.drop(index=[0, 1, 50]), y.drop(index=[0, 1, 50])
    found = suspects(X, y, pred_probs=np.full((147, 3), 1 / 3), random_state=0)
    page = suspects_page(tmp_path / "p.html", found, X=X, y=y)
    rows = rows_of(page)
    assert rows == found.top(len(rows)).index.tolist()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)[1])
    near = {str(row): X.index[found.indices[X.index.get_loc(row)]][:10].tolist() for row in rows}
    assert data["around"] == near
    assert {int(row): look["row"] for row, look in data["looks"].items()} == {
        row: row for others in near.values() for row in others
    }
    assert all(look["label"] == str(y[int(row)]) for row, look in data["looks"].items())
    packed = base64.b64decode(data["map"]["rows"]["base64"])
    assert np.frombuffer(packed, "<u4").tolist() == X.index.tolist()


@pytest.mark.parametrize("index", [[f"s{i}" for i in range(150)], [0] * 150, range(-1, 149)])
def test_an_index_that_is_not_row_numbers_is_not_shown(tmp_path, index):
    X, y = load_iris(return_X_y=True, as_frame=True)
    y[[3, 77]] = [2, 0]
    found = suspects(X.set_axis(index), y.to_numpy(), pred_probs=np.full((150, 3), 1 / 3), random_state=0)
    assert set(rows_of(suspects_page(tmp_path / "p.html", found))[:2]) == {3, 77}


def test_a_frame_of_some_rows_is_enough(tmp_path):
    frame = pd.DataFrame(
        {"score": [0.2, 0.9], "label": ["a", "b"], "suggested": ["b", "a"], "neighbors": [(), (7, 2)]}, index=[7, 2]
    )
    page = suspects_page(tmp_path / "p.html", frame)
    assert rows_of(page) == [2, 7]
    text = page.read_text(encoding="utf-8")
    assert "2 labels are ranked by score; the first 2 are listed" in text
    assert "2 say a" in text


def test_numbers_are_sorted_as_numbers(tmp_path):
    frame = pd.DataFrame({"score": [0.9, 0.8], "label": [1.5, 20.25], "suggested": [2.5, 0.125]})
    text = suspects_page(tmp_path / "p.html", frame, X=np.arange(2.0)[:, None]).read_text(encoding="utf-8")
    assert 'data-key="20.25"' in text
    assert 'data-key="0.125"' in text


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pd.DataFrame({"score": [1.0], "label": [1]}), "suspects lacks suggested"),
        (pd.DataFrame({"score": [], "label": [], "suggested": []}), "suspects is empty"),
        (
            pd.DataFrame({"score": [1.0], "label": [1], "suggested": [2]}, index=["a"]),
            "index of suspects does not hold rows",
        ),
        (pd.DataFrame({"score": [-1.0], "label": [1], "suggested": [2]}), "expected values ≥ 0"),
    ],
)
def test_a_frame_that_is_none_is_refused_by_name(frame, said, tmp_path):
    with pytest.raises(InputError, match=said):
        suspects_page(tmp_path / "p.html", frame)


def test_bad_data_are_refused_by_name(tmp_path):
    """Seeded loop: only errors of ours come out."""
    frame = pd.DataFrame({"score": [0.9, 0.2], "label": ["a", "b"], "suggested": ["b", "a"]})
    bad = [3, "x", [], {}, np.nan, object(), np.ones(3), np.full(2, np.nan), [[1], [2, 3]], np.ones((2, 0)), b"xx",
           np.ones((2, 2)).astype(complex), pd.DataFrame(), np.ones((2, 2, 2, 2)), lambda x: x]  # fmt: skip
    names = ["suspects", "X", "y", "neighbors", "table", "images", "texts", "verdict", "title", "target"]
    rng = np.random.default_rng(0)
    n_refused = 0
    for _ in range(120):
        name, value = names[rng.integers(len(names))], bad[rng.integers(len(bad))]
        try:
            suspects_page(tmp_path / "p.html", **({"suspects": frame} | {name: value}))
        except SteepError:
            n_refused += 1
    assert n_refused > 60
