"""steep.nn: the only door to torch. Derivatives, heads and ensembles of PyTorch networks."""

try:
    import safetensors as _safetensors  # noqa: F401
    import torch as _torch  # noqa: F401
except ImportError as error:
    from steep.exceptions import MissingExtraError

    raise MissingExtraError(f"steep.nn needs torch and safetensors ({error}); run pip install steep[torch]") from error

from steep.nn.autograd import torch_derivatives
from steep.nn.ensemble import Ensemble, train_ensemble
from steep.nn.improvement import Improvement
from steep.nn.loss import WeightedLoss, weighted_sampler
from steep.nn.network import Split, split
from steep.nn.projection import Projection, project
from steep.nn.retraining import improve, retrain_head

__all__ = [
    "Ensemble",
    "Improvement",
    "Projection",
    "Split",
    "WeightedLoss",
    "improve",
    "project",
    "retrain_head",
    "split",
    "torch_derivatives",
    "train_ensemble",
    "weighted_sampler",
]
