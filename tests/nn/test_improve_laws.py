"""What ``improve`` may claim: the gain is in the network, evidence decides, and each thing is done once."""

import copy
import random
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, spectral_norm, weight_norm
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from architectures import assert_untouched, build, snapshot
from steep import neighbor_variance, rescale
from steep.exceptions import FunctionError, InputError, StorageError
from steep.nn import HeadSearch, improve, project, retrain_head, split

from .test_improve import GRID, bent_data, half_trained, halves


def parts(n=600, seed=0):
    X, y = bent_data(n, seed)
    cut = 2 * n // 3
    return (X[:cut], y[:cut]), (X[cut:], y[cut:])


def accuracy(network, data):
    X, y = data
    with torch.no_grad():
        return float((network.eval()(X).argmax(1) == y).double().mean())


# The gain is in the network


class Doubling(nn.Linear):
    """A linear layer with a forward of its own."""

    def forward(self, x):
        return super().forward(x) ** 3


def with_head(change):
    network = half_trained()
    network[2] = change(network[2])
    return network


def hooked(network):
    network[2].register_forward_hook(lambda module, given, out: out.flip(1))
    return network


def subclassed():
    network = half_trained()
    network[2].__class__ = Doubling
    return network


COMPUTED = {
    "weight_norm": lambda: with_head(parametrizations.weight_norm),
    "spectral_norm": lambda: with_head(parametrizations.spectral_norm),
    "orthogonal": lambda: with_head(parametrizations.orthogonal),
    "old spectral_norm": lambda: with_head(spectral_norm),
}


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", COMPUTED)
def test_a_head_whose_weights_are_computed_is_refused_and_its_buffers_are_left_alone(name, mode):
    network = getattr(COMPUTED[name](), mode)()
    before = snapshot(network)
    with pytest.raises(InputError, match=r"head '2' are computed from others .*remove_parametrizations"):
        improve(network, *parts(), **GRID)
    assert_untouched(before, network)


@pytest.mark.filterwarnings("ignore:.*weight_norm.*deprecated")
def test_an_old_weight_norm_is_refused_by_name():
    with pytest.raises(InputError, match=r"head '2' are computed from others"):
        improve(with_head(weight_norm), *parts(), **GRID)


@pytest.mark.parametrize("builder", [subclassed, lambda: hooked(half_trained())], ids=["subclass", "hook"])
def test_a_head_that_is_not_an_affine_map_is_refused(builder):
    network = builder()
    before = snapshot(network)
    with pytest.raises(InputError, match=r"head '2' \(\w+\) does not return W z \+ b"):
        improve(network, *parts(), **GRID)
    assert_untouched(before, network)


def test_a_norm_that_was_removed_may_be_improved():
    network = with_head(parametrizations.weight_norm)
    nn.utils.parametrize.remove_parametrizations(network[2], "weight")
    train, held_out = parts()
    result = improve(network, train, held_out, **GRID)
    assert accuracy(result.network, held_out) == pytest.approx(result.table.loc["chosen", "accuracy"], abs=0.006)


def test_a_hook_that_changes_what_the_head_is_given_stays_in_force():
    network = half_trained()
    network[2].register_forward_pre_hook(lambda module, given: (given[0] * 2 + 1,))
    train, held_out = parts()
    result = improve(network, train, held_out, **GRID)
    assert accuracy(result.network, held_out) == pytest.approx(result.table.loc["chosen", "accuracy"], abs=0.006)


def test_body_layers_with_a_norm_are_left_alone():
    network = half_trained()
    network[0] = parametrizations.spectral_norm(network[0])
    network.train()
    before = snapshot(network)
    train, held_out = parts()
    result = improve(network, train, held_out, **GRID)
    assert_untouched(before, network)
    assert accuracy(result.network, held_out) == pytest.approx(result.table.loc["chosen", "accuracy"], abs=0.006)


@pytest.mark.parametrize("ending", [(), (nn.Softmax(dim=1),), (nn.LogSoftmax(dim=1),)])
def test_the_joined_network_is_scored_for_real(ending):
    train, validation = parts()
    result = improve(nn.Sequential(*half_trained(), *ending), train, validation, **GRID)
    assert result.rescored == pytest.approx(accuracy(result.network, validation), abs=1e-9)
    assert result.rescored == pytest.approx(result.table.loc["chosen", "accuracy"], abs=0.006)


@pytest.mark.parametrize("ending", [nn.Sigmoid(), nn.Identity()])
def test_the_joined_network_is_scored_for_real_by_its_own_threshold(ending):
    X, y = bent_data(600)
    network = nn.Sequential(nn.Linear(2, 30), nn.Tanh(), nn.Linear(30, 1), ending)
    result = improve(network, (X[:400], y[:400].float()), (X[400:], y[400:].float()), **GRID)
    assert result.table.loc["chosen", "accuracy"] > 0.8
    assert result.rescored == pytest.approx(result.table.loc["chosen", "accuracy"], abs=0.006)


def test_a_squared_error_is_scored_for_real():
    X, _ = bent_data(600)
    y = X[:, 0] * X[:, 1]
    network = nn.Sequential(nn.Linear(2, 30), nn.Tanh(), nn.Linear(30, 1), nn.Flatten(0))
    result = improve(network, (X[:400], y[:400]), (X[400:], y[400:]), search=HeadSearch(weight_ratio=(5.0,)))
    with torch.no_grad():
        error = float(((result.network(X[400:]) - y[400:]) ** 2).mean())
    assert result.rescored == pytest.approx(error, rel=1e-4)
    told = str(result.verdict)
    assert told.startswith("The new head lowers the mean squared error by ")
    assert "on 200 held-out samples" in told


class Restless(nn.Module):
    """Noise that stays on in eval mode and grows with every pass over the data."""

    def __init__(self):
        super().__init__()
        self.passes = [0]

    def forward(self, x):
        self.passes[0] += len(x)
        return x + (self.passes[0] > 700) * 50 * torch.randn_like(x)


def test_a_network_that_does_not_score_what_its_head_scores_is_no_gain():
    network = nn.Sequential(Restless(), *half_trained())
    with pytest.raises(
        FunctionError, match="outputs of the joined network are not those of its head on the features of the first pass"
    ):
        improve(network, *parts(), **GRID)


def test_a_hook_that_waits_for_large_batches_is_found_by_the_real_run():
    network = half_trained()
    network[2].register_forward_hook(lambda module, given, out: out.flip(1) if len(out) > 2 else out)
    with pytest.raises(FunctionError, match=r"head '2' of the joined network does not return what was fitted"):
        improve(network, *parts(), **GRID)


# A broken head


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["weight", "bias"])
def test_a_head_that_holds_nan_is_rejected(value, where):
    network = half_trained()
    getattr(network[2], where).data.view(-1)[0] = value
    for call in (lambda: improve(network, *parts(), **GRID), lambda: retrain_head(network, *parts()[0])):
        with pytest.raises(InputError, match="head '2' holds NaN or infinity; expected a trained network"):
            call()


# Weights and variation


def linear(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Identity(), nn.Identity(), nn.Linear(2, 2))


def noisy_parts():
    """Labels that are noise on the far right, which pulls the border of a linear head unless they count little."""
    g = torch.Generator().manual_seed(1)
    X = torch.randn(1500, 2, generator=g)
    y = (X[:, 0] + X[:, 1] > 0).long()
    noise = torch.randint(0, 2, (1000,), generator=g)
    return (X[:1000], torch.where(X[:1000, 0] > 0.7, noise, y[:1000])), (X[1000:], y[1000:])


def weighted_result(ratio, **kwargs):
    train, held_out = noisy_parts()
    kwargs = {"search": HeadSearch(l2=(1e-3,), weight_ratio=(ratio,), n_neighbors=(15,), measure="variance")} | kwargs
    return improve(linear(), train, held_out, **kwargs), train


def test_the_weights_given_back_are_those_of_the_chosen_head():
    result, (X, y) = weighted_result(0.05)
    assert result.chosen.kind == "weighted"
    variation = neighbor_variance(X.numpy(), y.numpy(), n_neighbors=15)
    np.testing.assert_allclose(result.weights, rescale(variation, weight_ratio=0.05), atol=1e-9)
    expected = retrain_head(linear(), X, y, n_neighbors=15, weight_ratio=0.05, l2=1e-3)
    torch.testing.assert_close(result.network[2].weight, expected[2].weight, atol=5e-3, rtol=5e-3)


def test_equal_weights_are_given_back_where_they_were_chosen():
    train, held_out = parts()
    result = improve(half_trained(), train, held_out, search=replace(GRID["search"], weight_ratio=(10.0,)))
    assert result.chosen.kind == "equal"
    np.testing.assert_array_equal(result.weights, np.ones(len(train[0])))


# The same range of λ for all heads


def test_the_penalty_is_extended_until_the_best_heads_lie_inside():
    g = torch.Generator().manual_seed(3)
    X = torch.randn(500, 60, generator=g)
    y = ((X[:, 0] + 2 * torch.randn(500, generator=g)) > 0).long()  # noise: a strong penalty is best
    network = nn.Sequential(nn.Identity(), nn.Linear(60, 2))
    torch.manual_seed(0)
    result = improve(
        network, (X[:200], y[:200]), (X[200:], y[200:]), search=HeadSearch(weight_ratio=(5.0,), n_neighbors=(10,))
    )
    tried = sorted(result.candidates["l2"].dropna().unique())
    assert max(tried) > 1e-2
    for kind, heads in result.candidates.groupby("kind"):
        if kind != "original":
            assert sorted(heads["l2"].unique()) == tried
            best = heads.sort_values(["accuracy", "l2"]).iloc[-1]["l2"]
            assert tried[0] < best < tried[-1] or best in (1e-8, 1e3)


def test_penalties_that_were_named_are_tried_as_they_are():
    result = improve(half_trained(), *parts(), search=HeadSearch(l2=(1e-6, 1e-2), weight_ratio=()))
    assert sorted(result.candidates["l2"].dropna()) == [1e-6, 1e-2]


@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_no_penalty_at_all_is_a_penalty_too(task):
    X, y = bent_data(300)
    network = nn.Sequential(nn.Linear(2, 200), nn.Tanh(), nn.Linear(200, 2 if task == "multiclass" else 1))
    labels = y if task == "multiclass" else X[:, 0]
    result = improve(
        network, (X[:200], labels[:200]), (X[200:], labels[200:]), search=HeadSearch(l2=(0.0,), weight_ratio=(40.0,))
    )
    assert torch.isfinite(result.network[2].weight).all()
    assert sorted(result.candidates["l2"].dropna().unique()) == [0.0]


def test_no_penalty_on_few_samples_with_repeated_features():
    X, y = bent_data(200)
    twice = nn.Sequential(nn.Linear(2, 40), nn.Identity(), nn.Linear(40, 2))  # 40 features of rank two
    assert torch.isfinite(retrain_head(twice, X, y, l2=0.0)[2].weight).all()


# Everything once


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = []

    def forward(self, x):
        self.rows.append(len(x))
        return x

    def __deepcopy__(self, memo):
        return self


def test_neighbours_are_searched_once_and_samples_are_projected_once(monkeypatch):
    from steep.nn import weightings

    searches = []

    def search(features, **kwargs):
        searches.append(len(features))
        return neighbor_graph(features, **kwargs)

    neighbor_graph = weightings.neighbor_graph
    monkeypatch.setattr(weightings, "neighbor_graph", search)
    counting = Counting()
    train, validation = parts()
    search = replace(GRID["search"], measure=("variance", "contradiction", "misfit"))
    improve(nn.Sequential(counting, *half_trained()), train, validation, search=search)
    assert searches == [400]
    found_the_head = 2 * 2  # two passes of two samples
    once, again = 600, 200
    assert sum(counting.rows) == found_the_head + once + again


# The caller's things


class Clipping(nn.Module):
    def forward(self, x):
        return x.clamp_(-1, 1)


def test_a_network_that_works_in_place_does_not_reach_the_data():
    (X, y), held_out = parts()
    kept = X.clone()
    improve(nn.Sequential(Clipping(), *half_trained()), (X, y), held_out, **GRID)
    assert torch.equal(X, kept)


class Noisy(torch.utils.data.Dataset):
    """A data set that draws from every global generator."""

    def __init__(self, X, y):
        self.X, self.y = X, y

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        noise = 1e-3 * (torch.randn(2) + np.random.normal() + random.random())  # noqa: NPY002
        return (self.X[i] + noise).float(), self.y[i]


@pytest.mark.parametrize("kind", [TensorDataset, Noisy])
@pytest.mark.parametrize("shuffle", [True, False])
def test_global_random_states_are_left_alone(kind, shuffle):
    (X, y), held_out = parts()
    loader = DataLoader(kind(X, y), batch_size=64, shuffle=shuffle)
    before = torch.get_rng_state(), copy.deepcopy(np.random.get_state()), random.getstate()  # noqa: NPY002
    improve(half_trained_quietly(), loader, held_out, **GRID)
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1][1], np.random.get_state()[1])  # noqa: NPY002
    assert before[1][2] == np.random.get_state()[2]  # noqa: NPY002
    assert before[2] == random.getstate()


def half_trained_quietly():
    with torch.random.fork_rng():
        return half_trained()


def test_a_sampler_may_draw_more_samples_than_there_are():
    X, y = bent_data(600)
    sampler = WeightedRandomSampler(np.ones(600).tolist(), 900, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(X, y), batch_size=50, sampler=sampler)
    state = sampler.generator.get_state()
    assert project(half_trained(), loader).features.shape == (900, 30)
    assert torch.equal(state, sampler.generator.get_state())
    batches = DataLoader(TensorDataset(X, y), batch_sampler=torch.utils.data.BatchSampler(sampler, 64, drop_last=False))
    assert project(half_trained(), batches).features.shape == (900, 30)
    assert improve(half_trained(), loader, bent_data(300, seed=2), **GRID).weights.shape == (900,)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("last", torch.zeros(2))

    def forward(self, x):
        self.calls += 1
        self.last = x[0].detach()
        return x


def test_buffers_that_a_forward_pass_changes_are_given_back():
    network = nn.Sequential(Counter(), *half_trained())
    before = snapshot(network)
    improve(network, *parts(), **GRID)
    assert_untouched(before, network)


# Data that do not fit


def test_samples_of_unequal_length_name_collate_fn():
    data = [{"input_ids": torch.arange(3 + i % 2), "labels": i % 2} for i in range(40)]
    with pytest.raises(InputError, match=r"do not fit in one batch .*collate_fn=\.\.\.\)") as raised:
        improve(half_trained(), data, bent_data(100))
    assert "\n" not in str(raised.value)


def test_a_network_that_fails_on_the_data_is_told_in_one_line():
    X, y = bent_data(100)
    with pytest.raises(FunctionError, match=r"network failed on a batch of shape \(2, 2\), torch.float64") as raised:
        improve(half_trained(), (X.double(), y), (X, y))
    assert "\n" not in str(raised.value)


# Saving


def test_saving_into_a_missing_folder_is_one_line_and_leaves_nothing(tmp_path):
    result = improve(half_trained(), *parts(300), **GRID)
    with pytest.raises(StorageError, match="cannot be written") as raised:
        result.save(tmp_path / "missing" / "better.safetensors")
    assert "\n" not in str(raised.value)
    result.save(tmp_path / "better.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["better.safetensors"]


# Measures


@pytest.mark.parametrize("measure", ["variance", "neighbors", "contradiction", "density", "misfit", "border"])
def test_any_measure_of_labels_or_of_a_model_weighs_the_features(measure):
    train, held_out = parts(450)
    retrained = retrain_head(half_trained(), *train, measure=measure, n_neighbors=10, weight_ratio=5)
    assert accuracy(retrained, held_out) > 0.75
    result = improve(half_trained(), train, held_out, search=replace(GRID["search"], measure=measure))
    weighted = result.candidates[result.candidates["kind"] == "weighted"]
    assert set(weighted["measure"]) == {"variance" if measure == "neighbors" else measure}


@pytest.mark.parametrize("name", ["binary one-logit", "multi-label", "regression", "several outputs", "mlp"])
def test_measures_that_ask_a_model_go_with_every_task(name):
    network, data, _, _ = build(name)
    result = improve(network, *halves(data), search=replace(GRID["search"], measure=("variance", "misfit")))
    assert {"variance", "misfit"} < set(result.candidates["measure"])
    if name in ("binary one-logit", "mlp"):
        retrain_head(network, data, measure="border", n_neighbors=1)
    else:
        with pytest.raises(InputError, match="measure='border' got numbers as labels"):
            retrain_head(network, data, measure="border", n_neighbors=1)


def test_measures_are_tried_side_by_side():
    result = improve(half_trained(), *parts(450), search=replace(GRID["search"], measure=("variance", "misfit")))
    assert len(result.candidates) == 1 + 2 * (1 + 2 * 2 * 2)


def test_a_measure_of_the_callers_own_is_given_features_and_labels():
    def far(features, labels):
        assert features.shape == (len(labels), 30)
        return np.abs(features).sum(axis=1)

    train, held_out = parts(450)
    result = improve(half_trained(), train, held_out, search=replace(GRID["search"], measure=far))
    assert set(result.candidates["measure"].dropna()) == {"far"}


@pytest.mark.parametrize("measure", ["taylor", "perturbation", "entropy", 3, (None,), ("variance", "taylor")])
def test_measures_that_cannot_be_fed_are_refused_by_name(measure):
    from steep.exceptions import SteepError

    with pytest.raises(SteepError, match="measure"):
        improve(half_trained(), *parts(300), search=replace(GRID["search"], measure=measure))


def test_misfit_is_the_error_of_heads_that_have_not_seen_the_sample():
    from steep.measures import MEASURES
    from steep.nn.heads import HeadSamples, find_task
    from steep.nn.weightings import FeatureSpace

    X, y = bent_data(300)
    features = project(half_trained(), X).features.astype(float)
    noisy = y.numpy().copy()
    noisy[:30] = 1 - noisy[:30]
    task, original = find_task("auto", noisy, 2), split(half_trained(), sample=X[:2]).own_head()
    space = FeatureSpace(HeadSamples(features, noisy), task, original, np.arange(300)[:, None], 1e-3)
    found = space.variations([MEASURES["misfit"]], [1])["misfit", 1]
    # No head that was fitted without it predicts a wrong label.
    assert np.median(found[:30]) > 10 * np.median(found[30:])


# Budgets


def test_a_time_limit_gives_a_result_of_fewer_heads():
    train, held_out = parts(900)
    everything = improve(half_trained(), train, held_out)
    start = time.perf_counter()
    hurried = improve(half_trained(), train, held_out, search=HeadSearch(time_limit=1e-3))
    assert time.perf_counter() - start < 20
    assert 1 < len(hurried.candidates) < len(everything.candidates) / 5
    assert set(hurried.candidates["kind"]) == {"original", "equal"}
    unhurried = improve(half_trained(), train, held_out, search=HeadSearch(time_limit=1e4))
    assert unhurried.chosen == everything.chosen


def test_a_time_limit_that_is_no_time_is_one_line():
    with pytest.raises(InputError, match="time_limit=0 is out of range"):
        improve(half_trained(), *parts(300), search=HeadSearch(time_limit=0))
