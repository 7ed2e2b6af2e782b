"""Arguments that torch would refuse late and in its own words, checked at the door."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from steep._validation import Seed, check_count, check_generator
from steep.exceptions import InputError, InputTypeError

Value = TypeVar("Value")

# Seeds are added to (members), and the sum must still be one that torch takes.
_LARGEST_SEED = 2**62
_PRECISIONS = (torch.float32, torch.float64)


def check_seed(random_state: Seed) -> int:
    """Return the seed itself, or one drawn from a numpy generator; None draws a fresh one."""
    if isinstance(random_state, bool):
        raise InputTypeError("random_state is a bool; expected None, a whole number ≥ 0 or a numpy Generator")
    if isinstance(random_state, int | np.integer):
        if not 0 <= random_state <= _LARGEST_SEED:
            raise InputError(
                f"random_state={_short(random_state)} is out of range; expected a whole number from 0 to 2**62"
            )
        return int(random_state)
    return int(check_generator(random_state).integers(2**31))


def check_network(network: Any) -> nn.Module:
    """Return a network whose layers can be watched and replaced."""
    kind, exported = type(network).__name__, "train" in getattr(network, "__dict__", {})
    frozen = "a TorchScript module" if isinstance(network, torch.jit.ScriptModule) else None
    if kind == "ExportedProgram" or (isinstance(network, torch.fx.GraphModule) and exported):
        frozen = "an exported program"
    if frozen is not None:
        raise InputTypeError(
            f"network is {frozen}; its layers cannot be replaced, so it is not supported; pass the nn.Module it was "
            "made from"
        )
    if isinstance(network, Mapping):
        raise InputTypeError(
            "network is a state_dict; expected a torch.nn.Module; build the module and call its load_state_dict"
        )
    if not isinstance(network, nn.Module):
        raise InputTypeError(
            f"network is a {kind}; expected a torch.nn.Module"
            + ("; load it first" if isinstance(network, str | bytes | PathLike) else "")
        )
    return network


def check_precision(dtype: Any) -> torch.dtype:
    """Return a dtype that both torch and numpy compute in."""
    if not isinstance(dtype, torch.dtype):
        raise InputTypeError(f"dtype is a {type(dtype).__name__}; expected torch.float32 or torch.float64")
    if dtype not in _PRECISIONS:
        raise InputError(f"dtype={dtype} is not supported; expected torch.float32 or torch.float64")
    return dtype


def check_callable(value: Any, *, name: str, signature: str) -> Any:
    """Return ``value`` when it is None or can be called."""
    if value is not None and not callable(value):
        raise InputTypeError(f"{name} is a {type(value).__name__}; expected a callable {signature}")
    return value


def check_each(values: Any, check: Callable[[Any], Value], *, name: str) -> tuple[Value, ...]:
    """Return a tuple of checked values; a number alone is not a sequence."""
    is_alone = isinstance(values, str | bytes) or (hasattr(values, "ndim") and values.ndim == 0)
    if is_alone or not isinstance(values, Iterable):
        raise InputTypeError(f"{name} is a {type(values).__name__}; expected a sequence of values; pass ({name},)")
    return tuple(check(value) for value in values)


def check_batch_size(batch_size: Any) -> int | None:
    """Return the samples of a batch; None lets the caller choose."""
    return None if batch_size is None else check_count(batch_size, name="batch_size")


def _short(number: Any) -> str:
    """A number as people can read it: ten to the four hundredth has 401 digits."""
    return repr(number) if abs(number) < 10**30 else "a number beyond 10**30"
