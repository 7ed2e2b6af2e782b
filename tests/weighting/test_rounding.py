"""Rounding never becomes weights: variation that is equal up to rounding gives equal weights, real differences stay."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steep import Rescaling, VarianceWeighted, rescale, sample_weights

seeds = st.integers(0, 10_000)
scales = st.floats(-60, 60).map(lambda power: 10.0**power)
shifts = st.floats(-1e6, 1e6)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, scale=scales, shift=shifts)
def test_where_all_are_neighbours_of_all_every_weight_is_one(seed, scale, shift):
    rng = np.random.default_rng(seed)
    n_outputs = seed % 3 + 1
    X, y = rng.normal(size=(20, 3)), scale * (rng.normal(size=(20, n_outputs)) + shift)
    assert (sample_weights(X, y, task="regression") == 1.0).all()


@pytest.mark.parametrize("measure", ["variance", "density", "contradiction"])
@settings(max_examples=20, deadline=None)
@given(seed=seeds, size=st.floats(1e-100, 1e99))
def test_labels_that_are_constant_up_to_rounding_weigh_the_same(measure, seed, size):
    rng = np.random.default_rng(seed)
    y = size * (1 + np.finfo(float).eps * rng.integers(-1, 2, 60))
    weights = sample_weights(rng.normal(size=(60, 2)), y, measure=measure, task="regression")
    assert (weights == 1.0).all()


@settings(max_examples=40, deadline=None)
@given(seed=seeds, scale=scales, shift=shifts)
def test_weights_ignore_the_unit_and_the_zero_of_labels(seed, scale, shift):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    plain = sample_weights(X, y, n_neighbors=5, weight_ratio=40)
    moved = sample_weights(X, scale * (y + shift), n_neighbors=5, weight_ratio=40)
    np.testing.assert_allclose(moved, plain, rtol=1e-6)
    assert plain.max() / plain.min() == pytest.approx(40)


@given(base=st.floats(1e-100, 1e100), step=st.floats(1e-7, 1.0))
def test_differences_that_rounding_cannot_make_are_kept(base, step):
    weights = rescale([base, base * (1 + step)], weight_ratio=40, rescaling=Rescaling(normalize=None))
    np.testing.assert_allclose(weights, [1.0, 40.0])


@given(base=st.floats(1e-100, 1e100), steps=st.lists(st.integers(-50, 50), min_size=2, max_size=20))
def test_variation_that_is_equal_up_to_rounding_gives_equal_weights(base, steps):
    variation = base * (1 + np.finfo(float).eps * np.array(steps))
    for method in ("minmax", "max"):
        assert (rescale(variation, rescaling=Rescaling(method)) == 1.0).all()


def test_the_estimator_weighs_as_the_function_does():
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    assert (VarianceWeighted(Ridge()).fit(X, y).sample_weight_ == 1.0).all()


def test_a_callers_own_measure_is_taken_as_it_is():
    variation = np.linspace(1e-40, 2e-40, 30)
    weights = sample_weights(
        np.zeros((30, 2)), np.ones(30), measure=lambda X, y: variation, task="regression", weight_ratio=40
    )
    assert weights.max() / weights.min() == pytest.approx(40)
