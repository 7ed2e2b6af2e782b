import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from steep.exceptions import InputError, InputTypeError
from steep.nn import train_ensemble

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
EXACT = {"dtype": torch.float64, "random_state": 3}


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_member_is_the_network_torch_trains_alone(loss, activation):
    y, criterion = LOSSES[loss]
    weight = RNG.uniform(0.5, 2, len(X))
    kwargs = {"layers": (5, 4), "activation": activation, "loss": loss, "sample_weight": weight, **EXACT}
    trained = train_ensemble(X, y, n_members=3, epochs=60, learning_rate=0.01, **kwargs)
    network = train_ensemble(X, y, n_members=3, epochs=0, **kwargs).network(1)
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
    kwargs = {"epochs": 20, "batch_size": batch_size, "dtype": torch.float64}
    together = train_ensemble(X, Y, n_members=4, random_state=7, **kwargs).predict(X)
    alone = train_ensemble(X, Y, random_state=9, **kwargs).predict(X)
    np.testing.assert_allclose(together[2], alone[0], rtol=1e-9)
    assert not np.allclose(together[1], together[2])


def test_members_may_have_their_own_data_of_any_length():
    lists = [X, X[:25], X[5:17]]
    together = train_ensemble(lists, [Y[:, 0], Y[:25, 0], Y[5:17, 0]], epochs=30, **EXACT)
    alone = train_ensemble(X[5:17], Y[5:17], epochs=30, dtype=torch.float64, random_state=5)
    np.testing.assert_allclose(together.predict(X)[2], alone.predict(X)[0], rtol=1e-9)


def test_weight_zero_is_removed_and_weight_two_is_repeated():
    weight = np.ones(40)
    weight[:10], weight[10:15] = 0, 2
    weighted = train_ensemble(X, Y, sample_weight=weight, epochs=30, **EXACT).predict(X)
    rows = np.r_[10:40, 10:15]
    np.testing.assert_allclose(weighted, train_ensemble(X[rows], Y[rows], epochs=30, **EXACT).predict(X), rtol=1e-9)


def test_members_may_differ_by_weights_alone():
    weights = np.stack([np.ones(40), np.r_[np.zeros(20), np.ones(20)]])
    together = train_ensemble(X, Y, sample_weight=weights, epochs=30, dtype=torch.float64, random_state=[3, 3])
    np.testing.assert_allclose(
        together.predict(X)[0], train_ensemble(X, Y, epochs=30, **EXACT).predict(X)[0], rtol=1e-9
    )
    assert not np.allclose(together.predict(X)[0], together.predict(X)[1])


def test_the_plain_network_predicts_the_same():
    ensemble = train_ensemble(X, CLASSES, loss="cross_entropy", n_members=2, epochs=5)
    network = ensemble.network(1)
    assert isinstance(network, nn.Sequential)
    with torch.no_grad():
        probabilities = network(torch.tensor(X, dtype=torch.float32)).softmax(1)
    np.testing.assert_allclose(ensemble.predict(X)[1], probabilities, atol=1e-6)


@pytest.mark.parametrize("batch_size", [None, 16])
def test_the_watcher_sees_the_ensemble_of_every_epoch(batch_size):
    seen = {}
    kwargs = {"n_members": 2, "batch_size": batch_size, "random_state": 3}
    train_ensemble(X, Y, epochs=4, watch=lambda epoch, found: seen.update({epoch: found.predict(X)}), **kwargs)
    assert list(seen) == [1, 2, 3, 4]
    for epoch in (2, 4):
        np.testing.assert_array_equal(seen[epoch], train_ensemble(X, Y, epochs=epoch, **kwargs).predict(X))


def test_a_watcher_that_cannot_be_called_is_refused():
    with pytest.raises(InputTypeError, match=r"watch is a int; need a callable watch\(epoch, ensemble\)"):
        train_ensemble(X, Y, watch=3)


def test_the_global_random_state_is_left_alone():
    before = torch.get_rng_state()
    train_ensemble(X, Y, n_members=2, epochs=2, batch_size=8)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": X[None, None]}, "4 dimensions where 2"),
        ({"y": Y[:3]}, "y has 3 rows for 40 samples"),
        ({"y": Y + np.nan}, "y contains NaN"),
        ({"X": [X, X, X], "n_members": 2}, "number of members differs: X 3, n_members 2"),
        ({"loss": "cross_entropy"}, "not class numbers"),
        ({"loss": "binary"}, "other than 0 and 1"),
        ({"activation": "gelu"}, "activation='gelu' is unknown"),
        ({"X": [X, X[:9]], "y": [Y, Y[:9]], "batch_size": 4}, "need members of one length"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    given = {"X": X, "y": Y, **arguments}
    with pytest.raises(InputError, match=message):
        train_ensemble(given.pop("X"), given.pop("y"), **given)
