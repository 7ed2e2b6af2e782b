from math import comb

import numpy as np
import pytest

import oracle
from steep.measures.taylor import factorial, multi_indices, power


@pytest.mark.parametrize("n_features", [1, 2, 3, 5])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_multi_indices_are_all_those_of_the_sum(n_features, order):
    k = multi_indices(n_features, order)
    assert {tuple(row) for row in k.tolist()} == oracle.multi_indices(n_features, order)
    assert len(k) == comb(n_features + order, order) - 1
    assert (np.diff(k.sum(axis=1)) >= 0).all()


def test_factorial_and_power_are_products_over_axes():
    k = np.array([[3, 0, 2]])
    assert factorial(k).tolist() == [12]
    np.testing.assert_allclose(power(np.array([2.0, 5.0, 3.0]), k), [72])


@pytest.mark.parametrize("order", [0, -1])
def test_order_below_one_is_refused(order):
    with pytest.raises(ValueError, match=f"order={order} is too small"):
        multi_indices(2, order)


def test_order_that_is_no_whole_number_is_refused():
    with pytest.raises(TypeError, match=r"order=2\.0 is a float"):
        multi_indices(2, 2.0)


@pytest.mark.parametrize(("n_features", "order"), [(1000, 2), (10, 60), (3, 99)])
def test_more_derivatives_than_can_be_taken_are_refused_with_their_number(n_features, order):
    count = f"{comb(n_features + order, order) - 1:.6g}".replace("+", r"\+")
    with pytest.raises(ValueError, match=rf"takes {count} derivatives; expected at most 100000; lower order, or use"):
        multi_indices(n_features, order)


@pytest.mark.parametrize("order", [101, 10**6])
def test_an_order_beyond_all_use_is_refused(order):
    with pytest.raises(ValueError, match=rf"order={order} is too large; expected at most 100"):
        multi_indices(1, order)
