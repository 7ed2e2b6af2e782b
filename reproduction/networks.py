"""The networks of the paper: LeNet-5 (MNIST) and ResNet20 in He et al.'s form for CIFAR-10.

Perceptrons: :mod:`reproduction.ensemble`; text uses frozen features (:meth:`reproduction.data.Data.glue`).
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from steep._validation import check_choice


def lenet5(seed: int = 0) -> nn.Module:
    """LeNet-5 with ReLU: 84 features before its head."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
        )  # fmt: skip


def authors_lenet(seed: int = 0) -> nn.Sequential:
    """The authors' LeNet: three convolutions, tanh, a first pooling of stride 1, Glorot's start (as Keras has it)."""
    network = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2, 1), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
        nn.Conv2d(16, 120, 5), nn.Tanh(), nn.Flatten(), nn.Linear(5880, 84), nn.Tanh(), nn.Linear(84, 10),
    )  # fmt: skip
    generator = torch.Generator().manual_seed(seed)
    for layer in _with_weights(network):
        nn.init.xavier_uniform_(layer.weight, generator=generator)
        nn.init.zeros_(layer.bias)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def published_lenet(layers: Sequence[tuple[Any, Any]]) -> nn.Sequential:
    """The authors' LeNet with its published kernels and biases, in Keras's order of axes."""
    network = authors_lenet()
    for layer, (kernel, bias) in zip(_with_weights(network), layers, strict=True):
        weight = torch.as_tensor(kernel)
        if weight.ndim == 2 and len(weight) == 5880:
            weight = weight.reshape(7, 7, 120, -1).permute(2, 0, 1, 3).reshape(5880, -1)
        layer.weight.data.copy_(weight.permute(3, 2, 0, 1) if weight.ndim == 4 else weight.T)
        layer.bias.data.copy_(torch.as_tensor(bias))
    return network.eval()


def _with_weights(network: nn.Sequential) -> list[Any]:
    return [layer for layer in network if isinstance(layer, nn.Conv2d | nn.Linear)]


class _Block(nn.Module):
    """Two 3 × 3 convolutions and a shortcut without parameters: subsampled, new channels zero (option A)."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.stride, self.grown = 2 if n_out > n_in else 1, n_out - n_in
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride=self.stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        if self.grown:
            x = functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.grown // 2, self.grown - self.grown // 2))
        return functional.relu(out + x)


class ResNet20(nn.Module):
    """19 convolutions in three stages of 16, 32 and 64 channels, global average, and a head of 64 features."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
        self.blocks = nn.Sequential(*(_Block(a, b) for a, b in itertools.pairwise(widths)))
        self.head = nn.Linear(64, 10)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores of pictures ``(n, 3, 32, 32)``."""
        x = functional.relu(self.bn(self.conv(x.contiguous(memory_format=torch.channels_last))))
        out: Tensor = self.head(self.blocks(x).mean(dim=(2, 3)))
        return out


def resnet20(seed: int = 0) -> nn.Module:
    """ResNet20 (269,722 parameters), convolutions laid out for the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = ResNet20()
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "lenet5": lenet5, "authors-lenet": authors_lenet, "resnet20": resnet20,
}  # fmt: skip


def build(name: str, seed: int) -> nn.Module:
    """A network by name, with the start of a seed."""
    check_choice(name, name="name", choices=tuple(NETWORKS))
    return NETWORKS[name](seed)
