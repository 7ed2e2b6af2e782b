"""Pools, fills and systematic draws: what they promise beyond Algorithm 1."""

import time

import numpy as np
import pytest

from steep import Box, VariationSampler, design
from steep.domain.axes import Category, Integer, Log
from steep.exceptions import AcceptanceError, InputError
from steep.neighbors.query import nearest
from steep.sampling.draws import greedy_fill, hilbert_index, systematic_draw
from steep.sampling.pool import candidate_pool, density
from steep.sampling.relevance import axis_relevance


def ridge(X):
    return np.tanh(20 * (X[:, 0] - 0.5))


def slow_fill(pool, weights, there, n_samples):
    """The definition, literally."""
    taken = []
    there = list(there)
    for _ in range(n_samples):
        gaps = np.array([min(np.linalg.norm(c - p) for p in there) for c in pool])
        taken.append(int(np.argmax(weights * gaps ** min(pool.shape[1], 3))))
        there.append(pool[taken[-1]])
    return taken


@pytest.mark.parametrize("d", [1, 2, 5])
def test_greedy_fill_is_its_definition(d):
    rng = np.random.default_rng(d)
    pool, weights, there = rng.random((60, d)), rng.random(60), rng.random((4, d))
    taken = greedy_fill(pool, weights, nearest(there, pool)[0][:, 0], 10)
    assert taken.tolist() == slow_fill(pool, weights, there, 10)


def test_a_fill_never_takes_a_candidate_twice_even_without_weight():
    taken = greedy_fill(np.zeros((9, 2)), np.zeros(9), np.zeros(9), 9)
    assert sorted(taken.tolist()) == list(range(9))


@pytest.mark.parametrize("draw", ["random", "systematic", "fill"])
@pytest.mark.parametrize("kind", ["mixture", "pool"])
def test_every_density_goes_with_every_draw(kind, draw):
    X = Box([(0, 1)] * 2).sobol(128, random_state=0)
    variation = np.exp(-(((X[:, 0] - 0.5) / 0.1) ** 2)) + 1e-6
    sampler = VariationSampler([(0, 1)] * 2, density=kind, draw=draw, random_state=0)
    drawn = sampler.fit(X, variation).sample(100)
    assert drawn.shape == (100, 2)
    assert Box([(0, 1)] * 2).contains(drawn).all()
    assert np.mean(np.abs(drawn[:, 0] - 0.5) < 0.25) > 0.8  # 0.5 by chance


@pytest.mark.parametrize("draw", ["systematic", "random"])
def test_pool_draws_follow_the_density(draw):
    X = np.linspace(0, 1, 500)[:, None]
    counts = np.zeros(5)
    for seed in range(20):
        sampler = VariationSampler([(0, 1)], density="pool", draw=draw, random_state=seed).fit(
            X, X[:, 0] + 1e-9
        )
        drawn = sampler.sample(100)[:, 0]
        counts += np.histogram(drawn[(drawn > 0) & (drawn < 1)], bins=5, range=(0, 1))[0]
    # The pool's share on the two ends is left out; the rest has a density ∝ x.
    expected = (2 * np.arange(5) + 1) / 25
    np.testing.assert_allclose(counts / counts.sum(), expected, atol=0.04)


def test_a_systematic_draw_is_more_even_than_a_random_one():
    pool = Box([(0, 1)] * 2).sobol(4096, random_state=0)
    rng = np.random.default_rng(0)
    even = pool[systematic_draw(pool, np.ones(4096), 64, rng)]
    random = pool[rng.choice(4096, 64, replace=False)]
    spread = [np.histogram2d(*p.T, bins=8, range=[[0, 1]] * 2)[0].std() for p in (even, random)]
    assert spread[0] < 0.7 * spread[1]


@pytest.mark.parametrize("d", [1, 2, 3, 8, 20])
def test_hilberts_curve_takes_small_steps_and_visits_every_cell(d):
    if d <= 3:
        side = 2 ** (6 // d)
        cells = np.stack(np.meshgrid(*[np.arange(side)] * d, indexing="ij"), axis=-1).reshape(-1, d)
        # Cell centres at the curve's own resolution would need 2^16 a side: scale to whole cells instead.
        order = np.argsort(hilbert_index((cells + 0.5) / side))
        steps = np.abs(np.diff(cells[order], axis=0)).sum(axis=1)
        assert (steps == 1).all()
    points = np.random.default_rng(0).random((1000, d))
    assert len(np.unique(hilbert_index(points))) > 990


def test_a_fill_spreads_points_evenly():
    box = Box([(0, 1)] * 2)
    X = box.sobol(16, random_state=0)
    sampler = VariationSampler(box, density="pool", draw="fill", random_state=0).fit(X, np.ones(16))
    joined = np.vstack([X, sampler.sample(100)])
    gap = nearest(joined, joined, 2)[0][:, 1].min()
    uniform = np.random.default_rng(0).random((116, 2))
    assert gap > 5 * nearest(uniform, uniform, 2)[0][:, 1].min()


def test_successive_fills_keep_clear_of_each_other():
    X = np.array([[0.0], [1.0]])
    sampler = VariationSampler([(0, 1)], density="pool", draw="fill", random_state=0).fit(X, [1.0, 1.0])
    first, second = sampler.sample(1), sampler.sample(1)
    assert first[0, 0] == pytest.approx(0.5, abs=0.01)
    assert min(abs(second[0, 0] - 0.25), abs(second[0, 0] - 0.75)) < 0.01


def test_a_fill_keeps_clear_of_occupied_points():
    X = np.array([[0.0], [1.0]])
    sampler = VariationSampler([(0, 1)], density="pool", draw="fill", random_state=0)
    drawn = sampler.fit(X, [1.0, 1.0], occupied=[[0.5]]).sample(1)
    assert abs(drawn[0, 0] - 0.5) > 0.2


def test_floor_and_temper_shape_the_pool_density():
    variation = np.array([0.0, 1.0, 4.0])
    np.testing.assert_allclose(density(variation, temper=1.0, floor=0.0), variation / variation.mean())
    np.testing.assert_allclose(density(variation, temper=0.5, floor=0.0), [0, 1, 2])
    np.testing.assert_allclose(density(variation, temper=0.5, floor=0.4), [0.4, 1.0, 1.6])
    np.testing.assert_allclose(density(np.zeros(3), temper=0.5, floor=0.4), 1.0)


def test_the_default_design_gathers_where_the_function_is_steep_and_touches_the_boundary():
    plan = design(ridge, [(0, 1)] * 2, n_initial=25, n_samples=75, random_state=0)
    drawn = plan.X[25:]
    assert plan.n_evaluations == 100
    assert np.mean(np.abs(drawn[:, 0] - 0.5) < 0.25) > 0.6
    assert ((drawn == 0) | (drawn == 1)).any()
    assert len(np.unique(plan.X, axis=0)) == 100


def test_a_design_finds_a_narrow_peak_that_a_few_start_points_only_brush():
    peak = lambda X: np.exp(-((X - 0.3) ** 2).sum(axis=1) / 0.005)  # noqa: E731
    share = [
        np.mean(
            np.linalg.norm(
                design(peak, [(0, 1)] * 2, n_initial=16, n_samples=84, random_state=s).X - 0.3, axis=1
            )
            < 0.2
        )
        for s in range(5)
    ]
    assert min(share) > 0.2  # 0.13 by chance


@pytest.mark.parametrize("d", [1, 2, 8])
def test_eight_start_points_never_fool_a_design(d):
    plan = design(ridge, [(0, 1)] * d, n_initial=8, n_samples=24, random_state=0)
    assert len(np.unique(plan.X, axis=0)) == 32
    assert nearest(plan.X, np.random.default_rng(0).random((500, d)))[0].max() < (0.25 if d < 3 else 1.5)


def test_outputs_of_any_size_count_alike():
    two = lambda X: np.column_stack([ridge(X), np.tanh(20 * (X[:, 1] - 0.5))])  # noqa: E731
    plans = [
        design(lambda X, s=s: two(X) * s, [(0, 1)] * 2, n_initial=25, n_samples=40, random_state=0)
        for s in (np.array([1.0, 1.0]), np.array([1.0, 1e6]))
    ]
    np.testing.assert_array_equal(plans[0].X, plans[1].X)


def test_finite_differences_are_counted_in_every_round():
    plan = design(ridge, [(0, 1)], n_initial=10, n_samples=10, measure="taylor", rounds=2, random_state=0)
    assert plan.n_evaluations == 20 + 3 * 15  # measured at the start and at the first round's five


def test_a_fixed_point_is_in_the_design():
    plan = design(
        ridge, [(0, 1)] * 2, n_initial=10, n_samples=5, fixed=[[0.1, 0.2], [0.3, 0.4]], random_state=0
    )
    assert plan.X[:2].tolist() == [[0.1, 0.2], [0.3, 0.4]]
    assert len(plan.X) == 15
    with pytest.raises(InputError, match="fixed has 1 points, 0 of them"):
        design(ridge, [(0, 1)] * 2, n_initial=10, n_samples=5, fixed=[[2.0, 0.2]])


def test_a_constraint_is_never_broken():
    def disc(X):
        return ((X - 0.5) ** 2).sum(axis=1) <= 0.25

    def strict(X):
        assert disc(X).all()
        return ridge(X)

    for kwargs in (
        {},
        {"density": "mixture", "draw": "random"},
        {"initial": "uniform", "draw": "systematic"},
    ):
        plan = design(
            strict, [(0, 1)] * 2, n_initial=20, n_samples=30, constraint=disc, random_state=0, **kwargs
        )
        assert len(plan.X) == 50


def test_a_constraint_that_keeps_nothing_says_so():
    with pytest.raises(AcceptanceError, match="the constraint keeps only 0 of"):
        design(ridge, [(0, 1)], n_initial=4, n_samples=4, constraint=lambda X: X[:, 0] > 2)
    with pytest.raises(InputError, match="constraint returned float64"):
        design(ridge, [(0, 1)], n_initial=4, n_samples=4, constraint=lambda X: X[:, 0])


def test_log_whole_and_category_axes_get_values_of_their_kind():
    bounds = {"k": Log(1e-3, 1e3), "n": Integer(2, 9), "m": Category("a", "b", "c")}

    def f(X):
        assert np.array_equal(X[:, 1:], X[:, 1:].round())
        return np.tanh(np.log10(X[:, 0])) * X[:, 1] + X[:, 2]

    plan = design(f, bounds, n_initial=20, n_samples=60, random_state=0)
    assert Box(bounds).contains(plan.X).all()
    assert set(plan.X[:, 2]) == {0.0, 1.0, 2.0}
    assert len(np.unique(plan.X, axis=0)) == 80
    with pytest.raises(InputError, match=r"cannot differentiate along \['n', 'm'\]"):
        design(f, bounds, n_initial=20, n_samples=60, measure="taylor")


def test_more_points_than_the_domain_holds_are_refused():
    sampler = VariationSampler({"n": Integer(1, 4)}, density="pool", draw="fill", random_state=0)
    sampler.fit([[1.0], [2.0]], [1.0, 1.0])
    with pytest.raises(InputError, match="the domain holds only 4 different points"):
        sampler.sample(9)


def test_a_pool_of_twenty_dimensions_is_fast():
    box = Box([(0, 1)] * 20)
    X = box.sobol(1024, random_state=0)
    began = time.perf_counter()
    sampler = VariationSampler(box, density="pool", draw="fill", random_state=0).fit(X, X[:, 0] ** 2)
    assert sampler.sample(100).shape == (100, 20)
    assert time.perf_counter() - began < 10  # about 0.3 s on an idle core


def test_the_pool_reaches_faces_and_corners():
    pool = candidate_pool(Box([(0, 1)] * 2), 10, np.random.default_rng(0))
    assert {(0, 0), (0, 1), (1, 0), (1, 1)} <= {
        tuple(p) for p in pool[((pool == 0) | (pool == 1)).all(axis=1)]
    }


def test_relevance_finds_the_axes_that_matter():
    U = np.random.default_rng(0).random((400, 4))
    scale = axis_relevance(U, np.sin(4 * U[:, :1]) + 0.1 * U[:, 1:2])
    assert scale.argmax() == 0
    assert np.prod(scale) == pytest.approx(1)
    np.testing.assert_array_equal(axis_relevance(U, np.ones((400, 1))), 1.0)
