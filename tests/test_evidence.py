import itertools

import numpy as np
import pytest

from steep.evidence import NO_GAIN, Score, Verdict, _largest_flipped_t, weigh_evidence, weigh_resamples
from steep.metrics import Interval, mean_interval


def null_differences(rng, n_candidates=20, n_folds=20):
    shared = rng.normal(size=n_folds)
    return 0.7 * shared + 0.7 * rng.normal(size=(n_candidates, n_folds))


@pytest.mark.parametrize("confidence", [0.5, 0.84, 0.95])
def test_without_a_difference_equal_weights_are_kept_as_often_as_promised(confidence):
    rng = np.random.default_rng(0)
    kept = [weigh_evidence(null_differences(rng), 0.0, confidence, rng).chosen is None for _ in range(150)]
    assert abs(np.mean(kept) - confidence) < 4 * np.sqrt(confidence * (1 - confidence) / 150)


def test_intervals_cover_all_candidates_at_once():
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(150):
        evidence = weigh_evidence(null_differences(rng), 0.0, 0.84, rng)
        covered.append(all(i.low <= 0 <= i.high for i in map(evidence.interval, range(20))))
    assert abs(np.mean(covered) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 150)


def test_a_clear_gain_is_chosen_among_many():
    differences = null_differences(np.random.default_rng(2))
    differences[7] += 3
    assert weigh_evidence(differences, 0.25, 0.977, np.random.default_rng(0)).chosen == 7


def test_overlapping_folds_ask_for_more_evidence():
    differences = null_differences(np.random.default_rng(3)) + 0.3
    apart, overlapping = (weigh_evidence(differences, r, 0.84, np.random.default_rng(0)) for r in (0.0, 0.25))
    assert (overlapping.standard_errors > apart.standard_errors).all()


def test_candidates_equal_to_the_control_are_never_chosen():
    assert weigh_evidence(np.zeros((5, 10)), 0.25, 0.5, np.random.default_rng(0)).chosen is None


@pytest.mark.parametrize("scale", [1e-9, 3.0, 1e12])
def test_the_choice_ignores_the_unit_of_the_score(scale):
    differences = null_differences(np.random.default_rng(4)) + 0.5
    plain, scaled = (weigh_evidence(d, 0.25, 0.5, np.random.default_rng(0)) for d in (differences, differences * scale))
    assert (plain.chosen, plain.nearest) == (scaled.chosen, scaled.nearest)
    assert scaled.critical == pytest.approx(plain.critical)
    np.testing.assert_allclose(scaled.standard_errors, plain.standard_errors * scale)


@pytest.mark.parametrize("gain", [0.02, -0.02, 1e-12])
@pytest.mark.parametrize("n_units", [2, 3, 10])
def test_differences_that_are_all_equal_prove_nothing(gain, n_units):
    rounding = 1e-15 * gain * np.random.default_rng(0).normal(size=(1, n_units))
    evidence = weigh_evidence(np.full((1, n_units), gain) + rounding, 0.5, 0.5, np.random.default_rng(0))
    interval = evidence.interval(0)
    assert evidence.chosen is None
    assert interval.low < 0 < interval.high
    assert interval.half_width < 20 * abs(gain)  # wide, but of the size of the gain


@pytest.mark.parametrize("n_units", [2, 3, 4, 5])
def test_few_units_are_no_licence_to_choose(n_units):
    rng = np.random.default_rng(5)
    chosen = [weigh_evidence(null_differences(rng, 20, n_units), 0.0, 0.84, rng).chosen is not None for _ in range(150)]
    assert np.mean(chosen) <= 0.16 + 4 * np.sqrt(0.16 * 0.84 / 150)


@pytest.mark.parametrize("n_units", [2, 3, 5])
def test_intervals_of_few_units_are_at_least_students(n_units):
    differences = null_differences(np.random.default_rng(6), 4, n_units)
    evidence = weigh_evidence(differences, 0.0, 0.5, np.random.default_rng(0))
    for row, candidate in zip(differences, range(4), strict=True):
        students = mean_interval(row)
        assert evidence.interval(candidate).half_width >= students.half_width * (1 - 1e-9)
        assert np.isfinite(evidence.interval(candidate).half_width)


def test_the_interval_of_a_chosen_candidate_covers_its_true_gain():
    rng = np.random.default_rng(7)
    truth = np.linspace(-0.5, 0.5, 20)[:, None]
    covered = []
    for _ in range(150):
        evidence = weigh_evidence(null_differences(rng) + truth, 0.0, 0.5, rng)
        if evidence.chosen is not None:
            interval = evidence.interval(evidence.chosen)
            covered.append(interval.low <= truth[evidence.chosen, 0] <= interval.high)
    assert len(covered) > 100
    assert np.mean(covered) > 0.95 - 4 * np.sqrt(0.95 * 0.05 / len(covered))


@pytest.mark.parametrize(
    ("name", "interval", "control", "words"),
    [
        ("accuracy", (0.016, 0.011, 0.021), 0.9, "raises accuracy by 1.6 points (95 % interval 1.1 to 2.1)"),
        (
            "accuracy",
            (-0.044, -0.06, 0.01),
            0.9,
            "lowers accuracy by 4.4 points (95 % interval -1 to 6, which includes 0)",
        ),
        (
            "neg_mean_absolute_error",
            (0.5, 0.2, 0.8),
            -50.0,
            "lowers the mean absolute error by 0.5 (1 %; 95 % interval 0.2 to 0.8)",
        ),
        ("max_error", (-2.0, -3.0, -1.0), -10.0, "raises the largest error by 2 (20 %; 95 % interval 1 to 3)"),
        ("r2", (0.01, 0.002, 0.018), 0.5, "raises R² by 0.01 (2 %; 95 % interval 0.002 to 0.018)"),
    ],
)
def test_a_gain_is_put_into_plain_words(name, interval, control, words):
    assert Score.named(name).describe(Interval(*interval, 10), control) == words


def test_a_verdict_reads_as_its_sentence():
    assert str(Verdict("All is well.", NO_GAIN, "points", None)) == "All is well."


def test_few_units_are_flipped_in_every_way():
    differences = np.random.default_rng(0).normal(size=(3, 6)) + 0.3
    largest = []
    for signs in itertools.product([1, -1], repeat=6):
        flipped = differences * signs
        t = flipped.mean(axis=1) / (flipped.std(axis=1, ddof=1) / np.sqrt(6))
        largest.append((t.max(), np.abs(t).max()))
    found = _largest_flipped_t(differences, np.random.default_rng(0), True)
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(largest, axis=0))


def test_what_few_units_say_depends_on_no_seed():
    differences = np.random.default_rng(1).normal(size=(8, 10)) + 0.2
    one, other = (weigh_evidence(differences, 0.25, 0.5, np.random.default_rng(seed)) for seed in (0, 1))
    assert one.critical == other.critical
    np.testing.assert_array_equal(one.counts, other.counts)


def test_the_table_of_a_verdict_is_made_when_it_is_asked_for():
    verdict = Verdict("All is well.", NO_GAIN, "points", {"measure": ["misfit"], "gain": [0.1]})
    assert verdict.table is verdict.table
    assert verdict.table.loc[0, "measure"] == "misfit"


def overlapping_folds(rng, truth, n_units=10, test_ratio=0.25):
    """Correlated candidates with heavy tails; what all folds share is not seen in their spread."""
    place = np.linspace(-1, 1, len(truth))[:, None]

    def noise(n):
        slope, bend, own = (rng.standard_t(5, size=(rows, n)) for rows in (1, 1, len(truth)))
        return place * slope + place**2 * bend + 0.3 * own

    return truth[:, None] + noise(n_units) + np.sqrt(test_ratio) * noise(1)


@pytest.mark.parametrize(("n_units", "test_ratio"), [(10, 0.25), (300, 0.0)])
@pytest.mark.parametrize("size", [1.5, 3.0])
def test_the_stated_gain_of_the_best_of_many_is_right_on_average(n_units, test_ratio, size):
    rng = np.random.default_rng(8)
    truth = size * np.sqrt(1 / n_units + test_ratio) * (1 - np.abs(np.linspace(-1, 1, 24) - 0.6))
    found = []
    for _ in range(60):
        evidence = weigh_evidence(overlapping_folds(rng, truth, n_units, test_ratio), test_ratio, 0.84, rng)
        if (best := evidence.chosen) is not None:
            found.append((truth[best], evidence.stated(best).mean, evidence.gains[best]))
    real, stated, seen = np.mean(found, axis=0)
    assert 0.7 < stated / real < 1.35
    assert abs(stated - real) < 0.6 * abs(seen - real)


def test_a_gain_without_a_choice_is_stated_as_it_is():
    rows = np.random.default_rng(0).normal(size=(1, 40)) + 50.0
    evidence = weigh_evidence(rows, 0.0, 0.84, np.random.default_rng(0))
    assert evidence.stated(0).mean == pytest.approx(rows.mean(), rel=0.01)


def test_the_interval_of_a_stated_gain_holds_it():
    rng = np.random.default_rng(9)
    for _ in range(40):
        evidence = weigh_evidence(null_differences(rng) + 0.2, 0.25, 0.5, rng)
        if evidence.chosen is not None:
            stated = evidence.stated(evidence.chosen)
            assert stated.low <= stated.mean <= stated.high
            assert 0 <= stated.mean <= evidence.gains[evidence.chosen]


def test_resamples_state_what_units_state():
    rng = np.random.default_rng(10)
    rows = null_differences(rng, 12, 400) + 0.25
    drawn = np.array([rows[:, rng.integers(400, size=400)].mean(axis=1) for _ in range(400)]).T
    units = weigh_evidence(rows, 0.0, 0.84, rng)
    resamples = weigh_resamples(rows.mean(axis=1), drawn, 400, 0.0, 0.84)
    assert units.chosen == resamples.chosen is not None
    assert resamples.kept_share == pytest.approx(units.kept_share, abs=0.1)
    assert units.kept_share < 0.95


@pytest.mark.parametrize(("name", "control"), [("accuracy", 0.9), ("r2", 0.4), ("neg_mean_absolute_error", -2.0)])
def test_an_interval_stays_in_the_range_of_its_score(name, control):
    score = Score.named(name)
    interval = score.within(Interval(0.01, -0.3, 50.0, 10), control)
    assert control + interval.high == pytest.approx(score.most)
    assert control + interval.low == pytest.approx(control - 0.3)


def test_an_interval_wider_than_the_range_says_that_nothing_is_known():
    words = Score.named("accuracy").describe(Interval(0.01, -6.86, 6.87, 2), 0.9)
    assert words == "changes accuracy by an unknown amount (the 95 % interval is wider than its range)"
    assert "686" not in words
