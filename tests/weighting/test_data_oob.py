"""The peer that benchmarks/suspects.py writes again: against the equation of its paper."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier

FILE = Path(__file__).parents[2] / "benchmarks" / "data_oob.py"


@pytest.fixture(scope="module")
def data_oob():
    spec = importlib.util.spec_from_file_location("data_oob", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.data_oob


def test_it_is_equation_2_of_kwon_and_zou(data_oob):
    X, y = make_moons(40, noise=0.3, random_state=0)
    psi, probabilities = data_oob(X, y, 15, 0)
    forest = RandomForestClassifier(15, random_state=0).fit(X, y)
    for i in range(40):
        without = [b for b in range(15) if i not in forest.estimators_samples_[b]]
        said = [forest.estimators_[b].predict(X[i : i + 1])[0] for b in without]
        assert_allclose(psi[i], sum(answer == y[i] for answer in said) / len(without))
        assert_allclose(probabilities[i], np.bincount(np.array(said, int), minlength=2) / len(without))


def test_labels_of_other_classes_are_told_apart_by_name(data_oob):
    X, y = make_moons(40, noise=0.3, random_state=0)
    assert_allclose(data_oob(X, 5 * y + 2, 15, 0)[0], data_oob(X, y, 15, 0)[0])
