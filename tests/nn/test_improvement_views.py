"""An improvement to look at: its card and its picture tell what its table says."""

import numpy as np
import pytest
import torch
from torch import nn

from steep.nn import HeadSearch, improve


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    X = torch.tensor(rng.normal(size=(160, 4)), dtype=torch.float32)
    y = (X[:, 0] * X[:, 1] > 0).long()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    return improve(
        network,
        (X[:80], y[:80]),
        validation=(X[80:], y[80:]),
        search=HeadSearch(weight_ratio=(1, 5), n_neighbors=(5,), l2=(1e-3,)),
    )


def test_the_picture_has_the_gains_of_the_table_in_points(found):
    ax = found.plot()
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert names == [name for name in found.table.index if name != "original"]
    drawn = [line.get_xdata()[0] for line in ax.lines if line.get_marker() in ("o", "s")]
    np.testing.assert_allclose(drawn, 100 * found.table["gain"].drop("original"))


def test_the_card_says_the_verdict_and_folds_the_table(found):
    text = found._repr_html_()
    assert str(found.verdict).split(":")[0][:40] in text
    assert "<details>" in text


NOTE = "which also made the choice; the stated gain is of samples that did not."


def test_every_view_says_which_samples_its_figures_are_of(found):
    assert found.chosen.kind != "original"
    table, _, _ = str(found).partition("Scores in the table are of all validation samples, " + NOTE)
    assert "chosen" in table
    assert found._repr_html_().partition("</table>")[2].count(NOTE) == 1


def test_a_kept_head_has_no_stated_gain(found):
    rng = np.random.default_rng(1)
    X = torch.tensor(rng.normal(size=(80, 4)), dtype=torch.float32)
    y = torch.tensor(rng.integers(2, size=80))
    few = {"search": HeadSearch(weight_ratio=(5,), n_neighbors=(5,), l2=(1e-3,))}
    kept = improve(found.network, (X[:40], y[:40]), (X[40:], y[40:]), **few)
    assert kept.chosen.kind == "original"
    assert "which also made the choice." in str(kept)
    assert not any("stated gain" in text for text in (str(kept), kept._repr_html_()))
