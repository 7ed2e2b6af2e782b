import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_moons
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor

from steep.labels import Labels, check_labels
from steep.weighting.fitting import cross_fitted, deal

X, Y = make_moons(100, noise=0.2, random_state=0)
NAMES = np.array(["rain", "sun"])[Y]


def labels(y, task="auto"):
    return check_labels(y, n_samples=len(y), task=task)


@pytest.mark.parametrize("n", [7, 100, 203])
def test_samples_are_dealt_evenly_class_by_class(n):
    codes = np.random.default_rng(n).choice([0, 1, 2], n, p=[0.7, 0.2, 0.1]).astype(np.int32)
    part = deal(Labels(codes=codes), 5)
    assert np.ptp(np.bincount(part, minlength=5)) <= 1
    for code in np.unique(codes):
        assert np.ptp(np.bincount(part[codes == code], minlength=5)) <= 1
    np.testing.assert_array_equal(part, deal(Labels(codes=codes), 5))


def test_each_sample_is_predicted_by_a_fit_that_has_not_seen_it():
    data, y = load_diabetes(return_X_y=True)
    predicted = cross_fitted(Ridge(alpha=0.1), data, y, labels(y))
    part = deal(labels(y), 5)
    for number in range(5):
        model = Ridge(alpha=0.1).fit(data[part != number], y[part != number])
        np.testing.assert_allclose(predicted[part == number, 0], model.predict(data[part == number]))


def test_a_model_that_memorises_is_not_flattered():
    y = np.random.default_rng(0).normal(size=100)
    error = (cross_fitted(DecisionTreeRegressor(random_state=0), X, y, labels(y))[:, 0] - y) ** 2
    assert error.mean() > 1  # in the sample it is 0; two independent draws differ by 2


def test_columns_are_the_classes_in_order():
    predicted = cross_fitted(make_pipeline(StandardScaler(), LogisticRegression()), X, NAMES, labels(NAMES))
    assert predicted.shape == (100, 2)
    np.testing.assert_allclose(predicted.sum(axis=1), 1)
    assert np.mean(predicted.argmax(axis=1) == Y) > 0.8


def test_classifiers_without_probabilities_are_certain():
    predicted = cross_fitted(LinearSVC(), X, NAMES, labels(NAMES))
    assert set(np.unique(predicted)) == {0.0, 1.0}
    assert np.mean(predicted.argmax(axis=1) == Y) > 0.8


def test_a_class_of_one_sample_is_given_no_probability():
    y = np.zeros(30, int)
    y[0], y[1:15] = 1, 2
    predicted = cross_fitted(LogisticRegression(), X[:30], y, labels(y))
    assert predicted.shape == (30, 3)
    assert predicted[0, 1] == 0
    assert predicted[0, 2] > 0


def test_one_class_needs_no_fit():
    y = np.array([0] * 9 + [1])
    predicted = cross_fitted(LogisticRegression(), X[:10], y, labels(y))
    np.testing.assert_array_equal(predicted[9], [1, 0])


def test_own_weights_are_used():
    data, y = load_diabetes(return_X_y=True)
    own = np.where(np.arange(len(y)) % 2, 1.0, 1e-9)
    weighted, plain = (cross_fitted(Ridge(), data, y, labels(y), sample_weight=w) for w in (own, None))
    assert not np.allclose(weighted, plain)
    np.testing.assert_allclose(cross_fitted(Ridge(), data, y, labels(y), sample_weight=np.ones(len(y))), plain)


def test_several_outputs_keep_their_columns():
    y = np.column_stack([Y, 1 - Y]).astype(float)
    assert cross_fitted(Ridge(), X, y, labels(y)).shape == (100, 2)
