from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from steep import SteepWarning, VarianceWeighted, neighbor_variance, sample_weights, suspects
from steep.exceptions import InputError, SteepError
from steep.labels import check_labels, column_blocks, infer_task, one_hot

NAMES = ["b", "a", "b", "c"]
NUMBERS = [0.5, 1.5, 2.0, 0.5]


@pytest.mark.parametrize(
    "y",
    [
        NAMES,
        np.array(NAMES),
        np.array(NAMES, dtype=object),
        pd.Series(NAMES),
        pd.Series(NAMES, dtype="string"),
        pd.Series(NAMES, dtype="category"),
        pl.Series(NAMES),
        pl.Series(NAMES, dtype=pl.Categorical),
        np.array([[name] for name in NAMES]),
    ],
)
def test_classes_are_read_whatever_holds_them(y):
    labels = check_labels(y, n_samples=4)
    assert labels.codes.tolist() == [1, 0, 1, 2]
    assert list(labels.classes) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "y",
    [
        NUMBERS,
        np.array(NUMBERS),
        pd.Series(NUMBERS),
        pd.Series(NUMBERS, dtype="Float64"),
        pl.Series(NUMBERS),
        pd.DataFrame({"y": NUMBERS}),
        np.ma.masked_array(NUMBERS, False),
        np.array(NUMBERS, dtype=object),
        pd.Series(NUMBERS, dtype=object),
        [Decimal(number) for number in NUMBERS],
        pd.Series([Decimal("0.5"), 1.5, 2, Fraction(1, 2)], dtype=object),
        pd.DataFrame({"y": [Decimal(number) for number in NUMBERS]}),
    ],
)
def test_numbers_are_read_whatever_holds_them(y):
    labels = check_labels(y, n_samples=4)
    assert labels.codes is None
    assert labels.values[:, 0].tolist() == NUMBERS


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "int64", "bool"])
def test_pandas_whole_numbers_and_booleans_are_classes(dtype):
    labels = check_labels(pd.Series([1, 0, 1, 0], dtype=dtype), n_samples=4)
    assert labels.codes.tolist() == [1, 0, 1, 0]
    assert labels.classes.dtype != object


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(["a", None, "b", "a"], dtype="string"),
        pd.Series([1.0, None, 2.0, 3.0], dtype="Float64"),
        pd.Series([1, None, 2, 3], dtype="Int64"),
        pd.Series([True, None, False, True], dtype="boolean"),
        pd.Series(["a", None, "b", "a"], dtype="category"),
        pd.Series(pd.to_datetime(["2024-01-01", None, "2024-01-02", "2024-01-03"])),
        np.array(["2024-01-01", "NaT", "2024-01-02", "2024-01-03"], dtype="datetime64[D]"),
        np.ma.masked_array([1.0, 2.0, 3.0, 4.0], [False, True, False, False]),
        np.array(["a", None, "b", "a"], dtype=object),
        np.array(["a", np.nan, "b", "a"], dtype=object),
        [1.0, np.nan, 2.0, 3.0],
        pl.Series([1.0, None, 2.0, 3.0]),
        pl.Series(["a", None, "b", "a"]),
        pd.DataFrame({"u": [1.0, None, 2.0, 3.0], "v": [1.0, 2.0, 3.0, 4.0]}),
    ],
)
@pytest.mark.parametrize("task", ["auto", "classification", "regression"])
def test_a_missing_label_is_refused_whatever_holds_it(y, task):
    with pytest.raises(InputError, match=r"y contains NaN.*first at sample 1"):
        check_labels(y, n_samples=4, task=task)


@pytest.mark.parametrize(
    ("y", "task"),
    [
        ([10**400, 1, 2, 3], "regression"),
        ([np.inf, 1.0, 2.0, 3.0], "auto"),
        ([np.inf, 1.0, 2.0, 3.0], "classification"),
        (np.zeros((4, 0)), "auto"),
        (np.zeros((4, 2, 2)), "auto"),
        ([[1], [1, 2], [1], [1]], "auto"),
        (np.array([(1, 2.0)] * 4, dtype=[("a", int), ("b", float)]), "auto"),
        ([{}, {}, {}, {}], "auto"),
        (["a", 1, None, 2.0], "auto"),
        (7, "auto"),
        (None, "auto"),
    ],
)
def test_labels_that_make_no_sense_are_refused(y, task):
    with pytest.raises(SteepError):
        check_labels(y, n_samples=4, task=task)


def test_whole_numbers_beyond_all_floats_are_classes_like_others():
    assert check_labels([10**400, 1, 10**400, 1], n_samples=4).codes.tolist() == [1, 0, 1, 0]


def test_rows_keep_the_classes_of_all():
    labels = check_labels(np.array([0, 1, 2, 2]), n_samples=4).rows(np.array([0, 2]))
    assert one_hot(labels).tolist() == [[1, 0, 0], [0, 0, 1]]


X = np.random.default_rng(0).normal(size=(100, 2))


def test_labels_whose_squares_overflow_are_refused_as_weights():
    for call in (sample_weights, neighbor_variance, suspects):
        with pytest.raises(InputError, match=r"y reaches .*; expected numbers up to 1e\+100"):
            call(X, X[:, 0] * 1e200)
        if call is neighbor_variance:
            continue
        with pytest.raises(InputError, match=r"y reaches .*; expected numbers from 1e-100 on"):
            call(X, X[:, 0] * 1e-200)
    np.testing.assert_array_equal(neighbor_variance(X, np.zeros(100)), np.zeros(100))


def test_a_few_whole_floats_are_asked_about_and_quiet_once_told():
    y = np.repeat([0.0, 1.0, 2.0, 3.0], 25)
    with pytest.warns(SteepWarning, match="y holds 4 different whole numbers as floats") as caught:
        as_numbers = sample_weights(X, y)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(as_numbers, sample_weights(X, y, task="regression"))
    np.testing.assert_array_equal(sample_weights(X, y.astype(int)), sample_weights(X, y, task="classification"))


def test_two_whole_floats_weigh_the_same_as_classes():
    y = (X[:, 0] > 0).astype(float)
    np.testing.assert_allclose(sample_weights(X, y), sample_weights(X, y.astype(int)))
    np.testing.assert_allclose(2 * neighbor_variance(X, y), neighbor_variance(X, y.astype(int)))


def test_a_classifier_takes_whole_floats_as_classes_without_a_word():
    from sklearn.linear_model import LogisticRegression

    y = np.repeat([0.0, 1.0, 2.0, 3.0], 25)
    model = VarianceWeighted(LogisticRegression()).fit(X, y)
    np.testing.assert_array_equal(model.sample_weight_, sample_weights(X, y, task="classification"))


@pytest.mark.parametrize("lone", [pd.NA, pd.NaT])
def test_a_lone_missing_value_is_refused(lone):
    with pytest.raises(InputError, match="contains NaN"):
        check_labels(lone, n_samples=3)


WHOLE = np.arange(400)


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (WHOLE % 20 * 7, "classification"),  # 20 different values
        (WHOLE % 21 * 7, "regression"),
        (WHOLE % 40, "classification"),  # the codes 0 to 39, ten of each
        (WHOLE % 40 + 1, "classification"),
        (WHOLE % 40 + 2, "regression"),
        (WHOLE % 41, "regression"),  # fewer than ten of each
        (WHOLE, "regression"),
        (WHOLE % 30 - 5, "regression"),
        ((WHOLE % 21 * 7).astype(object), "regression"),
        (pd.Series(WHOLE % 21 * 7, dtype="UInt16"), "regression"),
        ((WHOLE % 2).astype(float), "regression"),
        (WHOLE % 2 == 0, "classification"),
        ((WHOLE % 300).astype(str), "classification"),
        (pd.Series(WHOLE % 300).astype("category"), "classification"),
        (np.c_[WHOLE % 2, WHOLE % 2 == 0], "classification"),
        (np.c_[WHOLE % 2, WHOLE * 7], "regression"),
        (np.c_[WHOLE % 3, WHOLE % 4], "classification"),
        (np.c_[WHOLE % 3, WHOLE / 2], "regression"),
    ],
)
def test_one_rule_says_whether_labels_are_classes_or_numbers(y, task):
    assert infer_task(y) == task
    few = check_labels(y, n_samples=400, task=task)
    read = check_labels_quietly(y)
    assert (read.codes is None) == (few.codes is None)
    np.testing.assert_array_equal(read.array, few.array)


def check_labels_quietly(y):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SteepWarning)
        return check_labels(y, n_samples=len(y))


def test_integers_taken_as_numbers_are_asked_about():
    with pytest.warns(SteepWarning, match="y holds 21 different integers and is read as numbers"):
        check_labels(WHOLE % 21 * 7, n_samples=400)
    check_labels(WHOLE % 21 * 7, n_samples=400, task="regression")
    check_labels(WHOLE % 40, n_samples=400)


def test_integers_that_floats_cannot_hold_are_rejected_as_numbers():
    large = 2**53 + np.arange(400)
    for y in (large, large.astype(np.uint64), pd.Series(large), large.astype(object)):
        with pytest.raises(InputError, match=r"y reaches \d+, and .* lose digits"):
            check_labels(y, n_samples=400, task="regression")
        assert len(check_labels(y, n_samples=400, task="classification").classes) == 400


@pytest.mark.parametrize("dtype", ["uint64", "UInt64"])
def test_large_unsigned_integers_stay_what_they_are(dtype):
    values = [2**63 + 5, 1, 2**64 - 1, 1]
    assert check_labels(pd.Series(values, dtype=dtype), n_samples=4).classes.tolist() == [1, 2**63 + 5, 2**64 - 1]
    frame = pd.DataFrame({"a": pd.Series(values, dtype=dtype)})
    assert check_labels(frame, n_samples=4).classes.tolist() == [1, 2**63 + 5, 2**64 - 1]


def test_blocks_of_columns_are_the_one_hot_columns(monkeypatch):
    monkeypatch.setattr("steep.labels._AT_ONCE", 30)
    for labels in (check_labels([0, 3, 1, 2, 3, 0, 0, 4, 5, 6], n_samples=10), check_labels([0.5] * 10, n_samples=10)):
        blocks = list(column_blocks(labels))
        assert max(block.size for block in blocks) <= 30
        np.testing.assert_array_equal(np.hstack(blocks), one_hot(labels))


def test_several_columns_of_too_many_classes_are_rejected_before_they_fill_the_memory():
    names = np.arange(20_000).astype(str)
    with pytest.raises(InputError, match="y has 2 columns with 40,000 classes"):
        check_labels(np.c_[names, names], n_samples=20_000)
