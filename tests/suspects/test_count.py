import numpy as np
import pytest
from numpy.testing import assert_allclose

from steep._suspects.score import scores, wrong_classes, wrong_numbers

RNG = np.random.default_rng(0)


def certain(n, rate, sure=0.9):
    """Labels wrong at a rate, and probabilities that know the truth."""
    true = RNG.integers(0, 3, n)
    given = np.where(np.arange(n) < rate * n, (true + 1) % 3, true)
    confidence = RNG.uniform(0.5, sure, n)[:, None]
    return given, np.where(np.eye(3, dtype=bool)[true], confidence, (1 - confidence) / 2)


def counted(given, probabilities):
    others = np.where(np.eye(3, dtype=bool)[given], 0.0, probabilities).max(axis=1)
    own = probabilities[np.arange(len(given)), given]
    return wrong_classes(others > own, probabilities.max(axis=1), (others > 0.5) & (own < 0.1), by_model=False)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3])
def test_labels_that_can_be_predicted_are_counted(rate):
    found = counted(*certain(4000, rate))
    assert abs(found.mean / 4000 - rate) < 0.03
    assert found.low <= rate * 4000 <= found.high


def test_doubtful_places_do_not_count_as_wrong_labels():
    """Half of the samples are coin tosses; labels that lose there are not wrong."""
    given, sure = certain(2000, 0.0)
    tosses = np.full((2000, 3), [0.4, 0.35, 0.25])
    found = counted(np.r_[given, RNG.integers(0, 2, 2000)], np.r_[sure, tosses])
    assert found.mean < 0.1 * 4000
    assert found.high > 0.2 * 4000


def test_numbers_that_stand_out_are_counted():
    margin = np.abs(RNG.normal(size=5000))
    assert wrong_numbers(margin).mean < 0.005 * 5000
    margin[:400] += 20
    found = wrong_numbers(margin)
    assert abs(found.mean - 400) < 0.03 * 5000
    assert found.low <= 400 <= found.high


def test_one_gross_error_is_counted_as_one():
    margin = np.abs(RNG.normal(size=500))
    margin[7] = 50
    assert wrong_numbers(margin).mean == 1
    assert scores(margin, 1.0, is_number=True)[7] > 0.5


@pytest.mark.parametrize("is_number", [False, True])
@pytest.mark.parametrize("n_wrong", [1.0, 30.5, 99.0])
def test_scores_keep_the_order_and_sum_to_the_count(is_number, n_wrong):
    margin = RNG.random(100)
    found = scores(margin, n_wrong, is_number=is_number)
    assert_allclose(found.sum(), n_wrong, atol=1e-6)
    assert (np.diff(found[np.argsort(margin)]) > 0).all()
    assert found.min() > 0
    assert found.max() < 1


@pytest.mark.parametrize("is_number", [False, True])
@pytest.mark.parametrize("n_wrong", [0.0, 4.0])
def test_no_label_is_certain_even_if_none_or_all_are_wrong(is_number, n_wrong):
    found = scores(np.zeros(4), n_wrong, is_number=is_number)
    assert_allclose(found, 0.125 if n_wrong == 0 else 0.875, atol=1e-6)
