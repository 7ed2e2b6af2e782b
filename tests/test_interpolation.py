"""The interpolant that judges a design: exact where it has seen, blind to what it judges, sane with categories."""

import numpy as np
import pytest

from steep import Box, Category, Integer, Log
from steep.expected_error import cross_errors, interpolant


def test_an_interpolant_gives_back_what_it_was_told():
    rng = np.random.default_rng(0)
    points, labels = rng.random((60, 3)), rng.random((60, 2))
    np.testing.assert_allclose(interpolant(points, labels)(points), labels, atol=1e-6)


def test_a_plane_is_interpolated_exactly():
    rng = np.random.default_rng(0)
    points, new = rng.random((40, 2)), rng.random((10, 2))
    plane = lambda x: (x @ [[2.0], [-3.0]]) + 1  # noqa: E731
    np.testing.assert_allclose(interpolant(points, plane(points))(new), plane(new), atol=1e-6)


@pytest.mark.parametrize(("n_points", "largest"), [(80, 0.3), (240, 0.07), (700, 0.1)])
def test_categories_do_not_throw_the_interpolant_off(n_points, largest):
    """Their columns add up to one, which leaves a cubic of the neighbours alone open: it errs twice as much."""
    inputs = {"r": Log(1e-3, 1e3), "a": (-1, 1), "n": Integer(1, 9), "metal": Category("steel", "copper", "tin")}
    box = Box(inputs | {"quiet": (0, 1)})
    f = lambda X: np.tanh(2 * X[:, 1:2]) + 0.2 * np.log10(X[:, :1]) + 0.1 * X[:, 2:3] + 0.5 * (X[:, 3:4] == 1)  # noqa: E731
    X, new = (box.uniform(n, random_state=n + 1) for n in (n_points, 400))
    known, asked = (box.embed(box.unit(x)) for x in (X, new))
    errors = np.abs(interpolant(known, f(X))(asked) - f(new))
    assert errors.max() < largest * np.ptp(f(X))


def test_no_result_is_predicted_from_itself():
    rng = np.random.default_rng(0)
    points, labels = rng.random((50, 2)), np.zeros((50, 1))
    points[20] = 0.5  # well inside: no one has to reach far beyond it
    labels[20] = 1.0
    predicted, errors = cross_errors(points, labels)
    assert errors.argmax() == 20
    assert abs(predicted[20, 0]) < 0.01


def test_of_very_many_results_some_are_judged():
    points = np.random.default_rng(0).random((3500, 1))
    _, errors = cross_errors(points, np.sin(9 * points))
    assert np.isfinite(errors).sum() == 1000
    assert np.nanmax(errors) < 1e-2
