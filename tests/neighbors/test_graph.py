"""Laws every engine of the neighbour graph keeps."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from neighbors_oracle import brute_force, engine_graph
from steep.exceptions import InputError, InputTypeError
from steep.neighbors import GraphInfo, exact, neighbor_graph

N = 1_200  # just above the size up to which everything is plain NumPy
EXACT = ["exact", "tree"]
ALL = [*EXACT, "partitioned"]


def gaussian(n=N, d=8, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def shapes():
    rng = np.random.default_rng(0)
    half = np.vstack([np.full((N // 2, 6), 0.1), rng.normal(size=(N // 2, 6))])
    lonely = rng.normal(size=(40, 5))
    return {
        "gaussian": gaussian(),
        "one feature": gaussian(d=1),
        "grid with ties": rng.integers(0, 4, size=(N, 3)),
        "half the points equal": half[rng.permutation(N)],
        "all points equal": np.full((N, 4), 0.1),
        "clusters of one": np.vstack([1e3 * lonely, rng.normal(size=(N - 40, 5))]),
        "two tight clusters far apart": np.repeat([[0.0], [1e4]], N // 2, axis=0) + 1e-3 * gaussian(d=3),
        "tiny spread, large offset": 1e6 + 1e-3 * gaussian(d=6),
        "huge numbers": 1e18 * gaussian(d=4),
    }


@pytest.mark.parametrize("algorithm", EXACT)
@pytest.mark.parametrize("shape", shapes())
def test_exact_engines_equal_brute_force(algorithm, shape):
    X = shapes()[shape]
    distances, indices = engine_graph(X, n_neighbors=9, include_self=False, algorithm=algorithm)
    true_distances, true_indices = brute_force(X, 9)
    np.testing.assert_allclose(distances, true_distances, rtol=2e-7)
    np.testing.assert_array_equal(indices, true_indices)


@pytest.fixture
def by_cells(monkeypatch):
    """Exact search by cells even for small data, whatever the share of pairs it would look at."""
    monkeypatch.setattr(exact, "WORTHWHILE", 0)
    monkeypatch.setattr(exact, "CELL", 40)
    monkeypatch.setattr(exact, "LARGE_SHARE", np.inf)


@pytest.mark.parametrize("reach", [0.0, exact.REACH])
@pytest.mark.parametrize("shape", shapes())
def test_exact_search_by_cells_equals_brute_force(shape, reach, by_cells, monkeypatch):
    monkeypatch.setattr(exact, "REACH", reach)
    X = shapes()[shape]
    distances, indices, info = engine_graph(X, n_neighbors=9, include_self=False, algorithm="exact", return_info=True)
    assert "complete" in info.seconds
    true_distances, true_indices = brute_force(X, 9)
    np.testing.assert_allclose(distances, true_distances, rtol=2e-7)
    np.testing.assert_array_equal(indices, true_indices)


def test_threads_do_not_matter_to_exact_search_by_cells(by_cells):
    X = shapes()["clusters of one"]
    alone, together = (engine_graph(X, algorithm="exact", n_jobs=n_jobs) for n_jobs in (1, 3))
    np.testing.assert_array_equal(alone[0], together[0])
    np.testing.assert_array_equal(alone[1], together[1])


@pytest.mark.parametrize(("n_hidden", "stage"), [(4, "complete"), (64, "tiles")])
def test_cells_are_used_where_the_data_have_structure(n_hidden, stage):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(exact.WORTHWHILE, n_hidden)) @ rng.normal(size=(n_hidden, 64))
    assert stage in engine_graph(X, algorithm="exact", return_info=True)[2].seconds


@pytest.mark.parametrize("shape", shapes())
def test_small_data_equal_brute_force(shape):
    X = shapes()[shape][::3]
    distances, indices = neighbor_graph(X, n_neighbors=9, include_self=False)
    true_distances, true_indices = brute_force(X, 9)
    np.testing.assert_allclose(distances, true_distances, rtol=2e-7)
    np.testing.assert_array_equal(indices, true_indices)


@pytest.mark.parametrize("algorithm", ALL)
@pytest.mark.parametrize("shape", shapes())
def test_a_point_is_its_own_first_neighbour_or_none(algorithm, shape):
    X = shapes()[shape]
    distances, indices = engine_graph(X, n_neighbors=5, algorithm=algorithm, random_state=0)
    np.testing.assert_array_equal(indices[:, 0], np.arange(N))
    assert (distances[:, 0] == 0).all()
    others, other_indices = engine_graph(X, n_neighbors=4, include_self=False, algorithm=algorithm, random_state=0)
    assert (other_indices != np.arange(N)[:, None]).all()
    np.testing.assert_array_equal(other_indices, indices[:, 1:])
    np.testing.assert_array_equal(others, distances[:, 1:])


@pytest.mark.parametrize("algorithm", ALL)
@pytest.mark.parametrize("shape", shapes())
def test_rows_are_sorted_and_without_repeats(algorithm, shape):
    distances, indices = engine_graph(
        shapes()[shape], n_neighbors=7, include_self=False, algorithm=algorithm, random_state=0
    )
    step, later = np.diff(distances, axis=1), np.diff(indices, axis=1)
    assert (step >= 0).all()
    assert (later[step == 0] > 0).all()
    assert all(len(set(row)) == 7 for row in indices)
    assert distances.dtype == np.float32
    assert indices.dtype == np.int32


@pytest.mark.parametrize("algorithm", ALL)
def test_equal_points_are_at_distance_zero(algorithm):
    X = np.repeat(gaussian(N // 2), 2, axis=0) + 3.3
    distances, _ = engine_graph(X, n_neighbors=2, algorithm=algorithm, random_state=0)
    assert (distances == 0).all()


@pytest.mark.parametrize("algorithm", ALL)
@pytest.mark.parametrize("n", [60, 1_100])
def test_every_other_point_can_be_asked_for(algorithm, n):
    X = gaussian(n, 3)
    _, indices = engine_graph(X, n_neighbors=n - 1, include_self=False, algorithm=algorithm, random_state=0)
    np.testing.assert_array_equal(np.sort(indices, axis=1)[::50], [np.delete(np.arange(n), q) for q in range(0, n, 50)])


def test_two_thousand_features_equal_brute_force():
    X = gaussian(1_010, 2_000)
    distances, indices = neighbor_graph(X, n_neighbors=5)
    true_distances, true_indices = brute_force(X, 5, include_self=True, rows=100)
    np.testing.assert_allclose(distances[:100], true_distances, rtol=2e-7)
    np.testing.assert_array_equal(indices[:100], true_indices)


@pytest.mark.parametrize("algorithm", EXACT)
def test_cosine_equals_brute_force(algorithm):
    X = gaussian(d=5) + 1.0
    distances, indices = engine_graph(X, n_neighbors=6, algorithm=algorithm, metric="cosine")
    true_distances, true_indices = brute_force(X, 6, include_self=True, metric="cosine")
    np.testing.assert_allclose(distances, true_distances, rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(indices, true_indices)


def test_cosine_ignores_length():
    X = gaussian(300, 5)
    scaled = X * np.exp(gaussian(300, 1, seed=1))
    near = neighbor_graph(X, n_neighbors=6, metric="cosine")[1]
    np.testing.assert_array_equal(neighbor_graph(scaled, n_neighbors=6, metric="cosine")[1], near)


def test_cosine_refuses_rows_of_zeros():
    with pytest.raises(InputError, match=r"1 row\(s\) of zeros, first at 2"):
        neighbor_graph([[1.0, 0], [0, 1], [0, 0]], n_neighbors=2, metric="cosine")


@pytest.mark.parametrize("n", [300, N])
@pytest.mark.parametrize("algorithm", ALL)
def test_layout_and_container_do_not_matter(algorithm, n, tmp_path):
    X = np.round(16 * gaussian(n, 6)).astype(np.int64)
    wide = np.zeros((2 * n, 12), np.float32)
    wide[::2, ::2] = X
    mapped = np.memmap(tmp_path / "points", dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    mapped.flush()
    mapped = np.memmap(tmp_path / "points", dtype=np.float64, mode="r", shape=X.shape)
    kinds = [
        X.astype(np.float32),
        np.asfortranarray(X, dtype=np.float64),
        wide[::2, ::2],
        mapped,
        pd.DataFrame(X),
        X.tolist(),
    ]
    wanted = engine_graph(X, n_neighbors=5, algorithm=algorithm, random_state=0)
    for given_X in kinds:
        distances, indices = engine_graph(given_X, n_neighbors=5, algorithm=algorithm, random_state=0)
        np.testing.assert_array_equal(indices, wanted[1])
        np.testing.assert_array_equal(distances, wanted[0])


@pytest.mark.parametrize("algorithm", ALL)
def test_the_number_of_threads_does_not_matter(algorithm):
    X = gaussian(4_000, 12)
    one = engine_graph(X, n_neighbors=10, algorithm=algorithm, n_jobs=1, random_state=3)
    for n_jobs in (2, 3, -1):
        many = engine_graph(X, n_neighbors=10, algorithm=algorithm, n_jobs=n_jobs, random_state=3)
        np.testing.assert_array_equal(many[1], one[1])
        np.testing.assert_array_equal(many[0], one[0])


@pytest.mark.parametrize("algorithm", ["brute", *EXACT])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 6))
@example(seed=24559, d=1)  # a mean of the reordered points rounds differently
@example(seed=31001701, d=4)  # two distances that differ only beyond float32
def test_reordering_the_points_reorders_the_graph(algorithm, seed, d):
    n = 200 if algorithm == "brute" else N
    algorithm = "auto" if algorithm == "brute" else algorithm
    X, order = gaussian(n, d, seed), np.random.default_rng(seed).permutation(n)
    distances, indices = engine_graph(X, n_neighbors=6, algorithm=algorithm)
    moved_distances, moved_indices = engine_graph(X[order], n_neighbors=6, algorithm=algorithm)
    np.testing.assert_array_equal(moved_distances, distances[order])
    # Distances that round to the same float32 are ties, which go to the lower index: another one once reordered.
    rows, places = np.nonzero(order[moved_indices] != indices[order])
    apart = np.linalg.norm(X[order[rows]] - X[order[moved_indices[rows, places]]], axis=1)
    np.testing.assert_allclose(apart, moved_distances[rows, places], rtol=1e-7)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(1e-3, 1e3), n=st.sampled_from([200, N]))
def test_isometries_keep_the_graph_and_scaling_scales_it(seed, scale, n):
    X = gaussian(n, 4, seed)
    rotation = np.linalg.qr(gaussian(4, 4, seed + 1))[0]
    distances, indices = neighbor_graph(X, n_neighbors=6)
    moved_distances, moved_indices = neighbor_graph(scale * (X @ rotation) + 5.0, n_neighbors=6)
    np.testing.assert_allclose(moved_distances, scale * distances, rtol=1e-6)
    assert (moved_indices == indices).mean() > 0.999  # two distances equal in float32 may change places


def test_nan_is_refused():
    X = gaussian(30)
    X[3, 1] = np.nan
    with pytest.raises(InputError, match=r"X contains NaN, first at \[3, 1\]"):
        neighbor_graph(X)


@pytest.mark.parametrize(("include_self", "needed"), [(True, 50), (False, 51)])
def test_too_few_samples_are_refused(include_self, needed):
    with pytest.raises(InputError, match=f"^n_neighbors=50 needs at least {needed} samples, got 40; lower n_neighbors"):
        neighbor_graph(gaussian(40), n_neighbors=50, include_self=include_self)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_neighbors": 0}, InputError, "n_neighbors=0 is too small"),
        ({"recall": 0.0}, InputError, "recall=0.0 is out of range"),
        ({"recall": 1.1}, InputError, "recall=1.1 is out of range"),
        ({"metric": "manhattan"}, InputError, "metric='manhattan' is unknown"),
        ({"n_jobs": 0}, InputError, "n_jobs=0 is invalid"),
        ({"n_jobs": 1.5}, InputTypeError, "n_jobs=1.5 is a float"),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        neighbor_graph(gaussian(30), **options)


def test_a_point_alone_is_its_only_neighbour():
    distances, indices = neighbor_graph([[1.0, 2.0]], n_neighbors=1)
    assert distances.tolist() == [[0.0]]
    assert indices.tolist() == [[0]]


@pytest.mark.parametrize(
    ("n", "d", "recall", "used"),
    [
        (1_000, 64, 0.95, "brute"),
        (1_001, 10, 0.95, "tree"),
        (5_001, 4, 0.95, "tree"),
        (5_001, 5, 0.95, "exact"),
        (20_001, 4, 0.95, "partitioned"),
        (20_001, 4, 1.0, "exact"),
        (20_001, 5, 1.0, "exact"),
        (20_001, 5, 0.95, "partitioned"),
        (1_001, 11, 0.95, "exact"),
        (8_000, 11, 0.9, "exact"),
        (8_001, 11, 0.9, "partitioned"),
        (8_001, 11, 1.0, "exact"),
    ],
)
def test_the_engine_follows_the_size(n, d, recall, used):
    info = neighbor_graph(gaussian(n, d), n_neighbors=3, recall=recall, random_state=0, return_info=True)[2]
    assert isinstance(info, GraphInfo)
    assert info.algorithm == used
    assert info.seconds
    assert info.estimated_recall >= recall
    assert (info.n_estimated > 0) == (used == "partitioned")


def test_the_callers_array_is_not_changed():
    for algorithm in ALL:
        X = gaussian()
        before = X.copy()
        engine_graph(X, algorithm=algorithm, metric="cosine", random_state=0)
        np.testing.assert_array_equal(X, before)
