"""Scores of decisions, layers behind a head, heads fitted to the validation data, and calibration."""

import numpy as np
import pytest
import torch
from sklearn import metrics
from torch import nn

from steep.exceptions import InputError
from steep.nn import HeadSearch, improve
from steep.nn.choose import Layers
from steep.nn.heads import Head, HeadSamples, HeadTask
from steep.nn.improvement import calibration_of
from steep.nn.scores import DecisionScore, check_scoring, make_scores

from .test_scoring import answers, fooled, shortcut, worst_group


def score_of(scoring, outputs, y, task):
    return make_scores(check_scoring(scoring), task, y, None, lambda: None)[0]


SCORERS = {
    "f1": (2, lambda y, p: metrics.f1_score(y, p)),
    "f2": (2, lambda y, p: metrics.fbeta_score(y, p, beta=2)),
    "matthews_corrcoef": (3, lambda y, p: metrics.matthews_corrcoef(y, p)),
    "f1_macro": (4, lambda y, p: metrics.f1_score(y, p, average="macro")),
    "f1_weighted": (4, lambda y, p: metrics.f1_score(y, p, average="weighted")),
}


@pytest.mark.parametrize("name", SCORERS)
def test_scores_of_decisions_are_those_of_scikit_learn_for_all_heads_at_once(name):
    n_classes, function = SCORERS[name]
    outputs, y, _ = answers(n_classes=n_classes)
    score = score_of(name, outputs, y, HeadTask("multiclass", n_classes))
    assert isinstance(score, DecisionScore)
    heads = [outputs, outputs[::-1], outputs + np.arange(n_classes)]
    expected = [function(y, own.argmax(axis=1)) for own in heads]
    np.testing.assert_allclose(score.values(np.stack([score.keep(own) for own in heads])), expected)


def test_a_scorer_of_the_callers_own_with_a_beta_is_a_score_of_decisions():
    outputs, y, _ = answers(n_classes=2)
    task, scorer = HeadTask("multiclass", 2), metrics.make_scorer(metrics.fbeta_score, beta=2)
    assert score_of(scorer, outputs, y, task).value(outputs) == score_of("f2", outputs, y, task).value(outputs)


def test_resamples_spread_as_scores_of_drawn_samples_do():
    outputs, y, _ = answers(n=200, n_classes=2)
    score, rng = score_of("f1", outputs, y, HeadTask("multiclass", 2)), np.random.default_rng(0)
    drawn = score.resamples(score.keep(outputs)[None], rng)[0]
    rows = [np.flatnonzero(y == label) for label in (0, 1)]
    again = [np.concatenate([rng.choice(own, len(own)) for own in rows]) for _ in range(1000)]
    expected = [metrics.f1_score(y[own], outputs[own].argmax(axis=1)) for own in again]
    assert drawn.std() == pytest.approx(np.std(expected), rel=0.1)
    assert drawn.mean() == pytest.approx(np.mean(expected), abs=0.005)


# Layers


def trained(*counts):
    """Training samples of as many of each class."""
    return HeadSamples(np.zeros((sum(counts), 1)), np.repeat(np.arange(len(counts)), counts))


@pytest.mark.parametrize(("name", "n_outputs"), [("multiclass", 2), ("binary", 1)])
def test_a_threshold_calls_the_share_of_samples_positive_that_it_says(name, n_outputs):
    rng = np.random.default_rng(0)
    outputs, task = rng.normal(size=(1000, n_outputs)), HeadTask(name, n_outputs)
    y = (np.arange(1000) < 100).astype(int)
    score = score_of("f1", outputs, y if n_outputs == 2 else y[:, None].astype(float), task)
    head = Head(rng.normal(size=(n_outputs, 3)), np.zeros(n_outputs))
    layers = Layers.of(score, head, trained(900, 100)).behind(outputs)
    shares = [score.keep(layer.outputs(outputs)).mean() for layer in layers]
    assert min(shares) < 0.01 < 0.6 < max(shares)
    assert np.abs(np.array(shares) - 0.1).min() < 0.005


def test_a_layer_joined_to_a_head_gives_the_outputs_of_both():
    rng = np.random.default_rng(0)
    x, head = rng.normal(size=(50, 4)), Head(rng.normal(size=(3, 4)), rng.normal(size=3))
    y, task = np.arange(50) % 3, HeadTask("multiclass", 3)
    for scoring in ("f1_macro", "neg_log_loss"):
        layers = Layers.of(score_of(scoring, None, y, task), head, trained(30, 15, 5))
        for layer in layers.behind(head.outputs(x)):
            np.testing.assert_allclose(layer.joined(head).outputs(x), layer.outputs(head.outputs(x)))


def test_a_head_without_a_bias_has_no_threshold():
    score = score_of("f1", None, np.arange(50) % 2, HeadTask("multiclass", 2))
    assert Layers.of(score, Head(np.eye(2), None), trained(9, 1)) is None


def rare(n, seed, share=0.04):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    x = rng.normal(size=(n, 4))
    x[:, 0] += 2 * y
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def timid():
    """Right about the direction, and never sure enough to say so."""
    network = nn.Sequential(nn.Identity(), nn.Linear(4, 2))
    with torch.no_grad():
        network[1].weight.copy_(torch.tensor([[0.0] * 4, [0.5, 0.0, 0.0, 0.0]]))
        network[1].bias.copy_(torch.tensor([3.0, 0.0]))
    return network


def test_f1_of_a_rare_class_is_gained_by_a_threshold_alone():
    data, fresh = (rare(1500, 0), rare(1500, 1)), rare(20_000, 2)
    result = improve(timid(), *data, scoring="f1", search=HeadSearch(l2=(1e-3,), weight_ratio=(), held_out=True))
    assert "threshold" in result.chosen.layer
    before, after = (metrics.f1_score(fresh[1], network(fresh[0]).argmax(1)) for network in (timid(), result.network))
    assert before < 0.05
    assert after > 0.3
    low, high = result.verdict.interval.low, result.verdict.interval.high
    assert low < after - before < high


@pytest.mark.parametrize("scoring", ["f1", "f2", "matthews_corrcoef", "average_precision", "balanced_accuracy"])
def test_every_score_gets_every_kind_of_head(scoring):
    result = improve(timid(), rare(600, 0, 0.2), rare(400, 1, 0.2), scoring=scoring, search=HeadSearch(l2=(1e-2,)))
    kinds, rules = set(result.candidates["kind"]), set(result.candidates["rule"].dropna())
    assert {"equal", "weighted", "validation"} <= kinds
    assert {"Balanced()", "PseudoGroups(share=0.9)", "Doubted(gamma=8.0)", "classes of equal mass"} <= rules
    assert result.candidates["anchored"].any()


# Validation data and known groups


def test_a_head_fitted_to_the_validation_data_is_scored_on_samples_it_has_not_seen():
    train, held_out, fresh = shortcut(), shortcut(400, share=0.5, seed=1), shortcut(4000, share=0.5, seed=2)
    result = improve(fooled(), train[:2], held_out[:2], groups=held_out[2], scoring="worst_group_accuracy")
    best = result.candidates[result.candidates["kind"] == "validation"].sort_values("worst-group accuracy").iloc[-1]
    assert best["worst-group accuracy"] == pytest.approx(worst_group(result.network, fresh), abs=0.08)
    gain = worst_group(result.network, fresh) - worst_group(fooled(), fresh)
    assert result.verdict.interval.low < gain < result.verdict.interval.high


def test_labels_that_are_noise_are_not_learned_from_the_validation_data():
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(400, 60)), dtype=torch.float32)
    y = torch.tensor(rng.integers(2, size=400))
    torch.manual_seed(0)
    network = nn.Sequential(nn.Identity(), nn.Linear(60, 2))
    search = HeadSearch(l2=(1e-2,), weight_ratio=(), held_out=True)
    result = improve(network, (x[:250], y[:250]), (x[250:], y[250:]), search=search)
    fitted = result.candidates[result.candidates["kind"] == "validation"]
    assert fitted["accuracy"].max() < 0.65  # on the samples they were fitted to they are right about nearly all
    assert result.chosen.kind == "original"


def test_the_peer_that_was_chosen_is_named():
    train, held_out = shortcut(), shortcut(400, share=0.5, seed=1)
    search = HeadSearch(l2=(1e-2,), weight_ratio=(), held_out=True)
    result = improve(
        fooled(), train[:2], held_out[:2], groups=held_out[2], scoring="worst_group_accuracy", search=search
    )
    assert "groups of equal mass, fitted to the validation data" in str(result.verdict)


def test_known_groups_of_the_training_data_are_used():
    train, held_out = shortcut(), shortcut(400, share=0.5, seed=1)
    search = HeadSearch(l2=(1e-2,), weight_ratio=())
    groups = {"train": train[2], "validation": held_out[2]}
    result = improve(fooled(), train[:2], held_out[:2], groups=groups, scoring="worst_group_accuracy", search=search)
    assert "ByGroup()" in set(result.candidates["rule"])
    for group in range(4):
        assert result.weights[train[2] == group].sum() == pytest.approx(200)
    assert "classes ByGroup()" in str(result.verdict)


def test_groups_of_data_that_were_not_passed_are_one_line():
    train, held_out = shortcut(100), shortcut(60, share=0.5, seed=1)
    with pytest.raises(InputError, match=r"groups holds 'reweighting'; expected groups of train, validation"):
        improve(fooled(), train[:2], held_out[:2], groups={"reweighting": held_out[2]})
    with pytest.raises(InputError, match=r"expected one group for each of 100 train samples"):
        improve(fooled(), train[:2], held_out[:2], groups={"train": held_out[2]})


# Calibration


def test_the_temperature_is_the_factor_that_outputs_were_multiplied_by():
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(20_000, 3))
    shares = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    y = (shares.cumsum(axis=1) < rng.random((20_000, 1))).sum(axis=1)
    task = HeadTask("multiclass", 3)
    honest, sure = calibration_of(task, outputs, y), calibration_of(task, 4 * outputs, y)
    assert honest["temperature"] == pytest.approx(1.0, abs=0.05)
    assert sure["temperature"] == pytest.approx(4.0, abs=0.2)
    assert honest["ECE"] < 0.02 < 0.2 < sure["ECE"]
    assert sure["log loss with it"] == pytest.approx(honest["log loss with it"], rel=1e-6)
    assert sure["log loss"] == pytest.approx(metrics.log_loss(y, HeadTask.probabilities(task, 4 * outputs)))


def test_calibration_before_and_after_is_in_every_result_of_classes():
    result = improve(timid(), rare(600, 0, 0.2), rare(400, 1, 0.2), search=HeadSearch(l2=(1e-2,), weight_ratio=()))
    assert list(result.calibration.index) == ["original", "chosen"]
    assert {"log loss", "ECE", "temperature"} <= set(result.calibration.columns)
    assert result.calibration.to_string() in str(result)
