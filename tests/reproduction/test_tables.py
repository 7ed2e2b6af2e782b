"""Small laws inside single tables and figures."""

import numpy as np
import pytest
import torch

from reproduction.figure_gb import ASKED, PAPER, cube_bound
from reproduction.figure_gb import jobs as bounds
from reproduction.figure_hyp_search import chosen_elsewhere
from reproduction.jobs import Context
from reproduction.open_questions import growing
from reproduction.problems import RUNGE, TANH
from reproduction.report import fewer
from reproduction.summary import show_gain
from reproduction.table1 import CODE_ARMS, N_NEW, N
from reproduction.table3 import BestEpoch
from reproduction.table5 import scores
from reproduction.table6 import change_labels
from reproduction.verdicts import FAILS, HOLDS, NOT_CLAIMED, NOT_TESTED, PROTOCOL, Claim, joined
from steep.metrics import Interval


def test_a_pair_chosen_elsewhere_never_sees_its_own_split():
    maps = np.ones((3, 2, 2))
    maps[0, 0, 0] = 0.0  # best on split 0 alone, and by far
    maps[:, 1, 1] = 0.9
    equal = np.ones(3)
    np.testing.assert_allclose(chosen_elsewhere(maps, equal), [0.1, 0.0, 0.0])


@pytest.mark.parametrize(("is_error", "best"), [(False, [100.0, 50.0]), (True, [0.0, 0.5])])
def test_the_best_epoch_is_the_best_for_each_member_by_itself(is_error, best):
    kept = BestEpoch(np.array([0.0, 1.0]), is_error=is_error)
    right, half, wrong = [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]
    kept.see(np.array([right, wrong]))
    kept.see(np.array([wrong, half]))
    found = kept.results(np.array([wrong, half]), ["arm"], [0, 1])
    assert [found["arm", seed]["best_epoch"] for seed in (0, 1)] == best
    assert found["arm", 0]["score"] == (1.0 if is_error else 0.0)


def test_without_a_watched_epoch_there_is_no_best_one():
    found = BestEpoch(np.array([0.0, 1.0])).results(np.array([[0.0, 1.0]]), ["arm"], [0])
    assert found == {("arm", 0): {"score": 100.0}}


def test_f1_of_the_code_has_the_accuracy_in_the_place_of_the_precision():
    truth, outputs = np.array([1, 1, 1, 0, 0]), np.array([0.9, 0.9, 0.1, 0.9, 0.1])
    found = scores("MRPC", truth, outputs)
    accuracy, precision, recall = 3 / 5, 2 / 3, 2 / 3
    assert found["f1"] == pytest.approx(100 * 2 * precision * recall / (precision + recall))
    assert found["f1_code"] == pytest.approx(100 * 2 * accuracy * recall / (accuracy + recall))


def test_nothing_right_has_no_f1():
    assert scores("MRPC", np.array([1, 1]), np.array([0.1, 0.1]))["f1_code"] == 0.0


@pytest.mark.parametrize("problem", [RUNGE, TANH])
def test_the_designs_of_the_code_start_from_the_same_grid(problem):
    for design in CODE_ARMS.values():
        X, cost = design(problem, 3)
        assert X.shape == (N + N_NEW, 1)
        assert cost == N + N_NEW
        assert X.min() >= 0
        assert X.max() <= 1
    drawn = CODE_ARMS["TBS"](problem, 3)[0]
    np.testing.assert_allclose(drawn[:N, 0], np.linspace(0, 1, N))


def test_neighbours_grow_slower_than_data():
    for d in (1, 3, 6):
        sizes = [250, 1000, 4000]
        shares = [growing(n, 250, d) / n for n in sizes]
        assert shares == sorted(shares, reverse=True)
        assert growing(4000, 250, d) > growing(250, 250, d)


def test_the_paper_has_nothing_less_than_itself():
    assert fewer("table2", "paper") == {}
    assert "epochs 60 of 40,000" in fewer("table2", "smoke")["bateman, inputs as in the paper"]


def test_rounding_is_not_shown_as_a_gain():
    assert show_gain(Interval(3.55e-16, -0.4, 0.4, 5)) == "+0 [-0.4, 0.4] (not significant)"


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_bound_in_several_inputs_is_one(d):
    """J of a function with constant gradient g and cells on which the network has the gradient u, |u| ≤ K."""
    rng, lipschitz = np.random.default_rng(d), 0.7
    sides = rng.uniform(0.1, 0.5, size=20)
    g, u = rng.normal(size=(2, 20, d))
    u *= lipschitz / np.linalg.norm(u, axis=1, keepdims=True)
    x = rng.uniform(-0.5, 0.5, size=(20000, d))
    error = sum((((x * h) @ (a - b)) ** 2).mean() * h**d for a, b, h in zip(g, u, sides, strict=True))
    bound = cube_bound(np.linalg.norm(g, axis=1), sides, lipschitz, d)
    assert error < bound
    parallel = sum(((np.linalg.norm(a) + lipschitz) * h) ** 2 * h**d / 12 for a, h in zip(g, sides, strict=True))
    assert bound == pytest.approx(d * parallel)


def test_no_density_lowers_the_bound_more_than_the_one_it_asks_for():
    for job in bounds("smoke"):
        for result in job.run(Context(None, None)).values():
            if PAPER in result:
                assert result[ASKED] < min(result[PAPER], 1.0)


def test_a_fifth_of_the_labels_is_changed_and_no_other():
    labels = torch.arange(1000) % 10
    assert int((change_labels(labels, 20, seed=0) != labels).sum()) == 200


def test_a_claim_of_several_parts_is_as_good_as_its_worst_tested_part():
    def part(verdict, own=None, controlled=None):
        return Claim("", "", "a", "b", verdict, own, controlled)

    assert joined("", "", {"1": part(HOLDS, True, True), "2": part(FAILS, False, False)}).verdict == FAILS
    found = joined("", "", {"1": part(PROTOCOL, True, False), "2": part(NOT_TESTED), "3": part(NOT_CLAIMED, False)})
    assert (found.verdict, found.own, found.controlled) == (PROTOCOL, True, False)
    assert joined("", "", {"1": part(NOT_TESTED), "2": part(NOT_TESTED)}).verdict == NOT_TESTED
    assert joined("", "", {"1": part(NOT_CLAIMED), "2": part(NOT_CLAIMED)}).verdict == NOT_CLAIMED
    assert found.printed == "1: a; 2: a; 3: a"
