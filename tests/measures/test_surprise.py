import signal
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import RBFInterpolator

from steep.exceptions import InputError
from steep.measures.surprise import _prediction_errors, surprise_variation
from steep.neighbors.query import nearest


def data(n=60, d=2, seed=0):
    X = np.random.default_rng(seed).random((n, d))
    return X, np.tanh(8 * (X[:, 0] - 0.5))


@pytest.mark.parametrize("d", [1, 2, 4])
def test_the_error_is_that_of_a_spline_through_the_others(d):
    X, y = data(40, d)
    others = np.array([np.delete(np.arange(40), i) for i in range(40)])
    errors = _prediction_errors(X, y[:, None], np.arange(40), others)[:, 0]
    for i in (0, 7, 39):
        spline = RBFInterpolator(X[others[i]], y[others[i]], kernel="cubic", degree=1)
        assert errors[i] == pytest.approx(y[i] - spline(X[i : i + 1])[0], abs=1e-4)


@given(shift=st.floats(-10, 10), scale=st.floats(0.01, 100))
def test_surprise_ignores_the_units_of_the_labels(shift, scale):
    X, y = data()
    np.testing.assert_allclose(surprise_variation(X, scale * y + shift), surprise_variation(X, y), rtol=1e-6, atol=1e-9)


def test_a_plane_surprises_nowhere():
    X, y = data()
    assert surprise_variation(X, X @ [1.0, 2.0]).max() < 1e-6 * surprise_variation(X, y).max()


def test_a_kink_surprises_more_than_a_slope():
    x = np.linspace(0, 1, 61)[:, None]
    variation = surprise_variation(x, np.abs(x[:, 0] - 0.4))
    assert abs(x[variation.argmax(), 0] - 0.4) < 0.05


def test_repeated_points_and_constant_labels_stay_finite():
    X, y = data(20)
    repeated = np.vstack([X, X[:5], X[:5]])
    assert np.isfinite(surprise_variation(repeated, np.concatenate([y, y[:5], y[:5]]))).all()
    assert (surprise_variation(X, np.ones(20)) == 0).all()


def test_too_few_points_are_refused():
    with pytest.raises(InputError, match="at least 3 samples, got 2"):
        surprise_variation([[0.0], [1.0]], [0.0, 1.0])


@pytest.mark.parametrize("d", [2, 9])
def test_nearest_is_the_brute_search(d):
    rng = np.random.default_rng(0)
    points, queries = rng.random((200, d)), rng.random((50, d))
    distances, indices = nearest(points, queries, 5)
    brute = np.linalg.norm(points[None] - queries[:, None], axis=2)
    np.testing.assert_array_equal(indices, np.argsort(brute, axis=1)[:, :5])
    np.testing.assert_allclose(distances, np.sort(brute, axis=1)[:, :5])
    assert (nearest(points, points)[0] == 0).all()


def test_labels_in_rows_instead_of_columns_are_refused():
    X = np.random.default_rng(0).random((30, 2))
    with pytest.raises(InputError, match=r"y has shape \(2, 30\) for 30 samples"):
        surprise_variation(X, np.zeros((2, 30)))


def test_a_missing_label_is_refused_instead_of_spreading():
    X = np.random.default_rng(0).random((30, 2))
    y = np.where(np.arange(30) == 3, np.nan, X[:, 0])
    with pytest.raises(InputError, match="y contains NaN, first at sample 3"):
        surprise_variation(X, y)


def test_more_columns_than_neighbours_say_the_same_as_the_space_they_span():
    rng = np.random.default_rng(0)
    inner = rng.normal(size=(60, 4))
    turn = np.linalg.qr(rng.normal(size=(500, 4)))[0]
    y = np.sin(inner[:, 0])
    # Isometric data have the same neighbours and distances; the plane is held back a little where it is free.
    few = surprise_variation(inner, y, n_neighbors=12)
    many = surprise_variation(inner @ turn.T, y, n_neighbors=12)
    assert np.corrcoef(few, many)[0, 1] > 0.9


@pytest.mark.parametrize(("length", "height"), [(1e90, 1.0), (1e-300, 1.0), (1.0, 1e90), (1.0, 1e-300)])
def test_units_do_not_matter_however_large_or_small(length, height):
    X, y = data()
    np.testing.assert_allclose(surprise_variation(length * X, height * y), surprise_variation(X, y), rtol=1e-6)


@pytest.mark.slow
def test_an_interrupt_is_noticed_at_any_time():
    """A signal handler runs between two steps; none of them takes more than a seventh of the whole."""
    X = np.random.default_rng(0).random((60_000, 5))
    times = []
    before = signal.signal(signal.SIGVTALRM, lambda *_: times.append(time.process_time()))
    times.append(time.process_time())
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.01, 0.01)
    try:
        surprise_variation(X, np.sin(5 * X[:, 0]))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    times.append(time.process_time())
    assert np.diff(times).max() < (times[-1] - times[0]) / 7


@pytest.mark.parametrize("gap", [1e-6, 1e-9, 0.0])
def test_points_that_nearly_coincide_count_as_one(gap):
    """The neighbours of a pair are predicted as if one of the two were missing, not by the slope between them."""
    X, y = data(30)
    step = np.array([gap, 0.0])
    pair, labels = np.vstack([X, X[:6] + step]), np.concatenate([y, np.tanh(8 * (X[:6, 0] + gap - 0.5))])
    everyone = np.arange(6, 30)
    others = [np.delete(np.arange(36), i) for i in everyone]
    found = _prediction_errors(pair, labels[:, None], everyone, np.array(others))
    alone = _prediction_errors(X, y[:, None], everyone, np.array([o[o < 30] for o in others]))
    np.testing.assert_allclose(found, alone, atol=1e-3 * np.abs(alone).max())
