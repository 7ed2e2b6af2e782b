"""Laws of the transformer: what scikit-learn's own returns, in pipelines that take a graph."""

import numpy as np
import pytest
from sklearn.cluster import DBSCAN
from sklearn.manifold import Isomap
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from steep.exceptions import InputError
from steep.neighbors import NeighborTransformer, neighbor_graph

X = np.random.default_rng(0).normal(size=(300, 5))
NEW = np.random.default_rng(1).normal(size=(40, 5))


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_graphs_are_those_of_scikit_learn(mode):
    ours, theirs = (NeighborTransformer(mode=mode, n_neighbors=7), KNeighborsTransformer(mode=mode, n_neighbors=7))
    for mine, other in ((ours.fit_transform(X), theirs.fit_transform(X)), (ours.transform(NEW), theirs.transform(NEW))):
        np.testing.assert_allclose(mine.toarray(), other.toarray(), rtol=1e-6, atol=1e-7)
        assert mine.shape == other.shape
        np.testing.assert_array_equal(mine.indptr, other.indptr)


def test_columns_are_named_as_those_of_scikit_learn():
    names = NeighborTransformer().fit(X).get_feature_names_out()
    theirs = KNeighborsTransformer().fit(X).get_feature_names_out()
    np.testing.assert_array_equal(names, [name.replace("kneighbors", "neighbor") for name in theirs])


def test_what_takes_a_graph_can_follow_it():
    labels = (X[:, 0] > 0).astype(int)
    before = make_pipeline(NeighborTransformer(n_neighbors=20), KNeighborsClassifier(10, metric="precomputed")).fit(
        X, labels
    )
    plain = KNeighborsClassifier(10).fit(X, labels)
    np.testing.assert_array_equal(before.predict(NEW), plain.predict(NEW))
    graph = NeighborTransformer(n_neighbors=150).fit_transform(X)
    np.testing.assert_array_equal(
        DBSCAN(eps=1.0, metric="precomputed").fit_predict(graph), DBSCAN(eps=1.0).fit_predict(X)
    )
    embedded = make_pipeline(NeighborTransformer(n_neighbors=12), Isomap(metric="precomputed")).fit_transform(X)
    assert embedded.shape == (300, 2)


@parametrize_with_checks([NeighborTransformer(n_neighbors=2)])
def test_the_contract_of_scikit_learn_is_kept(estimator, check):
    check(estimator)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_queries_for_the_points_themselves_give_the_graph(metric):
    model = NeighborTransformer(n_neighbors=5, metric=metric)
    mine, graph = model.fit_transform(X), model.transform(X)
    np.testing.assert_array_equal(mine.indices, graph.indices)
    np.testing.assert_allclose(mine.data, graph.data, rtol=1e-5, atol=1e-7)
    distances, indices = neighbor_graph(X, n_neighbors=6, metric=metric)
    np.testing.assert_array_equal(graph.indices.reshape(300, 6), indices)
    np.testing.assert_allclose(graph.data.reshape(300, 6), distances, rtol=1e-5, atol=1e-7)


def asked(points, **options):
    return NeighborTransformer(**options).fit(X).transform(points)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: asked(NEW[:, :3]), ValueError, "X has 3 features, but NeighborTransformer is expecting 5"),
        (lambda: asked(NEW, n_neighbors=300), InputError, "n_neighbors=300 requires at least 301"),
        (lambda: asked(NEW, n_neighbors=0), InputError, "n_neighbors"),
        (lambda: asked(NEW, metric="taxicab"), InputError, "metric"),
        (lambda: asked(0 * NEW, metric="cosine"), InputError, "X has 40 row"),
        (lambda: NeighborTransformer(mode="both").fit(X), InputError, "mode"),
        (
            lambda: NeighborTransformer(n_neighbors=300).fit_transform(X),
            InputError,
            "n_neighbors=300 requires at least",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line(call, error, says):
    with pytest.raises(error, match=says) as rejected:
        call()
    assert "\n" not in str(rejected.value)
