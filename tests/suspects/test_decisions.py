"""Decisions change the labels of the rows they name, and nothing when they do not fit the data."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_diabetes, load_iris

import steep
from steep._suspects.decisions import checksum, row_names
from steep.exceptions import InputError, SteepError

NAMES = np.array(["setosa", "versi,color", "<b>virginica"])


def found(index=None, labels=NAMES):
    X, y = load_iris(return_X_y=True)
    y[[3, 77]] = [2, 0]
    return steep.suspects(
        pd.DataFrame(X, index=index), labels[y], pred_probs=np.full((150, 3), 1 / 3), task="classification"
    )


def sum_of(result):
    return checksum(result.label, row_names(result.index, len(result)))


def exported(folder, result, rows, labels, suffix):
    """What the page exports."""
    path = folder / f"decisions{suffix}"
    if suffix == ".csv":
        frame = pd.DataFrame({"row": rows, "new_label": labels, "data": sum_of(result)})
        frame.to_csv(path, index=False)
    else:
        entries = [{"row": str(row), "new_label": str(label)} for row, label in zip(rows, labels, strict=True)]
        path.write_text(json.dumps({"data": sum_of(result), "decisions": entries}))
    return path


FORMS = {
    "CSV": lambda folder, result, rows, labels: exported(folder, result, rows, labels, ".csv"),
    "JSON": lambda folder, result, rows, labels: exported(folder, result, rows, labels, ".json"),
    "text": lambda folder, result, rows, labels: str(exported(folder, result, rows, labels, ".csv")),
    "frame": lambda folder, result, rows, labels: pd.DataFrame({"row": rows, "new_label": labels}),
    "mapping": lambda folder, result, rows, labels: dict(zip(rows, labels, strict=True)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "index", [None, [f"s,{i}" for i in range(150)], range(7, 157)], ids=["places", "text", "whole"]
)
@pytest.mark.parametrize("labels", [NAMES, np.arange(3), np.array([0.5, 1.5, 2.0])], ids=["text", "whole", "float"])
def test_every_form_of_the_same_decisions_gives_the_same_labels(form, index, labels, tmp_path):
    result = found(index, labels)
    places, new = [3, 77, 10], labels[[0, 1, 2]]
    decided = FORMS[form](tmp_path, result, result.table.index[places].tolist(), new.tolist())
    expected = result.label.copy()
    expected[places] = new
    before = result.label.copy()
    changed = result.apply(decided)
    assert_array_equal(changed, expected)
    assert changed.dtype == result.label.dtype
    assert_array_equal(result.label, before)


def test_rows_alone_get_what_is_suggested():
    result = found(range(7, 157))
    expected = result.label.copy()
    expected[[3, 77]] = result.suggested[[3, 77]]
    assert_array_equal(result.apply(result.table.index[[3, 77]]), expected)
    assert_array_equal(result.apply([]), result.label)


def test_numbers_are_changed_to_numbers(tmp_path):
    X, y = load_diabetes(return_X_y=True)
    result = steep.suspects(X, y, predictions=np.roll(y, 1))
    changed = result.apply(exported(tmp_path, result, [5], [3.25], ".csv"))
    assert changed[5] == 3.25
    assert_array_equal(np.delete(changed, 5), np.delete(y, 5))
    with pytest.raises(InputError, match="gives row '5' the label 'inf'; expected a finite number"):
        result.apply(exported(tmp_path, result, [5], ["inf"], ".csv"))


BAD = {
    "names row 150, which is not in the data": {150: "setosa"},
    "names row -1, which is not in the data": [-1],
    "names row 3 more than once": [3, 3],
    "gives row 3 the label 'rose'; expected one of": {3: "rose"},
    "gives row 3 the label nan": {3: np.nan},
    r"gives row 3 the label \[1\]": {3: [1]},
    "expected a path, a DataFrame, a mapping": 5,
    "expected row and new_label": pd.DataFrame({"row": [3]}),
    "cannot be read": "nowhere.csv",
}


@pytest.mark.parametrize("said", BAD)
def test_decisions_that_do_not_fit_are_one_clear_line(said):
    with pytest.raises(SteepError, match=said) as caught:
        found().apply(BAD[said])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_decisions_about_other_data_are_rejected(suffix, tmp_path):
    path = exported(tmp_path, found(), [3], ["setosa"], suffix)
    found().apply(path)
    other = found(labels=NAMES[[1, 0, 2]])
    for result in (other, found(range(1, 151))):
        with pytest.raises(InputError, match="about other data: the checksums differ"):
            result.apply(path)


@pytest.mark.parametrize("text", ["", "[1", "{}", '{"data": 1, "decisions": 7}', "\x00\n\x00", "[]"])
@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_a_file_that_is_none_is_one_clear_line(text, suffix, tmp_path):
    path = tmp_path / f"d{suffix}"
    path.write_text(text)
    with pytest.raises(SteepError) as caught:
        found().apply(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_rows_that_share_a_name_are_told_apart_only_in_a_file_of_the_page(tmp_path):
    result = found([0] * 150)
    with pytest.raises(InputError, match="names several rows the same"):
        result.apply([0])
    assert result.apply(exported(tmp_path, result, [3], ["setosa"], ".csv"))[3] == "setosa"
