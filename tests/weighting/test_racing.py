"""Racing drops candidates and keeps the correction for all of them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from steep import VarianceWeightedCV
from steep.evidence import weigh_evidence
from steep.exceptions import InputError
from steep.measures import MEASURES
from steep.weighting.candidates import Candidate
from steep.weighting.controls import EQUAL
from steep.weighting.racing import fill_in, folds_before_racing, is_settled, still_running

N_FOLDS, N_REPEATS = 10, 400
WEIGHTINGS = [Candidate(MEASURES["variance"], 5, 2.0 + i) for i in range(24)]
CANDIDATES = [Candidate(control=EQUAL), *WEIGHTINGS]


def ratio_grid_noise(rng):
    """Scores without a difference, correlated as those of ratios to either side of 1 are."""
    slope, bend, own = (rng.standard_t(4, size=(n, N_FOLDS)) for n in (1, 1, 24))
    place = np.linspace(-1, 1, 24)[:, None]
    return np.vstack([np.zeros((1, N_FOLDS)), place * slope + place**2 * bend + 0.3 * own])


def raced(scores, confidence, rng, *, only_survivors=False):
    """Chosen row of the scores, or None for equal weights, as a search with racing chooses."""
    first = folds_before_racing(N_FOLDS)
    running = still_running(CANDIDATES, scores[:, :first])
    if is_settled(CANDIDATES, running):
        return None
    seen = fill_in(scores[:, :first, None], running, scores[running, first:, None])[:, :, 0]
    differences = (seen - seen[0])[1:]
    if only_survivors:
        differences = differences[~np.isnan(differences).any(axis=1)]
    return weigh_evidence(differences, 0.25, confidence, rng).chosen


def false_choices(choose, seed=0):
    rng = np.random.default_rng(seed)
    return np.mean([choose(ratio_grid_noise(rng), rng) is not None for _ in range(N_REPEATS)])


@pytest.mark.parametrize("confidence", [0.5, 0.84])
def test_without_a_difference_equal_weights_are_given_up_no_more_often_than_promised(confidence):
    rate = false_choices(lambda scores, rng: raced(scores, confidence, rng))
    nominal = 1 - confidence
    assert rate <= nominal + 2 * np.sqrt(nominal * confidence / N_REPEATS)
    # Nor is it so strict that nothing would ever be chosen.
    assert rate > nominal / 3


def test_a_bound_of_the_survivors_alone_would_break_the_promise():
    """The check above can fail: this is the rule it would catch."""
    rate = false_choices(lambda scores, rng: raced(scores, 0.84, rng, only_survivors=True))
    assert rate > 0.16 + 2 * np.sqrt(0.16 * 0.84 / N_REPEATS)


def test_what_racing_chooses_beats_the_bound_of_all_candidates_nearly_always():
    rng, agreed = np.random.default_rng(1), []
    for _ in range(100):
        scores = ratio_grid_noise(rng)
        scores[1:] += 0.5
        if raced(scores, 0.5, np.random.default_rng(0)) is not None:
            agreed.append(weigh_evidence(scores[1:], 0.25, 0.5, np.random.default_rng(0)).chosen is not None)
    assert len(agreed) > 30
    assert np.mean(agreed) > 0.95


def test_a_clear_winner_is_never_dropped():
    rng = np.random.default_rng(2)
    for _ in range(50):
        scores = ratio_grid_noise(rng)
        scores[7] = 3 + 0.1 * rng.normal(size=N_FOLDS)
        assert raced(scores, 0.84, rng) == 6


def test_dropped_candidates_count_for_the_bound_and_are_not_chosen():
    rng = np.random.default_rng(3)
    differences = rng.normal(size=(8, 10)) + 0.2
    differences[0] += 2
    whole = weigh_evidence(differences, 0.25, 0.84, np.random.default_rng(0))
    dropped = differences.copy()
    dropped[1:, 3:] = np.nan
    dropped[5, :3] = [5.0, 5.1, 5.2]  # ahead, had it not been dropped
    evidence = weigh_evidence(dropped, 0.25, 0.84, np.random.default_rng(0))
    alone = weigh_evidence(differences[:1], 0.25, 0.84, np.random.default_rng(0))
    assert evidence.chosen == whole.chosen == 0
    assert evidence.critical > alone.critical
    assert not evidence.counts[1:].any()
    assert [evidence.interval(i).n for i in (0, 1)] == [10, 3]
    np.testing.assert_allclose(evidence.gains[2], differences[2, :3].mean())


def test_nothing_dropped_changes_nothing():
    differences = np.random.default_rng(4).normal(size=(6, 10))
    one, other = (weigh_evidence(differences, 0.25, 0.5, np.random.default_rng(0)) for _ in range(2))
    assert one.n_scored is None
    np.testing.assert_array_equal(one.gains, other.gains)


class Turncoat(ClassifierMixin, BaseEstimator):
    """Right for as many samples as its weights say: equal weights are best, or worst."""

    def __init__(self, likes_weights=False):
        self.likes_weights = likes_weights

    def fit(self, X, y, sample_weight=None):
        Turncoat.fits += 1
        self.classes_ = np.unique(y)
        self.weighted_ = np.ptp(sample_weight) > 0
        return self

    def score(self, X, y):
        return (
            0.5
            + 0.3 * (self.weighted_ == self.likes_weights)
            + 0.01 * np.sin(1000 * X.sum() + self.weighted_)
        )


def turncoat_search(likes_weights, **options):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 2)), np.arange(120) % 2
    Turncoat.fits = 0
    search = VarianceWeightedCV(
        Turncoat(likes_weights), measure="variance", n_neighbors=(5,), random_state=0, **options
    ).fit(X, y)
    return search, Turncoat.fits


def test_a_search_ends_when_equal_weights_are_certain():
    search, fits = turncoat_search(likes_weights=False)
    assert search.best_params_ == {"weight_ratio": 1.0}
    assert fits == 3 * 9 + 1
    assert search.n_splits_ == 3
    assert "over 3 paired fits" in str(search.verdict_)
    assert turncoat_search(likes_weights=False, shortcuts="exact")[1] == 10 * 9 + 1


def test_a_search_goes_on_while_a_weighting_may_win():
    search, fits = turncoat_search(likes_weights=True)
    assert search.best_params_["weight_ratio"] != 1
    assert fits == 10 * 9 + 1
    assert search.gain_interval_.n == 10


def test_dropped_candidates_have_no_scores_on_later_folds():
    X, y = load_diabetes(return_X_y=True)
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    table = pd.DataFrame(
        VarianceWeightedCV(tree, scoring="neg_mean_absolute_error", random_state=0).fit(X, y).cv_results_
    )
    dropped = table["n_folds"] == 3
    assert 0 < dropped.sum() < len(table) - 1
    assert table.loc[dropped, "split3_test_neg_mean_absolute_error"].isna().all()
    assert table.loc[~dropped].filter(like="split").notna().all(axis=None)
    assert (table.loc[dropped, "mean_gain_neg_mean_absolute_error"] <= 0).all()
    assert table["mean_test_neg_mean_absolute_error"].notna().all()


def test_shortcuts_are_named():
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(InputError, match="shortcuts='some' is unknown"):
        VarianceWeightedCV(Ridge(), shortcuts="some").fit(X, y)
