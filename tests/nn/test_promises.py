"""What a verdict may promise: what held-out data show, no more, and in figures that add up."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score
from torch import nn

from steep.evidence import Score
from steep.metrics import Interval
from steep.nn import HeadSearch, improve
from steep.nn.choose import Choice
from steep.nn.heads import HeadTask
from steep.nn.improvement import evidence_table, write_verdict
from steep.nn.scores import MeanScore

from .heads_found import choose_among, found_heads
from .test_scoring import fooled, shortcut

FEW = {"search": HeadSearch(l2=(1e-1, 1e-3), weight_ratio=(5.0,), n_neighbors=(10,))}


def overlapping(n, seed, n_classes=3):
    """Classes that overlap, of unequal size."""
    rng = np.random.default_rng(seed)
    y = np.minimum(rng.geometric(0.5, size=n) - 1, n_classes - 1)
    centres = np.random.default_rng(99).normal(size=(n_classes, 5))
    x = centres[y] + rng.normal(size=(n, 5))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def linear(n_in=5, n_out=3, scale=0.3):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Identity(), nn.Linear(n_in, n_out))
    with torch.no_grad():
        network[1].weight.mul_(scale)
    return network


def described(result):
    return str(result.verdict)


# Only significant gains replace the original head


def chosen_of(hits, n_weighted=0, **settings):
    """The choice among heads of which it is known whether they are right on each sample."""
    hits = np.asarray(hits)
    score = MeanScore("accuracy", HeadTask("multiclass", 2), np.arange(hits.shape[1]) % 2, None)
    found, choice = choose_among(hits, score, len(hits) - 1 - n_weighted, **settings)
    return choice, found.heads[choice.chosen].candidate.kind


def right_on(n, *counts):
    return np.stack([np.arange(n) < count for count in counts])


@pytest.mark.parametrize(
    ("counts", "kind"),
    [
        ((50, 50, 50), "original"),  # a tie goes to the original
        ((50, 51, 50), "original"),  # one sample that differs is not evidence
        ((50, 55, 50), "original"),  # nor are five: equal heads show that in 1 of 16 cases
        ((50, 60, 60), "equal"),  # weights must beat equal weights
        ((50, 60, 61), "equal"),
        ((50, 60, 70), "weighted"),
        ((70, 60, 65), "original"),
    ],
)
def test_the_simpler_head_is_left_only_by_evidence(counts, kind):
    assert chosen_of(right_on(100, *counts), n_weighted=1)[1] == kind


def test_ties_go_to_the_stronger_penalty():
    assert chosen_of(right_on(100, 20, 60, 60))[0].chosen == 1


def test_of_many_heads_that_are_no_better_hardly_one_is_chosen():
    rng = np.random.default_rng(0)
    hits = [rng.random((61, 400)) < 0.9 for _ in range(60)]
    assert sum(chosen_of(h)[0].chosen > 0 for h in hits) <= 4


def test_the_stated_gain_of_the_best_of_many_heads_is_the_gain_on_new_samples():
    rng, stated, flattering, true = np.random.default_rng(0), [], [], []
    quality = np.concatenate([[0.7], 0.7 + 0.1 * rng.random(60)])
    for _ in range(60):
        choice, _ = chosen_of(rng.random((61, 300)) < quality[:, None])
        if choice.chosen:
            stated.append(choice.gain.mean)
            flattering.append(max(gain.mean for gain in choice.rows.values()))
            true.append(quality[choice.chosen] - quality[0])
    assert len(true) >= 20
    assert 0.8 < np.mean(stated) / np.mean(true) < 1.25
    assert np.mean(flattering) / np.mean(true) > 1.25


def test_a_head_is_replaced_only_if_the_interval_excludes_zero():
    replaced = 0
    for seed in range(12):
        network = linear(scale=1.0)
        result = improve(network, overlapping(300, seed), overlapping(60, 100 + seed), **FEW)
        if result.chosen.kind != "original":
            replaced += 1
            assert result.verdict.interval.low > 0
            assert "includes 0" not in described(result)
    assert replaced


# Equal scores, bounded scores, scores of few samples


def test_a_name_that_a_mapping_gives_to_another_scorer_is_that_scorer():
    train, held_out = overlapping(400, 0), overlapping(300, 1)
    result = improve(linear(), train, held_out, scoring={"recall_macro": "accuracy"}, **FEW)
    predicted = linear()(held_out[0]).argmax(1)
    assert result.table.loc["original", "recall macro"] == pytest.approx(accuracy_score(held_out[1], predicted))


def rare(n, n_positive, seed):
    rng = np.random.default_rng(seed)
    y = np.zeros(n, int)
    y[:n_positive] = 1
    x = np.column_stack([2.0 * y, np.zeros(n)]) + rng.normal(size=(n, 2))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def never_positive():
    network = nn.Sequential(nn.Identity(), nn.Linear(2, 2))
    with torch.no_grad():
        network[1].weight.copy_(torch.tensor([[0.0, 0.1], [0.0, -0.1]]))
        network[1].bias.copy_(torch.tensor([3.0, -3.0]))
    return network


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("scoring", ["precision", "f1", "recall", "balanced_accuracy", "worst_class_accuracy"])
def test_a_gain_that_rests_on_two_samples_is_not_told_from_none(scoring):
    train, held_out = rare(300, 40, 0), rare(200, 2, 1)
    result = improve(never_positive(), train, held_out, scoring=scoring, **FEW)
    assert result.chosen.kind == "original"
    assert "cannot tell" in described(result) or "reliably better" in described(result)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("scoring", ["accuracy", "f1", "balanced_accuracy", "worst_class_accuracy", "neg_log_loss"])
def test_the_interval_of_a_bounded_score_stays_within_its_bounds(scoring):
    train, held_out = rare(300, 60, 0), rare(80, 20, 1)
    network = never_positive()
    with torch.no_grad():
        network[1].weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))  # wrong nearly everywhere
    result = improve(network, train, held_out, scoring=scoring, **FEW)
    start = result.table[result.verdict.unit]["original"]
    best = start if scoring == "neg_log_loss" else 1 - start
    assert result.chosen.kind != "original"
    assert (result.table["gain_high"] <= best + 1e-12).all()
    if scoring != "neg_log_loss":
        assert (result.table["gain_low"] >= -start - 1e-12).all()


def test_a_score_without_a_mean_is_asked_a_few_times_for_each_head():
    calls = []

    def scorer(estimator, rows, y):
        calls.append(len(rows))
        return accuracy_score(y, estimator.predict(rows))

    result = improve(linear(), overlapping(300, 0), overlapping(100, 1), scoring=scorer)
    assert len(result.candidates) > 50
    assert len(calls) < 60 * len(result.candidates)


# What the sentence says


def test_the_parts_of_a_gain_add_up_to_the_gain():
    train, held_out = shortcut(), shortcut(400, share=0.5, seed=1)
    result = improve(
        fooled(),
        train[:2],
        held_out[:2],
        groups=held_out[2],
        scoring="worst_group_accuracy",
        search=HeadSearch(held_out=False),
    )
    assert result.chosen.kind in ("weighted", "blended")
    number = r"(-?[\d.]+)"
    found = re.search(
        rf"raises worst-group accuracy by {number} points .*: {number} from re-training with equal weights and "
        rf"{number} more from the choice", described(result)
    )  # fmt: skip
    total, *parts = map(float, found.groups())
    assert sum(parts) == pytest.approx(total, abs=1e-9)
    assert total == pytest.approx(100 * result.verdict.interval.mean, rel=0.01)


def test_the_sentence_says_what_happened_to_the_other_scores():
    train, held_out = shortcut(), shortcut(800, share=0.9, seed=1)
    result = improve(
        fooled(), train[:2], held_out[:2], groups=held_out[2], scoring=["worst_group_accuracy", "accuracy"], **FEW
    )
    found = re.search(r"Accuracy (rises|falls) from ([\d.]+) % to ([\d.]+) %\.", described(result))
    before, after = map(float, found.groups()[1:])
    assert result.chosen.kind != "original"
    assert before == pytest.approx(100 * result.table.loc["original", "accuracy"], abs=0.01)
    assert found[1] == ("falls" if after < before else "rises")


def test_every_score_of_the_sentence_is_of_samples_that_did_not_make_the_choice():
    def same(estimator, rows, y):
        return accuracy_score(y, estimator.predict(rows))

    data = overlapping(60, 0), overlapping(120, 50)
    result = improve(linear(), *data, scoring=["accuracy", same], search=HeadSearch(held_out=False))
    start, end = re.search(r"from ([\d.]+) % to ([\d.]+) %:", described(result)).groups()
    found = re.search(r"Same rises from ([\d.]+) to ([\d.]+)\.", described(result)).groups()
    assert float(end) != pytest.approx(100 * result.table.loc["chosen", "accuracy"])  # else nothing is tested
    assert [100 * float(value) for value in found] == pytest.approx([float(start), float(end)])
    assert float(end) == pytest.approx(float(start) + 100 * result.table.loc["chosen", "gain"])


def noisy_later():
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(1200, 2)), dtype=torch.float32)
    y = (x[:, 0] > 0).long()
    flipped = torch.tensor(rng.random(1200) < 0.25)
    return x, y, torch.where(flipped, 1 - y, y)  # labels that training data do not prepare for


def timid():
    network = nn.Sequential(nn.Identity(), nn.Linear(2, 2))
    with torch.no_grad():
        network[1].weight.copy_(torch.tensor([[-0.3, -0.3], [0.3, 0.3]]))
        network[1].bias.zero_()
    return network


def test_the_log_loss_of_the_sentence_is_of_samples_that_did_not_make_the_choice():
    x, y, noisy = noisy_later()
    data = (x[:600], y[:600]), (x[600:], noisy[600:])
    few = {"search": replace(FEW["search"], l2=(1e-4, 1e-6))}
    plain, named = (improve(timid(), *data, scoring=own, **few) for own in (None, ["accuracy", "neg_log_loss"]))
    course = r"[Tt]he log loss rises from ([\d.]+) to ([\d.]+\d)"
    assert re.search(course, described(plain)).groups() == re.search(course, described(named)).groups()
    assert float(re.search(course, described(named))[2]) != pytest.approx(
        named.table.loc["chosen", "log loss"], rel=1e-3
    )


def perfect(n_in=4):
    """A network that is right about every sample of :func:`halves`."""
    network = linear(n_in, 2, scale=0.0)
    with torch.no_grad():
        network[1].weight[:, 0] = torch.tensor([-4.0, 4.0])
        network[1].bias.zero_()
    return network


def halves(n, seed):
    x = torch.tensor(np.random.default_rng(seed).normal(size=(n, 4)), dtype=torch.float32)
    return x, (x[:, 0] > 0).long()


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_a_kept_head_that_no_other_beats_is_said_to_be_so_without_a_gain(seed):
    result = improve(perfect(), halves(60, seed), halves(20, 100 + seed), **FEW)
    assert (result.table["gain"] <= 0).all()
    assert described(result) == (
        "The original head is kept: on 20 held-out samples no re-trained head is better than its accuracy of 100 %."
    )


def test_a_gain_of_a_kept_head_says_which_samples_it_is_of():
    network = improve(linear(), overlapping(200, 3), overlapping(60, 53), **FEW).network
    result = improve(network, overlapping(200, 13), overlapping(60, 73), **FEW)
    assert result.chosen.kind == "original"
    assert (result.table["gain"] > 0).any()
    assert "the best choice among them, on samples that did not make it, " in described(result)


def test_a_part_of_the_gain_that_is_nothing_has_no_sign():
    score = MeanScore("neg_mean_absolute_error", HeadTask("regression", 1), np.zeros(10), None)
    found = found_heads(np.repeat([[-2.0], [0.0]], 10, axis=1), score, n_equal=0)
    gain = Interval(2.0, 1.0, 3.0, 10)
    choice = Choice(1, gain, -1e-9, {1: gain}, outputs=np.zeros((10, 1)))
    table = evidence_table(found, choice)
    verdict = write_verdict(table, found, choice)
    assert "from 2 to 0: 0.00 from re-training with equal weights and 2.00 more from the choice" in str(verdict)
    assert not np.signbit(table["mean absolute error"]["chosen"])


def test_an_average_of_f1_is_named_as_people_say_it():
    for average in ("macro", "micro", "weighted"):
        assert Score.named(f"f1_{average}") == replace(Score.named("f1"), title=f"{average} F1")


def test_probabilities_that_became_worse_are_named():
    x, y, noisy = noisy_later()
    network = timid()
    data = (x[:600], y[:600]), (x[600:], noisy[600:])
    result = improve(network, *data, search=replace(FEW["search"], l2=(1e-6,)))
    assert result.chosen.kind != "original"
    assert re.search(
        r"The log loss rises from [\d.]+ to [\d.]+: its probabilities are less reliable; dividing the outputs by",
        described(result),
    )
    by_log_loss = improve(network, *data, scoring="neg_log_loss", **FEW)
    assert "less reliable" not in described(by_log_loss)
