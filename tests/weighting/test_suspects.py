import numpy as np
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier

import steep

X, TRUE = make_blobs(120, centers=3, random_state=0, cluster_std=0.6)
WRONG = np.array([3, 40, 77, 101])
Y = TRUE.copy()
Y[WRONG] = (TRUE[WRONG] + 1) % 3
MODEL = LogisticRegression()


def found(y=Y, **settings):
    return steep.suspects(X, y, **{"estimator": MODEL, "random_state": 0} | settings)


def test_wrong_labels_come_first_and_the_right_ones_are_suggested():
    result = found()
    assert set(result.top(4).index) == set(WRONG)
    np.testing.assert_array_equal(result.suggested[WRONG], TRUE[WRONG])


def test_the_table_has_one_row_a_sample_in_their_order():
    table = found().table
    np.testing.assert_array_equal(table.index, np.arange(120))
    np.testing.assert_array_equal(table["label"], Y)
    np.testing.assert_array_equal(np.sort(table["rank"]), np.arange(1, 121))
    assert (table.sort_values("rank")["score"].diff().dropna() <= 0).all()


def test_the_neighbors_named_have_the_suggested_label():
    row = found().table.loc[3]
    assert row["neighbors"]
    assert set(Y[list(row["neighbors"])]) == {row["suggested"]}


def test_scores_sum_to_the_estimated_number_of_wrong_labels():
    result = found()
    np.testing.assert_allclose(result.score.sum(), result.n_wrong.mean, atol=1e-3)
    assert result.n_wrong.low <= result.n_wrong.mean <= result.n_wrong.high


def test_a_wrong_number_is_found():
    values = X @ [1.0, 2.0]
    values[7] += 30
    result = steep.suspects(X, values, estimator=Ridge(), random_state=0)
    assert result.top(1).index[0] == 7
    assert abs(result.suggested[7] - X[7] @ [1.0, 2.0]) < 3


def test_estimators_without_weights_will_do():
    assert set(found(estimator=KNeighborsClassifier(5)).top(4).index) == set(WRONG)
