import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from sklearn.linear_model import LogisticRegression
from torch import nn

from architectures import ARCHITECTURES, assert_untouched, build, snapshot
from steep import sample_weights
from steep.exceptions import InputError
from steep.nn import HeadSearch, Improvement, improve, project, retrain_head

GRID = {"search": HeadSearch(l2=(1e-2, 1e-4), weight_ratio=(0.5, 10.0), n_neighbors=(10, 20))}
SPLIT = 80


def halves(data):
    if isinstance(data, list):
        return data[:SPLIT], data[SPLIT:]
    return tuple(part[:SPLIT] for part in data), tuple(part[SPLIT:] for part in data)


def bent_data(n=900, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 2, generator=g)
    return x, (x[:, 0] * x[:, 1] > 0).long()


def half_trained(seed=0):
    """Random features under a random head: much to gain."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(2, 30), nn.Tanh(), nn.Linear(30, 2))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_improve_runs_on_every_architecture_and_leaves_the_given_network(name):
    network, data, _, task = build(name)
    before = snapshot(network)
    result = improve(network, *halves(data), **GRID)
    assert isinstance(result, Improvement)
    assert_untouched(before, network)
    assert {"original", "equal weights", "weighted", "chosen"} == set(result.table.index)
    assert ("mean squared error" if task == "regression" else "accuracy") in result.table
    assert len(result.candidates) == 1 + 2 * (1 + 2 * 2)
    assert list(result.network.state_dict()) == list(network.state_dict())
    assert result.weights.shape == (SPLIT,)


def test_retrain_head_is_algorithm_3_line_by_line():
    X, y = bent_data()
    network = half_trained()
    features = project(network, X).features
    weight = sample_weights(features, y.numpy(), n_neighbors=15, weight_ratio=8, embedding=None)
    scale2 = features.var(axis=0).mean()
    # Two symmetric columns of half the size have half the penalty of scikit-learn's one column.
    theirs = LogisticRegression(C=2 / (len(X) * 1e-3 * scale2), tol=1e-8, max_iter=5000)
    theirs.fit(features.astype(float), y, sample_weight=weight)
    retrained = retrain_head(network, X, y, n_neighbors=15, weight_ratio=8, l2=1e-3)
    ours = retrained(X).softmax(dim=1).detach().numpy()
    np.testing.assert_allclose(ours, theirs.predict_proba(features), atol=2e-3)


def test_a_poor_head_is_improved_and_the_gain_is_real_on_fresh_data():
    X, y = bent_data()
    network = half_trained()
    result = improve(network, (X[:600], y[:600]), (X[600:], y[600:]), **GRID)
    fresh, labels = bent_data(2000, seed=1)
    before, after = ((model(fresh).argmax(1) == labels).float().mean() for model in (network, result.network))
    assert result.chosen.kind != "original"
    assert after > before + 0.2
    gained = 100 * result.verdict.interval.mean
    start, best = (100 * result.table.loc[row, "accuracy"] for row in ("original", "chosen"))
    end = start + gained
    assert end <= best  # what is stated is not what the choice was made by
    assert result.table.loc["chosen", "gain"] == pytest.approx(gained / 100)
    told = str(result.verdict)
    assert told.startswith(f"The new head raises accuracy by {gained:.3g} points on 300 held-out samples (95 % inter")
    assert f"from {start:.4g} % to {end:.4g} %" in told
    assert "from re-training with equal weights" in told
    assert str(result).startswith(told)


def test_a_head_that_cannot_be_bettered_is_kept():
    X, y = bent_data()
    better = improve(half_trained(), (X, y), bent_data(seed=3), search=HeadSearch(l2=(1e-5,), weight_ratio=())).network
    again = improve(
        better, (X[:300], y[:300]), bent_data(900, seed=5), search=HeadSearch(l2=(1e-1, 1e-2), weight_ratio=())
    )
    assert again.chosen.kind == "original"
    assert str(again.verdict).startswith("The original head is kept: on 900 held-out samples")
    assert again.verdict.interval.mean == 0
    torch.testing.assert_close(again.network[2].weight, better[2].weight, rtol=0, atol=0)


def test_save_writes_safetensors_with_the_verdict(tmp_path):
    X, y = bent_data(300)
    result = improve(half_trained(), (X[:200], y[:200]), (X[200:], y[200:]), **GRID)
    result.save(tmp_path / "better.safetensors")
    fresh = half_trained(9)
    fresh.load_state_dict(load_file(tmp_path / "better.safetensors"))
    assert torch.equal(fresh(X), result.network(X))
    with safe_open(tmp_path / "better.safetensors", "pt") as file:
        assert file.metadata()["verdict"] == str(result.verdict)
        assert json.loads(file.metadata()["chosen"])["kind"] == result.chosen.kind


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"search": HeadSearch(l2=())}, "l2 is empty"),
        ({"search": HeadSearch(l2=(-1.0,))}, "l2=-1.0 is out of range"),
        ({"search": HeadSearch(weight_ratio=(0.0,))}, "weight_ratio=0.0 is out of range"),
        ({"search": HeadSearch(n_neighbors=(1,))}, "n_neighbors=1 is too small"),
        ({"search": HeadSearch(n_neighbors=(400,))}, "needs at least 400 samples"),
        ({"task": "ranking"}, "task='ranking' is unknown"),
    ],
)
def test_bad_input_is_refused(kwargs, message):
    X, y = bent_data(200)
    network = half_trained()
    before = snapshot(network)
    with pytest.raises(InputError, match=message):
        improve(network, (X[:100], y[:100]), (X[100:], y[100:]), **kwargs)
    assert_untouched(before, network)


def test_without_torch_the_error_says_what_to_install():
    code = (
        "import sys\n"
        "class Block:\n    def find_spec(self, name, *_):\n"
        "        if name == 'torch':\n            raise ImportError('No module named torch')\n"
        "sys.meta_path.insert(0, Block())\n"
        "import steep\n"
        "from steep.exceptions import MissingExtraError\n"
        "try:\n    import steep.nn\n"
        "except MissingExtraError as error:\n    assert 'pip install steep[torch]' in str(error)\n"
        "else:\n    raise SystemExit(1)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
