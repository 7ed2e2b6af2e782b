"""Every public door of steep.nn, with odd arguments: it works, or it raises a SteepError of one line."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from steep.exceptions import SteepError
from steep.nn import HeadSearch, improve, project, retrain_head, split, torch_derivatives

G = torch.Generator().manual_seed(0)
X = torch.randn(60, 3, generator=G)
Y = (X[:, 0] > 0).long()
UNSEEN = torch.randn(30, 3, generator=G)
UNSEEN_Y = (UNSEEN[:, 0] > 0).long()
POINTS = X[:12].double().numpy()
INDICES = np.eye(3, dtype=int)

ODD = [
    None, True, False, 0, 1, -1, 2, 3, 7, 10**6, 10**400, -(10**400), 0.5, -0.5, 0.0, 1e308, float("nan"), float("inf"),
    1j, "", "auto", "0", "convex", b"x", (), [], {}, (0,), (2,), (-1,), (0.5,), ("a",), [None], [[1, 2], [3]], {"a": 1},
    np.nan, np.array(3), np.array([]), np.array([1.0, np.nan]), np.zeros((2, 2)), np.array(["a", "b"]), np.float32(1),
    np.int8(2), np.datetime64("NaT"), np.random.default_rng(0), np.random.RandomState(0), np.ma.masked_all(3),
    torch.tensor(1.0), torch.ones(3), torch.empty(0), torch.float16, torch.int64, torch.float32, np.float64, object(),
    int, print, len, lambda: 1, lambda x: None, lambda *a, **k: 1 / 0, nn.Linear(2, 2), nn.ReLU(), slice(1),
    pd.Series([1, 2, None]), pd.NA, range(3), iter([1, 2]), Ellipsis,
]  # fmt: skip

ODD_DATA = [
    None, 3, "digits", b"", {}, [], (), [{}], [{"a": 1}], [(1, 2)], [3], (X, None), (X, 3), (X, Y[:5]), (X, "ab"),
    (X, [1] * 60), (X, ["a"] * 60), (X, [[1], [1, 2]] * 30), (X, Y.float() + 0.5), (X, Y + 9), (X, Y - 1), (X, X),
    (X, torch.full((60,), float("nan"))), (X, np.array([None] * 60)), (X, pd.Series(Y.numpy())), (X, Y[:, None]),
    (X, Y.to(torch.bfloat16)), (X.double(), Y), (X.long(), Y), (X[:, :2], Y), (X[0], Y[0]), (X[:1], Y[:1]),
    (X[:0], Y[:0]), (X * float("nan"), Y), (X * 1e30, Y), (X * 1e38, Y), (X * 0, Y), (X, Y * 0), (X.numpy(), Y.numpy()),
    (X.numpy()[::-1], Y.numpy()), (X.numpy().astype(object), Y), (X.numpy().astype(str), Y), (X[None], Y[None]),
    torch.tensor(1.0), X, TensorDataset(X), TensorDataset(X, Y), TensorDataset(X, X, Y), TensorDataset(X[:0], Y[:0]),
    DataLoader(TensorDataset(X, Y), batch_size=7), DataLoader(TensorDataset(X, Y), batch_size=None),
    DataLoader(TensorDataset(X, Y), batch_size=100, drop_last=True), DataLoader([]), range(60), pd.DataFrame(X.numpy()),
    [{"input": x, "label": int(c)} for x, c in zip(X, Y, strict=True)], [{"input": x} for x in X],
    [{"input": x[: 1 + i % 3], "y": 1} for i, x in enumerate(X)], [{"input": X[0], "y": 1}, {"z": X[0]}] * 30,
    [(X[0], "a"), (X[1], 2)] * 30, [(X[0], 1)] * 60, {"input": X, "labels": Y}, [X, Y], (X, X, Y),
]  # fmt: skip


class Returning(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.head, self.value = nn.Linear(3, 2), value

    def forward(self, x):
        logits = self.head(x)
        return self.value(logits)


def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


NETWORKS = [
    None, 3, "mlp", nn.Linear, nn.Sequential(), nn.ReLU(), nn.Linear(3, 2), nn.Linear(3, 1),
    nn.Linear(3, 2, bias=False),
    nn.Linear(3, 2).double(), nn.Linear(3, 2).half(), nn.Linear(3, 2).bfloat16(), nn.LazyLinear(2),
    nn.Linear(3, 2).requires_grad_(False), nn.Conv1d(3, 2, 1), nn.Bilinear(3, 3, 2), nn.Embedding(3, 2), nn.LSTM(3, 2),
    Returning(lambda x: None), Returning(lambda x: {}), Returning(lambda x: ()), Returning(lambda x: {"logits": x}),
    Returning(lambda x: [x]), Returning(lambda x: x[:1]), Returning(lambda x: x.sum()), Returning(lambda x: 1 / 0),
    Returning(lambda x: x.detach().numpy()), Returning(lambda x: (x, x)), nn.Linear(3, 2, device="meta"),
]  # fmt: skip

SMALL = {"search": HeadSearch(l2=(1e-2,), weight_ratio=(5.0,), n_neighbors=(5,))}


def fails_well(call):
    """Run the call; True when it worked, False when it raised a SteepError of one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except SteepError as error:
            if "\n" in str(error) or not str(error):
                raise AssertionError(f"the message is not one line: {error}") from error
            return False
        except MemoryError:
            return False
    return True


DOORS = {
    "split": (lambda **k: split(network(), **{"sample": X[:2], **k}), ["head", "forward", "sample", "batch_size"]),
    "project": (lambda **k: project(network(), X, **k), ["memmap"]),
    "retrain_head": (
        lambda **k: retrain_head(network(), X, **{"y": Y, "n_neighbors": 5, **k}),
        ["y", "measure", "n_neighbors", "weight_ratio", "l2", "task", "n_jobs"],
    ),
    "HeadSearch": (
        lambda **k: improve(network(), (X, Y), (UNSEEN, UNSEEN_Y), search=replace(SMALL["search"], **k)),
        ["measure", "l2", "weight_ratio", "weightings", "n_neighbors", "anchor", "held_out"],
    ),
    "improve": (
        lambda **k: improve(network(), (X, Y), **{"validation": (UNSEEN, UNSEEN_Y), **SMALL, **k}),
        [
            "validation", "scoring", "groups", "reweighting", "search", "task", "random_state", "n_jobs",
        ],
    ),
    "torch_derivatives": (
        lambda **k: torch_derivatives(**{"function": lambda x: x[:, 0], **k})(POINTS, INDICES),
        ["function", "dtype"],
    ),
    "torch_derivatives()": (
        lambda X=POINTS, multi_indices=INDICES: torch_derivatives(lambda x: x[:, 0])(X, multi_indices),
        ["X", "multi_indices"],
    ),
}  # fmt: skip

# Large but lawful: work that takes long is no odd argument.
LARGE = {"epochs", "n_draws", "n_samples"}


@pytest.mark.parametrize("door", DOORS)
def test_an_odd_argument_works_or_is_refused_in_one_line(door, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # memmap="auto" is a file
    call, names = DOORS[door]
    rng = np.random.default_rng(len(door))
    n_cases = 0
    for name in names:
        chosen = ODD if len(names) < 8 else [ODD[i] for i in rng.permutation(len(ODD))[:32]]
        for value in chosen:
            if name in LARGE and isinstance(value, int) and value > 1000:
                continue
            try:
                fails_well(lambda name=name, value=value: call(**{name: value}))
            except Exception as error:
                raise AssertionError(f"{door}({name}={value!r}) raised {type(error).__name__}: {error}") from error
            n_cases += 1
    assert n_cases >= 30


@pytest.mark.parametrize("number", range(len(ODD_DATA)))
def test_odd_data_work_or_are_refused_in_one_line(number):
    data = ODD_DATA[number]
    fails_well(lambda: project(network(), data))
    fails_well(lambda: retrain_head(network(), data, n_neighbors=3))
    worked = fails_well(lambda: improve(network(), data, (UNSEEN, UNSEEN_Y), **SMALL))
    fails_well(lambda: improve(network(), (X, Y), data, **SMALL))
    if isinstance(data, TensorDataset) and len(data) and len(data[0]) == 2:
        assert worked


@pytest.mark.parametrize("number", range(len(NETWORKS)))
def test_odd_networks_work_or_are_refused_in_one_line(number):
    odd = NETWORKS[number]
    dtype = next((p.dtype for p in odd.parameters()), X.dtype) if isinstance(odd, nn.Module) else X.dtype
    inputs = X if not dtype.is_floating_point else X.to(dtype)
    fails_well(lambda: split(odd, sample=inputs[:2]))
    fails_well(lambda: retrain_head(odd, inputs, Y, n_neighbors=3))
    fails_well(lambda: improve(odd, (inputs, Y), (inputs[:30], Y[:30]), **SMALL))


def test_no_door_moves_a_global_random_state():
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    for door in ("project", "retrain_head", "improve"):
        call, _ = DOORS[door]
        call()
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


def square(x):
    return x[:, 0] ** 2


def test_derivatives_can_be_pickled():
    derivatives = torch_derivatives(square)
    k = np.array([[2, 0, 0]])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(derivatives))(POINTS, k), derivatives(POINTS, k))
