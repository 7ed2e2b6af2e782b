import inspect

import numpy as np
import pytest
from scipy import stats

from reproduction.problems import bateman, runge
from steep import (
    Adaptive,
    Box,
    Even,
    Integer,
    SteepError,
    SteepWarning,
    Taylor,
    Variance,
    VariationSampler,
    design,
    neighbor_variance,
    taylor_variation,
)
from steep.exceptions import AcceptanceError, FunctionError, InputError
from steep.measures import MEASURES, Measure
from steep.measures.surprise import surprise_variation

BATEMAN = {"u0": (0.0, 1.0), "eta0": (0.01, 1.0), "t": (0.0, 10.0)}


@pytest.mark.parametrize("bounds", [[(0, 1)], [(-5.0, 5.0), (100.0, 101.0)], [(0, 1)] * 4])
@pytest.mark.parametrize("floor", [0.0, 0.5, 1.0])
def test_draws_stay_inside_the_domain(bounds, floor):
    box = Box(bounds)
    X = box.sobol(64, random_state=0)
    variation = np.exp(-4 * box.unit(X).sum(axis=1))  # piled up in a corner
    drawn = VariationSampler(bounds, floor=floor, random_state=1).fit(X, variation).sample(300)
    assert drawn.shape == (300, len(bounds))
    assert box.contains(drawn).all()


def test_draws_follow_the_truncated_density():
    X = np.linspace(0, 1, 400)[:, None]
    sampler = VariationSampler([(0, 1)], n_components=1, random_state=0).fit(X, np.exp(-3 * X[:, 0]))
    drawn = sampler.sample(20_000)[:, 0]
    mean, sd = sampler.mixture_.means_.item(), np.sqrt(sampler.mixture_.covariances_.item())
    truncated = stats.truncnorm((0 - mean) / sd, (1 - mean) / sd, loc=mean, scale=sd)
    assert stats.kstest(drawn, truncated.cdf).pvalue > 1e-3


def test_the_units_of_the_box_change_nothing():
    X = np.random.default_rng(0).random((50, 2))
    variation = X[:, 0] ** 2
    scale, shift = np.array([1000.0, 0.01]), np.array([-7.0, 3.0])
    unit = VariationSampler([(0, 1)] * 2, random_state=0).fit(X, variation).sample(20)
    wide = VariationSampler(np.c_[shift, shift + scale], random_state=0).fit(X * scale + shift, variation).sample(20)
    np.testing.assert_allclose((wide - shift) / scale, unit, atol=1e-9)


def test_temper_flattens_the_density():
    X = np.linspace(0, 1, 200)[:, None]
    variation = np.exp(-(((X[:, 0] - 0.5) / 0.05) ** 2)) + 1e-3
    spreads = [
        VariationSampler([(0, 1)], n_components=1, temper=t, random_state=0).fit(X, variation).sample(2000).std()
        for t in (1.0, 0.5, 0.0)
    ]
    assert spreads[0] < spreads[1] < spreads[2]


def test_floor_is_the_share_drawn_uniformly():
    X = np.linspace(0, 1, 200)[:, None]
    variation = np.where(np.abs(X[:, 0] - 0.8) < 0.02, 1.0, 0.0)
    drawn = VariationSampler([(0, 1)], floor=0.3, n_components=1, random_state=0).fit(X, variation).sample(10_000)
    assert np.mean(drawn < 0.5) == pytest.approx(0.15, abs=4 * np.sqrt(0.15 * 0.85 / 10_000))


def test_zero_variation_falls_back_to_uniform_with_a_warning():
    sampler = VariationSampler([(0, 1)], random_state=0)
    with pytest.warns(SteepWarning, match="variation is zero at every point"):
        sampler.fit(np.linspace(0, 1, 9)[:, None], np.zeros(9))
    assert stats.kstest(sampler.sample(5000)[:, 0], "uniform").pvalue > 1e-3


def test_a_density_outside_the_domain_reports_its_acceptance_rate():
    sampler = VariationSampler([(0, 1)], n_components=1, random_state=0).fit([[0.0], [1.0]], [1.0, 1.0])
    sampler.mixture_.means_[:] = 100.0
    with pytest.raises(
        AcceptanceError, match=r"acceptance rate 0\), expected 5; raise n_components or floor"
    ) as caught:
        sampler.sample(5)
    assert isinstance(caught.value, RuntimeError)


def test_successive_draws_continue_one_stream():
    X, variation = np.linspace(0, 1, 9)[:, None], np.arange(9.0)
    sampler = VariationSampler([(0, 1)], random_state=0).fit(X, variation)
    first, second = sampler.sample(5), sampler.sample(5)
    assert not np.array_equal(first, second)
    again = sampler.fit(X, variation)
    np.testing.assert_array_equal(again.sample(5), first)


def test_the_paper_variant_is_algorithm_1_line_by_line():
    rng = np.random.default_rng(42)
    start = np.linspace(0, 1, 8)[:, None]  # line 2, on a grid as in the experiments
    variation = taylor_variation(runge, start, order=2, epsilon=1e-3, bounds=[(0, 1)])  # lines 3-6
    drawn = VariationSampler([(0, 1)], n_components=3, random_state=rng).fit(start, variation).sample(8)  # 7-8
    X = np.vstack([start, drawn])
    plan = design(runge, [(0, 1)], 16, n_initial=8, strategy=Taylor(), fixed=start, random_state=42)
    np.testing.assert_allclose(plan.X, X, atol=1e-9)
    np.testing.assert_allclose(plan.y, runge(plan.X))  # lines 9-10
    np.testing.assert_allclose(plan.variation[:8], variation, rtol=1e-6)
    assert np.isnan(plan.variation[8:]).all()
    assert plan.is_initial.tolist() == [True] * 8 + [False] * 8
    assert plan.n_evaluations == 16 + 8 * 3


def test_points_gather_where_runge_is_steep():
    plan = design(runge, [(0, 1)], 464, n_initial=64, strategy=Taylor(), random_state=0)
    drawn = plan.X[~plan.is_initial, 0]
    assert np.mean(np.abs(drawn - 0.5) < 0.25) > 0.8


def test_design_of_several_inputs_and_outputs():
    plan = design(bateman, BATEMAN, 104, n_initial=64, strategy=Adaptive("taylor"), random_state=0)
    assert plan.X.shape == (104, 3)
    assert plan.y.shape == (104, 2)
    np.testing.assert_allclose(plan.y, bateman(plan.X))
    assert plan.n_evaluations == 104 + 64 * (1 + 6 + 12)


def test_given_derivatives_cost_no_evaluation_and_are_taken_in_the_users_units():
    f = lambda X: (X[:, 0] / 10) ** 2  # noqa: E731
    by_hand = lambda X, k: np.where(k.sum(1)[:, None, None] == 1, 2 * X[:, :1] / 100, 0.02)  # noqa: E731
    given, differences = (
        design(f, [(0, 10)], 25, n_initial=20, strategy=Taylor(derivatives=d), random_state=0) for d in (by_hand, None)
    )
    assert given.n_evaluations == 25
    assert differences.n_evaluations == 25 + 20 * 3
    np.testing.assert_allclose(given.variation[:20], differences.variation[:20], rtol=1e-3)


def test_auto_costs_no_evaluation_and_takes_surprise_unless_derivatives_are_given():
    auto, surprise = (
        design(runge, [(0, 1)], 50, n_initial=40, strategy=Adaptive(m, rounds=1), random_state=0)
        for m in ("auto", "surprise")
    )
    np.testing.assert_array_equal(auto.X, surprise.X)
    assert auto.n_evaluations == 50
    np.testing.assert_allclose(auto.variation[:40], surprise_variation(auto.X[:40], auto.y[:40]))


def test_the_neighbour_measure_is_the_papers_third_methodology():
    plan = design(runge, [(0, 1)], 50, n_initial=40, strategy=Adaptive("neighbors", rounds=1), random_state=0)
    labels = plan.y[:40] / plan.y[:40].std()
    np.testing.assert_allclose(plan.variation[:40], neighbor_variance(plan.X[:40], labels, n_neighbors=10))


def test_any_measure_may_be_passed():
    plan = design(
        runge, [(0, 1)], 100, n_initial=50, strategy=Adaptive(lambda X, y: (X[:, 0] > 0.9) * y), random_state=0
    )
    assert np.median(plan.X[50:, 0]) > 0.85


@pytest.mark.parametrize("strategy", [Adaptive(), Taylor(), Variance(), Even()], ids=repr)
def test_designs_follow_the_seed(strategy):
    plans = [design(runge, [(0, 1)], 14, n_initial=9, strategy=strategy, random_state=s).X for s in (0, 0, 1)]
    np.testing.assert_array_equal(plans[0], plans[1])
    assert not np.array_equal(plans[0], plans[2])


def test_a_function_of_one_point_gives_the_same_design():
    many = design(bateman, BATEMAN, 20, n_initial=16, strategy=Adaptive("taylor"), random_state=0)
    one = design(
        lambda x: bateman(x[None])[0],
        BATEMAN,
        20,
        n_initial=16,
        strategy=Adaptive("taylor"),
        random_state=0,
        pass_as="point",
    )
    np.testing.assert_allclose(one.X, many.X)


def test_a_function_is_never_called_outside_the_domain():
    def strict(X):
        assert Box(BATEMAN).contains(X).all()
        return bateman(X)

    box = Box(BATEMAN)
    corners = box.lower + box.width * np.array(list(np.ndindex(3, 3, 3))) / 2
    plan = design(strict, BATEMAN, 47, n_initial=27, strategy=Adaptive("taylor"), fixed=corners, random_state=0)
    assert len(plan.X) == 47


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"strategy": Adaptive("steepness")}, "measure='steepness' is unknown; expected one of 'taylor', "),
        ({"strategy": Adaptive("misfit")}, "measure='misfit' asks the model .* which design cannot give it"),
        ({"strategy": Adaptive("border")}, "measure='border' asks the model"),
        ({"strategy": Adaptive(3)}, "measure=3 is a int"),
        ({"strategy": Adaptive(np.ones(3))}, "is a ndarray"),
        ({"strategy": "paper"}, "strategy='paper' is a str; expected Adaptive"),
        ({"strategy": Adaptive}, "is a type; expected Adaptive"),
        ({"fixed": [[0.1, 0.2]]}, "fixed has 2 columns, expected 1"),
        ({"fixed": "points"}, "fixed is not numeric|fixed has shape"),
        ({"fixed": [[None]]}, "fixed"),
        ({"fixed": 3}, r"fixed has shape \(\)"),
        ({"strategy": lambda: Variance(n_neighbors=0)}, "n_neighbors=0 is too small"),
        ({"strategy": lambda: Variance(n_neighbors="many")}, "n_neighbors='many' is a str"),
        ({"strategy": lambda: Taylor(order="two")}, "order='two' is a str"),
        ({"strategy": Taylor(order=200)}, "order=200 is too large"),
        ({"strategy": Taylor(epsilon="small")}, "epsilon is not numeric"),
        ({"strategy": Adaptive("perturbation", epsilon=[1e-3, 1e-3])}, r"epsilon has shape \(2,\)"),
        ({"strategy": Taylor(derivatives=5)}, "derivatives is a int; expected a callable"),
        ({"strategy": Taylor(derivatives=lambda X, k: "text")}, "derivatives returned a str"),
        (
            {"strategy": Taylor(derivatives=lambda X, k: np.ones((5, 5)))},
            r"derivatives returned shape \(5, 5\); expected \(2, 8, n_outputs\)",
        ),
        ({"strategy": lambda: Adaptive(rounds=2.5)}, "rounds=2.5 is a float"),
        ({"strategy": lambda: Taylor(n_components=0)}, "n_components=0 is too small"),
        ({"pass_as": "rows"}, "pass_as='rows' is unknown"),
        ({"constraint": 3}, "constraint is a int"),
        ({"n_initial": 2}, "measure='surprise' needs at least 3 points, got 2; raise n_initial"),
        ({"n_initial": 13}, "n_initial=13 is larger than n_runs=12, which counts all runs; lower"),
        ({"n_initial": 1}, "n_initial=1 is too small"),
        ({"n_runs": 0}, "n_runs=0 is too small"),
        ({"strategy": lambda: Taylor(order=0)}, "order=0 is too small"),
        ({"strategy": Taylor(epsilon=0.0)}, r"epsilon=0\.0 is out of range"),
        ({"strategy": Adaptive(lambda X, y: -y)}, r"measure\(X, y\)\[\d\] is -"),
        ({"strategy": Adaptive(lambda X, y: y[:3])}, r"measure\(X, y\) has shape \(3,\); expected \(8,\)"),
        ({"strategy": Variance(n_neighbors=9)}, "n_neighbors=9 needs at least 9 samples, got 8"),
        ({"random_state": "seed"}, "random_state='seed' is a str"),
        ({"random_state": -1}, "random_state=-1 is negative"),
    ],
)
def test_bad_input_is_refused(kwargs, message):
    def attempt(strategy=None, **options):
        strategy = strategy() if inspect.isfunction(strategy) else strategy
        design(runge, [(0, 1)], strategy=strategy, **{"n_runs": 12, "n_initial": 8} | options)

    with pytest.raises(SteepError, match=message):
        attempt(**kwargs)


def test_a_function_that_fails_everywhere_says_where_in_the_users_units():
    with pytest.raises(FunctionError, match=r"failed at all 5 points of the start, first at \(0\): NaN or infinity"):
        design(lambda X: X[:, 0] * np.nan, [(0, 400)], 6, n_initial=5, fixed=[[0.0]])


@pytest.mark.parametrize(
    ("X", "variation", "message"),
    [
        ([[0.5], [2.0]], [1.0, 1.0], r"X\[1\] lies outside Box"),
        ([[0.5]], [1.0, 1.0], r"variation has shape \(2,\); expected \(1,\)"),
        ([[0.5, 0.5]], [1.0], "X has 2 columns, expected 1"),
    ],
)
def test_a_sampler_refuses_points_it_cannot_use(X, variation, message):
    with pytest.raises(InputError, match=message):
        VariationSampler([(0, 1)]).fit(X, variation)


def test_a_sampler_without_density_says_so():
    with pytest.raises(InputError, match="call fit"):
        VariationSampler([(0, 1)]).sample(3)


def test_a_function_that_changes_its_points_leaves_the_design_alone():
    def greedy(X):
        values = runge(X)
        X /= 2
        return values

    def row(x):
        value = float(runge(x[None])[0])
        x /= 2
        return value

    for measure in ("surprise", "taylor", "perturbation"):
        options = {"n_runs": 14, "n_initial": 8, "strategy": Adaptive(measure), "random_state": 0}
        plan = design(runge, [(0, 1)], **options)
        np.testing.assert_array_equal(design(greedy, [(0, 1)], **options).X, plan.X)
        np.testing.assert_allclose(design(row, [(0, 1)], pass_as="point", **options).X, plan.X)


def test_a_measure_that_changes_its_points_leaves_the_design_alone():
    def greedy(X, y):
        X *= 0
        y *= 0
        return np.ones(len(X))

    plan = design(runge, [(0, 1)], 14, n_initial=8, strategy=Adaptive(greedy), random_state=0)
    assert (plan.X > 0).any()
    np.testing.assert_allclose(plan.y, runge(plan.X))


@pytest.mark.parametrize("name", [name for name, measure in MEASURES.items() if measure.needs != "model"])
def test_every_measure_that_asks_no_model_makes_a_design(name):
    wall = lambda X: np.tanh(20 * (X[:, 0] - 0.5)) + 0.1 * X[:, 1]  # noqa: E731
    plan = design(wall, [(0, 1)] * 2, 36, n_initial=24, strategy=Adaptive(name), random_state=0)
    again = design(wall, [(0, 1)] * 2, 36, n_initial=24, strategy=Adaptive(MEASURES[name]), random_state=0)
    assert plan.X.shape == (36, 2)
    assert np.isfinite(plan.variation[:24]).all()
    np.testing.assert_array_equal(plan.X, again.X)


def test_an_older_name_means_the_same_measure():
    plans = [
        design(runge, [(0, 1)], 18, n_initial=12, strategy=Adaptive(m), random_state=0).X
        for m in ("neighbors", "variance")
    ]
    np.testing.assert_array_equal(*plans)


def test_measures_of_labels_see_embedded_points_and_standardised_labels():
    seen = []

    def watch(around):
        seen.append(around)
        return np.ones(len(around.points))

    bounds = {"x": (0, 100), "m": ["a", "b", "c"]}
    design(
        lambda X: 1e6 + 1e3 * X[:, 0],
        bounds,
        12,
        n_initial=9,
        strategy=Adaptive(Measure("watch", watch, size=lambda n, d: 4), rounds=1),
        random_state=0,
    )
    (around,) = seen
    assert around.points.shape == (9, 4)
    assert around.points.max() <= 1
    assert around.indices.shape == (9, 4)
    assert around.indices[:, 0].tolist() == list(range(9))
    np.testing.assert_allclose([around.labels.array.mean(), around.labels.array.std()], [0, 1], atol=1e-9)


def test_draws_of_a_perturbation_are_counted_and_carried_on():
    plan = design(runge, [(0, 1)], 20, n_initial=10, strategy=Adaptive("perturbation", rounds=2), random_state=0)
    assert plan.n_evaluations == 20 + 20 * 15  # measured at the start and at the first round's five
    assert design(runge, [(0, 1)], 20, n_initial=10, strategy=Adaptive("perturbation")).n_evaluations == 20 + 200


@pytest.mark.parametrize("measure", ["taylor", "perturbation"])
def test_a_measure_that_evaluates_never_leaves_the_domain(measure):
    def disc(X):
        return ((X - [0, 5]) ** 2).sum(axis=1) <= 25

    bounds = [(0, 5), (0, 10)]

    def strict(X):
        assert Box(bounds, constraint=disc).contains(X).all()
        return X[:, 0] ** 2 + np.tanh(X[:, 1] - 5)

    plan = design(
        strict, bounds, 50, n_initial=30, strategy=Adaptive(measure, epsilon=0.05), constraint=disc, random_state=0
    )
    assert (plan.variation[:30] > 0).all()


def test_a_perturbation_works_on_whole_numbers_and_categories():
    bounds = {"n": Integer(1, 9), "m": ["a", "b"], "x": (0.0, 1.0)}

    def f(X):
        assert Box(bounds).contains(X).all()
        return X.sum(axis=1)

    plan = design(f, bounds, 18, n_initial=12, strategy=Adaptive("perturbation", epsilon=0.1), random_state=0)
    assert (plan.variation[:12] > 0).all()


def test_a_function_whose_outputs_change_in_number_is_refused():
    calls = []

    def moody(X):
        calls.append(1)
        return np.ones((len(X), len(calls))) * X[:, :1]

    with pytest.raises(FunctionError, match=r"returned different sizes for different points: \[1, 2\]"):
        design(moody, [(0, 1)], 10, n_initial=6, random_state=0)


def test_a_printed_design_is_one_line_that_says_how_the_runs_came_about():
    plan = design(lambda X: X[:, 0] ** 2, {"x": (0, 1)}, 16, n_initial=8, random_state=0)
    assert str(plan) == f"Design of 16 runs over x: {plan.parts}"
    assert "8 initial" in str(plan)
