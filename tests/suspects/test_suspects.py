import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.svm import LinearSVC

import steep
from steep._suspects import Suspects
from steep._suspects.score import ballots, suspect_classes
from steep.exceptions import InputError, SteepError, SteepWarning

X, TRUE = make_blobs(120, centers=3, random_state=0, cluster_std=0.6)
WRONG = np.array([3, 40, 77, 101])
Y = TRUE.copy()
Y[WRONG] = (TRUE[WRONG] + 1) % 3
NAMES = np.array(["rain", "sun", "wind"])
MODEL = LogisticRegression()
PROBABILITIES = cross_val_predict(MODEL, X, Y, method="predict_proba")
VALUES = X @ [1.0, 2.0]


def found(y=Y, **settings):
    return steep.suspects(X, y, **{"estimator": MODEL, "random_state": 0} | settings)


def test_wrong_labels_come_first_and_the_right_ones_are_suggested():
    result = found()
    assert set(result.top(4).index) == set(WRONG)
    assert_array_equal(result.suggested[WRONG], TRUE[WRONG])
    assert result.table.loc[WRONG, "score"].min() > 2 * result.table.drop(WRONG)["score"].max()


def test_labels_that_are_right_keep_their_own_as_suggestion():
    table = found(y=TRUE).table
    assert (table["suggested"] == table["label"]).mean() > 0.95


def test_the_table_has_one_row_a_sample_in_their_order():
    table = found().table
    assert list(table) == ["is_suspect", "score", "rank", "label", "suggested", "neighbors"]
    assert_array_equal(table.index, np.arange(120))
    assert_array_equal(table["label"], Y)
    assert_array_equal(np.sort(table["rank"]), np.arange(1, 121))
    assert (table.sort_values("rank")["score"].diff().dropna() <= 0).all()
    assert_array_equal(table["is_suspect"], table["score"] > 0.5)


def test_the_top_is_the_head_of_the_table_by_rank():
    result = found()
    pd.testing.assert_frame_equal(result.top(5), result.table.sort_values("rank").head(5))


def test_the_neighbors_named_have_the_suggested_label_and_are_the_nearest_that_do():
    result = found(y=NAMES[Y])
    for row in WRONG:
        named, suggested = result.table.loc[row, ["neighbors", "suggested"]]
        says_so = [j for j in result.indices[row] if NAMES[Y][j] == suggested]
        assert list(named) == says_so[:5] != []


def test_no_neighbor_is_named_where_nothing_else_is_suggested():
    table = found().table
    agreed = table["suggested"] == table["label"]
    assert agreed.any()
    assert not any(table["neighbors"][agreed])


def test_neighbors_that_name_a_number_are_nearer_to_it_than_to_the_label():
    values = VALUES.copy()
    values[7] += 30
    result = steep.suspects(X, values, estimator=Ridge(), random_state=0)
    named, suggested = result.table.loc[7, ["neighbors", "suggested"]]
    assert named
    assert all(abs(values[j] - suggested) < abs(values[j] - values[7]) for j in named)


def test_a_wrong_number_is_found():
    values = VALUES.copy()
    values[7] += 30
    result = steep.suspects(X, values, estimator=Ridge(), random_state=0)
    assert result.top(1).index[0] == 7
    assert abs(result.suggested[7] - VALUES[7]) < 3
    assert result.table.loc[7, "is_suspect"]


def test_scores_sum_to_the_estimated_number_of_wrong_labels():
    result = found()
    assert_allclose(result.score.sum(), max(result.n_wrong.mean, 0.5), atol=1e-3)
    assert result.n_wrong.low <= result.n_wrong.mean <= result.n_wrong.high


def test_the_verdict_names_the_first_row_and_then_a_rough_number():
    result = found(y=NAMES[Y])
    first = result.top(1).index[0]
    sentence = str(result.verdict)
    assert sentence.startswith(f"Look first at row {first}, labelled '{NAMES[Y][first]}'")
    assert f"{result.n_wrong.mean:.0f} of 120 labels" in sentence
    assert "rough estimate" in sentence
    assert result.verdict.interval.mean == result.n_wrong.mean
    assert str(result).startswith(sentence)
    assert repr(result) == f"Suspects(n_samples=120, about {result.n_wrong.mean:.0f} wrong by a rough estimate)"


def test_no_text_says_as_a_fact_that_labels_are_wrong():
    result = found()
    shown = [str(result), repr(result), result._repr_html_(), result.verdict._repr_html_(), Suspects.__doc__]
    for text in (*shown, steep.suspects.__doc__, Suspects.table.__doc__, Suspects.verdict.__doc__):
        for claim in ("look wrong", "more likely wrong", "95 %", ">gain"):
            assert claim not in text


INDEXES = [
    pd.Index([f"p{i}" for i in range(120)], name="patient"),
    pd.RangeIndex(1000, 1120),
    pd.Index(np.arange(120)[::-1]),
    pd.MultiIndex.from_product([range(12), list("abcdefghij")], names=["day", "place"]),
    pd.DatetimeIndex(np.datetime64("2024-01-01") + np.arange(120)),
]


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("of", ["X", "y", "both"])
def test_tables_keep_the_index_of_the_data(index, of):
    frame = pd.DataFrame(X, columns=["a", "b"], index=index if of != "y" else None)
    labels = pd.Series(NAMES[Y], index=index if of != "X" else None)
    result = steep.suspects(X if of == "y" else frame, labels, estimator=MODEL, random_state=0)
    pd.testing.assert_index_equal(result.table.index, index)
    assert set(result.top(4).index) == set(index[WRONG])
    own = pd.Series(NAMES[Y], index=index)
    assert (own.loc[result.top(10).index] == result.top(10)["label"]).all()
    for row, named, suggested in result.top(4)[["neighbors", "suggested"]].itertuples():
        assert named
        assert row not in named
        assert all(own.loc[other] == suggested for other in named)
    assert str(result.verdict).startswith(f"Look first at row {result.top(1).index[0]}, labelled")


def test_the_index_of_the_samples_comes_before_that_of_the_labels():
    frame, labels = pd.DataFrame(X, index=INDEXES[0]), pd.Series(Y, index=INDEXES[1])
    result = steep.suspects(frame, labels, estimator=MODEL, random_state=0)
    pd.testing.assert_index_equal(result.table.index, INDEXES[0])


@pytest.mark.parametrize("value", [1e39, 1e90])
def test_numbers_that_a_forest_cannot_hold_are_one_line_or_scaled(value):
    far = X.copy()
    far[3, 1] = value
    with pytest.raises(InputError, match=r"X reaches .*; expected numbers up to 3.4e\+38 for the default forest"):
        steep.suspects(far, Y, embedding=None, random_state=0)
    assert len(steep.suspects(far, Y, random_state=0)) == 120
    values = VALUES.copy()
    values[7] = 1e39
    assert steep.suspects(X, values, random_state=0).top(1).index[0] == 7


def test_hundreds_of_classes_are_judged_without_a_number_for_each_node(monkeypatch):
    monkeypatch.setattr("steep._suspects.predictions._NODES", 0)
    monkeypatch.setattr("steep._suspects.predictions._TREES", ((200, 40),))
    result = steep.suspects(X, Y, random_state=0)
    assert result.predicted.shape == (120, 3)
    assert_allclose(np.asarray(result.predicted.sum(axis=1)).ravel(), 1, rtol=1e-5)
    assert set(result.top(4).index) == set(WRONG)


def test_where_no_label_is_doubted_the_verdict_expects_none_other():
    blobs, right = make_blobs(90, centers=3, random_state=0, cluster_std=0.1)
    verdict = str(steep.suspects(blobs, right, estimator=MODEL, random_state=0).verdict)
    assert "but no other label is expected there" in verdict


def test_labels_that_nobody_can_predict_are_said_to_be_such():
    y = np.random.default_rng(0).integers(0, 6, 120)
    assert "cannot show how many are wrong" in str(found(y=y).verdict)


@pytest.mark.parametrize(
    "estimator",
    [KNeighborsClassifier(5), LinearSVC(), *(RandomForestClassifier(10, random_state=seed) for seed in range(4))],
)
def test_estimators_without_weights_or_probabilities_will_do(estimator):
    assert set(found(estimator=estimator).top(4).index) == set(WRONG)


def test_without_an_estimator_a_forest_is_asked(monkeypatch):
    monkeypatch.setattr("steep._suspects.predictions._TREES", ((200, 30),))
    assert set(found(estimator=None).top(4).index) == set(WRONG)
    values = VALUES.copy()
    values[7] += 30
    assert steep.suspects(X, values, random_state=0).top(1).index[0] == 7


def test_text_categories_and_missing_values_are_read(monkeypatch):
    monkeypatch.setattr("steep._suspects.predictions._TREES", ((200, 30),))
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 2, "high", "low"), "c": X[:, 1]})
    frame.loc[5, "b"] = None
    result = steep.suspects(frame, pd.Series(NAMES[Y]), random_state=0)
    assert set(WRONG) <= set(result.top(8).index)


def test_own_probabilities_are_used_as_they_are():
    result = found(estimator=None, pred_probs=PROBABILITIES)
    assert_allclose(result.predicted, PROBABILITIES)
    assert set(result.top(4).index) == set(WRONG)
    other = found(estimator=None, pred_probs=np.full((120, 3), 1 / 3))
    assert not np.allclose(other.score, result.score)


def test_own_predictions_of_numbers_are_used_as_they_are():
    result = steep.suspects(X, VALUES, predictions=VALUES + 0.1)
    assert_allclose(result.predicted, VALUES + 0.1)


def test_the_same_seed_gives_the_same_and_jobs_change_nothing():
    first = found(estimator=RandomForestClassifier(5, random_state=0))
    with parallel_config(backend="threading"):
        again = found(estimator=RandomForestClassifier(5, random_state=0), n_jobs=2)
    assert_array_equal(first.score, again.score)


def test_wrong_labels_that_a_whole_group_shares_are_found_with_groups():
    """Every sample comes three times, wrong labels too: copies vouch for each other unless they are one group."""
    copies, y, groups = np.repeat(X, 3, axis=0), np.repeat(Y, 3), np.repeat(np.arange(120), 3)
    model = KNeighborsClassifier(3)
    alone = steep.suspects(copies, y, estimator=model, n_neighbors=2, random_state=0)
    together = steep.suspects(copies, y, estimator=model, n_neighbors=6, groups=groups, random_state=0)
    wrong = np.isin(groups, WRONG)
    assert not alone.table["is_suspect"][wrong].any()
    assert set(together.top(18).index) >= set(np.flatnonzero(wrong))


def test_neighbors_of_the_own_group_have_no_vote():
    groups, rough = np.arange(120) // 3, 0.7 * PROBABILITIES + 0.3 * np.random.default_rng(0).dirichlet(np.ones(3), 120)
    result = steep.suspects(X, Y, pred_probs=rough, groups=groups)
    expected = suspect_classes(Y, rough, ballots(result.indices, groups)).margin
    assert_array_equal(np.argsort(result.score), np.argsort(expected))
    assert not np.allclose(result.score, steep.suspects(X, Y, pred_probs=rough).score)


def test_cleanlab_reads_the_same_order():
    result = steep.suspects(X, Y, pred_probs=PROBABILITIES)
    table = result.to_cleanlab()
    assert_array_equal(np.argsort(table["label_quality"].to_numpy(), kind="stable")[:5], result.top(5).index)
    assert table["is_label_issue"].sum() == result.table["is_suspect"].sum()


def test_neighbors_that_repeat_the_model_have_no_say():
    """The probabilities are searched themselves: the order is that of their logarithms and of the mix-ups."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(3, 0.5), 600)
    y = (p.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1)
    found = steep.suspects(p, y, pred_probs=p, embedding=None)
    others = np.where(np.eye(3, dtype=bool)[y], 0.0, p).max(axis=1)
    margin = np.log(others + 1e-3) - np.log(p[np.arange(600), y] + 1e-3)
    counts = np.full((3, 3), 0.5)
    np.add.at(counts, (y, p.argmax(axis=1)), 1)
    other = np.where(np.eye(3, dtype=bool)[y], 0.0, p).argmax(axis=1)
    margin += 0.2 * np.log((counts / counts.sum(axis=0))[y, other])
    assert_array_equal(np.argsort(found.score), np.argsort(margin))


def test_the_graph_is_the_one_datalab_takes():
    result = found()
    expected = NearestNeighbors(n_neighbors=20).fit((X - X.mean(axis=0)) / X.std(axis=0))
    assert_allclose(result.knn_graph().data, expected.kneighbors_graph(mode="distance").data, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_datalab_finds_issues_with_the_graph():
    pytest.importorskip("datasets")
    cleanlab = pytest.importorskip("cleanlab")
    result = found()
    lab = cleanlab.Datalab(data={"y": Y}, label_name="y", verbosity=0)
    lab.find_issues(knn_graph=result.knn_graph(), pred_probs=result.predicted)
    used = lab.get_info("statistics")["weighted_knn_graph"]
    assert_array_equal(used.indices, result.knn_graph().indices)
    assert lab.get_issues("outlier")["outlier_score"].between(0, 1).all()
    assert len(lab.get_issues("near_duplicate")) == 120


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pred_probs": PROBABILITIES[:, :2]}, r"shape \(120, 2\); expected \(120, 3\)"),
        ({"pred_probs": 2 * PROBABILITIES}, "sums to 2"),
        ({"pred_probs": PROBABILITIES - 0.5}, "does not hold probabilities"),
        ({"pred_probs": np.log(PROBABILITIES)}, "softmax"),
        ({"pred_probs": np.tile([-0.2, 1.2, 0.0], (120, 1))}, r"smallest entry is -0\.2"),
        ({"pred_probs": np.where(PROBABILITIES > 0.9, np.nan, PROBABILITIES)}, "contains NaN"),
        ({"pred_probs": np.eye(3)[Y]}, "in-sample"),
        ({"pred_probs": PROBABILITIES, "estimator": MODEL}, "expected one; leave out"),
        ({"predictions": VALUES}, "goes with numbers"),
        ({"estimator": MODEL, "y": np.zeros(120, int)}, "all 120 labels of y are equal"),
        ({"estimator": Ridge(), "y": np.ones(120)}, "all 120 labels of y are equal"),
        ({"estimator": Ridge(), "y": np.c_[VALUES, VALUES]}, "has 2 columns"),
        ({"y": VALUES, "pred_probs": PROBABILITIES}, "goes with classes"),
        ({"y": VALUES, "predictions": VALUES}, "in-sample"),
        ({"y": VALUES, "predictions": VALUES[:5]}, "shape"),
        ({"n_neighbors": 120}, "at least 121 samples"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"cv": 1, "estimator": MODEL}, "cv=1"),
        ({"cv": 121, "estimator": MODEL}, "at least 121 samples"),
        ({"estimator": LogisticRegression}, "not an estimator instance"),
        ({"estimator": MODEL, "y": VALUES, "task": "regression"}, "cannot be fitted"),
        ({"estimator": MODEL, "groups": np.zeros(120)}, "1 group"),
        ({"estimator": MODEL, "groups": np.zeros(5)}, "groups"),
        ({"y": Y[:5]}, "120 samples"),
    ],
)
def test_bad_input_is_refused_in_one_line(settings, message):
    with pytest.raises(SteepError, match=message) as caught:
        steep.suspects(X, settings.pop("y", Y), **settings)
    assert "\n" not in str(caught.value)


def test_probabilities_that_agree_with_clean_labels_are_no_offence():
    steep.suspects(X, TRUE, pred_probs=np.eye(3)[TRUE] * 0.97 + 0.01)


def test_probabilities_that_agree_with_nearly_every_noisy_label_are_doubted():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2000, 2))
    y = rng.integers(0, 2, 2000)
    said = np.eye(2)[y]
    said[0] = said[0, ::-1]
    with pytest.warns(SteepWarning, match="may be in-sample"):
        steep.suspects(points, y, pred_probs=said)


def test_estimators_that_predict_nonsense_are_refused():
    class Broken(Ridge):
        def predict(self, X):
            return np.full(len(X), np.nan)

    with pytest.raises(InputError, match="Broken predicts"):
        steep.suspects(X, VALUES, estimator=Broken())


def test_the_result_can_be_imported():
    assert isinstance(found(), Suspects)


@pytest.mark.parametrize(
    "call",
    [
        lambda X, y: steep.suspects(X, y, random_state=0),
        lambda X, y: steep.sample_weights(X, y, n_neighbors=3),
        lambda X, y: steep.VarianceWeightedCV(Ridge()).fit(X, y),
    ],
    ids=["suspects", "sample_weights", "VarianceWeightedCV"],
)
def test_labels_in_another_order_than_the_samples_are_rejected(call):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)), index=[f"row {i}" for i in range(60)])
    y = pd.Series(rng.normal(size=60), index=X.index)
    with pytest.raises(InputError, match=r"y has the index of X in another order; .* y\.loc\[X\.index\]"):
        call(X, y.sample(frac=1, random_state=0))
    call(X, y.reset_index(drop=True))  # another index is taken by position, as in scikit-learn
