"""Numbers are judged by models that have not seen them, a second time without those that stand out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression

import oracle
import steep
from steep._suspects.numbers import Fits, blend, suspect_numbers
from steep._suspects.score import ballots
from steep.neighbors import neighbor_graph

RNG = np.random.default_rng(0)
N, K = 40, 6
X = RNG.normal(size=(N, 2))
AROUND = neighbor_graph(X, n_neighbors=K, include_self=False)[1]
VALUES, PREDICTED = RNG.normal(size=N), RNG.normal(size=(N, 1))
PART = np.arange(N) % 4


class Witness(RegressorMixin, BaseEstimator):
    """Predicts how many samples it was fitted to, and keeps which ones."""

    seen = []

    def fit(self, X, y):
        Witness.seen.append(set(np.asarray(X)[:, 0].astype(int)))
        self.n_ = len(y)
        return self

    def predict(self, X):
        return np.full(len(X), float(self.n_))


def test_margins_are_those_of_the_slow_loops():
    found = suspect_numbers(VALUES, PREDICTED, ballots(AROUND), None)
    expected = oracle.number_suspicion(VALUES, PREDICTED[:, 0], AROUND, found.neighbor_share)
    assert_allclose(found.margin, expected, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_the_unit_of_numbers_does_not_matter(scale):
    plain = suspect_numbers(VALUES, PREDICTED, ballots(AROUND), None).margin
    scaled = suspect_numbers(scale * VALUES + scale, scale * PREDICTED + scale, ballots(AROUND), None).margin
    assert_allclose(scaled, plain, rtol=1e-3)


def test_neighbors_of_the_same_group_are_not_asked():
    found = suspect_numbers(VALUES, PREDICTED, ballots(AROUND, np.zeros(N, int)), None)
    assert_allclose(found.expected, PREDICTED[:, 0])


def test_the_better_of_two_models_is_believed():
    good = VALUES + 0.01 * RNG.normal(size=N)
    assert_allclose(blend(VALUES, np.column_stack([PREDICTED[:, 0], good])), good, atol=0.05)
    assert_allclose(blend(VALUES, np.column_stack([good, PREDICTED[:, 0]])), good, atol=0.05)


def test_no_model_sees_the_sample_it_judges_nor_one_left_out():
    rows = np.arange(N, dtype=float)[:, None]
    Witness.seen.clear()
    kept = np.arange(N) != 5
    predicted = Fits([Witness()], rows, VALUES, PART, None, unit=2.0).predict(kept)
    for number, seen in enumerate(Witness.seen):
        assert seen == set(np.flatnonzero((number != PART) & kept))
    assert_array_equal(predicted[:, 0], 2.0 * np.where(PART == 1, 30, 29))


def test_the_second_fit_does_without_what_stands_out():
    rows = np.arange(N, dtype=float)[:, None]
    values = np.sin(rows[:, 0])
    values[[3, 17]] = 90
    fits = Fits([Witness()], rows, values, PART, None)
    Witness.seen.clear()
    suspect_numbers(values, np.zeros((N, 1)), ballots(AROUND), fits)
    assert not set.union(*Witness.seen) & {3, 17}
    assert len(set.union(*Witness.seen)) == N - 2


def test_wrong_numbers_that_speak_for_each_other_are_found():
    """Wrong ones in one corner: a line fitted with them bends towards them, and straightens without them."""
    rng = np.random.default_rng(1)
    points = rng.uniform(-1, 1, (400, 3))
    values = points @ [1.0, 2.0, -1.0] + 0.1 * rng.normal(size=400)
    wrong = rng.choice(np.flatnonzero(points[:, 0] > 0), 18, replace=False)
    values[wrong] += 4
    found = steep.suspects(points, values, estimator=LinearRegression(), random_state=0)
    assert set(found.top(18).index) == set(wrong)
