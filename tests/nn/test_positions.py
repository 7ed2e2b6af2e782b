"""Heads that run on every position of a sequence or a picture, and other forms of networks and data."""

import numpy as np
import pytest
import torch
from torch import nn

from steep.exceptions import InputError
from steep.nn import HeadSearch, improve, project, split

FEW = {"search": HeadSearch(l2=(1e-2, 1e-4), weight_ratio=(5.0,), n_neighbors=(10,))}
generator = torch.Generator().manual_seed(0)
PICTURES = torch.randn(60, 1, 5, 5, generator=generator)
PIXELS = (PICTURES[:, 0] > 0.5).long()
TOKENS = torch.randint(1, 11, (300, 6), generator=generator)
TAGS = TOKENS % 3


class Decoder(nn.Module):
    """As GPT, Llama and Qwen classify: the head runs on every token, and the last that is not padding is kept."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.score = nn.Embedding(11, 8), nn.Linear(8, 3, bias=False)

    def forward(self, tokens):
        last = (tokens != 0).sum(dim=1) - 1
        return self.score(self.embed(tokens))[torch.arange(len(tokens)), last]


class Tagger(Decoder):
    def forward(self, tokens):
        return self.score(self.embed(tokens))


def segmentation(last=None):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 8, 1), nn.Tanh(), *(last or [nn.Conv2d(8, 2, 1)]))


def accuracy(network, inputs, labels):
    outputs = network(inputs)
    outputs = outputs.movedim(1, -1) if outputs.shape[1] == 2 and outputs.ndim == 4 else outputs
    return float((outputs.argmax(-1) == labels)[labels != -100].float().mean())


def test_a_decoder_is_improved_at_the_token_it_keeps():
    tokens = TOKENS.clone()
    tokens[::2, 4:] = 0  # padding
    last = (tokens != 0).sum(dim=1) - 1
    kept = tokens[torch.arange(300), last]
    network = Decoder()
    features = torch.as_tensor(project(split(network, sample=tokens[:4]), tokens).features)
    torch.testing.assert_close(features, network.embed(kept).detach())
    result = improve(network, (tokens[:200], kept[:200] % 3), (tokens[200:], kept[200:] % 3), **FEW)
    assert accuracy(result.network, tokens[200:], kept[200:] % 3) > 0.9 > 0.7 > accuracy(network, tokens, kept % 3)


def test_a_tagger_is_improved_on_every_token_that_has_a_label():
    tags = TAGS.clone()
    tags[:, 3] = -100
    network = Tagger()
    assert project(network, (TOKENS, tags)).features.shape == (300 * 5, 8)
    result = improve(network, (TOKENS[:200], tags[:200]), (TOKENS[200:], tags[200:]), **FEW)
    assert accuracy(result.network, TOKENS, tags) > 0.9 > accuracy(network, TOKENS, tags)
    assert result.rescored == pytest.approx(accuracy(result.network, TOKENS[200:], tags[200:]), abs=1e-6)


class ChannelsLast(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Sequential(nn.Conv2d(1, 8, 1), nn.Tanh()), nn.Linear(8, 2)

    def forward(self, pictures):
        return self.head(self.body(pictures).permute(0, 2, 3, 1))


@pytest.mark.parametrize("builder", [segmentation, ChannelsLast])
def test_a_segmentation_is_improved_pixel_by_pixel(builder):
    network = builder()
    result = improve(network, (PICTURES[:40], PIXELS[:40]), (PICTURES[40:], PIXELS[40:]), **FEW)
    assert accuracy(result.network, PICTURES[40:], PIXELS[40:]) > 0.9 > accuracy(network, PICTURES, PIXELS)
    assert [value.shape for value in result.network.state_dict().values()] == [
        value.shape for value in network.state_dict().values()
    ]


def test_a_convolution_whose_outputs_are_averaged_is_a_head_of_averaged_features():
    network = segmentation([nn.Conv2d(8, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()])
    features = torch.as_tensor(project(split(network, sample=PICTURES[:4]), PICTURES).features)
    torch.testing.assert_close(features, network[1](network[0](PICTURES)).mean(dim=(2, 3)).detach())
    pictures = torch.randn(400, 1, 5, 5, generator=generator) + torch.randn(400, 1, 1, 1, generator=generator)
    labels = (pictures.mean(dim=(1, 2, 3)) > 0).long()
    result = improve(network, (pictures[:250], labels[:250]), (pictures[250:], labels[250:]), **FEW)
    assert (result.network(pictures[250:]).argmax(1) == labels[250:]).float().mean() > 0.9


def test_labels_that_do_not_fit_the_positions_are_one_line():
    with pytest.raises(InputError, match=r"labels of shape \(2,\) for 12 positions|labels of shape") as caught:
        improve(Tagger(), (TOKENS, TAGS[:, 0]), (TOKENS, TAGS))
    assert "\n" not in str(caught.value)


def test_a_layer_that_follows_the_positions_in_another_way_is_one_line():
    network = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Conv2d(8, 4, 1), nn.AdaptiveMaxPool2d(1), nn.Flatten())
    with pytest.raises(InputError, match=r"neither that of each position, nor their mean, nor that of one") as caught:
        split(network, sample=PICTURES[:4])
    assert "\n" not in str(caught.value)


def test_a_linear_layer_on_features_is_a_network():
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(300, 4)), dtype=torch.float32)
    y = (x[:, 0] > 0).long()
    torch.manual_seed(0)
    layer = nn.Linear(4, 2)
    result = improve(layer, (x[:200], y[:200]), (x[200:], y[200:]), **FEW)
    assert isinstance(result.network, nn.Linear)
    assert (result.network(x[200:]).argmax(1) == y[200:]).float().mean() > 0.9


def test_inputs_by_name_may_come_with_labels_beside_them():
    class ByName(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 2)

        def forward(self, values):
            return self.head(values)

    x = torch.randn(300, 4, generator=generator)
    y = (x[:, 0] > 0).long()
    result = improve(ByName(), ({"values": x[:200]}, y[:200]), ({"values": x[200:]}, y[200:].tolist()), **FEW)
    assert (result.network(x[200:]).argmax(1) == y[200:]).float().mean() > 0.9
