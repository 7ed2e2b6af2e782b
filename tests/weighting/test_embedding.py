"""Any table becomes points; the estimator still gets the data as given."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from steep import Rescaling, VarianceWeighted, VarianceWeightedCV, WeightSearch, sample_weights
from steep.exceptions import InputError, InputTypeError, SteepError
from steep.weighting.embedding import embed, encode

N = 120
RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(N, 3))
SMALL = {"weight_ratio": (1, 5), "cv": 3, "search": WeightSearch(n_repeats=1), "random_state": 0}


def raw_frame():
    """What a table looks like before anybody cleaned it."""
    frame = pd.DataFrame(
        {
            "size": RNG.normal(size=N),
            "colour": RNG.choice(["red", "green", "blue"], N),
            "day": pd.date_range("2024-01-01", periods=N),
            "sold": RNG.random(N) > 0.5,
            "grade": pd.Categorical(RNG.choice(list("abc"), N)),
            "age": pd.array(RNG.integers(20, 60, N), dtype="Int64"),
            "town": pd.array(RNG.choice(["Rome", "Oslo"], N), dtype="string"),
        }
    )
    for column in ("size", "colour", "day", "age", "town", "grade"):
        frame.loc[RNG.choice(N, 7, replace=False), column] = None
    return frame


FRAME = raw_frame()
Y = (FRAME["size"].fillna(0) + 0.3 * RNG.normal(size=N) > 0).astype(int).to_numpy()


def preprocessing():
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    words = OneHotEncoder(handle_unknown="ignore")
    return make_column_transformer((numbers, ["size"]), (words, ["colour", "grade", "sold"]))


def test_numbers_are_standardised():
    points = embed(5 + NUMBERS * [1, 100, 0.01])
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(points.std(axis=0), 1)
    np.testing.assert_array_equal(embed(NUMBERS, "auto"), embed(NUMBERS, "standard"))


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e60, 1e90])
def test_standardising_ignores_units_however_extreme(scale):
    np.testing.assert_allclose(embed(NUMBERS * scale), embed(NUMBERS), rtol=1e-9, atol=1e-12)


def test_a_column_that_is_constant_but_for_rounding_has_no_say():
    X = np.column_stack([NUMBERS, np.full(N, 0.1) * 3])
    X[::2, 3] = 0.3
    np.testing.assert_array_equal(embed(X)[:, 3], 0)


def test_two_different_categories_are_one_apart():
    points = embed(pd.DataFrame({"colour": ["red", "blue", "red", "green"]}))
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.testing.assert_allclose(gaps[0], [0, 1, 0, 1])


@pytest.mark.parametrize("kind", [list, np.array, pd.Series])
def test_dates_are_numbers_of_equal_steps(kind):
    days = pd.date_range("2024-01-01", periods=5, tz="Europe/Rome" if kind is list else None)
    frame = pd.DataFrame({"day": kind(days)})
    np.testing.assert_allclose(np.diff(embed(frame)[:, 0]), np.sqrt(0.5))
    np.testing.assert_allclose(embed(pd.DataFrame({"span": days - days[0]})), embed(frame))


def test_missing_numbers_lie_at_the_median_and_say_so():
    points = encode(np.array([[0.0], [np.nan], [2.0], [7.0]]))
    assert points.shape == (4, 2)
    assert points[1, 0] == points[2, 0]
    np.testing.assert_array_equal(points[:, 1], [0, 1, 0, 0])


def test_missing_categories_lie_at_the_most_frequent_and_say_so():
    points = embed(pd.DataFrame({"colour": ["red", None, "red", "blue"]}))
    np.testing.assert_allclose(np.linalg.norm(points[1] - points[[0, 3]], axis=1), [1, np.sqrt(2)])


def test_rare_categories_are_pooled_where_there_are_very_many():
    names = pd.DataFrame({"name": [f"n{i}" for i in range(300)] + [f"n{i % 40}" for i in range(400)]})
    points = embed(names)
    assert points.shape[1] == 51
    np.testing.assert_array_equal(points[298], points[299])
    assert not np.array_equal(points[0], points[1])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (FRAME, FRAME.astype({"size": "Float64"})),
        (FRAME, FRAME.astype({"colour": "category", "town": object})),
        (FRAME[["size", "colour"]], FRAME[["size", "colour"]].to_numpy(dtype=object)),
        (pd.DataFrame(NUMBERS), NUMBERS),
        (pd.DataFrame(NUMBERS), pd.DataFrame(NUMBERS).astype("Float64")),
        (pd.DataFrame(NUMBERS), NUMBERS.astype(object)),
        (pd.DataFrame(NUMBERS), NUMBERS.tolist()),
        (pd.DataFrame(NUMBERS, columns=list("abc")), pl.DataFrame(NUMBERS, schema=list("abc"))),
        (
            pd.DataFrame({"a": [1.0, None, 3.0], "b": ["x", None, "x"], "c": [True, False, None]}),
            pl.DataFrame({"a": [1.0, None, 3.0], "b": ["x", None, "x"], "c": [True, False, None]}),
        ),
        (
            pd.DataFrame({"d": pd.to_datetime(["2024-01-01", None, "2024-01-05"])}),
            pl.DataFrame({"d": [date(2024, 1, 1), None, date(2024, 1, 5)]}),
        ),
    ],
    ids=[
        "Float64",
        "category",
        "objects",
        "frame",
        "nullable",
        "object",
        "list",
        "polars",
        "polars-mixed",
        "polars-dates",
    ],
)
def test_the_points_do_not_depend_on_what_holds_the_table(first, second):
    np.testing.assert_allclose(embed(second), embed(first))


@pytest.mark.parametrize("measure", ["variance", "misfit"])
@pytest.mark.parametrize("inside", [False, True], ids=["pipeline", "search"])
def test_a_pipeline_is_weighed_on_a_raw_frame(measure, inside):
    model = make_pipeline(preprocessing(), LogisticRegression())
    if inside:
        model = GridSearchCV(model, {"logisticregression__C": [0.1, 1]}, cv=2)
    weighted = VarianceWeighted(model, measure=measure, n_neighbors=5).fit(FRAME, Y)
    assert weighted.score(FRAME, Y) > 0.8
    assert np.ptp(weighted.sample_weight_) > 0


def test_neighbours_are_looked_for_after_the_preprocessing():
    model = VarianceWeighted(make_pipeline(preprocessing(), LogisticRegression())).fit(FRAME, Y)
    seen = preprocessing().fit_transform(FRAME)
    seen = seen.toarray() if sparse.issparse(seen) else seen
    np.testing.assert_allclose(model.sample_weight_, sample_weights(seen, Y))


def test_a_preprocessing_that_uses_labels_gets_them():
    X = np.hstack([Y[:, None] + 0.5 * RNG.normal(size=(N, 1)), RNG.normal(size=(N, 9))])
    model = VarianceWeighted(make_pipeline(SelectKBest(k=1), LogisticRegression())).fit(X, Y)
    np.testing.assert_allclose(model.sample_weight_, sample_weights(X[:, :1], Y))


def test_the_preprocessing_is_learned_from_the_training_rows_alone():
    X = NUMBERS.copy()
    # Solved to the end, as the search does; its default tolerance stops a little before.
    folds = [(np.arange(80), np.arange(80, N)), (np.arange(40, N), np.arange(40))]
    search = SMALL | {
        "cv": folds,
        "measure": "variance",
        "n_neighbors": (5,),
        "search": WeightSearch(rescaling=Rescaling()),
        "scoring": "neg_log_loss",
    }
    model = VarianceWeightedCV(make_pipeline(SelectKBest(k=1), LogisticRegression(tol=1e-10)), **search).fit(X, Y)
    train, test = folds[0]
    alone = VarianceWeighted(
        make_pipeline(SelectKBest(k=1), LogisticRegression(tol=1e-10)), n_neighbors=5, weight_ratio=5
    ).fit(X[train], Y[train])
    from sklearn.metrics import get_scorer

    expected = get_scorer("neg_log_loss")(alone, X[test], Y[test])
    assert model.cv_results_["split0_test_neg_log_loss"][1] == pytest.approx(expected)


@pytest.mark.parametrize("measure", ["variance", "misfit", "density"])
@pytest.mark.parametrize(
    ("estimator", "y"),
    [(HistGradientBoostingClassifier(max_iter=5), Y), (HistGradientBoostingRegressor(max_iter=5), NUMBERS[:, 0])],
)
def test_estimators_that_take_missing_values_are_weighed_with_them(estimator, y, measure):
    X = NUMBERS.copy()
    X[RNG.random(X.shape) < 0.1] = np.nan
    weighted = VarianceWeighted(estimator, measure=measure, n_neighbors=5).fit(X, y)
    assert np.ptp(weighted.sample_weight_) > 0
    assert VarianceWeightedCV(estimator, **SMALL).fit(X, y).predict(X).shape == (N,)


@pytest.mark.parametrize(
    "data",
    [
        FRAME,
        pl.DataFrame(
            {"size": FRAME["size"].to_numpy(), "colour": [c if isinstance(c, str) else None for c in FRAME["colour"]]}
        ),
    ],
)
def test_raw_tables_are_weighed_searched_and_reported(data):
    assert np.ptp(sample_weights(data, Y)) > 0
    columns = make_column_transformer((make_pipeline(SimpleImputer(), StandardScaler()), ["size"]))
    frame = FRAME if data is FRAME else data.with_columns(pl.col("size").fill_null(float("nan")))
    model = VarianceWeightedCV(make_pipeline(columns, LogisticRegression()), **SMALL).fit(frame, Y)
    assert model.predict(frame).shape == (N,)


SPARSE = sparse.random(N, 40, density=0.2, random_state=0, format="csr")


@pytest.mark.parametrize(
    "call",
    [
        lambda X: sample_weights(X, Y),
        lambda X: VarianceWeighted(Unfittable()).fit(X, Y),
        lambda X: VarianceWeightedCV(Unfittable(), **SMALL).fit(X, Y),
    ],
)
def test_sparse_data_are_refused_by_name_before_anything_is_fitted(call):
    with pytest.raises(InputTypeError, match=r"X is sparse.*embedding="):
        call(SPARSE)


class Unfittable(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        raise AssertionError("fitted")


def test_sparse_data_work_with_an_embedding_or_a_preprocessing_that_makes_them_dense():
    svd = TruncatedSVD(5, random_state=0)
    given = VarianceWeighted(LogisticRegression(), embedding=svd).fit(SPARSE, Y)
    inside = VarianceWeighted(make_pipeline(svd, LogisticRegression())).fit(SPARSE, Y)
    assert given.predict(SPARSE).shape == inside.predict(SPARSE).shape == (N,)
    assert VarianceWeightedCV(LogisticRegression(), embedding=svd, **SMALL).fit(SPARSE, Y).gain_ >= 0


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (pd.DataFrame({"a": [1.0, np.inf] * 60}), "column 'a' of X contains infinity|X contains infinity"),
        (pd.DataFrame({"a": [{"b": 1}] * N}), "column 'a' of X is not numeric.*embedding="),
        (pd.DataFrame({"a": [[1, 2]] * N}), "column 'a' of X is not numeric.*embedding="),
        (pd.DataFrame({"a": [10**400] * N}, dtype=object), "X is not numeric.*embedding="),
        (np.array([[10**400, 1]] * N, dtype=object), "X is not numeric.*embedding="),
        (np.ma.masked_array(NUMBERS, NUMBERS > 1), "X is masked at"),
        (pd.DataFrame({"a": [1 + 2j] * N}), "complex"),
        ([[1.0], [1.0, 2.0]] * 60, "X is not a table"),
    ],
)
def test_tables_that_no_distance_can_be_taken_in_are_refused(X, message):
    with pytest.raises(SteepError, match=message):
        sample_weights(X, Y)


@pytest.mark.parametrize("embedding", ["standard", None])
@pytest.mark.parametrize("X", [FRAME, np.where(NUMBERS > 2, np.nan, NUMBERS), FRAME[["day"]]])
def test_the_plain_embeddings_take_numbers_only_and_name_the_way_out(embedding, X):
    with pytest.raises(SteepError, match=r"or leave embedding=.* for 'auto'"):
        sample_weights(X, Y, embedding=embedding)


def test_a_preprocessing_that_fails_is_named():
    model = make_pipeline(StandardScaler(), LogisticRegression())
    with pytest.raises(InputError, match=r"the preprocessing of the pipeline fails on X .*embedding="):
        VarianceWeighted(model).fit(FRAME, Y)


def test_an_embedding_that_loses_rows_is_refused():
    with pytest.raises(InputError, match="embedding turns 120 samples into 119; expected one row per sample"):
        sample_weights(NUMBERS, Y, embedding=lambda X: X[1:])


def test_the_estimator_gets_the_data_as_given():
    seen = []

    class Watching(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            seen.append(type(X))
            return super().fit(np.zeros((len(y), 1)), y, sample_weight)

    VarianceWeighted(Watching()).fit(FRAME, Y)
    assert seen == [pd.DataFrame]


def test_numbers_and_ridge_are_as_before():
    X, y = NUMBERS, NUMBERS @ [1.0, 2.0, 3.0]
    weighted = VarianceWeighted(make_pipeline(StandardScaler(), Ridge())).fit(X, y)
    np.testing.assert_allclose(weighted.sample_weight_, sample_weights(X, y, embedding="standard"))


@pytest.mark.parametrize("returned", [1, None, 2.5])
def test_an_embedding_that_returns_no_table_is_refused(returned):
    with pytest.raises(InputError, match="turns 2 samples into 0; expected one row per sample"):
        embed([[1.0], [2.0]], lambda X: returned)


def test_an_array_as_embedding_is_refused_in_one_line():
    with pytest.raises(InputTypeError, match="is unknown") as caught:
        embed([[1.0], [2.0]], np.arange(100.0))
    assert "\n" not in str(caught.value)
