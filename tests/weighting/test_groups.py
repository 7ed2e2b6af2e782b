"""Samples that belong together are never on both sides of a split, whoever splits."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from steep import VarianceWeighted, VarianceWeightedCV, WeightSearch
from steep.exceptions import InputError
from steep.labels import Labels, check_labels
from steep.weighting.fitting import cross_fitted, deal

RNG = np.random.default_rng(0)
GROUPS = np.array(["a", "b", "c", "d", "e", "f", "g", "h"])[RNG.integers(0, 8, 160)]
X = RNG.normal(size=(160, 2))
Y = (X[:, 0] + 0.5 * RNG.normal(size=160) > 0).astype(int)
SMALL = {"weight_ratio": (1, 5), "measure": "misfit", "random_state": 0}


class Remembering(LogisticRegression):
    """Knows which rows it was fitted to, and rejects to be asked about their groups; the group is column 2."""

    asked = 0

    def fit(self, X, y, sample_weight=None):
        self.seen_ = set(X[:, 2])
        return super().fit(X, y, sample_weight)

    def predict_proba(self, X):
        Remembering.asked += 1
        assert not self.seen_ & set(X[:, 2]), "a group is on both sides"
        return super().predict_proba(X)


CODES = np.unique(GROUPS, return_inverse=True)[1]
WITH_GROUP = np.column_stack([X, CODES])


@pytest.mark.parametrize("groups", [GROUPS, CODES, GROUPS.tolist()])
def test_a_model_is_never_asked_about_a_group_it_saw(groups):
    Remembering.asked = 0
    VarianceWeighted(Remembering(), measure="misfit", n_neighbors=1).fit(WITH_GROUP, Y, groups=groups)
    assert Remembering.asked == 5


@pytest.mark.parametrize("cv", [GroupKFold(3), 3])
def test_neither_folds_nor_the_cross_fitting_inside_split_a_group(cv):
    scoring = {"loss": "neg_log_loss"}
    search = VarianceWeightedCV(Remembering(), cv=cv, search=WeightSearch(n_repeats=1), scoring=scoring, **SMALL)
    search.fit(WITH_GROUP, Y, groups=GROUPS)
    assert search.n_splits_ == 3
    with pytest.raises(AssertionError, match="both sides"):
        VarianceWeightedCV(Remembering(), cv=3, search=WeightSearch(n_repeats=1), scoring=scoring, **SMALL).fit(
            WITH_GROUP, Y
        )


def test_groups_are_dealt_whole_and_evenly():
    labels = Labels(codes=Y.astype(np.int32), classes=np.array([0, 1]))
    part = deal(labels, 5, CODES)
    for group in range(8):
        assert len(set(part[group == CODES])) == 1
    assert len(set(part)) == 5
    assert deal(labels, 5, np.arange(160) // 80).max() == 1


def test_two_groups_are_enough_and_one_is_not():
    labels = check_labels(Y, n_samples=160)
    halves = np.arange(160) // 80
    predicted = cross_fitted(LogisticRegression(), X, Y, labels, groups=halves)
    model = LogisticRegression().fit(X[80:], Y[80:])
    np.testing.assert_allclose(predicted[:80], model.predict_proba(X[:80]))
    with pytest.raises(InputError, match="groups holds 1 group; expected at least 2"):
        cross_fitted(LogisticRegression(), X, Y, labels, groups=np.zeros(160, int))


def test_folds_by_groups_are_the_splitters():
    search = VarianceWeightedCV(LogisticRegression(), cv=GroupKFold(4), **SMALL).fit(X, Y, groups=GROUPS)
    train, test = next(GroupKFold(4).split(X, Y, GROUPS))
    plain = LogisticRegression().fit(X[train], Y[train], sample_weight=np.ones(len(train)))
    assert search.cv_results_["split0_test_score"][0] == pytest.approx(plain.score(X[test], Y[test]))


@pytest.mark.parametrize("routing", [False, True])
def test_groups_reach_a_search_inside_a_cross_validation(routing):
    search = VarianceWeightedCV(LogisticRegression(), cv=GroupKFold(3), **SMALL)
    with config_context(enable_metadata_routing=routing):
        outer = {} if routing else {"groups": GROUPS}
        scores = cross_validate(search, X, Y, cv=GroupKFold(4), params={"groups": GROUPS}, **outer)
    assert scores["test_score"].shape == (4,)


def test_routed_groups_reach_the_splitter_through_a_pipeline():
    search = VarianceWeightedCV(LogisticRegression(), cv=GroupKFold(3), **SMALL)
    with config_context(enable_metadata_routing=True):
        routed = make_pipeline(StandardScaler(), search).fit(X, Y, groups=GROUPS)
    direct = VarianceWeightedCV(LogisticRegression(), cv=GroupKFold(3), **SMALL)
    direct.fit(StandardScaler().fit_transform(X), Y, groups=GROUPS)
    np.testing.assert_allclose(routed[-1].cv_results_["mean_test_score"], direct.cv_results_["mean_test_score"])


@pytest.mark.parametrize("routing", [False, True])
def test_groups_are_handed_on_to_a_search_inside(routing):
    inner = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=GroupKFold(3))
    with config_context(enable_metadata_routing=routing):
        model = VarianceWeighted(inner, measure="misfit").fit(X, X[:, 0], groups=GROUPS)
        search = VarianceWeightedCV(inner, cv=2, search=WeightSearch(n_repeats=1), **SMALL).fit(
            X, X[:, 0], groups=GROUPS
        )
    assert model.predict(X).shape == search.predict(X).shape == (160,)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (None, "cannot split these data .*pass groups to fit"),
        (GROUPS[:5], r"groups has shape \(5,\) for 160 samples"),
        (np.where(CODES == 0, np.nan, 1.0), "groups contains NaN"),
        (np.zeros(160), "cannot split these data"),
        (np.column_stack([CODES, CODES]), "groups has several columns"),
    ],
)
def test_groups_that_do_not_fit_are_refused(groups, message):
    with pytest.raises(InputError, match=message):
        VarianceWeightedCV(LogisticRegression(), cv=GroupKFold(3), **SMALL).fit(X, Y, groups=groups)
