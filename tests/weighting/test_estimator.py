import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes, make_moons
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from steep import VarianceWeighted, neighbor_variance, rescale, sample_weights
from steep.exceptions import InputError, InputTypeError, UnsupportedEstimatorError

MOONS = make_moons(300, noise=0.2, random_state=0)
DIABETES = load_diabetes(return_X_y=True)


def test_sample_weights_are_rescaled_neighbour_variance():
    X, y = MOONS
    expected = rescale(neighbor_variance(X, y, n_neighbors=15), weight_ratio=7)
    np.testing.assert_array_equal(sample_weights(X, y, n_neighbors=15, weight_ratio=7, embedding=None), expected)


def test_samples_near_the_boundary_weigh_more():
    X, y = MOONS
    weights = sample_weights(X, y, weight_ratio=40)
    boundary = neighbor_variance(X, y, n_neighbors=5) > 0
    assert weights[boundary].mean() > 3 * weights[~boundary].mean()


def test_standard_embedding_ignores_the_units_of_the_columns():
    X, y = DIABETES
    scaled = X * np.logspace(-3, 3, X.shape[1]) + 5
    np.testing.assert_allclose(sample_weights(scaled, y), sample_weights(X, y), rtol=1e-6)
    assert not np.allclose(sample_weights(scaled, y, embedding=None), sample_weights(X, y, embedding=None))


def test_embedding_may_be_a_transformer_or_a_function():
    X, y = load_breast_cancer(return_X_y=True)
    projected = PCA(3, random_state=0).fit_transform(X)
    expected = sample_weights(projected, y, embedding=None)
    np.testing.assert_allclose(sample_weights(X, y, embedding=PCA(3, random_state=0)), expected)
    np.testing.assert_allclose(sample_weights(X, y, embedding=lambda X: projected), expected)
    with pytest.raises(InputTypeError, match="embedding=7 is unknown"):
        sample_weights(X, y, embedding=7)


@pytest.mark.parametrize("kind", [float, int, str])
def test_constant_labels_give_equal_weights(kind):
    assert (sample_weights(MOONS[0], np.zeros(300, kind)) == 1).all()


@pytest.mark.parametrize(("estimator", "data"), [(LogisticRegression(), MOONS), (Ridge(), DIABETES)])
def test_ratio_one_is_the_plain_estimator(estimator, data):
    weighted = VarianceWeighted(estimator, weight_ratio=1).fit(*data)
    np.testing.assert_array_equal(weighted.sample_weight_, 1)
    np.testing.assert_array_equal(
        weighted.estimator_.coef_, clone(estimator).fit(*data, sample_weight=np.ones(len(data[0]))).coef_
    )


@pytest.mark.parametrize("ratio", [0.1, 10])
def test_the_wrapped_estimator_is_trained_with_the_weights(ratio):
    X, y = DIABETES
    weighted = VarianceWeighted(Ridge(), weight_ratio=ratio).fit(X, y)
    weights = sample_weights(X, y, weight_ratio=ratio)
    np.testing.assert_array_equal(weighted.sample_weight_, weights)
    np.testing.assert_array_equal(weighted.predict(X), Ridge().fit(X, y, sample_weight=weights).predict(X))
    assert not np.allclose(weighted.estimator_.coef_, Ridge().fit(X, y).coef_)


def test_a_classifier_reads_float_classes_as_classes():
    X, y = load_breast_cancer(return_X_y=True)
    X = X / X.max(axis=0)
    floats, names = (VarianceWeighted(LogisticRegression()).fit(X, t) for t in (y * 2.0, np.array(["a", "b"])[y]))
    np.testing.assert_array_equal(floats.sample_weight_, names.sample_weight_)


def test_a_regressor_reads_whole_numbers_as_quantities():
    X, y = DIABETES
    rounded = y.astype(int)
    np.testing.assert_array_equal(
        VarianceWeighted(Ridge()).fit(X, rounded).sample_weight_, sample_weights(X, rounded, task="regression")
    )


def test_a_callers_own_weights_are_multiplied_in():
    X, y = MOONS
    own = np.random.default_rng(0).random(300) + 0.1
    weighted = VarianceWeighted(LogisticRegression()).fit(X, y, sample_weight=own)
    np.testing.assert_allclose(weighted.sample_weight_, own * sample_weights(X, y))


def test_weight_zero_removes_a_sample():
    X, y = MOONS
    keep = np.arange(300) >= 40
    removed = VarianceWeighted(LogisticRegression()).fit(X[keep], y[keep])
    zeroed = VarianceWeighted(LogisticRegression()).fit(X, y, sample_weight=keep.astype(float))
    np.testing.assert_allclose(zeroed.estimator_.coef_, removed.estimator_.coef_, rtol=1e-4)
    np.testing.assert_array_equal(zeroed.sample_weight_[keep], removed.sample_weight_)


def test_the_estimator_given_is_left_alone():
    inner = LogisticRegression()
    VarianceWeighted(inner).fit(*MOONS)
    assert not hasattr(inner, "coef_")


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(), Ridge()),
        GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}),
        make_pipeline(StandardScaler(), make_pipeline(PCA(), Ridge())),
        TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp),
        RandomForestRegressor(10, random_state=0),
    ],
    ids=["pipeline", "search", "nested", "target", "forest"],
)
def test_weights_reach_the_estimator_inside(estimator):
    X, y = DIABETES
    light, heavy = (VarianceWeighted(estimator, weight_ratio=m).fit(X, y).predict(X) for m in (1, 50))
    assert not np.allclose(light, heavy)


def test_a_pipeline_inside_equals_a_pipeline_outside():
    X, y = DIABETES
    inside = VarianceWeighted(make_pipeline(StandardScaler(), Ridge())).fit(X, y)
    outside = make_pipeline(StandardScaler(), VarianceWeighted(Ridge())).fit(X, y)
    np.testing.assert_allclose(inside.predict(X), outside.predict(X))


def test_it_can_be_searched_and_cross_validated():
    X, y = MOONS
    search = GridSearchCV(VarianceWeighted(LogisticRegression()), {"weight_ratio": [1, 20], "estimator__C": [0.1, 1]})
    assert set(search.fit(X, y).best_params_) == {"weight_ratio", "estimator__C"}
    assert cross_val_score(VarianceWeighted(Ridge()), *DIABETES).shape == (5,)


def test_frames_keep_their_names():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    weighted = VarianceWeighted(LinearRegression()).fit(X, y, sample_weight=(y > 50).astype(float))
    assert weighted.feature_names_in_.tolist() == X.columns.tolist()
    assert weighted.n_features_in_ == 10


def test_only_the_methods_of_the_wrapped_estimator_are_offered():
    assert hasattr(VarianceWeighted(LogisticRegression()), "predict_proba")
    assert not hasattr(VarianceWeighted(Ridge()), "predict_proba")
    model = VarianceWeighted(LogisticRegression()).fit(*MOONS)
    assert model.classes_.tolist() == [0, 1]
    np.testing.assert_allclose(np.log(model.predict_proba(MOONS[0])), model.predict_log_proba(MOONS[0]))
    assert model.decision_function(MOONS[0]).shape == (300,)


@pytest.mark.parametrize(
    "estimator",
    [KNeighborsClassifier(), make_pipeline(StandardScaler(), KNeighborsClassifier()), LogisticRegression, "ridge",
     GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1]})],
)  # fmt: skip
def test_an_estimator_without_sample_weight_is_refused_loudly(estimator):
    with pytest.raises(UnsupportedEstimatorError, match=r"takes no sample_weight|not an estimator instance"):
        VarianceWeighted(estimator).fit(*MOONS)


def test_too_few_samples_are_refused():
    with pytest.raises(InputError, match="n_neighbors=20 needs at least 20 samples, got 12"):
        VarianceWeighted(Ridge()).fit(DIABETES[0][:12], DIABETES[1][:12])


def test_metadata_routing_brings_weights_from_outside():
    X, y = MOONS
    own = np.linspace(0.1, 2, 300)
    with config_context(enable_metadata_routing=True):
        direct = VarianceWeighted(LogisticRegression()).fit(X, y, sample_weight=own)
        routed = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False), VarianceWeighted(LogisticRegression())
        ).fit(X, y, sample_weight=own)
        inner = VarianceWeighted(make_pipeline(StandardScaler(), LogisticRegression())).fit(X, y, sample_weight=own)
    np.testing.assert_allclose(routed[-1].sample_weight_, direct.sample_weight_)
    np.testing.assert_allclose(inner.sample_weight_, direct.sample_weight_)
    np.testing.assert_allclose(inner.predict_proba(X), routed.predict_proba(X), rtol=1e-6)


class Noting(LogisticRegression):
    """Keeps a fit argument of its own, to see whether it arrives."""

    def fit(self, X, y, sample_weight=None, note=None):
        self.note_ = note
        return super().fit(X, y, sample_weight=sample_weight)


def test_metadata_routing_takes_other_arguments_to_the_wrapped_estimator():
    with config_context(enable_metadata_routing=True):
        model = VarianceWeighted(Noting().set_fit_request(note=True)).fit(*MOONS, note="seen")
    assert model.estimator_.note_ == "seen"


REASON = "k counts rows: a repeated row is one more neighbour, a weight is not"
ROWS_ARE_NEIGHBOURS = {"check_sample_weight_equivalence_on_dense_data": REASON}


@parametrize_with_checks(
    [VarianceWeighted(LogisticRegression(), n_neighbors=5), VarianceWeighted(Ridge(), n_neighbors=5)],
    expected_failed_checks=lambda estimator: ROWS_ARE_NEIGHBOURS,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("estimator", "data"), [(LogisticRegression(), MOONS), (Ridge(), DIABETES)])
def test_a_measure_may_ask_the_estimator_itself(estimator, data):
    X, y = data
    model = VarianceWeighted(estimator, measure="misfit", n_neighbors=1, weight_ratio=0.1).fit(X, y)
    errors = np.abs(y - model.predict(X))
    wrong = errors >= np.quantile(errors, 0.9)
    assert model.sample_weight_[wrong].mean() < 0.7 * model.sample_weight_[~wrong].mean()
    assert model.sample_weight_.mean() == pytest.approx(1)


def test_light_weights_on_the_misfit_resist_outliers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    y = 2 * X[:, 0] + 0.1 * rng.normal(size=200)
    y[:20] += 30 * X[:20, 0]
    plain = Ridge().fit(X, y).coef_[0]
    robust = VarianceWeighted(Ridge(), measure="misfit", n_neighbors=1, weight_ratio=0.001).fit(X, y)
    assert abs(robust.estimator_.coef_[0] - 2) < 0.3 * abs(plain - 2)


def test_samples_of_weight_zero_are_not_asked_about():
    X, y = DIABETES
    own = (np.arange(len(y)) % 4 > 0).astype(float)
    weighted = VarianceWeighted(Ridge(), measure="misfit", n_neighbors=5).fit(X, y, sample_weight=own)
    removed = VarianceWeighted(Ridge(), measure="misfit", n_neighbors=5).fit(X[own > 0], y[own > 0])
    np.testing.assert_allclose(weighted.sample_weight_[own > 0], removed.sample_weight_)


def test_the_callers_weights_change_the_model_that_is_asked():
    X, y = DIABETES
    own = np.where(np.arange(len(y)) % 2, 1.0, 1e-6)
    asked = (VarianceWeighted(Ridge(), measure="misfit").fit(X, y, sample_weight=w) for w in (own, None))
    weighted, plain = (model.sample_weight_ for model in asked)
    assert not np.allclose(weighted / own, plain)
