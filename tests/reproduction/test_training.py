"""Checkpoints, rivals and networks."""

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from reproduction.data import StandIns
from reproduction.jobs import Context
from reproduction.networks import NETWORKS, lenet5, published_lenet, resnet20
from reproduction.rivals import ActiveBias, Curriculum, TransferCurriculum, easiest_first
from reproduction.training import Recipe, train_network
from steep.exceptions import StorageError

RECIPE = Recipe("lenet5", 3, 16, 1e-3, True, False, 0)


@pytest.fixture
def digits():
    generator = torch.Generator().manual_seed(0)
    return torch.rand(48, 1, 28, 28, generator=generator), torch.arange(48) % 10


def cached(folder):
    return Context(None, folder, progress=False)


class StoppedError(Exception):
    pass


def stop_in_epoch(curriculum, epoch):
    plain = curriculum.batches

    def batches(now, generator):
        for number, rows in enumerate(plain(now, generator)):
            if now == epoch and number == 1:
                raise StoppedError
            yield rows

    curriculum.batches = batches
    return curriculum


@pytest.mark.parametrize("make", [
    lambda: Curriculum(48, 16),
    lambda: ActiveBias(48, 16, burn_in=2),
    lambda: TransferCurriculum(torch.arange(48), 16, start=0.5, step_length=2),
])  # fmt: skip
def test_a_stopped_training_continues_to_the_same_weights(tmp_path, digits, make):
    whole = train_network(RECIPE, *digits, cached(tmp_path / "whole"), curriculum=make())
    with pytest.raises(StoppedError):
        train_network(RECIPE, *digits, cached(tmp_path / "cut"), curriculum=stop_in_epoch(make(), 2))
    resumed = train_network(RECIPE, *digits, cached(tmp_path / "cut"), curriculum=make())
    for one, two in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(one, two)


def test_a_finished_training_is_loaded_and_not_run(tmp_path, digits):
    first = train_network(RECIPE, *digits, cached(tmp_path))
    again = train_network(RECIPE, *digits, cached(tmp_path), curriculum=stop_in_epoch(Curriculum(48, 16), 0))
    assert torch.equal(first[0].weight, again[0].weight)


def first_weights(network):
    return network.state_dict()["0.weight"]


@pytest.mark.parametrize(("one", "other"), [
    (ActiveBias(48, 16, burn_in=2), ActiveBias(48, 16, burn_in=1000)),
    (Curriculum(48, 16), Curriculum(48, 24)),
    (Curriculum(48, 16), ActiveBias(48, 16, burn_in=2)),
    (TransferCurriculum(torch.arange(48), 16), TransferCurriculum(torch.arange(48).flip(0), 16)),
    (TransferCurriculum(torch.arange(48), 16, start=0.5), TransferCurriculum(torch.arange(48), 16, start=1.0)),
    (TransferCurriculum(torch.arange(48), 16, step_length=1), TransferCurriculum(torch.arange(48), 16)),
])  # fmt: skip
def test_a_changed_curriculum_is_trained_and_not_taken_from_the_cache(tmp_path, digits, one, other):
    fresh = train_network(RECIPE, *digits, cached(tmp_path / "fresh"), curriculum=copy.deepcopy(other))
    first = train_network(RECIPE, *digits, cached(tmp_path / "shared"), curriculum=one)
    second = train_network(RECIPE, *digits, cached(tmp_path / "shared"), curriculum=other)
    assert torch.equal(first_weights(second), first_weights(fresh))
    assert not torch.equal(first_weights(second), first_weights(first))


@pytest.mark.parametrize("change", [
    lambda images, labels: (images, labels.flip(0)),
    lambda images, labels: (torch.cat([images[:1], images[1:2] + 1, images[2:]]), labels),
])  # fmt: skip
def test_changed_data_are_trained_on_and_not_taken_from_the_cache(tmp_path, change):
    generator = torch.Generator().manual_seed(0)
    digits = torch.rand(400, 1, 28, 28, generator=generator), torch.arange(400) % 10
    recipe = replace(RECIPE, epochs=1, batch_size=100)
    first = train_network(recipe, *digits, cached(tmp_path))
    second = train_network(recipe, *change(*digits), cached(tmp_path))
    assert not torch.equal(first_weights(second), first_weights(first))


def test_a_network_with_another_start_is_not_taken_from_the_cache(tmp_path, digits, monkeypatch):
    first = train_network(RECIPE, *digits, cached(tmp_path))
    monkeypatch.setitem(NETWORKS, "lenet5", lambda seed: lenet5(seed + 1))
    second = train_network(RECIPE, *digits, cached(tmp_path))
    assert not torch.equal(first_weights(second), first_weights(first))


def test_a_damaged_checkpoint_is_rejected_and_kept(tmp_path, digits):
    train_network(RECIPE, *digits, cached(tmp_path))
    (path,) = tmp_path.glob("*.safetensors")
    path.write_bytes(b"nonsense")
    with pytest.raises(StorageError, match="not a checkpoint"):
        train_network(RECIPE, *digits, cached(tmp_path))
    assert path.read_bytes() == b"nonsense"


def test_training_leaves_the_random_state_of_the_caller_alone(tmp_path, digits):
    before = torch.random.get_rng_state()
    train_network(RECIPE, *digits, cached(tmp_path))
    assert torch.equal(before, torch.random.get_rng_state())


def test_resnet20_has_the_size_of_he_et_al():
    network = resnet20(0)
    assert sum(p.numel() for p in network.parameters()) == 269_722
    convolutions = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(convolutions) == 19
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.parametrize("build", [lenet5, resnet20])
def test_equal_seeds_give_equal_networks(build):
    one, two, other = build(3), build(3), build(4)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(next(one.parameters()), next(other.parameters()))


def test_active_bias_weights_are_the_printed_formula():
    generator = torch.Generator().manual_seed(0)
    history = torch.rand(7, 20, generator=generator).double()
    bias = ActiveBias(20, 5, burn_in=2)
    rows = torch.arange(20)
    for probabilities in history:
        bias.observe(rows, probabilities)
    variance = history.var(dim=0)
    deviation = (variance + variance**2 / 6).sqrt()
    expected = deviation + deviation.mean()
    np.testing.assert_allclose(bias.weights(rows, 5), expected / expected.mean(), rtol=1e-5)


def test_active_bias_is_plain_training_during_burn_in_and_without_variance():
    bias = ActiveBias(4, 2, burn_in=3)
    rows = torch.arange(4)
    for _ in range(3):
        bias.observe(rows, torch.full((4,), 0.25))
    assert bias.weights(rows, 2) is None
    weights = bias.weights(rows, 3)
    assert weights is None or torch.allclose(weights, torch.ones(4))


def test_active_bias_weights_average_one_and_favour_varying_samples():
    bias = ActiveBias(3, 3, burn_in=2)
    rows = torch.arange(3)
    for p in ([0.9, 0.1, 0.5], [0.9, 0.9, 0.6], [0.9, 0.1, 0.5]):
        bias.observe(rows, torch.tensor(p))
    weights = bias.weights(rows, 4)
    assert weights.mean().item() == pytest.approx(1)
    assert weights[1] > weights[2] > weights[0]


def test_pacing_never_shrinks_and_ends_with_all_samples():
    curriculum = TransferCurriculum(torch.arange(1000), 20, start=0.04, growth=1.9, step_length=30)
    sizes = [curriculum.size(step) for step in range(1000)]
    assert sizes[0] == 40
    assert all(a <= b for a, b in itertools.pairwise(sizes))
    assert sizes[-1] == 1000
    assert curriculum.size(10**9) == 1000


def test_a_step_shows_only_the_easiest_samples():
    order = torch.randperm(200, generator=torch.Generator().manual_seed(1))
    curriculum = TransferCurriculum(order, 10, start=0.1, growth=2.0, step_length=7)
    for epoch in range(3):
        steps = list(curriculum.batches(epoch, torch.Generator().manual_seed(epoch)))
        assert len(steps) == 20
        for number, rows in enumerate(steps, start=20 * epoch):
            allowed = {*order[: curriculum.size(number)].tolist()}
            assert {*rows.tolist()} <= allowed
            assert len({*rows.tolist()}) == 10


def test_a_stopped_plain_descent_continues_to_the_same_weights(tmp_path, digits):
    recipe = replace(RECIPE, network="authors-lenet", one_cycle=False, optimizer="plain sgd", epochs=2)
    whole = train_network(recipe, *digits, cached(tmp_path / "whole"))
    with pytest.raises(StoppedError):
        train_network(recipe, *digits, cached(tmp_path / "cut"), curriculum=stop_in_epoch(Curriculum(48, 16), 1))
    resumed = train_network(recipe, *digits, cached(tmp_path / "cut"))
    for one, two in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(one, two)


def test_easiest_first_is_balanced_and_puts_the_far_side_first():
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 60)
    centres = np.array([[0, 0], [4, 0], [0, 4]])[labels]
    features = centres + generator.normal(size=(180, 2))
    order = easiest_first(features, labels).numpy()
    assert sorted(order.tolist()) == list(range(180))
    assert np.bincount(labels[order[:30]]).tolist() == [10, 10, 10]
    distance = np.linalg.norm(features - centres, axis=1)
    assert distance[order[:60]].mean() < distance[order[-60:]].mean()


def test_the_authors_network_is_read_as_keras_orders_it():
    layers = StandIns().authors_lenet()
    network = published_lenet(layers)
    X = torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    flat = network[:8](X).detach().permute(0, 2, 3, 1).reshape(2, -1)  # place before channel
    hidden = torch.tanh(flat @ torch.as_tensor(layers[3][0]) + torch.as_tensor(layers[3][1]))
    expected = hidden @ torch.as_tensor(layers[4][0]) + torch.as_tensor(layers[4][1])
    np.testing.assert_allclose(network(X).detach(), expected, atol=1e-5)
    kernel = torch.as_tensor(layers[0][0])  # height, width, input, output
    np.testing.assert_allclose(network[0].weight.detach()[3, 0], kernel[:, :, 0, 3])
