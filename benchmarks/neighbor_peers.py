"""The peers of the neighbour benchmark, each with about fifteen settings from quick to thorough.

Every peer answers the same question: the K nearest others of each point, one thread. Settings vary what its authors say
trades time for recall; at each recall the quickest setting that reaches it counts. Peers whose package is missing
are left out and named.
"""

from __future__ import annotations

import importlib.util
import itertools

import numpy as np

K = 20


def pynndescent(X, *, n_trees=None, max_candidates=None, n_iters=None, width=K + 1):
    from pynndescent import NNDescent

    index = NNDescent(
        X, n_neighbors=width, n_trees=n_trees, max_candidates=max_candidates, n_iters=n_iters, n_jobs=1,
        random_state=0, low_memory=True,
    )  # fmt: skip
    return index.neighbor_graph[0][:, : K + 1]


def hnswlib(X, *, M, ef_construction, ef):
    import hnswlib

    index = hnswlib.Index("l2", X.shape[1])
    index.init_index(len(X), M=M, ef_construction=ef_construction, random_seed=0)
    index.set_num_threads(1)
    index.add_items(X, num_threads=1)
    index.set_ef(max(ef, K + 1))
    return index.knn_query(X, K + 1, num_threads=1)[0]


def faiss_ivf(X, *, cells, probes):
    import faiss

    faiss.omp_set_num_threads(1)
    coarse = faiss.IndexFlatL2(X.shape[1])
    index = faiss.IndexIVFFlat(coarse, X.shape[1], cells)
    index.cp.niter = 10
    index.train(X)
    index.add(X)
    index.nprobe = probes
    return index.search(X, K + 1)[1]


def faiss_fastscan(X, *, cells, probes, refine):
    import faiss

    faiss.omp_set_num_threads(1)
    halves = next(m for m in (X.shape[1] // 2, X.shape[1] // 4, X.shape[1] // 8, 1) if m and X.shape[1] % m == 0)
    index = faiss.index_factory(X.shape[1], f"IVF{cells},PQ{halves}x4fs,RFlat")
    index.train(X)
    index.add(X)
    index.k_factor = refine
    faiss.extract_index_ivf(index).nprobe = probes
    return index.search(X, K + 1)[1]


def faiss_nndescent(X, *, width, iterations):
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexNNDescentFlat(X.shape[1], width, faiss.METRIC_L2)
    index.nndescent.iter = iterations
    index.add(X)
    graph = faiss.vector_to_array(index.nndescent.final_graph).reshape(len(X), -1)
    return graph[:, : K + 1]


def faiss_flat(X):
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatL2(X.shape[1])
    index.add(X)
    return index.search(X, K + 1)[1]


def flat_part(X, rows):
    """Flat search of 50,000 rows, ``rows`` first: all questions cost the same."""
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatL2(X.shape[1])
    index.add(X)
    asked = np.concatenate([rows, np.arange(50_000 - len(rows))])
    return index.search(X[asked], K + 1)[1][: len(rows)]


def usearch(X, *, connectivity, expansion_add, expansion):
    from usearch.index import Index

    index = Index(
        ndim=X.shape[1], metric="l2sq", dtype="f32", connectivity=connectivity, expansion_add=expansion_add,
        expansion_search=max(expansion, K + 1),
    )  # fmt: skip
    index.add(np.arange(len(X)), X, threads=1)
    return index.search(X, K + 1, threads=1).keys.astype(np.int64)


def deglib(X, *, edges, extend_eps, eps):
    import deglib

    graph = deglib.builder.build_from_data(
        X, edges_per_vertex=edges, extend_k=edges, extend_eps=extend_eps, seed=0, thread_count=1
    )
    return graph.search(X, eps=eps, k=K + 1, threads=1, return_distances=False).astype(np.int64)


def scalable_vs(X, *, degree, window, search):
    import svs

    built = svs.VamanaBuildParameters(graph_max_degree=degree, window_size=window, alpha=1.2)
    index = svs.Vamana.build(built, X, svs.DistanceType.L2, num_threads=1)
    index.search_window_size = max(search, K + 1)
    return index.search(X, K + 1)[0].astype(np.int64)


def evoc(X, *, n_trees, n_iters, max_candidates):
    """Cosine alone: asked on unit vectors only, where it ranks as the distance does."""
    from evoc.knn_graph import knn_graph

    return knn_graph(
        X, n_neighbors=K + 1, n_trees=n_trees, n_iters=n_iters, max_candidates=max_candidates, random_state=0, n_jobs=1
    )[0]  # fmt: skip


def pipnn(X, *, degree, beam, leaf):
    """Leaves of ``leaf`` points at most; a second carving (``runs``) costs more than it finds."""
    from pipnn import self_knn_graph

    return self_knn_graph(
        X, K, R=degree, l_max=degree, beam_L=beam, c_max=leaf, c_min=leaf // 8, n_jobs=1
    )[0].astype(np.int64)  # fmt: skip


def glass(X, *, quantizer, degree, build, ef):
    import glass

    glass.set_num_threads(1)
    graph = glass.Index("HNSW", "L2", "FP32", R=degree, L=build).build(X)
    searcher = glass.Searcher(graph, X, "L2", quantizer, "" if quantizer == "FP32" else "FP32")
    searcher.set_ef(max(ef, K + 1))
    return searcher.batch_search(X, K + 1, 1)[0].astype(np.int64)


def sklearn_tree(X, *, leaf_size):
    from sklearn.neighbors import KDTree

    return KDTree(X, leaf_size=leaf_size).query(X, K + 1)[1]


def grid(function, **values):
    """Every combination, as (function, settings)."""
    names = list(values)
    return [(function, dict(zip(names, some, strict=True))) for some in itertools.product(*values.values())]


def settings_of(n_points, n_features, unit):
    """Peers and their settings for data of one size; ``unit``: all points have length one."""
    cells = [int(c) for c in (np.sqrt(n_points), 2 * np.sqrt(n_points), 4 * np.sqrt(n_points))]
    found = {
        "faiss Flat": [(faiss_flat, {})],
        "pynndescent": [
            (pynndescent, {}),
            *grid(pynndescent, n_trees=[2, 5, 10], max_candidates=[10, 20, 40], n_iters=[4]),
            *grid(pynndescent, n_trees=[5, 10], max_candidates=[30, 60], n_iters=[10]),
            (pynndescent, {"n_iters": 10, "width": 40}),
            (pynndescent, {"n_iters": 10, "width": 60}),
        ],
        "hnswlib": grid(hnswlib, M=[8, 16, 24], ef_construction=[50, 150], ef=[20, 60, 150])[:15],
        "deglib": grid(deglib, edges=[16, 24, 32], extend_eps=[0.01, 0.1], eps=[0.0, 0.05, 0.15])[:15],
        "scalable-vs": grid(scalable_vs, degree=[12, 16, 24, 32], window=[24, 48], search=[24, 60])[:15],
        "faiss IVF": grid(faiss_ivf, cells=cells, probes=[1, 3, 8, 20, 50]),
        "faiss NN-descent": grid(faiss_nndescent, width=[24, 32, 48, 64, 96], iterations=[4, 7, 10]),
        "usearch": grid(usearch, connectivity=[8, 16, 24], expansion_add=[40, 128], expansion=[24, 64, 160])[:15],
        "faiss IVF-PQ fastscan": grid(faiss_fastscan, cells=cells[:2], probes=[4, 12, 32], refine=[2, 6, 16])[:15],
        "pipnn": grid(pipnn, leaf=[512, 2_048], degree=[8, 16, 32], beam=[21, 50, 120]),
        "pyglass": [
            *grid(glass, quantizer=["FP32"], degree=[8, 16, 32], build=[25, 50, 100], ef=[21, 64]),
            *grid(glass, quantizer=["SQ8"], degree=[16, 32], build=[25, 50], ef=[24]),
        ],
    }  # fmt: skip
    if unit:
        found["evoc"] = grid(evoc, n_trees=[2, 4, 8], n_iters=[3, 6, 12], max_candidates=[20, 60])[:15]
    if n_features <= 16:
        found["scikit-learn KDTree"] = grid(sklearn_tree, leaf_size=[10, 20, 40, 80, 160])
    return found


PACKAGES = {
    "pynndescent": "pynndescent", "hnswlib": "hnswlib", "faiss": "faiss", "usearch": "usearch", "deglib": "deglib",
    "evoc": "evoc", "pipnn": "pipnn", "pyglass": "glass", "scalable-vs": "svs", "scikit-learn": "sklearn",
}  # fmt: skip


def is_installed(peer):
    """Whether the package of a peer is there."""
    return importlib.util.find_spec(PACKAGES[peer.split()[0]]) is not None
