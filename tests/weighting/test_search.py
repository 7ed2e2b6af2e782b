import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris, make_moons
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import make_scorer, max_error
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from steep import Rescaling, VarianceWeighted, VarianceWeightedCV, WeightSearch, sample_weights
from steep.evidence import NO_GAIN
from steep.exceptions import InputError, SteepError, UnsupportedEstimatorError
from steep.measures import MEASURES

MOONS = make_moons(200, noise=0.2, random_state=0)
DIABETES = load_diabetes(return_X_y=True)
ONCE = WeightSearch(n_repeats=1)
SMALL = {"measure": "variance", "n_neighbors": (5, 15), "weight_ratio": (0.2, 1, 5), "cv": 3, "random_state": 0}


def noisy_far_away(n=600, seed=0):
    """A clean boundary in the middle and noisy clusters far out, which pull an unweighted line away."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    X[: n // 2] *= 0.5
    far = np.arange(n) >= n // 2
    X[far, 0] += rng.choice([-5, 5], far.sum())
    y = np.where(far, (X[:, 0] > 0) | (rng.random(n) < 0.3), X[:, 1] > 0).astype(int)
    return X, y


def test_the_control_is_always_among_the_candidates():
    model = VarianceWeightedCV(LogisticRegression(), **SMALL | {"weight_ratio": (5,)}).fit(*MOONS)
    assert 1.0 in model.cv_results_["weight_ratio"]
    assert len(model.cv_results_["weight_ratio"]) == 1 + 2


def test_scores_are_those_of_weights_from_the_training_folds_alone():
    X, y = MOONS
    folds = list(KFold(3, shuffle=True, random_state=1).split(X))
    search = WeightSearch(rescaling=Rescaling())
    model = VarianceWeightedCV(LogisticRegression(), **SMALL | {"cv": folds, "search": search}).fit(X, y)
    results = pd.DataFrame(model.cv_results_)
    for _, row in results.iterrows():
        for j, (train, test) in enumerate(folds):
            weights = np.ones(len(train))
            if row["weight_ratio"] != 1:
                weights = sample_weights(
                    X[train], y[train], n_neighbors=row["n_neighbors"], weight_ratio=row["weight_ratio"]
                )
            plain = LogisticRegression().fit(X[train], y[train], sample_weight=weights)
            assert row[f"split{j}_test_score"] == pytest.approx(plain.score(X[test], y[test]))


@pytest.mark.parametrize("measure", ["misfit", "border"])
def test_a_model_is_asked_about_the_training_folds_alone(measure):
    X, y = MOONS
    folds = list(KFold(3, shuffle=True, random_state=1).split(X))
    grid = SMALL | {"measure": measure, "n_neighbors": (1, 5), "cv": folds}
    results = pd.DataFrame(VarianceWeightedCV(LogisticRegression(), **grid).fit(X, y).cv_results_)
    assert set(results["n_neighbors"].dropna()) == {1, 5}
    for _, row in results[results["weight_ratio"] != 1].iterrows():
        for j, (train, test) in enumerate(folds):
            params = {name: row[name] for name in ("measure", "n_neighbors", "weight_ratio")}
            alone = VarianceWeighted(LogisticRegression(), rescaling=Rescaling(clip=0.98), **params).fit(
                X[train], y[train]
            )
            assert row[f"split{j}_test_score"] == pytest.approx(alone.score(X[test], y[test]))


def measures_tried(estimator, y, **kwargs):
    folds = KFold(2, shuffle=True, random_state=0)
    model = VarianceWeightedCV(estimator, weight_ratio=(1, 3), cv=folds, **kwargs).fit(MOONS[0], y)
    return {(m, k) for m, k in zip(*(model.cv_results_[c] for c in ("measure", "n_neighbors")), strict=True) if m}


def test_the_default_measures_are_what_an_estimator_can_be_asked():
    y = MOONS[1]
    both, misfit = ({("misfit", 1), ("misfit", 5), ("border", 1), ("border", 5)}, {("misfit", 1), ("misfit", 5)})
    assert measures_tried(LogisticRegression(), y) == both
    assert measures_tried(make_pipeline(StandardScaler(), LogisticRegression()), y) == both
    numbers = misfit | {("misfit", 20), ("variance", 5), ("variance", 20)}
    assert measures_tried(LinearSVC(), y) == misfit
    assert measures_tried(Ridge(), y.astype(float)) == numbers
    several = np.column_stack([y, 1 - y])
    assert measures_tried(DecisionTreeClassifier(max_depth=3, random_state=0), several) == misfit
    assert measures_tried(Ridge(), several.astype(float)) == numbers


def test_measures_that_compare_labels_leave_out_neighbourhoods_too_small_for_them():
    tried = measures_tried(Ridge(), MOONS[1].astype(float), measure=("variance", "misfit"), n_neighbors=(1, 4))
    assert tried == {("variance", 4), ("misfit", 1), ("misfit", 4)}


def test_ratio_one_alone_keeps_equal_weights():
    model = VarianceWeightedCV(Ridge(), **SMALL | {"weight_ratio": (1,)}).fit(*DIABETES)
    assert model.best_params_ == {"weight_ratio": 1.0}
    assert (model.sample_weight_ == 1).all()
    assert model.gain_ == 0
    assert str(model.verdict_) == "Equal weights are kept: no other weight_ratio was tried."
    np.testing.assert_array_equal(model.predict(DIABETES[0]), Ridge().fit(*DIABETES, np.ones(442)).predict(DIABETES[0]))


def test_useless_weights_are_refused():
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = X @ [1.0, 2.0] + np.random.default_rng(1).normal(size=200)
    model = VarianceWeightedCV(
        Ridge(), scoring="neg_mean_squared_error", search=WeightSearch(confidence=0.98), random_state=0
    ).fit(X, y)
    assert model.best_params_["weight_ratio"] == 1
    assert str(model.verdict_).startswith("Equal weights are kept: none of 40 weightings beat them. The closest, ")
    assert str(model.verdict_).endswith("which includes 0) over 10 paired fits.")
    assert model.verdict_.interval == (model.gain_interval_) == NO_GAIN


def test_weights_that_help_are_chosen_and_help_on_fresh_data():
    X, y = noisy_far_away()
    fresh = noisy_far_away(5000, seed=1)
    model = VarianceWeightedCV(LogisticRegression(), scoring="accuracy", random_state=0).fit(X, y)
    assert model.best_params_["weight_ratio"] != 1
    assert model.gain_ > 0
    assert model.gain_interval_.low < model.gain_ < model.gain_interval_.high
    assert re.fullmatch(
        r"Weighting by (misfit|border) \(ratio \S+, (the sample alone|5 neighbours)\) raises accuracy by "
        r"\S+ points \(95 % interval \S+ to \S+\) over 10 paired fits\.",
        str(model.verdict_),
    )
    assert model.verdict_.interval == model.gain_interval_
    assert len(model.verdict_.table) == len(model.cv_results_["measure"])
    assert model.score(*fresh) > LogisticRegression().fit(X, y).score(*fresh)
    alone = VarianceWeighted(LogisticRegression(), rescaling=Rescaling(clip=0.98), **model.best_params_).fit(X, y)
    np.testing.assert_allclose(model.sample_weight_, alone.sample_weight_)


def test_several_scores_are_kept_and_the_first_decides():
    scoring = ["worst_decile", "max_error", "neg_mean_absolute_error"]
    model = VarianceWeightedCV(Ridge(), scoring=scoring, **SMALL).fit(*DIABETES)
    assert [f"mean_test_{name}" in model.cv_results_ for name in scoring] == [True] * 3
    assert "the error of the worst tenth" in str(model.verdict_)
    own = VarianceWeightedCV(Ridge(), scoring=make_scorer(max_error, greater_is_better=False), **SMALL).fit(*DIABETES)
    named = VarianceWeightedCV(Ridge(), scoring={"largest": "max_error"}, **SMALL).fit(*DIABETES)
    np.testing.assert_allclose(own.cv_results_["mean_test_score"], named.cv_results_["mean_test_largest"])


@pytest.mark.parametrize(
    ("scoring", "words"),
    [("max_error", "lowers the largest error by"), ("neg_mean_absolute_error", "raises the mean absolute error by")],
)
def test_the_verb_follows_the_sign_of_the_gain(scoring, words):
    """A line through a step: heavy weights on the misfit lower the largest error and raise the mean one."""
    X = np.linspace(-1, 1, 300)[:, None]
    y = np.where(np.abs(X[:, 0]) < 0.1, 5.0, 0.0) + 0.01 * np.random.default_rng(0).normal(size=300)
    grid = {"measure": "misfit", "n_neighbors": (1,), "weight_ratio": (9.0,), "random_state": 0}
    grid |= {"search": WeightSearch(controls=(), shortcuts="exact")}
    model = VarianceWeightedCV(Ridge(), scoring=scoring, **grid).fit(X, y)
    row = pd.DataFrame(model.cv_results_).iloc[1]
    assert (row[f"mean_gain_{scoring}"] > 0) == (scoring == "max_error")
    assert words in str(model.verdict_)


@pytest.mark.slow
def test_results_follow_the_seed_whatever_the_number_of_jobs():
    fits = [VarianceWeightedCV(LogisticRegression(), n_jobs=n, **SMALL).fit(*MOONS) for n in (1, 2)]
    assert str(fits[0].verdict_) == str(fits[1].verdict_)
    np.testing.assert_array_equal(fits[0].cv_results_["mean_test_score"], fits[1].cv_results_["mean_test_score"])


def test_three_folds_of_equal_gains_give_an_interval_of_their_size():
    X, y = load_iris(return_X_y=True)
    for seed in range(3):
        search = {"weight_ratio": (1, 3, 10), "cv": 3, "search": ONCE, "random_state": seed}
        model = VarianceWeightedCV(LogisticRegression(max_iter=500), **search).fit(X, y)
        words = re.search(r"95 % interval (\S+) to ([^,;)]+)", str(model.verdict_))
        low, high = map(float, words.groups())
        assert -100 <= low <= high <= 100


class Counter:
    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)


@pytest.mark.parametrize("chosen", [True, False])
def test_nothing_about_the_data_is_derived_twice(monkeypatch, chosen):
    """Labels are read once, near rows are listed once, and points made only for measures that look at them."""
    from steep.measures import neighborhood
    from steep.neighbors import folds
    from steep.weighting import embedding, weights

    labels = Counter(weights.check_labels)
    settled = Counter(embedding.Space.settle)
    made = Counter(embedding.Space.points)
    shared, searched = Counter(folds.neighbor_graph), Counter(neighborhood.search_graph)
    monkeypatch.setattr(weights, "check_labels", labels)
    monkeypatch.setattr(embedding.Space, "settle", settled)
    monkeypatch.setattr(embedding.Space, "points", lambda self: made(self))
    monkeypatch.setattr(folds, "neighbor_graph", shared)
    monkeypatch.setattr(neighborhood, "search_graph", searched)
    X, y = noisy_far_away(300)
    options = SMALL | {"measure": ("variance", "misfit"), "search": WeightSearch(confidence=0.5 if chosen else 0.9999)}
    model = VarianceWeightedCV(LogisticRegression(), scoring="accuracy", **options).fit(X, y)
    assert (model.best_params_["weight_ratio"] != 1) == chosen
    assert (labels.calls, settled.calls, shared.calls, searched.calls) == (1, 1, 1, 0)
    assert made.calls == 0
    options = SMALL | {"measure": "density", "search": WeightSearch(shortcuts="exact")}
    model = VarianceWeightedCV(LogisticRegression(), scoring="accuracy", **options).fit(X, y)
    weighted = model.best_params_["weight_ratio"] != 1
    assert made.calls == model.n_splits_ + weighted  # all rows are points only if their weights are wanted


def test_it_works_in_pipelines_searches_and_cross_validation():
    X, y = MOONS
    pipeline = make_pipeline(StandardScaler(), VarianceWeightedCV(LogisticRegression(), **SMALL))
    assert cross_val_score(pipeline, X, y, cv=3).shape == (3,)
    search = GridSearchCV(VarianceWeightedCV(LogisticRegression(), **SMALL), {"estimator__C": [0.1, 1]}, cv=2)
    assert set(search.fit(X, y).best_params_) == {"estimator__C"}
    inside = VarianceWeightedCV(make_pipeline(StandardScaler(), LogisticRegression()), **SMALL).fit(X, y)
    assert inside.predict_proba(X).shape == (200, 2)


def test_a_callers_weights_are_multiplied_in_and_used_for_scoring():
    X, y = MOONS
    own = np.where(X[:, 0] > 0, 1.0, 1e-9)
    weighted = VarianceWeightedCV(LogisticRegression(), **SMALL).fit(X, y, sample_weight=own)
    plain = VarianceWeightedCV(LogisticRegression(), **SMALL).fit(X, y)
    assert weighted.sample_weight_[X[:, 0] <= 0].max() < 1e-6
    assert not np.allclose(weighted.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"measure": "steepest"}, "measure='steepest' is unknown"),
        ({"weight_ratio": (0, 1)}, "weight_ratio=0 is out of range"),
        ({"n_neighbors": (1,)}, "n_neighbors=1 is too small"),
        ({"n_neighbors": (500,)}, "n_neighbors=500 needs at least 500 samples, got 133"),
        ({"scoring": "goodness"}, "scoring='goodness' is unknown"),
        ({"search": "all"}, "search='all' is a str; expected a steep.WeightSearch"),
        ({"cv": [(np.arange(100), np.arange(100, 200))]}, "cv gives 1 fold; expected at least 2"),
        ({"cv": 1}, "cv=1 is too small"),
    ],
)
def test_bad_input_is_refused(kwargs, message):
    with pytest.raises(SteepError, match=message):
        VarianceWeightedCV(LogisticRegression(), **SMALL | kwargs).fit(*MOONS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 1.0}, r"confidence=1\.0 is out of range"),
        ({"confidence": "high"}, "confidence='high' is a str"),
        ({"n_repeats": 0}, "n_repeats=0 is too small"),
        ({"shortcuts": "some"}, "shortcuts='some' is unknown"),
        ({"rescaling": "max"}, "rescaling='max' is a str; expected a steep.Rescaling"),
    ],
)
def test_bad_settings_of_a_search_are_rejected_at_once(options, message):
    with pytest.raises(SteepError, match=message):
        WeightSearch(**options)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"scoring": 7}, "scoring=7 is unknown"),
        ({"scoring": []}, r"scoring=\[\] is empty"),
        ({"scoring": [7]}, "scoring=7 is unknown"),
        ({"measure": 7}, "measure=7 is a int"),
        ({"measure": []}, "measure is empty"),
        ({"measure": ("variance", "taylor")}, "measure='taylor' evaluates the function itself"),
        ({"n_jobs": "all"}, "n_jobs='all' is a str; expected None or a whole number"),
        ({"n_jobs": 0}, "n_jobs=0 is invalid; use None"),
        ({"n_neighbors": ()}, "n_neighbors is empty"),
        ({"weight_ratio": ()}, "weight_ratio is empty"),
        ({"weight_ratio": (1, 10**400)}, "weight_ratio=1000.* is out of range"),
        ({"weight_ratio": [[1], [2, 3]]}, r"weight_ratio=\[1\] is a list"),
        ({"cv": "five"}, "cv='five' is not a splitter"),
        ({"cv": 150}, "cv=150 cannot split these data"),
        ({"cv": [([0, 1], [999]), ([2, 3], [4])]}, "cv gives rows that do not fit 200 samples"),
        ({"cv": [([0, 1], []), ([2, 3], [4])]}, "cv gives 2 training and 0 test rows"),
        ({"scoring": lambda model, X, y: np.nan}, "is nan on a fold"),
    ],
)
def test_odd_parameters_are_refused_in_one_line(kwargs, message):
    with pytest.raises(SteepError, match=message) as caught:
        VarianceWeightedCV(LogisticRegression(), **SMALL | kwargs).fit(*MOONS)
    assert "\n" not in str(caught.value)


def test_one_class_is_refused_by_name():
    with pytest.raises(InputError, match="y holds one class; expected at least 2 classes"):
        VarianceWeightedCV(LogisticRegression(), **SMALL).fit(MOONS[0], np.zeros(200, int))


def test_measures_may_be_names_callables_and_measures():
    def outward(X, y):
        return np.abs(X[:, 0])

    measures = ["surprise", "density", outward, MEASURES["border"]]
    model = VarianceWeightedCV(LogisticRegression(), **SMALL | {"measure": measures, "n_neighbors": (5,)})
    tried = set(model.fit(*MOONS).cv_results_["measure"]) - {None}
    assert tried == {"surprise", "density", "outward", "border"}


def test_a_score_that_takes_no_weights_says_so():
    search = VarianceWeightedCV(Ridge(), scoring=make_scorer(lambda a, b: 1.0), **SMALL)
    with pytest.raises(InputError, match="takes no sample_weight"):
        search.fit(*DIABETES, sample_weight=np.ones(442))
    for name in ("worst_decile", "max_error"):
        VarianceWeightedCV(Ridge(), scoring=name, **SMALL).fit(*DIABETES, sample_weight=np.ones(442))


def test_arguments_of_fit_with_one_entry_a_sample_are_cut_to_the_fold():
    class Checking(LogisticRegression):
        def fit(self, X, y, sample_weight=None, note=None):
            assert len(note) == len(y)
            return super().fit(X, y, sample_weight)

    note = np.arange(200)
    VarianceWeightedCV(Checking(), **SMALL | {"measure": "misfit"}).fit(*MOONS, note=note)


def test_an_estimator_without_sample_weight_is_refused():
    with pytest.raises(UnsupportedEstimatorError, match="takes no sample_weight"):
        VarianceWeightedCV(KNeighborsClassifier()).fit(*MOONS)


def test_one_sample_is_refused():
    with pytest.raises(InputError, match="X has 1 sample"):
        VarianceWeightedCV(Ridge()).fit([[0.0]], [1.0])


REASON = "k counts rows: a repeated row is one more neighbour, a weight is not"


@parametrize_with_checks(
    [
        VarianceWeightedCV(
            inner,
            n_neighbors=(3,),
            weight_ratio=(1, 3),
            cv=2,
            search=WeightSearch(n_repeats=1, confidence=0.5),
            random_state=0,
        )
        for inner in (LogisticRegression(), Ridge())
    ],
    expected_failed_checks=lambda model: {"check_sample_weight_equivalence_on_dense_data": REASON},
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_a_verdict_says_that_folds_are_too_few():
    few = {"weight_ratio": (1, 5), "n_neighbors": (5,), "cv": 4, "search": ONCE, "random_state": 0}
    model = VarianceWeightedCV(LogisticRegression(), **few).fit(*MOONS)
    assert "4 folds are too few for confidence=0.95; raise cv or n_repeats." in str(model.verdict_)
    model = VarianceWeightedCV(LogisticRegression(), **few | {"cv": 5}).fit(*MOONS)
    assert "too few" not in str(model.verdict_)


@pytest.mark.parametrize("value", [1e18, 9.97e36])
@pytest.mark.parametrize("model", [Ridge(), LogisticRegression(max_iter=50)], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_one_huge_cell_does_not_end_a_search(value, model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=120)
    X[3, 1] = value
    y = y > 0 if isinstance(model, LogisticRegression) else y
    search = VarianceWeightedCV(model, weight_ratio=(1, 3), n_neighbors=(5,), random_state=0).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_fold_weights_next_to_a_huge_cell_are_those_of_the_fold_alone():
    rng = np.random.default_rng(0)
    X, seen = rng.normal(size=(120, 2)), {}
    y = X[:, 0] ** 2 + 0.1 * rng.normal(size=120)
    X[3, 1] = 1e20

    class Remembers(Ridge):
        def fit(self, X, y, sample_weight=None):
            seen[len(seen)] = X, y, np.array(sample_weight)
            return super().fit(np.clip(X, -9, 9), y, sample_weight)

    options = {
        "measure": "variance",
        "n_neighbors": (5,),
        "weight_ratio": (3,),
        "search": WeightSearch(shortcuts="none", rescaling=Rescaling()),
    }
    VarianceWeightedCV(Remembers(), random_state=0, **options).fit(X, y)
    folds = [(A, b, w) for A, b, w in seen.values() if np.ptp(w) > 0 and A.max() < 9]
    assert folds
    for A, b, w in folds:
        np.testing.assert_allclose(w, sample_weights(A, b, n_neighbors=5, weight_ratio=3))
