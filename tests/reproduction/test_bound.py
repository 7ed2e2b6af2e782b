import numpy as np
import pytest

import oracle
from reproduction.figure_gb import generalization_bound

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("name", "value"), [("any", 1 / 3), ("centred", 1 / 4), ("exact", 1 / 12)])
def test_bound_is_the_equation_with_the_named_constant(name, value):
    slopes, sizes = RNG.normal(size=8), np.full(8, 0.125)
    given = generalization_bound(slopes, sizes, 0.7, constant=name)
    assert given == pytest.approx(oracle.bound(slopes, sizes, 0.7, value))


def worst_error(places, cells, slope, lipschitz):
    """E(f − f_θ)² of the worst pair the bound admits: lines of opposite slope through each x_i."""
    x = (np.arange(200_000) + 0.5) / 200_000
    cell = np.minimum((x * cells).astype(int), cells - 1)
    centre = (cell + places) / cells
    return np.mean(((slope + lipschitz) * (x - centre)) ** 2)


@pytest.mark.parametrize(
    ("constant", "place", "attained"), [("any", 0.0, True), ("centred", 0.5, False), ("exact", 0.5, True)]
)
def test_each_constant_bounds_the_worst_case_it_is_named_for(constant, place, attained):
    worst = worst_error(place, 10, 2.0, 1.0)
    bound = generalization_bound(np.full(10, 2.0), np.full(10, 0.1), 1.0, constant=constant)
    assert worst <= bound * (1 + 1e-6)
    assert (worst == pytest.approx(bound, rel=1e-4)) == attained


def test_the_paper_constant_fails_for_points_on_the_edge_of_their_cell():
    assert worst_error(0.0, 10, 2.0, 1.0) > generalization_bound([2.0] * 10, [0.1] * 10, 1.0, constant="centred")


def test_halving_the_steep_cell_lowers_the_bound_most():
    slopes = np.array([3.0, 0.0, 3.0])  # x³ at −1, 0, 1
    whole = generalization_bound(slopes, [1 / 3] * 3, 0.5)
    halved = [
        generalization_bound(
            np.insert(slopes, i, slopes[i]),
            np.insert([1 / 3] * 3, i, 1 / 6) * np.where(np.arange(4) == i + 1, 0.5, 1),
            0.5,
        )
        for i in range(3)
    ]
    assert np.argsort(halved)[-1] == 1
    assert max(halved) < whole
