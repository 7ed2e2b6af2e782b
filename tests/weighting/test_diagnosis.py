import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from steep import SteepWarning, VarianceWeighted, VarianceWeightedCV, WeightSearch, sample_weights, weighting_report
from steep.measures import Neighborhood
from steep.weighting.diagnosis import _foretold

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 2))
RUN = "To learn whether weights help, run VarianceWeightedCV(estimator, scoring=...).fit(X, y)."


def test_effective_samples_are_those_of_the_weights():
    y = (X[:, 0] > 0).astype(int)
    weights = sample_weights(X, y, weight_ratio=10)
    report = weighting_report(X, y, weight_ratio=10)
    assert report.effective_samples == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert weighting_report(X, y, weight_ratio=1).effective_samples == pytest.approx(600)


def test_clusters_far_apart_change_few_weights():
    report = weighting_report(np.vstack([X, X + 100]), np.repeat([0, 1], 600))
    assert report.mixed_share == 0
    assert report.separability == 1
    assert report.suggestion.startswith("Hardly any neighbourhood is mixed")


def test_pure_noise_is_called_noise():
    report = weighting_report(X, RNG.normal(size=600))
    assert report.noise_share > 0.9
    assert report.label_noise == pytest.approx(1, abs=0.1)
    assert report.separability < 0.1
    assert report.chance_level == 0


def test_a_steep_function_is_called_slope():
    report = weighting_report(X, np.tanh(3 * X[:, 0]))
    assert report.noise_share < 0.3
    assert report.separability > 0.9


@pytest.mark.parametrize("y", [RNG.normal(size=600), np.tanh(3 * X[:, 0]), (X[:, 0] > 0).astype(int)])
def test_no_direction_is_advised(y):
    """Which ratio helps depends on the model and the score; searches contradicted every rule from data alone."""
    suggestion = weighting_report(X, y, weight_ratio=5).suggestion
    assert suggestion == RUN
    assert "above 1" not in suggestion


def test_coin_flips_are_separable_by_chance_only():
    y = (RNG.random(600) < 0.05).astype(int)
    report = weighting_report(X, y)
    assert report.separability == pytest.approx(report.chance_level, abs=0.02)
    assert report.chance_level == pytest.approx(1 - y.mean())
    assert f"{report.chance_level:.3f} by chance" in str(report)


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
    assert "effective samples      600 of 600 (100%) by variance" in str(report)


def test_too_heavy_a_ratio_is_said_so():
    y = np.exp(4 * X[:, 0])  # smooth, and steep at one end only
    suggestion = weighting_report(X, y, weight_ratio=1000).suggestion
    assert suggestion.startswith("weight_ratio=1000 by variance leaves ")
    assert suggestion.endswith(RUN)


@pytest.mark.parametrize(("model", "y"), [(LogisticRegression(), (X[:, 0] > 0).astype(int)), (Ridge(), X[:, 0] ** 2)])
def test_with_an_estimator_it_speaks_of_the_measures_that_the_search_tries(model, y):
    report = weighting_report(X, y, estimator=model)
    search = VarianceWeightedCV(model, weight_ratio=(1, 3), cv=2, search=WeightSearch(n_repeats=1), random_state=0).fit(
        X, y
    )
    assert set(report.effective_by_measure) == set(search.cv_results_["measure"]) - {None}
    for measure, effective in report.effective_by_measure.items():
        weights = VarianceWeighted(model, measure=measure).fit(X, y).sample_weight_
        assert effective == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert f"{report.model_score:.3f} by the model" in str(report)


def test_a_line_through_a_parabola_falls_short_of_the_neighbours():
    report = weighting_report(X, X[:, 0] ** 2, estimator=Ridge())
    assert report.model_score < 0.1 < 0.7 < report.separability


@pytest.mark.parametrize("y", [RNG.integers(0, 3, 600), RNG.normal(size=(600, 2))])
def test_neighbours_foretell_the_mean_of_their_labels(y):
    around = Neighborhood.of(X, y, n_neighbors=7)
    columns = np.eye(3)[y] if y.ndim == 1 else y
    slow = np.array([columns[row[1:]].mean(axis=0) for row in around.indices])
    np.testing.assert_allclose(_foretold(around), slow)


def test_whole_floats_are_asked_about():
    with pytest.warns(SteepWarning, match="y holds 2 different whole numbers as floats and is taken as quantities"):
        weighting_report(X, (X[:, 0] > 0).astype(float))
