"""steep.nn: the only door to torch. Heads and derivatives of PyTorch networks."""

try:
    import safetensors as _safetensors  # noqa: F401
    import torch as _torch  # noqa: F401
except ImportError as error:
    from steep.exceptions import MissingExtraError

    raise MissingExtraError(f"steep.nn needs torch and safetensors ({error}); run pip install steep[torch]") from error

from steep.nn.autograd import torch_derivatives
from steep.nn.candidates import HeadSearch
from steep.nn.improvement import Improvement
from steep.nn.network import Split, split
from steep.nn.projection import Projection, project
from steep.nn.retraining import improve, retrain_head
from steep.nn.weightings import Balanced, Doubted, PseudoGroups

__all__ = [
    "Balanced",
    "Doubted",
    "HeadSearch",
    "Improvement",
    "Projection",
    "PseudoGroups",
    "Split",
    "improve",
    "project",
    "retrain_head",
    "split",
    "torch_derivatives",
]
