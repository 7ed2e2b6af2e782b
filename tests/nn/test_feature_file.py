"""Features in a file: the same as in memory, whole or not there, and of one network alone."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from steep.exceptions import InputError, InputTypeError, StorageError
from steep.nn import HeadSearch, Projection, improve, project, retrain_head, split
from steep.nn.projection import _LABELS, _NOTE, beside

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(230, 4, generator=GENERATOR)
Y = (X[:, 0] * X[:, 1] > 0).long()
SIZE = 20
N_BATCHES = 12


class Counting(nn.Module):
    """A network that counts the samples it is run on, and stops when it has had enough."""

    def __init__(self, most=10**9):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.body, self.head = nn.Linear(4, 6), nn.Linear(6, 2)
        self.n_seen, self.most = 0, most

    def forward(self, x):
        if self.n_seen >= self.most:
            raise KeyboardInterrupt
        self.n_seen += len(x)
        return self.head(torch.tanh(self.body(x)))


class Shards:
    """Any object that yields batches, file by file."""

    def __init__(self, X=X, Y=Y):
        self.X, self.Y = X, Y

    def __iter__(self):
        for start in range(0, len(self.X), SIZE):
            yield self.X[start : start + SIZE].numpy(), self.Y[start : start + SIZE].numpy()


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(X, Y, strict=True))


class Noisy(TensorDataset):
    """A data set that draws at random."""

    def __getitem__(self, i):
        x, y = super().__getitem__(i)
        return x + torch.randn(4) * np.random.rand(), y  # noqa: NPY002


SOURCES = {
    "pair": lambda: (X, Y),
    "data set": lambda: TensorDataset(X, Y),
    "loader": lambda: DataLoader(TensorDataset(X, Y), batch_size=SIZE),
    "shuffled loader": lambda: DataLoader(TensorDataset(X, Y), batch_size=SIZE, shuffle=True),
    "noisy loader": lambda: DataLoader(Noisy(X, Y), batch_size=SIZE),
    "loader over a stream": lambda: DataLoader(Stream(), batch_size=SIZE),
    "shards": Shards,
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "features.npy"


@pytest.mark.parametrize("name", sorted(set(SOURCES) - {"noisy loader"}))
def test_features_in_a_file_are_those_in_memory_and_labels_lie_beside(path, name):
    found = project(split(Counting(), batch_size=SIZE), SOURCES[name](), memmap=path)
    expected = project(split(Counting(), batch_size=SIZE), X)
    assert isinstance(found.features, np.memmap)
    np.testing.assert_array_equal(found.features, expected.features)
    np.testing.assert_array_equal(np.load(path), expected.features)
    np.testing.assert_array_equal(np.load(beside(path, _LABELS)), Y)
    np.testing.assert_array_equal(found.labels, Y)
    assert {file.name for file in path.parent.iterdir()} == {
        path.name, beside(path, _LABELS).name, beside(path, _NOTE).name
    }  # fmt: skip


def test_random_data_give_the_same_features_in_a_file_and_in_memory(path):
    source = SOURCES["noisy loader"]
    expected = project(Counting(), source()).features
    np.testing.assert_array_equal(project(Counting(), source(), memmap=path).features, expected)


def test_a_file_is_opened_again_and_replaced_by_a_new_pass(path):
    first = project(Counting(), Shards(), memmap=path)
    opened = Projection.open(path)
    np.testing.assert_array_equal(opened.features, first.features)
    np.testing.assert_array_equal(opened.labels, first.labels)
    assert (opened.head, opened.network) == (first.head, first.network)
    again = project(another(), X[:100], memmap=path)
    assert again.features.shape == (100, 6)
    assert again.labels is None
    assert Projection.open(path).network != first.network


def test_an_interrupted_pass_leaves_what_was_there(path):
    with pytest.raises(KeyboardInterrupt):
        project(split(Counting(110), batch_size=SIZE), (X, Y), memmap=path)
    assert list(path.parent.iterdir()) == []
    with pytest.raises(InputError, match="yielded no batch"):
        project(Counting(), Shards(X[:0], Y[:0]), memmap=path)
    assert list(path.parent.iterdir()) == []
    project(Counting(), (X, Y), memmap=path)
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    with pytest.raises(KeyboardInterrupt):
        project(split(Counting(110), batch_size=SIZE), (X + 1, Y), memmap=path)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def test_data_without_labels_have_no_file_of_labels(path):
    found = project(Counting(), X, memmap=path)
    assert found.labels is None
    assert not beside(path, _LABELS).exists()


def another():
    network = Counting()
    with torch.no_grad():
        network.body.weight[0, 0] += 1
    return network


def test_files_that_project_did_not_write_to_the_end_are_one_clear_error(path):
    with pytest.raises(StorageError, match="do not exist or were not written to the end"):
        Projection.open(path)
    project(Counting(), Shards(), memmap=path)
    np.save(path, np.zeros((3, 6)))
    with pytest.raises(StorageError, match="has 3 rows, but 230 were written; run project again"):
        Projection.open(path)
    path.write_bytes(b"no array")
    with pytest.raises(StorageError, match="cannot be read"):
        Projection.open(path)
    beside(path, _NOTE).write_text("[]")
    with pytest.raises(StorageError, match="was not written by project"):
        Projection.open(path)


def test_odd_streams_are_refused(path):
    with pytest.raises(InputTypeError, match="a stream of single samples"):
        project(Counting(), Stream(), memmap=path)
    with pytest.raises(InputTypeError, match="data is a generator"):
        project(Counting(), (batch for batch in Shards()), memmap=path)
    with pytest.raises(InputTypeError, match=r"data is a stream .* or their features"):
        improve(Counting(), Shards(), Shards())


class Uneven(Shards):
    def __init__(self, labels):
        super().__init__()
        self.labels = labels

    def __iter__(self):
        for number, (x, y) in enumerate(super().__iter__()):
            yield self.labels(number, x, y)


def test_batches_that_do_not_go_together_are_refused(path):
    with pytest.raises(InputError, match="some batches have labels and some do not"):
        project(Counting(), Uneven(lambda i, x, y: (x, y) if i < 3 else (x,)), memmap=path)
    path = path.with_name("c.npy")
    with pytest.raises(InputError, match="19 labels for 20 samples"):
        project(Counting(), Uneven(lambda i, x, y: (x, y[1:])), memmap=path)


# ------------------------------------------------------------------------------- heads on features in a file

GRID = {"search": HeadSearch(l2=(1e-2, 1e-4), weight_ratio=(0.2, 10.0), n_neighbors=(5, 10))}


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(900, 4, generator=generator)
    return inputs, (inputs[:, 0] * inputs[:, 1] > 0).long()


def test_improve_on_features_in_a_file_is_improve_on_the_data(path, data):
    inputs, labels = data
    train, held_out = (inputs[:600], labels[:600]), (inputs[600:], labels[600:])
    features = project(Counting(), train, memmap=path)
    expected, found = (improve(Counting(), part, held_out, **GRID) for part in (train, features))
    assert found.chosen == expected.chosen
    assert found.rescored == pytest.approx(expected.rescored, abs=0.01)
    np.testing.assert_allclose(found.weights, expected.weights)
    gains = [result.table["gain"].to_numpy() for result in (found, expected)]
    np.testing.assert_allclose(*gains, atol=0.007)  # rounding may move two of 300 samples over the border
    assert found.suspects().top(3) is not None


def test_features_alone_are_enough_and_say_that_no_network_was_run(tmp_path, data):
    inputs, labels = data
    train = project(Counting(), (inputs[:600], labels[:600]), memmap=tmp_path / "train.npy")
    held_out = project(Counting(), (inputs[600:], labels[600:]))
    network = Counting()
    result = improve(network, train, held_out, **GRID)
    assert network.n_seen == 0
    assert np.isnan(result.rescored)


@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_retrain_head_on_features_in_a_file_is_that_on_the_data(path, data, task):
    inputs, labels = data
    if task == "regression":
        labels = torch.stack([inputs[:, 0] ** 2, inputs[:, 1]], dim=1)
    settings = {"n_neighbors": 10, "task": task}
    features = project(Counting(), (inputs, labels), memmap=path)
    expected = retrain_head(Counting(), inputs, labels, **settings)
    found = retrain_head(Counting(), features, **settings)
    for ours, theirs in zip(found.parameters(), expected.parameters(), strict=True):
        if task == "multiclass" and ours.ndim == 1:  # a constant added to every output of a softmax says nothing
            ours, theirs = (bias - bias.mean() for bias in (ours, theirs))
        torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=2e-3)


def test_features_of_another_network_are_refused(path, data):
    inputs, labels = data
    features = project(Counting(), (inputs, labels), memmap=path)
    with pytest.raises(InputError, match=r"those of another network, or of this one before it was trained further"):
        improve(another(), features, data, **GRID)
    for other in (nn.Sequential(nn.Linear(4, 2)), split(Counting(), head="body")):
        with pytest.raises(InputError, match=r"the 6 features before head 'head' are those of another network"):
            improve(other, features, data, **GRID)
    with pytest.raises(InputError, match=r"do not say which layer"):
        improve(Counting(), Projection(features.features, labels.numpy()), data, **GRID)
    with pytest.raises(InputError, match="those of another network"):
        improve(another(), (inputs, labels), features, **GRID)


def test_features_without_labels_are_refused(path, data):
    inputs, labels = data
    features = project(Counting(), inputs, memmap=path)
    with pytest.raises(InputError, match="the data hold no labels"):
        improve(Counting(), features, data, **GRID)
    retrain_head(Counting(), features, labels, n_neighbors=5)


# ------------------------------------------------------------------------------- memory

FRUGAL = """
import resource, sys
sys.path.insert(0, {benchmarks!r})
from features import Shards
import numpy as np
import torch
from torch import nn
from steep.nn import HeadSearch, improve, project
torch.set_num_threads(1)
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(8, 512), nn.Tanh(), nn.Linear(512, 2))
held_out = next(iter(Shards(1000, 999)))
search = HeadSearch(l2=(1e-2,), weight_ratio=(), n_neighbors=(10,))
improve(network, next(iter(Shards(1500, 1))), held_out, search=search)  # imports and compiles what it needs
used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (used + {allowed}, -1))
features = project(network, Shards(80_000, 1), memmap={path!r})
assert features.features.nbytes > 1.3 * {allowed}
if {in_memory}:
    from dataclasses import replace
    features = replace(features, features=np.array(features.features))
result = improve(network, features, held_out, search=search)
assert result.table.loc["chosen", "gain"] > 0.2
print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
@pytest.mark.parametrize("in_memory", [False, True])
def test_heads_are_fitted_to_more_features_than_memory_is_allowed(tmp_path, in_memory):
    """164 MB of features, 120 MB of memory beyond the imports; as a control, the same in memory does not go."""
    code = FRUGAL.format(
        benchmarks=str(Path(__file__).parents[2] / "benchmarks"), path=str(tmp_path / "features.npy"),
        allowed=120 * 2**20, in_memory=in_memory,
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=900)
    if in_memory:
        assert done.returncode
        assert "MemoryError" in done.stderr
    else:
        assert done.stdout.split() == ["done"], done.stderr
