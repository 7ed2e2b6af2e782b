"""What is accepted as data: forms of labels and inputs, and what is said about data that mislead."""

import warnings
from collections import UserDict

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, log_loss
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from architectures import CLASSES, DICTS, TOKENS, ForSequenceClassification, X, build
from steep.exceptions import InputError, SteepError, SteepWarning
from steep.nn import Balanced, HeadSearch, improve, project, retrain_head, split

SMALL = {"search": HeadSearch(l2=(1e-3,), weight_ratio=(5.0,), n_neighbors=(10,))}
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
        improve(network, (X, form), (FRESH, FRESH_CLASSES))
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
@pytest.mark.parametrize("size", [1e10, 1e30, 1e90])
def test_labels_that_are_too_large_are_one_line(name, size):
    network, (_, y), _, _ = build(name)
    large = size * y.double() / y.abs().max()
    for call in (
        lambda: improve(network, (X, large), (X[:9], y[:9]), **SMALL),
        lambda: improve(network, (X[:80], y[:80]), (X[80:], large[80:]), **SMALL),
        lambda: retrain_head(network, X, large, n_neighbors=10),
    ):
        with pytest.raises(InputError, match=r"labels reach \S+e\+\d+; expected numbers up to \S+; divide"):
            call()


@pytest.mark.parametrize("name", ["regression", "several outputs"])
def test_labels_as_large_as_allowed_raise_no_warning(name):
    network, (_, y), _, _ = build(name)
    large = 7e8 * y.double() / y.abs().max()
    improve(network, (X[:80], large[:80]), (X[80:], large[80:]), **SMALL)


# ------------------------------------------------------------------------------------------- dicts

FIELDS = {"input_ids": TOKENS, "attention_mask": torch.ones(len(TOKENS), 6)}


def plain(form):
    return {key: value.tolist() if form == "lists" else value.numpy() for key, value in FIELDS.items()}


@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize("data", [
    (FIELDS, CLASSES), [FIELDS, CLASSES.numpy()], (FIELDS, CLASSES.tolist()), FIELDS | {"labels": CLASSES},
    (plain("arrays"), CLASSES), (plain("lists"), CLASSES), plain("lists") | {"label": CLASSES.tolist()},
    [{key: value[i] for key, value in plain("lists").items()} | {"y": int(CLASSES[i])} for i in range(len(CLASSES))],
    [({key: value[i] for key, value in plain("lists").items()}, int(CLASSES[i])) for i in range(len(CLASSES))],
    [({key: value[i] for key, value in FIELDS.items()}, CLASSES[i]) for i in range(len(CLASSES))],
])  # fmt: skip
def test_every_form_of_dicts_gives_the_same_features(data, batch_size):
    network = build("output object")[0]
    expected = project(network, DICTS)
    found = project(split(network, batch_size=batch_size), data)
    np.testing.assert_allclose(found.features, expected.features, atol=1e-6)
    np.testing.assert_array_equal(found.labels, CLASSES)


def test_a_loader_over_lists_of_numbers_is_read_as_it_is_meant():
    network = build("output object")[0]
    samples = [
        {"input_ids": ids.tolist(), "attention_mask": [1] * 6, "labels": int(label)}
        for ids, label in zip(TOKENS, CLASSES, strict=True)
    ]
    found = project(network, DataLoader(samples, batch_size=50))
    np.testing.assert_allclose(found.features, project(network, DICTS).features, atol=1e-6)


def test_a_mapping_of_another_class_is_a_dict():
    network = build("output object")[0]
    expected = project(network, DICTS).features
    for data in (
        (UserDict(FIELDS), CLASSES),
        UserDict(FIELDS),
        [UserDict(sample) for sample in DICTS],
        DataLoader(DICTS, batch_size=50, collate_fn=lambda items: UserDict(torch.utils.data.default_collate(items))),
    ):
        np.testing.assert_allclose(project(network, data).features, expected, atol=1e-6)


def test_lists_of_tensors_and_text_in_samples_reach_the_network_as_they_are_collated():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(5, 3)

        def forward(self, parts, name):
            assert isinstance(name[0], str)
            return self.head(parts[0] + parts[1])

    samples = [{"parts": [x, x], "name": "a"} for x in X]
    np.testing.assert_allclose(project(Both(), samples).features, 2 * X)


def test_improve_takes_a_dict_of_tensors_with_labels():
    network = build("output object")[0]
    train, validation = (
        ({key: value[part] for key, value in FIELDS.items()}, CLASSES[part]) for part in (slice(80), slice(80, None))
    )
    found = improve(network, train, validation, **SMALL)
    assert str(found.verdict) == str(improve(network, DICTS[:80], DICTS[80:], **SMALL).verdict)
    assert isinstance(found.network, ForSequenceClassification)


@pytest.mark.parametrize(("data", "message"), [
    ((FIELDS, CLASSES[:5]), "120 inputs and 5 labels"),
    ((FIELDS | {"attention_mask": torch.ones(7, 6)}, CLASSES), "'input_ids': 120, 'attention_mask': 7.* rows"),
    (({}, CLASSES), "inputs have no rows; expected one row per sample"),
    (({"input_ids": "text"}, CLASSES), r"'input_ids' is not a tensor, an array or a list of numbers"),
    (({"input_ids": [[1, 2], [3]]}, CLASSES[:2]), r"'input_ids' is not a.*pad rows"),
    (({"input_ids": [["a"], ["b"]]}, CLASSES[:2]), r"'input_ids' is not a.*encode"),
    ([{"input_ids": [1, 2], "y": 0}, {"input_ids": [3], "y": 1}], "pad them"),
])  # fmt: skip
def test_dicts_that_do_not_fit_are_one_line(data, message):
    network = build("output object")[0]
    for call in (lambda: project(network, data), lambda: retrain_head(network, data)):
        with pytest.raises(SteepError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------- parts that share samples

FRESH = torch.randn(60, 5, generator=torch.Generator().manual_seed(7))
FRESH_CLASSES = (FRESH[:, 0] > 0).long() + (FRESH[:, 1] > 0.5).long()
ALL_SHARED = r"all {} validation samples are also in train.*pass data the network has not seen"


@pytest.mark.parametrize(("validation", "n"), [
    ((X[:], CLASSES), 120), ((X.clone(), CLASSES), 120), ((X.flip(0), CLASSES.flip(0)), 120),
    ((X[:30], CLASSES[:30]), 30),
    (TensorDataset(X, CLASSES), 120), (DataLoader(TensorDataset(X, CLASSES), batch_size=17, shuffle=True), 120),
])  # fmt: skip
@pytest.mark.parametrize("name", ["mlp", "nested modules"])
def test_training_data_are_not_validation_data(name, validation, n):
    with pytest.raises(InputError, match=ALL_SHARED.format(n)):
        improve(build(name)[0], (X, CLASSES), validation, **SMALL)


def test_features_of_the_training_data_are_not_validation_data():
    network = build("mlp")[0]
    features = project(network, (X, CLASSES))
    with pytest.raises(InputError, match=ALL_SHARED.format(120)):
        improve(network, features, project(split(network, batch_size=9), (X, CLASSES)), **SMALL)


def test_a_data_set_that_changes_from_pass_to_pass_is_known_by_itself():
    class Noisy(Dataset):
        def __len__(self):
            return 120

        def __getitem__(self, row):
            return X[row] + torch.rand(5), CLASSES[row]

    data = Noisy()
    with pytest.raises(InputError, match="validation is the training data"):
        improve(build("mlp")[0], data, data, **SMALL)


@pytest.mark.parametrize("n_shared", [1, 13])
def test_shared_samples_are_counted(n_shared):
    network = build("mlp")[0]
    validation = torch.cat([FRESH, X[:n_shared]]), torch.cat([FRESH_CLASSES, CLASSES[:n_shared]])
    with pytest.warns(
        SteepWarning, match=rf"{n_shared} of {60 + n_shared} validation samples are also in train"
    ) as seen:
        improve(network, (X, CLASSES), validation, **SMALL)
    assert len(seen) == 1


def test_reweighting_data_are_compared_with_both_other_parts():
    network, fresh = build("mlp")[0], (FRESH, FRESH_CLASSES)
    with pytest.raises(InputError, match="all 60 reweighting samples are also in validation"):
        improve(network, (X, CLASSES), fresh, reweighting=fresh, **SMALL)
    with pytest.warns(
        SteepWarning, match="all 40 reweighting samples are also in train.*pass data the network has not seen"
    ):
        improve(network, (X, CLASSES), fresh, reweighting=(X[:40], CLASSES[:40]), **SMALL)


def test_repeated_rows_of_discrete_data_are_not_called_shared():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(0, 2, (400, 5), generator=generator).float()
    labels = (inputs[:, 0] + inputs[:, 1]).long()
    improve(build("mlp")[0], (inputs[:300], labels[:300]), (inputs[300:], labels[300:]), **SMALL)


# ------------------------------------------------------------------------------------ absent classes


def rows_without(label):
    return np.flatnonzero(label != CLASSES)


def test_a_class_that_is_absent_from_the_training_data_is_named():
    network, rows = build("mlp")[0], rows_without(2)
    absent = r"no training sample has class \[2\].*will not predict"
    with pytest.warns(SteepWarning, match=absent):
        retrain_head(network, X[rows], CLASSES[rows], n_neighbors=10)
    with pytest.warns(SteepWarning, match=absent) as seen:
        improve(network, (X[rows], CLASSES[rows]), (FRESH, FRESH_CLASSES), **SMALL)
    assert len(seen) == 1


def test_many_absent_classes_are_one_line():
    network = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 40))
    with pytest.warns(SteepWarning, match=r"no training sample has class \[3, 4, 5, 6, 7, ") as seen:
        retrain_head(network, X, CLASSES, n_neighbors=10)
    assert len(seen) == 1


def test_a_label_without_a_positive_sample_is_named():
    network, (_, labels), _, _ = build("multi-label")
    labels = labels.clone()
    labels[:, 1] = 0
    with pytest.warns(SteepWarning, match=r"no training sample has class \[1\]"):
        retrain_head(network, X, labels, n_neighbors=10)


# -------------------------------------------------------------------------------------------- groups


# ------------------------------------------------------------------------- scores of several labels

LABELS = (X[:, :3] > 0).float()
FRESH_LABELS = (FRESH[:, :3] > 0.3).float()


def labelwise(name, outputs, labels):
    if name == "neg_log_loss":
        return np.mean([log_loss(labels[:, j], 1 / (1 + np.exp(-outputs[:, j]))) for j in range(3)])
    by_sample = ((outputs > 0) == (labels > 0.5)).mean(axis=1)
    return min(by_sample[:20].mean(), by_sample[20:].mean())


@pytest.mark.parametrize("name", ["neg_log_loss", "worst_group_accuracy"])
def test_scores_of_several_labels_are_means_over_the_labels(name):
    network = build("multi-label")[0]
    groups = np.arange(60) >= 20 if name == "worst_group_accuracy" else None
    found = improve(
        network, (X, LABELS), (FRESH, FRESH_LABELS), scoring=name, groups=groups, search=HeadSearch(l2=(1e-3,))
    )
    outputs = found.network[:3](FRESH).detach().numpy().astype(float)
    assert found.rescored == pytest.approx(labelwise(name, outputs, FRESH_LABELS.numpy()), rel=1e-5)


@pytest.mark.parametrize("name", ["worst_class_accuracy", "worst_contradicted", "balanced_accuracy"])
def test_scores_without_a_meaning_for_several_labels_are_one_line(name):
    message = rf"scoring='{name}' does not fit a multilabel head; expected one of accuracy, neg_log_loss"
    with pytest.raises(InputError, match=message) as caught:
        improve(build("multi-label")[0], (X, LABELS), (FRESH, FRESH_LABELS), scoring=name)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_scorers_of_scikit_learn_take_several_labels():
    few = {"search": HeadSearch(l2=(1e-3,), n_neighbors=(10,))}
    found = improve(build("multi-label")[0], (X, LABELS), (FRESH, FRESH_LABELS), scoring="f1_macro", **few)
    outputs = found.network[:3](FRESH).detach().numpy()
    assert found.rescored == pytest.approx(f1_score(FRESH_LABELS.numpy(), outputs > 0, average="macro"))


def test_weights_by_class_that_were_asked_for_are_rejected_for_several_labels():
    with pytest.raises(InputError, match=r"Balanced\(\) needs one class per sample"):
        improve(
            build("multi-label")[0], (X, LABELS), (FRESH, FRESH_LABELS), search=HeadSearch(weightings=(Balanced(),))
        )


# --------------------------------------------------------------------- labels and the end of a network


@pytest.mark.parametrize(("ending", "n_outputs"), [
    (nn.Sigmoid(), 1), (nn.Sigmoid(), 2), (nn.Softmax(dim=1), 2), (nn.LogSoftmax(dim=1), 2),
])  # fmt: skip
def test_numbers_are_not_fitted_to_logits_behind_a_response(ending, n_outputs):
    network = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, n_outputs), ending)
    y = torch.rand(120, n_outputs, generator=torch.Generator().manual_seed(0))
    for call in (lambda: retrain_head(network, X, y), lambda: improve(network, (X[:80], y[:80]), (X[80:], y[80:]))):
        with pytest.raises(InputError, match=r"network ends in a (sigmoid|softmax|log-softmax), .* numbers.*logits"):
            call()
