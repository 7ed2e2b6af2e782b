"""What is accepted as data: forms of labels and inputs, and what is said about data that mislead."""

import warnings

import pytest
import torch
from torch.nn import functional

from architectures import CLASSES, X, build
from steep.exceptions import InputError, SteepWarning
from steep.nn import improve, retrain_head

SMALL = {"l2": (1e-3,), "weight_ratio": (5.0,), "n_neighbors": (10,)}
ONE_HOT = functional.one_hot(CLASSES, 3)
SOFT = 0.9 * ONE_HOT.float() + 0.1 / 3


def same_head(one, other):
    return torch.equal(list(one.parameters())[-2], list(other.parameters())[-2])


# ------------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize("form", [ONE_HOT, ONE_HOT.float(), ONE_HOT.bool(), ONE_HOT.numpy()])
def test_one_hot_labels_are_classes(form):
    network = build("mlp")[0]
    with pytest.warns(SteepWarning, match=r"one-hot.*taken as classes; .*task='multilabel'"):
        found = retrain_head(network, X, form, n_neighbors=10)
    assert same_head(found, retrain_head(network, X, CLASSES, n_neighbors=10))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same_head(found, retrain_head(network, X, form, n_neighbors=10, task="multiclass"))
        labelwise = retrain_head(network, X, form, n_neighbors=10, task="multilabel")
    assert not same_head(found, labelwise)


def test_improve_takes_one_hot_labels_of_both_parts():
    network = build("mlp")[0]
    with pytest.warns(SteepWarning, match="one-hot") as seen:
        found = improve(network, (X[:80], ONE_HOT[:80]), (X[80:], ONE_HOT[80:]), **SMALL)
    assert len(seen) == 1
    expected = improve(network, (X[:80], CLASSES[:80]), (X[80:], CLASSES[80:]), **SMALL)
    assert str(found.verdict) == str(expected.verdict)
    assert found.rescored == expected.rescored
    with pytest.warns(SteepWarning, match="one-hot"):  # the parts may differ in form
        mixed = improve(network, (X[:80], ONE_HOT[:80]), (X[80:], CLASSES[80:]), **SMALL)
    assert mixed.rescored == expected.rescored


@pytest.mark.parametrize("form", [SOFT, SOFT.double(), SOFT.half(), SOFT.numpy()])
def test_soft_labels_are_rejected_with_the_way_out(form):
    network = build("mlp")[0]
    message = r"rows that sum to one.*class probabilities; pass labels\.argmax\(1\).*task='regression'"
    with pytest.raises(InputError, match=message):
        retrain_head(network, X, form)
    with pytest.raises(InputError, match=message):
        improve(network, (X, form))
    retrain_head(network, X, form, n_neighbors=10, task="regression")


def test_labels_that_only_look_alike_are_what_they_were():
    network = build("mlp")[0]
    several = ONE_HOT.clone()
    several[0, :2] = 1  # one sample of two labels: no classes
    numbers = SOFT.clone()
    numbers[0, 0] += 1
    for labels, task in ((several, "multilabel"), (numbers, "regression")):
        by_itself = retrain_head(network, X, labels, n_neighbors=10)
        assert same_head(by_itself, retrain_head(network, X, labels, n_neighbors=10, task=task))


@pytest.mark.parametrize("name", ["regression", "several outputs"])
@pytest.mark.parametrize("size", [1e10, 1e30, 1e200])
def test_labels_that_are_too_large_are_one_line(name, size):
    network, (_, y), _, _ = build(name)
    large = size * y.double() / y.abs().max()
    for call in (
        lambda: improve(network, (X, large), **SMALL),
        lambda: improve(network, (X[:80], y[:80]), (X[80:], large[80:]), **SMALL),
        lambda: retrain_head(network, X, large, n_neighbors=10),
    ):
        with pytest.raises(InputError, match=r"labels reach \S+e\+\d+; expected numbers up to \S+; divide"):
            call()


@pytest.mark.parametrize("name", ["regression", "several outputs"])
def test_labels_as_large_as_allowed_raise_no_warning(name):
    network, (_, y), _, _ = build(name)
    improve(network, (X, 7e8 * y.double() / y.abs().max()), **SMALL)
