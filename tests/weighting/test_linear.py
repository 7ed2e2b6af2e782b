"""Linear models solved at once: when they are, and that a search then scores what it would have fitted."""

from functools import wraps

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine, make_moons
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import make_scorer, median_absolute_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler, scale

from steep import VarianceWeightedCV, WeightSearch
from steep.metrics import resolve_scorers
from steep.weighting import linear as module
from steep.weighting.fitting import task_of
from steep.weighting.linear import Linear
from steep.weighting.weights import TrainingSet

MOONS = make_moons(200, noise=0.2, random_state=0)
CANCER = load_breast_cancer(return_X_y=True)
WINE = load_wine(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)
SMALL = {"n_neighbors": (1, 5), "weight_ratio": (0.1, 1, 10), "cv": 3, "random_state": 0}


def linear_of(model, X, y, *, scoring=None, params=None):
    samples = TrainingSet.check(X, y, embedding=None, task=task_of(model))
    return Linear.of(model, samples, params or {}, resolve_scorers(model, scoring))


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        LogisticRegression(C=0.1, fit_intercept=False, warm_start=True),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(), PCA(3, random_state=0), LogisticRegression()),
    ],
    ids=str,
)
@pytest.mark.parametrize("data", [(scale(CANCER[0]), CANCER[1]), (scale(WINE[0]), WINE[1])])
def test_logistic_regression_is_solved(model, data):
    assert linear_of(model, *data) is not None


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(class_weight="balanced"),
        LogisticRegression(solver="newton-cholesky"),
        LogisticRegression(C=np.inf),
        LogisticRegression(max_iter=2),
        LogisticRegression(tol=0.5),
        type("Own", (LogisticRegression,), {})(),
        make_pipeline(StandardScaler(), LogisticRegression(), memory="/tmp/nowhere"),
    ],
    ids=str,
)
def test_other_settings_are_fitted(model):
    assert linear_of(model, scale(CANCER[0]), CANCER[1]) is None


def test_other_data_are_fitted():
    X, y = scale(CANCER[0]), CANCER[1]
    assert linear_of(LogisticRegression(), X.astype(np.float32), y) is None
    assert linear_of(Ridge(), DIABETES[0], np.column_stack([DIABETES[1]] * 2)) is None
    assert linear_of(Ridge(), DIABETES[0], DIABETES[1], params={"note": 1}) is None
    assert linear_of(Ridge(), DIABETES[0], DIABETES[1], scoring=lambda model, X, y: 0.0) is None
    assert linear_of(Ridge(alpha=0.0), *DIABETES) is None
    assert linear_of(Ridge(solver="sag"), *DIABETES) is None
    assert linear_of(Ridge(positive=True), *DIABETES) is None
    assert linear_of(Ridge(), *DIABETES) is not None
    assert linear_of(make_pipeline(PolynomialFeatures(3), Ridge()), *DIABETES) is not None


def scores(model, X, y, shortcuts, **options):
    search = VarianceWeightedCV(model, search=WeightSearch(n_repeats=1, shortcuts=shortcuts), **SMALL | options).fit(
        X, y
    )
    table = pd.DataFrame(search.cv_results_)
    return table[[c for c in table if c.startswith("split")]].to_numpy(), search


@pytest.mark.parametrize("model", [Ridge(), make_pipeline(StandardScaler(), Ridge(3.0))], ids=str)
@pytest.mark.parametrize(
    "scoring",
    [
        None,
        ["neg_mean_absolute_error", "worst_decile", "max_error", "neg_root_mean_squared_error"],
        ["neg_mean_squared_error", "explained_variance", "r2"],
        make_scorer(median_absolute_error, greater_is_better=False),
    ],
    ids=["own", "errors", "others", "made"],
)
def test_ridge_scores_are_those_of_fits(model, scoring):
    quick, _ = scores(model, *DIABETES, "exact", scoring=scoring)
    fitted, _ = scores(model, *DIABETES, "none", scoring=scoring)
    np.testing.assert_allclose(quick, fitted, rtol=1e-6)


@pytest.mark.parametrize("data", [MOONS, (scale(WINE[0]), WINE[1])], ids=["two", "three"])
@pytest.mark.parametrize("piped", [False, True])
def test_logistic_scores_are_those_of_converged_fits(data, piped):
    model = LogisticRegression(tol=1e-8, max_iter=5000)
    model = make_pipeline(StandardScaler(), model) if piped else model
    scoring = ["neg_log_loss", "accuracy", "balanced_accuracy"]
    quick, _ = scores(model, *data, "exact", scoring=scoring)
    fitted, _ = scores(model, *data, "none", scoring=scoring)
    np.testing.assert_allclose(quick, fitted, atol=2e-5)


def test_a_callers_weights_and_groups_are_kept():
    X, y = DIABETES
    own, groups = np.random.default_rng(0).random(len(y)), np.arange(len(y)) // 4
    found = [
        pd.DataFrame(
            VarianceWeightedCV(
                Ridge(), search=WeightSearch(n_repeats=1, shortcuts=s), scoring=["r2", "worst_decile"], **SMALL
            )
            .fit(X, y, sample_weight=own, groups=groups)
            .cv_results_
        )
        for s in ("exact", "none")
    ]
    for name in ("mean_test_r2", "mean_test_worst_decile"):
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-6)


def test_names_of_classes_controls_and_thresholds_are_kept():
    X, y = MOONS[0], np.array(["rain", "sun"])[MOONS[1]]
    kept = np.flatnonzero((y == "sun") | (np.arange(200) % 4 == 0))
    model = LogisticRegression(tol=1e-8)
    quick, search = scores(model, X[kept], y[kept], "exact", scoring="balanced_accuracy")
    fitted, _ = scores(model, X[kept], y[kept], "none", scoring="balanced_accuracy")
    assert {"tuned threshold", "balanced class weights"} <= set(search.cv_results_["control"])
    np.testing.assert_allclose(quick, fitted, atol=1e-9)
    assert set(search.predict(X)) <= {"rain", "sun"}


def test_a_class_missing_from_a_fold_is_fitted_instead():
    X, y = MOONS[0], MOONS[1].copy()
    y[:4] = 2
    folds = [(np.arange(4, 200), np.arange(50)), (np.arange(0, 150), np.arange(150, 200))]
    quick, fitted = (scores(LogisticRegression(), X, y, s, cv=folds)[0] for s in ("exact", "none"))
    np.testing.assert_allclose(quick, fitted, atol=0.021)


def test_frames_are_solved_too():
    frame = pd.DataFrame(DIABETES[0], columns=[f"x{i}" for i in range(10)])
    quick, _ = scores(make_pipeline(StandardScaler(), Ridge()), frame, DIABETES[1], "exact")
    plain, _ = scores(make_pipeline(StandardScaler(), Ridge()), *DIABETES, "none")
    np.testing.assert_allclose(quick, plain, rtol=1e-6)


def test_almost_no_fit_is_made_where_models_are_solved(monkeypatch):
    calls = []
    fit = Ridge.fit

    @wraps(fit)
    def counted(self, *args, **kwargs):
        calls.append(1)
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(Ridge, "fit", counted)
    counts = []
    for shortcuts in ("exact", "none"):
        calls.clear()
        VarianceWeightedCV(Ridge(), search=WeightSearch(shortcuts=shortcuts), random_state=0).fit(*DIABETES)
        counts.append(len(calls))
    assert counts[0] <= 7
    assert counts[1] >= 460


def problems_of_folds(model, X, y, n_problems, seed=0):
    linear, rng = linear_of(model, X, y), np.random.default_rng(seed)
    trains = [np.sort(rng.permutation(len(y))[: int(0.8 * len(y))]) for _ in range(4)]
    return linear, trains, [rng.random((n_problems, len(train))) + 0.1 for train in trains]


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (Ridge(), DIABETES),
        (Ridge(fit_intercept=False), DIABETES),
        (LogisticRegression(tol=1e-8, max_iter=5000), MOONS),
        (LogisticRegression(tol=1e-8, max_iter=5000), (scale(WINE[0]), WINE[1])),
    ],
    ids=["ridge", "no intercept", "two classes", "three classes"],
)
@pytest.mark.parametrize("together", [1, 2**11, 2**20])
def test_folds_that_are_solved_together_are_each_solved(model, data, together, monkeypatch):
    linear, trains, weights = problems_of_folds(model, *data, 3)
    alone = [
        linear.solve(linear.numbers[train], linear.target[train], w) for train, w in zip(trains, weights, strict=True)
    ]
    monkeypatch.setattr(module, "_RIDGE_TOGETHER", together)
    monkeypatch.setattr(module, "_LOGISTIC_TOGETHER", together)
    for found, expected in zip(linear.solve_each(trains, weights), alone, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def test_rows_that_are_drawn_twice_keep_both_weights():
    linear, trains, weights = problems_of_folds(Ridge(), *DIABETES, 2)
    trains[1] = np.random.default_rng(1).integers(len(DIABETES[1]), size=len(trains[1]))
    found = linear.solve_each(trains, weights)
    for train, w, theta in zip(trains, weights, found, strict=True):
        expected = Ridge().fit(DIABETES[0][train], DIABETES[1][train], sample_weight=w[0])
        np.testing.assert_allclose(theta[0, 0, :-1], expected.coef_, rtol=1e-6)


def test_a_fold_without_a_class_does_not_spoil_the_others():
    X, y = MOONS[0], MOONS[1].copy()
    linear, trains, weights = problems_of_folds(LogisticRegression(), X, y, 2)
    trains[2] = np.flatnonzero(y == 0)
    weights[2] = np.ones((2, len(trains[2])))
    assert [theta is None for theta in linear.solve_each(trains, weights)] == [False, False, True, False]


def test_equal_weights_are_not_fitted_twice(monkeypatch):
    fits = []
    fit = Ridge.fit

    @wraps(fit)
    def counted(self, *args, **kwargs):
        fits.append(1)
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(Ridge, "fit", counted)
    search = VarianceWeightedCV(Ridge(), weight_ratio=(1, 1e9), measure="variance", random_state=0)
    search.fit(*DIABETES)
    assert search.best_params_ == {"weight_ratio": 1.0}
    assert len(fits) == 1
    np.testing.assert_allclose(search.estimator_.coef_, Ridge().fit(*DIABETES).coef_)


@pytest.mark.parametrize("data", [DIABETES, MOONS], ids=["ridge", "logistic"])
def test_jobs_change_no_score(data):
    model = Ridge() if data is DIABETES else LogisticRegression()
    one, other = (scores(model, *data, "all", n_jobs=n_jobs)[0] for n_jobs in (None, 2))
    np.testing.assert_allclose(one, other, rtol=1e-6)
