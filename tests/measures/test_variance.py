import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from steep import SteepWarning, neighbor_graph, neighbor_variance, perturbation_variance
from steep.exceptions import InputError, InputTypeError
from steep.labels import check_labels
from steep.measures.variance import prefix_variances

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
LABELS = {
    "regression": RNG.normal(size=60),
    "several outputs": RNG.normal(size=(60, 2)),
    "classes": RNG.integers(0, 4, 60),
    "names": np.array(["cat", "dog", "eel"])[RNG.integers(0, 3, 60)],
    "multi-label": RNG.integers(0, 2, (60, 3)),
    "truth": RNG.random(60) > 0.5,
}


def columns(kind):
    y = LABELS[kind]
    if kind in ("classes", "names", "truth"):
        return oracle.one_hot(y.tolist())
    return y.reshape(60, -1).astype(float)


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("k", [2, 7, 59])
def test_neighbor_variance_is_the_equation(kind, include_self, k):
    given = neighbor_variance(X, LABELS[kind], n_neighbors=k, include_self=include_self)
    np.testing.assert_allclose(given, oracle.neighbor_variance(X, columns(kind), k, include_self), atol=1e-12)


@pytest.mark.parametrize("kind", ["regression", "classes", "multi-label"])
def test_prefix_variances_are_the_variances_of_each_k(kind):
    labels = check_labels(LABELS[kind], n_samples=60)
    indices = neighbor_graph(X, n_neighbors=30)[1]
    sizes = [30, 2, 11]
    expected = [neighbor_variance(X, LABELS[kind], n_neighbors=k) for k in sizes]
    np.testing.assert_allclose(prefix_variances(labels, indices, sizes), expected, atol=1e-12)


@given(shift=st.floats(-1e3, 1e3), scale=st.floats(-50, 50), seed=st.integers(0, 99))
def test_neighbor_variance_ignores_a_shift_and_squares_a_scale(shift, scale, seed):
    y = np.random.default_rng(seed).normal(size=60)
    base = neighbor_variance(X, y, n_neighbors=5)
    np.testing.assert_allclose(neighbor_variance(X, scale * y + shift, n_neighbors=5), scale**2 * base, atol=1e-7)


@settings(max_examples=25)
@given(seed=st.integers(0, 999))
def test_neighbor_variance_follows_a_permutation_and_ignores_an_isometry(seed):
    rng = np.random.default_rng(seed)
    y, order = LABELS["classes"], rng.permutation(60)
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    base = neighbor_variance(X, y, n_neighbors=6)
    np.testing.assert_allclose(neighbor_variance(X[order], y[order], n_neighbors=6), base[order])
    np.testing.assert_allclose(neighbor_variance(X @ rotation + 5.0, y, n_neighbors=6), base)


def test_renaming_classes_changes_nothing():
    y = LABELS["classes"]
    renamed = np.array(["z", "b", "q", "a"])[y]
    np.testing.assert_array_equal(neighbor_variance(X, y), neighbor_variance(X, renamed))


def test_a_large_common_offset_costs_no_digits():
    y = np.random.default_rng(1).integers(0, 1024, 60) / 1024  # exact next to 1e9
    near, far = (neighbor_variance(X, y + offset, n_neighbors=20) for offset in (0.0, 1e9))
    np.testing.assert_allclose(far, near, rtol=1e-6)


def test_a_distant_cluster_of_huge_labels_does_not_spoil_the_rest():
    points = np.vstack([X, X + 1e4])
    y = np.concatenate([LABELS["regression"], LABELS["regression"] + 1e12])
    np.testing.assert_allclose(neighbor_variance(points, y)[:60], neighbor_variance(X, y[:60]), rtol=1e-9)


def test_a_graph_passed_in_is_used():
    graph = neighbor_graph(X, n_neighbors=25)
    expected = neighbor_variance(X, LABELS["classes"], n_neighbors=9)
    for form in (graph, graph[1]):
        np.testing.assert_array_equal(neighbor_variance(X, LABELS["classes"], n_neighbors=9, neighbors=form), expected)
    shuffled = np.roll(graph[1], 1, axis=0)
    assert not np.array_equal(neighbor_variance(X, LABELS["classes"], n_neighbors=9, neighbors=shuffled), expected)


def test_pandas_and_lists_are_taken_as_they_are():
    frame = pd.DataFrame(X, columns=list("abc"))
    target = pd.Series(LABELS["names"]).astype("category")
    expected = neighbor_variance(X, LABELS["names"])
    np.testing.assert_array_equal(neighbor_variance(frame, target), expected)
    np.testing.assert_array_equal(neighbor_variance(X.tolist(), LABELS["names"].tolist()), expected)


def test_several_class_columns_are_one_hot_each():
    y = np.column_stack([LABELS["classes"], LABELS["classes"][::-1]])
    parts = [neighbor_variance(X, y[:, j]) for j in (0, 1)]
    np.testing.assert_allclose(neighbor_variance(X, y), parts[0] + parts[1])


def test_integers_read_as_quantities_when_told_so():
    y = LABELS["classes"]
    np.testing.assert_array_equal(neighbor_variance(X, y, task="regression"), neighbor_variance(X, y.astype(float)))


def test_integers_that_look_like_quantities_are_read_so_with_a_warning():
    with pytest.warns(SteepWarning, match="60 different integers and is read as numbers.*task='regression'"):
        found = neighbor_variance(X, np.arange(60))
    np.testing.assert_array_equal(found, neighbor_variance(X, np.arange(60.0)))


@pytest.mark.parametrize("center", ["mean", "point"])
def test_perturbation_variance_is_the_equation(center):
    f = lambda X: np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]  # noqa: E731
    given = perturbation_variance(f, X[:4], epsilon=[0.1, 0.2, 0.3], n_draws=6, center=center, random_state=3)
    noise = np.random.default_rng(3).standard_normal((6, 4, 3)) * np.sqrt([0.1, 0.2, 0.3])
    one = lambda x: f(x[None])[0]  # noqa: E731
    expected = [oracle.perturbation_variance(one, X[i], noise[:, i], center) for i in range(4)]
    np.testing.assert_allclose(given, expected, rtol=1e-12)


def test_centring_on_the_point_adds_the_squared_curvature():
    """Eq. Dhat exceeds the variance by (½ ε tr H)²: for f = x² at 0, ε² on top of 2ε²."""
    kwargs = {"epsilon": 0.1, "n_draws": 200_000, "random_state": 0}
    square = lambda X: X[:, 0] ** 2  # noqa: E731
    mean = perturbation_variance(square, [[0.0]], center="mean", **kwargs).item()
    point = perturbation_variance(square, [[0.0]], center="point", **kwargs).item()
    assert mean == pytest.approx(0.02, rel=0.05)
    assert point == pytest.approx(0.03, rel=0.05)


@pytest.mark.parametrize(
    ("points", "labels", "kwargs", "error", "message"),
    [
        (X, LABELS["regression"][:-1], {}, InputError, r"y has shape \(59,\) for 60 samples"),
        (X[:, 0], LABELS["regression"], {}, InputError, r"X has shape \(60,\).*Reshape your data"),
        (np.where(X > 2, np.nan, X), LABELS["regression"], {}, InputError, r"X contains NaN, first at \[\d+, \d\]"),
        (np.where(X > 2, np.inf, X), LABELS["regression"], {}, InputError, r"X contains infinity \(inf\)"),
        (X, np.where(X[:, 0] > 1, np.nan, X[:, 0]), {}, InputError, "y contains NaN, first at sample"),
        (X, np.where(X[:, 0] > 1, np.inf, X[:, 0]), {}, InputError, "y contains infinity"),
        (X, [None] * 60, {}, InputError, "y contains NaN, infinity .inf. or None, first at sample 0"),
        (X, None, {}, InputError, "y is None"),
        (X, ["a"] * 60, {"task": "regression"}, InputError, "y is not numeric.*task='classification'"),
        (X.astype(str), LABELS["regression"], {"n_neighbors": 500}, InputError, "n_neighbors=500 needs at least 500"),
        (np.full((60, 1), "a"), LABELS["regression"], {}, InputError, "X is not numeric.*encode text"),
        (np.full((60, 1), {}), LABELS["regression"], {}, InputTypeError, "X is not numeric"),
        (X, LABELS["regression"], {"n_neighbors": 61}, InputError, "n_neighbors=61 needs at least 61 samples, got 60"),
        (X, LABELS["regression"], {"n_neighbors": 1}, InputError, "n_neighbors=1 is too small"),
        (X, LABELS["regression"], {"n_neighbors": 5.0}, InputTypeError, "n_neighbors=5.0 is a float"),
        (X, LABELS["regression"], {"task": "guess"}, InputError, "task='guess' is unknown"),
        (X, LABELS["regression"], {"neighbors": np.zeros((60, 3), int)}, InputError, r"neighbors has shape \(60, 3\)"),
        (X, LABELS["regression"], {"neighbors": np.full((60, 20), 60)}, InputError, "points at sample 60 of 60"),
        (X, LABELS["regression"], {"neighbors": np.ones((60, 20))}, InputTypeError, "neighbors has dtype float64"),
        (X + 1j, LABELS["regression"], {}, InputError, "X is complex"),
        (X[:0], LABELS["regression"][:0], {}, InputError, r"X has 0 sample\(s\) \(shape=\(0, 3\)\)"),
    ],
)
def test_bad_input_says_what_was_got_and_what_to_do(points, labels, kwargs, error, message):
    with pytest.raises(error, match=message):
        neighbor_variance(points, labels, **kwargs)


def test_sixty_one_neighbours_without_self_need_sixty_two_samples():
    with pytest.raises(InputError, match="n_neighbors=50 needs at least 51 samples, got 40; lower n_neighbors"):
        neighbor_graph(RNG.normal(size=(40, 2)), n_neighbors=50, include_self=False)


@pytest.mark.parametrize("include_self", [True, False])
def test_duplicates_never_break_self_inclusion(include_self):
    points = np.repeat(RNG.normal(size=(4, 2)), 10, axis=0)
    indices = neighbor_graph(points, n_neighbors=5, include_self=include_self)[1]
    own = indices == np.arange(40)[:, None]
    assert own[:, 0].all() == include_self
    assert own.sum() == (40 if include_self else 0)
    assert all(len(set(row)) == 5 for row in indices.tolist())
