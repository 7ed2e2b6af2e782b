import numpy as np
import pytest

from reproduction.metrics import average_error_gain, average_error_loss, gain_per_model, l2_error, summarize

RNG = np.random.default_rng(0)


def test_the_squared_error_sums_over_outputs():
    assert l2_error([[0.0, 0.0], [1.0, 1.0]], [[0.0, 3.0], [1.0, -3.0]]) == pytest.approx((9 + 16) / 2)
    assert l2_error([1.0, 2.0], [1.0, 4.0]) == pytest.approx(2.0)


def test_gain_and_loss_split_the_mean_difference():
    before, after = RNG.random(50), RNG.random(50)
    gain, loss = average_error_gain(before, after), average_error_loss(before, after)
    assert gain > 0
    assert loss > 0
    assert gain - loss == pytest.approx((before - after).mean())


def test_gain_per_model_takes_the_best_repeat_of_each():
    assert gain_per_model([0.9, 0.8], [[0.91, 0.95], [0.7, 0.79]]).tolist() == pytest.approx([0.05, -0.01])
    assert gain_per_model([0.9, 0.8], [0.91, 0.7]).tolist() == pytest.approx([0.01, -0.1])


def test_summary_knows_which_way_is_better():
    assert summarize([1.0, 2.0, 3.0]).best == 3.0
    summary = summarize([1.0, 2.0, 3.0], greater_is_better=False)
    assert (summary.best, summary.mean) == (1.0, 2.0)
    assert summary.se == pytest.approx(1 / np.sqrt(3))
    assert str(summary) == "1, 2 ± 0.58"
