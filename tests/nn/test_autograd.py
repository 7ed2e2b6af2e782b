import numpy as np
import pytest
import torch
from torch import nn

from steep import taylor_variation
from steep.exceptions import FunctionError, InputTypeError
from steep.measures.taylor import FiniteDifferences, multi_indices
from steep.nn import torch_derivatives

X = np.random.default_rng(0).uniform(-1, 1, (7, 3))


def bent(x):
    return torch.stack([torch.sin(x[:, 0]) * x[:, 1] ** 2 + x[:, 2], torch.exp(x[:, 0] * x[:, 2])], dim=1)


def test_derivatives_of_a_monomial_are_the_closed_form():
    k = multi_indices(2, 3)
    found = torch_derivatives(lambda x: x[:, 0] ** 3 * x[:, 1] ** 2)(X[:, :2], k)[:, :, 0]
    x, y = X[:, 0], X[:, 1]
    closed = {
        (1, 0): 3 * x**2 * y**2, (0, 1): 2 * x**3 * y, (2, 0): 6 * x * y**2, (1, 1): 6 * x**2 * y, (0, 2): 2 * x**3,
        (3, 0): 6 * y**2, (2, 1): 12 * x * y, (1, 2): 6 * x**2, (0, 3): 0 * x,
    }  # fmt: skip
    for row, index in zip(found, k.tolist(), strict=True):
        np.testing.assert_allclose(row, closed[tuple(index)], atol=1e-12)


def test_derivatives_agree_with_finite_differences_for_several_outputs():
    k = multi_indices(3, 2)
    differences = FiniteDifferences(lambda x: bent(torch.as_tensor(x)).numpy())
    np.testing.assert_allclose(torch_derivatives(bent)(X, k), differences(X, k), rtol=1e-4, atol=1e-4)


def test_blocks_do_not_change_the_result(monkeypatch):
    k = multi_indices(3, 2)
    whole = torch_derivatives(bent)(X, k)
    monkeypatch.setattr("steep.nn.autograd._BLOCK", 3)
    np.testing.assert_array_equal(torch_derivatives(bent)(X, k), whole)


def test_taylor_variation_takes_the_derivatives_of_a_network():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    exact = taylor_variation(None, X, derivatives=torch_derivatives(network))
    rough = taylor_variation(lambda x: network(torch.as_tensor(x)).detach().numpy(), X)
    np.testing.assert_allclose(exact, rough, rtol=1e-4)
    assert all(parameter.grad is None for parameter in network.parameters())


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (3, InputTypeError, "function is a int"),
        (lambda x: x.sum(), FunctionError, r"returned \(\) for 7 points"),
        (lambda x: 1.0, FunctionError, "returned float for 7 points"),
    ],
)
def test_bad_functions_are_refused(function, error, message):
    with pytest.raises(error, match=message):
        torch_derivatives(function)(X, multi_indices(3, 1))
