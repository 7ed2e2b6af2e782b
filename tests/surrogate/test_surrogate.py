"""The surrogate: it predicts, says how far off it is, comes back from a file, and rejects what it cannot use."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import qmc

import steep
from steep.domain import Category, Integer, Log
from steep.surrogate.certificate import certify

BOUNDS = {"a": (0.0, 2.0), "b": Log(1e-2, 1e2)}


def wave(X):
    return np.sin(2 * X[:, 0]) + np.tanh(np.log10(X[:, 1]))


def runs(n, seed=0, bounds=BOUNDS):
    return steep.Box(bounds).uniform(n, random_state=seed)


@pytest.fixture(scope="module")
def model():
    X = runs(120)
    y = np.column_stack([wave(X), 7 + X[:, 0] ** 2, np.full(120, 3.0)])
    return steep.Surrogate(BOUNDS, random_state=0).fit(X, pd.DataFrame(y, columns=["lift", "drag", "g"]))


def test_it_predicts_every_output_and_certifies_each(model):
    new = runs(500, seed=1)
    predicted = model.predict(new)
    np.testing.assert_allclose(predicted[:, 0], wave(new), atol=0.1)
    np.testing.assert_allclose(predicted[:, 1], 7 + new[:, 0] ** 2, atol=0.05)
    assert (predicted[:, 2] == 3.0).all()
    true = np.sqrt(((predicted[:, 0] - wave(new)) ** 2).mean())
    lift, drag, g = model.certificate.outputs
    assert (lift.name, drag.name, g.name) == ("lift", "drag", "g")
    assert true <= lift.bound
    assert lift.low <= lift.rmse <= lift.high <= lift.bound
    assert (g.share, str(g)) == (0.0, "g: constant")
    assert not model.certificate.independent


def test_columns_are_matched_by_name(model):
    new = runs(5, seed=2)
    swapped = pd.DataFrame({"b": new[:, 1], "a": new[:, 0]})
    np.testing.assert_array_equal(model.predict(swapped), model.predict(new))


def test_intervals_hold_the_truth_as_often_as_they_say():
    """Exact for independent check runs, whatever the function: over 12 models the mean is at least 0.9 up to chance."""
    front = lambda X: np.tanh(12 * (X[:, 0] - 0.3 - 0.4 * X[:, 1]))  # noqa: E731
    shares = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = np.vstack([qmc.Sobol(2, rng=rng).random(64), rng.random((29, 2))])
        model = steep.Surrogate([(0, 1)] * 2, candidates=["rough", "smooth"], random_state=seed)
        model.fit(X, front(X), check=np.arange(93) >= 64)
        new = rng.random((1000, 2))
        values, halves = model.predict(new, return_error=True)
        shares.append((np.abs(values - front(new)) <= halves).mean())
    # Each is of Beta(27, 3), whose deviation is 0.054.
    assert np.mean(shares) > 0.9 - 3 * 0.054 / np.sqrt(12)
    assert np.mean(shares) < 0.98


def test_a_file_of_an_earlier_version_opens(model, tmp_path):
    """Check runs had no weights then: all were drawn evenly."""
    model.save(tmp_path / "new.steep")
    with np.load(tmp_path / "new.steep") as file:
        arrays = {name: file[name] for name in file.files if name != "check_weights_"}
    about = json.loads(arrays["about"].tobytes())
    del about["certificate"]["least_density"]
    np.savez(tmp_path / "old.npz", **arrays | {"about": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)})
    again = steep.Surrogate.load(tmp_path / "old.npz")
    assert again.certificate == model.certificate
    for old, new in zip(
        again.predict(runs(5), return_error=True), model.predict(runs(5), return_error=True), strict=True
    ):
        np.testing.assert_array_equal(old, new)


def test_a_file_gives_back_the_same_model(model, tmp_path):
    model.save(tmp_path / "wing.steep")
    again = steep.Surrogate.load(tmp_path / "wing.steep")
    new = runs(50, seed=3)
    for kept, found in zip(model.predict(new, return_error=True), again.predict(new, return_error=True), strict=True):
        np.testing.assert_array_equal(kept, found)
    assert again.certificate == model.certificate
    assert again.box == model.box


@pytest.mark.parametrize("kind", ["rough", "smooth", "cubic", "boosting", "network"])
def test_every_candidate_survives_a_file(kind, tmp_path):
    bounds = {"n": Integer(1, 9), "m": Category("steel", "copper"), "x": (0, 1)}
    X = runs(90, bounds=bounds)
    y = X[:, 0] * (1 + X[:, 1]) + np.sin(3 * X[:, 2])
    model = steep.Surrogate(bounds, candidates=[kind], random_state=0).fit(X, y)
    model.save(tmp_path / "m.steep")
    new = runs(40, seed=1, bounds=bounds)
    again = steep.Surrogate.load(tmp_path / "m.steep").predict(new)
    np.testing.assert_array_equal(again, model.predict(new))
    truth = new[:, 0] * (1 + new[:, 1]) + np.sin(3 * new[:, 2])
    assert np.sqrt(((again - truth) ** 2).mean()) < 0.35 * truth.std()


def test_own_trees_and_networks_predict_as_those_of_scikit_learn():
    from sklearn.ensemble import GradientBoostingRegressor

    from steep.surrogate._candidates import _fit_boosting

    rng = np.random.default_rng(0)
    X, new = rng.random((80, 3)), rng.random((50, 3))
    y = (X[:, 0] > 0.5) + X[:, 1]
    theirs = GradientBoostingRegressor(
        n_estimators=200, max_depth=4, learning_rate=0.08, subsample=0.7, min_samples_leaf=3, random_state=5
    ).fit(X, y)
    np.testing.assert_allclose(_fit_boosting(X, y, 5, 1).predict(new), theirs.predict(new), atol=1e-12)


def test_an_output_that_is_constant_up_to_rounding_changes_nothing():
    X = runs(60)
    rounding = 1e5 * (1 + 2e-16 * np.random.default_rng(1).integers(-2, 3, 60))
    alone = steep.Surrogate(BOUNDS, candidates=["smooth"], random_state=0).fit(X, wave(X))
    both = steep.Surrogate(BOUNDS, candidates=["smooth"], random_state=0)
    both.fit(X, np.column_stack([rounding, wave(X)]))
    assert both.certificate.worst() == pytest.approx(alone.certificate.worst())


def test_a_design_holds_out_even_runs_only():
    plan = steep.design(lambda X: np.tanh(9 * (X[:, 0] - X[:, 1])), [(0, 1)] * 2, 60, random_state=0)
    model = steep.Surrogate(candidates=["rough"], random_state=0).fit(plan)
    assert model.certificate.n_checks == round(0.2 * plan.is_even.sum())
    even = {tuple(x) for x in plan.X[plan.is_even].tolist()}
    assert {tuple(x) for x in model.X_check_.tolist()} <= even


TOO_FEW = "6 runs are left to fit 2 inputs when check runs are set aside; expected at least 10"


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (runs(30), np.r_[np.nan, np.ones(29)], "y contains NaN"),
        (runs(30), np.r_[np.inf, np.ones(29)], "y contains infinity"),
        (runs(8), np.arange(8.0), TOO_FEW),
        (runs(30), np.ones(29), "one row per row of X"),
        (runs(30) * 3, np.ones(30), "lie outside the bounds"),
        (runs(30), None, "without outputs; pass y"),
    ],
    ids=["nan", "inf", "few", "rows", "outside", "no y"],
)
def test_runs_that_cannot_be_used_are_rejected_in_one_line(X, y, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        steep.Surrogate(BOUNDS).fit(X, y)
    assert "\n" not in str(caught.value)


def test_points_outside_are_answered_only_when_asked(model):
    outside = [[2.5, 1.0], [1.0, 1.0]]
    with pytest.raises(ValueError, match="row 0 of X lies outside the domain"):
        model.predict(outside)
    _, halves = model.predict(outside, return_error=True, extrapolate=True)
    assert np.isinf(halves[0]).all()
    assert np.isfinite(halves[1]).all()


def test_a_confidence_that_few_check_runs_cannot_give_is_rejected(model):
    with pytest.raises(ValueError, match="needs at least 99 check runs, the surrogate has 24"):
        model.predict(runs(2), return_error=True, confidence=0.99)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 not really"], ids=["empty", "text", "half"])
def test_a_damaged_or_foreign_file_is_one_clear_line(content, tmp_path, model):
    path = tmp_path / "m.steep"
    path.write_bytes(content)
    with pytest.raises(steep.SteepError, match="is damaged or is not a steep surrogate") as caught:
        steep.Surrogate.load(path)
    assert "\n" not in str(caught.value)
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    with pytest.raises(steep.SteepError, match="is damaged or is not a steep surrogate"):
        steep.Surrogate.load(tmp_path / "other.npz")
    np.savez(tmp_path / "pickled.npz", about=np.array([{}], dtype=object))
    with pytest.raises(steep.SteepError, match="is damaged or is not a steep surrogate"):
        steep.Surrogate.load(tmp_path / "pickled.npz")
    with pytest.raises(steep.SteepError, match="does not exist"):
        steep.Surrogate.load(tmp_path / "none.steep")


def test_a_truncated_file_is_rejected(model, tmp_path):
    path = tmp_path / "m.steep"
    model.save(path)
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(steep.SteepError, match="is damaged"):
        steep.Surrogate.load(path)


def test_an_output_that_only_looks_constant_is_not_certified():
    X = np.random.default_rng(0).random((60, 2))
    y = np.where(np.arange(60) == 50, 1.0, 0.0)
    model = steep.Surrogate([(0, 1)] * 2, candidates=["rough"], random_state=0)
    model.fit(X, np.column_stack([y, X[:, 0]]), check=np.arange(60) >= 40)
    assert model.certificate.worst() == np.inf
    assert "constant at the runs it was fitted to, off by up to 1" in str(model.certificate)


def test_numbers_whose_squares_overflow_are_rejected():
    with pytest.raises(ValueError, match="y reaches 1e\\+200"):
        steep.Surrogate(BOUNDS).fit(runs(30), np.full(30, 1e200))


def test_it_is_a_regressor_of_scikit_learn():
    from sklearn.base import clone
    from sklearn.model_selection import cross_val_score

    X = np.random.default_rng(0).random((80, 2))
    model = clone(steep.Surrogate([(0, 1)] * 2, candidates=["smooth"], random_state=0))
    assert cross_val_score(model, X, np.sin(3 * X[:, 0]), cv=2).min() > 0.99


def test_a_certificate_shows_itself_in_a_notebook_with_names_as_text():
    errors = np.array([[0.1], [-0.2], [0.1], [0.05]])
    found = certify(
        errors,
        np.ones(len(errors)),
        np.array([[0.3], [0.09]]),
        np.ones(1),
        ["<b>lift"],
        n_runs=20,
        look=1,
        independent=True,
    )
    shown = found._repr_html_()
    assert "&lt;b&gt;lift: RMSE" in shown
    assert "<b>lift" not in shown
