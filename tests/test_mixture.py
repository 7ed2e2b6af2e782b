import numpy as np
import pytest
from sklearn.mixture import GaussianMixture
from sklearn.utils.estimator_checks import parametrize_with_checks

from steep import WeightedGaussianMixture
from steep.exceptions import InputError, InputTypeError
from steep.mixture import _Parameters

RNG = np.random.default_rng(0)
X = np.vstack(
    [RNG.normal([0, 0], [1, 0.3], (40, 2)), RNG.normal([4, 4], [0.5, 1], (40, 2)), RNG.normal([0, 5], 0.7, (40, 2))]
)
WHOLE = RNG.integers(0, 5, len(X))
CENTRES, SHARES = X[[0, 50, 100]], np.array([0.2, 0.3, 0.5])


class Started(WeightedGaussianMixture):
    """The same from given parameters, which scikit-learn's mixture can be given too."""

    def _start(self, points, shares, generator):
        return _Parameters(SHARES, CENTRES, self.covariances, np.linalg.cholesky(self.covariances))


def started(covariances, **options):
    ours = Started(3, **options)
    ours.covariances = covariances
    precisions = np.linalg.inv(covariances)
    start = {"means_init": CENTRES, "weights_init": SHARES, "precisions_init": precisions}
    return ours, GaussianMixture(3, **start, **{"tol": 1e-3, **options})


def parameters(mixture):
    return np.concatenate([mixture.weights_, mixture.means_.ravel(), mixture.covariances_.ravel()])


@pytest.mark.parametrize("max_iter", [1, 5, 200])
def test_whole_weights_equal_repeated_rows_in_scikit_learn(max_iter):
    covariances = np.stack([np.eye(2) * s for s in (0.5, 1.0, 2.0)])
    ours, theirs = started(covariances, tol=0, max_iter=max_iter)
    ours.fit(X, sample_weight=WHOLE)
    with pytest.warns(Warning, match="did not converge"):
        theirs.fit(np.repeat(X, WHOLE, axis=0))
    np.testing.assert_allclose(parameters(ours), parameters(theirs), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-6)


def test_it_stops_where_scikit_learn_stops():
    covariances = np.stack([np.eye(2)] * 3)
    ours, theirs = (mixture.fit(X) for mixture in started(covariances))
    assert (ours.n_iter_, ours.converged_) == (theirs.n_iter_, theirs.converged_)
    assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_, abs=1e-9)


def test_points_of_weight_zero_change_nothing():
    weights = RNG.random(len(X))
    alone = WeightedGaussianMixture(3, random_state=1).fit(X, sample_weight=weights)
    extended = WeightedGaussianMixture(3, random_state=1).fit(
        np.vstack([X, RNG.normal(size=(30, 2)) * 100]), sample_weight=np.r_[weights, np.zeros(30)]
    )
    np.testing.assert_array_equal(parameters(alone), parameters(extended))


def test_the_unit_of_the_weights_does_not_matter():
    weights = RNG.random(len(X))
    fits = [WeightedGaussianMixture(3, random_state=1).fit(X, sample_weight=c * weights) for c in (1, 1000)]
    np.testing.assert_allclose(parameters(fits[0]), parameters(fits[1]), rtol=1e-9)


def test_each_step_raises_the_likelihood():
    bounds = []
    for max_iter in range(1, 15):
        mixture = WeightedGaussianMixture(3, tol=0, max_iter=max_iter, random_state=3).fit(X, sample_weight=WHOLE)
        bounds.append(mixture.lower_bound_)
    assert (np.diff(bounds) > -1e-9).all()


def test_more_starts_never_lower_the_likelihood():
    one, many = (
        WeightedGaussianMixture(3, n_init=n, random_state=5).fit(X, sample_weight=WHOLE).lower_bound_ for n in (1, 10)
    )
    assert many >= one


@pytest.mark.parametrize("n_distinct", [1, 2, 8])
def test_collapsing_components_do_not_crash(n_distinct):
    points = np.repeat(np.linspace(0, 1, n_distinct), 8)[:, None]
    mixture = WeightedGaussianMixture(3, n_init=5, random_state=0).fit(
        points, sample_weight=np.arange(1, len(points) + 1)
    )
    assert np.isfinite(parameters(mixture)).all()
    assert np.isfinite(mixture.score_samples(points)).all()


def test_weights_far_apart_do_not_overflow():
    mixture = WeightedGaussianMixture(2, random_state=0).fit(X * 1e3, sample_weight=np.logspace(-300, 300, len(X)))
    assert np.isfinite(parameters(mixture)).all()


def test_density_integrates_to_one():
    mixture = WeightedGaussianMixture(2, random_state=0).fit(X[:, :1], sample_weight=WHOLE)
    grid = np.linspace(-10, 15, 20001)[:, None]
    assert np.exp(mixture.score_samples(grid)).sum() * (25 / 20000) == pytest.approx(1, abs=1e-3)


def test_draws_have_the_moments_of_the_mixture():
    mixture = WeightedGaussianMixture(3, random_state=0).fit(X, sample_weight=WHOLE)
    drawn = mixture.sample(40_000)
    centred = mixture.means_ - mixture.weights_ @ mixture.means_
    covariance = np.einsum("c,cij->ij", mixture.weights_, mixture.covariances_)
    covariance += np.einsum("c,ci,cj->ij", mixture.weights_, centred, centred)
    np.testing.assert_allclose(drawn.mean(axis=0), mixture.weights_ @ mixture.means_, atol=4 * 3 / 200)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.25)


def test_draws_follow_the_seed():
    mixture = WeightedGaussianMixture(3, random_state=0).fit(X)
    np.testing.assert_array_equal(mixture.sample(5), mixture.sample(5))
    assert not np.array_equal(mixture.sample(5, random_state=1), mixture.sample(5, random_state=2))


@pytest.mark.parametrize(
    ("kwargs", "fit", "error", "message"),
    [
        ({"n_components": 200}, {}, InputError, "n_components=200 needs at least 200 samples"),
        ({}, {"sample_weight": -np.ones(120)}, InputError, r"sample_weight\[0\] is -1"),
        ({}, {"sample_weight": np.zeros(120)}, InputError, "sample_weight is zero everywhere"),
        ({}, {"sample_weight": np.ones(3)}, InputError, r"sample_weight has shape \(3,\); expected \(120,\)"),
        ({"n_components": 0}, {}, InputError, "n_components=0 is too small"),
        ({"n_components": 2.5}, {}, InputTypeError, "n_components=2.5 is a float"),
        ({"reg_covar": -1.0}, {}, InputError, "reg_covar=-1.0"),
    ],
)
def test_bad_input_is_refused(kwargs, fit, error, message):
    with pytest.raises(error, match=message):
        WeightedGaussianMixture(**kwargs).fit(X, **fit)


def test_points_on_a_line_ask_for_a_larger_reg_covar():
    with pytest.raises(InputError, match="raise reg_covar"):
        WeightedGaussianMixture(1, reg_covar=0).fit(np.c_[np.arange(9.0), np.zeros(9)])


@parametrize_with_checks([WeightedGaussianMixture(2, random_state=0)])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
