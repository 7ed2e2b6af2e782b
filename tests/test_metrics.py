import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import Ridge

from steep.exceptions import InputError
from steep.metrics import linf_error, mean_interval, paired_interval, resolve_scorers, worst_decile_error
from steep.weighting import VarianceWeightedCV

RNG = np.random.default_rng(0)


def test_errors_are_the_norms_of_the_difference():
    true, predicted = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[0.0, 3.0], [1.0, -3.0]])
    assert linf_error(true, predicted) == 4.0


def test_mean_interval_is_students():
    scores = RNG.normal(size=12)
    interval = mean_interval(scores)
    expected = stats.t.interval(0.95, 11, scores.mean(), stats.sem(scores))
    assert (interval.low, interval.high) == pytest.approx(expected)
    assert interval.n == 12


def test_intervals_cover_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(1)
    hits = [abs(i.mean - 3) <= i.half_width for i in (mean_interval(rng.normal(3, 1, 6)) for _ in range(2000))]
    assert abs(np.mean(hits) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 2000)


def test_pairing_removes_what_both_share():
    shared = 100 * RNG.normal(size=20)
    interval = paired_interval(shared, shared + 1 + 0.01 * RNG.normal(size=20))
    assert interval.mean == pytest.approx(1, abs=0.02)
    assert interval.half_width < 0.02
    assert interval.excludes_zero
    assert not paired_interval(shared, shared + RNG.normal(size=20) * 1e3).excludes_zero


def test_the_worst_tenth_counts_weight():
    true, predicted = np.zeros(20), np.arange(20.0)
    assert worst_decile_error(true, predicted) == 18.5
    assert worst_decile_error(true, predicted, np.ones(20)) == pytest.approx(18.5)
    assert worst_decile_error(true, predicted, np.arange(20) < 10) == 9.0
    repeated = worst_decile_error(np.zeros(40), np.repeat(predicted, 2), np.ones(40))
    assert worst_decile_error(true, predicted, np.full(20, 2.0)) == pytest.approx(repeated)
    assert linf_error(true, predicted, np.arange(20) < 5) == 4.0


def test_scorers_are_found_by_name_and_worst_cases_are_errors():
    scorers = resolve_scorers(Ridge(), {"mine": "max_error", "other": "r2"})
    model = Ridge().fit([[0.0], [1.0]], [0.0, 1.0])
    assert scorers["mine"](model, [[0.0], [5.0]], [0.0, 0.0]) < 0
    assert list(resolve_scorers(Ridge(), None)) == ["score"]
    assert list(resolve_scorers(Ridge(), ["worst_decile", "r2"])) == ["worst_decile", "r2"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linf_error([1, 2], [1, 2, 3]), r"y_true has shape \(2,\) and y_pred \(3,\)"),
        (lambda: linf_error([1, 2], [1, np.nan]), "contains NaN"),
        (lambda: mean_interval([]), "scores has 0 values"),
        (lambda: mean_interval([[1.0], [1.0, 2.0]]), "scores is not numeric"),
        (lambda: resolve_scorers(Ridge(), "goodness"), "scoring='goodness' is unknown"),
        (lambda: mean_interval([1.0]), "scores has 1 value; expected at least 2 repeats"),
        (lambda: paired_interval([1, 2], [1, 2, 3]), r"new has shape \(3,\); expected \(2,\)"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_accuracy_of_predicted_numbers_is_rejected_as_by_scikit_learn():
    X = np.random.default_rng(0).random((60, 2))
    with pytest.raises(ValueError, match="continuous"):
        VarianceWeightedCV(Ridge(), scoring="accuracy", random_state=0).fit(X, X.sum(axis=1))
