"""Pools and fills: what they promise beyond Algorithm 1."""

import numpy as np
import pytest

from steep import Adaptive, Box, Even, Taylor, Variance, VariationSampler, design
from steep.domain.axes import Category, Integer, Log
from steep.exceptions import AcceptanceError, InputError
from steep.neighbors.query import nearest
from steep.sampling.pool import candidate_pool, greedy_fill, random_draw, wanted_density
from steep.sampling.process import axis_relevance, fill_doubt, length_scale, matern
from steep.sampling.sampler import DRAWS


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


def slow_doubt(known, pool, weights, length, n_samples):
    """The definition, literally: the variance again for every candidate after every point."""
    taken, known = [], list(known)
    for _ in range(n_samples):
        K = matern(np.array(known), np.array(known), length) + 1e-6 * np.eye(len(known))
        k = matern(np.array(known), pool, length)
        variance = 1 - (k * np.linalg.solve(K, k)).sum(axis=0)
        variance[taken] = 0
        taken.append(int(np.argmax(weights**2 * variance)))
        known.append(pool[taken[-1]])
    return taken


@pytest.mark.parametrize("d", [1, 2, 5])
def test_doubt_is_its_definition(d):
    rng = np.random.default_rng(d)
    pool, weights, known = rng.random((60, d)), rng.random(60) + 0.1, rng.random((4, d))
    assert fill_doubt(known, pool, weights, 0.4, 10).tolist() == slow_doubt(known, pool, weights, 0.4, 10)


def test_doubt_never_takes_a_candidate_twice_even_without_weight():
    assert sorted(fill_doubt(np.zeros((1, 2)), np.zeros((9, 2)), np.zeros(9), 1.0, 9).tolist()) == list(range(9))


def test_the_length_scale_is_the_likeliest_of_those_tried():
    rng = np.random.default_rng(0)
    X = rng.random((60, 2))
    y = np.linalg.cholesky(matern(X, X, 0.5) + 1e-8 * np.eye(60)) @ rng.standard_normal((60, 1))
    assert 0.2 < length_scale(X, y) < 1.1


def test_on_a_line_a_design_beats_even_points_with_a_smooth_process():
    """Runs gathered at a front left gaps elsewhere, where a process of one length scale then swings."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    f, x = lambda X: 1 / (1 + 25 * (2 * X[:, 0] - 1) ** 2), np.linspace(0, 1, 501)[:, None]

    def error(X):
        process = GaussianProcessRegressor(RBF(0.2, (0.02, 20)), alpha=1e-6, normalize_y=True).fit(X, f(X))
        return np.log(np.sqrt(((process.predict(x) - f(x)) ** 2).mean()))

    pairs = [
        (
            error(design(f, [(0, 1)], 24, n_initial=6, random_state=seed).X),
            error(Box([(0, 1)]).sobol(24, random_state=seed)),
        )
        for seed in range(5)
    ]
    assert np.mean([steep - even for steep, even in pairs]) < 0


def test_a_fill_never_takes_a_candidate_twice_even_without_weight():
    taken = greedy_fill(np.zeros((9, 2)), np.zeros(9), np.zeros(9), 9)
    assert sorted(taken.tolist()) == list(range(9))


@pytest.mark.parametrize("draw", DRAWS)
def test_every_draw_follows_the_variation(draw):
    X = Box([(0, 1)] * 2).sobol(128, random_state=0)
    variation = np.exp(-(((X[:, 0] - 0.5) / 0.1) ** 2)) + 1e-6
    sampler = VariationSampler([(0, 1)] * 2, draw=draw, random_state=0)
    drawn = sampler.fit(X, variation).sample(100)
    assert drawn.shape == (100, 2)
    assert Box([(0, 1)] * 2).contains(drawn).all()
    assert np.mean(np.abs(drawn[:, 0] - 0.5) < 0.25) > 0.8  # 0.5 by chance


def test_a_fill_spreads_points_evenly():
    box = Box([(0, 1)] * 2)
    X = box.sobol(16, random_state=0)
    sampler = VariationSampler(box, draw="fill", random_state=0).fit(X, np.ones(16))
    joined = np.vstack([X, sampler.sample(100)])
    gap = nearest(joined, joined, 2)[0][:, 1].min()
    uniform = np.random.default_rng(0).random((116, 2))
    assert gap > 5 * nearest(uniform, uniform, 2)[0][:, 1].min()


def test_successive_fills_keep_clear_of_each_other():
    X = np.array([[0.0], [1.0]])
    sampler = VariationSampler([(0, 1)], draw="fill", random_state=0).fit(X, [1.0, 1.0])
    first, second = sampler.sample(1), sampler.sample(1)
    assert first[0, 0] == pytest.approx(0.5, abs=0.01)
    assert min(abs(second[0, 0] - 0.25), abs(second[0, 0] - 0.75)) < 0.01


def test_a_fill_keeps_clear_of_occupied_points():
    X = np.array([[0.0], [1.0]])
    sampler = VariationSampler([(0, 1)], draw="fill", random_state=0)
    drawn = sampler.fit_unit(X, X, np.ones(2), occupied=np.array([[0.5]])).sample(1)
    assert abs(drawn[0, 0] - 0.5) > 0.2


def test_floor_and_temper_shape_the_pool_density():
    variation = np.array([0.0, 1.0, 4.0])
    np.testing.assert_allclose(wanted_density(variation, temper=1.0, floor=0.0), variation / variation.mean())
    np.testing.assert_allclose(wanted_density(variation, temper=0.5, floor=0.0), [0, 1, 2])
    np.testing.assert_allclose(wanted_density(variation, temper=0.5, floor=0.4), [0.4, 1.0, 1.6])
    np.testing.assert_allclose(wanted_density(np.zeros(3), temper=0.5, floor=0.4), 1.0)


def test_the_default_design_gathers_where_the_function_is_steep_and_touches_the_boundary():
    plan = design(ridge, [(0, 1)] * 2, 100, n_initial=25, random_state=0)
    drawn = plan.X[25:]
    assert plan.n_evaluations == 100
    assert np.mean(np.abs(drawn[:, 0] - 0.5) < 0.25) > 0.6
    assert ((drawn == 0) | (drawn == 1)).any()
    assert len(np.unique(plan.X, axis=0)) == 100


def test_a_design_finds_a_narrow_peak_that_a_few_start_points_only_brush():
    peak = lambda X: np.exp(-((X - 0.3) ** 2).sum(axis=1) / 0.005)  # noqa: E731
    share = [
        np.mean(np.linalg.norm(design(peak, [(0, 1)] * 2, 100, n_initial=16, random_state=s).X - 0.3, axis=1) < 0.2)
        for s in range(3)
    ]
    assert np.mean(share) > 0.2  # 0.13 by chance
    assert min(share) > 0.15


@pytest.mark.parametrize("d", [1, 2, 8])
def test_eight_start_points_never_fool_a_design(d):
    plan = design(ridge, [(0, 1)] * d, 32, n_initial=8, random_state=0)
    assert len(np.unique(plan.X, axis=0)) == 32
    assert nearest(plan.X, np.random.default_rng(0).random((500, d)))[0].max() < (0.25 if d < 3 else 1.5)


def test_outputs_of_any_size_count_alike():
    two = lambda X: np.column_stack([ridge(X), np.tanh(20 * (X[:, 1] - 0.5))])  # noqa: E731
    plans = [
        design(lambda X, s=s: two(X) * s, [(0, 1)] * 2, 65, n_initial=25, random_state=0)
        for s in (np.array([1.0, 1.0]), np.array([1.0, 1e6]))
    ]
    np.testing.assert_array_equal(plans[0].X, plans[1].X)


def test_finite_differences_are_counted_in_every_round():
    plan = design(ridge, [(0, 1)], 20, n_initial=10, strategy=Adaptive("taylor", rounds=2), random_state=0)
    assert plan.n_evaluations == 20 + 3 * 15  # measured at the start and at the first round's five


def test_a_fixed_point_is_in_the_design():
    plan = design(ridge, [(0, 1)] * 2, 15, n_initial=10, fixed=[[0.1, 0.2], [0.3, 0.4]], random_state=0)
    assert plan.X[:2].tolist() == [[0.1, 0.2], [0.3, 0.4]]
    assert len(plan.X) == 15
    with pytest.raises(InputError, match="fixed has 1 points, 0 of them"):
        design(ridge, [(0, 1)] * 2, 15, n_initial=10, fixed=[[2.0, 0.2]])


def test_a_constraint_is_never_broken():
    def disc(X):
        return ((X - 0.5) ** 2).sum(axis=1) <= 0.25

    def strict(X):
        assert disc(X).all()
        return ridge(X)

    for strategy in (Adaptive(), Taylor(), Variance(), Even()):
        plan = design(strict, [(0, 1)] * 2, 50, n_initial=20, strategy=strategy, constraint=disc, random_state=0)
        assert len(plan.X) == 50


def test_a_constraint_that_keeps_nothing_says_so():
    with pytest.raises(AcceptanceError, match=r"only 0 of 64064 points drawn lie in the domain .* tighten the bounds"):
        design(ridge, [(0, 1)], 8, n_initial=4, constraint=lambda X: X[:, 0] > 2)
    with pytest.raises(InputError, match="constraint returned float64"):
        design(ridge, [(0, 1)], 8, n_initial=4, constraint=lambda X: X[:, 0])


def test_log_whole_and_category_axes_get_values_of_their_kind():
    bounds = {"k": Log(1e-3, 1e3), "n": Integer(2, 9), "m": Category("a", "b", "c")}

    def f(X):
        assert np.array_equal(X[:, 1:], X[:, 1:].round())
        return np.tanh(np.log10(X[:, 0])) * X[:, 1] + X[:, 2]

    plan = design(f, bounds, 80, n_initial=20, random_state=0)
    assert Box(bounds).contains(plan.X).all()
    assert set(plan.X[:, 2]) == {0.0, 1.0, 2.0}
    assert len(np.unique(plan.X, axis=0)) == 80
    with pytest.raises(InputError, match=r"cannot differentiate along \['n', 'm'\]"):
        design(f, bounds, 80, n_initial=20, strategy=Adaptive("taylor"))


def test_more_points_than_the_domain_holds_are_refused():
    sampler = VariationSampler({"n": Integer(1, 4)}, draw="fill", random_state=0)
    sampler.fit([[1.0], [2.0]], [1.0, 1.0])
    with pytest.raises(InputError, match="has 2 free points left, expected 9; ask for fewer"):
        sampler.sample(9)


@pytest.mark.parametrize("d", [2, 20])
def test_a_pool_does_not_grow_with_the_dimension(d):
    """Time goes with the candidates: their number is what keeps many dimensions fast."""
    rng = np.random.default_rng(0)
    assert [len(candidate_pool(Box([(0, 1)] * d), n, rng)) for n in (10, 512, 1000)] == [4096, 4096, 8192]
    box = Box([(0, 1)] * d)
    X = box.sobol(1024, random_state=0)
    sampler = VariationSampler(box, draw="fill", random_state=0).fit(X, X[:, 0] ** 2)
    assert sampler.sample(100).shape == (100, d)


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("bounds", [[(0, 1)], [Integer(1, 40)], [Integer(1, 5), ["a", "b", "c"]]])
def test_no_point_is_drawn_twice_or_where_one_is(bounds, draw):
    box = Box(bounds)
    X = np.unique(box.sobol(3, random_state=0), axis=0)
    occupied = X[:1] * 0 + box.upper  # the upper corner, which every pool holds many times
    X = X[(box.upper != X).any(axis=1)]
    sampler = VariationSampler(box, draw=draw, random_state=0)
    unit, there = box.unit(X), box.embed(box.unit(occupied))
    sampler.fit_unit(unit, box.embed(unit), np.arange(1.0, len(X) + 1), occupied=there)
    drawn = np.vstack([X, occupied, sampler.sample(6), sampler.sample(4)])
    assert len(np.unique(drawn, axis=0)) == len(drawn)


@pytest.mark.parametrize("draw", DRAWS)
def test_a_discrete_domain_can_be_drawn_to_its_last_point(draw):
    box = Box({"n": Integer(1, 60), "m": Integer(1, 90)}, constraint=lambda X: X[:, 0] <= 58)
    whole = box.every_point()
    rng = np.random.default_rng(0)
    left, X = np.split(rng.permutation(whole), [4])
    sampler = VariationSampler(box, draw=draw, random_state=0).fit(X, np.ones(len(X)))
    assert {tuple(x) for x in sampler.sample(4)} == {tuple(x) for x in left}
    with pytest.raises(InputError, match="has 0 free points left, expected 1"):
        sampler.sample(1)


def test_a_design_larger_than_its_domain_is_refused_before_anything_is_run():
    def never(X):
        raise AssertionError("run")

    bounds = {"n": Integer(1, 4), "m": ["a", "b"]}
    with pytest.raises(InputError, match=r"the domain holds 8 different points, n_runs asks for 9"):
        design(never, bounds, 9, n_initial=4)
    with pytest.raises(InputError, match="the domain holds 2 different points"):
        design(never, bounds, 9, n_initial=4, constraint=lambda X: X[:, 0] == 2)


@pytest.mark.parametrize("strategy", [Adaptive(), Variance(), Even()], ids=repr)
def test_a_design_can_hold_every_point_of_a_discrete_domain_once(strategy):
    bounds = {"n": Integer(1, 4), "m": ["a", "b", "c"]}
    plan = design(
        lambda X: X[:, 0] ** 2 + X[:, 1], bounds, 12, n_initial=7, strategy=strategy, fixed=[[2, 1]], random_state=0
    )
    assert len(np.unique(plan.X, axis=0)) == 12
    assert plan.X[0].tolist() == [2, 1]


def test_a_random_draw_goes_on_where_no_weight_is_left():
    drawn = random_draw(np.array([0.0, 0.0, 3.0, 0.0]), 3, np.random.default_rng(0))
    assert len(set(drawn.tolist())) == 3
    assert drawn[0] == 2


def test_a_fill_goes_on_far_from_what_is_there_where_no_weight_is_left():
    pool = np.linspace(0, 1, 11)[:, None]
    weights = np.where(np.arange(11) == 0, 1.0, 0.0)
    assert greedy_fill(pool, weights, np.full(11, np.inf), 3).tolist() == [0, 10, 5]


def test_a_sampler_without_points_draws_evenly_clear_of_what_is_occupied():
    sampler = VariationSampler([(0, 1)], draw="fill", random_state=0)
    none = np.empty((0, 1))
    drawn = sampler.fit_unit(none, none, np.empty(0), occupied=np.array([[0.0], [1.0]])).sample(1)
    assert drawn[0, 0] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("unit", [1e-300, 1.0, 1e300])
def test_the_unit_of_variation_changes_nothing(unit):
    X = np.linspace(0, 1, 9)[:, None]
    for draw in DRAWS:
        drawn = [
            VariationSampler([(0, 1)], draw=draw, random_state=0).fit(X, c * (X[:, 0] + 0.1)).sample(5)
            for c in (1.0, unit)
        ]
        np.testing.assert_allclose(drawn[0], drawn[1])


def test_the_pool_reaches_faces_and_corners():
    pool = candidate_pool(Box([(0, 1)] * 2), 10, np.random.default_rng(0))
    assert {(0, 0), (0, 1), (1, 0), (1, 1)} <= {tuple(p) for p in pool[((pool == 0) | (pool == 1)).all(axis=1)]}


def test_relevance_finds_the_axes_that_matter():
    U = np.random.default_rng(0).random((400, 4))
    scale = axis_relevance(U, np.sin(4 * U[:, :1]) + 0.1 * U[:, 1:2])
    assert scale.argmax() == 0
    assert np.prod(scale) == pytest.approx(1)
    np.testing.assert_array_equal(axis_relevance(U, np.ones((400, 1))), 1.0)


def test_runs_of_a_smooth_function_of_one_input_do_not_pile_up():
    plan = design(lambda X: np.exp(X[:, 0]), [(0, 1)], 30, random_state=1)
    gaps = np.diff(np.sort(plan.X[:, 0]))
    assert (gaps < 1e-3).sum() <= 1  # 25 before the distance decided where all doubt is rounding
