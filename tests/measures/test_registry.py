import numpy as np
import pytest

from measured import measure_variation
from steep.exceptions import InputError, InputTypeError, SteepError
from steep.labels import check_labels
from steep.measures import MEASURES, FunctionAround, Measure, Neighborhood, resolve

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
VALUES = RNG.normal(size=80)


@pytest.mark.parametrize("name", MEASURES)
def test_names_are_found_and_are_their_own(name):
    assert resolve(name, use="here", feeds=("function", "labels", "model")) is MEASURES[name]
    assert MEASURES[name].name == name


def test_the_older_name_of_the_papers_measure_still_works():
    assert resolve("neighbors", use="design", feeds=("labels",)) is MEASURES["variance"]


@pytest.mark.parametrize("odd", [None, 3, ["variance"], object()])
def test_what_is_no_measure_is_refused(odd):
    with pytest.raises(InputTypeError, match="expected one of 'variance'"):
        resolve(odd, use="here", feeds=("labels",))


def test_a_measure_of_the_callers_own_gets_the_data_as_they_know_them_and_may_change_them():
    seen = []

    def own(points, labels):
        seen.append((points.copy(), labels.copy()))
        points[:] = 0
        return np.ones(len(points))

    before = X.copy()
    measure_variation(X, VALUES, measure=own)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(seen[0][0], before)
    np.testing.assert_array_equal(seen[0][1], VALUES)


@pytest.mark.parametrize("name", [name for name, m in MEASURES.items() if m.needs == "labels"])
def test_many_sizes_in_one_pass_are_those_of_each_size(name):
    around = Neighborhood.of(X, VALUES, n_neighbors=15)
    sizes = [5, 15, 9]
    expected = [measure_variation(X, VALUES, measure=name, n_neighbors=k) for k in sizes]
    np.testing.assert_allclose(MEASURES[name].variations(around, sizes), expected, atol=1e-10)


@pytest.mark.parametrize("name", [name for name, m in MEASURES.items() if m.needs == "function"])
def test_measures_of_a_function_see_its_slope(name):
    points = np.array([[0.1], [0.9]])
    around = FunctionAround(lambda X: 3 * X[:, 0] ** 2, points, epsilon=1e-4, n_draws=4000, random_state=0)
    flat, steep = MEASURES[name].variation(around)
    assert steep / flat == pytest.approx(81, rel=0.15)


def test_too_few_neighbours_for_a_measure_are_refused():
    with pytest.raises(InputError, match="n_neighbors=2 is too small; expected a whole number ≥ 3"):
        measure_variation(X, VALUES, measure="density", n_neighbors=2)


def test_a_measure_can_be_passed_as_such():
    ones = Measure("ones", lambda around: np.ones(len(around.points)))
    np.testing.assert_array_equal(measure_variation(X, VALUES, measure=ones), np.ones(80))


def odd_arguments(seed):
    """One odd call of the doors of this room."""
    rng = np.random.default_rng(seed)
    shapes = [(), (0,), (7,), (7, 0), (7, 3), (30, 3), (30, 1), (3, 30), (2, 2, 2)]
    kinds = ["f", "i", "U", "O", "M", "b", "c", "nan", "inf", "huge"]

    def array(usual):
        shape = usual if rng.random() < 0.7 else shapes[rng.integers(len(shapes))]
        kind = "f" if rng.random() < 0.4 else kinds[rng.integers(len(kinds))]
        values = rng.normal(size=shape)
        if kind == "huge":
            return values * 1e300
        if kind in ("nan", "inf"):
            return np.where(rng.random(shape) < 0.2, float(kind), values)
        if kind == "M":
            return (values * 1e9).astype("datetime64[s]")
        return {"O": lambda: values.astype(object), "c": lambda: values + 1j}.get(
            kind, lambda: (values * 3).astype(kind)
        )()

    scalars = [None, True, -1, 0, 1, 2, 5, 10**400, 2.5, "3", np.int8(4), np.nan, [5], {}]
    arguments = {
        "measure": [*MEASURES, None, 7, "x", lambda X, y: None, lambda X, y: -np.ones(len(X))][
            rng.integers(len(MEASURES) + 5)
        ],
        "n_neighbors": scalars[rng.integers(len(scalars))] if rng.random() < 0.5 else 5,
        "task": ["auto", "classification", "regression", "x", None][rng.integers(5)],
    }
    if rng.random() < 0.2:
        arguments["neighbors"] = array((30, 6))
    return array((30, 3)), array((30,)), arguments


@pytest.mark.filterwarnings("ignore")
def test_odd_arguments_work_or_are_refused_in_one_line():
    worked = 0
    for seed in range(1000):
        points, labels, arguments = odd_arguments(seed)
        rejected = ""
        try:
            variation = measure_variation(points, labels, **arguments)
        except SteepError as error:
            rejected = str(error)
        else:
            worked += 1
            assert variation.shape == (len(points),), seed
        assert "\n" not in rejected, (seed, rejected)
    assert worked > 20


def test_points_and_labels_are_checked_once_on_their_way(monkeypatch):
    """A walk of weights: what was checked or read is carried along, not derived again further down."""
    import steep.labels
    from steep import _validation, sample_weights

    calls = {"read": 0, "finite": 0}
    read, finite = steep.labels.label_array, _validation.check_size

    def reading(*args):
        calls["read"] += 1
        return read(*args)

    def checking(array, name):
        calls["finite"] += name == "X"
        return finite(array, name)

    monkeypatch.setattr(steep.labels, "label_array", reading)
    monkeypatch.setattr(_validation, "check_size", checking)
    sample_weights(X, VALUES)
    assert calls == {"read": 1, "finite": 1}


@pytest.mark.parametrize("name", [m.name for m in MEASURES.values() if not m.uses_points])
def test_measures_that_say_so_do_not_look_at_the_points(name):
    rng = np.random.default_rng(0)
    labels = check_labels(rng.integers(2, size=40), n_samples=40, task="classification")
    predicted = rng.random((40, 2))
    indices = np.column_stack([np.arange(40), rng.integers(40, size=(40, 4))])
    found = [
        MEASURES[name].variations(Neighborhood(points, labels, indices, predicted), [3, 5])
        for points in (rng.random((40, 3)), np.empty((40, 0)))
    ]
    np.testing.assert_array_equal(*found)
