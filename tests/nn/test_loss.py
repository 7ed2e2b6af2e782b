import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from steep.exceptions import InputError, InputTypeError
from steep.nn import WeightedLoss, weighted_sampler

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(10, 3, generator=GENERATOR)
CLASSES = torch.randint(0, 4, (10,), generator=GENERATOR)
LOSSES = [
    (nn.CrossEntropyLoss(), CLASSES, 4),
    (nn.MSELoss(), torch.randn(10, 4, generator=GENERATOR), 4),
    (nn.BCEWithLogitsLoss(), torch.rand(10, 2, generator=GENERATOR).round(), 2),
]


def gradient(criterion, n_outputs, batches):
    torch.manual_seed(1)
    layer = nn.Linear(3, n_outputs).double()
    for rows in batches:
        criterion(layer(X[rows].double()), rows).backward()
    return layer.weight.grad


@pytest.mark.parametrize(("loss", "target", "n_outputs"), LOSSES)
def test_equal_weights_are_the_plain_loss_to_the_bit(loss, target, n_outputs):
    output = torch.randn(10, n_outputs, generator=torch.Generator().manual_seed(2))
    weighted = WeightedLoss(loss, np.full(10, 3.7))
    assert weighted(output, target, torch.arange(10)).item() == loss(output, target).item()


@pytest.mark.parametrize(("loss", "target", "n_outputs"), LOSSES)
def test_weight_zero_is_removed_and_weight_two_is_repeated(loss, target, n_outputs):
    target = target if target.dtype == torch.long else target.double()
    weights = torch.ones(10)
    weights[0], weights[1] = 0, 2
    weighted = WeightedLoss(loss, weights)
    rows = torch.tensor([1, 1, *range(2, 10)])
    found = gradient(lambda out, i: weighted(out, target[i], i), n_outputs, [torch.arange(10)])
    expected = gradient(lambda out, i: loss(out, target[i]), n_outputs, [rows])
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("loss", "target", "n_outputs"), LOSSES)
def test_accumulated_batches_add_up_to_one_large_batch(loss, target, n_outputs):
    target = target if target.dtype == torch.long else target.double()
    weights = torch.linspace(0.1, 3, 10)
    whole = WeightedLoss(loss, weights)
    parts = WeightedLoss(loss, weights, accumulate=10)
    expected = gradient(lambda out, i: whole(out, target[i], i), n_outputs, [torch.arange(10)])
    batches = torch.arange(10).split(4)  # the last one is short
    found = gradient(lambda out, i: parts(out, target[i], i), n_outputs, batches)
    torch.testing.assert_close(found, expected)


def test_the_given_loss_is_not_changed():
    loss = nn.MSELoss()
    WeightedLoss(loss, [1.0, 2.0])(torch.zeros(1), torch.ones(1), torch.tensor([0]))
    assert loss.reduction == "mean"


def test_weighted_loss_is_a_module_that_keeps_state_dicts_clean():
    assert WeightedLoss(nn.MSELoss(), [1.0, 2.0]).state_dict() == {}


def test_sampler_draws_in_proportion_to_the_weights():
    weights = [0.0, 1.0, 3.0]
    counts = np.bincount(list(weighted_sampler(weights, n_samples=8000, random_state=0)), minlength=3)
    assert counts[0] == 0
    assert abs(counts[2] / 8000 - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 8000)
    loader = DataLoader(TensorDataset(torch.arange(3)), sampler=weighted_sampler(weights, random_state=0))
    assert len(list(loader)) == 3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: WeightedLoss(nn.Linear(1, 1), [1.0]), InputTypeError, "Linear without a reduction"),
        (lambda: WeightedLoss(nn.MSELoss(), [1.0, -1.0]), InputError, r"sample_weight\[1\] is -1"),
        (lambda: WeightedLoss(nn.MSELoss(), [0.0]), InputError, "zero everywhere"),
        (lambda: WeightedLoss(nn.CrossEntropyLoss(weight=torch.ones(2)), [1.0]), InputError, "class weights"),
        (
            lambda: WeightedLoss(nn.MSELoss(), [1.0, 2.0])(torch.zeros(2), torch.zeros(2), torch.tensor([0])),
            InputError,
            r"index has shape \(1,\) for a batch of 2",
        ),
        (lambda: weighted_sampler([1.0], n_samples=0), InputError, "n_samples=0 is too small"),
    ],
)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
