"""What dropping or correcting gains is measured on rows whose labels are trusted, and on no others."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier

import steep
from steep.exceptions import SteepError

X, Y = load_iris(return_X_y=True, as_frame=True)
WRONG = np.random.default_rng(0).choice(150, 30, replace=False)
LABELS = Y.to_numpy().copy()
LABELS[WRONG] = (LABELS[WRONG] + 1) % 3
FOUND = steep.suspects(X, LABELS, pred_probs=np.full((150, 3), 1 / 3), random_state=0)
RIGHT = dict(zip(WRONG.tolist(), Y.to_numpy()[WRONG].tolist(), strict=True))
MODEL = KNeighborsClassifier(1)


class Witness(ClassifierMixin, BaseEstimator):
    """Keeps the rows it was fitted to and scored on."""

    fitted, scored = [], []

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        Witness.fitted.append(dict(zip(X.index, y, strict=True)))
        return self

    def predict(self, X):
        Witness.scored.append(set(X.index))
        return np.zeros(len(X), int)


def test_decisions_that_change_nothing_gain_nothing():
    table = FOUND.effect(MODEL, decisions={}, random_state=0)
    assert table.index.tolist() == ["as given", "dropped", "corrected"]
    assert (table[["gain", "low", "high"]] == 0).all(axis=None)
    assert table["n_train"].nunique() == 1


def test_right_decisions_gain_and_each_way_is_fitted_to_its_own_rows():
    Witness.fitted.clear()
    Witness.scored.clear()
    trusted = list(range(0, 150, 2))
    FOUND.effect(Witness(), decisions=RIGHT, trusted=trusted, cv=3, random_state=0, scoring="accuracy")
    assert set.union(*Witness.scored) == set(trusted)
    for given, dropped, corrected, asked in zip(
        Witness.fitted[::3], Witness.fitted[1::3], Witness.fitted[2::3], Witness.scored[::3], strict=True
    ):
        others = set(range(150)) - asked
        assert set(given) == set(corrected) == others
        assert set(dropped) == others - set(WRONG)
        assert all(given[row] == LABELS[row] and corrected[row] == Y[row] for row in others)
    table = FOUND.effect(MODEL, decisions=RIGHT, random_state=0)
    assert (table.loc[["dropped", "corrected"], "low"] > 0).all()


def test_decided_rows_and_those_that_are_not_suspects_are_trusted():
    Witness.scored.clear()
    some = {int(FOUND.top(1).index[0]): 0}
    FOUND.effect(Witness(), decisions=some, cv=2, random_state=0)
    suspects = set(np.flatnonzero(FOUND.score > 0.5))
    assert set.union(*Witness.scored) == set(range(150)) - suspects | set(some)


BAD = {
    "expected at least 10 to score on": {"trusted": range(5)},
    "names row 150, which is not in the data": {"trusted": [150]},
    "trusted is 3; expected a path, a DataFrame": {"trusted": 3},
    "expected a scikit-learn scorer|need a scikit-learn scorer": {"scoring": "beauty"},
    "scoring names 2 scores; expected one": {"scoring": ["accuracy", "f1_macro"]},
    "cv": {"cv": 1},
    "cannot be fitted to or scored on the labels as given": {"scoring": "roc_auc"},
}


@pytest.mark.parametrize("said", BAD)
def test_what_cannot_be_measured_is_one_clear_line(said):
    with pytest.raises(SteepError, match=said) as caught:
        FOUND.effect(MODEL, **BAD[said])
    assert "\n" not in str(caught.value)


def test_numbers_are_measured_too():
    rng = np.random.default_rng(0)
    points = pd.DataFrame(rng.normal(size=(120, 2)))
    values = points[0] + points[1]
    values[:12] += 9
    from sklearn.linear_model import LinearRegression

    found = steep.suspects(points, values, estimator=LinearRegression(), random_state=0)
    table = found.effect(LinearRegression(), scoring="r2", random_state=0)
    assert table.loc["dropped", "gain"] > 0
