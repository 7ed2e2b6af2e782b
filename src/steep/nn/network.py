"""Cut a network M into features M* and head, and join a new head: lines 3 and 6 of Algorithm 3.

The head is the last ``nn.Linear``, or convolution of one pixel, that runs in a forward pass; its input is the feature
vector M*(x). Both are found by hooks, so neither the nesting of modules nor what follows the head (softmax, an output
object) matters. A head that runs on every position of a sequence or a picture gives

    each     one output per position: every position is a sample, with a label of its own; label −100 leaves it out
    mean     the mean of the outputs over all positions: W z̄ + b
    picked   the outputs at one position, as decoders do at the last token: that position is found by its outputs
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from steep._validation import check_count, one_line
from steep.exceptions import FunctionError, InputError, InputTypeError, SteepError
from steep.nn.batches import kept_random_state
from steep.nn.heads import Head

Forward = Callable[[nn.Module, Any], Any]
Positions = Literal["one", "each", "mean", "picked"]
Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d

# How far rounding may take two ways of computing W z + b apart, relative to the largest output. Products in single
# precision may run with ten bits (TF32), those in half precision keep eight to eleven.
_ROUNDING = {torch.float64: 1e-3, torch.float32: 1e-3}
_ROUNDING_HALF = 5e-2


class Pass(NamedTuple):
    """One forward pass: what the head was given, what it returned, and what the network returned."""

    features: Tensor
    logits: Tensor
    output: Any


@dataclass(frozen=True)
class Split:
    """A network divided into its features and its head.

    Attributes
    ----------
    network : nn.Module
        M, the given one, unchanged.
    name : str or None
        Name of the head, as in ``network.get_submodule(name)``; None if it has not been found yet.
    forward : callable
        ``forward(network, batch)``: how the network is run.
    response : str or None
        What follows the head: "logits" is nothing; "softmax", "log-softmax", "sigmoid"; None before the network was
        run.
    batch_size : int or None
        Samples run at once.
    positions : {"one", "each", "mean", "picked"}
        What becomes of the outputs at several positions, if there are any.

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> parts = split(network, head="2")
    >>> parts.head
    Linear(in_features=8, out_features=3, bias=True)
    """

    network: nn.Module
    name: str | None
    forward: Forward
    response: str | None = None
    batch_size: int | None = None
    positions: Positions = "one"

    @property
    def head(self) -> Layer:
        """The head, f_θ."""
        if self.name is None:
            raise InputError("the head has not been found yet; pass sample= or head= to split")
        return self.network.get_submodule(self.name)  # type: ignore[return-value]

    def run(self, batch: Any) -> Pass:
        """Run the network once and watch the head; modes as they are."""
        calls: list[tuple[Tensor, Tensor]] = []
        with watched({"": self.head}, lambda _, given, out: calls.append((given, out))):
            output = run_network(self.network, batch, self.forward)
        if len(calls) != 1:
            raise InputError(
                f"head {self.name!r} ran {len(calls)} times in one forward pass; expected once; name another "
                "layer with split(network, head='...')"
            )
        features, logits = (_channels_last(part, self.head) for part in calls[0])
        return _by_sample(Pass(features, logits, output), self)

    def own_head(self) -> Head:
        """The head the network came with."""
        bias = self.head.bias
        parameters = [self.head.weight.flatten(1), *([] if bias is None else [bias])]
        arrays = [parameter.detach().cpu().double().numpy() for parameter in parameters]
        if not all(np.isfinite(array).all() for array in arrays):
            raise InputError(f"head {self.name!r} holds NaN or infinity; expected a trained network")
        return Head(arrays[0], None if bias is None else arrays[1])

    def join(self, head: Head) -> nn.Module:
        """M_f = f_θ ∘ M*: a copy of the network with ``head`` in place of its own; same keys, same modes."""
        try:
            joined = copy.deepcopy(self.network)
        except Exception as error:
            raise InputError(
                f"network cannot be copied ({one_line(error)}); it must allow copy.deepcopy; drop what holds locks, "
                "files or tensors with a history"
            ) from error
        linear: Layer = joined.get_submodule(self.name or "")  # type: ignore[assignment]
        with torch.no_grad():
            linear.weight.copy_(torch.as_tensor(head.weight).reshape(linear.weight.shape))
            if linear.bias is not None:
                linear.bias.copy_(torch.as_tensor(head.bias))
        return joined


def split(
    network: nn.Module,
    head: str | None = None,
    *,
    sample: Any = None,
    forward: Forward | None = None,
    batch_size: int | None = None,
) -> Split:
    """Name the head of a network, and how the network is run.

    :func:`improve`, :func:`retrain_head` and :func:`project` take the result in place of the network.

    Parameters
    ----------
    network : nn.Module
        Any model whose last layer is an ``nn.Linear`` or a convolution of one pixel, however nested.
    head : str, optional
        Name of the layer (``"classifier.2"``); default the last one of these that runs.
    sample : object, optional
        A small batch to run the network on; default the first samples of the data it is used with.
    forward : callable, optional
        ``forward(network, batch)`` → output, for models that need keyword arguments. Default: a dict is
        passed as keywords, a tuple as positions, anything else as the one argument.
    batch_size : int, optional
        Samples run at once; default as many as fit in 32 MB. A ``DataLoader`` has its own.

    Returns
    -------
    Split

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(dim=1))
    >>> parts = split(network, sample=torch.zeros(2, 4))
    >>> parts.name, parts.response
    ('2', 'softmax')
    """
    check_network(network)
    if forward is not None and not callable(forward):
        raise InputTypeError(f"forward is a {type(forward).__name__}; expected a callable forward(network, batch)")
    run = forward or default_forward
    name = None if head is None else _named_head(network, head)
    size = None if batch_size is None else check_count(batch_size, name="batch_size")
    parts = Split(network, name, run, batch_size=size)
    return parts if sample is None else run_once(parts, sample)


def run_once(parts: Split, sample: Any) -> Split:
    """The split with its head found, or checked, by running the network on a sample."""
    network = parts.network
    with undisturbed(network), torch.no_grad():
        name = _last_linear(network, sample, parts.forward) if parts.name is None else parts.name
        _check_head(network, name)
        parts = replace(parts, name=name)
        seen = parts.run(sample)
        if seen.features.ndim > 2:
            parts = replace(parts, positions=_find_positions(seen, name))
            seen = parts.run(sample)
        _check_linear(parts, seen)
        return replace(parts, response=response_of(name, seen.logits, seen.output))


def _channels_last(values: Tensor, layer: nn.Module) -> Tensor:
    """Features or outputs of a head with the channels in the last place, as those of an nn.Linear."""
    return values.movedim(1, -1) if isinstance(layer, nn.modules.conv._ConvNd) else values


def _find_positions(seen: Pass, name: str) -> Positions:
    output, n_outputs = output_logits(seen.output), seen.logits.shape[-1]
    per_sample = output.shape == (len(seen.logits), n_outputs)
    if output.numel() == seen.logits.numel():
        return "each"
    if per_sample and same_up_to_rounding(output, seen.logits.flatten(1, -2).mean(dim=1)):
        return "mean"
    if per_sample and not torch.isnan(_picked(seen.logits, output)).any():
        return "picked"
    raise InputError(
        f"head {name!r} runs on every position (features of shape {tuple(seen.features.shape)}), and the output of the "
        f"network, of shape {tuple(output.shape)}, is neither that of each position, nor their mean, nor that of one; "
        "expected one of these; name another layer by split(network, head='...')"
    )


def _picked(logits: Tensor, output: Tensor) -> Tensor:
    """The last position of each sample whose outputs are those of the network, NaN if there is none."""
    flat = logits.flatten(1, -2).double()
    gaps = (flat - output.double()[:, None]).abs().amax(dim=-1)
    near = gaps <= 1e-2 * _ROUNDING.get(logits.dtype, _ROUNDING_HALF) * (_largest(flat) + 1e-12)
    places = torch.arange(1, flat.shape[1] + 1, device=flat.device) * near
    last = places.amax(dim=1)
    return torch.where(last > 0, last - 1.0, torch.nan)


def _by_sample(seen: Pass, parts: Split) -> Pass:
    features, logits, output = seen
    if parts.positions == "one":
        return seen
    shown = output_logits(output)
    if parts.positions == "each":
        shown = _channels_last(shown, parts.head) if shown.shape != logits.shape else shown
        return Pass(*(part.reshape(-1, part.shape[-1]) for part in (features, logits, shown.reshape(logits.shape))))
    flat, outputs = features.flatten(1, -2), logits.flatten(1, -2)
    if parts.positions == "mean":
        return Pass(flat.mean(dim=1), outputs.mean(dim=1), shown)
    rows, places = torch.arange(len(flat), device=flat.device), _picked(logits, shown)
    if torch.isnan(places).any():
        raise FunctionError(
            f"the output of the network is not that of head {parts.name!r} at one position; expected the same for "
            "every batch; return the logits by split(network, forward=...)"
        )
    return Pass(flat[rows, places.long()], outputs[rows, places.long()], shown)


def _check_linear(parts: Split, seen: Pass) -> None:
    """A head that is not W z + b cannot be replaced by another W and b: what was fitted would not be what runs."""
    head = parts.head
    bias = None if head.bias is None else head.bias.double()
    weight = head.weight.double().flatten(1)
    if not same_up_to_rounding(seen.logits, nn.functional.linear(seen.features.double(), weight, bias)):
        raise InputError(
            f"head {parts.name!r} ({type(head).__name__}) does not return W z + b: a hook or a forward of its own "
            "changes what goes in or comes out; expected a plain nn.Linear; remove the hook, put an nn.Linear in its "
            "place, or name another layer with head='...'"
        )


def same_up_to_rounding(found: Tensor, expected: Tensor) -> bool:
    """Whether two results of the same sums agree as far as the precision of ``found`` goes."""
    if found.shape != expected.shape:
        return False
    ours, theirs = found.double(), expected.double()
    allowed = _ROUNDING.get(found.dtype, _ROUNDING_HALF) * _largest(theirs) + 1e-12
    return torch.allclose(ours, theirs, rtol=0.0, atol=allowed, equal_nan=True)


def _largest(values: Tensor) -> float:
    finite = values[torch.isfinite(values)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def response_of(name: str | None, logits: Tensor, output: Any) -> str:
    """Name what follows the head: nothing ("logits"), softmax, log-softmax or sigmoid; reject anything else."""
    output = output_logits(output)
    z, n_outputs = logits.double(), logits.shape[-1]
    # What each gives for logits of 0: outputs are compared by how far they are from there, however small they are.
    responses = {
        "logits": (z, 0.0),
        "softmax": (z.softmax(-1), 1 / n_outputs),
        "log-softmax": (z.log_softmax(-1), -math.log(n_outputs)),
        "sigmoid": (z.sigmoid(), 0.5),
    }
    coarsest = max((logits.dtype, output.dtype), key=_precision)
    for response, (values, at_zero) in responses.items():
        if values.numel() == output.numel() and _agrees(output.double(), values, at_zero, coarsest):
            return response
    raise InputError(
        f"the output of network is neither that of head {name!r} nor its softmax, log-softmax or sigmoid; expected a "
        "head that nothing else follows; name another by split(network, head='...'), or return "
        "its logits by split(network, forward=...)"
    )


def _precision(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps if dtype.is_floating_point else 0.0


def _agrees(found: Tensor, values: Tensor, at_zero: float, dtype: torch.dtype) -> bool:
    """Whether outputs are these values up to a share of their distance from ``at_zero``, and rounding."""
    ours, theirs = found.reshape(-1), values.reshape(-1)
    rounding = 4 * _precision(dtype) * _largest(theirs)
    allowed = rounding + _ROUNDING.get(dtype, _ROUNDING_HALF) * (theirs - at_zero).abs()
    is_near = (ours == theirs) | ((ours - theirs).abs() <= allowed) | (ours.isnan() & theirs.isnan())
    return bool(is_near.all())


def run_network(network: nn.Module, batch: Any, forward: Forward) -> Any:
    """Run the network; what it raises is reported with the batch it was given."""
    try:
        return forward(network, batch)
    except SteepError:
        raise
    except Exception as error:
        is_tensor = isinstance(batch, Tensor)
        kind = f"shape {tuple(batch.shape)}, {batch.dtype}" if is_tensor else f"a {type(batch).__name__}"
        raise FunctionError(
            f"network failed on a batch of {kind} ({one_line(error)}); expected inputs the network takes; "
            "check their shape and dtype, or use split(network, forward=...)"
        ) from error


def default_forward(network: nn.Module, batch: Any) -> Any:
    """A dict is passed as keywords, a tuple or list as positions, anything else as the one argument."""
    if isinstance(batch, dict):
        return network(**batch)
    return network(*batch) if isinstance(batch, tuple | list) else network(batch)


def output_logits(output: Any) -> Tensor:
    """The tensor of a network's output: itself, its ``.logits``, or the first of a tuple or dict."""
    if isinstance(output, Tensor):
        return output
    if hasattr(output, "logits"):
        return output_logits(output.logits)
    if isinstance(output, dict) and output:
        return output_logits(output["logits"] if "logits" in output else next(iter(output.values())))
    if isinstance(output, tuple | list) and len(output):
        return output_logits(output[0])
    raise InputTypeError(
        f"network returned a {type(output).__name__}; expected a tensor, an object with .logits, a tuple or a dict"
    )


@contextmanager
def undisturbed(network: nn.Module) -> Iterator[None]:
    """Run in eval mode; give back modes, buffers and random states exactly as they were, also after an error."""
    modes = [(module, module.training) for module in network.modules()]
    buffers = [(m, name, b, b.clone()) for m, _ in modes for name, b in m._buffers.items() if b is not None]
    with kept_random_state(network):
        try:
            network.eval()
            yield
        finally:
            for module, training in modes:
                module.training = training
            for module, name, buffer, kept in buffers:
                module._buffers[name] = buffer
                if not torch.equal(buffer, kept):
                    with torch.no_grad():
                        buffer.copy_(kept)


@contextmanager
def watched(layers: Mapping[str, nn.Module], look: Callable[[str, Any, Any], None]) -> Iterator[None]:
    """Call ``look(name, input, output)`` whenever one of the layers has run."""

    def hook(name: str) -> Callable[..., None]:
        return lambda _, given, named, output: look(name, given[0] if given else named.get("input"), output)

    handles = [layer.register_forward_hook(hook(name), with_kwargs=True) for name, layer in layers.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _last_linear(network: nn.Module, sample: Any, forward: Forward) -> str:
    ran: list[str] = []
    kinds = nn.Linear | nn.modules.conv._ConvNd
    layers = {name: module for name, module in network.named_modules() if isinstance(module, kinds)}
    with watched(layers, lambda name, *_: ran.append(name)):
        run_network(network, sample, forward)
    if not ran:
        raise InputError(
            "no nn.Linear runs in a forward pass of network; name the last layer by split(network, head='...')"
        )
    last = layers[ran[-1]]
    if not is_head(last):
        raise InputError(
            f"the head {ran[-1]!r} is a {type(last).__name__} of kernel {last.kernel_size}; expected a kernel "
            "of one pixel, without stride, padding and groups; if another layer is the head, name it by head='...'"
        )
    return ran[-1]


def is_head(module: nn.Module | None) -> bool:
    """Whether a module is W z + b of the last features, or of those of each pixel."""
    if isinstance(module, nn.modules.conv._ConvNd):
        is_pixel = {*module.kernel_size, *module.stride, module.groups} == {1} and {*module.padding} == {0}
        return is_pixel and not module.transposed
    return isinstance(module, nn.Linear)


def _named_head(network: nn.Module, head: str) -> str:
    if not isinstance(head, str):
        raise InputTypeError(f"head is a {type(head).__name__}; expected the name of a layer, such as 'classifier.2'")
    modules = dict(network.named_modules())
    if head not in modules or not is_head(modules[head]):
        linear = ", ".join(name for name, module in modules.items() if is_head(module))
        got = f"is a {type(modules[head]).__name__}" if head in modules else "is not in network"
        raise InputError(
            f"head={head!r} {got}; expected the name of an nn.Linear or a convolution of one pixel: {linear}"
        )
    return head


def _check_head(network: nn.Module, name: str) -> None:
    head: Layer = network.get_submodule(name)  # type: ignore[assignment]
    # Before its weight is looked at: looking at a parametrized one computes it, and may change buffers.
    if parametrize.is_parametrized(head) or not isinstance(head._parameters.get("weight"), nn.Parameter):
        raise InputError(
            f"the weights of head {name!r} are computed from others (weight_norm, spectral_norm, a parametrization); "
            "expected a plain nn.Linear; call torch.nn.utils.parametrize.remove_parametrizations("
            f"network.get_submodule({name!r}), 'weight'), remove_weight_norm or remove_spectral_norm first"
        )
    if not head.weight.is_floating_point() or head.weight.is_quantized or head.weight.is_meta:
        raise InputTypeError(
            f"head {name!r} has weights of {head.weight.dtype} on {head.weight.device}; expected floating-point ones "
            "with values; load them, or improve the network before it is quantised"
        )
    if not all(parameter.requires_grad for parameter in head.parameters()):
        raise InputError(
            f"head {name!r} is frozen (requires_grad=False); expected a head that may change; call "
            f"network.get_submodule({name!r}).requires_grad_(True)"
        )

    users = [key for key, own in network.named_parameters(remove_duplicate=False) if own is head.weight]
    if len(users) > 1:
        raise InputError(f"the weights of head {name!r} are shared ({', '.join(users)}); untie them first")


def check_network(network: Any) -> nn.Module:
    """Return a network whose layers can be watched and replaced."""
    is_frozen = isinstance(network, torch.jit.ScriptModule) or "train" in getattr(network, "__dict__", {})  # exported
    if isinstance(network, nn.Module) and not is_frozen:
        return network
    raise InputTypeError(
        f"network is a {type(network).__name__}; expected a torch.nn.Module; pass the module it was made from"
    )
