import numpy as np
import pytest
from scipy.optimize import approx_fprime

from steep import Adaptive, design
from steep.sampling import VariationSampler
from steep.sampling.process import _cost, axis_scales, length_scales, matern
from steep.sampling.strategies import MANY_INPUTS


@pytest.mark.parametrize("smooth", [False, True], ids=["Matern", "Gaussian"])
@pytest.mark.parametrize("nugget", [[], [-4.0]], ids=["lengths", "nugget"])
def test_the_slope_of_the_likelihood_is_that_of_its_values(smooth, nugget):
    rng = np.random.default_rng(0)
    U = rng.random((40, 4))
    y = np.column_stack([np.sin(4 * U[:, 0]) + U[:, 1] ** 2, U[:, 2] * U[:, 0]])
    # A Gaussian kernel of long lengths is singular to rounding unless there is a nugget.
    logs, middle = np.append(0.5 * rng.standard_normal(4) - 2 * smooth, nugget), np.full(4, 0.3)
    _, slope = _cost(logs, U, y - y.mean(axis=0), middle, smooth)
    by_steps = approx_fprime(logs, lambda at: _cost(at, U, y - y.mean(axis=0), middle, smooth)[0], 1e-6)
    np.testing.assert_allclose(slope, by_steps, rtol=1e-3, atol=1e-3)


def test_the_likelihood_is_that_of_a_normal_distribution():
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(1)
    U, lengths = rng.random((12, 2)), np.array([0.4, 0.9])
    y = rng.standard_normal((12, 1))
    K = matern(U / lengths, U / lengths, 1.0) + 1e-6 * np.eye(12)
    cost, _ = _cost(np.log(lengths), U, y, np.log(lengths))
    size = float(y[:, 0] @ np.linalg.solve(K, y[:, 0])) / 12
    likelihood = multivariate_normal(np.zeros(12), size * K).logpdf(y[:, 0])
    assert -cost == pytest.approx(likelihood + 6 * np.log(2 * np.pi) + 6, rel=1e-8)


def test_an_axis_along_which_nothing_bends_is_long_however_steep():
    U = np.random.default_rng(0).random((100, 5))
    lengths = length_scales(U, 9 * U[:, :1] + np.sin(9 * U[:, 1:2]))
    assert lengths.argmin() == 1
    assert lengths[0] > 3 * lengths[1]
    assert lengths.max() <= 10.001 * lengths.min()  # what looks idle may wake


def test_labels_that_never_change_have_usual_lengths():
    lengths = length_scales(np.random.default_rng(0).random((20, 6)), np.zeros((20, 1)))
    assert np.isfinite(lengths).all()
    assert np.ptp(lengths) == 0


def test_few_inputs_are_scaled_by_slopes_and_many_by_lengths():
    U = np.random.default_rng(0).random((90, MANY_INPUTS))
    y = 9 * U[:, :1] + np.sin(9 * U[:, 1:2])
    few, no_length = axis_scales(U[:, :-1], y)
    many, length = axis_scales(U, y)
    assert no_length is None
    assert length > 0
    assert few[0] > 0.5 * few[1]
    assert many[0] < 0.3 * many[1]
    assert np.prod(many) == pytest.approx(1)


def bend(X):
    """Curved in one place of the first two inputs, a plane elsewhere."""
    return np.logaddexp(0, 15 * (X[:, 0] + X[:, 1] - 1.2)) + X[:, 2:].sum(axis=1)


def test_many_inputs_are_placed_by_both_draws_in_turn(monkeypatch):
    used = []
    plain = VariationSampler.sample_unit
    monkeypatch.setattr(
        VariationSampler, "sample_unit", lambda self, n, **kw: used.append(self.draw) or plain(self, n, **kw)
    )
    design(bend, [(0, 1)] * 5, 48, n_initial=24, strategy=Adaptive(rounds=4), random_state=0)
    assert used == ["doubt", "fill", "doubt", "fill"]
