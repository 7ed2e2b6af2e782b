"""What weightings must beat: equal weights, balanced classes, a tuned threshold, a robust loss."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import balanced_accuracy_score, f1_score, get_scorer
from sklearn.model_selection import FixedThresholdClassifier, StratifiedKFold, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.class_weight import compute_sample_weight

from steep import VarianceWeightedCV, WeightSearch
from steep.exceptions import InputError
from steep.labels import check_labels
from steep.weighting.candidates import balancing, robust_twin

# One in ten is of the rare class, and a classifier that minimises errors hardly ever names it.
Y = (np.arange(400) % 10 == 0).astype(int)
X = np.random.default_rng(0).normal(size=(400, 2)) + 1.2 * Y[:, None]
FOLDS = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, Y))
GRID = {"weight_ratio": (1, 3), "n_neighbors": (1,), "cv": FOLDS, "random_state": 0}


def fitted(scoring="balanced_accuracy", estimator=None, y=Y, controls="auto", **kwargs):
    search = WeightSearch(controls=controls, confidence=0.84)
    return VarianceWeightedCV(estimator or LogisticRegression(), scoring=scoring, search=search, **GRID | kwargs).fit(
        X, y
    )


def controls_of(model):
    return [name for name in model.cv_results_["control"] if name is not None]


ALL = ["equal weights", "tuned threshold", "balanced class weights"]


@pytest.mark.parametrize(
    ("scoring", "expected"),
    [
        ("balanced_accuracy", ALL),
        ("f1", ALL),
        ("jaccard", ALL),
        ("average_precision", [ALL[0], ALL[2]]),
        ("accuracy", ALL[:1]),
        ("neg_log_loss", ALL[:1]),
        (None, ALL[:1]),
    ],
)
def test_the_controls_are_those_that_the_score_can_gain_from(scoring, expected):
    assert controls_of(fitted(scoring)) == expected


def test_the_controls_are_those_that_the_estimator_and_the_classes_allow():
    three = np.where(Y == 1, 1, np.where(X[:, 0] > 0, 0, 2))
    assert controls_of(fitted("f1_macro", y=three)) == [ALL[0], ALL[2]]
    assert controls_of(fitted(estimator=LinearSVC())) == [ALL[0], ALL[2]]
    assert controls_of(fitted(estimator=LogisticRegression(class_weight="balanced"))) == ALL[:2]
    assert controls_of(fitted(controls=())) == ALL[:1]
    assert controls_of(fitted("accuracy", controls=["threshold"])) == ALL[:2]
    assert controls_of(fitted("accuracy", controls="balanced")) == [ALL[0], ALL[2]]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"controls": "even"}, "controls='even' is unknown; expected one of 'balanced', 'threshold'"),
        ({"controls": 7}, "controls=7 is unknown"),
        ({"controls": ["threshold"], "estimator": LinearSVC()}, "does not apply to LinearSVC"),
    ],
)
def test_controls_that_do_not_apply_are_refused(kwargs, message):
    with pytest.raises(InputError, match=message):
        fitted(**kwargs)


def test_balanced_weights_are_scikit_learns_and_count_own_weights():
    labels = check_labels(Y, n_samples=len(Y))
    np.testing.assert_allclose(balancing(labels, np.ones(len(Y))), compute_sample_weight("balanced", Y))
    own = np.random.default_rng(0).random(len(Y))
    weights = own * balancing(labels, own)
    assert weights[Y == 0].sum() == pytest.approx(weights[Y == 1].sum())
    assert weights.sum() == pytest.approx(own.sum())


def test_controls_score_as_they_would_alone():
    table = pd.DataFrame(fitted().cv_results_).set_index("control")
    for j, (train, test) in enumerate(FOLDS):
        plain = LogisticRegression().fit(X[train], Y[train])
        even = LogisticRegression(class_weight="balanced").fit(X[train], Y[train])
        for name, model in ((ALL[0], plain), (ALL[2], even)):
            expected = balanced_accuracy_score(Y[test], model.predict(X[test]))
            assert table.loc[name, f"split{j}_test_balanced_accuracy"] == pytest.approx(expected, abs=0.01)


@pytest.mark.slow
def test_a_tuned_threshold_scores_like_scikit_learns():
    ours = pd.DataFrame(fitted().cv_results_).set_index("control").loc[ALL[1], "mean_test_balanced_accuracy"]
    theirs = []
    for train, test in FOLDS:
        tuned = TunedThresholdClassifierCV(LogisticRegression(), scoring="balanced_accuracy", cv=5)
        theirs.append(balanced_accuracy_score(Y[test], tuned.fit(X[train], Y[train]).predict(X[test])))
    assert ours == pytest.approx(np.mean(theirs), abs=0.03)


@pytest.mark.parametrize(("only", "chosen"), [("threshold", ALL[1]), ("balanced", ALL[2])])
@pytest.mark.parametrize("names", [np.array([0, 1]), np.array(["no", "yes"]), np.array([0.0, 1.0])])
def test_what_was_chosen_is_what_predict_does(only, chosen, names):
    model = fitted(controls=only, weight_ratio=(1,), y=names[Y])
    assert model.best_params_["control"] == chosen
    if only == "threshold":
        threshold = model.best_params_["threshold"]
        assert isinstance(model.estimator_, FixedThresholdClassifier)
        assert threshold < 0.4
        plain = LogisticRegression().fit(X, Y, sample_weight=np.ones(len(Y)))
        np.testing.assert_array_equal(model.predict(X), names[(plain.predict_proba(X)[:, 1] >= threshold).astype(int)])
        np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X))
        assert (model.sample_weight_ == 1).all()
    else:
        np.testing.assert_allclose(model.sample_weight_, compute_sample_weight("balanced", Y))
    np.testing.assert_array_equal(model.classes_, names)
    assert model.n_features_in_ == 2
    assert model.gain_ == model.gain_interval_.mean > 0.05


def test_the_verdict_says_what_each_control_reaches():
    model = fitted(weight_ratio=(1, 1.01))
    table = pd.DataFrame(model.cv_results_).set_index("control")["mean_test_balanced_accuracy"]
    reached = ", ".join(f"{100 * table[name]:.3g} points with {name}" for name in ALL)
    assert str(model.verdict_).endswith(f"For comparison, balanced accuracy is {reached}.")
    assert re.match(
        r"(Balancing the classes|Tuning the decision threshold) raises balanced accuracy by \S+ points \(95 % "
        r"interval [^)]*\) over 4 paired fits; none of 2 weightings beat that\.",
        str(model.verdict_),
    )


def test_a_control_that_gains_nothing_leaves_equal_weights():
    even = np.arange(400) % 2
    points = X + 3 * even[:, None]
    model = VarianceWeightedCV(
        LogisticRegression(), scoring="balanced_accuracy", search=WeightSearch(controls="balanced"), **GRID
    ).fit(points, even)
    assert "control" not in model.best_params_


@pytest.mark.slow
def test_thresholds_work_with_pipelines_and_own_weights():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    search = VarianceWeightedCV(
        pipeline,
        scoring="f1",
        search=WeightSearch(controls="threshold", confidence=0.84),
        **GRID | {"weight_ratio": (1,)},
    )
    own = np.random.default_rng(0).random(400) + 0.5
    model = search.fit(X, Y, sample_weight=own)
    assert controls_of(model) == ALL[:2]
    assert model.best_params_["control"] == "tuned threshold"
    plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    assert f1_score(Y, model.predict(X)) > f1_score(Y, plain.predict(X))


def test_regressors_have_equal_weights_alone():
    model = VarianceWeightedCV(Ridge(), **GRID | {"cv": 3, "n_neighbors": (1, 5)}).fit(X, X[:, 0])
    assert controls_of(model) == ALL[:1]
    with pytest.raises(InputError, match="does not apply to Ridge and 0 classes"):
        VarianceWeightedCV(
            Ridge(), search=WeightSearch(controls="balanced"), **GRID | {"cv": 3, "n_neighbors": (1, 5)}
        ).fit(X, X[:, 0])


def test_a_scorer_of_the_callers_own_can_be_tuned_for():
    model = fitted(scoring=get_scorer("f1"), controls="threshold", weight_ratio=(1,))
    assert model.best_params_["control"] == "tuned threshold"


def gross_errors(n=300):
    """A line with noise, and a tenth of the targets far off to one side."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(n, 3))
    return points, points @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=n) + 30 * (rng.random(n) < 0.1)


@pytest.mark.parametrize("model", [Ridge(), LinearRegression(), make_pipeline(StandardScaler(), Ridge())], ids=str)
def test_a_robust_loss_is_tried_for_absolute_errors_and_named_when_it_wins(model):
    data = gross_errors()
    grid = {"weight_ratio": (1, 3), "n_neighbors": (5,), "random_state": 0}
    search = VarianceWeightedCV(model, scoring="neg_mean_absolute_error", **grid).fit(*data)
    assert controls_of(search) == ["equal weights", "robust loss"]
    assert search.best_params_ == {"weight_ratio": 1.0, "control": "robust loss"}
    assert str(search.verdict_).startswith("A robust loss lowers the mean absolute error by")
    plain = np.abs(clone(model).fit(*data).predict(data[0]) - data[1]).mean()
    assert np.abs(search.predict(data[0]) - data[1]).mean() < 0.8 * plain


def test_a_robust_loss_is_left_out_where_it_does_not_apply():
    data = gross_errors(60)
    grid = {"weight_ratio": (1, 3), "n_neighbors": (5,), "cv": 2, "random_state": 0}
    for scoring in ("r2", "max_error"):
        assert controls_of(VarianceWeightedCV(Ridge(), scoring=scoring, **grid).fit(*data)) == [ALL[0]]
    trees = VarianceWeightedCV(DecisionTreeRegressor(), scoring="neg_mean_absolute_error", **grid)
    assert controls_of(trees.fit(*data)) == [ALL[0]]
    with pytest.raises(InputError, match=r"controls='robust' does not apply to DecisionTreeRegressor"):
        VarianceWeightedCV(DecisionTreeRegressor(), search=WeightSearch(controls="robust"), **grid).fit(*data)


@pytest.mark.parametrize("boosting", [HistGradientBoostingRegressor, GradientBoostingRegressor])
def test_boosting_becomes_robust_by_its_loss(boosting):
    assert robust_twin(boosting()).loss == "absolute_error"
    assert robust_twin(boosting(loss="quantile", **({"quantile": 0.5} if "Hist" in boosting.__name__ else {}))) is None


class Talkative(LinearRegression):
    """Warns in every fit."""

    def fit(self, X, y, sample_weight=None):
        warnings.warn(f"slow: {sample_weight[:1]}", ConvergenceWarning, stacklevel=2)
        return super().fit(X, y, sample_weight)


def test_the_same_warning_is_given_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        VarianceWeightedCV(Talkative(), weight_ratio=(1, 3), n_neighbors=(5,), random_state=0).fit(*gross_errors(100))
    found = [str(w.message) for w in caught if w.category is ConvergenceWarning]
    assert len(found) == 1
    assert "more like it" in found[0]
