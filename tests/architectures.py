"""Small networks of many kinds, each with data, the name of its head and its task."""

from dataclasses import dataclass

import torch
from torch import nn

N = 120


@dataclass
class Output:
    """What Hugging Face models return."""

    logits: torch.Tensor
    loss: torch.Tensor | None = None


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.ModuleDict({"deep": nn.Sequential(nn.Linear(5, 8), nn.ReLU())})
        self.unused = nn.Linear(8, 8)
        self.top = nn.ModuleList([nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 3))])
        self.late = nn.Linear(2, 2)  # defined last, never run

    def forward(self, x):
        return self.top[0](self.body["deep"](x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.embed, self.encoder = (nn.Embedding(11, 8), nn.TransformerEncoder(layer, 1, enable_nested_tensor=False))
        self.classifier = nn.Linear(8, 3)

    def forward(self, tokens):
        return self.classifier(self.encoder(self.embed(tokens)).mean(dim=1))


class ForSequenceClassification(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.dense, self.classifier = nn.Embedding(11, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, *, input_ids, attention_mask=None):
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        pooled = (self.embed(input_ids) * mask[..., None]).mean(dim=1)
        return Output(logits=self.classifier(torch.tanh(self.dense(pooled))))


def sequential(*modules):
    return lambda: nn.Sequential(*(module() if isinstance(module, type) else module for module in modules))


def _data(seed=0):
    g = torch.Generator().manual_seed(seed)
    x, images = torch.randn(N, 5, generator=g), torch.randn(N, 1, 8, 8, generator=g)
    tokens = torch.randint(0, 11, (N, 6), generator=g)
    classes = (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()
    return x, images, tokens, classes


X, IMAGES, TOKENS, CLASSES = _data()
LABELS = (X[:, :3] > 0).float()
DICTS = [{"input_ids": t, "attention_mask": torch.ones(6), "labels": c} for t, c in zip(TOKENS, CLASSES, strict=True)]

# name: (builder, data with labels, head, task)
ARCHITECTURES = {
    "mlp": (lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)), (X, CLASSES), "2", "multiclass"),
    "softmax at the end": (
        lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(dim=1)),
        (X, CLASSES), "2", "multiclass",
    ),
    "log-softmax at the end": (
        lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3), nn.LogSoftmax(dim=1)),
        (X, CLASSES), "2", "multiclass",
    ),
    "convolutional": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3)
        ),
        (IMAGES, CLASSES), "4", "multiclass",
    ),
    "dropout and batch-norm": (
        lambda: nn.Sequential(
            nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3, bias=False)
        ),
        (X, CLASSES), "4", "multiclass",
    ),
    "transformer encoder": (Encoder, (TOKENS, CLASSES), "classifier", "multiclass"),
    "nested modules": (Nested, (X, CLASSES), "top.0.1", "multiclass"),
    "output object": (ForSequenceClassification, DICTS, "classifier", "multiclass"),
    "regression": (
        lambda: nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0)),
        (X, X[:, 0] * X[:, 1]), "2", "regression",
    ),
    "several outputs": (
        lambda: nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2)), (X, X[:, :2] ** 2), "2", "regression",
    ),
    "multi-label": (
        lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3), nn.Sigmoid()),
        (X, LABELS), "2", "multilabel",
    ),
    "binary one-logit": (
        lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1)), (X, LABELS[:, 0]), "2", "binary",
    ),
}  # fmt: skip


def build(name, seed=0):
    torch.manual_seed(seed)
    builder, data, head, task = ARCHITECTURES[name]
    return builder(), data, head, task


def snapshot(network):
    return (
        {key: value.clone() for key, value in network.state_dict().items()},
        [module.training for module in network.modules()],
        [parameter.requires_grad for parameter in network.parameters()],
        [id(buffer) for buffer in network.buffers()],
        [(len(module._forward_hooks), len(module._forward_pre_hooks)) for module in network.modules()],
        torch.get_rng_state(),
    )


def assert_untouched(before, network):
    state, *rest, rng = before
    new_state, *new_rest, new_rng = snapshot(network)
    assert rest == new_rest
    assert torch.equal(rng, new_rng)
    assert state.keys() == new_state.keys()
    for key in state:
        torch.testing.assert_close(state[key], new_state[key], rtol=0, atol=0, equal_nan=True)
