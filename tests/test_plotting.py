import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot

from steep import design
from steep.exceptions import InputError, MissingExtraError
from steep.paper.problems import runge
from steep.plotting import plot_design, plot_weights

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


def plan(n_features):
    return design(
        lambda X: runge(X[:, :1]) + X.sum(axis=1),
        [(0, 1)] * n_features,
        n_initial=16,
        n_samples=9,
        random_state=0,
    )


@pytest.mark.parametrize("n_features", [1, 2])
def test_every_point_of_a_design_is_drawn(n_features):
    ax = plot_design(plan(n_features), function=runge if n_features == 1 else None)
    assert [len(marks.get_offsets()) for marks in ax.collections] == [16, 9]
    assert len(ax.lines) == (n_features == 1)


def test_a_design_of_many_inputs_is_refused():
    with pytest.raises(InputError, match="design has 3 inputs; need 1 or 2"):
        plot_design(plan(3))


def test_weights_colour_the_samples_heavy_on_top():
    X, weights = np.random.default_rng(0).random((30, 2)), np.arange(30.0)[::-1]
    ax = plot_weights(X, weights, ax=pyplot.subplots()[1])
    marks = ax.collections[0]
    np.testing.assert_array_equal(marks.get_array(), np.sort(weights))
    np.testing.assert_array_equal(marks.get_offsets(), X[::-1])


def test_weights_need_two_columns():
    with pytest.raises(InputError, match="X has 3 columns, need 2"):
        plot_weights(np.zeros((4, 3)), np.ones(4))


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'steep\[report\]'"):
        plot_weights(np.zeros((4, 2)), np.ones(4))
