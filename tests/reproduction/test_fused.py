"""The fused training loop is the training of ``train_ensemble``."""

import numpy as np
import pytest

from reproduction.ensemble import train_ensemble
from reproduction.fused import predict_perceptron, train_perceptron
from reproduction.problems import BATEMAN


@pytest.mark.slow  # compiling takes half a minute
@pytest.mark.parametrize("n_points", [96, 500])
def test_the_fused_loop_gives_the_network_of_the_ensemble(n_points):
    low, high = np.array(BATEMAN.bounds).T
    X = low + np.random.default_rng(0).random((n_points, 3)) * (high - low)
    y = BATEMAN.function(X)
    given = {"epochs": 300, "learning_rate": 1e-3}
    wanted = train_ensemble(X, y, seeds=[5], layers=(32, 32), **given)
    found = train_perceptron(X, y, seed=5, **given)
    for ours, theirs in zip(found, wanted.weights, strict=True):
        np.testing.assert_allclose(ours, theirs[0].numpy(), atol=2e-6)
    np.testing.assert_allclose(predict_perceptron(found, X), wanted.predict(X)[0], atol=1e-5)
