import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from reproduction.ensemble import train_ensemble

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (40, 2))
Y = np.sin(3 * X[:, :1]) * X[:, 1:]
CLASSES = (X[:, 0] > X[:, 1]).astype(int) + (X[:, 0] > 0.5)
LOSSES = {
    "squared_error": (Y, lambda out, y, w: (w[:, None] * (out - y) ** 2).mean()),
    "cross_entropy": (
        CLASSES,
        lambda out, y, w: (w * functional.cross_entropy(out, y[:, 0].long(), reduction="none")).mean(),
    ),
    "binary": (
        (Y > 0).astype(float),
        lambda out, y, w: (w[:, None] * functional.binary_cross_entropy_with_logits(out, y, reduction="none")).mean(),
    ),
}
SETTINGS = {"layers": (8,), "learning_rate": 1e-3}
EXACT = {"dtype": torch.float64, "seeds": [3], **SETTINGS}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_member_is_the_network_torch_trains_alone(loss):
    y, criterion = LOSSES[loss]
    weight = RNG.uniform(0.5, 2, len(X))
    kwargs = {"layers": (5, 4), "loss": loss, "sample_weight": weight, "dtype": torch.float64, "learning_rate": 0.01}
    trained = train_ensemble(X, y, seeds=[3, 4, 5], epochs=60, **kwargs)
    network = train_ensemble(X, y, seeds=[3, 4, 5], epochs=0, **kwargs).network(1)
    inputs, targets = torch.tensor(X), torch.tensor(np.reshape(y, (len(X), -1)), dtype=torch.float64)
    weights = torch.tensor(weight / weight.mean())
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        criterion(network(inputs), targets, weights).backward()
        optimizer.step()
    for ours, theirs in zip(trained.network(1).parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("batch_size", [None, 16])
def test_a_member_does_not_depend_on_the_others(batch_size):
    kwargs = {"epochs": 20, "batch_size": batch_size, "dtype": torch.float64, **SETTINGS}
    together = train_ensemble(X, Y, seeds=range(7, 11), **kwargs).predict(X)
    alone = train_ensemble(X, Y, seeds=[9], **kwargs).predict(X)
    np.testing.assert_allclose(together[2], alone[0], rtol=1e-9)
    assert not np.allclose(together[1], together[2])


def test_members_may_have_their_own_data_of_any_length():
    lists = [X, X[:25], X[5:17]]
    kwargs = {"epochs": 30, "dtype": torch.float64, **SETTINGS}
    together = train_ensemble(lists, [Y[:, 0], Y[:25, 0], Y[5:17, 0]], seeds=[3, 4, 5], **kwargs)
    alone = train_ensemble(X[5:17], Y[5:17], seeds=[5], **kwargs)
    np.testing.assert_allclose(together.predict(X)[2], alone.predict(X)[0], rtol=1e-9)


def test_weight_zero_is_removed_and_weight_two_is_repeated():
    weight = np.ones(40)
    weight[:10], weight[10:15] = 0, 2
    weighted = train_ensemble(X, Y, sample_weight=weight, epochs=30, **EXACT).predict(X)
    rows = np.r_[10:40, 10:15]
    np.testing.assert_allclose(weighted, train_ensemble(X[rows], Y[rows], epochs=30, **EXACT).predict(X), rtol=1e-9)


def test_members_may_differ_by_weights_alone():
    weights = np.stack([np.ones(40), np.r_[np.zeros(20), np.ones(20)]])
    together = train_ensemble(X, Y, sample_weight=weights, epochs=30, **EXACT | {"seeds": [3, 3]}).predict(X)
    np.testing.assert_allclose(together[0], train_ensemble(X, Y, epochs=30, **EXACT).predict(X)[0], rtol=1e-9)
    assert not np.allclose(together[0], together[1])


def test_the_plain_network_predicts_the_same():
    ensemble = train_ensemble(X, CLASSES, loss="cross_entropy", seeds=range(2), epochs=5, **SETTINGS)
    network = ensemble.network(1)
    assert isinstance(network, nn.Sequential)
    with torch.no_grad():
        probabilities = network(torch.tensor(X, dtype=torch.float32)).softmax(1)
    np.testing.assert_allclose(ensemble.predict(X)[1], probabilities, atol=1e-6)


@pytest.mark.parametrize("batch_size", [None, 16])
def test_the_watcher_sees_the_ensemble_of_every_epoch(batch_size):
    seen = {}
    kwargs = {"seeds": range(3, 5), "batch_size": batch_size, **SETTINGS}
    train_ensemble(X, Y, epochs=4, watch=lambda epoch, found: seen.update({epoch: found.predict(X)}), **kwargs)
    assert list(seen) == [1, 2, 3, 4]
    for epoch in (2, 4):
        np.testing.assert_array_equal(seen[epoch], train_ensemble(X, Y, epochs=epoch, **kwargs).predict(X))


def test_the_global_random_state_is_left_alone():
    before = torch.get_rng_state()
    train_ensemble(X, Y, seeds=range(2), epochs=2, batch_size=8, **SETTINGS)
    assert torch.equal(before, torch.get_rng_state())
