"""The batched classifiers of the double moon."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from reproduction.ensemble import _classifier_gradients, _start_classifier, sgd_classifiers

X = np.random.default_rng(0).normal(size=(40, 2))
Y = (X[:, 0] > 0).astype(float)
SETTINGS = {"test": X, "units": 4, "epochs": 5, "batch_size": 10, "learning_rate": 0.1}


@pytest.mark.parametrize("loss", ["cross_entropy", "squared_error"])
def test_gradients_by_hand_are_those_of_autograd(loss):
    parameters = [torch.stack([part, 0.5 * part]).requires_grad_() for part in _start_classifier(2, 4, 0)]
    points, targets = (
        torch.as_tensor(X, dtype=torch.float32).expand(2, -1, -1),
        torch.as_tensor(Y).float().expand(2, -1),
    )
    weight = torch.rand(2, 40, generator=torch.Generator().manual_seed(1))
    hidden = torch.relu(points @ parameters[0] + parameters[1])
    found = torch.sigmoid((hidden @ parameters[2] + parameters[3])[..., 0])
    losses = (
        functional.binary_cross_entropy(found, targets, reduction="none")
        if loss == "cross_entropy"
        else (found - targets) ** 2
    )
    (losses * weight).mean(dim=1).sum().backward()
    by_hand = _classifier_gradients([p.detach() for p in parameters], points, targets, weight, loss)
    for one, two in zip(by_hand, parameters, strict=True):
        torch.testing.assert_close(one, two.grad)


def test_weights_times_a_constant_are_a_larger_step():
    weights = np.random.default_rng(1).random((1, 40))
    tripled = sgd_classifiers(X, Y, 3 * weights, seeds=[0], **SETTINGS)
    faster = sgd_classifiers(X, Y, weights, seeds=[0], **SETTINGS | {"learning_rate": 0.3})
    np.testing.assert_allclose(tripled, faster, atol=1e-5)


def test_equal_seeds_with_equal_weights_give_equal_networks():
    found = sgd_classifiers(X, Y, np.ones((3, 40)), seeds=[5, 5, 6], **SETTINGS)
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)  # rounding differs within a batch
    assert not np.array_equal(found[0], found[2])


def test_a_weight_of_zero_leaves_a_sample_out():
    weights = np.ones((1, 40))
    weights[0, :7] = 0
    flipped = Y.copy()
    flipped[:7] = 1 - flipped[:7]
    one, two = (sgd_classifiers(X, labels, weights, seeds=[0], **SETTINGS) for labels in (Y, flipped))
    np.testing.assert_array_equal(one, two)


def test_without_shuffling_the_order_of_the_rows_decides():
    rows = np.random.default_rng(2).permutation(len(X))
    kept, moved = (
        sgd_classifiers(X[r], Y[r], np.ones((1, 40)), seeds=[0], shuffle=False, **SETTINGS)
        for r in (np.arange(len(X)), rows)
    )
    whole = SETTINGS | {"batch_size": 40}  # one batch: no order
    same = [
        sgd_classifiers(X[r], Y[r], np.ones((1, 40)), seeds=[0], shuffle=False, **whole)
        for r in (np.arange(len(X)), rows)
    ]
    assert np.abs(kept - moved).max() > 1e-3
    np.testing.assert_allclose(*same, atol=1e-6)


def test_the_watcher_sees_the_first_epoch_and_every_tenth_after_it():
    seen = {}
    kept = {"seeds": [0], "watch": lambda epoch, found: seen.update({epoch: found})}
    sgd_classifiers(X, Y, np.ones((1, 40)), **kept, **SETTINGS | {"epochs": 25})
    assert list(seen) == [1, 11, 21]
    alone = sgd_classifiers(X, Y, np.ones((1, 40)), seeds=[0], **SETTINGS | {"epochs": 11})
    np.testing.assert_array_equal(seen[11], alone)
