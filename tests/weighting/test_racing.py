"""Racing drops candidates and keeps the correction for all of them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_diabetes
from sklearn.tree import DecisionTreeRegressor

from steep import VarianceWeightedCV, WeightSearch
from steep.evidence import weigh_evidence
from steep.exceptions import InputError
from steep.measures import MEASURES
from steep.weighting.candidates import BALANCED, EQUAL, WeightingCandidate
from steep.weighting.outcome import conclude
from steep.weighting.racing import coarse, race, still_running

N_FOLDS, N_REPEATS = 10, 400
RATIOS = (0.01, 0.03, 0.1, 0.3, 3.0, 10.0, 40.0, 100.0)
WEIGHTINGS = [WeightingCandidate(MEASURES["variance"], k, ratio) for k in (3, 5, 20) for ratio in RATIOS]
CANDIDATES = [WeightingCandidate(control=EQUAL), *WEIGHTINGS]


def ratio_grid_noise(rng):
    """Scores without a difference, correlated as those of ratios to either side of 1 are."""
    slope, bend, own = (rng.standard_t(4, size=(n, N_FOLDS)) for n in (1, 1, 24))
    place = np.tile(np.linspace(-1, 1, 8), 3)[:, None]
    return np.vstack([np.zeros((1, N_FOLDS)), place * slope + place**2 * bend + 0.3 * own])


def run(scores, *, solved):
    """Candidates that were tried, their scores, and the fits this took."""
    spent = []

    def score(first, last, rows):
        spent.append((last - first) * len(rows))
        return scores[rows, first:last, None]

    return *race(CANDIDATES, N_FOLDS, score, solved=solved), sum(spent)


def raced(scores, confidence, rng, *, solved=True, only_survivors=False):
    """Chosen row of the scores, or None for equal weights, as a search with racing chooses."""
    tried, seen, _ = run(scores, solved=solved)
    differences = (seen[:, :, 0] - seen[0, :, 0])[1:]
    tried = np.array(tried[1:]) - 1
    if only_survivors:
        kept = ~np.isnan(differences).any(axis=1)
        differences, tried = differences[kept], tried[kept]
    chosen = weigh_evidence(differences, 0.25, confidence, rng).chosen if len(tried) else None
    return None if chosen is None else int(tried[chosen])


def false_choices(choose, seed=0):
    rng = np.random.default_rng(seed)
    return np.mean([choose(ratio_grid_noise(rng), rng) is not None for _ in range(N_REPEATS)])


@pytest.mark.parametrize("solved", [True, False])
@pytest.mark.parametrize("confidence", [0.5, 0.84])
def test_without_a_difference_equal_weights_are_given_up_no_more_often_than_promised(confidence, solved):
    rate = false_choices(lambda scores, rng: raced(scores, confidence, rng, solved=solved))
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


@pytest.mark.parametrize("solved", [True, False])
def test_a_clear_winner_is_never_dropped(solved):
    """Also if the coarse grid leaves it out: its neighbours on the grid gain with it."""
    rng = np.random.default_rng(2)
    near = CANDIDATES[7].measure, CANDIDATES[7].n_neighbors
    for _ in range(50):
        scores = ratio_grid_noise(rng)
        for number, candidate in enumerate(CANDIDATES):
            if (candidate.measure, candidate.n_neighbors) == near and candidate.weight_ratio > 1:
                scores[number] = 2 + 0.1 * rng.normal(size=N_FOLDS)
        scores[7] += 1
        assert raced(scores, 0.84, rng, solved=solved) == 6


def test_the_coarse_grid_has_about_ten_weightings_and_every_measure_both_ways():
    for n_measures, ks in ((1, (5,)), (1, (1, 5)), (2, (1, 5)), (2, (1, 5, 20))):
        measures = [MEASURES["misfit"], MEASURES["border"]][:n_measures]
        grid = [WeightingCandidate(m, k, r) for m in measures for k in ks for r in RATIOS]
        kept = [grid[i] for i in coarse(grid)]
        assert 8 <= len(kept) <= 12
        assert {(c.measure, c.n_neighbors, c.weight_ratio > 1) for c in kept} == {
            (c.measure, c.n_neighbors, c.weight_ratio > 1) for c in grid
        }


@pytest.mark.parametrize("max_fits", [26, 40, 60, 100])
def test_a_race_keeps_its_budget(max_fits):
    rng = np.random.default_rng(6)
    for _ in range(30):
        scores, spent = ratio_grid_noise(rng), []
        scores[1:] += 0.7

        def score(first, last, rows, scores=scores, spent=spent):
            spent.append((last - first) * len(rows))
            return scores[rows, first:last, None]

        def affordable(n_folds, rows, spent=spent):
            return min(n_folds, (max_fits - sum(spent)) // len(rows))

        _, seen = race(CANDIDATES, N_FOLDS, score, solved=False, affordable=affordable)
        assert sum(spent) <= max_fits
        assert 2 <= seen.shape[1] <= N_FOLDS
        assert not np.isnan(seen[0]).any()


def test_most_races_without_a_difference_are_short():
    rng = np.random.default_rng(7)
    spent = [run(ratio_grid_noise(rng), solved=False)[2] for _ in range(100)]
    assert np.median(spent) < 0.25 * 10 * len(CANDIDATES)


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
        return 0.5 + 0.3 * (self.weighted_ == self.likes_weights) + 0.01 * np.sin(1000 * X.sum() + self.weighted_)


def turncoat_search(likes_weights, **options):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 2)), np.arange(120) % 2
    Turncoat.fits = 0
    search = VarianceWeightedCV(
        Turncoat(likes_weights), measure="variance", n_neighbors=(5,), random_state=0, search=WeightSearch(**options)
    ).fit(X, y)
    return search, Turncoat.fits


def test_a_search_ends_when_equal_weights_are_certain():
    search, fits = turncoat_search(likes_weights=False)
    assert search.best_params_ == {"weight_ratio": 1.0}
    assert fits == 2 * 9 + 1
    assert search.n_splits_ == 2
    assert search.n_fits_ == 2 * 9
    assert "none of 8 weightings was clearly ahead after 2 of 10 folds" in str(search.verdict_)
    assert turncoat_search(likes_weights=False, shortcuts="exact")[1] == 10 * 9 + 1


def test_a_search_goes_on_while_a_weighting_may_win():
    search, fits = turncoat_search(likes_weights=True)
    assert search.best_params_["weight_ratio"] != 1
    assert fits == 10 * 9 + 1
    assert search.gain_interval_.n == 10


def test_a_budget_ends_a_search_with_what_was_done():
    search, fits = turncoat_search(likes_weights=True, max_fits=60)
    assert fits - 1 == search.n_fits_ == 54
    assert search.n_splits_ == 6
    assert "The budget of fits ended after 6 of 10 folds." in str(search.verdict_)
    assert search.best_params_["weight_ratio"] != 1


def test_a_budget_below_two_folds_is_an_error_before_the_first_fit():
    with pytest.raises(InputError, match="max_fits=17 is too few; expected at least 18, for two folds"):
        turncoat_search(likes_weights=True, max_fits=17)
    assert Turncoat.fits == 0


def test_fits_are_counted_as_they_are_made():
    class Counted(DecisionTreeRegressor):
        fits = 0

        def fit(self, X, y, sample_weight=None):
            Counted.fits += 1
            return super().fit(X, y, sample_weight=sample_weight)

    X, y = load_diabetes(return_X_y=True)
    search = VarianceWeightedCV(Counted(max_depth=3, random_state=0), random_state=0).fit(X, y)
    chosen_asks_model = search.best_params_.get("measure") == "misfit"
    assert Counted.fits == search.n_fits_ + 1 + 5 * chosen_asks_model


def test_dropped_candidates_have_no_scores_on_later_folds():
    X, y = load_diabetes(return_X_y=True)
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    table = pd.DataFrame(
        VarianceWeightedCV(tree, scoring="neg_mean_absolute_error", random_state=0).fit(X, y).cv_results_
    )
    dropped = table["n_folds"] == 2
    assert 0 < dropped.sum() < len(table) - 1
    assert table.loc[dropped, "split2_test_neg_mean_absolute_error"].isna().all()
    assert (table.loc[dropped, "mean_gain_neg_mean_absolute_error"] <= 0).all()
    assert table["mean_test_neg_mean_absolute_error"].notna().all()


def test_a_control_that_is_ahead_is_not_raced_out():
    control, weighting = WeightingCandidate(control=BALANCED), WeightingCandidate(MEASURES["misfit"], 1, 3.0)
    equal = WeightingCandidate(control=EQUAL)
    ahead = np.array([[0.7, 0.7, 0.7], [0.9, 0.6, 0.8], [0.9, 0.6, 0.8]])  # t = 0.76
    assert still_running([equal, control, weighting], ahead, [0, 1, 2], 1.0) == [0, 1]
    behind = np.array([[0.7, 0.7, 0.7], [0.5, 0.8, 0.6], [0.9, 0.6, 0.8]])
    assert still_running([equal, control, weighting], behind, [0, 1, 2], 1.0) == [0]


def test_what_wins_only_by_having_been_chosen_is_not_chosen():
    candidates = [
        WeightingCandidate(control=EQUAL),
        *(WeightingCandidate(MEASURES["misfit"], 1, float(r)) for r in range(2, 42)),
    ]
    kept = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        scores = np.vstack([np.zeros(10), rng.normal(size=(40, 10))])
        outcome = conclude(candidates, scores, 0.25, 0.5, rng)
        assert outcome.chosen == outcome.equal or outcome.interval.mean > 0
        kept += outcome.evidence.chosen is not None and outcome.chosen == outcome.equal
    assert kept  # some candidates counted, and nothing was left of their gain
