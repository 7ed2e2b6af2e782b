"""Train a network with a checkpoint every epoch, so that a stopped run continues to the same weights.

What an epoch draws comes from (seed, epoch) alone, and the step size from the step's number; a checkpoint therefore
needs only the parameters, the optimizer's moments and the curriculum's memory. It is a safetensors file in the cache.
Its name holds a digest of everything that shapes the weights: the recipe, the data, the curriculum, the optimizer and
the start. A change of any of them is another file, and so another training.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from reproduction.jobs import Context
from reproduction.networks import build
from reproduction.rivals import Curriculum, fingerprint
from steep._files import write_whole
from steep._progress import progress_bar
from steep._validation import check_choice
from steep.exceptions import StorageError


@dataclass(frozen=True)
class Recipe:
    """How a network is trained; two equal recipes on equal data give equal weights."""

    network: str
    epochs: int
    batch_size: int
    learning_rate: float
    one_cycle: bool  # the step rises and falls once over the training; else it is constant
    augment: bool  # shifts of up to 4 pixels, and mirrored pictures
    seed: int
    label: str = ""
    optimizer: str = "adam"  # or "sgd": Nesterov's momentum 0.9, weight decay 5e-4; "plain sgd" has neither


def train_network(
    recipe: Recipe, images: Tensor, labels: Tensor, context: Context, *, curriculum: Curriculum | None = None
) -> nn.Module:  # fmt: skip
    """Train, or take up a training that was stopped, or load one that is finished; in evaluation mode, on the CPU."""
    plan = curriculum or Curriculum(len(images), recipe.batch_size)
    network = build(recipe.network, recipe.seed)
    start = fingerprint(*network.state_dict().values())
    network.to(context.device)
    optimizer = _optimizer(recipe, network)
    shaped_by = {
        "recipe": json.dumps(asdict(recipe), sort_keys=True), "data": fingerprint(images, labels),
        "curriculum": json.dumps(plan.settings(), sort_keys=True),
        "optimizer": str(sorted(optimizer.defaults.items())), "start": start,
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps(shaped_by, sort_keys=True).encode()).hexdigest()[:16]
    name = f"{recipe.network}-{recipe.label or 'plain'}-{recipe.seed}-{digest}.safetensors"
    path = Path(context.cache) / name.replace(" ", "-")
    done = _load(path, shaped_by, network, optimizer, plan) if path.exists() else 0
    total, done_steps = recipe.epochs * plan.n_steps, done * plan.n_steps
    with progress_bar(total=total, done=done_steps, label=f"steps of {path.stem}", shown=context.progress) as bar:
        for epoch in range(done, recipe.epochs):
            for _ in _train_epoch(recipe, epoch, network, optimizer, plan, images, labels):
                bar.update()
            _save(path, {**shaped_by, "epoch": str(epoch + 1)}, network, optimizer, plan)
    return network.cpu().eval()


def _optimizer(recipe: Recipe, network: nn.Module) -> torch.optim.Optimizer:
    check_choice(recipe.optimizer, name="optimizer", choices=("adam", "sgd", "plain sgd"))
    if recipe.optimizer == "adam":
        return torch.optim.Adam(network.parameters(), lr=recipe.learning_rate)
    if recipe.optimizer == "plain sgd":
        return torch.optim.SGD(network.parameters(), lr=recipe.learning_rate)
    return torch.optim.SGD(
        network.parameters(), lr=recipe.learning_rate, momentum=0.9, nesterov=True, weight_decay=5e-4
    )


def _train_epoch(
    recipe: Recipe, epoch: int, network: nn.Module, optimizer: torch.optim.Optimizer, plan: Curriculum, images: Tensor,
    labels: Tensor,
) -> Iterator[None]:  # fmt: skip
    """Yields after each step."""
    network.train()
    generator = torch.Generator().manual_seed(recipe.seed * 100_003 + epoch)
    total = recipe.epochs * plan.n_steps
    for number, rows in enumerate(plan.batches(epoch, generator), start=epoch * plan.n_steps):
        rate = _rate(recipe, number / total)
        for group in optimizer.param_groups:
            group["lr"] = rate
        device = next(network.parameters()).device
        batch = _altered(images[rows], generator) if recipe.augment else images[rows]
        losses = functional.cross_entropy(network(batch.to(device)), labels[rows].to(device), reduction="none")
        plan.observe(rows, torch.exp(-losses).detach().cpu())
        weight = plan.weights(rows, epoch)
        optimizer.zero_grad()
        (losses if weight is None else losses * weight.to(device)).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        yield


def _rate(recipe: Recipe, share: float) -> float:
    """The step: constant, or from a tenth up to its height at 30 % of the way and down to nothing along a cosine."""
    if not recipe.one_cycle:
        return recipe.learning_rate
    if share < 0.3:
        return recipe.learning_rate * (0.1 + 0.9 * share / 0.3)
    return recipe.learning_rate * max(1e-3, (1 + math.cos(math.pi * (share - 0.3) / 0.7)) / 2)


def _altered(batch: Tensor, generator: torch.Generator) -> Tensor:
    """Mirror half of the pictures and shift each by up to 4 pixels, zeros moving in."""
    n, _, height, width = batch.shape
    mirrored = torch.where(torch.rand(n, 1, 1, 1, generator=generator) < 0.5, batch.flip(3), batch)
    padded = functional.pad(mirrored, (4, 4, 4, 4))
    down, right = torch.randint(0, 9, (2, n), generator=generator)
    rows = (down[:, None] + torch.arange(height))[:, None, :, None]
    columns = (right[:, None] + torch.arange(width))[:, None, None, :]
    channels = torch.arange(batch.shape[1])[None, :, None, None]
    return padded[torch.arange(n)[:, None, None, None], channels, rows, columns]


def _save(
    path: Path, shaped_by: dict[str, str], network: nn.Module, optimizer: torch.optim.Optimizer, plan: Curriculum
) -> None:
    tensors = {f"network.{name}": tensor.contiguous() for name, tensor in network.state_dict().items()}
    for number, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"moments.{number}.{name}": value.contiguous() for name, value in moments.items()}
    tensors |= {f"plan.{name}": tensor.contiguous() for name, tensor in plan.state().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda temporary: save_file(tensors, temporary, metadata=shaped_by))


def _load(
    path: Path, shaped_by: dict[str, str], network: nn.Module, optimizer: torch.optim.Optimizer, plan: Curriculum
) -> int:
    """Take up a checkpoint; returns the epochs it has done."""
    try:
        with safe_open(path, framework="pt") as file:
            kept = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise StorageError(
            f"{path} is not a checkpoint written by steep ({error}); delete it to train again"
        ) from error
    differ = [name for name in shaped_by if kept.get(name) != shaped_by[name]]
    if differ or not kept.get("epoch", "").isdigit():
        raise StorageError(
            f"{path} does not hold the training that its name says ({', '.join(differ) or 'epoch'} differs); delete it"
        )
    network.load_state_dict(_part(tensors, "network."))
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _part(tensors, "moments.").items():
        number, moment = name.split(".")
        moments.setdefault(int(number), {})[moment] = tensor
    state = optimizer.state_dict()
    optimizer.load_state_dict({**state, "state": moments})
    plan.load(_part(tensors, "plan."))
    return int(kept["epoch"])


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
