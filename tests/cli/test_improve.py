"""``steep improve`` re-trains the head of the user's network and writes it as safetensors."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_model

import steep.nn
from steep.cli import main
from steep.cli.improve import load_arrays, load_network, samples_of
from steep.exceptions import SteepError


def improve(*arguments):
    return main(["improve", "model:network", *map(str, arguments)])


@pytest.fixture
def arrays(here):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    np.savez(here / "train.npz", X=X[:200], y=y[:200])
    np.savez(here / "val.npz", X=X[200:], y=y[200:])
    return X.astype(np.float32), y


def test_the_network_written_is_that_of_the_library(here, arrays, capsys):
    assert improve("--train", "train.npz", "--validation", "val.npz", "--json") == 0
    printed = capsys.readouterr()
    figures = json.loads(printed.out)
    assert "loading" in printed.err
    import model

    X, y = arrays
    result = steep.nn.improve(model.network(), (X[:200], y[:200]), (X[200:], y[200:]))
    assert figures["verdict"] == str(result.verdict)
    assert figures["gain"] == result.verdict.interval.mean
    written = load_file(here / "improved.safetensors")
    for name, tensor in result.network.state_dict().items():
        torch.testing.assert_close(written[name], tensor)


def test_the_score_and_the_groups_of_the_command_are_those_of_the_library(here, arrays, capsys):
    X, y = arrays
    groups = (X[200:, 0] > 0).astype(int) + 2 * y[200:]
    np.savez(here / "grouped.npz", X=X[200:], y=y[200:], g=groups)
    assert improve("--train", "train.npz", "--validation", "grouped.npz", "--groups", "g", "--scoring",
                   "worst_group_accuracy", "--scoring", "f1_macro", "--json") == 0  # fmt: skip
    figures = json.loads(capsys.readouterr().out)
    import model

    result = steep.nn.improve(
        model.network(), (X[:200], y[:200]), (X[200:], y[200:]), groups=groups,
        scoring=["worst_group_accuracy", "f1_macro"],
    )  # fmt: skip
    assert figures["verdict"] == str(result.verdict)
    assert figures["unit"] == "worst-group accuracy"
    assert "macro F1" in figures["table"][0]


def test_people_read_the_verdict(arrays, capsys):
    assert improve("--train", "train.npz", "--validation", "val.npz", "-o", "better.safetensors") == 0
    out = capsys.readouterr().out
    assert "head" in out.splitlines()[0]
    assert "better.safetensors: the network with the chosen head" in out


def test_weights_are_loaded_first(here):
    network = load_network("model:network", None)
    with torch.no_grad():
        network[0].weight.fill_(0.25)
    save_model(network, here / "trained.safetensors")
    assert (load_network("model:network", here / "trained.safetensors")[0].weight == 0.25).all()
    save_model(torch.nn.Linear(3, 3), here / "other.safetensors")
    with pytest.raises(SteepError, match=r"--weights .*other\.safetensors does not fit model:network"):
        load_network("model:network", here / "other.safetensors")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train", "none.npz"], "none.npz cannot be read (No such file"),
        (["--train", "t.csv"], "--train t.csv is not an .npz file; expected arrays X and y saved by numpy.savez"),
        (["--train", "train.npz", "--validation", "t.parquet"], "--validation t.parquet is not an .npz file"),
        (["--train", "t.pt"], "--train t.pt is not an .npz file"),
        (["--train", "damaged.npz"], "damaged.npz cannot be read"),
        (["--train", "train.npz", "--weights", "t.pt"], "--weights t.pt does not fit model:network"),
        (["--train", "names.npz"], "names.npz holds a, b; expected X and y"),
        (["--train", "objects.npz"], "objects.npz cannot be read"),
        (["--train", "one.npy"], "--train one.npy is not an .npz file"),
        (["--train", "train.npz", "-o", "x.pt"], "--output must end in .safetensors"),
        (["--train", "train.npz", "-o", "none/x.safetensors"], "its folder does not exist; create it first"),
        (["--train", "train.npz", "--scoring", "beauty"], "--scoring 'beauty' is unknown"),
        (["--train", "train.npz", "--scoring", "neg_mean_squared_error"], "does not fit a multiclass head"),
        (["--train", "train.npz", "--groups", "sex"], "no 'sex'; pass --groups with one of these names"),
        (["--train", "train.npz", "--scoring", "worst_group_accuracy"], "needs groups, got none"),
        (["--train", "train.npz", "--task", "guess"], "--task 'guess' is unknown"),
        ([], "Missing option '--train'"),
        (["--train", "train.npz", "--validation"], "requires an argument"),
    ],
)
def test_bad_input_ends_with_one_line(here, arrays, capsys, arguments, message):
    np.savez(here / "names.npz", a=[1], b=[2])
    np.savez(here / "objects.npz", X=np.array([None]), y=[1])
    np.save(here / "one.npy", [1])
    (here / "damaged.npz").write_bytes(b"PK nonsense")
    (here / "t.csv").write_text("a,b,y\n1,2,0\n")
    torch.save({"weight": torch.zeros(2)}, here / "t.pt")
    more = ["--validation", "val.npz"] if "--train" in arguments and "--validation" not in arguments else []
    assert improve(*arguments, *more) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line != "loading"]
    assert len(lines) == 1
    assert message in lines[0]
    assert not list(here.glob("*.safetensors"))


@pytest.mark.parametrize("name", ["X", "np", "taking", "number"])
def test_what_is_no_network_is_refused(here, name):
    (here / "odd.py").write_text("import numpy as np\nX = np.ones(3)\nnumber = lambda: 3\ndef taking(width): ...\n")
    with pytest.raises(SteepError, match="expected a"):
        load_network(f"odd:{name}", None)


def test_arrays_go_by_several_names(here):
    np.savez(here / "t.npz", inputs=[[1.0]], labels=[3])
    X, y = samples_of(here / "t.npz", load_arrays(here / "t.npz"))
    assert (X.tolist(), y.tolist()) == ([[1.0]], [3])
