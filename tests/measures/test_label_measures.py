import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from measured import measure_variation
from steep import neighbor_variance
from steep.exceptions import InputError
from steep.labels import one_hot
from steep.measures import MEASURES
from steep.measures.neighborhood import Neighborhood

OF_LABELS = [name for name, measure in MEASURES.items() if measure.needs == "labels"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
CLASSES = RNG.integers(0, 3, 120)
VALUES = RNG.normal(size=(120, 2))


def around(y, k=20, points=X):
    return Neighborhood.of(points, y, n_neighbors=k)


@pytest.mark.parametrize("name", OF_LABELS)
@pytest.mark.parametrize("y", [CLASSES, VALUES], ids=["classes", "values"])
def test_every_measure_is_finite_and_not_negative(name, y):
    variation = MEASURES[name].variation(around(y))
    assert variation.shape == (120,)
    assert np.isfinite(variation).all()
    assert (variation >= 0).all()


@pytest.mark.parametrize("name", OF_LABELS)
def test_every_measure_ignores_a_shift_and_squares_a_scale(name):
    base, moved = (MEASURES[name].variation(around(y)) for y in (VALUES, -3 * VALUES + 100))
    # Surprise divides each output by its deviation first.
    np.testing.assert_allclose(moved, (1 if name == "surprise" else 9) * base, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", OF_LABELS)
def test_every_measure_is_zero_for_constant_labels(name):
    assert MEASURES[name].variation(around(np.full(120, 7.0))).max() == pytest.approx(0, abs=1e-12)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 99))
def test_every_measure_follows_a_permutation_and_ignores_an_isometry(seed):
    rng = np.random.default_rng(seed)
    order, rotation = rng.permutation(120), np.linalg.qr(rng.normal(size=(3, 3)))[0]
    for measure in (MEASURES[name].variation for name in OF_LABELS):
        base = measure(around(CLASSES))
        np.testing.assert_allclose(measure(around(CLASSES[order], points=X[order])), base[order], atol=1e-9)
        np.testing.assert_allclose(measure(around(CLASSES, points=X @ rotation + 2)), base, atol=1e-6)


def test_contradiction_is_the_leave_one_out_error():
    hood = around(VALUES, k=6)
    expected = [np.sum((VALUES[i] - VALUES[hood.indices[i, 1:]].mean(axis=0)) ** 2) for i in range(120)]
    np.testing.assert_allclose(MEASURES["contradiction"].variation(hood), expected)


def test_a_flipped_label_is_contradicted():
    y = (X[:, 0] > 0).astype(int)
    flipped = int(np.argmax(X[:, 0]))
    wrong = y.copy()
    wrong[flipped] = 0
    hood = around(wrong, k=8)
    assert MEASURES["contradiction"].variation(hood)[flipped] == pytest.approx(2.0)
    assert MEASURES["variance"].variation(hood)[flipped] > 0


def test_density_lifts_sparse_samples_by_at_most_its_bound():
    points = np.vstack([RNG.normal(size=(60, 2)) * 0.1, RNG.normal(size=(60, 2)) * 10 + 100])
    y = RNG.integers(0, 2, 120)
    factor = MEASURES["density"].variation(around(y, points=points)) / neighbor_variance(points, y, n_neighbors=20)
    assert factor[60:].mean() > 2 * factor[:60].mean()
    assert factor.min() >= 1 / 3 - 1e-12
    assert factor.max() <= 3 + 1e-12


def test_density_of_identical_points_is_left_out():
    points, y = np.zeros((40, 2)), RNG.integers(0, 2, 40)
    np.testing.assert_array_equal(
        MEASURES["density"].variation(around(y, points=points)),
        MEASURES["variance"].variation(around(y, points=points)),
    )


@pytest.mark.parametrize("name", OF_LABELS)
def test_variations_of_several_sizes_equal_those_of_each(name):
    expected = [measure_variation(X, CLASSES, measure=name, n_neighbors=k) for k in (6, 15)]
    np.testing.assert_allclose(MEASURES[name].variations(around(CLASSES, k=15), [6, 15]), expected, atol=1e-12)


def test_a_measure_may_be_a_function():
    np.testing.assert_array_equal(measure_variation(X, CLASSES, measure=lambda X, y: np.arange(120.0)), np.arange(120))
    with pytest.raises(InputError, match=r"measure\(X, y\)\[0\] is -1"):
        measure_variation(X, CLASSES, measure=lambda X, y: -np.ones(120))
    with pytest.raises(InputError, match="measure='steepest' is unknown; expected one of 'variance', 'contradiction'"):
        measure_variation(X, CLASSES, measure="steepest")


def test_one_hot_columns_are_what_the_oracle_calls_them():
    import oracle

    np.testing.assert_array_equal(one_hot(around(CLASSES).labels), oracle.one_hot(CLASSES.tolist()))
