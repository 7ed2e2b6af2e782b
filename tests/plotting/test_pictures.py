"""Pictures show every point, on axes of the right kind, in words that are the user's."""

import sys
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.collections import PathCollection
from sklearn.datasets import load_wine

from steep import Adaptive, Campaign, Category, Integer, Log, design, sample_weights
from steep.exceptions import MissingExtraError, SteepError
from steep.metrics import Interval
from steep.plotting import plot_design, plot_gains, plot_weights, save_picture

MIXED = {"rate": Log(1e-3, 1e3), "a": (-1, 1), "n": Integer(1, 9), "metal": Category("steel", "copper")}


def runge(X):
    return 1 / (1 + 25 * (X[:, 0] - 0.5) ** 2)


def steep_in_a(X):
    return np.tanh(9 * X[:, 1]) + 0.01 * np.log10(X[:, 0]) + 0.01 * X[:, 2] + 0.1 * (X[:, 3] == 1)


def plan(n_features):
    return design(lambda X: runge(X) + X.sum(axis=1), [(0, 1)] * n_features, 25, n_initial=16, random_state=0)


def scattered(ax):
    return [len(marks.get_offsets()) for marks in ax.collections if isinstance(marks, PathCollection)]


@pytest.mark.parametrize("n_features", [1, 2])
def test_every_point_of_a_design_is_drawn(n_features):
    ax = plot_design(plan(n_features), function=runge if n_features == 1 else None)
    found = plan(n_features)
    n_placed = found.is_placed.sum()
    assert scattered(ax) == [n for n in (16, 9 - n_placed, n_placed) if n]
    assert len(ax.lines) == (n_features == 1)


@pytest.mark.parametrize("draw", [lambda: plot_design(plan(1), function=runge), lambda: plot_design(plan(2))])
def test_a_legend_lies_outside_the_axes_where_its_marks_are_no_points(draw):
    panels = np.atleast_1d(draw())
    figure = panels[0].figure
    figure.canvas.draw()
    legends = [ax.get_legend() for ax in panels if ax.get_legend() is not None]
    for legend in legends:
        box = legend.get_window_extent()
        assert not any(box.shrunk(0.98, 0.9).overlaps(ax.get_window_extent()) for ax in panels)
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1


def test_a_design_of_many_inputs_is_drawn_over_the_two_steepest():
    found = design(steep_in_a, MIXED, 80, n_initial=40, strategy=Adaptive(rounds=2), random_state=0)
    ax = found.plot()
    order = [found.box.names[i] for i in np.argsort(-found.steepness(), kind="stable")]
    assert {ax.get_xlabel(), ax.get_ylabel()} == set(order[:2])
    assert "a" in order[:2]
    n_placed = found.is_placed.sum()
    assert scattered(ax) == [40, 40 - n_placed, n_placed]


def test_axes_have_the_kind_and_the_ends_of_the_inputs():
    found = design(
        lambda X: np.log10(X[:, 0]) + X[:, 1],
        {"r": Log(1e-3, 1e3), "m": Category("x", "y")},
        24,
        n_initial=16,
        strategy=Adaptive(rounds=2),
        random_state=0,
    )
    ax = plot_design(found)
    assert ax.get_xscale() == "log"
    assert ax.get_xlim()[0] <= 1e-3 < 1e3 <= ax.get_xlim()[1]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["x", "y"]


def test_weights_colour_the_samples_heavy_on_top():
    X, weights = np.random.default_rng(0).random((30, 2)), np.arange(30.0)[::-1]
    marks = plot_weights(X, weights, ax=pyplot.subplots()[1]).collections[0]
    np.testing.assert_allclose(marks.get_array(), np.clip(np.sort(weights) / weights.mean(), 0.1, 10))
    np.testing.assert_array_equal(marks.get_offsets(), X[::-1])


def test_weights_of_many_features_are_drawn_on_their_principal_plane():
    X, y = load_wine(return_X_y=True)
    ax = plot_weights(X, sample_weights(X, y))
    assert ax.get_xlabel() == "component 1 (36 % of the spread)"
    points = np.asarray(ax.collections[0].get_offsets())
    assert points[:, 0].var() > points[:, 1].var()
    assert abs(np.corrcoef(points.T)[0, 1]) < 1e-8


def test_gains_are_drawn_with_their_intervals():
    ax = plot_gains({"a": Interval(0.2, 0.1, 0.3, 9), "b": Interval(-0.1, -0.2, 0.0, 9)}, chosen="a", factor=10)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a", "b"]
    spans = [line.get_xdata() for line in ax.lines if len(line.get_xdata()) == 2 and line.get_linewidth() > 2]
    np.testing.assert_allclose(spans, [[1, 3], [-2, 0]])


@pytest.mark.parametrize("n_inputs", [1, 2, 3])
def test_failed_runs_are_seen_in_every_picture_of_points(n_inputs):
    def run(x0, **others):
        if x0 > 0.8:
            raise ValueError("diverged")
        return x0 + sum(others.values())

    bounds = {f"x{i}": (0.0, 1.0) for i in range(n_inputs)}
    with Campaign(bounds, storage=":memory:") as campaign:
        campaign.run(run, 16, retries=0)
        assert campaign.n_failed > 0
        groups = campaign.plot().collections
        assert [len(group.get_offsets()) for group in groups if group.get_label() == "failed"] == [campaign.n_failed]


def test_a_campaign_draws_its_points_and_failures():
    def run(u, t):
        if t > 8:
            raise ValueError("diverged")
        return u * np.exp(-t)

    with Campaign({"u": Log(1e-3, 1), "t": (0, 10)}, storage=":memory:") as campaign:
        campaign.run(run, 40, retries=0)
        drawn = campaign.plot()
        found, runs = campaign.to_design(), campaign.to_dataframe()
        n_start = int(((runs["origin"] == "initial") & (runs["state"] == "done")).sum())
        assert found.is_initial.sum() == n_start
        n_placed = int(found.is_placed.sum())
        assert scattered(drawn) == [n_start, campaign.n_done - n_start - n_placed, n_placed, campaign.n_failed]
        assert campaign.n_failed > 0
        assert found.outputs == ("y0",)
        np.testing.assert_array_equal(found.X, campaign.X)


@pytest.mark.parametrize("ending", ["svg", *(pytest.param(end, marks=pytest.mark.slow) for end in ("pdf", "png"))])
def test_a_picture_is_the_same_file_each_time(ending, tmp_path):
    files = [save_picture(plot_weights(np.eye(4), [1, 2, 3, 4]), tmp_path / f"{i}.{ending}") for i in range(2)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_vector_picture_keeps_text_as_text_and_names_as_they_are(tmp_path):
    name = "cost in $ and $ <b>"
    found = design(lambda X: X[:, 0], {name: (0, 1)}, 12, n_initial=8, random_state=0)
    drawn = ElementTree.parse(save_picture(found.plot(), tmp_path / "p.svg"))
    texts = ["".join(element.itertext()).strip() for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert name in texts
    assert "variation" in texts


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'steep\[report\]'"):
        plot_weights(np.zeros((4, 2)), np.ones(4))


def test_what_cannot_be_drawn_is_refused_by_name():
    """Seeded loop of bad inputs: only errors of ours come out."""
    rng = np.random.default_rng(0)
    bad = [None, 3, "x", [], {}, np.nan, object(), np.ones(3), -np.ones(4), np.full(4, np.nan), np.ones((4, 0)),
           [[1], [2, 3]], pd.DataFrame(), np.ones((2, 2, 2)), {"a": 1}]  # fmt: skip
    found = plan(2)
    calls = [
        lambda v: plot_weights(v, np.ones(4)),
        lambda v: plot_weights(np.ones((4, 2)), v),
        lambda v: plot_gains(v),
        lambda v: plot_design(found, output=v),
        lambda v: plot_design(plan(1), output=v),
        lambda v: save_picture(v, "nowhere.svg"),
    ]
    n_refused = 0
    for _ in range(150):
        call, value = calls[rng.integers(len(calls))], bad[rng.integers(len(bad))]
        try:
            call(value)
        except SteepError:
            n_refused += 1
        finally:
            pyplot.close("all")
    assert n_refused > 90
