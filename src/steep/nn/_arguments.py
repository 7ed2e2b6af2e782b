"""Checks of arguments that torch would reject late and in its own words, and random states that are given back."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
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
            value = repr(random_state) if abs(random_state) < 10**30 else "a number beyond 10**30"
            raise InputError(f"random_state={value} is out of range; expected a whole number from 0 to 2**62")
        return int(random_state)
    return int(check_generator(random_state).integers(2**31))


def check_network(network: Any) -> nn.Module:
    """Return a network whose layers can be watched and replaced."""
    kind, frozen = type(network).__name__, None
    if isinstance(network, torch.jit.ScriptModule):
        frozen = "a TorchScript module"
    elif kind == "ExportedProgram" or (isinstance(network, torch.fx.GraphModule) and "train" in vars(network)):
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
        hint = "; load it first" if isinstance(network, str | bytes | PathLike) else ""
        raise InputTypeError(f"network is a {kind}; expected a torch.nn.Module{hint}")
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


# ------------------------------------------------------------------------------- random states


@contextmanager
def kept_random_state(network: nn.Module | None = None, *, seed: int | None = None) -> Iterator[None]:
    """Run with torch's, NumPy's and Python's generators seeded, or left as they are, and give all of them back.

    Data sets may draw from any of the three, and a ``DataLoader`` draws a seed for its workers from torch even when it
    does not shuffle.
    """
    devices = {p.device for p in network.parameters() if p.device.type == "cuda"} if network is not None else set()
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the global state is what is kept
    with torch.random.fork_rng(devices=list(devices)):
        try:
            if seed is not None:
                torch.manual_seed(seed)
                np.random.seed(seed % 2**32)  # noqa: NPY002 - for data sets that draw from it
                random.seed(seed)
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002
