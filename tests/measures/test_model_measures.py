from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from measured import measure_variation
from steep import neighbor_variance, sample_weights
from steep.exceptions import InputError
from steep.labels import one_hot
from steep.measures import MEASURES
from steep.measures.label_measures import nearness, squared_errors
from steep.measures.neighborhood import Neighborhood

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
CLASSES = RNG.integers(0, 3, 120)
VALUES = RNG.normal(size=(120, 2))
PROBABILITIES = RNG.dirichlet([1.0, 1.0, 1.0], 120)
ASKING = {"misfit": squared_errors, "border": nearness}


def around(y, predicted, k=6, points=X):
    return replace(Neighborhood.of(points, y, n_neighbors=k), predicted=predicted)


@pytest.mark.parametrize("name", ASKING)
def test_they_are_means_over_the_neighbourhood(name):
    hood = around(CLASSES, PROBABILITIES)
    own = ASKING[name](hood)
    expected = [np.mean([own[j] for j in hood.indices[i]]) for i in range(120)]
    np.testing.assert_allclose(MEASURES[name].variation(hood), expected)
    np.testing.assert_array_equal(MEASURES[name].variations(hood, [1])[0], own)


@pytest.mark.parametrize("name", ASKING)
def test_several_sizes_equal_each(name):
    whole = MEASURES[name].variations(around(CLASSES, PROBABILITIES, k=15), [1, 4, 15])
    for k, values in zip([4, 15], whole[1:], strict=True):
        np.testing.assert_allclose(MEASURES[name].variation(around(CLASSES, PROBABILITIES, k=k)), values)


def test_doubt_is_one_minus_the_probability_of_the_own_class():
    hood, doubt = around(CLASSES, PROBABILITIES), MEASURES["doubt"]
    expected = [1 - PROBABILITIES[i][CLASSES[i]] for i in range(120)]
    np.testing.assert_allclose(doubt.variation(hood), expected)
    np.testing.assert_array_equal(*doubt.variations(hood, [1, 6]))  # neighbours have no say
    with pytest.raises(InputError, match=r"measure='doubt' got numbers as labels"):
        doubt.variation(around(VALUES, VALUES))


def test_misfit_is_the_squared_error_summed_over_columns():
    values = MEASURES["misfit"].variations(around(VALUES, VALUES + np.array([3.0, 4.0])), [1])[0]
    np.testing.assert_allclose(values, 25.0)
    brier = ((one_hot(around(CLASSES, None).labels) - PROBABILITIES) ** 2).sum(axis=1)
    np.testing.assert_allclose(MEASURES["misfit"].variations(around(CLASSES, PROBABILITIES), [1])[0], brier)


def test_a_model_that_is_right_has_no_misfit_and_no_border():
    certain = np.eye(3)[CLASSES]
    assert MEASURES["misfit"].variation(around(VALUES, VALUES)).max() == 0
    assert MEASURES["misfit"].variation(around(CLASSES, certain)).max() == 0
    assert MEASURES["border"].variation(around(CLASSES, certain)).max() == 0


@settings(max_examples=20, deadline=None)
@given(shift=st.floats(-100, 100), scale=st.floats(-10, 10))
def test_misfit_ignores_a_shift_and_squares_a_scale(shift, scale):
    base = MEASURES["misfit"].variation(around(VALUES, 0.5 * VALUES))
    moved = MEASURES["misfit"].variation(around(scale * VALUES + shift, scale * 0.5 * VALUES + shift))
    np.testing.assert_allclose(moved, scale**2 * base, rtol=1e-6, atol=1e-9)


def test_misfit_about_the_local_mean_is_close_to_the_variance():
    # A model that predicts the mean of the neighbourhood wherever it is asked is what label variance assumes.
    points = np.repeat(RNG.normal(size=(6, 3)) * 100, 20, axis=0)
    y = RNG.normal(size=120)
    means = np.repeat(y.reshape(6, 20).mean(axis=1), 20)[:, None]
    misfit = MEASURES["misfit"].variation(around(y, means, k=20, points=points))
    np.testing.assert_allclose(misfit, neighbor_variance(points, y, n_neighbors=20) * 19 / 20)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 99))
def test_they_follow_a_permutation_and_ignore_an_isometry(seed):
    rng = np.random.default_rng(seed)
    order, rotation = rng.permutation(120), np.linalg.qr(rng.normal(size=(3, 3)))[0]
    for name in ASKING:
        base = MEASURES[name].variation(around(CLASSES, PROBABILITIES))
        moved = around(CLASSES[order], PROBABILITIES[order], points=X[order] @ rotation + 2)
        np.testing.assert_allclose(MEASURES[name].variation(moved), base[order], atol=1e-9)


def test_border_is_one_between_two_classes_and_zero_far_from_it():
    predicted = np.tile([0.5, 0.5, 0.0], (120, 1))
    assert (MEASURES["border"].variations(around(np.arange(120) % 2, predicted[:, :2]), [1])[0] == 1).all()
    three = np.arange(120) % 3
    values = MEASURES["border"].variations(around(three, predicted), [1])[0]
    np.testing.assert_allclose(values[three == 2], 0.25)
    assert (values[three < 2] == 1).all()


def test_border_does_not_care_on_which_side_of_it_a_sample_is():
    y = np.arange(120) % 2
    right = np.column_stack([np.where(y == 0, 0.8, 0.2), np.where(y == 1, 0.8, 0.2)])
    sides = [MEASURES["border"].variations(around(y, p), [1])[0] for p in (right, right[:, ::-1])]
    np.testing.assert_allclose(*sides)


@pytest.mark.parametrize("name", ASKING)
def test_without_a_model_they_say_who_has_one(name):
    with pytest.raises(InputError, match=f"measure='{name}' asks a model, got none; .* VarianceWeighted"):
        MEASURES[name].variation(around(CLASSES, None))
    message = f"measure='{name}' asks the model that is to be trained, which .* cannot give it; .* VarianceWeighted"
    with pytest.raises(InputError, match=message):
        measure_variation(X, CLASSES, measure=name)
    with pytest.raises(InputError, match=message):
        sample_weights(X, CLASSES, measure=name, n_neighbors=1)


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="measure='border' got numbers as labels"):
        MEASURES["border"].variation(around(VALUES, VALUES))
    with pytest.raises(InputError, match=r"labels of shape \(120, 2\) and predictions of shape \(120, 3\)"):
        MEASURES["misfit"].variation(around(VALUES, PROBABILITIES))
