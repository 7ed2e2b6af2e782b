import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from architectures import (
    ARCHITECTURES,
    CLASSES,
    DICTS,
    IMAGES,
    TOKENS,
    ForSequenceClassification,
    X,
    assert_untouched,
    build,
    snapshot,
)
from steep.exceptions import InputError, InputTypeError
from steep.nn import improve, project, retrain_head, split
from steep.nn.batches import iterate_batches


def inputs_of(data):
    return next(iter(iterate_batches(data, 16)))[0]


def run(network, inputs):
    with torch.no_grad():
        output = network(**inputs) if isinstance(inputs, dict) else network(inputs)
    return getattr(output, "logits", output)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_head_is_found_and_its_input_are_the_features(name):
    network, data, head, _ = build(name)
    parts = split(network, sample=inputs_of(data))
    assert parts.name == head
    network.eval()
    logits = parts.head(torch.as_tensor(project(parts, inputs_of(data)).features))
    output = run(network, inputs_of(data))
    responses = (logits, logits.softmax(-1), logits.log_softmax(-1), logits.sigmoid())
    assert any(torch.allclose(r.reshape(-1), output.reshape(-1), atol=1e-5) for r in responses)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_retraining_gives_a_network_of_the_same_form_and_leaves_the_given_one(name):
    network, data, head, _ = build(name)
    network.train()
    before = snapshot(network)
    retrained = retrain_head(network, data, n_neighbors=10, weight_ratio=5)
    assert_untouched(before, network)
    assert list(retrained.state_dict()) == list(network.state_dict())
    assert run(retrained.eval(), inputs_of(data)).shape == run(network.eval(), inputs_of(data)).shape
    changed = [k for k, v in retrained.state_dict().items() if not torch.equal(v, network.state_dict()[k])]
    assert changed
    assert all(key.startswith(head) for key in changed)


def test_joining_the_own_head_changes_nothing():
    network = build("convolutional")[0].eval()
    parts = split(network, sample=IMAGES[:2])
    torch.testing.assert_close(parts.join(parts.own_head())(IMAGES), network(IMAGES), rtol=0, atol=0)


@pytest.mark.parametrize("form", ["tensor", "array", "pair", "dataset", "loader", "shuffled loader", "dicts"])
def test_every_form_of_data_gives_the_same_features(form):
    network = build("mlp")[0]
    generator = torch.Generator().manual_seed(3)
    forms = {
        "tensor": X,
        "array": X.numpy(),
        "pair": (X, CLASSES),
        "dataset": TensorDataset(X, CLASSES),
        "loader": DataLoader(TensorDataset(X, CLASSES), batch_size=50),
        "shuffled loader": DataLoader(TensorDataset(X, CLASSES), batch_size=50, shuffle=True, generator=generator),
        "dicts": [{"input": x, "label": int(c)} for x, c in zip(X, CLASSES, strict=True)],
    }
    before, state = snapshot(network), generator.get_state()
    found = project(split(network, batch_size=32), forms[form])
    assert_untouched(before, network)
    assert torch.equal(state, generator.get_state())
    expected = project(network, X).features
    order = slice(None)
    if form == "shuffled loader":
        order = np.lexsort(expected.T)
        found = type(found)(found.features[np.lexsort(found.features.T)], None)
    np.testing.assert_allclose(found.features, expected[order], atol=1e-6)
    if found.labels is not None:
        np.testing.assert_array_equal(found.labels, CLASSES)


def test_features_are_those_of_eval_mode():
    network, data, _, _ = build("dropout and batch-norm")
    np.testing.assert_array_equal(project(network.train(), data).features, project(network.eval(), data).features)


def test_features_keep_their_dtype_and_fit_in_a_memory_map(tmp_path):
    network = build("mlp")[0].double()
    found = project(network, X.double(), memmap=tmp_path / "features.npy").features
    assert isinstance(found, np.memmap)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(np.load(tmp_path / "features.npy"), project(network, X.double()).features)
    half = build("mlp")[0].bfloat16()
    assert project(half, X.bfloat16()).features.dtype == np.float32


def test_no_progress_is_shown_in_tests(capsys):
    project(build("mlp")[0], X)
    assert capsys.readouterr().err == ""


def test_keyword_only_models_run_through_forward():
    network = build("output object")[0]
    found = retrain_head(
        split(network, forward=lambda model, ids: model(input_ids=ids).logits), (TOKENS, CLASSES), n_neighbors=10
    )
    assert isinstance(found, ForSequenceClassification)
    expected = retrain_head(network, DICTS, n_neighbors=10).classifier.weight
    np.testing.assert_allclose(found.classifier.weight.detach(), expected.detach(), atol=1e-3)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(5, 5), nn.Linear(5, 5)

    def forward(self, x):
        return self.head(self.head(self.body(x)))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(5, 5), nn.Linear(5, 5)
        self.head.weight = self.body.weight

    def forward(self, x):
        return self.head(self.body(x))


def frozen():
    network = build("mlp")[0]
    network[2].requires_grad_(False)
    return network


def broken():
    network = build("mlp")[0]
    network[0].weight.data[0, 0] = float("nan")
    return network


BAD = {
    "no layer": (lambda: nn.Sequential(nn.ReLU()), InputError, "no nn.Linear runs"),
    "called twice": (Twice, InputError, "head 'head' ran 2 times"),
    "tied": (Tied, InputError, r"shared \(body.weight, head.weight\)"),
    "frozen": (frozen, InputError, r"head '2' is frozen .*requires_grad_\(True\)"),
    "not a module": (lambda: 3, InputTypeError, "network is a int"),
    "something follows": (
        lambda: nn.Sequential(nn.Linear(5, 3), nn.LayerNorm(3)), InputError, "neither that of head '0' nor its softmax",
    ),
    "NaN": (broken, InputError, "features before head '2' contain NaN"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_networks_that_cannot_be_improved_are_refused_and_left_alone(name):
    builder, error, message = BAD[name]
    network = builder()
    before = snapshot(network) if isinstance(network, nn.Module) else None
    with pytest.raises(error, match=message):
        retrain_head(network, X, CLASSES, n_neighbors=5)
    if before is not None:
        assert_untouched(before, network)


class Quantised(nn.Linear):
    """As bitsandbytes keeps them: an nn.Linear whose weights are packed."""

    def __init__(self, n_in, n_out):
        super().__init__(n_in, n_out)
        self.weight = nn.Parameter(torch.ones(n_out, n_in, dtype=torch.uint8), requires_grad=False)

    def forward(self, x):
        return x @ self.weight.to(x.dtype).T + self.bias


class Packed(nn.Module):
    """As GPTQ and AWQ keep them: a layer of its own."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.register_buffer("qweight", torch.ones(n_out, n_in, dtype=torch.int32))

    def forward(self, x):
        return x @ self.qweight.to(x.dtype).T


class Dynamic(nn.Module):
    """As torch quantises dynamically."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.inner = (torch.ones(n_out, n_in),)

    def weight(self):
        return self.inner[0]

    def forward(self, x):
        return x @ self.inner[0].T


Dynamic.__module__ = "torch.ao.nn.quantized.dynamic.modules.linear"


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.score = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
        self.score.weight = self.embed.weight

    def forward(self, tokens):
        return self.score(self.embed(tokens))


def plain():
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))


def exported():
    return torch.export.export(plain(), (X[:2],))


QUANTISED = "improve the network before it is quantised"
UNSUPPORTED = {
    "language model": (LanguageModel, TOKENS, r"the weights of head 'score' are shared"),
    "convolution of three pixels": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 3, 3)), IMAGES,
        r"a Conv2d of kernel \(3, 3\); expected a",
    ),
    "packed weights of a Linear": (lambda: nn.Sequential(Quantised(5, 3)), X, QUANTISED),
    "packed weights": (lambda: nn.Sequential(nn.Linear(5, 8), Packed(8, 3)), X, "neither that of head '0'"),
    "quantised dynamically": (lambda: nn.Sequential(nn.Linear(5, 8), Dynamic(8, 3)), X, "neither that of head '0'"),
    "scripted": (lambda: torch.jit.script(plain()), X, "is a RecursiveScriptModule; .*pass the module"),
    "traced": (lambda: torch.jit.trace(plain(), X[:2]), X, "is a TopLevelTracedModule; .*pass the module"),
    "exported program": (exported, X, "is a ExportedProgram; .*pass the module it was made from"),
    "exported module": (lambda: exported().module(), X, "is a GraphModule; .*pass the module"),
    "file": (lambda: "network.pt", X, "network is a str; expected a torch.nn.Module; pass the module"),
    "state_dict": (lambda: plain().state_dict(), X, "network is a OrderedDict; .*pass the module"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_not_supported_is_named_in_one_line(name):
    builder, inputs, message = UNSUPPORTED[name]
    network = builder()
    for call in (
        lambda: split(network, sample=inputs[:4]),
        lambda: project(network, inputs),
        lambda: retrain_head(network, inputs, CLASSES),
        lambda: improve(network, (inputs, CLASSES), (inputs, CLASSES)),
    ):
        with pytest.raises((InputError, InputTypeError), match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


class Followed(nn.Module):
    def __init__(self, size, follow):
        super().__init__()
        self.head, self.follow = nn.Linear(5, 3), follow
        with torch.no_grad():
            self.head.weight *= size
            self.head.bias *= size

    def forward(self, x):
        return self.follow(self.head(x))


RESPONSES = [lambda z: z, lambda z: z.softmax(-1), lambda z: z.log_softmax(-1), torch.sigmoid]


@pytest.mark.parametrize("response", RESPONSES)
@pytest.mark.parametrize("size", [1e-5, 1.0, 1e3])
def test_outputs_of_any_size_tell_what_follows_the_head(response, size):
    assert split(Followed(size, response), sample=X).name == "head"
    if size < 1000:  # beyond, probabilities are 0 and 1, whatever the factor
        with pytest.raises(InputError, match="neither that of head 'head' nor its softmax"):
            split(Followed(size, lambda z: response(0.5 * z)), sample=X)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("response", RESPONSES)
def test_a_response_in_another_precision_is_recognised(response, dtype):
    network = Followed(1.0, lambda z: response(z.float())).to(dtype)
    assert split(network, sample=X.to(dtype)).name == "head"


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("7", "head='7' is not in network; expected the name of an nn.Linear or a convolution of one pixel: 0, 2"),
        ("1", "head='1' is a ReLU"),
    ],
)
def test_a_head_that_is_not_there_is_rejected(head, message):
    with pytest.raises(InputError, match=message):
        split(build("mlp")[0], head)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"y": CLASSES[:5]}, "y has 5 labels for 120 samples"),
        ({"y": CLASSES + 1}, "holds class 3, but the head has 3 outputs; expected classes 0 … 2"),
        ({"y": CLASSES - 1}, "holds class -1"),
        ({"y": None}, "hold no labels"),
        ({"y": X, "task": "multiclass"}, r"labels has shape \(120, 5\)"),
        ({"y": CLASSES.float() + 0.5, "task": "multiclass"}, "not class numbers"),
        ({"y": X[:, :2], "task": "regression"}, "for a head of 3 outputs"),
        ({"y": X[:, :3], "task": "multilabel"}, "other than 0 and 1"),
        ({"n_neighbors": 500}, "n_neighbors=500 needs at least 500 samples"),
        ({"l2": -1.0}, "l2=-1.0 is out of range"),
    ],
)
def test_bad_input_is_refused(kwargs, message):
    network = build("mlp")[0]
    before = snapshot(network)
    with pytest.raises(InputError, match=message):
        retrain_head(network, X, **{"y": CLASSES, "n_neighbors": 10, **kwargs})
    assert_untouched(before, network)


def test_data_of_an_unknown_kind_are_refused():
    with pytest.raises(InputTypeError, match="data is a str"):
        project(build("mlp")[0], "digits")
    with pytest.raises(InputError, match="120 inputs and 5 labels"):
        project(build("mlp")[0], (X, CLASSES[:5]))
    with pytest.raises(InputError, match="no batch"):
        project(build("mlp")[0], X[:0])


def test_a_shuffling_loader_is_read_in_the_order_of_its_data_set():
    loader = DataLoader(TensorDataset(X, CLASSES), batch_size=50, shuffle=True, drop_last=True)
    found = project(build("mlp")[0], loader)
    np.testing.assert_array_equal(found.labels, CLASSES)


def test_streams_are_refused():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([])

    with pytest.raises(InputTypeError, match="data is a stream"):
        project(build("mlp")[0], DataLoader(Stream()))


def test_a_split_without_a_sample_finds_the_head_with_the_data():
    network = build("mlp")[0]
    parts = split(network, batch_size=7)
    with pytest.raises(InputError, match="the head has not been found yet; pass sample= or head= to split"):
        parts.run(X)
    np.testing.assert_allclose(project(parts, X).features, project(network, X).features, atol=1e-6)
