"""The rule of the verdicts on constructed cases."""

import numpy as np
import pytest
from scipy import stats

from reproduction.summary import Lines
from reproduction.verdicts import FAILS, HOLDS, N_TEST, NOT_CLAIMED, NOT_TESTED, PROTOCOL, interval_of, judge
from steep.metrics import Interval

UP, NULL, DOWN = Interval(0.3, 0.1, 0.5, 9), Interval(0.0, -0.2, 0.2, 9), Interval(-0.3, -0.5, -0.1, 9)


@pytest.mark.parametrize(("control", "own", "rule", "verdict"), [
    (UP, [], {}, HOLDS), (UP, [DOWN], {}, HOLDS), (UP, [UP], {"at_scale": False}, NOT_TESTED),
    (NULL, [UP], {}, PROTOCOL), (DOWN, [NULL, UP], {}, PROTOCOL),
    (DOWN, [], {}, FAILS), (DOWN, [NULL], {}, FAILS), (NULL, [NULL], {"printed": 0.4}, FAILS),
    (NULL, [NULL], {"printed": 0.1}, NOT_TESTED), (NULL, [NULL], {}, NOT_TESTED),
    (None, [None], {}, NOT_TESTED), (None, [], {}, NOT_TESTED), (None, [UP], {}, PROTOCOL),
    (UP, [UP], {"claimed": False}, NOT_CLAIMED), (DOWN, [DOWN], {"at_scale": False}, NOT_TESTED),
])  # fmt: skip
def test_the_rule(control, own, rule, verdict):
    assert judge(control, *own, **rule) == verdict


def test_a_single_repeat_is_never_significant():
    assert interval_of(np.array([5.0])) is None
    for kind in ("starts", "splits", "networks", "ranks"):
        assert interval_of(np.array([5.0]), kind) is None
        assert interval_of(np.array([]), kind) is None
    one = Interval(5.0, 5.0, 5.0, 1)
    assert judge(one) == judge(None, one) == NOT_TESTED


def test_the_interval_over_overlapping_splits_covers_the_gain_of_a_new_split():
    """Splits of one table share its luck: Student's interval misses the true gain far too often."""
    rng, missed = np.random.default_rng(0), {"starts": 0, "splits": 0}
    for _ in range(400):
        luck, noise = rng.normal(), rng.normal(size=30)
        gains = np.sqrt(0.2) * luck + np.sqrt(0.8) * noise  # correlation n_test / (n_test + n_train)
        for kind in missed:
            found = interval_of(gains, kind)
            missed[kind] += not found.low < 0 < found.high
    assert missed["starts"] > 0.3 * 400
    assert missed["splits"] < 0.08 * 400


def test_the_factor_over_splits_is_that_of_nadeau_and_bengio():
    gains = np.random.default_rng(1).normal(size=60)
    plain, wide = interval_of(gains), interval_of(gains, "splits")
    assert wide.half_width / plain.half_width == pytest.approx(np.sqrt(1 / 60 + 0.25) / np.sqrt(1 / 60))


def test_networks_that_agree_with_each_other_do_not_make_the_test_set_larger():
    same = np.full(3, -0.058)  # 5.8 pictures of 10,000
    found = interval_of(same, "networks")
    least = stats.t.ppf(0.975, 2) * 100 * np.sqrt(0.00058 / N_TEST)
    assert found.half_width == pytest.approx(least)
    assert found.high > 0
    assert interval_of(same, "networks", differ=1.0).half_width > found.half_width


def test_ranks_agree_with_wilcoxon_and_ignore_one_wild_network():
    rng = np.random.default_rng(2)
    for shift in (0.0, 0.2, 0.5, 1.0):
        gains = rng.normal(shift, size=40)
        p = stats.wilcoxon(gains).pvalue
        assert interval_of(gains, "ranks").excludes_zero == (p < 0.05)
    gains = np.append(rng.normal(1.0, 0.5, size=39), -1000.0)
    assert interval_of(gains, "ranks").low > 0 > interval_of(gains).low


def test_few_ranks_cannot_be_significant():
    assert interval_of(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), "ranks") is None
    assert interval_of(np.arange(1.0, 7.0), "ranks").low > 0  # p = 1/32


def test_a_gain_pairs_the_seeds_that_both_arms_have():
    made = [
        {"experiment": "e", "arm": arm, "seed": seed, "settings": {}, "result": {"mse": value}, "cpu_seconds": 0.0}
        for arm, values in (("a", [3.0, 2.0, 4.0]), ("b", [2.0, 1.5])) for seed, value in enumerate(values)
    ]  # fmt: skip
    found = Lines(made, "laptop").gain("e", "a", "b", "mse", is_error=True)
    assert (found.mean, found.n) == (0.75, 2)
