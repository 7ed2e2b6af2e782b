"""Regions where runs fail get no more runs than their part of the domain; designs without failures are as ever."""

import warnings

import numpy as np
import pytest

from steep import Box, Campaign, Category, design
from steep.sampling.pool import EvenSequence, trust_in

REGIONS = {
    "corner": (lambda X: (X[:, :2] > 0.5).all(axis=1), 0.25),
    "face": (lambda X: X[:, 0] < 0.04, 0.04),
    "half-space": (lambda X: X[:, :2].sum(axis=1) > 1.3, 0.245),
    "ball": (lambda X: ((X - 0.5) ** 2).sum(axis=1) < 0.36**2, 0.195),
}


def front(X):
    return np.tanh(8 * (X[:, 0] - 0.4 * X[:, 1] - 0.3)) + X[:, -1] ** 2


def failing(region):
    """The front, NaN where runs fail."""
    return lambda X: np.where(REGIONS[region][0](X), np.nan, front(X))


@pytest.mark.parametrize("region", REGIONS)
def test_failed_runs_of_a_design_are_about_the_part_of_the_domain_that_fails(region):
    n_failed = 0
    for seed in range(3):
        with pytest.warns(UserWarning, match="function failed"):
            plan = design(failing(region), [(0, 1)] * 3, 100, n_initial=25, random_state=seed)
        n_failed += len(plan.failed)
    assert n_failed <= 1.2 * 300 * REGIONS[region][1]


@pytest.mark.parametrize("region", ["face", "corner"])
def test_failed_runs_of_a_campaign_are_about_the_part_of_the_domain_that_fails(region):
    n_failed = 0
    for seed in range(3):
        with Campaign([(0, 1)] * 3, storage=":memory:", random_state=seed) as campaign:
            one = lambda x: failing(region)(x[None])[0]  # noqa: E731
            campaign.run(one, 100, retries=0, max_failures=None)
            n_failed += campaign.n_failed
    assert n_failed <= 1.2 * 300 * REGIONS[region][1]


def test_the_edge_of_a_failing_region_is_still_explored():
    with pytest.warns(UserWarning, match="function failed"):
        plan = design(failing("half-space"), [(0, 1)] * 2, 100, n_initial=25, random_state=0)
    near = plan.X[:, :2].sum(axis=1)
    assert near.max() > 1.25  # a run that works, close to where runs fail
    assert (np.abs(plan.failed[:, :2].sum(axis=1) - 1.35) < 0.05).any()


def test_a_category_in_which_nothing_works_is_left_alone():
    bounds = {"x": (0, 1), "y": (0, 1), "metal": Category("steel", "tin", "lead", "zinc")}
    broken = lambda X: np.where(X[:, 2] == 1, np.nan, front(X))  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = design(broken, bounds, 100, n_initial=24, random_state=0)
    assert len(plan.failed) <= 15  # of 100 runs, in a quarter of the domain


def test_a_face_on_which_one_run_worked_is_trusted_as_the_runs_around_it():
    box = Box([(0, 1)] * 2)
    failed, worked = np.array([[0.0, 0.1], [0.0, 0.3]]), np.array([[0.3, 0.2], [0.4, 0.9], [0.5, 0.6]])
    at = np.array([[0.0, 0.95], [0.45, 0.95]])
    alone = trust_in(box, worked, failed)(at)
    assert alone[0] == pytest.approx((1 / 3) ** 2)  # two runs failed on the face, none worked
    assert alone[1] == 1
    both = trust_in(box, np.vstack([worked, [[0.0, 0.8]]]), failed)(at)
    assert both[0] == 1


def test_even_points_are_left_out_only_where_there_is_no_hope():
    box = Box([(0, 1)] * 2)
    sequence = EvenSequence(box, 0)
    first = sequence.first(40)
    is_bad = (first > 0.5).all(axis=1)
    trust = trust_in(box, first[~is_bad], first[is_bad])
    following = sequence.after(60, taken=first, trust=trust)
    plain = sequence.after(120, taken=first)
    assert len(following) == 60
    kept = {tuple(x) for x in following.tolist()}
    left_out = [x for x in plain if tuple(x) not in kept and tuple(x) in map(tuple, plain[:60].tolist())]
    assert len(left_out) > 3
    assert (np.array(left_out) > 0.4).all()
