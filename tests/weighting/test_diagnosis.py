import numpy as np
import pytest

from steep import sample_weights, weighting_report

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 2))


def test_effective_samples_are_those_of_the_weights():
    y = (X[:, 0] > 0).astype(int)
    weights = sample_weights(X, y, weight_ratio=10)
    report = weighting_report(X, y, weight_ratio=10)
    assert report.effective_samples == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert weighting_report(X, y, weight_ratio=1).effective_samples == pytest.approx(600)


def test_clusters_far_apart_need_no_weights():
    report = weighting_report(np.vstack([X, X + 100]), np.repeat([0, 1], 600))
    assert report.mixed_share == 0
    assert report.separability == 1
    assert "equal weights are a safe choice" in report.suggestion


def test_pure_noise_is_called_noise():
    report = weighting_report(X, RNG.normal(size=600))
    assert report.noise_share > 0.9
    assert report.label_noise == pytest.approx(1, abs=0.1)
    assert report.separability < 0.1
    assert "ratios below 1" in report.suggestion


def test_a_steep_function_is_called_slope():
    report = weighting_report(X, np.tanh(3 * X[:, 0]))
    assert report.noise_share < 0.3
    assert report.separability > 0.9
    assert "ratios above 1" in report.suggestion


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_flipped_labels_are_counted(share):
    points = RNG.normal(size=(3000, 2)) + RNG.integers(0, 2, 3000)[:, None] * 20
    y = (points[:, 0] > 10).astype(int)
    flipped = RNG.random(3000) < share
    report = weighting_report(points, np.where(flipped, 1 - y, y))
    assert report.label_noise == pytest.approx(share, abs=0.02)


def test_constant_labels_are_no_trouble():
    report = weighting_report(X, np.zeros(600))
    assert (report.mixed_share, report.noise_share, report.label_noise) == (0, 0, 0)
    assert "effective samples      600 of 600 (100%)" in str(report)


def test_too_heavy_a_ratio_is_said_so():
    y = np.exp(4 * X[:, 0])  # smooth, and steep at one end only
    assert "try a smaller ratio" in weighting_report(X, y, weight_ratio=1000).suggestion
