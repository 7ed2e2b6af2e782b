import numpy as np
import pytest

import oracle
from steep import generalization_bound
from steep.bound import lipschitz_constant
from steep.exceptions import InputError

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


def test_lipschitz_constant_bounds_every_slope_of_the_network():
    weights = [RNG.normal(size=(1, 8)), RNG.normal(size=(8, 8)), RNG.normal(size=(8, 1))]
    x = np.linspace(-3, 3, 5001)[:, None]
    for name, activation in {
        "relu": lambda z: np.maximum(z, 0),
        "tanh": np.tanh,
        "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    }.items():
        out = activation(activation(x @ weights[0]) @ weights[1]) @ weights[2]
        steepest = np.abs(np.diff(out[:, 0]) / np.diff(x[:, 0])).max()
        assert steepest <= lipschitz_constant(weights, activation=name)


def test_lipschitz_constant_of_a_linear_map_is_its_spectral_norm():
    assert lipschitz_constant([np.diag([3.0, 4.0])]) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (([1.0], [0.5, 0.5], 1.0), {}, r"cell_sizes has shape \(2,\); expected \(1,\)"),
        (([1.0, 1.0], [5.0, 5.0], 1.0), {}, "cell_sizes add up to 10"),
        (([1.0], [-0.5], 1.0), {}, r"cell_sizes\[0\] is -0.5"),
        (([1.0], [0.5], -1.0), {}, "lipschitz=-1.0 is out of range"),
        (([1.0], [0.5], 1.0), {"constant": "quarter"}, "constant='quarter' is unknown"),
    ],
)
def test_bad_input_is_refused(args, kwargs, message):
    with pytest.raises(InputError, match=message):
        generalization_bound(*args, **kwargs)


def test_a_network_without_layers_is_refused():
    with pytest.raises(InputError, match="weights is empty"):
        lipschitz_constant([])
