"""Means of two heads, and a choice that is scored on samples it was not made by."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from steep.nn import HeadSearch, improve
from steep.nn.choose import blend, can_blend
from steep.nn.heads import Head, HeadTask
from steep.nn.scores import CellScore, MeanScore

from .heads_found import choose_among
from .test_scoring import fooled, shortcut

SOFTMAX = HeadTask("multiclass", 3)
RNG = np.random.default_rng(0)


def some_head(seed, size=1.0):
    rng = np.random.default_rng(seed)
    return Head(size * rng.normal(size=(3, 5)), size * rng.normal(size=3))


def test_a_blend_does_not_depend_on_the_size_of_its_heads():
    z = RNG.normal(size=(50, 5))
    whole, scaled = (blend([some_head(1), some_head(2, size)], SOFTMAX).outputs(z).argmax(axis=1) for size in (1, 1e4))
    np.testing.assert_array_equal(whole, scaled)


def test_a_blend_does_not_depend_on_a_constant_added_to_all_outputs():
    z, one, other = RNG.normal(size=(50, 5)), some_head(1), some_head(2)
    shifted = Head(one.weight + RNG.normal(size=5) * 30, one.bias + 7)
    np.testing.assert_allclose(blend([one, other], SOFTMAX).outputs(z), blend([shifted, other], SOFTMAX).outputs(z))


def test_a_blend_of_a_head_with_itself_is_that_head():
    one = some_head(1)
    gap = blend([one, one], SOFTMAX).weight - one.weight
    np.testing.assert_allclose(gap, np.broadcast_to(gap[:1], gap.shape), atol=1e-12)


def chosen_of(answers, cells, **settings):
    """The choice among heads whose answers are given."""
    score = CellScore("worst_group_accuracy", HeadTask("multiclass", 2), np.zeros(len(cells)), None, cells=cells)
    return choose_among(answers, score, n_equal=1, **settings)[1]


def test_the_best_of_many_heads_that_are_all_alike_is_not_said_to_gain():
    n_replaced = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        cells, answers = np.repeat([0, 1], 100), rng.random((200, 200)) < 0.7
        choice = chosen_of(answers, cells)
        n_replaced += choice.chosen != 0
        # What is reported is not what the choice was made by.
        assert choice.gain.mean < max(gain.mean for gain in choice.rows.values())
    assert n_replaced <= 3


def test_a_head_that_is_better_is_chosen_among_many():
    rng = np.random.default_rng(0)
    cells, answers = np.repeat([0, 1], 200), rng.random((100, 400)) < 0.6
    answers[57] = rng.random(400) < 0.9
    choice = chosen_of(answers, cells)
    assert choice.chosen == 57
    assert choice.gain.low > 0.1


def test_weights_must_beat_equal_weights():
    rng = np.random.default_rng(0)
    cells, answers = np.repeat([0, 1], 200), rng.random((3, 400)) < 0.6
    answers[1] = np.arange(400) % 10 > 0
    answers[2] = answers[1]
    for cell in (0, 200):  # ten samples gained and nine lost in each cell: better, and no evidence of it
        answers[2, cell + np.flatnonzero(~answers[1, :200])[:10]] = True
        answers[2, cell + np.flatnonzero(answers[1, :200])[:9]] = False
    assert chosen_of(answers, cells).chosen == 1


FEW = {"search": HeadSearch(l2=(1.0, 1e-1, 1e-3), n_neighbors=(5, 20))}


@pytest.fixture(scope="module")
def parts():
    return shortcut(), shortcut(400, share=0.5, seed=1)


def test_the_blend_reported_is_the_one_joined(parts):
    train, held_out = parts
    result = improve(fooled(), train[:2], held_out[:2], scoring="f1_macro", **FEW)
    predicted = result.network(held_out[0]).argmax(1)
    assert result.rescored == pytest.approx(f1_score(held_out[1], predicted, average="macro"))
    assert result.chosen.kind == "blended"
    assert "the mean of 10 heads" in str(result.verdict)
    assert result.candidates["blend"].iloc[-1] == str(result.chosen)


def test_blends_are_for_scores_to_which_samples_count_unequally():
    score = CellScore("worst_group_accuracy", SOFTMAX, np.zeros(4), None, cells=np.array([0, 0, 1, 1]))
    assert can_blend(score)
    assert not can_blend(MeanScore("accuracy", SOFTMAX, np.zeros(4), None))
