import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix

import oracle
from steep._suspects import score
from steep._suspects.score import ballots, count_votes, suspect_classes, true_classes
from steep.neighbors import neighbor_graph

RNG = np.random.default_rng(0)
N, K = 40, 6
X = RNG.normal(size=(N, 2))
AROUND = neighbor_graph(X, n_neighbors=K, include_self=False)[1]
CODES = RNG.integers(0, 3, N)
P = RNG.dirichlet(np.ones(3), N)


def test_margins_of_classes_are_those_of_the_slow_loops():
    found = suspect_classes(CODES, P, ballots(AROUND))
    assert_allclose(found.margin, oracle.class_suspicion(CODES, P, AROUND, 2 * found.neighbor_share - 0.5))


def test_the_weight_of_the_neighbors_fits_the_labels_best():
    found = suspect_classes(CODES, P, ballots(AROUND))
    votes = count_votes(ballots(AROUND), np.eye(3)[CODES])
    own = np.arange(N), CODES

    def fit(weight):
        return np.log((1 - weight) * (P[own] + 1e-3) + weight * (votes[own] + 1e-3)).mean()

    best = 2 * found.neighbor_share - 0.5
    assert fit(best) >= max(fit(weight) for weight in np.linspace(0, 1, 101)) - 1e-6


@pytest.mark.parametrize(("good", "share"), [("model", 0.0), ("neighbors", 0.75)])
def test_whoever_predicts_the_labels_is_believed(good, share):
    """The neighbours count nothing where they say nothing, and three quarters where the model says nothing."""
    codes = np.repeat([0, 1, 2], 20)
    same = np.array([np.flatnonzero(codes == c)[:5] for c in codes])
    mixed = RNG.integers(0, 60, (60, 5))
    sure, blind = RNG.dirichlet(np.ones(3), 60) / 10 + 0.9 * np.eye(3)[codes], np.full((60, 3), 1 / 3)
    around, p = (mixed, sure) if good == "model" else (same, blind)
    assert abs(suspect_classes(codes, p, ballots(around)).neighbor_share - share) < 0.02


def test_a_label_that_all_contradict_has_the_largest_margin():
    codes = np.repeat([0, 1], 20)
    around = np.array([np.setdiff1d(np.flatnonzero(codes == c), i)[:8] for i, c in enumerate(codes)])
    given = codes.copy()
    given[3] = 1
    found = suspect_classes(given, np.eye(2)[codes] * 0.8 + 0.1, ballots(around))
    assert found.margin.argmax() == 3
    assert found.expected[3] == 0
    assert found.is_contradicted[3]


def test_samples_in_another_order_have_the_same_margins():
    order = RNG.permutation(N)
    back = np.argsort(order)
    turned = suspect_classes(CODES[order], P[order], ballots(back[AROUND[order]]))
    assert_allclose(turned.margin, suspect_classes(CODES, P, ballots(AROUND)).margin[order], atol=1e-6)


def test_neighbors_of_the_same_group_are_not_asked():
    groups = np.arange(N) // 4
    votes = count_votes(ballots(AROUND, groups), np.eye(3)[CODES])
    for i in range(N):
        heard = [CODES[j] for j in AROUND[i] if groups[j] != groups[i]]
        counts = np.bincount(heard, minlength=3) + np.bincount(CODES, minlength=3) / N
        assert_allclose(votes[i], counts / (len(heard) + 1))


def test_true_classes_are_probabilities_and_follow_a_swap_of_two_classes():
    """Where half of the labels of class 1 say 2 and the samples say so, so do the true classes."""
    true = RNG.integers(0, 2, 300)
    given = np.where((true == 1) & (RNG.random(300) < 0.5), 2, true)
    said = np.eye(3)[true] * 0.6 + np.array([0.0, 0.2, 0.2])
    likely = true_classes(said / said.sum(axis=1, keepdims=True), given)
    assert_allclose(likely.sum(axis=1), 1)
    assert (likely[given == 2].argmax(axis=1) == 1).all()


@pytest.mark.parametrize("at_once", [1, 50, 70])
def test_blocks_of_samples_and_sparse_probabilities_change_nothing(at_once, monkeypatch):
    monkeypatch.setattr(score, "_MOST_WORK", 0)  # as for thousands of classes
    whole = suspect_classes(CODES, P, ballots(AROUND))
    monkeypatch.setattr(score, "_AT_ONCE", at_once)
    for predicted in (P, csr_matrix(P)):
        found = suspect_classes(CODES, predicted, ballots(AROUND))
        assert_allclose(found.margin, whole.margin, atol=1e-12)
        assert found.n_wrong == whole.n_wrong
        assert (found.expected == whole.expected).all()
        assert (found.is_contradicted == whole.is_contradicted).all()
        assert (found.expected != CODES).all()


def test_a_model_that_contradicts_most_labels_is_asked_about_the_given_label_only():
    """Its best other class says little: the order is that of the probability of the label as given."""
    codes = np.repeat([0, 1, 2, 3], 25)
    p = RNG.dirichlet(np.ones(4), 100)
    p[np.arange(100), codes] /= 2
    p /= p.sum(axis=1, keepdims=True)
    near = neighbor_graph(p, n_neighbors=K, include_self=False)[1]  # they repeat the model
    found = suspect_classes(codes, p, ballots(near))
    assert found.neighbor_share == 0
    assert (np.argsort(found.margin) == np.argsort(-p[np.arange(100), codes])).all()


def test_labels_that_a_class_often_gets_wrongly_are_found_and_corrected():
    """Nearly half of class 1 is labelled 2, and the model says so: the votes alone would believe it."""
    true = np.repeat([0, 1, 2], 200)
    X = RNG.normal(size=(600, 2)) + 4 * np.eye(3)[true][:, :2]
    wrong = (true == 1) & (RNG.random(600) < 0.45)
    given = np.where(wrong, 2, true)
    around = neighbor_graph(X, n_neighbors=20, include_self=False)[1]
    p = np.eye(3)[given][around].mean(axis=1)
    found = suspect_classes(given, p, ballots(around))
    first = np.argsort(-found.margin)[: wrong.sum()]
    assert wrong[first].mean() > 0.9
    assert (found.expected[first][wrong[first]] == 1).all()


def test_classes_that_are_mixed_up_are_doubted_more_at_the_same_probabilities():
    """Neighbours that repeat the model have no say; then the pair that the model contradicts often comes first."""
    codes = np.repeat([0, 1, 2], 100)
    p = RNG.dirichlet(np.ones(3), 300) / 50 + 0.95 * np.eye(3)[codes]
    p[:30] = [0.2, 0.75, 0.05] + RNG.uniform(-0.001, 0.001, (30, 1)) * [1, -1, 0]  # thirty of class 0 are taken for 1
    p[200] = [0.75, 0.05, 0.2]  # one of class 2 is taken for 0
    p[0] = [0.2, 0.75, 0.05]
    p[201] = [0.05, 0.75, 0.2]  # and one for 1, as likely
    around = neighbor_graph(p, n_neighbors=K, include_self=False)[1]
    found = suspect_classes(codes, p, ballots(around))
    assert found.neighbor_share == 0
    counts = np.zeros((3, 3))
    np.add.at(counts, (codes, p.argmax(axis=1)), 1)
    share = (counts + 0.5) / (counts + 0.5).sum(axis=0)
    own, other = p[np.arange(300), codes], p.copy()
    other[np.arange(300), codes] = -1
    best = other.argmax(axis=1)
    expected = np.log((other.max(axis=1) + 1e-3) / (own + 1e-3)) + 0.2 * np.log(share[codes, best])
    assert_allclose(found.margin, expected / 3)
    assert found.margin[0] > found.margin[201] > found.margin[100]
