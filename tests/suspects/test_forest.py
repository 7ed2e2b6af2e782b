import numpy as np
from numpy.testing import assert_allclose
from sklearn.datasets import make_moons

from steep._suspects.predictions import forest, out_of_bag
from steep.labels import Labels, check_labels

X, Y = make_moons(60, noise=0.2, random_state=0)


def test_each_sample_is_predicted_by_the_trees_that_have_not_drawn_it(monkeypatch):
    monkeypatch.setattr("steep._suspects.predictions._TREES", ((100, 20),))
    labels = check_labels(Y, n_samples=60)
    found = out_of_bag(X, labels, 3)
    model = forest(labels, 3, n_estimators=20).fit(X, Y)
    total, count = np.zeros((60, 2)), np.zeros((60, 1))
    for tree, drawn in zip(model.estimators_, model.estimators_samples_, strict=True):
        out = np.setdiff1d(np.arange(60), drawn)
        total[out] += tree.predict_proba(X[out])
        count[out] += 1
    assert_allclose(found, total / count)


def test_a_class_without_samples_has_no_probability(monkeypatch):
    monkeypatch.setattr("steep._suspects.predictions._TREES", ((100, 10),))
    labels = Labels(codes=(2 * Y).astype(np.int32), classes=np.array(["a", "b", "c"]))
    found = out_of_bag(X, labels, 0)
    assert found.shape == (60, 3)
    assert_allclose(found[:, 1], 0)


def test_trees_of_large_data_draw_few_samples():
    many = Labels(codes=np.zeros(20_000, np.int32))
    assert forest(many, 0).max_samples == 10_000
    assert forest(many.rows(np.arange(5)), 0).max_samples is None
