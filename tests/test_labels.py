import numpy as np
import pandas as pd
import polars as pl
import pytest

from steep import SteepWarning, VarianceWeighted, neighbor_variance, sample_weights
from steep.exceptions import InputError, SteepError
from steep.labels import check_labels, one_hot

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
    with pytest.raises(InputError, match=r"y reaches .*; need numbers up to 1e\+150"):
        sample_weights(X, X[:, 0] * 1e200)


def test_a_few_whole_floats_are_asked_about_and_quiet_once_told():
    y = np.repeat([0.0, 1.0, 2.0, 3.0], 25)
    with pytest.warns(SteepWarning, match="y holds 4 different whole numbers as floats") as caught:
        as_numbers = sample_weights(X, y)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(as_numbers, sample_weights(X, y, task="regression"))
    np.testing.assert_array_equal(
        sample_weights(X, y.astype(int)), sample_weights(X, y, task="classification")
    )


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
